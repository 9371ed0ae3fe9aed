"""Chapter 8: the same weights in torchvision, in timm, and in a file."""

import hashlib
import http.client
import json
import os
import re
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialize
from torch import Tensor, nn

from vitnb._files import replacing
from vitnb._validate import switched_on
from vitnb.vit import ViT, ViTConfig

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer as TimmViT
    from torchvision.models import VisionTransformer as TorchvisionViT

# (vitnb, other): every name on the left becomes the name on the right, and back.
# All shapes agree; q, k and v are stacked in this order everywhere.
TORCHVISION = [
    ("patch_embed.proj.", "conv_proj."),
    ("pool.token", "class_token"),
    ("positions.table", "encoder.pos_embedding"),
    ("blocks.{}.norm1.", "encoder.layers.encoder_layer_{}.ln_1."),
    ("blocks.{}.attention.qkv.weight", "encoder.layers.encoder_layer_{}.self_attention.in_proj_weight"),
    ("blocks.{}.attention.qkv.bias", "encoder.layers.encoder_layer_{}.self_attention.in_proj_bias"),
    ("blocks.{}.attention.proj.", "encoder.layers.encoder_layer_{}.self_attention.out_proj."),
    ("blocks.{}.norm2.", "encoder.layers.encoder_layer_{}.ln_2."),
    ("blocks.{}.mlp.fc1.", "encoder.layers.encoder_layer_{}.mlp.0."),
    ("blocks.{}.mlp.fc2.", "encoder.layers.encoder_layer_{}.mlp.3."),
    ("norm.", "encoder.ln."),
    ("head.", "heads.head."),
]
TIMM = [
    ("patch_embed.proj.", "patch_embed.proj."),
    ("pool.token", "cls_token"),
    ("positions.table", "pos_embed"),
    ("blocks.{}.attention.", "blocks.{}.attn."),
    ("blocks.{}.", "blocks.{}."),
    ("norm.", "norm."),
    ("head.", "head."),
]


def from_torchvision(model: "TorchvisionViT") -> ViT:
    """Copy a torchvision VisionTransformer into a ViT with the same logits.

    Raises: TypeError if model is none; ValueError if it has a convolutional
        stem or a representation layer, which the paper's final model lacks.
    """
    if not hasattr(model, "conv_proj") or not hasattr(model, "encoder"):
        raise TypeError(f"model must be a torchvision VisionTransformer, got {type(model).__name__}: use vit_b_16()")
    if not isinstance(model.conv_proj, nn.Conv2d):
        raise ValueError("model has a convolutional stem, got conv_stem_configs: use a model built without them")
    if model.representation_size is not None:
        raise ValueError(
            f"model has a representation layer, got representation_size={model.representation_size}: use None"
        )
    block = model.encoder.layers[0]
    config = ViTConfig(
        img_size=model.image_size,
        patch_size=model.patch_size,
        in_chans=model.conv_proj.in_channels,
        num_classes=model.num_classes,
        embed_dim=model.hidden_dim,
        depth=len(model.encoder.layers),
        num_heads=block.num_heads,
        mlp_ratio=model.mlp_dim / model.hidden_dim,
        dropout=model.dropout,
        attn_dropout=model.attention_dropout,
        norm_eps=model.encoder.ln.eps,
    )
    return _filled(ViT(config), _rename(model.state_dict(), [(b, a) for a, b in TORCHVISION]), model.training)


def to_torchvision(model: ViT) -> "TorchvisionViT":
    """Copy a ViT into torchvision's VisionTransformer, with the same logits.

    Raises: ValueError if torchvision has no such model (it wants square
        images of 3 channels, pre-norm, a cls token, positions, qkv biases).
    """
    from torchvision.models import VisionTransformer

    c, pe = _vit(model).config, model.patch_embed
    wanted = dict(stem="patch", norm="pre", global_pool="cls", in_chans=3, qkv_bias=True)
    _require(c, "torchvision", wanted)
    for name, (height, width) in (("img_size", pe.img_size), ("patch_size", pe.patch_size)):
        if height != width:
            raise ValueError(f"{name} must be square for torchvision, got {(height, width)}: use {height}")
    other = VisionTransformer(
        image_size=pe.img_size[0],
        patch_size=pe.patch_size[0],
        num_layers=c.depth,
        num_heads=c.num_heads,
        hidden_dim=c.embed_dim,
        mlp_dim=model.blocks[0].mlp.fc1.out_features,
        dropout=c.dropout,
        attention_dropout=c.attn_dropout,
        num_classes=c.num_classes,
        norm_layer=lambda width: nn.LayerNorm(width, eps=c.norm_eps),
    )
    return _filled(other, _rename(_state(model), TORCHVISION), model.training)


def from_timm(model: "TimmViT") -> ViT:
    """Copy a plain timm VisionTransformer into a ViT with the same logits.

    Raises: TypeError if model is none; ValueError if it has parts that the
        plain model lacks (LayerScale, registers, a norm after pooling, ...).
    """
    if not hasattr(model, "patch_embed") or not hasattr(model, "fc_norm"):
        raise TypeError(f"model must be a timm VisionTransformer, got {type(model).__name__}: use vit_base_patch16_224")
    pool = {"token": "cls", "avg": "mean"}.get(model.global_pool)
    if pool is None or (pool == "mean" and (model.cls_token is not None or list(model.fc_norm.parameters()))):
        raise ValueError(
            f"model pools in a way that vitnb does not, got global_pool={model.global_pool!r}: use 'token', "
            "or 'avg' with class_token=False and fc_norm=False"
        )
    block, embed = model.blocks[0], model.patch_embed
    config = ViTConfig(
        img_size=tuple(embed.img_size),
        patch_size=tuple(embed.patch_size),
        in_chans=embed.proj.in_channels,
        num_classes=model.num_classes,
        embed_dim=model.embed_dim,
        depth=len(model.blocks),
        num_heads=block.attn.num_heads,
        mlp_ratio=block.mlp.fc1.out_features / model.embed_dim,
        pos_embed="none" if model.pos_embed is None else "learned",
        global_pool=pool,
        dropout=model.pos_drop.p,
        attn_dropout=block.attn.attn_drop.p,
        qkv_bias=block.attn.qkv.bias is not None,
        norm_eps=block.norm1.eps,
    )
    return _filled(ViT(config), _rename(model.state_dict(), [(b, a) for a, b in TIMM]), model.training)


def to_timm(model: ViT) -> "TimmViT":
    """Copy a ViT into timm's VisionTransformer, with the same logits.

    Raises: ValueError if timm has no such model (it wants pre-norm and no
        attention pooling of our kind).
    """
    from timm.models.vision_transformer import VisionTransformer

    c, pe = _vit(model).config, model.patch_embed
    _require(c, "timm", dict(stem="patch", norm="pre"))
    if c.global_pool == "attn":
        raise ValueError("global_pool must be 'cls' or 'mean' for timm, got 'attn': timm's attention pool has an MLP")
    other = VisionTransformer(
        img_size=pe.img_size,
        patch_size=pe.patch_size,
        in_chans=c.in_chans,
        num_classes=c.num_classes,
        embed_dim=c.embed_dim,
        depth=c.depth,
        num_heads=c.num_heads,
        mlp_ratio=c.mlp_ratio,
        qkv_bias=c.qkv_bias,
        pos_embed="none" if c.pos_embed == "none" else "learn",
        class_token=c.global_pool == "cls",
        global_pool="token" if c.global_pool == "cls" else "avg",
        fc_norm=False,
        pos_drop_rate=c.dropout,
        proj_drop_rate=c.dropout,
        attn_drop_rate=c.attn_dropout,
        norm_layer=lambda width, **_: nn.LayerNorm(width, eps=c.norm_eps),
    )
    return _filled(other, _rename(_state(model), TIMM), model.training)


NOT_HERE = """\
Not run: the weights are not here and cannot be fetched.
Where there is a network, run this cell again, or once
    from torchvision.models import vit_b_16
    vit_b_16(weights="IMAGENET1K_V1")
which puts the file where this cell looks for it."""


def imagenet_vit_b_16(seconds: float = 45.0) -> dict[str, Tensor] | None:
    """Read torchvision's weights of ViT-B/16, trained on ImageNet; where there are none, say how to get them.

    Looks in the cache of torch.hub, then downloads 346 MB, if that takes no longer than so many seconds
    and neither VITNB_OFFLINE=1 nor VITNB_FAST=1 forbids it.
    """
    from torchvision.models import ViT_B_16_Weights

    url = ViT_B_16_Weights.IMAGENET1K_V1.url
    path = Path(torch.hub.get_dir(), "checkpoints", url.split("/")[-1])
    may = not switched_on("VITNB_OFFLINE") and not switched_on("VITNB_FAST")
    if path.exists() or (may and _fetched(url, path, seconds)):
        state = torch.load(path, weights_only=True)
        # The file is older than torchvision's present names of the two layers of an MLP.
        return {k.replace("mlp.linear_1.", "mlp.0.").replace("mlp.linear_2.", "mlp.3."): t for k, t in state.items()}
    print(NOT_HERE)
    return None


def _fetched(url: str, path: Path, seconds: float) -> bool:
    """Download a file whose name ends in the beginning of its SHA-256; say whether all of it came in time."""
    end = time.monotonic() + seconds
    try:
        with replacing(path) as part, urllib.request.urlopen(url, timeout=3) as source, part.open("wb") as file:
            while chunk := source.read1(1 << 20):
                if time.monotonic() > end:
                    raise TimeoutError
                file.write(chunk)
            file.flush()
            if not hashlib.sha256(part.read_bytes()).hexdigest().startswith(path.stem.split("-")[-1]):
                raise OSError("damaged")
    except (OSError, http.client.HTTPException):
        return False
    return True


def save(model: ViT, path: str | os.PathLike) -> None:
    """Write weights and config to one safetensors file, whole or not at all.

    Raises: TypeError if model is no ViT; OSError if the disk refuses, and
        then the file that was there before is untouched.
    """
    tensors = {name: t.detach().cpu().contiguous() for name, t in _vit(model).state_dict().items()}
    with replacing(path) as part:  # safetensors' own save_file makes files that nobody else can read
        part.write_bytes(serialize(tensors, {"vitnb.config": json.dumps(model.config.to_dict())}))


def load(path: str | os.PathLike) -> ViT:
    """Read a model that save wrote, on the CPU and in eval mode.

    Raises: FileNotFoundError; ValueError if the file is damaged, is not
        ours, or holds other weights than its config announces.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"no weights at {path}: use the path that vitnb.weights.save wrote")
    try:
        with safe_open(path, framework="pt") as file:
            config = (file.metadata() or {}).get("vitnb.config")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        raise ValueError(f"path {path} is no whole safetensors file ({error}): save it again") from error
    if config is None:
        raise ValueError(f"path {path} holds weights without a vitnb config: use a file that vitnb.weights.save wrote")
    return _filled(ViT(ViTConfig(**json.loads(config))), tensors, training=False)


def _rename(state: dict[str, Tensor], names: list[tuple[str, str]]) -> dict[str, Tensor]:
    """Give every tensor its new name; the first pattern that fits counts."""
    rules = [(re.compile("^" + re.escape(old).replace(r"\{\}", r"(\d+)")), new) for old, new in names]
    renamed = {}
    for key, value in state.items():
        for pattern, new in rules:
            if match := pattern.match(key):
                renamed[new.format(*match.groups()) + key[match.end() :]] = value
                break
        else:
            raise ValueError(f"model holds {key}, which the plain ViT does not have: use a model without it")
    return renamed


def _filled(model: nn.Module, state: dict[str, Tensor], training: bool) -> nn.Module:
    wanted = {name: tuple(t.shape) for name, t in model.state_dict().items()}
    given = {name: tuple(t.shape) for name, t in state.items()}
    if wanted != given:
        odd = sorted(n for n in wanted.keys() | given.keys() if wanted.get(n) != given.get(n))
        raise ValueError(f"weights do not fit: {odd[0]} is {given.get(odd[0])}, use {wanted.get(odd[0])}")
    model.load_state_dict(state)
    dtypes = {t.dtype for t in state.values() if t.is_floating_point()}
    return (model.to(dtypes.pop()) if len(dtypes) == 1 else model).train(training)


def _state(model: ViT) -> dict[str, Tensor]:
    """Return the weights; fixed positions are written out as a table."""
    state = dict(model.state_dict())
    if model.config.pos_embed == "sincos":
        state["positions.table"] = model.positions.table
    return state


def _vit(model: ViT) -> ViT:
    if not isinstance(model, ViT):
        raise TypeError(f"model must be a vitnb.ViT, got {type(model).__name__}: use ViT(ViTConfig())")
    return model


def _require(config: ViTConfig, library: str, wanted: dict) -> None:
    for name, value in wanted.items():
        if getattr(config, name) != value:
            raise ValueError(f"{name} must be {value!r} for {library}, got {getattr(config, name)!r}")

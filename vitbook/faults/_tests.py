"""Six tests of a ViT's properties: together they see what shapes and curves do not."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitnb.patches import ConvStem
from vitnb.vit import ViT, count_parameters


def _perturbed(model: ViT) -> ViT:
    """A copy whose every parameter is random: gains of 1, biases of 0 and silent layers hide mistakes."""
    model, generator = copy.deepcopy(model).eval(), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator))
    return model


def _images(model: ViT, B: int = 3) -> Tensor:
    c, generator = model.config, torch.Generator().manual_seed(1)
    return torch.randn(B, c.in_chans, *model.patch_embed.img_size, generator=generator)  # (B, C, H, W)


def _close(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=1e-4, atol=1e-4)


def reference(model: ViT) -> bool:
    """Every block and every norm does what torch's own layer does with the same weights, however faint its tokens."""
    c, model = model.config, _perturbed(model)
    x = torch.randn(3, 7, c.embed_dim, generator=torch.Generator().manual_seed(2))  # (B, T, D)
    faint = c.norm_eps**0.5 * x  # of a variance like eps, which otherwise hardly counts
    norms = [norm for block in model.blocks for norm in (block.norm1, block.norm2)]
    norms += [model.norm] if c.norm == "pre" else []
    return all(_close(block(x), _torchs(block, c.norm == "pre", c.norm_eps)(x)) for block in model.blocks) and all(
        _close(norm(faint), _torchs_norm(norm, faint, c.norm_eps)) for norm in norms
    )


def _torchs_norm(norm: nn.Module, x: Tensor, eps: float) -> Tensor:
    weight, bias = (getattr(norm, name, None) for name in ("weight", "bias"))
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def _torchs(block: nn.Module, pre: bool, eps: float) -> nn.Module:
    attention, mlp = block.attention, block.mlp
    layer = nn.TransformerEncoderLayer(
        attention.embed_dim,
        attention.num_heads,
        mlp.fc1.out_features,
        dropout=0.0,
        activation="gelu",
        layer_norm_eps=eps,
        batch_first=True,
        norm_first=pre,
    ).eval()
    with torch.no_grad():
        layer.self_attn.in_proj_weight.copy_(attention.qkv.weight)
        layer.self_attn.in_proj_bias.copy_(0 if attention.qkv.bias is None else attention.qkv.bias)
    for theirs, ours in (
        (layer.self_attn.out_proj, attention.proj),
        (layer.linear1, mlp.fc1),
        (layer.linear2, mlp.fc2),
        (layer.norm1, block.norm1),
        (layer.norm2, block.norm2),
    ):
        theirs.load_state_dict(ours.state_dict())
    return layer


def count(model: ViT) -> bool:
    """It has as many parameters as a ViT of its config, and a loss gives every one of them a gradient."""
    with torch.device("meta"):
        expected = count_parameters(ViT(model.config))
    return count_parameters(model) == expected and all(
        g is not None and g.abs().sum() > 0 for g in _gradients(_perturbed(model))
    )


@torch.enable_grad()
def _gradients(model: ViT) -> tuple[Tensor | None, ...]:
    """Those of all parameters; None for one that does not take part."""
    logits = model(_images(model))  # (B, K)
    loss = F.cross_entropy(logits, torch.arange(len(logits)) % logits.shape[1])
    return torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)


def cut(model: ViT) -> bool:
    """Its tokens are those of a convolution whose kernel and stride are the patch side, row by row."""
    if isinstance(model.patch_embed, ConvStem):
        raise ValueError("stem is 'conv', which cuts no patches: use stem='patch'")
    model, images = _perturbed(model), _images(model)
    proj = model.patch_embed.proj
    expected = F.conv2d(images, proj.weight, proj.bias, model.patch_embed.patch_size).flatten(2).mT  # (B, N, D)
    return _close(model.patch_embed(images), expected)


def cls(model: ViT) -> bool:
    """Before any block has run, what is read at the end is the same for all images, and at each call."""
    if not model.pool.num_prefix_tokens:
        return True
    model, images = _perturbed(model), _images(model)
    first, again = (model.pool(model.pool.prepend(model.patch_embed(images))) for _ in range(2))  # (B, D)
    return _close(first, first[:1].expand_as(first)) and _close(first, again)


def order(model: ViT) -> bool:
    """Patches in another order give other logits, unless the config has no positions."""
    if model.config.pos_embed == "none":
        return True
    model, images = _perturbed(model), _images(model)
    ph, pw = model.patch_embed.patch_size
    return not _close(model(images), model(images.roll((ph, pw), dims=(2, 3))))


def scores(model: ViT) -> bool:
    """Each row holds scores of one image, the same in any batch: neither they nor their exponentials sum to 1."""
    model, images = _perturbed(model), _images(model)
    logits = model(images)  # (B, K)
    alone = torch.cat([model(image) for image in images.split(1)])  # (B, K)
    ones = torch.ones(len(logits))
    return _close(logits, alone) and not _close(logits.sum(1), ones) and not _close(logits.exp().sum(1), ones)


TESTS: dict[str, Callable[[ViT], bool]] = {
    test.__name__: torch.no_grad()(test) for test in (reference, count, cut, cls, order, scores)
}

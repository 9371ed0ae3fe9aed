"""A model with one fault in it."""

from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional as F

from vitbook.faults._fault import FAULTS
from vitbook.faults._rewrite import Rewriting, Way
from vitbook.faults.attend import layer
from vitbook.faults.cut import embedding
from vitnb._validate import choice
from vitnb.attention import MultiHeadAttention
from vitnb.blocks import MLP, PreNormBlock
from vitnb.evaluation import dtype_of
from vitnb.patches import PatchEmbedding, patchify
from vitnb.pooling import ClsToken
from vitnb.positions import LearnedPositions
from vitnb.vit import ViT, ViTConfig


def build(name: str, config: ViTConfig) -> ViT:
    """Make a ViT with one fault; all else, the initial weights too, is that of ViT(config).

    Raises: ValueError for an unknown fault, one that no model can have, or a
        config without the part that it belongs to.
    """
    fault = FAULTS[choice("fault", name, FAULTS)]
    if fault.replaces is ViT:
        return fault.wrong(config)
    if fault.replaces not in PLACES:
        raise ValueError(f"fault {name!r} is no part of a model: call faults.FAULTS[{name!r}].wrong itself")
    model = ViT(config)
    if not PLACES[fault.replaces](model, fault.wrong):
        right = fault.replaces.__name__
        raise ValueError(f"fault {name!r} is a wrong {right}, and this config has none: use ViTConfig(), for example")
    return model


def to_wrong(name: str, right: ViT) -> ViT:
    """Make the model with this fault that computes what a right one computes: its weights are rewritten.

    Raises: ValueError for a fault that changes the function, or for a model that is not of the book's usual form.
    """
    return _rewritten(name, right, build(name, right.config), same(name).to_wrong)


def to_right(name: str, wrong: ViT) -> ViT:
    """Make the right model that computes what one with this fault computes: its weights are rewritten.

    Raises: ValueError for a fault that changes the function, or for a model that is not of the book's usual form.
    """
    return _rewritten(name, wrong, ViT(wrong.config), same(name).to_right)


def same(name: str) -> Rewriting:
    """How the weights are rewritten for a fault that changes no function."""
    return FAULTS[choice("fault", name, [n for n, fault in FAULTS.items() if fault.same])].same


def _rewritten(name: str, old: ViT, new: ViT, way: Way) -> ViT:
    c, usual = old.config, ViTConfig()
    for field in ("norm", "pos_embed", "global_pool", "stem", "qkv_bias"):
        if (got := getattr(c, field)) != (expected := getattr(usual, field)):
            raise ValueError(
                f"fault {name!r} is the same function where {field}={expected!r}, got {got!r}: use {expected!r}"
            )
    weights = dict(old.state_dict())
    way(weights, c)
    new.to(dtype_of(old)).load_state_dict(weights)
    return new.train(old.training)


def _as(kind: type) -> Callable[[ViT, type], bool]:
    """Every module of this kind becomes the wrong one and keeps its weights."""

    def install(model: ViT, wrong: type) -> bool:
        found = [module for module in model.modules() if type(module) is kind]
        for module in found:
            module.__class__ = wrong
        return bool(found)

    return install


def _cuts(model: ViT, cut: Callable[[Tensor, int], Tensor]) -> bool:
    return _as(PatchEmbedding)(model, embedding(cut))


def _attends(model: ViT, mix: Callable[[Tensor, Tensor, Tensor], Tensor]) -> bool:
    return _as(MultiHeadAttention)(model, layer(mix))


def _normalises(model: ViT, norm: Callable[[Tensor, Tensor, Tensor, float], Tensor]) -> bool:
    class Normalising(nn.LayerNorm):
        def forward(self, x: Tensor) -> Tensor:
            return norm(x, self.weight, self.bias, self.eps)

    return _as(nn.LayerNorm)(model, Normalising)


def _pools(model: ViT, wrong: type) -> bool:
    if type(model.pool) is not ClsToken:
        return False
    model.pool = wrong(model.config.embed_dim)
    if not model.pool.num_prefix_tokens and model.config.pos_embed != "none":
        model.positions.table.data = model.positions.table[:, 1:].detach()
    return True


def _places(model: ViT, wrong: type) -> bool:
    if type(model.positions) is not LearnedPositions:
        return False
    model.positions = wrong(*model.positions.table.shape[1:], model.config.pos_std)
    return True


# How each part of a model is replaced by a wrong version of it; False where the model has no such part.
PLACES: dict[Callable, Callable[[ViT, Callable], bool]] = {
    patchify: _cuts,
    F.scaled_dot_product_attention: _attends,
    F.layer_norm: _normalises,
    ClsToken: _pools,
    LearnedPositions: _places,
} | {kind: _as(kind) for kind in (PatchEmbedding, MultiHeadAttention, MLP, PreNormBlock)}

"""Faults that change no function: the weights with which a wrong model computes what a right one does, and back.

A factor before the scores, the order of the patches, the gain of a norm: other
weights make up for each of them, so that a model with such a fault can learn
exactly the functions that the right one can.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from vitnb.patches import grid_size
from vitnb.vit import ViTConfig

Weights = dict[str, Tensor]
Way = Callable[[Weights, ViTConfig], None]  # changes the weights that it is given


@dataclass(frozen=True)
class Rewriting:
    """From a right model's weights to the wrong one's, and from a wrong model's weights to the right one's."""

    to_wrong: Way
    to_right: Way


def patches(order: Callable[[Tensor], Tensor]) -> Rewriting:
    """The patches are counted in another order, made from their numbers (rows, cols): the positions follow."""

    def rows(config: ViTConfig) -> Tensor:
        numbers = torch.arange(config.num_patches).view(grid_size(config.img_size, config.patch_size))
        return torch.cat([torch.tensor([0]), 1 + order(numbers).flatten()])  # (1 + N,): that of cls stays

    def there(weights: Weights, config: ViTConfig) -> None:
        weights["positions.table"] = weights["positions.table"][:, rows(config)]

    def back(weights: Weights, config: ViTConfig) -> None:
        weights["positions.table"] = weights["positions.table"][:, rows(config).argsort()]

    return Rewriting(there, back)


def filters(there: Callable[[Tensor], Tensor], back: Callable[[Tensor], Tensor]) -> Rewriting:
    """The pixels of a patch come in another order: the filters (D, C, p, p) follow."""

    def changed(change: Callable[[Tensor], Tensor]) -> Way:
        def way(weights: Weights, config: ViTConfig) -> None:
            old = weights["patch_embed.proj.weight"]
            weights["patch_embed.proj.weight"] = change(old).reshape(old.shape)

        return way

    return Rewriting(changed(there), changed(back))


# Attention.

Factor = Callable[[int, int, int], float]  # of d, h and T: the width of a head, the heads, the tokens
QKV = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]


def _qkv(weights: Weights, change: QKV) -> None:
    for key in weights:
        if ".qkv." in key:
            weights[key] = torch.cat(change(*weights[key].chunk(3)))


def scaled(q: Factor, v: Factor = lambda d, h, T: 1.0) -> Rewriting:
    """Queries and values scaled by a factor make up for factors at the scores and the weights."""

    def times(power: int) -> Way:
        def way(weights: Weights, config: ViTConfig) -> None:
            sizes = config.embed_dim // config.num_heads, config.num_heads, 1 + config.num_patches
            by_q, by_v = q(*sizes) ** power, v(*sizes) ** power
            _qkv(weights, lambda q, k, v: (by_q * q, k, by_v * v))

        return way

    return Rewriting(times(1), times(-1))


def _exchange(weights: Weights, config: ViTConfig) -> None:
    _qkv(weights, lambda q, k, v: (k, q, v))


EXCHANGED = Rewriting(_exchange, _exchange)


# Norms.


def _norms(weights: Weights) -> list[str]:
    return [
        key.removesuffix(".weight") for key in weights if key.rsplit(".")[-2].startswith("norm") and "weight" in key
    ]


def _fold(weights: Weights, config: ViTConfig) -> None:
    """Leave gains of 1 and biases of 0, and let the linear layer behind each norm do what they did."""
    for norm in _norms(weights):
        layer = norm.replace("norm1", "attention.qkv").replace("norm2", "mlp.fc1") if norm != "norm" else "head"
        matrix, gain, bias = weights[f"{layer}.weight"], weights[f"{norm}.weight"], weights[f"{norm}.bias"]
        weights[f"{layer}.bias"] = weights[f"{layer}.bias"] + matrix @ bias
        weights[f"{layer}.weight"] = matrix * gain
        weights[f"{norm}.weight"], weights[f"{norm}.bias"] = torch.ones_like(gain), torch.zeros_like(bias)


def affine(change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> Way:
    """Change the gain and the bias of every norm."""

    def way(weights: Weights, config: ViTConfig) -> None:
        for norm in _norms(weights):
            names = f"{norm}.weight", f"{norm}.bias"
            weights.update(zip(names, change(*map(weights.get, names)), strict=True))

    return way


def folded(to_right: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> Rewriting:
    """A norm that misuses its gain and bias can do without them; what it does with them, a right one can do."""
    return Rewriting(_fold, affine(to_right))


def _of_blocks(weights: Weights, first_from: str, second_from: str) -> None:
    """Take the norms of all blocks from these places."""
    old = dict(weights)
    for key in weights:
        for name, source in (("norm1", first_from), ("norm2", second_from)):
            if name in key:
                weights[key] = old[key.replace(name, source)]


def _swap(weights: Weights, config: ViTConfig) -> None:
    _of_blocks(weights, "norm2", "norm1")


SWAPPED = Rewriting(_swap, _swap)
FIRST_TWICE = Rewriting(_fold, lambda weights, config: _of_blocks(weights, "norm1", "norm1"))


def _by_root(up: bool) -> Way:
    """Gains times the root of D / (D - 1), or of its inverse."""
    return affine(lambda gain, bias: (gain * (len(gain) / (len(gain) - 1)) ** (0.5 if up else -0.5), bias))


UNBIASED = Rewriting(_by_root(up=True), _by_root(up=False))


# Whole models.


def _into_its_place(weights: Weights, config: ViTConfig) -> None:
    """The first position does what the token did."""
    token = weights.pop("pool.token")
    weights["positions.table"] = torch.cat(
        [weights["positions.table"][:, :1] + token, weights["positions.table"][:, 1:]], 1
    )


def _zero_token(weights: Weights, config: ViTConfig) -> None:
    weights["pool.token"] = torch.zeros_like(weights["positions.table"][:, :1])


NO_TOKEN = Rewriting(_into_its_place, _zero_token)


def _identity(weights: Weights, config: ViTConfig) -> None:
    bias = weights["patch_embed.proj.bias"]
    weights["projection.weight"], weights["projection.bias"] = torch.eye(len(bias)).to(bias), torch.zeros_like(bias)


def _one_layer(weights: Weights, config: ViTConfig) -> None:
    """Two linear layers in a row are one (chapter 8)."""
    matrix, bias = weights.pop("projection.weight"), weights.pop("projection.bias")
    names = "patch_embed.proj.weight", "patch_embed.proj.bias"
    kernel, before = map(weights.get, names)
    weights[names[0]] = (matrix @ kernel.flatten(1)).view_as(kernel)
    weights[names[1]] = matrix @ before + bias


TWO_LAYERS = Rewriting(_identity, _one_layer)

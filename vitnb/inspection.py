"""Chapter 11: what a trained model shows of itself, and what it does not."""

from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitnb._validate import Size, float_tensor, pair, positive_float
from vitnb.vit import ViT


def rollout(maps: Sequence[Tensor]) -> Tensor:
    """Follow attention from the last layer back to the first tokens.

    Each layer hands a token half of itself, for the residual path, and half
    of what it attends to, the mean of the heads; the layers are multiplied,
    the last one on the left. Row n holds where token n comes from, if values,
    MLPs and norms are left out of account.

    Shapes: one (B, h, T, T) a layer, the first layer first -> (B, T, T), whose rows sum to 1.
    Raises: ValueError if there is no map, or their rows do not sum to 1.
    Source: Abnar and Zuidema 2020, section 3.
    """
    maps = _maps(maps)
    total = identity = torch.eye(maps[0].shape[-1]).to(maps[0])  # (T, T)
    for weights in maps:
        step = weights.mean(dim=1) + identity  # (B, T, T)
        total = step / step.sum(dim=-1, keepdim=True) @ total  # (B, T, T)
    return total


def attention_distance(
    maps: Sequence[Tensor], grid_size: Size, num_prefix_tokens: int = 1, patch_size: float = 1.0
) -> Tensor:
    """Measure the attention distance of each head: the mean distance from a patch to what it attends to.

    Prefix tokens have no place on the grid: their rows and columns are left
    out, and what remains of a row is made to sum to 1 again. The distance is
    in patches, or in pixels if patch_size is given.

    Shapes: one (B, h, T, T) a layer -> (layers, h), a mean over images and patches.
    Raises: ValueError if T is not num_prefix_tokens plus the grid.
    Source: Dosovitskiy et al. 2021, figure 7 and appendix D.7.
    """
    maps, (rows, cols) = _maps(maps), pair("grid_size", grid_size)
    positive_float("patch_size", patch_size)
    T, N = maps[0].shape[-1], rows * cols
    if T != num_prefix_tokens + N:
        raise ValueError(f"maps of {T} tokens are not {num_prefix_tokens} + {rows} x {cols}: use the grid of the model")
    places = torch.cartesian_prod(torch.arange(rows), torch.arange(cols)).to(maps[0])  # (N, 2)
    distance = torch.cdist(places, places) * patch_size  # (N, N)
    looked = []
    for weights in maps:
        among = weights[..., num_prefix_tokens:, num_prefix_tokens:]  # (B, h, N, N)
        among = among / among.sum(dim=-1, keepdim=True)
        looked.append((among * distance).sum(dim=-1).mean(dim=(0, 2)))  # (h,)
    return torch.stack(looked)


def position_similarity(table: Tensor, num_prefix_tokens: int = 1) -> Tensor:
    """Compare every place with every place: the cosine of the angle between their vectors.

    Shapes: table (1, T, D) -> (N, N), without the prefix tokens.
    Raises: ValueError if the table holds no place.
    Source: Dosovitskiy et al. 2021, figure 7 (centre).
    """
    T = float_tensor("table", table, 3, "(1, T, D)").shape[1]
    if len(table) != 1 or not 0 <= num_prefix_tokens < T:
        raise ValueError(
            f"table {tuple(table.shape)} does not hold {num_prefix_tokens} prefix tokens and at least one place: "
            "use the (1, T, D) of model.positions.table and model.num_prefix_tokens"
        )
    places = F.normalize(table[0, num_prefix_tokens:].detach(), dim=-1)  # (N, D)
    return places @ places.T


@torch.no_grad()
def occlusion(model: ViT, images: Tensor, labels: Tensor, value: float = 0.0) -> Tensor:
    """Paint over one patch at a time and see by how much the logit of a label falls.

    Shapes: images (B, C, H, W), labels (B,) -> (B, N), positive where the patch spoke for the label.
    Raises: ValueError if images and labels are not equally many.
    Source: Zeiler and Fergus 2014, section 4.2.
    """
    before = _logits(model(images), labels)  # (B,)
    (rows, cols), (ph, pw) = model.patch_embed.grid_size, model.patch_embed.patch_size
    drops = []
    for n in range(rows * cols):
        top, left = n // cols * ph, n % cols * pw
        covered = images.clone()
        covered[:, :, top : top + ph, left : left + pw] = value
        drops.append(before - _logits(model(covered), labels))
    return torch.stack(drops, dim=1)


@torch.no_grad()
def token_removal(model: ViT, images: Tensor, labels: Tensor) -> Tensor:
    """Take out one patch token at a time, before the first block, and see by how much the logit of a label falls.

    A ViT takes any number of tokens, so nothing has to stand in for what is missing.

    Shapes: images (B, C, H, W), labels (B,) -> (B, N), positive where the patch spoke for the label.
    Raises: ValueError if images and labels are not equally many.
    """
    before, tokens, first = _logits(model(images), labels), model.embed(images), model.num_prefix_tokens
    drops = []
    for n in range(first, tokens.shape[1]):
        x = torch.cat([tokens[:, :n], tokens[:, n + 1 :]], dim=1)  # (B, T-1, D)
        drops.append(before - _logits(model.forward_head(model.encode(x)), labels))
    return torch.stack(drops, dim=1)


def rank_correlation(a: Tensor, b: Tensor) -> Tensor:
    """Say how far two rows of numbers agree in order, from -1 to 1; equal numbers share their rank.

    Shapes: (B, N), (B, N) -> (B,); NaN where all numbers of a row are equal.
    Raises: ValueError if the shapes differ.
    Source: Spearman 1904.
    """
    if a.shape != b.shape or a.ndim != 2:
        use = "a[None] and b[None]" if a.shape == b.shape and a.ndim == 1 else "two of one shape (B, N)"
        raise ValueError(f"a and b must both have shape (B, N), got {tuple(a.shape)} and {tuple(b.shape)}: use {use}")
    # sign counts how many are smaller less how many are larger: a rank around 0.
    first, second = ((x[:, :, None] - x[:, None, :]).sign().sum(dim=2).double() for x in (a, b))  # (B, N)
    return ((first * second).sum(1) / (first.norm(dim=1) * second.norm(dim=1))).float()


def mean_of_others(maps: Tensor) -> Tensor:
    """Give each image the mean map of all the others: what its place alone predicts, nothing of this image.

    It is the baseline that a map has to beat before it explains anything about its own image.

    Shapes: (B, N) -> (B, N).
    Raises: ValueError if there is only one image.
    """
    maps = float_tensor("maps", maps, 2, "(B, N)")
    if len(maps) < 2:
        raise ValueError("maps holds 1 image, which has no others to average: use at least 2")
    return (maps.sum(dim=0) - maps) / (len(maps) - 1)


def share_inside(maps: Tensor, mask: Tensor) -> Tensor:
    """Say which share of a map lies on the patches of a mask; an even map has the mask's own share.

    Shapes: maps (B, N), not negative, mask (B, N) of True and False -> (B,).
    Raises: ValueError if the shapes differ, TypeError if the mask is not boolean.
    """
    _masked(maps, mask)
    return (maps * mask).sum(dim=1) / maps.sum(dim=1)


def overlap(maps: Tensor, mask: Tensor, mass: float = 0.6) -> Tensor:
    """Turn a map into a mask, its largest patches with this share of its sum, and compare the two masks.

    The number is the Jaccard index: patches in both masks divided by patches in at least one.

    Shapes: maps (B, N), not negative, mask (B, N) of True and False -> (B,), from 0 to 1.
    Raises: ValueError if the shapes differ or mass is not in (0, 1], TypeError if the mask is not boolean.
    Source: Caron et al. 2021, figure 4.
    """
    _masked(maps, mask)
    if not 0 < mass <= 1:
        raise ValueError(f"mass is {mass}, not a share of a map: use a number above 0 and up to 1, for example 0.6")
    largest, order = (maps / maps.sum(dim=1, keepdim=True)).sort(dim=1, descending=True)  # (B, N)
    kept = largest.cumsum(dim=1) - largest < mass  # still too little before this patch
    chosen = torch.zeros_like(mask).scatter(1, order, kept)  # (B, N)
    return (chosen & mask).sum(dim=1) / (chosen | mask).sum(dim=1)


@torch.no_grad()
def head_means(model: ViT, images: Tensor) -> Tensor:
    """Average over images what the heads hand to the output projection, for each token: what mean-ablation puts in.

    Shapes: images (B, C, H, W) -> (layers, T, D), a head's features side by side.
    """
    means = []
    hooks = [
        block.attention.proj.register_forward_pre_hook(lambda _, given: means.append(given[0].mean(dim=0)))  # (T, D)
        for block in model.blocks
    ]
    try:
        model(images)
    finally:
        for hook in hooks:
            hook.remove()
    return torch.stack(means)


def ablate(model: ViT, heads: Iterable[tuple[int, int]], means: Tensor | None = None) -> ViT:
    """Copy a model without some of its heads.

    Zero-ablation puts zeros where a head's result would enter the output
    projection. Mean-ablation puts the mean over images there, so that what
    the later layers are used to find in the stream stays, and only what
    differs between images is gone.

    Shapes: heads are pairs (layer, head); means (layers, T, D) of head_means, or None for zeros.
    Raises: ValueError if the model has no such head, or means are of another shape.
    """
    layers, h, D = model.config.depth, model.config.num_heads, model.config.embed_dim
    if means is not None and (means.ndim != 3 or (means.shape[0], means.shape[2]) != (layers, D)):
        raise ValueError(
            f"means have shape {tuple(means.shape)}, not {(layers, 'T', D)}: use head_means(model, images)"
        )
    changed = deepcopy(model)
    for layer, head in heads:
        if not (0 <= layer < layers and 0 <= head < h):
            raise ValueError(f"there is no head {(layer, head)}: use layers 0 to {layers - 1} and heads 0 to {h - 1}")
        features = slice(D // h * head, D // h * (head + 1))
        value = 0.0 if means is None else means[layer, :, features]  # (T, D/h)
        changed.blocks[layer].attention.proj.register_forward_pre_hook(partial(_put, features, value))
    return changed


def _put(features: slice, value: Tensor | float, proj: nn.Module, given: tuple[Tensor]) -> Tensor:
    x = given[0].clone()  # (B, T, D)
    x[..., features] = value
    return x


def _masked(maps: Tensor, mask: Tensor) -> None:
    float_tensor("maps", maps, 2, "(B, N)")
    if mask.dtype != torch.bool:
        raise TypeError(f"mask holds {mask.dtype}, not True and False: use brightness > 0.1, for example")
    if maps.shape != mask.shape:
        raise ValueError(f"maps have shape {tuple(maps.shape)} and mask {tuple(mask.shape)}: use one number a patch")


def _maps(maps: Sequence[Tensor]) -> list[Tensor]:
    maps = [float_tensor(f"maps[{n}]", weights, 4, "(B, h, T, T)") for n, weights in enumerate(maps)]
    if not maps:
        raise ValueError("maps is empty, no layer was recorded: call the model inside record_attention")
    B, _, T, _ = maps[0].shape
    for n, weights in enumerate(maps):
        if weights.shape[0] != B or weights.shape[2:] != (T, T):
            raise ValueError(
                f"maps[{n}] has shape {tuple(weights.shape)}, maps[0] {tuple(maps[0].shape)}: "
                "use the maps of one forward pass, (B, h, T, T) each"
            )
        off = (weights.sum(dim=-1) - 1).abs().max().item()
        if not off < 0.01:  # NaN is not
            raise ValueError(f"the rows of maps[{n}] sum to 1 only up to {off:.2g}: use a softmax over the last axis")
    return maps


def _logits(logits: Tensor, labels: Tensor) -> Tensor:
    if labels.shape != logits.shape[:1]:
        raise ValueError(f"labels have shape {tuple(labels.shape)} for {len(logits)} images: use one label an image")
    return logits.gather(1, labels[:, None])[:, 0]  # (B,)

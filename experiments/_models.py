"""The models and recipes that several experiments share."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from vitbook import faults, results
from vitnb import ViT, ViTConfig
from vitnb.training import Recipe

# The small model of chapter 09, and the best that came of it.
SMALL = ViTConfig(patch_size=7, embed_dim=64, depth=4, num_heads=4, mlp_ratio=4.0, pos_std=1.0)
BEST = replace(SMALL, stem="conv", global_pool="mean")
FAST, FAST_STEM = replace(BEST, depth=3), (32, 64, 64)  # channels of its convolutions: with_stem
FIVE_MINUTES = Recipe(epochs=10, optimizer="muon")
# For a whole hour: wider tokens, and one convolution more, which does not halve its image.
WIDER, WIDER_STEM, WIDER_STRIDES = replace(FAST, embed_dim=80), (32, 64, 64, 80), (2, 2, 1, 2)
FAST_VIT = {"model": FAST, "stem": FAST_STEM}  # what these functions make, for the record
STEM_ALONE = FAST_VIT | {"blocks_kept": 0}
WIDER_VIT = {"model": WIDER, "stem": WIDER_STEM, "strides": WIDER_STRIDES}
LONGER = replace(FIVE_MINUTES, epochs=40, erase=0.25)
SHORT, SHORT_IMAGES = Recipe(epochs=6, batch_size=64), 6_000  # to compare recipes by

# Zhang et al. 2023, section 11.8: images of 96 pixels, two wide blocks, plain SGD.
TEXTBOOK = ViTConfig(
    96, 16, embed_dim=512, depth=2, num_heads=8, mlp_ratio=4.0, dropout=0.1, qkv_bias=False, pos_std=1.0
)
TEXTBOOK_RECIPE = Recipe(
    epochs=1,
    batch_size=128,
    lr=0.1,
    betas=(0.0, 0.99),
    weight_decay=0.0,
    warmup=0.0,
    schedule="constant",
    optimizer="sgd",
    clip=None,
    flip=False,
    shift=0,
)

# Chapter 02: a small model with four kinds of positions.
PLACED = ViTConfig(patch_size=7, embed_dim=48, depth=3, num_heads=4, mlp_ratio=4.0)
PLACED_RECIPE = Recipe(epochs=5)
PLACES = {
    "none": {"pos_embed": "none"},
    "learned, std 0.02": {"pos_embed": "learned", "pos_std": 0.02},
    "learned, std 1": {"pos_embed": "learned", "pos_std": 1.0},
    "sin-cos": {"pos_embed": "sincos"},
}

# Chapter 06: stacks of any depth, trained for 150 steps.
STACK = ViTConfig(patch_size=14, embed_dim=32, num_heads=2, mlp_ratio=2.0, pos_std=1.0, global_pool="mean")
STACK_RECIPE = Recipe(epochs=1, batch_size=32, schedule="constant")
STACK_STEPS = 150
GAINS = {"layer scale": 1e-4, "layer scale from 1": 1.0}  # the initial gains


# Chapters 00 and 12: how the page's small ViT learns the page's digits.
PAGE_RECIPE = Recipe(epochs=10, batch_size=32, flip=False, shift=0)

# What is timed: images, then the Transformer; the batch of a step.
SIZES = {
    "28/4 64x6": dict(img_size=28, patch_size=4, in_chans=1, embed_dim=64, depth=6, num_heads=4, batch=128),
    "28/4 128x6": dict(img_size=28, patch_size=4, in_chans=1, embed_dim=128, depth=6, num_heads=4, batch=128),
    "96/16 512x2": dict(img_size=96, patch_size=16, in_chans=1, embed_dim=512, depth=2, num_heads=8, batch=64),
    "224/16 768x12": dict(img_size=224, patch_size=16, in_chans=3, embed_dim=768, depth=12, num_heads=12, batch=4),
}


class CNN(nn.Module):
    """Convolutions of 3 x 3, each with BatchNorm and ReLU, two of which halve the image; then the mean and a head."""

    def __init__(self, widths=(32, 64, 128, 96), num_classes: int = 10):
        super().__init__()
        layers: list[nn.Module] = []
        for before, after, stride in zip((1, *widths), widths, (1, 2, 2, 1), strict=False):
            layers += [nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(widths[-1], num_classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.layers(images).mean((2, 3)))  # (B, C, H, W) -> (B, K)


class Stem(nn.Module):
    """A convolutional stem with channels of one's choice; ConvStem has a quarter, a half and all of a token's width."""

    def __init__(self, widths: tuple[int, ...], strides: tuple[int, ...]):
        super().__init__()
        layers: list[nn.Module] = []
        for before, after, stride in zip((1, *widths), widths[:-1], strides, strict=False):
            layers += [nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.GELU()]
        self.layers = nn.Sequential(*layers, nn.Conv2d(*widths[-2:], 3, strides[-1], 1))

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images).flatten(2).transpose(1, 2)  # (B, 1, H, W) -> (B, N, D)


def with_stem(config: ViTConfig, widths: tuple[int, ...], strides: tuple[int, ...] = (2, 2, 2)) -> ViT:
    """A ViT whose convolutions have these channels."""
    model = ViT(config)
    model.patch_embed = Stem(widths, strides)
    return model


def fast_vit() -> ViT:
    """The model of the five minutes and of the hour: what did best in stems.py."""
    return with_stem(FAST, FAST_STEM)


def without_blocks() -> ViT:
    """The convolutions of fast_vit and no block behind them."""
    model = fast_vit()
    model.blocks = model.blocks[:0]
    return model


def as_long_alone(recipe: Recipe) -> Recipe:
    """The recipe of fast_vit with as many epochs as take its convolutions alone the same time.

    How many these are is what the clocks of stems.py say about both, side by side.
    """
    arms = results.result("stems")["result"]["arms"]
    alone, whole = (arms[f"32, 64, 64 and {kept}"]["steps"] for kept in ("no block", "three blocks"))
    return replace(recipe, epochs=round(recipe.epochs * alone / whole))


def wider_vit() -> ViT:
    """The model of the full hour, laid out as convolutions like it: channels last."""
    return with_stem(WIDER, WIDER_STEM, WIDER_STRIDES).to(memory_format=torch.channels_last)


class LayerScale(nn.Module):
    """A branch times one learned gain a channel, initialised small (Touvron et al. 2021)."""

    def __init__(self, branch: nn.Module, embed_dim: int, gain: float):
        super().__init__()
        self.branch, self.gain = branch, nn.Parameter(torch.full((embed_dim,), gain))

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * self.branch(x)  # (B, T, D)


def stack(depth: int, norm: str, change: str, seed: int) -> ViT:
    """One stack, with LayerScale on its branches if GAINS names the change; else as the seed makes it."""
    torch.manual_seed(seed)
    model = ViT(replace(STACK, depth=depth, norm=norm))
    for block in model.blocks if change in GAINS else ():
        block.attention = LayerScale(block.attention, STACK.embed_dim, GAINS[change])
        block.mlp = LayerScale(block.mlp, STACK.embed_dim, GAINS[change])
    return model


def changed(model: ViTConfig, recipe: Recipe, changes: dict) -> tuple[ViTConfig, Recipe]:
    """The model and the recipe with the changes that are theirs."""
    return tuple(replace(one, **{k: v for k, v in changes.items() if hasattr(one, k)}) for one in (model, recipe))


def handwritten() -> dict:
    from tests.model.handwritten.right import DEPARTS, RIGHT

    return RIGHT | DEPARTS


def in_a_model() -> list[str]:
    names = []
    for name in faults.FAULTS:
        try:
            faults.build(name, ViTConfig(depth=2))
        except ValueError:  # no part of a model
            continue
        names.append(name)
    return names


def of_fault(name: str) -> Callable[[], ViT]:
    return lambda: faults.build(name, ViTConfig(depth=2))

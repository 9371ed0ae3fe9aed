"""A ViT trains on patches that are cut wrongly: neither the shape nor a short training tells.

Chapter 01: the same small model on patches cut right, on bundles of stripes
that reshape alone makes, and on pictures whose pixels were shuffled, all alike.
"""

from dataclasses import asdict, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from experiments import clothes
from vitnb import PatchEmbedding, ViT, ViTConfig
from vitnb.training import ProgressBar, Recipe, fit

MODEL = ViTConfig(patch_size=7, embed_dim=64, depth=4, num_heads=4, mlp_ratio=4.0)
RECIPE = Recipe(epochs=4, lr=1e-3)
PICTURES = 12_800
SEEDS = [0, 1, 2]
CONFIG = {
    "data": "fashion_mnist",
    "pictures": PICTURES,
    "device": "cpu",
    "model": MODEL.to_dict(),
    "recipe": asdict(RECIPE),
}


class Striped(PatchEmbedding):
    """Each token gets p*p numbers that lie in a row in memory: stripes, not a square."""

    def forward(self, images: Tensor) -> Tensor:
        stripes = images.reshape(len(images), self.num_patches, -1)  # (B, N, C*p*p)
        return F.linear(stripes, self.proj.weight.flatten(1), self.proj.bias)  # (B, N, D)


class Shuffled(PatchEmbedding):
    """Patches cut right from pictures whose pixels have all moved, each to one fixed other place."""

    def forward(self, images: Tensor) -> Tensor:
        order = torch.randperm(images[0, 0].numel(), generator=torch.Generator().manual_seed(0))
        return super().forward(images.flatten(2)[:, :, order].reshape(images.shape))


ARMS = {"right": PatchEmbedding, "reshape alone": Striped, "pixels shuffled": Shuffled}


def build(arm: str, seed: int) -> ViT:
    """The model of one arm; all arms of a seed start with the same weights."""
    torch.manual_seed(seed)
    model = ViT(MODEL)
    model.patch_embed.__class__ = ARMS[arm]
    return model


def run() -> dict:
    data = clothes().subset(PICTURES, test=5000)
    accuracy = {
        arm: [
            fit(build(arm, seed), data, replace(RECIPE, seed=seed), [ProgressBar()]).test_accuracy[-1] for seed in SEEDS
        ]
        for arm in ARMS
    }
    return {"accuracy": {arm: [round(a, 4) for a in values] for arm, values in accuracy.items()}}

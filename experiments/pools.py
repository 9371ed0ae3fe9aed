"""Cls token, mean, attention pooling: which learning rate each wants, and what three wrong poolings cost.

Chapter 07: the same small model with four ways to make one vector of all
tokens, at four learning rates; the fourth keeps the cls token and averages the
patches, as an exercise of a textbook asks (Zhang et al. 2023). Beside them, at
one learning rate, three programs that are wrong and run.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from experiments._data import validated, watched_on
from experiments._experiment import Experiment
from experiments._trials import accuracy, train
from vitbook.faults import pool as wrong
from vitnb import ClsToken, ViT, ViTConfig
from vitnb.data import Dataset
from vitnb.training import Recipe

POOLS = ("cls", "mean", "patch mean", "attn")
THIS = Experiment(
    seeds=[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    purpose="choice",
    torch_threads=None,
    images=5_000,
    model=ViTConfig(patch_size=7, embed_dim=32, depth=3, num_heads=2, mlp_ratio=2.0),
    recipe=Recipe(epochs=3, batch_size=50),
    pools=POOLS,
    rates=[1e-3, 3e-3, 1e-2, 3e-2],
    bug_rate=1e-2,
)


class PatchMean(ClsToken):
    """The cls token takes part in every block; what is read is the mean of the patches."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 1:].mean(dim=1)  # (B, D)


OWN: dict[str, Callable[[int], nn.Module]] = {
    "patch mean": PatchMean,
    "last, read first": wrong.LastReadFirst,
    "new at each call": wrong.NewForEachImage,
    "mean with cls": wrong.MeanWithCls,
}
BUGS = [name for name in OWN if name not in POOLS]


def build(pool: str) -> ViT:
    model = ViT(replace(THIS.model, global_pool="cls" if pool in OWN else pool))
    if pool in OWN:
        model.pool = OWN[pool](THIS.model.embed_dim)
    return model


def one(data: Dataset, pool: str, lr: float, seed: int) -> float:
    """Train one model and return its accuracy on the validation images after the last step."""
    name = f"pools-{pool.replace(' ', '-')}-{lr}-{seed}"
    model, _ = train(partial(build, pool), watched_on(data, 100), replace(THIS.recipe, lr=lr, seed=seed), name)
    torch.manual_seed(seed)
    return accuracy(model, data.normalize(data.test_images), data.test_labels)


def run() -> dict:
    data = validated().subset(THIS.images)
    return {
        "validation_accuracy": {
            pool: {str(lr): [one(data, pool, lr, seed) for seed in THIS.seeds] for lr in THIS.rates}
            for pool in THIS.pools
        },
        "bugs": {bug: [one(data, bug, THIS.bug_rate, seed) for seed in THIS.seeds] for bug in BUGS},
    }

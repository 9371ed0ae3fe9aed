"""A ViT with convolutions before its tokens learns Fashion-MNIST for at most an hour of one CPU core.

The model of the five minutes with more epochs and partly erased images; two
seeds at a time, each on a core of its own. The result of a seed is the
accuracy after its last step, on the test images, which are looked at once.
"""

from dataclasses import asdict, replace

import torch

from experiments.common import FAST, FAST_STEM, fast_vit, two_at_a_time, whole_run, whole_runs
from vitnb.recipe import Recipe

RECIPE = Recipe(epochs=40, optimizer="muon", erase=0.25)
SEEDS = [0, 1, 2]
CONFIG = {
    "data": "fashion_mnist",
    "device": "cpu",
    "judged_on": "validation",
    "reported_on": "test",
    "model": FAST.to_dict(),
    "stem": FAST_STEM,
    "recipe": asdict(RECIPE),
}


def run() -> dict:
    torch.set_num_threads(1)
    return whole_runs(two_at_a_time(one, SEEDS))


def one(seed: int) -> dict:
    return whole_run("hour", fast_vit, replace(RECIPE, seed=seed))

"""A plain ViT learns Fashion-MNIST on two CPU cores: at least 90 % of the test images, within ten minutes.

The small model of chapter 09, trained from scratch with three seeds; the
result of each seed is the accuracy after its last step.
"""

from dataclasses import asdict, replace

import torch

from experiments.common import SMALL, clothes, whole_run, whole_runs
from vitnb.recipe import Recipe

RECIPE = Recipe(epochs=18)
THREADS = 2
SEEDS = [0, 1, 2]
CONFIG = {"data": "fashion_mnist", "device": "cpu", "model": SMALL.to_dict(), "recipe": asdict(RECIPE)}


def run() -> dict:
    data = clothes()
    torch.set_num_threads(THREADS)
    recipes = [replace(RECIPE, seed=seed) for seed in SEEDS]
    return whole_runs(data, SMALL, [whole_run(data, "fashion_mnist", SMALL, recipe) for recipe in recipes])

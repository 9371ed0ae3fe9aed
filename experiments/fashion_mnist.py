"""A plain ViT learns Fashion-MNIST on two CPU cores: at least 90 % of the test images, within ten minutes.

The small model of chapter 09, trained from scratch with three seeds on 55,000
images; the result of each seed is the accuracy after its last step, on the
test images, which are looked at once.
"""

from dataclasses import asdict, replace
from functools import partial

import torch

from experiments.common import SMALL, whole_run, whole_runs
from vitnb import ViT
from vitnb.training import Recipe

RECIPE = Recipe(epochs=18)
THREADS = 2
SEEDS = [0, 1, 2]
CONFIG = {
    "data": "fashion_mnist",
    "device": "cpu",
    "judged_on": "validation",
    "reported_on": "test",
    "model": SMALL.to_dict(),
    "recipe": asdict(RECIPE),
}


def run() -> dict:
    torch.set_num_threads(THREADS)
    recipes = [replace(RECIPE, seed=seed) for seed in SEEDS]
    return whole_runs([whole_run("fashion_mnist", partial(ViT, SMALL), recipe) for recipe in recipes])

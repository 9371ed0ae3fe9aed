"""A ViT with convolutions before its tokens learns Fashion-MNIST on two CPU cores: over 91.5 % within five minutes.

The end of chapter 10's ladder with Muon, on 55,000 images, from scratch, three
seeds. The result of a seed is the accuracy after its last step, on the test
images, which are looked at once.
"""

from dataclasses import asdict, replace
from functools import partial

import torch

from experiments.common import BEST, FIVE_MINUTES, whole_run, whole_runs
from vitnb import ViT

THREADS = 2
SEEDS = [0, 1, 2]
CONFIG = {
    "data": "fashion_mnist",
    "device": "cpu",
    "judged_on": "validation",
    "reported_on": "test",
    "model": BEST.to_dict(),
    "recipe": asdict(FIVE_MINUTES),
}


def run() -> dict:
    torch.set_num_threads(THREADS)
    recipes = [replace(FIVE_MINUTES, seed=seed) for seed in SEEDS]
    return whole_runs([whole_run("five_minutes", partial(ViT, BEST), recipe) for recipe in recipes])

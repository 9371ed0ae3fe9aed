"""A ViT with convolutions before its tokens learns Fashion-MNIST on two CPU cores: over 91.5 % within five minutes.

The end of chapter 10's ladder with Muon, on 55,000 images, from scratch, three
seeds. Two processes share each batch, a core each. The result of a seed is the
accuracy after its last step, on the test images, which are looked at once.
"""

from dataclasses import asdict, replace
from functools import partial

from experiments.common import BEST, FIVE_MINUTES, shared_run, whole_runs
from vitnb import ViT

SEEDS = [0, 1, 2]
CONFIG = {
    "data": "fashion_mnist",
    "device": "cpu",
    "judged_on": "validation",
    "reported_on": "test",
    "processes": 2,
    "model": BEST.to_dict(),
    "recipe": asdict(FIVE_MINUTES),
}


def run() -> dict:
    recipes = [replace(FIVE_MINUTES, seed=seed) for seed in SEEDS]
    return whole_runs([shared_run("five_minutes", partial(ViT, BEST), recipe) for recipe in recipes])

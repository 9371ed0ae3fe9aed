"""A ViT with convolutions before its tokens learns Fashion-MNIST for at most an hour of one CPU core.

The end of chapter 10's ladder with more epochs and moved images, on all 60,000
of them; two seeds at a time, each on a core of its own. It is older than the
validation images of the other runs, and watches the test images.
"""

from dataclasses import asdict, replace
from functools import partial

import torch

from experiments.common import BEST, clothes, plain_products, summary, train, two_at_a_time
from vitnb import ViT
from vitnb.recipe import Recipe
from vitnb.vit import count_parameters

RECIPE = Recipe(epochs=60)
SEEDS = [0, 1, 2]
CONFIG = {
    "data": "fashion_mnist",
    "device": "cpu",
    "judged_on": "test",  # nothing was chosen by it
    "model": BEST.to_dict(),
    "recipe": asdict(RECIPE),
}


def run() -> dict:
    torch.set_num_threads(1)
    runs = two_at_a_time(one, SEEDS)
    return {"parameters": count_parameters(ViT(BEST)), "seconds_max": max(run["seconds"] for run in runs)} | summary(
        runs
    )


def one(seed: int) -> dict:
    with plain_products():
        _, history = train(partial(ViT, BEST), clothes(), replace(RECIPE, seed=seed), f"hour-{seed}")
    return {
        "seed": seed,
        "test_accuracy": round(history.test_accuracy[-1], 4),
        "seconds": round(history.seconds, 1),
        "cpu_seconds": round(history.cpu_seconds, 1),  # without waiting for other programs
        "images_per_second": round(history.images_per_second),
        "steps": len(history.losses),
        "train_accuracy_by_epoch": [round(a, 4) for a in history.train_accuracy],
        "test_accuracy_by_epoch": [round(a, 4) for a in history.test_accuracy],
    }

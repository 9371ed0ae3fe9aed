"""Patch size and image size: what more tokens buy when the seconds are the same.

Chapter 13: the small ViT on images of 28 or 56 pixels (the same images,
enlarged), in patches of several sizes, each for about half a minute of one
processor core; each run's seconds of processor time are stored.
"""

from dataclasses import asdict

import torch

from experiments.common import SMALL, clothes, trials
from vitnb.recipe import Recipe

RECIPE = Recipe(epochs=1, batch_size=64, shift=0)
ARMS = {  # (img_size, patch_size): images shown
    "28/14": {"img_size": 28, "patch_size": 14, "pictures": 40_000, "epochs": 2},
    "28/7": {"img_size": 28, "patch_size": 7, "pictures": 40_000, "epochs": 1},
    "28/4": {"img_size": 28, "patch_size": 4, "pictures": 14_000, "epochs": 1},
    "56/14": {"img_size": 56, "patch_size": 14, "pictures": 40_000, "epochs": 1},
    "56/7": {"img_size": 56, "patch_size": 7, "pictures": 10_000, "epochs": 1},
}
SEEDS = [0, 1, 2]
CONFIG = {"device": "cpu", "data": "fashion_mnist", "model": SMALL.to_dict(), "recipe": asdict(RECIPE), "arms": ARMS}


def run() -> dict:
    data = clothes()
    torch.set_num_threads(1)
    arms = enumerate(ARMS.items())
    return {"arms": {arm: trials(data, f"resolutions-{n}", SMALL, RECIPE, change, SEEDS) for n, (arm, change) in arms}}

"""Patch size and image size: what more tokens buy when the seconds are the same.

Chapter 13: the small ViT on images of 28 or 56 pixels (the same images,
enlarged), in patches of several sizes, each for half a minute of one processor
core: a cheaper model takes more steps.
"""

from dataclasses import replace
from functools import partial

from experiments._budget import Arm, for_seconds
from experiments._experiment import Experiment
from experiments._models import SMALL
from vitnb import ViT
from vitnb.training import Recipe

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="choice",
    side_by_side=2,
    model=SMALL,
    recipe=Recipe(epochs=1, batch_size=64, shift=0),
    seconds_an_arm=30,
    arms={"28/14": (28, 14), "28/7": (28, 7), "28/4": (28, 4), "56/14": (56, 14), "56/7": (56, 7)},  # image, patch
)


def run() -> dict:
    arms = {
        name: Arm(partial(ViT, replace(THIS.model, img_size=side, patch_size=patch)), THIS.recipe, side)
        for name, (side, patch) in THIS.arms.items()
    }
    return {"arms": for_seconds("resolutions", arms, THIS.seconds_an_arm, THIS.seeds)}

"""A ViT with convolutions before its tokens learns Fashion-MNIST for at most an hour of one CPU core.

The model of the five minutes with more epochs and partly erased images; two
runs at a time, each on a core of its own. The result of a seed is the accuracy
after its last step, on the test images, which are looked at once. Beside them
one run without the erasing, judged by the validation images.
"""

from dataclasses import asdict, replace

import torch

from experiments.common import (
    FAST,
    FAST_STEM,
    LONGER,
    fast_vit,
    tried_run,
    two_at_a_time,
    whole_run,
    whole_runs,
)
from vitnb.training import Recipe

BESIDE = {"erase": 0.0}
SEEDS = [0, 1, 2]
CONFIG = {
    "data": "fashion_mnist",
    "device": "cpu",
    "judged_on": "validation",
    "reported_on": "test",
    "model": FAST.to_dict(),
    "stem": FAST_STEM,
    "recipe": asdict(LONGER),
    "beside": BESIDE,
}


def run() -> dict:
    torch.set_num_threads(1)
    recipes = [replace(LONGER, seed=seed) for seed in SEEDS]
    first, other, *rest = two_at_a_time(one, [recipes[0], replace(recipes[0], **BESIDE), *recipes[1:]])
    return whole_runs([first, *rest]) | {"beside": other}


def one(recipe: Recipe) -> dict:
    if recipe.erase == LONGER.erase:
        return whole_run("hour", fast_vit, recipe)
    return tried_run("hour-beside", fast_vit, recipe)

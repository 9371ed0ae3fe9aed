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
    fast_vit,
    plain_products,
    train,
    two_at_a_time,
    validated,
    whole_run,
    whole_runs,
)
from vitnb.recipe import Recipe

RECIPE = Recipe(epochs=40, optimizer="muon", erase=0.25)
BESIDE = {"erase": 0.0}
SEEDS = [0, 1, 2]
CONFIG = {
    "data": "fashion_mnist",
    "device": "cpu",
    "judged_on": "validation",
    "reported_on": "test",
    "model": FAST.to_dict(),
    "stem": FAST_STEM,
    "recipe": asdict(RECIPE),
    "beside": BESIDE,
}


def run() -> dict:
    torch.set_num_threads(1)
    recipes = [replace(RECIPE, seed=seed) for seed in SEEDS]
    first, other, *rest = two_at_a_time(one, [recipes[0], replace(recipes[0], **BESIDE), *recipes[1:]])
    return whole_runs([first, *rest]) | {"beside": other}


def one(recipe: Recipe) -> dict:
    return whole_run("hour", fast_vit, recipe) if recipe.erase == RECIPE.erase else tried(recipe)


def tried(recipe: Recipe) -> dict:
    """A run that is compared with the others and does not meet the test images."""
    with plain_products():
        _, history = train(fast_vit, validated(), recipe, f"hour-beside-{recipe.seed}")
    return {
        "seed": recipe.seed,
        "validation_accuracy": round(history.test_accuracy[-1], 4),
        "train_accuracy": round(history.train_accuracy[-1], 4),
        "seconds": round(history.seconds, 1),
    }

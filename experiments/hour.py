"""A ViT with convolutions before its tokens learns Fashion-MNIST for at most an hour of one CPU core.

The model of the five minutes with more epochs and partly erased images. Beside
these runs one without the erasing, judged by the validation images.
"""

from dataclasses import replace

from experiments._budget import two_at_a_time
from experiments._experiment import Experiment
from experiments._models import FAST_VIT, LONGER, fast_vit
from experiments._trials import tried_run, whole_run, whole_runs
from vitnb.training import Recipe

THIS = Experiment(
    seeds=[0, 1, 2],
    purpose="choice",
    side_by_side=2,
    reported_on="test",
    **FAST_VIT,
    recipe=LONGER,
    beside={"erase": 0.0},
)


def run() -> dict:
    recipes = [replace(THIS.recipe, seed=seed) for seed in THIS.seeds]
    first, other, *rest = two_at_a_time(one, [recipes[0], replace(recipes[0], **THIS.beside), *recipes[1:]])
    return whole_runs([first, *rest]) | {"beside": other}


def one(recipe: Recipe) -> dict:
    if recipe.erase == THIS.recipe.erase:
        return whole_run("hour", fast_vit, recipe)
    return tried_run("hour-beside", fast_vit, recipe)

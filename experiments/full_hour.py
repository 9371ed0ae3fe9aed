"""A ViT of 0.34 million parameters learns Fashion-MNIST for a full hour of one CPU core.

Wider than the model of the five minutes, one convolution more, twice the epochs
of the longer training. The first seed trains twice, with more and with less
regularisation, and the others as did better on the validation images.
"""

from dataclasses import replace

from experiments._budget import two_at_a_time
from experiments._experiment import Experiment
from experiments._models import LONGER, WIDER_VIT, wider_vit
from experiments._trials import tried_run, whole_run, whole_runs
from vitnb.training import Recipe

THIS = Experiment(
    seeds=[0, 1, 2],
    purpose="choice",
    side_by_side=2,
    reported_on="test",
    **WIDER_VIT,
    recipe=replace(LONGER, epochs=78),
    tried={"less": {}, "more": {"erase": 0.5, "label_smoothing": 0.1}},  # regularisation
)


def run() -> dict:
    recipes = {name: replace(THIS.recipe, seed=THIS.seeds[0], **changes) for name, changes in THIS.tried.items()}
    tried = dict(zip(recipes, two_at_a_time(one_try, recipes.values()), strict=True))
    chosen = max(THIS.tried, key=lambda name: tried[name]["validation_accuracy"])
    runs = two_at_a_time(one, [replace(recipes[chosen], seed=seed) for seed in THIS.seeds])
    return {"tried": tried, "chosen": chosen} | whole_runs(runs)


def one_try(recipe: Recipe) -> dict:
    return tried_run(label(recipe), wider_vit, recipe)


def one(recipe: Recipe) -> dict:
    return whole_run(label(recipe), wider_vit, recipe)  # goes on from what was tried


def label(recipe: Recipe) -> str:
    return f"full_hour-erase{round(100 * recipe.erase)}"

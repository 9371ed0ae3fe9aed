"""A plain ViT learns Fashion-MNIST on two CPU cores: at least 90 % of the test images, within ten minutes.

The small model of chapter 09, trained from scratch.
"""

from dataclasses import replace
from functools import partial

from experiments._experiment import Experiment
from experiments._models import SMALL
from experiments._trials import whole_run, whole_runs
from vitnb import ViT
from vitnb.training import Recipe

THIS = Experiment(
    seeds=[0, 1, 2], purpose="choice", torch_threads=2, reported_on="test", model=SMALL, recipe=Recipe(epochs=18)
)


def run() -> dict:
    recipes = [replace(THIS.recipe, seed=seed) for seed in THIS.seeds]
    return whole_runs([whole_run("fashion_mnist", partial(ViT, THIS.model), recipe) for recipe in recipes])

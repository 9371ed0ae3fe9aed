"""Our recipe of five minutes in whole runs of one, two and three epochs, and what an image costs it and the textbook.

Chapter 10: each run ends with its own schedule, so it is as good as a run of
its length can be; experiments/textbook.py is what they are compared with. The
seconds of an image are clocked in turn with the textbook's own.
"""

import random
from dataclasses import replace

from experiments._data import clothes, enlarged
from experiments._experiment import Experiment
from experiments._models import FAST_VIT, FIVE_MINUTES, TEXTBOOK_RECIPE, fast_vit
from experiments._timing import race
from experiments._trials import plain_products, summary, train, whole_run
from vitbook.textbook import textbook_vit
from vitnb.training import Recipe

THIS = Experiment(
    seeds=[0, 1, 2],
    purpose="choice",
    torch_threads=2,
    reported_on="test",
    **FAST_VIT,
    recipe=FIVE_MINUTES,
    epochs=[1, 2, 3],
    clocked=1_280,  # images a round
    rounds=7,
    beside={"model": "vitbook.textbook.textbook_vit()", "recipe": TEXTBOOK_RECIPE},
)


def run() -> dict:
    found = []
    for epochs in THIS.epochs:
        runs = [one(replace(THIS.recipe, epochs=epochs, seed=seed)) for seed in THIS.seeds]
        found.append({"epochs": epochs} | summary(runs))
    return {"ours": found, "clocked": clocked()}


def one(recipe: Recipe) -> dict:
    run = whole_run(f"few_epochs-{recipe.epochs}", fast_vit, recipe)
    kept = ("seed", "test_accuracy", "looks", "validation_accuracy", "seconds", "images")
    return {key: run[key] for key in kept}


def clocked() -> dict:
    """An epoch of few images by our recipe and by the textbook's, in turn."""
    few = clothes().subset(THIS.clocked, test=0)
    large = enlarged(few)
    runners = {
        "ours": lambda: train(fast_vit, few, replace(THIS.recipe, epochs=1)),
        "textbook": lambda: train(textbook_vit, large, TEXTBOOK_RECIPE),
    }
    with plain_products():
        return race(runners, THIS.rounds, random.Random(THIS.seeds[0]), unit=None)

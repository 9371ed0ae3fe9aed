"""Our recipe of five minutes in whole runs of one, two and three epochs, and what an image costs it and the textbook.

Chapter 10: each run ends with its own schedule, so it is as good as a run of
its length can be; experiments/textbook.py is what they are compared with. The
seconds of an image are clocked in turn with the textbook's own.
"""

import random
from dataclasses import asdict, replace

import torch

from experiments.common import (
    FAST,
    FAST_STEM,
    FIVE_MINUTES,
    TEXTBOOK_RECIPE,
    clothes,
    enlarged,
    fast_vit,
    plain_products,
    race,
    summary,
    train,
    whole_run,
)
from vitbook.textbook import textbook_vit
from vitnb.training import Recipe

EPOCHS, THREADS = [1, 2, 3], 2
CLOCKED, ROUNDS = 1_280, 7  # images a round
SEEDS = [0, 1, 2]
CONFIG = {
    "device": "cpu",
    "data": "fashion_mnist",
    "judged_on": "validation",
    "reported_on": "test",
    "model": FAST.to_dict(),
    "stem": FAST_STEM,
    "recipe": asdict(FIVE_MINUTES),
    "epochs": EPOCHS,
    "clocked": CLOCKED,
    "rounds": ROUNDS,
    "beside": {"model": "vitbook.textbook.textbook_vit()", "recipe": asdict(TEXTBOOK_RECIPE)},
}


def run() -> dict:
    torch.set_num_threads(THREADS)
    found = []
    for epochs in EPOCHS:
        runs = [one(replace(FIVE_MINUTES, epochs=epochs, seed=seed)) for seed in SEEDS]
        found.append({"epochs": epochs} | summary(runs))
    return {"ours": found, "clocked": clocked()}


def one(recipe: Recipe) -> dict:
    run = whole_run(f"few_epochs-{recipe.epochs}", fast_vit, recipe)
    kept = ("seed", "test_accuracy", "looks", "validation_accuracy", "seconds", "images")
    return {key: run[key] for key in kept}


def clocked() -> dict:
    """An epoch of few images by our recipe and by the textbook's, in turn."""
    few = clothes().subset(CLOCKED, test=0)
    large = enlarged(few)
    runners = {
        "ours": lambda: train(fast_vit, few, replace(FIVE_MINUTES, epochs=1)),
        "textbook": lambda: train(textbook_vit, large, TEXTBOOK_RECIPE),
    }
    with plain_products():
        return race(runners, ROUNDS, random.Random(SEEDS[0]), unit=None)

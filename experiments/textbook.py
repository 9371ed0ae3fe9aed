"""The textbook's own model and recipe to the end of its ten epochs, and how much sooner ours is as good.

Chapter 07. The long run takes hours, and goes on where it was interrupted. Ours
is trained for one, two and three epochs, each a whole run that ends with its
own schedule. How long each takes is clocked apart, in turn, because a long run
shares its machine with other programs.
"""

import random
from collections.abc import Callable
from dataclasses import asdict, replace
from statistics import mean, stdev

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from experiments import checkpoint, clothes, five_minutes, ladder, thin
from experiments.peers import race
from vitnb import ViT
from vitnb.data import Dataset
from vitnb.textbook import textbook_vit
from vitnb.training import History, ProgressBar, Recipe, fit
from vitnb.vit import count_parameters

RECIPE = replace(ladder.RECIPE, epochs=10)
OURS, OUR_RECIPE, EPOCHS = five_minutes.MODEL, five_minutes.RECIPE, [1, 2, 3]
CLOCKED, ROUNDS, THREADS = 1_280, 7, 2  # pictures a round
SEEDS = [0, 1, 2]  # the textbook's recipe: the first alone
CONFIG = {
    "device": "cpu",
    "data": "fashion_mnist",
    "textbook": {"model": "vitnb.textbook.textbook_vit()", "pixels": [0, 1], "recipe": asdict(RECIPE)},
    "ours": {"model": OURS.to_dict(), "recipe": asdict(OUR_RECIPE), "epochs": EPOCHS},
    "clocked": CLOCKED,
    "rounds": ROUNDS,
}


def run() -> dict:
    data, chance = clothes(), random.Random(SEEDS[0])
    torch.set_num_threads(THREADS)
    large = enlarged(data)
    textbook = train(large, textbook_vit, RECIPE, "textbook-ten")
    ours = []
    for epochs in EPOCHS:
        recipes = [replace(OUR_RECIPE, epochs=epochs, seed=seed) for seed in SEEDS]
        ends = [train(data, ours_vit, recipe, f"textbook-ours-{epochs}-{recipe.seed}") for recipe in recipes]
        last = [round(history.test_accuracy[-1], 4) for history in ends]
        ours.append({"epochs": epochs, "images": ends[0].images, "test_accuracy": last})
        ours[-1] |= {"test_accuracy_mean": mean(last), "test_accuracy_sd": stdev(last)}
    few, few_large = data.subset(CLOCKED, test=0), large.subset(CLOCKED, test=0)
    clocked = race(
        {
            "ours": lambda: train(few, ours_vit, replace(OUR_RECIPE, epochs=1)),
            "textbook": lambda: train(few_large, textbook_vit, replace(RECIPE, epochs=1)),
        },
        ROUNDS,
        chance,
        unit=None,
    )
    return {
        "textbook": {
            "parameters": count_parameters(textbook_vit()),
            "images": textbook.images,
            "losses": thin(textbook.losses),
            "test_loss_by_epoch": [round(loss, 4) for loss in textbook.test_loss],
            "test_accuracy_by_epoch": [round(a, 4) for a in textbook.test_accuracy],
            "train_accuracy_by_epoch": [round(a, 4) for a in textbook.train_accuracy],
            "seconds": round(textbook.seconds, 1),
        },
        "ours": ours,
        "clocked": clocked,
    }


def train(data: Dataset, build: Callable[[], nn.Module], recipe: Recipe, name: str | None = None) -> History:
    """Train from scratch; a run that has a name goes on where it was interrupted."""
    torch.manual_seed(recipe.seed)
    with sdpa_kernel(SDPBackend.MATH):  # plain products: every run the same kernel
        return fit(build(), data, recipe, [ProgressBar()] if name else (), checkpoint(name) if name else None)


def ours_vit() -> ViT:
    return ViT(OURS)


def enlarged(data: Dataset) -> Dataset:
    """The images as the textbook feeds them: 96 x 96, pixels from 0 to 1."""
    train_images, test_images = (ladder.resized(images, 96) for images in (data.train_images, data.test_images))
    return replace(data, train_images=train_images, test_images=test_images, mean=(0.0,), std=(1.0,))

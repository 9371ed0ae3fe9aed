"""The textbook's recipe to the end of its ten epochs, and how much sooner ours is as good.

Chapter 07. The long run takes hours, and goes on where it was interrupted. Ours
is trained for one, two and three epochs, each a whole run that ends with its
own schedule. How long each takes is clocked apart, in turn, because a long run
shares its machine with other programs.
"""

import random
from dataclasses import asdict, replace
from statistics import mean, stdev

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from experiments import checkpoint, clothes, five_minutes, ladder
from experiments.peers import race
from vitnb import ViT, ViTConfig
from vitnb.data import Dataset
from vitnb.training import History, ProgressBar, Recipe, fit

MODEL, RECIPE = ladder.MODEL, replace(ladder.RECIPE, epochs=10)
OURS, OUR_RECIPE, EPOCHS = five_minutes.MODEL, five_minutes.RECIPE, [1, 2, 3]
CLOCKED, ROUNDS, THREADS = 1_280, 7, 2  # pictures a round
SEEDS = [0, 1, 2]  # the textbook's recipe: the first alone
CONFIG = {
    "device": "cpu",
    "data": "fashion_mnist",
    "textbook": {"model": MODEL.to_dict(), "recipe": asdict(RECIPE)},
    "ours": {"model": OURS.to_dict(), "recipe": asdict(OUR_RECIPE), "epochs": EPOCHS},
    "clocked": CLOCKED,
    "rounds": ROUNDS,
}


def run() -> dict:
    data, chance = clothes(), random.Random(SEEDS[0])
    torch.set_num_threads(THREADS)
    large = replace(data, train_images=big(data.train_images), test_images=big(data.test_images))
    textbook = train(large, MODEL, RECIPE, "textbook-ten")
    ours = []
    for epochs in EPOCHS:
        recipes = [replace(OUR_RECIPE, epochs=epochs, seed=seed) for seed in SEEDS]
        ends = [train(data, OURS, recipe, f"textbook-ours-{epochs}-{recipe.seed}") for recipe in recipes]
        last = [round(history.test_accuracy[-1], 4) for history in ends]
        ours.append({"epochs": epochs, "images": ends[0].images, "test_accuracy": last})
        ours[-1] |= {"test_accuracy_mean": mean(last), "test_accuracy_sd": stdev(last)}
    few, few_large = data.subset(CLOCKED, test=0), large.subset(CLOCKED, test=0)
    clocked = race(
        {
            "ours": lambda: train(few, OURS, replace(OUR_RECIPE, epochs=1)),
            "textbook": lambda: train(few_large, MODEL, replace(RECIPE, epochs=1)),
        },
        ROUNDS,
        chance,
        unit=None,
    )
    return {
        "textbook": {
            "images": textbook.images,
            "test_accuracy_by_epoch": [round(a, 4) for a in textbook.test_accuracy],
            "train_accuracy_by_epoch": [round(a, 4) for a in textbook.train_accuracy],
            "seconds": round(textbook.seconds, 1),
        },
        "ours": ours,
        "clocked": clocked,
    }


def train(data: Dataset, config: ViTConfig, recipe: Recipe, name: str | None = None) -> History:
    """Train from scratch; a run that has a name goes on where it was interrupted."""
    torch.manual_seed(recipe.seed)
    with sdpa_kernel(SDPBackend.MATH):  # plain products: every run the same kernel
        return fit(ViT(config), data, recipe, [ProgressBar()] if name else (), checkpoint(name) if name else None)


def big(images: Tensor) -> Tensor:
    return ladder.resized(images, MODEL.img_size)

"""A ViT beside a convolutional network: as many weights, as many seconds, from 500 to 60,000 training images.

Chapter 10: the small ViT, the same with convolutions before its tokens and
mean pooling, and a plain CNN of the same size. All train by one recipe, each
for the steps that one processor core takes in about a minute. What a step of
each takes is clocked apart, in turn, because a long run shares its machine
with other programs.
"""

import random
from collections.abc import Callable
from dataclasses import asdict, replace

import torch

from experiments.common import BEST, CNN, SMALL, clothes, plain_products, race, summary, trial
from vitnb import ViT
from vitnb.data import Dataset
from vitnb.recipe import Recipe
from vitnb.training import Training, loop

RECIPE = Recipe(batch_size=64)
PICTURES = [500, 2_500, 12_500, 60_000]
STEPS = {  # for each number of images; about equally many seconds for all models, by the clock
    "ViT": [1_250, 1_250, 1_250, 938],
    "ViT, our best": [1_050, 1_050, 1_050, 938],
    "CNN": [640, 640, 585, 560],
}
SEEDS, ROUNDS = [0, 1, 2], 15
CONFIG = {
    "device": "cpu",
    "data": "fashion_mnist",
    "model": SMALL.to_dict(),
    "recipe": asdict(RECIPE),
    "steps": STEPS,
    "pictures": PICTURES,
}


ARMS = {
    "ViT": lambda: ViT(SMALL),
    "ViT, our best": lambda: ViT(BEST),
    "CNN": CNN,
}


def run() -> dict:
    data = clothes()
    torch.set_num_threads(1)
    arms = {arm: {n: trials(data, arm, n) for n in PICTURES} for arm in ARMS}
    return {"arms": arms, "clock": clock(data.subset(6_400, test=0))}


def clock(data: Dataset) -> dict:
    """A training step of each model, in interleaved rounds."""
    return race({arm: stepper(arm, data) for arm in ARMS}, ROUNDS, random.Random(SEEDS[0]), 1.0)


def stepper(arm: str, data: Dataset) -> Callable[[], None]:
    torch.manual_seed(SEEDS[0])
    steps = loop(Training(ARMS[arm]().train(), data, replace(RECIPE, epochs=100)))

    def step() -> None:
        with plain_products():  # as in the runs
            next(steps)

    return step


def trials(data: Dataset, arm: str, pictures: int) -> dict:
    """Train one model with every seed, each on other images; at most those that its steps get to."""
    steps = STEPS[arm][PICTURES.index(pictures)]
    pictures = min(pictures, steps * RECIPE.batch_size)
    epochs = round(steps / (pictures // RECIPE.batch_size))
    runs = []
    for seed in SEEDS:
        recipe = replace(RECIPE, epochs=epochs, seed=seed)
        name = f"cnn-{list(ARMS).index(arm)}-{pictures}-{seed}"
        runs.append(trial(ARMS[arm], data.subset(pictures, seed, test=0), data, recipe, name))
    return summary(runs)

"""Why a friend's wrong model is ahead on the page's digits: positions added more often, or only larger ones.

Chapter 12: the friend's model adds its position table once to the first image
of a batch, twice to the second, and so on. Here it is beside the right model
with 16.5 times its table for every image (in a batch of 32 the friend adds it
as often in the mean), with a table that only begins so large, and, five seeds,
with one that begins at a standard deviation of 1. The right model's own runs
are in `twenty_seeds`, those with the large table in `mutants`.
"""

from dataclasses import replace

import torch
from torch import Tensor

from experiments._experiment import Experiment
from experiments._page import TEST_BATCH, learn, page
from experiments._trials import plain_products
from vitbook import faults
from vitbook.figures._train_data import dataset
from vitnb import ViT
from vitnb.data import Dataset
from vitnb.evaluation import evaluate
from vitnb.positions import LearnedPositions
from vitnb.vit import ViTConfig

DATA, FRIEND = "digits", "growing with each image"
TIMES = sum(range(1, TEST_BATCH + 1)) / TEST_BATCH  # 16.5
THIS = Experiment(
    seeds=list(range(20)),
    **page(DATA),
    test_batch=TEST_BATCH,
    arms={  # the model's fault, its standard deviation of the table, how often the table counts, seeds
        "friend": (FRIEND, 0.02, 1.0, 20),
        "table times 16.5": ("right", 0.02, TIMES, 20),
        "table begins 16.5 times as large": ("right", 0.02 * TIMES, 1.0, 20),
        "friend, std 1": (FRIEND, 1.0, 1.0, 5),
    },
)


class Scaled(LearnedPositions):
    """Adds `times` its table, to every image alike."""

    times = 1.0

    def forward(self, x: Tensor) -> Tensor:
        return x + self.times * self.table


def build(name: str, config: ViTConfig, times: float) -> ViT:
    model = faults.build(name, config) if name != "right" else ViT(config)
    if times != 1.0:
        model.positions.__class__ = Scaled
        model.positions.times = times
    return model


def one(data: Dataset, arm: str, seed: int) -> float:
    """The test accuracy of one arm's model after the last step."""
    name, std, times, _ = THIS.arms[arm]
    torch.manual_seed(seed)
    model = build(name, replace(THIS.model, pos_std=std), times)
    learn(model, name, data, replace(THIS.recipe, seed=seed))
    torch.manual_seed(seed)
    found = evaluate(model, data.normalize(data.test_images), data.test_labels, THIS.test_batch)
    return round(found.accuracy, 4)


def run() -> dict:
    data, found = dataset(DATA), {}
    for arm, (*_, seeds) in THIS.arms.items():
        with plain_products():
            found[arm] = [one(data, arm, seed) for seed in THIS.seeds[:seeds]]
        print(arm, found[arm], flush=True)
    return found

"""Our recipe of five minutes in whole runs of one, two and three epochs.

Chapter 10: each run ends with its own schedule, so it is as good as a run of
its length can be; experiments/textbook.py is what they are compared with.
"""

from dataclasses import asdict, replace
from statistics import mean, stdev

import torch

from experiments.common import BEST, FIVE_MINUTES, clothes, plain_products, train
from vitnb import ViT
from vitnb.data import Dataset
from vitnb.evaluation import History

EPOCHS, THREADS = [1, 2, 3], 2
SEEDS = [0, 1, 2]
CONFIG = {
    "device": "cpu",
    "data": "fashion_mnist",
    "model": BEST.to_dict(),
    "recipe": asdict(FIVE_MINUTES),
    "epochs": EPOCHS,
}


def run() -> dict:
    data = clothes()
    torch.set_num_threads(THREADS)
    found = []
    for epochs in EPOCHS:
        ends = [one(data, epochs, seed) for seed in SEEDS]
        last = [round(history.test_accuracy[-1], 4) for history in ends]
        found.append({"epochs": epochs, "images": ends[0].images, "test_accuracy": last})
        found[-1] |= {"test_accuracy_mean": mean(last), "test_accuracy_sd": stdev(last)}
    return {"ours": found}


def one(data: Dataset, epochs: int, seed: int) -> History:
    recipe = replace(FIVE_MINUTES, epochs=epochs, seed=seed)
    with plain_products():
        return train(lambda: ViT(BEST), data, recipe, f"few_epochs-{epochs}-{seed}")[1]

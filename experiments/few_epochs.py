"""Our recipe of five minutes in whole runs of one, two and three epochs.

Chapter 07: each run ends with its own schedule, so it is as good as a run of
its length can be; experiments/textbook.py is what they are compared with.
"""

from dataclasses import asdict, replace
from statistics import mean, stdev

import torch

from experiments import checkpoint, clothes, five_minutes, textbook

MODEL, RECIPE, EPOCHS = five_minutes.MODEL, five_minutes.RECIPE, [1, 2, 3]
SEEDS = [0, 1, 2]
CONFIG = {
    "device": "cpu",
    "data": "fashion_mnist",
    "model": MODEL.to_dict(),
    "recipe": asdict(RECIPE),
    "epochs": EPOCHS,
}


def run() -> dict:
    data = clothes()
    torch.set_num_threads(textbook.THREADS)
    found = []
    for epochs in EPOCHS:
        recipes = [replace(RECIPE, epochs=epochs, seed=seed) for seed in SEEDS]
        files = [checkpoint(f"few_epochs-{epochs}-{seed}") for seed in SEEDS]
        ends = [textbook.train(data, textbook.ours, r, file) for r, file in zip(recipes, files, strict=True)]
        last = [round(history.test_accuracy[-1], 4) for history in ends]
        found.append({"epochs": epochs, "images": ends[0].images, "test_accuracy": last})
        found[-1] |= {"test_accuracy_mean": mean(last), "test_accuracy_sd": stdev(last)}
    return {"ours": found}

"""A ViT with convolutions before its tokens learns Fashion-MNIST for at most an hour of one CPU core.

The model of the five minutes with more epochs and moved pictures; two seeds at
a time, each on a core of its own. The result of a seed is the accuracy after
its last step.
"""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from multiprocessing import get_context

import torch

from experiments import clothes, five_minutes
from experiments import fashion_mnist as plain

MODEL = five_minutes.MODEL
RECIPE = replace(five_minutes.RECIPE, epochs=60, lr=3e-3, shift=1)
SEEDS = plain.SEEDS
CONFIG = {"data": "fashion_mnist", "device": "cpu", "model": MODEL.to_dict(), "recipe": asdict(RECIPE)}


def run() -> dict:
    torch.set_num_threads(1)
    with ProcessPoolExecutor(2, get_context("spawn"), torch.set_num_threads, [1]) as pool:
        return plain.summary(clothes(), MODEL, list(pool.map(one, SEEDS)))


def one(seed: int) -> dict:
    return plain.one(clothes(), "hour", MODEL, replace(RECIPE, seed=seed))

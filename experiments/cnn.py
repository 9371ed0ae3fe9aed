"""A ViT beside a convolutional network, an MLP and a linear model: as many seconds, from 500 to 55,000 training images.

Chapter 10: the small ViT, the same with convolutions before its tokens and
mean pooling, a plain CNN of the same size, and two baselines. A step of each
is clocked first; then all train for the steps that half a minute of one core
holds. Each has at each number of images its own learning rate, the best of
three in a run with another seed. Judged by 5,000 images held out of the training images.
"""

from dataclasses import asdict, replace
from functools import partial

import torch
from torch import nn

from experiments.common import BEST, CNN, SMALL, Arm, steps_within, summary, trained_for
from vitnb import ViT
from vitnb.training import Recipe


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


MODELS = {
    "linear": linear,
    "MLP": mlp,
    "CNN": CNN,
    "ViT": partial(ViT, SMALL),
    "ViT, our best": partial(ViT, BEST),
}
RECIPE = Recipe(epochs=1, batch_size=64, shift=0)
SECONDS = 30
PICTURES = [500, 5_000, 55_000]
RATES, TUNED_WITH = [1e-3, 3e-3, 1e-2], 100  # the seed of the runs that choose a rate
SEEDS = [0, 1, 2, 3, 4]
CONFIG = {
    "device": "cpu",
    "data": "fashion_mnist",
    "judged_on": "validation",
    "model": SMALL.to_dict(),
    "recipe": asdict(RECIPE),
    "seconds": SECONDS,
    "pictures": PICTURES,
    "rates": RATES,
    "tuned_with": TUNED_WITH,
}


def run() -> dict:
    torch.set_num_threads(1)
    steps = steps_within(SECONDS, "cnn", {model: Arm(build, RECIPE) for model, build in MODELS.items()})
    cases = [(model, n) for model in MODELS for n in PICTURES]
    tried = trained({(*case, lr): lr for case in cases for lr in RATES}, steps, "cnn-rates", [TUNED_WITH])
    found = {case: {lr: tried[*case, lr][0]["validation_accuracy"] for lr in RATES} for case in cases}
    best = {case: max(RATES, key=found[case].get) for case in cases}
    runs = trained(best, steps, "cnn", SEEDS)
    arms = {case: {"lr": best[case], "rates": found[case]} | summary(runs[case]) for case in cases}
    return {"steps": steps, "arms": {model: {n: arms[model, n] for n in PICTURES} for model in MODELS}}


def trained(rates: dict[tuple, float], steps: dict[str, int], name: str, seeds: list[int]) -> dict[tuple, list[dict]]:
    """The runs of each case, a model with a number of images, at its rate."""
    arms = {case: Arm(MODELS[case[0]], replace(RECIPE, lr=lr), pictures=case[1]) for case, lr in rates.items()}
    return trained_for({case: steps[case[0]] for case in arms}, name, arms, seeds)

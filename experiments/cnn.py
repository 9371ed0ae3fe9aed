"""A ViT beside a convolutional network, an MLP and a linear model: as many seconds, from 500 to 55,000 training images.

Chapter 10: the small ViT, the same with convolutions before its tokens and
mean pooling, a plain CNN of the same size, and two baselines. A step of each
is clocked first; then all train for the steps that half a minute of one core
holds. Each has at each number of images its own learning rate, the best of
three in a run with another seed. Judged by 5,000 images held out of the training images.
"""

from dataclasses import replace
from functools import partial

from torch import nn

from experiments._budget import Arm, steps_within, trained_for
from experiments._experiment import Experiment
from experiments._models import BEST, CNN, SMALL
from experiments._trials import summary
from vitnb import ViT
from vitnb.training import Recipe


def linear() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))


MODELS = {"linear": linear, "MLP": mlp, "CNN": CNN, "ViT": partial(ViT, SMALL), "ViT, our best": partial(ViT, BEST)}
THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="choice",
    side_by_side=2,
    model=SMALL,
    recipe=Recipe(epochs=1, batch_size=64, shift=0),
    seconds=30,
    images=[500, 5_000, 55_000],
    rates=[1e-3, 3e-3, 1e-2],
    tuned_with=100,  # the seed of the runs that choose a learning rate
)


def run() -> dict:
    steps = steps_within(THIS.seconds, "cnn", {model: Arm(build, THIS.recipe) for model, build in MODELS.items()})
    cases = [(model, n) for model in MODELS for n in THIS.images]
    tried = trained({(*case, lr): lr for case in cases for lr in THIS.rates}, steps, "cnn-rates", [THIS.tuned_with])
    found = {case: {lr: tried[*case, lr][0]["validation_accuracy"] for lr in THIS.rates} for case in cases}
    best = {case: max(THIS.rates, key=found[case].get) for case in cases}
    runs = trained(best, steps, "cnn", THIS.seeds)
    arms = {case: {"lr": best[case], "rates": found[case]} | summary(runs[case]) for case in cases}
    return {"steps": steps, "arms": {model: {n: arms[model, n] for n in THIS.images} for model in MODELS}}


def trained(rates: dict[tuple, float], steps: dict[str, int], name: str, seeds: list[int]) -> dict[tuple, list[dict]]:
    """The runs of each case, a model with a number of images, at its learning rate."""
    arms = {case: Arm(MODELS[case[0]], replace(THIS.recipe, lr=lr), images=case[1]) for case, lr in rates.items()}
    return trained_for({case: steps[case[0]] for case in arms}, name, arms, seeds)

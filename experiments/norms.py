"""Deep post-norm stacks learn little in a short training; pre-norm learns; small gains on its branches save post-norm.

Chapter 06: depth, norm, warm-up and learning rate, every combination, in a
small ViT that is trained for 150 steps; then depth 36 again with LayerScale
(Touvron et al. 2021), and with the bug "normalise, then add". Every finished
run is kept: a second start goes on.
"""

import itertools
import time
from dataclasses import replace
from functools import partial

from experiments._data import clothes
from experiments._experiment import Experiment
from experiments._models import GAINS, STACK, STACK_RECIPE, STACK_STEPS, stack
from experiments._trials import kept_runs
from vitbook.faults.wire import NormaliseThenAdd
from vitnb import ViT
from vitnb.data import Dataset
from vitnb.training import fit

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="mechanism",
    steps=STACK_STEPS,
    test_images=2000,
    depths=(6, 12, 24, 36),
    norms=("pre", "post"),
    warmup_steps=(0, 50),
    learning_rates=(1e-3, 3e-3),
    gains=GAINS,
    model=STACK,
    recipe=STACK_RECIPE,
)


def build(depth: int, norm: str, change: str, seed: int) -> ViT:
    """One stack; a change leaves the weights of the seed as they are."""
    model = stack(depth, norm, change, seed)
    for block in model.blocks if change == "normalise then add" else ():
        block.__class__ = NormaliseThenAdd
    return model


def one(data: Dataset, depth: int, norm: str, warmup: int, lr: float, change: str, seed: int) -> float:
    """The test accuracy after the last step; a loss that is NaN counts as guessing."""
    recipe = replace(THIS.recipe, lr=lr, warmup=warmup / THIS.steps, seed=seed)
    try:
        return fit(build(depth, norm, change, seed), data, recipe).test_accuracy[-1]
    except FloatingPointError:
        return 1 / len(data.classes)


def arms() -> list[tuple]:
    grid = [(*arm, "") for arm in itertools.product(THIS.depths, THIS.norms, THIS.warmup_steps, THIS.learning_rates)]
    grid += [(THIS.depths[-1], norm, 0, lr, "layer scale") for norm in THIS.norms for lr in THIS.learning_rates]
    bugs = [("pre", "normalise then add"), ("post", "layer scale from 1")]
    return grid + [(THIS.depths[-1], norm, 0, THIS.learning_rates[-1], change) for norm, change in bugs]


def run() -> dict:
    data = clothes()
    data = data.subset(THIS.steps * THIS.recipe.batch_size, test=THIS.test_images)
    kept, found, seconds = kept_runs("norms-runs"), [], 0.0
    for arm in arms():
        runs = [kept(f"{arm}, seed {seed}", partial(timed, data, *arm, seed)) for seed in THIS.seeds]
        seconds += sum(taken for _, taken in runs)
        names = ("depth", "norm", "warmup", "lr", "change")
        found.append(dict(zip(names, arm, strict=True)) | {"accuracy": [accuracy for accuracy, _ in runs]})
    return {"seconds_of_all_runs": round(seconds), "arms": found}


def timed(*case) -> list[float]:
    """What one() finds, and its seconds."""
    start = time.perf_counter()
    return [round(one(*case), 4), round(time.perf_counter() - start, 1)]

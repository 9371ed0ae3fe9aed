"""Deep post-norm stacks learn little in a short training; pre-norm learns; small gains on its branches save post-norm.

Chapter 06: depth, norm, warm-up and learning rate, every combination, in a
small ViT that is trained for 150 steps; then depth 36 again with LayerScale
(Touvron et al. 2021), and with the bug "normalise, then add". Every finished
run is kept: a second start goes on.
"""

import itertools
import time
from dataclasses import asdict, replace

import torch

from experiments.common import GAINS, STACK, STACK_RECIPE, STACK_STEPS, checkpoint, clothes, stack
from vitbook.faults.wire import NormaliseThenAdd
from vitnb import ViT
from vitnb._files import replacing
from vitnb.data import Dataset
from vitnb.training import fit

TEST_PICTURES = 2000
DEPTHS, NORMS, WARMUPS, RATES = (6, 12, 24, 36), ("pre", "post"), (0, 50), (1e-3, 3e-3)
SEEDS = [0, 1, 2, 3, 4]
CONFIG = {
    "data": "fashion_mnist",
    "device": "cpu",
    "judged_on": "test",  # it shows a mechanism, and chooses nothing
    "steps": STACK_STEPS,
    "test_pictures": TEST_PICTURES,
    "depths": DEPTHS,
    "norms": NORMS,
    "warmup_steps": WARMUPS,
    "learning_rates": RATES,
    "gains": GAINS,
    "model": STACK.to_dict(),
    "recipe": asdict(STACK_RECIPE),
}


def build(depth: int, norm: str, change: str, seed: int) -> ViT:
    """One stack; a change leaves the weights of the seed as they are."""
    model = stack(depth, norm, change, seed)
    for block in model.blocks if change == "normalise then add" else ():
        block.__class__ = NormaliseThenAdd
    return model


def one(data: Dataset, depth: int, norm: str, warmup: int, lr: float, change: str, seed: int) -> float:
    """The test accuracy after the last step; a loss that is no number counts as guessing."""
    recipe = replace(STACK_RECIPE, lr=lr, warmup=warmup / STACK_STEPS, seed=seed)
    try:
        return fit(build(depth, norm, change, seed), data, recipe).test_accuracy[-1]
    except FloatingPointError:
        return 1 / len(data.classes)


def arms() -> list[tuple]:
    grid = [(*arm, "") for arm in itertools.product(DEPTHS, NORMS, WARMUPS, RATES)]
    grid += [(DEPTHS[-1], norm, 0, lr, "layer scale") for norm in NORMS for lr in RATES]
    bugs = [("pre", "normalise then add"), ("post", "layer scale from 1")]
    return grid + [(DEPTHS[-1], norm, 0, RATES[-1], change) for norm, change in bugs]


def run() -> dict:
    data = clothes()
    data = data.subset(STACK_STEPS * STACK_RECIPE.batch_size, test=TEST_PICTURES)
    torch.set_num_threads(1)
    file = checkpoint("norms").with_name("norms-runs.pt")  # the runner deletes it when all is stored
    runs: dict[str, list[float]] = torch.load(file, weights_only=True) if file.exists() else {}
    for arm, seed in itertools.product(arms(), SEEDS):
        key, start = f"{arm}, seed {seed}", time.perf_counter()
        if key not in runs:
            runs[key] = [round(one(data, *arm, seed), 4), round(time.perf_counter() - start, 1)]
            print(key, *runs[key], flush=True)
            with replacing(file) as part:
                torch.save(runs, part)
    names = ("depth", "norm", "warmup", "lr", "change")
    return {
        "seconds_of_all_runs": round(sum(seconds for _, seconds in runs.values())),
        "arms": [
            dict(zip(names, arm, strict=True)) | {"accuracy": [runs[f"{arm}, seed {seed}"][0] for seed in SEEDS]}
            for arm in arms()
        ],
    }

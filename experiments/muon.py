"""How much of a training step PyTorch's Muon takes by multiplying in bfloat16, and whether float32 is as accurate.

The step of the fast and of the wide recipe, with PyTorch's Muon and with the
book's, in turn on one thread. Then the fast recipe with both, for ten epochs of
6,000 images, judged by 5,000 images held out of the training images.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import nn

from experiments._budget import Arm, drawn, held_out_accuracy, once, two_at_a_time
from experiments._data import validated
from experiments._experiment import Experiment
from experiments._models import FAST_VIT, WIDER_VIT, fast_vit, wider_vit
from experiments._timing import bfloat16_instructions, race
from experiments._trials import kept_runs, plain_products, summary
from vitnb import ViT
from vitnb.data import Dataset
from vitnb.training import Muon, Recipe, Training, muon_matrices

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="choice",
    side_by_side=2,
    models={"fast": FAST_VIT, "wide": WIDER_VIT},
    recipe=Recipe(epochs=10, optimizer="muon"),
    images=6_000,
    optimizers=["vitnb", "torch"],
    rounds=25,
)


def run() -> dict:
    steps = kept_runs("muon-steps")("steps", timed)
    jobs = [(name, seed) for name in THIS.optimizers for seed in THIS.seeds]
    runs = dict(zip(jobs, two_at_a_time(one_run, jobs), strict=True))
    arms = {name: summary([runs[name, seed] for seed in THIS.seeds]) for name in THIS.optimizers}
    return {"bfloat16_instructions": bfloat16_instructions(), "steps": steps, "arms": arms}


def timed() -> dict:
    """Seconds of a step with each optimizer, and how many times as long as the book's it takes."""
    data, found = validated(), {}
    for name, build in (("fast", fast_vit), ("wide", wider_vit)):
        steps = {optimizer: training(build, data, THIS.recipe, optimizer).train_step for optimizer in THIS.optimizers}
        with plain_products():
            found[name] = race(steps, THIS.rounds, random.Random(0))
    return found


def training(build: Callable[[], ViT], data: Dataset, recipe: Recipe, optimizer: str) -> Training:
    """The training of a recipe, in which one of the two trains the matrices of the blocks."""
    torch.manual_seed(recipe.seed)
    model = build()
    begun = Training(model, data, recipe)
    begun.optimizers[1:] = [muon(optimizer, muon_matrices(model), recipe)]
    return begun


def muon(name: str, matrices: list[nn.Parameter], recipe: Recipe) -> torch.optim.Optimizer:
    if name == "vitnb":
        return Muon(matrices, recipe.lr, recipe.weight_decay)
    return torch.optim.Muon(matrices, recipe.lr, recipe.weight_decay, adjust_lr_fn="match_rms_adamw")


def one_run(job: tuple[str, int]) -> dict:
    name, seed = job
    return kept_runs(f"muon-{name}-{seed}")(name, partial(judged, name, seed))


def judged(name: str, seed: int) -> dict:
    recipe = replace(THIS.recipe, seed=seed)
    data, _ = drawn(Arm(fast_vit, recipe, images=THIS.images), 1, once())
    begun = training(fast_vit, data, recipe, name)
    with plain_products():
        while not begun.finished:
            begun.train_step()
    return {
        "seed": seed,
        "validation_accuracy": round(held_out_accuracy(begun.model, once(), 28), 4),
        "distinct_images": THIS.images,
        "cpu_seconds": round(begun.history.cpu_seconds, 1),
        "seconds": round(begun.history.seconds, 1),
    }

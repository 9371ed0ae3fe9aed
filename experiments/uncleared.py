"""What two wrong training steps cost a small ViT, with and without clipping: a forgotten zero_grad, a hasty scheduler.

Chapter 12: the small ViT of TrainRace on the page's digits. All runs of a seed
start with the same weights and see the same batches. The accuracy on the test
images after the last step; a loss that is NaN counts as guessing.
"""

import math

import torch
from torch.nn.utils import clip_grad_norm_

from experiments._experiment import Experiment
from experiments._page import page
from experiments._trials import plain_products
from vitbook import faults
from vitbook.figures._train_data import dataset
from vitnb import ViT
from vitnb.data import Dataset
from vitnb.evaluation import evaluate
from vitnb.training import decay_groups

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    **page("digits"),
    faults=("gradients never cleared", "scheduler before optimizer"),
    clips={"clipped": True, "not clipped": False},
)


def one(data: Dataset, name: str, clips: bool, seed: int) -> float:
    """Train by one kind of step, and return the test accuracy."""
    step = faults.train.step if name == "right" else faults.FAULTS[name].wrong
    torch.manual_seed(seed)
    model = ViT(THIS.model)
    groups = decay_groups(model, THIS.recipe.weight_decay)
    optimizer = torch.optim.AdamW(groups, lr=1.0, betas=THIS.recipe.betas)
    images, labels = data.normalize(data.train_images), data.train_labels
    batches = len(labels) // THIS.recipe.batch_size
    steps = THIS.recipe.epochs * batches
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: THIS.recipe.lr_at(min(n, steps - 1), steps))
    if clips:

        def clip(*_: object) -> None:  # what a hook returns would be the optimizer's
            clip_grad_norm_(model.parameters(), THIS.recipe.clip)

        optimizer.register_step_pre_hook(clip)
    generator = torch.Generator().manual_seed(seed)
    for _ in range(THIS.recipe.epochs):
        for chosen in torch.randperm(len(labels), generator=generator).split(THIS.recipe.batch_size)[:batches]:
            if not math.isfinite(step(model, optimizer, scheduler, images[chosen], labels[chosen])):
                return 1 / len(data.classes)
    return round(evaluate(model, data.normalize(data.test_images), data.test_labels).accuracy, 4)


def run() -> dict:
    data, found = dataset("digits"), {}
    for way, clips in THIS.clips.items():
        with plain_products():
            found[way] = {
                name: [one(data, name, clips, seed) for seed in THIS.seeds] for name in ("right", *THIS.faults)
            }
        print(way, found[way], flush=True)
    return {"accuracy": found}

"""The small ViT of the page, right or with a fault of the clinic, trained in a loop that may have one too."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

from experiments._experiment import Experiment
from experiments._models import PAGE_RECIPE
from experiments._trials import kept_runs, plain_products
from vitbook import faults
from vitbook.faults.train import gradient, lr_at, order
from vitbook.figures._train_data import CONFIGS, dataset
from vitnb import ViT, ViTConfig
from vitnb.data import Dataset
from vitnb.evaluation import evaluate
from vitnb.training import Recipe, decay_groups

RECIPES = {"digits": PAGE_RECIPE, "fashion_mnist": replace(PAGE_RECIPE, epochs=3)}
PART = 12  # images at once, where a fault is in how a batch is worked off in parts
TEST_BATCH = 32  # as in the page: what mixes the images of a batch depends on it
SEEDS = [0, 1, 2, 3, 4]
FROM_THE_FIELD = (  # trained in field_faults.py, not in mutants.py
    "combs",
    "map reshaped",
    "norm on the skip",
    "added to itself",
    "without non linearity",
    "ends in an activation",
)
ORDERED = ("split by view", "merged by reshape")  # two faults that give away where a token stands


def page(data: str) -> dict[str, Any]:
    """What an experiment with the models of the page sets: its data, its model and how that is trained."""
    source = "vitbook.figures._train_data.dataset"
    return {"purpose": "mechanism", "data": source, "model": CONFIGS[data], "recipe": RECIPES[data]}


def build(name: str, config: ViTConfig) -> ViT:
    in_a_model = name != "right" and faults.FAULTS[name].seen_by is not None
    return faults.build(name, config) if in_a_model else ViT(config)


def learn(model: nn.Module, name: str, data: Dataset, recipe: Recipe) -> float:
    """Train a model in a loop that has the fault of this name, if a loop can have it; give the last loss."""
    fault = faults.FAULTS.get(name)

    def part(right: Callable) -> Callable:
        return fault.wrong if fault and fault.replaces is right else right

    rate = part(Recipe.lr_at) if part(Recipe.lr_at) is not Recipe.lr_at else lr_at
    optimizer = torch.optim.AdamW(part(decay_groups)(model, recipe.weight_decay), betas=recipe.betas, fused=True)
    generator = torch.Generator().manual_seed(recipe.seed)
    images, labels, size = data.normalize(data.train_images), data.train_labels, recipe.batch_size
    batches = len(labels) // size
    steps = recipe.epochs * batches
    for step in range(steps):
        if step % batches == 0:
            numbers = part(order)(labels, generator).split(size)
        chosen = numbers[step % batches]  # (B,)
        loss = backward(model, images[chosen], labels[chosen], part(gradient))
        clip_grad_norm_(model.parameters(), recipe.clip)
        for group in optimizer.param_groups:
            group["lr"] = rate(step, steps, recipe.lr, round(recipe.warmup * steps))
        optimizer.step()
        if not math.isfinite(loss):
            break
    return loss


def backward(model: nn.Module, images: Tensor, labels: Tensor, slope: Callable) -> float:
    """Leave the gradient of a batch in the parameters; give its loss."""
    if slope is gradient:
        model.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        return loss.item()
    parameters = list(model.parameters())
    vector = slope(model, images, labels, PART)
    for parameter, numbers in zip(parameters, vector.split([p.numel() for p in parameters]), strict=True):
        parameter.grad = numbers.view_as(parameter)
    return vector.norm().item()  # NaN where the loss is NaN


def one(data: Dataset, name: str, config: ViTConfig, recipe: Recipe) -> float:
    """The test accuracy of one model after the last step."""
    torch.manual_seed(recipe.seed)
    model = build(name, config)
    if not math.isfinite(learn(model, name, data, recipe)):
        return 1 / len(data.classes)
    torch.manual_seed(recipe.seed)
    found = evaluate(model, data.normalize(data.test_images), data.test_labels, TEST_BATCH)
    return round(found.accuracy, 4)


def of_faults(plans: dict[str, tuple]) -> Experiment:
    """An experiment that trains the small ViT of the page with the faults of these plans."""
    return Experiment(
        seeds=SEEDS,
        purpose="mechanism",
        data="vitbook.figures._train_data.dataset",
        models=CONFIGS,
        recipes=RECIPES,
        part=PART,
        test_batch=TEST_BATCH,
        plans={plan: {"data": data, "changes": changes} for plan, (data, changes, _) in plans.items()},
    )


def accuracies(experiment: str, plans: dict) -> dict[str, dict[str, list[float]]]:
    """Train all; every fault's runs are kept when they are finished, and a second start goes on."""
    results = {}
    for plan, (source, changes, chosen) in plans.items():
        kept = kept_runs(f"{experiment}-{plan.replace(', ', '-').replace(' ', '-')}")
        results[plan] = {name: kept(name, partial(runs, source, changes, name)) for name in ("right", *chosen)}
    return results


def runs(source: str, changes: dict, name: str) -> list[float]:
    """The test accuracies of one fault, or of the right model, by seed."""
    data, config = dataset(source), replace(CONFIGS[source], **changes)
    with plain_products():
        return [one(data, name, config, replace(RECIPES[source], seed=seed)) for seed in SEEDS]

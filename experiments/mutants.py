"""The test accuracy of a small ViT with each fault of the clinic, beside that of the right one: five runs each.

Chapters 00 and 12: the small ViT of TrainRace (vitnb.figures) with the page's
own images, and the same with each fault of the clinic that a model or a
training loop can have; on Fashion-MNIST with those that people have published.
All runs of a seed start with the same weights and see the same batches. Nothing
is chosen by the test accuracy, which is that after the last step; a loss that
is no number counts as guessing. Where a model draws its cls token anew in each
call, another run gives other numbers.
"""

import math
from collections.abc import Callable
from dataclasses import asdict, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

from experiments.common import PAGE_RECIPE, checkpoint, plain_products
from vitnb import ViT, ViTConfig, clinic
from vitnb._files import replacing
from vitnb.clinic.train import gradient, lr_at, order
from vitnb.data import Dataset
from vitnb.evaluation import evaluate
from vitnb.figures._train_data import CONFIGS, dataset
from vitnb.recipe import Recipe, decay_groups

RECIPES = {
    "digits": PAGE_RECIPE,
    "fashion_mnist": replace(PAGE_RECIPE, epochs=3),
}
PART = 12  # images at once, where a fault is in how a batch is worked off in parts
TEST_BATCH = 32  # as in the page: what mixes the images of a batch depends on it
# With one channel and square images these are no faults; the last one takes batches of one size only.
LEFT_OUT = ("channels last", "channels reversed", "sides swapped", "for each image")
# What people have published: the patients of the ward, and a few more.
WRITTEN = [
    *(name for name in clinic.PATIENTS if name not in LEFT_OUT),
    "no plus",
    "mean with cls",
    "everything decays",
    "gradient not cleared",
    "not shuffled",
]
IN_TRAINING = (Recipe.lr_at, decay_groups, gradient, order)  # what a fault of a loop replaces
OTHERS = [
    name
    for in_training in (False, True)
    for name, fault in clinic.FAULTS.items()
    if name not in (*WRITTEN, *LEFT_OUT)
    and (fault.replaces in IN_TRAINING if in_training else fault.seen_by is not None)
]
ORDERED = ("split by view", "merged by reshape")  # two faults that give away where a token stands
PLANS = {  # name of the result: images, changes of the model, faults
    "digits": ("digits", {}, (*WRITTEN, *OTHERS)),
    "digits, std 1": ("digits", {"pos_std": 1.0}, ORDERED),
    "digits, none": ("digits", {"pos_embed": "none"}, ORDERED),
    "fashion_mnist": ("fashion_mnist", {}, WRITTEN),
}
SEEDS = [0, 1, 2, 3, 4]
CONFIG = {
    "device": "cpu",
    "judged_on": "test",  # it shows a mechanism, and chooses nothing
    "data": "vitnb.figures._train_data.dataset",
    "models": {name: config.to_dict() for name, config in CONFIGS.items()},
    "recipes": {name: asdict(recipe) for name, recipe in RECIPES.items()},
    "part": PART,
    "test_batch": TEST_BATCH,
    "plans": {plan: {"data": data, "changes": changes} for plan, (data, changes, _) in PLANS.items()},
}


def build(name: str, config: ViTConfig) -> ViT:
    in_a_model = name != "right" and clinic.FAULTS[name].seen_by is not None
    return clinic.build(name, config) if in_a_model else ViT(config)


def learn(model: nn.Module, name: str, data: Dataset, recipe: Recipe) -> float:
    """Train a model in a loop that has the fault of this name, if a loop can have it; give the last loss."""
    fault = clinic.FAULTS.get(name)

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
    return vector.norm().item()  # no number where the loss is none


def one(data: Dataset, name: str, config: ViTConfig, recipe: Recipe) -> float:
    """The test accuracy of one model after the last step."""
    torch.manual_seed(recipe.seed)
    model = build(name, config)
    if not math.isfinite(learn(model, name, data, recipe)):
        return 1 / len(data.classes)
    torch.manual_seed(recipe.seed)
    found = evaluate(model, data.normalize(data.test_images), data.test_labels, TEST_BATCH)
    return round(found.accuracy, 4)


def run() -> dict:
    """Train all; every fault's runs are kept when they are finished, and a second start goes on."""
    torch.set_num_threads(1)
    results: dict[str, dict[str, list[float]]] = {}
    for plan, (source, changes, faults) in PLANS.items():
        data, config, results[plan] = dataset(source), replace(CONFIGS[source], **changes), {}
        file = checkpoint(f"mutants-{plan.replace(', ', '-').replace(' ', '-')}")
        kept = torch.load(file, weights_only=True) if file.exists() else {}
        for name in ("right", *faults):
            if name not in kept:
                with plain_products():
                    kept[name] = [one(data, name, config, replace(RECIPES[source], seed=seed)) for seed in SEEDS]
                print(f"{plan}, {name}: {kept[name]}", flush=True)
                with replacing(file) as part:
                    torch.save(kept, part)
            results[plan][name] = kept[name]
    return {"results": results}

"""What mixup, cutmix, stochastic depth, averaged weights and growing batches add to the fast recipe for equal images.

The model of the five minutes on 6,000 training images for twenty epochs,
mirrored and shifted, as in augmentation.py. Judged by 5,000 images held out of
the training images.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torchvision.ops import StochasticDepth
from torchvision.transforms.v2 import CutMix, MixUp

from experiments._budget import Arm, drawn, held_out_accuracy, once, two_at_a_time
from experiments._experiment import Experiment
from experiments._models import FAST_VIT, fast_vit
from experiments._trials import kept_runs, plain_products, summary
from vitnb import ViT
from vitnb.data import Dataset
from vitnb.training import Batches, Recipe, make_optimizers

THIS = Experiment(
    seeds=[0, 1, 2, 3],
    purpose="choice",
    side_by_side=2,
    **FAST_VIT,
    recipe=Recipe(epochs=20, optimizer="muon"),
    images=6_000,
    candidates={
        "as it is": {},
        "mixup": {"mixup": 0.2},  # alpha: how much of either image is drawn from Beta(alpha, alpha)
        "cutmix": {"cutmix": 1.0},
        "stochastic depth": {"drop_path": 0.1},  # in the last block, rising to it from none in the first
        "averaged weights": {"ema": 0.99},
        "growing batches": {"batch_sizes": [64, 256]},  # half of the epochs each
    },
)


def run() -> dict:
    jobs = [(name, seed) for name in THIS.candidates for seed in THIS.seeds]
    runs = dict(zip(jobs, two_at_a_time(one_run, jobs), strict=True))
    return {"arms": {name: summary([runs[name, seed] for seed in THIS.seeds]) for name in THIS.candidates}}


def one_run(job: tuple[str, int]) -> dict:
    name, seed = job
    return kept_runs(f"candidates-{name}-{seed}")(name, partial(judged, name, seed))


def judged(name: str, seed: int) -> dict:
    """Train with one candidate on images that the seed draws; judge by the validation images."""
    recipe = replace(THIS.recipe, seed=seed)
    data, _ = drawn(Arm(fast_vit, recipe, images=THIS.images), 1, once())
    torch.manual_seed(seed)
    model, sizes = trained(fast_vit(), data, recipe, **THIS.candidates[name])
    return {
        "seed": seed,
        "validation_accuracy": round(held_out_accuracy(model, once(), 28), 4),
        "steps": len(sizes),
        "images": sum(sizes),
        "distinct_images": THIS.images,
    }


def trained(
    model: ViT,
    data: Dataset,
    recipe: Recipe,
    mixup: float = 0.0,
    cutmix: float = 0.0,
    drop_path: float = 0.0,
    ema: float = 0.0,
    batch_sizes: Sequence[int] = (),
) -> tuple[nn.Module, list[int]]:
    """The model as fit trains it, but for these changes; and how many images each step took."""
    mixes = [kind(alpha=a, num_classes=len(data.classes)) for kind, a in ((MixUp, mixup), (CutMix, cutmix)) if a]
    for n, block in enumerate(model.blocks if drop_path else ()):
        p = drop_path * n / (len(model.blocks) - 1)
        block.ls1, block.ls2 = (nn.Sequential(scale, StochasticDepth(p, "row")) for scale in (block.ls1, block.ls2))
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(ema), use_buffers=True) if ema else None
    optimizers, plan = make_optimizers(model, recipe), planned(data, recipe, batch_sizes or [recipe.batch_size])
    model.train()
    with plain_products():
        for step, (batches, number) in enumerate(plan):
            images, labels = batches.draw(number)
            for mix in mixes:
                images, labels = mix(images, labels)
            for optimizer in optimizers:
                optimizer.zero_grad()
                for group in optimizer.param_groups:
                    group["lr"] = recipe.lr_at(step, len(plan))
            F.cross_entropy(model(images), labels).backward()
            nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
            for optimizer in optimizers:
                optimizer.step()
            if average:
                average.update_parameters(model)
    return (average.module if average else model).eval(), [batches.recipe.batch_size for batches, _ in plan]


def planned(data: Dataset, recipe: Recipe, batch_sizes: Sequence[int]) -> list[tuple[Batches, int]]:
    """For each step the batches that it draws from, and its number there; each size has its share of the epochs."""
    plan, epochs = [], recipe.epochs // len(batch_sizes)
    for n, size in enumerate(batch_sizes):
        batches = Batches(data, replace(recipe, batch_size=size))
        steps = epochs * batches.per_epoch
        plan += [(batches, n * steps + i) for i in range(steps)]
    return plan

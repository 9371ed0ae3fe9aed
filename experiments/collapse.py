"""Without a warm-up, most deep post-norm stacks give all images nearly the same vector; with one, most do so later.

Chapter 06: 36 blocks, trained as in the experiment `norms` at its higher
learning rate: pre- and post-norm, with and without warm-up, and post-norm with
LayerScale. On the way we ask how much of the pooled feature differs between
images, how large the push is, what the branches add to all images alike, how much
of the distance between images a block leaves, and how long the gradient of each
block's MLP is.
"""

import copy
import itertools
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from experiments._data import clothes
from experiments._experiment import Experiment
from experiments._models import GAINS, STACK, STACK_RECIPE, STACK_STEPS, stack
from vitnb import ViT
from vitnb.data import Dataset
from vitnb.training import fit

DEPTH, LR, WARMUP = 36, 3e-3, 50
ARMS = [("pre", 0, ""), ("pre", WARMUP, ""), ("post", 0, ""), ("post", WARMUP, ""), ("post", 0, "layer scale")]
THIS = Experiment(
    seeds=list(range(20)),
    purpose="mechanism",
    depth=DEPTH,
    lr=LR,
    warmup_steps=WARMUP,
    steps=STACK_STEPS,
    looks=[0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, *range(20, STACK_STEPS + 1, 5)],  # the steps after which it looks
    push_steps=[0, 1, 2, 3, 5, 8, 12, 20, 30, 40, 50, 55, 60, 80, STACK_STEPS],
    gradient_steps=[0, WARMUP, STACK_STEPS],
    probe_images=256,
    test_images=2000,
    gains=GAINS,
    model=replace(STACK, depth=DEPTH),
    recipe=replace(STACK_RECIPE, lr=LR),
)


@torch.no_grad()
def share_between(features: Tensor) -> float:
    """How much of the features (B, D) differs between images: 0 if all images have the same vector.

    The mean squared distance from the images' mean vector, divided by the
    mean squared length.
    """
    y = features.double()
    return ((y - y.mean(0)).square().sum() / y.square().sum()).item()


def mlp_gradients(model: ViT, images: Tensor, labels: Tensor) -> list[float]:
    """The length of the loss's gradient in the MLP of each block."""
    loss = F.cross_entropy(model(images), labels)
    mlps = [list(block.mlp.parameters()) for block in model.blocks]
    grads = iter(torch.autograd.grad(loss, list(itertools.chain(*mlps))))
    return [nn.utils.get_total_norm([next(grads) for _ in mlp]).item() for mlp in mlps]


@torch.no_grad()
def push(model: ViT, images: Tensor) -> tuple[float, float]:
    """The root mean square of what the branches add to all images alike, and what a block leaves of their distance."""
    model, common = copy.deepcopy(model).double(), []
    for block in model.blocks:
        for branch in (block.attention, block.mlp):
            branch.register_forward_hook(lambda _, given, out: common.append(out.mean(0).square().mean()))
    tokens = model.forward_intermediates(images.double())
    first, last = (tokens[f"block_{n}"] for n in (1, len(model.blocks)))
    far = [(x - x.mean(0)).square().mean().sqrt() for x in (first, last)]
    left = (far[1] / far[0]).item() ** (1 / (len(model.blocks) - 1))
    return float(f"{torch.stack(common).mean().sqrt():.4g}"), float(f"{left:.4g}")


def one(data: Dataset, norm: str, warmup: int, change: str, seed: int) -> dict:
    """Train one stack and look at it on the way."""
    model = stack(THIS.depth, norm, change, seed)
    probe = data.normalize(data.test_images[: THIS.probe_images])  # (B, C, H, W)
    first = data.normalize(data.train_images[: STACK_RECIPE.batch_size]), data.train_labels[: STACK_RECIPE.batch_size]
    between, pushes, gradients = [], [], []

    def look(step: int) -> None:
        if step in THIS.looks:
            with torch.no_grad():
                between.append(round(share_between(model.pool(model.forward_features(probe))), 5))
        if step in THIS.push_steps:
            pushes.append(push(model, probe))
        if step in THIS.gradient_steps:
            gradients.append([float(f"{g:.4g}") for g in mlp_gradients(model, *first)])

    look(0)
    history = fit(
        model, data, replace(THIS.recipe, warmup=warmup / THIS.steps, seed=seed), [lambda run: look(run.step)]
    )
    return {
        "between": between,
        "push": [size for size, _ in pushes],
        "left_by_block": [left for _, left in pushes],
        "gradients": gradients,
        "losses": [round(loss, 4) for loss in history.losses],
        "accuracy": round(history.test_accuracy[-1], 4),
    }


def run() -> dict:
    data = clothes().subset(THIS.steps * STACK_RECIPE.batch_size, test=THIS.test_images)
    arms = []
    for norm, warmup, change in ARMS:
        runs = [one(data, norm, warmup, change, seed) for seed in THIS.seeds]
        print(norm, warmup, change, [r["accuracy"] for r in runs], flush=True)
        found = {key: [r[key] for r in runs] for key in runs[0]}  # one entry a seed
        arms.append({"norm": norm, "warmup": warmup, "change": change} | found)
    return {"arms": arms}

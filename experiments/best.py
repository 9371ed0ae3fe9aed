"""A small ViT on a GPU: how far fewer than four million parameters get on Fashion-MNIST, and how soon.

Watched by validation images; the test images are looked at once. Needs a GPU.
`VITNB_FAST=1 python -m experiments best` goes the same way on any machine with
one epoch of few images, and stores nothing.
"""

from dataclasses import replace
from statistics import mean, stdev

import torch
from torch.utils.flop_counter import FlopCounterMode

from experiments._data import clothes, validated
from experiments._experiment import Experiment
from experiments._timing import DEVICE, seconds_of
from experiments._trials import train
from vitbook import budget
from vitnb import ViT, ViTConfig, record_attention
from vitnb.data import Dataset
from vitnb.evaluation import final_test, looks
from vitnb.training import Recipe
from vitnb.vit import count_parameters

THIS = Experiment(
    seeds=[0, 1, 2],
    purpose="choice",
    torch_threads=None,
    device="cuda",
    reported_on="test",
    model=ViTConfig(
        patch_size=4,
        embed_dim=256,
        depth=6,
        num_heads=8,
        mlp_ratio=2.0,
        stem="conv",
        global_pool="mean",
        dropout=0.1,
        pos_std=1.0,
    ),
    recipe=Recipe(epochs=150, batch_size=256, lr=1e-3, label_smoothing=0.1, shift=2, erase=0.25),
    goal=0.94,
)


def run() -> dict:
    if DEVICE == "cpu" and not budget(False, True):
        raise SystemExit("This experiment needs a GPU; VITNB_FAST=1 goes the same way at small size on any machine.")
    data, epochs = validated(), budget(THIS.recipe.epochs, 1)
    if budget(False, True):
        data = data.subset(256, test=100)
    runs = [one(data, replace(THIS.recipe, epochs=epochs, seed=seed)) for seed in THIS.seeds]
    accuracies = [found["test_accuracy"] for found in runs]
    each = 3 * flop()  # a training step: forward, and twice as much backward
    best = peak()
    return {
        "parameters": count_parameters(ViT(THIS.model)),
        "test_accuracy_mean": mean(accuracies),
        "test_accuracy_sd": stdev(accuracies),
        "flop_per_image": each,
        "flop_a_second_of_a_large_product": best,
        "share_of_it": [round(each * found["images_per_second"] / best, 4) for found in runs],
        "runs": runs,
    }


def one(data: Dataset, recipe: Recipe) -> dict:
    """Train with one seed; a run that was interrupted goes on."""
    name = None if budget(False, True) else f"best-{recipe.seed}"
    model, history = train(lambda: ViT(THIS.model).to(DEVICE), data, recipe, name)
    end = final_test(model, clothes())
    each = history.seconds / recipe.epochs
    there = [epoch for epoch, accuracy in enumerate(history.test_accuracy, 1) if accuracy >= THIS.goal]
    return {
        "seed": recipe.seed,
        "test_accuracy": round(end.accuracy, 4),
        "looks": looks(model),
        "validation_accuracy": round(history.test_accuracy[-1], 4),
        "validation_accuracy_by_epoch": [round(accuracy, 4) for accuracy in history.test_accuracy],
        "seconds": round(history.seconds, 1),
        "seconds_to_goal": round(each * there[0], 1) if there else None,
        "images_per_second": round(history.images_per_second),
    }


def flop() -> int:
    """FLOPs of one forward pass of an image; a product and its addition are two."""
    with torch.device("meta"):  # shapes only: nothing is computed
        model, image = ViT(THIS.model).eval(), torch.randn(1, 1, 28, 28)
    with FlopCounterMode(display=False) as counter, torch.no_grad(), record_attention(model):
        model(image)
    return counter.get_total_flops()


def peak() -> float:
    """Operations a second of one large product of matrices: what the device can reach, in bfloat16 on a GPU."""
    side = 8192 if DEVICE == "cuda" else 1024
    a = torch.randn(side, side, device=DEVICE, dtype=torch.bfloat16 if DEVICE == "cuda" else torch.float32)
    return 2 * side**3 / min(seconds_of(lambda: a @ a, 1) for _ in range(5))

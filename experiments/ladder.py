"""From a textbook's recipe to ours, one change at a time, with two minutes of one processor core for each.

Chapter 07: every rung keeps what the rungs before it changed. A rung is shown
as many pictures as one core gets through in about two minutes, so a cheaper
model sees more of them; each run's seconds of processor time are stored.
"""

from dataclasses import asdict, replace
from statistics import mean, stdev

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from experiments import checkpoint, clothes
from vitnb import ViT, ViTConfig
from vitnb.data import Dataset
from vitnb.training import ProgressBar, Recipe, evaluate, fit
from vitnb.vit import count_parameters

# Zhang et al. 2023, section 11.8: pictures of 96 pixels, two wide blocks, plain SGD.
MODEL = ViTConfig(96, 16, embed_dim=512, depth=2, num_heads=8, mlp_ratio=4.0, dropout=0.1, qkv_bias=False, pos_std=1.0)
RECIPE = Recipe(
    epochs=1,
    batch_size=128,
    lr=0.1,
    betas=(0.0, 0.99),
    weight_decay=0.0,
    warmup=0.0,
    schedule="constant",
    optimizer="sgd",
    clip=None,
    flip=False,
    shift=0,
)
ADAMW = {"optimizer": "adamw", "lr": 3e-3, "betas": (0.9, 0.99), "weight_decay": 0.05, "clip": 1.0}
RUNGS = {  # what is changed of model or recipe; "pictures": different ones, "epochs": how often each is shown
    "the textbook": {"pictures": 6_400},
    "28 pixels, not 96": {"img_size": 28, "patch_size": 7, "pictures": 12_000},
    "a small model": {
        "embed_dim": 64, "depth": 4, "num_heads": 4, "qkv_bias": True, "pictures": 50_000, "epochs": 2
    },
    "AdamW, clipping": ADAMW,
    "warm-up, cosine": {"warmup": 0.05, "schedule": "cosine"},
    "no dropout": {"dropout": 0.0, "epochs": 3},
    "batches of 64": {"batch_size": 64},
    "convolutions first": {"stem": "conv", "epochs": 2},
    "mirrored": {"flip": True},
    "the mean, not cls": {"global_pool": "mean"},
}  # fmt: skip
SEEDS = [0, 1, 2]
CONFIG = {"device": "cpu", "data": "fashion_mnist", "model": MODEL.to_dict(), "recipe": asdict(RECIPE), "rungs": RUNGS}


def run() -> dict:
    data = clothes()
    torch.set_num_threads(1)
    changes, rungs = {}, {}
    for number, (rung, change) in enumerate(RUNGS.items()):
        changes |= change
        rungs[rung] = trials(data, f"ladder-{number}", MODEL, RECIPE, changes)
    return {"rungs": rungs}


def trials(data: Dataset, name: str, model: ViTConfig, recipe: Recipe, changes: dict) -> dict:
    """Train with every seed, with changes of the model or of the recipe; changes["pictures"] are shown."""
    model = replace(model, **{key: value for key, value in changes.items() if hasattr(model, key)})
    recipe = replace(recipe, **{key: value for key, value in changes.items() if hasattr(recipe, key)})
    part = data.subset(changes["pictures"], test=0)
    part = replace(part, train_images=resized(part.train_images, model.img_size))
    runs = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        runs.append(one(ViT(model), part, data, replace(recipe, seed=seed), f"{name}-{seed}"))
    return summary(runs)


def one(model: nn.Module, part: Dataset, data: Dataset, recipe: Recipe, name: str) -> dict:
    """Train on a part of the pictures, test on all test pictures; a run that was interrupted goes on."""
    with sdpa_kernel(SDPBackend.MATH):  # plain products: every run the same kernel
        history = fit(model, part, recipe, [ProgressBar()], checkpoint(name))
    right = 0.0
    for images, labels in zip(data.test_images.split(1000), data.test_labels.split(1000), strict=True):
        images = data.normalize(resized(images, part.train_images.shape[-1]))
        right += evaluate(model, images, labels).accuracy * len(labels)
    accuracy = right / len(data.test_labels)
    print(f"{name}: {accuracy:.4f} after {history.cpu_seconds:.0f} s", flush=True)
    return {
        "seed": recipe.seed,
        "parameters": count_parameters(model),
        "test_accuracy": round(accuracy, 4),
        "train_accuracy": round(history.train_accuracy[-1], 4),
        "seconds": round(history.cpu_seconds, 1),
        "images": history.images,
    }


def summary(runs: list[dict]) -> dict:
    accuracies = [found["test_accuracy"] for found in runs]
    return {"test_accuracy_mean": mean(accuracies), "test_accuracy_sd": stdev(accuracies), "runs": runs}


def resized(images: Tensor, side: int) -> Tensor:
    """Pictures (B, C, H, W) of bytes, side pixels high and wide."""
    if images.shape[-1] == side:
        return images
    return F.interpolate(images.float(), size=(side, side), mode="bilinear").round().to(torch.uint8)

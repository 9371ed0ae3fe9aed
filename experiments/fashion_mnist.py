"""A plain ViT learns Fashion-MNIST on two CPU cores: at least 90 % of the test pictures, within ten minutes.

The small model of chapter 07, trained from scratch with three seeds; the
result of each seed is the accuracy after its last step.
"""

from dataclasses import asdict, replace
from statistics import mean, stdev

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from experiments import checkpoint, clothes, thin
from vitnb import ViT, ViTConfig
from vitnb.data import Dataset
from vitnb.training import ProgressBar, Recipe, evaluate, fit
from vitnb.vit import count_parameters

MODEL = ViTConfig(patch_size=7, embed_dim=64, depth=4, num_heads=4, mlp_ratio=4.0, pos_std=1.0)
RECIPE = Recipe(epochs=18)
THREADS = 2
SEEDS = [0, 1, 2]
CONFIG = {"data": "fashion_mnist", "device": "cpu", "model": MODEL.to_dict(), "recipe": asdict(RECIPE)}


def run(name: str = "fashion_mnist", model: ViTConfig = MODEL, recipe: Recipe = RECIPE) -> dict:
    data = clothes()
    torch.set_num_threads(THREADS)
    return summary(data, model, [one(data, name, model, replace(recipe, seed=seed)) for seed in SEEDS])


def summary(data: Dataset, model: ViTConfig, runs: list[dict]) -> dict:
    accuracies = [r["test_accuracy"] for r in runs]
    return {
        "parameters": count_parameters(ViT(model)),
        "classes": list(data.classes),
        "test_accuracy_mean": mean(accuracies),
        "test_accuracy_sd": stdev(accuracies),
        "seconds_max": max(r["seconds"] for r in runs),
        "cpu_seconds_max": max(r["cpu_seconds"] for r in runs),
        "runs": runs,
    }


def one(data: Dataset, name: str, config: ViTConfig, recipe: Recipe) -> dict:
    """Train with one seed; a run that was interrupted goes on."""
    torch.manual_seed(recipe.seed)
    model = ViT(config)
    with sdpa_kernel(SDPBackend.MATH):  # plain products: every run the same kernel
        history = fit(model, data, recipe, [ProgressBar()], checkpoint(f"{name}-{recipe.seed}"))
    test = evaluate(model, data.normalize(data.test_images), data.test_labels)
    confusion = test.confusion
    wrong = (test.predictions != test.labels).nonzero()[:24, 0]
    return {
        "seed": recipe.seed,
        "test_accuracy": round(history.test_accuracy[-1], 4),
        "test_loss": round(history.test_loss[-1], 4),
        "seconds": round(history.seconds, 1),
        "cpu_seconds": round(history.cpu_seconds, 1),  # without waiting for other programs
        "images_per_second": round(history.images_per_second),
        "steps": len(history.losses),
        "losses": thin(history.losses),
        "train_accuracy_by_epoch": [round(a, 4) for a in history.train_accuracy],
        "test_accuracy_by_epoch": [round(a, 4) for a in history.test_accuracy],
        "accuracy_by_class": [round(a, 4) for a in (confusion.diag() / confusion.sum(1)).tolist()],
        "confusion": confusion.tolist(),
        "wrong": [{"index": i, "true": int(test.labels[i]), "said": int(test.predictions[i])} for i in wrong.tolist()],
    }

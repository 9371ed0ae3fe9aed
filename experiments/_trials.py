"""Trainings whose results are stored: built, trained, tested and summed up."""

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from experiments import RESULTS, ROOT
from experiments._data import clothes, unwatched, validated
from vitnb import ViT, ViTConfig
from vitnb._files import replacing
from vitnb.data import Dataset
from vitnb.evaluation import evaluate, final_test, looks
from vitnb.progress import ProgressBar
from vitnb.training import History, Recipe, fit
from vitnb.vit import count_parameters
from vitnb.weights import save


def checkpoint(name: str) -> Path:
    """Where an experiment keeps a run that may be interrupted; deleted when its result is stored."""
    return Path(os.environ.get("VITNB_CHECKPOINTS", ROOT / ".cache" / "checkpoints")) / f"{name}.pt"


def kept_runs(name: str) -> Callable[[str, Callable[[], Any]], Any]:
    """A function that gives a run by its key: it is made once, and kept, so that a second start goes on."""
    path = checkpoint(name)
    runs = torch.load(path, weights_only=True) if path.exists() else {}

    def run(key: str, make: Callable[[], Any]) -> Any:
        if key not in runs:
            runs[key] = make()
            print(f"{key}: {runs[key]}", flush=True)
            with replacing(path) as part:
                torch.save(runs, part)
        return runs[key]

    return run


# Plain products: every run the same kernel.
plain_products = partial(sdpa_kernel, SDPBackend.MATH)


def train(
    build: Callable[[], nn.Module], data: Dataset, recipe: Recipe, name: str | None = None
) -> tuple[nn.Module, History]:
    """Train a new model with the recipe's seed; a run that has a name goes on where it was interrupted."""
    torch.manual_seed(recipe.seed)
    model = build()
    return model, fit(model, data, recipe, [ProgressBar()] if name else (), name and checkpoint(name))


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    return round(evaluate(model, images, labels).accuracy, 4)


def summary(runs: list[dict]) -> dict:
    """The mean and the standard deviation of the runs' accuracies, and the runs."""
    found: dict = {}
    for key in ("validation_accuracy", "test_accuracy"):
        accuracies = [run[key] for run in runs if key in run]
        if accuracies:
            found |= {f"{key}_mean": mean(accuracies), f"{key}_sd": stdev(accuracies)}
    return found | {"runs": runs}


def tried_run(name: str, build: Callable[[], nn.Module], recipe: Recipe) -> dict:
    """Like whole_run, for a run that is compared with others: it does not meet the test images."""
    with plain_products():
        model, history = train(build, validated(), recipe, f"{name}-{recipe.seed}")
    return {
        "seed": recipe.seed,
        "parameters": count_parameters(model),
        "validation_accuracy": round(history.test_accuracy[-1], 4),
        "train_accuracy": round(history.train_accuracy[-1], 4),
        "seconds": round(history.seconds, 1),
        "cpu_seconds": round(history.cpu_seconds, 1),
    }


def whole_run(name: str, build: Callable[[], nn.Module], recipe: Recipe, validate: bool = True) -> dict:
    """Train with one seed on all but the validation images, watched by these, or on all images; then test it once.

    The result of a seed is the accuracy after its last step, on the test images, which are looked at once.
    """
    test = clothes()
    data = validated() if validate else unwatched(test)
    with plain_products():
        model, history = train(build, data, recipe, f"{name}-{recipe.seed}")
        end = final_test(model, test)
    confusion = end.confusion
    wrong = (end.predictions != end.labels).nonzero()[:24, 0]
    found = {
        "seed": recipe.seed,
        "parameters": count_parameters(model),
        "test_accuracy": round(end.accuracy, 4),
        "test_loss": round(end.loss, 4),
        "looks": looks(model),
        "seconds": round(history.seconds, 1),
        "cpu_seconds": round(history.cpu_seconds, 1),  # without waiting for other programs
        "images_per_second": round(history.images_per_second),
        "steps": len(history.losses),
        "images": history.images,
        "losses": thin(history.losses),
        "train_accuracy_by_epoch": [round(a, 4) for a in history.train_accuracy],
        "accuracy_by_class": [round(a, 4) for a in (confusion.diag() / confusion.sum(1)).tolist()],
        "confusion": confusion.tolist(),
        "wrong": [
            {"index": i, "true": int(end.labels[i]), "predicted": int(end.predictions[i])} for i in wrong.tolist()
        ],
    }
    if validate:
        found |= {
            "validation_accuracy": round(history.test_accuracy[-1], 4),
            "validation_loss": round(history.test_loss[-1], 4),
            "validation_accuracy_by_epoch": [round(a, 4) for a in history.test_accuracy],
        }
    return found


def stored_model(name: str, config: ViTConfig, recipe: Recipe) -> dict:
    """Train one model on all images for readers to look into; its weights go beside the result, under its name."""
    data = clothes()
    with plain_products():
        model, history = train(lambda: ViT(config), data, recipe, f"{name}-{recipe.seed}")
    test = evaluate(model, data.normalize(data.test_images), data.test_labels)
    save(model, RESULTS / f"{name}.safetensors")
    return {
        "parameters": count_parameters(model),
        "classes": list(data.classes),
        "test_accuracy": round(test.accuracy, 4),
        "test_loss": round(test.loss, 4),
        "training_seconds": round(history.seconds, 1),
        "steps": len(history.losses),
    }


def whole_runs(runs: list[dict]) -> dict:
    """What whole runs of one model have in common, and the runs."""
    return {
        "parameters": runs[0]["parameters"],
        "classes": list(clothes().classes),
        "seconds_max": max(run["seconds"] for run in runs),
        "cpu_seconds_max": max(run["cpu_seconds"] for run in runs),
    } | summary(runs)


def store_code(name: str) -> None:
    """Write the code that made a result beside it: every file of the book's that this process has loaded."""
    loaded = {Path(module.__file__) for module in [*sys.modules.values()] if getattr(module, "__file__", None)}
    folders = [ROOT / name for name in ("vitnb", "vitbook", "experiments")]
    own = sorted(path for path in loaded if any(path.is_relative_to(folder) for folder in folders))
    with replacing(RESULTS / f"{name}.zip") as part, ZipFile(part, "w", ZIP_DEFLATED) as archive:
        for path in own:
            archive.write(path, path.relative_to(ROOT))


def thin(values: list[float], points: int = 300) -> list[float]:
    """Means of equal stretches, at most `points` of them, to four digits: what a curve needs."""
    width = -(-len(values) // points)
    parts = (values[i : i + width] for i in range(0, len(values), width))
    return [float(f"{sum(part) / len(part):.4g}") for part in parts]

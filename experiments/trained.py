"""One ViT of 205,000 parameters, trained on Fashion-MNIST, for the readers of chapter 11 to look into.

The small model of chapter 09. The weights are stored beside the result, as
book/results/trained.safetensors.
"""

from dataclasses import asdict, replace

import torch

from experiments import RESULTS
from experiments.common import SMALL, clothes, plain_products, train
from vitnb import ViT
from vitnb.evaluation import evaluate
from vitnb.recipe import Recipe
from vitnb.vit import count_parameters
from vitnb.weights import save

RECIPE = Recipe(epochs=50)
THREADS = 1
SEEDS = [0]
CONFIG = {"data": "fashion_mnist", "device": "cpu", "model": SMALL.to_dict(), "recipe": asdict(RECIPE)}


def run() -> dict:
    data = clothes()
    torch.set_num_threads(THREADS)
    with plain_products():
        model, history = train(lambda: ViT(SMALL), data, replace(RECIPE, seed=SEEDS[0]), f"trained-{SEEDS[0]}")
    test = evaluate(model, data.normalize(data.test_images), data.test_labels)
    save(model, RESULTS / "trained.safetensors")
    return {
        "parameters": count_parameters(model),
        "classes": list(data.classes),
        "test_accuracy": round(test.accuracy, 4),
        "test_loss": round(test.loss, 4),
        "training_seconds": round(history.seconds, 1),
        "steps": len(history.losses),
    }

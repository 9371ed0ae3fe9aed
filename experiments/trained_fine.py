"""The ViT of trained.py with patches of 4 x 4 instead of 7 x 7: 49 tokens instead of 16 to look at.

Everything else is the same but the number of epochs, since an image costs three times as much.
The weights are stored beside the result, as book/results/trained_fine.safetensors.
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

MODEL = replace(SMALL, patch_size=4)
RECIPE = Recipe(epochs=30)
THREADS = 1
SEEDS = [0]
CONFIG = {"data": "fashion_mnist", "device": "cpu", "model": MODEL.to_dict(), "recipe": asdict(RECIPE)}


def run() -> dict:
    data = clothes()
    torch.set_num_threads(THREADS)
    with plain_products():
        model, history = train(lambda: ViT(MODEL), data, replace(RECIPE, seed=SEEDS[0]), f"trained-fine-{SEEDS[0]}")
    test = evaluate(model, data.normalize(data.test_images), data.test_labels)
    save(model, RESULTS / "trained_fine.safetensors")
    return {
        "parameters": count_parameters(model),
        "classes": list(data.classes),
        "test_accuracy": round(test.accuracy, 4),
        "test_loss": round(test.loss, 4),
        "training_seconds": round(history.seconds, 1),
        "steps": len(history.losses),
    }

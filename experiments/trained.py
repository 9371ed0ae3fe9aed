"""One ViT of 205,000 parameters, trained on Fashion-MNIST, for the readers of chapter 08 to look into.

The small model of chapter 07. The weights are stored beside the result, as
book/results/trained.safetensors.
"""

from dataclasses import asdict, replace

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from experiments import RESULTS, checkpoint, clothes
from vitnb import ViT, ViTConfig
from vitnb.training import ProgressBar, Recipe, evaluate, fit
from vitnb.vit import count_parameters
from vitnb.weights import save

MODEL = ViTConfig(patch_size=7, embed_dim=64, depth=4, num_heads=4, mlp_ratio=4.0, pos_std=1.0)
RECIPE = Recipe(epochs=50)
THREADS = 1
SEEDS = [0]
CONFIG = {"data": "fashion_mnist", "device": "cpu", "model": MODEL.to_dict(), "recipe": asdict(RECIPE)}


def run() -> dict:
    data = clothes()
    torch.set_num_threads(THREADS)
    torch.manual_seed(SEEDS[0])
    model = ViT(MODEL)
    recipe = replace(RECIPE, seed=SEEDS[0])
    with sdpa_kernel(SDPBackend.MATH):  # plain products: every run the same kernel
        history = fit(model, data, recipe, [ProgressBar()], checkpoint(f"trained-{SEEDS[0]}"))
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

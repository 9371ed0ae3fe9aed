"""One ViT of 205,000 parameters, trained on Fashion-MNIST, for the readers of chapter 11 to look into.

The small model of chapter 09. The weights are stored beside the result, as
book/results/trained.safetensors.
"""

from dataclasses import asdict

import torch

from experiments.common import SMALL, stored_model
from vitnb.training import Recipe

RECIPE = Recipe(epochs=50)
THREADS = 1
SEEDS = [RECIPE.seed]
CONFIG = {
    "data": "fashion_mnist",
    "device": "cpu",
    "judged_on": "test",  # nothing was chosen by it
    "model": SMALL.to_dict(),
    "recipe": asdict(RECIPE),
}


def run() -> dict:
    torch.set_num_threads(THREADS)
    return stored_model("trained", SMALL, RECIPE)

"""The ViT of trained.py with patches of 4 x 4 instead of 7 x 7: 49 tokens instead of 16 to look at.

Everything else is the same but the number of epochs, since an image costs three times as much.
The weights are stored beside the result, as book/results/trained_fine.safetensors.
"""

from dataclasses import asdict, replace

import torch

from experiments.common import SMALL, stored_model
from vitnb.training import Recipe

MODEL = replace(SMALL, patch_size=4)
RECIPE = Recipe(epochs=30)
THREADS = 1
SEEDS = [RECIPE.seed]
CONFIG = {
    "data": "fashion_mnist",
    "device": "cpu",
    "judged_on": "test",  # nothing was chosen by it
    "model": MODEL.to_dict(),
    "recipe": asdict(RECIPE),
}


def run() -> dict:
    torch.set_num_threads(THREADS)
    return stored_model("trained_fine", MODEL, RECIPE)

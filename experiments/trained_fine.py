"""The ViT of trained.py with patches of 4 x 4 instead of 7 x 7: 49 tokens instead of 16 to look at.

Everything else is the same but the number of epochs, since an image costs three times as much.
The weights are stored beside the result, as book/results/trained_fine.safetensors.
"""

from dataclasses import replace

from experiments._experiment import Experiment
from experiments._models import SMALL
from experiments._trials import stored_model
from vitnb.training import Recipe

THIS = Experiment(seeds=[0], purpose="mechanism", model=replace(SMALL, patch_size=4), recipe=Recipe(epochs=30))


def run() -> dict:
    return stored_model("trained_fine", THIS.model, THIS.recipe)

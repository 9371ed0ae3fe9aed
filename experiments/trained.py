"""One ViT of 205,000 parameters, trained on Fashion-MNIST, for the readers of chapter 11 to look into.

The small model of chapter 09. The weights are stored beside the result, as
book/results/trained.safetensors.
"""

from experiments._experiment import Experiment
from experiments._models import SMALL
from experiments._trials import stored_model
from vitnb.training import Recipe

THIS = Experiment(seeds=[0], purpose="mechanism", model=SMALL, recipe=Recipe(epochs=50))


def run() -> dict:
    return stored_model("trained", THIS.model, THIS.recipe)

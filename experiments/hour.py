"""A ViT with convolutions before its tokens learns Fashion-MNIST on two CPU cores for an hour.

The model of the five minutes with as many epochs as fit into an hour; the
result of a seed is the accuracy after its last step.
"""

from dataclasses import asdict, replace

from experiments import fashion_mnist as plain
from experiments import five_minutes

MODEL = five_minutes.MODEL
RECIPE = replace(five_minutes.RECIPE, epochs=95, lr=3e-3, shift=1)
HOURS = 3  # of two cores: the result may still be missing
SEEDS = plain.SEEDS
CONFIG = {"data": "fashion_mnist", "device": "cpu", "model": MODEL.to_dict(), "recipe": asdict(RECIPE)}


def run() -> dict:
    return plain.run("hour", MODEL, RECIPE)

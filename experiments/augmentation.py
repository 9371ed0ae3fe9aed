"""Augmentation crossed with the length of training: what it costs at first, and when it pays.

Chapter 10: the model of the five minutes on 6,000 training images, with no
augmentation, mirrored, shifted too, and partly erased too, each for seven,
twenty and sixty epochs with a schedule of its own, four seeds, judged by 5,000
images held out of the training images.
"""

from dataclasses import asdict, replace

import torch

from experiments.common import FAST, FAST_STEM, Arm, fast_vit, summary, trained_for
from vitnb.training import Recipe

RECIPE = Recipe(epochs=1, optimizer="muon")
AUGMENTATIONS = {
    "none": {"flip": False, "shift": 0},
    "mirrored": {"shift": 0},
    "and shifted": {},
    "and erased": {"erase": 0.25},
}
PICTURES = 6_000
EPOCHS = [60, 20, 7]
SEEDS = [0, 1, 2, 3]
CONFIG = {
    "device": "cpu",
    "data": "fashion_mnist",
    "judged_on": "validation",
    "model": FAST.to_dict(),
    "stem": FAST_STEM,
    "recipe": asdict(RECIPE),
    "augmentations": AUGMENTATIONS,
    "pictures": PICTURES,
    "epochs": EPOCHS,
}


def run() -> dict:
    torch.set_num_threads(1)
    arms, steps = {}, {}
    for epochs in EPOCHS:
        for name, change in AUGMENTATIONS.items():
            arms[name, epochs] = Arm(fast_vit, replace(RECIPE, **change), pictures=PICTURES)
            steps[name, epochs] = epochs * (PICTURES // RECIPE.batch_size)
    runs = trained_for(steps, "augmentation", arms, SEEDS)
    return {name: {epochs: summary(runs[name, epochs]) for epochs in sorted(EPOCHS)} for name in AUGMENTATIONS}

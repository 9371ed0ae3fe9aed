"""Augmentation crossed with the length of training: what it costs at first, and when it pays.

Chapter 10: the model of the five minutes on 6,000 training images, with no
augmentation, mirrored, shifted too, and partly erased too, each for seven,
twenty and sixty epochs with a schedule of its own.
"""

from dataclasses import replace

from experiments._budget import Arm, trained_for
from experiments._experiment import Experiment
from experiments._models import FAST_VIT, fast_vit
from experiments._trials import summary
from vitnb.training import Recipe

THIS = Experiment(
    seeds=[0, 1, 2, 3],
    purpose="choice",
    side_by_side=2,
    **FAST_VIT,
    recipe=Recipe(epochs=1, optimizer="muon"),
    augmentations={
        "none": {"flip": False, "shift": 0},
        "mirrored": {"shift": 0},
        "and shifted": {},
        "and erased": {"erase": 0.25},
    },
    images=6_000,
    epochs=[60, 20, 7],
)


def run() -> dict:
    arms, steps = {}, {}
    for epochs in THIS.epochs:
        for name, change in THIS.augmentations.items():
            arms[name, epochs] = Arm(fast_vit, replace(THIS.recipe, **change), images=THIS.images)
            steps[name, epochs] = epochs * (THIS.images // THIS.recipe.batch_size)
    runs = trained_for(steps, "augmentation", arms, THIS.seeds)
    return {
        name: {epochs: summary(runs[name, epochs]) for epochs in sorted(THIS.epochs)} for name in THIS.augmentations
    }

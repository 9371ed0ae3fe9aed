"""What further changes are worth to a ViT with convolutions first, with two minutes of one processor core for each.

Chapter 10: each change is made to the model at the top of the ladder with the
default recipe, alone but for Muon with another learning rate. The steps of all
are clocked first. Judged by 5,000 images held out of the training images. Muon is by
Jordan et al. 2024, dropped tokens by Liu et al. 2022.
"""

from dataclasses import asdict
from functools import partial

import torch
from timm.layers import PatchDropout

from experiments.common import BEST, Arm, changed, for_seconds
from vitnb import ViT, ViTConfig
from vitnb.training import Recipe

RECIPE = Recipe(epochs=1)
CHANGES = {  # what is changed of the model or of the recipe, or a share of tokens that is dropped in training
    "as it is": {},
    "Muon": {"optimizer": "muon"},
    "learning rate × 2": {"lr": 6e-3},
    "Muon, learning rate × 2": {"optimizer": "muon", "lr": 6e-3},
    "no augmentation": {"flip": False, "shift": 0},
    "a cls token": {"global_pool": "cls"},
    "half of the tokens": {"tokens_dropped": 0.5},
}
SECONDS, SEEDS = 120, [0, 1, 2, 3, 4]
CONFIG = {
    "device": "cpu",
    "data": "fashion_mnist",
    "judged_on": "validation",
    "model": BEST.to_dict(),
    "recipe": asdict(RECIPE),
    "changes": CHANGES,
    "seconds": SECONDS,
}


def run() -> dict:
    torch.set_num_threads(1)
    arms = {}
    for name, change in CHANGES.items():
        model, recipe = changed(BEST, RECIPE, change)
        arms[name] = Arm(partial(built, model, change.get("tokens_dropped", 0.0)), recipe)
    return {"arms": for_seconds("further", arms, SECONDS, SEEDS)}


def built(config: ViTConfig, tokens_dropped: float) -> ViT:
    model = ViT(config)
    if tokens_dropped:
        model.drop = PatchDropout(tokens_dropped, num_prefix_tokens=0)
    return model

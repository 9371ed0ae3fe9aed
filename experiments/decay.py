"""Weight decay on matrices only, on every parameter, on none: what it is worth in a short training.

Chapter 07: the model and the recipe of experiments/recipes.py. All three of a
seed start with the same weights and see the same images.
"""

from dataclasses import asdict, replace
from unittest.mock import patch

import torch

from experiments import checkpoint, clothes, recipes
from vitnb import ViT, training
from vitnb.data import Dataset

MODEL, RECIPE, IMAGES, SEEDS = recipes.MODEL, recipes.RECIPE, recipes.PICTURES, recipes.SEEDS
ARMS = ("matrices", "everything", "nothing")
CONFIG = {
    "data": "fashion_mnist",
    "images": IMAGES,
    "device": "cpu",
    "model": MODEL.to_dict(),
    "recipe": asdict(RECIPE),
    "arms": ARMS,
}


def run() -> dict:
    torch.set_num_threads(1)
    data = clothes().subset(IMAGES)
    return {"test_accuracy": {arm: [one(data, arm, seed) for seed in SEEDS] for arm in ARMS}}


def one(data: Dataset, arm: str, seed: int) -> float:
    """Train one arm with one seed; a run that was interrupted goes on."""
    torch.manual_seed(seed)
    recipe = replace(RECIPE, seed=seed, weight_decay=0.0 if arm == "nothing" else RECIPE.weight_decay)
    groups = all_alike if arm == "everything" else training.decay_groups
    with patch.object(training, "decay_groups", groups):
        history = training.fit(ViT(MODEL), data, recipe, checkpoint=checkpoint(f"decay-{arm}-{seed}"))
    print(f"{arm}, seed {seed}: {history.test_accuracy[-1]:.4f}", flush=True)
    return round(history.test_accuracy[-1], 4)


def all_alike(model: torch.nn.Module, weight_decay: float) -> list[dict]:
    """What torch.optim.AdamW(model.parameters(), weight_decay=...) does: no parameter is spared."""
    return [{"params": list(model.parameters()), "weight_decay": weight_decay}]

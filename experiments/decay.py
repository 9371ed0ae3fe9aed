"""Weight decay on matrices only, on every parameter, on none: what it is worth in a short training.

Chapter 09: the model and the recipe of experiments/recipes.py. All three of a
seed start with the same weights and see the same images.
"""

from dataclasses import replace
from unittest.mock import patch

import torch

from experiments._data import validated
from experiments._experiment import Experiment
from experiments._models import SHORT, SHORT_IMAGES, SMALL
from experiments._trials import checkpoint
from vitnb import ViT, training
from vitnb.data import Dataset
from vitnb.training import fit

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="choice",
    images=SHORT_IMAGES,
    model=SMALL,
    recipe=SHORT,
    arms=("matrices", "everything", "nothing"),
)


def run() -> dict:
    data = validated().subset(THIS.images)
    return {"validation_accuracy": {arm: [one(data, arm, seed) for seed in THIS.seeds] for arm in THIS.arms}}


def one(data: Dataset, arm: str, seed: int) -> float:
    """Train one arm with one seed and return its accuracy on the validation images; an interrupted run goes on."""
    torch.manual_seed(seed)
    chosen = replace(THIS.recipe, seed=seed, weight_decay=0.0 if arm == "nothing" else THIS.recipe.weight_decay)
    groups = all_alike if arm == "everything" else training.decay_groups
    with patch.object(training, "decay_groups", groups):  # where make_optimizers looks it up
        history = fit(ViT(THIS.model), data, chosen, checkpoint=checkpoint(f"decay-{arm}-{seed}"))
    print(f"{arm}, seed {seed}: {history.test_accuracy[-1]:.4f}", flush=True)
    return round(history.test_accuracy[-1], 4)


def all_alike(model: torch.nn.Module, weight_decay: float) -> list[dict]:
    """What torch.optim.AdamW(model.parameters(), weight_decay=...) does: no parameter is spared."""
    return [{"params": list(model.parameters()), "weight_decay": weight_decay}]

"""What further changes are worth to a ViT with convolutions first, with two minutes of one processor core for each.

Chapter 10: each change is made to the model at the top of the ladder with the
default recipe, alone but for Muon with another learning rate. Muon is by Jordan
et al. 2024, dropped tokens by Liu et al. 2022.
"""

from functools import partial

from timm.layers import PatchDropout

from experiments._budget import Arm, for_seconds
from experiments._experiment import Experiment
from experiments._models import BEST, changed
from vitnb import ViT, ViTConfig
from vitnb.training import Recipe

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="choice",
    side_by_side=2,
    model=BEST,
    recipe=Recipe(epochs=1),
    changes={  # what is changed of the model or of the recipe, or a share of tokens that is dropped in training
        "as it is": {},
        "Muon": {"optimizer": "muon"},
        "learning rate × 2": {"lr": 6e-3},
        "Muon, learning rate × 2": {"optimizer": "muon", "lr": 6e-3},
        "no augmentation": {"flip": False, "shift": 0},
        "a cls token": {"global_pool": "cls"},
        "half of the tokens": {"tokens_dropped": 0.5},
    },
    seconds=120,
)


def run() -> dict:
    arms = {}
    for name, change in THIS.changes.items():
        model, recipe = changed(THIS.model, THIS.recipe, change)
        arms[name] = Arm(partial(built, model, change.get("tokens_dropped", 0.0)), recipe)
    return {"arms": for_seconds("further", arms, THIS.seconds, THIS.seeds)}


def built(config: ViTConfig, tokens_dropped: float) -> ViT:
    model = ViT(config)
    if tokens_dropped:
        model.drop = PatchDropout(tokens_dropped, num_prefix_tokens=0)
    return model

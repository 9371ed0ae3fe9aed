"""Wider convolutions before the tokens, and fewer blocks behind them: two minutes of one core each.

Chapter 10: what Muon made of the ladder's top rung (further.py), with more
channels in its convolutions, with three blocks instead of four, and, as a
control of what blocks bring, with none.
"""

from functools import partial

from experiments._budget import Arm, for_seconds
from experiments._experiment import Experiment
from experiments._models import BEST, with_stem
from vitnb import ViT
from vitnb.training import Recipe

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="choice",
    side_by_side=2,
    model=BEST,
    recipe=Recipe(epochs=1, optimizer="muon"),
    stems={  # channels of the three convolutions, and blocks
        "16, 32, 64": ((16, 32, 64), 4),
        "32, 64, 64": ((32, 64, 64), 4),
        "64, 96, 64": ((64, 96, 64), 4),
        "32, 64, 64 and three blocks": ((32, 64, 64), 3),
        "32, 64, 64 and no block": ((32, 64, 64), 0),
        "64, 96, 64 and no block": ((64, 96, 64), 0),
    },
    seconds=120,
)


def run() -> dict:
    arms = {name: Arm(partial(built, widths, depth), THIS.recipe) for name, (widths, depth) in THIS.stems.items()}
    return {"arms": for_seconds("stems", arms, THIS.seconds, THIS.seeds)}


def built(widths: tuple[int, ...], depth: int) -> ViT:
    model = with_stem(THIS.model, widths)
    model.blocks = model.blocks[:depth]
    return model

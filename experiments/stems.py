"""Wider convolutions before the tokens, and one block less behind them: two minutes of one core each.

Chapter 10: what Muon made of the ladder's top rung (further.py), with more
channels in its convolutions, and with three blocks instead of four. The steps
are clocked first; judged by 5,000 images held out of the training images.
"""

from dataclasses import asdict, replace
from functools import partial

import torch

from experiments.common import BEST, Arm, for_seconds, with_stem
from vitnb.training import Recipe

RECIPE = Recipe(epochs=1, optimizer="muon")
STEMS = {  # channels of the three convolutions, and blocks
    "16, 32, 64": ((16, 32, 64), 4),
    "32, 64, 64": ((32, 64, 64), 4),
    "64, 96, 64": ((64, 96, 64), 4),
    "32, 64, 64 and three blocks": ((32, 64, 64), 3),
}
SECONDS, SEEDS = 120, [0, 1, 2, 3, 4]
CONFIG = {
    "device": "cpu",
    "data": "fashion_mnist",
    "judged_on": "validation",
    "model": BEST.to_dict(),
    "recipe": asdict(RECIPE),
    "stems": STEMS,
    "seconds": SECONDS,
}


def run() -> dict:
    torch.set_num_threads(1)
    arms = {
        name: Arm(partial(with_stem, replace(BEST, depth=depth), widths), RECIPE)
        for name, (widths, depth) in STEMS.items()
    }
    return {"arms": for_seconds("stems", arms, SECONDS, SEEDS)}

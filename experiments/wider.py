"""What each change from the model of the five minutes to that of the full hour is worth in two minutes of one core.

Chapter 10: each change is added to those before it, one at a time. The steps
are clocked first; judged by 5,000 images held out of the training images.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import nn

from experiments._budget import Arm, for_seconds
from experiments._experiment import Experiment
from experiments._models import (
    FAST,
    FAST_STEM,
    FIVE_MINUTES,
    WIDER,
    WIDER_STEM,
    WIDER_STRIDES,
    fast_vit,
    wider_vit,
    with_stem,
)

RECIPE = replace(FIVE_MINUTES, epochs=1)
SMOOTHED = replace(RECIPE, label_smoothing=0.1)
FOURTH = (*WIDER_STEM[:-1], FAST.embed_dim)  # channels of the stem with a convolution more


def channels_last(build: Callable[..., nn.Module], *how) -> nn.Module:
    return build(*how).to(memory_format=torch.channels_last)


RUNGS = {  # what is added to the rung before
    "the model of the five minutes": Arm(fast_vit, RECIPE),
    "channels last": Arm(partial(channels_last, fast_vit), RECIPE),
    "a fourth convolution": Arm(partial(channels_last, with_stem, FAST, FOURTH, WIDER_STRIDES), RECIPE),
    "80 features a token": Arm(wider_vit, RECIPE),
    "label smoothing 0.1": Arm(wider_vit, SMOOTHED),
    "erasing in half of the images": Arm(wider_vit, replace(SMOOTHED, erase=0.5)),
}
THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="choice",
    side_by_side=2,
    models=[FAST, WIDER],
    stems=[FAST_STEM, FOURTH, WIDER_STEM],
    strides=WIDER_STRIDES,
    recipe=RECIPE,
    rungs=list(RUNGS),
    seconds=120,
)


def run() -> dict:
    return {"arms": for_seconds("wider", RUNGS, THIS.seconds, THIS.seeds)}

"""The model of the full hour learns Fashion-MNIST in bfloat16 on two CPU cores: the seconds to 94 %.

Model and regularisation are those that full_hour.py chose on the validation
images; it trains a little shorter, and computes in bfloat16, for which some
processors have instructions: a step of both precisions is timed first. Two
seeds train at a time, each on a core of its own, so what the clock of a run
shows is the time of one core while the other is as busy. In the final test the
model computes in bfloat16, too. The code that ran is stored beside the results:
unpacked, it takes the same command.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from experiments._budget import two_at_a_time
from experiments._experiment import Experiment
from experiments._models import LONGER, WIDER_VIT, wider_vit
from experiments._timing import race, step
from experiments._trials import plain_products, store_code, whole_run, whole_runs

ROUNDS = 20
THIS = Experiment(
    seeds=list(range(10)),
    purpose="choice",
    side_by_side=2,
    chosen_by="full_hour",
    reported_on="test",
    **WIDER_VIT,
    precision="bfloat16",
    recipe=replace(LONGER, epochs=66, erase=0.5, label_smoothing=0.1),  # full_hour: 78 epochs, 94.1 % of validation
)


def run() -> dict:
    with plain_products():
        steps = race({"float32": one_step(wider_vit()), "bfloat16": one_step(half_vit())}, ROUNDS, random.Random(0))
    one = partial(whole_run, "speed_94", half_vit)
    runs = two_at_a_time(one, [replace(THIS.recipe, seed=seed) for seed in THIS.seeds])
    store_code("speed_94")
    return {"steps": steps} | whole_runs(runs)


def half_vit() -> nn.Module:
    """The model of the full hour, which multiplies in bfloat16; its weights and its logits are float32."""
    model = wider_vit()
    forward = model.forward

    def half(images: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return forward(images).float()  # (B, C, H, W) -> (B, K)

    model.forward = half
    return model


def one_step(model: nn.Module) -> Callable[[], None]:
    torch.manual_seed(0)
    images = torch.randn(THIS.recipe.batch_size, THIS.model.in_chans, THIS.model.img_size, THIS.model.img_size)
    return step(model.train(), images, torch.randint(THIS.model.num_classes, (len(images),)))

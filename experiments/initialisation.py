"""With weights of 0.02 the last block's gradient tells post-norm from pre-norm at width 768, and not at width 32.

Chapter 06: the measurement of Xiong et al. 2020 in fresh stacks, with Xavier's
initialisation and with the standard deviation 0.02 whatever the width: the
gradient of the last block's second MLP layer, in 24 blocks and in 2.
"""

import itertools
from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional as F

from experiments._data import clothes
from experiments._experiment import Experiment
from experiments._models import STACK
from vitnb import ViT
from vitnb.data import Dataset

WIDTHS = {32: 2, 768: 12}  # heads
THIS = Experiment(
    seeds=list(range(20)),
    purpose="untrained",
    images=32,
    widths=list(WIDTHS),
    depths=(2, 24),
    norms=("pre", "post"),
    starts={"Xavier": None, "0.02": 0.02},
    model=STACK,
)


def last_gradient(data: Dataset, width: int, depth: int, norm: str, std: float | None, seed: int) -> float:
    torch.manual_seed(seed)
    model = ViT(replace(THIS.model, embed_dim=width, num_heads=WIDTHS[width], depth=depth, norm=norm))
    for layer in model.blocks.modules() if std else ():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=std)
    images = data.normalize(data.train_images[: THIS.images])
    F.cross_entropy(model(images), data.train_labels[: THIS.images]).backward()
    return float(f"{model.blocks[-1].mlp.fc2.weight.grad.norm().item():.4g}")


def run() -> dict:
    data, arms = clothes(), []
    for width, norm, start in itertools.product(WIDTHS, THIS.norms, THIS.starts):
        found = {
            str(depth): [last_gradient(data, width, depth, norm, THIS.starts[start], seed) for seed in THIS.seeds]
            for depth in THIS.depths
        }
        arms.append({"width": width, "norm": norm, "start": start, "gradients": found})
        print(arms[-1], flush=True)
    return {"arms": arms}

"""Without attention a ViT is at chance where tokens must exchange information; on single images it loses little.

Chapter 03: the same small model with attention, with every token given the
plain mean of all tokens instead, and with nothing instead. Two tasks: are the
two thumbnails of one image of the same kind; and what is this image. On
the second also two bugs that nobody sees in the accuracy.
"""

from dataclasses import replace

import torch

from experiments._data import clothes
from experiments._experiment import Experiment
from vitbook.faults import attend
from vitbook.images import pairs
from vitnb import MultiHeadAttention, ViT, ViTConfig
from vitnb.data import Dataset
from vitnb.progress import ProgressBar
from vitnb.training import Recipe, fit

SINGLE = ViTConfig(patch_size=7, embed_dim=48, depth=2, num_heads=4, global_pool="mean", pos_std=0.5)
PAIRS = replace(SINGLE, img_size=(14, 28), num_classes=2)
THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="mechanism",
    torch_threads=None,
    images={"pairs": 12_000, "single": 6_000},
    models={"pairs": PAIRS, "single": SINGLE},
    recipe=Recipe(epochs=5, batch_size=64),
)


ARMS = {"attention": MultiHeadAttention, "plain mean": attend.layer(attend.uniform), "deleted": attend.Deleted}
BUGS = {
    "softmax over columns": attend.layer(attend.softmax_over_queries),
    "heads not transposed": attend.MergedByReshape,
}
TASKS = {"pairs": ARMS, "single": ARMS | BUGS}


def build(config: ViTConfig, arm: str, seed: int) -> ViT:
    """The model of one arm; all arms of a seed start with the same weights."""
    torch.manual_seed(seed)
    model = ViT(config)
    for block in model.blocks:
        block.attention.__class__ = TASKS["single"][arm]
    return model


def tasks() -> dict[str, tuple[ViTConfig, Dataset]]:
    data = clothes()
    return {"pairs": (PAIRS, pairs(data, THIS.images["pairs"])), "single": (SINGLE, data.subset(THIS.images["single"]))}


def run() -> dict:
    result = {"accuracy": {}, "train_loss": {}}
    for task, (config, data) in tasks().items():
        for name in result:
            result[name][task] = {arm: [] for arm in TASKS[task]}
        for arm in TASKS[task]:
            for seed in THIS.seeds:
                history = fit(build(config, arm, seed), data, replace(THIS.recipe, seed=seed), [ProgressBar()])
                result["accuracy"][task][arm].append(round(history.test_accuracy[-1], 4))
                result["train_loss"][task][arm].append(round(history.train_loss[-1], 4))
    return result

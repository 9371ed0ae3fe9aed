"""Shuffle the patches: the model without positions gives the same answer, the ones with positions give others.

Chapter 02: one model of each kind of the experiment `positions`, trained as
there, asked about the first test image of each class, in order and in a few
fixed disorders. The answers, the images and the position tables are stored
for the live figure; the accuracy in each order, over all test images, too.
"""

from dataclasses import replace

import torch
from torch import Tensor

from experiments._data import clothes, watched_on
from experiments._experiment import Experiment
from experiments._models import PLACED, PLACED_RECIPE, PLACES
from experiments._trials import accuracy, train
from vitnb import ViT, patchify, unpatchify
from vitnb.data import Dataset

THIS = Experiment(
    seeds=[0],
    purpose="mechanism",
    images=8_000,
    test_images=5_000,
    orders=8,
    model=PLACED,
    arms=PLACES,
    recipe=PLACED_RECIPE,
)


def reorder(images: Tensor, order: Tensor) -> Tensor:
    """Put the patches of all images (B, C, H, W) in one order: place n shows patch order[n]."""
    _, C, H, W = images.shape
    return unpatchify(patchify(images, THIS.model.patch_size)[:, order], THIS.model.patch_size, (H, W), C)


def trained(data: Dataset, arm: str, seed: int) -> ViT:
    """The model of the experiment `positions`: the same initialisation, images and recipe."""
    config, name = replace(THIS.model, **THIS.arms[arm]), f"shuffled-{list(THIS.arms).index(arm)}"
    return train(lambda: ViT(config), watched_on(data, 500), replace(THIS.recipe, seed=seed), name)[0]


@torch.no_grad()
def ask(model: ViT, data: Dataset, chosen: list[int], orders: Tensor) -> dict:
    """What one model answers in each order, and its position table."""
    images = data.normalize(data.test_images)  # (B, C, H, W)
    rows = [reorder(images, order) for order in orders]
    answers = torch.stack([model(row[chosen]).softmax(-1) for row in rows], dim=1)  # (images, orders, classes)
    table = getattr(model.positions, "table", None)  # (1, T, D)
    return {
        "probabilities": rounded(answers, 4),
        "accuracy": [accuracy(model, row, data.test_labels) for row in rows],
        "table": [] if table is None else rounded(table[0, 1:], 3),
    }


def rounded(values: Tensor, digits: int) -> list:
    """Nested lists of short numbers."""
    if values.ndim:
        return [rounded(value, digits) for value in values]
    return round(values.item(), digits)


def run() -> dict:
    data = clothes()
    data = data.subset(THIS.images, test=THIS.test_images)
    labels = data.test_labels.tolist()
    chosen = [labels.index(label) for label in range(len(data.classes))]  # the first of each class
    N = (THIS.model.img_size // THIS.model.patch_size) ** 2
    g = torch.Generator().manual_seed(0)
    orders = torch.stack([torch.arange(N)] + [torch.randperm(N, generator=g) for _ in range(THIS.orders)])
    models = {arm: ask(trained(data, arm, THIS.seeds[0]), data, chosen, orders) for arm in THIS.arms}
    return {
        "classes": list(data.classes),
        "images": chosen,
        "pixels": data.test_images[chosen].flatten(1).tolist(),
        "orders": orders.tolist(),
        "models": models,
    }

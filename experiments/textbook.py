"""The textbook's own model and recipe to the end of its ten epochs, and what an image costs it.

Chapter 10. The run takes hours, and goes on where it was interrupted. What an
image costs is clocked apart, in turn with our recipe of five minutes, because
a long run shares its machine with other programs.
"""

import random
from dataclasses import asdict, replace

import torch

from experiments.common import (
    BEST,
    FIVE_MINUTES,
    TEXTBOOK_RECIPE,
    clothes,
    plain_products,
    race,
    resized,
    thin,
    train,
)
from vitnb import ViT
from vitnb.data import Dataset
from vitnb.textbook import textbook_vit
from vitnb.vit import count_parameters

RECIPE = replace(TEXTBOOK_RECIPE, epochs=10)
CLOCKED, ROUNDS, THREADS = 1_280, 7, 2  # images a round
SEEDS = [0]
CONFIG = {
    "device": "cpu",
    "data": "fashion_mnist",
    "model": "vitnb.textbook.textbook_vit()",
    "pixels": [0, 1],
    "recipe": asdict(RECIPE),
    "clocked": CLOCKED,
    "rounds": ROUNDS,
    "beside": {"model": BEST.to_dict(), "recipe": asdict(FIVE_MINUTES)},
}


def run() -> dict:
    data = clothes()
    large = enlarged(data)
    torch.set_num_threads(THREADS)
    few, few_large = data.subset(CLOCKED, test=0), large.subset(CLOCKED, test=0)
    with plain_products():
        _, long = train(textbook_vit, large, RECIPE, "textbook-ten")
        clocked = race(
            {
                "ours": lambda: train(lambda: ViT(BEST), few, replace(FIVE_MINUTES, epochs=1)),
                "textbook": lambda: train(textbook_vit, few_large, replace(RECIPE, epochs=1)),
            },
            ROUNDS,
            random.Random(SEEDS[0]),
            unit=None,
        )
    return {
        "parameters": count_parameters(textbook_vit()),
        "images": long.images,
        "losses": thin(long.losses),
        "test_loss_by_epoch": [round(loss, 4) for loss in long.test_loss],
        "test_accuracy_by_epoch": [round(a, 4) for a in long.test_accuracy],
        "train_accuracy_by_epoch": [round(a, 4) for a in long.train_accuracy],
        "seconds": round(long.seconds, 1),
        "clocked": clocked,
    }


def enlarged(data: Dataset) -> Dataset:
    """The images as the textbook feeds them: 96 x 96, pixels from 0 to 1."""
    train_images, test_images = (resized(images, 96) for images in (data.train_images, data.test_images))
    return replace(data, train_images=train_images, test_images=test_images, mean=(0.0,), std=(1.0,))

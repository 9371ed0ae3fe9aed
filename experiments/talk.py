"""Where tokens must talk, a ViT without attention is at chance; on single pictures of clothes it loses little.

Chapter 03: the same small model with attention, with every token given the
plain mean of all tokens instead, and with nothing instead. Two tasks: are the
two thumbnails of one picture of the same kind; and what is this picture. On
the second also two bugs that nobody sees in the accuracy.
"""

from dataclasses import asdict, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from experiments.common import clothes
from vitnb import MultiHeadAttention, ViT, ViTConfig
from vitnb.clinic import attend
from vitnb.data import Dataset
from vitnb.progress import ProgressBar
from vitnb.recipe import Recipe
from vitnb.training import fit

SINGLE = ViTConfig(patch_size=7, embed_dim=48, depth=2, num_heads=4, global_pool="mean", pos_std=0.5)
PAIRS = replace(SINGLE, img_size=(14, 28), num_classes=2)
RECIPE = Recipe(epochs=5, batch_size=64)
PICTURES = {"pairs": 12_000, "single": 6_000}
SEEDS = [0, 1, 2, 3, 4]
CONFIG = {
    "data": "fashion_mnist",
    "pictures": PICTURES,
    "device": "cpu",
    "models": {"pairs": PAIRS.to_dict(), "single": SINGLE.to_dict()},
    "recipe": asdict(RECIPE),
}


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


def thumbnails(images: Tensor, labels: Tensor, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Put two pictures side by side, half as large; label 1 if they are of the same kind, as every second pair is.

    Either side alone tells nothing: each kind is as frequent among the pairs alike as among the others.

    Shapes: images (N, 1, 28, 28), labels (N,) -> (n, 1, 14, 28), (n,).
    """
    generator = torch.Generator().manual_seed(seed)
    members = [(labels == kind).nonzero()[:, 0] for kind in range(int(labels.max()) + 1)]
    same = torch.arange(n) % 2  # (n,)
    left = torch.randint(len(members), (n,), generator=generator)
    other = (left + torch.randint(1, len(members), (n,), generator=generator)) % len(members)
    kinds = torch.stack([left, torch.where(same == 1, left, other)], dim=1)  # (n, 2)
    index = torch.empty(n, 2, dtype=torch.long)
    for kind, places in enumerate(members):
        wanted = kinds == kind  # (n, 2)
        index[wanted] = places[torch.randint(len(places), (int(wanted.sum()),), generator=generator)]
    small = F.avg_pool2d(images[index][:, :, 0].float(), 2).byte()  # (n, 2, 14, 14)
    return torch.cat([small[:, :1], small[:, 1:]], dim=3), same


def pairs(data: Dataset, n: int, n_test: int = 4000) -> Dataset:
    """The task of the two thumbnails, as a dataset with two classes."""
    train = thumbnails(data.train_images, data.train_labels, n, seed=0)
    test = thumbnails(data.test_images, data.test_labels, n_test, seed=1)
    return replace(
        data,
        train_images=train[0],
        train_labels=train[1],
        test_images=test[0],
        test_labels=test[1],
        classes=("different", "same"),
        name=f"pairs of {data.name}",
    )


def tasks() -> dict[str, tuple[ViTConfig, Dataset]]:
    data = clothes()
    return {
        "pairs": (PAIRS, pairs(data, PICTURES["pairs"])),
        "single": (SINGLE, data.subset(PICTURES["single"])),
    }


def run() -> dict:
    result = {"accuracy": {}, "train_loss": {}}
    for task, (config, data) in tasks().items():
        for name in result:
            result[name][task] = {arm: [] for arm in TASKS[task]}
        for arm in TASKS[task]:
            for seed in SEEDS:
                history = fit(build(config, arm, seed), data, replace(RECIPE, seed=seed), [ProgressBar()])
                result["accuracy"][task][arm].append(round(history.test_accuracy[-1], 4))
                result["train_loss"][task][arm].append(round(history.train_loss[-1], 4))
    return result

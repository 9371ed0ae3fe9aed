"""The small ViT with which chapter 7 compares poolings."""

from dataclasses import replace

import torch
from torch import nn

from vitbook.budgets import budget
from vitnb.data import Dataset
from vitnb.training import Recipe, fit
from vitnb.vit import ViT, ViTConfig

SMALL = ViTConfig(patch_size=7, embed_dim=32, depth=3, num_heads=2)


def train(pool: str | type[nn.Module], data: Dataset, lr: float = 1e-2, seed: int = 0) -> tuple[ViT, float]:
    """Train a small ViT with a pooling of vitnb's, or with a class of one's own; return it and its test accuracy in %.

    A class is called with the width of a token, and its num_prefix_tokens says how many tokens it prepends.
    """
    torch.manual_seed(seed)
    if isinstance(pool, str):
        model = ViT(replace(SMALL, global_pool=pool))
    else:  # a model with a position for each token
        model = ViT(replace(SMALL, global_pool="cls" if pool.num_prefix_tokens else "mean"))
        model.pool = pool(SMALL.embed_dim)
    history = fit(model, data, Recipe(epochs=budget(3, 1), batch_size=50, lr=lr, seed=seed))
    return model.eval(), 100 * history.test_accuracy[-1]

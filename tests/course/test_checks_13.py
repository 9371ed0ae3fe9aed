"""The checks of chapter 13: right answers however written, wrong ones named, predictions measured."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from tests.course.answers import RIGHT, WRONG, right, solution, wrong
from vitbook.exercises.chapter_13 import BASE, GROWTHS, _count
from vitbook.faults import attend
from vitnb import record_attention
from vitnb.vit import ViT

# 13.1 -----------------------------------------------------------------------------------------------------

RIGHT["13.1"] += [lambda *sizes: torch.tensor(float(solution("13.1")(*sizes)), dtype=torch.float64)]
WRONG["13.1"] |= {"by hand": lambda T, D, L, r: T * D}


def test_the_count_is_what_torch_counts():
    model = ViT(BASE)
    with FlopCounterMode(display=False) as counter, record_attention(model):  # it knows no fused kernel of a CPU
        model(torch.randn(1, 1, 32, 32))
    c, T = BASE, BASE.num_patches
    others = T * 64 * c.embed_dim + c.embed_dim * c.num_classes  # the patch embedding and the head
    assert counter.get_total_flops() == 2 * (_count(T, c.embed_dim, c.depth, c.mlp_ratio) + others)


# 13.2 -----------------------------------------------------------------------------------------------------

TRUE = {
    "double the image's side": (4, 4, 16, 16, 1),
    "halve the patch's side": (4, 4, 16, 16, 1),
    "double the width": (1, 4, 2, 1, 4),
    "double the depth": (1, 2, 2, 2, 2),
    "double the heads": (1, 1, 1, 2, 1),
}


def with_changes(**changes):
    spoken = {key.replace("_", " "): value for key, value in changes.items()}
    table = TRUE | {next(k for k in TRUE if word in k): value for word, value in spoken.items()}
    return lambda change: table[change]


RIGHT["13.2"] += [lambda change: [torch.tensor(factor) for factor in TRUE[change]]]
WRONG["13.2"] |= {
    "the blocks see more tokens": with_changes(side=(2, 2, 4, 4, 1)),
    "each row is longer": with_changes(image=(2, 2, 4, 4, 1), patch=(2, 2, 4, 4, 1)),
    "*and* a column": with_changes(image=(4, 4, 16, 4, 1), patch=(4, 4, 16, 4, 1)),
    "how many pairs are there now": with_changes(image=(4, 4, 4, 16, 1), patch=(4, 4, 4, 16, 1)),
    "how many tokens pass": with_changes(image=(4, 4, 16, 16, 4), patch=(4, 4, 16, 16, 4)),
    "wider on both sides": with_changes(width=(1, 2, 2, 1, 2)),
    "half as many features": with_changes(heads=(1, 1, 2, 2, 1)),
    "thinner slices": with_changes(heads=(1, 1, 1, 1, 1)),
    "24 of 25 factors agree with the models. Think again of the numbers in all": with_changes(depth=(1, 2, 2, 1, 2)),
    "the products between tokens when you double the width": with_changes(width=(1, 4, 4, 1, 4)),
    "the products in the MLPs when you double": with_changes(image=(4, 16, 16, 16, 1), patch=(4, 16, 16, 16, 1)),
    "Expected a tuple (tokens, MLPs, between tokens, maps, matrices), got 4": lambda change: 4,
}


@pytest.mark.parametrize("change", GROWTHS)
def test_the_products_between_tokens_are_those_that_torch_counts(change):
    def between(config):
        with FlopCounterMode(display=False) as counter, record_attention(model := ViT(config)):
            model(torch.randn(1, 1, config.img_size, config.img_size))
        return sum(n for kind, n in counter.get_flop_counts()["Global"].items() if "bmm" in str(kind))

    assert between(replace(BASE, **GROWTHS[change])) == TRUE[change][2] * between(BASE)


# 13.3 -----------------------------------------------------------------------------------------------------


def without_the_last_part(model, images, labels, most):
    """The mean over all parts, of which the last gives nothing."""
    n = -(-len(images) // most)
    whole = list(zip(images.split(most), labels.split(most), strict=True))[: n - 1]
    return sum(solution("13.3")(model, x, y, most) for x, y in whole) / n


RIGHT["13.3"] += [lambda model, images, labels, most: solution("13.3")(model, images, labels, 1)]
WRONG["13.3"] |= {
    "room for 4 images": lambda model, images, labels, most: model(images),
    "4 images, is left out": without_the_last_part,
    "times as long": lambda *case: -solution("13.3")(*case),
}

# 13.4 -----------------------------------------------------------------------------------------------------


@right("13.4")
def keys_meet_queries(q, k, v, most):
    """Scores with a row for each key."""
    high, total, mixed = -torch.inf, 0, 0
    for keys, values in zip(k.split(most, -2), v.split(most, -2), strict=True):
        scores = keys @ q.mT / q.shape[-1] ** 0.5  # (B, h, keys, T)
        new = scores.amax(-2, keepdim=True).clamp(min=high)
        powers = (scores - new).exp()
        total = total * (high - new).exp() + powers.sum(-2, keepdim=True)
        mixed = mixed * (high - new).exp() + values.mT @ powers
        high = new
    return (mixed / total).mT


def pieces_of(q, k, v, most, start=-math.inf):
    """The loop over pieces of keys, with another number of them, or another largest score to start with."""
    high, total, mixed = torch.full_like(q[..., :1], start), 0, 0
    for keys, values in zip(k.split(most, -2), v.split(most, -2), strict=True):
        scores = q @ keys.mT / q.shape[-1] ** 0.5
        new = torch.maximum(high, scores.amax(-1, keepdim=True))
        powers = (scores - new).exp()
        total = total * (high - new).exp() + powers.sum(-1, keepdim=True)
        mixed = mixed * (high - new).exp() + powers @ values
        high = new
    return mixed / total


def queries_in_pieces(q, k, v, most):
    return torch.cat([pieces_of(part, k, v, k.shape[-2]) for part in q.split(most, -2)], dim=-2)


@wrong("13.4", "exp is too large for a float")
def no_maximum(q, k, v, most):
    total = mixed = 0
    for keys, values in zip(k.split(most, -2), v.split(most, -2), strict=True):
        powers = (q @ keys.mT / q.shape[-1] ** 0.5).exp()
        total, mixed = total + powers.sum(-1, keepdim=True), mixed + powers @ values
    return mixed / total


WRONG["13.4"] |= {
    "PyTorch's own kernel": lambda q, k, v, most: F.scaled_dot_product_attention(q, k, v),
    "a whole map of 60 × 60": lambda q, k, v, most: (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v,
    "a product sums over 13": lambda q, k, v, most: pieces_of(q, k, v, most + 1),
    "a product sums over 60": queries_in_pieces,
    "a largest score that starts at 0": lambda q, k, v, most: pieces_of(q, k, v, most, start=0.0),
    "by no mistake that I know": lambda *case: -pieces_of(*case),
}


def test_the_reference_is_torchs_kernel():
    q, k, v = torch.randn(3, 2, 3, 11, 5).unbind(0)
    for most in (1, 4, 11, 20):
        torch.testing.assert_close(attend.piecewise(q, k, v, most), F.scaled_dot_product_attention(q, k, v))

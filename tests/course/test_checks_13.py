"""The checks of chapter 13: right answers however written, wrong ones named, predictions measured.

They join the tables of test_checks.py. With their verdicts: pytest tests/course/test_checks_13.py -k table -s
"""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from tests.course.answers import right, verdict, wrong
from vitbook.exercises.chapter_13 import BASE, GROWTHS, _count
from vitbook.faults import attend
from vitnb import record_attention
from vitnb.vit import ViT

# 13.1 -----------------------------------------------------------------------------------------------------


def by_formula(T, D, L, r):
    return L * T * D * ((4 + 2 * r) * D + 2 * T)


@right("13.1")
def by_matrices(T, D, L, r):
    block = 0
    for rows, columns in [(3 * D, D), (D, D), (r * D, D), (D, r * D)]:
        block += T * rows * columns
    scores = mix = T * T * D
    return torch.tensor(float(L * (block + scores + mix)), dtype=torch.float64)


wrong("13.1", "by hand")(lambda T, D, L, r: T * D)
wrong("13.1", "Expected a number")(lambda T, D, L, r: str(by_formula(T, D, L, r)))


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


right("13.2")(lambda change: torch.tensor(TRUE[change]))
right("13.2")(lambda change: [torch.tensor(factor) for factor in TRUE[change]])
wrong("13.2", "the blocks see more tokens")(with_changes(side=(2, 2, 4, 4, 1)))
wrong("13.2", "each row is longer")(with_changes(image=(2, 2, 4, 4, 1), patch=(2, 2, 4, 4, 1)))
wrong("13.2", "*and* a column")(with_changes(image=(4, 4, 16, 4, 1), patch=(4, 4, 16, 4, 1)))
wrong("13.2", "how many pairs are there now")(with_changes(image=(4, 4, 4, 16, 1), patch=(4, 4, 4, 16, 1)))
wrong("13.2", "how many tokens pass")(with_changes(image=(4, 4, 16, 16, 4), patch=(4, 4, 16, 16, 4)))
wrong("13.2", "wider on both sides")(with_changes(width=(1, 2, 2, 1, 2)))
wrong("13.2", "half as many features")(with_changes(heads=(1, 1, 2, 2, 1)))
wrong("13.2", "thinner slices")(with_changes(heads=(1, 1, 1, 1, 1)))
wrong(
    "13.2", "24 of 25 factors agree with the models. Think again of the numbers in all maps when you double the depth"
)(with_changes(depth=(1, 2, 2, 1, 2)))
wrong("13.2", "the numbers in all maps when you double the width")(with_changes(width=(1, 4, 2, 2, 4)))
wrong("13.2", "the products between tokens when you double the width")(with_changes(width=(1, 4, 4, 1, 4)))
wrong("13.2", "the products in the MLPs when you double the image's side")(
    with_changes(image=(4, 16, 16, 16, 1), patch=(4, 16, 16, 16, 1))
)
wrong("13.2", "Expected a tuple (tokens, MLPs, between tokens, maps, matrices), got 4")(lambda change: 4)


@pytest.mark.parametrize("change", GROWTHS)
def test_the_products_between_tokens_are_those_that_torch_counts(change):
    def between(config):
        with FlopCounterMode(display=False) as counter, record_attention(model := ViT(config)):
            model(torch.randn(1, 1, config.img_size, config.img_size))
        return sum(n for kind, n in counter.get_flop_counts()["Global"].items() if "bmm" in str(kind))

    assert between(replace(BASE, **GROWTHS[change])) == TRUE[change][2] * between(BASE)


def test_every_change_is_asked():
    assert set(TRUE) == set(GROWTHS)


def test_the_untouched_prediction_is_not_done_yet():
    assert verdict("13.2", lambda change: dict.fromkeys(GROWTHS, ...)[change]) == (False, "13.2: not done yet.")
    assert verdict("13.2", lambda change: (..., ..., ..., ..., ...)) == (False, "13.2: not done yet.")


# 13.3 -----------------------------------------------------------------------------------------------------


def slope(model, images, labels, reduction="mean"):
    loss = F.cross_entropy(model(images), labels, reduction=reduction)
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])


def parts_of(images, labels, most):
    return list(zip(images.split(most), labels.split(most), strict=True))


@right("13.3")
def by_weight(model, images, labels, most):
    return sum(len(y) / len(labels) * slope(model, x, y) for x, y in parts_of(images, labels, most))


@right("13.3")
def by_backward(model, images, labels, most):
    model.zero_grad()
    for x, y in parts_of(images, labels, most):
        (F.cross_entropy(model(x), y, reduction="sum") / len(labels)).backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@right("13.3")
def one_by_one(model, images, labels, most):
    return torch.stack([slope(model, images[i : i + 1], labels[i : i + 1]) for i in range(len(images))]).mean(0)


wrong("13.3", "room for 4 images")(lambda model, images, labels, most: slope(model, images, labels))


@wrong("13.3", "an earlier batch")
def never_clears(model, images, labels, most):
    for x, y in parts_of(images, labels, most):
        (F.cross_entropy(model(x), y, reduction="sum") / len(labels)).backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@wrong("13.3", "set to zero in the loop")
def clears_in_the_loop(model, images, labels, most):
    for x, y in parts_of(images, labels, most):
        model.zero_grad()
        (F.cross_entropy(model(x), y, reduction="sum") / len(labels)).backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


@wrong("13.3", "2 images, is left out")
def drops_the_rest(model, images, labels, most):
    whole = [(x, y) for x, y in parts_of(images, labels, most) if len(y) == most] or parts_of(images, labels, most)
    return sum(slope(model, x, y) for x, y in whole) / len(whole)


wrong("13.3", "4 images, is left out")(
    lambda model, x, y, most: sum(slope(model, *part) for part in parts_of(x, y, most)[:-1]) / len(parts_of(x, y, most))
)


wrong("13.3", "times as long")(lambda model, *rest: -by_weight(model, *rest))
wrong("13.3", "Expected a tensor of shape (149,), got a list of 149")(
    lambda model, *rest: by_weight(model, *rest).tolist()
)

# 13.4 -----------------------------------------------------------------------------------------------------


@right("13.4")
def by_log_sum(q, k, v, most):
    """Each piece's own softmax, weighted by the logarithm of its sum: the same numbers, kept in another way."""
    out, high = torch.zeros_like(q), torch.full((*q.shape[:-1], 1), -torch.inf)
    for i in range(0, k.shape[-2], most):
        scores = q @ k[..., i : i + most, :].mT / q.shape[-1] ** 0.5
        own = scores.logsumexp(-1, keepdim=True)
        both = torch.logaddexp(high, own)
        out = out * (high - both).exp() + (own - both).exp() * (scores.softmax(-1) @ v[..., i : i + most, :])
        high = both
    return out


@right("13.4")
def query_by_query(q, k, v, most):
    rows = []
    for one in q.unbind(-2):
        high, total, mixed = torch.full_like(one[..., :1], -torch.inf), 0, 0
        for keys, values in zip(k.split(most, -2), v.split(most, -2), strict=True):
            scores = (keys @ one[..., None])[..., 0] / one.shape[-1] ** 0.5
            new = torch.maximum(high, scores.amax(-1, keepdim=True))
            total = total * (high - new).exp() + (scores - new).exp().sum(-1, keepdim=True)
            mixed = mixed * (high - new).exp() + ((scores - new).exp()[..., None, :] @ values)[..., 0, :]
            high = new
        rows.append(mixed / total)
    return torch.stack(rows, dim=-2)


wrong("13.4", "PyTorch's own kernel")(lambda q, k, v, most: F.scaled_dot_product_attention(q, k, v))
wrong("13.4", "a whole map of 60 × 60")(lambda q, k, v, most: (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v)


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


wrong("13.4", "a product sums over 13")(lambda q, k, v, most: pieces_of(q, k, v, most + 1))
wrong("13.4", "a largest score that starts at 0")(lambda q, k, v, most: pieces_of(q, k, v, most, start=0.0))
wrong("13.4", "a product sums over 60")(
    lambda q, k, v, most: torch.cat([pieces_of(part, k, v, k.shape[-2]) for part in q.split(most, -2)], dim=-2)
)
wrong("13.4", "by no mistake that I know")(lambda q, k, v, most: -by_log_sum(q, k, v, most))


@wrong("13.4", "exp is too large for a float")
def no_maximum(q, k, v, most):
    total = mixed = 0
    for keys, values in zip(k.split(most, -2), v.split(most, -2), strict=True):
        powers = (q @ keys.mT / q.shape[-1] ** 0.5).exp()
        total, mixed = total + powers.sum(-1, keepdim=True), mixed + powers @ values
    return mixed / total


def test_the_reference_is_torchs_kernel():
    q, k, v = torch.randn(3, 2, 3, 11, 5).unbind(0)
    for most in (1, 4, 11, 20):
        torch.testing.assert_close(attend.piecewise(q, k, v, most), F.scaled_dot_product_attention(q, k, v))


# ----------------------------------------------------------------------------------------------------------

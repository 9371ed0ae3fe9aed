"""The checks of chapter 13: right answers however written, wrong ones named, predictions measured.

They join the tables of test_checks.py. With their verdicts: pytest tests/test_checks_13.py -k table -s
"""

from dataclasses import replace

import pytest
import torch
from answers import right, verdict, wrong
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from vitnb import record_attention
from vitnb.checks.chapter_13 import BASE, GROWTHS, _count
from vitnb.vit import ViT

# 13.1 -----------------------------------------------------------------------------------------------------


@right("13.1")
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
wrong("13.1", "a number is wanted")(lambda T, D, L, r: str(by_formula(T, D, L, r)))


def test_the_count_is_what_torch_counts():
    model = ViT(BASE)
    with FlopCounterMode(display=False) as counter, record_attention(model):  # it knows no fused kernel of a CPU
        model(torch.randn(1, 1, 32, 32))
    c, T = BASE, BASE.num_patches
    others = T * 64 * c.embed_dim + c.embed_dim * c.num_classes  # the patch embedding and the head
    assert counter.get_total_flops() == 2 * (_count(T, c.embed_dim, c.depth, c.mlp_ratio) + others)


# 13.2 -----------------------------------------------------------------------------------------------------

TRUE = {
    "double the picture's side": (4, 4, 16, 1),
    "halve the patch's side": (4, 4, 16, 1),
    "double the width": (1, 4, 1, 4),
    "double the depth": (1, 2, 2, 2),
    "double the heads": (1, 1, 2, 1),
}


def with_changes(**changes):
    spoken = {key.replace("_", " "): value for key, value in changes.items()}
    table = TRUE | {next(k for k in TRUE if word in k): value for word, value in spoken.items()}
    return lambda change: table[change]


right("13.2")(lambda change: TRUE[change])
right("13.2")(lambda change: [torch.tensor(factor) for factor in TRUE[change]])
wrong("13.2", "the blocks see more tokens")(with_changes(side=(2, 2, 4, 1)))
wrong("13.2", "each row is longer")(with_changes(picture=(2, 2, 4, 1), patch=(2, 2, 4, 1)))
wrong("13.2", "*and* a column")(with_changes(picture=(4, 4, 4, 1), patch=(4, 4, 4, 1)))
wrong("13.2", "how many tokens pass")(with_changes(picture=(4, 4, 16, 4), patch=(4, 4, 16, 4)))
wrong("13.2", "wider on both sides")(with_changes(width=(1, 2, 1, 2)))
wrong("13.2", "thinner slices")(with_changes(heads=(1, 1, 1, 1)))
wrong(
    "13.2", "19 of 20 factors agree with the models. Think again of the numbers in all maps when you double the depth"
)(with_changes(depth=(1, 2, 1, 2)))
wrong("13.2", "the numbers in all maps when you double the width")(with_changes(width=(1, 4, 2, 4)))
wrong("13.2", "the products in the MLPs when you double the picture's side")(
    with_changes(picture=(4, 16, 16, 1), patch=(4, 16, 16, 1))
)
wrong("13.2", "four factors are wanted")(lambda change: 4)


def test_the_work_between_tokens_feels_the_square_as_well():
    """The maps are not alone: with twice the side, scores and mix are 16 times as many, the matrices 4 times."""

    def products(config):
        with FlopCounterMode(display=False) as counter, record_attention(model := ViT(config)):
            model(torch.randn(1, 1, config.img_size, config.img_size))
        kinds = counter.get_flop_counts()["Global"]
        between = sum(n for kind, n in kinds.items() if "bmm" in str(kind))
        return between, counter.get_total_flops() - between

    before, after = products(BASE), products(replace(BASE, img_size=64))
    assert after[0] == 16 * before[0]
    assert after[1] == pytest.approx(4 * before[1], rel=0.01)  # the head stays


def test_every_change_is_asked():
    assert set(TRUE) == set(GROWTHS)


def test_the_untouched_prediction_is_not_done_yet():
    assert verdict("13.2", lambda change: dict.fromkeys(GROWTHS, ...)[change]) == (False, "13.2: not done yet.")
    assert verdict("13.2", lambda change: (..., ..., ..., ...)) == (False, "13.2: not done yet.")


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


wrong("13.3", "room for 4 pictures")(lambda model, images, labels, most: slope(model, images, labels))


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


@wrong("13.3", "pictures are left out")
def drops_the_rest(model, images, labels, most):
    whole = [(x, y) for x, y in parts_of(images, labels, most) if len(y) == most] or parts_of(images, labels, most)
    return sum(slope(model, x, y) for x, y in whole) / len(whole)


wrong("13.3", "the last 4 pictures are left out")(
    lambda model, x, y, most: sum(slope(model, *part) for part in parts_of(x, y, most)[:-1]) / len(parts_of(x, y, most))
)


wrong("13.3", "times as long")(lambda model, *rest: -by_weight(model, *rest))
wrong("13.3", "is wanted")(lambda model, *rest: by_weight(model, *rest).tolist())

# ----------------------------------------------------------------------------------------------------------

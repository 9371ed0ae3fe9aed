"""The checks of chapter 2: answers that are accepted, answers that are named, predictions that are measured."""

import itertools
import math

import torch

from tests.course.answers import right, verdict, wrong
from vitbook import faults
from vitbook.exercises.chapter_02 import STAYS, _verdict
from vitnb import (
    NoPositions,
    PatchEmbedding,
    ViT,
    ViTConfig,
    patchify,
    unpatchify,
)

# 2.1 ------------------------------------------------------------------------------------------------------

right("2.1")(lambda change: change in ("swap", "twice", "roll by a patch"))
wrong("2.1", "3 of 6 predictions agree with the model. You say that nothing moves")(lambda change: True)
wrong("2.1", "You say that everything moves")(lambda change: False)
wrong("2.1", "or their shares?")(lambda change: STAYS[change] and change != "twice")
wrong("2.1", "5 of 6 predictions agree with the model. One at least")(
    lambda change: STAYS[change] or change == "roll by a pixel"
)
wrong("2.1", "whole patches to other places unlike")(lambda change: change in ("swap", "twice"))
wrong("2.1", "the same patches afterwards")(lambda change: STAYS[change] or change == "mirror")
wrong("2.1", "Expected True or False")(lambda change: "yes")


def test_the_predictions_are_what_the_model_does():
    torch.manual_seed(0)
    images, p = torch.randn(2, 1, 28, 28), 7
    model = ViT(ViTConfig(patch_size=p, pos_embed="none", global_pool="mean", depth=2)).eval()
    patches = patchify(images, p)
    swapped = patches.clone()
    swapped[:, [2, 9]] = patches[:, [9, 2]]
    turned = patches.reshape(2, 16, p, p).rot90(dims=(2, 3)).flatten(2)
    changed = {
        "roll by a patch": images.roll(p, dims=3),
        "roll by a pixel": images.roll(1, dims=3),
        "mirror": images.flip(3),
        "swap": unpatchify(swapped, p, 28, 1),
        "turn": unpatchify(turned, p, 28, 1),
        "twice": torch.cat([images, images], dim=3),
    }
    logits = model(images)
    wide = PatchEmbedding((28, 56), p, 1, 64)
    wide.load_state_dict(model.patch_embed.state_dict())
    for change, new in changed.items():
        model.patch_embed = wide if change == "twice" else model.patch_embed
        difference = (model(new) - logits).abs().max()
        assert (difference < 1e-5) == STAYS[change], change
        assert difference < 1e-5 or difference > 1e-3


# 2.2 ------------------------------------------------------------------------------------------------------


@right("2.2")
def two_means(W):
    T = len(W)
    own = W.diagonal().mean()
    other = (W.sum() - W.diagonal().sum()) / (T * (T - 1))
    return other * torch.ones(T, T) + (own - other) * torch.eye(T)


@right("2.2")
def by_mask(W):
    diagonal = torch.eye(len(W), dtype=torch.bool)
    return torch.where(diagonal, W[diagonal].mean(), W[~diagonal].mean())


@right("2.2")
def by_projection(W):
    """Onto the two matrices that commute with every permutation, made orthogonal."""
    T = len(W)
    one, two = torch.eye(T) / T**0.5, (torch.ones(T, T) - torch.eye(T)) / (T * (T - 1)) ** 0.5
    return (W * one).sum() * one + (W * two).sum() * two


def over_all_orders(W):
    orders = list(itertools.permutations(range(len(W))))
    return torch.stack([W[list(o)][:, list(o)] for o in orders]).mean(0)


wrong("2.2", "Entries (0, 0) and (1, 1) of your result are")(lambda W: torch.stack([W, W.flip(0, 1)]).mean(0))
wrong("2.2", "entries (0, 1) and (0, 2) are")(
    lambda W: W - W.diagonal().diag() + W.diagonal().mean() * torch.eye(len(W))
)
wrong("2.2", "these are not the averages")(lambda W: two_means(W) / 2)
wrong("2.2", "W itself must be in it")(lambda W: torch.eye(len(W))[torch.randperm(len(W))])
wrong("2.2", "Expected a tensor of shape (4, 4), got ()")(lambda W: W.mean())


def test_the_equivariant_part_is_the_average_over_all_orders():
    torch.manual_seed(0)
    W = torch.randn(5, 5)
    torch.testing.assert_close(two_means(W), over_all_orders(W))
    P = torch.eye(5)[torch.randperm(5)]
    torch.testing.assert_close(P.T @ two_means(W) @ P, two_means(W))


# 2.3 ------------------------------------------------------------------------------------------------------


def address(row, col, features=(-2, -1), swap=False, batch=False):
    def answer(rows, cols, D):
        n = torch.arange(rows * cols)
        table, read = torch.zeros(rows * cols, D), torch.zeros(D, 2)
        table[:, features[0]], table[:, features[1]] = row(n, rows, cols).float(), col(n, rows, cols).float()
        read[features[0], int(swap)] = read[features[1], 1 - int(swap)] = 1
        return (table[None] if batch else table), read

    return answer


def by_row(n, rows, cols):
    return n // cols


def by_col(n, rows, cols):
    return n % cols


right("2.3")(address(by_row, by_col))
right("2.3")(address(by_col, by_row, swap=True, batch=True))


@right("2.3")
def solved(rows, cols, D):
    """Random directions in the two free features, and the matrix that undoes them."""
    mix = torch.tensor([[2.0, 1.0], [1.0, -1.0]])
    wanted = torch.cartesian_prod(torch.arange(rows), torch.arange(cols)).float()
    table, read = torch.randn(rows * cols, D), torch.zeros(D, 2)
    table[:, -2:], read[-2:] = wanted @ mix, mix.inverse()
    return table, read


wrong("2.3", "so every token reads (0, 0)")(lambda r, c, D: (torch.zeros(r * c, D), torch.zeros(D, 2)))
wrong("2.3", "Expected the pair (table, read), got a list of 15")(lambda r, c, D: torch.zeros(r * c, D))
wrong("2.3", "Expected a tensor of type torch.float32, got torch.int64. Hint")(
    lambda r, c, D: (torch.ones(r * c, D).long(), torch.ones(D, 2).long())
)
wrong("2.3", "Expected a tensor of shape (8, 2), got (2, 8)")(lambda r, c, D: (torch.ones(r * c, D), torch.zeros(2, D)))
wrong("2.3", "and that is not its row and column")(address(lambda n, r, c: n, by_col))


# 2.4 ------------------------------------------------------------------------------------------------------

right("2.4")(lambda: ([0.05, 0.06, 0.07], [0.2, 0.21, 0.22], "digits"))
right("2.4")(lambda: [torch.tensor([0.2, 0.21, 0.22, 0.2]), (0.05, 0.06, 0.07), "clothes"])
right("2.4")(lambda: ([0.05, 0.09, 0.13], [0.06, 0.1, 0.16], "not shown"))


def finding(clothes, digits, said):
    return lambda: (clothes, digits, said)


wrong("2.4", "does not contain 0: you may say more")(finding([0.05, 0.06, 0.07], [0.2, 0.21, 0.22], "not shown"))
wrong("2.4", "The interval contains 0: chance alone")(finding([0.05, 0.09, 0.13], [0.06, 0.1, 0.16], "digits"))
wrong("2.4", "You name the data set that gains less")(finding([0.05, 0.06, 0.07], [0.2, 0.21, 0.22], "clothes"))
wrong("2.4", "Expected one of 'clothes', 'digits', 'not shown' as the verdict, got 'both'")(
    finding([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], "both")
)
wrong("2.4", "2 gains on clothes: an interval needs three seeds")(finding([0.1, 0.2], [0.1, 0.2, 0.3], "digits"))
wrong("2.4", "1 gain on digits: an interval")(finding([0.1, 0.2, 0.3], [0.2], "digits"))
wrong("2.4", "A gain of 5.1 on clothes: accuracies lie between 0 and 1")(
    finding([4, 5.1, 3], [0.1, 0.2, 0.3], "digits")
)
wrong("2.4", "Are these accuracies?")(finding([0.05, 0.06, 0.07], [0.9, 0.91, 0.92], "digits"))
wrong("2.4", "did each run get its own seed?")(finding([0.05, 0.05, 0.05], [0.2, 0.3, 0.2], "digits"))
wrong("2.4", "Expected a list of gains on clothes, one a seed, got 0.05")(finding(0.05, 0.2, "digits"))
wrong("2.4", "Expected a number")(finding(["a", "b", "c"], [0.1, 0.2, 0.3], "digits"))
wrong("2.4", "Expected the triple (clothes, digits, verdict), got 'digits'")(lambda: "digits")


def test_a_difference_is_shown_if_its_interval_does_not_contain_0():
    """Gains of mean 0 and 3, variance 1, four seeds each: the error is sqrt(1/2), Student's factor for 6 is 2.447."""
    clothes = torch.tensor([-1.0, 1, -1, 1]) * 3**0.5 / 2 / 100
    said, low, high = _verdict(clothes, clothes + 0.03)
    reach = 2.4469 * 0.5**0.5
    assert (
        said == "digits" and math.isclose(low, 3 - reach, rel_tol=1e-4) and math.isclose(high, 3 + reach, rel_tol=1e-4)
    )
    assert _verdict(clothes, clothes + 0.0173)[0] == "not shown" and _verdict(clothes, clothes + 0.0174)[0] == "digits"
    assert _verdict(clothes + 0.03, clothes)[0] == "clothes"


# ----------------------------------------------------------------------------------------------------------


def test_the_skeletons_of_the_chapter_are_not_done_yet():
    skeletons = {
        "2.1": lambda change: {change: ...}[change],
        "2.3": lambda rows, cols, D: (..., ...),
        "2.4": lambda: (..., ..., ...),
    }
    for number, skeleton in skeletons.items():
        assert verdict(number, skeleton) == (False, f"{number}: not done yet.")


def test_layers_that_know_the_order_are_not_equivariant():
    torch.manual_seed(0)
    x, order = torch.randn(2, 7, 12), torch.tensor([2, 0, 1, 3, 6, 4, 5])
    for kind in faults.of(NoPositions).values():
        layer = kind(7, 12)
        assert not torch.allclose(layer(x[:, order]), layer(x)[:, order], atol=1e-4)

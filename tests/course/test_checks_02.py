"""The checks of chapter 2: answers that are accepted, answers that are named, predictions that are measured."""

import itertools
import math

import torch

from tests.course.answers import RIGHT, WRONG, right, solution
from vitbook import faults
from vitbook.exercises.chapter_02 import STAYS, _equivariant_part, _verdict
from vitnb import NoPositions, PatchEmbedding, ViT, ViTConfig, patchify, unpatchify

# 2.1 ------------------------------------------------------------------------------------------------------

WRONG["2.1"] |= {
    "3 of 6 predictions agree with the model. You say that nothing moves": lambda change: True,
    "You say that everything moves": lambda change: False,
    "or their shares?": lambda change: STAYS[change] and change != "twice",
    "5 of 6 predictions agree with the model. One at least": lambda c: STAYS[c] or c == "roll by a pixel",
    "whole patches to other places unlike": lambda change: change in ("swap", "twice"),
    "the same patches afterwards": lambda change: STAYS[change] or change == "mirror",
    "Expected True or False": lambda change: "yes",
}


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

WRONG["2.2"] |= {
    "Entries (0, 0) and (1, 1) of your result are": lambda W: torch.stack([W, W.flip(0, 1)]).mean(0),
    "entries (0, 1) and (0, 2) are": (lambda W: W - W.diagonal().diag() + W.diagonal().mean() * torch.eye(len(W))),
    "these are not the averages": lambda W: _equivariant_part(W) / 2,
    "W itself must be in it": lambda W: torch.eye(len(W))[torch.randperm(len(W))],
}


def test_the_equivariant_part_is_the_average_over_all_orders():
    torch.manual_seed(0)
    W, P = torch.randn(5, 5), torch.eye(5)[torch.randperm(5)]
    orders = [list(order) for order in itertools.permutations(range(5))]
    part = _equivariant_part(W)
    torch.testing.assert_close(part, torch.stack([W[o][:, o] for o in orders]).mean(0))
    torch.testing.assert_close(P.T @ part @ P, part)


# 2.3 ------------------------------------------------------------------------------------------------------


@right("2.3")
def in_other_directions(rows, cols, D):
    """Any directions in the two free features, the matrix that undoes them, and a table with an axis for images."""
    mix = torch.tensor([[2.0, 1.0], [1.0, -1.0]])
    asked = torch.cartesian_prod(torch.arange(rows), torch.arange(cols)).float()
    table, read = torch.randn(1, rows * cols, D), torch.zeros(D, 2)
    table[..., -2:], read[-2:] = asked @ mix, mix.inverse()
    return table, read


def doubled(*case):
    table, read = solution("2.3")(*case)
    return 2 * table, read


WRONG["2.3"] |= {
    "so every token reads (0, 0)": lambda r, c, D: (torch.zeros(r * c, D), torch.zeros(D, 2)),
    "Expected the pair (table, read), got a list of 15": lambda r, c, D: torch.zeros(r * c, D),
    "and that is not its row and column": doubled,
    "Expected a tensor of type torch.float32, got torch.int64": lambda *case: (solution("2.3")(*case)[0].long(), 0),
    "Expected a tensor of shape (8, 2), got (2, 8)": lambda *case: (solution("2.3")(*case)[0], torch.zeros(2, 8)),
}

# 2.4 ------------------------------------------------------------------------------------------------------


def finding(clothes, digits, said):
    return lambda: (clothes, digits, said)


SMALL, LARGE = [0.05, 0.06, 0.07], [0.2, 0.21, 0.22]
FAR_APART = [0.05, 0.09, 0.13], [0.06, 0.1, 0.16]
RIGHT["2.4"] += [finding(SMALL, LARGE, "digits"), finding(*FAR_APART, "not shown")]
RIGHT["2.4"] += [lambda: [torch.tensor([*LARGE, 0.2]), tuple(SMALL), "clothes"]]
WRONG["2.4"] |= {
    "does not contain 0: you may say more": finding(SMALL, LARGE, "not shown"),
    "The interval contains 0: chance alone": finding(*FAR_APART, "digits"),
    "You name the data set that gains less": finding(SMALL, LARGE, "clothes"),
    "Expected one of 'clothes', 'digits', 'not shown' as the verdict, got 'both'": finding(SMALL, LARGE, "both"),
    "2 gains on clothes: an interval needs three seeds": finding([0.1, 0.2], LARGE, "digits"),
    "1 gain on digits: an interval": finding(SMALL, [0.2], "digits"),
    "A gain of 5.1 on clothes: accuracies lie between 0 and 1": finding([4, 5.1, 3], LARGE, "digits"),
    "Are these accuracies?": finding(SMALL, [0.9, 0.91, 0.92], "digits"),
    "did each run get its own seed?": finding([0.05, 0.05, 0.05], LARGE, "digits"),
    "Expected a list of gains on clothes, one a seed, got 0.05": finding(0.05, 0.2, "digits"),
    "Expected a number": finding(["a", "b", "c"], LARGE, "digits"),
    "Expected the triple (clothes, digits, verdict), got 'digits'": lambda: "digits",
}


def test_a_difference_is_shown_if_its_interval_does_not_contain_0():
    """Gains of mean 0 and 3, variance 1, four seeds each: the error is sqrt(1/2), Student's factor for 6 is 2.447."""
    clothes = torch.tensor([-1.0, 1, -1, 1]) * 3**0.5 / 2 / 100
    said, low, high = _verdict(clothes, clothes + 0.03)
    reach = 2.4469 * 0.5**0.5
    assert said == "digits"
    assert math.isclose(low, 3 - reach, rel_tol=1e-4) and math.isclose(high, 3 + reach, rel_tol=1e-4)
    assert _verdict(clothes, clothes + 0.0173)[0] == "not shown" and _verdict(clothes, clothes + 0.0174)[0] == "digits"
    assert _verdict(clothes + 0.03, clothes)[0] == "clothes"


# ----------------------------------------------------------------------------------------------------------


def test_layers_that_know_the_order_are_not_equivariant():
    torch.manual_seed(0)
    x, order = torch.randn(2, 7, 12), torch.tensor([2, 0, 1, 3, 6, 4, 5])
    for kind in faults.of(NoPositions).values():
        layer = kind(7, 12)
        assert not torch.allclose(layer(x[:, order]), layer(x)[:, order], atol=1e-4)

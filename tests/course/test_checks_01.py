"""The checks of chapter 1: answers that are accepted, answers that are named, reports of experiments."""

import math
from statistics import mean, stdev

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.course.answers import right, verdict, wrong
from vitbook.exercises.chapter_01 import paired
from vitnb import patchify, unpatchify
from vitnb.evaluation import interval

# 1.1 ------------------------------------------------------------------------------------------------------


@right("1.1")
def count_by_looking(height, width, patch_size):
    return patchify(torch.zeros(1, 1, height, width), patch_size).shape[1]


def guarded(count):
    def answer(height, width, patch_size):
        if height % patch_size or width % patch_size:
            raise ValueError
        return count(height, width, patch_size)

    return answer


wrong("1.1", "Draw the grid")(guarded(lambda h, w, p: (h // p) ** 2))
wrong("1.1", "Expected a whole number, got 15.0")(guarded(lambda h, w, p: (h / p) * (w / p)))


@wrong("1.1", "each side must fit alone")
def count_by_area(height, width, patch_size):
    if height * width % patch_size**2:
        raise ValueError
    return height * width // patch_size**2


@wrong("1.1", "expected a ValueError, got AssertionError")
def count_with_assert(height, width, patch_size):
    assert height % patch_size == 0 and width % patch_size == 0
    return (height // patch_size) * (width // patch_size)


@wrong("1.1", "28 x 30 pixels cannot be cut")
def count_looks_at_the_height(height, width, patch_size):
    if height % patch_size:
        raise ValueError
    return (height // patch_size) * (width // patch_size)


# 1.2 ------------------------------------------------------------------------------------------------------


@wrong("1.2", "You loop over the patches")
def by_loop(patches, p, H, W, C):
    images = torch.empty(len(patches), C, H, W)
    for i in range(patches.shape[1]):
        r, c = i // (W // p) * p, i % (W // p) * p
        images[:, :, r : r + p, c : c + p] = patches[:, i].reshape(-1, C, p, p)
    return images


right("1.2")(lambda patches, p, H, W, C: F.fold(patches.mT, (H, W), p, stride=p))
wrong("1.2", "Height and width are swapped")(
    lambda x, p, H, W, C: x.reshape(-1, W // p, H // p, C, p, p).permute(0, 3, 1, 4, 2, 5).reshape(-1, C, W, H)
)
wrong("1.2", "raises RuntimeError")(
    lambda x, p, H, W, C: x.reshape(-1, H // p, W // p, 3, p, p).permute(0, 3, 1, 4, 2, 5).reshape(-1, C, H, W)
)
wrong("1.2", "the first wrong pixel is image 0, channel 0, row 0, column 0")(
    lambda x, p, H, W, C: unpatchify(x.flip(1), p, (H, W), C)
)
wrong("1.2", "a NumPy array of shape")(lambda x, p, H, W, C: unpatchify(x, p, (H, W), C).numpy())
wrong("1.2", "torch.float64")(lambda x, p, H, W, C: unpatchify(x, p, (H, W), C).double())
wrong("1.2", "holds NaN")(lambda x, p, H, W, C: unpatchify(x, p, (H, W), C) * math.nan)


@wrong("1.2", "changes what it is given")
def in_place(patches, p, H, W, C):
    images = unpatchify(patches, p, (H, W), C)
    patches.zero_()
    return images


# 1.3 ------------------------------------------------------------------------------------------------------


def pads(images, conv):
    p = conv.kernel_size[0]
    H, W = images.shape[2:]
    return conv(F.pad(images, (0, -W % p, 0, -H % p))).flatten(2).mT


def padded_by(images, conv, missing, order=(0, 1, 2, 3)):
    p = conv.kernel_size[0]
    around = (0, missing(images.shape[3], p), 0, missing(images.shape[2], p))
    return conv(F.pad(images, [around[i] for i in order])).flatten(2).mT


@right("1.3")
def lays_on_zeros(images, conv):
    (B, C, H, W), p = images.shape, conv.kernel_size[0]
    large = torch.zeros(B, C, math.ceil(H / p) * p, math.ceil(W / p) * p)
    large[:, :, :H, :W] = images
    return F.linear(patchify(large, p), conv.weight.flatten(1), conv.bias)


wrong("1.3", "How many are missing to the next multiple of p?")(
    lambda images, conv: padded_by(images, conv, lambda side, p: side % p)
)
wrong("1.3", "the height is not padded enough")(
    lambda images, conv: padded_by(images, conv, lambda side, p: -side % p, order=(2, 3, 0, 1))
)
wrong("1.3", "the height is not padded enough")(
    lambda images, conv: conv(F.pad(images, (0, -images.shape[3] % conv.kernel_size[0]))).flatten(2).mT
)
wrong("1.3", "use 12")(lambda images, conv: F.linear(patchify(images, 4), conv.weight.flatten(1), conv.bias))
wrong("1.3", "off by up to")(lambda images, conv: pads(images + 1, conv))
wrong("1.3", "Images of 10 x 7 pixels, patches of side 4. Your tokens are off by up to")(
    lambda images, conv: (
        conv(F.interpolate(images, [side + -side % conv.kernel_size[0] for side in images.shape[2:]])).flatten(2).mT
    )
)
wrong("1.3", "Expected a tensor of shape (2, 6, 5), got (2, 1, 5)")(lambda images, conv: pads(images, conv)[:, :1])
wrong("1.3", "Expected a tensor")(lambda images, conv: pads(images, conv).detach().numpy())


# 1.4 ------------------------------------------------------------------------------------------------------

CLEAR = {4: [0.70, 0.72, 0.71], 7: [0.76, 0.79, 0.773], 14: [0.74, 0.764, 0.75]}
TWO_ERRORS = {4: [0.70, 0.72, 0.71], 7: [0.76, 0.79, 0.765], 14: [0.74, 0.755, 0.75]}  # ahead by 3.9 of them
OPEN = {2: [0.70, 0.72, 0.71, 0.7], 7: [0.76, 0.79, 0.765, 0.75], 14: [0.77, 0.755, 0.75, 0.785]}


def reporting(runs, /, **changes):
    best, ahead, error = paired(runs)
    second = sorted(runs, key=lambda side: -mean(runs[side]))[1]
    _, reach = interval(torch.tensor(runs[best]).double() - torch.tensor(runs[second]).double())
    said = {"runs": runs, "winner": best if ahead > reach else None, "ahead": ahead, "error": error}
    return lambda: said | changes


right("1.4")(reporting(CLEAR))
right("1.4")(reporting(OPEN))
right("1.4")(reporting(TWO_ERRORS, winner=None))
right("1.4")(reporting(CLEAR, error=round(paired(CLEAR)[2], 4)))
right("1.4")(reporting(CLEAR, runs={p: [torch.tensor(a) for a in runs] for p, runs in CLEAR.items()}))
right("1.4")(reporting(CLEAR, runs={p: torch.tensor(runs) for p, runs in CLEAR.items()}))
right("1.4")(
    reporting({np.int64(p): np.array(runs) for p, runs in CLEAR.items()}, ahead=torch.tensor(paired(CLEAR)[1]))
)
wrong("1.4", "Your dictionary has no 'runs'")(lambda: CLEAR)
wrong("1.4", "Expected runs {patch side: accuracies, one a seed}, got a list of 3")(
    reporting(CLEAR, runs=[0.7, 0.8, 0.9])
)
wrong("1.4", "Your dictionary has no 'error'")(lambda: {"runs": CLEAR, "winner": 7, "ahead": 0.02})
wrong("1.4", "Side 7 of your runs: Expected a list of accuracies, one a seed, got 0.8")(
    reporting(CLEAR, runs=CLEAR | {7: 0.8})
)
wrong("1.4", "You compare 3 patch sides with 1 seed: use")(reporting(CLEAR, runs={p: CLEAR[p][:1] for p in CLEAR}))
wrong("1.4", "use sides that divide 28")(reporting(CLEAR | {5: [0.5, 0.6, 0.7]}))
wrong("1.4", "You compare 2 patch sides with 3 seeds")(reporting({p: CLEAR[p] for p in (4, 7)}))
wrong("1.4", "with 2 seeds")(reporting({p: runs[:2] for p, runs in CLEAR.items()}))
wrong("1.4", "3 or 4 seeds")(reporting(CLEAR, runs=CLEAR | {14: OPEN[14]}))
wrong("1.4", "not a number of per cent")(reporting({p: [100 * a for a in runs] for p, runs in CLEAR.items()}))
wrong("1.4", "does the seed reach the model?")(reporting({p: runs[:1] * 3 for p, runs in CLEAR.items()}))
wrong("1.4", "use shares between 0 and 1")(reporting(CLEAR, ahead=100 * paired(CLEAR)[1]))
wrong("1.4", "Your lead is negative")(reporting(CLEAR, ahead=-paired(CLEAR)[1]))
wrong("1.4", "compare the best side with the worst")(reporting(CLEAR, ahead=mean(CLEAR[7]) - mean(CLEAR[4])))
wrong("1.4", "is ahead by 0.5")(reporting(CLEAR, ahead=0.5))
wrong("1.4", "standard deviation of the differences")(reporting(CLEAR, error=paired(CLEAR)[2] * 3**0.5))
wrong("1.4", "divide by n where")(reporting(CLEAR, error=paired(CLEAR)[2] * (2 / 3) ** 0.5))
wrong("1.4", "nothing in common")(reporting(CLEAR, error=((stdev(CLEAR[7]) ** 2 + stdev(CLEAR[14]) ** 2) / 3) ** 0.5))
wrong("1.4", "error of the best side's mean alone")(reporting(CLEAR, error=stdev(CLEAR[7]) / 3**0.5))
wrong("1.4", "the error in points")(reporting(CLEAR, error=100 * paired(CLEAR)[2]))
wrong("1.4", "You give a standard error of 0.3")(reporting(CLEAR, error=0.3))
wrong("1.4", "Expected one of your patch sides as the winner, or None, got 5")(reporting(CLEAR, winner=5))
wrong("1.4", "side 7 has the higher mean")(reporting(CLEAR, winner=14))
wrong("1.4", "these runs leave the winner open")(reporting(OPEN, winner=7))
wrong("1.4", "it contains 0, so these runs leave the winner open")(reporting(TWO_ERRORS, winner=7))
wrong("1.4", "it does not contain 0, so there is a winner")(reporting(CLEAR, winner=None))


def test_a_report_with_gaps_is_not_done_yet():
    for gap in ({"winner": ...}, {"runs": CLEAR | {2: ...}}, {"runs": CLEAR | {2: [0.1, 0.2, ...]}}):
        assert verdict("1.4", reporting(CLEAR, **gap)) == (False, "1.4: not done yet.")


def test_the_verdict_on_an_experiment_is_about_the_readers_own_runs():
    assert (
        "in your runs side 7 wins, 2.3 points ahead, 95 % interval [1.6, 3.0] over 3 seeds"
        in (verdict("1.4", reporting(CLEAR))[1])
    )
    assert "leads and the winner is open" in verdict("1.4", reporting(OPEN))[1]


def test_a_lead_and_its_error_by_hand():
    best, ahead, error = paired({7: [0.8, 0.9, 0.7], 14: [0.6, 0.6, 0.6], 4: [0.1, 0.2, 0.3]})
    assert best == 7 and ahead == pytest.approx(0.2)
    assert error == pytest.approx(0.1 / 3**0.5)  # differences 0.2, 0.3, 0.1

"""The checks of chapter 1: answers that are accepted, answers that are named, reports of experiments."""

import math
from statistics import mean, stdev

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tests.course.answers import RIGHT, WRONG, solution, verdict, wrong
from vitbook.exercises.chapter_01 import paired
from vitbook.faults import cut
from vitnb import patchify, unpatchify
from vitnb.evaluation import interval

# 1.1 ------------------------------------------------------------------------------------------------------


def unless(refused, count=lambda h, w, p: (h // p) * (w // p)):
    """An answer that refuses such sizes and counts in the others."""

    def answer(h, w, p):
        if refused(h, w, p):
            raise ValueError
        return count(h, w, p)

    return answer


def cannot_be_cut(h, w, p):
    return h % p or w % p


@wrong("1.1", "expected a ValueError, got AssertionError")
def count_with_assert(height, width, patch_size):
    assert height % patch_size == 0 and width % patch_size == 0
    return (height // patch_size) * (width // patch_size)


RIGHT["1.1"] += [lambda *sizes: torch.tensor(solution("1.1")(*sizes))]
WRONG["1.1"] |= {
    "Draw the grid": unless(cannot_be_cut, lambda h, w, p: (h // p) ** 2),
    "Expected a whole number, got 15.0": unless(cannot_be_cut, lambda h, w, p: (h / p) * (w / p)),
    "each side must fit alone": unless(lambda h, w, p: h * w % p**2, lambda h, w, p: h * w // p**2),
    "28 x 30 pixels cannot be cut": unless(lambda h, w, p: h % p),
}

# 1.2 ------------------------------------------------------------------------------------------------------


@wrong("1.2", "You loop over the patches")
def by_loop(patches, p, H, W, C):
    images = torch.empty(len(patches), C, H, W)
    for i in range(patches.shape[1]):
        r, c = i // (W // p) * p, i % (W // p) * p
        images[:, :, r : r + p, c : c + p] = patches[:, i].reshape(-1, C, p, p)
    return images


@wrong("1.2", "changes what it is given")
def in_place(patches, p, H, W, C):
    images = unpatchify(patches, p, (H, W), C)
    patches.zero_()
    return images


RIGHT["1.2"] += [lambda patches, p, H, W, C: F.fold(patches.mT, (H, W), p, stride=p)]
WRONG["1.2"] |= {
    "Height and width are swapped": (
        lambda x, p, H, W, C: x.reshape(-1, W // p, H // p, C, p, p).permute(0, 3, 1, 4, 2, 5).reshape(-1, C, W, H)
    ),
    "the first wrong pixel is image 0, channel 0, row 0": lambda x, p, H, W, C: unpatchify(x.flip(1), p, (H, W), C),
    "a NumPy array of shape": lambda x, p, H, W, C: unpatchify(x, p, (H, W), C).numpy(),
    "torch.float64": lambda x, p, H, W, C: unpatchify(x, p, (H, W), C).double(),
    "holds NaN": lambda x, p, H, W, C: unpatchify(x, p, (H, W), C) * math.nan,
}


def test_what_square_and_grey_images_hide():
    square, grey = torch.rand(2, 3, 8, 8), torch.rand(2, 1, 8, 12)
    assert torch.equal(cut.sides_swapped(square, 4), patchify(square, 4))
    assert torch.equal(cut.channels_reversed(grey, 4), patchify(grey, 4))


# 1.3 ------------------------------------------------------------------------------------------------------


def resized(images, conv):
    p = conv.kernel_size[0]
    return conv(F.interpolate(images, [side + -side % p for side in images.shape[2:]])).flatten(2).mT


def sides_exchanged(images, conv):
    p, (H, W) = conv.kernel_size[0], images.shape[2:]
    return conv(F.pad(images, (0, -H % p, 0, -W % p))).flatten(2).mT


WRONG["1.3"] |= {
    "the height is not padded enough": sides_exchanged,
    "Images of 10 x 7 pixels, patches of side 4. Your tokens are off by up to": resized,
    "Expected a tensor of shape (2, 6, 5), got (2, 1, 5)": lambda *case: solution("1.3")(*case)[:, :1],
}

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


def clear(**changes):
    """The report of the clear runs, with these changes."""
    return reporting(CLEAR, **changes)


_, AHEAD, ERROR = paired(CLEAR)
RIGHT["1.4"] += [
    clear(),
    reporting(OPEN),
    reporting(TWO_ERRORS, winner=None),
    clear(error=round(ERROR, 4)),
    clear(runs={p: torch.tensor(runs) for p, runs in CLEAR.items()}),
    reporting({np.int64(p): np.array(runs) for p, runs in CLEAR.items()}, ahead=torch.tensor(AHEAD)),
]
WRONG["1.4"] |= {
    "Expected a dictionary with runs, winner, ahead, error, got a list of 1": lambda: [CLEAR],
    "Expected runs {patch side: accuracies, one a seed}, got a list of 3": clear(runs=[0.7, 0.8, 0.9]),
    "Your dictionary has no 'error'": lambda: {"runs": CLEAR, "winner": 7, "ahead": 0.02},
    "Side 7 of your runs: Expected a list of accuracies, one a seed, got 0.8": clear(runs=CLEAR | {7: 0.8}),
    "You compare 3 patch sides with 1 seed: use": clear(runs={p: CLEAR[p][:1] for p in CLEAR}),
    "use sides that divide 28": reporting(CLEAR | {5: [0.5, 0.6, 0.7]}),
    "You compare 2 patch sides with 3 seeds": reporting({p: CLEAR[p] for p in (4, 7)}),
    "with 2 seeds": reporting({p: runs[:2] for p, runs in CLEAR.items()}),
    "3 or 4 seeds": clear(runs=CLEAR | {14: OPEN[14]}),
    "not a number of per cent": reporting({p: [100 * a for a in runs] for p, runs in CLEAR.items()}),
    "does the seed reach the model?": reporting({p: runs[:1] * 3 for p, runs in CLEAR.items()}),
    "use shares between 0 and 1": clear(ahead=100 * AHEAD),
    "Your lead is negative": clear(ahead=-AHEAD),
    "compare the best side with the worst": clear(ahead=mean(CLEAR[7]) - mean(CLEAR[4])),
    "is ahead by 0.5": clear(ahead=0.5),
    "standard deviation of the differences": clear(error=ERROR * 3**0.5),
    "divide by n where": clear(error=ERROR * (2 / 3) ** 0.5),
    "nothing in common": clear(error=((stdev(CLEAR[7]) ** 2 + stdev(CLEAR[14]) ** 2) / 3) ** 0.5),
    "error of the best side's mean alone": clear(error=stdev(CLEAR[7]) / 3**0.5),
    "the error in points": clear(error=100 * ERROR),
    "You give a standard error of 0.3": clear(error=0.3),
    "Expected one of your patch sides as the winner, or None, got 5": clear(winner=5),
    "side 7 has the higher mean": clear(winner=14),
    "these runs leave the winner open": reporting(OPEN, winner=7),
    "it contains 0, so these runs leave the winner open": reporting(TWO_ERRORS, winner=7),
    "it does not contain 0, so there is a winner": clear(winner=None),
}


def test_a_report_with_gaps_is_not_done_yet():
    for gap in ({"winner": ...}, {"runs": CLEAR | {2: ...}}, {"runs": CLEAR | {2: [0.1, 0.2, ...]}}):
        assert verdict("1.4", clear(**gap)) == (False, "1.4: not done yet.")


def test_the_verdict_on_an_experiment_is_about_the_readers_own_runs():
    said = "in your runs side 7 wins, 2.3 points ahead, 95 % interval [1.6, 3.0] over 3 seeds"
    assert said in verdict("1.4", clear())[1]
    assert "leads and the winner is open" in verdict("1.4", reporting(OPEN))[1]


def test_a_lead_and_its_error_by_hand():
    best, ahead, error = paired({7: [0.8, 0.9, 0.7], 14: [0.6, 0.6, 0.6], 4: [0.1, 0.2, 0.3]})
    assert best == 7 and ahead == pytest.approx(0.2)
    assert error == pytest.approx(0.1 / 3**0.5)  # differences 0.2, 0.3, 0.1

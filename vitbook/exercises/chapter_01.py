"""Exercises of chapter 1: counting and undoing patches, images of any size, and an experiment with the patch side."""

from collections.abc import Callable
from functools import partial
from numbers import Integral
from statistics import mean, stdev
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitbook.exercises.declaration import Exercise, NotDone, Raised, Results, Wrong
from vitbook.exercises.forms import Calls, compute
from vitbook.exercises.values import apart, counted, described, expected, first_that, fresh, is_whole, number
from vitbook.faults import cut
from vitnb.evaluation import interval
from vitnb.patches import patchify, unpatchify

ARRAYS = (Tensor, np.ndarray)
COUNTS: dict[str, Callable[[int, int, int], int]] = {
    "That is the number of pixels in one patch (of one channel), not the number of patches.": lambda h, w, p: p * p,
    "That is one too many: the cls token comes later and is no patch.": lambda h, w, p: (h // p) * (w // p) + 1,
    "That is one row plus one column of patches, not all of them.": lambda h, w, p: h // p + w // p,
}
LOST = "the pixels that do not fit are lost without a word"
ROUNDED: dict[str, Callable[[int, int, int], int]] = {  # where a side cannot be cut
    f"rounding down means that {LOST}": lambda h, w, p: (h // p) * (w // p),
    "rounding up counts patches that the image does not fill": lambda h, w, p: -(h // -p) * -(w // -p),
    "the areas fit, but each side must fit alone": lambda h, w, p: h * w // p**2,
}
CAN_BE_CUT = ((30, 18, 6), (10, 45, 5), (7, 42, 7), (224, 224, 16))
# 6 x 8 pixels fill exactly three patches of 4 x 4, and cannot be cut into them; 3 x 8 have no room for one.
CANNOT = ((30, 28, 4), (28, 30, 4), (6, 8, 4), (3, 8, 4), (30, 30, 4))


def _count(result: Any, height: int, width: int, p: int) -> str | None:
    if (height, width, p) in CANNOT:
        return _not_refused(result, height, width, p)
    if isinstance(result, Raised):
        return str(result)
    if (count := number(result)) != (height // p) * (width // p):
        known = first_that(lambda rule: count == rule(height, width, p), COUNTS)
        case = f"An image of {height} x {width} pixels and patches of {p} x {p}: you count {count:g}."
        return f"{case} {known or 'Draw the grid for a smaller image and count.'}"
    return None if is_whole(result) else f"{expected('a whole number', result)} / gives a float, // does not."


def _not_refused(result: Any, height: int, width: int, p: int) -> str | None:
    case = f"An image of {height} x {width} pixels cannot be cut into patches of {p} x {p}"
    if isinstance(result, Raised):
        kind = type(result.error).__name__
        return None if isinstance(result.error, ValueError) else f"{case}: expected a ValueError, got {kind}."
    count = number(result)
    reason = first_that(lambda rule: count == rule(height, width, p), ROUNDED) or LOST
    return f"{case}, yet you count {count:g} and raise no ValueError: {reason}."


Exercise(
    "1.1",
    "count_tokens(height, width, patch_size)",
    "How many patches stand side by side in one row, and how many rows are there? Try 28 x 28 with patches of 14 "
    "on paper.",
    "A side divides if side % patch_size is 0. Ask that of height and of width, each alone, before you count.",
    cases=lambda: CAN_BE_CUT + CANNOT,
    judge=_count,
    errors=True,
    mistakes=COUNTS | ROUNDED,
    right=f"{len(CAN_BE_CUT)} sizes of images that can be cut, and {len(CANNOT)} that cannot, which you refuse.",
)


PUT_BACK: dict[str, Callable] = {
    "Your image holds the right pixels in the wrong order: its first row goes on with the second row of patch "
    "0, not with patch 1. That is what reshape() or view() does without permute().": cut.back_by_reshape,
    "Your patches are put together column by column: patch 1 lies below patch 0, not right of it.": (
        cut.back_column_by_column
    ),
    "The colours are mixed up: you read a patch vector with the channels last, (p, p, C).": cut.back_channels_last,
    "Each patch lies in its place but transposed: its rows are your columns.": cut.back_transposed,
    "The last reshape merges axes that do not belong together: the rows of patches need the rows inside a patch "
    "next to them.": cut.back_merged,
}


def _sizes_apart(unpatchify: Callable) -> Callable:
    return lambda patches, p, H, W, C: unpatchify(patches, p, (H, W), C)


def _patches_to_put_back() -> list[tuple]:
    sizes = ((3, 4, 5, 6), (1, 5, 3, 4), (5, 3, 4, 2))  # in each, no two numbers are equal
    return [(patchify(fresh(2, C, rows * p, cols * p), p), p, rows * p, cols * p, C) for C, p, rows, cols in sizes]


def _sides_stay(result: Any, images: Tensor, *_: Any) -> str | None:
    if isinstance(result, Tensor) and result.shape == images.mT.shape:
        return f"Height and width are swapped: {tuple(result.shape)} for images {tuple(images.shape)}."
    return None


def _first_wrong_pixel(result: Tensor, images: Tensor, patches: Tensor, p: int, H: int, W: int, C: int) -> str:
    b, c, row, col = (result != images).nonzero()[0].tolist()
    place = f"the first wrong pixel is image {b}, channel {c}, row {row}, column {col}"
    return f"Your image is not the one that was cut: {place} (patches of {p} x {p}, {H // p} rows of {W // p})."


class _NoLoop(Calls):
    """It refuses a loop over many patches."""

    def __init__(self, patches: Tensor, *case: int):
        super().__init__()
        self.patches = patches.shape[1]

    def breach(self) -> str | None:
        calls = len([name for name in self.names if name != "__get__"])
        loop = "You loop over the patches: reshape and permute move all of them at once."
        return loop if self.patches > 20 and calls > self.patches else None


compute(
    "1.2",
    "my_unpatchify(patches, patch_size, height, width, channels)",
    "Go the way of patchify backwards. There the last reshape merged (rows, columns) and (C, p, p); start by taking "
    "these apart, to six axes.",
    "A reshape may only merge neighbours. So before the last one, permute until p stands next to the rows that it "
    "subdivides, and the other p next to the columns.",
    cases=_patches_to_put_back,
    reference=_sizes_apart(unpatchify),
    before=_sides_stay,
    watch=_NoLoop,
    mistakes={message: _sizes_apart(back) for message, back in PUT_BACK.items()},
    otherwise=_first_wrong_pixel,
    right="exact on 3 sizes of images, height unlike width, with 1, 3 and 5 channels.",
    tolerance=0,
)


def _images_of_any_size() -> list[tuple]:
    """Sides that divide and sides that do not; of 9 and 13 pixels, one is left over, and not half a patch or more."""
    sizes = ((3, 5, 4, (10, 7)), (1, 6, 3, (9, 14)), (2, 7, 5, (13, 15)), (3, 4, 4, (8, 12)), (2, 3, 4, (9, 13)))
    return [(fresh(2, C, H, W), nn.Conv2d(C, D, p, p)) for C, D, p, (H, W) in sizes]


def _padded(by: Callable[[int, int, int], tuple[int, int]]) -> Callable:
    """Pad by numbers before and after a side, from (its length, p, 0 for the height), then cut; pad has width first."""

    def embed(images: Tensor, conv: nn.Conv2d) -> Tensor:
        high, wide = (by(side, conv.kernel_size[0], axis) for axis, side in enumerate(images.shape[2:]))
        return conv(F.pad(images, (*wide, *high))).flatten(2).mT  # (B, N, D)

    return embed


def _after(side: int, p: int, axis: int) -> tuple[int, int]:
    return 0, -side % p


def _merged_wrongly(images: Tensor, conv: nn.Conv2d) -> Tensor:
    return (x := _padded(_after)(images, conv)).mT.reshape(x.shape)  # (B, N, D)


compute(
    "1.3",
    "embed_any(images, conv)",
    "How many pixels are missing until a side is a multiple of p? Try 10, 11 and 12 pixels with p = 4 on paper; "
    "12 must give 0. Python's % with a negative number is worth a try.",
    "torch.nn.functional.pad(images, (left, right, top, bottom)) adds zeros. After conv the shape is (B, D, rows, "
    "columns): flatten the grid, then bring the tokens to the front, as PatchEmbedding does.",
    cases=_images_of_any_size,
    reference=_padded(_after),
    mistakes={
        "You add as many pixels as are left over. How many are missing to the next multiple of p?": (
            _padded(lambda side, p, axis: (0, side % p))
        ),
        "The pixels at the right and at the lower edge are lost: a convolution drops what fills no whole window, "
        "without a word.": _padded(lambda side, p, axis: (0, 0)),
        # This also comes out where the two sides are exchanged.
        "The pixels at the lower edge are lost: the height is not padded enough. torch.nn.functional.pad takes the "
        "last axis first, so (left, right, top, bottom).": _padded(lambda side, p, axis: (0, axis * (-side % p))),
        "The pixels at the right edge are lost: the width is not padded enough. torch.nn.functional.pad takes the "
        "last axis first, so (left, right, top, bottom).": _padded(lambda side, p, axis: (0, (1 - axis) * (-side % p))),
        "A side that divides already needs no padding: you add a whole row or column of patches that hold nothing.": (
            _padded(lambda side, p, axis: (0, p - side % p))
        ),
        "The tokens are right and their axes are not: (B, D, N) in place of (B, N, D).": (
            lambda images, conv: _padded(_after)(images, conv).mT
        ),
        "You pad on the left or at the top: patch 0 has to start in the corner of the image, and the zeros come after "
        "the last pixels.": _padded(lambda side, p, axis: (-side % p, 0)),
        "You pad on both sides: patch 0 has to start in the corner of the image, and the zeros come after the last "
        "pixels.": _padded(lambda side, p, axis: (-side % p // 2, -side % p - -side % p // 2)),
        "The numbers are right and in the wrong tokens: reshape alone cannot turn (B, D, rows, columns) into (B, N, D)."
        "": _merged_wrongly,
    },
    otherwise=lambda result, right, *case: (
        f"Your tokens are {apart(result, right)}: pad with zeros, and change neither the pixels nor the weights."
    ),
    where="Images of {H} x {W} pixels, patches of side {p}. ",
    words=lambda images, conv: {"H": images.shape[2], "W": images.shape[3], "p": conv.kernel_size[0]},
    right="every pixel gets into a token, in 5 sizes of images, one of which needs no padding.",
)


Runs = dict[int, list[float]]  # {patch side: accuracies, one a seed}


def _two_best(runs: Runs) -> tuple[int, int]:
    best, second, *_ = sorted(runs, key=lambda side: -mean(runs[side]))
    return best, second


def paired(runs: Runs) -> tuple[int, float, float]:
    """The patch side with the best mean, how far it is ahead of the second, and the standard error of that.

    Runs are paired: those of one seed share their images and their order.
    """
    differences = _differences(runs)
    return _two_best(runs)[0], mean(differences), stdev(differences) / len(differences) ** 0.5


def _differences(runs: Runs) -> list[float]:
    best, second = _two_best(runs)
    return [a - b for a, b in zip(runs[best], runs[second], strict=True)]


def _interval(runs: Runs) -> tuple[float, float]:
    """The 95 % interval of the lead of the best side over the second."""
    lead, reach = interval(torch.tensor(_differences(runs)).double())
    return (lead - reach).item(), (lead + reach).item()


def _runs(value: Any) -> Runs:
    """The runs of a report.

    Raises: Wrong for what no experiment of this kind gives; NotDone if a part is `...`.
    """
    if not isinstance(value, dict):
        raise Wrong(expected("runs {patch side: accuracies, one a seed}", value))
    if any(accuracies is ... for accuracies in value.values()):
        raise NotDone
    runs = {}
    for side, accuracies in value.items():
        if isinstance(side, bool) or not isinstance(side, Integral) or side < 1 or 28 % side:
            raise Wrong(f"Your runs have the patch side {described(side)}: use sides that divide 28.")
        listed = isinstance(accuracies, (list, tuple)) or (isinstance(accuracies, ARRAYS) and accuracies.ndim == 1)
        if not listed:
            raise Wrong(f"Side {side} of your runs: {expected('a list of accuracies, one a seed', accuracies)}")
        if any(accuracy is ... for accuracy in accuracies):
            raise NotDone
        runs[int(side)] = [number(accuracy) for accuracy in accuracies]
    if reason := _no_experiment(runs):
        raise Wrong(reason)
    return runs


def _no_experiment(runs: Runs) -> str | None:
    counts = sorted({len(accuracies) for accuracies in runs.values()})
    if len(runs) < 3 or len(counts) > 1 or counts[0] < 3:
        seeds = f"{' or '.join(map(str, counts[:-1]))} or {counted(counts[-1], 'seed')}" if counts[1:] else ""
        seeds = seeds or (counted(counts[0], "seed") if counts else "no seeds")
        sides = counted(len(runs), "patch side")
        return f"You compare {sides} with {seeds}: use 3 sides or more, each with the same 3 seeds or more."
    everything = [accuracy for accuracies in runs.values() for accuracy in accuracies]
    if not 0 <= min(everything) <= max(everything) <= 1:
        return "An accuracy is a share between 0 and 1, not a number of per cent."
    if all(len(set(accuracies)) == 1 for accuracies in runs.values()):
        return "All seeds of a side give the same accuracy: does the seed reach the model?"
    return None


def _like(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-3 * max(abs(b), 1e-3) + 5e-5  # rounding to four digits is welcome


def _report(result: Any) -> str | None:
    keys = ("runs", "winner", "ahead", "error")
    if not isinstance(result, dict):
        return expected(f"a dictionary with {', '.join(keys)}", result)
    if missing := [key for key in keys if key not in result]:
        return f"Your dictionary has no {missing[0]!r}: expected one with {', '.join(keys)}."
    if any(value is ... for value in result.values()):
        raise NotDone
    runs, winner = _runs(result["runs"]), result["winner"]
    best, ahead, error = paired(runs)
    if message := _ahead(number(result["ahead"]), runs, ahead) or _error(number(result["error"]), runs, error):
        return message
    if winner is not None and winner not in runs:
        return expected("one of your patch sides as the winner, or None", winner)
    if winner is not None and winner != best:
        return f"Your winner is side {winner}, but side {best} has the higher mean accuracy."
    if winner is not None and not _decided(runs):
        return f"Side {best} is {_lead(runs)}: it contains 0, so these runs leave the winner open."
    if winner is None and _decided(runs):
        return f"Side {best} is {_lead(runs)}: it does not contain 0, so there is a winner."
    return None


def _decided(runs: Runs) -> bool:
    return _interval(runs)[0] > 0


def _lead(runs: Runs) -> str:
    best, ahead, _ = paired(runs)
    low, high = (100 * end for end in _interval(runs))
    return f"{100 * ahead:.1f} points ahead, 95 % interval [{low:.1f}, {high:.1f}] over {len(runs[best])} seeds"


def _ahead(said: float, runs: Runs, ahead: float) -> str | None:
    if _like(said, ahead):
        return None
    means = sorted((mean(accuracies) for accuracies in runs.values()), reverse=True)
    known = {
        "You give the lead in points: use shares between 0 and 1, like the accuracies.": 100 * ahead,
        "Your lead is negative: subtract the second from the first.": -ahead,
        "You compare the best side with the worst: whether it wins depends on the second best.": means[0] - means[-1],
    }
    other = f"You say that the best side is ahead by {said:.4g}: the mean difference to the second best is another."
    return first_that(partial(_like, said), known) or other


def _error(said: float, runs: Runs, error: float) -> str | None:
    if _like(said, error):
        return None
    best, second = _two_best(runs)
    n = len(runs[best])
    known = {
        "That is the standard deviation of the differences: the error of their mean is smaller, by the square root of "
        "their number.": error * n**0.5,
        "You divide by n where the standard deviation divides by n - 1: with few seeds that looks too sure.": (
            error * ((n - 1) / n) ** 0.5
        ),
        "You treat the two sides as if they had nothing in common. Their runs are paired by seed: take the differences "
        "first.": ((stdev(runs[best]) ** 2 + stdev(runs[second]) ** 2) / n) ** 0.5,
        "You give the error in points: use shares between 0 and 1, like the accuracies.": 100 * error,
        "That is the error of the best side's mean alone: the question is how sure the difference is.": (
            stdev(runs[best]) / n**0.5
        ),
    }
    other = f"You give a standard error of {said:.4g}: that of the differences, seed by seed, is another."
    return first_that(partial(_like, said), known) or other


def _your_runs(results: Results) -> str:
    [(_, report)] = results
    runs = _runs(report["runs"])
    best, *_ = paired(runs)
    verdict = f"side {best} wins" if _decided(runs) else f"side {best} leads and the winner is open"
    return f"in your runs {verdict}, {_lead(runs)}. It holds for your budget; another one may turn it around."


Exercise(
    "1.4",
    "report()",
    "Sort the sides by their mean accuracy. The two best are compared seed by seed: first the differences, then their "
    "mean and their standard deviation (divide by n - 1).",
    "The standard error of a mean of n differences is their standard deviation divided by the square root of n. "
    "`interval(differences)` gives the mean and half the width of its 95 % interval. If that interval contains 0, what "
    "is an honest winner?",
    cases=lambda: [()],
    judge=_report,
    right=_your_runs,
)

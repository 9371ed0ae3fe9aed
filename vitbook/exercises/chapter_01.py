"""Exercises of chapter 1: counting and undoing patches, images of any size, and an experiment with the patch side."""

import random
from collections.abc import Callable
from numbers import Integral
from statistics import mean, stdev
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitbook.exercises.engine import NotDone, Raised, Wrong, call, described, exercise, fresh, number
from vitbook.exercises.forms import compute
from vitbook.faults import cut
from vitnb.evaluation import interval
from vitnb.patches import patchify, unpatchify

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


@exercise(
    "1.1",
    "count_tokens(height, width, patch_size)",
    "How many patches stand side by side in one row, and how many rows are there? Try 28 x 28 with patches of 14 "
    "on paper.",
    "A side divides if side % patch_size is 0. Ask that of height and of width, each alone, before you count.",
    COUNTS | ROUNDED,
)
def _count(answer: Callable) -> str:
    for rows, cols, p in ((5, 3, 6), (2, 9, 5), (1, 6, 7), (14, 14, 16)):
        count = number(result := call(answer, *(size := (rows * p, cols * p, p))))
        if count != rows * cols:
            known = [message for message, rule in COUNTS.items() if count == rule(*size)]
            case = f"An image of {rows * p} x {cols * p} pixels and patches of {p} x {p}: you count {count:g}."
            raise Wrong(f"{case} {(known or ['Draw the grid for a smaller image and count.'])[0]}")
        if not isinstance(result, Integral):
            raise Wrong(f"You return {described(result)}: a count is a whole number. / gives a float, // does not.")
    # 6 x 8 pixels fill exactly three patches of 4 x 4, and cannot be cut into them.
    for size in ((30, 28, 4), (28, 30, 4), (6, 8, 4)):
        _refuses(answer, *size)
    return "4 sizes of images that can be cut, and 3 that cannot, which you refuse."


def _refuses(answer: Callable, height: int, width: int, p: int) -> None:
    case = f"An image of {height} x {width} pixels cannot be cut into patches of {p} x {p}"
    try:
        count = number(call(answer, height, width, p))
    except Raised as raised:
        if isinstance(raised.error, ValueError):
            return
        raise Wrong(f"{case}: you raise {type(raised.error).__name__}, where a ValueError is wanted.") from None
    reasons = [message for message, rule in ROUNDED.items() if count == rule(height, width, p)]
    raise Wrong(f"{case}, yet you count {count:g} and raise no ValueError: {(reasons or [LOST])[0]}.")


def _sizes_apart(unpatchify: Callable) -> Callable:
    return lambda patches, p, H, W, C: unpatchify(patches, p, (H, W), C)


def _patches_to_put_back() -> list[tuple]:
    cases = []
    for C in (3, 1, 5):
        p, rows, cols = random.Random().sample(range(2, 7), 3)
        cases.append((patchify(fresh(2, C, rows * p, cols * p), p), p, rows * p, cols * p, C))
    return cases


def _sides_stay(result: object, images: Tensor, *_: object) -> None:
    if isinstance(result, Tensor) and result.shape == images.mT.shape:
        raise Wrong(f"Height and width are swapped: {tuple(result.shape)} for images {tuple(images.shape)}.")


def _first_wrong_pixel(result: Tensor, images: Tensor, patches: Tensor, p: int, H: int, W: int, C: int) -> str:
    b, c, row, col = (result != images).nonzero()[0].tolist()
    place = f"the first wrong pixel is image {b}, channel {c}, row {row}, column {col}"
    return f"Your image is not the one that was cut: {place} (patches of {p} x {p}, {H // p} rows of {W // p})."


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
    mistakes={
        "Your image holds the right pixels in the wrong order: its first row goes on with the second row of patch "
        "0, not with patch 1. That is what reshape() or view() does without permute().": (
            _sizes_apart(cut.back_by_reshape)
        ),
        "Your patches are put together column by column: patch 1 lies below patch 0, not right of it.": (
            _sizes_apart(cut.back_column_by_column)
        ),
        "The colours are mixed up: you read a patch vector with the channels last, (p, p, C).": (
            _sizes_apart(cut.back_channels_last)
        ),
        "Each patch lies in its place but transposed: its rows are your columns.": _sizes_apart(cut.back_transposed),
        "The last reshape merges axes that do not belong together: the rows of patches need the rows inside a patch "
        "next to them.": _sizes_apart(cut.back_merged),
    },
    otherwise=_first_wrong_pixel,
    right="exact on 3 images of random size, height unlike width, with 1, 3 and 5 channels.",
    tolerance=0,
)


def _images_of_any_size() -> list[tuple]:
    """Sides that divide and sides that do not, so chosen that every known mistake in the padding gives another N."""
    return [
        (fresh(2, C, H, W), nn.Conv2d(C, D, p, p))
        for C, D, p, (H, W) in ((3, 5, 4, (10, 7)), (1, 6, 3, (9, 14)), (2, 7, 5, (13, 15)), (3, 4, 4, (8, 12)))
    ]


def _padded(left_to_right: Callable[[int, int], tuple[int, int]], swapped: bool = False, last: bool = True) -> Callable:
    """Pad by so much before and after each side, then cut; torch's pad takes the width first."""

    def embed(images: Tensor, conv: nn.Conv2d) -> Tensor:
        p = conv.kernel_size[0]
        high, wide = (left_to_right(side, p) for side in images.shape[2:])
        x = conv(F.pad(images, (*high, *wide) if swapped else (*wide, *high)))  # (B, D, rows, cols)
        return x.flatten(2).mT if last else x.flatten(2)

    return embed


def _after(side: int, p: int) -> tuple[int, int]:
    return 0, -side % p


NUMBER_OF_TOKENS: dict[str, Callable] = {  # known by their shape
    "The pixels at the right and at the lower edge are lost: a convolution drops what fills no whole window, without "
    "a word.": _padded(lambda side, p: (0, 0)),
    "Your padding is on the wrong side: torch.nn.functional.pad takes the last axis first, so (left, right, top, "
    "bottom).": _padded(_after, swapped=True),
    "A side that divides already needs no padding: you add a whole row or column of patches that hold nothing.": (
        _padded(lambda side, p: (0, p - side % p))
    ),
    "The tokens are right and their axes are not: (B, D, N) where (B, N, D) is wanted.": _padded(_after, last=False),
}


def _known_by_its_shape(result: object, wanted: Tensor, images: Tensor, conv: nn.Conv2d) -> None:
    for message, mistake in NUMBER_OF_TOKENS.items():
        shape = mistake(images, conv).shape
        if isinstance(result, Tensor) and result.shape == shape != wanted.shape:
            raise Wrong(f"{_case(images, conv)}{message}")


def _case(images: Tensor, conv: nn.Conv2d) -> str:
    H, W = images.shape[2:]
    return f"Images of {H} x {W} pixels, patches of side {conv.kernel_size[0]}. "


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
    before=_known_by_its_shape,
    mistakes=NUMBER_OF_TOKENS
    | {
        "You pad on the left or at the top: patch 0 has to start in the corner of the image, and the zeros come after "
        "the last pixels.": _padded(lambda side, p: (-side % p, 0)),
        "You pad on both sides: patch 0 has to start in the corner of the image, and the zeros come after the last "
        "pixels.": _padded(lambda side, p: (-side % p // 2, -side % p - -side % p // 2)),
        "The numbers are right and in the wrong tokens: reshape alone cannot turn (B, D, rows, columns) into (B, N, D)."
        "": _merged_wrongly,
    },
    otherwise=lambda result, wanted, *case: (
        f"Your tokens are off by up to {(result - wanted).abs().max().item():.2g}: pad with zeros, and change neither "
        "the pixels nor the weights."
    ),
    words=lambda images, conv: {"case": _case(images, conv)},
    where="{case}",
    right="every pixel gets into a token, in 4 sizes of images, one of which needs no padding.",
)


def paired(runs: dict[int, list[float]]) -> tuple[int, float, float]:
    """The patch side with the best mean, how far it is ahead of the second, and the standard error of that.

    Runs are paired: those of one seed share their images and their order.
    """
    best, second = sorted(runs, key=lambda side: -mean(runs[side]))[:2]
    differences = [a - b for a, b in zip(runs[best], runs[second], strict=True)]
    return best, mean(differences), stdev(differences) / len(differences) ** 0.5


def _reach(runs: dict[int, list[float]], best: int) -> float:
    """Half the width of the 95 % interval of the lead of the best side over the second."""
    second = sorted(runs, key=lambda side: -mean(runs[side]))[1]
    return interval(torch.tensor(runs[best]).double() - torch.tensor(runs[second]).double())[1].item()


def _runs(value: Any) -> dict[int, list[float]]:
    """The runs of a report, or raise Wrong for what no experiment of this kind gives."""
    wanted = "a dictionary {patch side: accuracies, one a seed} is wanted"
    if isinstance(value, dict) and any(accuracies is ... for accuracies in value.values()):
        raise NotDone
    if not isinstance(value, dict) or not all(isinstance(accuracies, (list, tuple)) for accuracies in value.values()):
        raise Wrong(f"Your runs are {described(value)}: {wanted}.")
    if any(accuracy is ... for accuracies in value.values() for accuracy in accuracies):
        raise NotDone
    for side in value:
        if isinstance(side, bool) or not isinstance(side, int) or side < 1 or 28 % side:
            raise Wrong(f"Your runs have the patch side {described(side)}: use sides that divide 28.")
    runs = {side: [number(accuracy) for accuracy in accuracies] for side, accuracies in value.items()}
    counts = sorted({len(accuracies) for accuracies in runs.values()})
    if len(runs) < 3 or len(counts) > 1 or counts[0] < 3:
        seeds = " or ".join(map(str, counts)) or "no"
        raise Wrong(
            f"You compare {len(runs)} patch sides with {seeds} seeds: use 3 sides or more, each with the same 3 "
            "seeds or more."
        )
    everything = [accuracy for accuracies in runs.values() for accuracy in accuracies]
    if not 0 <= min(everything) <= max(everything) <= 1:
        raise Wrong("An accuracy is a share between 0 and 1, not a number of per cent.")
    if all(len(set(accuracies)) == 1 for accuracies in runs.values()):
        raise Wrong("All seeds of a side give the same accuracy: does the seed reach the model?")
    return runs


def _like(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-3 * max(abs(b), 1e-3) + 5e-5  # rounding to four digits is welcome


@exercise(
    "1.4",
    "report()",
    "Sort the sides by their mean accuracy. The two best are compared seed by seed: first the differences, then their "
    "mean and their standard deviation (divide by n - 1).",
    "The standard error of a mean of n differences is their standard deviation divided by the square root of n. "
    "`interval(differences)` gives the mean and half the width of its 95 % interval. If that interval contains 0, what "
    "is an honest winner?",
)
def _report(answer: Callable) -> str:
    result = call(answer)
    keys = ("runs", "winner", "ahead", "error")
    if not isinstance(result, dict) or set(result) != set(keys):
        raise Wrong(f"Your function returns {described(result)}: a dictionary with {', '.join(keys)} is wanted.")
    if any(value is ... for value in result.values()):
        raise NotDone
    runs = _runs(result["runs"])
    best, ahead, error = paired(runs)
    n = len(runs[best])
    _check_ahead(number(result["ahead"]), runs, ahead)
    _check_error(number(result["error"]), runs, ahead, error)
    reach = _reach(runs, best)
    decided = ahead > reach
    winner = result["winner"]
    if winner is not None and winner not in runs:
        raise Wrong(f"Your winner is {described(winner)}: one of your patch sides is wanted, or None.")
    if winner is not None and winner != best:
        raise Wrong(f"Your winner is side {winner}, but side {best} has the higher mean accuracy.")
    low, high = 100 * (ahead - reach), 100 * (ahead + reach)
    numbers = f"{100 * ahead:.1f} points ahead, 95 % interval [{low:.1f}, {high:.1f}] over {n} seeds"
    if winner is not None and not decided:
        raise Wrong(f"Side {best} is {numbers}: it contains 0, so these runs leave the winner open.")
    if winner is None and decided:
        raise Wrong(f"Side {best} is {numbers}: it does not contain 0, so there is a winner.")
    verdict = f"side {best} wins" if decided else f"side {best} leads and the winner is open"
    return f"in your runs {verdict}, {numbers}. It holds for your budget; another one may turn it around."


def _check_ahead(said: float, runs: dict[int, list[float]], ahead: float) -> None:
    if _like(said, ahead):
        return
    if _like(said, 100 * ahead):
        raise Wrong("You give the lead in points: use shares between 0 and 1, like the accuracies.")
    if _like(said, -ahead):
        raise Wrong("Your lead is negative: subtract the second from the first.")
    means = sorted((mean(accuracies) for accuracies in runs.values()), reverse=True)
    if _like(said, means[0] - means[-1]):
        raise Wrong("You compare the best side with the worst: whether it wins depends on the second best.")
    raise Wrong(
        f"You say that the best side is ahead by {said:.4g}: the mean difference to the second best is another."
    )


def _check_error(said: float, runs: dict[int, list[float]], ahead: float, error: float) -> None:
    if _like(said, error):
        return
    n = len(next(iter(runs.values())))
    best, second = sorted(runs, key=lambda side: -mean(runs[side]))[:2]
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
    for message, value in known.items():
        if _like(said, value):
            raise Wrong(message)
    raise Wrong(f"You give a standard error of {said:.4g}: that of the differences, seed by seed, is another.")

"""Exercises of chapter 2: what a bag notices, fixed mixing, an address by hand, an open experiment."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitbook.exercises.declaration import Exercise, Results, Wrong
from vitbook.exercises.forms import compute, predict
from vitbook.exercises.values import close, counted, expected, fresh, number, parts, tensor_like

# Does a model without positions, with mean pooling, give the same logits? The tests measure each.
STAYS = {
    "roll by a patch": True,
    "roll by a pixel": False,
    "mirror": False,
    "swap": True,
    "turn": False,
    "twice": True,
}


def _what_stays(said: dict[str, bool], known: dict[str, bool]) -> str:
    if all(said.values()):
        return "You say that nothing moves the logits. But inside a patch each pixel has a weight of its own."
    if not any(said.values()):
        return "You say that everything moves the logits. But a bag of patches does not know where a patch was."
    if said == known | {"twice": False}:
        return "You know what the bag holds. Does it count the patches, or their shares?"
    if said["roll by a patch"] != said["swap"]:
        return "You treat two ways of moving whole patches to other places unlike."
    if said["roll by a pixel"]:
        return "One at least of your True changes makes patches that were not there before."
    return "Ask of each change: are they the same patches afterwards, in the same shares?"


predict(
    "2.1",
    "stays(change)",
    "Write down which patches the image consists of before the change and after it. Where they lie does not count; "
    "what is inside them does.",
    "For the last one: the logits are made from a mean over the tokens. What happens to a mean if every number in it "
    "comes twice?",
    truth=lambda: STAYS,
    advice=_what_stays,
    right="predictions agree with the model",
)


def _two_numbers(W: Tensor, own: Tensor, other: Tensor) -> Tensor:
    """The matrix with one number on the diagonal and one everywhere else."""
    eye = torch.eye(len(W))
    return own * eye + other * (1 - eye)


def _equivariant_part(W: Tensor) -> Tensor:
    own, T = W.diagonal().mean(), len(W)
    return _two_numbers(W, own, (W.sum() - T * own) / (T * (T - 1)))


def _over_rolls(W: Tensor) -> Tensor:
    return torch.stack([W.roll((k, k), dims=(0, 1)) for k in range(len(W))]).mean(0)


def _not_two_numbers(result: Tensor, right: Tensor, W: Tensor) -> str:
    if close(result.T @ result, torch.eye(len(W)), 1e-3):
        return "Your result is an orthogonal matrix, a permutation perhaps: W itself must be in it."
    own, others = result.diagonal(), result[~torch.eye(len(W), dtype=torch.bool)]
    if (own - own[0]).abs().max() > 1e-4:
        return (
            f"Entries (0, 0) and (1, 1) of your result are {own[0]:.2f} and {own[1]:.2f}. As the order varies, each "
            "diagonal entry visits every place of the diagonal: what does that make of them on average?"
        )
    if (others - others[0]).abs().max() > 1e-4:
        return (
            f"Your diagonal is one number, as it should be, but entries (0, 1) and (0, 2) are {others[0]:.2f} and "
            f"{others[1]:.2f}: under some order each entry off the diagonal comes to stand where another one stood."
        )
    return (
        f"Your result has one number on the diagonal, {own[0]:.2f}, and one elsewhere, {others[0]:.2f}, as it should. "
        "But these are not the averages of the entries that meet there."
    )


compute(
    "2.2",
    "equivariant_part(W)",
    "Let T be 3 and go through `itertools.permutations(range(3))`: P.T @ W @ P is W with its rows and its columns in "
    "one order, W[o][:, o]. Add up all six and divide. How many different numbers does the result have?",
    "A permutation of rows and columns moves a diagonal entry to another place of the diagonal, and never off it. Over "
    "all orders every entry visits every place that it can reach, equally often.",
    cases=lambda: [(fresh(4, 4),), (fresh(7, 7),), (fresh(50, 50),)],
    reference=_equivariant_part,
    mistakes={
        "You average over rolls alone. What is left is a circular convolution: equivariant to shifts, not to every "
        "order.": _over_rolls,
        "You keep the diagonal alone: what a token takes from the others is lost.": (
            lambda W: _two_numbers(W, W.diagonal().mean(), torch.zeros(()))
        ),
        "You give all entries one value. But no order moves an entry from the diagonal to a place off it, so the two "
        "kinds have averages of their own.": lambda W: W.mean().expand_as(W).clone(),
        "You divide the sum of the entries off the diagonal by T * T: count how many there are.": (
            lambda W: _two_numbers(W, W.diagonal().mean(), (W.sum() - W.trace()) / W.numel())
        ),
        "You add up the entries and do not divide by their number, as an average does.": (
            lambda W: _two_numbers(W, W.trace(), W.sum() - W.trace())
        ),
        "You average W with its transpose: that makes it symmetric, and its rows still know the order.": (
            lambda W: (W + W.T) / 2
        ),
        "You return W as it is: W @ x knows the order of the tokens.": lambda W: W.clone(),
    },
    otherwise=_not_two_numbers,
    right="your matrix is the average over all orders, for T = 4, 7 and 50.",
)


def _written(reading: Callable[[Tensor, int, int], tuple[Tensor, Tensor]], first: int = -2) -> Callable:
    """An answer that writes these two numbers of every place n into two features, and reads them there."""

    def answer(rows: int, cols: int, D: int) -> tuple[Tensor, Tensor]:
        table, read = torch.zeros(rows * cols, D), torch.zeros(D, 2)
        for i, numbers in enumerate(reading(torch.arange(rows * cols), rows, cols)):
            table[:, first + i], read[first + i, i] = numbers.float(), 1
        return table, read

    return answer


ADDRESSES: dict[str, Callable] = {
    "Without content you are right, with content you are off by up to {off:.1f}: your read has weights on features "
    "that hold the content of the patch.": _written(lambda n, rows, cols: (n // cols, n % cols), first=0),
    "You read (column, row), in place of (row, column).": _written(lambda n, rows, cols: (n % cols, n // cols)),
    "You divide by the number of rows, {rows}: the places stand row by row, {cols} in each.": (
        _written(lambda n, rows, cols: (n // rows, n % rows))
    ),
    "You count the places column by column: place 1 stands right of place 0, not below it.": (
        _written(lambda n, rows, cols: (n % rows, n // rows))
    ),
    "You count rows and columns from 1: the first ones are 0.": (
        _written(lambda n, rows, cols: (n // cols + 1, n % cols + 1))
    ),
}


def _address(result: Any, rows: int, cols: int, D: int) -> str | None:
    table, read = parts(result, 2, "the pair (table, read)")
    if isinstance(table, Tensor) and table.ndim == 3 and table.shape[0] == 1:
        table = table[0]
    table = tensor_like(table, torch.zeros(rows * cols, D))
    read = tensor_like(read, torch.zeros(D, 2))
    content = 10 * fresh(4, rows * cols, D)
    content[..., -2:] = 0
    found = (content + table) @ read  # (4, N, 2)
    right = torch.cartesian_prod(torch.arange(rows), torch.arange(cols)).float().expand_as(found)  # (4, N, 2)
    if (found - right).abs().max() > 1e-2:
        return _address_mistake(table, read, (found - right).abs().max().item(), rows, cols)
    return None


Exercise(
    "2.3",
    "address(rows, cols, D)",
    "Two features of every token are free. Write the row of the place into one and its column into the other. Where "
    "in the table does the place in row r and column c stand?",
    "Places are counted row by row: look at what the number of a place leaves when it is divided by the number of "
    "columns. And a weight of 0 in `read` ignores a feature.",
    cases=lambda: ((3, 5, 8), (6, 4, 11), (1, 7, 4)),
    judge=_address,
    mistakes=ADDRESSES,
    right="each token reads its row and column on grids of 3 x 5, 6 x 4 and 1 x 7, whatever its patch shows.",
)


def _address_mistake(table: Tensor, read: Tensor, off: float, rows: int, cols: int) -> str:
    if not (table.any() or read.any()):
        return "Your table and your read are all zeros, so every token reads (0, 0)."
    quiet = table @ read  # (N, 2)
    for message, mistake in ADDRESSES.items():
        theirs, reads = mistake(rows, cols, table.shape[1])
        if close(quiet, theirs @ reads, 1e-3):
            return message.format(off=off, rows=rows, cols=cols)
    right = torch.cartesian_prod(torch.arange(rows), torch.arange(cols))
    n = int((quiet - right).abs().amax(1).argmax())
    r, c = (round(v, 2) for v in quiet[n].tolist())
    return f"On a grid of {rows} x {cols}, place {n} reads ({r}, {c}), and that is not its row and column."


VERDICTS = ("clothes", "digits", "not shown")


def _verdict(clothes: Tensor, digits: Tensor) -> tuple[str, float, float]:
    """Which data set gains more, and the 95 % interval of how much more, in points.

    Source: Welch 1947: the runs on two data sets are not paired, and may scatter differently.
    """
    from scipy import stats  # scikit-learn brings it

    found = stats.ttest_ind(100 * digits.numpy(), 100 * clothes.numpy(), equal_var=False)
    low, high = found.confidence_interval(0.95)
    said = "digits" if low > 0 else "clothes" if high < 0 else "not shown"
    return said, float(low), float(high)


def _gains(values: Any, name: str) -> Tensor:
    """The gains of one data set.

    Raises: Wrong if they cannot be gains of several seeds.
    """
    if isinstance(values, (Tensor, np.ndarray)):
        values = values.tolist()
    if not isinstance(values, (list, tuple)):
        raise Wrong(expected(f"a list of gains on {name}, one a seed", values))
    gains = torch.tensor([number(value) for value in values], dtype=torch.float64)
    if reason := _no_gains(gains, name):
        raise Wrong(reason)
    return gains


def _no_gains(gains: Tensor, name: str) -> str | None:
    if len(gains) < 3:
        return f"{counted(len(gains), 'gain')} on {name}: an interval needs three seeds or more here."
    if gains.abs().max() > 1:
        largest = gains[gains.abs().argmax()]
        return (
            f"A gain of {largest:.3g} on {name}: accuracies lie between 0 and 1, so give gains as shares, 0.05 for "
            "five points."
        )
    if gains.min() > 0.6:
        return (
            f"Every seed gains more than 60 points on {name}. Are these accuracies? A gain is the accuracy with "
            "positions minus the accuracy without."
        )
    if (gains == gains[0]).all():
        return f"All {len(gains)} gains on {name} are the same number: did each run get its own seed?"
    return None


def _numbers(result: Any) -> tuple[str, str]:
    """What follows from a report, and its numbers in words."""
    clothes, digits, _ = parts(result, 3, "the triple (clothes, digits, verdict)")
    gains = _gains(clothes, "clothes"), _gains(digits, "digits")
    follows, low, high = _verdict(*gains)
    gap = 100 * (gains[1].mean() - gains[0].mean())
    interval = f"95 % interval [{low:+.1f}, {high:+.1f}]"
    return follows, f"the gain on digits minus that on clothes is {gap:+.1f} points, {interval}"


def _finding(result: Any) -> str | None:
    follows, numbers = _numbers(result)
    said = result[2]
    if not isinstance(said, str) or said not in VERDICTS:
        return expected(f"one of {', '.join(map(repr, VERDICTS))} as the verdict", said)
    if said == follows:
        return None
    if follows == "not shown":
        return f"In your runs {numbers}. The interval contains 0: chance alone may explain it."
    if said == "not shown":
        return f"In your runs {numbers}. The interval does not contain 0: you may say more than {said!r}."
    return f"In your runs {numbers}. You name the data set that gains less."


def _your_runs(results: Results) -> str:
    [(_, report)] = results
    follows, numbers = _numbers(report)
    return f"{numbers}, so your verdict {follows!r} follows from your runs. Would it survive another setting?"


Exercise(
    "2.4",
    "finding()",
    'Two trainings for each seed: `accuracy(few, seed, pos_std=1.0)` and `accuracy(few, seed, pos_embed="none")`. '
    "Their difference is one gain. Train outside `finding`, keep the lists, and let `finding` return them.",
    "`scipy.stats.ttest_ind(d, c, equal_var=False).confidence_interval()` has the two ends of the 95 % interval of the "
    'difference. If it contains 0, the verdict is "not shown".',
    cases=lambda: [()],
    judge=_finding,
    right=_your_runs,
)

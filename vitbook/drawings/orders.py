"""The same tokens in two orders: what an average still knows of the order, with positions and without."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from vitbook.drawings._sheet import Drawing, Sheet, written
from vitnb._validate import float_tensor

SIGNS = ("", "+", "=", "→")
TITLES = {"tokens": "token", "positions": "position", "sum": "token", "ReLU(sum − 1)": "token"}


def two_orders(tokens: Tensor, order: Sequence[int], table: Tensor, names: Sequence[str]) -> Drawing:
    """Draw tokens plus positions in two orders, the ReLU of the sums less 1, and the mean of each over the tokens.

    Every number is computed from these; order says which token comes at each place in the second order.

    Shapes: tokens and table (N, D), with N up to 4 and D up to 2.
    Raises: TypeError or ValueError for other tensors, or an order or names that do not fit.
    """
    tokens, table = float_tensor("tokens", tokens, 2, "(N, D)"), float_tensor("table", table, 2, "(N, D)")
    N, D = tokens.shape
    if table.shape != tokens.shape or N > 4 or D > 2:
        raise ValueError(
            f"a drawing holds up to 4 tokens of 2 features, got tokens {tuple(tokens.shape)}, "
            f"table {tuple(table.shape)}: use (3, 2) for both"
        )
    if sorted(order) != list(range(N)):
        raise ValueError(f"order is {list(order)}: use each of 0 to {N - 1} once")
    if len(names) != N or max(map(len, names)) > 5:
        raise ValueError(f"names are {list(names)}: use {N} of up to 5 letters, such as 'heel'")
    both = [_steps(tokens[list(rows)], table) for rows in (range(N), order)]
    rows = [list(names), [names[i] for i in order]]
    same = [torch.allclose(one.mean(0), other.mean(0)) for one, other in zip(*both, strict=True)]
    alt = (
        f"{N} tokens, {', '.join(rows[0])}, plus positions; below, the same tokens muddled, {', '.join(rows[1])}. "
        + " ".join(
            f"The mean of {what} is {_listed(both[0][i])} above and {_listed(both[1][i])} below."
            for what, i in (("the tokens", 0), ("the sums", 2), ("ReLU(sum − 1)", 3))
        )
    )
    return Drawing(alt, partial(_sheet, both, rows, same))


def _steps(tokens: Tensor, table: Tensor) -> list[Tensor]:
    placed = tokens + table
    return [tokens, table, placed, F.relu(placed - 1)]


def _listed(values: Tensor) -> str:
    return f"({', '.join(written(values.mean(0, keepdim=True))[0])})"


def _sheet(both: list[list[Tensor]], rows: list[list[str]], same: list[bool], wide: bool) -> Sheet:
    N, D = both[0][0].shape
    left, w, h, gap, size = (176, 46, 28, 46, 13) if wide else (44, 27, 24, 20, 10.5)
    top, step = (40 if wide else 58), (N + 1) * h + (46 if wide else 54)
    sheet = Sheet(720 if wide else 344, top + 2 * step)
    most = max(values.max().item() for values in both[0])
    for number, (steps, names) in enumerate(zip(both, rows, strict=True)):
        y, x = top + number * step, left
        _order(sheet, number, y, wide)
        for i, (values, title) in enumerate(zip(steps, TITLES, strict=True)):
            kind = TITLES[title]
            labels = {"rows": names} if i == 0 else {}
            place = sheet.matrix(x, y, values, kind, (w, h), size=size, top=most, **labels)
            if number == 0:
                sheet.text(place.cx, y - 17 if wide else y - 43, title, kind, size, weight=700)
            if SIGNS[i]:
                sheet.text(x - gap / 2, place.cy, SIGNS[i], "soft", 17)
            if i != 1:  # the positions are the same in both
                mean = sheet.matrix(x, place.bottom + 8, values.mean(0)[None], kind, (w, h), size=size, top=most)
                if number:
                    said, tone, weight = ("as above", "soft", 400) if same[i] else ("differs", "mark", 700)
                    sheet.text(mean.cx, mean.bottom + 14, said, tone, 12 if wide else 11, weight=weight)
            x = place.right + gap
        sheet.text(left - 7, y + (N + 0.5) * h + 8, "mean", size=size, anchor="end", weight=700)
    return sheet


def _order(sheet: Sheet, number: int, y: float, wide: bool) -> None:
    """Say which of the two orders this is."""
    words = "muddled" if number else "upright"
    if wide:
        sheet.text(20, y + 42, words, size=15, anchor="start", weight=700)
    else:
        sheet.text(12, y - 16, words, size=12, anchor="start", weight=700)

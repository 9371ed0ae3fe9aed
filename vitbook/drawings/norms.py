"""Which numbers a LayerNorm takes together: those of one token, and never those of several."""

from collections.abc import Sequence
from functools import partial

from torch import Tensor
from torch.nn import functional as F

from vitbook.drawings._sheet import Drawing, Place, Sheet
from vitnb._validate import float_tensor

RIGHT, WRONG = "M{x} {y}l5 6l9 -13", "M{x} {y}l12 12m0 -12l-12 12"


def layer_norm(x: Tensor, row: int = 0, names: Sequence[str] = ()) -> Drawing:
    """Draw LayerNorm over the features of each token, beside the bug that normalises over all tokens together.

    Every number is computed from x; row is the token to follow, names are the tokens', up to ten letters each.

    Shapes: x (T, D), with T and D up to 4.
    Raises: TypeError or ValueError for another tensor, or a row or names that do not fit.
    """
    x = float_tensor("x", x, 2, "(T, D)")
    T, D = x.shape
    if T > 4 or D > 4 or not 0 <= row < T:
        raise ValueError(f"a drawing holds up to 4 tokens of 4 features, got x {(T, D)}, row {row}: use (4, 4), row 3")
    if names and (len(names) != T or max(map(len, names)) > 10):
        raise ValueError(f"names are {list(names)}: use {T} of up to 10 letters, such as 'heel'")
    names = list(names) or [f"token {i}" for i in range(T)]
    each, both = F.layer_norm(x, (D,), eps=1e-6), F.layer_norm(x, (T, D), eps=1e-6)
    alt = (
        f"{T} tokens of {D} features, normalised twice. Right, LayerNorm(D): a frame around the features of one token, "
        f"{names[row]}; its own {_said(x[row])} turn it into {_listed(each[row])}. Wrong, LayerNorm([T, D]): a frame "
        f"around all tokens; their common {_said(x)} turn it into {_listed(both[row])}, so it depends on the others."
    )
    return Drawing(alt, partial(_sheet, x, (each, both), row, names))


def _said(x: Tensor) -> str:
    mean, deviation = x.mean().item(), x.std(correction=0).item()
    return f"mean {mean:.3g} and standard deviation {deviation:.2g}".replace("-", "−")


def _listed(row: Tensor) -> str:
    return ", ".join(f"{v:.3g}" for v in row.tolist()).replace("-", "−")


def _sheet(x: Tensor, normed: tuple[Tensor, Tensor], row: int, names: list[str], wide: bool) -> Sheet:
    T, D = x.shape
    w, h, left, gap, size = (44, 30, 284, 62, 13) if wide else (28, 26, 72, 34, 11)
    top, step = (52, T * h + 44) if wide else (92, T * h + 112)
    sheet = Sheet(720 if wide else 344, top + step + T * h + 18)
    for number, (y, taken) in enumerate(zip(normed, (x[row], x), strict=True)):
        at = top + number * step
        start = sheet.matrix(left, at, x, "token", (w, h), rows=names, size=size)
        end = sheet.matrix(start.right + gap, at, y, "token", (w, h), size=size, ring=row)
        first, count = (0, T) if number else (row, 1)
        frame = Place(left - 2, at + first * h - 2, D * w + 4, count * h + 4)
        sheet.rect(frame, None, "ink", rx=3, width=2.4)
        sheet.arrow((start.right + 8, start.cy), (end.x - 8, end.cy))
        _words(sheet, number, f"{'all' if number else names[row]}: {_said(taken)}", at, wide)
        if not number:
            for place, word in ((start, "x"), (end, "LN(x)")):
                sheet.text(place.cx, at - 32 if wide else at - 16, word, "token", 14, weight=700, mono=True)
                if wide:
                    sheet.text(place.cx, at - 14, "(T, D)", "soft", 12, mono=True)
    return sheet


def _words(sheet: Sheet, wrong: int, numbers: str, y: float, wide: bool) -> None:
    """What is right or wrong here, with the mean and the standard deviation of the numbers in the frame."""
    tone, code = ("mark", "LayerNorm([T, D])") if wrong else ("value", "LayerNorm(D)")
    x, y = (20, y + 16) if wide else (14, y - (52 if wrong else 76))
    mark = (WRONG if wrong else RIGHT).format(x=x, y=y - 6 if wrong else y)
    sheet.path(mark, tone, 3, cap="round")
    sheet.text(x + 22, y, "wrong" if wrong else "right", tone, 14, "start", 700)
    whose = "all tokens together" if wrong else "each token by itself"
    sheet.text(x if wide else x + 82, y + 28 if wide else y, code, size=13 if wide else 12, anchor="start", mono=True)
    numbers = numbers.replace("standard deviation", "σ")
    if wide:
        sheet.lines(x, y + 62, (whose, numbers), 13, anchor="start", colour="soft")
    else:
        sheet.text(x, y + 24, f"{whose}; {numbers}", "soft", 11, "start")

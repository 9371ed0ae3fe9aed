"""Attention with every number in its cell."""

from collections.abc import Sequence
from functools import partial

from torch import Tensor

from vitbook.drawings._sheet import Drawing, Place, Sheet, written
from vitnb._validate import float_tensor


def attention(q: Tensor, k: Tensor, v: Tensor, row: int = 1, names: Sequence[str] = ()) -> Drawing:
    """Draw the attention of a few tokens, from queries, keys and values to the output.

    Every number is computed from these; row is the token to follow, names are
    the tokens', up to five letters each (by default 0, 1, 2).

    Shapes: q (T, d), k (T, d), v (T, e), with T 2 or 3, and d, e up to 3.
    Raises: TypeError or ValueError for other tensors.
    """
    q, k, v = (float_tensor(name, x, 2, "(T, d)") for name, x in (("q", q), ("k", k), ("v", v)))
    return _draw(q, k, v, row, names, learned=True)


def simple_attention(x: Tensor, row: int = 1, names: Sequence[str] = ()) -> Drawing:
    """Draw self-attention with nothing learned: similarities, their softmax, and the mix of the tokens.

    Shapes: x (T, D), with T 2 or 3, and D up to 3.
    Raises: TypeError or ValueError for another tensor.
    """
    x = float_tensor("x", x, 2, "(T, D)")
    return _draw(x, x, x, row, names, learned=False)


def _draw(q: Tensor, k: Tensor, v: Tensor, row: int, names: Sequence[str], learned: bool) -> Drawing:
    T, d = q.shape
    if k.shape != q.shape or len(v) != T or not 2 <= T <= 3 or d > 3 or v.shape[1] > 3:
        raise ValueError(
            f"a drawing holds 2 or 3 tokens of up to 3 numbers, got q {tuple(q.shape)}, k {tuple(k.shape)}, "
            f"v {tuple(v.shape)}: use (3, 2) for each, for example"
        )
    if not 0 <= row < T:
        raise ValueError(f"row is {row}: use 0 to {T - 1}")
    if names and (len(names) != T or max(map(len, names)) > 5):
        raise ValueError(f"names are {list(names)}: use {T} of up to 5 letters, such as 'cls'")
    names = list(names) or [str(i) for i in range(T)]
    scores = q @ k.T  # (T, T)
    scaled = scores / d**0.5 if learned else scores  # (T, T)
    weights = scaled.softmax(dim=-1)  # (T, T)
    steps = dict(q=q, k=k, v=v, scores=scores, scaled=scaled, weights=weights, kT=k.T, out=weights @ v)
    share = ", ".join(f"{w} of token {name}" for w, name in zip(written(weights)[row], names, strict=True))
    alt = (
        f"Attention of {T} tokens in numbers. "
        + ("Queries times transposed keys" if learned else "The tokens times themselves, transposed,")
        + f" give a {T} by {T} matrix of scores. "
        + ("Divided by the square root of d, then by" if learned else "By")
        + f" a softmax along each row, they become weights that sum to 1 in every row. The weights times the "
        f"{'values' if learned else 'tokens'} give the output. Followed is token {names[row]}: it takes {share}."
    )
    return Drawing(alt, partial(_sheet, steps, row, names, learned))


def _sheet(steps: dict[str, Tensor], row: int, names: list[str], learned: bool, wide: bool) -> Sheet:
    """One step below the other, as the code has them: the T x T matrices stand in one column."""
    T, d = steps["q"].shape
    one, two, three = ("query", "key", "value") if learned else ("token",) * 3
    left, gap = (206, 42) if wide else (28, 19)
    left += 6 * max(0, max(map(len, names)) - 2)  # room for the tokens' names
    end = 708 if wide else 340
    w = min(48, (end - left - 2 * gap) / (2 * T + max(d, steps["v"].shape[1] * 2 - T)))
    h, size = (32, 13) if wide else (28, 10.5)
    tall, right, inner = T * h, left + T * w + gap, "(T, d)" if learned else "(T, D)"
    sheet = Sheet(720 if wide else 344, 0)

    def matrix(x: float, y: float, name: str, kind: str, title: str = "", shape: str = "", **more: object) -> Place:
        place = sheet.matrix(x, y, steps[name], kind, (w, h), size=size, **more)
        if title:
            lift = 18 if more.get("columns") else 4
            sheet.text(place.cx, y - lift - 23, title, kind, 14, weight=700, mono=True)
            sheet.text(place.cx, y - lift - 8, shape, "soft", 11, mono=True)
        return place

    def between(place: Place, sign: str) -> None:
        sheet.text(place.right + gap / 2, place.cy, sign, "soft", 15, mono=True)

    def note(y: float, title: str, *words: str) -> None:
        if wide:
            top = y + tall / 2 - 9 * (1 + len(words))
            sheet.text(20, top + 5, title, size=15, anchor="start", weight=700)
            sheet.lines(20, top + 15 + 9 * len(words), words, colour="soft", anchor="start")

    def down(place: Place, to: float, words: str) -> None:
        sheet.arrow((place.cx, place.bottom + 8), (place.cx, to - 7))
        sheet.text(place.cx + 12, place.bottom + 22, words, size=13, anchor="start")

    y = 58
    thing = "query" if learned else "token"
    note(y, "1  Compare", f"every {thing} with", "every key" if learned else "every token")
    grid = matrix(left, y, "scores", "weights", "scores", "(T, T)", rows=names, columns=names, ring=row)
    between(grid, "=")
    first = matrix(right, y, "q", one, "q" if learned else "x", inner, ring=row)
    between(first, "@")
    turned = f"({inner[4]}, T)"
    columns = {"columns": names}
    second = y + (tall - d * h) / 2
    matrix(first.right + gap, second, "kT", two, "k^T" if learned else "x^T", turned, **columns)
    y += tall + 48
    if learned:
        down(grid, y, "÷ √d")
        note(y, "2  Scale", "to the same size", "at any width d")
        grid = matrix(left, y, "scaled", "weights", rows=names, ring=row)
        y += tall + 48
    y += 34
    down(grid, y, "softmax of each row")
    sheet.text(grid.cx + 12, grid.bottom + 42, "weights", "weights", 14, "start", 700, mono=True)
    note(y, f"{2 + learned}  Mix", "rows sum to 1 and", "mix the values" if learned else "mix the tokens")
    grid = matrix(left, y, "weights", "weights", rows=names, ring=row)
    between(grid, "@")
    values = matrix(right, y, "v", three, "v" if learned else "x", inner)
    between(values, "=")
    matrix(values.right + gap, y, "out", three, "output", inner, ring=row)
    sheet.height = y + tall + 18
    return sheet

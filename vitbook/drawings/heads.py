"""Several heads: how the width is split among them."""

from functools import partial

import torch
from torch import Tensor

from vitbook.drawings._sheet import Drawing, Place, Sheet

T, D, H = 3, 4, 2  # tokens, features, heads of the drawing, as in the example of chapter 4
d = D // H
NAMES = ("query", "key", "value")


def heads() -> Drawing:
    """Draw multi-head attention: the features are dealt out to the heads, each attends, the results are joined."""
    alt = (
        f"Multi-head attention. Queries, keys and values, each {T} tokens by {D} features, are cut between columns "
        f"into {H} heads of {d} features. In a row for each head, the head's queries and keys give its own {T} by "
        f"{T} attention weights, which mix its values. The {H} results of {d} features stand side by side again as "
        f"{D} features a token, and a linear layer mixes the heads. The shape goes from (B, T, D) to (B, h, T, d) "
        "and back."
    )
    return Drawing(alt, lambda wide: _heads_wide() if wide else _heads_narrow())


def _sources() -> list[Tensor]:
    """Random queries, keys and values, (T, D) each."""
    return [0.25 + 0.75 * torch.rand(T, D, generator=torch.Generator().manual_seed(seed)) for seed in (4, 5, 6)]


def _cut(sheet: Sheet, place: Place, cell: float) -> None:
    """Gaps between the heads."""
    for i in range(1, H):
        x = place.x + i * d * cell
        sheet.path(f"M{x:.1f} {place.y - 1:.1f}V{place.bottom + 1:.1f}", "paper", 4)


def _head(sheet: Sheet, x: float, y: float, i: int, cell: float, sources: list[Tensor]) -> Tensor:
    """One head's row: q, k and v of the head, its weights, its output, (T, d), which is returned."""
    gap = cell * 0.8
    q, k, v = (values[:, i * d : (i + 1) * d] for values in sources)
    for kind, values in zip(NAMES, (q, k, v), strict=True):
        spot = sheet.matrix(x, y, values, kind, (cell, cell), numbers=False, top=1)
        x = spot.right + gap
    sheet.arrow((x - gap + 6, spot.cy), (x + 20, spot.cy))
    weights = (6 * q @ k.T).softmax(-1)
    spot = sheet.matrix(x + 24, y, weights, "weights", (cell, cell), numbers=False, top=1)
    sheet.arrow((spot.right + 5, spot.cy), (spot.right + 31, spot.cy))
    sheet.matrix(spot.right + 35, y, weights @ v, "value", (cell, cell), numbers=False, top=1)
    return weights @ v


def _heads_wide() -> Sheet:
    sheet, cell, step, sources, outputs = Sheet(720, 392), 15, 78, _sources(), []
    y = 84
    sheet.text(98, 26, "queries, keys, values", weight=700)
    sheet.text(98, 44, "(B, T, D)", "soft", 12, mono=True)
    sheet.text(382, 26, "each head attends by itself", weight=700)
    sheet.text(382, 44, "(B, h, T, d)", "soft", 12, mono=True)
    sheet.text(636, 26, "merged", weight=700)
    sheet.text(636, 44, "(B, T, D)", "soft", 12, mono=True)
    for i, (kind, values) in enumerate(zip(NAMES, sources, strict=True)):
        place = sheet.matrix(98 - D * cell / 2, y + 20 + i * 90, values, kind, (cell, cell), numbers=False, top=1)
        _cut(sheet, place, cell)
        sheet.text(place.x - 10, place.cy, kind[0], kind, 14, "end", 700, mono=True)
    middle = y + 20 + 90 + T * cell / 2
    sheet.arrow((168, middle), (202, middle))
    sheet.text(184, middle - 12, "split", "soft", 12)
    first = middle - ((H - 1) * step + T * cell) / 2
    for i in range(H):
        outputs.append(_head(sheet, 258, first + i * step, i, cell, sources))
        sheet.text(248, first + i * step + T * cell / 2, f"head {i}", "soft", 12, "end")
    for x, kind in zip((273, 315, 357), NAMES, strict=True):
        sheet.text(x, first - 14, kind[0], kind, 13, weight=700, mono=True)
    sheet.text(430, first - 14, "weights", "weights", 12, weight=700)
    sheet.arrow((532, middle), (568, middle))
    sheet.text(549, middle - 12, "merge", "soft", 12)
    merged, y = torch.cat(outputs, dim=1), middle - T * cell / 2  # (T, D)
    place = sheet.matrix(636 - D * cell / 2, y, merged, "value", (cell, cell), numbers=False, top=1)
    _cut(sheet, place, cell)
    sheet.arrow((place.cx, place.bottom + 6), (place.cx, place.bottom + 34))
    box = sheet.box(Place(place.cx - 50, place.bottom + 36, 100, 32), "linear")
    sheet.arrow((place.cx, box.bottom + 2), (place.cx, box.bottom + 34))
    sheet.text(place.cx, box.bottom + 48, "(B, T, D)", "soft", 12, mono=True)
    return sheet


def _heads_narrow() -> Sheet:
    sheet, cell, step, sources, outputs = Sheet(344, 642), 12, 62, _sources(), []
    for i, (kind, values) in enumerate(zip(NAMES, sources, strict=True)):
        place = sheet.matrix(61 + i * 111 - D * cell / 2, 44, values, kind, (cell, cell), numbers=False, top=1)
        _cut(sheet, place, cell)
        sheet.text(place.cx, 28, kind[0], kind, 14, weight=700, mono=True)
    sheet.arrow((172, 90), (172, 128))
    sheet.text(160, 106, "split", "soft", 12, "end")
    sheet.text(184, 106, "(B, T, D) → (B, h, T, d)", "soft", 10.5, "start", mono=True)
    for i in range(H):
        outputs.append(_head(sheet, 82, 160 + i * step, i, cell, sources))
        sheet.text(68, 160 + i * step + T * cell / 2, f"head {i}", "soft", 12, "end")
    for x, kind in zip((94, 128, 161), NAMES, strict=True):
        sheet.text(x, 146, kind[0], kind, 13, weight=700, mono=True)
    sheet.text(227, 146, "weights", "weights", 12, weight=700)
    y = 160 + H * step - 14
    sheet.arrow((172, y), (172, y + 38))
    sheet.text(160, y + 18, "merge", "soft", 12, "end")
    sheet.text(184, y + 18, "(B, h, T, d) → (B, T, D)", "soft", 10.5, "start", mono=True)
    merged = torch.cat(outputs, dim=1)  # (T, D)
    place = sheet.matrix(172 - D * cell / 2, y + 46, merged, "value", (cell, cell), numbers=False, top=1)
    _cut(sheet, place, cell)
    sheet.arrow((172, place.bottom + 6), (172, place.bottom + 32))
    box = sheet.box(Place(122, place.bottom + 34, 100, 32), "linear")
    sheet.arrow((172, box.bottom + 2), (172, box.bottom + 32))
    sheet.text(172, box.bottom + 46, "(B, T, D)", "soft", 11, mono=True)
    sheet.height = box.bottom + 66
    return sheet


def split(by_hand: bool = False) -> Drawing:
    """Draw the right split of the features among heads beside the wrong one, a view alone, with numbers to follow.

    by_hand: the code has the sizes of these three tokens instead of letters, and
        below each head stands the mean of its rows.
    """
    right, wrong = splits()
    (good, then), (bad, _) = _codes(by_hand)
    alt = (
        "Three tokens of four features, numbered 0 to 11, go to two heads of two features. Right, "
        f"{good}{then}: head 0 gets {_said(right[0])}, the first two features of every token. Wrong, {bad} alone: "
        f"head 0 gets {_said(wrong[0])}, so its rows are halves of tokens 0, 0 and 1, and token 2 is missing. Both "
        "have the same shape."
    )
    if by_hand:
        means = (_said(values[0].mean(0, keepdim=True)) for values in (right, wrong))
        alt += " The mean of head 0 is {} in the right split and {} in the wrong one.".format(*means)
    return Drawing(alt, partial(_split, by_hand=by_hand))


def _codes(by_hand: bool) -> tuple[tuple[str, str], tuple[str, str]]:
    """The code of the right split and of the wrong one, two lines each."""
    if by_hand:
        return ("view(3, 2, 2)", ".transpose(0, 1)"), ("view(2, 3, 2)", "alone")
    return ("view(B, T, h, d)", ".transpose(1, 2)"), ("view(B, h, T, d)", "alone")


def splits() -> tuple[Tensor, Tensor]:
    """The numbers of split: (h, T, d) by view and transpose, and by view alone."""
    x = torch.arange(12.0).view(1, 3, 4)  # (B, T, D)
    return x.view(1, 3, 2, 2).transpose(1, 2)[0], x.view(1, 2, 3, 2)[0]


def _said(head: Tensor) -> str:
    return ", ".join(" and ".join(f"{v:.0f}" for v in row) for row in head.tolist())


def _split(wide: bool, by_hand: bool) -> Sheet:
    more = 46 if by_hand else 0  # for the means below a head
    sheet = Sheet(720 if wide else 344, (310 if wide else 510) + 2 * more)
    w, h = (36, 30) if wide else (34, 28)
    x = 24 if wide else 172 - 2 * w + 24
    y = 112 + more if wide else 52
    source = _numbered(sheet, x + 52 if wide else x, y, torch.arange(12.0).view(3, 4), w, h)
    sheet.text(source.cx, y - 30, "tokens", "token", 14, weight=700)
    sheet.text(source.cx, y - 13, "(3, 4)" if by_hand else "(T, D) = (3, 4)", "soft", 12 if wide else 11, mono=True)
    for i in range(3):
        sheet.text(source.x - 8, source.y + (i + 0.5) * h, f"token {i}", "soft", 12 if wide else 11, "end")
    for number, (values, words) in enumerate(zip(splits(), _codes(by_hand), strict=True)):
        good = number == 0
        left, top = (400, 48 + (146 + more) * number) if wide else (112, 236 + (166 + more) * number)
        for head in range(2):
            place = _numbered(sheet, left + head * (2 * w + 34), top, values[head], w, h)
            sheet.text(place.cx, top - 13, f"head {head}", "soft", 12 if wide else 11)
            if by_hand:
                _means(sheet, place, values[head], h)
        if by_hand:
            sheet.text(left - 8, top + 3.5 * h + 10, "mean", "soft", 12 if wide else 11, "end")
        tone = "value" if good else "mark"
        if wide:
            middle = top + 1.5 * h
            sheet.arrow((source.right + 12, source.cy + (14 if number else -14)), (left - 14, middle), colour=tone)
            x0 = left + 4 * w + 34 + 22
            sheet.path(_mark(good, x0 + 6, middle - 22), tone, 3, cap="round")
            sheet.text(x0 + 22, middle - 22, "right" if good else "wrong", tone, 14, "start", 700)
            sheet.lines(x0, middle + 10, words, 11, anchor="start", mono=True)
        else:
            sheet.path(_mark(good, 30, top + 16), tone, 3, cap="round")
            sheet.text(44, top + 16, "right" if good else "wrong", tone, 14, "start", 700)
            sheet.text(112, top - 34, "".join(words) if good else " ".join(words), size=11, anchor="start", mono=True)
    return sheet


def _means(sheet: Sheet, place: Place, values: Tensor, h: float) -> None:
    """The mean of a head's rows, below them."""
    w = place.w / values.shape[1]
    for j, mean in enumerate(values.mean(0).tolist()):
        spot = sheet.rect(Place(place.x + j * w, place.bottom + 10, w, h), "paper", "token", width=1.5)
        sheet.text(spot.cx, spot.cy, f"{mean:.0f}", size=13, weight=700)


def _mark(good: bool, x: float, y: float) -> str:
    """A tick or a cross around (x, y)."""
    cross = f"M{x - 6:g} {y - 6:g}l12 12M{x + 6:g} {y - 6:g}l-12 12"
    return f"M{x - 7:g} {y:g}l5 6l9 -13" if good else cross


def _numbered(sheet: Sheet, x: float, y: float, values: Tensor, w: float, h: float) -> Place:
    """Numbers 0 to 11 in cells whose shade and side band tell from which token each came."""
    R, C = values.shape
    place = Place(x, y, C * w, R * h)
    for i, row in enumerate(values.tolist()):
        for j, value in enumerate(row):
            token = int(value) // 4
            spot = sheet.rect(Place(x + j * w, y + i * h, w, h), f"token-{(1, 4, 8)[token]}", "line", width=1)
            sheet.text(spot.cx, spot.cy, f"{value:.0f}", size=13)
    sheet.rect(place, None, "token", rx=2, width=2)
    return place

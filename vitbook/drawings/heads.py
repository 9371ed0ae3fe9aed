"""Several heads: how the width is split among them."""

import torch
from torch import Tensor

from vitbook.drawings._sheet import Drawing, Place, Sheet

T, D, H = 3, 4, 2  # tokens, features, heads of the drawing, as in the example of chapter 4
d = D // H
NAMES = ("query", "key", "value")


def heads() -> Drawing:
    """Draw multi-head attention: the features are dealt out to the heads, each attends, the results are joined."""
    alt = (
        f"Multi-head attention. Queries, keys and values, each {T} tokens by {D} features, are cut "
        f"between columns into "
        f"{H} heads of {d} features. In a row for each head, the head's queries and keys give its "
        f"own {T} by {T} attention "
        f"weights, which mix its values. The {H} results of {d} features stand side by side again as {D} features a "
        "token, and a linear layer mixes the heads. The shape goes from (B, T, D) to (B, h, T, d) and back."
    )
    return Drawing(alt, _heads_wide_or_narrow)


def _random(seed: int, rows: int, columns: int) -> Tensor:
    return 0.25 + 0.75 * torch.rand(rows, columns, generator=torch.Generator().manual_seed(seed))


def _cut(sheet: Sheet, place: Place, cell: float) -> None:
    """Gaps between the heads."""
    for i in range(1, H):
        x = place.x + i * d * cell
        sheet.path(f"M{x:.1f} {place.y - 1:.1f}V{place.bottom + 1:.1f}", "paper", 4)


def _head(sheet: Sheet, x: float, y: float, i: int, cell: float, sources: list[Tensor]) -> Place:
    """One head's row: q, k and v of the head, its weights, its output."""
    tall, gap = T * cell, cell * 0.8
    q, k, v = (values[:, i * d : (i + 1) * d] for values in sources)
    for kind, values in zip(NAMES, (q, k, v), strict=True):
        spot = sheet.matrix(x, y, values, kind, (cell, cell), numbers=False, top=1)
        x = spot.right + gap
    sheet.arrow((x - gap + 6, spot.cy), (x + 20, spot.cy))
    scores = (6 * q @ k.T).softmax(-1)
    spot = sheet.matrix(x + 24, y, scores, "weights", (cell, cell), numbers=False, top=1)
    sheet.arrow((spot.right + 5, spot.cy), (spot.right + 31, spot.cy))
    spot = sheet.matrix(spot.right + 35, y, scores @ v, "value", (cell, cell), numbers=False, top=1)
    return Place(x, y, spot.right - x, tall)


def _heads_wide_or_narrow(wide: bool) -> Sheet:
    sources = [_random(seed, T, D) for seed in (4, 5, 6)]
    mixed = torch.cat([_output(sources, i) for i in range(H)], dim=1)  # (T, D)
    return (_heads_wide if wide else _heads_narrow)(sources, mixed)


def _output(sources: list[Tensor], i: int) -> Tensor:
    q, k, v = (values[:, i * d : (i + 1) * d] for values in sources)
    return (6 * q @ k.T).softmax(-1) @ v  # (T, d)


def _heads_wide(sources: list[Tensor], mixed: Tensor) -> Sheet:
    sheet, cell, step = Sheet(720, 392), 15, 78
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
        row = _head(sheet, 258, first + i * step, i, cell, sources)
        sheet.text(248, row.cy, f"head {i}", "soft", 12, "end")
    for x, word in ((273, "q"), (315, "k"), (357, "v")):
        sheet.text(x, first - 14, word, dict(q="query", k="key", v="value")[word], 13, weight=700, mono=True)
    sheet.text(430, first - 14, "weights", "weights", 12, weight=700)
    sheet.arrow((532, middle), (568, middle))
    sheet.text(549, middle - 12, "merge", "soft", 12)
    place = sheet.matrix(636 - D * cell / 2, middle - T * cell / 2, mixed, "value", (cell, cell), numbers=False, top=1)
    _cut(sheet, place, cell)
    sheet.arrow((place.cx, place.bottom + 6), (place.cx, place.bottom + 34))
    box = sheet.box(Place(place.cx - 50, place.bottom + 36, 100, 32), "linear")
    sheet.arrow((place.cx, box.bottom + 2), (place.cx, box.bottom + 34))
    sheet.text(place.cx, box.bottom + 48, "(B, T, D)", "soft", 12, mono=True)
    return sheet


def _heads_narrow(sources: list[Tensor], mixed: Tensor) -> Sheet:
    sheet, cell, step = Sheet(344, 642), 12, 62
    for i, (kind, values) in enumerate(zip(NAMES, sources, strict=True)):
        place = sheet.matrix(61 + i * 111 - D * cell / 2, 44, values, kind, (cell, cell), numbers=False, top=1)
        _cut(sheet, place, cell)
        sheet.text(place.cx, 28, kind[0], kind, 14, weight=700, mono=True)
    sheet.arrow((172, 90), (172, 128))
    sheet.text(160, 106, "split", "soft", 12, "end")
    sheet.text(184, 106, "(B, T, D) → (B, h, T, d)", "soft", 10.5, "start", mono=True)
    for i in range(H):
        row = _head(sheet, 82, 160 + i * step, i, cell, sources)
        sheet.text(68, row.cy, f"head {i}", "soft", 12, "end")
    for x, word in ((94, "q"), (128, "k"), (161, "v")):
        sheet.text(x, 146, word, dict(q="query", k="key", v="value")[word], 13, weight=700, mono=True)
    sheet.text(227, 146, "weights", "weights", 12, weight=700)
    y = 160 + H * step - 14
    sheet.arrow((172, y), (172, y + 38))
    sheet.text(160, y + 18, "merge", "soft", 12, "end")
    sheet.text(184, y + 18, "(B, h, T, d) → (B, T, D)", "soft", 10.5, "start", mono=True)
    place = sheet.matrix(172 - D * cell / 2, y + 46, mixed, "value", (cell, cell), numbers=False, top=1)
    _cut(sheet, place, cell)
    sheet.arrow((172, place.bottom + 6), (172, place.bottom + 32))
    box = sheet.box(Place(122, place.bottom + 34, 100, 32), "linear")
    sheet.arrow((172, box.bottom + 2), (172, box.bottom + 32))
    sheet.text(172, box.bottom + 46, "(B, T, D)", "soft", 11, mono=True)
    sheet.height = box.bottom + 66
    return sheet

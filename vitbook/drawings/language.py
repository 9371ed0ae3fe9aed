"""The legend: the language of the drawings, explained by itself."""

from collections.abc import Callable

import torch

from vitbook import images
from vitbook.drawings._sheet import Drawing, Place, Sheet

ALT = (
    "The signs of the drawings. Patch: a gray square that holds pixels. Token: a blue column of features. "
    "cls token: an orange column under a diamond. Position: a teal column with a dotted edge. Query: pink, solid edge. "
    "Key: ochre, dashed edge. Value: green, dash-dotted edge. Attention weights: a violet square matrix. "
    "Norm: a gray pill. MLP: a brown box that widens in the middle. Residual stream: a thick blue line that branches "
    "leave and join at a plus sign. Logits: black bars. An arrow carries the shape of what flows. "
    "In matrices, a stronger shade is a larger number, and negative numbers are gray."
)


def legend() -> Drawing:
    """Draw what each colour, edge and mark means."""
    return Drawing(ALT, _sheet)


def _patch(s: Sheet, x: float, y: float) -> None:
    s.rect(s.image(Place(x - 18, y - 18, 36, 36), images.boot()[0, 16:20, 8:12]), None, "patch")


def _row(kind: str, *values: float) -> Callable[[Sheet, float, float], None]:
    return lambda s, x, y: s.matrix(x - 27, y - 9, torch.tensor([values]), kind, (18, 18), numbers=False)


def _weights(s: Sheet, x: float, y: float) -> None:
    s.matrix(x - 21, y - 21, torch.eye(3) + 0.25, "weights", (14, 14), numbers=False)


def _residual(s: Sheet, x: float, y: float) -> None:
    s.stream((x - 34, y + 8), (x + 34, y + 8))
    s.path(f"M{x - 24} {y + 8}v-20h40v11", "soft")
    s.plus(x + 16, y + 8)


def _shades(s: Sheet, x: float, y: float) -> None:
    s.matrix(x - 36, y - 12, torch.tensor([[-3.0, 0.0, 3.0]]), "token", (24, 24))


ENTRIES = (  # a name, what it is, the colour of the name, and what is drawn around (x, y)
    ("patch", "pixels of an image", "patch", _patch),
    ("token", "a column of D features", "token", lambda s, x, y: s.token(x - 7, y - 22)),
    ("cls token", "stands for the image", "cls", lambda s, x, y: s.token(x - 7, y - 16, "cls")),
    ("position", "where a patch was", "position", lambda s, x, y: s.token(x - 7, y - 22, "position")),
    ("query", "what it looks for", "query", _row("query", 0.3, 0.9, 0.5)),
    ("key", "what it is found by", "key", _row("key", 0.8, 0.3, 0.6)),
    ("value", "what it passes on", "value", _row("value", 0.5, 0.7, 0.2)),
    ("attention weights", "T × T, rows sum to 1", "weights", _weights),
    ("LayerNorm", "each token by itself", "norm", lambda s, x, y: s.norm(Place(x - 30, y - 12, 60, 24))),
    ("MLP", "wider, GELU, back", "mlp", lambda s, x, y: s.mlp(Place(x - 30, y - 17, 60, 34))),
    ("residual stream", "branches add to it", "token", _residual),
    ("logits", "one score a class", "ink", lambda s, x, y: s.bars(x - 27, y + 18, [8, 12, 34, 6, 15])),
    (
        "arrow",
        "the shape that flows",
        "ink",
        lambda s, x, y: s.arrow((x - 34, y + 6), (x + 36, y + 6), label="(B, N, D)"),
    ),
    ("numbers", "stronger: farther from 0", "ink", _shades),
)


def _sheet(wide: bool) -> Sheet:
    columns, across, down = (3, 238, 86) if wide else (1, 320, 70)
    rows = -(-len(ENTRIES) // columns)
    sheet = Sheet(720 if wide else 344, rows * down + 16)
    for i, (name, words, colour, draw) in enumerate(ENTRIES):
        x, y = 10 + i % columns * across, 8 + (i // columns + 0.5) * down
        draw(sheet, x + 34, y)
        sheet.text(x + 84, y - 9, name, colour, 14, "start", 700)
        sheet.text(x + 84, y + 9, words, "soft", 12, "start")
    return sheet

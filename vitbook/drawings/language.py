"""The legend: the language of the drawings, explained by itself."""

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


def _sheet(wide: bool) -> Sheet:
    columns, across, down = (3, 238, 86) if wide else (1, 320, 70)
    entries = [_patch, _token, _cls, _position, _query, _key, _value, _weights, _norm, _mlp, _residual, _logits]
    entries += [_arrow, _shades]
    rows = -(-len(entries) // columns)
    sheet = Sheet(720 if wide else 344, rows * down + 16)
    for i, entry in enumerate(entries):
        x, y = 10 + i % columns * across, 8 + (i // columns + 0.5) * down
        name, words, colour = entry(sheet, x + 34, y)
        sheet.text(x + 84, y - 9, name, colour, 14, "start", 700)
        sheet.text(x + 84, y + 9, words, "soft", 12, "start")
    return sheet


def _patch(s: Sheet, x: float, y: float) -> tuple[str, str, str]:
    pixels = images.boot()[0, 16:20, 8:12]
    s.rect(s.image(Place(x - 18, y - 18, 36, 36), pixels), None, "patch")
    return "patch", "pixels of an image", "patch"


def _token(s: Sheet, x: float, y: float) -> tuple[str, str, str]:
    s.token(x - 7, y - 22, "token")
    return "token", "a column of D features", "token"


def _cls(s: Sheet, x: float, y: float) -> tuple[str, str, str]:
    s.token(x - 7, y - 16, "cls")
    return "cls token", "stands for the image", "cls"


def _position(s: Sheet, x: float, y: float) -> tuple[str, str, str]:
    s.token(x - 7, y - 22, "position")
    return "position", "where a patch was", "position"


def _query(s: Sheet, x: float, y: float) -> tuple[str, str, str]:
    s.matrix(x - 27, y - 9, torch.tensor([[0.3, 0.9, 0.5]]), "query", (18, 18), numbers=False)
    return "query", "what it looks for", "query"


def _key(s: Sheet, x: float, y: float) -> tuple[str, str, str]:
    s.matrix(x - 27, y - 9, torch.tensor([[0.8, 0.3, 0.6]]), "key", (18, 18), numbers=False)
    return "key", "what it is found by", "key"


def _value(s: Sheet, x: float, y: float) -> tuple[str, str, str]:
    s.matrix(x - 27, y - 9, torch.tensor([[0.5, 0.7, 0.2]]), "value", (18, 18), numbers=False)
    return "value", "what it passes on", "value"


def _weights(s: Sheet, x: float, y: float) -> tuple[str, str, str]:
    s.matrix(x - 21, y - 21, torch.eye(3) + 0.25, "weights", (14, 14), numbers=False)
    return "attention weights", "T × T, rows sum to 1", "weights"


def _norm(s: Sheet, x: float, y: float) -> tuple[str, str, str]:
    s.norm(Place(x - 30, y - 12, 60, 24))
    return "LayerNorm", "each token by itself", "norm"


def _mlp(s: Sheet, x: float, y: float) -> tuple[str, str, str]:
    s.mlp(Place(x - 30, y - 17, 60, 34))
    return "MLP", "wider, GELU, back", "mlp"


def _residual(s: Sheet, x: float, y: float) -> tuple[str, str, str]:
    s.stream((x - 34, y + 8), (x + 34, y + 8))
    s.path(f"M{x - 24} {y + 8}v-20h40v11", "soft")
    s.plus(x + 16, y + 8)
    return "residual stream", "branches add to it", "token"


def _logits(s: Sheet, x: float, y: float) -> tuple[str, str, str]:
    s.bars(x - 27, y + 18, [8, 12, 34, 6, 15])
    return "logits", "one score a class", "ink"


def _arrow(s: Sheet, x: float, y: float) -> tuple[str, str, str]:
    s.arrow((x - 34, y + 6), (x + 36, y + 6), label="(B, N, D)", size=12)
    return "arrow", "the shape that flows", "ink"


def _shades(s: Sheet, x: float, y: float) -> tuple[str, str, str]:
    s.matrix(x - 36, y - 12, torch.tensor([[-3.0, 0.0, 3.0]]), "token", (24, 24))
    return "numbers", "stronger: farther from 0", "ink"

"""The book's map: the whole model, every part of it leading to the chapter that builds it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from vitbook import images
from vitbook.drawings._sheet import Drawing, Place, Sheet
from vitnb._validate import choice, pair
from vitnb.patches import grid_size
from vitnb.vit import ViTConfig

# The parts of the map, by the chapter that builds them: the name behind the number of its file.
PARTS = {
    "patchify": "image, patches and their projection",
    "positions": "positions",
    "attention": "attention",
    "heads": "several heads",
    "pre-norm-post-norm": "the block: norm, MLP and residual stream",
    "depth": "many blocks",
    "cls-token": "the cls token",
    "vit": "the head and the logits",
}
# The chapters' numbers, which stand in their parts.
NUMBERS = {part: number for number, part in enumerate(PARTS, 1)}
# What the letters of the shapes mean, below the map: as in vitnb/__init__.py.
LETTERS = (
    ("B", "images in a batch"),
    ("C", "channels"),
    ("H, W", "height, width in pixels"),
    ("p", "side of a patch in pixels"),
    ("N", "patches of an image"),
    ("T", "tokens, here 1 + N"),
    ("D", "features of a token"),
    ("h", "attention heads"),
    ("L", "blocks"),
    ("K", "classes"),
)


def whole_model(here: str | None = None, config: ViTConfig | None = None) -> Drawing:
    """Draw the Vision Transformer from image to logits, each part a link to its chapter: the book's map.

    here is one of the parts, by its chapter's name without the number
    ("attention", "pre-norm-post-norm"): it gets a frame, "you are here".
    config, of a model that reads its cls token, puts its numbers in the place
    of the letters; only B stays.

    Raises: ValueError for a part that the map does not have.
    Source: after figure 1 of Dosovitskiy et al. 2021.
    """
    if here is not None:
        choice("here", here, PARTS)
    sizes = {} if config is None else _sizes(config)
    alt = (
        "The Vision Transformer, read from top to bottom. An image of a boot is cut into patches, and a linear "
        "projection makes a token of each. A cls token is put in front, and positions are added. The tokens pass L "
        "blocks. In a block, drawn open, two branches leave the residual stream and are added back: norm and "
        "attention with h heads, then norm and MLP. After a last norm the cls token alone goes through the head, "
        "which gives one logit a class; the largest belongs to the ankle boot."
        + (f" You are here: {PARTS[here]}." if here else "")
    )
    if sizes:
        steps = {
            "images": "(B, C, H, W)",
            "patches": "(B, N, C·p·p)",
            "projected": "(B, N, D)",
            "with cls token and positions, and after each block": "(B, T, D)",
            "read": "(B, D)",
            "logits": "(B, K)",
        }
        alt += " The shapes: " + "; ".join(f"{name} {_shape(step, sizes)}" for name, step in steps.items())
        alt += f". There are {sizes['L']} blocks with {sizes['h']} heads each."
    return Drawing(alt, partial(_whole_model, here, sizes))


def _sizes(c: ViTConfig) -> dict[str, str]:
    """The letters of the drawing and the numbers of a model."""
    (height, width), (p, q) = pair("img_size", c.img_size), pair("patch_size", c.patch_size)
    rows, columns = grid_size(c.img_size, c.patch_size)
    N = rows * columns
    numbers = dict(C=c.in_chans, H=height, W=width, N=N, T=N + 1, D=c.embed_dim, K=c.num_classes, L=c.depth)
    return {k: str(v) for k, v in numbers.items()} | {"C·p·p": str(c.in_chans * p * q), "h": str(c.num_heads)}


def _shape(letters: str, sizes: dict[str, str]) -> str:
    return "(" + ", ".join(sizes.get(letter, letter) for letter in letters[1:-1].split(", ")) + ")"


class _Map:
    """The sheet, and where each part stands on it."""

    def __init__(self, sheet: Sheet, sizes: dict[str, str]):
        self.sheet, self.places, self.sizes = sheet, {}, sizes

    def shape(self, letters: str) -> str:
        return _shape(letters, self.sizes)

    @contextmanager
    def part(self, chapter: str, place: Place) -> Iterator[None]:
        """What is drawn inside leads to the chapter; a frame would go around the place."""
        self.places.setdefault(chapter, place)
        with self.sheet.link(chapter, f"Chapter {NUMBERS[chapter]}, on {PARTS[chapter]}"):
            self.sheet.target(place)
            yield

    def badge(self, chapter: str, x: float, y: float) -> None:
        """The chapter's number, where its part begins."""
        self.sheet.circle(x, y, 10, "ink", None)
        self.sheet.text(x, y, str(NUMBERS[chapter]), "paper", 13, weight=700)

    def frame(self, chapter: str) -> None:
        """You are here."""
        place = self.places[chapter]
        self.sheet.rect(place, None, "ink", 8, 3)
        w = 92
        tag = Place(min(place.right - w - 8, self.sheet.width - w - 8), place.y - 11, w, 20)
        self.sheet.rect(tag, "ink", None, 10)
        self.sheet.text(tag.cx, tag.cy, "you are here", "paper", 11.5, weight=700)


def _whole_model(here: str | None, sizes: dict[str, str], wide: bool) -> Sheet:
    sheet = Sheet(720 if wide else 344, 0)
    chart = _Map(sheet, sizes)
    cx, size = (166, 13) if wide else (172, 12)
    bottom, block = _spine(chart, cx, size)
    panel = Place(404, 306, 300, 428) if wide else Place(22, bottom + 24, 300, 428)
    for y0, y1 in ((block.cy, panel.y), (block.cy + 12, panel.bottom)) if wide else ():
        sheet.path(f"M{block.right + 46} {y0}L{panel.x} {y1}", "soft", 1, dash="3 4")
    _open_block(chart, panel, size)
    end = _letters(chart, panel.x, 40 if wide else panel.bottom + 34)
    sheet.height = max(bottom, panel.bottom, end) + 40
    sheet.hint(panel.cx, sheet.height - 18, "A click on a part opens its chapter.")
    if here:
        chart.frame(here)
    return sheet


def _letters(chart: _Map, x: float, y: float) -> float:
    """What the numbers in circles and the letters of the shapes mean; returns where that ends."""
    sheet = chart.sheet
    sheet.circle(x + 10, y, 10, "ink", None)
    sheet.text(x + 10, y, "1", "paper", 13, weight=700)
    sheet.text(x + 30, y, "the chapter that builds it", "ink", 14, "start")
    entries = (LETTERS[0],) if chart.sizes else LETTERS
    for i, (letter, meaning) in enumerate(entries):
        down = y + 30 + 22 * i
        sheet.text(x, down, letter, "ink", 14, "start", 700, mono=True)
        sheet.text(x + 44, down, meaning, "soft", 14, "start")
    return y + 30 + 22 * len(entries)


def _spine(chart: _Map, cx: int, size: float) -> tuple[float, Place]:
    """From the image to the logits; returns where it ends, and where the blocks stand."""
    sheet, boot = chart.sheet, images.boot()[0]

    def flow(y: float, to: float, label: str, x: float = cx) -> None:
        sheet.arrow((x, y), (x, to), label=chart.shape(label), size=size)

    with chart.part("patchify", Place(cx - 160, 12, 320, 244)):
        chart.badge("patchify", cx - 144, 28)
        sheet.text(cx - 84, 28, "image", size=15, weight=700)
        sheet.image(Place(cx - 134, 48, 100, 100), boot)
        sheet.rect(Place(cx - 134, 48, 100, 100), None, "patch")
        sheet.text(cx - 84, 162, chart.shape("(B, C, H, W)"), size=size, mono=True)
        sheet.arrow((cx - 26, 98), (cx + 16, 98))
        sheet.text(cx + 80, 28, "patches", size=15, weight=700)
        sheet.image_patches(Place(cx + 25, 43, 110, 110), boot, 7, gap=4)
        sheet.arrow((cx + 80, 162), (cx + 80, 202))
        sheet.text(cx + 72, 184, chart.shape("(B, N, C·p·p)"), size=size, anchor="end", mono=True)
        sheet.box(Place(cx - 134, 206, 274, 38), "linear projection", size=15)
    flow(258, 292, "(B, N, D)", cx + 30)
    starts = range(cx - 56, cx + 88, 24)  # of the six tokens of patches

    def cls(y: float) -> None:
        with chart.part("cls-token", Place(cx - 160, y - 26, 94, 74)):
            chart.badge("cls-token", cx - 144, y - 8)
            sheet.lines(cx - 134, y + 22, ["cls", "token"], 14, colour="cls", weight=700)
            sheet.token(cx - 95, y, "cls", side=10)

    cls(314)
    for x in starts:
        sheet.token(x, 314, "token", side=10)
    sheet.text(cx + 88, 334, "tokens", "token", 14, "start", 700)
    with chart.part("positions", Place(cx - 160, 366, 322, 62)):
        chart.badge("positions", cx - 144, 396)
        sheet.plus(cx - 118, 396)
        for x in (cx - 95, *starts):
            sheet.token(x, 376, "position", side=10)
        sheet.text(cx + 88, 396, "positions", "position", 13, "start", 700)
    flow(432, 474, "(B, T, D)")
    block = Place(cx - 126, 480, 242, 46)
    with chart.part("depth", Place(cx - 138, 470, 302, 74)):
        for i in (2, 1, 0):
            sheet.rect(Place(block.x + 6 * i, block.y + 6 * i, block.w, block.h), "token-1", "token", 8)
        chart.badge("depth", block.x + 18, block.cy)
        sheet.text(block.cx + 12, block.cy, "block: attention, MLP", size=15)
        sheet.text(block.right + 16, block.cy + 4, f"× {chart.sizes.get('L', 'L')}", "token", 15, "start", 700)
    flow(544, 580, "(B, T, D)")
    sheet.norm(Place(cx - 50, 582, 100, 30))
    sheet.arrow((cx, 614), (cx, 644))
    cls(668)
    for x in starts:
        sheet.rect(Place(x, 668, 13, 40), None, "line", 4)
    sheet.text(cx + 88, 688, "not used", "soft", 13, "start")
    with chart.part("vit", Place(cx - 160, 748, 320, 86)):
        sheet.box(Place(cx - 134, 760, 96, 38), "head", size=15)
        chart.badge("vit", cx - 144, 760)
        sheet.arrow((cx - 34, 779), (cx + 34, 779), label=chart.shape("(B, K)"), size=size)
        sheet.bars(cx + 46, 798, [6, 10, 4, 8, 5, 12, 6, 14, 9, 40], 6, 3)
        sheet.text(cx + 138, 816, "ankle boot", "ink", 14, "end")
    sheet.arrow((cx - 88, 714), (cx - 88, 758), label=chart.shape("(B, D)"), size=size)
    return 838, block


def _open_block(chart: _Map, panel: Place, size: float) -> None:
    """One block, drawn open."""
    sheet, stream, x = chart.sheet, panel.x + 42, panel.x + 80
    w, cx = 122, panel.x + 141
    with chart.part("pre-norm-post-norm", panel):
        sheet.rect(panel, "paper", "soft", 10, 1.2, dash="3 4")
        chart.badge("pre-norm-post-norm", panel.x + 22, panel.y + 24)
        sheet.text(panel.x + 40, panel.y + 24, "one block", size=15, anchor="start", weight=700)
        y = panel.y + 62
        sheet.stream((stream, y - 10), (stream, panel.bottom - 30))
        sheet.arrow((stream, panel.bottom - 34), (stream, panel.bottom - 12), colour="token", width=6)
        for layer in range(2):
            sheet.path(f"M{stream} {y}H{cx}V{y + 16}")
            sheet.norm(Place(x + 20, y + 16, w - 40, 28))
            sheet.arrow((cx, y + 44), (cx, y + 64))
            if layer:
                sheet.mlp(Place(x, y + 64, w, 42))
            sheet.arrow((cx, y + 108), (cx, y + 132), (stream + 9, y + 132))
            sheet.plus(stream, y + 132)
            y += 164
        sheet.text(stream + 16, panel.bottom - 22, chart.shape("(B, T, D)"), size=size, anchor="start", mono=True)
    top = panel.y + 124
    with chart.part("heads", Place(x + w + 12, top - 6, 70, 62)):
        chart.badge("heads", x + w + 28, top + 24)
        sheet.lines(x + w + 61, top + 24, [f"× {chart.sizes.get('h', 'h')}", "heads"], 13, colour="weights", weight=700)
    with chart.part("attention", Place(x - 6, top - 6, w + 12, 58)):
        for i in (2, 1, 0):
            sheet.rect(Place(x + 4 * i, top + 4 * i, w - 8, 36), "weights-2", "weights", 6)
        chart.badge("attention", x + 16, top + 18)
        sheet.text(x + w / 2 + 10, top + 18, "attention", size=15)

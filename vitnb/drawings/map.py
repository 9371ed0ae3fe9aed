"""The book's map: the whole model, every part of it leading to the chapter that builds it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from vitnb import data
from vitnb._validate import choice, pair
from vitnb.drawings._sheet import Drawing, Place, Sheet
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
        "The Vision Transformer, read from top to bottom. An image of a boot is cut into patches, "
        "and a linear projection "
        "makes a token of each. A cls token is put in front, and positions are added. The tokens "
        "pass L blocks. In a block, "
        "drawn open, two branches leave the residual stream and are added back: norm and attention with h heads, then "
        "norm and MLP. After a last norm the cls token alone goes through the head, which gives one logit a class; the "
        "largest belongs to the ankle boot." + (f" You are here: {PARTS[here]}." if here else "")
    )
    if sizes:
        steps = ("(B, C, H, W)", "(B, N, C·p·p)", "(B, N, D)", "(B, T, D)", "(B, D)", "(B, K)")
        names = (
            "images",
            "patches",
            "projected",
            "with cls token and positions, and after each block",
            "read",
            "logits",
        )
        alt += " The shapes: " + "; ".join(
            f"{name} {_shape(step, sizes)}" for name, step in zip(names, steps, strict=True)
        )
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
        with self.sheet.link(chapter, f"Chapter on {PARTS[chapter]}"):
            self.sheet.target(place)
            yield

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
    cx, size = (186, 12) if wide else (172, 11)
    bottom, block = _spine(chart, cx, size)
    if wide:
        panel = Place(416, 306, 280, 420)
        apex = block.right + 46
        corners = ((apex, block.cy, panel.x, panel.y), (apex, block.cy + 12, panel.x, panel.bottom))
    else:
        panel = Place(24, bottom + 24, 296, 420)
        corners = ()
    for x0, y0, x1, y1 in corners:
        sheet.path(f"M{x0} {y0}L{x1} {y1}", "soft", 1, dash="3 4")
    _open_block(chart, panel, size)
    sheet.height = max(bottom, panel.bottom) + 42
    sheet.hint(panel.cx, sheet.height - 20, "Each part leads to its chapter.")
    if here:
        chart.frame(here)
    return sheet


def _spine(chart: _Map, cx: float, size: float) -> tuple[float, Place]:
    """From the image to the logits; returns where it ends, and where the blocks stand."""
    sheet, boot = chart.sheet, data.boot()[0]

    def flow(y: float, to: float, label: str, x: float = cx) -> None:
        sheet.arrow((x, y), (x, to), label=chart.shape(label), size=size)

    with chart.part("patchify", Place(cx - 156, 12, 312, 242)):
        sheet.text(cx - 84, 26, "image", weight=700)
        sheet.image(Place(cx - 134, 48, 100, 100), boot)
        sheet.rect(Place(cx - 134, 48, 100, 100), None, "patch")
        sheet.text(cx - 84, 160, chart.shape("(B, C, H, W)"), size=size, mono=True)
        sheet.arrow((cx - 26, 98), (cx + 14, 98))
        sheet.text(cx + 80, 26, "patches", weight=700)
        sheet.image_patches(Place(cx + 25, 43, 110, 110), boot, 4, gap=3)
        sheet.arrow((cx + 80, 164), (cx + 80, 204))
        sheet.text(cx + 72, 181, chart.shape("(B, N, C·p·p)"), size=size, anchor="end", mono=True)
        sheet.box(Place(cx - 134, 206, 274, 34), "linear projection")
    flow(256, 296, "(B, N, D)", cx + 30)
    with chart.part("cls-token", Place(cx - 156, 290, 90, 72)):
        sheet.lines(cx - 130, 334, ["cls", "token"], 12, colour="cls", weight=700)
        sheet.token(cx - 95, 314, "cls", side=10)
    pitch, first = 26, cx - 54
    for i in range(6):
        sheet.token(first + i * pitch, 314, "token", side=10)
    sheet.text(first + 6 * pitch + 4, 334, "tokens", "token", 13, "start", 700)
    with chart.part("positions", Place(cx - 156, 366, 312, 62)):
        sheet.plus(cx - 130, 396)
        for i in range(7):
            sheet.token(cx - 95 + (i * pitch + 15 if i else 0), 376, "position", side=10)
        sheet.text(first + 6 * pitch + 4, 396, "positions", "position", 13, "start", 700)
    flow(430, 474, "(B, T, D)")
    block = Place(cx - 120, 480, 240, 46)
    with chart.part("depth", Place(cx - 132, 470, 288, 74)):
        for i in (2, 1, 0):
            sheet.rect(Place(block.x + 6 * i, block.y + 6 * i, block.w, block.h), "token-1", "token", 8)
        sheet.text(block.cx, block.cy, "block: attention, then MLP", size=13)
        sheet.text(block.right + 17, block.cy + 6, f"× {chart.sizes.get('L', 'L')}", "token", 14, "start", 700)
    flow(542, 578, "(B, T, D)")
    sheet.norm(Place(cx - 50, 580, 100, 28))
    sheet.arrow((cx, 610), (cx, 640))
    with chart.part("cls-token", Place(cx - 156, 640, 90, 72)):
        sheet.lines(cx - 130, 684, ["cls", "token"], 12, colour="cls", weight=700)
        sheet.token(cx - 95, 664, "cls", side=10)
    for i in range(6):
        place = Place(first + i * pitch, 664, 13, 40)
        sheet.rect(place, None, "line", 4)
    sheet.text(first + 6 * pitch + 4, 684, "not used", "soft", 12, "start")
    with chart.part("vit", Place(cx - 156, 744, 312, 62)):
        sheet.box(Place(cx - 134, 756, 92, 36), "head")
        sheet.arrow((cx - 38, 774), (cx + 30, 774), label=chart.shape("(B, K)"), size=size)
        sheet.bars(cx + 42, 796, [6, 10, 4, 8, 5, 12, 6, 14, 9, 40], 6, 3)
    sheet.arrow((cx - 88, 708), (cx - 88, 754), label=chart.shape("(B, D)"), size=size)
    sheet.text(cx + 134, 818, "ankle boot", "ink", 12, "end")
    return 826, block


def _open_block(chart: _Map, panel: Place, size: float) -> None:
    """One block, drawn open."""
    sheet, stream, x = chart.sheet, panel.x + 58, panel.x + 100
    w, cx = 118, panel.x + 159
    with chart.part("pre-norm-post-norm", panel):
        sheet.rect(panel, "paper", "soft", 10, 1.2, dash="3 4")
        sheet.text(panel.x + 20, panel.y + 26, "one block", size=14, anchor="start", weight=700)
        y = panel.y + 62
        sheet.stream((stream, y - 10), (stream, panel.bottom - 30))
        sheet.arrow((stream, panel.bottom - 34), (stream, panel.bottom - 12), colour="token", width=6)
        for layer in range(2):
            sheet.path(f"M{stream} {y}H{cx}V{y + 16}")
            sheet.norm(Place(x + 20, y + 16, w - 40, 28))
            sheet.arrow((cx, y + 44), (cx, y + 64))
            if layer:
                sheet.mlp(Place(x, y + 64, w, 42))
            sheet.arrow((cx, y + 106), (cx, y + 132), (stream + 9, y + 132))
            sheet.plus(stream, y + 132)
            y += 164
        sheet.text(stream + 14, panel.bottom - 22, chart.shape("(B, T, D)"), size=size, anchor="start", mono=True)
    top = panel.y + 126
    with chart.part("heads", Place(x + w + 14, top - 6, 46, 54)):
        sheet.lines(
            x + w + 37, top + 21, [f"× {chart.sizes.get('h', 'h')}", "heads"], 11.5, colour="weights", weight=700
        )
    with chart.part("attention", Place(x - 6, top - 6, w + 12, 54)):
        for i in (2, 1, 0):
            sheet.rect(Place(x + 4 * i, top + 4 * i, w - 8, 34), "weights-2", "weights", 6)
        sheet.text(x + w / 2 - 4, top + 17, "attention")

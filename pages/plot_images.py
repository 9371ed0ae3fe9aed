"""Plots on dark pages and on phones: what each image is like, as classes for book.css to go by, its size and weight."""

import io
import re
from pathlib import Path

import numpy as np
from PIL import Image
from sphinx.application import Sphinx

IMG = re.compile(r'<img(?=[^>]*\ssrc="(?P<src>[^"]*_images/[^"]+\.png)")[^>]*>')
CLASS = re.compile(r'\sclass="([^"]*)"')
PAGE = 'class="bd-article"'  # slides and handouts size their images themselves
QUALITY = 90  # of photos as WebP
WIDE = 560  # pixels: on a phone the letters of a wider plot would be too small
# A drawing on white can be turned light on dark. An image of clothes cannot: its black is a part of it.
PAPER, INK = 0.6, 0.06  # the least share that is white, the most that is nearly black: a map of colours has neither


def looks(path: Path) -> tuple[list[str], tuple[int, int]]:
    """Return the classes and the size of a plot: "plot-wide"; "plot-drawn" if a dark page may turn its colours."""
    image = Image.open(path)
    grey = np.asarray(image.convert("L"))
    drawn = (grey > 245).mean() > PAPER and (grey < 40).mean() < INK
    return ["plot-wide"] * (image.width > WIDE) + ["plot-drawn"] * bool(drawn), image.size


def lighten(path: Path) -> None:
    """Store a plot as WebP beside it: exactly, or, where that is half the bytes, as photos are stored."""
    with Image.open(path) as image:
        image = image.convert("RGBA" if "A" in image.mode or "transparency" in image.info else "RGB")
    found = []
    for how in ({"lossless": True}, {"quality": QUALITY}):
        image.save(into := io.BytesIO(), "webp", **how)
        found.append(into.getvalue())
    path.with_suffix(".webp").write_bytes(found[2 * len(found[1]) < len(found[0])])


def sized(tag: str, size: tuple[int, int]) -> str:
    """Return an img that keeps its place before it has come, and comes when it is near."""
    if " width=" in tag:
        return tag
    return tag.replace("<img", f'<img width="{size[0]}" height="{size[1]}" loading="lazy"', 1)


def classed(tag: str, classes: list[str]) -> str:
    """Return an img with more classes."""
    if not classes:
        return tag
    if found := CLASS.search(tag):
        return tag.replace(found[0], f' class="{found[1]} {" ".join(classes)}"')
    return tag.replace("<img", f'<img class="{" ".join(classes)}"', 1)


def mark(app: Sphinx) -> None:
    """Write into every page what its plots are like, and store them as WebP."""
    known: dict[Path, tuple[list[str], tuple[int, int]]] = {}

    def marked(found: re.Match, page: Path, text: str) -> str:
        path = (page.parent / found["src"]).resolve()
        if not path.exists():
            return found[0]
        if path not in known:
            known[path] = looks(path)
            lighten(path)
        classes, size = known[path]
        lighter = found[0].replace(found["src"], found["src"].removesuffix(".png") + ".webp")
        return classed(sized(lighter, size) if PAGE in text else lighter, classes)

    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(IMG.sub(lambda found, page=page, text=text: marked(found, page, text), text), encoding="utf-8")
    for path in known:
        path.unlink()

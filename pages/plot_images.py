"""Plots on dark pages and on phones: what each image is like, as classes for book.css to go by."""

import re
from pathlib import Path

import numpy as np
from PIL import Image
from sphinx.application import Sphinx

IMG = re.compile(r'<img(?=[^>]*\ssrc="(?P<src>[^"]*_images/[^"]+\.png)")[^>]*>')
CLASS = re.compile(r'\sclass="([^"]*)"')
WIDE = 560  # pixels: on a phone the letters of a wider plot would be too small
# A drawing on white can be turned light on dark. An image of clothes cannot: its black is a part of it.
PAPER, INK = 0.6, 0.06  # the least share that is white, the most that is nearly black: a map of colours has neither


def looks(path: Path) -> list[str]:
    """Return the classes of a plot: "plot-wide"; "plot-drawn" if its colours may be turned on a dark page."""
    image = Image.open(path)
    grey = np.asarray(image.convert("L"))
    drawn = (grey > 245).mean() > PAPER and (grey < 40).mean() < INK
    return ["plot-wide"] * (image.width > WIDE) + ["plot-drawn"] * bool(drawn)


def classed(tag: str, classes: list[str]) -> str:
    """Return an img with more classes."""
    if not classes:
        return tag
    if found := CLASS.search(tag):
        return tag.replace(found[0], f' class="{found[1]} {" ".join(classes)}"')
    return tag.replace("<img", f'<img class="{" ".join(classes)}"', 1)


def mark(app: Sphinx, exception: Exception | None) -> None:
    """Write into every page what its plots are like."""
    if exception or app.builder.name == "epub" or app.builder.format != "html":
        return
    known: dict[Path, list[str]] = {}

    def marked(found: re.Match, page: Path) -> str:
        path = (page.parent / found["src"]).resolve()
        if path not in known:
            known[path] = looks(path) if path.exists() else []
        return classed(found[0], known[path])

    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(IMG.sub(lambda found, page=page: marked(found, page), text), encoding="utf-8")


def setup(app: Sphinx) -> dict:
    """Register the extension."""
    app.connect("build-finished", mark)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

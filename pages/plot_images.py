"""Plots on dark pages and on phones: what each image is like, as classes for book.css to go by, and its size."""

import re
from pathlib import Path

import numpy as np
from PIL import Image
from sphinx.application import Sphinx

IMG = re.compile(r'<img(?=[^>]*\ssrc="(?P<src>[^"]*_images/[^"]+\.png)")[^>]*>')
CLASS = re.compile(r'\sclass="([^"]*)"')
PAGE = 'class="bd-article"'  # slides and handouts size their images themselves
WIDE = 560  # pixels: on a phone the letters of a wider plot would be too small
# A drawing on white can be turned light on dark. An image of clothes cannot: its black is a part of it.
PAPER, INK = 0.6, 0.06  # the least share that is white, the most that is nearly black: a map of colours has neither


def looks(path: Path) -> tuple[list[str], tuple[int, int]]:
    """Return the classes and the size of a plot: "plot-wide"; "plot-drawn" if a dark page may turn its colours."""
    image = Image.open(path)
    grey = np.asarray(image.convert("L"))
    drawn = (grey > 245).mean() > PAPER and (grey < 40).mean() < INK
    return ["plot-wide"] * (image.width > WIDE) + ["plot-drawn"] * bool(drawn), image.size


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


def mark(app: Sphinx, exception: Exception | None) -> None:
    """Write into every page what its plots are like."""
    if exception or app.builder.name == "epub" or app.builder.format != "html":
        return
    known: dict[Path, tuple[list[str], tuple[int, int]]] = {}

    def marked(found: re.Match, page: Path, text: str) -> str:
        path = (page.parent / found["src"]).resolve()
        if not path.exists():
            return found[0]
        if path not in known:
            known[path] = looks(path)
        classes, size = known[path]
        return classed(sized(found[0], size) if PAGE in text else found[0], classes)

    for page in Path(app.outdir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(IMG.sub(lambda found, page=page, text=text: marked(found, page, text), text), encoding="utf-8")


def setup(app: Sphinx) -> dict:
    """Register the extension."""
    app.connect("build-finished", mark)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}

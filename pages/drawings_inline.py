"""The book's drawings stand inside the page: they follow its theme, lead to chapters, and fit a phone."""

import re
from html import unescape
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

from vitbook.drawings import in_page

MARK = '<svg class="vd vd-wide"'


class InlineDrawings(SphinxPostTransform):
    """Put the SVG itself where an image of it would stand, with the addresses of the chapters in it."""

    default_priority = 200  # after myst-nb has taken one kind of each output

    def run(self, **kwargs: object) -> None:
        """Replace every image that is one of vitbook.drawings; elsewhere than in a page give it its words."""
        for image in list(self.document.findall(nodes.image)):
            path = Path(self.env.srcdir, image["uri"])
            svg = path.read_text(encoding="utf-8") if path.suffix == ".svg" and path.is_file() else ""
            if svg.startswith(MARK) and self.app.builder.name in ("html", "dirhtml", "singlehtml"):
                alone = isinstance(image.parent, nodes.paragraph) and len(image.parent) == 1  # a <p> holds no <div>
                (image.parent if alone else image).replace_self(
                    nodes.raw("", in_page(svg, self.address), format="html")
                )
            elif svg.startswith(MARK):
                image["alt"] = unescape(re.search('aria-label="(.*?)"', svg)[1])

    def address(self, chapter: str) -> str:
        """Return where the chapter is whose file is named so behind its number."""
        names = [name for name in self.env.found_docs if re.fullmatch(rf"book/(\d\d-)?{chapter}", name)]
        if len(names) == 1:
            return self.app.builder.get_relative_uri(self.env.docname, names[0])
        logging.getLogger(__name__).warning(f"a drawing leads to chapter {chapter!r}: found {names}", type="drawings")
        return "#"


def setup(app: Sphinx) -> None:
    """Register what is here."""
    app.add_post_transform(InlineDrawings)

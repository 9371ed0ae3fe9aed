"""Folded code stands below what it draws, as a small link (book.css), so that no bar divides a text from its image."""

from docutils import nodes
from myst_nb.sphinx_ import HideCodeCellNode
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform


class CodeBelow(SphinxPostTransform):
    """Put the folded code of a cell behind its output."""

    default_priority = 200  # after myst-nb has folded it
    formats = ("html",)

    def run(self, **kwargs: object) -> None:
        """Move the first part of each cell whose code alone is folded to its end."""
        for cell in self.document.findall(nodes.container):
            if self.app.builder.name != "epub" and len(cell) > 1 and isinstance(cell[0], HideCodeCellNode):
                cell.append(cell.pop(0))


def setup(app: Sphinx) -> None:
    """Register what is here."""
    app.add_post_transform(CodeBelow)

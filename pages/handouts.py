"""Handouts: each chapter on one sheet of paper, from a few lines that name its cells.

How one is written stands in book/classroom/README.md. What to remember comes from
the chapter's own summary, the letters from the page on symbols. The handouts
are built with the book, into the folder handouts of the built pages.
"""

import html
import re
from dataclasses import dataclass
from pathlib import Path

from docutils import nodes
from jinja2 import Environment, FileSystemLoader
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from pages.frame import numbered, published
from pages.slides import HERE, MARKDOWN, Deck, joined

LETTERS = re.compile(r"^Letters: (.+)\n((?:- .+(?:\n|$))*)", re.MULTILINE)
OWN = re.compile(r"^- (.+?): (.+)$", re.MULTILINE)
ROW = re.compile(r"^\| ([^|]+?) \| ([^|]+?) \|", re.MULTILINE)
TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
REMEMBER = re.compile(r"^## What to remember\n+((?:\d+\. .+(?:\n|$))+)", re.MULTILINE)
TALL = re.compile(r'class="image" style="--w: (\d+); --h: (\d+)"')
LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")  # on paper it leads nowhere


@dataclass
class Handout(Deck):
    """One handout on its way to HTML; home is where the book is published, if that is known."""

    home: str = ""

    def words(self) -> str:
        """Return all that the chapter says."""
        cells = self.notebook(self.name)["cells"]
        return "\n\n".join(joined(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")

    @property
    def title(self) -> str:
        """The title of the chapter, with its number."""
        return numbered(self.name, self.found(TITLE, self.words(), f"title in {self.name}")[1])

    def found(self, pattern: re.Pattern, text: str, what: str) -> re.Match:
        """Return what a pattern finds. Raises: DeckError if it finds nothing."""
        return pattern.search(text) or self.fail(f"there is no {what}")

    def letters(self, names: str, own: str) -> list[tuple[str, str]]:
        """Return letters and their meanings as HTML: those of the page on symbols, then the chapter's own."""
        known = dict(ROW.findall((self.chapters / "legend.md").read_text(encoding="utf-8")))
        for name in names.split("; "):
            if name not in known:
                self.fail(f"the page on symbols has no row {name!r}")
        rows = [(name, known[name]) for name in names.split("; ")] + OWN.findall(own)
        return [(MARKDOWN.renderInline(name), MARKDOWN.renderInline(meaning)) for name, meaning in rows]

    def page(self) -> str:
        """Return the handout as a page that prints on one sheet."""
        text = self.path.read_text(encoding="utf-8")
        letters = self.found(LETTERS, text, "line 'Letters: ...' in it")
        drawing, centre = self.markdown(text[: letters.start()]), self.markdown(text[letters.end() :])
        summary = self.found(REMEMBER, self.words(), f"'What to remember' with a numbered list in {self.name}")[1]
        size = TALL.search(drawing)
        if self.models:
            self.fail("a live figure does not print: use 'image'")
        template = Environment(loader=FileSystemLoader(HERE), autoescape=False).get_template("handout.html")
        return template.render(
            title=html.escape(self.title),
            tall=bool(size) and int(size[2]) > int(size[1]),
            drawing=drawing,
            letters=self.letters(*letters.groups()),
            remember=MARKDOWN.render(LINK.sub(r"\1", summary)),
            centre=centre,
            chapter=f"../book/{self.name}.html",
            address=f"{self.home}book/{self.name}.html",
        )


def handouts(source: Path) -> list[Path]:
    """Return the handouts of the book whose sources are here, in the order of their names."""
    return sorted((source / "book" / "handouts").glob("*.md"))


def build_handouts(app: Sphinx) -> None:
    """Write a page for each handout."""
    source, folder = Path(app.srcdir), Path(app.outdir) / "handouts"
    found = handouts(source)
    if not found:
        return
    folder.mkdir(exist_ok=True)
    home = published(app.config.vitbook_rename[1])
    for path in found:
        page = Handout(path, source / "book", home=home).page()
        (folder / f"{path.stem}.html").write_text(page, encoding="utf-8")


def address(docname: str, handout: Path) -> str:
    """Return the link from a page of the book to a handout."""
    return f"{'../' * docname.count('/')}handouts/{handout.stem}.html"


def add_button(app: Sphinx, pagename: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """Link a chapter to its handout by a button in the page's header."""
    for handout in handouts(Path(app.srcdir)):
        if pagename == f"book/{handout.stem}" and "header_buttons" in context:
            look = {"type": "link", "icon": "fas fa-file-lines", "text": "", "label": "handout"}
            words = {"tooltip": "This chapter on one sheet, to print", "url": address(pagename, handout)}
            context["header_buttons"].insert(0, look | words)


class Handouts(SphinxDirective):
    """Name all handouts in a row, each with a link."""

    def run(self) -> list[nodes.Node]:
        """Return a paragraph."""
        source, row = Path(self.env.srcdir), nodes.paragraph()
        for handout in handouts(source):
            self.env.note_dependency(str(handout))
            title = Handout(handout, source / "book").title.replace(". ", ".\N{NO-BREAK SPACE}", 1)
            row += [nodes.Text(" · ")] if row.children else []
            row += nodes.reference("", title, refuri=address(self.env.docname, handout), internal=True)
        return [row]


def setup(app: Sphinx) -> None:
    """Register what is here."""
    app.add_directive("handouts", Handouts)
    app.connect("html-page-context", add_button, priority=590)  # it stands right of the deck's button

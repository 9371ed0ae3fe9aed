"""Decks of slides: short Markdown files that take code, outputs and live figures from the chapters by cell id.

How a deck is written stands in book/classroom/README.md. The decks are built with
the book, into the folder slides of the built pages. Handouts take their
cells in the same way (handouts.py).
"""

import base64
import html
import importlib.util
import json
import re
import shutil
import struct
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

from docutils import nodes
from jinja2 import Environment, FileSystemLoader
from markdown_it import MarkdownIt
from mdit_py_plugins.attrs import attrs_block_plugin, attrs_plugin
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.docutils import SphinxDirective

from pages.formulas import TAG, mathml
from pages.live_figures import STATE, VIEW, replace_controls
from vitbook.drawings import in_page

SLIDE = re.compile(r"^---$", re.MULTILINE)
NOTE = re.compile(r"^Note \((\d+) min\): ?", re.MULTILINE)
COLUMN = re.compile(r"^\|\|\|(?: ([\d ]+))?$", re.MULTILINE)
INCLUDE = re.compile(r"^\{\{ *(?:([\w.-]+):)?([\w-]+)((?: +[a-z]+)+)(?: +/(.+)/)? *\}\}$", re.MULTILINE)
PLACEHOLDER = re.compile(r"<p([^>]*)>@@(\d+)@@</p>")
DISPLAYED = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
TABLE = re.compile(r"(?:^\|.*\n?)+", re.MULTILINE)
DRAWING = re.compile(r'<svg class="vd vd-wide".*?</svg>', re.DOTALL)
VIEWBOX = re.compile(r'viewBox="0 0 ([\d.]+) ([\d.]+)"')
PARTS = ("code", "passage", "text", "image", "drawing", "live", "math", "table")
REVEAL = ("LICENSE", "dist/reveal.css", "dist/reveal.js", "plugin/notes/notes.js")
HERE = Path(__file__).parent


class DeckError(SphinxError):
    """What a deck or a handout asks for is not there: the message names the file and the cell."""

    category = "A deck or a handout"


def joined(text: str | list[str]) -> str:
    """Return a text that a notebook may hold as a list of lines."""
    return text if isinstance(text, str) else "".join(text)


def formula(tex: str, options: dict) -> str:
    """Return a formula as MathML."""
    return mathml(TAG.sub("", tex).strip(), options["display_mode"])


MARKDOWN = (
    MarkdownIt("commonmark", {"html": True, "typographer": True})
    .enable(["table", "replacements", "smartquotes"])
    .use(dollarmath_plugin, renderer=formula)
    .use(attrs_block_plugin)
    .use(attrs_plugin)
)


@dataclass
class Deck:
    """One deck on its way to HTML: its file, the folder of the chapters, and the live figures that it shows."""

    path: Path
    chapters: Path
    notebooks: dict[str, dict] = field(default_factory=dict)
    models: dict[str, dict] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the deck's file, and of its chapter if it belongs to one."""
        return self.path.stem

    def fail(self, words: str) -> None:
        """Raise an error that names the deck."""
        raise DeckError(f"{self.path.parent.name}/{self.path.name}: {words}")

    def notebook(self, name: str) -> dict:
        """Return a chapter, controls that need Python replaced by what they showed."""
        if name not in self.notebooks:
            path = self.chapters / f"{name}.ipynb"
            if not path.exists():
                self.fail(f"there is no chapter {name!r}")
            self.notebooks[name] = json.loads(path.read_text(encoding="utf-8"))
            replace_controls(self.notebooks[name])
        return self.notebooks[name]

    def cell(self, chapter: str, number: str) -> dict:
        """Return the cell of a chapter with this id."""
        for cell in self.notebook(chapter)["cells"]:
            if cell["id"] == number:
                return cell
        self.fail(f"the chapter {chapter} has no cell {number!r}")

    def include(self, found: re.Match) -> str:
        """Return as HTML what {{ chapter:cell parts /pattern/ }} asks for.

        Raises: DeckError if there is no such chapter, cell, part or line.
        """
        chapter, number, parts, pattern = found[1] or self.name, found[2], found[3].split(), found[4]
        cell, pieces = self.cell(chapter, number), []
        for part in parts:
            if part not in (*PARTS, "output"):
                self.fail(f"the cell {number!r} has no part {part!r}: use {', '.join(PARTS)} or output")
            kinds = ("text", "image", "drawing", "live") if part == "output" else (part,)
            made = [piece for kind in kinds for piece in getattr(self, kind)(cell, chapter, pattern)]
            if not made:
                where = f" in a line with /{pattern}/" if pattern else ""
                self.fail(f"the cell {number!r} of {chapter} has no {part}{where}")
            pieces += made
        return "\n".join(pieces)

    def code(self, cell: dict, chapter: str, pattern: str | None) -> list[str]:
        """Return the code of a cell, coloured as in the book."""
        lines = self.matching(joined(cell["source"]) if cell["cell_type"] == "code" else "", pattern)
        return [highlight(lines, PythonLexer(), HtmlFormatter(wrapcode=True))] if lines else []

    def passage(self, cell: dict, chapter: str, pattern: str | None) -> list[str]:
        """Return a part of the code of a cell: from the first line that matches to the next empty one."""
        lines = joined(cell["source"]).splitlines() if cell["cell_type"] == "code" else []
        start = next((n for n, line in enumerate(lines) if re.search(pattern or "", line)), len(lines))
        end = next((n for n, line in enumerate(lines) if n > start and not line), len(lines))
        return self.code({**cell, "source": textwrap.dedent("\n".join(lines[start:end]))}, chapter, None)

    def table(self, cell: dict, chapter: str, pattern: str | None) -> list[str]:
        """Return the tables of a cell of text; what they link to within the chapter stands on its page."""
        text = joined(cell["source"]).replace("](#", f"](../book/{chapter}.html#")
        found = TABLE.findall(text) if cell["cell_type"] == "markdown" else []
        return [MARKDOWN.render(table) for table in found if not pattern or re.search(pattern, table)]

    def math(self, cell: dict, chapter: str, pattern: str | None) -> list[str]:
        """Return the displayed formulas of a cell of text."""
        found = DISPLAYED.findall(joined(cell["source"])) if cell["cell_type"] == "markdown" else []
        shown = [formula(tex, {"display_mode": True}) for tex in found if not pattern or re.search(pattern, tex)]
        return [f'<div class="math block">{tex}</div>' for tex in shown]

    def text(self, cell: dict, chapter: str, pattern: str | None) -> list[str]:
        """Return what a cell printed, or those of its lines that match."""
        printed = "".join(joined(output["text"]) for output in cell.get("outputs", []) if "text" in output)
        lines = self.matching(printed.rstrip(), pattern)
        return [f'<pre class="output">{html.escape(lines)}</pre>'] if lines else []

    def image(self, cell: dict, chapter: str, pattern: str | None) -> list[str]:
        """Return the plots of a cell."""
        pngs = [
            output["data"]["image/png"]
            for output in cell.get("outputs", [])
            if "image/png" in output.get("data", {}) and VIEW not in output["data"]
        ]
        return [f'<div class="image">{self.img(cell, png)}</div>' for png in pngs]

    def img(self, cell: dict, png: str | list[str]) -> str:
        """Return an image with the words that the chapter has for it."""
        alt = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt")
        if not alt:
            self.fail(f"the image of the cell {cell['id']!r} has no alt text in its chapter")
        png = joined(png).strip()
        width, height = struct.unpack(">II", base64.b64decode(png)[16:24])  # every PNG begins so
        size = f'style="--w: {width}; --h: {height}" width="{width}" height="{height}"'
        return f'<img alt="{html.escape(alt)}" {size} src="data:image/png;base64,{png}">'

    def drawing(self, cell: dict, chapter: str, pattern: str | None) -> list[str]:
        """Return the book's drawings in a cell, in their wide arrangement, with links to the chapters."""
        data = [output.get("data", {}) for output in cell.get("outputs", [])]
        svgs = [joined(shown["image/svg+xml"]) for shown in data if "image/svg+xml" in shown]
        wide = [DRAWING.search(in_page(svg, self.address))[0] for svg in svgs]
        sizes = [VIEWBOX.search(svg).groups() for svg in wide]
        return [
            f'<div class="image" style="--w: {width}; --h: {height}">{svg}</div>'
            for svg, (width, height) in zip(wide, sizes, strict=True)
        ]

    def address(self, name: str) -> str | None:
        """Return the link to the chapter whose file is named so behind its number."""
        found = sorted(path for path in self.chapters.glob("*.ipynb") if path.stem.split("-", 1)[-1] == name)
        return f"../book/{found[0].stem}.html" if found else None

    def live(self, cell: dict, chapter: str, pattern: str | None) -> list[str]:
        """Return the live figures of a cell, each in a frame that figures.js wakes, and keep their state."""
        frames = []
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if VIEW not in data:
                continue
            still = self.img(cell, data["image/png"]) if "image/png" in data else ""
            view = {**data[VIEW], "model_id": self.keep(chapter, data[VIEW]["model_id"])}
            script = f'<script type="{VIEW}">{script_text(view)}</script>'
            frames.append(f'<div class="live-figure" data-wide data-prevent-swipe>{still}{script}</div>')
        return frames

    def keep(self, chapter: str, model: str) -> str:
        """Keep a model and those that it refers to, under names that no other chapter has."""
        stored = self.notebook(chapter)["metadata"].get("widgets", {}).get(STATE, {}).get("state", {})
        if model not in stored:
            self.fail(f"the chapter {chapter} has no state for the live figure {model}")
        name, text = f"{chapter}-{model}", json.dumps(stored[model])
        if name not in self.models:
            self.models[name] = {}  # a figure may refer back
            renamed = re.sub(r"IPY_MODEL_(\w+)", lambda found: f"IPY_MODEL_{self.keep(chapter, found[1])}", text)
            self.models[name] = json.loads(renamed)
        return name

    @staticmethod
    def matching(text: str, pattern: str | None) -> str:
        """Return the lines of a text in which a pattern is found; without a pattern, all."""
        return "\n".join(line for line in text.splitlines() if not pattern or re.search(pattern, line))

    def markdown(self, text: str) -> str:
        """Return Markdown as HTML, with what it takes from the chapters."""
        kept: list[str] = []

        def put_aside(found: re.Match) -> str:
            kept.append(self.include(found))
            return f"@@{len(kept) - 1}@@"

        page = MARKDOWN.render(INCLUDE.sub(put_aside, text))
        if "{{" in page:
            self.fail(f"this is no way to name a cell: {page[page.index('{{') :][:60]!r}")
        return PLACEHOLDER.sub(
            lambda found: f"<div{found[1]}>{kept[int(found[2])]}</div>" if found[1] else kept[int(found[2])], page
        )

    def slide(self, text: str) -> dict:
        """Return one slide: its body and notes as HTML, the minutes that it takes."""
        body, *noted = NOTE.split(text.strip(), maxsplit=1)
        title, _, body = body.strip().partition("\n")
        if not title.startswith("#") or not noted:
            self.fail(f"each slide begins with a title and ends in 'Note (2 min): ...', unlike {title[:60]!r}")
        first, *others = COLUMN.split(body)
        columns = [self.markdown(first), *(self.markdown(column) for column in others[1::2])]
        return {
            "title": MARKDOWN.render(title),
            "columns": columns,
            "shares": " ".join(f"minmax(0, {share}fr)" for share in (others[0] or "1 " * len(columns)).split())
            if others
            else "",
            "minutes": int(noted[0]),
            "notes": MARKDOWN.render(noted[1].strip()),
        }

    def page(self) -> str:
        """Return the deck as a page."""
        slides = [self.slide(text) for text in SLIDE.split(self.path.read_text(encoding="utf-8"))]
        has_chapter = (self.chapters / f"{self.name}.ipynb").exists()
        template = Environment(loader=FileSystemLoader(HERE), autoescape=False).get_template("slides.html")
        return template.render(
            title=html.escape(title_of(self.path)),
            chapter=f"../book/{self.name}.html" if has_chapter else "../index.html",
            slides=slides,
            minutes=sum(slide["minutes"] for slide in slides),
            kind=STATE,
            state=script_text({"state": self.models, "version_major": 2, "version_minor": 0}) if self.models else "",
        )


def script_text(value: object) -> str:
    """Return JSON that may stand in a script element."""
    return json.dumps(value, ensure_ascii=False).replace("</", r"<\/")


def title_of(path: Path) -> str:
    """Return the title of a deck: the text of its first line."""
    with path.open(encoding="utf-8") as file:
        return file.readline().strip("# \n")


def decks(source: Path) -> list[Path]:
    """Return the decks of the book whose sources are here, in the order of their names."""
    return sorted((source / "book" / "slides").glob("*.md"))


def build_decks(app: Sphinx) -> None:
    """Write a page for each deck, and beside the pages what they need."""
    source, out = Path(app.srcdir), Path(app.outdir)
    found = decks(source)
    if not found:
        return
    folder = out / "slides"
    folder.mkdir(exist_ok=True)
    for path in found:
        (folder / f"{path.stem}.html").write_text(Deck(path, source / "book").page(), encoding="utf-8")
    shutil.copy(source / "vitbook" / "figures" / "wide.css", out / "_static")
    package = Path(importlib.util.find_spec("sphinx_revealjs").submodule_search_locations[0], "_static", "revealjs")
    reveal = out / "_static" / "reveal"
    reveal.mkdir(exist_ok=True)
    for name in REVEAL:
        shutil.copy(package / name, reveal)


def address(docname: str, deck: Path) -> str:
    """Return the link from a page of the book to a deck."""
    return f"{'../' * docname.count('/')}slides/{deck.stem}.html"


def add_button(app: Sphinx, pagename: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """Link a chapter to its deck, and the first page to all of them, by a button in the page's header."""
    found = decks(Path(app.srcdir))
    if not found or "header_buttons" not in context:
        return
    look = {"type": "link", "icon": "fas fa-person-chalkboard"}
    links = [{**look, "url": address(pagename, deck), "text": title_of(deck), "label": "slides"} for deck in found]
    if pagename == app.config.root_doc:
        group = {"type": "group", "tooltip": "Slides", "icon": look["icon"], "buttons": links, "label": "all-slides"}
        context["header_buttons"].insert(0, group)
    for deck, link in zip(found, links, strict=True):
        if pagename == f"book/{deck.stem}":
            context["header_buttons"].insert(0, {**link, "text": "", "tooltip": "Slides of this chapter"})


class SlideDecks(SphinxDirective):
    """List all decks, each with a link."""

    def run(self) -> list[nodes.Node]:
        """Return the list."""
        items = []
        for deck in decks(Path(self.env.srcdir)):
            self.env.note_dependency(str(deck))
            link = nodes.reference("", title_of(deck), refuri=address(self.env.docname, deck), internal=True)
            items.append(nodes.list_item("", nodes.paragraph("", "", link)))
        return [nodes.bullet_list("", *items)]


def setup(app: Sphinx) -> None:
    """Register what is here."""
    app.add_directive("slide-decks", SlideDecks)
    app.connect("html-page-context", add_button, priority=600)  # after the theme has its own buttons

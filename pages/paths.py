"""Three paths through the book: which pages each has, how long it takes, and what paths.js needs to lead along it."""

import json
from dataclasses import dataclass
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from pages import count
from pages.frame import contents, duration, number, numbered, read_chapter, read_title

PLACE = "the-paths"  # the label of the paths on the first page


@dataclass(frozen=True)
class ReadingPath:
    """A path: its name, what it offers, its chapters (all if none is named), and whether it is more than lessons."""

    name: str
    offer: str
    chapters: tuple[int, ...] = ()
    everything: bool = False

    def pages(self, source: Path) -> list[str]:
        """Return its pages in the order of the book."""
        notebooks = [page for _, pages in contents(source) for page in pages if (source / f"{page}.ipynb").exists()]
        numbers = self.chapters or {number(page) for page in notebooks} - {None}
        return [page for page in notebooks if self.everything or number(page) in numbers]

    def minutes(self, source: Path) -> int:
        """Return how long it takes, as the cards say it; what stands on no card is counted."""
        return sum(minutes(source, page, self.everything) for page in self.pages(source))


PATHS = {
    "afternoon": ReadingPath(
        "An afternoon",
        "The lessons of chapters {}: what a ViT is, and how you would know that yours is right.",
        (0, 1, 3, 5, 8, 16),
    ),
    "lessons": ReadingPath(
        "All lessons", "The lessons of chapters {}: every part, the training, a look inside, and a model of your own."
    ),
    "claims": ReadingPath(
        "Every claim",
        "Lessons, exercises and closer looks of chapters {}: all that the book says, and what it rests on.",
        everything=True,
    ),
}


def minutes(source: Path, page: str, everything: bool) -> int:
    """Return how long the lesson of a page takes, or everything in it."""
    parts = count.count(json.loads((source / f"{page}.ipynb").read_text(encoding="utf-8")))
    card = read_chapter(source, page)
    lesson = card.reading if card else parts["lesson"].minutes
    more = (card.exercises if card else 0) + parts["closer looks"].minutes
    return lesson + more * everything


class PathList(SphinxDirective):
    """List the paths, each with its minutes and its pages."""

    def run(self) -> list[nodes.Node]:
        """Return the list."""
        source, lines = Path(self.env.srcdir), []
        for path in PATHS.values():
            pages = path.pages(source)
            for page in pages:
                self.env.note_dependency(str(source / f"{page}.ipynb"))
            spent = duration(path.minutes(source))
            lines.append(f"- **{path.name}** · {spent}\\\n  {path.offer.format(named(source, path, pages))}")
        made = self.parse_text_to_nodes("\n".join(lines))
        made[-1]["classes"].append("paths")
        return made


def named(source: Path, path: ReadingPath, pages: list[str]) -> str:
    """Return links to the pages of a path: "0, 1 and 3" or "0 to 16", and by their titles those without a number."""
    links = [f"[{number(page)}](/{page}.ipynb)" for page in pages if number(page) is not None]
    titles = [(read_title(source, page).removeprefix("Appendix: "), page) for page in pages if number(page) is None]
    others = [f"[{title[0].lower()}{title[1:]}](/{page}.ipynb)" for title, page in titles]
    text = f"{', '.join(links[:-1])} and {links[-1]}" if path.chapters else f"{links[0]} to {links[-1]}"
    return f"{text}, with the appendices ({', '.join(others)})" if others else text


# Who blocks a site's storage makes the theme's scripts fail where they ask for it: they get one that forgets.
FORGETFUL = """<script>try { localStorage.length } catch { Object.defineProperty(window, "localStorage",
  { value: { getItem: () => null, setItem() {}, removeItem() {} } }) }</script>"""


def lead(app: Sphinx, pagename: str, template: str, context: dict, doctree: object) -> None:
    """Tell the first page, and each page on a path, of the paths and their titles."""
    if app.builder.name == "epub":
        return
    context["metatags"] = context.get("metatags", "") + FORGETFUL
    source = Path(app.srcdir)
    paths = {key: {"name": path.name, "pages": path.pages(source)} for key, path in PATHS.items()}
    pages = PATHS["claims"].pages(source)
    if not paths["lessons"]["pages"] or pagename not in (app.config.root_doc, *pages) or "body" not in context:
        return
    titles = {page: numbered(page, app.env.titles[page].astext()) for page in pages}
    told = {"here": pagename, "first": f"{app.config.root_doc}.html#{PLACE}", "titles": titles, "paths": paths}
    text = json.dumps(told, ensure_ascii=False).replace("<", "\\u003c")
    context["body"] += f'<script type="application/json" id="paths">{text}</script>'
    app.add_js_file("paths.js", loading_method="defer")


def setup(app: Sphinx) -> None:
    """Register what is here."""
    app.add_directive("path-list", PathList)
    app.connect("html-page-context", lead)

"""What search.js searches: the sections of the book, in a script, because a page from the disk may fetch nothing."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

from sphinx.application import Sphinx

from pages.frame import numbered

ARTICLE = re.compile(r"<article\b.*?</article>", re.DOTALL)
VOID = {"br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}
UNSEEN = {"button", "details", "script", "style", "svg"}  # what is folded, and what is no text
UNSEEN_CLASSES = {"cell_output", "headerlink", "live-figure"}
SAID = {"msqrt": "√", "pre": "\n\t"}  # a tab begins each line of code
HEADINGS = {"h1", "h2", "h3", "h4", "dt"}
BLOCKS = {"dd", "div", "dl", "dt", "li", "p", "section", "td", "th", "tr"}
ARGUMENTS = re.compile(r"(?<=\w)\((?!\)).*")  # of a function, in its entry of the reference
# Sphinx's own scripts know whole pages, with all that is folded in them.
THEIRS = re.compile(r'<script src="(?:_static/searchtools|searchindex)\.js"></script>')
OURS = '<script defer src="sections.js"></script><script defer src="_static/search.js"></script>\n  </head>'


class Sections(HTMLParser):
    """Reads an article: its sections and the entries of its lists, [anchor, title, text], with all that can be seen."""

    def __init__(self, html: str):
        super().__init__()
        self.found: list[list[str]] = []
        self.unseen = 0  # how many elements deep in something that cannot be seen
        self.into = 2
        self.code = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a section if this element has an anchor, or its heading."""
        here = {name: value or "" for name, value in attrs}
        if tag in VOID:
            return
        if self.unseen or tag in UNSEEN or UNSEEN_CLASSES & set(here.get("class", "").split()):
            self.unseen += 1
        elif tag in ("section", "dt") and "id" in here:
            self.found.append([here["id"], "", ""])
        if tag in HEADINGS and self.found and not self.found[-1][1]:
            self.into = 1
        self.code |= tag == "pre"
        self.add(SAID.get(tag, "\n" if tag in BLOCKS else ""))

    def handle_endtag(self, tag: str) -> None:
        """End what cannot be seen, or a heading."""
        self.unseen -= bool(self.unseen) and tag not in VOID
        self.code &= tag != "pre"
        if tag in HEADINGS:
            self.into = 2

    def handle_data(self, data: str) -> None:
        """Add a text. Lines matter in code alone."""
        self.add(data.replace("\n", "\n\t" if self.code else " "))

    def add(self, text: str) -> None:
        """Add to the section that was begun last."""
        if self.found and not self.unseen:
            self.found[-1][self.into] += text


def sections(html: str) -> list[list[str]]:
    """Return the sections of a page, [anchor, title, text]: a text has a line for each paragraph and line of code."""
    article = ARTICLE.search(html)
    found = Sections(article[0]).found if article else []
    return [[anchor, ARGUMENTS.sub("", tidy(title)), tidy(text)] for anchor, title, text in found]


def tidy(text: str) -> str:
    """Return a text without empty lines and with single blanks."""
    lines = [line[: line.startswith("\t")] + " ".join(line.split()) for line in text.splitlines()]
    return "\n".join(line for line in lines if line.strip())


def index(app: Sphinx) -> None:
    """Write the sections of all pages, and give the page of the search the book's own scripts."""
    page, book = Path(app.outdir, "search.html"), []
    for docname in sorted(app.env.found_docs):
        html = Path(app.outdir, f"{docname}.html").read_text(encoding="utf-8")
        title = numbered(docname, app.env.titles[docname].astext())
        book.append([f"{docname}.html", title, sections(html)])
    script = f"const bookSections = {json.dumps(book, ensure_ascii=False, separators=(',', ':'))};\n"
    Path(app.outdir, "sections.js").write_text(script, encoding="utf-8")
    html = THEIRS.sub("", page.read_text(encoding="utf-8")).replace("</head>", OURS, 1)
    page.write_text(html, encoding="utf-8")
    for name in ("searchindex.js", "_static/searchtools.js"):
        Path(app.outdir, name).unlink(missing_ok=True)

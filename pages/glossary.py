"""The words of the glossary: where a chapter first uses one, it leads there and shows its sentence (terms.js)."""

import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

PAGE = "book/glossary"
ENTRY = re.compile(r"^(?P<term>[^\n:#][^\n]*)\n: (?P<sentence>.+)$", re.MULTILINE)
WHERE = re.compile(r" *\(\[[^\]]*\]\([^)]*\)\)$")  # the chapter, at the end of the sentence
CHAPTER = re.compile(r"\(\[(\d+)\]")
MARKUP = re.compile(r"\[([^\]]*)\]\([^)]*\)|[`*$]")
# English before they are terms: a word like these is a term from the chapter on that the glossary names, not before.
ORDINARY = {
    "baseline", "branch", "budget", "buffer", "key", "mask", "parameter", "query", "saturated", "score", "seed",
    "tracing", "value",
}  # fmt: skip
# No reader needs these explained where they stand, or they are names in code.
LEFT_ALONE = (nodes.title, nodes.reference, nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw)
LEFT_ALONE += (nodes.citation, nodes.rubric, nodes.term, addnodes.desc_signature)


class FirstUse(nodes.Inline, nodes.TextElement):
    """The words with which a page first uses a term of the glossary."""


def entries(text: str) -> dict[str, tuple[str, int]]:
    """Return the glossary's words: term -> (sentence as plain text, number of the chapter that it names or 0)."""
    found = {}
    for entry in ENTRY.finditer(text):
        chapter = CHAPTER.search(entry["sentence"])
        plain = MARKUP.sub(lambda mark: mark[1] or "", WHERE.sub("", entry["sentence"]))
        found[entry["term"].strip()] = plain, int(chapter[1]) if chapter else 0
    return found


def place(term: str) -> str:
    """Return the id of a term's entry in the glossary."""
    return "term-" + re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")


def pattern(terms: list[str]) -> re.Pattern:
    """Return what finds any of the terms in a text, the longest first, in the plural, too."""
    words = "|".join(re.escape(term).replace(r"\ ", r"\s+") for term in sorted(terms, key=len, reverse=True))
    return re.compile(rf"(?<![\w-])({words})(e?s)?(?![\w-])", re.IGNORECASE)


class Marker:
    """Marks, on one page, the first use of each word of the glossary."""

    def __init__(self, terms: dict[str, tuple[str, int]], chapter: int, target: str):
        self.terms, self.target = terms, target
        left = [term for term, (_, first) in terms.items() if term not in ORDINARY or first <= chapter]
        self.left = {term.lower(): term for term in left}

    def mark(self, node: nodes.Text) -> None:
        """Replace a text by itself, with links where a word is used for the first time."""
        if not self.left:
            return
        text, done, made = node.astext(), 0, []
        for found in pattern(list(self.left)).finditer(text):
            term = self.left.pop(" ".join(found[1].lower().split()), None)
            if term is None:  # marked a few words ago
                continue
            made += [nodes.Text(text[done : found.start()]), self.link(term, found[0])]
            done = found.end()
        if made:
            node.parent.replace(node, [*made, nodes.Text(text[done:])])

    def link(self, term: str, words: str) -> FirstUse:
        """Return these words as a link to the glossary that carries the sentence."""
        return FirstUse("", words, where=f"{self.target}#{place(term)}", sentence=self.terms[term][0])


def alone(node: nodes.Node) -> bool:
    """Is this text one that stays as it is?"""
    while node := node.parent:
        if isinstance(node, LEFT_ALONE) or (isinstance(node, nodes.container) and "cell" in node.get("classes", [])):
            return True
    return False


def mark_page(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Mark a page's first uses; in the glossary itself, give each entry its place."""
    if app.builder.format != "html":
        return
    if docname == PAGE:
        for term in doctree.findall(nodes.term):
            term["ids"].append(place(term.astext()))
        return
    path = Path(app.srcdir, f"{PAGE}.md")
    if not path.exists() or not docname.startswith("book/"):
        return
    found = re.search(r"/(\d\d)-", docname)
    chapter = int(found[1]) if found else (0 if docname == app.config.root_doc else 99)
    marker = Marker(entries(path.read_text(encoding="utf-8")), chapter, app.builder.get_relative_uri(docname, PAGE))
    for text in [text for text in doctree.findall(nodes.Text) if not alone(text)]:
        marker.mark(text)


def write_start(writer: HTML5Translator, node: FirstUse) -> None:
    """Write a link that carries the sentence; without a script it is a link."""
    where = {"class": "term", "href": node["where"], "data-sentence": node["sentence"]}
    writer.body.append(writer.starttag({"classes": [], "ids": []}, "a", "", **where))


def write_end(writer: HTML5Translator, node: FirstUse) -> None:
    """Close the link."""
    writer.body.append("</a>")


def add_script(app: Sphinx, pagename: str, template: str, context: dict, doctree: object) -> None:
    """Load the script where a page has such a word."""
    if "data-sentence=" in context.get("body", ""):
        app.add_js_file("terms.js", loading_method="defer")


def setup(app: Sphinx) -> None:
    """Register what is here."""
    app.add_node(FirstUse, html=(write_start, write_end))
    app.connect("doctree-resolved", mark_page, priority=900)  # after citations and formulas
    app.connect("html-page-context", add_script)

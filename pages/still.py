"""The still edition: the book as EPUB, and as the pages that pages/make_pdf.py prints. Nothing in it needs a script.

Live figures are their still images, quizzes are questions with their answers
behind them, drawings have plain colours, and folded code stays folded.
"""

import html
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import unquote
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.builders import _epub_base
from sphinx.builders.epub3 import Epub3Builder

from pages import edition
from pages.frame import contents, numbered, published
from pages.live_figures import STATE, VIEW

QUIZ = "vitbook.figures.quiz.Quiz"
SETUP = "# @title Setup"
LETTERS = "ABCDEFGH"
SUMMARY = re.compile(r"(<summary[^>]*>)(.*?)(</summary>)", re.DOTALL)
OPF, DC = "http://www.idpf.org/2007/opf", "http://purl.org/dc/elements/1.1/"
XHTML, MATHML = "http://www.w3.org/1999/xhtml", "http://www.w3.org/1998/Math/MathML"
VARIABLE = re.compile(r"(--[\w-]+):\s*light-dark\(([^,()]+),[^()]+\);?")
THEMED = re.compile(r"html\[[^{}]*\{[^{}]*\}|@media[^{]*prefers-color-scheme[^{]*\{(?:[^{}]*\{[^{}]*\})*[^{}]*\}")
TITLE, COVER, ABOUT = "Title page", "cover.png", "book/about"
SAYS = {
    "schema:accessMode": ("textual", "visual"),
    "schema:accessModeSufficient": ("textual,visual", "textual"),
    "schema:accessibilityFeature": ("alternativeText", "MathML", "structuralNavigation", "tableOfContents"),
    "schema:accessibilityHazard": ("none",),
    "schema:accessibilitySummary": ("Images have alternative texts, formulas are MathML, tables have headings.",),
}


# ---- Quizzes


def prose(text: str) -> str:
    """Return a text with code between `marks` as HTML."""
    pieces = [html.escape(piece, quote=False) for piece in text.split("`")]
    return "".join(f"<code>{piece}</code>" if i % 2 else piece for i, piece in enumerate(pieces))


def written_quiz(questions: list[dict]) -> str:
    """Return the questions of a quiz as HTML: first all of them with their answers, then what is right and why."""
    asked, answered = [], []
    for question in questions:
        right = question["right"]
        answers = "".join(f"<li>{prose(answer['text'])}</li>" for answer in question["answers"])
        asked.append(f'<li><p>{prose(question["text"])}</p><ol class="answers">{answers}</ol></li>')
        feedback = "".join(
            f"<li><strong>{'Right.' if number == right else 'Not this one.'}</strong> {prose(answer['feedback'])}</li>"
            for number, answer in enumerate(question["answers"])
        )
        answered.append(f'<li><p>{LETTERS[right]} is right.</p><ol class="answers">{feedback}</ol></li>')
    answers = (
        f'<details class="answered"><summary>Answers</summary><ol class="questions">{"".join(answered)}</ol></details>'
    )
    return f'<div class="quiz"><ol class="questions">{"".join(asked)}</ol>{answers}</div>'


def write_quizzes(notebook: dict) -> None:
    """Put the questions and answers of a quiz, as text, in the place of the live figure and of its code."""
    models = notebook["metadata"].get("widgets", {}).get(STATE, {}).get("state", {})
    for cell in notebook["cells"]:
        for place, output in enumerate(cell.get("outputs", [])):
            model = models.get(output.get("data", {}).get(VIEW, {}).get("model_id"), {}).get("state", {})
            if model.get("_anywidget_id") == QUIZ:
                text = written_quiz(model["questions"])
                cell["outputs"][place] = {"output_type": "display_data", "metadata": {}, "data": {"text/html": text}}
                cell["metadata"]["tags"] = ["remove-input"]


def prepare_source(app: Sphinx, docname: str, source: list[str]) -> None:
    """Write the quizzes of a notebook as text, and leave out the cell that only Colab needs."""
    if app.builder.name == "epub" and str(app.env.doc2path(docname)).endswith(".ipynb"):
        notebook = json.loads(source[0])
        notebook["cells"] = [cell for cell in notebook["cells"] if not "".join(cell["source"]).startswith(SETUP)]
        write_quizzes(notebook)
        source[0] = json.dumps(notebook)


# ---- Pages


def prepare_page(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Give a chapter's title its number, and take out links to slides and handouts, which it lacks."""
    if app.builder.name != "epub":
        return
    for title in doctree.findall(nodes.title):
        title.insert(0, nodes.Text(numbered(docname, title.astext()).removesuffix(title.astext())))
        break
    home = published(app.config.vitbook_rename[1])
    for link in list(doctree.findall(nodes.reference)):
        address = link.get("refuri", "")
        if re.match(r"(\.\./)*(slides|handouts)/", address):
            if home:
                link["refuri"] = home + address.replace("../", "")
            else:
                link.replace_self(nodes.inline("", link.astext()))


def fix_page(app: Sphinx, pagename: str, template: str, context: dict, doctree: object) -> None:
    """Leave to a page what EPUB allows: no script, no style sheet of the web pages, no paragraph in a summary."""
    if app.builder.name != "epub":
        return
    context["css_files"] = [css for css in context["css_files"] if Path(css.filename).name in app.builder.sheets]
    context["script_files"], context["metatags"] = [], ""
    if "body" in context:
        context["body"] = still_body(context["body"])


def still_body(body: str) -> str:
    """Return the body of a page without what only a web page can use."""
    body = re.sub(r"<script\b.*?</script>", "", body, flags=re.DOTALL)
    body = re.sub(r' data-sentence="[^"]*"', "", body).replace(' aria-label="Toggle hidden content"', "")
    body = body.replace("<math", f'<math xmlns="{MATHML}"')
    return SUMMARY.sub(lambda found: found[1] + summary(found[2]) + found[3], body)


def summary(text: str) -> str:
    """Return what stands in a summary without paragraphs, and of the two that the theme switches by CSS the first."""
    text = re.sub(r'<p class="expanded.*?</p>', "", text, flags=re.DOTALL)
    return re.sub(r"</?p\b[^>]*>", "", text).strip()


def plain_colours(svg: str) -> str:
    """Return a drawing in its light colours, without links and without variables of CSS, which few readers know."""
    values = dict(VARIABLE.findall(svg))
    svg = re.sub(r'</?a\b[^>]*>| role="group"', "", svg)  # an image has no links
    svg = THEMED.sub("", VARIABLE.sub("", svg)).replace("color-scheme:light dark;", "")
    return re.sub(r"var\((--[\w-]+)\)", lambda found: values[found[1]], svg)


# ---- The file


class StillBuilder(Epub3Builder):
    """Sphinx's builder of EPUB, with numbers and parts, what epubcheck asks for, and the same bytes every time."""

    sheets = ("pygments.css", "still.css")
    media_types = {**_epub_base.MEDIA_TYPES, ".woff2": "font/woff2"}

    def get_toc(self) -> None:
        """Number the chapters, and put the title page first."""
        super().get_toc()
        for node in self.refnodes:
            docname = node["refuri"].removesuffix(self.out_suffix)
            if docname in self.env.titles:
                node["text"] = numbered(docname, node["text"])
        context = {"title": TITLE, "body": title_page(self.app)}
        self.handle_page("title", context, "page.html")
        self.refnodes.insert(0, {"level": 1, "refuri": f"title{self.out_suffix}", "text": TITLE})

    def build_content(self) -> None:
        """Leave behind what no page uses, and give the drawings plain colours."""
        out = Path(self.outdir)
        pages = "".join(page.read_text(encoding="utf-8") for page in out.rglob("*.xhtml"))
        for path in [path for path in (out / "_static").rglob("*") if path.is_file()]:
            if path.name not in (*self.sheets, COVER) and path.suffix != ".woff2":
                path.unlink()
        for path in (out / "_images").iterdir():
            if path.name not in pages:
                path.unlink()
            elif path.suffix == ".svg":
                path.write_text(plain_colours(path.read_text(encoding="utf-8")), encoding="utf-8")
        (out / f"genindex{self.out_suffix}").unlink(missing_ok=True)
        super().build_content()

    def build_navigation_doc(self) -> None:
        """Write the table of contents: parts, pages, sections."""
        (Path(self.outdir) / "nav.xhtml").write_text(self.navigation(), encoding="utf-8")
        self.files.append("nav.xhtml")

    def navigation(self) -> str:
        """Return the table of contents as a page."""
        first = self.entry(self.config.root_doc)
        items = [f'<li><a href="title{self.out_suffix}">{TITLE}</a></li>', first]
        for part, pages in contents(Path(self.srcdir)):
            entries = "".join(self.entry(page) for page in pages)
            items.append(f"<li><span>{html.escape(part)}</span><ol>{entries}</ol></li>" if part else entries)
        head = "<head><title>Contents</title><link rel='stylesheet' href='_static/still.css'/></head>"
        body = f"<body><nav epub:type='toc'><h1>Contents</h1><ol>{''.join(items)}</ol></nav></body>"
        return f"<!DOCTYPE html>{self.html_tag[:-1]} lang='en' xml:lang='en'>{head}{body}</html>"

    def entry(self, docname: str) -> str:
        """Return a page's line in the table of contents, with its sections."""
        page = f"{docname}{self.out_suffix}"
        sections = "".join(
            f'<li><a href="{page}#{place}">{html.escape(heading, quote=False)}</a></li>'
            for place, heading in sections_of(Path(self.outdir, page))
        )
        name = html.escape(numbered(docname, self.env.titles[docname].astext()), quote=False)
        return f'<li><a href="{page}">{name}</a>{sections and f"<ol>{sections}</ol>"}</li>'

    def build_epub(self) -> None:
        """Complete the manifest, then pack all files in one order and with one time."""
        out = Path(self.outdir)
        self.complete_manifest(out / "content.opf")
        names = ["mimetype", "META-INF/container.xml", "content.opf", "toc.ncx", *self.files]
        pack(out / f"{self.config.epub_basename}.epub", [(name, (out / name).read_bytes()) for name in names])

    def complete_manifest(self, path: Path) -> None:
        """Add to the manifest what Sphinx leaves out."""
        ET.register_namespace("", OPF)
        ET.register_namespace("dc", DC)
        tree = ET.parse(path)
        metadata, manifest = (tree.find(f"{{{OPF}}}{name}") for name in ("metadata", "manifest"))
        for name, values in SAYS.items():
            for value in values:
                ET.SubElement(metadata, f"{{{OPF}}}meta", {"property": name}).text = value
        for item in manifest:
            href = unquote(item.get("href"))
            text = (path.parent / href).read_text(encoding="utf-8") if href.endswith(".xhtml") else ""
            kinds = [item.get("properties"), "mathml" if "<math" in text else "", "svg" if "<svg" in text else ""]
            kinds.append("cover-image" if href.endswith(COVER) else "")
            if any(kinds):
                item.set("properties", " ".join(filter(None, kinds)))
        tree.write(path, encoding="utf-8", xml_declaration=True)


def sections_of(page: Path) -> list[tuple[str, str]]:
    """Return the sections of a page, (id, heading)."""
    found = []
    for section in ET.parse(page).iter(f"{{{XHTML}}}section"):
        heading = section.find(f"{{{XHTML}}}h2")
        if heading is not None:
            found.append((section.get("id"), " ".join("".join(heading.itertext()).split())))
    return found


def title_page(app: Sphinx) -> str:
    """Return what stands on the title page."""
    this = edition.read(Path(app.srcdir))
    home = published(app.config.vitbook_rename[1])
    where = f'the web pages, <a href="{home}">{home}</a>' if home else "the web pages"
    paragraphs = [
        f"{this.name.capitalize()} (version {this.version}), {this.released}. {this.built}",
        app.config.copyright.replace("2026, the authors.", f"© {this.released[:4]} {this.authors}."),
        f"This is the still edition. The interactive figures are live in {where}; here each of them shows one state. "
        "The exercises check your answers in the notebooks. Code that a page folds, because it draws a plot or "
        "formats a table, stays folded here or is left out.",
    ]
    if ABOUT in app.env.found_docs:
        page = f'<a href="{ABOUT}{app.builder.out_suffix}">{html.escape(app.env.titles[ABOUT].astext())}</a>'
        paragraphs.append(f"Where a measured number depends on the machine, {page} says which one it was.")
    text = "".join(f"<p>{paragraph}</p>" for paragraph in paragraphs)
    return f'<section class="title-page"><h1>{html.escape(this.title)}</h1><p>{this.abstract}</p>{text}</section>'


def pack(path: Path, files: list[tuple[str, bytes]]) -> None:
    """Write a zip whose bytes depend on the files alone: the first one is stored, the others compressed."""
    with ZipFile(path, "w") as archive:
        for place, (name, data) in enumerate(files):
            entry = ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.external_attr = 0o644 << 16
            entry.create_system = 3
            archive.writestr(entry, data, ZIP_DEFLATED if place else ZIP_STORED, compresslevel=9)


def setup(app: Sphinx) -> None:
    """Register what is here."""
    app.add_builder(StillBuilder, override=True)
    app.connect("source-read", prepare_source, priority=400)  # before controls are replaced
    app.connect("doctree-resolved", prepare_page)
    app.connect("html-page-context", fix_page, priority=900)

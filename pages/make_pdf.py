"""Print the book as one PDF, from the pages of the EPUB, and check its links: python -m pages.make_pdf

The pages become one, every id with its page's name before it, because two
chapters may call a section alike. Solutions move to the end. Chromium prints
it twice: the first print tells on which page everything is, and the second
has these numbers in its table of contents.
"""

import posixpath
import re
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from playwright.sync_api import Browser, sync_playwright
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, BooleanObject, DictionaryObject, NameObject, TextStringObject

from pages import edition, frame
from pages.make_epub import BUILT, NAME, ROOT
from pages.print_slides import ARGUMENTS, chromium

PRINTED = ROOT / "_build" / "pdf"
PRINT_CSS = ROOT / "pages" / "print.css"
XHTML, MATHML, SVG = "http://www.w3.org/1999/xhtml", "http://www.w3.org/1998/Math/MathML", "http://www.w3.org/2000/svg"
MOVED = ("Solution", "Answers")  # folded parts that stand at the end of the printed book
POINTS = {"aria-labelledby", "aria-describedby", "for", "headers"}  # attributes that hold ids
A4 = (595, 842)


def tag(name: str) -> str:
    """Return the name of an element of XHTML."""
    return f"{{{XHTML}}}{name}"


def make(name: str, text: str = "", *children: ET.Element, **attributes: str) -> ET.Element:
    """Return a new element; class_ is its class."""
    element = ET.Element(tag(name), {key.rstrip("_"): value for key, value in attributes.items()})
    element.text = text
    element.extend(children)
    return element


def words(element: ET.Element) -> str:
    """Return the text of an element."""
    return " ".join("".join(element.itertext()).split())


# ---- One page of many


def short(docname: str) -> str:
    """Return the name of a page without its folder: what its ids begin with."""
    return posixpath.basename(docname)


def place(page: str, href: str) -> str:
    """Return where a link of a page leads in the one page: "#page.id"; an address of another site stays."""
    if re.match(r"[a-z][a-z0-9+.-]*:", href):
        return href
    path, _, fragment = href.partition("#")
    target = short(posixpath.splitext(path)[0]) if path else short(page)
    return f"#{target}.{fragment}" if fragment else f"#{target}"


def adopt(page: str, element: ET.Element, folder: str) -> None:
    """Make ids, links and images of a page hold in the one page."""
    prefix = f"{short(page)}."
    for one in element.iter():
        for name, value in list(one.attrib.items()):
            if name == "id":
                one.set(name, prefix + value)
            elif name in POINTS:
                one.set(name, " ".join(prefix + part for part in value.split()))
            elif name == "href":
                one.set(name, place(page, value))
            elif name == "src" and not value.startswith("data:"):
                one.set(name, posixpath.join(folder, posixpath.dirname(page), value))


def lower(element: ET.Element, levels: int) -> None:
    """Lower every heading of an element by `levels`."""
    for one in element.iter():
        if found := re.fullmatch(rf"{re.escape(tag('h'))}([1-6])", one.tag):
            one.tag = tag(f"h{min(6, int(found[1]) + levels)}")


@dataclass
class Solutions:
    """What is taken out of a chapter and printed at the end of the book."""

    page: str
    title: str
    parts: list[ET.Element] = field(default_factory=list)

    def take(self, parent: ET.Element, position: int, heading: str) -> None:
        """Move a folded part here, and leave a link in its place."""
        part = parent[position]
        here, there = (f"{short(self.page)}.{kind}-{len(self.parts) + 1}" for kind in ("asked", "solved"))
        name = words(part[0])
        link = make("a", f"{name}, on page ", make("span", "000", class_="page-of"), href=f"#{there}")
        parent[position] = make("p", "", link, class_="moved", id=here)
        parent[position].tail = part.tail
        part.tag, part.tail = tag("div"), None
        part.attrib = {"class": "solution", "id": there}
        part[0].tag, part[0].text = tag("h3"), f"{heading}: {name.lower()}" if name not in heading else heading
        part[0].attrib = {}
        for child in list(part[0]):
            part[0].remove(child)
        part.insert(1, make("p", "", make("a", "Back to the question", href=f"#{here}"), class_="back"))
        self.parts.append(part)


def unfold(element: ET.Element, solutions: Solutions) -> None:
    """Open what is folded: code that reports is left out, solutions move to the end, all else stands open."""
    heading = ""

    def walk(parent: ET.Element) -> None:
        nonlocal heading
        for position in range(len(parent) - 1, -1, -1):
            child = parent[position]
            if child.tag == tag("details") and "hide" in child.get("class", "").split():
                if position:
                    parent[position - 1].tail = (parent[position - 1].tail or "") + (child.tail or "")
                parent.remove(child)
        for position, child in enumerate(list(parent)):
            if re.fullmatch(rf"{re.escape(tag('h'))}[1-6]", child.tag):
                heading = words(child)
            elif child.tag == tag("details") and words(child[0]) in MOVED:
                solutions.take(parent, position, heading)
                continue
            elif child.tag == tag("details"):
                child.tag = tag("div")
                child.set("class", f"{child.get('class', '')} unfolded".strip())
                child[0].tag = tag("p")
                child[0].set("class", "summary")
            walk(child)

    walk(element)


def section_of(path: Path) -> ET.Element:
    """Return what a page of the EPUB holds, without what stands around it."""
    body = next(div for div in ET.parse(path).iter(tag("div")) if div.get("class") == "body")
    return make("article", "", *body)


def running_heads(names: dict[str, str]) -> str:
    """Return a style sheet that puts the title of a page into the head of the sheets on which it is printed."""
    rules = []
    for number, (page, title) in enumerate(names.items()):
        quoted = title.replace("\\", "\\\\").replace('"', '\\"')
        rules.append(f'@page p{number} {{ @top-left {{ content: "{quoted}"; }} }}')
        rules.append(f'article[id="{short(page)}"] {{ page: p{number}; }}')
    return "\n".join(rules)


def assemble(source: Path, built: Path) -> ET.Element:
    """Return the book of a folder as one page, from the pages of its EPUB, which are in another."""
    root = yaml.safe_load((source / "_toc.yml").read_text(encoding="utf-8"))["root"]
    body, solved, heads, lines = ET.Element(tag("body")), [], {}, []
    for number, (part, pages) in enumerate([("", ["title", root]), *frame.contents(source)]):
        if part:
            place_of_part = f"part-{number}"
            body.append(make("h1", part, class_="part", id=place_of_part))
            lines.append(contents_line(part, place_of_part, "part-line"))
        for page in pages:
            article = section_of(built / f"{page}.xhtml")
            adopt(page, article, built.as_uri())
            title = words(next(article.iter(tag("h1"))))
            article.set("id", short(page))
            article.set("class", "page" if page != "title" else "page first")
            taken = Solutions(page, title)
            unfold(article, taken)
            solved += [taken] if taken.parts else []
            if page != "title":
                heads[page] = title
                lines.append(contents_line(title, short(page), "chapter-line"))
                if page != root:
                    lines += [contents_line(words(h), i, "section-line") for i, h in sections_of(article)]
            lower(article, 1 if part else 0)
            body.append(article)
    end = make("article", "", make("h1", "Solutions and answers", class_="part"), id="solutions", class_="page last")
    for taken in solved:
        end.append(make("h2", taken.title, id=f"solutions.{short(taken.page)}"))
        end.extend(taken.parts)
    heads["solutions"] = "Solutions and answers"
    body.append(end)
    lines.append(contents_line("Solutions and answers", "solutions", "part-line"))
    contents = make("nav", "", make("h1", "Contents"), make("ol", "", *lines), class_="contents", id="contents")
    body.insert(1, contents)
    sheets = [*(built / "_static" / name for name in ("pygments.css", "still.css")), PRINT_CSS]
    head = ET.Element(tag("head"))
    head.append(make("title", edition.read(source).title))
    head.extend(make("link", "", rel="stylesheet", href=sheet.as_uri()) for sheet in sheets)
    head.append(make("style", running_heads(heads)))
    page = ET.Element(tag("html"), {"lang": "en", "{http://www.w3.org/XML/1998/namespace}lang": "en"})
    page.extend([head, body])
    return page


def sections_of(article: ET.Element) -> list[tuple[str, ET.Element]]:
    """Return the sections of a page, (id, heading), before its headings are lowered."""
    found = [(section.get("id"), section.find(tag("h2"))) for section in article.iter(tag("section"))]
    return [(name, heading) for name, heading in found if heading is not None]


def contents_line(text: str, target: str, kind: str) -> ET.Element:
    """Return a line of the table of contents; its page's number comes after the first print."""
    link = make("a", "", make("span", text, class_="name"), make("span", "000", class_="page-of"), href=f"#{target}")
    return make("li", "", link, class_=kind)


def dangling(page: ET.Element) -> list[str]:
    """Return the links of the one page that lead nowhere, and ids that it has twice."""
    ids = [one.get("id") for one in page.iter() if one.get("id")]
    referenced = {one.get("href")[1:] for one in page.iter(tag("a")) if one.get("href", "").startswith("#")}
    return sorted(referenced - set(ids)) + sorted({f"twice: {one}" for one in ids if ids.count(one) > 1})


# ---- Printing


def print_page(browser: Browser, html: Path, numbers: dict[str, int], pdf: Path) -> dict[str, int]:
    """Print a page with these numbers of pages; return on which page each place is that something links to."""
    page = browser.new_page()  # a page that was printed once before breaks its lines differently
    page.set_default_timeout(300_000)
    page.goto(html.as_uri())
    page.evaluate("Promise.all([...document.images].map((image) => image.decode())).then(() => null)")
    page.evaluate("document.fonts.ready.then(() => null)")
    page.evaluate(FILL, numbers)
    page.pdf(path=pdf, prefer_css_page_size=True, print_background=True, tagged=True, outline=True)
    page.close()
    reader = PdfReader(pdf)
    places = reader.named_destinations.items()
    return {name.removeprefix("/"): reader.get_destination_page_number(found) + 1 for name, found in places}


FILL = """(numbers) => document.querySelectorAll("a[href^='#'] .page-of").forEach((place) => {
  place.textContent = numbers[place.closest("a").getAttribute("href").slice(1)] ?? "000";
})"""


def print_book(html: Path, pdf: Path) -> None:
    """Print the one page until the numbers of pages in it are those of the print: twice, as a rule."""
    numbers, tries = {}, 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        while (found := print_page(browser, html, numbers, pdf)) != numbers:
            numbers, tries = found, tries + 1
            if tries > 3:
                sys.exit(f"{pdf}: after {tries} prints the table of contents is still not that of the pages")
        browser.close()


def sign(pdf: Path, this: edition.Edition) -> None:
    """Write into the PDF who made it and what it is; structure and outline stay."""
    writer = PdfWriter(clone_from=pdf)
    fields = {"/Title": this.title, "/Author": this.authors, "/Subject": this.abstract}
    writer.add_metadata({**fields, "/Keywords": f"version {this.version}, {this.commit}"})
    root = writer.root_object
    root[NameObject("/Lang")] = TextStringObject("en")
    root[NameObject("/PageMode")] = NameObject("/UseOutlines")
    root[NameObject("/ViewerPreferences")] = DictionaryObject({NameObject("/DisplayDocTitle"): BooleanObject(True)})
    writer.write(pdf)


# ---- Judging


def faults(reader: PdfReader) -> tuple[list[str], dict[str, int]]:
    """Return what is wrong with a PDF of the book, and what was counted: pages, links inside, links to other sites."""
    wrong, counted = [], {"pages": len(reader.pages), "links inside": 0, "links to other sites": 0}
    places = {name.removeprefix("/"): found for name, found in reader.named_destinations.items()}
    for number, page in enumerate(reader.pages, 1):
        size = tuple(round(float(side)) for side in page.mediabox[2:])
        if size != A4:
            wrong.append(f"page {number} measures {size} points, and A4 {A4}")
        for annotation in page.get("/Annots") or ArrayObject():
            link = annotation.get_object()
            if link.get("/Subtype") != "/Link":
                continue
            action = link["/A"].get_object() if "/A" in link else {}
            if uri := action.get("/URI"):
                counted["links to other sites"] += 1
                if not re.match(r"(https?://(?!127\.|localhost)|mailto:)", uri):
                    wrong.append(f"page {number}: a link leads to {uri}")
                continue
            target = link.get("/Dest", action.get("/D"))
            name = target.get_object() if target is not None else None
            counted["links inside"] += 1
            if isinstance(name, ArrayObject):
                if not name or name[0].get_object().get("/Type") != "/Page":
                    wrong.append(f"page {number}: a link leads to no page")
            elif name is None or str(name).removeprefix("/") not in places:
                wrong.append(f"page {number}: a link leads to {name}, which is nowhere")
    for name, found in places.items():
        if reader.get_destination_page_number(found) is None or reader.get_destination_page_number(found) < 0:
            wrong.append(f"the place {name} is on no page")
    root = reader.root_object
    if "/StructTreeRoot" not in root or not root.get("/MarkInfo", {}).get("/Marked"):
        wrong.append("it is not tagged")
    if not reader.outline:
        wrong.append("it has no outline")
    if "/Lang" not in root or not (reader.metadata and reader.metadata.title):
        wrong.append("it has no language or no title")
    return wrong, counted


def make_pdf(source: Path, built: Path, out: Path) -> dict[str, int]:
    """Assemble, print, sign and check the book of a folder; return what was counted.

    Raises: SystemExit that says what is wrong.
    """
    for prefix, space in (("", XHTML), ("m", MATHML), ("svg", SVG)):
        ET.register_namespace(prefix, space)
    page = assemble(source, built)
    if lost := dangling(page):
        sys.exit(f"These links of the book lead nowhere: {lost}")
    out.parent.mkdir(parents=True, exist_ok=True)
    html = out.with_suffix(".xhtml")
    ET.ElementTree(page).write(html, encoding="utf-8", xml_declaration=True)
    print_book(html, out)
    sign(out, edition.read(source))
    wrong, counted = faults(PdfReader(out))
    if wrong:
        sys.exit(f"{out}: {len(wrong)} faults: {wrong[:20]}")
    return counted


def main() -> int:
    """Make it, and say how large it is."""
    if chromium() is None:
        sys.exit("The PDF is printed by Chromium, and this machine has none.")
    if not (BUILT / f"{NAME}.epub").exists():
        sys.exit("The PDF is made of the pages of the EPUB: run python -m pages.make_epub first.")
    pdf = PRINTED / f"{NAME}.pdf"
    counted = make_pdf(ROOT, BUILT, pdf)
    print(", ".join(f"{number} {what}" for what, number in counted.items()))
    print(f"{pdf} ({pdf.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())

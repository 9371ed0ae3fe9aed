"""What stands around every page: its description, its neighbours by name, the way to the map; the list of chapters."""

import html
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import yaml
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

MAP = "the-map"  # the label of the map on the first page
CARD = "_static/card.png"
CARD_SAYS = "A boot, cut into patches; the patches as a row of tokens; and the answer, ankle boot."
LOGO = {"image_light": "book/assets/logo.svg", "image_dark": "book/assets/logo-dark.svg"}
NUMBERED = re.compile(r"(?:^|/)(\d\d)-[\w-]+$")
HEADING = re.compile(r"^# (.+)$", re.MULTILINE)
TIME = re.compile(r"\*\*Time\*\* *\| *(\d+) minutes(?:, (and )?(\d+)[^|]* for the exercises)?")
AIM = re.compile(r"\*\*You will be able to\*\* *\| *(.+?) *\|")
SENTENCE = re.compile(r"(?<=[.?!]) (?=[A-Z])")
SHORTEST, LONGEST = 40, 200  # characters of a description
# The theme asks for its icons as a script of 1.5 MB and, once more, as fonts. The script will do, with what is used.
ICON_FONTS = re.compile(r"[ \t]*<link[^>]*vendor/fontawesome[^>]*>\n?")
ICON = re.compile(
    r'(?<=[{,])(?:"([a-z0-9-]+)"|([a-z0-9]+)):'  # its name
    r'(\[\d+,\d+,\[([^\]]*)\],"[^"]*",(?:"[^"]*"|\[[^\]]*\])\])(,?)'  # size, other names, code, drawing
)


def number(docname: str) -> int | None:
    """Return the number of a chapter, None for a page that has none."""
    found = NUMBERED.search(docname)
    return int(found[1]) if found else None


def numbered(docname: str, title: str) -> str:
    """Return the title of a page, with the number if it is a chapter: "4. Heads"."""
    return title if number(docname) is None or title[0].isdigit() else f"{number(docname)}. {title}"


# ---- The list of chapters


@dataclass
class Chapter:
    """A chapter as its own first lines describe it: minutes to read, and minutes for the exercises."""

    docname: str
    title: str
    aim: str
    reading: int
    exercises: int


def markdown(source: Path, docname: str) -> str:
    """Return all that a notebook says."""
    cells = json.loads((source / f"{docname}.ipynb").read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def read_chapter(source: Path, docname: str) -> Chapter | None:
    """Return what the card of a chapter says; None if the page has no card."""
    if not (source / f"{docname}.ipynb").exists():
        return None
    text = markdown(source, docname)
    title, time, aim = HEADING.search(text), TIME.search(text), AIM.search(text)
    if not (time and aim):
        return None
    minutes, more, of_them = int(time[1]), time[2], int(time[3] or 0)
    return Chapter(docname, title[1], aim[1].split(";")[0], minutes if more else minutes - of_them, of_them)


def read_title(source: Path, docname: str) -> str:
    """Return the title of a notebook, with its number."""
    return numbered(docname, HEADING.search(markdown(source, docname))[1])


def contents(source: Path) -> list[tuple[str, list[str]]]:
    """Return the parts of the book, (name, pages), as _toc.yml has them; a part may have no name."""
    toc = yaml.safe_load((source / "_toc.yml").read_text(encoding="utf-8"))
    groups = toc.get("parts") or [toc]
    return [(group.get("caption", ""), [page["file"] for page in group.get("chapters", [])]) for group in groups]


def duration(minutes: int) -> str:
    """Return minutes in words: "35 min", "6 h 20 min"."""
    hours, rest = divmod(minutes, 60)
    return " ".join(f"{amount} {unit}" for amount, unit in ((hours, "h"), (rest, "min")) if amount)


class ChapterList(SphinxDirective):
    """List the chapters in parts, each with what it teaches and its minutes, as the chapters themselves say it."""

    def run(self) -> list[nodes.Node]:
        """Return a heading and a list for each part."""
        source, made = Path(self.env.srcdir), []
        self.env.note_dependency(str(source / "_toc.yml"))
        for part, pages in contents(source):
            chapters = [chapter for page in pages if (chapter := read_chapter(source, page))]
            for chapter in chapters:
                self.env.note_dependency(str(source / f"{chapter.docname}.ipynb"))
            if not chapters:
                continue
            if part:
                minutes = sum(chapter.reading for chapter in chapters)
                made += self.parse_text_to_nodes(f"**{part}** · {duration(minutes)}")
                made[-1]["classes"].append("part")
            made += self.parse_text_to_nodes("\n".join(self.line(chapter) for chapter in chapters))
            made[-1]["classes"].append("chapters")
        return made

    def line(self, chapter: Chapter) -> str:
        """Return the line of one chapter, as Markdown."""
        name = numbered(chapter.docname, chapter.title)
        more = f", exercises {chapter.exercises} min" if chapter.exercises else ""
        aim = chapter.aim[0].upper() + chapter.aim[1:]
        return f"- [{name}](/{chapter.docname}.ipynb) · {chapter.reading} min{more}\\\n  {aim}."


def chapter_with_card(env: BuildEnvironment, entry: str) -> Chapter:
    """Return the chapter with this number. Raises: ValueError if it does not exist or has no card."""
    source = Path(env.srcdir)
    pages = {f"{number(page):02}": page for _, pages in contents(source) for page in pages if number(page) is not None}
    chapter = entry in pages and read_chapter(source, pages[entry])
    if not chapter:
        raise ValueError(f"{entry!r} is no chapter with a card: use one of {', '.join(pages)}")
    env.note_dependency(str(source / f"{chapter.docname}.ipynb"))
    return chapter


def linked(chapter: Chapter) -> str:
    """Return the name of a chapter as a link to it."""
    return f"[{numbered(chapter.docname, chapter.title)}](/{chapter.docname}.ipynb)"


class Course(SphinxDirective):
    """A table of chapters, one number a line, with their minutes added up; * leaves the exercises out."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the table. Raises: ValueError for a chapter that does not exist or has no card."""
        lines, total = ["| chapter | reading | exercises |", "| --- | --- | --- |"], 0
        for entry in filter(None, map(str.strip, self.content)):
            chapter = chapter_with_card(self.env, entry.rstrip("*"))
            exercises = 0 if entry.endswith("*") else chapter.exercises
            total += chapter.reading + exercises
            lines.append(f"| {linked(chapter)} | {duration(chapter.reading)} | {duration(exercises) or 'none'} |")
        return self.parse_text_to_nodes("\n".join([*lines, f"| together | {duration(total)} | |"]))


class Weeks(SphinxDirective):
    """A plan by weeks, one a line: `01 02 | 01:3 | what to do in class`; 01:3 is question 3 of chapter 1's quiz."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return a table, with the minutes added up. Raises: ValueError for a chapter or question that is not there."""
        from vitbook.exercises.engine import EXERCISES
        from vitbook.quizzes import QUIZZES

        questions = {f"{name}:{n}": q.text for name, quiz in QUIZZES.items() for n, q in enumerate(quiz, 1)}
        lines = [
            "| week | lessons before class | in class, the question first | exercises to hand out |",
            "| --- | --- | --- | --- |",
        ]
        reading = exercises = 0
        for week, line in enumerate(filter(None, map(str.strip, self.content)), 1):
            entries, asked, plan = (part.strip() for part in line.split("|", 2))
            chapters = [chapter_with_card(self.env, entry) for entry in entries.split()]
            if asked not in questions:
                raise ValueError(f"{asked!r} is no question of a quiz: use one of {', '.join(questions)}")
            before = sum(chapter.reading for chapter in chapters)
            after = sum(chapter.exercises for chapter in chapters)
            ids = [name for name in EXERCISES if f"{name.split('.')[0]:0>2}" in entries.split()]
            row = [str(week), f"{', '.join(map(linked, chapters))} · {duration(before)}"]
            row += [f"*{questions[asked]}* {plan}", f"`{' '.join(ids)}` · {duration(after)}"]
            lines.append(f"| {' | '.join(row)} |")
            reading, exercises = reading + before, exercises + after
        return self.parse_text_to_nodes("\n".join([*lines, f"| all | {duration(reading)} | | {duration(exercises)} |"]))


class Misconceptions(SphinxDirective):
    """For each chapter, the questions of its quiz: what people get wrong there."""

    def run(self) -> list[nodes.Node]:
        """Return a list, with a link to each chapter."""
        from vitbook.quizzes import QUIZZES

        pages = {page.split("/")[-1][:2]: page for _, pages in contents(Path(self.env.srcdir)) for page in pages}
        lines = []
        for chapter, questions in QUIZZES.items():
            if chapter in pages:
                lines.append(f"- [Chapter {int(chapter)}](/{pages[chapter]}.ipynb)")
                lines += [f"  - {question.text}" for question in questions]
        return self.parse_text_to_nodes("\n".join(lines))


class Memory(SphinxDirective):
    """What a JupyterHub has to give one user, as experiments/kernels.py measured it."""

    def run(self) -> list[nodes.Node]:
        """Return a table of the server and of the kernels that need the least and the most."""
        source = Path(self.env.srcdir)
        path = source / "book" / "results" / "kernels.json"
        self.env.note_dependency(str(path))
        record = json.loads(path.read_text(encoding="utf-8"))
        pages = {page.split("/")[-1]: page for _, pages in contents(source) for page in pages}
        kernels = sorted((size, name) for name, size in record["result"]["kernels"].items())
        lines = [f"| JupyterLab's server | {record['result']['server'] / 1e6:.0f} MB |"]
        for which, (size, name) in (("least", kernels[0]), ("most", kernels[-1])):
            link = f"[{read_title(source, pages[name])}](/{pages[name]}.ipynb)"
            lines.append(f"| the kernel that needs the {which}: {link} | {size / 1e6:.0f} MB |")
        head = ["| one user, CPU, one thread | memory at the peak |", "| --- | --- |"]
        return self.parse_text_to_nodes("\n".join([*head, *lines, f"\nMeasured by `{record['command']}`."]))


# ---- What a page says of itself, and where it leads


def description(doctree: nodes.document | None) -> str:
    """Return the first sentences of a page: the beginning of its first paragraph, as far as a description goes."""
    texts = [p for p in doctree.findall(nodes.paragraph) if isinstance(p.parent, nodes.section)]
    first = next((text for text in texts if len(text.astext()) >= SHORTEST), None)  # not a title below the title
    if first is None:
        return ""
    text = ""
    for sentence in SENTENCE.split(" ".join(first.astext().split())):
        if text and len(text) + len(sentence) >= LONGEST:
            break
        text = f"{text} {sentence}".strip()
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rsplit(" ", 1)[0] + "…"


def published(slug: str) -> str:
    """Return where the pages of a repository are: BOOK_URL, or GitHub Pages; nothing while it has no name."""
    if address := os.environ.get("BOOK_URL"):
        return address.rstrip("/") + "/"
    owner, _, name = slug.partition("/")
    if owner == "OWNER":
        return ""
    return f"https://{owner.lower()}.github.io/" + ("" if name.lower() == f"{owner.lower()}.github.io" else f"{name}/")


def describe(app: Sphinx, pagename: str, template: str, context: dict, doctree: nodes.document | None) -> None:
    """Write what search engines and other sites show of a page: title, description, image."""
    text = description(doctree) if doctree is not None else ""
    if not text or app.builder.name == "epub":
        return
    home = published(app.config.vitbook_rename[1])
    card = home + CARD if home else "../" * pagename.count("/") + CARD
    title = numbered(pagename, app.env.titles[pagename].astext())
    tags = {"type": "website" if pagename == app.config.root_doc else "article", "title": title, "description": text}
    tags |= {"site_name": app.config.html_title, "image": card, "image:alt": CARD_SAYS}
    if home:
        tags["url"] = f"{home}{pagename}.html"
    lines = [f'<meta name="description" content="{html.escape(text)}">']
    lines += [f'<meta property="og:{name}" content="{html.escape(value)}">' for name, value in tags.items()]
    lines.append('<meta name="twitter:card" content="summary_large_image">')
    context["metatags"] = context.get("metatags", "") + "\n".join(lines)


def name_neighbours(app: Sphinx, pagename: str, template: str, context: dict, doctree: object) -> None:
    """Give the links to the chapters before and after this one their numbers, and lead back to the map."""
    relations = app.env.collect_relations().get(pagename, (None, None, None))
    for place, docname in (("prev", relations[1]), ("next", relations[2])):
        if context.get(place) and docname:
            context[place] = {**context[place], "title": numbered(docname, context[place]["title"])}
    if number(pagename) is not None and "body" in context:
        first = app.builder.get_relative_uri(pagename, app.config.root_doc)
        link = f'<a class="reference internal" href="{first}#{MAP}">You are here on the map of the model</a>'
        context["body"] += f'<p class="here">{link}</p>'


def use_logo(app: Sphinx, config: Config) -> None:
    """Show the book's sign beside its name."""
    config.html_theme_options["logo"] = {"text": config.html_title, **LOGO}


# ---- The front door

SAYS = re.compile(r'<meta (?:name="(?:description|twitter:card)"|property="og:[^"]+")[^>]*>')


def front_door(first: str, address: str) -> str:
    """Return the page at the root of the site, which leads on to the first page and says of itself what that says."""
    title = re.search(r"<title>(.*?)</title>", first, re.DOTALL)[1].strip()
    metas = "\n".join(SAYS.findall(first)).replace('"../_static/', '"_static/')
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n{metas}\n'
        f'<meta http-equiv="Refresh" content="0; url={address}"><link rel="canonical" href="{address}">\n'
        f'</head><body><p><a href="{address}">{title}</a></p></body></html>\n'
    )


def hang_front_door(app: Sphinx) -> None:
    """Write the page at the root of the site, in place of Jupyter Book's, which has no title."""
    first = Path(app.outdir) / f"{app.config.root_doc}.html"
    if first.exists() and "/" in app.config.root_doc:
        door = front_door(first.read_text(encoding="utf-8"), f"{app.config.root_doc}.html")
        (Path(app.outdir) / "index.html").write_text(door, encoding="utf-8")


# ---- Icons


def used_icons(script: str, used: set[str]) -> str:
    """Return the theme's script of icons with those that are used, by whatever name."""

    def keep(found: re.Match) -> str:
        names = {found[1] or found[2], *re.findall(r'"([a-z0-9-]+)"', found[4])}
        return found[0] if names & used else ""

    return re.sub(r",(?=\})", "", ICON.sub(keep, script))


def lighten(app: Sphinx) -> None:
    """Leave out of the built pages what none of them uses."""
    used = {"circle-info"}
    for path in Path(app.outdir).rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        used |= set(re.findall(r"\bfa-([a-z0-9-]+)", text))
        path.write_text(ICON_FONTS.sub("", text), encoding="utf-8")
    for name in ("scripts/pydata-sphinx-theme.js", "scripts/sphinx-book-theme.js"):
        used |= set(re.findall(r"\bfa-([a-z0-9-]+)", (Path(app.outdir) / "_static" / name).read_text(encoding="utf-8")))
    for path in (Path(app.outdir) / "_static" / "vendor").rglob("all.min.js"):
        path.write_text(used_icons(path.read_text(encoding="utf-8"), used), encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Register what is here."""
    app.add_directive("chapter-list", ChapterList)
    app.add_directive("course", Course)
    app.add_directive("weeks", Weeks)
    app.add_directive("misconceptions", Misconceptions)
    app.add_directive("memory", Memory)
    app.connect("config-inited", use_logo, priority=100)
    app.connect("html-page-context", describe)
    app.connect("html-page-context", name_neighbours)

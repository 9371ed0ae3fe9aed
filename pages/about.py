"""Facts that the build itself knows: the commit, the versions and licences of packages, where results were measured."""

import json
import os
import platform
import re
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from pages import edition
from pages.frame import published

PINNED = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>[^\s;#]+)[^#\n]*(?:#\s*(?P<purpose>.+))?$")
NAME = "understanding-vision-transformers"
FILES = {"EPUB": "epub", "PDF": "pdf", "a folder of these pages": "zip"}  # what it is called, how the file ends
NAMED = 60  # characters: a longer text in the field "License" is the licence itself
ABSENT = "not installed where this page was built"


@dataclass(frozen=True)
class Package:
    """A line of a file of requirements: a package, its exact version, what it is for."""

    name: str
    version: str
    purpose: str


def groups(path: Path) -> list[tuple[str, list[Package]]]:
    """Return the packages of a file of requirements in groups, each with the comment above it, to its first colon."""
    found: list[tuple[str, list[Package]]] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            found.append((line.lstrip("# ").split(":")[0].rstrip("."), []))
        elif (pinned := PINNED.match(line)) and found:
            found[-1][1].append(Package(pinned["name"], pinned["version"], pinned["purpose"] or ""))
    return [(name, packages) for name, packages in found if packages]


def licence(name: str) -> str:
    """Return the licence that an installed package names: in its metadata, or as the title of its file."""
    try:
        fields = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        return ABSENT
    named = [
        line.split("::")[-1].strip() for line in fields.get_all("Classifier") or [] if line.startswith("License ::")
    ]
    text = (fields.get("License") or "").strip()
    files = [file for file in metadata.files(name) or [] if file.name.startswith("LICEN") and ".dist-info" in str(file)]
    titles = [line.strip() for line in (text, *(file.read_text() for file in files[:1])) if line.strip()]
    short = [title for line in titles if len(title := line.splitlines()[0].strip()) < NAMED]
    return fields.get("License-Expression") or ", ".join(named) or next(iter(short), "not named")


def cell(text: str) -> str:
    """Return a text for a cell of a table in Markdown."""
    return re.sub(r"([|*_<\[\]$])", r"\\\1", text)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


class Facts(SphinxDirective):
    """Base of the directives here: each writes Markdown from files of the book."""

    def path(self, *parts: str) -> Path:
        """Return the path of a file of the book, and build the page again when it changes."""
        path = Path(self.env.srcdir, *parts)
        self.env.note_dependency(str(path))
        return path

    def run(self) -> list[nodes.Node]:
        """Return what the directive has to say."""
        return self.parse_text_to_nodes(self.text())

    def text(self) -> str:
        """Return it as Markdown."""
        raise NotImplementedError


class BuildFacts(Facts):
    """What this build was made of."""

    def text(self) -> str:
        """Return a table: edition, commit, Python, PyTorch."""
        this = edition.read(self.path("CITATION.cff").parent)
        rows = [["edition", f"{this.name}, version {this.version}, {this.released}"]]
        rows.append(["commit", f"`{this.commit[:12]}`" + this.changes if this.commit else "not known"])
        if this.date:
            rows.append(["date of the commit", this.date])
        rows += [["Python", platform.python_version()], ["PyTorch", metadata.version("torch")]]
        return table(["", ""], rows)


class StoredResults(Facts):
    """Where and when each stored result was measured."""

    def text(self) -> str:
        """Return a table, a line for each result."""
        rows = []
        for path in sorted(self.path("book", "results").glob("*.json")):
            record = json.loads(self.path("book", "results", path.name).read_text(encoding="utf-8"))
            processor = f"{record['processor']} {record['device']}"
            when = f"{record['date']}, " + (f"`{record['commit'][:7]}`" if record["commit"] else "no commit")
            versions = f"{record['versions']['python']}, {record['versions']['torch']}"
            seconds = f"{record['seconds']:,.0f}"
            rows.append([f"`{record['name']}`", seconds, str(record["threads"]), cell(processor), versions, when])
        head = ["result", "seconds", "threads", "processor", "Python, PyTorch", "date, commit"]
        return table(head, rows)


class Packages(Facts):
    """The packages that a file of requirements pins, with version, licence and purpose."""

    required_arguments = 1

    def text(self) -> str:
        """Return a table for each group of packages, below the name of the group."""
        parts = []
        for name, packages in groups(self.path(self.arguments[0])):
            rows = [[cell(p.name), p.version, cell(licence(p.name)), cell(p.purpose)] for p in packages]
            parts += [f"**{name}**", table(["package", "version", "licence", "what for, or why this version"], rows)]
        return "\n\n".join(parts)


class PackagesBehind(Facts):
    """The packages that those of requirements.txt need in turn, as far as they are installed."""

    def text(self) -> str:
        """Return a table."""
        ours = {package.name.lower() for _, group in groups(self.path("requirements.txt")) for package in group}
        lines = map(PINNED.match, self.path("constraints.txt").read_text(encoding="utf-8").splitlines())
        rows = [
            [cell(line["name"]), line["version"], cell(found)]
            for line in lines
            if line and line["name"].lower() not in ours and (found := licence(line["name"])) != ABSENT
        ]
        return table(["package", "version", "licence"], rows)


class Downloads(Facts):
    """Where the book is as one file: links where it is published with them, else the commands that make them."""

    def text(self) -> str:
        """Return a sentence."""
        home = published(self.config.vitbook_rename[1])
        if home and os.environ.get("BOOK_DOWNLOADS"):
            links = [f"[{kind}]({home}downloads/{NAME}.{ending})" for kind, ending in FILES.items()]
            return f"To read it without a network, take it as {', '.join(links[:-1])} or {links[-1]}."
        return "To read it in an e-reader, on paper or from a stick, run `make downloads`."


def setup(app: Sphinx) -> None:
    """Register what is here."""
    app.add_directive("build-facts", BuildFacts)
    app.add_directive("stored-results", StoredResults)
    app.add_directive("downloads", Downloads)
    app.add_directive("packages", Packages)
    app.add_directive("packages-behind", PackagesBehind)

"""Which edition this is: what CITATION.cff says of the book, the version of its package, the commit of its sources."""

from dataclasses import dataclass
from pathlib import Path

import yaml

import vitnb
from pages import origin


@dataclass(frozen=True)
class Edition:
    """What stands on a title page. commit and date are those of the sources; empty if nobody knows them."""

    title: str
    authors: str
    abstract: str
    version: str
    name: str
    released: str
    commit: str
    date: str
    changed: bool

    @property
    def identifier(self) -> str:
        """A name for this edition, which no other has."""
        return f"{self.title.lower().replace(' ', '-')}-{self.version}"

    @property
    def built(self) -> str:
        """What the sources were, in words: the commit and its date; or nothing."""
        return f"Built from commit {self.commit[:10]} of {self.date}{self.changes}." if self.commit else ""

    @property
    def changes(self) -> str:
        """What to add where a commit is named and the sources are not quite it."""
        return ", with changes since" if self.changed else ""


def read(source: Path) -> Edition:
    """Return the edition whose sources are in this folder."""
    citation = yaml.safe_load((source / "CITATION.cff").read_text(encoding="utf-8"))
    commit = origin.commit(source)
    return Edition(
        title=citation["title"],
        authors=", ".join(author["name"] for author in citation["authors"]),
        abstract=" ".join(citation["abstract"].split()),
        version=vitnb.__version__,
        name=citation["preferred-citation"]["edition"],
        released=str(citation["date-released"]),
        commit=commit,
        date=origin.git("log", "-1", "--format=%cs", folder=source) if commit else "",
        changed=bool(commit and origin.git("status", "--porcelain", "--untracked-files=no", folder=source)),
    )


def seconds(source: Path) -> int:
    """Return the moment of the commit, in seconds since 1970: the time that is written into what is built."""
    known = origin.commit(source) and origin.git("log", "-1", "--format=%ct", folder=source)
    return int(known or 315532800)  # else 1980, where zip's calendar begins

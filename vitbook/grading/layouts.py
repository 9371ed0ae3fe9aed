"""Whose a file is, and which of a student's files is the latest, by what platforms and browsers name them."""

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import PurePosixPath

# Each met by a student's folder, or by a file where the platform keeps no folders.
PATTERNS = {
    "Moodle": re.compile(r"(?P<name>.+)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?(?P<file>.*)", re.DOTALL),
    "Blackboard": re.compile(r"(?P<id>.+?)_attempt_(?P<when>\d{4}(?:-\d\d){5})(?:_(?P<file>.+)|\.txt)", re.DOTALL),
    "Brightspace": re.compile(
        r"(?P<id>\d+)-\d+ - (?:(?P<login>\w*\d\w*) - )?(?P<name>.+?) - (?P<when>[^-]*20\d\d[^-]*?)(?: - (?P<file>.+))?"
    ),
    "anonymous Canvas": re.compile(r"(?:LATE_)?(?P<id>anon_[^_]+)_(?:(?P<order>\d+)_(?P<file>.+)|(?:text|link)\.html)"),
    "Canvas": re.compile(
        r"(?P<name>.+?)_(?:LATE_)?(?P<id>\d+)_(?:(?P<order>\d+)_(?P<file>.+\.\w+)|(?:text|link)\.html)", re.DOTALL
    ),
    "ILIAS": re.compile(r"(?P<last>[^_]+)_(?P<first>[^_]+)_(?P<login>[^_]+)_(?P<id>\d+)"),
}
LOOSE = ("Canvas", "ILIAS")  # a name of a student's or a teacher's choice may look like these: most must
FOLDERS = ("Moodle", "Brightspace", "ILIAS")
FILES = ("Moodle", "Blackboard", "Brightspace", "anonymous Canvas", "Canvas")
WHEN = ("%Y-%m-%d-%H-%M-%S", "%b %d, %Y %I%M %p", "%B %d, %Y %I%M %p", "%d %B, %Y %I%M %p", "%b %d, %Y %H%M")

OTHERS = (".pdf", ".html", ".py", ".zip", ".docx", ".ipynb.txt", ".ipynb.json")  # handed in in a notebook's place
ATTEMPT = re.compile(r"(?:attempt|versuch|tentative|intento|submission)[\W_]*(\d+)", re.IGNORECASE)
COPY = re.compile(r"(?:Copy of|Kopie von|Copie de|Copia de) ", re.IGNORECASE)  # Drive and Colab
VERSION = re.compile(  # a browser's, Jupyter's, Windows' and a Mac's
    r"(?P<base>.+?)(?: ?\((?P<a>\d+)\)|-Copy(?P<b>\d+)| - (?:Copy|Kopie|Copie|copia)(?: \((?P<c>\d+)\))?"
    r"| (?:copy|Kopie|copie|copia)(?: (?P<d>\d+))?|(?P<old>-checkpoint))",
    re.IGNORECASE,
)
UNCLEAR = "it lies at {path}: is that its student's folder?"


@dataclass(frozen=True)
class Owner:
    """Whose a file is: by a name, a platform's number (or the same), and whatever else may stand in a sheet."""

    name: str
    identifier: str
    also: tuple[str, ...] = ()
    platform: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Layout:
    """Where the students' folders or files lie."""

    top: int  # parts of a path above them
    platform: str = ""
    inside: str = ""  # only what lies below this folder counts
    alone: bool = False  # one folder after the other, and in the last one notebooks of one student
    groups: frozenset[str] = frozenset()  # names of which others are later versions
    prefix: str = ""  # Blackboard: the assignment's name, which stands before each student's
    around: tuple[str, str] = ("", "")  # what stands in all names of students before and after that of the student

    def owner(self, path: PurePosixPath) -> Owner | None:
        """Whose the file is, or None for no student's."""
        parts = path.parts[self.top :]
        if not parts or (self.inside and self.inside not in path.parts[: self.top]):
            return None
        if self.platform and (met := self._met(parts)):
            return _owner(self.platform, met, self.prefix)
        if self.platform and len(parts) == 1 and path.suffix.lower() != ".ipynb":
            return None  # a list that the platform adds
        if len(parts) > 1:
            above = path.parts[: self.top] if self.alone else ()
            problem = UNCLEAR.format(path=path.parent) if above else ""
            return Owner(parts[0], parts[0], (*above, *self._inner(parts[0])), problem=problem)
        stem = _stem(path)
        base = version(stem)[0] if stem else ""
        stem = base if base in self.groups else stem
        return Owner(stem, stem, self._inner(stem)) if stem else None

    def _inner(self, name: str) -> tuple[str, ...]:
        """The student in `week3_ada` or `Ada Lovelace - week3`, if all names are like that."""
        inner = name.removeprefix(self.around[0]).removesuffix(self.around[1])
        return (inner,) if inner not in ("", name) else ()

    def ordered(self, path: PurePosixPath) -> float:
        """What the platform itself says of when a file came, or 0."""
        met = self._met(path.parts[self.top :]) if self.platform else None
        said = met.groupdict() if met else {}
        return float(said.get("order") or 0) or _when(said.get("when") or "")

    def _met(self, parts: tuple[str, ...]) -> re.Match | None:
        if self.platform not in (FOLDERS if len(parts) > 1 else FILES):
            return None
        met = PATTERNS[self.platform].fullmatch(parts[0])
        twice = met and len(parts) == 1 and parts[0].count("_assignsubmission_") > 1  # one of them in a student's words
        return None if twice else met

    def note(self, paths: Sequence[PurePosixPath]) -> str:
        """What a teacher should know of how the students were found, if it might have been otherwise."""
        if not self.top or self.platform or self.inside or self.alone:
            return ""
        around = "/".join(next(path.parts[: self.top] for path in paths if len(path.parts) > self.top))
        return f"Everything lies in the folder {around}: what is in it counts as the students."


def layout(paths: Sequence[PurePosixPath]) -> Layout:
    """Find the folders or files of the students; a folder that lies around all of them is none of a student's."""
    notebooks = [path for path in paths if path.suffix.lower() == ".ipynb"]
    inside = [path.parts.index("submitted") for path in notebooks if "submitted" in path.parts[:-2]]
    if inside:  # nbgrader: submitted/<student>/<assignment>, and beside it the teacher's own
        return Layout(min(inside) + 1, inside="submitted")
    top = 0
    while True:
        units = [path.parts[top] for path in paths if len(path.parts) > top + 1]
        files = [path.parts[top] for path in notebooks if len(path.parts) == top + 1]
        if platform := _platform(units, files, [path.name for path in paths if len(path.parts) == top + 1]):
            return Layout(top, platform, prefix=_common(platform, [path.name for path in paths]))
        if files or len(set(units)) != 1:
            break
        top += 1
    stems = {_stem(PurePosixPath(name)) for name in files}
    bases = {version(stem)[0] for stem in stems}
    if top and not units and len(bases) < 2:
        return Layout(top - 1, alone=top > 1)
    around = _around({*bases, *units})
    return Layout(top, groups=frozenset(bases & stems if len(bases) > 1 else ()), around=around)


def _around(names: Iterable[str]) -> tuple[str, str]:
    """What all names begin and end with, up to a sign between words."""
    names = sorted(set(names))
    before, after = os.path.commonprefix(names), os.path.commonprefix([name[::-1] for name in names])[::-1]
    if len(names) < 2:
        return "", ""
    return re.sub(r"[^ _.-]*$", "", before), re.sub(r"^[^ _.-]*", "", after)


def _platform(folders: Iterable[str], notebooks: list[str], files: list[str]) -> str:
    for platform, pattern in PATTERNS.items():
        for names, kinds in ((sorted(set(folders)), FOLDERS), (notebooks or files, FILES)):
            met = [bool(pattern.fullmatch(name)) for name in names] if platform in kinds else []
            if any(met) and (platform not in LOOSE or 2 * sum(met) > len(met)):
                return platform
    return ""


def _common(platform: str, names: Iterable[str]) -> str:
    met = [PATTERNS[platform].fullmatch(name) for name in names] if platform == "Blackboard" else []
    users = sorted({one["id"] for one in met if one})
    return os.path.commonprefix(users).rpartition("_")[0] + "_" if len(users) > 1 else ""


def _owner(platform: str, met: re.Match, prefix: str) -> Owner:
    said = met.groupdict()
    if platform == "Blackboard":  # <assignment>_<user>, and in both may be more of these strokes
        parts = said["id"].split("_")
        user = said["id"].removeprefix(prefix) if len(prefix) > 1 else parts[-1]
        return Owner(user, user, tuple("_".join(parts[k:]) for k in range(1, len(parts))), platform)
    name = said.get("name") or (f"{said['first']} {said['last']}" if "first" in said else "anonymous")
    return Owner(name, said["id"], (said["login"],) if said.get("login") else (), platform)


def _stem(path: PurePosixPath) -> str:
    """The name of a flat file without its ending; nothing for a file that nobody hands in as a notebook."""
    ending = next((one for one in (".ipynb", *OTHERS) if path.name.lower().endswith(one)), "")
    return path.name[: -len(ending)] if ending else ""


def version(stem: str) -> tuple[str, int]:
    """A file's name without what a copy adds, and which copy it is: 0 for the original."""
    count = 0
    while met := COPY.match(stem):
        stem, count = stem[met.end() :], count + 1
    while met := VERSION.fullmatch(stem):
        number = next((int(met[key]) for key in "abcd" if met[key]), 1)
        stem, count = met["base"], -1 if met["old"] else count + number
    return stem, count


def natural(text: str) -> list[tuple[int, str]]:
    """A key by which 10 comes after 9."""
    return [(int(part), "") if part.isdecimal() else (-1, part.casefold()) for part in re.split(r"(\d+)", text)]


def in_order(files: Sequence[tuple[PurePosixPath, float]], layout: Layout) -> list[int]:
    """The indices of a student's files, the oldest first.

    By the platform's dates and attempts, then by the numbers of copies; where
    neither is known, by the times at which they were changed, if these are no
    more than the minute in which all were unpacked, by their names.
    """
    times = [when for _, when in files]
    known = bool(times) and min(times) > 0 and max(times) - min(times) > 120
    latest: dict[tuple[str, str], float] = {}
    bases = [(str(path.parent), version(path.stem)[0]) for path, _ in files]
    for base, when in zip(bases, times, strict=True):
        latest[base] = max(latest.get(base, 0.0), when if known else 0.0)

    def key(n: int) -> tuple:
        path = files[n][0]
        attempt = next((int(number) for number in ATTEMPT.findall(str(path))[::-1]), 0)
        parent, base = bases[n]
        return layout.ordered(path), attempt, latest[bases[n]], natural(parent), natural(base), version(path.stem)[1]

    return sorted(range(len(files)), key=key)


def _when(text: str) -> float:
    for form in WHEN:
        try:
            return datetime.strptime(text.strip().replace(":", ""), form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    return 0.0

"""Find what the students handed in: in a folder, or in the zip that a learning platform gives out."""

import tempfile
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from vitbook.grading.layouts import Layout, Owner, in_order, layout
from vitbook.grading.notebook import LARGE, LARGEST
from vitbook.grading.student import readable

EACH = 20  # notebooks of one student
BYTES = 3 * LARGEST  # of one student's notebooks, as they come out of a zip
LETTERS = 200  # of a name
NOBODYS = ("__MACOSX", ".ipynb_checkpoints", ".git", "Thumbs.db", "desktop.ini")
NAMELESS = PurePosixPath("(an entry without a name)")
SEVERAL = "its notebooks lie in several folders ({folders}): are these several students?"


@dataclass(frozen=True)
class Submission:
    """One student's notebooks, the oldest first, and why others of the files do not count."""

    student: str  # as the platform or the folder names them
    identifier: str  # the platform's number, or the same as student
    notebooks: tuple[Path, ...] = ()
    names: tuple[str, ...] = ()  # of the notebooks, as the student named them
    problems: tuple[str, ...] = ()
    also: tuple[str, ...] = ()  # what else may identify the student in a sheet: a login, a part of a path
    platform: str = ""  # whose number the identifier is

    @property
    def numbered(self) -> bool:
        return self.identifier != self.student


@dataclass
class Found:
    """One file that was handed in: how to get at it, or why not."""

    path: PurePosixPath  # below the folder of all submissions
    file: Path | None = None
    problem: str = ""
    when: float = 0.0  # it was changed, or 0


@contextmanager
def submissions(
    source: Path,
    but: Path | None = None,
    notes: list[str] | None = None,
    listed: Sequence[tuple[str, str]] | None = None,
) -> Iterator[list[Submission]]:
    """Give the submissions in a folder or a zip; what comes out of a zip is deleted afterwards.

    The folder `but` is left out; listed, pairs of a student and a file, says whose a file is in place of the names.
    What a teacher should know of how they were found is added to notes.
    Raises: FileNotFoundError if there is no such folder or zip; ValueError if nothing was handed in.
    """
    notes = [] if notes is None else notes
    with _files(source, but) as found:
        if listed is not None:
            yield _as_listed(found, listed, source, notes)
        else:
            yield _grouped(found, source, notes)


@contextmanager
def _files(source: Path, but: Path | None = None) -> Iterator[list[Found]]:
    """All that was handed in. Raises: FileNotFoundError if there is no such folder or zip."""
    if source.is_dir():
        yield _in_folder(source, but)
    elif source.is_file():
        with tempfile.TemporaryDirectory(prefix="vitnb-") as folder:
            yield _in_zip(source, Path(folder))
    else:
        raise FileNotFoundError(f"{source} is neither a folder nor a file: use a folder of notebooks or a zip")


def whose(source: Path) -> list[tuple[str, str]]:
    """Whose each notebook in a folder or a zip seems to be: pairs of a student and the notebook's path in there."""
    with _files(source) as found:
        students = _owned(found)[0].values()
        names = Counter(owner.name for owner, _ in students)
        return [
            (_name(owner.name if names[owner.name] == 1 else owner.identifier), str(one.path))
            for owner, files in students
            for one in files
            if is_notebook(one.path)
        ]


def _as_listed(
    found: list[Found], listed: Sequence[tuple[str, str]], source: Path, notes: list[str]
) -> list[Submission]:
    """Raises: ValueError for a file that is not there."""
    files = {str(one.path): one for one in found}
    if missing := [file for _, file in listed if file not in files]:
        raise ValueError(f"{source} has no file {missing[0]!r}: correct the table of students, or the folder")
    rest = {name for name, one in files.items() if is_notebook(one.path)}.difference(file for _, file in listed)
    if rest:
        notes.append(f"In no row of the table of students ({len(rest)}): {', '.join(sorted(rest))}")
    students: dict[str, list[Found]] = {}
    for student, file in listed:
        students.setdefault(_name(student), []).append(files[file])
    return [_one(Owner(name, name), mine, Layout(0)) for name, mine in students.items()]


def is_notebook(path: PurePosixPath) -> bool:
    return path.suffix.lower() == ".ipynb"


def _in_folder(folder: Path, but: Path | None) -> list[Found]:
    """All files below a folder, no links, no copies that Jupyter keeps; a folder without any stands for itself."""
    found = []
    for path in sorted(folder.rglob("*")):
        below = PurePosixPath(path.relative_to(folder).as_posix())
        if _nobodys(below) or path.is_symlink():
            continue
        if but is not None and path.absolute().is_relative_to(but.absolute()):
            continue
        if path.is_file():
            found.append(Found(below, path.absolute(), when=path.stat().st_mtime))
        elif path.is_dir() and not any(path.iterdir()):
            found.append(Found(below / "nothing", problem="an empty folder"))
    return found


def _nobodys(path: PurePosixPath) -> bool:
    """Whether a system or a program has left it there: .DS_Store, a Mac's ._x.ipynb, what Jupyter keeps."""
    return bool(set(NOBODYS).intersection(path.parts)) or path.name.startswith(".")


def _in_zip(source: Path, folder: Path) -> list[Found]:
    """Read the notebooks out of a zip, each into a file of our own naming: a name in a zip may lead anywhere.

    Raises: ValueError if it is no zip, or damaged as a whole.
    """
    if not zipfile.is_zipfile(source):
        raise ValueError(f"{source} is not a zip: use a folder of notebooks or a zip")
    try:
        archive = zipfile.ZipFile(source)
    except (zipfile.BadZipFile, NotImplementedError, UnicodeError, OSError, ValueError) as error:
        raise ValueError(f"{source} is a damaged zip ({error}): download it again") from None
    with archive:
        entries = [(_path(one), one) for one in archive.infolist() if not _is_folder(one.filename)]
        entries = [(path, one) for path, one in entries if not _nobodys(path)]
        found = [Found(path, problem="" if path != NAMELESS else "it has no name in the zip") for path, _ in entries]
        owner = layout([one.path for one in found if not one.problem]).owner
        left: dict[object, int] = {}
        for number, (here, (path, one)) in enumerate(zip(found, entries, strict=True)):
            here.when = _changed(one)
            if is_notebook(path):
                _unpack(archive, one, here, folder / f"{number:05}.ipynb", left, owner(path))
    return found


def _unpack(
    archive: zipfile.ZipFile, entry: zipfile.ZipInfo, here: Found, to: Path, left: dict[object, int], owner: object
) -> None:
    """Write an entry to a file, if it can be unpacked and its student's entries are not too large together."""
    most = min(LARGEST, left.setdefault(owner, BYTES))
    try:
        with archive.open(entry) as packed:
            text = packed.read(most + 1)  # whatever size its header announces
    except Exception as error:  # encrypted, damaged, packed in a way that Python does not know
        here.problem = f"it cannot be unpacked ({type(error).__name__})"
        return
    if len(text) > most:
        here.problem = f"it {LARGE}"
        return
    left[owner] -= len(text)
    here.file = to
    to.write_bytes(text)


def _is_folder(name: str) -> bool:
    return name.endswith(("/", "\\")) and bool(name.strip("/\\"))


def _path(entry: zipfile.ZipInfo) -> PurePosixPath:
    """An entry's path, as whoever packed it meant it: with strokes of Windows, or in UTF-8 without saying so."""
    name = entry.filename
    if not entry.flag_bits & 0x800:
        with suppress(UnicodeError):
            name = name.encode("cp437").decode("utf-8")
    path = PurePosixPath(name.replace("\\", "/"))
    return path if path.parts and path.parts != ("/",) else NAMELESS


def _changed(entry: zipfile.ZipInfo) -> float:
    try:
        return datetime(*entry.date_time).timestamp() if entry.date_time[0] > 1980 else 0.0
    except (ValueError, OverflowError):
        return 0.0


def _grouped(found: list[Found], source: Path, notes: list[str]) -> list[Submission]:
    students, found_in = _owned(found)
    notes += filter(None, [found_in.note([one.path for one in found if one.path != NAMELESS])])
    if not any(is_notebook(one.path) for _, files in students.values() for one in files):
        raise ValueError(f"{source} holds no notebook (*.ipynb)")
    return [_one(owner, files, found_in) for owner, files in students.values()]


def _owned(found: list[Found]) -> tuple[dict[tuple[str, str], tuple[Owner, list[Found]]], Layout]:
    """The students, each with the files that by their names are that student's, and how these lie."""
    found_in = layout([one.path for one in found if one.path != NAMELESS])
    students: dict[tuple[str, str], tuple[Owner, list[Found]]] = {}
    for one in sorted(found, key=lambda one: str(one.path)):
        owner = Owner(str(NAMELESS), str(NAMELESS)) if one.path == NAMELESS else found_in.owner(one.path)
        if owner is not None:
            students.setdefault((_name(owner.name), _name(owner.identifier)), (owner, []))[1].append(one)
    return students, found_in


def _name(text: str) -> str:
    """A name that can be printed, written and compared: a Mac writes ä as two letters."""
    text = text.encode("utf-8", "replace").decode()
    return readable(unicodedata.normalize("NFC", text))[:LETTERS].strip() or "nameless"


def _one(owner: Owner, files: list[Found], found_in: Layout) -> Submission:
    notebooks = [one for one in files if is_notebook(one.path) and one.file is not None]
    notebooks = [notebooks[n] for n in in_order([(one.path, one.when) for one in notebooks], found_in)]
    problems = [owner.problem] if owner.problem else []
    problems += [f"{_name(one.path.name)}: {one.problem}" for one in files if one.problem]
    folders = sorted({one.path.parent.name for one in notebooks if len(one.path.parts) > found_in.top + 2})
    if len(folders) > 1 and len({one.path.name for one in notebooks}) < len(notebooks):
        problems.append(SEVERAL.format(folders=", ".join(map(_name, folders[:5]))))
    if len(notebooks) > EACH:
        problems.append(f"{len(notebooks)} notebooks were handed in: the latest {EACH} are read")
    if not notebooks and not any(one.problem for one in files):
        others = sorted({one.path.suffix.lower()[:10] or "a file without an ending" for one in files})
        problems.append(f"no notebook (.ipynb) was handed in, only {', '.join(map(_name, others[:5]))}")
    read = notebooks[-EACH:]
    return Submission(
        _name(owner.name),
        _name(owner.identifier),
        tuple(one.file for one in read),
        tuple(_name(one.path.name) for one in read),
        tuple(problems),
        tuple(map(_name, owner.also)),
        owner.platform,
    )

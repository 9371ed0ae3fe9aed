"""Find what the students handed in: in a folder, or in the zip that a learning platform gives out."""

import re
import tempfile
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from vitnb.grading.student import LARGEST, UNREADABLE, readable

EACH = 20  # notebooks of one student
BYTES = 3 * LARGEST  # of one student's notebooks, as they come out of a zip
LETTERS = 200  # of a name

# Moodle: a folder a student; Canvas: a file a student.
MOODLE = re.compile(r"(?P<name>.+)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?$", re.DOTALL)
CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<id>\d+)_\d+_.+\.\w+$", re.DOTALL)
OTHERS = (".pdf", ".html", ".py", ".zip", ".docx", ".ipynb.txt", ".ipynb.json")  # handed in in a notebook's place
NOBODYS = ("__MACOSX", ".ipynb_checkpoints", ".git")


@dataclass(frozen=True)
class Submission:
    """One student's notebooks, in the order of their names, and why others of the files do not count."""

    student: str  # as the platform or the folder names them
    identifier: str  # the platform's number, or the same as student
    notebooks: tuple[Path, ...] = ()
    names: tuple[str, ...] = ()  # of the notebooks, as the student named them
    problems: tuple[str, ...] = ()


@dataclass
class Found:
    """One file that was handed in: how to get at it, or why not."""

    path: PurePosixPath  # below the folder of all submissions
    file: Path | None = None
    problem: str = ""


@contextmanager
def submissions(source: Path, alone: bool = False, but: Path | None = None) -> Iterator[list[Submission]]:
    """Give the submissions in a folder or a zip; what comes out of a zip is deleted afterwards.

    With alone=True all files are one student's, as Gradescope has it; the
    folder `but` is left out.
    Raises: FileNotFoundError if there is no such folder or zip; ValueError if nothing was handed in.
    """
    if source.is_dir():
        found = _in_folder(source, but)
        yield [_one("submission", "submission", found)] if alone else _grouped(found, source)
    elif source.is_file():
        with tempfile.TemporaryDirectory(prefix="vitnb-") as folder:
            yield _grouped(_in_zip(source, Path(folder)), source)
    else:
        raise FileNotFoundError(f"{source} is neither a folder nor a file; a folder of notebooks or a zip is wanted")


def is_notebook(path: PurePosixPath) -> bool:
    return path.suffix.lower() == ".ipynb"


def _in_folder(folder: Path, but: Path | None) -> list[Found]:
    """All files below a folder, no links, no copies that Jupyter keeps; a folder without any stands for itself."""
    found = []
    for path in sorted(folder.rglob("*")):
        below = PurePosixPath(path.relative_to(folder).as_posix())
        if set(NOBODYS).intersection(below.parts) or path.is_symlink() or path.name.startswith("."):
            continue
        if but is not None and path.absolute().is_relative_to(but.absolute()):
            continue
        if path.is_file():
            found.append(Found(below, path.absolute()))
        elif path.is_dir() and not any(path.iterdir()):
            found.append(Found(below / "nothing", problem="an empty folder"))
    return found


def _in_zip(source: Path, folder: Path) -> list[Found]:
    """Read the notebooks out of a zip, each into a file of our own naming: a name in a zip may lead anywhere."""
    if not zipfile.is_zipfile(source):
        raise ValueError(f"{source} is not a zip: a folder of notebooks or a zip is wanted")
    found = []
    with zipfile.ZipFile(source) as archive:
        entries = [(PurePosixPath(one.filename), one) for one in archive.infolist() if not one.is_dir()]
        entries = [(path, one) for path, one in entries if not set(NOBODYS).intersection(path.parts)]
        owner = _owners([path for path, _ in entries])
        left: dict[object, int] = {}
        for number, (path, one) in enumerate(entries):
            found.append(here := Found(path))
            if not is_notebook(path):
                continue
            most = min(LARGEST, left.setdefault(owner(path), BYTES))
            try:
                with archive.open(one) as packed:
                    text = packed.read(most + 1)  # whatever size its header announces
            except Exception as error:  # encrypted, damaged, packed in a way that Python does not know
                here.problem = f"it cannot be unpacked ({type(error).__name__})"
                continue
            if len(text) > most:
                here.problem = UNREADABLE
                continue
            left[owner(path)] -= len(text)
            here.file = folder / f"{number:05}.ipynb"
            here.file.write_bytes(text)
    return found


def _grouped(found: list[Found], source: Path) -> list[Submission]:
    owner = _owners([one.path for one in found])
    students: dict[tuple[str, str], list[Found]] = {}
    for one in sorted(found, key=lambda one: str(one.path)):
        if (who := owner(one.path)) is not None:
            students.setdefault(tuple(map(_name, who)), []).append(one)
    if not any(is_notebook(one.path) for files in students.values() for one in files):
        raise ValueError(f"{source} holds no notebook (*.ipynb)")
    return [_one(student, number, files) for (student, number), files in students.items()]


def _owners(paths: list[PurePosixPath]) -> Callable[[PurePosixPath], tuple[str, str] | None]:
    """How to tell whose a file is, by what the platform named: deeper names are the students' own choice."""
    folders = {path.parts[0] for path in paths if len(path.parts) > 1}
    files = [path for path in paths if len(path.parts) == 1]
    top = 1 if len(folders) == 1 and not files and not MOODLE.match(next(iter(folders))) else 0
    deeper = [path for path in paths if len(path.parts) > top + 1]
    moodle = any(MOODLE.match(path.parts[top]) for path in deeper)
    canvas = not moodle and any(len(path.parts) == top + 1 and CANVAS.match(path.name) for path in paths)
    if not moodle and not canvas:
        top = 0

    def owner(path: PurePosixPath) -> tuple[str, str] | None:
        parts = path.parts[top:]
        pattern = MOODLE if moodle and len(parts) > 1 else CANVAS if canvas and len(parts) == 1 else None
        if pattern and (met := pattern.match(parts[0])):
            return met["name"], met["id"]
        if len(parts) > 1:
            return parts[0], parts[0]
        if is_notebook(path):
            return path.stem, path.stem
        ending = next((one for one in OTHERS if path.name.lower().endswith(one)), None)
        return (path.name[: -len(ending)], path.name[: -len(ending)]) if ending else None  # else no student's file

    return owner


def _name(text: str) -> str:
    """A name that can be printed, written and compared: a Mac writes ä as two letters."""
    text = text.encode("utf-8", "replace").decode()
    return readable(unicodedata.normalize("NFC", text))[:LETTERS].strip() or "nameless"


def _one(student: str, identifier: str, files: list[Found]) -> Submission:
    notebooks = [one for one in files if is_notebook(one.path) and one.file is not None]
    problems = [f"{_name(one.path.name)}: {one.problem}" for one in files if one.problem]
    if len(notebooks) > EACH:
        problems.append(f"{len(notebooks)} notebooks were handed in: the first {EACH} by name are read")
    if not notebooks and not problems:
        others = sorted({one.path.suffix.lower()[:10] or "a file without an ending" for one in files})
        problems.append(f"no notebook (.ipynb) was handed in, only {', '.join(map(_name, others[:5]))}")
    read = notebooks[:EACH]
    paths, names = [one.file for one in read], [_name(one.path.name) for one in read]
    return Submission(student, identifier, tuple(paths), tuple(names), tuple(problems))

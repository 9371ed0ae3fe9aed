"""Find the students' notebooks: in a folder, or in the zip that a learning platform gives out."""

import re
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

LARGEST = 20 << 20  # bytes of one notebook
MOST = 5000  # notebooks

# Moodle: a folder a student; Canvas: a file a student.
MOODLE = re.compile(r"(?P<name>.+)_(?P<id>\d+)_assignsubmission_(?:file|onlinetext)_?$")
CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<id>\d+)_\d+_.+\.ipynb$")


@dataclass(frozen=True)
class Submission:
    """One student's notebooks, in the order of their names."""

    student: str  # as the platform or the folder names them
    identifier: str  # the platform's number, or the same as student
    notebooks: tuple[Path, ...]


def owner(path: PurePosixPath) -> tuple[str, str]:
    """Return (student, identifier) for a notebook's path below the folder of all submissions."""
    for part in path.parts[:-1]:
        if found := MOODLE.match(part):
            return found["name"], found["id"]
    if found := CANVAS.match(path.name):
        return found["name"], found["id"]
    name = path.parts[0] if len(path.parts) > 1 else path.stem
    return name, name


@contextmanager
def submissions(source: Path) -> Iterator[list[Submission]]:
    """Give the submissions in a folder or a zip; what comes out of a zip is deleted afterwards.

    Raises: FileNotFoundError if there is no such folder or zip; ValueError if it holds no notebook, or too much.
    """
    if source.is_dir():
        yield _grouped(
            {PurePosixPath(path.relative_to(source).as_posix()): path for path in _notebooks(source)}, source
        )
    elif source.is_file():
        with tempfile.TemporaryDirectory(prefix="vitnb-") as folder:
            yield _grouped(_unpacked(source, Path(folder)), source)
    else:
        raise FileNotFoundError(f"{source} is neither a folder nor a file; a folder of notebooks or a zip is wanted")


def _notebooks(folder: Path) -> list[Path]:
    """All notebooks below a folder, no links, no copies that Jupyter keeps."""
    found = (path for path in folder.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def _unpacked(source: Path, folder: Path) -> dict[PurePosixPath, Path]:
    """Read the notebooks out of a zip, each into a file of our own naming: a name in a zip may lead anywhere."""
    if not zipfile.is_zipfile(source):
        raise ValueError(f"{source} is not a zip: a folder of notebooks or a zip is wanted")
    found = {}
    with zipfile.ZipFile(source) as archive:
        names = [one for one in archive.infolist() if one.filename.endswith(".ipynb") and not one.is_dir()]
        if len(names) > MOST:
            raise ValueError(f"{source} holds {len(names)} notebooks: at most {MOST}")
        for number, one in enumerate(names):
            path = PurePosixPath(one.filename)
            if ".ipynb_checkpoints" in path.parts or "__MACOSX" in path.parts:
                continue
            with archive.open(one) as packed:
                text = packed.read(LARGEST + 1)  # whatever size its header announces
            if len(text) > LARGEST:
                raise ValueError(f"{one.filename} in {source} is larger than {LARGEST >> 20} MB")
            found[path] = folder / f"{number:05}.ipynb"
            found[path].write_bytes(text)
    return found


def _grouped(found: dict[PurePosixPath, Path], source: Path) -> list[Submission]:
    if not found:
        raise ValueError(f"{source} holds no notebook (*.ipynb)")
    students: dict[tuple[str, str], list[Path]] = {}
    for name, path in sorted(found.items()):
        students.setdefault(owner(name), []).append(path.resolve())
    return [Submission(student, number, tuple(paths)) for (student, number), paths in students.items()]

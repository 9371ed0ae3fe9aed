"""Files that are whole or not there."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike) -> Iterator[Path]:
    """Give the path of a new file beside this one, which takes its place when the block ends well.

    Until the new file is complete on the disk, whoever reads finds the old one;
    if the block raises, the old one stays and the new one goes. Missing folders
    are made. A name of its own, and a file that the block opens: two writers do
    not meet, and the file can be read by whom any new file can.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        yield part
        with part.open("r+b") as file:  # Windows writes out no file that is open for reading only
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)

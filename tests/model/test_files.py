"""A file that is being replaced: the old one or the new one, and nothing else."""

import os
import re
from pathlib import Path

import pytest

from vitnb._files import replacing

ROOT = Path(__file__).resolve().parents[2]


def test_a_block_that_ends_well_replaces_the_file_and_makes_its_folders(tmp_path):
    path = tmp_path / "new" / "folder" / "note.txt"
    for text in ("old", "new"):
        with replacing(path) as part:
            assert part.parent == path.parent and not part.exists()
            part.write_text(text)
            assert not path.exists() or path.read_text() == "old"
        assert path.read_text() == text
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_block_that_fails_leaves_the_old_file_and_no_other(tmp_path, error):
    path = tmp_path / "note.txt"
    path.write_text("old")
    with pytest.raises(type(error)), replacing(path) as part:
        part.write_text("ne")
        raise error
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]


def test_a_block_that_writes_nothing_is_an_error_and_keeps_the_old_file(tmp_path):
    path = tmp_path / "note.txt"
    path.write_text("old")
    with pytest.raises(FileNotFoundError), replacing(path):
        pass
    assert path.read_text() == "old"


def test_the_file_is_on_the_disk_before_it_gets_its_name(tmp_path, monkeypatch):
    done, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: os.write(fd, b"") or fsync(fd))  # Windows: only what can be written to
    for name in ("fsync", "replace"):
        call = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *given, name=name, call=call: done.append(name) or call(*given))
    with replacing(tmp_path / "note.txt") as part:
        part.write_text("new")
    assert done == ["fsync", "replace"]


def test_two_writers_do_not_meet(tmp_path):
    with replacing(tmp_path / "note.txt") as one, replacing(tmp_path / "note.txt") as other:
        assert one != other
        one.write_text("one")
        other.write_text("other")
    assert (tmp_path / "note.txt").read_text() == "one"  # it ends last


def test_no_other_code_replaces_files_by_hand():
    folders = (ROOT / folder for folder in ("vitnb", "vitbook", "experiments", "pages", "tools"))
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        by_hand = path.name != "_files.py" and re.search(r"os\.re(place|name)\(|\bpart\.replace\(", path.read_text())
        assert not by_hand, f"{path}: use vitnb._files.replacing"

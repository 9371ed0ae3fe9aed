"""What lasts: each student's verdicts, written when they are there, and the points that a teacher sets by hand."""

import contextlib
import hashlib
import json
import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from vitbook.grading import sheets
from vitbook.grading.layouts import natural
from vitbook.grading.reports import Grade
from vitbook.grading.student import Verdict
from vitbook.grading.submissions import Submission

Key = tuple[str, str]  # a student's name and identifier
BY_HAND = ("student", "exercise", "points", "reason")


class Basis(NamedTuple):
    """What verdicts depend on, as 64 letters each."""

    notebooks: str
    settings: str


def key(one: Submission) -> Key:
    return one.student, one.identifier


def called(some: Iterable[Key], everybody: Iterable[Key]) -> str:
    """The names of some students, each with its identifier where two of all have one name."""
    times = Counter(name for name, _ in everybody)
    return ", ".join(name if times[name] < 2 else f"{name} ({identifier})" for name, identifier in sorted(some))


class Marks:
    """The verdicts in a folder of results, from all runs: a line of marks.jsonl a student, of which the last counts."""

    def __init__(self, folder: Path):
        self.path = folder / "marks.jsonl"
        self.said: dict[Key, dict] = {}
        self.seen: defaultdict[Key, set[str]] = defaultdict(set)  # the notebooks of a student that were judged
        for line in self.path.read_bytes().splitlines() if self.path.exists() else ():
            with contextlib.suppress(ValueError):  # the machine stopped while it was written
                self._hold(json.loads(line))

    def _hold(self, line: dict) -> None:
        who = line["submission"]["student"], line["submission"]["identifier"]
        self.said[who] = line
        self.seen[who].add(line["notebooks"])

    def keep(self, grade: Grade, basis: Basis) -> None:
        """Write a student's verdicts, and what they are based on, so that they are there whatever happens next."""
        settings = "" if grade.failed else basis.settings
        line = json.dumps({"notebooks": basis.notebooks, "settings": settings, **asdict(grade)}, default=str)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")  # the line before may have been cut off
            file.flush()
            os.fsync(file.fileno())
        self._hold(json.loads(line))

    def complete(self, student: Key, numbers: Iterable[str]) -> bool:
        """Whether there is a verdict on each of these exercises."""
        return student in self.said and set(numbers) <= set(self.said[student]["verdicts"])

    def stand(self, one: Submission, basis: Basis, numbers: Iterable[str]) -> bool:
        """Whether just these notebooks have been judged, on all these exercises."""
        last = self.said.get(key(one), {})
        return self.complete(key(one), numbers) and (last["notebooks"], last["settings"]) == basis

    def overtaken(self, student: Key, basis: Basis) -> bool:
        """Whether other notebooks of this student were judged since these were: an extension, for example."""
        return basis.notebooks in self.seen[student] and self.said[student]["notebooks"] != basis.notebooks

    def grades(self, worth: dict[str, float]) -> list[Grade]:
        """The grades of all whose verdicts are complete, in the order of their names."""
        students = sorted(self.said, key=lambda who: [natural(one) for one in who])
        return [self._grade(self.said[who], worth) for who in students if self.complete(who, worth)]

    def _grade(self, said: dict, worth: dict[str, float]) -> Grade:
        who = {name: tuple(value) if type(value) is list else value for name, value in said["submission"].items()}
        verdicts = {n: Verdict(**said["verdicts"][n]) for n in worth}
        return Grade(Submission(**who), verdicts, worth, said["seconds"], said["notes"])


def basis(one: Submission, *settings: object) -> Basis:
    """What the verdicts on a submission depend on: its notebooks and how they are judged."""
    read = []
    for path in one.notebooks:
        with contextlib.suppress(OSError), path.open("rb") as file:
            read.append(hashlib.file_digest(file, "sha256").hexdigest())
    parts = (read, one.names, one.problems), settings
    return Basis(*(hashlib.sha256(repr(part).encode()).hexdigest() for part in parts))


def meant(who: str, students: Collection[Key]) -> Key:
    """The student of this name or identifier. Raises: ValueError if there is none, or more than one."""
    found = [one for one in students if who in one]
    found = found or [one for one in students if sheets.folded(who) in map(sheets.folded, one)]
    if len(found) > 1:
        raise ValueError(f"{len(found)} students are called {who!r}: use an identifier")
    if not found:
        raise ValueError(f"nobody is called {who!r}: use a student or an identifier of grades.csv")
    return found[0]


def by_hand(path: Path, students: Collection[Key], worth: Collection[str]) -> dict[Key, dict[str, tuple[float, str]]]:
    """The points that a teacher has set: {student: {exercise: (points, reason)}}. A missing table is made, empty.

    Raises: ValueError for a row that means no student or several, no exercise, or no number of points.
    """
    if not path.exists():
        path.write_text(",".join(BY_HAND) + "\n", encoding="utf-8")
    found: dict[Key, dict[str, tuple[float, str]]] = {}
    for line, row in sheets.table(path, BY_HAND):
        number, points = row["exercise"], row["points"].replace(",", ".")
        try:
            student = meant(row["student"], students)
            if number not in worth:
                raise ValueError(f"{number!r} is not graded here: use one of {', '.join(worth)}")
            if not re.fullmatch(r"\d+(\.\d+)?", points):
                raise ValueError(f"{points!r} is not a number of points: use 1.5, for example")
        except ValueError as error:
            raise ValueError(f"{path}, line {line}: {error}") from None
        found.setdefault(student, {})[number] = float(points), row["reason"]
    return found

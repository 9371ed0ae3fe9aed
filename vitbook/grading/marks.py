"""What lasts: each student's verdicts, written when they are there, and the points that a teacher sets by hand."""

import contextlib
import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable
from dataclasses import asdict
from pathlib import Path

from vitbook.grading import sheets
from vitbook.grading.layouts import natural
from vitbook.grading.reports import Grade
from vitbook.grading.student import Verdict
from vitbook.grading.submissions import Submission

Key = tuple[str, str]  # a student's name and identifier
BY_HAND = ("student", "exercise", "points", "reason")


def key(one: Submission) -> Key:
    return one.student, one.identifier


class Marks:
    """The verdicts in a folder of results, from all runs: a line of marks.jsonl a student, of which the last counts."""

    def __init__(self, folder: Path):
        self.path = folder / "marks.jsonl"
        self.said: dict[Key, dict] = {}
        for line in self.path.read_bytes().splitlines() if self.path.exists() else ():
            with contextlib.suppress(ValueError):  # the machine stopped while it was written
                one = json.loads(line)
                self.said[one["submission"]["student"], one["submission"]["identifier"]] = one

    def keep(self, grade: Grade, basis: str) -> None:
        """Write a student's verdicts, and what they are based on, so that they are there whatever happens next."""
        line = json.dumps({"basis": "" if grade.failed else basis, **asdict(grade)}, default=str)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"\n{line}\n")  # the line before may have been cut off
            file.flush()
            os.fsync(file.fileno())
        self.said[key(grade.submission)] = json.loads(line)

    def complete(self, student: Key, numbers: Iterable[str]) -> bool:
        """Whether there is a verdict on each of these exercises."""
        return student in self.said and set(numbers) <= set(self.said[student]["verdicts"])

    def stand(self, one: Submission, basis: str, numbers: Iterable[str]) -> bool:
        """Whether just these notebooks have been judged, on all these exercises."""
        return self.complete(key(one), numbers) and self.said[key(one)]["basis"] == basis

    def grades(self, worth: dict[str, float]) -> list[Grade]:
        """The grades of all whose verdicts are complete, in the order of their names."""
        students = sorted(self.said, key=lambda who: [natural(one) for one in who])
        return [self._grade(self.said[who], worth) for who in students if self.complete(who, worth)]

    def _grade(self, said: dict, worth: dict[str, float]) -> Grade:
        who = {name: tuple(value) if type(value) is list else value for name, value in said["submission"].items()}
        verdicts = {n: Verdict(**said["verdicts"][n]) for n in worth}
        return Grade(Submission(**who), verdicts, worth, said["seconds"], said["notes"])


def basis(one: Submission, *settings: object) -> str:
    """What the verdicts on a submission depend on, in 64 letters: its notebooks and how they are judged."""
    read = []
    for path in one.notebooks:
        with contextlib.suppress(OSError), path.open("rb") as file:
            read.append(hashlib.file_digest(file, "sha256").hexdigest())
    return hashlib.sha256(repr((read, one.names, one.problems, *settings)).encode()).hexdigest()


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

"""What a teacher and a student get: one table, the platform's own sheet filled in, one page a student."""

import csv
import html
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vitnb._files import replacing
from vitnb.grading.student import Verdict
from vitnb.grading.submissions import Submission

FIELDS = ("student", "identifier", "exercise", "points", "of", "verdict", "judged", "look", "seconds")
KEYS = ("ID", "Identifier", "SIS User ID", "SIS Login ID", "ID number", "Student", "Full name")  # names come last
NO_STUDENTS = ("", "Points Possible", "Student, Test", "Test Student")  # rows of Canvas


@dataclass
class Grade:
    """One student's verdicts, and the points that each is worth."""

    submission: Submission
    verdicts: dict[str, Verdict]
    worth: dict[str, float]
    seconds: float = 0.0
    notes: dict[str, str] = field(default_factory=dict)  # exercise -> what to look at besides its verdict

    def points(self, number: str) -> float:
        return self.worth[number] if self.verdicts[number].right else 0.0

    @property
    def total(self) -> float:
        return sum(map(self.points, self.verdicts))


def cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula; all cells are quoted besides, as some split at semicolons."""
    return f"'{text}" if unicodedata.normalize("NFKC", text[:1]) in ("=", "+", "-", "@", "\t", "\r", "\n") else text


def files(grades: Sequence[Grade]) -> list[str]:
    """A file's name for each student: no two the same, none too long for a disk, nothing in it but letters."""
    names: list[str] = []
    for grade in grades:
        one = grade.submission
        text = one.student if one.student == one.identifier else f"{one.student}-{one.identifier}"
        plain = re.sub(r"[^\w.-]+", "-", text).strip("-.").encode()[:100].decode(errors="ignore") or "student"
        taken = {name.casefold() for name in names}
        rest = (f"-{n}" for n in range(2, len(grades) + 2))
        names.append(next(name for name in [plain, *[plain + end for end in rest]] if name.casefold() not in taken))
    return names


def table(grades: Sequence[Grade], path: Path) -> None:
    """Write one row a student and exercise."""
    with replacing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, quoting=csv.QUOTE_ALL)
        rows.writerow(FIELDS)
        for grade in grades:
            who = cell(grade.submission.student), cell(grade.submission.identifier)
            for number, verdict in grade.verdicts.items():
                score = f"{grade.points(number):g}", f"{grade.worth[number]:g}"
                look = "; ".join(filter(None, (verdict.suspect, grade.notes.get(number))))
                said = cell(verdict.sentence), verdict.where, cell(look)
                rows.writerow([*who, number, *score, *said, f"{grade.seconds:.1f}"])


def sheet(grades: Sequence[Grade], exported: Path, column: str, path: Path) -> tuple[list[str], list[str]]:
    """Fill the total into a copy of the sheet that a platform exported.

    Returns the students that it does not list (or who share a name and have no
    number), and those of the sheet who handed nothing in.
    Canvas's gradebook and Moodle's grading worksheet are met by their own
    columns (Identifier, ID, ...). No column and no row is added: Canvas would
    make an assignment of a new column.
    Raises: ValueError if the sheet has no such column, or none that says who is who.
    """
    rows, head, keys = head_of(exported, column)
    feedback = head.index("Feedback comments") if "Feedback comments" in head else None
    left: dict[str, Grade | None] = {}
    for grade in grades:
        for name in {grade.submission.student, grade.submission.identifier}:
            left[name] = None if name in left else grade  # one name, two students: only numbers count
    met, absent = set(), []
    for row in rows[1:]:
        names = [_plain(row[key]).removeprefix("Participant ") for key in keys if key < len(row)]
        grade = next((left[name] for name in names if left.get(name)), None)
        if grade is None:
            absent += [names[-1]] if any(names) and names[-1] not in NO_STUDENTS else []
            continue
        row[head.index(column)] = f"{grade.total:g}"
        if feedback is not None:
            row[feedback] = cell(
                " ".join(f"{n}: {v.sentence.removeprefix(f'{n}: ')}" for n, v in grade.verdicts.items())
            )
        met.add(id(grade))
    with replacing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return [grade.submission.student for grade in grades if id(grade) not in met], absent


def _plain(text: str) -> str:
    return unicodedata.normalize("NFC", text).strip()


def head_of(exported: Path, column: str) -> tuple[list[list[str]], list[str], list[int]]:
    """Read a platform's sheet: its rows, its head, and where in it stands who is who; ValueError as for sheet."""
    with exported.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.reader(file))
    head = rows[0] if rows else []
    if column not in head:
        raise ValueError(f"{exported} has no column {column!r}: one of {head} is wanted (--column)")
    keys = [head.index(key) for key in KEYS if key in head]
    if not keys:
        raise ValueError(f"{exported} has none of the columns {', '.join(KEYS)}: who is who cannot be told")
    return rows, head, keys


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 2rem auto; padding: 0 1rem }}
h2 {{ font-size: 1.1rem; margin: 1.5rem 0 .2rem }} p {{ margin: 0 }}
:root {{ color-scheme: light dark }}</style></head>
<body><main><h1>{title}</h1><p>{total} of {worth} points</p>{problems}{parts}</main></body></html>
"""


def page(grade: Grade) -> str:
    """One student's page: each exercise, its points, the check's own sentence. Nothing of a test is in it."""
    parts = []
    for number, verdict in grade.verdicts.items():
        mark = "right" if verdict.right else "not yet"
        points = f"{grade.points(number):g} of {grade.worth[number]:g}"
        parts.append(f"<h2>{html.escape(number)}: {mark} ({points})</h2><p>{html.escape(verdict.sentence)}</p>")
    title = f"Exercises of {html.escape(grade.submission.student)}"
    worth = sum(grade.worth[n] for n in grade.verdicts)
    problems = "".join(f"<p>{html.escape(one)}</p>" for one in grade.submission.problems)
    return PAGE.format(
        title=title, total=f"{grade.total:g}", worth=f"{worth:g}", problems=problems, parts="".join(parts)
    )


def gradescope(grade: Grade) -> str:
    """The results.json that Gradescope reads; every text in it is plain, whatever a student wrote."""
    tests = [
        {
            "name": number,
            "name_format": "text",
            "score": grade.points(number),
            "max_score": grade.worth[number],
            "status": "passed" if verdict.right else "failed",
            "output": verdict.sentence,
            "output_format": "text",
            "visibility": "visible",
        }
        for number, verdict in grade.verdicts.items()
    ]
    said = " ".join([*grade.submission.problems, *sorted(set(grade.notes.values()))])
    about = {"output": said, "output_format": "text", "visibility": "visible", "stdout_visibility": "hidden"}
    return json.dumps({**about, "tests": tests, "execution_time": round(grade.seconds)}, indent=1)

"""What a teacher and a student get: one table, the platform's own sheet filled in, one page a student."""

import csv
import html
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vitnb._files import replacing
from vitnb.grading.student import Verdict
from vitnb.grading.submissions import Submission

FIELDS = ("student", "identifier", "exercise", "points", "of", "verdict", "judged", "look", "seconds")
KEYS = ("ID", "Identifier", "SIS User ID", "SIS Login ID", "ID number", "Student", "Full name")


@dataclass
class Grade:
    """One student's verdicts, and the points that each is worth."""

    submission: Submission
    verdicts: dict[str, Verdict]
    worth: dict[str, float]
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    def points(self, number: str) -> float:
        return self.worth[number] if self.verdicts[number].right else 0.0

    @property
    def total(self) -> float:
        return sum(map(self.points, self.verdicts))


def cell(text: str) -> str:
    """Text that no spreadsheet takes for a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def table(grades: Sequence[Grade], path: Path) -> None:
    """Write one row a student and exercise."""
    with replacing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(FIELDS)
        for grade in grades:
            who = cell(grade.submission.student), cell(grade.submission.identifier)
            for number, verdict in grade.verdicts.items():
                score = f"{grade.points(number):g}", f"{grade.worth[number]:g}"
                said = cell(verdict.sentence), verdict.where, verdict.suspect
                rows.writerow([*who, number, *score, *said, f"{grade.seconds:.1f}"])


def sheet(grades: Sequence[Grade], exported: Path, column: str, path: Path) -> list[str]:
    """Fill the total into a copy of the sheet that a platform exported; return the students it does not list.

    Canvas's gradebook and Moodle's grading worksheet are met by their own
    columns (Identifier, ID, ...). No column and no row is added: Canvas would
    make an assignment of a new column.
    Raises: ValueError if the sheet has no such column, or none that says who is who.
    """
    rows, head, keys = head_of(exported, column)
    feedback = head.index("Feedback comments") if "Feedback comments" in head else None
    left = {name.strip(): grade for grade in grades for name in {grade.submission.student, grade.submission.identifier}}
    met = set()
    for row in rows[1:]:
        names = [row[key].strip().removeprefix("Participant ") for key in keys if key < len(row)]
        grade = next((left[name] for name in names if name in left), None)
        if grade is not None:
            row[head.index(column)] = f"{grade.total:g}"
            if feedback is not None:
                row[feedback] = cell(
                    " ".join(f"{n}: {v.sentence.removeprefix(f'{n}: ')}" for n, v in grade.verdicts.items())
                )
            met.add(id(grade))
    with replacing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    return [grade.submission.student for grade in grades if id(grade) not in met]


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
<body><main><h1>{title}</h1><p>{total} of {worth} points</p>{parts}</main></body></html>
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
    return PAGE.format(title=title, total=f"{grade.total:g}", worth=f"{worth:g}", parts="".join(parts))


def gradescope(grade: Grade) -> str:
    """The results.json that Gradescope reads."""
    tests = [
        {
            "name": number,
            "score": grade.points(number),
            "max_score": grade.worth[number],
            "status": "passed" if verdict.right else "failed",
            "output": verdict.sentence,
        }
        for number, verdict in grade.verdicts.items()
    ]
    return json.dumps({"tests": tests, "execution_time": round(grade.seconds)}, indent=1)

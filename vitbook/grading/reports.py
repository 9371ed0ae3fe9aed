"""What a teacher and a student get: one table, the platform's own sheet filled in, one page a student."""

import csv
import html
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vitbook.grading import sheets
from vitbook.grading.sheets import cell
from vitbook.grading.student import Verdict
from vitbook.grading.submissions import Submission
from vitnb._files import replacing

FIELDS = ("student", "identifier", "exercise", "points", "of", "verdict", "judged", "look", "seconds")


@dataclass
class Grade:
    """One student's verdicts, and the points that each is worth."""

    submission: Submission
    verdicts: dict[str, Verdict]
    worth: dict[str, float]
    seconds: float = 0.0
    notes: dict[str, str] = field(default_factory=dict)  # exercise -> what to look at besides its verdict
    unclear: str = ""  # why its points are in no row of the sheet

    def points(self, number: str) -> float:
        return self.worth[number] if self.verdicts[number].right else 0.0

    @property
    def doubtful(self) -> bool:
        """Whether a person should look at it."""
        return bool(self.unclear or self.submission.problems or any(one.suspect for one in self.verdicts.values()))

    @property
    def total(self) -> float:
        return sum(map(self.points, self.verdicts))


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
                look = "; ".join(filter(None, (verdict.suspect, grade.notes.get(number), grade.unclear)))
                said = cell(verdict.sentence), verdict.where, cell(look)
                rows.writerow([*who, number, *score, *said, f"{grade.seconds:.1f}"])


def sheet(
    grades: Sequence[Grade], exported: Path, column: str | None, path: Path, key: str | None = None
) -> tuple[list[str], list[str]]:
    """Fill the total into a copy of the sheet that a platform exported.

    Returns the students who got no row, as the sheet does not list them or
    leaves in doubt which is theirs (then `unclear` of their grade says why),
    and those of the sheet who handed nothing in. No column and no row is
    added: Canvas would make an assignment of a new column.
    Raises: ValueError if the sheet has no such column, or none that says who is who.
    """
    filled = sheets.read(exported, column, key)
    matched = filled.matched([grade.submission for grade in grades])
    for n, grade in enumerate(grades):
        grade.unclear = filled.unclear.get(n, "")
        if n in matched:
            said = " ".join(f"{n}: {v.sentence.removeprefix(f'{n}: ')}" for n, v in grade.verdicts.items())
            filled.fill(matched[n], grade.total, said)
    filled.write(path)
    rest = [row for row in filled.students() if row not in {*matched.values(), *filled.doubtful}]
    missed = [grade.submission.student for n, grade in enumerate(grades) if n not in matched]
    return missed, [filled.name(row) for row in rest]


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

"""What a teacher and a student get: one table, the platform's own sheet filled in, one page a student."""

import csv
import html
import re
import textwrap
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vitbook.exercises import engine
from vitbook.grading import sheets
from vitbook.grading.sheets import cell
from vitbook.grading.student import Verdict, readable
from vitbook.grading.submissions import Submission
from vitnb._files import replacing

COMMONEST = 6  # mistakes in an exercise that are shown
NAME = re.compile(r"\{[^{}]*\}")  # in a message, for what differs from case to case
OWN = re.compile(r"'[^']*'|`[^`]*`|-?\d+(\.\d+)?(e-?\d+)?")  # in a sentence: of one answer alone
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
    older: str = ""  # other points, which its row of the sheet has and keeps
    partial: bool = False  # whether a wrong answer gets points for the parts of it that are right
    failed: bool = False  # the grader itself could not go on: the next run tries again
    by_hand: dict[str, tuple[float, str]] = field(default_factory=dict)  # exercise -> a teacher's points, and why

    def points(self, number: str) -> float:
        if number in self.by_hand:
            return self.by_hand[number][0]
        verdict = self.verdicts[number]
        return self.worth[number] if verdict.right else round(self.worth[number] * verdict.share * self.partial, 2)

    def said(self, number: str) -> str:
        """What a student reads of an exercise: the check's own sentence, and why a person gave other points."""
        points, reason = self.by_hand.get(number, (0.0, ""))
        by_hand = f"Points given by hand: {points:g}{f' ({readable(reason)})' if reason else ''}."
        return f"{self.verdicts[number].sentence} {by_hand if number in self.by_hand else ''}".strip()

    @property
    def doubtful(self) -> bool:
        """Whether a person should look at it, and has not given points by hand yet."""
        suspect = any(one.suspect and n not in self.by_hand for n, one in self.verdicts.items())
        return bool(self.unclear or self.submission.problems or suspect)

    @property
    def unread(self) -> bool:
        """Whether nothing that was handed in could be run."""
        return not self.submission.notebooks or all(one.unread for one in self.verdicts.values())

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
                said = cell(grade.said(number)), verdict.where, cell(look)
                rows.writerow([*who, number, *score, *said, f"{grade.seconds:.1f}"])


def sheet(
    grades: Sequence[Grade],
    exported: Path,
    column: str | None,
    path: Path,
    key: str | None = None,
    overwrite: bool = False,
) -> tuple[list[str], list[str]]:
    """Fill the total into a copy of the sheet that a platform exported.

    Returns the students who got no row, as the sheet does not list them or
    leaves in doubt which is theirs (then `unclear` of their grade says why),
    and those of the sheet who handed nothing in. No column and no row is
    added: Canvas would make an assignment of a new column. Other points that
    stand there stay (then they are in `older` of the grade), unless they are to be overwritten.
    Raises: ValueError if the sheet has no such column, or none that says who is who.
    """
    filled = sheets.read(exported, column, key)
    matched = filled.matched([grade.submission for grade in grades])
    for n, grade in enumerate(grades):
        grade.unclear = filled.unclear.get(n, "")
        if n in matched:
            said = " ".join(f"{n}: {grade.said(n).removeprefix(f'{n}: ')}" for n in grade.verdicts)
            grade.older = filled.fill(matched[n], grade.total, said, overwrite)
    filled.write(path)
    rest = [row for row in filled.students() if row not in {*matched.values(), *filled.doubtful}]
    missed = [grade.submission.student for n, grade in enumerate(grades) if n not in matched]
    return missed, [filled.name(row) for row in rest]


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>body {{ font: 1rem/1.5 system-ui, sans-serif; max-width: 42rem; margin: 2rem auto; padding: 0 1rem }}
h2 {{ font-size: 1.1rem; margin: 1.5rem 0 .2rem }} p, ul {{ margin: 0 }} meter {{ width: 100% }}
:root {{ color-scheme: light dark }}</style></head>
<body><main><h1>{title}</h1>{parts}</main></body></html>
"""


def page(grade: Grade) -> str:
    """One student's page: each exercise, its points, the check's own sentence. Nothing of a test is in it."""
    worth = sum(grade.worth[n] for n in grade.verdicts)
    parts = [f"<p>{grade.total:g} of {worth:g} points</p>"]
    parts += [f"<p>{html.escape(one)}</p>" for one in grade.submission.problems]
    for number, verdict in grade.verdicts.items():
        mark = "right" if verdict.right else "partly right" if grade.points(number) else "not yet"
        points = f"{grade.points(number):g} of {grade.worth[number]:g}"
        parts.append(f"<h2>{html.escape(number)}: {mark} ({points})</h2><p>{html.escape(grade.said(number))}</p>")
    return PAGE.format(title=f"Exercises of {html.escape(grade.submission.student)}", parts="".join(parts))


def moodle(grades: Sequence[Grade], path: Path) -> None:
    """Write the pages as the zip that Moodle takes as feedback files: it reads whose a file is from its name."""
    with replacing(path) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for one in grades:
            name = re.sub(r"[\W_]+", " ", one.submission.student).strip() or "student"
            archive.writestr(f"{name}_{one.submission.identifier}_assignfeedback_file_feedback.html", page(one))


def lecture(grades: Sequence[Grade]) -> str:
    """What the class does not understand, the hardest exercise first: how many are right, and the commonest mistakes.

    It is there to be shown: no name and nothing that a student wrote is in it.
    """
    parts = []
    for number in grades[0].worth:
        said = [one.verdicts[number] for one in grades]
        right, absent = sum(one.right for one in said), sum(not one.right and not one.answers for one in said)
        mistakes = Counter(mistake(number, one.sentence) for one in said if one.answers and not one.right)
        head = f"{html.escape(number)}: {right} of {len(said)} right, {absent} without an answer to judge"
        rows = "".join(f"<li>{count}: {html.escape(text)}</li>" for text, count in mistakes.most_common(COMMONEST))
        parts.append((right, f"<h2>{head}</h2><meter value={right} max={len(said)}></meter><ul>{rows}</ul>"))
    return PAGE.format(title="What the class did", parts="".join(text for _, text in sorted(parts)))


def mistake(number: str, sentence: str) -> str:
    """What is wrong with an answer, in words that are the same for all who made the same mistake."""
    messages = engine.EXERCISES[number].mistakes
    if known := [one for one in messages if re.search(".*?".join(map(re.escape, NAME.split(one))), sentence)]:
        return general(max(known, key=len))
    said = re.sub(r" Hint: check\(.*", "", sentence)
    if raised := re.match(r"Your function raises \w+", said):  # what follows is a student's own
        return f"{raised[0]}."
    return textwrap.shorten(OWN.sub("…", said), 300, placeholder=" …")


def general(message: str) -> str:
    """A message as it is for every case."""
    return NAME.sub("…", message)

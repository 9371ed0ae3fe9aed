"""vitnb-grade: grade a folder or a zip of notebooks in a sandbox."""

import argparse
import importlib.util
import re
import sys
import time
import zipfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import cloudpickle

from vitnb._files import replacing
from vitnb.checks import engine
from vitnb.grading import reports, sandbox, student
from vitnb.grading.submissions import Submission, submissions


def main(arguments: Sequence[str] | None = None) -> int:
    """Grade, write the results, say what was done. Returns 0, or 2 if nothing could be graded."""
    options = parser().parse_args(arguments)
    options.course = options.course and options.course.resolve()  # each notebook is run in a folder of its own
    try:
        return bundle(options) if options.bundle else grade(options)
    except (ValueError, OSError, ImportError) as error:
        print(f"vitnb-grade: {error}", file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("vitnb-grade", description=__doc__)
    made.add_argument("source", type=Path, help="a folder of notebooks, or the zip of Moodle or Canvas")
    made.add_argument(
        "--exercises", nargs="+", required=True, metavar="N", help="for example 3.1 3.2, or 3.1=2 for two points"
    )
    made.add_argument(
        "--course", type=Path, metavar="FILE.py", help="a teacher's own exercises, in the form of vitnb.checks"
    )
    made.add_argument("--out", type=Path, default=Path("graded"), help="folder for grades.csv and feedback/ (graded)")
    made.add_argument(
        "--sheet", type=Path, metavar="FILE.csv", help="the sheet that the platform exported, to be filled in"
    )
    made.add_argument("--column", default="Grade", help="its column for the points (Grade, as Moodle has it)")
    made.add_argument("--jobs", type=int, default=2, help="notebooks at a time (2)")
    made.add_argument("--seconds", type=float, default=student.SECONDS, help="by the clock, for one exercise (30)")
    made.add_argument("--sandbox", choices=sandbox.WAYS, help="this one, instead of the best that works")
    made.add_argument("--gradescope", type=Path, metavar="FILE", help="write Gradescope's results.json for one student")
    made.add_argument(
        "--bundle", type=Path, metavar="FILE.zip", help="write an autograder for Gradescope and grade nothing"
    )
    return made


def chosen(exercises: Sequence[str], course: Path | None) -> dict[str, float]:
    """Return exercise -> points, after a teacher's own file was read.

    Raises: ValueError for an exercise that does not exist, or points that are no number.
    """
    if course is not None:
        load(course)
    worth = {}
    for text in exercises:
        number, _, points = text.partition("=")
        if number not in engine.EXERCISES:
            raise ValueError(f"there is no exercise {number!r}: one of {', '.join(engine.EXERCISES)} is wanted")
        if not re.fullmatch(r"(\d+(\.\d+)?)?", points):
            raise ValueError(f"{text!r} is worth no number of points: {number}=2 would be")
        worth[number] = float(points or 1)
    return worth


def load(course: Path) -> None:
    """Register the exercises of a teacher's file, and let them travel into the sandbox as objects, never as a file."""
    if not course.is_file():
        raise FileNotFoundError(f"{course} is no file: Python with exercises in the form of vitnb.checks is wanted")
    before = set(engine.EXERCISES)
    spec = importlib.util.spec_from_file_location("vitnb_course", course)
    module = sys.modules["vitnb_course"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)
    student.INSIDE |= set(getattr(module, "INSIDE", ()))
    student.COURSE |= set(engine.EXERCISES) - before


def grade(options: argparse.Namespace) -> int:
    worth = chosen(options.exercises, options.course)
    way, reasons = (
        (options.sandbox, {options.sandbox: sandbox.works(options.sandbox)}) if options.sandbox else sandbox.best()
    )
    if way is None or reasons[way]:
        said = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise OSError(
            f"no sandbox works here, so nothing was run ({said}). Install bubblewrap, or use Linux 5.13 or newer."
        )
    if options.sheet:
        reports.head_of(options.sheet, options.column)  # before an hour's work, not after it
    print(f"Sandbox: {way}")
    with submissions(options.source) as found:
        for one in (options.out, options.out / "feedback"):
            one.mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        # Processes, not threads: a check sets torch's settings, draws random numbers and prints.
        jobs, ready = max(1, options.jobs), (options.course,) if options.course else ()
        with ProcessPoolExecutor(jobs, get_context("spawn"), load if ready else None, ready) as pool:
            grades = list(
                pool.map(partial(graded, way, worth=worth, course=options.course, seconds=options.seconds), found)
            )
    reports.table(grades, options.out / "grades.csv")
    for one in grades:
        name = re.sub(r"[^\w.-]+", "-", f"{one.submission.student}-{one.submission.identifier}").strip("-.")
        with replacing(options.out / "feedback" / f"{name[:120] or 'student'}.html") as part:
            part.write_text(reports.page(one), encoding="utf-8")
    if options.sheet:
        missed = reports.sheet(grades, options.sheet, options.column, options.out / options.sheet.name)
        print(
            f"Filled in: {options.out / options.sheet.name}"
            + (f"; not listed in it: {', '.join(missed)}" if missed else "")
        )
    if options.gradescope:
        options.gradescope.write_text(reports.gradescope(grades[0]), encoding="utf-8")
    look = sorted({one.submission.student for one in grades for v in one.verdicts.values() if v.suspect})
    seconds = time.monotonic() - start
    print(
        f"{len(grades)} students in {seconds:.0f} s ({seconds / len(grades):.1f} s each): {options.out / 'grades.csv'}"
    )
    if look:
        print(f"Look at these yourself: {', '.join(look)}")
    return 0


def graded(
    way: str, submission: Submission, worth: dict[str, float], course: Path | None, seconds: float
) -> reports.Grade:
    """Judge all notebooks of a student: an exercise counts as its last notebook that answers it has it."""
    start, verdicts = time.monotonic(), {}
    for notebook in submission.notebooks:
        for number, verdict in student.judge(way, notebook, list(worth), course, seconds).items():
            if number not in verdicts or not verdict.sentence.startswith(f"{number}: not done yet."):
                verdicts[number] = verdict
    return reports.Grade(submission, verdicts, worth, time.monotonic() - start)


SETUP = """#!/usr/bin/env bash
set -e
apt-get update && apt-get install -y --no-install-recommends bubblewrap || true
python3 -m pip install --index-url https://download.pytorch.org/whl/cpu torch torchvision
python3 -m pip install /autograder/source/vitnb-*.whl cloudpickle
"""
RUN = """#!/usr/bin/env bash
cd /autograder/source
vitnb-grade /autograder/submission --exercises {exercises} {course} --jobs 1 --out /tmp/graded \\
  --gradescope /autograder/results/results.json
"""


def bundle(options: argparse.Namespace) -> int:
    """Write an autograder for Gradescope; a wheel of vitnb beside it has to be put in: the message says how."""
    chosen(options.exercises, options.course)
    course = f"--course {options.course.name}" if options.course else ""
    run = RUN.format(exercises=" ".join(options.exercises), course=course)
    with replacing(options.bundle) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {"setup.sh": SETUP, "run_autograder": run}.items():
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.external_attr = 0o755 << 16
            archive.writestr(entry, text)
        if options.course:
            archive.write(options.course, options.course.name)
        for wheel in sorted(options.source.glob("vitnb-*.whl")):
            archive.write(wheel, wheel.name)
    print(f"Written: {options.bundle}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

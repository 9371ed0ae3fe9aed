"""vitnb-grade: grade a folder or a zip of notebooks in a sandbox."""

import argparse
import contextlib
import ctypes
import importlib.util
import os
import re
import resource
import shlex
import signal
import sys
import tempfile
import threading
import time
import traceback
import zipfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path

import cloudpickle

from vitbook.exercises import engine
from vitbook.grading import reports, sandbox, sheets, student
from vitbook.grading.submissions import Submission, submissions
from vitnb._files import replacing

STOPPED = 130  # what a program returns that Ctrl-C has ended
STOPS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
DEATH_SIGNAL = 1  # of prctl
MEMORY = 8 << 30  # bytes of one process of the grader: what a submission returns may be of any size and shape
PATIENT = 3  # times the time for one notebook is what all of one student's may take


def main(arguments: Sequence[str] | None = None) -> int:
    """Grade, write the results, say what was done. Returns 0, or 2 if nothing could be graded, or 130 if stopped."""
    options = parser().parse_args(arguments)
    options.course = options.course and options.course.resolve()  # each notebook is run in a folder of its own
    try:
        return bundle(options) if options.bundle else grade(options)
    except (ValueError, OSError, ImportError) as error:
        print(f"vitnb-grade: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("vitnb-grade: stopped before anything was graded", file=sys.stderr)
        return STOPPED


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("vitnb-grade", description=__doc__)
    made.add_argument("source", type=Path, help="a folder of notebooks, or the zip of Moodle or Canvas")
    made.add_argument(
        "--exercises", nargs="+", required=True, metavar="N", help="for example 3.1 3.2, or 3.1=2 for two points"
    )
    made.add_argument(
        "--course", type=Path, metavar="FILE.py", help="a teacher's own exercises, in the form of vitbook.exercises"
    )
    made.add_argument("--out", type=Path, default=Path("graded"), help="folder for grades.csv and feedback/ (graded)")
    made.add_argument(
        "--sheet", type=Path, metavar="FILE.csv", help="the sheet that the platform exported, to be filled in"
    )
    made.add_argument("--column", help="its column for the points (Moodle's: Grade, Bewertung, Note, Calificación)")
    made.add_argument("--key", metavar="COLUMN", help="its column that says who is who, if it has an unusual head")
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

    Raises: ValueError for an exercise that does not exist, or points that are not a number.
    """
    if course is not None:
        load(course)
    worth = {}
    for text in exercises:
        number, _, points = text.partition("=")
        if number not in engine.EXERCISES:
            raise ValueError(f"there is no exercise {number!r}: use one of {', '.join(engine.EXERCISES)}")
        if not re.fullmatch(r"(\d+(\.\d+)?)?", points):
            raise ValueError(f"{text!r} is not a number of points: {number}=2 would be")
        worth[number] = float(points or 1)
    return worth


def load(course: Path) -> None:
    """Register the exercises of a teacher's file, and let them travel into the sandbox as objects, never as a file."""
    if not course.is_file():
        raise FileNotFoundError(f"{course} is no file: use Python with exercises, as in vitbook.exercises")
    before = set(engine.EXERCISES)
    spec = importlib.util.spec_from_file_location("vitnb_course", course)
    module = sys.modules["vitnb_course"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)
    for number in getattr(module, "INSIDE", ()):
        engine.EXERCISES[number] = replace(engine.EXERCISES[number], runs="inside")
    student.COURSE |= set(engine.EXERCISES) - before


def grade(options: argparse.Namespace) -> int:
    worth = chosen(options.exercises, options.course)
    way, reasons = (
        (options.sandbox, {options.sandbox: sandbox.works(options.sandbox)}) if options.sandbox else sandbox.best()
    )
    if way is None or reasons[way]:
        said = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise OSError(
            f"no sandbox works here, so nothing was run ({said}). Install bubblewrap, or use Linux 6.2 or newer."
        )
    if options.sheet:
        sheets.read(options.sheet, options.column, options.key)  # before an hour's work, not after it
    print(f"Sandbox: {way}")
    with stoppable() as stop:
        return graded_all(options, worth, way, stop)


@contextlib.contextmanager
def stoppable() -> Iterator[threading.Event]:
    """Ctrl-C, once or many times, sets the event that this yields, and nothing else."""
    stop, before = threading.Event(), {}
    if threading.current_thread() is threading.main_thread():
        before = {one: signal.signal(one, lambda *_: stop.set()) for one in STOPS}
    try:
        yield stop
    finally:
        for one, handler in before.items():
            # Once stopped, the program ends: a late Ctrl-C has nothing more to stop.
            signal.signal(one, signal.SIG_IGN if stop.is_set() else handler)


def graded_all(options: argparse.Namespace, worth: dict[str, float], way: str, stop: threading.Event) -> int:
    notes: list[str] = []
    with submissions(options.source, options.gradescope is not None, options.out, notes) as found:
        for one in notes:
            print(student.readable(one))
        for one in (options.out, options.out / "feedback"):
            one.mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        work = partial(graded, way, worth=worth, course=options.course, seconds=options.seconds)
        grades = everyone(work, found, worth, max(1, options.jobs), options.course, stop)
    if not grades:
        raise KeyboardInterrupt
    stopped = len(grades) < len(found)
    if options.sheet and not stopped:
        filled_in(options.sheet, grades, options)  # first: it finds out whose row is unclear
    reports.table(grades, options.out / "grades.csv")
    for one, name in zip(grades, reports.files(grades), strict=True):
        with replacing(options.out / "feedback" / f"{name}.html") as part:
            part.write_text(reports.page(one), encoding="utf-8")
    if options.gradescope:
        options.gradescope.write_text(reports.gradescope(grades[0]), encoding="utf-8")
    seconds = time.monotonic() - start
    print(
        f"{len(grades)} students in {seconds:.0f} s ({seconds / len(grades):.1f} s each): {options.out / 'grades.csv'}"
    )
    without = [one.submission.student for one in grades if not one.submission.notebooks]
    if without:
        print(f"Handed in no notebook that can be read ({len(without)}): {', '.join(without)}")
    look = sorted({one.submission.student for one in grades if one.doubtful})
    if look:
        print(f"Look at these yourself: {', '.join(look)}")
    if stopped:
        done = {one.submission for one in grades}
        left = [one.student for one in found if one not in done]  # two may have one name
        sheet = f", and {options.sheet.name} was not filled in" if options.sheet else ""
        print(f"Stopped: {len(found) - len(grades)} students were not graded{sheet}: {', '.join(sorted(left))}")
    return STOPPED if stopped else 0


def filled_in(sheet: Path, grades: Sequence[reports.Grade], options: argparse.Namespace) -> None:
    """Write a copy of the platform's sheet with the marks, and say whose marks are not in it."""
    out = options.out / sheet.name
    missed, absent = reports.sheet(grades, sheet, options.column, out, options.key)
    unclear = [one for one in grades if one.unclear]
    names = [name for name in missed if name not in {one.submission.student for one in unclear}]
    print(f"Filled in: {out}" + (f"; not listed in it: {', '.join(names)}" if names else ""))
    for one in unclear:
        print(f"Not filled in: {one.submission.student}, as {student.readable(one.unclear)}")
    if absent:
        print(f"Handed in nothing ({len(absent)}): {', '.join(map(student.readable, absent))}")


def everyone(
    work: Callable[[Submission], reports.Grade],
    found: Sequence[Submission],
    worth: dict[str, float],
    jobs: int,
    course: Path | None,
    stop: threading.Event | None = None,
) -> list[reports.Grade]:
    """Grade all, or those whose turn it was before somebody stopped it.

    A submission that ends a process of the grader itself is tried once more, alone, and then given up.
    """
    grades: dict[int, reports.Grade] = {}
    stop = stop or threading.Event()
    with folders() as top:
        for together in (range(len(found)),), [(n,) for n in range(len(found))]:
            for numbers in together:
                left = [n for n in numbers if n not in grades]
                if left and not stop.is_set():
                    grades |= side_by_side(work, {n: found[n] for n in left}, jobs, partial(ready, top, course), stop)
                    if len(left) == 1 and left[0] not in grades and not stop.is_set():
                        grades[left[0]] = ungraded(found[left[0]], worth, "the grader's own process ended")
    return [grades[n] for n in range(len(found)) if n in grades]


def side_by_side(
    work: Callable[[Submission], reports.Grade],
    found: dict[int, Submission],
    jobs: int,
    ready: Callable[[], None],
    stop: threading.Event,
) -> dict[int, reports.Grade]:
    """Grade in processes, not in threads: a check sets torch's settings, draws random numbers and prints."""
    others, grades, waiting = active_children(), {}, {}
    with ProcessPoolExecutor(min(jobs, len(found)), get_context("spawn"), ready) as pool:
        with ignoring(), contextlib.suppress(BrokenProcessPool):
            for n, one in found.items():
                waiting[pool.submit(work, one)] = n
        while waiting and not stop.is_set():
            for future in wait(waiting, 0.2, "FIRST_COMPLETED").done:
                n = waiting.pop(future)
                with contextlib.suppress(BrokenProcessPool):
                    grades[n] = future.result()
        if waiting:
            for process in set(active_children()).difference(others):
                process.kill()  # what it had started ends with it
            pool.shutdown(cancel_futures=True)
    return grades


@contextlib.contextmanager
def ignoring() -> Iterator[None]:
    """Programs that are started within ignore Ctrl-C, which a terminal sends to all: the first one decides."""
    before = signal.getsignal(signal.SIGINT)
    here = threading.current_thread() is threading.main_thread()
    if here:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        if here:
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def folders() -> Iterator[Path]:
    """A folder for those of all sandboxes; at the end, the last one has gone."""
    with tempfile.TemporaryDirectory(prefix="vitnb-", ignore_cleanup_errors=True) as top:
        os.chmod(top, 0o711)  # each sandbox's own user must find its folder
        try:
            yield Path(top)
        finally:
            until = time.monotonic() + sandbox.ENDING
            while any(Path(top).iterdir()) and time.monotonic() < until:
                time.sleep(0.02)


def ready(top: Path, course: Path | None) -> None:
    """In each process of the grader, before it grades."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)  # nobody else would ask for its grades
    most = resource.getrlimit(resource.RLIMIT_DATA)[1]
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY if most < 0 else min(MEMORY, most), most))
    sandbox.TOP = top
    if course:
        load(course)


def ungraded(submission: Submission, worth: dict[str, float], reason: str) -> reports.Grade:
    """The grade of a submission on which the grader itself failed: no points, and a person must look."""
    said = "Your notebook could not be graded."
    return reports.Grade(submission, {n: student.Verdict(False, said, suspect=reason) for n in worth}, worth)


def graded(
    way: str, submission: Submission, worth: dict[str, float], course: Path | None, seconds: float
) -> reports.Grade:
    """Judge a student's notebooks, the latest first: an exercise counts as the latest that answers it has it."""
    start, numbers = time.monotonic(), list(worth)
    problems = " ".join(submission.problems)
    said = f"Nothing to judge: {problems}"
    verdicts = {} if submission.notebooks else {n: student.Verdict(False, said, suspect=problems) for n in numbers}
    patience, many = student.patience(numbers, seconds), len(submission.notebooks)
    end = start + min(many, PATIENT) * patience
    look: dict[str, list[str]] = {n: [] for n in numbers}
    counts: dict[str, str] = {}
    try:
        for notebook, name in reversed(list(zip(submission.notebooks, submission.names, strict=True))):
            if not (left := [n for n in numbers if n not in verdicts or not verdicts[n].answers]):
                break
            last = min(end, time.monotonic() + patience)
            for number, verdict in student.judge(way, notebook, left, course, seconds, last).items():
                if not verdict.answers and not verdict.empty and many > 1:
                    look[number].append(f"{name}: {verdict.sentence}")
                if number not in verdicts or verdict.answers or verdicts[number].empty:
                    verdicts[number], counts[number] = verdict, f"of {many} notebooks {name} counts"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"the grader met {type(error).__name__} in {Path(where.filename).name}, line {where.lineno}"
        verdicts = {**ungraded(submission, worth, reason).verdicts, **verdicts}
    notes = {n: "; ".join(filter(None, [counts[n] if many > 1 else "", *look[n], problems])) for n in counts}
    return reports.Grade(submission, verdicts, worth, time.monotonic() - start, notes)


SETUP = """#!/usr/bin/env bash
# Gradescope runs this once, as root, on a bare Ubuntu whose Python may be older than the package wants.
set -e
apt-get update
apt-get install -y --no-install-recommends python3-pip bubblewrap
python3 -m pip install uv || python3 -m pip install --break-system-packages uv
export UV_PYTHON_INSTALL_DIR=/autograder/python  # submissions run as a user who may not enter root's home
python3 -m uv venv --python {python} /autograder/venv
python3 -m uv pip install --python /autograder/venv/bin/python \\
  --index-url https://download.pytorch.org/whl/cpu torch torchvision
python3 -m uv pip install --python /autograder/venv/bin/python "$(echo /autograder/source/vitnb-*.whl)[grading]"
"""
RUN = """#!/usr/bin/env bash
cd /autograder/source
/autograder/venv/bin/vitnb-grade /autograder/submission --exercises {exercises} {course} --jobs 1 --out /tmp/graded \\
  --gradescope /autograder/results/results.json
"""


def bundle(options: argparse.Namespace) -> int:
    """Write an autograder for Gradescope.

    Raises: ValueError if the folder that was given as the source holds no wheel of vitnb to put into it.
    """
    chosen(options.exercises, options.course)
    course = f"--course {shlex.quote(options.course.name)}" if options.course else ""
    run = RUN.format(exercises=" ".join(options.exercises), course=course)
    setup = SETUP.format(python=".".join(map(str, sys.version_info[:2])))
    wheels = sorted(options.source.glob("vitnb-*.whl"))
    if len(wheels) != 1:
        raise ValueError(
            f"{options.source} holds {len(wheels)} wheels of vitnb, Gradescope needs one: "
            f"in the book's folder, pip wheel --no-deps -w {options.source} . makes it"
        )
    with replacing(options.bundle) as part, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {"setup.sh": setup, "run_autograder": run}.items():
            entry = zipfile.ZipInfo(name, (2026, 1, 1, 0, 0, 0))
            entry.external_attr = 0o755 << 16
            archive.writestr(entry, text)
        if options.course:
            archive.write(options.course, options.course.name)
        archive.write(wheels[0], wheels[0].name)
    print(f"Written: {options.bundle}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

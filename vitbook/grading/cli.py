"""vitnb-grade: grade a folder or a zip of notebooks in a sandbox."""

import argparse
import contextlib
import csv
import ctypes
import importlib.util
import math
import os
import re
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from types import ModuleType

import cloudpickle
from filelock import FileLock, Timeout

from vitbook.exercises import engine
from vitbook.grading import reports, sandbox, sheets, student, trial
from vitbook.grading.layouts import natural
from vitbook.grading.marks import Basis, Key, Marks, basis, by_hand, called, key, meant
from vitbook.grading.submissions import Submission, submissions, whose
from vitnb import __version__
from vitnb._files import replacing

WHOSE = ("student", "file")
STOPPED = 130  # what a program returns that Ctrl-C has ended
STOPS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
DEATH_SIGNAL = 1  # of prctl
MEMORY = 8 << 30  # bytes of one process of the grader: what a submission returns may be of any size and shape
FEW = 10  # students whose names are said, where they only stay as they were
SAY = 60  # seconds between two lines that say how far it is, where there is no terminal
PATIENT = 3  # times the time for one notebook is what all of one student's may take


def main(arguments: Sequence[str] | None = None) -> int:
    """Grade, write the results, say what was done. Returns 0, or 2 if nothing could be graded, or 130 if stopped."""
    options = parser().parse_args(arguments)
    options.course = options.course and options.course.resolve()  # each notebook is run in a folder of its own
    try:
        if options.trial:
            return try_out(options)
        if options.source is None:
            raise ValueError("say where the notebooks are: a folder, a zip or a table")
        if options.source.suffix.lower() == ".csv":
            options.source, options.students = options.source.parent, options.source
        if options.propose:
            return propose(options)
        return grade(options)
    except (ValueError, OSError, ImportError) as error:
        print(f"vitnb-grade: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("vitnb-grade: stopped before anything was graded", file=sys.stderr)
        return STOPPED


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("vitnb-grade", description=__doc__)
    made.add_argument(
        "source", type=Path, nargs="?", help="a folder of notebooks, the zip of Moodle or Canvas, or a table"
    )
    made.add_argument("--exercises", nargs="+", metavar="N", help="for example 3.1 3.2, or 3.1=2 for two points")
    made.add_argument(
        "--course", type=Path, metavar="FILE.py", help="a teacher's own exercises, in the form of vitbook.exercises"
    )
    made.add_argument(
        "--students", type=Path, metavar="FILE.csv", help="a table student,file that says whose each notebook is"
    )
    made.add_argument("--try", dest="trial", action="store_true", help="try the exercises of --course, grade nothing")
    made.add_argument("--propose", type=Path, metavar="FILE.csv", help="write such a table and grade nothing")
    made.add_argument("--partial", action="store_true", help="points for the right parts of a wrong answer, too")
    made.add_argument("--out", type=Path, default=Path("graded"), help="folder for grades.csv and feedback/ (graded)")
    made.add_argument(
        "--sheet", type=Path, metavar="FILE.csv", help="the sheet that the platform exported, to be filled in"
    )
    made.add_argument("--column", help="its column for the points (Moodle's: Grade, Bewertung, Note, Calificación)")
    made.add_argument(
        "--id-column", "--key", metavar="NAME", help="its column that says who is who, if it has an unusual head"
    )
    made.add_argument("--overwrite", action="store_true", help="other grades that stand in that column, too")
    made.add_argument("--only", nargs="+", metavar="STUDENT", help="grade these again, by name or identifier")
    made.add_argument("--jobs", type=int, default=2, help="notebooks at a time (2)")
    made.add_argument("--seconds", type=float, default=student.SECONDS, help="by the clock, for one exercise (30)")
    made.add_argument("--sandbox", choices=sandbox.WAYS, help="this one, instead of the best that works")
    return made


def chosen(exercises: Sequence[str] | None, course: Path | None) -> dict[str, float]:
    """Return exercise -> points, after a teacher's own file was read.

    Raises: ValueError for none, or an exercise that does not exist, or points that are not a number.
    """
    if not exercises:
        raise ValueError("say what to grade: --exercises 3.1 3.2=2, for example")
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


def load(course: Path) -> ModuleType:
    """Register the exercises of a teacher's file, and let them travel into the sandbox as objects, never as a file."""
    if not course.is_file():
        raise FileNotFoundError(f"{course} is no file: use Python with exercises, as in vitbook.exercises")
    before = dict(engine.EXERCISES)
    spec = importlib.util.spec_from_file_location("vitnb_course", course)
    module = sys.modules["vitnb_course"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)
    for number in getattr(module, "INSIDE", ()):
        engine.EXERCISES[number] = replace(engine.EXERCISES[number], runs="inside")
    student.COURSE |= {number for number, one in engine.EXERCISES.items() if before.get(number) is not one}
    return module


def try_out(options: argparse.Namespace) -> int:
    """Try a teacher's own exercises before students have them. Returns 1 if something is to be corrected."""
    if options.course is None:
        raise ValueError("say where your exercises are: --course my_course.py")
    course, way, wrong = load(options.course), chosen_sandbox(options), 0
    with tempfile.TemporaryDirectory(prefix="vitnb-") as folder:
        for number in sorted(student.COURSE, key=natural):
            print(f"Exercise {number}")
            for fine, what in trial.tried(number, course, way, Path(folder)):
                print(f"  {'+' if fine else '!'} {student.readable(what)}", flush=True)
                wrong += not fine
    print(f"To correct: {wrong}, marked by !" if wrong else "All is well.")
    return int(wrong > 0)


def propose(options: argparse.Namespace) -> int:
    """Write whose each notebook seems to be, for a teacher to correct."""
    with replacing(options.propose) as part, part.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(WHOSE)
        rows.writerows(map(sheets.cell, row) for row in whose(options.source))
    print(f"Correct {options.propose} where it is wrong, then give it by --students")
    return 0


def listed(table: Path | None) -> list[tuple[str, str]] | None:
    """Pairs of a student and a file, as a teacher's table has them."""
    rows = [row for _, row in sheets.table(table, WHOSE)] if table else None
    return rows and [(row["student"], row["file"].replace("\\", "/")) for row in rows if row["file"]]


def chosen_sandbox(options: argparse.Namespace) -> str:
    """The sandbox that was asked for, or the best. Raises: OSError if it does not hold, or none does."""
    one = options.sandbox
    way, reasons = (one, {one: sandbox.works(one)}) if one else sandbox.best()
    if way is None or reasons[way]:
        said = "; ".join(f"{name}: {reason}" for name, reason in reasons.items())
        raise OSError(f"no sandbox works here, so nothing was run ({said}). Install bubblewrap and libseccomp.")
    print(f"Sandbox: {way}")
    return way


def grade(options: argparse.Namespace) -> int:
    worth, way = chosen(options.exercises, options.course), chosen_sandbox(options)
    if options.sheet:
        most = sheets.read(options.sheet, options.column, options.id_column).maximum()  # before an hour's work
        if most not in (None, sum(worth.values())):
            print(f"In the sheet the assignment has {most:g} points, here {sum(worth.values()):g}: make them equal.")
    with stoppable() as stop, alone(options.out):
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
    kept, start, done = Marks(options.out), time.monotonic(), []
    before, table = set(kept.said), listed(options.students)
    with submissions(options.source, options.out, notes, table) as found:
        for one in notes:
            print(student.readable(one))
        course = options.course.read_bytes() if options.course else b""
        bases = {key(one): basis(one, __version__, options.seconds, course) for one in found}
        named = {meant(one, bases) for one in options.only or ()}
        stay = staying(kept, bases, named, worth, options.out)
        hands = by_hand(options.out / "by_hand.csv", {*before, *bases}, worth)
        due = [one for one in found if key(one) not in stay and not kept.stand(one, bases[key(one)], worth)]
        todo = [one for one in found if key(one) in named] if named else due
        work = partial(graded, way, worth=worth, seconds=options.seconds)
        for grade in with_time_left(everyone(work, todo, worth, max(1, options.jobs), options.course, stop), len(todo)):
            done.append(key(grade.submission))
            kept.keep(grade, bases[done[-1]])
    grades, left = kept.grades(worth), {key(one) for one in due}.difference(done)
    if not grades:
        raise KeyboardInterrupt
    for one in grades:
        one.by_hand, one.partial = hands.get(key(one.submission), {}), options.partial
    write(options, grades, whole=not left)
    told(options, grades, len(done), time.monotonic() - start)
    told_of_others(stay.difference(bases), stay.intersection(bases), set(done).difference(before), {*before, *bases})
    if left:
        sheet = f"; {options.sheet.name} was not filled in" if options.sheet else ""
        names, how = called(left, {*before, *bases}), "Stopped. " if stop.is_set() else ""
        print(f"{how}Not graded ({len(left)}): {names}{sheet}. The same command goes on with them.")
    return STOPPED if left and stop.is_set() else 0


def staying(
    kept: Marks, bases: dict[Key, Basis], named: Collection[Key], worth: Collection[str], out: Path
) -> set[Key]:
    """Whose marks stay: those of whom nothing is here, or only what was graded before their latest notebooks.

    Raises: ValueError if they have none on some of the exercises.
    """
    stay = {who for who in kept.said if who not in bases or kept.overtaken(who, bases[who])}.difference(named)
    if mixed := [who for who in stay if not kept.complete(who, worth)]:
        names = called(mixed, {*kept.said, *bases})
        raise ValueError(f"{out} has no marks on these exercises of {names}: use another --out")
    return stay


def told_of_others(
    absent: Collection[Key], overtaken: Collection[Key], new: Collection[Key], everybody: Collection[Key]
) -> None:
    """Say whose marks are from other runs."""
    if absent:
        names = f" ({called(absent, everybody)})" if len(absent) <= FEW else ""
        joined = f"; new: {called(new, everybody)}" if new else ""
        print(f"As they were graded before: {len(absent)}{names}{joined}")
    if overtaken:
        names = called(overtaken, everybody)
        print(f"Later notebooks of {names} were graded before and count; --only grades these instead")


def with_time_left(grades: Iterable[reports.Grade], of: int) -> Iterator[reports.Grade]:
    """Pass them on, and say how many there are and how long the rest may take: on a terminal, always in one line."""
    start = said = time.monotonic()
    terminal, done = sys.stdout.isatty(), 0
    for done, grade in enumerate(grades, 1):
        yield grade
        now = time.monotonic()
        line = f"{done} of {of} students, about {math.ceil((now - start) / done * (of - done) / 60)} min left"
        if terminal:
            print(f"\r{line:<50}", end="", flush=True)
        elif now - said > SAY:
            print(line, flush=True)
            said = now
    if terminal and done:
        print()


def write(options: argparse.Namespace, grades: Sequence[reports.Grade], whole: bool) -> None:
    """Write what a teacher and each student gets; the platform's sheet only for a whole class."""
    if options.sheet and whole:
        filled_in(options.sheet, grades, options)  # first: it finds out whose row is unclear
    reports.table(grades, options.out / "grades.csv")
    for one, name in zip(grades, reports.files(grades), strict=True):
        with replacing(options.out / "feedback" / f"{name}.html") as part:
            part.write_text(reports.page(one), encoding="utf-8")
    with replacing(options.out / "lecture.html") as part:
        part.write_text(reports.lecture(grades), encoding="utf-8")
    if of_moodle := [one for one in grades if one.submission.platform == "Moodle"]:
        reports.moodle(of_moodle, options.out / "feedback.zip")


def told(options: argparse.Namespace, grades: Sequence[reports.Grade], done: int, seconds: float) -> None:
    """Say what was done, and what a person should look at."""
    each = f" in {seconds:.0f} s ({seconds / done:.1f} s each)" if done else ""
    rest = f", {len(grades) - done} before" if len(grades) > done else ""
    print(f"Graded: {done}{each}{rest}: {options.out / 'grades.csv'}")
    everybody = {key(one.submission) for one in grades}
    if without := {key(one.submission) for one in grades if one.unread}:
        print(f"Handed in no notebook that can be read ({len(without)}): {called(without, everybody)}")
    if look := {key(one.submission) for one in grades if one.doubtful}:
        print(f"Look at these yourself: {called(look, everybody)}")


def filled_in(sheet: Path, grades: Sequence[reports.Grade], options: argparse.Namespace) -> None:
    """Write a copy of the platform's sheet with the marks, and say whose marks are not in it."""
    out = options.out / sheet.name
    missed, absent = reports.sheet(grades, sheet, options.column, out, options.id_column, options.overwrite)
    unclear = [one for one in grades if one.unclear]
    names = [name for name in missed if name not in {one.submission.student for one in unclear}]
    print(f"Filled in: {out}" + (f"; not listed in it: {', '.join(names)}" if names else ""))
    for one in unclear:
        print(f"Not filled in: {one.submission.student}, as {student.readable(one.unclear)}")
    if older := [f"{one.submission.student} ({one.older})" for one in grades if one.older]:
        print(f"Other grades stood in it and stay ({len(older)}), unless you add --overwrite: {', '.join(older)}")
    if absent:
        print(f"Handed in nothing ({len(absent)}): {', '.join(map(student.readable, absent))}")


def everyone(
    work: Callable[[Submission], reports.Grade],
    found: Sequence[Submission],
    worth: dict[str, float],
    jobs: int,
    course: Path | None,
    stop: threading.Event | None = None,
) -> Iterator[reports.Grade]:
    """Give each grade when it is there, until somebody stops it.

    A submission that ends a process of the grader itself ends its neighbours' work, too. Each of those that
    were at work then is tried once more, alone, and whichever ends its process again is given up.
    """
    left, stop = dict(enumerate(found)), stop or threading.Event()
    with folders() as top:
        begin = partial(ready, top, course)
        while left and not stop.is_set():
            for n, grade in side_by_side(work, left.copy(), jobs, begin, stop):
                del left[n]
                yield grade
            if stop.is_set():
                return
            for n in list(left)[:jobs]:
                for _, grade in side_by_side(work, {n: left[n]}, 1, begin, stop):
                    yield grade
                    break
                else:
                    if stop.is_set():
                        return
                    yield ungraded(left[n], worth, "the grader's own process ended")
                del left[n]


def side_by_side(
    work: Callable[[Submission], reports.Grade],
    found: dict[int, Submission],
    jobs: int,
    ready: Callable[[], None],
    stop: threading.Event,
) -> Iterator[tuple[int, reports.Grade]]:
    """Grade in processes, not in threads: a check sets torch's settings, draws random numbers and prints."""
    others, waiting = active_children(), {}
    with ProcessPoolExecutor(min(jobs, len(found)), get_context("spawn"), ready) as pool:
        with ignoring(), contextlib.suppress(BrokenProcessPool):
            for n, one in found.items():
                waiting[pool.submit(work, one)] = n
        try:
            while waiting and not stop.is_set():
                for future in wait(waiting, 0.2, "FIRST_COMPLETED").done:
                    n = waiting.pop(future)
                    if not isinstance(future.exception(), BrokenProcessPool):
                        yield n, future.result()
        finally:
            if waiting:
                for process in set(active_children()).difference(others):
                    process.kill()  # what it had started ends with it
                pool.shutdown(cancel_futures=True)


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
def alone(folder: Path) -> Iterator[None]:
    """Write into a folder of results as the only run that does. Raises: OSError if there is another one."""
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise OSError(f"another vitnb-grade writes into {folder}: wait for it, or use another --out") from None
    try:
        yield
    finally:
        lock.release()


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
    none = student.Verdict(False, "Your notebook could not be graded.", suspect=reason, answers=False)
    return reports.Grade(submission, dict.fromkeys(worth, none), worth, failed=True)


def graded(way: str, submission: Submission, worth: dict[str, float], seconds: float) -> reports.Grade:
    """Judge a student's notebooks, the latest first: an exercise counts as the latest that answers it has it."""
    start, numbers = time.monotonic(), list(worth)
    problems = " ".join(submission.problems)
    none = student.Verdict(False, f"Nothing to judge: {problems}", suspect=problems, answers=False)
    verdicts, failed = {} if submission.notebooks else dict.fromkeys(numbers, none), False
    patience, many = student.patience(numbers, seconds), len(submission.notebooks)
    end = start + min(many, PATIENT) * patience
    look: dict[str, list[str]] = {n: [] for n in numbers}
    counts: dict[str, str] = {}
    try:
        for notebook, name in reversed(list(zip(submission.notebooks, submission.names, strict=True))):
            if not (left := [n for n in numbers if n not in verdicts or not verdicts[n].answers]):
                break
            last = min(end, time.monotonic() + patience)
            for number, verdict in student.judge(way, notebook, left, seconds, last).items():
                if not verdict.answers and not verdict.empty and many > 1:
                    look[number].append(f"{name}: {verdict.sentence}")
                if number not in verdicts or verdict.answers or verdicts[number].empty:
                    verdicts[number], counts[number] = verdict, f"of {many} notebooks {name} counts"
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        reason = f"the grader met {type(error).__name__} in {Path(where.filename).name}, line {where.lineno}"
        verdicts, failed = {**ungraded(submission, worth, reason).verdicts, **verdicts}, True
    notes = {n: "; ".join(filter(None, [counts[n] if many > 1 else "", *look[n], problems])) for n in counts}
    return reports.Grade(submission, verdicts, worth, time.monotonic() - start, notes, failed=failed)


if __name__ == "__main__":
    sys.exit(main())

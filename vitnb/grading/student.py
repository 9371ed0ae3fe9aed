"""The process that runs one notebook, as the grader sees it: calls go in, data comes back, within limits."""

import builtins
import contextlib
import io
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import torch

from vitnb import checks
from vitnb.checks import engine
from vitnb.grading import disguise, sandbox, wire
from vitnb.grading._child import CALL

SECONDS = 30.0  # by the clock, for all calls of one exercise; three times as many for all cells of a notebook
LOOK = 0.25  # seconds between two looks at what a submission takes
SENTENCE = 2000  # letters of a verdict
LARGEST = 20 << 20  # bytes of one notebook
GRACE = 30.0  # seconds for what the grader itself does, and a slow machine
NO_ANSWER = "it sent something else than an answer."
UNREADABLE = "Your file is no notebook that can be read, or larger than 20 MB: hand it in again, without its outputs."

# Answers to these are modules, or change what they are given, or are read by their attributes: no data.
# tests/test_grading.py holds this list against the published solutions. A teacher's file may name its own, as INSIDE.
# What a submission returns never decides it: an answer could choose the place where a verdict can be forged.
COURSE: set[str] = set()  # the exercises of a teacher's own file
INSIDE = set("3.4 4.3 5.2 5.3 6.3 7.2 7.5 8.3 8.4 9.2 12.1 12.3 12.4 12.5 14.3 jax.2 jax.3".split())

for _name in [name for name in sys.modules if name.startswith("vitnb.checks")]:
    cloudpickle.register_pickle_by_value(sys.modules[_name])  # the sandbox cannot import them


class Stopped(BaseException):  # no Exception: it must pass through the check
    """The process of the student ended or was ended; the text says why, machine if it may be another's fault."""

    def __init__(self, text: str, machine: str = ""):
        super().__init__(text)
        self.machine = machine


@dataclass(frozen=True)
class Verdict:
    """What is said of one answer."""

    right: bool
    sentence: str
    where: str = "outside"  # "inside": the verdict came from the student's own process
    suspect: str = ""  # why a person should look at it

    def __post_init__(self) -> None:
        object.__setattr__(self, "sentence", readable(self.sentence))


def readable(text: str) -> str:
    """Text of a student's choice, as a terminal, a file and a page may have it: one line, printable, of some length."""
    line = " ".join(str(text)[: 4 * SENTENCE].split())
    kept = "".join(one for one in line if unicodedata.category(one) not in ("Cc", "Cf", "Cs", "Co", "Cn"))
    return textwrap.shorten(kept, SENTENCE, placeholder=" ...") if len(kept) > SENTENCE else kept


def text(message: dict, name: str) -> str:
    """What a message says under this name, if it is a text: a child may send anything."""
    said = message.get(name)
    return said[: 2 * SENTENCE] if type(said) is str else ""


def texts(message: Any, name: str) -> list[str]:
    """The texts in a list of a message. Raises: Stopped if it is no such message."""
    said = message.get(name, []) if type(message) is dict else None
    if type(said) is not list:
        raise Stopped(NO_ANSWER)
    return [one[:SENTENCE] for one in said[:1000] if type(one) is str]


@contextlib.contextmanager
def in_time(until: float) -> Iterator[None]:
    """Whatever the grader does with what a submission sent ends at this time (in the main thread, as it is graded)."""

    def over(*_: Any) -> None:
        raise Stopped("it took too long: is there a loop that does not end?")

    if threading.current_thread() is not threading.main_thread() or until == float("inf"):
        yield
        return
    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(0.001, until - time.monotonic()), 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def readable_notebook(path: Path) -> bool:
    """Whether a file is a notebook that can be run, by its form."""
    try:
        if path.stat().st_size > LARGEST:
            return False
        with path.open(encoding="utf-8-sig") as file:
            return isinstance(json.load(file)["cells"], list)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, MemoryError):
        return False


class Student:
    """One notebook, running in a sandbox."""

    def __init__(
        self,
        way: str,
        notebook: Path,
        wanted: dict[str, str],
        inside: bool = False,
        course: Path | None = None,
        until: float = float("inf"),
    ):
        self.way, self.pending, self.reason, self.machine = way, False, "", ""
        self.box, self.ended = sandbox.Box(), threading.Event()
        self.watch = threading.Thread(target=self.look, daemon=True)
        try:
            # Copies, in a folder that nobody else may enter: the notebook's own path would tell whose it is.
            sources = [notebook, course] if inside and course else [notebook]
            copies = [self.box.folder / name for name in ("notebook.ipynb", "course.py")[: len(sources)]]
            for source, copy in zip(sources, copies, strict=True):
                shutil.copyfile(source, copy)
                copy.chmod(0o444)
            where = "inside" if inside else "outside"
            arguments = ["-m", "vitnb.grading._child", copies[0], json.dumps(wanted), where, *copies[1:]]
            pipe = subprocess.PIPE
            job = sandbox.Job(list(map(str, arguments)), copies, checks=inside)
            self.box.start(way, job, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0)
            self.to, self.back = self.box.process.stdin.fileno(), self.box.process.stdout.fileno()
            self.watch.start()
            ready, _ = self.receive(until)
            self.errors, self.answers = texts(ready, "errors"), set(texts(ready, "answers"))
        except Stopped as reason:
            self.end()
            raise Stopped(f"Your notebook did not run to its end: {reason}", reason.machine) from None
        except BaseException:
            self.end()
            raise

    def look(self) -> None:
        """Watch what the submission takes, and end it when that is too much."""
        pause = LOOK
        while not self.ended.wait(pause):
            start = time.monotonic()
            try:
                if self.way != "container":  # that has limits of its own
                    self.reason = self.reason or sandbox.excess(self.box.process, self.box.home)
                self.machine = self.machine or sandbox.scarce()
            except (OSError, ValueError) as error:  # nothing runs that nobody watches
                self.machine = f"the grader cannot see what it takes ({type(error).__name__})"
            if self.reason or self.machine:
                self.box.stop()
                return
            pause = max(LOOK, time.monotonic() - start)  # on a machine with many processes a look takes long

    def gone(self) -> Stopped:
        """Why there is no answer any more."""
        if self.reason:
            return Stopped(f"{self.reason}.")
        if self.machine:
            return Stopped(f"{self.machine}.", self.machine)
        return Stopped("it ended the program, or took more memory or time than there is.")

    def read(self, size: int, until: float) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                raise Stopped("it took too long: is there a loop that does not end?")
            got = os.read(self.back, min(size - len(parts), 1 << 20))
            if not got:
                raise self.gone()
            parts += got
        return bytes(parts)

    def receive(self, until: float) -> tuple[Any, bool]:
        """Return the next message, and whether it holds something that is no data."""
        text, body = wire.HEAD.unpack(self.read(wire.HEAD.size, until))
        if text > wire.TEXT or body > wire.LIMIT:
            raise Stopped("it returns more than 64 MB, or more than 4 MB that are no tensors.")
        try:
            return wire.unpacked(self.read(text, until), self.read(body, until))
        except ValueError as error:
            raise Stopped(f"it sent {error}.") from None

    def send(self, message: bytes, until: float) -> None:
        view = memoryview(CALL.pack(len(message)) + message)
        os.set_blocking(self.to, False)
        while view:
            left = until - time.monotonic()
            if left <= 0 or not select.select([], [self.to], [], left)[1]:
                raise Stopped("it took too long: is there a loop that does not end?")
            try:
                view = view[os.write(self.to, view) :]
            except BrokenPipeError:
                raise self.gone() from None

    def ask(self, number: str, given: Sequence[Any], until: float) -> tuple[dict, bool]:
        """Send what an answer is given, return what it did.

        A reply names its request by a number drawn at random: one that was
        written before, or a second one, is no answer.
        """
        self.pending = True
        if select.select([self.back], [], [], 0)[0]:
            raise Stopped("it answered before it was asked.") if os.read(self.back, 1) else self.gone()
        to = secrets.token_hex(8)
        self.send(disguise.dumps((to, number, tuple(given))), until)
        reply, foreign = self.receive(until)
        if type(reply) is not dict or text(reply, "to") != to:
            raise Stopped(NO_ANSWER)
        self.pending = False
        return reply, foreign

    def end(self) -> None:
        self.ended.set()
        self.box.end()
        if self.watch.ident is not None:
            self.watch.join()


def proxy(student: Student, number: str, until: float) -> Callable:
    """A function for the check: it calls the student's answer in the sandbox and gives what came back."""

    def answer(*given: Any) -> Any:
        reply, _ = student.ask(number, given, until)
        if "raised" in reply:
            raise _error(reply)
        changed = reply.get("changed")
        for i, value in changed.items() if type(changed) is dict else ():
            if type(i) is int and 0 <= i < len(given) and isinstance(given[i], torch.Tensor):
                same = isinstance(value, torch.Tensor) and value.shape == given[i].shape
                given[i].data = value.to(given[i].dtype) if same else given[i].data + 1
        if reply.get("untouched") is True:
            raise NotImplementedError
        return reply.get("returned")

    return answer


def _error(reply: dict) -> Exception:
    """An error as the student's process raised it, with the line from which it came."""
    name, line, notes = text(reply, "raised")[:60], text(reply, "line"), texts(reply, "notes")[:1]
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        kind = type(name if name.isidentifier() else "Error", (Exception,), {})
    try:
        error = kind(*notes)
    except TypeError:  # a kind that wants more than a message
        error = type(name, (Exception,), {})(*notes)
    if line:
        error.line_of_answer = line  # the engine shows it: the traceback here ends in the grader
    return error


def patience(numbers: Sequence[str], seconds: float) -> float:
    """Seconds by the clock for all notebooks of a student: what one that is slow everywhere may take, and no more."""
    insides = {n in INSIDE for n in numbers}
    return seconds * (3 * len(insides) + sum(engine.EXERCISES[n].work for n in numbers))


def judge(
    way: str,
    notebook: Path,
    numbers: Sequence[str],
    course: Path | None = None,
    seconds: float = SECONDS,
    last: float | None = None,
) -> dict[str, Verdict]:
    """Judge the answers of one notebook to these exercises, until the time `last`.

    A process that ends, or has to be ended, takes no other exercise with it:
    the notebook is run again for the rest.
    """
    last = last or time.monotonic() + patience(numbers, seconds)
    if not readable_notebook(notebook):
        return {n: Verdict(False, UNREADABLE) for n in numbers}
    wanted = {n: engine.EXERCISES[n].signature.split("(")[0] for n in numbers}
    verdicts: dict[str, Verdict] = {}

    def until(seconds: float) -> float:
        return min(last, time.monotonic() + seconds)

    for inside in (False, True):
        left = [n for n in numbers if (n in INSIDE) == inside]
        own = course if inside and COURSE.intersection(left) else None  # else nobody in there may read it
        where = "inside" if inside else "outside"
        while left:
            if time.monotonic() > last:
                said = "Your answer was not tried: your other answers took all the time there is."
                verdicts |= {n: Verdict(False, said, where) for n in left}
                break
            try:
                with in_time(until(3 * seconds) + GRACE):
                    student = Student(way, notebook, wanted, inside, own, until(3 * seconds))
            except Stopped as reason:
                verdicts |= {n: Verdict(False, str(reason), where, reason.machine) for n in left}
                break
            try:
                while left and not student.pending:  # a check that gave up first leaves its reply behind
                    verdicts[left[0]] = _one(student, left[0], inside, until(seconds * engine.EXERCISES[left[0]].work))
                    left.pop(0)
            except Stopped as reason:
                said = f"Your answer was stopped: {reason}"
                verdicts[left.pop(0)] = Verdict(False, said, where, reason.machine)
            finally:
                student.end()
    return {n: verdicts[n] for n in numbers}


def _one(student: Student, number: str, inside: bool, until: float) -> Verdict:
    if number not in student.answers:
        broken = f" Before it, {student.errors[0]}." if student.errors else ""
        return Verdict(False, f"{number}: not done yet.{broken}", "inside" if inside else "outside")
    if inside:
        reply, _ = student.ask(number, (), until)
        suspect = "" if reply.get("sound") is True else "the check called a wrong answer right in this process"
        return Verdict(reply.get("right") is True and not suspect, text(reply, "said"), "inside", suspect)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), in_time(until + GRACE):
        right = checks.check(number, proxy(student, number, until))
    return Verdict(right, said.getvalue())

"""The process that runs one notebook, as the grader sees it: calls go in, data comes back, within limits."""

import builtins
import contextlib
import io
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cloudpickle
import torch

from vitnb import checks
from vitnb.checks import engine
from vitnb.grading import sandbox, wire
from vitnb.grading._child import CALL

SECONDS = 30.0  # by the clock, for all calls of one exercise; three times as many for all cells of a notebook
CHILD = Path(__file__).with_name("_child.py")

# Answers to these are modules, or change what they are given, or are read by their attributes: no data.
# tests/test_grading.py holds this list against the published solutions. A teacher's file may name its own, as INSIDE.
# What a submission returns never decides it: an answer could choose the place where a verdict can be forged.
COURSE: set[str] = set()  # the exercises of a teacher's own file
INSIDE = set("3.4 4.3 5.2 5.3 6.3 7.2 7.5 8.3 8.4 9.2 12.1 12.3 12.4 12.5 14.3 jax.2 jax.3".split())

for _name in [name for name in sys.modules if name.startswith("vitnb.checks")]:
    cloudpickle.register_pickle_by_value(sys.modules[_name])  # the sandbox cannot import them


class Stopped(BaseException):  # no Exception: it must pass through the check
    """The process of the student ended or was ended; the text says why."""


@dataclass(frozen=True)
class Verdict:
    """What is said of one answer."""

    right: bool
    sentence: str
    where: str = "outside"  # "inside": the verdict came from the student's own process
    suspect: str = ""  # why a person should look at it


class Student:
    """One notebook, running in a sandbox."""

    def __init__(
        self,
        way: str,
        notebook: Path,
        wanted: dict[str, str],
        inside: bool = False,
        course: Path | None = None,
        seconds: float = SECONDS,
    ):
        self.folder = tempfile.TemporaryDirectory(prefix="vitnb-")
        asked, self.to = os.pipe()
        self.back, told = os.pipe()
        where = "inside" if inside else "outside"
        extra = [course] if inside and course else []
        arguments = [str(CHILD), str(asked), str(told), str(notebook), json.dumps(wanted), where]
        job = sandbox.Job([*arguments, *map(str, extra)], [notebook, *extra], (asked, told), checks=inside)
        quiet = subprocess.DEVNULL
        self.process = sandbox.start(way, job, Path(self.folder.name), stdout=quiet, stderr=quiet)
        os.close(asked), os.close(told)
        try:
            ready = self.receive(time.monotonic() + 3 * seconds)[0]
            self.errors, self.answers = list(map(str, ready["errors"])), set(ready["answers"])
        except Stopped as reason:
            self.end()
            raise Stopped(f"Your notebook did not run to its end: {reason}") from None
        except (KeyError, TypeError):
            self.end()
            raise Stopped("Your notebook did not run to its end: it sent something else than an answer.") from None

    def read(self, size: int, until: float) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            left = until - time.monotonic()
            if not select.select([self.back], [], [], max(0.0, min(left, 0.5)))[0]:
                if left <= 0:
                    raise Stopped("it took too long: is there a loop that does not end?")
                if sandbox.processes(self.process.pid) > sandbox.PROCESSES:
                    raise Stopped("it starts too many processes.")
                continue
            got = os.read(self.back, min(size - len(parts), 1 << 20))
            if not got:
                raise Stopped("it ended the program, or took more memory or time than there is.")
            parts += got
        return bytes(parts)

    def receive(self, until: float) -> tuple[Any, bool]:
        """Return the next message, and whether it holds something that is no data."""
        text, body = wire.HEAD.unpack(self.read(wire.HEAD.size, until))
        if text + body > wire.LIMIT:
            raise Stopped("it returns more than 64 MB.")
        try:
            return wire.unpacked(self.read(text, until), self.read(body, until))
        except ValueError as error:
            raise Stopped(f"it sent {error}.") from None

    def send(self, message: bytes, until: float) -> None:
        view = memoryview(CALL.pack(len(message)) + message)
        os.set_blocking(self.to, False)
        while view:
            if not select.select([], [self.to], [], max(0.0, until - time.monotonic()))[1]:
                raise Stopped("it took too long: is there a loop that does not end?")
            try:
                view = view[os.write(self.to, view) :]
            except BrokenPipeError:
                raise Stopped("it ended the program.") from None

    def ask(self, number: str, given: Sequence[Any], until: float) -> tuple[dict, bool]:
        self.send(cloudpickle.dumps((number, tuple(given))), until)
        reply, foreign = self.receive(until)
        if not isinstance(reply, dict):
            raise Stopped("it sent something else than an answer.")
        return reply, foreign

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, 9)
        self.process.wait()
        os.close(self.to), os.close(self.back)
        self.folder.cleanup()


def proxy(student: Student, number: str, seconds: float) -> Callable:
    """A function for the check: it calls the student's answer in the sandbox and gives what came back."""
    until = time.monotonic() + seconds

    def answer(*given: Any) -> Any:
        reply, _ = student.ask(number, given, until)
        if "raised" in reply:
            raise _error(reply)
        for i, value in dict(reply.get("changed") or {}).items():
            if isinstance(given[i], torch.Tensor):
                same = isinstance(value, torch.Tensor) and value.shape == given[i].shape
                given[i].data = value.to(given[i].dtype) if same else given[i].data + 1
        if reply.get("untouched"):
            raise NotImplementedError
        return reply.get("returned")

    return answer


def _error(reply: dict) -> Exception:
    """An error as the student's process raised it, with the line from which it came."""
    name, notes, line = (
        str(reply["raised"])[:60],
        list(map(str, reply.get("notes") or [])),
        str(reply.get("line") or ""),
    )
    kind = getattr(builtins, name, None)
    if not (isinstance(kind, type) and issubclass(kind, Exception)):
        kind = type(name, (Exception,), {})
    try:
        error = kind(*notes)
    except TypeError:  # a kind that wants more than a message
        error = type(name, (Exception,), {})(*notes)
    if line:
        error.line_of_answer = line  # the engine shows it: the traceback here ends in the grader
    return error


def judge(
    way: str, notebook: Path, numbers: Sequence[str], course: Path | None = None, seconds: float = SECONDS
) -> dict[str, Verdict]:
    """Judge the answers of one notebook to these exercises.

    A process that ends, or has to be ended, takes no other exercise with it:
    the notebook is run again for the rest.
    """
    try:
        with notebook.open(encoding="utf-8") as file:
            readable = isinstance(json.load(file)["cells"], list)
    except (ValueError, KeyError, TypeError, RecursionError):
        readable = False
    if not readable:
        return {n: Verdict(False, "Your file is no notebook that can be read: hand it in again.") for n in numbers}
    wanted = {n: engine.EXERCISES[n].signature.split("(")[0] for n in numbers}
    verdicts: dict[str, Verdict] = {}
    for inside in (False, True):
        left = [n for n in numbers if (n in INSIDE) == inside]
        own = course if inside and COURSE.intersection(left) else None  # else nobody in there may read it
        while left:
            try:
                student = Student(way, notebook, wanted, inside, own, seconds)
            except Stopped as reason:
                verdicts |= {n: Verdict(False, str(reason), _where(inside)) for n in left}
                break
            try:
                while left:
                    verdicts[left[0]] = _one(student, left[0], inside, seconds * engine.EXERCISES[left[0]].work)
                    left.pop(0)
            except Stopped as reason:
                said = str(reason)
                verdicts[left.pop(0)] = Verdict(False, f"Your answer was stopped: {said}", _where(inside))
            finally:
                student.end()
    return {n: verdicts[n] for n in numbers}


def _where(inside: bool) -> str:
    return "inside" if inside else "outside"


def _one(student: Student, number: str, inside: bool, seconds: float) -> Verdict:
    if number not in student.answers:
        broken = f" Before it, {student.errors[0]}." if student.errors else ""
        return Verdict(False, f"{number}: not done yet.{broken}", _where(inside))
    if inside:
        reply, _ = student.ask(number, (), time.monotonic() + seconds)
        said = " ".join(str(reply.get("said", "")).split())
        suspect = "" if reply.get("sound") else "the check called a wrong answer right in this process"
        return Verdict(reply.get("right") is True and not suspect, said, "inside", suspect)
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        right = checks.check(number, proxy(student, number, seconds))
    return Verdict(right, " ".join(said.getvalue().split()))

"""The process that runs one notebook, as the grader sees it: calls go in, data comes back, within limits."""

import builtins
import contextlib
import hashlib
import io
import json
import os
import re
import secrets
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import torch

from vitbook.exercises import engine, values
from vitbook.grading import disguise, sandbox, wire
from vitbook.grading._child import CALL
from vitbook.grading.notebook import UNREAD, unreadable

SECONDS = 30.0  # by the clock, for all calls of one exercise; three times as many for all cells of a notebook
START = 120.0  # seconds by the clock until the first cell runs, on a machine that is busy
LOOK = 0.25  # seconds between two looks at what a submission takes
SENTENCE = 2000  # letters of a verdict
MOST = 1_000_000  # cells of a notebook, and statements of a cell
GRACE = 30.0  # seconds for what the grader itself does, and a slow machine
NO_ANSWER = "it sent something else than an answer."
LATE = "it took too long (is there a loop that does not end?)."
RUNS = 6  # of one notebook, and one more an exercise: each goes on after the place at which the one before it ended
TRIES = 10  # answers of one exercise in one notebook that are judged, as check() is called again and again

COURSE: set[str] = set()  # the exercises of a teacher's own file

for _name in [name for name in sys.modules if name.startswith("vitbook.exercises")]:
    cloudpickle.register_pickle_by_value(sys.modules[_name])  # the sandbox cannot import them


class Stopped(BaseException):  # no Exception: it must pass through the check
    """The process of the student ended or was ended; the text says why, machine if it may be another's fault."""

    def __init__(self, text: str, machine: str = ""):
        super().__init__(text)
        self.machine = machine


class Ended(Stopped):
    """It ended by itself or took too long, as an honest program may."""


@dataclass(frozen=True)
class Verdict:
    """What is said of one answer."""

    right: bool
    sentence: str
    where: str = "outside"  # "inside": the verdict came from the student's own process
    suspect: str = ""  # why a person should look at it
    answers: bool = True  # False: nothing was there to judge, so that another notebook's answer may count
    share: float = 0.0  # of a wrong answer, which part is right

    def __post_init__(self) -> None:
        object.__setattr__(self, "sentence", readable(self.sentence))
        object.__setattr__(self, "suspect", readable(self.suspect))  # it may quote a cell
        object.__setattr__(self, "answers", self.answers and not self.empty)

    @property
    def empty(self) -> bool:
        return bool(re.match(r"\S+: not done yet\.", self.sentence))

    @property
    def unread(self) -> bool:
        return self.sentence.startswith(UNREAD)


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
        raise Ended(LATE)

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


def place(message: Any) -> list[int]:
    """The cell and the statement that a message says are next. Raises: Stopped if it is no such message."""
    at = message.get("at") if type(message) is dict else None
    if type(at) is not tuple or len(at) != 2 or not all(type(n) is int and 0 <= n < MOST for n in at):
        raise Stopped(NO_ANSWER)
    return list(at)


class Student:
    """One notebook, running in a sandbox."""

    def __init__(self, way: str, notebook: Path, plan: dict[str, Any], inside: bool = False, own: bytes = b""):
        self.way, self.pending, self.reason, self.machine = way, False, "", ""
        self.at, self.errors, self.answers, self.alike = [0, 0], [], set(), {}
        self.box, self.ended = sandbox.Box(), threading.Event()
        self.watch = threading.Thread(target=self.look, daemon=True)
        try:
            # A copy, in a folder that nobody else may enter: the notebook's own path would tell whose it is.
            given = {"notebook.ipynb": notebook.read_bytes()} | ({"exercises.pickle": own} if own else {})
            self.seed = hashlib.sha256(given["notebook.ipynb"]).hexdigest()
            copies = [self.box.folder / name for name in given]
            for copy, content in zip(copies, given.values(), strict=True):
                copy.write_bytes(content)
                copy.chmod(0o444)
            where = "inside" if inside else "outside"
            arguments = ["-m", "vitbook.grading._child", copies[0], json.dumps(plan), where, *copies[1:]]
            pipe = subprocess.PIPE
            job = sandbox.Job(list(map(str, arguments)), copies, checks=inside)
            self.box.start(way, job, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0)
            self.to, self.back = self.box.process.stdin.fileno(), self.box.process.stdout.fileno()
            self.watch.start()
        except BaseException:
            self.end()
            raise

    def ready(self, until: float) -> None:
        """Wait until Python and torch have started, which takes none of the notebook's time."""
        if place(self.told(until)) != [0, 0]:
            raise Stopped(NO_ANSWER)

    def told(self, until: float) -> dict:
        """The next message while the cells run. Raises: Stopped if it is none."""
        with in_time(until + GRACE):
            message = self.receive(until)
        if type(message) is not dict:
            raise Stopped(NO_ANSWER)
        return message

    def run(self, until: float, judged: Callable[[str], None]) -> None:
        """Wait until the cells have run; let each answer be judged when it is recorded, which takes none of their time.

        Raises: Stopped, with the place at which the notebook was left in `at`.
        """
        while "errors" not in (message := self.told(until)):
            if "at" in message:
                self.at = place(message)
            else:
                start = time.monotonic()
                judged(text(message, "recorded"))
                self.send(disguise.dumps((None, None, ())), until := until + time.monotonic() - start)
        alike = message.get("alike")
        self.errors, self.answers = texts(message, "errors"), set(texts(message, "answers"))
        self.alike = alike if type(alike) is dict else {}

    def look(self) -> None:
        """Watch what the submission takes, and end it when that is too much."""
        pause = LOOK
        while not self.ended.wait(pause):
            start = time.monotonic()
            try:
                if self.way != "container":  # that has limits of its own
                    self.reason = self.reason or sandbox.excess(self.box.process)
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
            return Ended(f"{self.reason}.")
        if self.machine:
            return Ended(f"{self.machine}.", self.machine)
        return Ended("it ended the program, or took more memory or time than there is.")

    def late(self) -> Stopped:
        """Why an answer has not come in time: with many processes the watch comes late, too."""
        with contextlib.suppress(OSError, ValueError):
            if self.way != "container" and sandbox.crowded(sandbox.members(self.box.process.pid)):
                self.reason = self.reason or sandbox.CROWDED
        return self.gone() if self.reason or self.machine else Ended(LATE)

    def read(self, size: int, until: float) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                raise self.late()
            got = os.read(self.back, min(size - len(parts), 1 << 20))
            if not got:
                raise self.gone()
            parts += got
        return bytes(parts)

    def receive(self, until: float) -> Any:
        """Return the next message."""
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
                raise self.late()
            try:
                view = view[os.write(self.to, view) :]
            except BrokenPipeError:
                raise self.gone() from None

    def ask(self, number: str, given: Sequence[Any], until: float) -> dict:
        """Send what an answer is given, return what it did.

        A reply names its request by a number drawn at random: one that was
        written before, or a second one, is no answer.
        """
        self.pending = True
        if select.select([self.back], [], [], 0)[0]:
            raise Stopped("it answered before it was asked.") if os.read(self.back, 1) else self.gone()
        to = secrets.token_hex(8)
        self.send(disguise.dumps((to, number, tuple(given))), until)
        reply = self.receive(until)
        if type(reply) is not dict or text(reply, "to") != to:
            raise Stopped(NO_ANSWER)
        self.pending = False
        return reply

    def end(self) -> None:
        self.ended.set()
        self.box.end()
        if self.watch.ident is not None:
            self.watch.join()


def proxy(student: Student, number: str, until: float) -> Callable:
    """A function for the check: it calls the student's answer in the sandbox and gives what came back."""

    def answer(*given: Any) -> Any:
        reply = student.ask(number, given, until)
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
    """An error of the same kinds as the student's process raised, with the line and the files from which it came."""
    name, notes = text(reply, "raised")[:60], texts(reply, "notes")[:1]
    name = name if name.isidentifier() else "Error"
    found = [getattr(builtins, kind, None) for kind in texts(reply, "kinds")[:20]]
    kinds = [kind for kind in found if isinstance(kind, type) and issubclass(kind, Exception)]
    kinds = [kind for kind in kinds if not issubclass(kind, BaseExceptionGroup)]  # made of errors, which do not cross
    bases = tuple(one for one in kinds if not any(one is not other and issubclass(other, one) for other in kinds))
    said = {"__init__": lambda self, *given: None, "__str__": lambda self: "".join(notes)}
    try:
        error = type(name, bases or (Exception,), said)(*notes)
    except TypeError:  # kinds that no one error can have
        error = type(name, bases[:1], said)(*notes)
    error.line_of_answer = text(reply, "line")  # the engine shows it: the traceback here ends in the grader
    error.files_of_answer = {one for file in texts(reply, "files")[:50] for one in _files(file)}
    return error


def _files(name: str) -> list[str]:
    """The files here of which a name of the sandbox's may speak: what was handed over, or the package."""
    if name == disguise.GIVEN:
        ours = [module for key, module in list(sys.modules.items()) if key.startswith(disguise.OURS)]
        return [str(getattr(module, "__file__", "")) for module in ours]
    _, package, inner = re.fullmatch(r"(?:(.*)/(vitnb|vitbook)/)?(.*)", name, re.DOTALL).groups()
    return [str(sandbox.PACKAGE.parent / package / inner)] if package else []


def inside(number: str) -> bool:
    """Whether an exercise is judged in the student's process: its answer is a module, or changes one, and no data.

    What a submission returns never decides it: an answer could choose the place where a verdict can be forged.
    """
    return engine.EXERCISES[number].runs == "inside"


def of_teacher(numbers: Collection[str]) -> bytes:
    """A teacher's exercises that are judged inside, and nothing else of their file; what is the package's is there."""
    ours = [module for name, module in sys.modules.items() if name.startswith("vitbook.exercises")]
    for module in ours:
        cloudpickle.unregister_pickle_by_value(module)
    try:
        return cloudpickle.dumps({number: engine.EXERCISES[number] for number in numbers}) if numbers else b""
    finally:
        for module in ours:
            cloudpickle.register_pickle_by_value(module)


def patience(numbers: Sequence[str], seconds: float) -> float:
    """Seconds by the clock for a notebook that is slow everywhere and has to be run once more; no more than that."""
    insides = {inside(n) for n in numbers}
    return seconds * (6 * len(insides) + sum(engine.EXERCISES[n].work for n in numbers))


def judge(
    way: str,
    notebook: Path,
    numbers: Sequence[str],
    seconds: float = SECONDS,
    last: float | None = None,
) -> dict[str, Verdict]:
    """Judge the answers of one notebook to these exercises, until the time `last`.

    Each is judged when check() is given it, by what it is then. A process that
    ends, or has to be ended, takes no other exercise with it: the notebook is
    run again, and the cell that it did not survive ends before that place.
    """
    last = last or time.monotonic() + patience(numbers, seconds)
    if reason := unreadable(notebook):
        return {n: Verdict(False, reason, answers=False) for n in numbers}
    verdicts: dict[str, Verdict] = {}
    for within in (False, True):
        if mine := [n for n in numbers if inside(n) == within]:
            own = of_teacher(COURSE.intersection(mine)) if within else b""
            start = partial(Student, way, notebook, inside=within, own=own)
            sitting = Sitting(start, mine, "inside" if within else "outside", seconds, last)
            verdicts |= sitting.held()
            last = sitting.last  # later by what the starts have taken
    return {n: verdicts[n] for n in numbers}


class Sitting:
    """The runs of one notebook, each in a sandbox of its own, until all that it answers is judged."""

    def __init__(
        self, start: Callable[[dict], Student], numbers: Sequence[str], where: str, seconds: float, last: float
    ):
        self.start, self.numbers, self.where, self.seconds, self.last = start, numbers, where, seconds, last
        self.said: dict[str, Verdict] = {}
        self.past: Counter[str] = Counter()  # exercise -> answers of it that were recorded
        self.stops: list[list[int]] = []
        self.happened: list[str] = []
        self.asked = self.ended = self.machine = self.missing = ""

    def held(self) -> dict[str, Verdict]:
        """Run the notebook until it has come to its end, or no run can do more; return what is to be said."""
        for _ in range(RUNS + len(self.numbers)):
            if time.monotonic() > self.last:
                self.ended = "Your answer was not tried: your other answers took all the time there is."
                break
            functions = {n: engine.EXERCISES[n].signature.split("(")[0] for n in self.numbers}
            self.asked = self.ended = ""
            student = self.start({"functions": functions, "past": self.past, "stops": self.stops})
            try:
                self.once(student)
                break
            except Stopped as reason:
                if not self.again(student, reason):
                    break
            finally:
                student.end()
        rest = Verdict(False, self.ended, self.where, self.machine, answers=False)
        said = {n: self.said.get(n, rest) for n in self.numbers}
        return {n: _suspected(one, *self.happened, "" if one.right else self.missing) for n, one in said.items()}

    def once(self, student: Student) -> None:
        start = time.monotonic()
        try:
            student.ready(start + START)
        finally:
            self.last += time.monotonic() - start
        student.run(self.until(3 * self.seconds), lambda number: self.judge(student, number, TRIES))
        for number in self.numbers:
            if number in student.answers and (number not in self.said or self.past[number] > TRIES):
                self.judge(student, number)
        self.missing = "; ".join(one for one in student.errors if "ModuleNotFoundError" in one)
        broken = "".join(f" Before it, {one.rstrip('.')}." for one in [*self.happened, *student.errors][:1])
        for number in self.numbers:
            other = text(student.alike, number)[:100]
            name = engine.EXERCISES[number].signature.split("(")[0]
            suspect = f"no {name} is defined, but {other} is" if other else ""
            none = Verdict(False, f"{number}: not done yet.{broken}", self.where, suspect, answers=False)
            self.said.setdefault(number, none)

    def judge(self, student: Student, number: str, tries: int = sys.maxsize) -> None:
        """Judge what was recorded; not the skeleton, and of very many answers only the first and the last."""
        if number not in self.numbers:
            raise Stopped(NO_ANSWER)
        self.past[number] += 1
        if self.past[number] > tries:
            return
        self.asked = number
        until = self.until(self.seconds * engine.EXERCISES[number].work)
        verdict = _inside(student, number, until) if self.where == "inside" else _outside(student, number, until)
        if verdict.answers:
            self.said[number] = verdict
        if student.pending:  # the check gave up first, and leaves its reply behind
            raise student.late()
        self.asked = ""

    def again(self, student: Student, reason: Stopped) -> bool:
        """Note why a run was stopped; return whether another one can do more."""
        self.machine = reason.machine
        if self.asked:
            said = f"Your answer was stopped: {reason}"
            self.said[self.asked] = Verdict(False, said, self.where, reason.machine, answers=False)
            self.ended = "Your answer was not tried: other answers ended the program too often."
            return not self.machine
        self.ended = f"Your notebook did not run to its end: {reason}"
        cell = f"cell {student.at[0]} did not run to its end" if student.at[0] else "it did not begin"
        self.happened.append(f"{cell}: {reason}")
        new = student.at not in self.stops
        self.stops.append(student.at)
        return new and isinstance(reason, Ended) and not self.machine and not set(self.numbers) <= set(self.said)

    def until(self, seconds: float) -> float:
        return min(self.last, time.monotonic() + seconds)


def _suspected(verdict: Verdict, *look: str) -> Verdict:
    return replace(verdict, suspect="; ".join(filter(None, dict.fromkeys((verdict.suspect, *look)))))


def _inside(student: Student, number: str, until: float) -> Verdict:
    reply = student.ask(number, (student.seed,), until)
    sound, share = reply.get("sound") is True, reply.get("share")
    suspect = "" if sound else "the check called a wrong answer right in this process"
    share = share if sound and type(share) is float and 0 < share < 1 else 0.0
    right = sound and reply.get("right") is True
    return Verdict(right, _told(number, text(reply, "said")), "inside", suspect, share=share)


def _outside(student: Student, number: str, until: float) -> Verdict:
    with contextlib.redirect_stdout(io.StringIO()), in_time(until + GRACE), values.repeated(student.seed + number):
        right, said, share = engine.judged(engine.EXERCISES[number], proxy(student, number, until))
    return Verdict(right, _told(number, said), share=share)


def _told(number: str, said: str) -> str:
    """What a check says; without the hint to a hint that a student cannot get."""
    return said.replace(f'Hint: check("{number}", hint=1).', "") if number in COURSE else said

"""Inside the sandbox: run a notebook's cells, then answer the grader's calls with data.

    python -m vitbook.grading._child NOTEBOOK PLAN outside|inside [EXERCISES]

Requests come by the standard input, answers leave by the standard output, each
with the number of its request. PLAN is JSON: `functions`, exercise -> the name of
its function; `past`, exercise -> how many of its answers were judged when the
notebook was run before; `stops`, the places (cell, statement) at which a cell
ends, because nothing came after them. EXERCISES has those of a teacher's own
that are judged inside, pickled: their file stays outside.

An answer is told to the grader when check() is given it, and is judged there
and then, as in the notebook: what a later cell does to it, or to the whole
program, comes too late. So cells may be moved, copied, split and lose their
metadata; where no check cell is left, the function is found by its name.
"""

import asyncio
import contextlib
import difflib
import io
import json
import os
import random
import struct
import sys
import traceback
import types
import warnings
from collections import Counter
from collections.abc import Callable
from numbers import Real

import cloudpickle
import numpy as np

from vitbook.grading.running import cells, prepared, run
from vitbook.grading.wire import is_tensor, packed

CALL = struct.Struct("<Q")
MANY = 1_000_000  # things in a list: more of them are too much for a message


def recorder(record: Callable) -> types.ModuleType:
    """A module in the place of vitbook.exercises, whose check only hands the answer on."""

    def check(number, answer=None, hint=None):
        if answer is not None and answer is not ...:
            record(number, answer)
        return True

    module = types.ModuleType("vitbook.exercises")
    module.check = check
    return module


def untouched(answer) -> bool:
    """Whether a function has no body but `...`."""

    def skeleton():
        """Its constants lie elsewhere, its instructions are these."""
        ...

    code = getattr(answer, "__code__", None)
    return code is not None and code.co_code[::2] == skeleton.__code__.co_code[::2]


def line_of(error: BaseException) -> str:
    """The reader's own line from which an error came."""
    frames = traceback.extract_tb(error.__traceback__)
    return ([frame.line for frame in frames if frame.filename.startswith("<cell")] or [""])[-1]


def answered(answer, given: tuple) -> dict:
    """Call an answer; say what it returned or raised, and which of the tensors that it was given it has changed."""
    before = {i: g.clone() for i, g in enumerate(given) if is_tensor(g)}
    try:
        result = answer(*given)
    except BaseException as error:
        return raised(error)
    changed = {i: given[i] for i, old in before.items() if old.shape != given[i].shape or not old.equal(given[i])}
    return {"returned": data(result), "changed": changed, "untouched": result is None and untouched(answer)}


@contextlib.contextmanager
def as_in_check():
    """Random numbers go on afterwards as if nothing had been drawn; torch's settings are those of check() meanwhile."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        with torch_as_in_check() if "torch" in sys.modules else contextlib.nullcontext():
            yield
    finally:
        random.setstate(states[0]), np.random.set_state(states[1])  # noqa: NPY002


@contextlib.contextmanager
def torch_as_in_check():
    import torch

    kept, state = (torch.get_default_dtype(), torch.empty(0).device), torch.get_rng_state()
    with torch.inference_mode(False), torch.enable_grad():
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
        try:
            yield
        finally:
            torch.set_default_dtype(kept[0])
            torch.set_default_device(None if kept[1].type == "cpu" else kept[1])
            torch.set_rng_state(state)


def raised(error: BaseException) -> dict:
    """An error as data: its kinds, its own first, its message, the reader's line and the files from which it came."""
    try:
        message = str(error)[:2000]
    except Exception:
        message = ""
    kinds = [kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins"]
    files = list({str(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__)})[:50]
    notes, name = [message] if message or error.args else [], type(error).__name__
    return {"raised": name, "kinds": kinds, "notes": notes, "line": line_of(error), "files": files}


def data(value, depth: int = 0):
    """A value with what is a number or a list to Python in the form that can cross: check() takes both alike."""
    if depth > 50 or (isinstance(value, (dict, list, tuple, set)) and len(value) > MANY):
        return value
    for kind in (str, bytes, float, int):
        if isinstance(value, kind) and (kind is str or not isinstance(value, (bool, np.generic))):
            value = kind.__new__(kind, value)
            return float(value) if kind is int and abs(value) >= 2**63 else value
    if isinstance(value, Real) and not isinstance(value, (bool, np.bool_, np.integer, np.floating)):
        return float(value)
    if isinstance(value, np.longdouble):
        return float(value)
    if isinstance(value, np.ndarray) and type(value) is np.ndarray:
        return np.array(value.astype(value.dtype.newbyteorder("="), order="C"))
    if isinstance(value, dict):
        return {data(key, depth + 1): data(one, depth + 1) for key, one in value.items()}
    for kind in (tuple, list, set, frozenset):
        if isinstance(value, kind):
            return kind(data(one, depth + 1) for one in value)
    return value


def judged(number: str, answer, seed: str) -> dict:
    """Judge in here, where the answer is no data: the real check, and beside it an answer that is wrong."""
    from vitbook.exercises import engine, values

    with contextlib.redirect_stdout(io.StringIO()), values.repeated(seed + number):
        right, said, share = engine.judged(engine.EXERCISES[number], answer)
    return {"right": bool(right), "said": said[:4000], "share": float(share), "sound": not control(engine, number)}


def control(engine, number: str) -> bool:
    """What the check says of a wrong answer: True if somebody has changed the check."""
    wrong = next(iter(engine.EXERCISES[number].mistakes.values()), lambda *given: "wrong")
    with contextlib.redirect_stdout(io.StringIO()):
        return engine.check(number, wrong)


def alike(space: dict, name: str) -> str:
    """The name of a function of the reader's own that looks as if this one were meant, or nothing."""
    own = [one for one, thing in list(space.items()) if getattr(thing, "__module__", "") == "__main__"]
    return next(iter(difflib.get_close_matches(name, [one for one in own if one != name], 1, 0.8)), "")


class Child:
    """The conversation with the grader."""

    def __init__(self, plan: dict, real: types.ModuleType | None):
        self.requests, self.replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0), os.dup2(nothing, 1)
        self.functions, self.stops, self.past = plan["functions"], plan["stops"], Counter(plan["past"])
        self.real, self.answers, self.process = real, {}, os.getpid()
        self.stub = recorder(self.record)
        self.stand_in(self.stub)

    def stand_in(self, module: types.ModuleType) -> None:
        sys.modules["vitbook.exercises"] = sys.modules["vitbook"].exercises = module

    def say(self, value: dict) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                message = packed(value)
            except Exception:  # something odd that only looks like data
                message = packed({"to": value.get("to"), "returned": object(), "changed": {}, "untouched": False})
        self.replies.write(message)
        self.replies.flush()

    def record(self, number, answer) -> None:
        """Let an answer be judged at once, unless it was when the notebook was run before."""
        if number not in self.functions or os.getpid() != self.process:
            return
        self.answers[number] = answer
        if self.past[number] > 0:
            self.past[number] -= 1
            return
        with as_in_check():
            self.say({"recorded": number})
            self.serve()

    def serve(self) -> None:
        """Answer the grader's calls until it lets the notebook go on."""
        while len(head := self.requests.read(CALL.size)) == CALL.size:
            to, number, given = cloudpickle.loads(self.requests.read(CALL.unpack(head)[0]))  # the grader's: trusted
            if number is None:
                return
            if self.real is not None:
                self.stand_in(self.real)
                said = judged(number, self.answers[number], *given)
                self.stand_in(self.stub)
            else:
                said = answered(self.answers[number], given)
            self.say({"to": to, **said})
        os._exit(0)  # the grader is gone

    async def run(self, notebook: str) -> None:
        space, codes = prepared(), cells(notebook)
        if any("torch" in code or "vitnb" in code for code in codes):
            import torch  # noqa: F401  (before the notebook's time begins)
        self.say({"at": (0, 0)})
        stops = {tuple(one) for one in self.stops}
        errors = await run(codes, space, lambda *at: self.say({"at": at}), stops)
        for number, name in self.functions.items():
            if callable(space.get(name)):
                self.answers.setdefault(number, space[name])
        missing = {number: alike(space, name) for number, name in self.functions.items() if number not in self.answers}
        with as_in_check():
            self.say({"errors": errors[:5], "answers": list(self.answers), "alike": missing})
            self.serve()


def main(notebook: str, plan: str, where: str, *own: str) -> None:
    real = None
    if where == "inside":
        import vitbook.exercises as real

        for path in own:
            with open(path, "rb") as file:  # the grader's: trusted
                real.engine.EXERCISES.update(cloudpickle.loads(file.read()))
    child = Child(json.loads(plan), real)
    # Student's prints go nowhere; the grader knows the limits of time and memory.
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        asyncio.run(child.run(notebook))


if __name__ == "__main__":
    main(*sys.argv[1:])

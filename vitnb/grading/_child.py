"""Inside the sandbox: run a notebook's cells, then answer the grader's calls with data.

    python -m vitnb.grading._child NOTEBOOK WANTED outside|inside [COURSE.py]

Requests come by the standard input, answers leave by the standard output, each
with the number of its request. WANTED is JSON: exercise -> the name of its
function. What check() is given in the notebook is kept as the answer to that
exercise, so cells may be moved, copied, split and lose their metadata; where
no check cell is left, the function is found by its name.
"""

import contextlib
import importlib.util
import io
import json
import linecache
import os
import struct
import sys
import traceback
import types

import cloudpickle
import torch

from vitnb.grading.wire import packed

CALL = struct.Struct("<Q")


def cells(path: str) -> list[str]:
    """The code of a notebook, without the commands to IPython: nothing is installed in here."""
    with open(path, encoding="utf-8-sig") as file:
        book = json.load(file)
    found = [cell for cell in book["cells"] if isinstance(cell, dict) and cell.get("cell_type") == "code"]
    codes = ["".join(map(str, cell.get("source") or "")) for cell in found]
    return ["\n".join(one for one in code.split("\n") if not one.lstrip().startswith(("%", "!"))) for code in codes]


def recorder(answers: dict) -> types.ModuleType:
    """A module in the place of vitnb.checks, whose check only keeps the answer."""

    def check(number, answer=None, hint=None):
        if answer is not None and answer is not ...:
            answers[number] = answer
        return True

    module = types.ModuleType("vitnb.checks")
    module.check = check
    return module


def run(codes: list[str], space: dict) -> list[str]:
    """Run the cells one by one, as a reader would who goes on after an error; return the errors."""
    errors = []
    for n, code in enumerate(codes):
        name = f"<cell {n + 1}>"
        linecache.cache[name] = (len(code), None, code.splitlines(True), name)
        try:
            exec(compile(code, name, "exec"), space)
        except BaseException as error:  # SystemExit and KeyboardInterrupt end a cell, too
            errors.append(f"cell {n + 1}: {type(error).__name__}: {error}"[:300])
    return errors


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
    before = {i: g.clone() for i, g in enumerate(given) if isinstance(g, torch.Tensor)}
    try:
        result = answer(*given)
    except BaseException as error:
        notes = [str(error)[:300]] if str(error) else []
        return {"raised": type(error).__name__, "notes": notes, "line": line_of(error)}
    changed = {
        i: given[i] for i, old in before.items() if old.shape != given[i].shape or not torch.equal(old, given[i])
    }
    return {"returned": result, "changed": changed, "untouched": result is None and untouched(answer)}


def judged(number: str, answer) -> dict:
    """Judge in here, where the answer is no data: the real check, and beside it an answer that is wrong."""
    from vitnb.checks import engine

    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        right = engine.check(number, answer)
    return {"right": bool(right), "said": said.getvalue()[:4000], "sound": not control(engine, number)}


def control(engine, number: str) -> bool:
    """What the check says of a wrong answer: True if somebody has changed the check."""
    wrong = next(iter(engine.EXERCISES[number].mistakes.values()), lambda *given: "wrong")
    with contextlib.redirect_stdout(io.StringIO()):
        return engine.check(number, wrong)


def course(path: str) -> None:
    """Load a teacher's own exercises."""
    spec = importlib.util.spec_from_file_location("vitnb_course", path)
    module = sys.modules["vitnb_course"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


def main(notebook: str, wanted: str, where: str, *courses: str) -> None:
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0), os.dup2(nothing, 1)
    answers: dict = {}
    space = {"__name__": "__main__"}
    real = None
    if where == "inside":
        import vitnb.checks as real

        for path in courses:
            course(path)
    stub = sys.modules["vitnb.checks"] = recorder(answers)
    sys.modules["vitnb"].checks = stub

    def say(value: dict) -> None:
        replies.write(packed(value))
        replies.flush()

    # Student's prints go nowhere; the grader knows the limits of time and memory.
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        errors = run(cells(notebook), space)
        for number, name in json.loads(wanted).items():
            if number not in answers and callable(space.get(name)):
                answers[number] = space[name]
        say({"errors": errors[:5], "answers": list(answers)})
        if real is not None:
            sys.modules["vitnb.checks"] = sys.modules["vitnb"].checks = real
        while len(head := requests.read(CALL.size)) == CALL.size:
            to, number, given = cloudpickle.loads(requests.read(CALL.unpack(head)[0]))  # from the grader: trusted
            said = judged(number, answers[number]) if where == "inside" else answered(answers[number], given)
            say({"to": to, **said})


if __name__ == "__main__":
    main(*sys.argv[1:])

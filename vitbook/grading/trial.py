"""vitnb-grade --try: what happens to a teacher's own exercise, before students have it."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

from vitbook.exercises import engine, forms
from vitbook.grading import reports, student

IMPORTS = "import torch\nfrom torch import nn\nfrom vitbook import check"  # as in a notebook that is handed out
TIMES = 3  # each answer is judged: other random numbers must not change a verdict
GUESSES: dict[str, Callable] = {  # what somebody may answer who knows nothing
    "always 0": lambda *given: 0,
    "always 1": lambda *given: 1,
    "always True": lambda *given: True,
    "always False": lambda *given: False,
    "an empty text": lambda *given: "",
    "what it is given": lambda *given: given[0] if given else (),
    "zeros of that size": lambda *given: given[0] * 0 if given else (),
}
Line = tuple[bool, str]  # whether it came out as it must, and what was tried


def tried(number: str, course: ModuleType, way: str, folder: Path) -> Iterator[Line]:
    """Try one exercise: its text, a right answer in the sandbox, each of its mistakes, and mere guesses."""
    task = engine.EXERCISES[number]
    yield number in getattr(course, "TASKS", {}), f"TASKS has a text for {number}"
    yield from _right(task, getattr(course, "ANSWERS", {}).get(number, ""), way, folder)
    for message, answer in task.mistakes.items():
        said = [engine.judged(task, answer)[:2] for _ in range(TIMES)]
        own = all(not right and reports.mistake(number, text) == reports.general(message) for right, text in said)
        yield own, f"who makes the mistake {message!r} is told so" + f", but: {said[0][1]}" * (not own)
    passed = [name for name, guess in GUESSES.items() if any(engine.judged(task, guess)[0] for _ in range(TIMES))]
    yield not passed, f"{len(GUESSES)} guesses are wrong" + f", but these are right: {', '.join(passed)}" * bool(passed)


def _right(task: engine.Declaration, code: str, way: str, folder: Path) -> Iterator[Line]:
    """The teacher's answer as a student would hand it in; without one, a form's own reference."""
    if not code:
        said = engine.judged(task, task.reference) if isinstance(task, forms.compute) else (False, "there is none", 0.0)
        yield said[0], f"ANSWERS has no answer to {task.number}; its reference as one: {said[1]}"
        return
    notebook, start = folder / "answer.ipynb", time.monotonic()
    cells = [{"cell_type": "code", "source": text} for text in (IMPORTS, code)]
    notebook.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    said = student.judge(way, notebook, [task.number])[task.number]
    seconds = time.monotonic() - start
    yield said.right, f"your answer, in the sandbox, {said.where} judged ({seconds:.0f} s): {said.sentence}"

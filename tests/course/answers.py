"""The answers that the checks are tested with: each chapter's test file notes its own, test_checks.py judges all.

The published solutions are right answers; noted are other ways to be right,
and wrong answers that a check does not declare itself (Exercise.mistakes).
"""

import importlib.util
import json
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

from vitbook import check

SOLUTIONS = Path(__file__).parents[2] / "book" / "solutions"
JAX = importlib.util.find_spec("flax") is not None  # make jax
RIGHT: dict[str, list] = {}
WRONG: dict[str, list[tuple[Any, str]]] = {}


def right(number: str) -> Callable:
    """Note a right answer that is not written as the published one is."""
    return lambda answer: RIGHT.setdefault(number, []).append(answer) or answer


def wrong(number: str, phrase: str) -> Callable:
    """Note a wrong answer and what the verdict must say about it."""
    return lambda answer: WRONG.setdefault(number, []).append((answer, phrase)) or answer


def verdict(number: str, answer: Any = None, **kwargs: Any) -> tuple[bool, str]:
    """Check an answer and return (is it right, what was printed, in one line)."""
    with redirect_stdout(StringIO()) as printed:
        result = check(number, answer, **kwargs)
    lines = printed.getvalue().splitlines()
    assert all(len(line) <= 75 for line in lines), lines
    return result, " ".join(lines)


@cache
def published(chapter: str) -> dict[str, Any]:
    """The answers of a chapter's solutions, by exercise; those that train first are left out."""
    found: dict[str, Any] = {}
    if chapter == "jax" and not JAX:
        return found
    (path,) = SOLUTIONS.glob(f"{chapter.zfill(2)}*.ipynb")
    space = {"__name__": f"solutions_{chapter}"}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        code = "".join(cell["source"])
        if cell["cell_type"] != "code" or cell["id"] == "setup" or "data.load" in code or "accuracy(" in code:
            continue
        space["check"] = lambda number, answer: found.setdefault(number, answer) is answer
        with redirect_stdout(StringIO()):
            exec(code, space)
    return found


def solution(number: str) -> Any:
    """The published answer to an exercise."""
    return published(number.split(".")[0])[number]


def answers(number: str) -> list:
    """All right answers to an exercise."""
    own = published(number.split(".")[0])
    return [answer for name, answer in own.items() if name == number] + RIGHT.get(number, [])

"""The answers that the checks are tested with: each chapter's test file notes its own, test_checks.py judges all.

Wrong answers that a check declares (Exercise.mistakes) need not be noted here.
"""

from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

from vitbook import check

RIGHT: dict[str, list] = {}
WRONG: dict[str, list[tuple[Any, str]]] = {}


def right(number: str) -> Callable:
    """Note a right answer."""
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

"""How an answer is checked: called on every case, within limits, in a session that stays as it was; then the verdict.

Calls go downwards: check -> here -> the cases and the judge of an exercise -> values.py. Nothing there calls back.
"""

import copy
import textwrap
import traceback
from collections.abc import Callable, Generator
from typing import Any

from torch import nn

from vitbook.exercises import state
from vitbook.exercises.declaration import (
    EXERCISES,
    Case,
    Declaration,
    Judgement,
    Message,
    NotDone,
    Raised,
    Results,
    Suspected,
    Watch,
    Wrong,
    likeliest,
)
from vitbook.exercises.limits import TimeUp, given_up, limited
from vitbook.exercises.values import described, fresh, number, raised_by, tensor_like, unchanged, yes_or_no
from vitnb._validate import choice

# What files of teachers have from here.
__all__ = ["call", "check", "fresh", "number", "raised_by", "tensor_like", "yes_or_no"]


def check(number: str, answer: Any = None, hint: int | None = None) -> bool:
    """Say whether an answer is right, or, with hint=1 or 2, give that hint.

    Prints one verdict: what was tried if the answer is right; if it is not,
    what is wrong, with the smallest evidence. Random numbers, settings, and
    functions that an answer replaces are afterwards as they were.

    Raises: ValueError for an unknown exercise or hint.
    """
    task = EXERCISES[choice("exercise", number, EXERCISES)]
    if hint is not None:
        said = (task.hint1, task.hint2)[choice("hint", hint, (1, 2)) - 1]
        print(_wrap(f"Hint {hint}: {said}"))
        return False
    right, verdict, _ = judged(task, answer)
    print(_wrap(verdict))
    return right


def judged(task: Declaration, answer: Any) -> tuple[bool, str, float]:
    """Whether an answer is right, what is said of it, and which share of it is right."""
    not_done = f"{task.number}: not done yet."
    if answer is None or answer is ...:
        return False, not_done, 0.0
    no_function = f"Expected a function {task.signature}, not called yet, got {described(answer)}."
    share = 0.0
    try:
        if not callable(answer):
            raise Wrong(no_function)
        with state.kept():
            return True, f"Right: {limited(lambda: _tried(task, answer), task.work)}", 1.0
    except NotDone:
        return False, not_done, 0.0
    except TimeUp as limit:
        reason = f"Your function was stopped after {limit}"
    except Wrong as error:
        reason = no_function if isinstance(error, Raised) and isinstance(answer, nn.Module) else str(error)
        share = error.share
    except Exception as error:  # in our own lines, from something odd that an answer has returned
        reason = f"What your function returns cannot be checked: {error_in_words(error)}."
    return False, f'{reason} Hint: check("{task.number}", hint=1).', share


def _tried(task: Declaration, answer: Callable) -> str:
    """Call an answer on every case, and return what was tried.

    Raises: Wrong with what is wrong; NotDone for an untouched skeleton.
    """
    results: Results = []
    wrong: list[Suspected] = []  # from the first one on, the other cases only tell which mistake it is
    for case in task.cases():
        watch = task.watch(*case)
        try:
            result = _result(task, answer, case, watch)
            message = _message(task.judge(result, *case), watch) or watch.breach()
        except Exception:
            if wrong:
                continue
            raise
        if isinstance(message, Suspected):
            wrong.append(message)
            if not wrong[0].known:
                break
        elif message and not wrong:
            raise Wrong(message)
        results.append((case, result))
    if wrong:
        raise Wrong(likeliest(wrong))
    if message := task.overall(results):
        raise Wrong(message, task.share(results))
    return task.tried(results)


def _result(task: Declaration, answer: Callable, case: Case, watch: Watch) -> Any:
    given = task.given(*case)
    try:
        with watch:
            return call(answer, *given, changes=task.changes)
    except Raised as raised:
        if not task.errors:
            raise
        return raised


def _message(judgement: Judgement, watch: Watch) -> Message | Suspected:
    """What a judge says; a generator's calls are made for it, and errors of the answer come up where it asked."""
    if not isinstance(judgement, Generator):
        return judgement
    step, reply = judgement.send, None
    while True:
        try:
            function, *given = step(reply)
        except StopIteration as end:
            return end.value
        try:
            with watch:
                step, reply = judgement.send, call(function, *given)
        except (Wrong, NotDone) as error:
            step, reply = judgement.throw, error


def call(answer: Callable, *given: Any, changes: bool = False) -> Any:
    """Call an answer on copies of what it is given, or on the things themselves if it may change them.

    Raises: NotDone for an untouched skeleton; Raised if the answer raises;
        Wrong if it returns nothing or changes its input.
    """
    own = given if changes else copy.deepcopy(given)
    before = state.State()
    try:
        try:
            result = answer(*own)
        finally:
            if given_up():  # the session has been put back, and others have it now
                raise TimeUp("nobody waits for it")
            before.restore()
    except (Exception, SystemExit) as error:
        if isinstance(error, NotImplementedError) and not error.args:
            raise NotDone from None
        listed = ", ".join(map(described, own))
        raise Raised(f"{_what_was_raised(answer, error)}. It was called with ({listed}).", error) from None
    if result is ... or (result is None and _untouched(answer)):
        raise NotDone
    if result is None:
        raise Wrong("Your function returns None: is the return missing?")
    if not all(map(unchanged, given, own)):
        raise Wrong("Your function changes what it is given: the caller still needs it. Work on a copy.")
    return result


def _what_was_raised(answer: Callable, error: BaseException) -> str:
    """Name the error, its message in one line, and the reader's own line where it came from."""
    file = getattr(getattr(answer, "__code__", None), "co_filename", None)
    lines = [frame.line for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    line = getattr(error, "line_of_answer", None) or (lines[-1] if lines else "")
    where = f" in the line `{line}`" if line else ""
    kind, colon, message = error_in_words(error).partition(":")
    return f"Your function raises {kind}{where}{colon}{message}"


def error_in_words(error: BaseException) -> str:
    """An error's kind and its message, in one line, as far as it can be read."""
    try:
        message = " ".join(str(error).split())
    except Exception:
        message = ""
    short = textwrap.shorten(message, 320, placeholder=" ...")  # room for both shapes of a load_state_dict that fails
    if short == message:
        short = short.rstrip(".")
    return f"{type(error).__name__}{f': {short}' if short else ''}"


def _untouched(answer: Callable) -> bool:
    """Say whether a function has no body but `...`: then its instructions are those of this one."""

    def skeleton():
        """Compare operations only: where the constants lie depends on the docstring."""
        ...

    code = getattr(answer, "__code__", None)
    return code is None or code.co_code[::2] == skeleton.__code__.co_code[::2]


def _wrap(text: str) -> str:
    # Longer lines scroll in the page.
    lines = [textwrap.fill(line, 75, break_long_words=False, break_on_hyphens=False) for line in text.split("\n")]
    return "\n".join(lines)

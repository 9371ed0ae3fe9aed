"""What every check needs: the verdict, the time limit, calling an answer that may do anything.

An exercise is one function with the decorator `exercise`. It gets the reader's
answer, returns one sentence on what was tried, or raises Wrong with what is
wrong, the smallest evidence, and the misconception that it looks like; never
the answer.
"""

import copy
import math
import random
import signal
import sys
import textwrap
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, allclose, equal, isnan, nn  # by name: an answer may replace torch.allclose for the session

from vitnb._validate import choice

TIME_LIMIT = 10.0  # seconds of work for all calls of one check together
PATIENCE = 6  # times as long by the clock: on a busy machine a right answer may wait, and a sleeping one ends too


class Wrong(Exception):
    """The answer is wrong; the message says why."""


class Raised(Wrong):
    """The answer raised an error, which is kept as `error`."""

    def __init__(self, message: str, error: BaseException):
        super().__init__(message)
        self.error = error


class NotDone(Exception):
    """The skeleton was left as it is."""


class TimeUp(BaseException):  # no Exception: an answer's own "except Exception" must not swallow it
    """The answer took too long; the text says which limit it met."""


@dataclass(frozen=True)
class Exercise:
    """One exercise: the function wanted, its test and two hints."""

    signature: str
    test: Callable[[Any], str]
    hints: tuple[str, str]
    mistakes: dict[str, Callable]  # {message: a wrong answer that gets it}, where the form of the exercise has them
    work: float  # how many times TIME_LIMIT its answer may take


EXERCISES: dict[str, Exercise] = {}


def exercise(
    number: str,
    signature: str,
    hint1: str,
    hint2: str,
    mistakes: dict[str, Callable] | None = None,
    work: float = 1.0,
) -> Callable[[Callable], Callable]:
    """Register the decorated function as the test of an exercise."""

    def register(test: Callable[[Any], str]) -> Callable[[Any], str]:
        EXERCISES[number] = Exercise(signature, test, (hint1, hint2), mistakes or {}, work)
        return test

    return register


def check(number: str, answer: Any = None, hint: int | None = None) -> bool:
    """Say whether an answer is right, or, with hint=1 or 2, give that hint.

    Prints one verdict: what was tried if the answer is right; if it is not,
    what is wrong, with the smallest evidence. Torch's, NumPy's and Python's
    random numbers go on afterwards as if nothing had been drawn.

    Raises: ValueError for an unknown exercise or hint.
    """
    task = EXERCISES[choice("exercise", number, EXERCISES)]
    if hint is not None:
        print(_wrap(f"Hint {hint}: {task.hints[choice('hint', hint, (1, 2)) - 1]}"))
        return False
    right, verdict = _judge(number, task, answer)
    print(_wrap(verdict))
    return right


def call(answer: Callable, *given: Any) -> Any:
    """Call the answer on copies of what it is given.

    Raises: NotDone for an untouched skeleton; Wrong if the answer raises,
        returns nothing or changes its input.
    """
    copies = copy.deepcopy(given)
    result = run(answer, *copies)
    if result is None:
        raise Wrong("Your function returns None: is the return missing?")
    if not all(map(_same, given, copies)):
        raise Wrong("Your function changes what it is given: the caller still needs it. Work on a copy.")
    return result


def run(answer: Callable, *given: Any) -> Any:
    """Call the answer on what it is given, which it may change, and return what it returns, be it None.

    Raises: NotDone for an untouched skeleton; Wrong if the answer raises.
    """
    try:
        with _settings_kept():
            result = answer(*given)
    except (Exception, SystemExit) as error:
        if isinstance(error, NotImplementedError) and not error.args:
            raise NotDone from None
        raise Raised(f"{_what_was_raised(answer, error)}. It was called with {_listed(given)}.", error) from None
    if result is ... or (result is None and _untouched(answer)):
        raise NotDone
    return result


def number(value: Any) -> float:
    """Return a number as a float, or raise Wrong if it is none."""
    if _is_tensor(value) and value.ndim == 0 and not value.is_meta:
        value = value.item()
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise Wrong(f"Your function returns {described(value)}: a number is wanted.")
    if not math.isfinite(value):
        raise Wrong(f"Your function returns {value}: a finite number is wanted.")
    return float(value)


def yes_or_no(value: Any) -> bool:
    """Return True or False, of Python, NumPy or torch, as a bool, or raise Wrong: 1 and 0 are numbers."""
    if _is_tensor(value) and value.ndim == 0 and value.dtype == torch.bool and not value.is_meta:
        value = value.item()
    if not isinstance(value, (bool, np.bool_)):
        raise Wrong(f"Your function returns {described(value)}: True or False is wanted.")
    return bool(value)


def tensor_like(value: Any, wanted: Tensor, whose: str = ", that of the input") -> Tensor:
    """Return value if it is a tensor with the shape, type and device of wanted and without NaN, or raise Wrong."""
    if not _is_tensor(value):
        raise Wrong(f"Your function returns {described(value)}: a torch tensor is wanted.")
    if value.shape != wanted.shape:
        raise Wrong(f"Your result has shape {tuple(value.shape)}: {tuple(wanted.shape)} is wanted.")
    if value.dtype != wanted.dtype:
        raise Wrong(f"Your result has type {value.dtype}: {wanted.dtype} is wanted{whose}.")
    if value.layout != wanted.layout:
        raise Wrong("Your result is a sparse tensor: a dense one is wanted.")
    if value.device != wanted.device:
        raise Wrong(f"Your result is on the device {value.device}: {wanted.device} is wanted.")
    if missing := int(isnan(value).sum()):
        raise Wrong(f"Your result holds NaN in {missing} of {value.numel()} places.")
    return value.detach()


def close(a: Tensor, b: Tensor, tolerance: float = 1e-5) -> bool:
    """Say whether two tensors have one shape and the same numbers."""
    return a.shape == b.shape and allclose(a, b, rtol=tolerance, atol=tolerance)


def described(value: Any) -> str:
    """Name a value by its kind, without trusting its repr."""
    if _is_tensor(value) or isinstance(value, np.ndarray):
        return f"a {'tensor' if isinstance(value, Tensor) else 'NumPy array'} of shape {tuple(value.shape)}"
    if type(value).__module__.startswith("jax") and hasattr(value, "shape"):
        return f"a JAX array of shape {tuple(value.shape)}"
    if isinstance(value, (int, float, str)) and len(text := repr(value)) < 40:
        return text
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' else 'a'} {kind}"


def fresh(*shape: int) -> Tensor:
    """Random normal numbers, new at each call, that leave the global generator alone."""
    generator = torch.Generator()
    generator.seed()
    return torch.randn(shape, generator=generator)


def raised_by(error: BaseException, thing: Any) -> bool:
    """Whether an error comes from inside a thing that the answer tried, not from the answer itself."""
    module = getattr(thing, "__module__", type(thing).__module__)
    file = getattr(sys.modules.get(module), "__file__", None)
    frames = traceback.extract_tb(error.__traceback__)
    files = getattr(error, "files_of_answer", None) or {frame.filename for frame in frames}
    return file is not None and file in files


def _is_tensor(value: Any) -> bool:
    """Whether it is torch's own tensor: a subclass may answer what it likes when it is compared."""
    return type(value) in (Tensor, nn.Parameter)


def _judge(number: str, task: Exercise, answer: Any) -> tuple[bool, str]:
    if answer is None or answer is ...:
        return False, f"{number}: not done yet."
    no_function = f"A function {task.signature} is wanted, without a call: this is {described(answer)}."
    try:
        if not callable(answer):
            raise Wrong(no_function)
        with _random_numbers_kept(), _settings_kept(), torch.inference_mode(False), torch.enable_grad():
            _set(torch.float32, torch.device("cpu"), torch.get_num_threads())
            return True, f"Right: {_limited(lambda: task.test(answer), task.work)}"
    except NotDone:
        return False, f"{number}: not done yet."
    except TimeUp as limit:
        reason = f"Your function was stopped after {limit}"
    except Wrong as error:
        reason = no_function if isinstance(error, Raised) and isinstance(answer, nn.Module) else str(error)
    except Exception as error:  # in our own lines, from something odd that an answer has returned
        reason = f"What your function returns cannot be checked: {error_in_words(error)}."
    return False, f'{reason} Hint: check("{number}", hint=1).'


def _limited(function: Callable[[], str], work: float) -> str:
    """Run a function; raise TimeUp when its time, so many times TIME_LIMIT, is over.

    What cannot be stopped: one long call into C, before it is over; an answer
    that ignores SIGALRM; in a second thread, the thread itself, which goes on.
    """
    main = threading.current_thread() is threading.main_thread()
    by = _limited_by_signal if main and hasattr(signal, "setitimer") else _limited_by_thread
    return by(function, _stopwatch(work * TIME_LIMIT))


def _stopwatch(work: float) -> Callable[[], str]:
    """A function that says which limit is met, if one is: that on this process's work or, much later, on the clock."""
    start, clock = time.process_time(), time.monotonic()
    wait = PATIENCE * work

    def met() -> str:
        if time.process_time() - start > work:
            return f"{work:g} seconds of work: is there a loop that does not end?"
        if time.monotonic() - clock > wait:
            return f"{wait:g} seconds by the clock, with less than {work:g} of work: does it wait for something?"
        return ""

    return met


def _limited_by_signal(function: Callable[[], str], met: Callable[[], str]) -> str:
    running, pause = True, 0.1

    def look(*_: Any) -> None:
        nonlocal pause
        if running and (limit := met()):
            # Again and again, ever faster, until it gets through: an answer may catch BaseException in a loop.
            pause = max(pause / 2, 0.001)
            signal.setitimer(signal.ITIMER_REAL, pause, pause)
            raise TimeUp(limit)

    handler = signal.signal(signal.SIGALRM, look)
    timer = signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT / 10, TIME_LIMIT / 10)
    try:
        try:
            return function()
        finally:
            running = False  # the one line that a last signal can interrupt
    finally:
        running = False
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def _limited_by_thread(function: Callable[[], str], met: Callable[[], str]) -> str:
    """Windows has no timer signal, and only the main thread gets one; the thread that is too slow goes on alone."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(function())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive() and not (limit := met()):
        thread.join(TIME_LIMIT / 10)
    result = outcome[0] if outcome else TimeUp(limit)
    if isinstance(result, BaseException):
        raise result
    return result


@contextmanager
def _random_numbers_kept() -> Iterator[None]:
    """Leave the global random generators as they were, whatever an answer draws."""
    states = random.getstate(), np.random.get_state()  # noqa: NPY002  (the state that an answer may change)
    try:
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


@contextmanager
def _settings_kept() -> Iterator[None]:
    """Leave torch's settings as they were, whatever an answer sets: default type and device, gradients, threads."""
    settings = torch.get_default_dtype(), default_device(), torch.get_num_threads()
    with torch.set_grad_enabled(torch.is_grad_enabled()):
        try:
            yield
        finally:
            _set(*settings)


def default_device() -> torch.device:
    """Where torch makes a tensor: torch 2.6 cannot say it once the default has been set back to None."""
    return torch.empty(0).device


def _set(dtype: torch.dtype, device: torch.device, threads: int) -> None:
    """Set what is not so already: a default device, even the CPU, makes every call slower."""
    if torch.get_default_dtype() != dtype:
        torch.set_default_dtype(dtype)
    if default_device() != device:
        torch.set_default_device(None if device.type == "cpu" else device)
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)


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


def _same(before: Any, after: Any) -> bool:
    if isinstance(before, nn.Module):
        a, b = before.state_dict(), after.state_dict()
        same = before.training == after.training and _makeup(before) == _makeup(after)
        return same and a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    if isinstance(before, Tensor):
        return before.shape == after.shape and equal(before, after)
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(_same(before[k], after[k]) for k in before)
    if hasattr(before, "__array__"):  # NumPy's and JAX's
        return np.array_equal(before, after)
    return before is after or before == after


def _makeup(module: nn.Module) -> list[tuple]:
    """The kinds of all parts of a module, and the methods that one of them alone has, a patched forward for example."""
    return [
        (name, type(part), {key for key in vars(part) if not key.startswith("_") and callable(vars(part)[key])})
        for name, part in module.named_modules()
    ]


def _listed(given: tuple) -> str:
    return f"({', '.join(map(described, given))})"


def _wrap(text: str) -> str:
    # Longer lines scroll in the page.
    lines = [textwrap.fill(line, 75, break_long_words=False, break_on_hyphens=False) for line in text.split("\n")]
    return "\n".join(lines)

"""A limit on the time that a check may take."""

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

TIME_LIMIT = 10.0  # seconds of work for all calls of one check together
PATIENCE = 6  # times as long by the clock: on a busy machine a right answer may wait, and a sleeping one ends too


class TimeUp(BaseException):  # no Exception: an answer's own "except Exception" must not swallow it
    """The answer took too long; the text says which limit it met."""


def limited(function: Callable[[], str], work: float) -> str:
    """Run a function; raise TimeUp when its time, `work` times TIME_LIMIT, is over.

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


class Limited(threading.Thread):
    """A thread in which an answer runs; one that is given up goes on alone."""

    given_up = False


def given_up() -> bool:
    """Whether nobody waits for the thread that asks: what it would put back is no longer its own."""
    thread = threading.current_thread()
    return isinstance(thread, Limited) and thread.given_up


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

    thread = Limited(target=run, daemon=True)
    thread.start()
    while thread.is_alive() and not (limit := met()):
        thread.join(TIME_LIMIT / 10)
    if not outcome:
        thread.given_up = True
        raise TimeUp(limit)
    result = outcome[0]
    if isinstance(result, BaseException):
        raise result
    return result

"""The seconds of an experiment, over all its starts: kept beside its checkpoints."""

import pickle
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from experiments._trials import checkpoint
from vitnb._files import replacing


def kept(name: str) -> list[Path]:
    """The checkpoints of an experiment's interrupted runs."""
    return sorted(checkpoint(name).parent.glob(f"{name}-*.pt"))


def clock_file(name: str) -> Path:
    return checkpoint(name).with_suffix(".seconds")


@contextmanager
def clock(name: str, every: float = 10.0) -> Iterator[Callable[[], float]]:
    """Give a function that says how many seconds the experiment has taken, this start and the earlier ones.

    Every ten seconds they are written beside the checkpoints, so a killed run
    loses no more than that. What is not kept is not counted: where there is no
    checkpoint, the next start begins at zero, as its work does.
    """
    before, start, done = earlier(name), time.perf_counter(), threading.Event()

    def seconds() -> float:
        return before + time.perf_counter() - start

    def write() -> None:
        if kept(name):
            with replacing(clock_file(name)) as part:
                part.write_text(f"{seconds():.1f}\n", encoding="utf-8")

    def tick() -> None:
        while not done.wait(every):
            write()

    ticking = threading.Thread(target=tick, daemon=True)
    ticking.start()
    try:
        yield seconds
    finally:
        done.set()
        ticking.join()
        write()


def earlier(name: str) -> float:
    """Seconds of the starts before this one; without a clock beside the checkpoints, those of the training in them."""
    if not kept(name):
        return 0.0
    if clock_file(name).exists():
        return float(clock_file(name).read_text(encoding="utf-8"))
    return sum(_trained(path) for path in kept(name))


def _trained(path: Path) -> float:
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (RuntimeError, EOFError, pickle.UnpicklingError):  # damaged: fit will say so
        return 0.0
    return state["history"]["seconds"] if isinstance(state, dict) and "history" in state else 0.0

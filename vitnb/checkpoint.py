"""Checkpoints of a training: files that a kill leaves whole, and a Ctrl-C that waits until one is written."""

import pickle
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from vitnb._files import replacing


def save_checkpoint(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint; the old one stays until the new one is complete on the disk."""
    with replacing(path) as part, part.open("wb") as file:
        torch.save(state, file)


def load_checkpoint(path: Path, identity: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Read the checkpoint of the run with this identity.

    Raises: ValueError if it is damaged or belongs to another run; the message says what differs.
    """
    cure = "delete it or give another path"
    try:
        state = torch.load(path, map_location=device, weights_only=True)
        theirs = dict(state["identity"])
    except (RuntimeError, EOFError, KeyError, TypeError, pickle.UnpicklingError) as error:
        reason = str(error).split("\n")[0] or type(error).__name__
        raise ValueError(f"checkpoint {path} is damaged or no checkpoint ({reason}): {cure}") from error
    for key, here in identity.items():
        if theirs.get(key) != here:
            what = f"{key} is {theirs.get(key)!r} there and {here!r} here"
            raise ValueError(f"checkpoint {path} belongs to another run, {what}: {cure}")
    return state


@contextmanager
def delayed_interrupt() -> Iterator[threading.Event]:
    """Within: a first Ctrl-C only sets the event that this yields, a second one interrupts."""
    interrupted = threading.Event()

    def note(*_: Any) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    if threading.current_thread() is not threading.main_thread():  # only this one gets signals
        yield interrupted
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)

"""Files that a killed training leaves whole, and a Ctrl-C that waits its turn."""

import os
import pickle
import signal
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch


def write(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint; the old one stays until the new one is complete on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    with part.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def read(path: Path, identity: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Read a checkpoint of the run with this identity.

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
def patient_ctrl_c():
    """Within: a first Ctrl-C waits for the end of the step, a second one does not."""
    pressed = threading.Event()

    def note(*_: Any) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    if threading.current_thread() is not threading.main_thread():  # only this one gets signals
        yield pressed
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)

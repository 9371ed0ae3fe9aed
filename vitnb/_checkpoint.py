"""What stands beside a training's loop: files that a kill leaves whole, callbacks, a Ctrl-C that waits its turn."""

import hashlib
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import torch

from vitnb import _processes
from vitnb._files import replacing
from vitnb.progress import Run


class Resumable(Run, Protocol):
    """A run that can be put down and taken up again."""

    device: torch.device

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@contextmanager
def keeping(
    run: Resumable, callbacks: Sequence[Callable[[Run], None]], checkpoint: str | Path | None, save_every: float
) -> Iterator[Callable[[], None]]:
    """Stand beside a run's loop: within, what this yields is to be called after each step.

    First the run takes up what the checkpoint holds, if there is one.

    Raises: ValueError if the checkpoint is damaged, belongs to another run, or is not the same for all processes.
    """
    keeper = _Keeper(run, callbacks, None if checkpoint is None else Path(checkpoint), save_every)
    with patient_ctrl_c() as keeper.pressed:
        if run.finished:
            keeper.call()
        yield keeper.after_step


class _Keeper:
    """Saves a run, calls its callbacks and ends it at Ctrl-C; of several processes only the first saves and calls."""

    pressed: threading.Event

    def __init__(self, run: Resumable, callbacks: Sequence[Callable[[Run], None]], path: Path | None, every: float):
        self.run, self.callbacks, self.path, self.every = run, callbacks, path, every
        if path is not None:
            self.identity = identity(run)
            if path.exists():
                run.load_state_dict(read(path, self.identity, run.device))
            _processes.check_alike(run.step, path, run.device)
        if _processes.world()[0] > 0:
            self.callbacks, self.path = (), None
        self.saved = time.monotonic()

    def after_step(self) -> None:
        if self.run.step % self.run.steps_per_epoch == 0 or time.monotonic() - self.saved >= self.every:
            self.save()
        self.call()
        if self.pressed.is_set():
            self.save()
            where = f"saved in {self.path}: the same call goes on" if self.path else "no checkpoint asked for"
            print(f"Interrupted after step {self.run.step} of {self.run.steps}; {where}.")
            raise KeyboardInterrupt

    def call(self) -> None:
        for callback in self.callbacks:
            callback(self.run)

    def save(self) -> None:
        if self.path is not None:
            write(self.path, {"identity": self.identity} | self.run.state_dict())
        self.saved = time.monotonic()


def identity(run: Run) -> dict[str, Any]:
    """What must be equal for a checkpoint to fit."""
    digest = hashlib.md5(usedforsecurity=False)
    for tensor in (run.data.train_images, run.data.train_labels):
        digest.update(tensor.cpu().contiguous().numpy().data)
    return {f"recipe.{key}": value for key, value in asdict(run.recipe).items()} | {
        "the model's config": repr(getattr(run.model, "config", None)),
        "the model's shapes": {name: tuple(value.shape) for name, value in run.model.state_dict().items()},
        "data.name": run.data.name,
        "the training set's MD5 sum": digest.hexdigest(),
    }


def write(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint; the old one stays until the new one is complete on the disk."""
    with replacing(path) as part, part.open("wb") as file:
        torch.save(state, file)


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

"""The state of a session that checks rely on: kept before a check, restored after it and after every call.

An answer may set a default type, replace torch.allclose, leave a hook on all
modules. And an earlier cell may have done so: a check works with the functions
that were there when this file was imported, and puts the session's own back.
"""

import copy
import gc
import math
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules import module as all_modules

PACKAGES = ("vitnb", "vitbook.faults", "vitbook.exercises")
LIBRARIES = (torch, F, nn, nn.init, torch.linalg, torch.autograd, np, copy, math)
GLOBAL_HOOKS = [hooks for name, hooks in vars(all_modules).items() if name.startswith("_global_") and hooks is not None]
GLOBAL_HOOKS = [hooks for hooks in GLOBAL_HOOKS if isinstance(hooks, dict)]

Names = dict[str, Any]
Kept = list[tuple[Any, Names, int]]  # a module or class, its functions, and how many names it has


def _owners() -> list[Any]:
    """Modules and classes whose functions checks rely on."""
    ours = [module for name, module in list(sys.modules.items()) if name.startswith(PACKAGES)]
    classes = [torch.Tensor, nn.Parameter]
    for module in (nn, torch.optim, *ours):
        classes += [thing for thing in vars(module).values() if isinstance(thing, type)]
    return list(dict.fromkeys([*LIBRARIES, *ours, *classes]))


def _functions(owner: Any) -> Names:
    kinds = (staticmethod, classmethod, property)
    return {name: value for name, value in vars(owner).items() if callable(value) or isinstance(value, kinds)}


def _kept_functions() -> Kept:
    return [(owner, _functions(owner), len(vars(owner))) for owner in _owners()]


def _put_back(kept: Kept) -> None:
    """Give every owner the functions that it had, and take new methods away that hide one of a base class."""
    for owner, names, size in kept:
        now = vars(owner)
        for name, value in names.items():
            if now.get(name) is not value:
                setattr(owner, name, value)
        if len(now) != size and isinstance(owner, type):
            for name in [name for name in _functions(owner) if name not in names and _inherits(owner, name)]:
                delattr(owner, name)


def _inherits(kind: type, name: str) -> bool:
    return not name.startswith("__") and any(name in vars(base) for base in kind.__mro__[1:])


def default_device() -> torch.device:
    """Where torch makes a tensor: torch 2.6 cannot say it once the default has been set back to None."""
    return torch.empty(0).device


def _set_device(device: torch.device) -> None:
    torch.set_default_device(None if device.type == "cpu" else device)  # the CPU, too, makes every call slower


def _handlers() -> dict[int, Any]:
    """The handlers of signals, which only the main thread may set; that of the time limit is among them."""
    names = ("SIGINT", "SIGTERM", "SIGALRM") if threading.current_thread() is threading.main_thread() else ()
    return {number: signal.getsignal(number) for name in names if (number := getattr(signal, name, None))}


def _set_handlers(handlers: dict[int, Any]) -> None:
    for number, handler in handlers.items():
        if signal.getsignal(number) is not handler and handler is not None:
            signal.signal(number, handler)


def _hooks() -> list[dict]:
    return [dict(hooks) for hooks in GLOBAL_HOOKS]


def _set_hooks(kept: list[dict]) -> None:
    for hooks, before in zip(GLOBAL_HOOKS, kept, strict=True):
        if hooks or before:
            hooks.clear()
            hooks.update(before)


def _set_warnings(filters: list) -> None:
    warnings.resetwarnings()  # it also forgets what the old filters have said
    warnings.filters.extend(filters)


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it is gone
        return None


def _set_folder(folder: str | None) -> None:
    if folder:
        os.chdir(folder)


def _set_streams(streams: tuple) -> None:
    sys.stdout, sys.stderr = streams


Way = tuple[Callable[[], Any], Callable[[Any], Any]]  # how a setting is read, and how it is set again
Ways = list[Way]


def _where_it_differs(read: Callable[[], Any], write: Callable[[Any], Any]) -> Way:
    """A setting that costs time, or forgets something, whenever it is set."""
    return read, lambda value: None if read() == value else write(value)


SETTINGS: Ways = [
    (_handlers, _set_handlers),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.get_default_dtype, torch.set_default_dtype),
    _where_it_differs(default_device, _set_device),
    _where_it_differs(torch.get_num_threads, torch.set_num_threads),
    _where_it_differs(torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
    (_hooks, _set_hooks),
    _where_it_differs(lambda: list(warnings.filters), _set_warnings),
    _where_it_differs(_folder, _set_folder),
    (gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (np.geterr, lambda errors: np.seterr(**errors)),
    (lambda: (sys.stdout, sys.stderr), _set_streams),
]
OF_A_SESSION: Ways = [
    *SETTINGS,
    (random.getstate, random.setstate),
    (np.random.get_state, np.random.set_state),  # noqa: NPY002  (the state that an answer may change)
    (torch.get_rng_state, torch.set_rng_state),
    (_kept_functions, _put_back),
]
ORIGINALS: Kept = []


def remember() -> None:
    """Take the functions that are there now for the original ones."""
    ORIGINALS[:] = _kept_functions()


class State:
    """What all settings are now."""

    def __init__(self, ways: Ways = SETTINGS):
        self.kept = [(write, read()) for read, write in ways]

    def restore(self) -> None:
        """Set all of them again, by original functions."""
        _put_back(ORIGINALS)
        for write, value in self.kept:
            write(value)


@contextmanager
def kept() -> Iterator[None]:
    """Leave the session as it was, whatever happens; work with original functions and usual settings meanwhile."""
    session = State(OF_A_SESSION)
    _put_back(ORIGINALS)
    _set_hooks([{} for _ in GLOBAL_HOOKS])
    try:
        with torch.inference_mode(False), torch.enable_grad():
            torch.set_default_dtype(torch.float32)
            _set_device(torch.device("cpu"))
            yield
    finally:
        session.restore()

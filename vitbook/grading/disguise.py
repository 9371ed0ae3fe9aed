"""What an answer is given, packed for the sandbox without the names that would tell it what is right.

In exercises whose answer is itself a test, right and wrong versions travel to
the student's program. A class or a function keeps what it does and loses its
name, its docstring and its place in a file, the right one as well as the wrong
ones: each gets a random name, another one in each request. Who reads the code
itself can still tell them apart.
"""

import importlib
import io
import secrets
import sys
import types
from typing import Any

import cloudpickle
from torch import nn

OURS = ("vitbook.faults", "vitbook.exercises", "vitnb_course")  # where the wrong versions are
GIVEN = "<given>"  # the file from which they seem to come


def dumps(value: Any) -> bytes:
    """Pickle what an answer is given; nothing in it has a name by which it could be told."""
    file = io.BytesIO()
    Pickler(file).dump(_handed(value))
    return file.getvalue()


class Pickler(cloudpickle.Pickler):
    """Packs classes and functions of ours by value and under random names, models of the package as a class apart."""

    def __init__(self, file: io.BytesIO):
        super().__init__(file)
        self.kinds: dict[type, str] = {}

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, types.CodeType):
            hidden = thing.replace(co_name=_name(), co_qualname=_name(), co_filename=GIVEN, co_firstlineno=1)
            return self.dispatch_table[types.CodeType](hidden)
        if isinstance(thing, types.FunctionType) and _is_ours(thing):
            return super().reducer_override(nameless(thing))
        if isinstance(thing, type):
            return self._class(thing)
        if isinstance(thing, nn.Module) and _is_public(type(thing)):
            # As an object of a class of its own: of the right layer no more is to be seen than of a wrong one.
            _, _, state = thing.__reduce_ex__(2)[:3]
            kind = type(thing)
            name = self.kinds.setdefault(kind, _name())
            return blank, (kind.__module__, kind.__qualname__, name), state
        return super().reducer_override(thing)

    def _class(self, kind: type) -> Any:
        if not _is_ours(kind):
            return super().reducer_override(kind)
        kept = kind.__name__, kind.__qualname__, kind.__module__, kind.__doc__
        name = self.kinds.setdefault(kind, _name())
        kind.__name__, kind.__qualname__, kind.__module__, kind.__doc__ = name, name, "given", None
        try:
            return super().reducer_override(kind)  # reads the names at once
        finally:
            kind.__name__, kind.__qualname__, kind.__module__, kind.__doc__ = kept


def nameless(function: types.FunctionType) -> types.FunctionType:
    """The same function without its name; what it holds in its closure is handed over, too."""
    cells = tuple(types.CellType(_handed(cell.cell_contents)) for cell in function.__closure__ or ())
    made = types.FunctionType(function.__code__, function.__globals__, _name(), function.__defaults__, cells)
    made.__qualname__, made.__module__, made.__kwdefaults__ = made.__name__, "given", function.__kwdefaults__
    made.__annotations__ = {}
    return made


def blank(module: str, name: str, shown: str) -> nn.Module:
    """In the sandbox: an empty object of the package's class, of a class with another name."""
    kind = _found(module, name)
    return nn.Module.__new__(disguised(kind, shown))


def again(module: str, name: str, shown: str) -> type:
    """In the sandbox: the package's class under another name."""
    return disguised(_found(module, name), shown)


def disguised(kind: type, shown: str) -> type:
    return type(shown, (kind,), {"__module__": "given", "__qualname__": shown})


class Handed:
    """Stands for a class of the package that is itself what an answer is given."""

    def __init__(self, kind: type):
        self.kind = kind

    def __reduce__(self) -> tuple:
        return again, (self.kind.__module__, self.kind.__qualname__, _name())


def _handed(value: Any) -> Any:
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        return type(value)(map(_handed, value))
    if isinstance(value, type) and issubclass(value, nn.Module) and _is_public(value):
        return Handed(value)
    if isinstance(value, types.FunctionType) and _is_public(value):
        return nameless(value)
    return value


def _name() -> str:
    return f"_{secrets.token_hex(4)}"


def _is_ours(thing: Any) -> bool:
    return str(getattr(thing, "__module__", "")).startswith(OURS)


def _is_public(thing: Any) -> bool:
    """Whether the sandbox can import it from the package by its name."""
    module = str(getattr(thing, "__module__", ""))
    return module.startswith(("vitnb.", "vitbook.")) and not module.startswith(OURS) and "<" not in thing.__qualname__


def _found(module: str, name: str) -> Any:
    found = importlib.import_module(module) if module not in sys.modules else sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part)
    return found

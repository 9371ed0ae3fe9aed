"""What the clinic knows of a wrong version, and the register of all of them."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from vitbook.faults._rewrite import Rewriting
from vitnb._validate import choice

EFFECTS = ("same function", "other recipe", "other function")
FAMILIES = ("cut", "place", "attend", "wire", "pool", "train")
Version = TypeVar("Version", bound=Callable)


@dataclass(frozen=True)
class Fault:
    """A wrong version of one part: what it is called, what it does, and which tests see it in a model.

    symptom goes on after "a layer that ..."; seen_by names the tests of
    faults.TESTS that fail for a model with this fault, and is measured in
    tests/course/test_faults.py; None where no model can have it (an inverse, a
    schedule, a resize). same is for a fault that changes no function: how the
    weights of a right model are rewritten for the wrong one, and back.
    """

    name: str
    family: str
    symptom: str
    seen_by: frozenset[str] | None
    replaces: Any  # the right function or class
    wrong: Callable
    same: Rewriting | None = None

    @property
    def effect(self) -> str | None:
        """What comes of it, one of EFFECTS; None where neither a model nor its training can have it.

        "same function": the model can learn exactly the functions that the
        right one can, with other weights; "other recipe": the model is right,
        and its training (or how it is judged) is not; "other function": it can
        learn other functions, or fewer.
        """
        if self.same:
            return "same function"
        if self.family == "train":
            return "other recipe"
        return None if self.seen_by is None else "other function"


FAULTS: dict[str, Fault] = {}


def fault(
    symptom: str, replaces: Any, seen_by: Iterable[str] | None = (), same: Rewriting | None = None
) -> Callable[[Version], Version]:
    """Register the decorated function or class as a wrong version of `replaces`; its name in words is the fault's.

    Raises: ValueError if the name is taken, or its file is no family.
    """

    def register(wrong: Version) -> Version:
        name = re.sub(r"(?<=[a-z])(?=[A-Z][a-z]|[A-Z]{3})|(?<=[A-Z])(?=[A-Z][a-z])|_", " ", wrong.__name__).lower()
        family = choice("family", wrong.__module__.rpartition(".")[2], FAMILIES)
        if name in FAULTS:
            raise ValueError(f"fault {name!r} is there twice: use another name in {wrong.__module__}")
        seen = None if seen_by is None else frozenset(seen_by)
        FAULTS[name] = Fault(name, family, symptom, seen, replaces, wrong, same)
        return wrong

    return register


def of(replaces: Any) -> dict[str, Callable]:
    """All wrong versions of one function or class: {symptom: version}."""
    return {fault.symptom: fault.wrong for fault in FAULTS.values() if fault.replaces is replaces}

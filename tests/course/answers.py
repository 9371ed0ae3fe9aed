"""The answers that the checks are tested with: each chapter's test file notes its own, test_checks.py judges all.

The published solutions are right answers, declared mistakes (Exercise.mistakes)
wrong ones. Noted are right answers of another kind, and wrong ones that people
gave, or that reach what no declared mistake does.
"""

import importlib.util
import json
from collections import defaultdict
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from vitbook import check

SOLUTIONS = Path(__file__).parents[2] / "book" / "solutions"
JAX = importlib.util.find_spec("flax") is not None  # make jax
RIGHT: dict[str, list] = defaultdict(list)
WRONG: dict[str, dict[str, Any]] = defaultdict(dict)  # {what the verdict must say: an answer, or a list of them}


def right(number: str) -> Callable:
    """Note a right answer that is not written as the published one is."""
    return lambda answer: RIGHT[number].append(answer) or answer


def wrong(number: str, phrase: str) -> Callable:
    """Note a wrong answer and what the verdict must say about it."""
    return lambda answer: WRONG[number].update({phrase: answer}) or answer


def remade(kind: type[nn.Module], **parts: Callable | None) -> type[nn.Module]:
    """A class with some parts made anew, each from the module and its sizes; None is for a part that is missing."""

    class Remade(kind):
        def __init__(self, *sizes: Any):
            super().__init__(*sizes)
            for name, make in parts.items():
                part = make(self, *sizes) if make else None
                if hasattr(self, name):
                    delattr(self, name)
                if make:
                    setattr(self, name, part)

    return Remade


def images_for(model: nn.Module, B: int = 2) -> Tensor:
    """Random images of the size that a ViT takes."""
    return torch.randn(B, model.config.in_chans, *model.patch_embed.img_size)


def verdict(number: str, answer: Any = None, **kwargs: Any) -> tuple[bool, str]:
    """Check an answer and return (is it right, what was printed, in one line)."""
    with redirect_stdout(StringIO()) as printed:
        result = check(number, answer, **kwargs)
    lines = printed.getvalue().splitlines()
    assert all(len(line) <= 75 for line in lines), lines
    return result, " ".join(lines)


@cache
def published(chapter: str) -> dict[str, Any]:
    """The answers of a chapter's solutions, by exercise; those that train first are left out."""
    found: dict[str, Any] = {}
    if chapter == "jax" and not JAX:
        return found
    (path,) = SOLUTIONS.glob(f"{chapter.zfill(2)}*.ipynb")
    space = {"__name__": f"solutions_{chapter}"}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        code = "".join(cell["source"])
        if cell["cell_type"] != "code" or cell["id"] == "setup" or "data.load" in code or "accuracy(" in code:
            continue
        space["check"] = lambda number, answer: found.setdefault(number, answer) is answer
        with redirect_stdout(StringIO()):
            exec(code, space)
    return found


def solution(number: str) -> Any:
    """The published answer to an exercise."""
    return published(number.split(".")[0])[number]


def answers(number: str) -> list:
    """All right answers to an exercise."""
    own = published(number.split(".")[0])
    return [answer for name, answer in own.items() if name == number] + RIGHT[number]


def wrong_answers(number: str) -> list[tuple[str, Any]]:
    """What the verdict must say, and the wrong answer, for all that are noted to an exercise."""
    noted = [(phrase, found if isinstance(found, list) else [found]) for phrase, found in WRONG[number].items()]
    return [(phrase, answer) for phrase, found in noted for answer in found]

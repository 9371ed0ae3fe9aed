"""What checks know of values: reading what an answer returned, comparing, describing, drawing random numbers."""

import math
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from torch import Tensor, allclose, equal, isnan, nn  # by name: an answer may replace torch.allclose

from vitbook.exercises.declaration import NotDone, Wrong


def number(value: Any) -> float:
    """Return a number as a float, or raise Wrong if it is none; a tensor or an array of one number is one."""
    if _is_tensor(value) and value.numel() == 1 and value.ndim < 2 and not value.is_meta:
        value = value.item()
    if type(value) is np.ndarray and value.ndim == 0:
        value = value.item()
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise Wrong(expected("a number", value))
    if not math.isfinite(value):
        raise Wrong(f"Expected a finite number, got {value}.")
    return float(value)


def is_whole(value: Any) -> bool:
    """Whether a number is a whole one by its type: 49.0 is none."""
    return isinstance(value, Integral) or isinstance(value, Tensor) and not value.is_floating_point()


def yes_or_no(value: Any) -> bool:
    """Return True or False, of Python, NumPy or torch, as a bool, or raise Wrong: 1 and 0 are numbers."""
    if _is_tensor(value) and value.ndim == 0 and value.dtype == torch.bool and not value.is_meta:
        value = value.item()
    if not isinstance(value, (bool, np.bool_)):
        raise Wrong(expected("True or False", value))
    return bool(value)


def tensor_like(value: Any, like: Tensor) -> Tensor:
    """Return value if it is a tensor with the shape, type and device of another and without NaN, or raise Wrong."""
    if not _is_tensor(value):
        raise Wrong(expected(f"a tensor of shape {tuple(like.shape)}", value))
    if value.shape != like.shape:
        raise Wrong(f"Expected a tensor of shape {tuple(like.shape)}, got {tuple(value.shape)}.")
    if value.dtype != like.dtype:
        raise Wrong(f"Expected a tensor of type {like.dtype}, got {value.dtype}.")
    if value.layout != like.layout:
        raise Wrong("Expected a dense tensor, got a sparse one.")
    if value.device != like.device:
        raise Wrong(f"Expected a tensor on the device {like.device}, got one on {value.device}.")
    if missing := int(isnan(value).sum()):
        raise Wrong(f"Your result holds NaN in {missing} of {counted(value.numel(), 'place')}.")
    return value.detach()


def parts(value: Any, count: int, what: str) -> tuple:
    """The parts of a tuple, list, tensor or array of this length, or raise Wrong; NotDone if one of them is `...`."""
    if _is_tensor(value) or type(value) is np.ndarray:
        value = list(value) if value.ndim else value
    if not isinstance(value, (tuple, list)) or len(value) != count:
        raise Wrong(expected(what, value))
    if any(part is ... for part in value):
        raise NotDone
    return tuple(value)


def expected(what: str, value: Any) -> str:
    """What is said of a value that is something else."""
    size = f" of {len(value)}" if type(value) in (tuple, list) else ""
    return f"Expected {what}, got {described(value)}{size}."


def close(a: Tensor, b: Tensor, tolerance: float = 1e-5) -> bool:
    """Say whether two tensors have one shape and the same numbers."""
    return a.shape == b.shape and allclose(a, b, rtol=tolerance, atol=tolerance)


def agree(a: Any, b: Any, tolerance: float) -> bool:
    """Say whether two results, both tensors or both numbers, are equal up to a tolerance."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return close(a, b, tolerance)
    return not isinstance(a, Tensor) and not isinstance(b, Tensor) and abs(a - b) <= tolerance * max(1.0, abs(b))


def apart(a: Tensor, b: Tensor) -> str:
    """How far two tensors are apart, in words."""
    return f"off by up to {(a - b).abs().max():.2g}"


def unchanged(before: Any, after: Any) -> bool:
    """Say whether a copy that an answer was given is still like what it was copied from."""
    if isinstance(before, nn.Module):
        a, b = before.state_dict(), after.state_dict()
        return _makeup(before) == _makeup(after) and a.keys() == b.keys() and all(unchanged(a[k], b[k]) for k in a)
    if isinstance(before, Tensor):
        return before.shape == after.shape and equal(before, after)
    if isinstance(before, dict):
        return before.keys() == after.keys() and all(unchanged(before[k], after[k]) for k in before)
    if hasattr(before, "__array__"):  # NumPy's and JAX's
        return np.array_equal(before, after)
    return before is after or before == after


def _makeup(module: nn.Module) -> list[tuple]:
    """Of all parts of a module: kind, mode, frozen parameters, hooks, and methods that it alone has."""
    return [
        (
            name,
            type(part),
            part.training,
            [parameter.requires_grad for parameter in part.parameters(recurse=False)],
            [len(value) for key, value in vars(part).items() if key.endswith("_hooks") and value is not None],
            {key for key, value in vars(part).items() if not key.startswith("_") and callable(value)},
        )
        for name, part in module.named_modules()
    ]


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


def counted(n: int, noun: str) -> str:
    """A number of things: 1 seed, 2 seeds, 2 patches."""
    plural = "es" if noun.endswith(("s", "ch")) else "s"
    return f"{n} {noun}{'' if n == 1 else plural}"


_entropy: random.Random = random.SystemRandom()


def chance() -> random.Random:
    """A new source of random numbers that leaves the global one alone."""
    return random.Random(_entropy.getrandbits(64))


@contextmanager
def repeated(seed: str) -> Iterator[None]:
    """Draw the same numbers with the same seed, so that a second judge of an answer says the same to the letter."""
    global _entropy
    before, _entropy = _entropy, random.Random(seed)
    try:
        with torch.random.fork_rng([]):
            torch.manual_seed(_entropy.getrandbits(63))
            yield
    finally:
        _entropy = before


def fresh(*shape: int) -> Tensor:
    """Random normal numbers, new at each call, that leave the global generator alone."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(_entropy.getrandbits(63)))


def perturbed(module: nn.Module, scale: float = 0.4) -> nn.Module:
    """The module with random numbers in every parameter: a gain of 1 or a bias of 0 hides mistakes."""
    for parameter in module.parameters():
        parameter.data = scale * fresh(*parameter.shape)
    return module


def frozen(module: nn.Module) -> str | None:
    """What is wrong with a module that has a parameter which no optimizer would train."""
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            return f"Your {name} has requires_grad=False: no optimizer would train it."
    return None


def shared(module: nn.Module) -> str | None:
    """What is wrong with a module that has one parameter in two places."""
    names: dict[int, str] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if (first := names.setdefault(id(parameter), name)) != name:
            return f"Your {first} and {name} are one and the same parameter: each part has parameters of its own."
    return None


def raised_by(error: BaseException, thing: Any) -> bool:
    """Whether an error comes from inside a thing that the answer tried, not from the answer itself."""
    module = getattr(thing, "__module__", type(thing).__module__)
    file = getattr(sys.modules.get(module), "__file__", None)
    frames = traceback.extract_tb(error.__traceback__)
    files = getattr(error, "files_of_answer", None) or {frame.filename for frame in frames}
    return file is not None and file in files


def first_that(fits: Callable[[Any], bool], known: dict[str, Any]) -> str | None:
    """The first message in {message: what is known} that stands for something that fits."""
    return next((message for message, thing in known.items() if fits(thing)), None)


def recognised(result: Any, right: Any, case: tuple, mistakes: dict[str, Callable], tolerance: float) -> list[str]:
    """The messages of all mistakes that give this result on this case, and not the right one."""
    found = []
    for message, mistake in mistakes.items():
        try:
            wrong = mistake(*case) if isinstance(right, Tensor) else number(mistake(*case))
            if agree(result, wrong, tolerance) and not agree(wrong, right, tolerance):
                found.append(message)
        except Exception:  # a mistake may not work on every case, and a result may be odd
            continue
    return found


def other_shape(value: Any, like: Tensor) -> bool:
    """Whether a value is a tensor of another shape, which may tell how it came about."""
    return _is_tensor(value) and value.shape != like.shape


def _is_tensor(value: Any) -> bool:
    """Whether it is torch's own tensor: a subclass may answer what it likes when it is compared."""
    return type(value) in (Tensor, nn.Parameter)

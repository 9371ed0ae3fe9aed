"""Checks at the border: bad input gets an error that says what would work."""

import os
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from torch import Tensor

Size = int | tuple[int, int]
NO = ("", "0", "false", "no", "off")


def switched_on(variable: str) -> bool:
    """Whether an environment variable says yes: it is set, and to none of the words for no, in any case."""
    return os.environ.get(variable, "").strip().lower() not in NO


# Values that work, for what 4 would be an odd advice.
USUAL = {"epochs": 20, "batch_size": 128, "embed_dim": 64, "hidden_dim": 128, "num_classes": 10, "num_tokens": 50}


def positive_int(name: str, value: Any) -> int:
    """Return value as an int, or raise if it is not a whole number above zero."""
    usual = USUAL.get(name, 4)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number such as {usual}, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}: use {usual}, for example")
    return int(value)


def pair(name: str, size: Any) -> tuple[int, int]:
    """Return a size as (height, width); one number stands for both."""
    if isinstance(size, Iterable) and not isinstance(size, str):
        sides = tuple(size)
        if len(sides) != 2:
            raise ValueError(f"{name} must be one number or (height, width), got {sides}: use (28, 28), for example")
        return positive_int(f"{name} height", sides[0]), positive_int(f"{name} width", sides[1])
    return (positive_int(name, size),) * 2


def probability(name: str, value: Any) -> float:
    """Return value as a float in [0, 1)."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number such as 0.1, got {value!r}")
    if not 0 <= value < 1:
        raise ValueError(f"{name} must lie in [0, 1), got {value}: use 0.1, for example")
    return float(value)


def positive_float(name: str, value: Any) -> float:
    """Return value as a float above zero."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number such as 1.0, got {value!r}")
    if not 0 < value < float("inf"):
        raise ValueError(f"{name} must be above 0 and finite, got {value}: use 1.0, for example")
    return float(value)


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """Return value if it is one of the allowed words."""
    allowed = list(allowed)
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


def divides(name: str, width: int, heads_name: str, heads: int) -> None:
    """Raise unless heads divides width; the message names numbers that do."""
    if width % heads:
        fitting = [n for n in range(1, width + 1) if width % n == 0]
        nearest = sorted(fitting, key=lambda n: abs(n - heads))[:2]
        use = " or ".join(map(str, nearest))
        raise ValueError(f"{name} {width} is not a multiple of {heads_name} {heads}: use {heads_name} {use}")


def float_tensor(name: str, x: Any, ndim: int, letters: str) -> Tensor:
    """Return x if it is a floating-point tensor with ndim dimensions."""
    x = tensor(name, x, ndim, letters)
    if not x.is_floating_point():
        raise TypeError(f"{name} must hold floating-point numbers, got {x.dtype}: use {name}.float()")
    return x


def tensor(name: str, x: Any, ndim: int, letters: str) -> Tensor:
    """Return x if it is a tensor with ndim dimensions, named by letters."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name} must be a torch tensor {letters}, got {type(x).__name__}: use torch.as_tensor({name})")
    if x.ndim != ndim:
        raise ValueError(
            f"{name} must have the {ndim} dimensions {letters}, got shape {tuple(x.shape)}: {_hint(x, ndim)}"
        )
    return x


def tokens(name: str, x: Any, embed_dim: int) -> Tensor:
    """Return x if it is a batch of tokens (B, T, D) of the announced width."""
    x = float_tensor(name, x, 3, "(B, T, D)")
    if x.shape[2] != embed_dim:
        raise ValueError(f"{name} must have width {embed_dim}, got shape {tuple(x.shape)}: use (B, T, {embed_dim})")
    if x.shape[1] == 0:
        raise ValueError(f"{name} holds no token, got shape {tuple(x.shape)}: use (B, 1, {embed_dim}) or longer")
    return x


def _hint(x: Tensor, ndim: int) -> str:
    if x.ndim == ndim - 1:
        return "use x[None] to add a batch of one"
    return f"use a tensor with {ndim} dimensions"

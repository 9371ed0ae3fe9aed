"""Checks at the border: bad input gets an error that says what would work."""

import math
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy
import torch
from torch import Tensor

Size = int | Sequence[int]  # one number, or (height, width)
NO = ("", "0", "false", "no", "off")


def switched_on(variable: str) -> bool:
    """Whether an environment variable says yes: it is set, and to none of the words for no, in any case."""
    return os.environ.get(variable, "").strip().lower() not in NO


# Values that work, for what 4 would be an odd advice.
USUAL: dict[str, float] = {"lr": 3e-3, "norm_eps": 1e-6, "pos_std": 0.02, "temperature": 1e4}
USUAL |= {"epochs": 20, "batch_size": 128, "embed_dim": 64, "hidden_dim": 128, "num_classes": 10, "num_tokens": 50}
USUAL |= {"img_size": 224, "memory": 4 << 30, "lr_by_part": 1e-3, "weight_decay": 0.05, "shift": 1, "seed": 0}


def _usual(name: str, other: float) -> float:
    """The value that works for an argument, also for a part of it, as img_size height or lr_by_part['head']."""
    return USUAL.get(name.split(" ")[0].split("[")[0], other)


def shown(value: Any) -> str:
    """A value as a message shows it, on one line: a tensor or an array by its shape, all else in 100 characters."""
    if isinstance(value, Tensor | numpy.ndarray) and value.ndim:
        return f"{type(value).__name__} of shape {tuple(value.shape)}"
    text = " ".join(repr(value).split())
    return text if len(text) <= 100 else f"{text[:99]}…"


def positive_int(name: str, value: Any, least: int = 1) -> int:
    """Return value as an int, or raise if it is not a whole number above zero, or from another least one on."""
    usual = int(_usual(name, 4))
    if isinstance(value, Tensor) and value.dtype == torch.int64 and value.ndim == 0:
        value = int(value)  # torch.jit.trace makes tensors of sizes
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be a whole number, got {shown(value)}: use {usual}, for example")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {shown(value)}: use {usual}, for example")
    return int(value)


def switch(name: str, value: Any) -> bool:
    """Return value as a bool, or raise: a word such as "no" would count as yes."""
    if not isinstance(value, Integral | numpy.bool_) or value not in (0, 1):
        raise TypeError(f"{name} must be True or False, got {shown(value)}: use True or False")
    return bool(value)


def path(name: str, value: Any, usual: str) -> Path:
    """Return value as a Path."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} must be a path, got {shown(value)}: use {usual!r}, for example")
    return Path(value)


def pair(name: str, size: Any) -> tuple[int, int]:
    """Return a size as (height, width); one number stands for both."""
    if isinstance(size, Iterable) and not isinstance(size, str):
        sides = tuple(size)
        if len(sides) != 2:
            raise ValueError(
                f"{name} must be one number or (height, width), got {shown(sides)}: use (28, 28), for example"
            )
        return positive_int(f"{name} height", sides[0]), positive_int(f"{name} width", sides[1])
    side = positive_int(name, size)
    return side, side


def probability(name: str, value: Any) -> float:
    """Return value as a float in [0, 1)."""
    if not 0 <= _real(name, value, 0.1) < 1:
        raise ValueError(f"{name} must lie in [0, 1), got {shown(value)}: use 0.1, for example")
    return float(value)


def positive_float(name: str, value: Any) -> float:
    """Return value as a float above zero."""
    usual = _usual(name, 1.0)
    if not 0 < _real(name, value, usual) < math.inf:
        raise ValueError(f"{name} must be above 0 and finite, got {shown(value)}: use {usual}, for example")
    return float(value)


def float_from_0(name: str, value: Any, most: float = math.inf) -> float:
    """Return value as a float from zero on, up to the most that it can be."""
    usual = _usual(name, 0.25)
    if not (0 <= _real(name, value, usual) <= most and value < math.inf):
        until = "finite" if most == math.inf else f"at most {most:g}"
        raise ValueError(f"{name} must be at least 0 and {until}, got {shown(value)}: use {usual}, or 0 for none")
    return float(value)


def _real(name: str, value: Any, usual: float) -> Any:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, got {shown(value)}: use {usual}, for example")
    return value


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """Return value if it is one of the allowed words."""
    allowed = list(allowed)
    if value not in allowed:
        raise ValueError(
            f"{name} must be one of {', '.join(map(repr, allowed))}, got {shown(value)}: use {allowed[0]!r}"
        )
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
        use = _as_tensor(name, x)[0]
        raise TypeError(f"{name} must be a torch tensor {letters}, got {type(x).__name__}: use {use}")
    if x.ndim != ndim:
        use = f"{name}[None] to add a batch of one" if x.ndim == ndim - 1 else f"a tensor with {ndim} dimensions"
        raise ValueError(f"{name} must have the {ndim} dimensions {letters}, got shape {tuple(x.shape)}: use {use}")
    return x


def tokens(name: str, x: Any, embed_dim: int) -> Tensor:
    """Return x if it is a batch of tokens (B, T, D) of the announced width."""
    x = float_tensor(name, x, 3, "(B, T, D)")
    if x.shape[2] != embed_dim:
        raise ValueError(f"{name} must have width {embed_dim}, got shape {tuple(x.shape)}: use (B, T, {embed_dim})")
    if x.shape[1] == 0:
        raise ValueError(f"{name} holds no token, got shape {tuple(x.shape)}: use (B, 1, {embed_dim}) or longer")
    return x


def labels(name: str, x: Any, count: int, classes: int) -> Tensor:
    """Return x if it holds the class of each image: (N,), int64."""
    use, y = _as_tensor(name, x)
    if y is not None and y.ndim == 2:
        use, y = (f"{use}.argmax(1)", y.argmax(1)) if y.shape[1] == classes else (f"{use}.flatten()", y.flatten())
    use += "" if y is None or y.dtype == torch.int64 else ".long()"
    if use != name or x.ndim != 1:
        raise (ValueError if isinstance(x, Tensor) else TypeError)(
            f"{name} must be a tensor (N,) of torch.int64, got {_described(x)}: use {use}"
        )
    if len(x) != count:
        raise ValueError(f"{name} must be as many as the images, got {len(x)} for {count}: use shape ({count},)")
    low, high = (int(x.min()), int(x.max())) if count else (0, 0)
    if not 0 <= low <= high < classes:
        use = f"{name} - 1" if (low, high) == (1, classes) else f"numbers from 0 or {high + 1} classes"
        raise ValueError(
            f"{name} must be from 0 to {classes - 1} for {classes} classes, got {low} to {high}: use {use}"
        )
    return x


def pixels(name: str, x: Any, channels: int | None = None) -> Tensor:
    """Return x if it is a batch of images (B, C, H, W) as they are stored: uint8, or floats in [0, 1]."""
    use, y = _batch(name, x, channels)
    use = use if y is None else _from_0_to_1(use, y)
    if use != name:
        raise (ValueError if isinstance(x, Tensor) else TypeError)(
            f"{name} must be (N, C, H, W), uint8 or floats in [0, 1], got {_described(x)}: use {use}"
        )
    if channels not in (None, x.shape[1]):
        use = f"images of shape (N, {channels}, H, W)"
        raise ValueError(f"{name} must have {channels} channels, got shape {tuple(x.shape)}: use {use}")
    return x


def normalised(
    name: str, x: Any, sizes: tuple[int, int, int] | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Return x if it is a batch of images (B, C, H, W) as a model reads them: floats, of its sizes and dtype."""
    use, y = _batch(name, x, sizes and sizes[0])
    if y is not None:
        use, y = _normalised(use, y, sizes, dtype)
    expected = "floats (B, C, H, W)"
    if sizes:
        expected = f"{dtype} of shape {(len(x) if isinstance(x, Tensor) and x.ndim else 1, *sizes)}"
    if use == name and sizes and tuple(x.shape[1:]) != sizes:
        use = f"images of that shape, or build the model for {tuple(x.shape[1:])}"
    if use != name:
        use += " with the data that the model was trained on" if "data.normalize" in use else ""
        kind = ValueError if isinstance(x, Tensor) and x.is_floating_point() and dtype in (None, x.dtype) else TypeError
        raise kind(f"{name} must be normalised {expected}, got {_described(x)}: use {use}")
    return x


def _normalised(
    use: str, y: Tensor, sizes: tuple[int, int, int] | None, dtype: torch.dtype | None
) -> tuple[str, Tensor]:
    """The expression that makes of a batch y what a model reads, and a tensor of its kind."""
    low, high = _ends(y)
    if not y.is_floating_point() or FARTHEST < max(-low, high) < math.inf:
        use, y = f"data.normalize({_from_0_to_1(use, y)})", y.float()
    elif not math.isfinite(high - low):
        use = f"{use}.nan_to_num(0, 0, 0)"
    if dtype not in (None, y.dtype):
        use = f"{use}.to({dtype})"
    if sizes and y.shape[1] != sizes[0] and 1 in (y.shape[1], sizes[0]):
        use += ".mean(1, keepdim=True)" if sizes[0] == 1 else f".expand(-1, {sizes[0]}, -1, -1)"
    if sizes and y.shape[2:] != sizes[1:] and (y.shape[1] == sizes[0] or 1 in (y.shape[1], sizes[0])):
        use = f"torch.nn.functional.interpolate({use}, {sizes[1:]}, mode='bilinear', antialias=True)"
    return use, y


FARTHEST = 50  # no pixel is that many standard deviations from the mean: such numbers are not normalised


def _described(x: Any) -> str:
    """The type, dtype, shape and range of what may be a tensor."""
    kind = "" if isinstance(x, Tensor) else f"{type(x).__name__} "
    y = _as_tensor("x", x)[1]
    if y is None:
        return kind + repr(x)[:60]
    text = f"{kind}{str(y.dtype).removeprefix('torch.')} of shape {tuple(y.shape)}"
    return f"{text} from {_ends(y)[0]:.3g} to {_ends(y)[1]:.3g}" if _has_numbers(y) else text


def _has_numbers(x: Tensor) -> bool:
    """Whether there is something to read: torch.export follows tensors of which it knows the shape alone."""
    return x.numel() > 0 and not x.is_meta and not torch.compiler.is_compiling()


def _ends(x: Tensor) -> tuple[float, float]:
    """The smallest and the largest number; NaN if there is one."""
    if not _has_numbers(x):
        return 0.0, 0.0
    low, high = (x if x.is_floating_point() else x.float()).aminmax()
    return low.item(), high.item()


def _as_tensor(name: str, x: Any) -> tuple[str, Tensor | None]:
    """The expression that makes a tensor of x, and its value; what is none and cannot become one gives None."""
    if isinstance(x, Tensor):
        return name, x
    ways = {
        f"torch.as_tensor({name})": lambda: torch.as_tensor(x),
        f"torch.stack(tuple({name}))": lambda: torch.stack(tuple(x)),
        f"torch.as_tensor(numpy.array({name}))": lambda: torch.as_tensor(numpy.array(x)),  # images of PIL
    }
    for use, way in ways.items():
        with suppress(Exception):
            return use, way()
    return "a torch tensor", None


def _batch(name: str, x: Any, channels: int | None) -> tuple[str, Tensor | None]:
    """The expression that makes a batch (B, C, H, W) of x, and its value; None if none can be seen in x."""
    use, y = _as_tensor(name, x)
    if y is None or not 2 <= y.ndim <= 4:
        return "a torch tensor (B, C, H, W)", None
    if y.ndim == 2:
        return f"{use}[None, None]", y[None, None]
    last = y.shape[-1] <= 4 < min(y.shape[-3:-1]) if channels is None else y.shape[-1] == channels != y.shape[-3]
    if y.ndim == 3 and not last and y.shape[0] != channels:
        return f"{use}[:, None]", y[:, None]
    if y.ndim == 3:
        use, y = f"{use}[None]", y[None]
    return (f"{use}.permute(0, 3, 1, 2)", y.permute(0, 3, 1, 2)) if last else (use, y)


def _from_0_to_1(use: str, x: Tensor) -> str:
    """The expression that makes pixels, uint8 or floats in [0, 1], of x."""
    if x.dtype == torch.uint8 or (x.is_floating_point() and not x.numel()):
        return use
    y = x if x.is_floating_point() else x.double()
    if not math.isfinite(sum(_ends(y))):
        return _from_0_to_1(f"{use}.nan_to_num(0, 1, 0)", y.nan_to_num(0, 1, 0))
    low, high = _ends(y)
    if 0 <= low <= high <= 1:
        return use if x.is_floating_point() else f"{use}.float()"
    if -0.2 < low <= high < 1.2:  # as interpolation leaves them
        return f"{use}.clamp(0, 1)"
    if low < 0 or high > 65535:
        return "pixels that are not normalised yet"
    return f"{use} / {255 if high <= 255 else 65535}"

"""What may cross from the sandbox to the grader: plain data, as JSON and safetensors, never pickle.

Torch takes seconds to import, so a process that has no tensors does without it.
"""

import json
import math
import struct
import sys
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import torch
    from torch import Tensor

HEAD = struct.Struct("<QQ")  # lengths of the JSON and of the tensors
LIMIT = 64 << 20  # bytes of one message
TEXT = 4 << 20  # bytes of its JSON: in lists of Python they take fifty times as much memory
VALUES = 400_000  # numbers, texts and lists in it
DEPTH = 50  # how deep lists may lie in lists
HASHED = 1000  # keys of dicts and members of sets in it: whoever chooses them can make each collide with all others
MEMBER = 8  # numbers in a tuple that is such a key
KINDS = 100  # of things in it that are no data
HEADER = 512 << 10  # bytes of the names and shapes of its tensors: some thousand
AXES = 16  # of a tensor
SEQUENCES = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


def is_tensor(value: Any) -> bool:
    """Whether it is a tensor of torch, or of a class of somebody's own."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


@cache
def carried(dtype: "torch.dtype") -> bool:
    """Whether this release of safetensors knows the type: each knows more of those of eight bits and fewer."""
    import torch
    from safetensors.torch import save

    try:
        return bool(save({"one": torch.empty(1, dtype=dtype)}))
    except Exception:
        return False


class Foreign:
    """A thing that is no data, a module or a function for example: its kind is all that crosses."""


def packed(value: Any) -> bytes:
    """Return a message that holds a value made of plain data; of anything else it holds the kind."""
    tensors: dict[str, Tensor] = {}

    def kept(value: "Tensor") -> str:
        name = str(len(tensors))
        tensors[name] = value.detach().clone().contiguous()
        return name

    def of_numpy(value: Any) -> str:
        import torch

        return kept(torch.tensor(value))

    def of_torch(value: "Tensor") -> dict[str, str]:
        return {"tensor": kept(value)} if carried(value.dtype) else {"foreign": f"Tensor of {value.dtype}"}

    def walk(value: Any, depth: int = 0) -> Any:
        if depth > DEPTH:
            return {"foreign": "nest"}
        if value is None or type(value) in (bool, str) or type(value) is int and abs(value) < 2**63:
            return value
        if type(value) is float:
            return {"float": repr(value)}
        if value is ...:
            return {"ellipsis": 0}
        if is_tensor(value) and is_plain(value):
            return of_torch(value)
        if type(value) is np.ndarray and value.dtype.kind in "biuf":
            return {"array": of_numpy(value)}
        if isinstance(value, (np.bool_, np.integer, np.floating)):
            return {"scalar": of_numpy(value), "of": type(value).__name__}
        for kind, made in SEQUENCES.items():
            if type(value) is made or kind == "tuple" and isinstance(value, tuple):
                return {kind: [walk(v, depth + 1) for v in value]}
        if type(value) is dict:
            return {"dict": [[walk(k, depth + 1), walk(v, depth + 1)] for k, v in value.items()]}
        return {"foreign": type(value).__name__[:40]}

    text = json.dumps(walk(value)).encode()
    body = saved(tensors) if tensors else b""
    return HEAD.pack(len(text), len(body)) + text + body


def is_plain(value: "Tensor") -> bool:
    """Whether safetensors can hold it, its type aside: a dense tensor of torch's own with real numbers in it."""
    from torch import Tensor, nn, strided

    dense = type(value) in (Tensor, nn.Parameter) and value.layout == strided and not value.is_meta
    return dense and not value.is_complex() and not value.is_quantized


def saved(tensors: "dict[str, Tensor]") -> bytes:
    from safetensors.torch import save

    return save(tensors)


def tensors_of(body: bytes) -> "dict[str, Tensor]":
    """Raises: ValueError if they are too many, or have more axes or, with an axis of length 0, others of any length."""
    if not body:
        return {}
    if int.from_bytes(body[:8], "little") > HEADER:
        raise ValueError("more tensors than are read")
    from safetensors.torch import load

    tensors = load(body)
    if any(one.ndim > AXES or math.prod(max(1, n) for n in one.shape) > LIMIT for one in tensors.values()):
        raise ValueError("a tensor of a shape that is not read")
    return tensors


def hashable(value: Any) -> bool:
    """Whether a value may be a key: what is compared with it takes no time."""
    if type(value) is tuple:
        return len(value) <= MEMBER and not any(type(one) is tuple for one in value) and all(map(hashable, value))
    return value is None or value is ... or isinstance(value, (bool, int, float, str, np.generic))


def unpacked(text: bytes, body: bytes) -> Any:
    """Return the value of a message; what was no data is a Foreign in it.

    How much work it makes is bounded before it is done: a message comes from somebody who may want to stop the grader.

    Raises: ValueError if the message is not one of ours, or too large.
    """
    hashed = 0
    foreign: dict[str, type] = {}

    def members(found: list) -> list:
        nonlocal hashed
        hashed += len(found)
        if hashed > HASHED or not all(map(hashable, found)):
            raise ValueError("a set or a dict that is not read")
        return found

    def walk(value: Any, depth: int = 0) -> Any:
        if not isinstance(value, dict):
            return value
        if depth > 2 * DEPTH:
            raise ValueError("lists in lists")
        kind, held = next(iter(value.items()))
        if kind in ("set", "frozenset"):
            return SEQUENCES[kind](members([walk(v, depth + 1) for v in held]))
        if kind in SEQUENCES:
            return SEQUENCES[kind]([walk(v, depth + 1) for v in held])
        if kind == "dict":
            keys = members([walk(k, depth + 1) for k, _ in held])
            return dict(zip(keys, [walk(v, depth + 1) for _, v in held], strict=True))
        if kind == "float":
            return float(held)
        if kind == "ellipsis":
            return ...
        if kind == "tensor":
            return tensors[held]
        if kind == "array":
            return tensors[held].numpy()
        if kind == "scalar":
            return tensors[held].numpy()[()]
        name = str(held)[:40]
        if name not in foreign:
            if len(foreign) == KINDS:
                raise ValueError("more kinds of things than are read")
            foreign[name] = type(name, (Foreign,), {})
        return foreign[name]()

    if sum(map(text.count, b",[{")) > VALUES:
        raise ValueError(f"a message that cannot be read: it has more than {VALUES} values, not as one tensor")
    try:
        tensors = tensors_of(body)
        return walk(json.loads(text))
    except Exception as error:  # whatever a hostile message may do to the two parsers
        raise ValueError(f"a message that cannot be read: {type(error).__name__}") from None

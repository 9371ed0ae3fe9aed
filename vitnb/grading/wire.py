"""What may cross from the sandbox to the grader: plain data, as JSON and safetensors, never pickle."""

import json
import struct
from functools import cache
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

HEAD = struct.Struct("<QQ")  # lengths of the JSON and of the tensors
LIMIT = 64 << 20  # bytes of one message
TEXT = 4 << 20  # bytes of its JSON: in lists of Python they take fifty times as much memory
DEPTH = 50  # how deep lists may lie in lists
SEQUENCES = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}


@cache
def carried(dtype: torch.dtype) -> bool:
    """Whether this release of safetensors knows the type: each knows more of those of eight bits and fewer."""
    try:
        return bool(save({"one": torch.empty(1, dtype=dtype)}))
    except Exception:
        return False


class Foreign:
    """A thing that is no data, a module or a function for example: its kind is all that crosses."""


def packed(value: Any) -> bytes:
    """Return a message that holds a value made of plain data; of anything else it holds the kind."""
    tensors: dict[str, Tensor] = {}

    def tensor(value: Tensor) -> str:
        name = str(len(tensors))
        tensors[name] = value.detach().clone().contiguous()
        return name

    def walk(value: Any, depth: int = 0) -> Any:
        if depth > DEPTH:
            return {"foreign": "nest"}
        if value is None or type(value) in (bool, str) or type(value) is int and abs(value) < 2**63:
            return value
        if type(value) is float:
            return {"float": repr(value)}
        if value is ...:
            return {"ellipsis": 0}
        plain = type(value) in (Tensor, nn.Parameter) and value.layout == torch.strided and not value.is_meta
        if plain and not value.is_complex() and not value.is_quantized:
            return {"tensor": tensor(value)} if carried(value.dtype) else {"foreign": f"Tensor of {value.dtype}"}
        if type(value) is np.ndarray and value.dtype.kind in "biuf":
            return {"array": tensor(torch.tensor(value))}
        if isinstance(value, (np.bool_, np.integer, np.floating)):
            return {"scalar": tensor(torch.tensor(value)), "of": type(value).__name__}
        for kind, made in SEQUENCES.items():
            if type(value) is made or kind == "tuple" and isinstance(value, tuple):
                return {kind: [walk(v, depth + 1) for v in value]}
        if type(value) is dict:
            return {"dict": [[walk(k, depth + 1), walk(v, depth + 1)] for k, v in value.items()]}
        return {"foreign": type(value).__name__[:40]}

    text = json.dumps(walk(value)).encode()
    body = save(tensors) if tensors else b""
    return HEAD.pack(len(text), len(body)) + text + body


def unpacked(text: bytes, body: bytes) -> tuple[Any, bool]:
    """Return the value of a message, and whether something in it was no data.

    Raises: ValueError if the message is not one of ours.
    """
    foreign = False

    def walk(value: Any) -> Any:
        nonlocal foreign
        if not isinstance(value, dict):
            return value
        kind, held = next(iter(value.items()))
        if kind in SEQUENCES:
            return SEQUENCES[kind](map(walk, held))
        if kind == "dict":
            return {walk(k): walk(v) for k, v in held}
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
        foreign = True
        return type(str(held)[:40], (Foreign,), {})()

    try:
        tensors = load(body) if body else {}
        return walk(json.loads(text)), foreign
    except Exception as error:  # whatever a hostile message may do to the two parsers
        raise ValueError(f"a message that cannot be read: {type(error).__name__}") from None

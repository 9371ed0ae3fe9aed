"""The weights of an ONNX file: the few fields of the format that hold them, read without another package.

Field numbers are those of onnx.proto; how fields are written: https://protobuf.dev/programming-guides/encoding.
"""

from pathlib import Path

import torch
from torch import Tensor

GRAPH = 7  # of a model
NODE, INITIALIZER = 1, 5  # of a graph
INPUT, NODE_NAME, OPERATION = 1, 3, 4  # of a node
DIMS, DATA_TYPE, TENSOR_NAME, RAW_DATA = 1, 2, 8, 9  # of a tensor
DTYPES = {1: torch.float32, 7: torch.int64}
VARINT, LENGTH = 0, 2  # how a field is written
SIZES = {1: 8, 5: 4}  # in bytes, of fields that are written in neither way


def weights(path: Path) -> dict[str, Tensor]:
    """Read the tensors of a whole file that torch.onnx.export wrote, under the names that they had in torch.

    The weight of a linear layer stands there transposed and without its name, as the second factor of a
    product that is called like the layer.
    """
    model = _message(memoryview(path.read_bytes()))
    graph = _message(model[GRAPH][0])
    tensors = dict(map(_tensor, graph[INITIALIZER]))
    for node in map(_message, graph[NODE]):
        if _texts(node, OPERATION) == ["MatMul"] and (factor := _texts(node, INPUT)[1]) in tensors:
            layer = _texts(node, NODE_NAME)[0].removesuffix("/MatMul").strip("/").replace("/", ".")
            tensors[f"{layer}.weight"] = tensors.pop(factor).T.contiguous()
    return tensors


def _tensor(part: memoryview) -> tuple[str, Tensor]:
    fields = _message(part)
    numbers = torch.frombuffer(bytearray(fields[RAW_DATA][0]), dtype=DTYPES[fields[DATA_TYPE][0]])
    return _texts(fields, TENSOR_NAME)[0], numbers.reshape(fields.get(DIMS, []))


def _texts(fields: dict[int, list], number: int) -> list[str]:
    return [str(value, "utf-8") for value in fields.get(number, [])]


def _message(part: memoryview) -> dict[int, list]:
    """The values of each field of a message: numbers, or parts of the file."""
    fields: dict[int, list] = {}
    at = 0
    while at < len(part):
        key, at = _varint(part, at)
        if (kind := key & 7) == VARINT:
            value, at = _varint(part, at)
        else:
            size, at = _varint(part, at) if kind == LENGTH else (SIZES[kind], at)
            value, at = part[at : at + size], at + size
        fields.setdefault(key >> 3, []).append(value)
    return fields


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """A whole number, seven bits a byte, the lowest first; and where the next field begins."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at

"""What an error advises, followed literally."""

import ast
import copy
import dataclasses
import re
from collections.abc import Callable
from typing import Any

import numpy
import timm
import torch
import torchvision

from vitbook import images, results
from vitnb import data, inspection, vit

SPACE = vars(inspection) | vars(vit) | vars(data)
SPACE |= {"torch": torch, "numpy": numpy, "timm": timm, "torchvision": torchvision, "copy": copy}
SPACE |= {"dataclasses": dataclasses, "data": data, "images": images, "results": results}


def code(message: str) -> str:
    """The longest piece of Python, one expression, with which the text after the last "use " begins."""
    words = re.sub(r"^\w+=(?!=)", "", message.rsplit("use ", 1)[1])  # of stem='patch' the value
    for end in range(len(words), 0, -1):
        text = words[:end].strip().rstrip(",;")
        try:
            found = ast.parse(text, mode="eval").body
        except (SyntaxError, ValueError):
            continue
        if isinstance(found, ast.BoolOp):  # "4 or 8" is two values
            found = found.values[0]
        if isinstance(found, ast.Tuple) and isinstance(found.elts[-1], ast.Name):  # "4, for example" is one
            found = found.elts[0]
        if not isinstance(found, ast.Name):  # a word is prose
            return ast.unparse(found)
    raise AssertionError(f"no code after 'use': {message}")


def follow(call: Callable[[Any], Any], name: str, value: Any, steps: int = 3, **space: Any) -> tuple[Any, list[str]]:
    """Call with a value; at an error with the value that it advises, some steps long. The result, and what was said."""
    said: list[str] = []
    while True:
        try:
            return call(value), said
        except (ValueError, TypeError) as error:
            said.append(str(error))
            assert len(said) <= steps, said
            value = eval(code(str(error)), SPACE | space | {name: value})

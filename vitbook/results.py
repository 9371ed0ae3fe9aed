"""What the experiments have measured, and two models that they have trained (book/results)."""

import json
from pathlib import Path

from vitnb.vit import ViT
from vitnb.weights import load

HERE = Path(__file__).parent


def result(name: str) -> dict:
    """Read what one of the long experiments measured, and how (book/results/NAME.json).

    Raises: ValueError if there is no such result.
    """
    path = folder() / f"{name}.json"
    if path.is_file():
        return json.loads(path.read_text(encoding="utf-8"))
    known = sorted(path.stem for path in folder().glob("*.json"))
    raise ValueError(f"name is {name!r}: use one of {', '.join(map(repr, known))}")


def trained(name: str = "trained") -> ViT:
    """Load a ViT that the book trained on Fashion-MNIST, in eval mode.

    "trained" has patches of 7 x 7, "trained_fine" is the same with patches of 4 x 4.
    result(name) holds how well it does, and how it was made.

    Raises: FileNotFoundError if the file is not there.
    """
    path = folder() / f"{name}.safetensors"
    if path.is_file():
        return load(path)
    raise FileNotFoundError(f"no {name}.safetensors among the results: make it with python -m experiments {name}")


def folder() -> Path:
    """Where the results are: in the package if it is installed, else in the repository."""
    installed = HERE / "records"
    return installed if installed.is_dir() else HERE.parent / "book" / "results"

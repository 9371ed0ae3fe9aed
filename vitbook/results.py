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


def distinct_images(run: dict, steps: int, batch: int, pool: int = 55_000) -> int:
    """How many different images a run of equal time saw: of what its record says, or of what that lacks.

    A record without them is of runs that drew as many images as made their epochs come out even.

    Raises: ValueError if the run's images are no such number.
    """
    if "distinct_images" in run:
        return run["distinct_images"]
    whole, shown = pool // batch * batch, run["images"]
    for epochs in range(1, 1 + shown // batch):
        for n in (whole, steps // epochs * batch):
            if n <= pool and n * epochs == shown:
                return n
    whole = f"{steps} steps of {batch} in whole epochs of at most {pool} images"
    raise ValueError(f"images of the run are {shown}, which is no {whole}: use {steps * batch}, for example")


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

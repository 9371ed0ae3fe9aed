"""The measurements behind the book's numbers: one short script a result.

`python -m experiments` makes every result that is missing, `python -m
experiments NAME` one, again. A script has a docstring (its first line is the
claim), a CONFIG of plain values with the device, SEEDS, and run(), which
returns plain data.
"""

import os
import re
from pathlib import Path

from vitnb.data import Dataset, load

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "book" / "results"


def checkpoint(name: str) -> Path:
    """Where an experiment keeps a run that may be interrupted; deleted when its result is stored."""
    return Path(os.environ.get("VITNB_CHECKPOINTS", ROOT / ".cache" / "checkpoints")) / f"{name}.pt"


def thin(values: list[float], points: int = 300) -> list[float]:
    """Means of equal stretches, at most so many, to four digits: what a curve needs."""
    width = -(-len(values) // points)
    return [
        float(f"{sum(part) / len(part):.4g}") for part in (values[i : i + width] for i in range(0, len(values), width))
    ]


def memory_of_this_process(key: str) -> int:
    """Bytes that Linux counts for this process: VmRSS now, VmHWM at the peak."""
    return 1024 * int(re.search(rf"{key}:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def clothes() -> Dataset:
    """The real pictures: a result measured on the digits that stand in for them would be another result."""
    data = load("fashion_mnist")
    if data.name != "fashion_mnist":
        raise SystemExit("This experiment needs the real Fashion-MNIST: set VITNB_DATA, or run it once with a network.")
    return data

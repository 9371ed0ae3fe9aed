"""The measurements behind the book's numbers: one short script a result.

`python -m experiments` makes every result that is missing, `python -m
experiments NAME` one, again. A script has a docstring (its first line is the
claim), a CONFIG of plain values with the device, SEEDS, and run(), which
returns plain data. It imports no other script: what several need is in
common.py.
"""

from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "book" / "results"

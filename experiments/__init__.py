"""The measurements behind the book's numbers: one short script a result.

`python -m experiments` makes every result that is missing, `python -m
experiments NAME` one, again. A script has a docstring (its first line is the
claim), THIS, an Experiment with all that it sets, and run(), which returns
plain data. It imports no other script: what several need is in the modules
with an underscore.
"""

from pathlib import Path

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "book" / "results"

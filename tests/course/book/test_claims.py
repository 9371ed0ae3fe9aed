"""What the book claims about trained and random networks, and what stands behind each claim (experiments/claims)."""

import csv
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LISTS = sorted((ROOT / "experiments" / "claims").glob("*.csv"))
ENOUGH = {"trained": 5, "random": 20, "this network": 1}  # networks behind a claim
NOTEBOOKS = sorted((ROOT / "book").glob("*.ipynb"))
SOLUTIONS = sorted((ROOT / "book" / "solutions").glob("*.ipynb"))


def rows(path: Path) -> list[dict]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def cells(path: Path) -> dict[str, str]:
    return {cell["id"]: "".join(cell["source"]) for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]}


def test_every_notebook_has_its_list():
    assert [path.stem for path in LISTS] == [path.stem for path in NOTEBOOKS]


@pytest.mark.parametrize("path", LISTS, ids=lambda path: path.stem)
def test_enough_networks_stand_behind_each_claim(path):
    there = cells(ROOT / "book" / f"{path.stem}.ipynb")
    for row in rows(path):
        assert list(row) == ["cell", "claim", "subject", "networks", "images", "ways"] and all(row.values()), row
        assert row["cell"] == "quiz" or row["cell"] in there, row
        assert int(row["networks"]) >= ENOUGH[row["subject"]], row


@pytest.mark.parametrize("path", NOTEBOOKS + SOLUTIONS, ids=lambda path: f"{path.parent.name}, {path.stem}")
def test_what_stands_behind_a_plus_minus_is_an_interval(path):
    """± is half the width of a confidence interval in the whole book: no cell prints a deviation or an error there."""
    for cell, source in cells(path).items():
        assert not re.search(r"±[^{}\n]{0,8}\{[^{}\n]*\b(?:std|stdev|sd|errors?)\b", source), cell
        assert not re.search(r"yerr=[^,\n]*\b(?:std|stdev|sd)\b", source), cell

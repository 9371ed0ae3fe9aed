"""Numbers in a chapter's prose: decimals and shares are what one of its cells prints or sets, or have a reason.

It is a sieve and no proof: a number passes if any cell of the chapter prints
or sets one that rounds to it, or is a hundred times as large or as small (a
share and its percentage). Code, formulas, addresses and the numbers of
exercises are no prose.
"""

import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).resolve().parents[3]
CHAPTERS = sorted((ROOT / "book").glob("*.ipynb"))
NO_PROSE = re.compile(r"```.*?```|`[^`]*`|\$\$.*?\$\$|\$[^$\n]+\$|<!--.*?-->|\]\([^)]*\)|<[^>]+>", re.DOTALL)
CLAIM = re.compile(r"(?<![\w.])(\d[\d,]*\.\d+|\d[\d,]*(?=[\s\u00a0]?%))(?![\w]|\.\d)")
LABEL = re.compile(r"(?:exercise|section|figure|table|chapter|equation|check) *$", re.IGNORECASE)
NUMBER = re.compile(r"\d[\d,]*\.?\d*(?:[eE][-+]?\d+)?")
MAY = {
    ("07-cls-token", "29"): "5/17, which stands beside it",
    ("14-beyond", "81.8"): "DeiT, table of its authors, cited there",
    ("14-beyond", "83.4"): "DeiT, table of its authors, cited there",
    ("14-beyond", "75"): "MAE, the share that its authors hide, cited there; and a value to be tried",
}


def told(notebook: nbformat.NotebookNode) -> set[float]:
    """Return all numbers that the cells of a notebook print or set."""
    texts = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            texts.append(cell.source)
            for output in cell.outputs:
                shown = [output.get("text", ""), *map(output.get("data", {}).get, ("text/plain", "text/html"))]
                texts += [text for text in shown if text]
    found = (number.replace(",", "") for text in texts for number in NUMBER.findall(text))
    return {float(number) for number in found}


def untold(notebook: nbformat.NotebookNode, name: str = "") -> list[str]:
    """Return the numbers of a notebook's prose that none of its cells prints or sets, and that have no reason."""
    known, found = told(notebook), []
    for cell in notebook.cells:
        prose = NO_PROSE.sub(" ", cell.source) if cell.cell_type == "markdown" else ""
        for claim in CLAIM.finditer(prose):
            digits = len(claim[1].partition(".")[2])
            value = float(claim[1].replace(",", ""))
            printed = any(abs(round(one * by, digits) - value) < 1e-9 for one in known for by in (1, 100, 0.01))
            if not printed and not LABEL.search(prose[: claim.start()]) and (name, claim[1]) not in MAY:
                around = " ".join(prose[max(0, claim.start() - 40) : claim.end() + 20].split())
                found.append(f"cell {cell.id}: no cell prints {claim[1]}: ... {around} ...")
    return found


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_numbers_in_prose_are_printed_by_a_cell(path):
    assert untold(nbformat.read(path, 4), path.stem) == []


def test_each_reason_is_still_needed():
    prose = {path.stem: str(nbformat.read(path, 4)) for path in CHAPTERS}
    assert [number for (name, number) in MAY if number not in prose[name]] == []


@pytest.mark.parametrize(
    "words, count",
    [
        ("It reaches 87.3 % on the test set.", 1),
        ("It reaches 0.8731 on the test set.", 1),
        ("It reaches 91 % on the test set.", 1),
        ("It reaches 91.2% (exercise 3.7), in 1,234.5 s.", 2),
        ("It reaches 90.4 % or 0.904, about 90 %, at a rate of 0.1.", 0),
        ("In `x = 0.77` and $0.77$ and [0.77](https://example.org/0.77) nothing is claimed but once.", 1),
        ("Exercise 3.7 and figure 2.1 are labels, version 1.2.3 is one, too.", 0),
    ],
)
def test_what_no_cell_prints_is_seen(words, count):
    code = nbformat.v4.new_code_cell("lr = 0.1", outputs=[nbformat.v4.new_output("stream", text="accuracy 0.9042\n")])
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(words), code])
    assert len(untold(notebook)) == count

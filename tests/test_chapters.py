"""What the chapters say about themselves and about each other."""

import ast
import re
from pathlib import Path

import nbformat
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PARTS = yaml.safe_load((ROOT / "_toc.yml").read_text())["parts"]
NAMES = [Path(entry["file"]).name for part in PARTS for entry in part["chapters"]]
CHAPTERS = [name for name in NAMES if (ROOT / "book/solutions" / f"{name}.ipynb").exists()]
NUMBERED = [name for name in NAMES if re.match(r"\d\d-", name)]


def cells(name: str, folder: str = "book") -> list[nbformat.NotebookNode]:
    return nbformat.read(ROOT / folder / f"{name}.ipynb", 4).cells


def text(name: str) -> str:
    return "\n".join(cell.source for cell in cells(name) if cell.cell_type == "markdown")


def functions(code: str) -> dict[str, str]:
    """The functions and classes of some code by name, without comments and layout."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name: ast.dump(node) for node in ast.parse(code).body if isinstance(node, kinds)}


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_folded_solution_is_the_one_that_was_checked(name):
    source = "".join(
        f"{cell.source}\n\n"
        for cell in cells(name, "book/solutions")
        if "%pip" not in cell.source and cell.cell_type == "code"
    )
    checked = functions(source)
    folded = re.findall(r"<summary>Solution</summary>\s*```python\n(.*?)```", text(name), re.DOTALL)
    assert folded
    for code in folded:
        for function, body in functions(code).items():
            assert body == checked.get(function), f"{function} is another one in the solutions"


@pytest.mark.parametrize("name", NUMBERED)
def test_a_title_begins_with_the_number_of_its_chapter(name):
    assert re.match(rf"# {int(name[:2])}\. \S", text(name).split("\n", 1)[1])


@pytest.mark.parametrize("before, after", list(zip(NUMBERED, NUMBERED[1:], strict=False)))
def test_next_is_the_next_chapter(before, after):
    said = re.search(r"\*\*Next:\*\*(.*)", text(before))
    assert said and f"({after}.ipynb)" in said[1]


@pytest.mark.parametrize("name", ["01-patchify", "02-positions", "03-attention", "04-heads", "05-pre-norm-post-norm"])
def test_no_claim_rests_on_what_no_reader_can_see(name):
    for phrase in ("notebooks that we learned from", "We ran it", "cost nothing here"):
        assert phrase not in text(name)

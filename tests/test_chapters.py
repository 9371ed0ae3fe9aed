"""What the chapters say about themselves and about each other."""

import ast
import re
from pathlib import Path

import nbformat
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
CHAPTERS = [
    path.stem
    for entry in yaml.safe_load((ROOT / "_toc.yml").read_text())["chapters"]
    if (path := ROOT / f"{entry['file']}.ipynb").exists() and (ROOT / "book/solutions" / path.name).exists()
]
NUMBERED = [name for name in CHAPTERS if re.match(r"\d\d-", name)]


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


@pytest.mark.parametrize("before, after", list(zip(NUMBERED, NUMBERED[1:], strict=False)))
def test_next_is_the_next_chapter(before, after):
    said = re.search(r"\*\*Next:\*\*(.*)", text(before))
    assert said and f"({after}.ipynb)" in said[1]


@pytest.mark.parametrize("name", ["01-patchify", "02-positions", "03-attention"])
def test_no_claim_rests_on_what_no_reader_can_see(name):
    for phrase in ("notebooks that we learned from", "We ran it", "cost nothing here"):
        assert phrase not in text(name)

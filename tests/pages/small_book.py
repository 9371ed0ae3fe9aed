"""A book of live figures alone, a page each, as the real one is built."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import nbformat
from ipywidgets.embed import dependency_state, embed_data

from pages import live_figures
from tests.conftest import ROOT
from vitbook.figures._base import Figure


def build(folder: Path, figures: Mapping[str, Figure]) -> Path:
    """Build a book in an empty folder, with a page book/NAME.html for each figure, the first at its root; its site."""
    return of_notebooks(folder, {name: page_of(figure) for name, figure in figures.items()})


def of_notebooks(folder: Path, notebooks: Mapping[str, nbformat.NotebookNode]) -> Path:
    """The same of notebooks."""
    lay_out(folder, *notebooks)
    for name, notebook in notebooks.items():
        nbformat.write(notebook, folder / "book" / f"{name}.ipynb")
    result = jupyter_book(folder)
    assert result.returncode == 0, result.stderr
    return folder / "_build" / "html"


def lay_out(folder: Path, first: str, *others: str) -> None:
    """Put all into a folder that a book with our configuration needs, but its pages, which have these names."""
    for part in ("pages", "book/assets"):
        shutil.copytree(ROOT / part, folder / part)
    shutil.copy(ROOT / "_config.yml", folder)
    (folder / "book" / "references.bib").touch()  # empty, unless it is there
    chapters = {"chapters": [{"file": f"book/{name}"} for name in others]} if others else {}
    (folder / "_toc.yml").write_text(json.dumps({"format": "jb-book", "root": f"book/{first}", **chapters}))


def jupyter_book(folder: Path) -> subprocess.CompletedProcess:
    """Build a book as `make book` does."""
    command = [Path(sys.executable).with_name("jupyter-book"), "build", ".", "--all", "-W", "--keep-going", "-n", "-q"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def page_of(figure: Figure) -> nbformat.NotebookNode:
    """A notebook with one cell, which stored this figure."""
    view = {"model_id": figure.model_id, "version_major": 2, "version_minor": 0}
    shown = {live_figures.VIEW: view, **figure._repr_mimebundle_()[0], "text/plain": repr(figure)}
    cell = nbformat.v4.new_code_cell("figure", execution_count=1)
    cell.outputs = [nbformat.v4.new_output("display_data", shown)]
    state = embed_data(views=[figure], state=dependency_state([figure], drop_defaults=False))["manager_state"]
    meta = {"language_info": {"name": "python"}, "widgets": {live_figures.STATE: state}}
    cells = [nbformat.v4.new_markdown_cell("# A figure"), cell]
    return nbformat.v4.new_notebook(metadata=meta, cells=cells)

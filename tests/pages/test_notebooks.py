"""The stored notebooks, where nbval does not look, and the tool that stores them."""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from pybtex.database import parse_file

from pages import extension, notebooks, origin
from tests.conftest import ROOT
from tests.pages.test_pages import NOTEBOOKS

STORED = notebooks.choose([])
IDS = [path.relative_to(ROOT / "book").as_posix() for path in STORED]


@pytest.mark.parametrize("path", STORED, ids=IDS)
def test_stored_notebook(path):
    assert notebooks.faults(nbformat.read(path, 4), path.relative_to(ROOT).as_posix()) == []


def test_every_chapter_is_timed_and_within_its_budget():
    taken = json.loads((ROOT / "book" / "results" / "chapters.json").read_text())["result"]
    timed = [Path(name).stem for name in NOTEBOOKS]
    assert sorted(taken["full"]) == sorted(taken["fast"]) == sorted(timed)
    assert max(taken["full"].values()) < 200 and sum(taken["full"].values()) < 900
    assert sum(taken["fast"].values()) < 20 * len(timed)


def cell(source, *names, **metadata):
    return nbformat.v4.new_code_cell(source, metadata={"tags": list(names), **metadata})


@pytest.fixture
def stored(tmp_path):
    """A function that stores a notebook with the given cells as the tool does; it returns its path and the faults."""

    def store(*cells):
        path = tmp_path / "one.ipynb"
        nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# One"), *cells]), path)
        return path, notebooks.run(path, check=False, root=tmp_path)

    return store


def test_tool_writes_the_same_bytes_twice(stored, tmp_path):
    plot = cell(
        "import matplotlib.pyplot as plt\n\n_ = plt.plot([1, 2])", mystnb={"image": {"alt": "A line that rises"}}
    )
    widget = cell("import ipywidgets\n\nipywidgets.IntSlider()")
    path, faults = stored(plot, widget, cell("for i in range(3):\n    print(i, flush=True)", "nbval-check-output"))
    first = path.read_bytes()
    assert faults == []
    assert notebooks.faults(nbformat.read(path, 4), "one.ipynb") == []
    assert notebooks.run(path, check=False, root=tmp_path) == []
    assert path.read_bytes() == first
    assert notebooks.run(path, check=True, root=tmp_path) == []
    assert b'"0\\n",\n      "1\\n",\n      "2\\n"' in first
    assert list(tmp_path.iterdir()) == [path]


def test_check_shows_the_difference_and_writes_nothing(stored, tmp_path):
    path, _ = stored(cell("print(28 // 4)"))
    stale = path.read_text().replace('"7\\n"', '"8\\n"')
    path.write_text(stale)
    difference = notebooks.run(path, check=True, root=tmp_path)
    assert any(line.startswith("-") and '"8' in line for line in difference)
    assert path.read_text() == stale


FAULTY = {
    "import sys\nprint('slow', file=sys.stderr)": "cell 2 writes to stderr: slow",
    "import os\nprint(os.path.join('/home', 'ann', 'x'))": "path of one machine: /home/ann",
    "print(2_000 * ('word ' * 200 + '\\n'))": "the limit is 2,000,000",
    f"x = {80 * '1'}": "cell 5 has a line of more than 75 characters",
    "import matplotlib.pyplot as plt\n\n_ = plt.plot([1, 2])": "cell 6 draws an image without mystnb.image.alt",
}


@pytest.mark.parametrize("faulty", [FAULTY, {"1 / 0": "ZeroDivisionError"}], ids=["stored", "raised"])
def test_tool_refuses_what_must_not_be_published(stored, faulty):
    path, faults = stored(*map(cell, faulty))
    assert [fault for fault in faulty.values() if not any(fault in line for line in faults)] == []
    assert all("outputs" not in one or not one.outputs for one in nbformat.read(path, 4).cells)


def test_the_setup_cell_is_refreshed_not_repeated(stored, tmp_path, monkeypatch):
    path, _ = stored(cell("x = 1"))
    monkeypatch.setenv("BOOK_REPOSITORY", "cat/fork")
    notebooks.run(path, check=False, root=tmp_path)
    assert path.read_text().count("google.colab") == 1
    assert path.read_text().count("https://github.com/cat/fork/archive/main.zip") == 1
    assert notebooks.faults(nbformat.read(path, 4), "one.ipynb") == []


FOLD = "<details>\n<summary>Solution</summary>\n\n```python\n{}\n```\n\nNow {}.\n\n</details>\n\n"
TASKS = ["### Exercise 1.1: one\n\nAdd.", "### Exercise 1.2: two\n\nTry.\n\n### Exercise 1.3: three\n\n"]
ANSWERS = ["x = r'\\1'\n\n\nassert check(\"1.1\", x)\nprint(x)", "y = 2", 'z = 3\nassert check("1.3", z)']


def chapter(*codes):
    """A chapter of three exercises, the first and the last with a folded solution, and the cells that solve them."""
    texts = [TASKS[0], FOLD.format(codes[0], "one") + TASKS[1] + FOLD.format(codes[1], "three")]
    cells = [nbformat.v4.new_markdown_cell(text, id=f"text-{n}") for n, text in enumerate(texts)]
    return nbformat.v4.new_notebook(cells=cells), nbformat.v4.new_notebook(cells=list(map(cell, ANSWERS)))


def test_a_fold_without_a_solution_is_refused():
    old, solutions = chapter("x = 'old'", "z = 'old'")
    solutions.cells.pop()
    with pytest.raises(ValueError, match=r"exercise 1\.3 has a folded solution, and none in book/solutions"):
        notebooks.insert_solutions(old, solutions)


def test_a_fold_gets_the_code_of_its_exercise_down_to_the_check(tmp_path):
    old, solutions = chapter("x = 'old'", "z = 'old'")
    (tmp_path / "solutions").mkdir()
    nbformat.write(old, tmp_path / "one.ipynb")
    nbformat.write(solutions, tmp_path / "solutions" / "one.ipynb")
    assert notebooks.run(tmp_path / "one.ipynb", check=False, root=tmp_path) == []
    texts = [cell for cell in nbformat.read(tmp_path / "one.ipynb", 4).cells if cell.cell_type == "markdown"]
    assert [text.source for text in texts] == [text.source for text in chapter("x = r'\\1'", "z = 3")[0].cells]


SOLUTIONS = [path for path in STORED if path.parent.name == "solutions"]


@pytest.mark.parametrize("solutions", SOLUTIONS, ids=lambda path: path.stem)
def test_stored_chapters_fold_the_solutions_of_today(solutions):
    today = notebooks.read(ROOT / "book" / solutions.name)
    stored = [cell.source for cell in today.cells]
    notebooks.insert_solutions(today, notebooks.read(solutions))
    assert [cell.source for cell in today.cells] == stored, f"run: python -m pages.notebooks {solutions.stem}"


def test_setup_does_nothing_outside_colab_and_installs_there_in_silence(monkeypatch, capsys):
    ran = []
    shell = InteractiveShell()
    shell.system = ran.append
    source = notebooks.setup_cell("https://example.org/one.zip").source
    shell.run_cell(source).raise_error()
    assert ran == []
    monkeypatch.setitem(sys.modules, "google.colab", object())
    shell.run_cell(source).raise_error()
    assert ran == [f"pip install -qq --no-deps {notebooks.ANYWIDGET} psygnal https://example.org/one.zip"]
    assert capsys.readouterr().out == ""  # %pip would ask for a restart


@pytest.mark.parametrize(
    "change",
    [
        lambda notebook: notebook.cells[2].update(outputs=[]),
        lambda notebook: notebook.cells[2].update(execution_count=None),
        lambda notebook: notebook.cells[2].update(execution_count=7),
        lambda notebook: notebook.cells.pop(1),
        lambda notebook: notebook.cells.insert(0, nbformat.v4.new_markdown_cell("[Colab](x)", id="badge")),
        lambda notebook: notebook.cells[1].update(source=notebook.cells[1].source.replace("psygnal", "torch")),
        lambda notebook: notebook.metadata.kernelspec.update(name="venv311"),
        lambda notebook: notebook.cells[2].outputs.append(nbformat.v4.new_output("error", ename="E", evalue="oh")),
    ],
)
def test_every_kind_of_damage_is_seen(change):
    setup = notebooks.setup_cell(origin.archive("ann/vit", "main"))
    checked = cell("print(1)", "nbval-check-output")
    setup.execution_count, checked.execution_count = 1, 2
    checked.outputs = [nbformat.v4.new_output("stream", text="1\n")]
    kernel = {"kernelspec": {"display_name": "Python 3", "name": "python3"}}
    cells = [nbformat.v4.new_markdown_cell("# One"), setup, checked]
    notebook = nbformat.v4.new_notebook(metadata=kernel, cells=cells)
    assert notebooks.faults(notebook, "one.ipynb") == []
    change(notebook)
    assert notebooks.faults(notebook, "one.ipynb")


def test_a_notebook_that_cannot_run_here_is_left_out_aloud(monkeypatch, capsys):
    ran = []
    monkeypatch.setattr(notebooks, "run", lambda path, *rest, **more: ran.append(path.stem) or [])
    monkeypatch.setitem(notebooks.NEEDS, "jax", (("no_such_package",), "make jax adds it"))
    monkeypatch.setattr("sys.argv", ["notebooks.py"])
    assert notebooks.main() == 0
    assert "book/jax.ipynb: LEFT OUT, it needs no_such_package (make jax adds it)" in capsys.readouterr().out
    assert "jax" not in ran and "01-patchify" in ran
    monkeypatch.setattr("sys.argv", ["notebooks.py", "jax"])
    with pytest.raises(SystemExit, match="jax.ipynb needs no_such_package: make jax adds it"):
        notebooks.main()


def test_nbval_skips_it_with_a_reason(monkeypatch):
    spec = importlib.util.spec_from_file_location("book_conftest", ROOT / "book" / "conftest.py")
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)
    marks = []

    class Cell:
        path = ROOT / "book" / "jax.ipynb"
        add_marker = staticmethod(marks.append)

    monkeypatch.setitem(notebooks.NEEDS, "jax", (("json", "no_such_package"), "make jax adds it"))
    conftest.pytest_collection_modifyitems([Cell()])
    assert [mark.kwargs["reason"] for mark in marks] == ["jax.ipynb needs no_such_package: make jax adds it"]
    monkeypatch.setitem(notebooks.NEEDS, "jax", (("json",), ""))
    conftest.pytest_collection_modifyitems([Cell()])
    assert len(marks) == 1


@pytest.mark.parametrize("deaths", [2, 3])
def test_a_kernel_that_dies_at_its_start_is_started_again(tmp_path, deaths):
    """As where two programs draw the same port: the first starts die, a later one works."""
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 + 1")]), tmp_path / "one.ipynb")
    shutil.copy(ROOT / "book" / "conftest.py", tmp_path)
    (tmp_path / "sitecustomize.py").write_text(
        "import os, pathlib, sys\n"
        "died = pathlib.Path(__file__).parent / 'died'\n"
        "seen = died.read_text() if died.exists() else ''\n"
        f"if 'ipykernel_launcher' in sys.orig_argv and len(seen) < {deaths}:\n"
        "    died.write_text(seen + '.')\n"
        "    os._exit(1)\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    paths = os.pathsep.join([str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")])
    surroundings = os.environ | {"PYTHONPATH": paths}
    result = subprocess.run([*command, "one.ipynb"], cwd=tmp_path, env=surroundings, capture_output=True, text=True)
    assert len((tmp_path / "died").read_text()) == deaths
    assert ("1 passed" in result.stdout) == (deaths < 3), result.stdout
    assert ("Kernel died before replying" in result.stdout) == (deaths == 3), result.stdout


def test_jax_changes_nothing_else():
    lines = (ROOT / "requirements-jax.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    assert lines.count("-c constraints.txt") == 1 and {"jax", "jaxlib", "flax", "optax"} <= pins.keys()
    assert all(re.fullmatch(r"[\w-]+==[\w.]+", line) for line in lines if line and not line.startswith(("#", "-c")))
    ours = (ROOT / "constraints.txt").read_text().lower().replace("_", "-")
    assert not [name for name in pins if re.search(rf"^{name}==", ours, re.MULTILINE)]


CITATION = re.compile(r"\[\(?(?P<who>[A-Z][^\[\]\d]*), (?P<year>(?:19|20)\d\d)[^\[\]]*\]\((?P<where>[^)\s]+)\)")
SOURCES = {extension.address(entry): entry for entry in parse_file(ROOT / "book" / "references.bib").entries.values()}


def wrong_citations(text: str) -> list[str]:
    """Return the citations in a Markdown text that do not lead to the paper that they name."""
    keys = "|".join(re.escape(entry.key) for entry in SOURCES.values())
    found = [f"{link} leads nowhere outside the book" for link in re.findall(rf"\]\(#(?:{keys})\)", text)]
    for cited in CITATION.finditer(text):
        entry = SOURCES.get(cited["where"])
        if entry is None:
            found.append(f"{cited[0]} is no address in book/references.bib")
        elif entry.fields["year"] != cited["year"] or entry.persons["author"][0].last_names[-1] not in cited["who"]:
            found.append(f"{cited[0]} leads to {entry.key}")
    return found


@pytest.mark.parametrize("path", [*STORED, ROOT / "book" / "glossary.md"], ids=[*IDS, "glossary.md"])
def test_a_citation_leads_to_its_paper_outside_the_book_too(path):
    cells = nbformat.read(path, 4).cells if path.suffix == ".ipynb" else []
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"] or [path.read_text()]
    assert [wrong for text in texts for wrong in wrong_citations(text)] == []


def test_a_wrong_citation_is_seen():
    right = "[(Xiao et al., 2017)](https://arxiv.org/abs/1708.07747)"
    assert wrong_citations(f"{right}, [(Wightman, 2019, table 1)](https://doi.org/10.5281/zenodo.4414861)") == []
    for where in ("#xiao2017fashion", "#anything", "https://arxiv.org/abs/2106.14881", "https://example.org"):
        assert wrong_citations(right.replace("https://arxiv.org/abs/1708.07747", where))

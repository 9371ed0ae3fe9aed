"""Each fault that the house promises to stop, planted once: the gate must stop it, for that reason.

From this the table in book/security.md is made: python -m tests.pages.test_gates
"""

import base64
import re
import subprocess
import sys

import nbformat
import pytest

from pages import notebooks, slides
from tests.conftest import ROOT
from tests.course.book import test_language, test_numbers, test_security
from tests.pages import test_repository
from tests.pages.test_extension import build
from tests.pages.test_notebooks import wrong_citations
from tests.pages.test_slides import SOUND, small_deck

PAGE = ROOT / "book" / "security.md"
START, END = "<!-- gates: made by tests/pages/test_gates.py -->\n", "<!-- end of gates -->"
GATES: dict[str, tuple[str, str]] = {}  # test -> fault, gate


def gate(fault, stopped_by):
    """A test plants this fault; in front of readers it is stopped by this."""

    def named(test):
        GATES[test.__name__] = fault, stopped_by
        return test

    return named


def stops(check, words):
    """The gate, called with a fault planted, fails, and its words are these."""
    with pytest.raises((AssertionError, ValueError)) as error:
        check()
    assert re.search(words, str(error.value)), f"it fails for another reason: {error.value}"


def faults(*cells):
    """What tests/pages/test_notebooks.py asks each stored notebook for."""
    kernel = {"kernelspec": {"display_name": "Python 3", "name": "python3"}}
    cells = [nbformat.v4.new_markdown_cell("# One"), *cells]
    return "\n".join(notebooks.faults(nbformat.v4.new_notebook(metadata=kernel, cells=cells), "one.ipynb"))


def code(source, *outputs, **metadata):
    return nbformat.v4.new_code_cell(source, execution_count=1, outputs=list(outputs), metadata=metadata)


def says(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


# ---- Pages


FAULTY = """# One

[more](no-such-page.md), [less](#no-such-place)

<img alt="a counter" src="https://counter.example/x.png">
"""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory):
    """What the strict build says of a page with two faults."""
    result = build(tmp_path_factory.mktemp("faulty"), FAULTY)
    assert result.returncode != 0
    return result.stderr


@gate("a link to a page or file that is not there", "the strict build")
def test_broken_link(stopped):
    assert re.search("WARNING.*no-such-page.md", stopped) and re.search("WARNING.*no-such-place", stopped)


@gate("a page that loads something from another host", "the strict build (pages/policy.py)")
def test_third_party(stopped):
    assert "img asks another host, or runs a script: https://counter.example/x.png" in stopped


@gate("JavaScript that fails when a page opens", "every page test, in Chromium")
def test_broken_script(visit):
    page, watch = visit("genindex.html")
    page.route("**/figures.js*", lambda route: route.fulfill(content_type="text/javascript", body="planted()"))
    page.goto(f"{watch.home}book/01-patchify.html", wait_until="load")
    stops(watch.assert_clean, "planted is not defined")


@gate("a deck that names a cell which its chapter does not have", "the strict build")
def test_deck_without_its_cell(tmp_path):
    with pytest.raises(slides.DeckError, match="no cell '1a2b3c4d'"):
        small_deck(tmp_path, SOUND.format(body="{{ 1a2b3c4d code }}")).page()


# ---- Notebooks


@gate("an output that the code no longer prints", "nbval, in `make test`")
def test_stale_output(tmp_path):
    cell = nbformat.v4.new_code_cell("print(28 // 4)", execution_count=1, outputs=[says("8\n")])
    cell.metadata["tags"] = ["nbval-check-output"]
    nbformat.write(nbformat.v4.new_notebook(cells=[cell]), tmp_path / "one.ipynb")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--nbval-lax", "--nbval-current-env"]
    result = subprocess.run([*command, "one.ipynb"], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 1 and "mismatch 'stdout'" in result.stdout, result.stdout


@gate("a warning or an error stored in an output", "tests/pages/test_notebooks.py")
def test_stderr():
    assert "stderr: oh" in faults(code("1", says("oh", "stderr")))
    assert "oh" not in faults(code("1", says("oh")))


@gate("an image without alternative text", "tests/pages/test_notebooks.py")
def test_missing_alt():
    drawn = nbformat.v4.new_output("display_data", {"image/png": base64.b64encode(b"png").decode()})
    assert "draws an image without mystnb.image.alt" in faults(code("1", drawn))
    assert "draws" not in faults(code("1", drawn, mystnb={"image": {"alt": "A line that rises"}}))


@gate("a path of one machine in an output", "tests/pages/test_notebooks.py")
def test_path_of_a_machine():
    folder = "/".join(["", "home", "ann"])
    assert f"path of one machine: {folder}" in faults(code("1", says(f"{folder}/vit\n")))


@gate("a live figure whose state is not stored", "tests/pages/test_notebooks.py")
def test_dead_figure():
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "0"}, "text/plain": "a figure"}
    notebook = nbformat.v4.new_notebook(cells=[code("1", nbformat.v4.new_output("display_data", view))])
    notebook.metadata["widgets"] = {"application/vnd.jupyter.widget-state+json": {"state": {}}}
    assert "not stored" in "\n".join(notebooks.dead_figures(notebook, "one"))


@gate("a decimal or a percentage in prose that no cell prints", "tests/course/book/test_numbers.py")
def test_number_by_hand():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("It reaches 87.3 %.")])
    assert "no cell prints 87.3" in test_numbers.untold(notebook)[0]


@gate("a citation that leads to another paper", "tests/pages/test_notebooks.py")
def test_wrong_citation():
    assert "leads to" in wrong_citations("[(Vaswani et al., 2017)](https://arxiv.org/abs/1708.07747)")[0]


@gate("a word that the book does not use", "tests/course/book/test_language.py")
def test_forbidden_word(tmp_path, monkeypatch):
    (tmp_path / "README.md").write_text("The token listens: what a token hears.\n")
    monkeypatch.setattr(test_language, "ROOT", tmp_path)
    stops(test_language.test_every_text_uses_the_words_of_the_field, "README.md")


# ---- The repository


@gate("an action in a workflow that is not pinned to a commit", "tests/pages/test_repository.py")
def test_unpinned_action(tmp_path):
    sound = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    planted = re.sub(r"(uses: actions/checkout)@\S+  # v\S+", r"\1@v7", sound)
    assert planted != sound
    path = tmp_path / "ci.yml"
    path.write_text(sound)
    test_repository.test_workflows_ask_for_no_more_than_they_need(path)
    path.write_text(planted)
    stops(lambda: test_repository.test_workflows_ask_for_no_more_than_they_need(path), "actions/checkout@v7")


@gate("a workflow that may write where reading is enough", "tests/pages/test_repository.py")
def test_workflow_that_may_write(tmp_path):
    sound = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    path = tmp_path / "ci.yml"
    path.write_text(sound.replace("contents: read", "contents: write", 1))
    stops(lambda: test_repository.test_workflows_ask_for_no_more_than_they_need(path), "write")


@gate("a file that is too heavy", "tests/pages/test_repository.py")
def test_heavy_file(tmp_path, monkeypatch):
    (tmp_path / "weights.bin").write_bytes(bytes(notebooks.MAX_BYTES + 1))
    monkeypatch.setattr(test_repository, "FILES", [tmp_path / "weights.bin"])
    stops(test_repository.test_nothing_is_heavy, "weights.bin")


@gate("a sandbox for submissions that does not hold", "the grader itself, before it runs one")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the sandboxes are Linux's")
def test_open_sandbox(monkeypatch):
    from vitbook.grading import sandbox

    monkeypatch.setitem(sandbox.WAYS, "open", lambda job, home: [sys.executable, *job.arguments])
    assert sandbox.works("open").startswith("it lets a process read files, write files, ")


@gate("a program that unpickles what it was given", "tests/course/book/test_security.py")
def test_unpickling(tmp_path, monkeypatch):
    (tmp_path / "loader.py").write_text("import torch\n\nstate = torch.load('run.pt', weights_only=False)\n")
    monkeypatch.setattr(test_security, "CODE", [tmp_path / "loader.py"])
    monkeypatch.setattr(test_security, "NOTEBOOKS", [])
    monkeypatch.setattr(test_security, "ROOT", tmp_path)
    stops(test_security.test_no_program_of_the_book_turns_data_into_code, "torch.load without weights_only=True")


# ---- The table


def table():
    """Return the table of faults and gates, in Markdown."""
    lines = ["| planted fault | what stops it |", "| --- | --- |", *(f"| {f} | {by} |" for f, by in GATES.values())]
    return "\n" + "\n".join(lines) + "\n\n"


def test_the_page_shows_these_gates():
    stored = PAGE.read_text(encoding="utf-8").split(START)[1].split(END)[0]
    assert stored == table(), "run: python -m tests.pages.test_gates"
    assert len({fault for fault, _ in GATES.values()}) == len(GATES) >= 15


if __name__ == "__main__":
    before, rest = PAGE.read_text(encoding="utf-8").split(START)
    PAGE.write_text(before + START + table() + END + rest.split(END)[1], encoding="utf-8")

"""tools/assignment.py: a notebook to hand out that has the checks and no answers."""

import json
import re

import nbformat
import pytest

from pages import origin
from tools import assignment
from vitbook.exercises import engine

COURSE = '''
from vitbook.exercises.engine import fresh
from vitbook.exercises.forms import compute

TASKS = {"c.1": "Double a tensor, as in [chapter 3](https://example.org)."}
compute("c.1", "twice(x)", "a", "b", cases=lambda: [(fresh(2, 3),)], reference=lambda x: 2 * x,
        mistakes={"You squared.": lambda x: x * x}, otherwise="no", right="twice.")
ANSWERS = {"c.1": """
def twice(x):
    return x + x  # nobody else has thought of it
"""}
'''


def code(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@pytest.fixture
def made(tmp_path):
    course = tmp_path / "course.py"
    course.write_text(COURSE)
    path = assignment.write("week", ["3.1", "5.2", "c.1"], [2, 3, 1], tmp_path / "out", course, "Week three")
    yield nbformat.read(path, 4), nbformat.read(path.with_name("week-answers.ipynb"), 4)
    engine.EXERCISES.pop("c.1")


def test_it_has_texts_skeletons_and_points_and_no_answers(made):
    handed, answers = made
    text = "\n".join(cell.source for cell in handed.cells)
    for words in ("# Week three", "### Exercise 3.1", "(2 points)", "### Exercise c.1 (1 point)", "Double a tensor"):
        assert words in text
    for number in ("3.1", "5.2"):
        answer = assignment.find(number, "").answer
        assert answer in "\n".join(cell.source for cell in answers.cells)
        lines = {line.strip() for line in answer.splitlines()} - {
            line.strip() for line in assignment.find(number, "").skeleton.splitlines()
        }
        told = [line for line in lines if len(line) > 15 and line in text and not line.startswith("assert check")]
        assert told == []
    assert "Solution" not in text and "<details" not in text and "<!--" not in text


def test_a_teachers_answer_is_in_the_teachers_notebook_alone(made):
    handed, answers = made
    cell = next(cell for cell in answers.cells if cell.id == "answer-c-1")
    assert cell.source.startswith("def twice(x):") and "nobody else" in cell.source
    assert "nobody else" not in nbformat.writes(handed)


def test_links_are_turned_whatever_they_look_like():
    text = "[a](#sec-x) [b](01-patchify.ipynb#sec-y) [c](glossary.md) [d](solutions/02.ipynb) [e](https://x.org)"
    turned = assignment._linked(text, assignment.BOOK / "03-attention.ipynb", "https://b.org/")
    assert turned == (
        "[a](https://b.org/book/03-attention.html#sec-x) [b](https://b.org/book/01-patchify.html#sec-y) "
        "[c](https://b.org/book/glossary.html) [d](https://b.org/book/solutions/02.html) [e](https://x.org)"
    )


def test_nbgrader_can_read_it(made):
    handed, _ = made
    said = [cell.metadata["nbgrader"] for cell in handed.cells]
    assert all(one["schema_version"] == 3 for one in said)
    names = [one["grade_id"] for one in said]
    assert len(set(names)) == len(names) and all(re.fullmatch(r"[\w-]+", name) for name in names)
    graded = {one["grade_id"]: one["points"] for one in said if one["grade"]}
    assert graded == {"check-3-1": 2, "check-5-2": 3}  # a teacher's own exercise is judged by vitnb-grade alone
    assert all(one["locked"] for one in said if one["grade"])


def test_untouched_it_runs_to_its_end_and_answered_it_is_right(made, capsys):
    handed, answers = made
    for notebook, verdicts in ((handed, []), (answers, ["3.1", "5.2"])):
        space, right = {"__name__": "__main__"}, []
        for cell in code(notebook):
            if "raises-exception" in cell.metadata.get("tags", []):
                try:
                    exec(cell.source, space)
                    right.append(re.search(r'check\("([\w.]+)"', cell.source)[1])
                except AssertionError:
                    pass
            else:
                exec("\n".join(one for one in cell.source.split("\n") if "%pip" not in one), space)
        assert right == verdicts
    assert "3.1: not done yet." in capsys.readouterr().out


@pytest.mark.parametrize("number", [n for n in engine.EXERCISES if not n.startswith("jax")])
def test_every_exercise_can_be_handed_out(number):
    one = assignment.find(number, "https://example.org/")
    assert one.text.startswith(f"### Exercise {number}") and len(one.text.split()) > 15
    assert one.names and one.call and number in one.call
    assert "Solution" not in one.text and "<summary" not in one.text
    assert all(link.startswith("https://") for link in re.findall(r"\]\(([^)]*)\)", one.text))
    notebook = assignment.handout("t", [one], [1], "o/r")
    assert json.loads(nbformat.writes(notebook))["nbformat"] == 4


def test_what_cannot_be_made_is_told(tmp_path, capsys):
    out = str(tmp_path / "out")
    assert assignment.main(["week", "99.1", "--out", out]) == 2
    assert "99.1" in capsys.readouterr().err
    assert assignment.main(["week", "3.1", "3.2", "--points", "1", "2", "3", "--out", out]) == 2
    assert "3 points for 2 exercises" in capsys.readouterr().err
    for points in ("-1", "nan", "inf"):
        assert assignment.main(["week", "3.1", "--points", points, "--out", out]) == 2
        assert f"got {points}: use 1" in capsys.readouterr().err
    assert assignment.main(["week", "3.1", "3.1", "--out", out]) == 2
    assert "both want my_attention" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("pushed, at", [("3f2a1c0", "3f2a1c0"), ("", "lessons")])
def test_on_colab_students_install_the_teachers_commit_once_it_is_on_github(tmp_path, monkeypatch, pushed, at):
    monkeypatch.setenv("BOOK_REPOSITORY", "someone/else")
    monkeypatch.setattr(origin, "pushed", lambda folder: pushed)
    monkeypatch.setattr(origin, "branch", lambda folder: "lessons")
    path = assignment.write("week", ["3.1"], [1], tmp_path, None, "")
    [setup] = [cell.source for cell in nbformat.read(path, 4).cells if cell.id == "setup"]
    assert origin.ARCHIVE.findall(setup) == [f"https://github.com/someone/else/archive/{at}.zip"]

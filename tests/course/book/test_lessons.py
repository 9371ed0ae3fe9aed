"""A chapter in three parts: a lesson of bounded length, exercises, closer looks; and what is folded is not needed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pages.count import FOLDED, HEADING, LIMITS, count, with_minutes

ROOT = Path(__file__).resolve().parents[3]
NOTEBOOKS = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "book").glob("[0-9][0-9]-*.ipynb"))}


def headings(notebook):
    texts = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"]
    return [title.strip() for text in texts for title in HEADING.findall(text)]


# A chapter has the form from the day on which it has closer looks.
THREE_PARTS = {name: notebook for name, notebook in NOTEBOOKS.items() if "Closer looks" in headings(notebook)}


def too_long(notebook):
    lesson = count(notebook)["lesson"]
    return [
        f"{getattr(lesson, kind)} {kind}, not {most}" for kind, most in LIMITS.items() if getattr(lesson, kind) > most
    ]


def folded_names(notebook):
    """Return what ruff says of names that no visible cell defines or imports."""
    visible = [
        "".join(cell["source"])
        for cell in notebook["cells"]
        if cell["cell_type"] == "code" and not FOLDED & set(cell["metadata"].get("tags", []))
    ]
    options = "-m ruff check -q --isolated --select F821 --output-format concise -".split()
    code = "\n".join(visible) + "\n"
    run = subprocess.run([sys.executable, *options], input=code, text=True, capture_output=True)
    assert not run.stderr, run.stderr
    return [line.split("F821 ")[1] for line in run.stdout.splitlines()]


def markdown(text):
    return {"cell_type": "markdown", "source": [text]}


def code(source, *tags):
    return {"cell_type": "code", "metadata": {"tags": list(tags)}, "source": [source]}


def small(words=3, cells=1, use="x"):
    lesson = [
        markdown("word " * words),
        *[code("x = 1")] * cells,
        code("folded = 2", "hide-input"),
        code(f"print({use})"),
    ]
    return {"cells": [*lesson, markdown("## Exercises\n\nwords\n\n## Closer looks\n\nwords")]}


def test_the_lessons_are_bounded():
    assert len(THREE_PARTS) > 0
    assert not too_long(small()) and not folded_names(small())
    assert too_long(small(words=LIMITS["words"] + 1)) and too_long(small(cells=LIMITS["cells"]))
    assert folded_names(small(use="folded")) == ["Undefined name `folded`"]


@pytest.mark.parametrize("name", THREE_PARTS)
def test_a_chapter_has_its_parts_in_order(name):
    parts = [title for title in headings(THREE_PARTS[name]) if title in ("Exercises", "Closer looks", "Sources")]
    assert parts == ["Exercises", "Closer looks", "Sources"]


@pytest.mark.parametrize("name", THREE_PARTS)
def test_a_lesson_is_short(name):
    assert too_long(THREE_PARTS[name]) == []


@pytest.mark.parametrize("name", THREE_PARTS)
def test_the_card_says_how_long_lesson_and_exercises_take(name):
    stored = (ROOT / "book" / f"{name}.ipynb").read_text()
    assert with_minutes(stored) == stored, f"python -m pages.count --write {name}"


@pytest.mark.parametrize("name", THREE_PARTS)
def test_a_visible_cell_uses_nothing_from_a_folded_one(name):
    assert folded_names(THREE_PARTS[name]) == []

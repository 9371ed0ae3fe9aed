"""pages/count.py: what a chapter asks of a reader, part by part."""

import json

import pytest

from pages import count

CARD = "| | |\n| --- | --- |\n| **Time** | 30 minutes, and 50 for the exercises |"


def code(source, *tags):
    return {"cell_type": "code", "metadata": {"tags": list(tags)}, "source": source.splitlines(keepends=True)}


def text(source):
    return {"cell_type": "markdown", "metadata": {}, "source": source.splitlines(keepends=True)}


def chapter(*cells):
    return json.dumps({"cells": cells, "metadata": {"norm_eps": 1}}, indent=1, ensure_ascii=False)


def counted(*cells):
    return {name: (part.words, part.cells, part.lines) for name, part in count.count({"cells": cells}).items()}


def test_each_part_begins_at_its_heading():
    found = counted(
        text("# One title\n\nthree words here"),
        code("a = 1\n\nb = 2"),
        text("last words\n\n## Exercises\n\nfour more words follow\n\n### Exercise 1.1: nothing here"),
        code("..."),
        text("## Closer looks\n\none"),
        text("## Sources\n\nnobody counts these"),
    )
    assert found["lesson"] == (7, 1, 2)
    assert found["exercises"] == (1 + 4 + 4, 1, 1)
    assert found["closer looks"] == (3, 0, 0)
    assert found["sources"] == (4, 0, 0)


@pytest.mark.parametrize(
    "unread",
    [
        "```python\ncode here\n```",
        "`code here`",
        "$a + b$",
        "$$\na + b\n$$",
        "![alt text](image.png)",
        "<!-- :::{note} hidden -->",
        "<details><summary>Solution</summary>folded words</details>",
    ],
)
def test_only_prose_is_words(unread):
    assert counted(text(f"two words {unread}"))["lesson"][0] == 2


def test_a_link_counts_as_what_is_read_of_it():
    assert counted(text("see [chapter two](02-positions.ipynb)."))["lesson"][0] == 3


@pytest.mark.parametrize("tag", sorted(count.FOLDED))
def test_code_that_nobody_sees_is_not_counted(tag):
    assert counted(code("a = 1", tag), code("b = 2", "nbval-check-output"))["lesson"] == (0, 1, 1)


def test_minutes_are_words_and_lines_at_their_speeds():
    assert count.Part(words=10 * count.WORDS_A_MINUTE, lines=5 * count.LINES_A_MINUTE).minutes == 15


def test_the_card_gets_the_minutes_of_lesson_and_exercises_and_keeps_all_else():
    easy, hard = (
        f"### Exercise 1.{n}: one\n\n{text}\n\nwords"
        for n, text in ((1, "easy, about 8 minutes"), (2, "hard, about 20 minutes, by hand"))
    )
    never = "### Exercise 1.3: one\n\nopen, as long as you like"
    stored = chapter(
        text(CARD), code("x = 1e-6"), text("word " * 1000 + "\n\n## Exercises"), *map(text, (easy, hard, never))
    )
    written = count.with_minutes(stored)
    assert written == stored.replace("30 minutes, and 50", "5 minutes, and 30") != stored
    assert count.with_minutes(written) == written


def test_the_table_marks_what_is_too_long_in_a_lesson(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(count, "BOOK", tmp_path)
    (tmp_path / "01-long.ipynb").write_text(chapter(text(CARD), text("word " * 1900)))
    (tmp_path / "02-short.ipynb").write_text(chapter(text(CARD), text("## Exercises\n\n" + "word " * 1900)))
    count.main(["--write"])
    long, short = capsys.readouterr().out.splitlines()[-2:]
    assert "!" in long and "!" not in short
    assert "**Time** | 10 minutes, and 0 for" in (tmp_path / "01-long.ipynb").read_text()

"""The questions at the end of each chapter, at what people get wrong: one file a chapter in exercises/quizzes/.

A heading is a question, on one line. Each item of the list below it is an
answer, marked [x] if it is the right one, and its second paragraph is what is
said to whoever checks it; it names in “quotes” the section that shows it.
After a change: python -m pages.notebooks --figures NAME.
"""

import re
from pathlib import Path

from vitbook.figures.quiz import Question, Quiz
from vitnb._validate import choice

ANSWER = re.compile(r"- \[(?P<mark>[ x])\] (?P<text>\S.*(?:\n  \S.*)*)\n\n(?P<feedback>  \S.*(?:\n  \S.*)*)")


def read(path: Path) -> list[Question]:
    """Return the questions of a Markdown file.

    Raises: ValueError that names the file and the question if one is not as it must be.
    """
    before, *sections = re.split(r"^## ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if before.strip() or not sections:
        raise ValueError(f"{path.name} must begin with a question, ## and its text, got {before[:60]!r}")
    questions = []
    for section in sections:
        text, *items = re.split(r"\n+(?=- )", section.strip())
        try:
            questions.append(_question(text, items))
        except ValueError as error:
            raise ValueError(f"{path.name}, question {text[:60]!r}: {error}") from error
    return questions


def _question(text: str, items: list[str]) -> Question:
    """Return the question with this text and the answers in these items of a list."""
    if "\n" in text:
        raise ValueError("a heading is one line: write the whole question in it, and the answers as a list")
    answers, right = {}, []
    for number, item in enumerate(items):
        if not (found := ANSWER.fullmatch(item)):
            form = "'- [ ] answer', or '- [x] answer', then an empty line and its feedback, indented by two spaces"
            raise ValueError(f"{item.splitlines()[0]!r} is not written as an answer: {form}")
        answers[_unwrapped(found["text"])] = _unwrapped(found["feedback"])
        right += [number] * (found["mark"] == "x")
    if len(answers) < len(items):
        raise ValueError("an answer stands twice")
    if len(right) != 1:
        raise ValueError(f"{len(right)} answers are marked as right: mark one with [x]")
    return Question(text, answers, *right)


def _unwrapped(text: str) -> str:
    """Return a paragraph as one line."""
    return re.sub(r"\n *", " ", text.strip())


FILES = sorted((Path(__file__).parent / "exercises" / "quizzes").glob("*.md"), key=lambda path: path.stem)
QUIZZES = {path.stem: read(path) for path in FILES}


def quiz(chapter: str) -> Quiz:
    """Return the questions of a chapter, named by its number: quiz("07").

    Raises: ValueError if this chapter has none.
    """
    return Quiz(QUIZZES[choice("chapter", chapter, QUIZZES)])

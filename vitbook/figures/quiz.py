"""Questions that diagnose: every answer, right or wrong, says what it rests on (all chapters)."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.figure
import traitlets
from matplotlib import pyplot as plt

from vitbook.figures._base import Figure, module, style

LETTERS = "ABCDEFGH"
COLUMNS = 88  # characters in a line of the still image


@dataclass(frozen=True)
class Question:
    """A question, its answers in the order in which they are shown, and what is said of each of them.

    answers maps the text of an answer to its feedback: for a wrong one, which
    misconception it is and which section shows it; for the right one, why. right is
    the number of the right answer, from 0. Code stands between `marks`; maths is
    plain Unicode.

    Raises: TypeError or ValueError if something is missing or empty, or right is no answer.
    """

    text: str
    answers: Mapping[str, str]
    right: int

    def __post_init__(self):
        if not isinstance(self.answers, Mapping):
            raise TypeError(
                f"answers must be a dictionary, got {type(self.answers).__name__}: use {{'an answer': 'its feedback'}}"
            )
        _check_prose("text", self.text)
        for answer, feedback in self.answers.items():
            _check_prose("an answer", answer)
            _check_prose(f"answers[{answer!r}]", feedback)
        count = len(self.answers)
        if not 2 <= count <= len(LETTERS):
            raise ValueError(f"a question has 2 to {len(LETTERS)} answers, got {count}: {self.text!r}")
        if not isinstance(self.right, int) or self.right not in range(count):
            raise ValueError(f"right must be the number of an answer, 0 to {count - 1}, got {self.right!r}")


def _check_prose(name: str, value: Any) -> None:
    """Raise unless value is a text that a quiz can show."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text, got {value!r}")
    if not value.strip():
        raise ValueError(f"{name} is empty: use a sentence")
    if value.count("`") % 2:
        raise ValueError(f"{name} opens code and does not close it, in {value!r}: use two ` marks")
    if "$" in value:
        raise ValueError(f"{name} has a $, and no maths is set here, in {value!r}: use √d, D², p × p")


class Quiz(Figure):
    """Ask questions with one right answer each; whichever the reader checks is answered with its own feedback.

    questions are shown in their order. checked holds, for each of them, the
    number of the answer that was checked last, or -1; it may be set.

    Raises: TypeError or ValueError if questions is no list of Question, or checked no answers to them.
    """

    _esm = module("quiz.js")
    _css = style("quiz.css")

    questions = traitlets.List(traitlets.Dict()).tag(sync=True)
    checked = traitlets.List(traitlets.Int()).tag(sync=True)

    def __init__(self, questions: Sequence[Question]):
        questions = [questions] if isinstance(questions, Question) else list(questions)
        if not questions:
            raise ValueError("questions is empty: use [Question(text, answers, right)]")
        for one in questions:
            if not isinstance(one, Question):
                raise TypeError(
                    f"questions must hold Question objects, got {one!r}: use Question(text, answers, right)"
                )
        super().__init__(questions=[_as_trait(one) for one in questions], checked=[-1] * len(questions))

    def __repr__(self) -> str:
        return "\n\n".join("\n".join([*asked, *answers]) for asked, answers in map(_wrap, self.questions))

    def still(self) -> matplotlib.figure.Figure:
        """Draw the questions and their answers, and not which is right."""
        lines = []  # (text, weight)
        for asked, answers in map(_wrap, self.questions):
            lines += [(line, "bold") for line in asked] + [(line, "normal") for line in [*answers, ""]]
        height = 0.21 * len(lines)  # inches
        figure = plt.figure(figsize=(7.4, height), layout="none")
        for number, (line, weight) in enumerate(lines):
            y = 1 - (0.21 * number + 0.1) / height
            figure.text(0.01, y, line.replace("`", ""), fontsize=10, va="top", weight=weight)
        return figure

    @traitlets.validate("checked")
    def _check(self, proposal: dict[str, Any]) -> list[int]:
        value = proposal["value"]
        counts = [len(one["answers"]) for one in self.questions]
        if len(value) != len(counts):
            raise ValueError(f"checked must have a number for each of {len(counts)} questions, got {value}")
        for answer, count in zip(value, counts, strict=True):
            if not -1 <= answer < count:
                raise ValueError(f"checked must hold numbers from 0 to {count - 1}, or -1, got {answer}")
        return value


def _as_trait(question: Question) -> dict[str, Any]:
    """Return a question as quiz.js reads it: its answers are a list, because JavaScript may reorder keys."""
    answers = [{"text": answer, "feedback": feedback} for answer, feedback in question.answers.items()]
    return {"text": question.text, "answers": answers, "right": question.right}


def _wrap(question: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Break a question and its lettered answers into lines."""
    answers = [
        textwrap.wrap(f"{letter}. {answer['text']}", COLUMNS, subsequent_indent="    ")
        for letter, answer in zip(LETTERS, question["answers"], strict=False)
    ]
    return textwrap.wrap(question["text"], COLUMNS), sum(answers, [])

"""Questions that diagnose: every answer, right or wrong, says what it rests on (all chapters)."""

import base64
import itertools
import json
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
    the text of the right answer. Code stands between `marks`; maths is plain
    Unicode.

    Raises: TypeError or ValueError if something is missing, empty or there twice, or right is no answer.
    """

    text: str
    answers: Mapping[str, str]
    right: str

    def __post_init__(self):
        if not isinstance(self.answers, Mapping):
            raise TypeError(
                f"answers must be a dictionary, got {type(self.answers).__name__}: use {{'an answer': 'its feedback'}}"
            )
        texts = {"text": self.text, "right": self.right} | {f"answers[{key!r}]": f for key, f in self.answers.items()}
        for name, value in [*texts.items(), *(("an answer", answer) for answer in self.answers)]:
            if not isinstance(value, str):
                raise TypeError(f"{name} must be a text, got {value!r}")
            if not value.strip():
                raise ValueError(f"{name} is empty: use a sentence")
            if value.count("`") % 2:
                raise ValueError(f"{name} opens code and does not close it, in {value!r}: use two ` marks")
            if "$" in value:
                raise ValueError(f"{name} has a $, and no maths is set here, in {value!r}: use √d, D², p × p")
        if not 2 <= len(self.answers) <= len(LETTERS):
            raise ValueError(f"a question has 2 to {len(LETTERS)} answers, got {len(self.answers)}: {self.text!r}")
        if self.right not in self.answers:
            raise ValueError(f"right must be one of the answers {list(self.answers)}, got {self.right!r}")


class Quiz(Figure):
    """Ask questions with one right answer each; whichever the reader checks is answered with its own feedback.

    questions are shown in their order. checked holds, for each of them, the
    number of the answer that was checked last, or -1; it may be set.

    What is said of the answers, and which is right, travels encoded with the
    text of the question. That hides it from the eye of somebody who looks at
    the page's source, and from nobody who can program.

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
        packed = [{"question": one.text, "answers": list(one.answers), "sealed": _seal(one)} for one in questions]
        super().__init__(questions=packed, checked=[-1] * len(packed))

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


def unseal(packed: Mapping[str, Any]) -> tuple[int, list[str]]:
    """Return of a question in Quiz.questions the number of the right answer, and what is said of each answer."""
    data = json.loads(_crossed(base64.b64decode(packed["sealed"]), packed["question"]))
    return data["right"], data["said"]


def _seal(question: Question) -> str:
    """Encode which answer is right and what is said of each."""
    said = {"right": list(question.answers).index(question.right), "said": list(question.answers.values())}
    return base64.b64encode(_crossed(json.dumps(said, ensure_ascii=False).encode(), question.text)).decode()


def _crossed(data: bytes, text: str) -> bytes:
    """Combine each byte with one of the text (XOR), over and over: doing it twice brings the data back."""
    return bytes(byte ^ other for byte, other in zip(data, itertools.cycle(text.encode()), strict=False))


def _wrap(question: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Break a question and its lettered answers into lines."""
    answers = [
        textwrap.wrap(f"{letter}. {answer}", COLUMNS, subsequent_indent="    ")
        for letter, answer in zip(LETTERS, question["answers"], strict=False)
    ]
    return textwrap.wrap(question["question"], COLUMNS), sum(answers, [])

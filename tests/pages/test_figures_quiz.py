"""Quiz: in Python, the questions of the chapters, and in their pages what is said of every answer."""

import base64
import json
import re
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

from pages import notebooks
from tests.pages.driver import STORED, assert_fits_a_phone, refuses, stored, survives, whole
from vitbook import quiz, quizzes
from vitbook.figures import Question, Quiz
from vitbook.quizzes import QUIZZES

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = list(QUIZZES)
[*CHAPTERS] = ((number, *(ROOT / "book").glob(f"{number}-*.ipynb")) for number in NUMBERS)
PAGE, ASKED = "book/07-cls-token.html", QUIZZES["07"]
NUMBER, _ = stored(PAGE, "Quiz")
ANSWERS = {"one": "It is two.", "two": "One and one."}


# ---- Python


def test_what_was_checked_can_be_set():
    one = Quiz([Question("1 + 1?", ANSWERS, right=1)] * 2)
    assert one.checked == [-1, -1]
    one.checked = [0, 1]
    for wrong in ([0], [0, 2], [-2, 0]):
        with pytest.raises(ValueError, match="checked must"):
            one.checked = wrong


def test_where_no_script_runs_it_asks_and_does_not_answer():
    text = repr(quiz("07"))
    for question in ASKED:
        said = re.sub(r"\s+", " ", text)
        assert question.text in said and all(answer in said for answer in question.answers)
        assert not any(feedback in said for feedback in question.answers.values())
    png = quiz("07")._repr_mimebundle_()[0]["image/png"]
    assert base64.b64decode(png).startswith(b"\x89PNG")
    assert png == quiz("07")._repr_mimebundle_()[0]["image/png"] != quiz("08")._repr_mimebundle_()[0]["image/png"]


test_bad_input_is_refused_with_words = refuses(
    (lambda: Quiz([]), ValueError, ["questions", "empty", "Question(text, answers, right)"]),
    (lambda: Quiz(["1 + 1?"]), TypeError, ["questions", "'1 + 1?'", "Question("]),
    (lambda: Question("1 + 1?", ["one", "two"], right=1), TypeError, ["answers", "list", "feedback"]),
    (lambda: Question("1 + 1?", ANSWERS, right=2), ValueError, ["right", "0 to 1", "got 2"]),
    (lambda: Question("1 + 1?", ANSWERS, right=-1), ValueError, ["right", "0 to 1", "got -1"]),
    (lambda: Question("1 + 1?", ANSWERS, right="two"), ValueError, ["right", "0 to 1", "got 'two'"]),
    (lambda: Question("1 + 1?", {"two": "Yes."}, right=0), ValueError, ["2 to 8", "got 1", "1 + 1?"]),
    (lambda: Question("1 + 1?", ANSWERS | {"three": " "}, right=1), ValueError, ["answers['three']", "empty"]),
    (lambda: Question("1 + 1?", ANSWERS | {"three": None}, right=1), TypeError, ["answers['three']", "None"]),
    (lambda: Question("1 + 1?", ANSWERS | {3: "No."}, right=1), TypeError, ["an answer", "3"]),
    (lambda: Question("", ANSWERS, right=1), ValueError, ["text", "empty"]),
    (lambda: Question("`1 + 1?", ANSWERS, right=1), ValueError, ["text", "close", "`1 + 1?"]),
    (lambda: Question("$1 + 1$?", ANSWERS, right=1), ValueError, ["text", "$", "√d"]),
    (lambda: quiz("99"), ValueError, ["chapter", "'00', '01', '02'", "'99'"]),
    (lambda: quiz(["05"]), ValueError, ["chapter", "['05']"]),
)


# ---- The files

SUM = """\
## 1 + 1?

- [ ] one

  It is
  two.

- [x] `1 + 1`, which is
  the same

  One and one.
"""


def test_a_file_is_read_as_it_is_meant(tmp_path):
    path = tmp_path / "01.md"
    path.write_text(f"{SUM}\n{SUM.replace('1?', '2?').replace('x', ' ').replace('[ ]', '[x]', 1)}", encoding="utf-8")
    answers = {"one": "It is two.", "`1 + 1`, which is the same": "One and one."}
    assert quizzes.read(path)[0] == Question("1 + 1?", answers, right=1)
    assert [(one.text, one.right) for one in quizzes.read(path)] == [("1 + 1?", 1), ("1 + 2?", 0)]


@pytest.mark.parametrize(
    "old, new, words",
    [
        ("## ", "# ", ["must begin with a question", "'# 1 + 1?"]),
        (SUM, "", ["must begin with a question"]),
        ("[x]", "[ ]", ["'1 + 1?'", "0 answers are marked", "[x]"]),
        ("[ ]", "[x]", ["'1 + 1?'", "2 answers are marked"]),
        ("[x]", "[X]", ["'1 + 1?'", "'- [X] `1 + 1`, which is'", "'- [x] answer'"]),
        ("\n  One and one.\n", "", ["'1 + 1?'", "'- [x] `1 + 1`, which is'", "feedback"]),
        ("\n  One", "\nOne", ["'- [x] `1 + 1`, which is'", "indented"]),
        ("  It is\n", "  It is\n\n", ["'- [ ] one'", "feedback"]),
        ("1 + 1?", "1 + 1\nis?", ["'1 + 1\\nis?'", "heading is one line"]),
        ("`1 + 1`, which is\n  the same", "one", ["'1 + 1?'", "stands twice"]),
        ("- [ ] one\n\n  It is\n  two.\n\n", "", ["'1 + 1?'", "2 to 8 answers, got 1"]),
        ("two.", "`two.", ["'1 + 1?'", "answers['one'] opens code"]),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_name_and_the_question(tmp_path, old, new, words):
    path = tmp_path / "01.md"
    path.write_text(SUM.replace(old, new), encoding="utf-8")
    assert path.read_text(encoding="utf-8") != SUM
    with pytest.raises(ValueError) as caught:
        quizzes.read(path)
    assert all(word in str(caught.value) for word in ["01.md", *words]), caught.value


# ---- The questions


def headings_of(notebook):
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    return re.findall(r"^#+ (.*)$", text, re.MULTILINE)


@pytest.mark.parametrize("number, path", CHAPTERS, ids=NUMBERS)
def test_a_chapter_asks_two_or_three_questions_and_names_its_own_sections(number, path):
    assert 2 <= len(QUIZZES[number]) <= 3
    headings = headings_of(nbformat.read(path, 4))
    for question in QUIZZES[number]:
        shown = " ".join(question.answers.values())
        named = re.findall("“(.*?)”", shown)
        assert named and set(named) <= set(headings), set(named) - set(headings)


@pytest.mark.parametrize("number, path", CHAPTERS, ids=NUMBERS)
def test_a_chapter_stores_the_questions_of_today_at_its_end(number, path):
    notebook = nbformat.read(path, 4)
    headings = headings_of(notebook)
    assert abs(headings.index("Check yourself") - headings.index("What to remember")) == 1
    stored = [m.state for m in notebooks.models(notebook).values() if "questions" in m.state]
    assert stored[-1]["questions"] == quiz(number).questions, f"run: python -m pages.notebooks --figures {path.stem}"


def test_the_tool_stores_the_questions_of_today_without_running_anything():
    today = notebooks.read(ROOT / "book" / "07-cls-token.ipynb")
    old = nbformat.from_dict(json.loads(json.dumps(today).replace("the mean", "an average")))
    stored = notebooks.models(old)
    assert stored != notebooks.models(today)
    notebooks.refresh_quizzes(old)
    assert stored == notebooks.models(today)


def test_the_right_answer_has_no_place_of_its_own():
    places = [one.right for asked in QUIZZES.values() for one in asked]
    assert max(map(places.count, range(3))) < len(places) / 2


# ---- In the page


def plain(text):
    return text.replace("`", "")


# In all forms the first answer is chosen and checked, then the second, and so on: its name, what was said when it was
# chosen, what was said when it was checked.
SAID = """async (forms) => {
  const frames = async () => { for (let n = 0; n < 2; n++) await new Promise(requestAnimationFrame); };
  const said = forms.map(() => []), radios = forms.map((form) => [...form.querySelectorAll("input[type=radio]")]);
  const says = (form) => form.querySelector("output").innerText;
  for (let n = 0; radios.some((some) => n < some.length); n++) {
    const asked = forms.map((_, i) => i).filter((i) => n < radios[i].length);
    for (const i of asked) radios[i][n].click();
    await frames();
    for (const i of asked) said[i].push([radios[i][n].labels[0].innerText, says(forms[i])]);
    for (const i of asked) forms[i].querySelector("button").click();
    await frames();
    for (const i of asked) said[i][n].push(says(forms[i]));
  }
  return forms.map((form, i) => [form.querySelector("legend").innerText, said[i]]);
}"""


def test_the_page_says_of_every_answer_what_python_says(visit, site):
    """One figure asks the questions of all chapters."""
    built, asked = whole(site, PAGE), [one for questions in QUIZZES.values() for one in questions]
    stored = json.loads(STORED.search(built)[0])
    for model in stored["state"].values():
        if "questions" in model["state"]:
            model["state"] |= {"questions": Quiz(asked).questions, "checked": [-1] * len(asked)}
    page, watch = visit(PAGE, body=STORED.sub(lambda _: json.dumps(stored).replace("</", "<\\/"), built))
    figure = page.locator(".live-figure").nth(NUMBER)
    figure.scroll_into_view_if_needed()
    figure.locator("form").last.wait_for()
    for (text, said), question in zip(figure.locator("form").evaluate_all(SAID), asked, strict=True):
        assert text == plain(question.text)
        verdicts = ["Right." if n == question.right else "Not this one." for n in range(len(question.answers))]
        expected = [
            [plain(answer), "", f"{verdict} {plain(feedback)}"]
            for verdict, (answer, feedback) in zip(verdicts, question.answers.items(), strict=True)
        ]
        assert [[" ".join(words.split()) for words in one] for one in said] == expected
    watch.assert_clean()


def test_by_key(live):
    figure, page, watch = live(PAGE, NUMBER, from_file=True)
    form, (first, *_) = figure.locator("form").first, ASKED
    says, radios = form.get_by_role("status"), form.get_by_role("radio")
    expect(form.get_by_role("button")).to_be_visible()
    form.get_by_role("button").press("Enter")
    expect(radios.first).to_be_focused()  # the browser asks for an answer, in the reader's language
    expect(says).to_be_empty()
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(says).to_contain_text(plain([*first.answers.values()][0]))
    page.keyboard.press("ArrowDown")
    expect(says).to_be_empty()
    page.keyboard.press("Tab")
    expect(form.get_by_role("button")).to_be_focused()
    page.keyboard.press("Space")
    expect(says).to_contain_text(plain([*first.answers.values()][1]))
    expect(radios.nth(1)).to_be_checked()
    expect(figure.get_by_role("status").nth(1)).to_be_empty()  # the other questions wait
    watch.assert_clean()


def check_two(figure):
    """Check one wrong and one right answer, so that both kinds of feedback are to be seen."""
    for form, question, right in zip(figure.locator("form").all(), ASKED, (False, True, False), strict=True):
        answer = next(answer for n, answer in enumerate(question.answers) if (n == question.right) is right)
        form.get_by_text(plain(answer), exact=True).click()
        form.get_by_role("button").click()
    expect(figure.get_by_role("status").nth(1)).to_contain_text("Right.")


def test_it_is_accessible_on_a_phone_and_follows_the_theme(live):
    figure, page, watch = live(PAGE, NUMBER, width=390, touch=True, dark=True)
    check_two(figure)
    assert_fits_a_phone(figure, page, watch, redraws=False)


GARBAGE = {
    "it has no questions": (r'"questions": \[\{', '"questions": [], "lost": [{'),
    "needs an answer, or -1, for each of 3 questions": (r'"checked": \[-1, -1, -1\]', '"checked": [0]'),
    "there is no answer 7; there are": (r'"checked": \[-1, -1, -1\]', '"checked": [7, -1, -1]'),
    "there is no answer 9; there are": (r'"right": \d', '"right": 9'),
}
test_garbage_becomes_a_message_and_the_page_goes_on = survives(PAGE, GARBAGE, NUMBER)


@pytest.mark.parametrize("number, path", CHAPTERS, ids=NUMBERS)
def test_every_measured_number_of_the_feedback_stands_in_its_chapter(number, path):
    cells = [cell for cell in nbformat.read(path, 4).cells if "quiz(" not in cell.source]
    outputs = [out for cell in cells for out in cell.get("outputs", [])]
    kinds = ("text/plain", "text/html", "text/markdown")
    printed = [out.get("text", "") for out in outputs] + [
        out.get("data", {}).get(k, "") for out in outputs for k in kinds
    ]
    words = "\n".join([cell.source for cell in cells] + printed)
    millions = {f"{int(n.replace(',', '')) / 1e6:.1f}" for n in re.findall(r"\d{1,3}(?:,\d{3}){2}", words)}
    for question in QUIZZES[number]:
        for feedback in question.answers.values():
            for value in re.findall(r"\d[\d,]*\.\d+|\d[\d,]*(?= %)|\d{2,3}(?= points)", feedback):
                there = re.search(rf"(?<![\d.]){re.escape(value)}(?!\d)", f"{words}\n{question.text}")
                assert there or (f"{value} million" in feedback and value in millions), (value, feedback)

"""vitnb-grade and a whole class: resumed, extended, marked by hand, listed in a table, summed up for a lecture."""

import contextlib
import csv
import os
import random
import signal
import sys
import tempfile
import time
import zipfile
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch

if not sys.platform.startswith("linux"):
    pytest.skip("the sandboxes are Linux's", allow_module_level=True)  # before the imports: Windows has no `resource`

from tests.course.test_grading import TORCH, store  # noqa: E402
from tests.course.test_grading import known as known  # noqa: E402
from tests.course.test_grading import way as way
from tests.course.test_marks import grade, packed  # noqa: E402
from tests.course.test_safety import waits_for  # noqa: E402
from vitbook.exercises import engine, forms  # noqa: E402
from vitbook.grading import cli, reports, sandbox, student, trial  # noqa: E402
from vitbook.grading.submissions import Submission  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def judged(monkeypatch):
    """Judge without a sandbox, in this process, by what a notebook says; the list tells who was judged."""
    seen: list[str] = []

    def judge(way, path, numbers, *more):
        said = path.read_text()
        seen.append(said)
        if "broken" in said:
            raise OSError("the grader itself")
        if "nothing" in said:
            return {n: student.Verdict(False, f"{n}: not done yet.") for n in numbers}
        return {n: student.Verdict("right" in said, "Right: yes" if "right" in said else "No.") for n in numbers}

    monkeypatch.setattr(student, "judge", judge)
    monkeypatch.setattr(cli, "everyone", lambda work, found, *more: (work(one) for one in found))
    monkeypatch.setattr(sandbox, "best", lambda: ("none", {"none": ""}))
    return seen


def hand_in(folder: Path, **answers: str) -> Path:
    for name, said in answers.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "w.ipynb").write_text(said)
    return folder


def run(source: Path, *options: str, exercises=("3.1=2", "3.2"), status=0) -> dict[tuple[str, str], dict[str, str]]:
    """Grade; return the rows of grades.csv, or what stands there after an error."""
    out = source.parent / "out"
    assert cli.main([str(source), "--exercises", *exercises, "--out", str(out), *map(str, options)]) == status
    text = (out / "grades.csv").read_text() if (out / "grades.csv").exists() else ""
    return {(row["student"], row["exercise"]): row for row in csv.DictReader(text.splitlines())}


def points(rows: dict) -> dict[str, float]:
    """{student: total}"""
    return {who: sum(float(row["points"]) for (one, _), row in rows.items() if one == who) for who, _ in rows}


# ---- Two hundred: killed, resumed, extended


def kept_in(out: Path) -> int:
    """How many lines of verdicts there are."""
    path = out / "marks.jsonl"
    return path.read_bytes().count(b"\n{") if path.exists() else 0


def grades_in_a_process(source: Path, out: Path, until: int) -> None:
    """As the command does, but its processes begin as copies of this one, and wait when `until` lines are there."""

    def judge(way, path, numbers, *more):
        while kept_in(out) >= until:
            time.sleep(0.01)
        return {n: student.Verdict(hash((path.read_bytes(), n)) % 3 > 0, f"{n}: {path.read_text()}") for n in numbers}

    tempfile.tempdir = str(source.parent)
    cli.get_context = lambda _: get_context("fork")
    student.judge, sandbox.best = judge, lambda: ("none", {"none": ""})
    os._exit(cli.main([str(source), "--exercises", "3.1=2", "3.2", "--out", str(out)]))


def is_free(out: Path) -> bool:
    """Whether nobody writes there any more: copies of a process that was killed go a moment later."""
    with contextlib.suppress(OSError), cli.alone(out):
        return True
    return False


def without_seconds(out: Path) -> list[list[str]]:
    return [row[:-1] for row in csv.reader((out / "grades.csv").read_text().splitlines())]


def test_two_hundred_killed_twice_end_with_the_same_grades(tmp_path):
    """A line that was half written when the machine stopped costs one student's time, and nothing else."""
    for n in range(200):
        hand_in(tmp_path / "in", **{f"student{n}": f"notebook {n}"})
    once, twice = tmp_path / "once", tmp_path / "twice"
    fork, dice, marks = get_context("fork"), random.Random(), tmp_path / "twice" / "marks.jsonl"
    for moment in (dice.randint(10, 90), dice.randint(100, 180)):
        process = fork.Process(target=grades_in_a_process, args=(tmp_path / "in", twice, moment))
        process.start()
        waits_for(lambda moment=moment: kept_in(twice) >= moment)
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        waits_for(lambda: is_free(twice))
        assert not (twice / "grades.csv").exists()
        marks.write_bytes(marks.read_bytes()[: -dice.randint(2, 60)])
    for out in (twice, once):
        process = fork.Process(target=grades_in_a_process, args=(tmp_path / "in", out, 1000))
        process.start(), process.join()
        assert process.exitcode == 0
    assert without_seconds(once) == without_seconds(twice) and len(without_seconds(once)) == 401
    assert kept_in(twice) <= 206  # two were at work at each end, one was cut off


def test_the_same_command_judges_nobody_twice_and_a_new_notebook_again(tmp_path, judged):
    source = hand_in(tmp_path / "in", Ada="right", Ben="wrong")
    assert points(run(source)) == {"Ada": 3, "Ben": 0} and len(judged) == 2
    assert points(run(source)) == {"Ada": 3, "Ben": 0} and len(judged) == 2
    assert points(run(source, exercises=("3.1=5", "3.2"))) == {"Ada": 6, "Ben": 0} and len(judged) == 2
    hand_in(source, Ben="right now")
    assert points(run(source)) == {"Ada": 3, "Ben": 3} and judged[2:] == ["right now"]
    run(source, "--seconds", "99")
    assert len(judged) == 5


def test_whom_the_grader_failed_costs_no_other_student_and_is_tried_again(tmp_path, judged, capsys):
    source = hand_in(tmp_path / "in", Ada="right", Eve="broken", Zoe="right")
    rows = run(source)
    assert points(rows) == {"Ada": 3, "Eve": 0, "Zoe": 3} and "OSError" in rows["Eve", "3.1"]["look"]
    assert "Look at these yourself: Eve\n" in capsys.readouterr().out
    run(source)
    assert judged == ["right", "broken", "right", "broken"]


def test_an_extension_joins_the_class(tmp_path, judged, capsys):
    source = hand_in(tmp_path / "in", Ada="right", Ben="wrong", Cy="wrong")
    run(source)
    late = hand_in(tmp_path / "late", Ben="right at last", Dee="right")
    (tmp_path / "sheet.csv").write_text("Full name,Grade\nAda,\nBen,\nCy,\nDee,\nEli,\n")
    rows = run(late, "--sheet", tmp_path / "sheet.csv")
    assert points(rows) == {"Ada": 3, "Ben": 3, "Cy": 0, "Dee": 3} and len(judged) == 5
    said = capsys.readouterr().out
    assert "As they were graded before: 2 (Ada, Cy); new: Dee\n" in said
    assert "Handed in nothing (1): Eli" in said


def test_an_extension_survives_the_command_for_the_class(tmp_path, judged, capsys):
    """It is given again to write points by hand into the marks, and the class's zip still has the older notebook."""
    source = hand_in(tmp_path / "in", Ada="right", Ben="wrong")
    run(source)
    run(hand_in(tmp_path / "late", Ben="right at last"))
    capsys.readouterr()
    for options in ([], ["--seconds", "99"]):
        assert points(run(source, *options)) == {"Ada": 3, "Ben": 3}
        assert "Later notebooks of Ben were graded before and count" in capsys.readouterr().out
    assert judged == ["right", "wrong", "right at last", "right"]
    assert points(run(source, "--only", "Ben")) == {"Ada": 3, "Ben": 0}
    run(source, "--seconds", "99", exercises=("3.1", "3.3"), status=0)
    assert judged[-2:] == ["right", "wrong"]


def test_exercises_that_an_extension_was_not_graded_on_are_told(tmp_path, judged, capsys):
    source = hand_in(tmp_path / "in", Ada="right", Ben="wrong")
    run(source)
    run(hand_in(tmp_path / "late", Ben="right at last"))
    run(source, exercises=("3.1=2", "3.2", "3.3"), status=2)
    assert "no marks on these exercises of Ben: use another --out" in capsys.readouterr().err and len(judged) == 3


def test_two_students_of_one_name_are_told_apart(tmp_path, judged, capsys):
    names = [f"{who}_assignsubmission_file_/w.ipynb" for who in ("Kim Lee_101", "Kim Lee_102", "Ada_103")]
    run(packed(tmp_path / "all.zip", names, "broken"))
    assert "Look at these yourself: Ada, Kim Lee (101), Kim Lee (102)\n" in capsys.readouterr().out
    run(tmp_path / "all.zip", "--only", "101")
    run(packed(tmp_path / "late.zip", names[:1], "right"))
    said = capsys.readouterr().out
    assert "As they were graded before: 2 (Ada, Kim Lee (102))" in said


@pytest.mark.parametrize("text", ["", "%PDF-1.4", '{"cells": [{', "[]"])
def test_a_file_that_cannot_be_read_is_told_to_the_teacher(text, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(cli, "everyone", lambda work, found, *more: (work(one) for one in found))
    monkeypatch.setattr(sandbox, "best", lambda: ("none", {"none": ""}))
    run(hand_in(tmp_path / "in", Ada=text))
    assert "Handed in no notebook that can be read (1): Ada" in capsys.readouterr().out


def test_marks_of_another_assignment_are_not_mixed_in(tmp_path, judged, capsys):
    run(hand_in(tmp_path / "in", Ada="right", Ben="right"))
    run(hand_in(tmp_path / "in4", Ada="right"), exercises=("4.3",), status=2)
    assert "of Ben: use another --out" in capsys.readouterr().err and len(judged) == 2


def test_only_those_who_are_named_are_graded_again(tmp_path, judged, capsys):
    source = hand_in(tmp_path / "in", Ada="right", Ben="wrong", Cy="right")
    run(source, "--only", "ben")
    assert judged == ["wrong"] and "Not graded (2): Ada, Cy" in capsys.readouterr().out
    assert points(run(source)) == {"Ada": 3, "Ben": 0, "Cy": 3} and len(judged) == 3
    assert points(run(source, "--only", "Cy", "Ada")) == {"Ada": 3, "Ben": 0, "Cy": 3} and len(judged) == 5
    run(source, "--only", "Adda", status=2)
    assert "nobody is called 'Adda'" in capsys.readouterr().err


def test_two_runs_do_not_write_into_one_folder(tmp_path, judged, capsys):
    source = hand_in(tmp_path / "in", Ada="right")
    with cli.alone(tmp_path / "out"):
        run(source, status=2)
    assert "another vitnb-grade writes into" in capsys.readouterr().err and judged == []
    run(source)


def test_a_line_says_how_far_it_is(tmp_path, judged, capsys, monkeypatch):
    monkeypatch.setattr(cli, "SAY", -1)
    run(hand_in(tmp_path / "in", Ada="right", Ben="right"))
    said = capsys.readouterr().out.splitlines()
    assert "1 of 2 students, about 1 min left" in said and "2 of 2 students, about 0 min left" in said


# ---- Points by hand


def test_points_by_hand_survive_a_regrade(tmp_path, judged, capsys):
    source, table = hand_in(tmp_path / "in", Ada="wrong", Ben="broken"), tmp_path / "out" / "by_hand.csv"
    run(source)
    assert table.read_text() == "student,exercise,points,reason\n"
    table.write_text("student;exercise;points;reason\nAda;3.1;1,5;a good idea\nBen;3.1;2;\nBen;3.2;0;\n", "utf-8-sig")
    hand_in(source, Ada="wrong again")
    rows = run(source)
    assert points(rows) == {"Ada": 1.5, "Ben": 2} and judged[-2:] == ["wrong again", "broken"]
    assert rows["Ada", "3.1"]["verdict"] == "No. Points given by hand: 1.5 (a good idea)."
    page = (tmp_path / "out" / "feedback" / "Ada.html").read_text()
    assert "1.5 of 3 points" in page and "a good idea" in page
    assert capsys.readouterr().out.count("Look at these yourself: Ben") == 1  # until a person has


@pytest.mark.parametrize("row, words", [
    ("Adda,3.1,1,", "line 2: nobody is called 'Adda'"), ("Ada,4.4,1,", "'4.4' is not graded here"),
    ("Ada,3.1,lots,", "'lots' is not a number of points"), ("Ada,3.1,-1,", "'-1' is not a number"),
    ("102,3.1,1,", "2 students are called '102'"),
])  # fmt: skip
def test_a_row_by_hand_that_means_nobody_is_told_before_anything_runs(row, words, tmp_path, judged, capsys):
    names = ["Ada_101_assignsubmission_file_/w.ipynb", "102_103_assignsubmission_file_/w.ipynb",
             "Ben_102_assignsubmission_file_/w.ipynb"]  # fmt: skip
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "by_hand.csv").write_text(f"student,exercise,points,reason\n{row}\n")
    run(packed(tmp_path / "all.zip", names), status=2)
    assert words in capsys.readouterr().err and judged == []


def test_a_table_by_hand_with_other_heads_is_refused(tmp_path, judged, capsys):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "by_hand.csv").write_text("name,points\nAda,1\n")
    run(hand_in(tmp_path / "in", Ada="right"), status=2)
    assert "its first line must be student,exercise,points,reason" in capsys.readouterr().err


# ---- The platform's sheet


@pytest.mark.parametrize("older, kept", [("", ""), ("-", ""), ("2", ""), ("2.00", ""), ("1.5", "1.5"), ("A+", "A+")])
@pytest.mark.parametrize("overwrite", [False, True])
def test_older_grades_are_overwritten_only_when_asked(older, kept, overwrite, tmp_path):
    (tmp_path / "sheet.csv").write_text(f"Identifier,Full name,Grade\nParticipant 7,Ada,{older}\n")
    one = grade("Ada", "7", 2, platform="Moodle")
    reports.sheet([one], tmp_path / "sheet.csv", None, tmp_path / "out.csv", overwrite=overwrite)
    last = (tmp_path / "out.csv").read_text().splitlines()[1]
    stays = kept and not overwrite
    assert last == f"Participant 7,Ada,{kept if stays else 2}" and one.older == (kept if stays else "")


def test_a_teacher_is_told_which_grades_stay(tmp_path, judged, capsys):
    (tmp_path / "sheet.csv").write_text("Full name,Grade\nAda,1\nBen,\n")
    run(hand_in(tmp_path / "in", Ada="right", Ben="right"), "--sheet", tmp_path / "sheet.csv")
    assert "stay (1), unless you add --overwrite: Ada (1)" in capsys.readouterr().out
    run(tmp_path / "in", "--sheet", tmp_path / "sheet.csv", "--overwrite")
    assert (tmp_path / "out" / "sheet.csv").read_text() == "Full name,Grade\nAda,3\nBen,3\n"


def test_a_teacher_is_told_whose_row_is_in_doubt(tmp_path, judged, capsys):
    sheet = tmp_path / "sheet.csv"
    sheet.write_text("Full name,Grade\nAnna Abel,\nAnna Abel,\nBen Bo,\nCy Do,\n")
    rows = run(hand_in(tmp_path / "in", **{"Anna Abel": "right", "Ben Bo": "right"}), "--sheet", sheet)
    said = capsys.readouterr().out
    assert "Not filled in: Anna Abel" in said and "(line 2), Anna Abel (line 3)" in said
    assert "Handed in nothing (1): Cy Do" in said and "Look at these yourself: Anna Abel\n" in said
    assert "2 rows" in rows["Anna Abel", "3.1"]["look"] and not rows["Ben Bo", "3.1"]["look"]


@pytest.mark.parametrize("text, told", [
    ("Identifier,Full name,Grade,Maximum Grade\nParticipant 7,Ada,-,100.00\n", True),
    ("ID;Vollständiger Name;Bewertung;Bestwertung\nTeilnehmer/in7;Ada;-;3,00\n", False),
    ("Student,ID,Grade (12)\n    Points Possible,,10\nAda,7,\n", True),
    ("Full name,Grade\nAda,\n", False),
])  # fmt: skip
def test_another_maximum_is_told(text, told, tmp_path, judged, capsys):
    (tmp_path / "sheet.csv").write_text(text)
    run(hand_in(tmp_path / "in", Ada="right"), "--sheet", tmp_path / "sheet.csv")
    assert ("here 3: make them equal" in capsys.readouterr().out) == told


# ---- A class as a table


def test_a_table_is_proposed_corrected_and_graded(tmp_path, judged, capsys):
    source = packed(tmp_path / "all.zip", ["hw/ada/w.ipynb", "hw/team 7/w.ipynb", "hw/team 7/old.ipynb"], "right")
    table = tmp_path / "students.csv"
    assert cli.main([str(source), "--propose", str(table)]) == 0
    rows = list(csv.reader(table.read_text().splitlines()))
    assert rows[0] == ["student", "file"] and ["ada", "hw/ada/w.ipynb"] in rows and len(rows) == 4
    text = "student;file\nAda Bo;hw/ada/w.ipynb\nBen;hw/team 7/w.ipynb\nCy;hw\\team 7\\w.ipynb\nDee;\n"
    table.write_bytes(b"\xff\xfe" + text.encode("utf-16-le"))
    assert points(run(source, "--students", table)) == {"Ada Bo": 3, "Ben": 3, "Cy": 3}
    assert "In no row of the table of students (1): hw/team 7/old.ipynb" in capsys.readouterr().out
    table.write_text("Nachname;Datei\nAda;hw/ada/w.ipynb\n")
    run(source, "--students", table, status=2)
    said = capsys.readouterr().err
    assert "0 columns 'student' in ['Nachname', 'Datei']: its first line must be student,file" in said
    table.write_text("student,file\nAda,hw/ada/x.ipynb\n")
    run(source, "--students", table, status=2)
    assert "has no file 'hw/ada/x.ipynb'" in capsys.readouterr().err


def test_a_table_is_a_class_beside_its_files(tmp_path, judged):
    hand_in(tmp_path / "in", x="right", y="wrong")
    (tmp_path / "in" / "class.csv").write_text("student,file\n101,x/w.ipynb\n102,y/w.ipynb\n101,y/w.ipynb\n")
    out = ["--exercises", "3.1", "--out", str(tmp_path / "out"), "--sheet", str(tmp_path / "sheet.csv")]
    (tmp_path / "sheet.csv").write_text("Matrikelnummer,Name,Note\n00101,Ada,\n00102,Ben,\n")
    assert cli.main([str(tmp_path / "in" / "class.csv"), *out]) == 0
    assert (tmp_path / "out" / "sheet.csv").read_text() == "Matrikelnummer,Name,Note\n00101,Ada,0\n00102,Ben,0\n"


@pytest.mark.parametrize("arguments, words", [
    ([], "a folder, a zip or a table"), (["."], "say what to grade"),
    ([".", "--exercises", "99.1"], "there is no exercise '99.1'"), ([".", "--exercises", "3.1=lots"], "3.1=2 would be"),
    ([".", "--exercises", "3.1", "--course", "nowhere.py"], "nowhere.py is no file"),
])  # fmt: skip
def test_what_is_missing_or_bad_is_told(arguments, words, capsys):
    assert cli.main(arguments) == 2 and words in capsys.readouterr().err


def test_names_of_any_kind_get_a_row_and_a_page(tmp_path, judged, monkeypatch, capsys):
    evil = student.Verdict(True, "Right: \ud800\x1b[31m<b>\u202e")
    monkeypatch.setattr(student, "judge", lambda way, path, numbers, *more: dict.fromkeys(numbers, evil))
    names = ["Ada", "a" * 200, "ä" * 110, "=cmd", "+cmd", "＝cmd", "cmd", "x\x1b]0;y\x07", "new\nline", "<script>",
             "Zo\u0308e", b"bad\xff".decode("utf-8", "surrogateescape"), "\u202eevil", "a;=1+1"]  # fmt: skip
    rows = run(hand_in(tmp_path / "in", **dict.fromkeys(names, "right")), exercises=["3.1"])
    assert len(rows) == len(names)
    pages = list((tmp_path / "out" / "feedback").iterdir())
    assert len(pages) == len(names) and all(len(os.fsencode(page.name)) < 200 for page in pages)
    assert all("<script>" not in page.read_text() and "<b>" not in page.read_text() for page in pages)
    text = capsys.readouterr().out + (tmp_path / "out" / "grades.csv").read_text()
    assert not any(ord(one) < 32 and one != "\n" for one in text) and "\u202e" not in text
    assert {"'=cmd", "'+cmd", "'＝cmd", "Zöe"} <= {student for student, _ in rows}
    assert '"a;\'=1+1"' in text  # whoever's spreadsheet cuts at semicolons


def test_who_handed_in_two_notebooks_or_none_is_told(tmp_path, judged, capsys):
    source = hand_in(tmp_path / "in", Ada="right", Ben="", Dee="right")
    (source / "Ada" / "x.ipynb").write_text("nothing")
    (source / "Ben" / "w.ipynb").rename(source / "Ben" / "w.pdf")
    (source / "Cy").mkdir()
    (source / "Eli.ipynb.txt").write_text("{}")
    (source / "README.txt").write_text("no student")
    sheet = tmp_path / "moodle.csv"
    sheet.write_text("Identifier,Full name,Grade\nParticipant 1,Ada,\nParticipant 2,Flo,\nParticipant 3,Gus,\n")
    rows = run(source, "--sheet", sheet)
    assert points(rows) == {"Ada": 3, "Ben": 0, "Cy": 0, "Dee": 3, "Eli": 0}
    assert rows["Ada", "3.1"]["look"] == "of 2 notebooks w.ipynb counts" and rows["Dee", "3.1"]["look"] == ""
    assert "only .pdf" in rows["Ben", "3.1"]["verdict"] and "empty folder" in rows["Cy", "3.1"]["verdict"]
    said = capsys.readouterr().out
    assert "Handed in nothing (2): Flo, Gus" in said and "no notebook that can be read (3): Ben, Cy, Eli" in said


# ---- What the class does not understand


def verdicts(*said: tuple[bool, str]) -> list[reports.Grade]:
    found = [student.Verdict(*one, answers=bool(one[1])) for one in said]
    return [reports.Grade(Submission(f"Ada {n}", str(n)), {"1.1": one}, {"1.1": 1.0}) for n, one in enumerate(found)]


def test_the_commonest_mistakes_are_counted_whatever_the_numbers():
    known = "That is one too many: the cls token comes later and is no patch."
    page = reports.lecture(verdicts(
        *[(False, f"An image of {n} x 18 pixels: you count {n}. {known} Hint: check(") for n in (30, 31)],
        (False, 'Your function raises NameError in the line `ada = <b>`: Ada. Hint: check("1.1", hint=1).'),
        *[(False, f"Expected a whole number, got {n}.5.") for n in range(3)], (True, "Right: yes"), (False, ""),
    ))  # fmt: skip
    assert f"<li>2: {known}</li>" in page and "<li>1: Your function raises NameError.</li>" in page
    assert "<li>3: Expected a whole number, got ….</li>" in page and "1.1: 1 of 8 right, 1 without an answer" in page
    assert "Ada" not in page and "<b>" not in page and page.index("<li>3") < page.index("<li>2") < page.index("<li>1")


def test_a_message_with_places_for_numbers_is_one_mistake():
    found = [(n, message) for n, task in engine.EXERCISES.items() for message in task.mistakes if "{" in message]
    assert found
    for number, message in found:
        said = reports.NAME.sub("17", f"Before. {message}")
        assert reports.mistake(number, said) == reports.general(message) != message


GUESSES = {"True": lambda *a: True, "False": lambda *a: False, "none": lambda *a: "", "all": lambda *a: "ABCDEFGH"}
PARTS = [n for n, one in engine.EXERCISES.items() if isinstance(one, forms.hunt | forms.predict | forms.letters)]


@pytest.mark.parametrize("number", PARTS)
def test_a_guess_has_no_part_right(number):
    task = engine.EXERCISES[number]
    for guess in GUESSES.values():
        right, _, share = engine.judged(task, guess)
        assert not right and share == 0, (number, share)


def test_parts_of_an_answer_are_worth_points_when_asked(tmp_path):
    task = engine.EXERCISES["16.1"]
    assert engine.judged(task, lambda: "BD")[2] == pytest.approx(2 / 3)  # right about 5 of 6, where a guess is about 3
    one = reports.Grade(Submission("Ada", "1"), {"16.1": student.Verdict(False, "No.", share=2 / 3)}, {"16.1": 2.0})
    assert one.total == 0
    one.partial = True
    assert one.total == 1.33 and "16.1: partly right (1.33 of 2)" in reports.page(one)


def test_the_best_part_of_a_test_is_what_it_rejects():
    wrong = {"a": -1, "b": -2, "c": 5}
    task = forms.hunt("t.1", "f(x)", "a", "b", right={"r": 1, "s": 2}, wrong=wrong, accepted="all")
    try:
        assert engine.judged(task, lambda x: x > 0)[2] == pytest.approx(2 / 3)
        assert engine.judged(task, lambda x: x == 1)[2] == 0  # it rejects a right one
    finally:
        del engine.EXERCISES["t.1"]


def test_moodle_finds_whose_a_feedback_file_is(tmp_path, judged):
    """By the rule of its importer: parts between strokes, the second a number, the third and fourth the kind."""
    names = ["Zoë d'Arc_101_assignsubmission_file_/w.ipynb", "a_b_102_assignsubmission_file_/w.ipynb"]
    run(packed(tmp_path / "all.zip", names, "right"))
    with zipfile.ZipFile(tmp_path / "out" / "feedback.zip") as archive:
        parts = sorted(name.split("_", 4)[1:] for name in archive.namelist())
        assert parts == [[n, "assignfeedback", "file", "feedback.html"] for n in ("101", "102")]
        assert all("3 of 3 points" in archive.read(name).decode() for name in archive.namelist())


# ---- A teacher's own exercises

COURSE = ROOT / "book" / "classroom" / "my_course.py"
BROKEN = """
from vitbook.exercises.forms import compute, letters
TASKS = {"t.2": "A number."}
ANSWERS = {"t.3": "def g():\\n    return 'B'"}
compute("t.2", "f(x)", "a", "b", cases=lambda: [(0,)], reference=lambda x: x, mistakes={"Twice.": lambda x: 2 * x},
        otherwise="no", right="all.")
letters("t.3", "g()", "a", "b", chosen="A", reasons={"A": "A?", "B": "B?"}, things="parts", right="all.")
"""


@pytest.fixture
def registered():
    """Exercises that a test registers go with it."""
    before, own = dict(engine.EXERCISES), set(student.COURSE)
    student.COURSE.clear()
    yield
    engine.EXERCISES.clear(), engine.EXERCISES.update(before)
    student.COURSE.clear(), student.COURSE.update(own)


def test_the_example_of_every_form_works(known, registered, monkeypatch, capsys):
    """With an answer of each, in the sandbox: the page for teachers shows this file."""
    judge, said = student.judge, {}

    def at_once(way, path, numbers):
        """All answers in one notebook: torch starts once inside and once outside."""
        answers = sys.modules["vitnb_course"].ANSWERS
        if not said:
            said.update(judge(way, store(path, trial.IMPORTS, *answers.values()), list(answers)))
        return {n: said[n] for n in numbers}

    monkeypatch.setattr(student, "judge", at_once)
    status = cli.main(["--try", "--course", str(COURSE)])
    told = capsys.readouterr().out
    assert status == 0 and told.endswith("All is well.\n"), told
    assert {type(engine.EXERCISES[n]).__name__ for n in student.COURSE} == {
        "compute", "hunt", "predict", "letters", "weights", "blank_class", "project"}  # fmt: skip
    assert told.count("in the sandbox, inside judged") == 3 and told.count("in the sandbox, outside judged") == 4


def test_what_is_wrong_with_ones_own_exercise_is_said(known, registered, tmp_path, capsys):
    (tmp_path / "course.py").write_text(BROKEN)
    assert cli.main(["--try", "--course", str(tmp_path / "course.py")]) == 1
    bad = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  !")]
    assert len(bad) == 4 and "'Twice.' is told so, but: Right: all." in bad[0] and "always 0" in bad[1]
    assert "TASKS has a text for t.3" in bad[2] and "Think again about A?" in bad[3]


@pytest.mark.parametrize("code, right, words", [
    ("class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = nn.Linear(3072, 10)\n"
     "    def forward(self, x): return self.l(x.flatten(1))\nmy_vit = M", False, "no attention"),
    ("from vitnb import ViT, ViTConfig\nconfig = ViTConfig(img_size=32, in_chans=3, depth=2)\nclass M(ViT):\n"
     "    def forward(self, x): return super().forward(x).softmax(-1)\nmy_vit = lambda: M(config)", False, "output"),
])  # fmt: skip
def test_a_project_is_examined(code, right, words, registered):
    space: dict = {"nn": torch.nn}
    exec(code, space)
    cli.load(COURSE)
    task = engine.EXERCISES["c.7"]
    was_right, said, share = engine.judged(task, space["my_vit"])
    assert was_right == right and words in said and (share > 0.5) == (words == "output"), (said, share)


SPY = """
class Swap(nn.Module):
    def __init__(self, D):
        import gc
        found = open(sys.argv[-1], "rb").read()
        held = [one for one in gc.get_objects() if isinstance(one, dict) and "ANSWERS" in one]
        raise RuntimeError(f"{sys.argv[-1][-16:]} {b'the answer' in found} {len(held)} {os.listdir('/tmp')}")
"""


def test_an_exercise_that_is_judged_inside_keeps_its_file_to_itself(way, registered, tmp_path):
    (tmp_path / "course.py").write_text(f"{COURSE.read_text()}\nANSWERS['c.6'] = 'the answer'\nX = 'the answer'\n")
    cli.load(tmp_path / "course.py")
    said = student.judge(way, store(tmp_path / "one.ipynb", TORCH, SPY), ["c.6"])["c.6"].sentence
    assert "exercises.pickle False 0 " in said and "course.py" not in said, said


def test_a_teachers_file_may_name_exercises_that_are_judged_inside(registered, tmp_path):
    (tmp_path / "course.py").write_text(f"{BROKEN}\nINSIDE = {{'t.3'}}\n")
    cli.load(tmp_path / "course.py")
    assert [student.inside(n) for n in ("t.2", "t.3", "3.1", "5.2")] == [False, True, False, True]


def test_nobody_is_given_a_hint_to_a_hint_that_cannot_be_had(way, registered, tmp_path):
    cli.load(COURSE)
    said = student.judge(way, store(tmp_path / "one.ipynb", "def fits(side): return False"), ["c.3"])["c.3"]
    assert said.sentence.endswith("Think about the remainder.") and "hint" not in said.sentence
    assert said.share == 0


def test_what_happened_before_an_answer_is_one_sentence(way, tmp_path):
    said = student.judge(way, store(tmp_path / "one.ipynb", "import os", "os._exit(1)"), ["3.2"])["3.2"].sentence
    assert said.startswith("3.2: not done yet. Before it, cell 3 did not run") and said.endswith("there is."), said
    assert not said.endswith("..")
    code = "while True: pass"
    said = student.judge(way, store(tmp_path / "two.ipynb", code), ["3.2"], seconds=1)["3.2"].sentence
    assert said.endswith("cell 2 did not run to its end: it took too long (is there a loop that does not end?).")

"""vitnb-grade in an honest class: whose marks, which notebook, which answer. No sandbox is needed for that."""

import asyncio
import builtins
import contextlib
import csv
import functools
import io
import itertools
import json
import operator
import os
import re
import sys
import types
import zipfile
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nbformat.v4 import new_code_cell, new_notebook

if not sys.platform.startswith("linux"):
    pytest.skip("the sandboxes are Linux's", allow_module_level=True)  # before the imports: Windows has no `resource`

from tests.course.test_grading import CHECK, COUNT, COUNT_CHECK, RIGHT, WRONG, counting, crossed, said_of  # noqa: E402
from vitbook.exercises import engine  # noqa: E402
from vitbook.grading import _child, cli, reports, running, sandbox, student  # noqa: E402
from vitbook.grading.submissions import Submission, submissions  # noqa: E402

BOOK = json.dumps(new_notebook(cells=[new_code_cell("x = 1")]))


def grade(name: str, number: str, points: float = 1.0, **more) -> reports.Grade:
    verdict = student.Verdict(points > 0, "Right: yes" if points else "No.")
    return reports.Grade(Submission(name, number, **more), {"3.1": verdict}, {"3.1": points or 1.0})


def filled(tmp_path: Path, text: str | bytes, grades: list[reports.Grade], column=None, key=None):
    """Fill a sheet; return its bytes, who got no row, and who handed nothing in."""
    sheet, out = tmp_path / "sheet.csv", tmp_path / "out.csv"
    sheet.write_bytes(text if isinstance(text, bytes) else text.encode())
    missed, absent = reports.sheet(grades, sheet, column, out, key)
    return out.read_bytes(), missed, absent


# 1. Whose marks -----------------------------------------------------------------------------------------------------

PEOPLE = st.lists(
    st.tuples(st.sampled_from(["Anna Abel", "1002", "Participant 1003", "Zoë Öz", "=cmd", "Ben;Li"]), st.booleans()),
    min_size=1,
    max_size=6,
)


@settings(deadline=None, max_examples=60)
@given(people=PEOPLE)
def test_a_row_gets_the_points_of_its_number_and_of_no_name(people, tmp_path_factory):
    """Names that several share, or that look like another's number: each row has what its number handed in."""
    tmp_path = tmp_path_factory.mktemp("sheet")
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(["Identifier", "Full name", "Grade", "Maximum Grade"])
    grades, expected = [], {}
    for n, (name, hands_in) in enumerate(people):
        number = str(1001 + n)
        rows.writerow([f"Participant {number}", name, "", "100.00"])
        expected[number] = f"{n + 1}" if hands_in else ""
        if hands_in:
            grades.append(grade(name, number, n + 1, platform="Moodle"))
    content, missed, absent = filled(tmp_path, text.getvalue(), grades)
    out = list(csv.DictReader(content.decode().splitlines()))
    assert {row["Identifier"].removeprefix("Participant "): row["Grade"] for row in out} == expected
    assert missed == [] and len(absent) == len(people) - len(grades)


# A head of each language and platform, the way it writes a number, and its column for points.
HEADS = {
    "Moodle": ("Identifier,Full name,Email address,Status,Grade", "Participant {}", "Moodle"),
    "Moodle, German": ("ID,Vollständiger Name,E-Mail-Adresse,Status,Bewertung", "Teilnehmer/in{}", "Moodle"),
    "Moodle, French": ("Identifiant,Nom complet,Adresse de courriel,Statut,Note", "Participant{}", "Moodle"),
    "Moodle, Spanish": (
        "Identificador,Nombre completo,Dirección de correo,Estado,Calificación",
        "Participante {}",
        "Moodle",
    ),
    "Canvas": ("ID,Student,SIS User ID,Section,Week 3 (4711)", "{}", "Canvas"),
    "Brightspace": ("OrgDefinedId,Full name,Username,Email,Points Grade", "#{}", ""),
    "Matrikelnummer": ("Matrikelnummer,Name,Studiengang,Semester,Punkte", "00{}", ""),
    "ILIAS": ("Login,Name,E-Mail,Status,Note", "{}", ""),
}
FORMS = {
    "UTF-8": ("utf-8", b""),
    "UTF-8 with BOM": ("utf-8", b"\xef\xbb\xbf"),
    "Windows-1252": ("cp1252", b""),
    "UTF-16": ("utf-16-le", b"\xff\xfe"),
    "UTF-16, big": ("utf-16-be", b"\xfe\xff"),
}


@pytest.mark.parametrize("n, head, form", [(n, *one) for n, one in enumerate(itertools.product(HEADS, FORMS))])
def test_a_sheet_of_any_language_is_filled_and_keeps_its_form(n, head, form, tmp_path):
    heads, written, platform = HEADS[head]
    delimiter, ending = ",;\t"[n % 3], ("\r\n", "\n")[n % 2]  # each with each form and each head
    encoding, bom = FORMS[form]
    text = io.StringIO()
    rows = csv.writer(text, delimiter=delimiter, lineterminator=ending)
    rows.writerow(heads.split(","))
    rows.writerow([written.format(71), "Zoë Ärmel", "x", "", ""])
    rows.writerow([written.format(72), "Zoë Ärmel", "-", "", ""])
    rows.writerow([written.format(73), "Süß, Ben"])  # a short row, as Excel writes it
    before = bom + text.getvalue().encode(encoding)
    column = {"Canvas": "Week 3", "Brightspace": "Points Grade", "Matrikelnummer": "Punkte"}.get(head)
    number = {"platform": platform}
    grades = [grade("Zoë Ärmel", "72", 1.5, **number), grade("Ben Süß", "73", 2, **number)]
    after, missed, absent = filled(tmp_path, before, grades, column)
    lines = text.getvalue().split(ending)
    lines[2] += "1.5"
    lines[3] += delimiter * 3 + "2"
    assert after == bom + ending.join(lines).encode(encoding)
    assert missed == [] and absent == ["Zoë Ärmel"]


@pytest.mark.parametrize("names, handed, rows", [
    (["Ada Bo", "Cy Do"], ["Ada Bo"], {"Ada Bo": "1"}),  # a name that nobody shares
    (["Bo, Ada"], ["Ada Bo"], {"Bo, Ada": "1"}),
    (["Ada Bo", "Ada Bo"], ["Ada Bo"], {}),  # whose it is cannot be told
    (["Ada Bo"], ["Ada Bo", "ada bo"], {}),
    (["Müller, Jürgen"], ["Juergen Mueller"], {"Müller, Jürgen": "1"}),
    (["1001", "Ada Bo"], ["1001"], {}),  # the number of one, the name of another
])  # fmt: skip
def test_a_name_counts_only_if_nobody_shares_it(names, handed, rows, tmp_path):
    numbers = dict(enumerate(names, 1000))
    text = "Identifier,Full name,Grade\n" + "".join(f'Participant {n},"{name}",\n' for n, name in numbers.items())
    if names[0] == "1001":
        text = "Identifier,Full name,Grade\nParticipant 1000,1001,\nParticipant 1001,Ada Bo,\n"
    grades = [grade(name, name) for name in handed]
    content, missed, _ = filled(tmp_path, text, grades)
    out = csv.DictReader(content.decode().splitlines())
    assert {row["Full name"]: row["Grade"] for row in out if row["Grade"]} == rows
    assert len(missed) == len(handed) - len(rows)
    assert all(bool(one.unclear) == (one.submission.student in missed) for one in grades)


def test_one_platforms_number_is_never_anothers(tmp_path):
    """Brightspace numbers its entries in a zip, and 71 there is not student 71 of the sheet."""
    text = "OrgDefinedId,Last Name,First Name,Points\n#71,Abel,Anna,\n#72,Bo,Ben,\n"
    content, missed, absent = filled(tmp_path, text, [grade("Ben Bo", "71", platform="Brightspace")], "Points")
    assert "#72,Bo,Ben,1" in content.decode() and "#71,Abel,Anna,\n" in content.decode() and absent == ["Anna Abel"]
    text = "SIS User ID,ID,Student,Week\n71,501,Anna Abel,\n501,71,Ben Bo,\n"
    content, _, _ = filled(tmp_path, text, [grade("boben", "71", platform="Canvas")], "Week")
    assert content.decode().splitlines()[1:] == ["71,501,Anna Abel,", "501,71,Ben Bo,1"]


def test_logins_with_letters_and_lines_in_a_cell_stay_as_they_are(tmp_path):
    text = 'ID,Name,Comment,Grade\ns12,Ada,"one\r\ntwo",\nt12,Ben,,\n0012,Cy,,\n'
    grades = [grade("t12", "t12"), grade("12", "12", 2)]
    content, missed, _ = filled(tmp_path, text, grades)
    assert content.decode() == text.replace("Ben,,", "Ben,,1").replace("Cy,,", "Cy,,2") and not missed


def test_the_identifying_column_can_be_named(tmp_path):
    text = "Opiskelija;Nimi;Pisteet\n71;Ada;\n72;Ada;\n"
    with pytest.raises(ValueError, match="--id-column"):
        filled(tmp_path, text, [grade("Ada", "72", platform="Moodle")], "Pisteet")
    content, missed, _ = filled(tmp_path, text, [grade("Ada", "72", platform="Moodle")], "Pisteet", "Opiskelija")
    assert content.decode().splitlines()[1:] == ["71;Ada;", "72;Ada;1"] and not missed
    content, missed, _ = filled(tmp_path, text.replace("72;Ada", "72;Bo"), [grade("Bo", "Bo")], "Pisteet", "Nimi")
    assert content.decode().splitlines()[1:] == ["71;Ada;", "72;Bo;1"] and not missed


@pytest.mark.parametrize("content, words", [
    (b"PK\x03\x04rest", "workbook"), (b"\xd0\xcf\x11\xe0rest", "workbook"), (b"", "has no column"),
    (b"Grade,Grade,Identifier\n", "2 columns"), (b"Name;Punkte\n\x81\xff;\n", "has no column 'Grade'"),
])  # fmt: skip
def test_a_sheet_that_cannot_be_filled_is_refused_in_one_sentence(content, words, tmp_path):
    with pytest.raises(ValueError, match=words) as error:
        filled(tmp_path, content, [])
    assert "\n" not in str(error.value)


EVIL = ["=1+1", "x;=HYPERLINK(A1);=cmd|' /C calc'!A0", "a\t@SUM(1)", "b,=1", "c|+1+cmd", "＝1", "d;  -1+cmd", "e\n=1"]


@pytest.mark.parametrize("evil", EVIL)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_nothing_in_a_sheet_is_a_formula_in_any_country(evil, delimiter, tmp_path):
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows([["Identifier", "Full name", "Grade", "Feedback comments"],
                                                     ["Participant 1", evil, "-", ""]])  # fmt: skip
    one = grade("Ada", "1", platform="Moodle")
    one.verdicts["3.1"] = student.Verdict(False, evil)
    content, _, _ = filled(tmp_path, text.getvalue(), [one])
    reports.table([one], tmp_path / "grades.csv")
    for written in (content.decode(), (tmp_path / "grades.csv").read_text()):
        for reader in (",", ";", "\t", "|"):
            for row in csv.reader(io.StringIO(written), delimiter=reader):
                assert not [one for one in row if re.match(r"[=@＝＠]|[+-].*[a-z]", one.lstrip(' "'))], row


def test_points_have_the_decimal_sign_of_the_sheet(tmp_path):
    text = "ID;Vollständiger Name;Bewertung;Bestwertung\nTeilnehmer/in7;Ada;-;10,00\n"
    content, _, _ = filled(tmp_path, text, [grade("Ada", "7", 2.5, platform="Moodle")])
    assert content.decode().splitlines()[1] == "Teilnehmer/in7;Ada;2,5;10,00"


# 2. Collecting ------------------------------------------------------------------------------------------------------

CLASS = {
    "Ada Lovelace": ("101", "ada_l"),
    "Ben Öz": ("102", "ben"),
    "Anna Abel": ("103", "aabel"),
    "1002": ("104", "x"),
}


def squeezed(name: str) -> str:
    return re.sub(r"\W", "", name).lower()


def moodle(name: str, number: str, login: str) -> list[str]:
    return [f"{name}_{number}_assignsubmission_file_/week3.ipynb",
            f"{name}_{number}_assignsubmission_onlinetext_/onlinetext.html"]  # fmt: skip


# How each platform exports a student's notebook (and what it adds), and who the student then is.
EXPORTS = {
    "a folder a student": (lambda name, number, login: [f"{login}/week3.ipynb"], lambda *one: (one[2], one[2])),
    "folders in folders": (lambda name, number, login: [f"{login}/hw3/week3.ipynb"], lambda *one: (one[2], one[2])),
    "a file a student": (lambda name, number, login: [f"{login}.ipynb"], lambda *one: (one[2], one[2])),
    "nbgrader": (lambda name, number, login: [f"submitted/{login}/week3/week3.ipynb", "source/week3/week3.ipynb"],
                 lambda *one: (one[2], one[2])),
    "GitHub Classroom": (lambda name, number, login: [f"week3-{login}/week3.ipynb", f"week3-{login}/.git/x.ipynb"],
                         lambda *one: (f"week3-{one[2]}", f"week3-{one[2]}")),
    "Moodle": (moodle, lambda *one: one[:2]),
    "Moodle without folders": (
        lambda name, number, login: [one.replace("file_/", "file_").replace("onlinetext_/", "onlinetext_")
                                     for one in moodle(name, number, login)], lambda *one: one[:2],
    ),
    "Moodle, anonymous": (lambda name, number, login: moodle("Teilnehmer/in".replace("/", ""), number, login),
                          lambda *one: ("Teilnehmerin", one[1])),
    "Canvas": (lambda name, number, login: [f"{squeezed(name)}_{number}_99{number}_week3-1.ipynb",
                                            f"{squeezed(name)}_{number}_text.html"],
               lambda *one: (squeezed(one[0]), one[1])),
    "Canvas, late": (lambda name, number, login: [f"{squeezed(name)}_LATE_{number}_99{number}_a_1_2_b.ipynb"],
                     lambda *one: (squeezed(one[0]), one[1])),
    "Canvas, anonymous": (lambda name, number, login: [f"anon_x{number}_99{number}_12_week3.ipynb"],
                          lambda *one: ("anonymous", f"anon_x{one[1]}")),
    "Brightspace": (lambda name, number, login: [f"{number}-77 - {name} - Mar 29, 2026 1205 PM - my - w.ipynb",
                                                 "index.html"],
                    lambda *one: one[:2]),
    "Brightspace with folders": (
        lambda name, number, login: [f"{number}-77 - {name} - 29 March, 2026 1205 PM/week3.ipynb"],
        lambda *one: one[:2],
    ),
    "Blackboard": (lambda name, number, login: [f"Week 3_lab_{login}_attempt_2026-03-29-12-05-00_week3.ipynb",
                                                f"Week 3_lab_{login}_attempt_2026-03-29-12-05-00.txt"],
                   lambda *one: (one[2], one[2])),
    "ILIAS": (
        lambda name, number, login: [
            f"{'_'.join((name + ' Xu').split()[1::-1])}_{login.replace('_', '')}_{number}/w.ipynb"
        ],
        lambda *one: (" ".join((one[0] + " Xu").split()[:2]), one[1]),
    ),
}  # fmt: skip
JUNK = ["__MACOSX/x/._week3.ipynb", ".DS_Store", "x/.DS_Store"]


def packed(path: Path, names: list[str], text: str = BOOK) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in dict.fromkeys(names):
            archive.writestr(name, text)
    return path


@pytest.mark.parametrize("around", ["", "submissions/", "Woche 3/2026-03/alle Abgaben/"])
@pytest.mark.parametrize("export", EXPORTS)
def test_every_export_gives_each_student_one_notebook(export, around, tmp_path):
    files, who = EXPORTS[export]
    names = [around + name for one, more in CLASS.items() for name in files(one, *more)]
    source = packed(tmp_path / "all.zip", names + [around + name for name in JUNK if "x/" not in name[:2]])
    with submissions(source) as found:
        assert sorted((one.student, one.identifier) for one in found) == sorted(who(one, *CLASS[one]) for one in CLASS)
        assert [len(one.notebooks) for one in found] == [1] * len(CLASS) and not any(one.problems for one in found)
        paths = [path for one in found for path in one.notebooks]
        assert all(path.exists() for path in paths)
    assert not any(path.exists() for path in paths)


@pytest.mark.parametrize("names, expected", [
    (["Ada_1_assignsubmission_file_/x.ipynb"], {"Ada"}),
    (["top/Ada_1_assignsubmission_file_/x.ipynb"], {"Ada"}),
    (["ada_1_2_x.ipynb"], {"ada"}),
    (["submitted/ada/week3/x.ipynb"], {"ada"}),
    (["ada/x.IPYNB"], {"ada"}),
    (["ada/x.ipynb", "ada/x (1).ipynb"], {"ada"}),
    (["all/ada/x.ipynb"], {"ada"}),
    (["all\\ada\\x.ipynb", "all\\bob\\x.ipynb"], {"ada", "bob"}),  # packed by Windows
    (["ada.ipynb", "ada (1).ipynb", "bob.ipynb"], {"ada", "bob"}),
    (["x.ipynb", "x (1).ipynb", "x (2).ipynb"], {"x", "x (1)", "x (2)"}),  # students or versions: not guessed
    (["Eve_5_assignsubmission_file_Ben_6_assignsubmission_file_x.ipynb", "Ada_1_assignsubmission_file_x.ipynb"],
     {"Eve_5_assignsubmission_file_Ben_6_assignsubmission_file_x", "Ada"}),
])  # fmt: skip
def test_a_class_of_any_size_is_found(names, expected, tmp_path):
    with submissions(packed(tmp_path / "all.zip", names)) as found:
        assert {one.student for one in found} == expected
        assert sum(len(one.notebooks) for one in found) == len(names)


@pytest.mark.parametrize("form", ["{}", "week3_{}", "{}_week3", "{} - week3", "week 3-{}", "week3 {} final"])
@pytest.mark.parametrize("inside", ["{}.ipynb", "{}/w.ipynb"])
def test_a_student_is_found_in_the_name_of_a_file(form, inside, tmp_path):
    names = ["Ada Lovelace", "Ben Öz", "Anna Abel"]
    with submissions(packed(tmp_path / "all.zip", [inside.format(form.format(name)) for name in names])) as found:
        grades = [reports.Grade(one, {"3.1": student.Verdict(True, "Right")}, {"3.1": 1.0}) for one in found]
    text = "Identifier,Full name,Grade\n1,Ada Lovelace,\n2,Ben Öz,\n3,Anna Abel,\n4,Anna Berg,\n"
    content, missed, absent = filled(tmp_path, text, grades)
    assert missed == [] and absent == ["Anna Berg"]


def test_a_doubt_about_folders_is_told(tmp_path):
    notes: list[str] = []
    with submissions(packed(tmp_path / "a.zip", ["week/a.ipynb", "week/b.ipynb"]), notes=notes) as found:
        assert len(found) == 2 and "in the folder week" in notes[0]
    groups = ["A/ada/w.ipynb", "A/bob/w.ipynb", "B/cy/w.ipynb"]
    with submissions(packed(tmp_path / "b.zip", groups)) as found:
        assert [bool(one.problems) for one in found] == [True, False] and "ada, bob" in found[0].problems[0]


def test_a_damaged_zip_and_an_entry_without_a_name_are_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sandbox, "best", lambda: ("none", {"none": ""}))
    whole = packed(tmp_path / "all.zip", ["ada/x.ipynb", "bob/x.ipynb"]).read_bytes()
    at = whole.rindex(b"PK\x01\x02")
    for n, broken in enumerate((whole[:at] + b"XX" + whole[at + 2 :], whole[:-30])):
        (tmp_path / f"{n}.zip").write_bytes(broken)
        assert cli.main([str(tmp_path / f"{n}.zip"), "--exercises", "3.1", "--out", str(tmp_path / "out")]) == 2
        said = capsys.readouterr()
        assert "zip" in said.err and said.err.count("\n") == 1 and "Traceback" not in said.err
    with zipfile.ZipFile(tmp_path / "odd.zip", "w") as archive:
        for name in ("", "/", "ada/x.ipynb", "bob/x.ipynb"):
            archive.writestr(zipfile.ZipInfo(name), BOOK)
    with submissions(tmp_path / "odd.zip") as found:
        assert {one.student for one in found if one.notebooks} == {"ada", "bob"}
        assert any("no name" in " ".join(one.problems) for one in found)


# 3. Which version counts --------------------------------------------------------------------------------------------

# Names of one student's files, the latest first.
VERSIONS = [
    ["week3 (10).ipynb", "week3 (9).ipynb", "week3 (1).ipynb", "week3.ipynb"],
    ["week3-Copy10.ipynb", "week3-Copy9.ipynb", "week3-Copy1.ipynb", "week3.ipynb"],
    ["week3-Copy1 (2).ipynb", "week3-Copy1.ipynb", "week3.ipynb"],
    ["Copy of Copy of week3.ipynb", "Copy of week3.ipynb", "week3.ipynb"],
    ["Kopie von week3.ipynb", "week3.ipynb"],
    ["week3 - Copy (2).ipynb", "week3 - Copy.ipynb", "week3.ipynb"],
    ["week3 copy 2.ipynb", "week3 copy.ipynb", "week3.ipynb"],
    ["attempt 10/week3.ipynb", "attempt 9/week3.ipynb", "attempt 9/a.ipynb"],
    ["week3_attempt10.ipynb", "week3_attempt9.ipynb"],
    ["week3_v10.ipynb", "week3_v9.ipynb", "week3.ipynb"],
    ["week3.ipynb", "week3-checkpoint.ipynb"],
]
DATED = [
    ["123-7 - Ada - Mar 29, 2026 1205 PM - a.ipynb", "123-7 - Ada - Mar 29, 2026 1105 AM - b.ipynb"],
    ["123-7 - Ada - Oct 2, 2026 0105 AM/w.ipynb", "123-7 - Ada - Mar 29, 2026 1105 AM/w.ipynb"],
    ["W_ada_attempt_2026-03-29-12-05-00_a.ipynb", "W_ada_attempt_2026-03-28-12-05-00_b.ipynb"],
    ["ada_1_1002_a.ipynb", "ada_LATE_1_999_b.ipynb"],
]


@pytest.mark.parametrize("names", [*([f"ada/{one}" for one in names] for names in VERSIONS), *DATED], ids=str)
def test_the_latest_version_is_the_last_in_any_order(names, tmp_path):
    for n, order in enumerate(itertools.islice(itertools.permutations(names), 6)):
        with submissions(
            packed(tmp_path / f"{n}.zip", ["bob_2_3_x.ipynb" if "_1_" in names[0] else "bob/x.ipynb", *order])
        ) as found:
            ada = next(one for one in found if len(one.notebooks) == len(names))
            assert list(ada.names) == [Path(name).name for name in names[::-1]]


def test_files_of_other_names_are_ordered_by_their_times(tmp_path):
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name, hour in {"a.ipynb": 12, "b.ipynb": 11, "c.ipynb": 9}.items():
            archive.writestr(zipfile.ZipInfo(f"ada/{name}", (2026, 3, 29, hour, 0, 0)), BOOK)
        archive.writestr(zipfile.ZipInfo("bob/x.ipynb"), BOOK)
    with submissions(tmp_path / "all.zip") as found:
        assert found[0].names == ("c.ipynb", "b.ipynb", "a.ipynb")
    for n, name in enumerate(("z.ipynb", "y.ipynb")):
        (tmp_path / "in" / "ada").mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / "bob.ipynb").write_text(BOOK)
        (tmp_path / "in" / "ada" / name).write_text(BOOK)
        os.utime(tmp_path / "in" / "ada" / name, (10**9 + 1000 * n,) * 2)
    with submissions(tmp_path / "in") as found:
        assert found[0].names == ("z.ipynb", "y.ipynb")


# What a notebook says of two exercises: right, wrong, nothing, or that it cannot be read or run.
SAID = {"right": (True, "Right: yes", True), "wrong": (False, "No.", True), "none": (False, "{}: not done yet.", True),
        "broken": (False, "Your file is empty.", False)}  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(SAID)), st.sampled_from(list(SAID))), min_size=1, max_size=4))
def test_each_exercise_counts_as_the_latest_notebook_that_answers_it(books):
    """By a rule of its own: the last of right and wrong, whatever lies after it."""

    def judge(way, notebook, numbers, *more):
        said = dict(zip(("3.1", "3.2"), books[int(notebook.stem)], strict=True))
        return {
            n: student.Verdict(SAID[said[n]][0], SAID[said[n]][1].format(n), answers=SAID[said[n]][2]) for n in numbers
        }

    paths = tuple(Path(f"{n}.ipynb") for n in range(len(books)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(student, "judge", judge)
        one = cli.graded("none", Submission("Ada", "Ada", paths, tuple(map(str, paths))), {"3.1": 1.0, "3.2": 1.0}, 1)
    for k, number in enumerate(("3.1", "3.2")):
        answers = [book[k] for book in books if book[k] in ("right", "wrong")]
        assert one.verdicts[number].right == (answers[-1:] == ["right"]), (books, one)
        if len(books) > 1 and answers and books[-1][k] == "broken":
            assert "Your file is empty" in one.notes[number]


FILES = {
    "empty": (b"", "is empty"), "HTML": (b"<!DOCTYPE html><html>", "web page"), "PDF": (b"%PDF-1.7 x", "PDF"),
    "UTF-16": (BOOK.encode("utf-16"), "UTF-16"), "UTF-16 without BOM": (BOOK.encode("utf-16-le"), "UTF-16"),
    "Latin-1": (BOOK.replace("x = 1", "x = 'ä'").encode("latin-1"), "UTF-8"),
    "a conflict": (b'{\n "cells": [\n<<<<<<< HEAD\n', "conflict of Git"), "a zip": (b"PK\x03\x04..", "zip"),
    "nbformat 3": (b'{"nbformat": 3, "worksheets": [{"cells": []}]}', "nbformat 3"),
    "cut off": (BOOK.encode()[:-20], "cut off"), "a script": (b"import torch\nprint(1)\n", "plain text"),
    "JSON": (b'{"a": 1}', "JSON without cells"), "LFS": (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
    "open": (b"{", ""), "a list": (b"[]", ""), "a number": (b'{"cells": 3}', ""), "deeper": (b"[" * 100_000, ""),
    "deep": (b'{"cells": ' + b"[" * 100_000, "nested"), "an image": (b"\x89PNG\r\n", "image"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_a_file_that_is_no_notebook_is_called_by_its_name(case, tmp_path):
    content, words = FILES[case]
    (tmp_path / "one.ipynb").write_bytes(content)
    said = student.judge("none", tmp_path / "one.ipynb", ["3.1"])["3.1"]
    assert words in said.sentence and not said.right and not said.answers
    assert "no notebook that can be read" in said.sentence
    assert re.search(r"hand (it|that|in)|Hand in", said.sentence), said.sentence


# 4. What was recorded before the end --------------------------------------------------------------------------------


@pytest.fixture
def bare(monkeypatch):
    """Our own notebooks, in a process without a sandbox: it starts on every machine."""
    monkeypatch.setitem(sandbox.WAYS, "bare", lambda job, name: [sys.executable, *job.arguments])


ENDINGS = {
    "exits": "os._exit(0)",
    "is killed": "os.kill(os.getpid(), 9)",
    "crashes": "import ctypes; ctypes.string_at(0)",
    "does not end": "while True: pass",
    "fails": "raise SystemExit",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_what_was_recorded_before_the_end_counts_and_look_says_what_happened(ending, bare, tmp_path):
    """In the cell of the answer, after it; and an answer of which no check() has told, by its name."""
    rest = "def count(x): ..." if ending == "fails" else ""
    seconds = 1.5 if "end" in ending else 20.0
    said = said_of("bare", tmp_path, COUNT, f"{COUNT_CHECK}\n{ENDINGS[ending]}", rest, seconds=seconds)
    assert said.right, said
    assert ending == "fails" or "cell 3 did not run to its end" in said.suspect


def test_a_cell_that_ends_the_program_hides_no_other(bare, tmp_path):
    unnamed = f"{COUNT}\nos._exit(1)\ncount_tokens = 3"
    said = said_of("bare", tmp_path, "os._exit(0)", unnamed, "1 / 0")  # found by its name, before the place of the end
    assert said.right and "cell 2" in said.suspect and "cell 3" in said.suspect


def test_an_answer_is_judged_as_it_was_when_check_was_given_it(bare, tmp_path):
    helped = RIGHT.replace("q.shape[-1] ** 0.5", "scale(q)").replace(
        "def my", "def scale(q): return q.shape[-1] ** 0.5\ndef my"
    )
    settings = "torch.set_default_dtype(torch.float64)\ntorch.set_default_device('meta')\ntorch.manual_seed(0)"
    later = "def scale(q): return 1.0\ntorch.set_default_dtype(torch.float64)\ntorch.set_grad_enabled(False)"
    assert said_of("bare", tmp_path, helped, CHECK, later).right
    assert said_of("bare", tmp_path, settings, RIGHT, CHECK).right
    assert said_of("bare", tmp_path, WRONG, COUNT_CHECK, COUNT, COUNT_CHECK).right  # the last answer counts
    assert said_of("bare", tmp_path, counting("os._exit(0)"), COUNT_CHECK, COUNT, COUNT_CHECK).right
    many = f"for n in range({2 * student.TRIES}):\n    check('1.1', wrong)\ncheck('1.1', count_tokens)"
    assert said_of("bare", tmp_path, WRONG, "wrong = count_tokens", COUNT, COUNT_CHECK, many).right


def test_a_misspelt_name_is_told(bare, tmp_path):
    said = said_of("bare", tmp_path, COUNT.replace("count_tokens", "count_token"), number="1.1")
    assert not said.right and "count_token is" in said.suspect
    assert not said_of("bare", tmp_path, "def something_else(x): return x", number="1.1").suspect


# 5. Cells as Jupyter runs them --------------------------------------------------------------------------------------


def run(*cells: str) -> tuple[dict, list[str]]:
    """Run cells in this process; return their names and errors."""
    kept = sys.modules["__main__"]
    try:
        space = running.prepared()
        work = running.run(list(cells), space, lambda *at: None, set())
        with contextlib.redirect_stdout(io.StringIO()), ThreadPoolExecutor(1) as thread:  # Playwright's loop runs here
            errors = thread.submit(asyncio.run, work).result()
    finally:
        sys.modules["__main__"] = kept
    return space, errors


COMMANDS = ["!pip install torch", "%matplotlib inline", "!pip install \\\n    torch", "math?", "?math", "math.pi??",
            "files = !ls", "where = %pwd", "%time 1 + 1", "!!ls", "%pip install -q x", "display(1)",
            "get_ipython().run_line_magic('load_ext', 'autoreload')", "%timeit -n 1 -r 1 sum(range(3))"]  # fmt: skip
CONTEXTS = {
    "alone": "{}",
    "before code": "{}\ny = 1",
    "only line of an if": "if True:\n    {}\ny = 1",
    "only line of an except": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    {}\ny = 1",
    "in a loop": "for _ in range(2):\n    {}\n    y = 1",
    "in a function": "def f():\n    {}\n    return 1\ny = f()",
    "after await": "import asyncio\nawait asyncio.sleep(0)\n{}",
}


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_ipython_break_no_cell(command, context):
    if "?" in command and context not in ("alone", "before code", "after await"):
        pytest.skip("IPython itself takes a question for one only where a statement may begin a line")
    inner = command.replace("\n", "\n" + " " * (4 if "    {}" in CONTEXTS[context] else 0))
    space, errors = run("import math", CONTEXTS[context].format(inner), "z = 2")
    assert errors == [] and space["z"] == 2 and ("y = 1" not in CONTEXTS[context] or space.get("y", 1) == 1)


@pytest.mark.parametrize("sign", ["%", "*", "!=", "==", "-", "@"])
@pytest.mark.parametrize(
    "form", ["x = (\n    a\n    {} b\n)", "x = [a\n{} b][0]", "x = f(\n    a\n    {} b,\n)", "x = a \\\n {} b"]
)
def test_an_expression_goes_on_in_a_line_that_begins_with_a_sign(sign, form):
    start = "class A(int):\n    __matmul__ = int.__mul__\na, b = A(17), A(5)\ndef f(x): return x"
    space, errors = run(start, form.format(sign))
    assert errors == [] and space["x"] == eval(f"a {sign} b", {**space})


CELLS = {
    "%%time runs its body": (["%%time\nx = 3"], "x", 3),
    "%%time after empty lines": (["\n\n%%time\n\nx = 3"], "x", 3),
    "%%capture, %%time": (["%%capture out\n%%time\nx = 3"], "x", 3),
    "%%timeit": (["%%timeit -n 1\nx = 3"], "x", 3),
    "await in %%time": (["%%time\nimport asyncio\nx = await asyncio.sleep(0, 3)"], "x", 3),
    "%%html": (["%%html\n<b>x</b>", "x = 3"], "x", 3),
    "%%bash": (["%%bash\nexit 1", "x = 3"], "x", 3),
    "%%script": (["%%script false --no-raise-error\nx = 4", "x = 3"], "x", 3),
    "an unknown magic": (["%%unheard_of\n(((", "x = 3"], "x", 3),
    "await": (["import asyncio", "async def f(): return 3\nx = await f()"], "x", 3),
    "async for": (["async def g():\n    yield 3\nx = [one async for one in g()][0]"], "x", 3),
    "async with": (["import asyncio\nasync with asyncio.timeout(9):\n    x = 3"], "x", 3),
    "a task": (["import asyncio\nasync def f(): return 3\nt = asyncio.create_task(f())", "x = await t"], "x", 3),
    "the running loop": (["import asyncio\nx = 3 if asyncio.get_running_loop() else 0"], "x", 3),
    "%time assigned": (["x = %time 1 + 2"], "x", 3),
    "%time of a statement": (["%time x = 3"], "x", 3),
    "an error hides no other cell": (["x = 3\n1 / 0\nx = 4", "y = ("], "x", 3),
    "a pickled class": (["import pickle\nclass A:\n    x = 3", "x = pickle.loads(pickle.dumps(A())).x"], "x", 3),
    "a dataclass": (["from __future__ import annotations\nfrom dataclasses import dataclass",
                     "@dataclass\nclass A:\n    x: Later = 3\nx = A().x"], "x", 3),
    "hints": (["import typing\nclass B: x = 3\nclass A:\n    b: 'B'\nx = typing.get_type_hints(A)['b'].x"], "x", 3),
    "source": (["import inspect\ndef f():\n    return 3\nx = int(inspect.getsource(f).split()[-1])"], "x", 3),
    "in Colab?": (["x = 3 if 'google.colab' not in str(get_ipython()) else 0"], "x", 3),
    "a leading >>>": ([">>> x = 3"], "x", 3),
    "indented": (["    x = 3"], "x", 3),
    "a semicolon at the end": (["x = 3;"], "x", 3),
    "a package that is not here": (["import unheard_of\nimport math\nx = 3"], "x", 3),
    "a drive of Colab": (["from google.colab import drive\ndrive.mount('/content/drive')\nx = 3"], "x", 3),
    "Colab, asked": (["try:\n    import google.colab\n    x = 0\nexcept ImportError:\n    x = 3"], "x", 3),
    "IPython's": (["from IPython import get_ipython\nx = get_ipython().run_line_magic('time', '3')\n!ls"], "x", 3),
    "the last value, shown": (["x = 3\nx"], "_", 3),
    "a name like that": (["_ = 3", "4", "x = _"], "x", 3),
    "the last value": (["1 + 2", "x = _"], "x", 3),
}  # fmt: skip


@pytest.mark.parametrize("case", CELLS)
def test_cells_do_what_they_do_in_jupyter(case):
    cells, name, value = CELLS[case]
    space, errors = run(*cells)
    assert space.get(name) == value, errors


def test_a_file_that_a_cell_writes_is_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space, errors = run("%%writefile mine.py\nx = 3", "%%writefile -a mine.py\ny = 4", "%run mine.py\nz = x + y")
    assert space["z"] == 7, errors
    assert (tmp_path / "mine.py").read_text().split() == ["x", "=", "3", "y", "=", "4"]


# 6. The notebook's verdict ------------------------------------------------------------------------------------------


KINDS = [one for one in vars(builtins).values() if isinstance(one, type) and issubclass(one, Exception)]
KINDS.remove(ExceptionGroup)
GIVEN = {UnicodeDecodeError: ("utf-8", b"x", 0, 1, "bad"), UnicodeEncodeError: ("utf-8", "x", 0, 1, "bad"),
         UnicodeTranslateError: ("x", 0, 1, "bad")}  # fmt: skip


def errors_of(kind: type) -> list[Exception]:
    given = GIVEN.get(kind, ("no such 'key'",))
    own = type("SizeError", (kind,), {})
    mixed = [type("Both", (own, other), {}) for other in (ValueError, TypeError) if not issubclass(kind, other)]
    found = []
    for one in (kind, own, *mixed):
        with contextlib.suppress(TypeError):
            found.append(one(*given))
    return found


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_is_of_the_same_kinds_on_both_sides(kind):
    for error in errors_of(kind):
        try:
            raise error
        except Exception as one:
            back = student._error(crossed(_child.raised(one)))
        assert type(back).__name__ == type(error).__name__ and str(back) == str(error)
        assert [one for one in KINDS if isinstance(back, one)] == [one for one in KINDS if isinstance(error, one)]


def test_an_error_that_cannot_say_what_it_is_crosses():
    class Odd(ValueError):
        def __str__(self):
            raise RuntimeError

    assert isinstance(student._error(crossed(_child.raised(Odd("x")))), ValueError)
    assert student._error(crossed(_child.raised(NotImplementedError()))).args == ()
    assert student._error(crossed(_child.raised(NotImplementedError("")))).args != ()


class Count(IntEnum):
    ONE = 1


class Length(float):
    pass


VALUES = {
    "an int": 3, "a bool": True, "a large int": 2**70, "an int of an enum": Count.ONE, "a float's child": Length(2.5),
    "a fraction": Fraction(1, 2), "a decimal": Decimal("0.5"), "a long double": np.longdouble(2), "complex": 1j,
    "NumPy's int": np.int32(3), "NumPy's bool": np.bool_(True), "half": np.float16(0.5), "nan": float("nan"),
    "a string": "none", "NumPy's string": np.str_("none"), "a generator": (n for n in range(3)), "a range": range(3),
    "a tensor of one number": torch.tensor(2.0), "a view": torch.arange(6.0)[::2],
    "a parameter": torch.nn.Parameter(torch.ones(3)), "an array backwards": np.arange(3)[::-1],
    "another byte order": np.arange(3, dtype=">i4"), "objects": np.array([{}]),
    "dates": np.array(["2026"], dtype="datetime64[Y]"), "complex tensor": torch.ones(3) * 1j,
    "conjugated": torch.ones(3).mul(1j).conj().imag,
    "a namespace": types.SimpleNamespace(a=1), "nothing": None, "sparse": torch.eye(2).to_sparse(),
}  # fmt: skip
READERS = [engine.number, engine.yes_or_no, lambda value: engine.tensor_like(value, torch.ones(3)).sum().item(),
           lambda value: isinstance(value, (list, tuple)) and len(value),
           lambda value: isinstance(value, str) and str(value),
           lambda value: isinstance(value, (set, frozenset, list, tuple, dict)) and sorted(value)]  # fmt: skip


def outcome(reader, value):
    try:
        return True, repr(reader(value))
    except Exception:
        return False, ""


@pytest.mark.parametrize("case", VALUES)
def test_a_value_is_read_alike_on_both_sides(case):
    value = VALUES[case]
    for reader in READERS:
        assert outcome(reader, crossed(_child.data(value))) == outcome(reader, value)
    if case not in ("a generator", "objects", "dates"):
        for box, path in (([value], [0]), ((value,), [0]), ({0: value}, [0]), ({"a": [value]}, ["a", 0])):
            inner = functools.reduce(operator.getitem, path, crossed(_child.data(box)))
            assert outcome(engine.number, inner) == outcome(engine.number, value)


def test_containers_of_ones_own_cross():
    from collections import OrderedDict, defaultdict, deque, namedtuple

    pair = namedtuple("Pair", "a b")(1, 2)
    for value in (pair, OrderedDict(a=1), defaultdict(list, a=[1]), type("L", (list,), {})([1]), torch.Size((2, 3))):
        for reader in READERS[3:]:
            assert outcome(reader, crossed(_child.data(value))) == outcome(reader, value)
    assert outcome(READERS[3], crossed(_child.data(deque([1])))) == outcome(READERS[3], deque([1]))


def test_an_error_from_inside_a_wrong_model_is_one_on_both_sides():
    """In an exercise whose answer is a test, an error inside the wrong thing counts as seen."""
    from vitbook.exercises import chapter_01

    code = compile("def broken(): raise RuntimeError('inside')", chapter_01.__file__, "exec")
    space: dict = {"__name__": chapter_01.__name__}
    exec(code, space)
    try:
        space["broken"]()
    except RuntimeError as one:
        there = one
    assert engine.raised_by(there, space["broken"])
    reply = _child.raised(there) | {"files": ["<cell 1>", student.disguise.GIVEN]}
    assert engine.raised_by(student._error(crossed(reply)), space["broken"])
    assert not engine.raised_by(student._error(crossed(reply | {"files": ["<cell 1>"]})), space["broken"])


SIZE = """
class SizeError(ValueError): pass
def count_tokens(H, W, p):
    if H % p or W % p:
        raise SizeError(f"{H} x {W}")
    return (H // p) * (W // p)
"""


def test_an_error_of_ones_own_kind_is_right_in_the_grader(bare, tmp_path):
    space: dict = {}
    exec(SIZE, space)
    with contextlib.redirect_stdout(io.StringIO()):
        assert engine.check("1.1", space["count_tokens"])
    assert said_of("bare", tmp_path, SIZE).right

"""vitnb-grade: the same verdicts as check gives, from a sandbox that a submission cannot leave."""

import csv
import hashlib
import importlib.util
import json
import re
import sys
import zipfile
from pathlib import Path

import nbformat
import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook

if not sys.platform.startswith("linux"):
    pytest.skip("the sandboxes are Linux's", allow_module_level=True)  # before the imports: Windows has no `resource`

from vitnb.checks import engine  # noqa: E402
from vitnb.grading import cli, reports, sandbox, student, wire  # noqa: E402
from vitnb.grading.submissions import Submission, submissions  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 10.0  # enough for a right answer on a busy machine
HEAD = "import math, os, sys\nimport torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
CHECK = 'from vitnb.checks import check\n_ = check("3.1", my_attention)'
RIGHT = """
def my_attention(q, k, v):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return scores.softmax(dim=-1) @ v
"""
UNDIVIDED = RIGHT.replace(" / q.shape[-1] ** 0.5", "")


@pytest.fixture(scope="session")
def way():
    """The best sandbox of this machine."""
    found, reasons = sandbox.best()
    if found is None:
        pytest.skip(f"no sandbox works here: {reasons}")
    return found


def answering(line: str) -> str:
    """An answer to 3.1 that does something else first."""
    return RIGHT.replace("    scores", f"    {line}\n    scores", 1)


def store(path: Path, *cells: str) -> Path:
    nbformat.write(new_notebook(cells=[new_code_cell(code) for code in (HEAD, *cells)]), path)
    return path


def said_of(way: str, path: Path, *cells: str, number: str = "3.1", seconds: float = SECONDS) -> student.Verdict:
    """The verdict on a notebook with these cells."""
    return student.judge(way, store(path / "one.ipynb", *cells), [number], seconds=seconds)[number]


# What a submission may be like, and what must be said of it: right or not, and words of the sentence.
WRITTEN = {
    "right": ((RIGHT, CHECK), True, "Right:"),
    "torch's": (("def my_attention(*qkv):\n    return F.scaled_dot_product_attention(*qkv)", CHECK), True, ""),
    "a lambda": (("my_attention = lambda q, k, v: (q @ k.mT / k.size(-1) ** 0.5).softmax(-1) @ v", CHECK), True, ""),
    "the check cell deleted": ((RIGHT,), True, "Right:"),
    "the check cell twice, first with a wrong answer": ((UNDIVIDED, CHECK, RIGHT, CHECK), True, "Right:"),
    "an error in another cell": (("1 / 0", RIGHT, CHECK), True, "Right:"),
    "a command to IPython": (("%matplotlib inline\n!ls", RIGHT, CHECK), True, "Right:"),
    "untouched": (("def my_attention(q, k, v):\n    ...", CHECK), False, "not done yet"),
    "left to an error": (("def my_attention(q, k, v):\n    raise NotImplementedError", CHECK), False, "not done yet"),
    "nothing": ((), False, "not done yet"),
    "not divided": ((UNDIVIDED, CHECK), False, "not divided"),
    "softmax over the queries": ((RIGHT.replace("dim=-1", "dim=-2"), CHECK), False, "softmax runs over the queries"),
    "no softmax": ((RIGHT.replace(".softmax(dim=-1)", ""), CHECK), False, "softmax is missing"),
    "an error of its own": ((answering('raise IndexError("no such head")'), CHECK), False,
                           'IndexError in the line `raise IndexError("no such head")`: no such head'),
    "changes what it is given": ((answering("q.mul_(2)"), CHECK), False, "changes what it is given"),
    "returns nothing": ((RIGHT.replace("return ", "x = "), CHECK), False, "None"),
    "a syntax error": (("def my_attention(q, k, v)\n    return v", CHECK), False, "SyntaxError"),
}  # fmt: skip

HOSTILE = {
    "a loop in the function": ((answering("while True: pass"), CHECK), False, "loop that does not end"),
    "a loop in a cell": (("while True: pass", RIGHT, CHECK), False, "loop that does not end"),
    "a loop that catches everything": (
        ("while True:\n    try:\n        while True: pass\n    except BaseException: pass", RIGHT), False, "loop",
    ),
    "waits": ((answering("import time; time.sleep(3600)"), CHECK), False, "took too long"),
    "sys.exit in a cell": (("sys.exit(0)", RIGHT, CHECK), True, "Right:"),
    "os._exit in the function": ((answering("os._exit(0)"), CHECK), False, "ended the program"),
    "os._exit in a cell": (("os._exit(0)", RIGHT, CHECK), False, "did not run to its end"),
    "takes all memory": ((answering("x = [torch.empty(1 << 28) for _ in range(1000)]"), CHECK), False, "memory"),
    "returns too much": ((answering("return torch.zeros(1 << 26)"), CHECK), False, "64 MB"),
    "replaces the check": (
        ("from vitnb import checks\nchecks.check = lambda *a: True\ntorch.allclose = lambda *a, **k: True",
         UNDIVIDED, CHECK), False, "not divided",
    ),
    "reads the tests": ((answering("import vitnb.checks.engine"), CHECK), False, "ModuleNotFoundError"),
    "opens the tests": (
        (answering("import vitnb; open(vitnb.__path__[0] + '/checks/chapter_03.py').read()"), CHECK), False, "NotFound",
    ),
    "talks to the network": (
        (answering("import socket; socket.create_connection(('127.0.0.1', 22), 1)"), CHECK), False, "Error",
    ),
    "writes to the pipe": (
        ("for fd in range(3, 40):\n    try: os.write(fd, b'x' * 4096)\n    except OSError: pass", RIGHT, CHECK),
        False, "",
    ),
    "a tensor that agrees with everything": (
        ("class Yes(torch.Tensor):\n    @classmethod\n    def __torch_function__(cls, *a, **k): return True",
         "def my_attention(q, k, v):\n    return v.as_subclass(Yes)", CHECK), False, "a torch tensor is wanted",
    ),
    "processes without end": (
        ("def my_attention(q, k, v):\n    while True:\n        try: os.fork()\n        except OSError: pass", CHECK),
        False, "too many processes",
    ),
}  # fmt: skip


ENDLESS = [case for case in HOSTILE if "loop" in case or case == "waits"]


@pytest.mark.parametrize("case", WRITTEN)
def test_a_submission_gets_the_verdict_of_check(case, way, tmp_path):
    cells, right, words = WRITTEN[case]
    verdict = said_of(way, tmp_path, *cells)
    assert verdict.right == right and words in verdict.sentence, verdict.sentence
    assert verdict.where == "outside"


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_submission_fails_alone(case, way, tmp_path):
    cells, right, words = HOSTILE[case]
    verdict = said_of(way, tmp_path, *cells, seconds=4.0 if case in ENDLESS else SECONDS)
    assert verdict.right == right and words in verdict.sentence, verdict.sentence


@pytest.mark.parametrize("sandboxed", ["bubblewrap", "landlock"])
def test_a_sandbox_keeps_everything_around_it(sandboxed, tmp_path):
    if reason := sandbox.works(sandboxed):
        pytest.skip(f"{sandboxed}: {reason}")
    course = tmp_path / "course"
    course.mkdir()
    for name in ("gradebook.db", "other.ipynb"):
        (course / name).write_text(f"secret of {name}")
    one = store(course / "one.ipynb", RIGHT, CHECK)
    attack = f"""
import glob, pathlib, shutil
seen = []
for name in ("{course}/gradebook.db", "{course}/other.ipynb", "/etc/shadow", os.path.expanduser("~/.ssh/id_rsa")):
    for act in (lambda: seen.append(open(name).read()), lambda: os.remove(name), lambda: open(name, "w").write("mine")):
        try: act()
        except OSError: pass
shutil.rmtree("{course}", ignore_errors=True)
"""
    tell = "def my_attention(q, k, v):\n    raise ValueError(repr(seen))"
    before = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in course.iterdir()}
    spy = store(tmp_path / "spy.ipynb", attack, tell, CHECK)
    said = student.judge(sandboxed, spy, ["3.1"], seconds=SECONDS)["3.1"].sentence
    assert "ValueError" in said and "[]" in said and "secret" not in said, said
    deletes = store(tmp_path / "deletes.ipynb", attack, RIGHT, CHECK)
    assert student.judge(sandboxed, deletes, ["3.1"], seconds=SECONDS)["3.1"].right
    assert before == {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in course.iterdir()}
    assert student.judge(sandboxed, one, ["3.1"], seconds=SECONDS)["3.1"].right


def test_a_process_that_dies_takes_no_other_exercise_with_it(way, tmp_path):
    path = store(tmp_path / "one.ipynb", answering("os._exit(0)"), CHECK, "def my_rotation(x): ...", "class A: pass")
    said = student.judge(way, path, ["3.1", "3.2", "5.2"], seconds=SECONDS)
    assert "ended the program" in said["3.1"].sentence
    assert said["3.2"].sentence.startswith("3.2: not done yet") and said["5.2"].where == "inside"


def test_a_verdict_forged_inside_is_seen(way, tmp_path):
    number = "5.2"
    name = engine.EXERCISES[number].signature.split("(")[0]
    forge = "from vitnb.checks import engine\nengine._judge = lambda *a: (True, 'Right: of course')"
    verdict = said_of(way, tmp_path, f"class {name}(nn.Module): pass", f'check("{number}", {name})', number=number)
    assert not verdict.right and verdict.where == "inside"
    late = f"class {name}(nn.Module):\n    def __init__(self, *a):\n        super().__init__()\n        exec({forge!r})"
    cells = ("def forge():\n    import sys\n    engine = sys.modules['vitnb.checks.engine']\n"
             "    engine._judge = lambda *a: (True, 'Right: of course')\nforge()", late)  # fmt: skip
    verdict = said_of(way, tmp_path, *cells, number=number)
    assert not verdict.right and verdict.suspect


# Those that load the data train in their cells; the experiments behind their exercises would be run once more.
SOLVED = [path for path in sorted((ROOT / "book" / "solutions").glob("*.ipynb")) if "data.load" not in path.read_text()]


@pytest.mark.parametrize("path", SOLVED, ids=lambda path: path.stem)
def test_published_solutions_are_right_through_the_grader(path, way):
    chapter = path.stem.split("-")[0].lstrip("0") or "0"
    numbers = [n for n in engine.EXERCISES if n.split(".")[0] == chapter]
    if chapter == "jax" and importlib.util.find_spec("flax") is None:
        pytest.skip("no flax here")
    said = student.judge(way, path, numbers)
    assert [n for n in numbers if not said[n].right] == [], said
    assert {n for n in numbers if said[n].where == "inside"} == student.INSIDE.intersection(numbers)


def test_every_exercise_judged_inside_is_one_that_exists_and_needs_it():
    assert set(engine.EXERCISES) > student.INSIDE


def test_a_class_in_one_command(way, tmp_path, capsys):
    folder = tmp_path / "in"
    folder.mkdir()
    for name, code in {"Ada": RIGHT, "Ben": UNDIVIDED, "=cmd": RIGHT}.items():
        store(folder / f"{name}.ipynb", code, CHECK)
    sheet = tmp_path / "moodle.csv"
    sheet.write_text("Identifier,Full name,Grade,Feedback comments\nParticipant 1,Ada,,\nParticipant 2,Ben,,\n")
    out = tmp_path / "out"
    course = tmp_path / "course.py"
    course.write_text(
        "from vitnb.checks.kinds import compute\nfrom vitnb.checks.engine import fresh\n"
        "compute('c.1', 'twice(x)', 'a', 'b', cases=lambda: [(fresh(2, 3),)], reference=lambda x: 2 * x,\n"
        "    mistakes={'You squared.': lambda x: x * x}, otherwise='no', right='twice.')\n"
    )
    store(folder / "Ada-more.ipynb", "def twice(x):\n    return x * x")
    options = ["--exercises", "3.1=2", "c.1", "--course", str(course), "--out", str(out), "--sheet", str(sheet)]
    assert cli.main([str(folder), *options, "--sandbox", way, "--seconds", str(SECONDS)]) == 0
    rows = list(csv.DictReader((out / "grades.csv").read_text().splitlines()))
    points = {(row["student"], row["exercise"]): row["points"] for row in rows}
    assert points["Ada", "3.1"] == "2" and points["Ben", "3.1"] == "0" and points["'=cmd", "3.1"] == "2"
    assert next(r["verdict"] for r in rows if r["student"] == "Ada-more" and r["exercise"] == "c.1").startswith(
        "You squared"
    )
    filled = {row["Full name"]: row for row in csv.DictReader((out / "moodle.csv").read_text().splitlines())}
    assert filled["Ada"]["Grade"] == "2" and "not divided" in filled["Ben"]["Feedback comments"]
    page = next((out / "feedback").glob("Ben*.html")).read_text()
    assert "not divided" in page and "<script" not in page and "http://" not in page
    assert "not listed in it: =cmd, Ada-more" in capsys.readouterr().out


def test_a_course_is_read_from_wherever_it_is_named_and_by_nobody_inside(way, tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    name = engine.EXERCISES["5.2"].signature.split("(")[0]
    reads = "raise RuntimeError(open(sys.argv[-1]).read()[:9999])"
    spy = f"class {name}(nn.Module):\n    def __init__(self, *a):\n        {reads}"
    store(tmp_path / "in" / "Eve.ipynb", spy, f'check("5.2", {name})')
    (tmp_path / "course.py").write_text("SECRET = 1\n")
    monkeypatch.chdir(tmp_path)
    options = ["in", "--exercises", "5.2", "--course", "course.py", "--out", "out", "--sandbox", way]
    assert cli.main([*options, "--seconds", str(SECONDS)]) == 0
    [row] = csv.DictReader((tmp_path / "out" / "grades.csv").read_text().splitlines())
    assert row["judged"] == "inside" and "RuntimeError" in row["verdict"] or "Error" in row["verdict"], row
    assert "SECRET" not in row["verdict"] and "did not run to its end" not in row["verdict"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cells": 3}', "%PDF-1.4"])
def test_a_file_that_is_no_notebook_is_called_so(text, tmp_path):
    (tmp_path / "one.ipynb").write_text(text)
    said = student.judge("none", tmp_path / "one.ipynb", ["3.1"])["3.1"]
    assert not said.right and "no notebook that can be read" in said.sentence


def test_a_column_that_is_missing_is_told_before_anything_runs(tmp_path, capsys):
    store(tmp_path / "one.ipynb", f"open({str(tmp_path / 'ran')!r}, 'w')")
    (tmp_path / "sheet.csv").write_text("Identifier,Full name,Grade\n")
    options = ["--exercises", "3.1", "--sheet", str(tmp_path / "sheet.csv"), "--column", "Points"]
    assert cli.main([str(tmp_path), *options, "--out", str(tmp_path / "out")]) == 2
    assert "has no column 'Points'" in capsys.readouterr().err and not (tmp_path / "out").exists()


def test_without_a_sandbox_nothing_runs(monkeypatch, tmp_path, capsys):
    store(tmp_path / "one.ipynb", f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.setattr(sandbox, "WAYS", {})
    assert cli.main([str(tmp_path), "--exercises", "3.1"]) == 2
    assert "no sandbox works here" in capsys.readouterr().err and not (tmp_path / "ran").exists()


@pytest.mark.parametrize("arguments, words", [
    (["--exercises", "99.1"], "there is no exercise '99.1'"),
    (["--exercises", "3.1=lots"], "3.1=2 would be"),
    (["--exercises", "3.1", "--course", "nowhere.py"], "nowhere.py is no file"),
])  # fmt: skip
def test_bad_input_is_named(arguments, words, tmp_path, capsys):
    assert cli.main([str(tmp_path), *arguments]) == 2
    assert words in capsys.readouterr().err


def test_the_platforms_names_are_read(tmp_path):
    store(tmp_path / "plain.ipynb")
    text = (tmp_path / "plain.ipynb").read_bytes()
    packed = tmp_path / "all.zip"
    names = ["Ada Lovelace_12345_assignsubmission_file/answers.ipynb", "babbagecharles_LATE_77_991_answers.ipynb",
             "hoppergrace_78_992_answers-1.ipynb", "../../evil.ipynb",
             "__MACOSX/Ada_1_assignsubmission_file/x.ipynb"]  # fmt: skip
    with zipfile.ZipFile(packed, "w") as archive:
        for name in names:
            archive.writestr(name, text)
    with submissions(packed) as found:
        assert {(one.student, one.identifier) for one in found} == {
            ("Ada Lovelace", "12345"), ("babbagecharles", "77"), ("hoppergrace", "78"), ("..", ".."),
        }  # fmt: skip
        paths = [path for one in found for path in one.notebooks]
        assert all(re.fullmatch(r"\d{5}\.ipynb", path.name) and path.exists() for path in paths)
    assert not any(path.exists() for path in paths) and not (tmp_path.parent / "evil.ipynb").exists()


def test_a_folder_without_notebooks_or_a_huge_one_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="holds no notebook"), submissions(tmp_path):
        pass
    with pytest.raises(FileNotFoundError, match="neither a folder nor a file"), submissions(tmp_path / "nowhere"):
        pass
    monkeypatch.setattr("vitnb.grading.submissions.LARGEST", 10)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("one.ipynb", "x" * 100)
    with pytest.raises(ValueError, match="larger than"), submissions(tmp_path / "all.zip"):
        pass


def test_data_crosses_as_it_is_and_nothing_else_does():
    values = [None, True, 3, 2.5, float("inf"), "text", ..., (1, [2, {"a": {3}}]), torch.arange(6).view(2, 3),
              torch.ones(2, dtype=torch.bool), torch.tensor(2.0, dtype=torch.bfloat16)]  # fmt: skip
    packed = wire.packed(values)
    text, body = wire.HEAD.unpack(packed[: wire.HEAD.size])
    rest = packed[wire.HEAD.size :]
    back, foreign = wire.unpacked(rest[:text], rest[text:])
    assert not foreign and body == len(rest) - text
    assert back[:-3] == values[:-3] and all(torch.equal(a, b) for a, b in zip(back[-3:], values[-3:], strict=True))
    for thing in (object(), torch.nn.Linear(1, 1), len, torch.ones(1, device="meta")):
        packed = wire.packed(thing)
        text, _ = wire.HEAD.unpack(packed[: wire.HEAD.size])
        assert wire.unpacked(packed[wire.HEAD.size :][:text], b"")[1]


@pytest.mark.parametrize("text", [b"", b"{", b'{"tensor": "0"}', b'{"float": "x"}', b"[" * 100_000, b'{"dict": 3}'])
def test_a_hostile_message_is_refused(text):
    with pytest.raises(ValueError, match="cannot be read"):
        wire.unpacked(text, b"")


def test_a_sheet_without_the_column_is_refused(tmp_path):
    sheet = tmp_path / "canvas.csv"
    sheet.write_text("Student,ID,Section\nAda,1,A\n")
    with pytest.raises(ValueError, match="has no column 'Quiz'"):
        reports.sheet([], sheet, "Quiz", tmp_path / "out.csv")


def test_gradescope_gets_its_results_and_its_bundle(tmp_path):
    one = Submission("Ada", "1", ())
    grade = reports.Grade(one, {"3.1": student.Verdict(True, "Right: yes")}, {"3.1": 2.0})
    assert (
        json.loads(reports.gradescope(grade))["tests"][0] | {"score": 2.0, "status": "passed"}
        == (json.loads(reports.gradescope(grade))["tests"][0])
    )
    assert cli.main([str(tmp_path), "--exercises", "3.1=2", "--bundle", str(tmp_path / "b.zip")]) == 0
    with zipfile.ZipFile(tmp_path / "b.zip") as archive:
        assert "--exercises 3.1=2" in archive.read("run_autograder").decode()
        assert archive.getinfo("setup.sh").external_attr >> 16 & 0o111

"""vitnb-grade: the same verdicts as check gives, from a sandbox that a submission cannot leave."""

import contextlib
import csv
import importlib.util
import json
import os
import re
import shutil
import signal
import sys
import time
import zipfile
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
from nbformat.v4 import new_code_cell, new_notebook

if not sys.platform.startswith("linux"):
    pytest.skip("the sandboxes are Linux's", allow_module_level=True)  # before the imports: Windows has no `resource`

from vitbook.exercises import engine  # noqa: E402
from vitbook.grading import cli, reports, sandbox, student, wire  # noqa: E402
from vitbook.grading.submissions import Submission, submissions  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60.0  # enough for any answer that ends, on a very busy machine
HEAD = "import math, os, sys\n"
TORCH = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
CHECK = 'from vitbook import check\n_ = check("3.1", my_attention)'
RIGHT = """
def my_attention(q, k, v):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    return scores.softmax(dim=-1) @ v
"""
UNDIVIDED = RIGHT.replace(" / q.shape[-1] ** 0.5", "")
# Where the answer does not matter: a process that is given no tensor starts without torch, which takes seconds.
COUNT_CHECK = 'from vitbook import check\n_ = check("1.1", count_tokens)'
COUNT = """
def count_tokens(height, width, patch_size):
    if height % patch_size or width % patch_size:
        raise ValueError("a side cannot be cut")
    return (height // patch_size) * (width // patch_size)
"""
TELL = "def count_tokens(*size):\n    raise ValueError(repr(seen)[:1500])"
WRONG = COUNT.replace("* (width", "+ (width")


@pytest.fixture(scope="session")
def way():
    """The best sandbox of this machine."""
    found, reasons = sandbox.best()
    if found is None:
        pytest.skip(f"no sandbox works here: {reasons}")
    return found


@pytest.fixture
def known(way, monkeypatch):
    """The same, which the command takes without another try."""
    monkeypatch.setattr(sandbox, "best", lambda: (way, {way: ""}))
    return way


def answering(line: str) -> str:
    """An answer to 3.1 that does something else first."""
    return RIGHT.replace("    scores", f"    {line}\n    scores", 1)


def counting(line: str) -> str:
    """An answer to 1.1 that does something else first."""
    return COUNT.replace("    if", f"    {line}\n    if", 1)


def store(path: Path, *cells: str | list) -> Path:
    """Write a notebook with these cells; a list is written as it is, be it no cell."""
    head = HEAD + TORCH * any(re.search(r"\b(torch|nn|F)\.|q, k, v", code) for code in cells if isinstance(code, str))
    codes = [code for code in (head, *cells) if isinstance(code, str)]
    # Random names of cells would be other bytes in each run, and so other random numbers of the checks.
    book = new_notebook(cells=[new_code_cell(code, id=str(n)) for n, code in enumerate(codes)])
    path.write_text(json.dumps(book | {"cells": [*(code for code in cells if isinstance(code, list)), *book.cells]}))
    return path


def said_of(way: str, path: Path, *cells: str, number: str = "", seconds: float = SECONDS) -> student.Verdict:
    """The verdict on a notebook with these cells, on 1.1 if they count tokens, else on 3.1."""
    number = number or ("1.1" if "def count_tokens" in "".join(map(str, cells)) else "3.1")
    return student.judge(way, store(path / "one.ipynb", *cells), [number], seconds=seconds)[number]


# What a submission may be like, and what must be said of it: right or not, and words of the sentence.
WRITTEN = {
    "right": ((COUNT, COUNT_CHECK), True, "Right:"),
    "the check cell deleted": ((COUNT,), True, "Right:"),
    "an error in another cell": (("1 / 0", COUNT, COUNT_CHECK), True, "Right:"),
    "untouched": (("def count_tokens(height, width, patch_size):\n    ...", COUNT_CHECK), False, "not done yet"),
    "left to an error": ((counting("raise NotImplementedError"), COUNT_CHECK), False, "not done yet"),
    "nothing": ((), False, "not done yet"),
    "an error of its own": ((counting('raise IndexError("no such head")'), COUNT_CHECK), False,
                           'IndexError in the line `raise IndexError("no such head")`: no such head'),
    "a syntax error": (("def count_tokens(*size)\n    return 1", COUNT_CHECK), False, "SyntaxError"),
}  # fmt: skip

# Answers to 3.1, and what must be said of each. One notebook has them all, each with its check: torch starts once.
ANSWERED = {
    "right": (RIGHT, True, "Right:"),
    "torch's": ("def my_attention(*qkv):\n    return F.scaled_dot_product_attention(*qkv)", True, ""),
    "a lambda": ("my_attention = lambda q, k, v: (q @ k.mT / k.size(-1) ** 0.5).softmax(-1) @ v", True, ""),
    "untouched": ("def my_attention(q, k, v):\n    ...", False, "not done yet"),
    "not divided": (UNDIVIDED, False, "not divided"),
    "softmax over the queries": (RIGHT.replace("dim=-1", "dim=-2"), False, "softmax runs over the queries"),
    "no softmax": (RIGHT.replace(".softmax(dim=-1)", ""), False, "softmax is missing"),
    "changes what it is given": (answering("q.mul_(2)"), False, "changes what it is given"),
    "returns nothing": (RIGHT.replace("return ", "x = "), False, "None"),
    "lists in lists in lists": (
        "def my_attention(q, k, v):\n    x = []\n    for _ in range(100_000): x = [x]\n    return x", False,
        "Expected a tensor of shape",
    ),
    "nothing but NaN": (answering("return v * float('nan')"), False, "holds NaN"),
    "infinite": (answering("return v * 0 + float('inf')"), False, ""),
    "a type that nobody compares": (answering("return v.to(torch.float8_e4m3fn)"), False, "float8"),
    "a tensor that agrees with everything": (
        "class Yes(torch.Tensor):\n    @classmethod\n    def __torch_function__(cls, *a, **k): return True\n"
        "def my_attention(q, k, v):\n    return v.as_subclass(Yes)", False, "Expected a tensor of shape",
    ),
    "letters that no file can hold": (
        answering("raise ValueError('\\ud800 \\x1b[2J\\u202e\\x00 half')"), False, "half",
    ),
    "a name of an error that is none": (
        "class Odd(Exception): pass\nOdd.__name__ = 'A\\nB' * 10**6" + answering("raise Odd('x' * 10**6)"),
        False, "raises",
    ),
    "takes all memory": (answering("x = [torch.empty(1 << 28) for _ in range(1000)]"), False, "memory"),
}  # fmt: skip

HOSTILE = {
    "a loop in the function": ((counting("while True: pass"), COUNT_CHECK), False, "loop that does not end"),
    "a loop that catches everything": (
        ("while True:\n    try:\n        while True: pass\n    except BaseException: pass", COUNT), True, "Right:",
    ),
    "waits": ((counting("import time; time.sleep(3600)"), COUNT_CHECK), False, "took too long"),
    "os._exit in the function": ((counting("os._exit(0)"), COUNT_CHECK), False, "ended the program"),
    "returns too much": ((counting("import numpy; return numpy.zeros((1 << 23) + 1)"), COUNT_CHECK), False, "64 MB"),
    "replaces the check": (
        ("from vitbook import exercises\nexercises.check = lambda *a: True\ntorch.allclose = lambda *a, **k: True",
         UNDIVIDED, CHECK), False, "not divided",
    ),
    "writes to the pipe": (
        ("for fd in range(3, 40):\n    try: os.write(fd, b'x' * 4096)\n    except OSError: pass", COUNT, COUNT_CHECK),
        False, "",
    ),
    "says that it is ready, and answers": (
        ("from vitbook.grading.wire import packed\nsaid = packed({'errors': [], 'answers': ['1.1']})\n"
         "said += packed({'right': True, 'sound': True, 'returned': 4, 'said': 'Right: yes'})\n"
         "for fd in range(3, 40):\n    try: os.write(fd, said)\n    except OSError: pass\n"
         "import time; time.sleep(3600)", COUNT, COUNT_CHECK), False, "before it was asked",
    ),
    "answers twice": (
        ("from vitbook.grading.wire import packed",
         "import fcntl\ndef writes(fd):\n    try: return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY\n"
         "    except OSError: return False",
         counting("[os.write(fd, packed({'returned': 4})) for fd in range(3, 9) if writes(fd)]"), COUNT_CHECK),
        False, "something else than an answer",
    ),
    "much that is no tensor": ((counting("return [0] * (1 << 21)"), COUNT_CHECK), False, "4 MB that are no tensors"),
    "threads without end": (
        (counting("import threading, time; [threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
                   " for _ in range(600)]; time.sleep(60)"), COUNT_CHECK), False, "",
    ),
    "folders in folders": (
        ("for _ in range(3000):\n    os.mkdir('d'); os.chdir('d')\nos.chdir('/tmp')", COUNT, COUNT_CHECK),
        True, "Right:",
    ),
    "a folder that nobody may enter": (
        ("os.makedirs('shut/in'); open('shut/in/x', 'w').write('x'); os.chmod('shut', 0)", COUNT, COUNT_CHECK),
        True, "Right:",
    ),
    "fills its folder": (
        ("def count_tokens(*size):\n    for n in range(10_000):\n"
         "        try: open(str(n), 'wb').write(bytes(32 << 20))\n        except OSError: raise MemoryError('full')",
         COUNT_CHECK),
        False, "",
    ),
    "cells that are none": (([["not", "a", "cell"]], COUNT, COUNT_CHECK), True, "Right:"),
    "processes without end": (
        ("def count_tokens(*size):\n    while True:\n        try: os.fork()\n        except OSError: pass",
         COUNT_CHECK), False, "too many processes",
    ),
}  # fmt: skip


ENDLESS = [case for case in HOSTILE if "loop" in case or case == "waits"]


@pytest.mark.parametrize("case", WRITTEN)
def test_a_submission_gets_the_verdict_of_check(case, way, tmp_path):
    cells, right, words = WRITTEN[case]
    verdict = said_of(way, tmp_path, *cells)
    assert verdict.right == right and words in verdict.sentence, verdict.sentence
    assert verdict.where == "outside"


@pytest.fixture(scope="module")
def answered(way, tmp_path_factory):
    """The verdict on each answer of ANSWERED, all in one notebook."""
    cells = [cell for code, *_ in ANSWERED.values() for cell in (code, CHECK)]
    said, judge_one = [], student._outside
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(student, "TRIES", len(ANSWERED))
        patch.setattr(student, "_outside", lambda *given: said.append(judge_one(*given)) or said[-1])
        student.judge(way, store(tmp_path_factory.mktemp("answered") / "x.ipynb", *cells), ["3.1"], seconds=SECONDS)
    return dict(zip(ANSWERED, said, strict=True))


@pytest.mark.parametrize("case", ANSWERED)
def test_an_answer_with_tensors_gets_the_verdict_of_check(case, answered):
    _, right, words = ANSWERED[case]
    assert answered[case].right == right and words in answered[case].sentence, answered[case].sentence


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_submission_fails_alone(case, way, tmp_path):
    cells, right, words = HOSTILE[case]
    seconds = SECONDS if case not in ENDLESS else 1.5
    verdict = said_of(way, tmp_path, *cells, seconds=seconds)
    assert verdict.right == right and words in verdict.sentence, verdict.sentence


def test_too_many_processes_are_told_where_the_watch_comes_late(way, tmp_path, monkeypatch):
    if way == "container":
        pytest.skip("the engine counts processes there")
    monkeypatch.setattr(student.sandbox, "excess", lambda *_: "")
    code = f"""def count_tokens(*size):
    for _ in range({sandbox.PROCESSES} + 6):
        if not os.fork(): break
    while True: time.sleep(1)"""
    assert "too many processes" in said_of(way, tmp_path, "import os, time", code, COUNT_CHECK, seconds=4.0).sentence


def alive() -> str:
    """The names of all processes that are no zombies."""
    said = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            said.append(path.read_text())
    return " ".join(one for one in said if one.rpartition(")")[2].split()[0] != "Z")


ENGINE = """#!/bin/sh
'''exec' "{python}" "$0" "$@"
' '''  # the folder of Python may have a space, which a #! line must not
# What `podman run` promises, kept by bubblewrap: an engine of containers for a machine that has none.
import argparse, json, os, resource, sys
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + chr(10))
if sys.argv[1] != "run":
    sys.exit()
parser = argparse.ArgumentParser(allow_abbrev=False)
for name in ("rm", "read-only"):
    parser.add_argument("--" + name, action="store_true", required=True)
parser.add_argument("-i", action="store_true", required=True)
for name in ("name", "network", "shm-size", "workdir", "pull", "memory", "memory-swap", "pids-limit", "cap-drop",
             "security-opt", "user"):
    parser.add_argument("--" + name, required=True)
for name in ("tmpfs", "ulimit", "env"):
    parser.add_argument("--" + name, action="append", required=True)
parser.add_argument("-v", action="append", required=True)
parser.add_argument("image")
parser.add_argument("command", nargs=argparse.REMAINDER)
asked = parser.parse_args(sys.argv[2:])
assert (asked.network, asked.cap_drop, asked.security_opt) == ("none", "ALL", "no-new-privileges")
assert asked.user == "65534:65534" and asked.memory == asked.memory_swap and int(asked.pids_limit) > 0
inner = ["bwrap", "--unshare-all", "--die-with-parent", "--cap-drop", "ALL", "--uid", "65534", "--gid", "65534"]
inner += ["--clearenv", "--setenv", "PATH", "/usr/bin"]
for name in ("/usr", "/etc/ld.so.cache", "/bin", "/lib", "/lib64"):
    inner += ["--ro-bind-try", name, name]
inner += ["--proc", "/proc", "--dev", "/dev", "--ro-bind", "/proc/sys", "/proc/sys"]  # as engines mount it
inner += ["--size", str(64 << 20), "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
def bounded(asked):
    path, _, size = asked.partition(":size=")
    return ["--size", str(int(size[:-1]) << dict(k=10, m=20)[size[-1]]), "--tmpfs", path]
for one in sorted([bounded(one) for one in asked.tmpfs]
                  + [["--ro-bind", one, one] for one in {image!r}]  # it may lie in /tmp
                  + [["--ro-bind", *one.removesuffix(":ro").split(":")] for one in asked.v], key=lambda x: len(x[-1])):
    inner += one
for one in asked.env:
    inner += ["--setenv", *one.split("=", 1)]
for one in asked.ulimit:
    name, _, most = one.partition("=")
    if name != "nproc":  # here it would count all processes of the machine's user
        resource.setrlimit(getattr(resource, "RLIMIT_" + name.upper()), tuple(map(int, most.split(":"))))
assert asked.command[0] == "python"
os.execvp("bwrap", [*inner, "--remount-ro", "/", "--chdir", asked.workdir, sys.executable, *asked.command[1:]])
"""


@pytest.fixture
def engine_log(tmp_path_factory, monkeypatch):
    """A machine whose podman is a program that keeps the same promises; yields the file of what it was asked."""
    if not shutil.which("bwrap"):
        pytest.skip("the engine of this test needs bubblewrap")
    folder = tmp_path_factory.mktemp("engine")
    log, program = folder / "asked.jsonl", folder / "podman"
    image = [str(path) for path in sandbox.readable()]  # what the image brings: Python and torch
    program.write_text(ENGINE.format(python=sys.executable, log=str(log), image=image))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return log


def test_a_container_gives_the_same_verdicts_and_is_removed(engine_log, tmp_path):
    assert sandbox.works("container") == ""
    assert said_of("container", tmp_path, COUNT, COUNT_CHECK).right
    assert not said_of("container", tmp_path, WRONG, COUNT_CHECK).right
    lost = said_of("container", tmp_path, counting("os._exit(0)"), COUNT_CHECK)
    assert not lost.right and "ended the program" in lost.sentence
    spy = counting("raise ValueError(os.listdir(os.path.dirname(__import__('vitbook').__file__) + '/exercises'))")
    assert "ValueError" in (said := said_of("container", tmp_path, spy, COUNT_CHECK).sentence) and "[]" in said
    asked = [json.loads(line) for line in engine_log.read_text().splitlines()]
    started = [one[one.index("--name") + 1] for one in asked if one[0] == "run"]
    removed = [one[-1] for one in asked if one[:2] == ["rm", "--force"]]
    assert len(started) >= 5 and set(started) == set(removed)


@pytest.mark.parametrize("promise", ["--network", "--read-only", "--cap-drop", "--memory", "--pids-limit", "--user"])
def test_a_container_without_a_bound_does_not_start(promise, engine_log, monkeypatch):
    def lax(job, name):
        command = sandbox.container(job, name)
        at = command.index(promise)
        return command[:at] + command[at + (1 if promise == "--read-only" else 2) :]

    monkeypatch.setitem(sandbox.WAYS, "container", lax)
    assert sandbox.works("container").startswith("it does not start")


def test_a_process_that_dies_takes_no_other_exercise_with_it(way, tmp_path):
    path = store(tmp_path / "one.ipynb", counting("os._exit(0)"), COUNT_CHECK, "def my_rotation(x): ...")
    said = student.judge(way, path, ["1.1", "3.2", "5.2"], seconds=SECONDS)
    assert "ended the program" in said["1.1"].sentence
    assert said["3.2"].sentence.startswith("3.2: not done yet") and said["5.2"].where == "inside"


def test_a_verdict_forged_inside_is_seen(way, tmp_path):
    number = "5.2"
    name = engine.EXERCISES[number].signature.split("(")[0]
    forge = "from vitbook.exercises import engine\nengine.judged = lambda *a: (True, 'Right: of course', 1.0)"
    late = f"class {name}(nn.Module):\n    def __init__(self, *a):\n        super().__init__()\n        exec({forge!r})"
    cells = ("def forge():\n    import sys\n    engine = sys.modules['vitbook.exercises.engine']\n"
             "    engine.judged = lambda *a: (True, 'Right: of course', 1.0)\nforge()", late)  # fmt: skip
    verdict = said_of(way, tmp_path, *cells, number=number)
    assert not verdict.right and verdict.suspect


TELLING = """
import types
told, told_of = [], []
def names(thing, depth=0):
    kind = thing if isinstance(thing, type) else type(thing)
    yield from (kind.__name__, kind.__qualname__, kind.__module__, str(kind.__doc__))
    if isinstance(thing, types.FunctionType):
        yield from (thing.__name__, thing.__qualname__, thing.__module__, str(thing.__doc__))
        yield from (thing.__code__.co_name, thing.__code__.co_qualname, thing.__code__.co_filename)
        for cell in thing.__closure__ or ():
            yield from names(cell.cell_contents, depth + 1)
    if isinstance(thing, nn.Module):
        for part in thing.modules():
            yield from (type(part).__name__, type(part).__module__, repr(part)[:40])
            yield from (type(part).forward.__code__.co_filename,)
"""
TESTS = {"0.3": "my_test(model)", "5.4": "is_pre_norm(wire)", "7.4": "is_cls(Pool)", "8.5": "is_complete(build)",
         "11.2": "is_rollout(function)"}  # fmt: skip


@pytest.fixture(scope="module")
def told(way, tmp_path_factory):
    """What the test of each exercise says that it can tell by, all in one notebook."""
    tests = [line.rstrip(")").split("(") for line in TESTS.values()]
    answer = "def {}({given}):\n    raise ValueError(' '.join(sorted(set(names({given})))))"
    cells = [answer.format(name, given=given) for name, given in tests]
    return student.judge(way, store(tmp_path_factory.mktemp("told") / "x.ipynb", TELLING, *cells), list(TESTS))


@pytest.mark.parametrize("number", TESTS)
def test_what_is_handed_to_a_test_has_no_name_that_tells(number, told):
    said = told[number].sentence
    assert "ValueError" in said
    told_by = said.partition("ValueError")[2].partition("It was called")[0].split("`")[-1]
    assert not re.search(r"vitbook|vitnb\.", told_by), said  # vitnb/vit.py, where its own layers are, lies open


# Those that load the data train in their cells; the experiments behind their exercises would be run once more.
SOLVED = [path for path in sorted((ROOT / "book" / "solutions").glob("*.ipynb")) if "data.load" not in path.read_text()]


def exercises_of(path: Path) -> list[str]:
    """The exercises that a notebook of solutions answers."""
    chapter = path.stem.split("-")[0].lstrip("0") or "0"
    return [n for n in engine.EXERCISES if n.split(".")[0] == chapter]


@pytest.fixture(scope="module")
def solved(way, tmp_path_factory):
    """The verdicts on all published solutions, in one notebook: torch starts once inside and once outside."""
    paths = [path for path in SOLVED if path.stem != "jax" or importlib.util.find_spec("flax")]
    codes = [cell["source"] for path in paths for cell in json.loads(path.read_text())["cells"] if "outputs" in cell]
    path = store(tmp_path_factory.mktemp("solved") / "all.ipynb", *("".join(code) for code in codes))
    numbers = [n for path in paths for n in exercises_of(path)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sandbox, "SECONDS", sandbox.SECONDS * len(paths))  # which is for one chapter
        return student.judge(way, path, numbers, seconds=2 * student.SECONDS)


@pytest.mark.parametrize("path", SOLVED, ids=lambda path: path.stem)
def test_published_solutions_are_right_through_the_grader(path, solved):
    numbers = exercises_of(path)
    if path.stem == "jax" and importlib.util.find_spec("flax") is None:
        pytest.skip("no flax here")
    assert [n for n in numbers if not solved[n].right] == [], solved
    assert {n for n in numbers if solved[n].where == "inside"} == {n for n in numbers if student.inside(n)}


def test_a_class_in_one_command(known, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cli, "get_context", lambda _: get_context("fork"))  # which need not import torch
    folder = tmp_path / "in"
    folder.mkdir()
    for name, code in {"Ada": COUNT, "Ben": WRONG, "=cmd": COUNT}.items():
        store(folder / f"{name}.ipynb", code, COUNT_CHECK)
    sheet = tmp_path / "moodle.csv"
    sheet.write_text("Identifier,Full name,Grade,Feedback comments\nParticipant 1,Ada,,\nParticipant 2,Ben,,\n")
    out = tmp_path / "out"
    course = tmp_path / "course.py"
    course.write_text(
        "from vitbook.exercises.forms import compute\nfrom vitbook.exercises.engine import fresh\n"
        "compute('c.1', 'twice(x)', 'a', 'b', cases=lambda: [(fresh(2, 3),)], reference=lambda x: 2 * x,\n"
        "    mistakes={'You squared.': lambda x: x * x}, otherwise='no', right='twice.')\n"
    )
    store(folder / "Ada-more.ipynb", "def twice(x):\n    return x * x")
    options = ["--exercises", "1.1=2", "c.1", "--course", str(course), "--out", str(out), "--sheet", str(sheet)]
    assert cli.main([str(folder), *options, "--seconds", str(SECONDS)]) == 0
    rows = list(csv.DictReader((out / "grades.csv").read_text().splitlines()))
    points = {(row["student"], row["exercise"]): row["points"] for row in rows}
    assert points["Ada", "1.1"] == "2" and points["Ben", "1.1"] == "0" and points["'=cmd", "1.1"] == "2"
    assert next(r["verdict"] for r in rows if r["student"] == "Ada-more" and r["exercise"] == "c.1").startswith(
        "You squared"
    )
    filled = {row["Full name"]: row for row in csv.DictReader((out / "moodle.csv").read_text().splitlines())}
    assert filled["Ada"]["Grade"] == "2" and "one row plus one column" in filled["Ben"]["Feedback comments"]
    page = next((out / "feedback").glob("Ben*.html")).read_text()
    assert "one row plus one column" in page and "<script" not in page and "http://" not in page
    assert "not listed in it: =cmd, Ada-more" in capsys.readouterr().out


def test_a_course_is_read_from_wherever_it_is_named_and_by_nobody_inside(known, tmp_path, monkeypatch):
    (tmp_path / "in").mkdir()
    name = engine.EXERCISES["5.2"].signature.split("(")[0]
    reads = "raise RuntimeError(open(sys.argv[-1]).read()[:9999])"
    spy = f"class {name}(nn.Module):\n    def __init__(self, *a):\n        {reads}"
    store(tmp_path / "in" / "Eve.ipynb", spy, f'check("5.2", {name})')
    (tmp_path / "course.py").write_text("SECRET = 1\n")
    monkeypatch.chdir(tmp_path)
    options = ["in", "--exercises", "5.2", "--course", "course.py", "--out", "out"]
    assert cli.main([*options, "--seconds", str(SECONDS)]) == 0
    [row] = csv.DictReader((tmp_path / "out" / "grades.csv").read_text().splitlines())
    assert row["judged"] == "inside" and "Error" in row["verdict"], row
    assert "SECRET" not in row["verdict"] and "did not run to its end" not in row["verdict"]


class Scaled:
    """A student whose answer to 3.1 is too large by half."""

    pending = False

    def __init__(self, seed: str):
        self.seed = seed

    def ask(self, number, given, until):
        return {"returned": 1.5 * torch.nn.functional.scaled_dot_product_attention(*given)}


def test_a_second_judge_of_a_notebook_says_the_same_to_the_letter(way, tmp_path):
    """By how much an answer is off depends on random numbers: they are drawn anew for another notebook only."""
    cells = json.loads((ROOT / "book/solutions/15-pretrained.ipynb").read_text(encoding="utf-8"))["cells"]
    (layer,) = (one for cell in cells if "class QueryValueLoRA" in (one := "".join(cell["source"])))
    doubled = layer.replace("q + x @", "q + 2 * x @")
    books = [store(tmp_path / f"{n}.ipynb", TORCH, doubled, f"# {n}") for n in range(2)]
    inside = [student.judge(way, books[n], ["15.4"], seconds=SECONDS)["15.4"] for n in (0, 0, 1)]
    outside = [student._outside(Scaled(seed), "3.1", time.monotonic() + SECONDS) for seed in ("a", "a", "b")]
    for words, (first, again, other) in (("With random products", inside), ("off by", outside)):
        assert first == again and not first.right
        assert words in first.sentence and first.sentence != other.sentence


def fatal(submission: Submission) -> reports.Grade:
    """In a process of its own: Eve ends it, and Max kills it."""
    if submission.student == "Eve":
        os._exit(3)
    if submission.student == "Max":
        os.kill(os.getpid(), signal.SIGKILL)
    return reports.Grade(submission, {"3.1": student.Verdict(True, "Right")}, {"3.1": 1.0})


@pytest.mark.parametrize("order", [("Ada", "Eve", "Zoe"), ("Max", "Ada", "Zoe")])
def test_a_dead_process_of_the_grader_costs_no_other_student(order, monkeypatch):
    """Its processes begin as copies of this one: they need not import torch."""
    monkeypatch.setattr(cli, "get_context", lambda _: get_context("fork"))
    found = [Submission(name, name) for name in order]
    grades = {one.submission.student: one for one in cli.everyone(fatal, found, {"3.1": 1.0}, 2, None)}
    assert {name: one.total for name, one in grades.items()} == {name: name in ("Ada", "Zoe") for name in order}
    assert all("ended" in one.verdicts["3.1"].suspect for one in grades.values() if not one.total)


def test_a_submission_cannot_pass_for_another_students(tmp_path):
    for path in ("Ben/x.ipynb", "Ada/Ben_1_assignsubmission_file/x.ipynb", "Ada/Ben_77_1_x.ipynb"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        store(tmp_path / path)
    with submissions(tmp_path) as found:
        assert {one.student: len(one.notebooks) for one in found} == {"Ben": 1, "Ada": 2}


def test_links_in_a_folder_lead_nowhere(tmp_path):
    store(tmp_path / "secret.ipynb", "'secret'")
    (tmp_path / "in" / "Ada").mkdir(parents=True)
    (tmp_path / "in" / "Ada" / "x.ipynb").symlink_to(tmp_path / "secret.ipynb")
    (tmp_path / "in" / "Ben").symlink_to(tmp_path)
    store(tmp_path / "in" / "Zoe.ipynb")
    with submissions(tmp_path / "in") as found:
        assert all("secret'" not in path.read_text() for one in found for path in one.notebooks)


def test_a_column_that_is_missing_is_told_before_anything_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sandbox, "best", lambda: ("none", {"none": ""}))
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


def test_a_folder_without_notebooks_is_refused(tmp_path):
    with pytest.raises(ValueError, match="holds no notebook"), submissions(tmp_path):
        pass
    with pytest.raises(FileNotFoundError, match="neither a folder nor a file"), submissions(tmp_path / "nowhere"):
        pass


def test_a_bomb_in_a_zip_is_its_students_alone(tmp_path, monkeypatch):
    """Too large, too many, damaged, encrypted: whatever one uploads, the class is graded."""
    monkeypatch.setattr("vitbook.grading.submissions.LARGEST", 1000)
    monkeypatch.setattr("vitbook.grading.submissions.BYTES", 3000)
    text = store(tmp_path / "one.ipynb").read_text()
    with zipfile.ZipFile(tmp_path / "all.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("Ada_1_assignsubmission_file_/x.ipynb", text)
        archive.writestr("Big_2_assignsubmission_file_/x.ipynb", "0" * 10_000_000)
        archive.writestr("Bad_3_assignsubmission_file_/x.ipynb", text)
        archive.writestr("Key_4_assignsubmission_file_/x.ipynb", text)
        for n in range(50):
            archive.writestr(f"Many_5_assignsubmission_file_/{n}.ipynb", text)
        places = {one.filename[:3]: one.header_offset for one in archive.infolist()}
    packed = bytearray((tmp_path / "all.zip").read_bytes())
    packed[places["Bad"] + 80] ^= 0xFF
    key = packed.rindex(b"Key_4")
    packed[key - 46 + 8] |= 1  # the flag of an encrypted entry
    (tmp_path / "all.zip").write_bytes(packed)
    with submissions(tmp_path / "all.zip") as found:
        one = {each.student: each for each in found}
        assert set(one) == {"Ada", "Big", "Bad", "Key", "Many"}
        assert [len(one[name].notebooks) for name in ("Ada", "Big", "Bad", "Key")] == [1, 0, 0, 0]
        assert not one["Ada"].problems and all(one[name].problems for name in ("Big", "Bad", "Key", "Many"))
        assert sum(path.stat().st_size for path in one["Many"].notebooks) <= 3000


def test_the_time_for_all_of_a_students_notebooks_is_bounded(way, tmp_path):
    loop = "def count_tokens(*size):\n    while True: pass"
    paths = [store(tmp_path / f"{n}.ipynb", loop, COUNT_CHECK) for n in range(30)]
    one = Submission("Eve", "Eve", tuple(paths), tuple(path.name for path in paths))
    start = time.monotonic()
    grade = cli.graded(way, one, {"1.1": 1.0}, 0.2)
    assert grade.total == 0 and time.monotonic() - start < cli.PATIENT * student.patience(["1.1"], 0.2) + 15


def crossed(value):
    """A value as the grader gets it from the sandbox."""
    message = wire.packed(value)
    (text, body), rest = wire.HEAD.unpack(message[: wire.HEAD.size]), message[wire.HEAD.size :]
    assert len(rest) == text + body
    return wire.unpacked(rest[:text], rest[text:])


def test_data_crosses_as_it_is_and_nothing_else_does():
    values = [None, True, 3, 2.5, float("inf"), "text", ..., (1, [2, {"a": {3}}]), torch.arange(6).view(2, 3),
              torch.ones(2, dtype=torch.bool), torch.tensor(2.0, dtype=torch.bfloat16)]  # fmt: skip
    back = crossed(values)
    assert back[:-3] == values[:-3] and all(torch.equal(a, b) for a, b in zip(back[-3:], values[-3:], strict=True))
    unknown = torch.empty(1, dtype=torch.bits8)  # a type that no file of safetensors has
    for thing in (object(), torch.nn.Linear(1, 1), len, torch.ones(1, device="meta"), unknown):
        assert isinstance(crossed(thing), wire.Foreign)


@pytest.mark.parametrize("text", [b"", b"{", b'{"tensor": "0"}', b'{"float": "x"}', b"[" * 100_000, b'{"dict": 3}'])
def test_a_hostile_message_is_refused(text):
    with pytest.raises(ValueError, match="cannot be read"):
        wire.unpacked(text, b"")

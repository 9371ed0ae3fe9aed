"""How many small mistakes in the model, its training and the exercises do the tests notice?

    python -m tools.mutants draw > mutants.json      75 mutants of each part, seed 0
    python -m tools.mutants run mutants.json FILE    one line of JSON a mutant; goes on where it stopped
    python -m tools.mutants compare BEFORE AFTER     which were noticed before and are not any more

A mutant is one changed token: a comparison turned round, + for -, `and` for `or`, another
number, True for False; or a call left out. It is found again by the text of its line, so
that files may move; a line that is gone is reported as gone.
"""

import ast
import json
import random
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EACH, SEED, PATIENCE = 75, 0, 600  # mutants of a part, and seconds for the tests of one
PARTS = {  # part -> files; stems of test files, {} is the number of a chapter
    "model": (
        "vitnb/patches.py vitnb/positions.py vitnb/attention.py vitnb/blocks.py vitnb/pooling.py vitnb/vit.py"
        " vitnb/weights.py vitnb/inspection.py",
        "patches positions attention blocks pooling vit weights inspection bad_input border advice",
    ),
    "training": (
        "vitnb/training.py vitnb/evaluation.py vitnb/data.py",
        "training data border torchrun bad_input advice",
    ),
    "engine": (
        "vitbook/exercises/[defsvl]*.py",  # without chapters
        "checks checks_01 checks_03 checks_05 checks_09 checks_12",
    ),
    "exercises": ("vitbook/exercises/chapter_*.py", "checks_{} checks"),
}
SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "is": "is not", "in": "not in", "not": "",
         "+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "**": "*", "and": "or", "or": "and", "True": "False",
         "False": "True"}  # fmt: skip
CALL = re.compile(r"\s+[\w.]+\(.*\)$")
NO_BODY = re.compile(r"\s*(def|class|@|import|from)\b")


def possible(part: str, path: Path) -> Iterator[dict]:
    """All mutants of a file that are Python."""
    source = path.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(iter(source.splitlines(keepends=True)).__next__):
        line, at, old = token.line.rstrip("\n"), token.start[1], token.string
        new = SWAPS.get(old)
        if token.type == tokenize.NUMBER:
            new = repr(ast.literal_eval(old) + 1)
        if CALL.match(line) and at == len(line) - len(line.lstrip()):
            old, new = line[at:], "pass"
        if new is not None and line[at:].startswith(old) and not NO_BODY.match(line) and source.count(f"{line}\n") == 1:
            one = {"part": part, "file": path.name, "line": line, "at": at, "old": old, "new": new}
            try:
                ast.parse(source.replace(line, changed(one)))
            except SyntaxError:
                continue
            yield one


def changed(one: dict) -> str:
    return one["line"][: one["at"]] + one["new"] + one["line"][one["at"] + len(one["old"]) :]


def files(part: str) -> list[Path]:
    return sorted(path for pattern in PARTS[part][0].split() for path in ROOT.glob(pattern))


def tried(one: dict) -> str:
    """What the tests say of a mutant: noticed, survives, or gone if the line is not there any more."""
    for path in sorted(files(one["part"]), key=lambda path: path.name != one["file"]):  # or where it has moved
        text = path.read_text(encoding="utf-8")
        if text.split("\n").count(one["line"]) == 1:
            break
    else:
        return "gone"
    stem = one["file"].removesuffix(".py")
    stems = sorted(PARTS[one["part"]][1].format(stem.removeprefix("chapter_")).split(), key=lambda name: name != stem)
    tests = [str(path) for name in stems for path in ROOT.glob(f"tests/**/test_{name}.py")]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        path.write_text(text.replace(f"{one['line']}\n", f"{changed(one)}\n"), encoding="utf-8")
        done = subprocess.run(command, timeout=PATIENCE, capture_output=True, cwd=ROOT)
        return "noticed" if done.returncode else "survives"
    except subprocess.TimeoutExpired:
        return "noticed"
    finally:
        path.write_text(text, encoding="utf-8")


def main(what: str, *paths: str) -> None:
    if what == "draw":
        draw = random.Random(SEED)
        every = [[one for path in files(part) for one in possible(part, path)] for part in PARTS]
        print(json.dumps([one for of_part in every for one in draw.sample(of_part, EACH)], indent=0))
    elif what == "run":
        out = Path(paths[1])
        for one in json.loads(Path(paths[0]).read_text())[len(out.read_text().splitlines()) if out.exists() else 0 :]:
            said = json.dumps({"outcome": tried(one), **one})
            with out.open("a") as file:
                file.write(f"{said}\n")
    else:
        before, after = ([json.loads(line) for line in Path(path).read_text().splitlines()] for path in paths)
        for one, other in zip(before, after, strict=True):
            if (one["outcome"], other["outcome"]) == ("noticed", "survives"):
                print(json.dumps(other))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""How many small mistakes in the model, its training and the exercises do the tests notice?

    python -m tools.mutants draw > tools/mutants.json          300 mutants, seed 0
    python -m tools.mutants run tools/mutants.json FILE        one line of JSON a mutant; goes on where it stopped
    python -m tools.mutants compare BEFORE AFTER               which were noticed before and are not any more

A mutant is one changed token: a comparison turned round, + for -, `and` for `or`, another
number, True for False, a statement left out. It is found again by its function and the text
of its line, so that files may move; a line that is gone is reported as gone.
"""

import ast
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EACH, SEED, PATIENCE = 75, 0, 600  # mutants of a part, and seconds for the tests of one
PARTS = {  # part -> files; what is not there has moved
    "model": "vitnb/patches.py vitnb/positions.py vitnb/attention.py vitnb/blocks.py vitnb/pooling.py vitnb/vit.py"
    " vitnb/weights.py vitnb/inspection.py",
    "training": "vitnb/training.py vitnb/evaluation.py vitnb/data.py vitnb/checkpoint.py",
    "engine": "vitnb/checks/engine.py vitnb/checks/kinds.py vitbook/exercises/engine.py vitbook/exercises/forms.py"
    " vitbook/exercises/values.py vitbook/exercises/state.py vitbook/exercises/limits.py"
    " vitbook/exercises/declaration.py",
    "exercises": "vitnb/checks/chapter_*.py vitbook/exercises/chapter_*.py",
}
TESTS = {  # stems of test files; {} is the number of a chapter
    "model": "patches positions attention blocks pooling vit weights inspection bad_input border",
    "training": "training data border torchrun bad_input",
    "engine": "checks checks_01 checks_03 checks_05 checks_09 checks_12",
    "exercises": "checks_{} checks",
}
SWAPS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.Is: "is not",
    ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in", ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*",
    ast.FloorDiv: "/", ast.Pow: "*", ast.And: "or", ast.Or: "and",
}  # fmt: skip
WORDS = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in", ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
    ast.FloorDiv: "//", ast.Pow: "**", ast.And: "and", ast.Or: "or",
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    part: str
    file: str  # its name, without folders
    function: str
    line: str  # the text of the line
    at: int  # the column
    old: str
    new: str


def between(source: list[str], left: ast.AST, right: ast.AST, operator: ast.AST) -> tuple[int, int] | None:
    """Line and column of an operator between two operands on one line."""
    if left.end_lineno != right.lineno:
        return None
    at = source[left.end_lineno - 1].find(WORDS[type(operator)], left.end_col_offset, right.col_offset)
    return (left.end_lineno, at) if at >= 0 else None


def changes(source: list[str], node: ast.AST) -> Iterator[tuple[int, int, str, str]]:
    """Line, column, old and new text of all changes at one node."""
    pairs = []
    if isinstance(node, ast.Compare):
        pairs = list(zip([node.left, *node.comparators], node.comparators, node.ops, strict=False))
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in SWAPS and isinstance(node, ast.BinOp):
        pairs = [(node.left, node.right, node.op)]
    elif isinstance(node, ast.BoolOp):
        pairs = [(a, b, node.op) for a, b in zip(node.values, node.values[1:], strict=False)]
    for left, right, operator in pairs:
        if type(operator) in SWAPS and (place := between(source, left, right, operator)):
            yield *place, WORDS[type(operator)], SWAPS[type(operator)]
    if isinstance(node, ast.Constant) and type(node.value) in (bool, int, float) and node.lineno == node.end_lineno:
        old = source[node.lineno - 1][node.col_offset : node.end_col_offset]
        new = str(not node.value) if type(node.value) is bool else repr(node.value + 1 if node.value else 1)
        yield node.lineno, node.col_offset, old, new
    simple = isinstance(node, ast.Expr | ast.AugAssign) and not isinstance(getattr(node, "value", None), ast.Constant)
    if simple and node.lineno == node.end_lineno and not isinstance(getattr(node, "value", None), ast.Yield):
        yield node.lineno, node.col_offset, source[node.lineno - 1][node.col_offset : node.end_col_offset], "pass"


def possible(part: str, path: Path) -> Iterator[Mutant]:
    """All mutants of a file, but of annotations and texts: columns of ASCII lines are characters."""
    source = path.read_text(encoding="utf-8").split("\n")
    for top in ast.parse("\n".join(source)).body:
        for function in [top, *getattr(top, "body", [])] if isinstance(top, ast.ClassDef) else [top]:
            if not isinstance(function, ast.FunctionDef):
                continue
            name = function.name if function is top else f"{top.name}.{function.name}"
            for statement in function.body:
                for node in ast.walk(statement):
                    for number, at, old, new in changes(source, node):
                        line = source[number - 1]
                        if line.isascii() and source.count(line) == 1:
                            yield Mutant(part, path.name, name, line, at, old, new)


def files(part: str) -> list[Path]:
    return sorted(path for pattern in PARTS[part].split() for path in ROOT.glob(pattern))


def drawn() -> list[Mutant]:
    draw = random.Random(SEED)
    return [one for part in PARTS for one in draw.sample([m for f in files(part) for m in possible(part, f)], EACH)]


def tests(mutant: Mutant) -> list[Path]:
    """The files of tests that are there for this part, those of its own name first."""
    stems = TESTS[mutant.part].format(mutant.file.removeprefix("chapter_").removesuffix(".py")).split()
    stems.sort(key=lambda stem: stem != mutant.file.removesuffix(".py"))
    return [path for stem in stems for path in ROOT.glob(f"tests/**/test_{stem}.py")]


def tried(mutant: Mutant) -> str:
    """What the tests say of a mutant: noticed, survives, or gone if the line is not there any more."""
    for path in sorted(files(mutant.part), key=lambda path: path.name != mutant.file):  # or where it has moved
        text = path.read_text(encoding="utf-8")
        if text.split("\n").count(mutant.line) == 1:
            break
    else:
        return "gone"
    end = mutant.at + len(mutant.old)
    line = f"{mutant.line[: mutant.at]}{mutant.new}{mutant.line[end:]}"
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *map(str, tests(mutant))]
    try:
        path.write_text(text.replace(mutant.line + "\n", line + "\n"), encoding="utf-8")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": ROOT}
        return "survives" if subprocess.run(command, timeout=PATIENCE, **quiet).returncode == 0 else "noticed"
    except subprocess.TimeoutExpired:
        return "noticed"
    finally:
        path.write_text(text, encoding="utf-8")


def run(mutants: list[Mutant], out: Path) -> None:
    done = len(out.read_text().splitlines()) if out.exists() else 0
    for mutant in mutants[done:]:
        with out.open("a") as file:
            file.write(json.dumps({"outcome": tried(mutant), **asdict(mutant)}) + "\n")


def main(what: str, *paths: str) -> None:
    if what == "draw":
        print(json.dumps([asdict(one) for one in drawn()], indent=0))
    elif what == "run":
        run([Mutant(**one) for one in json.loads(Path(paths[0]).read_text())], Path(paths[1]))
    else:
        before, after = ([json.loads(line) for line in Path(path).read_text().splitlines()] for path in paths)
        for one, other in zip(before, after, strict=True):
            if one["outcome"] == "noticed" and other["outcome"] == "survives":
                print(json.dumps(other))
        for name, all_ in (("before", before), ("after", after)):
            print(
                name,
                {outcome: sum(m["outcome"] == outcome for m in all_) for outcome in ("noticed", "survives", "gone")},
            )


if __name__ == "__main__":
    main(*sys.argv[1:])

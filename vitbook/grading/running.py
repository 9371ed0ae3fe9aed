"""Run a notebook's cells as Jupyter runs them, in the sandbox: IPython's syntax, and none of its commands."""

import __future__

import ast
import contextlib
import inspect
import json
import linecache
import re
import sys
import types
from collections.abc import Callable, Collection
from functools import partial

import IPython
from IPython.core.inputtransformer2 import TransformerManager
from IPython.utils.text import SList

FUTURE = sum(getattr(__future__, name).compiler_flag for name in set(__future__.all_feature_names))
PYTHON = ("time", "timeit", "capture", "prun")  # magics whose body or line is Python
MAGIC = re.compile(r"\s*%%(?P<name>[\w!]+)(?P<line>[^\n]*)\n?(?P<body>.*)", re.DOTALL)
OPTIONS = re.compile(r"\s*(?:-[a-z]+(?:\s*\d+)?\s+|--\S+\s+)*")  # of %timeit and %time


class Stop(BaseException):
    """The cell is to end here, because the notebook could not be run beyond this place."""


def cells(path: str) -> list[str]:
    """The code cells of a notebook, as they stand in it."""
    with open(path, encoding="utf-8-sig") as file:
        book = json.load(file)
    found = [cell for cell in book["cells"] if isinstance(cell, dict) and cell.get("cell_type") == "code"]
    return ["".join(map(str, cell.get("source") or "")) for cell in found]


class Quiet:
    """Something of which any part can be called, and nothing happens: google.colab outside Colab."""

    def __getattr__(self, name: str) -> "Quiet":
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *given, **options) -> None:
        return None


class Shell(Quiet):
    """What get_ipython() is in a cell. A magic whose body is Python runs it; commands of the machine do nothing."""

    def __init__(self, space: dict):
        self.user_ns, self.flags = space, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        self.last = None

    def show(self, value) -> None:
        """Keep the last value of a cell as _, unless the reader has a name like that."""
        if self.user_ns.get("_", self.last) is self.last:
            self.user_ns["_"] = self.last = value

    def run_line_magic(self, name: str, line: str, *more, **options):
        """Run the Python of %time, %run and their like; return its value, as an assignment from it wants."""
        if name == "run":
            with open(line.split()[0]) as file:
                return exec(compile(file.read(), file.name, "exec"), self.user_ns)
        if name not in PYTHON or not line.strip():
            return None
        line = OPTIONS.sub("", line, count=1)
        with contextlib.suppress(SyntaxError):
            return eval(compile(line, "<cell magic>", "eval"), self.user_ns)
        exec(compile(line, "<cell magic>", "exec"), self.user_ns)

    def run_cell_magic(self, name: str, line: str, body: str):
        if name in PYTHON:
            exec(compile(TransformerManager().transform_cell(body), "<cell magic>", "exec"), self.user_ns)

    def getoutput(self, *command, **options) -> SList:
        return SList()


def prepared() -> dict:
    """The names of a notebook that has just been opened, in a module of its own: what it pickles is found there."""
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    space = main.__dict__
    shell = Shell(space)
    space.update(get_ipython=lambda: shell, display=lambda *things, **options: None, In=[""], Out={})
    return space


async def run(codes: list[str], space: dict, at: Callable[[int, int], None], stops: Collection) -> list[str]:
    """Run the cells one by one, as a reader would who goes on after an error; return the errors.

    at(cell, statement) is called before each statement; at those in stops, the cell ends.
    """
    errors: list[str] = []
    shell = space["get_ipython"]()

    def failed(n: int, error: BaseException) -> None:
        errors.append(f"cell {n}: {in_words(error)}"[:300])

    for n, code in enumerate(codes, 1):
        before = {k for m, k in stops if m == n}
        try:
            await _cell(code, f"<cell {n}>", shell, partial(at, n), before, partial(failed, n))
        except Stop:
            pass
        except BaseException as error:  # SystemExit and KeyboardInterrupt end a cell, too
            failed(n, error)
    return errors


def in_words(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # an error of a reader's own, that cannot say what it is
        return type(error).__name__


async def _cell(
    code: str,
    name: str,
    shell: Shell,
    at: Callable[[int], None],
    stops: set[int],
    failed: Callable[[BaseException], None],
) -> None:
    """Run one cell, statement by statement as IPython does, with `await` where it likes.

    A package that is not here was there for whoever wrote the cell: what follows its import is run.
    """
    python = TransformerManager().transform_cell(_body(code))
    linecache.cache[name] = (len(python), None, python.splitlines(True), name)
    nodes = ast.parse(python, name).body
    for k, node in enumerate(nodes):
        at(k)
        if k in stops:
            raise Stop
        shown = isinstance(node, ast.Expr) and k == len(nodes) - 1
        try:
            value = await _statement(node, name, shell, shown)
        except ModuleNotFoundError as error:
            if not isinstance(node, (ast.Import, ast.ImportFrom)):
                raise
            failed(error)
            if (error.name or "").startswith("google"):
                shell.user_ns.update({one.asname or one.name.split(".")[0]: Quiet() for one in node.names})
        else:
            if shown and value is not None:
                shell.show(value)
        if shell.user_ns.get("get_ipython") is IPython.get_ipython:  # imported: there it knows of no shell
            shell.user_ns["get_ipython"] = lambda: shell


async def _statement(node: ast.stmt, name: str, shell: Shell, shown: bool):
    tree = ast.Expression(node.value) if shown else ast.Module([node], [])
    made = compile(tree, name, "eval" if shown else "exec", shell.flags, dont_inherit=True)
    shell.flags |= made.co_flags & FUTURE  # `from __future__` holds in all later cells
    value = eval(made, shell.user_ns)
    return await value if made.co_flags & inspect.CO_COROUTINE else value


def _body(code: str) -> str:
    """A cell without its cell magics: %%time runs its body, %%writefile writes it, all others do nothing."""
    while met := MAGIC.match(code):
        if met["name"] in ("writefile", "file"):
            _written(met["line"], met["body"])
        if met["name"] not in PYTHON:
            return ""
        code = met["body"]
    return code


def _written(line: str, body: str) -> None:
    *options, path = line.split() or [""]
    with contextlib.suppress(OSError), open(path.strip("'\""), "a" if "-a" in options else "w") as file:
        file.write(body if body.endswith("\n") else body + "\n")

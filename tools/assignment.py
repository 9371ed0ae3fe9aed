"""Make an assignment from exercises of the book: a notebook to hand out, and one with the answers for the teacher.

    python -m tools.assignment week3 3.1 3.2 4.3 --points 2 1 3 --out assignments

The notebook to hand out has the texts, the skeletons and the instant checks, a
cell that installs vitnb on Colab, and no answers. It is also a source notebook for nbgrader (and
what reads its format): the cells that give points are locked and named. With
--course FILE.py a teacher's own exercises join: vitbook.exercises' own form, and
TASKS, a dict from the exercise's number to its text in Markdown. ANSWERS, a
dict from the number to the code of an answer, may be there, too: it goes into
the teacher's notebook alone.
"""

import argparse
import ast
import math
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from pages import notebooks, origin
from pages.frame import published
from pages.notebooks import checked
from vitbook.exercises import engine
from vitbook.exercises.forms import blank_class
from vitbook.grading import cli
from vitbook.grading.trial import IMPORTS
from vitnb._files import replacing

BOOK = notebooks.ROOT / "book"
HEADING = re.compile(r"^### Exercise ([\w.]+)\b.*$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://)([\w./-]*?)(\.ipynb|\.md)?(#[\w-]+)?\)")
GRADER = '''"""nbgrader: autograde with as much time as a check may take."""
c = get_config()
c.ExecutePreprocessor.timeout = 90
'''


class Exercise:
    """One exercise as the book has it: its text, its skeleton, its answer, and the code that it needs before."""

    def __init__(self, number: str, text: str, skeleton: str, answer: str, before: list[str]):
        self.number, self.text, self.skeleton, self.answer, self.before = number, text, skeleton, answer, before
        self.slug = number.replace(".", "-")
        called = re.search(r"check\(.*\)", skeleton, re.DOTALL)
        self.call = called[0] if called else ""  # a teacher's own exercise is judged when it is handed in
        made = ast.parse(skeleton).body
        self.names = {node.name for node in made if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        self.names |= {node.targets[0].id for node in made if isinstance(node, ast.Assign)} - {"_", "done", "shown"}


def find(number: str, home: str) -> Exercise:
    """Return an exercise of the book.

    Raises: ValueError if no chapter has it with a check.
    """
    for path in (BOOK / "solutions").glob(f"{number.partition('.')[0]:0>2}*.ipynb"):
        chapter, solutions = nbformat.read(BOOK / path.name, 4).cells, nbformat.read(path, 4).cells
        skeleton = next((cell.source for cell in chapter if checked(cell) == number), None)
        if skeleton is None:
            continue
        end = next((n for n, cell in enumerate(solutions) if checked(cell) == number), None)
        if end is None:
            raise ValueError(f"{path.stem} has no answer to exercise {number}")
        texts = {found[1]: part for cell in chapter for found, part in _parts(cell.source)}
        code = [c.source for c in solutions[:end] if c.cell_type == "code" and c.id != "setup" and not checked(c)]
        return Exercise(number, _linked(texts[number], path, home), skeleton, solutions[end].source, code)
    raise ValueError(f"no chapter asks for exercise {number!r} with a check: {', '.join(engine.EXERCISES)} are there")


def _parts(text: str) -> Iterator[tuple[re.Match, str]]:
    """The parts of a cell of text that are exercises, without folded solutions."""
    for found in HEADING.finditer(text):
        rest = text[found.start() :]
        yield found, re.split(r"\n(?=<details|#{1,3} )", rest[1:], maxsplit=1)[0].join(["#", ""]).strip()


def _linked(text: str, chapter: Path, home: str) -> str:
    """The text with links that lead into the published book, and without what only Sphinx reads."""

    def link(found: re.Match) -> str:
        page = f"book/{found[1]}" if found[1] else f"book/{chapter.stem}"
        return f"]({home}{page}.html{found[3] or ''})"

    return LINK.sub(link, re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL))


def own(course: ModuleType, number: str) -> Exercise:
    """Return a teacher's own exercise, with an answer where the teacher's file has one."""
    task, note = engine.EXERCISES[number], "(No instant check: this one is judged when you hand it in.)"
    is_class = isinstance(task, blank_class)
    head = f"class {task.signature.split('(')[0]}(nn.Module)" if is_class else f"def {task.signature}"
    text = f"### Exercise {number}\n\n{course.TASKS[number]}\n\n{note}"
    answer = getattr(course, "ANSWERS", {}).get(number, "").strip()
    return Exercise(number, text, f"{head}:\n    ...", answer, [IMPORTS])


def graded(grade_id: str, kind: str, points: float | None = None) -> dict:
    """What nbgrader reads of a cell: with points a locked test, without them one that the student may change."""
    fields = {"schema_version": 3, "grade_id": grade_id, "solution": False, "task": False, "cell_type": kind}
    tests = {"grade": True, "locked": True, "points": points}
    return {"nbgrader": fields | (tests if points is not None else {"grade": False, "locked": False})}


def handout(title: str, exercises: Sequence[Exercise], points: Sequence[float], address: str) -> NotebookNode:
    """The notebook to hand out; on Colab it installs vitnb from an address."""
    intro = (
        f"# {title}\n\nReplace each `...` by your code and run the cell: `check` says what is right or wrong with it, "
        "as often as you like, and `check(number, hint=1)` gives a hint. Do not rename the functions and classes. "
        "Hand in this notebook as it is when you are done."
    )
    cells = [new_markdown_cell(intro, id="title", metadata=graded("title", "markdown"))]
    imports = _once([code for one in exercises for code in one.before])
    cells.append(new_code_cell(imports, id="imports", metadata=graded("imports", "code")))
    for one, worth in zip(exercises, points, strict=True):
        text = re.sub(
            r"^(### .*)$", rf"\1 ({worth:g} point{'s' * (worth != 1)})", one.text, count=1, flags=re.MULTILINE
        )
        cells.append(new_markdown_cell(text, id=f"text-{one.slug}", metadata=graded(f"text-{one.slug}", "markdown")))
        answer = graded(f"answer-{one.slug}", "code")
        cells.append(new_code_cell(one.skeleton, id=f"answer-{one.slug}", metadata=answer))
        if not one.call:
            continue
        # An answer that is not there yet must not stop the notebook.
        locked = graded(f"check-{one.slug}", "code", worth) | {"tags": ["raises-exception"]}
        cells.append(new_code_cell(f"assert {one.call}", id=f"check-{one.slug}", metadata=locked))
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    made = new_notebook(cells=cells, metadata={**kernel, "language_info": {"name": "python"}})
    setup = notebooks.setup_cell(address)
    setup.metadata = {**graded("setup", "code"), "cellView": "form"}
    made.cells.insert(1, setup)
    nbformat.validate(made)
    return made


def solved(made: NotebookNode, exercises: Sequence[Exercise]) -> NotebookNode:
    """The same notebook with the book's answers: they are public, unlike those to a teacher's own exercises."""
    answers = {f"answer-{one.slug}": one.answer for one in exercises if one.answer}
    made = nbformat.from_dict(made)
    for cell in made.cells:
        cell.source = answers.get(cell.id, cell.source)
    return made


def _once(codes: Sequence[str]) -> str:
    """The imports and helpers of several chapters in one cell: each statement once, imports first."""
    seen: dict[str, bool] = {}
    for code in codes:
        for node in ast.parse(re.sub(r"^\s*[%!].*$", "pass", code, flags=re.MULTILINE)).body:
            seen.setdefault(
                ast.get_source_segment(code, node) or ast.unparse(node), isinstance(node, ast.Import | ast.ImportFrom)
            )
    imports = [text for text, is_import in seen.items() if is_import]
    helpers = [text for text, is_import in seen.items() if not is_import]
    return "\n\n\n".join(["\n".join(sorted(imports)), *helpers])


def write(
    name: str, numbers: Sequence[str], points: Sequence[float], out: Path, course: Path | None, title: str
) -> Path:
    """Write NAME.ipynb, NAME-answers.ipynb and nbgrader_config.py into a folder; return the first.

    Raises: ValueError for an exercise that does not exist, two that want the same name, or points for others.
    """
    if len(points) not in (1, len(numbers)):
        raise ValueError(f"{len(points)} points for {len(numbers)} exercises: give one for all, or one for each")
    if not all(0 <= worth < math.inf for worth in points):
        raise ValueError(f"points must be at least 0 and finite, got {', '.join(f'{p:g}' for p in points)}: use 1")
    points = list(points) * (len(numbers) // len(points))
    module = cli.load(course) if course else None
    slug = origin.repository(notebooks.repository(), notebooks.ROOT)
    home = published(slug) or "https://example.org/"
    private = getattr(module, "TASKS", {})
    exercises = [own(module, n) if n in private else find(n, home) for n in numbers]
    for n, one in enumerate(exercises):
        for other in exercises[:n]:
            if both := one.names & other.names:
                clash = f"exercises {other.number} and {one.number} both want {', '.join(sorted(both))}"
                raise ValueError(f"{clash}: put them into two assignments")
    # Students install what the teacher has, unless GitHub does not have it.
    at = origin.pushed(notebooks.ROOT) or origin.branch(folder=notebooks.ROOT)
    made = handout(title or name, exercises, points, origin.archive(slug, at))
    out.mkdir(parents=True, exist_ok=True)
    for path, notebook in ((out / f"{name}.ipynb", made), (out / f"{name}-answers.ipynb", solved(made, exercises))):
        with replacing(path) as part:
            part.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")
    (out / "nbgrader_config.py").write_text(GRADER)
    return out / f"{name}.ipynb"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the files")
    parser.add_argument("exercises", nargs="+", metavar="N", help="for example 3.1 3.2")
    parser.add_argument(
        "--points", nargs="+", type=float, default=[1.0], help="for each exercise, or one number for all"
    )
    parser.add_argument("--out", type=Path, default=Path("assignments"))
    parser.add_argument("--course", type=Path, metavar="FILE.py", help="a teacher's own exercises")
    parser.add_argument("--title", default="", help="at the top of the notebook")
    options = parser.parse_args(arguments)
    try:
        path = write(options.name, options.exercises, options.points, options.out, options.course, options.title)
    except (ValueError, OSError) as error:
        print(f"assignment: {error}", file=sys.stderr)
        return 2
    worth = dict(zip(options.exercises, options.points * len(options.exercises), strict=False))
    print(
        f"Hand out {path}. Grade with:\n  vitnb-grade FOLDER_OR_ZIP --exercises",
        *(f"{n}={p:g}" for n, p in worth.items()),
        *(["--course", options.course] if options.course else []),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())

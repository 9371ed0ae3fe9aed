"""Execute the book's notebooks and store their outputs, the same bytes each time.

    python -m pages.notebooks                  every notebook under book/
    python -m pages.notebooks 01-patchify      one chapter and its solutions
    python -m pages.notebooks --check ...      show what would change, write nothing
    python -m pages.notebooks --figures ...    run nothing, give the stored live figures today's JavaScript
                                               and the quizzes today's questions

Each notebook also gets the cell that installs vitnb on Colab, and a chapter the
code of its folded solutions, from book/solutions. The badge that opens it on
Colab comes with the commit (pages/stamp.py).
"""

import argparse
import difflib
import hashlib
import importlib.util
import json
import os
import re
import sys
import time
from pathlib import Path

import nbformat
import yaml
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat import NotebookNode

from pages import live_figures, origin
from vitnb._files import replacing

ROOT = Path(__file__).resolve().parents[1]
# --no-deps: Colab has all else that vitnb needs, and its own torch and ipywidgets must stay. Not %pip, which
# asks for a restart that is not needed, and not !pip, at which Pygments warns.
ANYWIDGET = re.search(r"^anywidget==[\d.]+", (ROOT / "requirements.txt").read_text(), re.MULTILINE)[0]
SETUP = """\
# @title Setup: on Colab this installs vitnb, elsewhere it does nothing
import sys

if "google.colab" in sys.modules:
    address = "{address}"
    packages = f"{anywidget} psygnal {{address}}"
    get_ipython().system(f"pip install -qq --no-deps {{packages}}")"""
KEPT_METADATA = {
    "notebook": ("accelerator", "mystnb", "widgets"),
    "cell": ("cellView", "jupyter", "mystnb", "slideshow", "tags"),
}
WIDGETS, VIEW = "application/vnd.jupyter.widget-state+json", "application/vnd.jupyter.widget-view+json"
# What a notebook may weigh, in bytes, and the live figures in it: where they hold a model or images to learn from, all.
MAX_BYTES, MAX_STATE = 2_000_000, 600_000
HEAVY = ("index", "00-it-trains-is-it-right", "08-vit", "11-looking-inside")
DRAWING = '<svg class="vd vd-wide"'  # one of vitbook.drawings: it says itself what is to be seen
MAX_LINE = 75  # characters of code, as in book/ruff.toml
# What a notebook needs beside requirements.txt, and the command that adds it.
NEEDS = {"jax": (("jax", "flax", "optax"), "make jax adds it")}
CHECKED = re.compile(r"^(?:\w+ = |assert )?check\(\s*\"([\w.]+)\",", re.MULTILINE)
FOLDED = re.compile(r"<summary>Solution</summary>\s*```python\n(.*?)```", re.DOTALL)
QUIZ = re.compile(r'^quiz\("(.+)"\)$', re.MULTILINE)
ABSOLUTE_PATH = re.compile(r"(?<![\w.:/])/(?:home|mnt|opt|private|root|tmp|Users|usr|var|work|content)/\w")


def repository() -> str:
    """Return owner/name as the notebooks shall show it: BOOK_REPOSITORY, or _config.yml."""
    declared = yaml.safe_load((ROOT / "_config.yml").read_text())["repository"]["url"]
    return os.environ.get("BOOK_REPOSITORY") or declared.removeprefix("https://github.com/")


def setup_cell(address: str, path: str = "") -> NotebookNode:
    """Return the cell that installs vitnb on Colab from an address, for the notebook at `path` in the repository."""
    folded = {"cellView": "form", "mystnb": {"code_prompt_show": "Setup on Colab"}, "tags": ["hide-cell"]}
    if Path(path).stem == "index":  # the first page begins with what it is
        folded = {"cellView": "form", "tags": ["remove-cell"]}
    source = SETUP.format(address=address, anywidget=ANYWIDGET)
    return nbformat.v4.new_code_cell(source, id="setup", metadata=folded)


def insert_setup(notebook: NotebookNode, address: str, path: str) -> None:
    """Put the setup cell before all other code, in place of an older one."""
    cells = [cell for cell in notebook.cells if cell.id not in ("badge", "setup")]
    code = [number for number, cell in enumerate(cells) if cell.cell_type == "code"]
    cells.insert(code[0] if code else len(cells), setup_cell(address, path))
    notebook.cells = cells


def checked(cell: NotebookNode) -> str | None:
    """Return the exercise that a cell of code hands to check."""
    found = CHECKED.search(cell.source)
    return found[1] if found and cell.cell_type == "code" else None


def insert_solutions(chapter: NotebookNode, solutions: NotebookNode) -> None:
    """Put the code of each solution, down to its check, into the fold below its exercise in the chapter.

    Raises: ValueError if there is a fold for a solution and no solution.
    """
    codes = {checked(cell): CHECKED.split(cell.source)[0].rstrip() for cell in solutions.cells if checked(cell)}
    exercise = ""
    for cell in chapter.cells:
        if cell.cell_type != "markdown":
            continue
        parts = re.split(r"^(?=### )", cell.source, flags=re.MULTILINE)
        for place, part in enumerate(parts):
            if heading := re.match(r"### Exercise ([\w.]+)", part):
                exercise = heading[1]
            if folded := FOLDED.search(part):
                if exercise not in codes:
                    raise ValueError(f"exercise {exercise} has a folded solution, and none in book/solutions")
                parts[place] = f"{part[: folded.start(1)]}{codes[exercise]}\n{part[folded.end(1) :]}"
        cell.source = "".join(parts)


def read(path: Path) -> NotebookNode:
    """Read a notebook; a cell without an id gets one that depends on its text only."""
    raw = json.loads(path.read_text())
    raw["nbformat_minor"] = 5
    taken = {cell.get("id") for cell in raw["cells"]}
    for number, cell in enumerate(raw["cells"]):
        if "id" not in cell:
            name = hashlib.sha256("".join(cell["source"]).encode()).hexdigest()[:8]
            cell["id"] = name if name not in taken else f"{name}-{number}"
            taken.add(cell["id"])
    return nbformat.reads(json.dumps(raw), as_version=4)


def execute(notebook: NotebookNode, folder: Path) -> None:
    """Run all cells in a fresh kernel that starts in `folder`."""
    notebook.metadata.pop("widgets", None)
    NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        extra_arguments=["--log-level=ERROR"],
        resources={"metadata": {"path": str(folder)}},
    ).execute()
    drop_unseen_models(notebook)


def tidy(notebook: NotebookNode) -> str:
    """Return the notebook as text, without anything that differs from run to run."""
    kept = {key: value for key, value in notebook.metadata.items() if key in KEPT_METADATA["notebook"]}
    notebook.metadata = nbformat.from_dict(kept)
    notebook.metadata.kernelspec = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata.language_info = {"name": "python"}
    for cell in notebook.cells:
        cell.metadata = nbformat.from_dict(
            {key: value for key, value in cell.metadata.items() if key in KEPT_METADATA["cell"]}
        )
    nbformat.validate(notebook)
    text = nbformat.writes(notebook)
    for number, model in enumerate(models(notebook)):  # random ids, in order of creation
        text = text.replace(model, f"{number:032x}")
    return json.dumps(json.loads(text), sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def models(notebook: NotebookNode) -> NotebookNode:
    """Return the stored state of all widgets: id -> model."""
    return notebook.metadata.get("widgets", {}).get(WIDGETS, {}).get("state", {})


def views(notebook: NotebookNode) -> list[tuple[int, str]]:
    """Return the widgets that the outputs show: number of the cell, id of the model."""
    outputs = [(number, output) for number, cell in enumerate(notebook.cells) for output in cell.get("outputs", [])]
    return [(number, output.data[VIEW]["model_id"]) for number, output in outputs if VIEW in output.get("data", {})]


def drop_unseen_models(notebook: NotebookNode) -> None:
    """Keep the widgets that an output shows and those that they refer to."""
    stored, seen = models(notebook), set()
    todo = [model for _, model in views(notebook)]
    while todo:
        model = todo.pop()
        if model in stored and model not in seen:
            seen.add(model)
            todo += re.findall(r"IPY_MODEL_(\w+)", json.dumps(stored[model]))
    for model in set(stored) - seen:
        del stored[model]
    if not stored:
        notebook.metadata.pop("widgets", None)


def dead_figures(notebook: NotebookNode, name: str) -> list[str]:
    """Return which figures would not come alive in the page, and whether all together are too heavy."""
    stored = models(notebook)
    found = [
        f"cell {number} shows a figure whose state is not stored: store it by pages/notebooks.py, not from JupyterLab"
        for number, model in views(notebook)
        if model not in stored
    ]
    size, limit = len(json.dumps(stored)), MAX_BYTES if name in HEAVY else MAX_STATE
    if size > limit:
        heaviest = max(stored.values(), key=lambda model: len(json.dumps(model)))
        kind = heaviest.state.get("_anywidget_id", heaviest.get("model_name", "")).split(".")[-1]
        found.append(f"the figures take {size:,} bytes, the limit is {limit:,}; the heaviest is {kind}")
    return found


def refresh_figures(notebook: NotebookNode) -> None:
    """Give the stored figures of vitnb the JavaScript and the style of today, as running the notebook would."""
    for model in models(notebook).values():
        if figure := live_figures.kind_of(model.state):
            model.state.update(_esm=figure._esm, _css=figure._css)
            if "worker" in model.state:
                model.state["worker"] = figure.worker.default_value


def refresh_quizzes(notebook: NotebookNode) -> None:
    """Give the stored quizzes the questions of today, as running their cells would."""
    from vitbook.quizzes import quiz

    for number, model in views(notebook):
        cell = notebook.cells[number]
        if found := QUIZ.search(cell.source):
            figure = quiz(found[1])
            models(notebook)[model].state.update(questions=figure.questions, checked=figure.checked)
            [data] = [output.data for output in cell.outputs if VIEW in output.data]
            data.update({**figure._repr_mimebundle_()[0], VIEW: data[VIEW]})


def output_texts(cell: NotebookNode) -> list[str]:
    """Return what a reader of the cell's outputs can read, images apart."""
    texts = []
    for output in cell.get("outputs", []):
        if output.output_type == "stream":
            texts.append(output.text)
        texts += [str(value) for kind, value in output.get("data", {}).items() if not kind.startswith("image/")]
    return texts


def faults(notebook: NotebookNode, path: str) -> list[str]:
    """Return why a notebook must not be published as it stands; `path` is where it lies in the repository."""
    found = dead_figures(notebook, Path(path).stem)
    if place := ABSOLUTE_PATH.search(json.dumps(models(notebook))):
        found.append(f"a figure names a path of one machine: {place[0]}")
    for number, cell in enumerate(notebook.cells):
        found += [f"cell {number} {fault}" for fault in cell_faults(cell)]
    counts = [cell.execution_count for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    if counts != list(range(1, len(counts) + 1)):
        found.append("the cells were not run once, from top to bottom")
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        found.append("Colab knows no other kernel than python3")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    named = origin.ARCHIVE.search(code[0].source) if code else None
    setup = setup_cell(named[0] if named else "", path)
    if [(cell.source, cell.metadata) for cell in code[:1]] != [(setup.source, setup.metadata)]:
        found.append("the setup cell is missing or not as pages/notebooks.py writes it")
    if any(cell.id == "badge" for cell in notebook.cells):
        found.append("has a badge: only a stamped copy knows where Colab finds it")
    if (size := len(nbformat.writes(notebook).encode())) > MAX_BYTES:
        found.append(f"the notebook takes {size:,} bytes, the limit is {MAX_BYTES:,}: print or draw less")
    return found


def cell_faults(cell: NotebookNode) -> list[str]:
    """Return what is wrong with one cell and its outputs."""
    places = [(text, ABSOLUTE_PATH.search(text)) for text in [cell.source, *output_texts(cell)]]
    found = [f"names a path of one machine: {text[place.start() :][:80]}" for text, place in places if place]
    if cell.cell_type != "code":
        return found
    tags, figure = cell.metadata.get("tags", []), cell.metadata.get("mystnb", {})
    for output in cell.outputs:
        if output.get("name") == "stderr":
            found.append(f"writes to stderr: {output.text.strip()[-500:]}")
        if output.output_type == "error" and "raises-exception" not in tags:
            found.append(f"raises {output.ename}: {output.evalue}")
    # nbval compares nothing, and passes, where there is no stored output.
    if "nbval-check-output" in tags and not (cell.outputs and cell.execution_count):
        found.append("is to be checked and has no stored output")
    if cell.source.strip() and not cell.execution_count:
        found.append("was not run")
    if cell.id != "setup" and any(len(line) > MAX_LINE for line in cell.source.splitlines()):
        found.append(f"has a line of more than {MAX_LINE} characters")
    kinds = [output.get("data", {}) for output in cell.outputs]
    images = [data for data in kinds if any(kind.startswith("image/") for kind in data)]
    mute = [data for data in images if DRAWING not in data.get("image/svg+xml", "")]
    if "figure" in figure and not images:
        found.append("is a figure without an image")
    if mute and not {"remove-output", "remove-cell"} & set(tags) and not figure.get("image", {}).get("alt"):
        found.append("draws an image without mystnb.image.alt in its metadata")
    return found


def run(path: Path, check: bool, root: Path = ROOT, figures: bool = False) -> list[str]:
    """Execute one notebook (or refresh its figures) and write it, or, to check, compare it; return the faults found."""
    notebook = read(path)
    if figures:
        refresh_figures(notebook)
        refresh_quizzes(notebook)
    else:
        insert_setup(notebook, origin.archive(repository(), "main"), path.relative_to(root).as_posix())
        if (solutions := path.parent / "solutions" / path.name).exists():
            insert_solutions(notebook, read(solutions))
        try:
            execute(notebook, path.parent)
        except CellExecutionError as error:
            return [str(error)]
    text = tidy(notebook)
    if found := faults(notebook, path.relative_to(root).as_posix()):
        return found
    if not check:
        with replacing(path) as new:
            new.write_text(text)
        return []
    return list(difflib.unified_diff(path.read_text().splitlines(), text.splitlines(), "stored", "now", lineterm=""))


def choose(names: list[str]) -> list[Path]:
    """Return the notebooks under book/ with these names; all of them without a name."""
    every = sorted(path for path in (ROOT / "book").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
    unknown = set(names) - {path.stem for path in every}
    if unknown:
        raise SystemExit(
            f"no notebook {', '.join(sorted(unknown))}: there are {', '.join(path.stem for path in every)}"
        )
    return [path for path in every if not names or path.stem in names]


def missing(name: str) -> str:
    """Return the package that the notebook with this name needs and that is not installed, or nothing."""
    packages, _ = NEEDS.get(name, ((), ""))
    return next((package for package in packages if importlib.util.find_spec(package) is None), "")


def main() -> int:
    """Execute the notebooks that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="such as 01-patchify; all without a name")
    parser.add_argument("--check", action="store_true", help="show what would change, write nothing")
    parser.add_argument("--figures", action="store_true", help="run nothing, refresh stored figures and quizzes")
    arguments = parser.parse_args()
    failed = 0
    for path in choose(arguments.names):
        if not arguments.figures and (absent := missing(path.stem)):
            if arguments.names:
                raise SystemExit(f"{path.name} needs {absent}: {NEEDS[path.stem][1]}")
            print(f"{path.relative_to(ROOT)}: LEFT OUT, it needs {absent} ({NEEDS[path.stem][1]})", flush=True)
            continue
        start = time.perf_counter()
        found = run(path, arguments.check, figures=arguments.figures)
        print(f"{path.relative_to(ROOT)}: {time.perf_counter() - start:.0f} s", *found, sep="\n", flush=True)
        failed += bool(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

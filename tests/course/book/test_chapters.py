"""What the chapters say about themselves and about each other."""

import ast
import builtins
import re
from itertools import takewhile
from pathlib import Path

import nbformat
import pytest
import torch
import yaml

import vitnb
from vitbook import results

ROOT = Path(__file__).resolve().parents[3]
PARTS = yaml.safe_load((ROOT / "_toc.yml").read_text())["parts"]
NAMES = [Path(entry["file"]).name for part in PARTS for entry in part["chapters"]]
CHAPTERS = [name for name in NAMES if (ROOT / "book/solutions" / f"{name}.ipynb").exists()]
NUMBERED = [name for name in NAMES if re.match(r"\d\d-", name)]


def cells(name: str) -> list[nbformat.NotebookNode]:
    return nbformat.read(ROOT / "book" / f"{name}.ipynb", 4).cells


def text(name: str) -> str:
    return "\n".join(cell.source for cell in cells(name) if cell.cell_type == "markdown")


def names(tree: ast.AST) -> tuple[set[str], set[str]]:
    """The names that some code reads, and those that it binds."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    read = {node.id for node in found if isinstance(node.ctx, ast.Load)}
    bound = {node.id for node in found if not isinstance(node.ctx, ast.Load)}
    bound |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    aliases = [node.names for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return read, bound | {(one.asname or one.name).split(".")[0] for found in aliases for one in found}


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_folded_solution_needs_nothing_from_another_one(name):
    """That of exercise 12.5 once needed what stood in the solution of 12.4, that of 13.3 an import of a closer look."""
    known = set(dir(builtins))
    for cell in takewhile(lambda cell: "## Closer looks" not in cell.source, cells(name)):
        known |= names(ast.parse(cell.source))[1] if cell.cell_type == "code" else set()
    folded = re.findall(r"<summary>Solution</summary>\s*```python\n(.*?)```", text(name), re.DOTALL)
    assert folded
    for code in folded:
        read, bound = names(ast.parse(code))
        assert read - bound - known == set()


@pytest.mark.parametrize("name", CHAPTERS)
def test_an_answer_is_checked_below_the_heading_of_its_exercise(name):
    heading, checked = "", []
    for cell in cells(name):
        if cell.cell_type == "markdown":
            heading = ([heading] + re.findall(r"^### (Exercise .*)", cell.source, re.MULTILINE))[-1]
            continue
        for number in re.findall(r"\bcheck\(\s*\"(\w+\.\d+)\"", cell.source):
            assert re.match(rf"Exercise {re.escape(number)}: \S", heading), f"check {number} stands below {heading!r}"
            checked.append(number)
    assert checked == sorted(set(checked), key=lambda number: int(number.split(".")[1])) and checked


@pytest.mark.parametrize("name", NUMBERED)
def test_a_title_begins_with_the_number_of_its_chapter(name):
    assert re.match(rf"# {int(name[:2])}\. \S", text(name))


@pytest.mark.parametrize("before, after", list(zip(NUMBERED, NUMBERED[1:], strict=False)))
def test_next_is_the_next_chapter(before, after):
    said = re.search(r"\*\*Next:\*\*(.*)", text(before))
    assert said and f"({after}.ipynb)" in said[1]


# ---- What changed since the version before: "# new" at the end of a line

# Second versions that are derived from no class of their chapter: (chapter, the new one, the one before it).
SECOND = [
    ("04-heads", "MultiHeadAttention", "SelfAttention"),
    ("07-cls-token", "MadeInForward", "ClsToken"),
    ("09-training", "train", "overfit"),
]
NEW = re.compile(r"#.*\bnew\b")


def definitions(name: str, skip: str = "hide-input") -> dict[str, tuple[list[str], str]]:
    """The classes and functions of a chapter, in order: name -> the names of its bases, its source."""
    found = {}
    for cell in cells(name):
        if cell.cell_type == "code" and "%" not in cell.source[:200] and skip not in cell.metadata.get("tags", []):
            for node in ast.parse(cell.source).body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef):
                    bases = [base.id for base in getattr(node, "bases", []) if isinstance(base, ast.Name)]
                    assert node.name not in found, (
                        f"{name} defines {node.name} twice: mark what is new, and say so here"
                    )
                    found[node.name] = bases, "\n".join(cell.source.splitlines()[node.lineno - 1 : node.end_lineno])
    return found


def lines(source: str) -> list[tuple[str, bool]]:
    """Each line of some code without its comment, and whether it is marked as new."""
    return [(line.split("  #")[0].strip(), bool(NEW.search(line))) for line in source.splitlines()[1:] if line.strip()]


@pytest.mark.parametrize("name", NUMBERED[1:10])
def test_a_second_version_of_a_class_marks_what_is_new_and_nothing_else(name):
    known = definitions(name)
    for title, (bases, source) in known.items():
        family = [base for base in bases if base in known]
        if not family:
            continue
        before = [one for one in known if one in family or set(known[one][0]) & set(family)]
        before = "\n".join(known[one][1] for one in before[: before.index(title)])
        if not set(re.findall(r"def (\w+)", source)) & set(re.findall(r"def (\w+)", before)):
            continue  # the first that has these methods
        old = {code for code, _ in lines(before)}
        marked, changed = ({code for code, new in lines(source) if new}, {c for c, _ in lines(source) if c not in old})
        assert marked == changed and marked, f"{title}: marked as new {marked}, new {changed}"


@pytest.mark.parametrize("name, title, before", SECOND)
def test_what_is_marked_as_new_is_not_in_the_version_before(name, title, before):
    known = definitions(name, skip="remove-cell")
    marked = {code for code, new in lines(known[title][1]) if new}
    assert marked and not marked & {code for code, _ in lines(known[before][1])}


@pytest.mark.parametrize("kind, options", [("MLP", (48, 96)), ("PreNormBlock", (48, 6)), ("PostNormBlock", (48, 6))])
def test_what_chapter_5_builds_is_what_the_book_uses(kind, options):
    known = {"nn": torch.nn, "MultiHeadAttention": vitnb.MultiHeadAttention}
    for name, (_, source) in definitions("05-pre-norm-post-norm").items():
        if name in ("MLP", "Parts", "PreNormBlock", "PostNormBlock"):
            exec(source, known)
    theirs, ours, x = getattr(vitnb, kind)(*options), known[kind](*options), torch.randn(3, 17, 48)
    for p in theirs.parameters():
        torch.nn.init.normal_(p, std=0.3)  # fresh norms are all alike
    ours.load_state_dict(theirs.state_dict())
    assert torch.equal(ours(x), theirs(x))


def test_the_optimizer_that_chapter_9_builds_fits_the_loop_that_it_builds():
    torch.manual_seed(0)
    known = {"torch": torch, "F": torch.nn.functional, "images": torch.randn(12, 5), "labels": torch.arange(12) % 3}
    for name in ("AdamW", "overfit"):
        exec(definitions("09-training")[name][1], known)
    model = torch.nn.Linear(5, 3)
    losses = known["overfit"](model, known["AdamW"](model.parameters(), lr=0.1), steps=40)
    assert losses[-1] < 0.7 * losses[0]


def test_the_table_of_two_recipes_says_what_the_records_say():
    slow, fast, before = (results.result(name)["config"] for name in ("ladder", "few_epochs", "fashion_mnist"))
    new = {k for part in ("model", "recipe") for k, v in fast[part].items() if v != before[part][k]}
    assert new == {"depth", "stem", "global_pool", "optimizer", "epochs"}  # the bold ones; the race has its own lengths
    (found,) = re.findall(r"\| --- \| --- \| --- \|\n((?:\|.*\n)+)", text("10-recipes"))
    lines = [line.strip("| ").replace("\\*", "").split(" | ") for line in found.splitlines()]
    said = {name: (theirs, ours) for name, theirs, ours in lines}
    (a, r), (b, s) = ((one["model"], one["recipe"]) for one in (slow, fast))
    for at, of in enumerate((a, b)):
        side, p = of["img_size"], of["patch_size"]
        assert f"{side} × {side} pixels" in said["image"][at]
        assert said["patches"][at] == f"{(side // p) ** 2} of {p} × {p} pixels"
        assert said["model"][at].replace("*", "") == f"{of['depth']} blocks of width {of['embed_dim']}"
    assert (a["stem"], a["global_pool"], b["stem"], b["global_pool"]) == ("patch", "cls", "conv", "mean")
    assert said["dropout"] == (f"{a['dropout']}", "none") and not b["dropout"]
    assert (r["optimizer"], r["weight_decay"], r["clip"], s["optimizer"]) == ("sgd", 0, None, "muon")
    assert s["weight_decay"] and s["clip"]
    assert said["learning rate"] == (f"{r['lr']}, {r['schedule']}", f"{s['lr']}, warm-up, then {s['schedule']}")
    assert r["warmup"] == 0 < s["warmup"] and not r["flip"] and not r["shift"] and s["flip"] and s["shift"]


@pytest.mark.parametrize("path", sorted((ROOT / "book").glob("**/*.ipynb")), ids=lambda path: path.stem)
def test_what_is_stored_was_run_on_the_real_images(path):
    text = path.read_text(encoding="utf-8")
    assert "These are scikit-learn's handwritten digits instead." not in text

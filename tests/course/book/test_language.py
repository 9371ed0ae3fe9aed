"""The field's words: no text that a reader sees, and no code, uses a word of this book's own for the field's term."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from vitbook.quizzes import QUIZZES

ROOT = Path(__file__).resolve().parents[3]

# What is not said: the term that is, and in which words around it the same letters mean something else.
WORDS = {
    r"pictures?": ("image", ()),
    r"hears?|heard|listens?|listened|listening": ("attend to", ("screen reader",)),
    r"bends?": ("non-linearity", ()),
    r"spread": ("standard deviation", ()),
    r"rates?": ("learning rate", ("learning rate", "dropout rate", "error rate", "at the rate $a(1 - a)$", "warmup")),
    r"shak(?:e|es|en|ing)|shook": ("perturb", ()),
    r"loud(?:er|est|ly)?": ("norm or magnitude", ()),
    r"cut(?:s|ting)? (?:(?:a|one|the|this|that|its|all|every|\d+) )?heads?|heads? (?:is |are )?cut": ("ablate", ()),
    r"dear(?:er|est|ly)?": ("expensive", ()),
    r"heaps?": ("patches in another order", ()),
    r"twins?": ("copy, duplicate", ()),
    r"so long (?:they|it|as)": ("how long, as long as", ()),
    r"(?:tokens?|heads?|quer(?:y|ies)|patch(?:es)?) looks?(?: most)? at": ("attend to", ()),
    r"(?:numbers?|accurac(?:y|ies)|curves?|loss|losses) (?:says?|tells?)": ("shows, reports", ()),
    r"(?:starting|start) weights|start of the weights": ("initial weights, initialisation", ()),
    r"class scores?|scores? of (?:a|the|its|each) class(?:es)?": ("logit", ()),
}
# Code says these neither; a "rate" in a name stands beside what it is the rate of: drop_rate, lr.
CODE = {word: term for word, term in WORDS.items() if word != "rates?"} | {
    r"wanted": ("expected, required", ()),
    r"mend(?:s|ed|ing)?": ("fix", ()),
    r"so (?:many|much)": ("n, or the name of the argument", ()),
    r"(?:is|are) no number": ("NaN, or not a number", ()),
    r"keepers?": ("supervisor", ()),
}
LIBRARY = {"listen"}  # what sockets do
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")  # of a name: someImages, SOME_IMAGES
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`')
COMMENT = re.compile(r"/\*.*?\*/|(?<![:\"'`])//[^\n]*", re.DOTALL)
NAME = re.compile(r"`[^`\n]+`|\]\([^)]*\)|\{\{[^}]*\}\}|<[^>]+>")  # code, addresses, cells, tags: not prose


def dialect(text: str, words: dict[str, tuple[str, tuple[str, ...]]] = WORDS) -> list[str]:
    """Return the words of a text that the field does not use, with their surroundings and the term."""
    text, found = " ".join(text.split()), []
    for word, (term, contexts) in words.items():
        for hit in re.finditer(rf"(?<![\w-])(?:{word})(?![\w-])", text, re.IGNORECASE):
            around = text[max(0, hit.start() - 30) : hit.end() + 30]
            if not any(context in around.lower() for context in contexts):
                found.append(f"... {around} ... ({hit[0]} -> {term})")
    return found


def strings(tree: ast.AST) -> Iterator[str]:
    """Yield all string literals of Python code in which people talk: those with a space."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.value


def docstrings(tree: ast.AST) -> Iterator[str]:
    """Yield the docstrings of a module, its classes and its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and (text := ast.get_docstring(node)):
            yield text


def texts() -> Iterator[tuple[str, str]]:
    """Yield every text that a reader may see: where it stands, the text."""
    for path in sorted((ROOT / "book").rglob("*.ipynb")):
        if "_build" in path.parts or ".ipynb_checkpoints" in path.parts:
            continue
        for cell in nbformat.read(path, 4).cells:
            if cell.cell_type == "markdown":
                yield f"{path.relative_to(ROOT)}, cell {cell.id}", NAME.sub(" ", cell.source)
    pages = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "book").glob("*.md")), *sorted((ROOT / "book").glob("*/*.md"))]
    for path in pages:
        if path.name != "sources.md":  # titles of papers
            yield str(path.relative_to(ROOT)), NAME.sub(" ", path.read_text())
    for path in sorted([*(ROOT / "vitnb").rglob("*.py"), *(ROOT / "vitbook").rglob("*.py")]):
        tree, where = ast.parse(path.read_text()), str(path.relative_to(ROOT))
        for text in strings(tree) if path.parent.name == "exercises" else docstrings(tree):
            yield where, NAME.sub(" ", text)
    for path in sorted((ROOT / "vitbook" / "figures").rglob("*.js")):
        for text in STRING.findall(COMMENT.sub(" ", path.read_text())):
            if " " in text:
                yield str(path.relative_to(ROOT)), re.sub(r"\$\{[^}]*\}", " … ", text)
    for chapter, questions in QUIZZES.items():
        for question in questions:
            for text in (question.text, *question.answers, *question.answers.values()):
                yield f"the quiz of chapter {chapter}", text


def in_code(path: Path) -> Iterator[str]:
    """Yield what a file of Python or JavaScript says beside its strings: comments, docstrings, names as words."""
    text = path.read_text()
    if path.suffix == ".py":
        tree, tokens = ast.parse(text), tokenize.generate_tokens(io.StringIO(text).readline)
        prose = [*docstrings(tree), *(token.string for token in tokens if token.type == tokenize.COMMENT)]
        names = {getattr(node, field, None) for node in ast.walk(tree) for field in ("name", "id", "attr", "arg")}
    else:
        prose, names = COMMENT.findall(text), set(re.findall(r"[a-zA-Z_]\w*", STRING.sub(" ", COMMENT.sub(" ", text))))
    yield from (NAME.sub(" ", one) for one in prose)
    yield from (" ".join(PART.findall(name)) for name in names - LIBRARY if isinstance(name, str))


@pytest.mark.parametrize("word", WORDS, ids=[term for term, _ in WORDS.values()])
def test_a_word_that_is_not_said_is_seen(word):
    example = {"rates?": "at a high rate"}.get(word) or next(iter(examples(word)))
    assert dialect(f"Then {example} again.")


def examples(word: str) -> list[str]:
    """Return sentences that people wrote in earlier editions of this book."""
    said = [
        "a picture of 16 patches", "what a token hears", "a bend between them", "a spread of 0.02", "shake all weights",
        "ever louder positions", "Cut head 3", "right, only dear", "lose much on heaps", "its twin in JAX",
        "So long they run", "the head looks at the heel", "the curve says nothing", "the starting weights",
        "ten class scores",
    ]  # fmt: skip
    return [one for one in said if re.search(rf"\b(?:{word})\b", one, re.IGNORECASE)]


def test_the_same_letters_in_another_sense_are_left_alone():
    for text in ("a learning rate of 0.01", "a dropout rate", "what a screen reader hears", "heads-up"):
        assert dialect(text) == []


def test_every_text_uses_the_words_of_the_field():
    found = [(where, wrong) for where, text in texts() for wrong in dialect(text)]
    assert found == []


@pytest.mark.parametrize("folder", ["vitnb", "vitbook", "pages", "experiments", "tools", "tests"])
def test_code_uses_the_words_of_the_field(folder):
    paths = [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".js", ".mjs")]
    found = [
        (str(path.relative_to(ROOT)), hit) for path in paths for text in in_code(path) for hit in dialect(text, CODE)
    ]
    assert paths and found == []


@pytest.mark.parametrize("name, code", [
    ("one.py", "pictures = 3"), ("one.py", "f(test_pictures=3)"), ("one.py", "class HalfMended: ..."),
    ("one.py", "x = 3  # as many as wanted"), ("one.py", 'def f():\n    """So many images."""'),
    ("one.js", "const wantedShape = 3;"), ("one.mjs", "f(3); // a loss that is no number"),
])  # fmt: skip
def test_a_word_that_code_does_not_use_is_seen(tmp_path, name, code):
    (tmp_path / name).write_text(f"{code}\n")
    assert [hit for text in in_code(tmp_path / name) for hit in dialect(text, CODE)]

"""No message of the checks gets lost: tests/course/messages.txt lists what a reader may be told, phrase by phrase.

Who takes a message away takes it out of the list as well, and says why in the
commit. After new messages: python tests/course/test_messages.py
"""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
LIST = HERE / "messages.txt"
VITBOOK = HERE.parents[1] / "vitbook"
SOURCES = sorted(path for folder in ("exercises", "faults") for path in (VITBOOK / folder).glob("*.py"))


def phrases() -> set[str]:
    """What stands between the braces of all texts in the checks and in the clinic, docstrings aside."""
    found = set()
    for path in SOURCES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docstrings = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
                parts = (" ".join(part.split()) for part in re.split(r"[{}\n]", node.value))
                found |= {part for part in parts if len(part) >= 12 and " " in part}
    return found


def test_every_message_is_still_there():
    texts = "\n".join(phrases())
    lost = [line for line in LIST.read_text(encoding="utf-8").splitlines() if line not in texts]
    assert not lost


def test_every_message_is_in_the_list():
    listed = set(LIST.read_text(encoding="utf-8").splitlines())
    assert not phrases() - listed, "new messages: python tests/course/test_messages.py"


if __name__ == "__main__":
    LIST.write_text("\n".join(sorted(phrases())) + "\n", encoding="utf-8")

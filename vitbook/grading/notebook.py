"""Tell what a file that should be a notebook is, and what its student can do about it."""

import json
from pathlib import Path

LARGEST = 20 << 20  # bytes of one notebook
UNREAD = "Your file is no notebook that can be read"
LARGE = "is larger than 20 MB. Clear its outputs (in Jupyter Edit > Clear Outputs of All Cells) and hand it in again."
ITSELF = "Hand in the notebook itself (in Jupyter File > Download, in Colab File > Download > Download .ipynb)."
UNPACKED = f"Unpack it. {ITSELF}"
SAVED = "Open the notebook in Jupyter, save it and hand that file in."

# What stands at the beginning of a file -> what it is, and what to do.
BEGINNINGS = {
    b"%PDF": f"is a PDF. {ITSELF}",
    b"PK\x03\x04": f"is a zip or an Office document. {UNPACKED}",
    b"\x1f\x8b": f"is packed by gzip. {UNPACKED}",
    b"Rar!": f"is a rar archive. {UNPACKED}",
    b"7z\xbc\xaf": f"is a 7z archive. {UNPACKED}",
    b"\x89PNG": f"is an image. {ITSELF}",
    b"\xff\xd8\xff": f"is an image. {ITSELF}",
    b"{\\rtf": f"is a text document (RTF). {ITSELF}",
    b"version https://git-lfs": "is a pointer of Git LFS. Fetch the notebook by `git lfs pull` and hand that in.",
}
UTF16 = (b"\xff\xfe", b"\xfe\xff")


def unreadable(path: Path) -> str:
    """Why a file is no notebook that can be run, in words for its student; nothing if it is one."""
    try:
        reason = LARGE if path.stat().st_size > LARGEST else kind(path.read_bytes())
    except OSError:
        reason = "cannot be opened. Hand it in again."
    except (RecursionError, MemoryError):
        reason = f"is JSON nested too deeply. {SAVED}"
    return reason and f"{UNREAD}: it {reason}"


def kind(content: bytes) -> str:
    """What a file that is no notebook is, and what to do; nothing for a notebook."""
    for beginning, reason in BEGINNINGS.items():
        if content.startswith(beginning):
            return reason
    if content.startswith(UTF16) or b"\0" in content[:100]:
        return f"is text in UTF-16, or no text at all. {SAVED}"
    try:
        text = content.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        return f"is not encoded in UTF-8. {SAVED}"
    if not text:
        return f"is empty. {SAVED}"
    if text.startswith("<<<<<<< ") or any(mark in text for mark in ("\n<<<<<<< ", "\n>>>>>>> ")):
        return f"holds a conflict of Git, lines with <<<<<<< and >>>>>>>. Resolve it. {SAVED}"
    if text.startswith("<"):
        return f"is a web page (HTML). {ITSELF}"
    return _json(text)


def _json(text: str) -> str:
    try:
        book = json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        return f"is cut off or damaged in line {line}. {SAVED}" if text.startswith("{") else f"is plain text. {ITSELF}"
    if isinstance(book, dict) and isinstance(book.get("worksheets"), list):
        return f"is in the format of 2014 (nbformat 3), which Jupyter converts when it saves it. {SAVED}"
    if not isinstance(book, dict) or not isinstance(book.get("cells"), list):
        return f"is JSON without cells. {ITSELF}"
    return ""

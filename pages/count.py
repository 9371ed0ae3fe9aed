"""How long a chapter is: words, cells and minutes of its lesson, its exercises and its closer looks.

    python -m pages.count                         all chapters, beside what a lesson may have at most
    python -m pages.count --write 03-attention    the same, and the minutes go to the card of the chapter

The headings "Exercises" and "Closer looks" begin their parts, "Sources" ends
them. Words are those of the prose: no code, formula, alt text or folded text.
Cells are those with code that a reader sees; who unfolds one has chosen to.
How long an exercise takes cannot be counted: what stands below its heading is
added up, to the nearest five minutes.
"""

import argparse
import json
import re
from dataclasses import dataclass
from pathlib import Path

from pages.frame import TIME

BOOK = Path(__file__).resolve().parents[1] / "book"
# To learn from them: assumed. Most people read non-fiction at 175 to 300 words a minute (Brysbaert 2019, abstract).
WORDS_A_MINUTE = 200
LINES_A_MINUTE = 10  # of code, with a look at what it prints: assumed
LIMITS = {"words": 1800, "cells": 40, "minutes": 30}  # of a lesson
PARTS = {"Exercises": "exercises", "Closer looks": "closer looks", "Sources": "sources"}
HEADING = re.compile(r"^#{1,2} (.+)$", re.MULTILINE)
FOLDED = {"hide-cell", "hide-input", "remove-cell", "remove-input"}  # tags: the code is not seen
NO_PROSE = re.compile(
    r"```.*?```|<details>.*?</details>|<!--.*?-->|\$\$.*?\$\$|!\[[^\]]*\]\([^)]*\)|`[^`\n]+`|\$[^$\n]+\$|\]\([^)]*\)|<[^>]+>",
    re.DOTALL,
)
EXERCISE = re.compile(r"^### Exercise .+\n+\w[^\n]*\babout (\d+) minutes", re.MULTILINE)
WORD = re.compile(r"[^\W_][\w'’.,-]*")


@dataclass
class Part:
    """What a reader has to read in a part of a chapter."""

    words: int = 0
    cells: int = 0
    lines: int = 0

    @property
    def minutes(self) -> int:
        return round(self.words / WORDS_A_MINUTE + self.lines / LINES_A_MINUTE)


def prose(markdown: str) -> int:
    """Count the words of a text that are prose."""
    return len(WORD.findall(NO_PROSE.sub(" ", markdown)))


def count(notebook: dict) -> dict[str, Part]:
    """Count each part of a chapter."""
    parts = {name: Part() for name in ("lesson", *PARTS.values())}
    now = "lesson"
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            if not FOLDED & set(cell["metadata"].get("tags", [])):
                parts[now].cells += 1
                parts[now].lines += sum(bool(line.strip()) for line in source.splitlines())
            continue
        before, *sections = HEADING.split(source)
        parts[now].words += prose(before)
        for title, text in zip(sections[::2], sections[1::2], strict=True):
            now = PARTS.get(title.strip(), now)
            parts[now].words += prose(title) + prose(text)
    return parts


def exercises(notebook: dict) -> int:
    """Return the minutes for the exercises, to the nearest five."""
    texts = ("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown")
    return 5 * round(sum(int(minutes) for text in texts for minutes in EXERCISE.findall(text)) / 5)


def with_minutes(text: str) -> str:
    """Return a stored chapter whose card says what lesson and exercises take; no other byte changes."""
    notebook, found = json.loads(text), TIME.search(text)
    for group, minutes in ((3, exercises(notebook)), (1, count(notebook)["lesson"].minutes)):  # from the back
        if found and found[group]:
            text = f"{text[: found.start(group)]}{minutes}{text[found.end(group) :]}"
    return text


def row(name: str, text: str) -> str:
    """Return the line of a stored chapter, with a mark at what is above its limit."""
    notebook = json.loads(text)
    parts, cells = count(notebook), []
    for name_of_part in ("lesson", "exercises", "closer looks"):
        part = parts[name_of_part]
        numbers = {"words": part.words, "cells": part.cells, "minutes": part.minutes}
        if name_of_part == "exercises":
            numbers["minutes"] = exercises(notebook)
        above = {kind for kind, most in LIMITS.items() if name_of_part == "lesson" and numbers[kind] > most}
        cells += [f"{number:>8}{'!' if kind in above else ' '}" for kind, number in numbers.items()]
    return f"{name:28}{''.join(cells)}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="such as 03-attention; all without a name")
    parser.add_argument("--write", action="store_true", help="put the minutes on the card of each")
    options = parser.parse_args(arguments)
    print(f"{'':28}{'lesson':>26} {'exercises':>26} {'closer looks':>26}")
    print(f"{'':28}{'   words    cells  minutes ' * 3}")
    print(f"{'at most':28}{''.join(f'{most:>8} ' for most in LIMITS.values())}")
    for path in sorted(BOOK.glob("[0-9][0-9]-*.ipynb")):
        if options.names and path.stem not in options.names:
            continue
        text = path.read_text(encoding="utf-8")
        print(row(path.stem, text))
        if options.write:
            path.write_text(with_minutes(text), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()

"""What pip is to install for the package's tests: the oldest versions that pyproject.toml promises, or the newest.

python tools/versions.py oldest | newest
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What the tests of the two packages (PACKAGE in the Makefile) need besides, in the versions of requirements.txt.
TOOLS = ("setuptools", "nbformat", "PyYAML", "pytest", "pytest-xdist", "pytest-playwright", "playwright")
TOOLS += ("hypothesis", "timm")


def promised() -> list[tuple[str, str]]:
    """Each package that vitnb needs, and its lower bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["grading"]]
    return [re.match(r"([\w-]+)>=([\d.]+)", line).groups() for line in lines]


def tools() -> list[str]:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.split("==")[0]: line.split()[0] for line in lines if "==" in line}
    return [pinned[name] for name in TOOLS]


def requirements(which: str) -> list[str]:
    """Raises: KeyError unless which is "oldest" or "newest"."""
    form = {"oldest": "{}=={}", "newest": "{}>={}"}[which]
    return [form.format(*package) for package in promised()] + tools()


if __name__ == "__main__":
    print(*requirements(sys.argv[1]), sep="\n")

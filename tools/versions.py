"""Run the tests of the two packages with other versions of what they need, or on another system.

    python3.11 -m tools.versions oldest    the lowest versions that pyproject.toml promises
    python3 -m tools.versions newest       the newest that pip finds
    python -m tools.versions here          what this Python has

The first two make an environment of this Python in .cache. PyPI's torch for
Linux on x86 brings 3 GB for GPUs and is not imported without them.
"""

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# The tests that need neither the book nor its tools, nor JAX.
TESTS = ("tests/model", "tests/course", "--ignore=tests/course/book", "--ignore=tests/course/test_checks_jax.py")
# What they need besides, in the versions of requirements.txt.
TOOLS = ("setuptools", "nbformat", "PyYAML", "pytest", "pytest-xdist", "pytest-playwright", "playwright")
TOOLS += ("hypothesis", "timm", "transformers")
FORMS = {"oldest": "{}=={}", "newest": "{}>={}"}


def promised() -> list[tuple[str, str]]:
    """Return each package that vitnb needs, with the extras of the book and of grading, and its lower bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    found = (
        re.match(r"([\w-]+)>=([\d.]+)", line)
        for line in [*project["dependencies"], *extras["book"], *extras["grading"]]
    )
    return [match.groups() for match in found if match]  # an extra that names another one has no bound


def tools() -> list[str]:
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    pinned = {line.split("==")[0]: line.split()[0] for line in lines if "==" in line}
    return [pinned[name] for name in TOOLS]


def requirements(which: str) -> list[str]:
    """Return what pip is to install. Raises: KeyError unless which is "oldest" or "newest"."""
    return [FORMS[which].format(*package) for package in promised()] + tools()


def environment(which: str) -> Path:
    """Make the environment anew, say what it holds, and return its Python."""
    folder = ROOT / ".cache" / which
    venv.create(folder, clear=True, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    pip = (python, "-m", "pip", "--disable-pip-version-check")
    subprocess.run([*pip, "install", "-q", *requirements(which)], check=True)
    subprocess.run([*pip, "list"], check=True)
    return python


def main(which: str) -> int:
    python = environment(which) if which in FORMS else sys.executable
    surroundings = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [python, "-m", "pytest", *TESTS, "-n", "3", "--dist", "loadfile"]
    return subprocess.run(command, cwd=ROOT, env=surroundings).returncode


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in (*FORMS, "here"):
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))

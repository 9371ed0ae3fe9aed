"""Run the notebooks as Colab does: its versions, the stamped first cell, and nothing of the repository at hand.

    python -m tools.colab                    every notebook, in an imitation of Colab (built the first time)
    python -m tools.colab 03-attention       one chapter and its solutions
    python -m tools.colab --here FOLDER      the stamped notebooks of a folder, in this Python: in Colab's own image

The imitation is a Python 3.13 with the packages of tools/colab.txt and a module
google.colab. It takes minutes to build and 6 GB in the cache. The first cell installs
the commit at hand, from a file in place of GitHub. After each notebook all
packages are put back, as in a new session. Needs git, Python and a network.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = Path(__file__).with_name("colab.txt")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "vitnb-colab")
KEPT = ("torch", "torchvision", "numpy", "ipywidgets")  # Colab's own, which no first cell may touch
VERSIONS = "import importlib.metadata as m, json; print(json.dumps({d.name: d.version for d in m.distributions()}))"
PIP = (sys.executable, "-m", "pip", "-qq", "--disable-pip-version-check")


# ---- The imitation


def imitation(python: str) -> Path:
    """Return the Python of the imitation; build it if it is not there or not of today's packages."""
    program = shutil.which(python)
    if program is None:
        raise SystemExit(f"Colab runs Python 3.13, and {python} is not here: install it, or name another by --python")
    made = hashlib.sha256(PACKAGES.read_bytes() + program.encode()).hexdigest()[:12]
    folder = CACHE / made
    if not (folder / "ready").exists():
        print(f"Building an imitation of Colab in {folder}: minutes, and 6 GB", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([program, "-m", "venv", folder], check=True)
        subprocess.run([folder / "bin" / "pip", "install", "-qq", "--no-cache-dir", "-r", PACKAGES], check=True)
        library = next(folder.glob("lib/python3*/site-packages"))
        (library / "google" / "colab").mkdir(parents=True)
        (library / "google" / "colab" / "__init__.py").touch()
        # What anywidget asks of Colab's page before it shows a figure.
        (library / "google" / "colab" / "output.py").write_text("def enable_custom_widget_manager():\n    pass\n")
        (folder / "ready").touch()
    return folder / "bin" / "python"


def stamp_locally(out: Path) -> None:
    """Write the stamped notebooks of the commit at hand; they install it from a file in place of GitHub."""
    from pages import stamp

    slug, commit = "imitation/colab", stamp.origin.commit(ROOT)
    stamp.write(out, slug, commit)
    packed = out / f"{commit}.zip"
    command = ["git", "-C", ROOT, "archive", "--format=zip", f"--prefix=colab-{commit}/", f"--output={packed}", commit]
    subprocess.run(command, check=True)
    for path in out.rglob("*.ipynb"):
        text, address = path.read_text(encoding="utf-8"), stamp.origin.archive(slug, commit)
        if text.count(address) != 1:
            raise SystemExit(f"{path.name} names {address} {text.count(address)} times, and must name it once")
        path.write_text(text.replace(address, packed.as_uri()), encoding="utf-8")


# ---- Inside


def versions() -> dict[str, str]:
    """Return what is installed in this Python: name -> version."""
    return json.loads(subprocess.run([sys.executable, "-c", VERSIONS], capture_output=True, check=True).stdout)


def put_back(before: dict[str, str], after: dict[str, str]) -> None:
    """Install and remove until every package is as before."""
    new = [name for name in after if name not in before]
    old = [f"{name}=={version}" for name, version in before.items() if after.get(name) != version]
    if new:
        subprocess.run([*PIP, "uninstall", "-y", *new], check=True)
    if old:
        subprocess.run([*PIP, "install", "--no-deps", *old], check=True)


def seconds(cell: dict) -> float:
    """Return how long a cell ran."""
    marks = [datetime.fromisoformat(mark) for mark in cell["metadata"]["execution"].values()]
    return (max(marks) - min(marks)).total_seconds()


def run(path: Path) -> tuple[float, float, list[str]]:
    """Run one stamped notebook in a session of its own; return its seconds, its first cell's, and what is wrong."""
    import nbformat
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError

    notebook, start, wrong = nbformat.read(path, 4), time.perf_counter(), []
    with tempfile.TemporaryDirectory() as content:
        client = NotebookClient(notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": content}})
        try:
            client.execute()
        except CellExecutionError as error:
            wrong.append(str(error)[-1500:])
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    setup = next(cell for cell in cells if cell.id == "setup")
    if setup.outputs:
        wrong.append(f"the first cell is not silent: {setup.outputs}")
    written = [(cell.id, output.text) for cell in cells for output in cell.outputs if output.get("name") == "stderr"]
    wrong += [f"cell {name} writes to stderr: {text.strip()[-500:]}" for name, text in written]
    return time.perf_counter() - start, seconds(setup), wrong


def session(folder: Path) -> None:
    """Let every kernel find google.colab loaded, as in Colab, and this Python's pip first."""
    startup = folder / ".ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True, exist_ok=True)
    (startup / "00-colab.py").write_text("import google.colab.output\n")
    os.environ.pop("PYTHONPATH", None)
    os.environ |= {
        "IPYTHONDIR": str(folder / ".ipython"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",  # else the kernel warns in the terminal
        "VITNB_FAST": "1",
    }


def run_here(folder: Path, names: Sequence[str]) -> int:
    """Run the stamped notebooks of a folder and print a line for each; return how many failed."""
    session(folder)
    before, failed, total = versions(), 0, 0.0
    print(f"Python {sys.version.split()[0]}, " + ", ".join(f"{name} {before[name]}" for name in KEPT))
    print(f"{'notebook':48} seconds  first cell  changed", flush=True)
    for path in sorted(folder.rglob("*.ipynb")):
        if names and path.stem not in names:
            continue
        took, first, wrong = run(path)
        after = versions()
        changed = {name: after.get(name) for name in before | after if before.get(name) != after.get(name)}
        wrong += [f"{name} was {before[name]} and is {after.get(name)}" for name in KEPT if name in changed]
        updates = ", ".join(f"{name} {before.get(name, 'none')} -> {now}" for name, now in sorted(changed.items()))
        print(
            f"{path.relative_to(folder).as_posix():48} {took:7.0f}  {first:10.1f}  {updates}",
            *wrong,
            sep="\n",
            flush=True,
        )
        put_back(before, after)
        failed, total = failed + bool(wrong), total + took
    print(f"{'all':48} {total:7.0f}\n{failed} failed" if failed else f"{'all':48} {total:7.0f}")
    return failed


def main() -> int:
    """Run what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="such as 01-patchify; all without a name")
    parser.add_argument("--here", type=Path, metavar="FOLDER", help="run these stamped notebooks in this Python")
    parser.add_argument("--python", default="python3.13", help="what the imitation is made of")
    options = parser.parse_args()
    if options.here:
        return min(run_here(options.here.resolve(), options.names), 1)
    python = imitation(options.python)
    with tempfile.TemporaryDirectory() as folder:
        stamp_locally(Path(folder))
        return subprocess.run([python, __file__, *options.names, "--here", folder]).returncode


if __name__ == "__main__":
    sys.exit(main())

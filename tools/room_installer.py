"""The book without a network, from this folder. Nothing is needed but Python:

python3 room.py install    everything into the folder .venv, then the check
python3 room.py check      what is missing, a line each, or "ready"; --chapters 01 03 runs these, too
python3 room.py start      JupyterLab, with the data of this folder
"""

from __future__ import annotations  # an older Python must be able to read this file: it is told that it is too old

import argparse
import contextlib
import hashlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
PY = "py" if os.name == "nt" else "python3"
MEMORY = 4e9  # bytes; the notebooks of one chapter, JupyterLab and a browser
TOLERABLE = ("Memory", "Pages", "Notebooks")  # what hinders no installation
LACKING = 3  # the exit status of look where something is missing
PEAK = (
    "import psutil; print(psutil.Process().memory_info().peak_wset)"
    if os.name == "nt"
    else "import resource, sys\n"
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == 'darwin' else 1024))"
)


# ---- This machine


def this_platform() -> str:
    """The name of this machine, such as linux-x86_64."""
    system = {"Darwin": "macos"}.get(platform.system(), platform.system().lower())
    machine = {"amd64": "x86_64", "aarch64": "arm64"}.get(platform.machine().lower(), platform.machine().lower())
    return f"{system}-{machine}" + ("" if sys.maxsize > 2**32 else "-with-a-32-bit-Python")


def this_python() -> str:
    """Such as 3.11."""
    return "{}.{}".format(*sys.version_info[:2])


def this_machine() -> str:
    """Such as linux-x86_64-3.11."""
    return f"{this_platform()}-{this_python()}"


def memory() -> int:
    """Bytes of memory of this machine, or 0 where it does not say."""
    with contextlib.suppress(AttributeError, ValueError, OSError):
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with contextlib.suppress(AttributeError, ImportError, OSError):
        import ctypes

        status = (ctypes.c_uint64 * 8)(64)  # MEMORYSTATUSEX: its length, and as its second number all memory
        return status[1] if ctypes.windll.kernel32.GlobalMemoryStatusEx(status) else 0
    return 0


# ---- What is missing? Each function yields a line for each thing.


def read_manifest(folder: Path) -> dict:
    """What the archive says of itself.

    Raises: SystemExit if this is no unpacked archive.
    """
    try:
        return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"manifest.json cannot be read ({error}): unpack the archive again.") from None


def wrong_machine(folder: Path) -> Iterator[str]:
    """Whether the archive has wheels for another system or another Python only."""
    known = sorted(path.stem for path in (folder / "wheels").glob("*.txt"))
    if this_machine() not in known:
        pythons = [f"python{name.rpartition('-')[2]}" for name in known if name.startswith(f"{this_platform()}-")]
        other = next(filter(shutil.which, pythons), None)
        hint = f" Run: {other} room.py install" if other else ""
        yield f"Machine: the archive has wheels for {', '.join(known)}, and this is {this_machine()}.{hint}"


def too_small(folder: Path, disk: float) -> Iterator[str]:
    """What a machine must have room for: memory, and disk while nothing is installed."""
    have, free = memory(), shutil.disk_usage(str(folder)).free
    if have and have < MEMORY * 0.93:  # a machine of 4 GB keeps some of it
        yield f"Memory: {MEMORY / 1e9:.0f} GB are needed, and this machine has {have / 1e9:.1f} GB."
    if not installed(folder) and free < disk:
        yield f"Disk: {disk / 1e9:.1f} GB are needed here, and {free / 1e9:.1f} GB are free."


def damaged(folder: Path, files: dict[str, str]) -> Iterator[str]:
    """What is missing or damaged in the unpacked archive: wheels and data one by one, others counted."""
    several = {}
    for name, digest in sorted(files.items()):
        kind, path = name.split("/")[0].capitalize(), folder / name
        state = "damaged" if path.is_file() else "missing"
        if state == "damaged" and (kind == "Notebooks" or sha256(path) == digest):
            continue  # a notebook is there to be changed
        several.setdefault((kind, state, name if kind in ("Wheels", "Data") else kind), []).append(name)
    for (kind, state, _), names in several.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{kind}: {names[0]}{more} {state}. Unpack the archive again."


def sha256(path: Path) -> str:
    """The checksum of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def no_browser() -> Iterator[str]:
    """Whether there is a browser to read in."""
    try:
        webbrowser.get()
    except webbrowser.Error:
        yield "Browser: none was found; JupyterLab and the pages need one."


# ---- The environment


def python_of(folder: Path) -> Path:
    """The Python of the environment in a folder."""
    return folder / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def installed(folder: Path) -> bool:
    """Whether the environment was installed to its end."""
    return (folder / ".venv" / "room").is_file() and python_of(folder).exists()


def not_installed(folder: Path) -> list[str]:
    """A line if there is no environment yet."""
    return [] if installed(folder) else [f"Environment: not installed. Run: {PY} room.py install"]


def inside(folder: Path) -> dict[str, str]:
    """The variables with which the environment is used: none of other environments, and the data of the archive."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "PYTHON", "VITNB_"))}
    return dict(kept, VITNB_DATA=str(folder / "data"), VITNB_OFFLINE="1", PIP_CONFIG_FILE=os.devnull, PYTHONUTF8="1")


def pins(folder: Path) -> Path:
    """The exact versions for this machine, as requirements."""
    return folder / "wheels" / f"{this_machine()}.txt"


def lacking(folder: Path) -> list[str]:
    """All that hinders an installation, or would."""
    manifest = read_manifest(folder)
    disk = manifest["disk"].get(this_machine(), 0)
    return [*wrong_machine(folder), *too_small(folder, disk), *damaged(folder, manifest["files"])]


def install(folder: Path) -> int:
    """Make the environment from the wheels of the archive; say what hinders it."""
    found = lacking(folder)
    if any(not line.startswith(TOLERABLE) for line in found):
        return verdict(found)
    if not installed(folder):
        shutil.rmtree(str(folder / ".venv"), ignore_errors=True)  # of an installation that was cut off
        print("Installing into .venv: several minutes.", flush=True)
        pip = [str(python_of(folder)), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index"]
        wheels = ["--no-deps", "--find-links", str(folder / "wheels"), "-r", str(pins(folder))]  # all that they need
        for step in ([sys.executable, "-m", "venv", str(folder / ".venv")], [*pip, *wheels]):
            if subprocess.call(step, env=inside(folder)):
                return verdict([f"Install: this failed, and above is why: {' '.join(step)}"])
        (folder / ".venv" / "room").write_text("installed\n")
    return check(folder)


def check(folder: Path, chapters: Sequence[str] = ()) -> int:
    """Say what is missing, a line each; with chapters, run them if all else is well."""
    found = [*lacking(folder), *no_browser(), *not_installed(folder)]
    status = 0
    if installed(folder) and pins(folder).exists():
        look = [str(python_of(folder)), str(folder / "room.py"), "look", *(() if found else chapters)]
        status = subprocess.call(look, env=inside(folder))
        if status not in (0, LACKING):
            found.append(f"Environment: its Python fails ({status}).")
    return verdict(found) if found or not status else 1


def verdict(found: Sequence[str]) -> int:
    """Print what was found, or "ready"; the exit status."""
    print(*(found or ["ready"]), sep="\n", flush=True)
    return 1 if found else 0


def start(folder: Path, more: Sequence[str] = ()) -> int:
    """Open JupyterLab with the notebooks of the archive; it asks no other host for anything."""
    if not installed(folder):
        return verdict(not_installed(folder))
    quiet = ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.news_url="]
    where = [f"--ServerApp.root_dir={folder / 'notebooks'}", "--LabApp.default_url=/lab/tree/index.ipynb"]
    root = ["--allow-root"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    command = [str(python_of(folder)), "-m", "jupyterlab", *quiet, *where, *root, *more]
    return subprocess.call(command, env=inside(folder))


# ---- By the environment's own Python: does it work?


def look(folder: Path, chapters: Sequence[str]) -> int:
    """Print a line for each package, import, data set or chapter that is not as it should be; the exit status."""
    found = list(other_packages(folder))
    for what, problem in (("PyTorch", bad_torch), ("Data", bad_data), ("Check", bad_check)):
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # a check prints its verdict
                message = problem()
        except Exception as error:
            message = f"{type(error).__name__}: {error}".splitlines()[0]
        found += [f"{what}: {message}"] if message else []
    for chapter in () if found else chapters:
        found += run(folder, chapter)
    print(*found, sep="\n", end="\n" if found else "", flush=True)
    return LACKING if found else 0


def other_packages(folder: Path) -> Iterator[str]:
    """The packages that are missing or of another version."""
    from importlib import metadata

    for name, version in (line.split("==") for line in pins(folder).read_text().split()):
        try:
            have = metadata.version(name)
        except metadata.PackageNotFoundError:
            have = "not installed"
        if have != version:
            yield f"Package: {name} should be {version} and is {have}."


def bad_torch() -> str:
    import torch

    return "" if float(torch.ones(3).sum()) == 3 else "it adds wrongly."


def bad_data() -> str:
    from vitnb import data

    name = data.load().name
    return "" if name == "fashion_mnist" else f"vitnb finds {name} in place of Fashion-MNIST."


def bad_check() -> str:
    from vitbook import check

    def count_tokens(height, width, patch_size):
        if height % patch_size or width % patch_size:
            raise ValueError("the patches do not fill the image")
        return (height // patch_size) * (width // patch_size)

    if not check("1.1", count_tokens):
        return "exercise 1.1 refuses a right answer."
    return "exercise 1.1 accepts a wrong answer." if check("1.1", lambda height, width, patch_size: 7) else ""


def run(folder: Path, chapter: str) -> list[str]:
    """Execute a chapter in a kernel of its own, with small settings; print its seconds and the kernel's memory."""
    import nbclient
    import nbformat

    path = next(iter(sorted((folder / "notebooks").glob(f"{chapter}*.ipynb"))), None)
    if path is None:
        return [f"Chapter: there is no notebook {chapter}."]
    notebook = nbformat.read(str(path), as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(PEAK))
    resources = {"metadata": {"path": str(path.parent)}}
    client = nbclient.NotebookClient(notebook, timeout=900, kernel_name="python3", resources=resources)
    begin = time.perf_counter()
    try:
        client.execute(env=dict(os.environ, VITNB_FAST="1"))
    except Exception as error:
        return [f"Chapter: {path.stem} stops: {str(error).strip().splitlines()[-1]}"]
    peak = int(notebook.cells[-1].outputs[0]["text"])
    print(f"{path.stem}: {time.perf_counter() - begin:.0f} s, {peak / 1e6:.0f} MB of memory", flush=True)
    return []


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("install", "check", "start", "look"))
    parser.add_argument("--chapters", nargs="+", default=[], metavar="NN", help="check runs these, too")
    options, more = parser.parse_known_args(arguments)
    if options.command == "look":
        return look(HERE, more)
    if options.command == "start":
        return start(HERE, more)
    if more:
        parser.error(f"unknown: {' '.join(more)}")
    return install(HERE) if options.command == "install" else check(HERE, options.chapters)


if __name__ == "__main__":
    sys.exit(main())

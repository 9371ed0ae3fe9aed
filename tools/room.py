"""The book for a room without internet: one archive, packed at a machine with a network, installed at those without.

In the repository, with a network:

    .venv/bin/python -m tools.room pack        for machines like this one; --platform and --python name others
    .venv/bin/python -m tools.room prove       installs the archive and runs two chapters where there is no network

In the unpacked archive, with nothing but Python:

    python3 room.py install                    everything into the folder .venv, then the check
    python3 room.py check                      what is missing, a line each, or "ready"
    python3 room.py start                      JupyterLab, with the data of the archive
"""

from __future__ import annotations  # an older Python must be able to read this file: it is told that it is too old

import argparse
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import webbrowser
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent  # of the repository, where this file lies in tools/
FOLDER = "vitnb-room"  # what the archive unpacks to
DATE = (1980, 1, 1, 0, 0, 0)  # of all files in the archive: the same files make the same bytes
FIRST = (3, 11)  # the Python that vitnb needs
ROOTS = ("vitnb", "jupyterlab")  # what is installed, with all that these need in turn
LEFT_OUT = ("jax",)  # chapters for which the room has no packages
# What pip and the markers of requirements call a machine.
PLATFORMS = {
    "linux-x86_64": ("linux", "Linux", "x86_64"),
    "linux-arm64": ("linux", "Linux", "aarch64"),
    "macos-arm64": ("darwin", "Darwin", "arm64"),
    "windows-x86_64": ("win32", "Windows", "AMD64"),
}
GLIBC, MACOS = 28, (14, 0)  # the newest systems for which wheels are taken: glibc 2.28 is of 2018
CPU = "https://download.pytorch.org/whl/cpu"  # PyTorch's own index of builds for CPUs alone
PY = "py" if os.name == "nt" else "python3"
MEMORY = 4e9  # bytes; the notebooks of one chapter, JupyterLab and a browser
EXTRA = 5e8  # bytes; to what the wheels hold come compiled files, pip, and what students save
STORED = (".whl", ".gz", ".png", ".woff2", ".jpg")  # compressed already
SOLUTION = re.compile(r"<details>\s*<summary>Solution</summary>.*?</details>", re.DOTALL)

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


# ---- What both sides know


def this_platform() -> str:
    """The name of this machine, as in PLATFORMS where it is one of them."""
    system = {"Darwin": "macos"}.get(platform.system(), platform.system().lower())
    machine = {"amd64": "x86_64", "aarch64": "arm64"}.get(platform.machine().lower(), platform.machine().lower())
    return f"{system}-{machine}" + ("" if sys.maxsize > 2**32 else "-with-a-32-bit-Python")


def this_python() -> str:
    """Such as 3.11."""
    return "{}.{}".format(*sys.version_info[:2])


def sha256(path: Path) -> str:
    """The checksum of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def folder_size(folder: Path) -> int:
    """Bytes of all files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


# ---- In the room: install, check, start. Python's standard library only.


def read_manifest(folder: Path) -> dict:
    """What the archive says of itself.

    Raises: SystemExit if this is no unpacked archive.
    """
    try:
        return json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SystemExit(f"manifest.json cannot be read ({error}): unpack the archive again.") from None


def target_here(manifest: dict) -> dict | None:
    """The part of the manifest for this machine and this Python, or None."""
    mine = {"platform": this_platform(), "python": this_python()}
    return next((one for one in manifest["targets"] if mine.items() <= one.items()), None)


def wrong_machine(manifest: dict) -> Iterator[str]:
    """What this machine or this Python lacks before anything can be installed."""
    platforms = sorted({one["platform"] for one in manifest["targets"]})
    if this_platform() not in platforms:
        yield f"Platform: the archive has wheels for {', '.join(platforms)}, and this machine is {this_platform()}."
        return
    pythons = [one["python"] for one in manifest["targets"] if one["platform"] == this_platform()]
    if this_python() not in pythons:
        other = next(filter(shutil.which, (f"python{version}" for version in pythons)), None)
        wanted = f" Run: {other} room.py install" if other else ""
        yield f"Python: the archive has wheels for {', '.join(pythons)}, and this is {this_python()}.{wanted}"
        return
    target = target_here(manifest)
    have = [int(n) for n in re.findall(r"\d+", (platform.mac_ver()[0] or platform.libc_ver()[1]))[:2]]
    if target["system"] and (not have or have < target["system"]):
        name = "macOS" if platform.mac_ver()[0] else "glibc"
        at_least, found = (".".join(map(str, version)) for version in (target["system"], have))
        yield f"System: the wheels need {name} {at_least} or newer, and this is {found or 'without it'}."
    if importlib.util.find_spec("ensurepip") is None:
        yield "Python: it cannot make environments (on Debian and Ubuntu, install the package python3-venv)."


def too_small(folder: Path, target: dict) -> Iterator[str]:
    """What a machine must have room for: memory, and disk and short paths while nothing is installed."""
    have = memory()
    if have and have < MEMORY * 0.93:  # a machine of 4 GB keeps some of it
        yield f"Memory: {MEMORY / 1e9:.0f} GB are wanted, and this machine has {have / 1e9:.1f} GB."
    if installed(folder):
        return
    free = shutil.disk_usage(str(folder)).free
    wanted = target["unpacked"] + EXTRA
    if free < wanted:
        yield f"Disk: {wanted / 1e9:.1f} GB are wanted here, and {free / 1e9:.1f} GB are free."
    deep = len(str(folder / ".venv" / "Lib" / "site-packages")) + 1 + target["longest"]
    if os.name == "nt" and deep > 259:
        yield f"Path: Windows allows 259 characters, and {deep} are needed. Move the folder nearer to C:\\."


def memory() -> int:
    """Bytes of memory of this machine, or 0 where it does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        pass
    try:
        import ctypes

        status = (ctypes.c_uint64 * 8)(64)  # MEMORYSTATUSEX: its length, and as its second number all memory
        return status[1] if ctypes.windll.kernel32.GlobalMemoryStatusEx(status) else 0
    except (AttributeError, ImportError, OSError):
        return 0


def damaged(folder: Path, manifest: dict, target: dict | None) -> Iterator[str]:
    """What is missing or damaged in the unpacked archive: wheels and data one by one, pages and notebooks counted."""
    wheels = {f"wheels/{name}" for name in target["wheels"]} if target else set()
    several = {}
    for name, wanted in sorted(manifest["files"].items()):
        kind = {"wheels": "Wheel", "data": "Data", "pages": "Pages", "notebooks": "Notebooks"}.get(name.split("/")[0])
        if kind == "Wheel" and name not in wheels:
            continue
        path = folder / name
        if not path.is_file():
            state = "missing"
        elif kind == "Notebooks" or (path.stat().st_size, sha256(path)) == (wanted["size"], wanted["sha256"]):
            continue  # a notebook is there to be changed
        else:
            state = "damaged"
        several.setdefault((kind, state, name if kind in ("Wheel", "Data") else kind), []).append(name)
    for (kind, state, _), names in several.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        yield f"{kind or 'Archive'}: {names[0]}{more} {state}. Unpack the archive again."


def python_of(folder: Path) -> Path:
    """The Python of the environment in a folder."""
    return folder / ".venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def installed(folder: Path) -> bool:
    """Whether the environment was installed to its end."""
    return (folder / ".venv" / "room").is_file() and python_of(folder).exists()


def inside(folder: Path) -> dict[str, str]:
    """The variables with which the environment is used: none of other environments, and the data of the archive."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "PYTHON", "VITNB_"))}
    return dict(kept, VITNB_DATA=str(folder / "data"), VITNB_OFFLINE="1", PIP_CONFIG_FILE=os.devnull, PYTHONUTF8="1")


def install(folder: Path) -> int:
    """Make the environment from the wheels of the archive; say what hinders it."""
    manifest = read_manifest(folder)
    target = target_here(manifest)
    found = list(wrong_machine(manifest))
    if not found:
        found = [*too_small(folder, target), *damaged(folder, manifest, target)]
    fatal = [line for line in found if not line.startswith(("Memory", "Pages", "Notebooks"))]
    if fatal:
        return verdict(found)
    if not installed(folder):
        shutil.rmtree(str(folder / ".venv"), ignore_errors=True)  # of an installation that was cut off
        print("Installing into .venv: several minutes.", flush=True)
        pins = folder / "wheels" / f"{target['platform']}-{target['python']}.txt"
        pip = ["-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-index"]
        for step in (
            [sys.executable, "-m", "venv", str(folder / ".venv")],
            [str(python_of(folder)), *pip, "--find-links", str(folder / "wheels"), "-r", str(pins)],
        ):
            if subprocess.call(step, env=inside(folder)):
                return verdict([f"Install: this failed, and above is why: {' '.join(step)}"])
        (folder / ".venv" / "room").write_text("installed\n")
    return check(folder)


def check(folder: Path, chapters: Sequence[str] = ()) -> int:
    """Say what is missing, a line each; with chapters, run them."""
    manifest = read_manifest(folder)
    target, found = target_here(manifest), list(wrong_machine(manifest))
    if target:
        found += too_small(folder, target)
    found += damaged(folder, manifest, target)
    try:
        webbrowser.get()
    except webbrowser.Error:
        found.append("Browser: none was found; JupyterLab and the pages need one.")
    if not installed(folder):
        found.append(f"Environment: not installed. Run: {PY} room.py install")
    elif target:
        found += ask(folder, "probe", json.dumps(target["pins"]))
        for chapter in () if found else chapters:
            found += ask(folder, "run", chapter)
    return verdict(found)


def ask(folder: Path, *question: str) -> list[str]:
    """Let the environment's own Python look; the lines that it prints after "missing: "."""
    command = [str(python_of(folder)), str(folder / "room.py"), *question]
    done = subprocess.run(command, env=inside(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    found = [line[len("missing: ") :] for line in lines if line.startswith("missing: ")]
    for line in lines:
        if line.startswith("done: "):
            print(line[len("done: ") :], flush=True)
    if done.returncode and not found:
        found = [f"Environment: its Python fails ({lines[-1] if lines else done.returncode})."]
    return found


def verdict(found: Sequence[str]) -> int:
    """Print what was found, or "ready"; the exit status."""
    print(*(found or ["ready"]), sep="\n", flush=True)
    return 1 if found else 0


def start(folder: Path, more: Sequence[str] = ()) -> int:
    """Open JupyterLab with the notebooks of the archive; it asks no other host for anything."""
    if not installed(folder):
        return verdict([f"Environment: not installed. Run: {PY} room.py install"])
    quiet = ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.news_url="]
    where = [f"--ServerApp.root_dir={folder / 'notebooks'}", "--LabApp.default_url=/lab/tree/index.ipynb"]
    root = ["--allow-root"] if getattr(os, "geteuid", lambda: 1)() == 0 else []
    command = [str(python_of(folder)), "-m", "jupyterlab", *quiet, *where, *root, *more]
    return subprocess.call(command, env=inside(folder))


# ---- In the room, by the environment's own Python: does it work?


def probe(pins: dict[str, str]) -> None:
    """Print "missing: ..." for each package, import, data set or check that is not as it should be."""
    import importlib.metadata as metadata

    for name, version in pins.items():
        try:
            have = metadata.version(name)
        except metadata.PackageNotFoundError:
            have = "not installed"
        if have != version:
            print(f"missing: Package: {name} should be {version} and is {have}.")
    for what, look in (("PyTorch", _torch), ("Data", _data), ("Check", _exercise)):
        try:
            problem = look()
        except Exception as error:
            problem = f"{type(error).__name__}: {error}".splitlines()[0]
        if problem:
            print(f"missing: {what}: {problem}")


def _torch() -> str:
    import torch

    return "" if float(torch.ones(3).sum()) == 3 else "it adds wrongly."


def _data() -> str:
    from vitnb import data

    name = data.load().name
    return "" if name == "fashion_mnist" else f"vitnb finds {name} in place of Fashion-MNIST."


def _exercise() -> str:
    from vitbook import check

    def count_tokens(height, width, patch_size):
        if height % patch_size or width % patch_size:
            raise ValueError("the patches do not fill the image")
        return (height // patch_size) * (width // patch_size)

    if not check("1.1", count_tokens):
        return "exercise 1.1 refuses a right answer."
    return "exercise 1.1 accepts a wrong answer." if check("1.1", lambda height, width, patch_size: 7) else ""


def run(chapter: str) -> None:
    """Execute a chapter in a kernel of its own, with small settings; print its seconds and the kernel's memory."""
    import nbclient
    import nbformat

    found = sorted((HERE / "notebooks").glob(f"{chapter}*.ipynb"))
    if not found:
        print(f"missing: Chapter: there is no notebook {chapter}.")
        return
    notebook = nbformat.read(str(found[0]), as_version=4)
    peak = (
        "import resource, sys\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == 'darwin' else 1024))"
        if os.name != "nt"
        else "import psutil\nprint(psutil.Process().memory_info().peak_wset)"
    )
    notebook.cells.append(nbformat.v4.new_code_cell(peak))
    client = nbclient.NotebookClient(
        notebook, timeout=900, kernel_name="python3", resources={"metadata": {"path": str(HERE / "notebooks")}}
    )
    begin = time.perf_counter()
    try:
        client.execute(env=dict(os.environ, VITNB_FAST="1"))
    except Exception as error:
        print(f"missing: Chapter: {found[0].stem} stops: {str(error).strip().splitlines()[-1]}")
        return
    taken, bytes_ = time.perf_counter() - begin, int(notebook.cells[-1].outputs[0]["text"])
    print(f"done: {found[0].stem}: {taken:.0f} s, {bytes_ / 1e6:.0f} MB of memory")


# ---- In the repository: pack, prove


def pack(out: Path, targets: Sequence[tuple[str, str]], solutions: bool = True, torch_index: str = "") -> Path:
    """Write the archive; return its path.

    Raises: SystemExit if a wheel or the data cannot be had: then no archive is written.
    """
    files = {**data_files(), **page_files(solutions), **notebook_files(solutions)}
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=str(out.parent), prefix=".room-") as work:
        pool = Path(work) / "wheels"
        pool.mkdir()
        own = build_wheel(pool)
        chosen = [collect(*target, pool, own, torch_index) for target in targets]
        files.update({f"wheels/{path.name}": path for path in pool.glob("*.whl")})
        for target in chosen:
            pins = "".join(f"{name}=={version}\n" for name, version in target["pins"].items())
            files[f"wheels/{target['platform']}-{target['python']}.txt"] = pins.encode()
        files["room.py"] = Path(__file__)
        files["README.txt"] = readme(chosen).encode()
        write(out, files, chosen)
    return out


def build_wheel(pool: Path) -> Path:
    """Build the package vitnb beside nothing else, with the date of its last commit."""
    with tempfile.TemporaryDirectory() as place:
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(str(ROOT / name), place)
        for name in ("vitnb", "vitbook", "book/results"):
            shutil.copytree(str(ROOT / name), str(Path(place) / name), ignore=shutil.ignore_patterns("__pycache__"))
        program = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
        command = [sys.executable, "-c", program, str(pool)]
        done = subprocess.run(
            command, cwd=place, env=dict(os.environ, SOURCE_DATE_EPOCH="315532800"), capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"vitnb cannot be built:\n{done.stderr}")
    return next(pool.glob("vitnb-*.whl"))


def environment(name: str, version: str) -> dict[str, str]:
    """What the markers of requirements ask of a target. pip would answer for this machine."""
    system, system_name, machine = PLATFORMS[name]
    return {
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "os_name": "nt" if system == "win32" else "posix",
        "sys_platform": system,
        "platform_system": system_name,
        "platform_machine": machine,
        "platform_release": "",
        "platform_version": "",
        "python_version": version,
        # The oldest: what it can use, the newer ones can, and Debian 12 has 3.11.2.
        "python_full_version": f"{version}.0",
        "implementation_version": f"{version}.0",
    }


def tags(name: str) -> list[str]:
    """The platform tags of wheels that a target can use, the newest first."""
    from packaging.tags import mac_platforms

    _, _, machine = PLATFORMS[name]
    if name.startswith("macos"):
        return list(mac_platforms(MACOS, machine))
    if name.startswith("windows"):
        return ["win_amd64"]
    old = {17: "manylinux2014", 12: "manylinux2010", 5: "manylinux1"}
    numbers = [n for n in range(GLIBC, 4, -1) if machine == "x86_64" or n >= 17]
    return [tag for n in numbers for tag in (f"manylinux_2_{n}_{machine}", n in old and f"{old[n]}_{machine}") if tag]


def pinned(name: str, version: str) -> dict[str, str]:
    """The versions of constraints.txt for a target: name -> version."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = [line.split("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines()]
    wanted = [Requirement(line) for line in lines if line]
    here = environment(name, version)
    return {
        canonicalize_name(one.name): str(one.specifier).replace("==", "")
        for one in wanted
        if one.marker is None or one.marker.evaluate(here)
    }


def collect(name: str, version: str, pool: Path, own: Path, torch_index: str) -> dict:
    """Download what a target needs, from the roots to the last package that one of them requires."""
    pins, here = pinned(name, version), environment(name, version)
    found = {"vitnb": own}
    seen, todo = set(), {(root, "") for root in ROOTS}
    print(f"Wheels for {name}, Python {version} ...", flush=True)
    while todo:
        wanted = sorted({package for package, _ in todo} - set(found))
        unknown = [package for package in wanted if package not in pins]
        if unknown:
            raise SystemExit(f"constraints.txt has no version of {', '.join(unknown)} for {name}: python -m tools.lock")
        found.update(download({package: pins[package] for package in wanted}, name, version, pool, torch_index))
        seen |= todo
        todo = {need for package, extra in todo for need in required(found[package], extra, here)} - seen
    return record(name, version, found)


def required(wheel: Path, extra: str, here: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The (package, extra) pairs that a wheel requires of a target."""
    from email.parser import Parser

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    with zipfile.ZipFile(str(wheel)) as archive:
        metadata = next(entry for entry in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", entry))
        lines = Parser().parsestr(archive.read(metadata).decode()).get_all("Requires-Dist") or []
    for one in map(Requirement, lines):
        if one.marker is None or one.marker.evaluate(dict(here, extra=extra)):
            for more in ("", *one.extras):
                yield canonicalize_name(one.name), more


def download(pins: dict[str, str], name: str, version: str, pool: Path, torch_index: str) -> dict[str, Path]:
    """Download wheels for a target into the pool; name -> wheel."""
    supported = [part for tag in tags(name) for part in ("--platform", tag)]
    pip = ["-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:"]
    target = ["--implementation", "cp", "--python-version", version, *supported, "-d", str(pool)]
    groups = {"": [], torch_index: []}
    for package, pin in pins.items():
        groups[torch_index if package in ("torch", "torchvision") else ""].append(f"{package}=={pin}")
    for index, wanted in groups.items():
        if not wanted:
            continue
        command = [sys.executable, *pip, *target, *(["--index-url", index] if index else []), *wanted]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            why = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
            raise SystemExit(f"No wheels for {name}, Python {version}:\n" + "\n".join(why[-2:]))
    return {package: wheel_of(package, pin, name, version, pool) for package, pin in pins.items()}


def wheel_of(package: str, pin: str, name: str, version: str, pool: Path) -> Path:
    """The wheel in the pool that a target would choose."""
    from packaging.tags import compatible_tags, cpython_tags
    from packaging.utils import parse_wheel_filename
    from packaging.version import Version

    number = tuple(map(int, version.split(".")))
    order = [*cpython_tags(number, platforms=tags(name))]
    order += compatible_tags(number, f"cp{version.replace('.', '')}", tags(name))
    place = {tag: rank for rank, tag in enumerate(order)}
    ranked = []
    for path in pool.glob("*.whl"):
        known, have, _, offered = parse_wheel_filename(path.name)
        if known == package and have.public == Version(pin).public and offered & set(place):
            ranked.append((min(place[tag] for tag in offered if tag in place), path))
    return min(ranked)[1]


def record(name: str, version: str, found: dict[str, Path]) -> dict:
    """What the manifest says of a target."""
    from packaging.utils import parse_wheel_filename

    entries = [entry for path in found.values() for entry in zipfile.ZipFile(str(path)).infolist()]
    parsed = {package: parse_wheel_filename(path.name) for package, path in found.items()}
    return {
        "platform": name,
        "python": version,
        "system": max((oldest(offered) for _, _, _, offered in parsed.values()), default=[]),
        "wheels": sorted(path.name for path in found.values()),
        "pins": {package: str(parsed[package][1]) for package in sorted(parsed)},
        "unpacked": sum(entry.file_size for entry in entries),
        "longest": max(len(entry.filename) for entry in entries),
    }


def oldest(offered: Iterable) -> list[int]:
    """The oldest glibc or macOS that a wheel runs on, [] where it does not matter."""
    found = []
    for tag in offered:
        old = {"manylinux1": [2, 5], "manylinux2010": [2, 12], "manylinux2014": [2, 17]}
        number = re.match(r"(?:manylinux|macosx)_(\d+)_(\d+)_", tag.platform)
        found.append(list(map(int, number.groups())) if number else old.get(tag.platform.split("_")[0], []))
    return min(found)


def data_files() -> dict[str, Path]:
    """Fashion-MNIST's four archives, checked against torchvision's sums, downloaded where they are missing."""
    from vitnb import _archives

    folder = _archives.place()
    if folder is None:
        try:
            _archives.fashion_mnist()
        except (ConnectionError, RuntimeError) as error:
            raise SystemExit(f"No Fashion-MNIST: {error}") from None
        folder = _archives.place()
    return {f"data/FashionMNIST/raw/{name}": folder / name for name, _ in _archives.RESOURCES}


def page_files(solutions: bool) -> dict[str, Path | bytes]:
    """The built book; built first if it is missing."""
    html = ROOT / "_build" / "html"
    if not (html / "index.html").is_file():
        print("Building the pages: a minute or more ...", flush=True)
        command = [sys.executable, "-m", "jupyter_book", "build", str(ROOT), "--all", "-W", "--keep-going", "-n", "-q"]
        if subprocess.call(command, stdout=subprocess.DEVNULL):
            raise SystemExit("The pages cannot be built: make book says why.")
    paths = [path for path in html.rglob("*") if path.is_file() and not path.name.startswith(".")]
    return {f"pages/{path.relative_to(html).as_posix()}": shown(path, solutions) for path in paths}


def notebook_files(solutions: bool) -> dict[str, Path | bytes]:
    """The chapters, and what they link to."""
    book = ROOT / "book"
    paths = [*book.glob("*.ipynb"), *book.glob("*.md"), *book.glob("assets/drawings/*.svg")]
    paths += book.glob("solutions/*.ipynb") if solutions else []
    kept = [path for path in paths if path.stem not in LEFT_OUT]
    return {f"notebooks/{path.relative_to(book).as_posix()}": shown(path, solutions) for path in kept}


def shown(path: Path, solutions: bool) -> Path | bytes:
    """A file, or, without solutions, the bytes of it that remain."""
    if solutions or path.suffix not in (".ipynb", ".html"):
        return path
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".html":
        return SOLUTION.sub("", text).encode()
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        cell["source"] = SOLUTION.sub("", "".join(cell["source"])).splitlines(keepends=True)
    return (json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n").encode()


def readme(targets: Sequence[dict]) -> str:
    """The text for a student."""
    return README.format(
        pythons=" or ".join(sorted({one["python"] for one in targets})),
        platforms=", ".join(sorted({one["platform"] for one in targets})),
        disk=(max(one["unpacked"] for one in targets) + EXTRA) / 1e9,
        folder=FOLDER,
    )


def write(out: Path, files: dict[str, Path | bytes], targets: Sequence[dict]) -> None:
    """Write the archive under another name, its manifest last, and give it its name when it is whole."""
    from vitnb._files import replacing

    listed = {}
    with replacing(out) as part, zipfile.ZipFile(str(part), "w") as archive:
        for name, what in sorted(files.items()):
            size = len(what) if isinstance(what, bytes) else what.stat().st_size
            digest = hashlib.sha256(what).hexdigest() if isinstance(what, bytes) else sha256(what)
            listed[name] = {"size": size, "sha256": digest}
            add(archive, name, what, size)
        manifest = {"format": 1, "commit": commit(), "targets": targets, "files": listed}
        text = (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode()
        add(archive, "manifest.json", text, len(text))


def add(archive: zipfile.ZipFile, name: str, what: Path | bytes, size: int) -> None:
    """Add a file to the archive, with nothing of this machine but its content."""
    entry = zipfile.ZipInfo(f"{FOLDER}/{name}", DATE)
    entry.external_attr = 0o644 << 16
    entry.compress_type = zipfile.ZIP_STORED if name.endswith(STORED) else zipfile.ZIP_DEFLATED
    entry.file_size = size
    with archive.open(entry, "w") as target:
        if isinstance(what, bytes):
            target.write(what)
        else:
            with open(str(what), "rb") as source:
                shutil.copyfileobj(source, target, 1 << 20)


def commit() -> str:
    """The commit that is packed, or nothing outside a repository."""
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=str(ROOT), capture_output=True, text=True)
    return done.stdout.strip()


def prove(archive: Path, chapters: Sequence[str]) -> int:
    """Install the archive and run chapters where there is no network, in a folder with a space and an umlaut.

    Raises: SystemExit where there is no bubblewrap, or where it leaves the network in.
    """
    python = getattr(sys, "_base_executable", sys.executable)
    with tempfile.TemporaryDirectory(prefix="Übung im Saal ") as place:
        begin = time.perf_counter()
        with zipfile.ZipFile(str(archive)) as packed:
            packed.extractall(place)
        print(f"archive: {archive.stat().st_size / 1e6:.0f} MB; unpacked in {time.perf_counter() - begin:.0f} s")
        folder = Path(place) / FOLDER
        # The repository is hidden, too: only what travels may help.
        away = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", str(ROOT), "--unshare-net", "--die-with-parent"]
        room = [*away, "--chdir", str(folder), "--setenv", "BROWSER", "true", python]
        if subprocess.call([*room, "-c", ALONE]):
            raise SystemExit("bubblewrap is missing, or leaves the network in: nothing was proved.")
        for step in (["install"], ["check", *(["--chapters", *chapters] if chapters else [])]):
            begin, work = time.perf_counter(), work_of_children()
            status = subprocess.call([*room, "room.py", *step])
            taken, work = time.perf_counter() - begin, work_of_children() - work
            print(f"{step[0]}: {taken:.0f} s ({work:.0f} s of them work), exit status {status}", flush=True)
            if status:
                return status
        print(f"environment: {folder_size(folder / '.venv') / 1e6:.0f} MB on the disk")
    return 0


def work_of_children() -> float:
    """Seconds that processors have worked for programs that this one has started and that have ended."""
    times = os.times()
    return times.children_user + times.children_system


ALONE = "import socket, sys; sys.exit([name for _, name in socket.if_nameindex()] != ['lo'])"


# ---- The command line


def main(arguments: Sequence[str] | None = None) -> int | None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.required = True
    one = commands.add_parser("pack", help="with a network, in the repository: write the archive")
    one.add_argument("--platform", nargs="+", default=[this_platform()], choices=sorted(PLATFORMS), metavar="NAME")
    one.add_argument("--python", nargs="+", default=[this_python()], metavar="3.N")
    one.add_argument("--out", type=Path, default=ROOT / "_build" / "room.zip")
    one.add_argument("--without-solutions", action="store_true", help="chapters and pages without folded solutions")
    one.add_argument("--cpu", dest="torch_index", action="store_const", const=CPU, default="", help="PyTorch for CPUs")
    one.add_argument("--torch-index", default="", metavar="URL", help="PyTorch from another index")
    one = commands.add_parser("prove", help="install and run an archive where there is no network (Linux)")
    one.add_argument("archive", nargs="?", type=Path, default=ROOT / "_build" / "room.zip")
    one.add_argument("--chapters", nargs="*", default=["01", "03"])
    commands.add_parser("install", help="in the unpacked archive: install, then check")
    one = commands.add_parser("check", help="in the unpacked archive: what is missing?")
    one.add_argument("--chapters", nargs="+", default=[], metavar="NN", help="run these, too, with small settings")
    commands.add_parser("start", help="in the unpacked archive: open JupyterLab")
    for name in ("probe", "run"):  # asked by check
        commands.add_parser(name).add_argument("what")
    options, more = parser.parse_known_args(arguments)
    if more and options.command != "start":
        parser.error(f"unknown: {' '.join(more)}")
    if options.command == "pack":
        return told(options, parser)
    if options.command == "prove":
        return prove(options.archive.resolve(), options.chapters)
    if options.command in ("probe", "run"):
        return probe(json.loads(options.what)) if options.command == "probe" else run(options.what)
    if options.command == "install":
        return install(HERE)
    return start(HERE, more) if options.command == "start" else check(HERE, options.chapters)


def told(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Pack as the command line asks, and say what came of it."""
    for version in options.python:
        if not re.fullmatch(r"3\.\d+", version) or tuple(map(int, version.split("."))) < FIRST:
            parser.error(f"--python {version}: 3.11 or newer is wanted, such as 3.12")
    begin = time.perf_counter()
    targets = [(name, version) for name in options.platform for version in options.python]
    out = pack(options.out.resolve(), targets, not options.without_solutions, options.torch_index)
    print(f"{out}: {out.stat().st_size / 1e6:.0f} MB in {time.perf_counter() - begin:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Run the tests in a hard place: python -m tools.anywhere [--only NAME ...] [--twice] [--data FOLDER] [-- COMMAND ...]

The last commit is cloned into a folder whose path has a space and letters that
ASCII lacks, with a copy of .venv that imports vitnb from there. There the
command runs, `make test` unless another is given, within all that SURROUNDINGS
names or some of it; --twice does it in two clones at once. Linux, bubblewrap.
"""

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE = "Ein Buch für Gäste, Şişli"
LOCALES = {"turkish": "tr_TR", "german": "de_DE"}  # another lower case of I; a comma in numbers
SURROUNDINGS = {
    # No rights but those of the files' owner. No machine knows the number, and torch wants a name.
    "user": ["--unshare-user", "--uid", "1234", "--gid", "1234", "--setenv", "LOGNAME", "reader"],
    "network": ["--unshare-net"],  # nothing but 127.0.0.1
    "home": ["--tmpfs", "{home}", "--remount-ro", "{home}", "--setenv", "HOME", "{home}"],
    "zone": ["--setenv", "TZ", "Pacific/Kiritimati"],  # 14 hours ahead: there it is tomorrow
    "turkish": ["--setenv", "LC_ALL", "tr_TR.UTF-8", "--setenv", "LOCPATH", "{locales}"],
    "german": ["--setenv", "LC_ALL", "de_DE.UTF-8", "--setenv", "LOCPATH", "{locales}"],
    "C": ["--setenv", "LC_ALL", "C"],
    "umask": [],  # 077: nobody else reads new files
    "hash": ["--setenv", "PYTHONHASHSEED", "{seed}"],
}
AT_ONCE = [name for name in SURROUNDINGS if name not in ("german", "C")]  # one locale is enough for one process


def compile_locales(folder: Path) -> None:
    """Make the locales, which few machines have. Raises: CalledProcessError if that fails."""
    folder.mkdir()
    for name in LOCALES.values():
        target = folder / f"{name}.UTF-8"
        subprocess.run(["localedef", "--no-archive", "-i", name, "-f", "UTF-8", target], check=True)


def clone(folder: Path, environment: bool = True) -> Path:
    """Clone the last commit into a new folder, with an environment of hard links to this one's files."""
    place = folder / PLACE
    subprocess.run(["git", "clone", "-q", str(ROOT), str(place)], check=True)
    if environment:
        old, new = (ROOT / ".venv").resolve(), place / ".venv"
        subprocess.run(["cp", "-al", str(old), str(new)], check=True)
        for path in [*(new / "bin").iterdir(), *new.glob("lib/*/site-packages/__editable__*vitnb*")]:
            if not path.is_symlink():
                rewrite(path, str(old).encode(), str(old.parent).encode(), str(place).encode())
        (new / "ready").unlink()
        for name in ("ready", "jax"):
            (new / name).touch()  # younger than the clone's requirements: nothing is installed anew
    return place


def rewrite(path: Path, old: bytes, project: bytes, place: bytes) -> None:
    """Point a program of .venv/bin, or the pointer to vitnb, to the clone; a "#!" line may hold no space."""
    blob = path.read_bytes()
    first, _, rest = blob.partition(b"\n")
    if first.startswith(b"#!" + old):
        program = place + first.removeprefix(b"#!" + old.removesuffix(b"/.venv"))
        blob = b"#!/bin/sh\n'''exec' \"" + program + b'" "$0" "$@"\n\' \'\'\'\n' + rest
    elif "__editable__" in path.name:
        blob = blob.replace(project, place)
    else:
        return
    mode = path.stat().st_mode
    path.unlink()  # it is a link to the other environment's file
    path.write_bytes(blob)
    path.chmod(mode)


def start(command: list[str], place: Path, names: list[str], seed: int, data: str = "") -> subprocess.Popen:
    """Start a command within the surroundings of these names."""
    words = {"home": place.parent / "home", "locales": place.parent / "locales", "seed": seed}
    words["home"].mkdir(exist_ok=True)
    if any(name in LOCALES for name in names) and not words["locales"].exists():
        compile_locales(words["locales"])
    options = [option.format(**words) for name in names for option in SURROUNDINGS[name]]
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "CI") if name in os.environ}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "VITNB_DATA": data}
    if not data:
        environment["VITNB_OFFLINE"] = "1"
    return subprocess.Popen(
        ["bwrap", "--dev-bind", "/", "/", "--die-with-parent", *options, "--", *command],
        cwd=place,
        env=environment | {"HOME": os.environ.get("HOME", "/")},
        umask=0o077 if "umask" in names else -1,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=SURROUNDINGS, help="instead of nearly all at once")
    parser.add_argument("--twice", action="store_true", help="in two clones at the same time")
    parser.add_argument("--data", default="", help="a folder with Fashion-MNIST, copied for each clone")
    parser.add_argument("command", nargs="*", default=["make", "test"])
    given = parser.parse_args()
    names, seed = given.only or AT_ONCE, random.randrange(1, 2**32)
    print(f"PYTHONHASHSEED={seed}; within: {', '.join(names)}", flush=True)
    folders = [Path(tempfile.mkdtemp(prefix="anywhere-")) for _ in range(1 + given.twice)]
    try:
        started = []
        for folder in folders:
            folder.chmod(0o755)  # a test that gives up root's rights reads there, too
            place = clone(folder)
            if given.data:
                shutil.copytree(given.data, folder / "data")
            started.append(start(given.command, place, names, seed, str(folder / "data") if given.data else ""))
        codes = [process.wait() for process in started]
    finally:
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"exit status: {codes}")
    return max(map(abs, codes))


if __name__ == "__main__":
    sys.exit(main())

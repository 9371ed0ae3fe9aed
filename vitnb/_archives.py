"""Where Fashion-MNIST's archives come from, and how they stay whole.

Four gzip files, or what was unpacked from them, checked against their SHA-256
sums each time they are read: what is damaged, half written or of another data
set (MNIST's files have the same names) is never used. One process at a time
downloads, and a file gets its name when it is complete.
"""

import errno
import gzip
import hashlib
import http.client
import itertools
import os
import struct
import sys
import threading
import urllib.request
from pathlib import Path

import torch
from filelock import FileLock
from torch import Tensor

from vitnb._files import replacing
from vitnb._validate import switched_on

# Where the authors keep the archives, at one commit, and the bucket that torchvision names, by HTTPS; and their sums.
MIRRORS = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/b2617bb6d3ffa2e429640350f613e3291e10b141/data/fashion/",
    "https://fashion-mnist.s3.eu-central-1.amazonaws.com/",
)
RESOURCES = (
    ("train-images-idx3-ubyte.gz", "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"),
    ("train-labels-idx1-ubyte.gz", "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"),
    ("t10k-images-idx3-ubyte.gz", "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"),
    ("t10k-labels-idx1-ubyte.gz", "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"),
)
UNPACKED = (  # sums of the same files without .gz
    "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
)
LAYOUTS = ("FashionMNIST/raw", "raw", ".")  # below a root: torchvision's own, its parent, or where the files lie
LARGEST = 32 << 20  # bytes of an archive: a mirror may send without end
TIMEOUT = 10.0  # seconds that a mirror may stay silent
FULL = (errno.ENOSPC, errno.EDQUOT)


def fashion_mnist(root: str | Path | None = None) -> list[Tensor]:
    """Train images, train labels, test images, test labels, as uint8.

    Looks in root, $VITNB_DATA and the user's cache, then downloads into the first that can be written.
    Raises: ConnectionError, which says where it looked, if there is nothing here and no download;
        RuntimeError if what is here is damaged and could not be replaced; OSError if the disk is full.
    """
    folders = _folders(root)
    found = next(filter(None, (_read(folder / layout) for folder in folders for layout in LAYOUTS)), None)
    if found is not None:
        return found
    target = next(filter(_writable, folders), folders[-1]) / LAYOUTS[0]
    try:
        _download(target)
    except OSError as error:
        if error.errno in FULL:
            what = f"the disk is full: Fashion-MNIST needs 31 MB in {target}; make room, or set VITNB_DATA"
            raise OSError(error.errno, what) from error
        _check_damage(folders, error)
        raise ConnectionError(f"{'; '.join(map(_lack, folders))}; no download ({error})") from error
    found = _read(target)
    assert found is not None  # each archive was checked before it was put there
    return found


def place() -> Path | None:
    """The folder in which all four archives are whole, None if there is none; nothing is downloaded."""
    places = (folder / LAYOUTS[0] for folder in _folders())
    return next((place for place in places if all(_blob(place / name, sum_) for name, sum_ in RESOURCES)), None)


def cache_dir() -> Path:
    """The folder where this platform keeps a user's caches, for vitnb."""
    home = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or home) / "vitnb"


def _folders(root: str | Path | None = None) -> list[Path]:
    """Where the archives may be, in the order in which they are looked for."""
    places = [place for place in (root, os.environ.get("VITNB_DATA"), cache_dir()) if place]
    return list(dict.fromkeys(Path(place).expanduser() for place in places))


def _lack(root: Path) -> str:
    """What is missing below a root, in the layout that has most of it."""
    if not root.is_dir():
        return f"{root} is no folder"
    places = [root / layout for layout in LAYOUTS]
    lacks = {
        place: [name for name, _ in RESOURCES if not any(map(Path.exists, _both(place / name)))] for place in places
    }
    place, lack = min(lacks.items(), key=lambda item: len(item[1]))
    return f"{place} lacks {', '.join(lack)}" if len(lack) < len(RESOURCES) else f"{root} has no {LAYOUTS[0]}/*.gz"


def _check_damage(folders: list[Path], error: Exception) -> None:
    """Raise RuntimeError if a file is there and damaged: its owner should know, rather than get other images."""
    places = [folder / layout for folder in folders for layout in LAYOUTS]
    for place, n in itertools.product(places, range(len(RESOURCES))):
        there = list(filter(Path.is_file, _both(place / RESOURCES[n][0])))
        if there and _file(place, n) is None:
            path, expected = there[0], RESOURCES[n][1] if there[0].suffix else UNPACKED[n]
            raise RuntimeError(
                f"{path} is damaged, or of another data set: its SHA-256 sum is {_sum(path.read_bytes())} and should be"
                f" {expected}; no good copy could be fetched ({error}). Replace it, or delete it and load again with a"
                " network."
            ) from error


def _read(folder: Path) -> list[Tensor] | None:
    """Train images, train labels, test images, test labels; None unless all are there and right."""
    files = [file for n in range(len(RESOURCES)) if (file := _file(folder, n)) is not None]
    return [_tensor(file) for file in files] if len(files) == len(RESOURCES) else None


def _both(path: Path) -> tuple[Path, Path]:
    """An archive, and what is unpacked from it."""
    return path, path.with_suffix("")


def _file(folder: Path, n: int) -> bytes | None:
    """The bytes of one of the four files, packed or unpacked, None if it is missing or damaged."""
    packed, plain = _both(folder / RESOURCES[n][0])
    blob = _blob(packed, RESOURCES[n][1])
    return gzip.decompress(blob) if blob else _blob(plain, UNPACKED[n])


def _blob(path: Path, sha256: str) -> bytes | None:
    """The bytes of a file, None if it is missing or damaged."""
    try:
        blob = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    return blob if _sum(blob) == sha256 else None


def _sum(blob: bytes) -> str:
    return hashlib.sha256(blob).hexdigest()


def _tensor(blob: bytes) -> Tensor:
    """The IDX format: two zeros, type, number of axes, the sizes as big-endian integers, the bytes."""
    raw = bytearray(blob)
    header = 4 + 4 * raw[3]
    return torch.frombuffer(raw, dtype=torch.uint8, offset=header).view(struct.unpack(f">{raw[3]}I", raw[4:header]))


def _writable(folder: Path) -> bool:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return os.access(existing, os.W_OK)


def _download(folder: Path) -> None:
    """Fetch what is missing or damaged; a second process waits, and then finds it."""
    if switched_on("VITNB_OFFLINE"):
        raise ConnectionError("VITNB_OFFLINE is set")
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock", timeout=600):
        for part in folder.glob(".*.part"):  # of a process that was killed
            part.unlink()
        for name, sha256 in RESOURCES:
            if _blob(folder / name, sha256) is None:
                blob = _fetch(name, sha256)
                with replacing(folder / name) as part:
                    part.write_bytes(blob)


def _fetch(name: str, sha256: str) -> bytes:
    """The archive from the first mirror that sends it whole."""
    problems = []
    for url in (mirror + name for mirror in MIRRORS):
        try:
            _check_answers(url)
            if sys.stderr.isatty():  # not in a notebook's output
                print(f"Downloading {url}", file=sys.stderr)
            with urllib.request.urlopen(url, timeout=TIMEOUT) as answer:
                blob = answer.read(LARGEST + 1)
            if _sum(blob) == sha256:
                return blob
            problems.append(f"{url} sent a damaged file")
        except (OSError, http.client.HTTPException) as error:
            problems.append(str(error) or type(error).__name__)
    raise ConnectionError(f"{name}: {'; '.join(problems)}")


def _check_answers(url: str) -> None:
    """Raise after TIMEOUT seconds in all, even if the name server or each of ten addresses stays silent."""
    problem: list[Exception | None] = [TimeoutError(f"no answer within {TIMEOUT:g} s")]

    def ask() -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=TIMEOUT).close()
            problem[0] = None
        except Exception as error:
            problem[0] = error

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(TIMEOUT)
    if problem[0] is not None:
        raise problem[0]

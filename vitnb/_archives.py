"""Where Fashion-MNIST's archives come from, and how they stay whole.

Four gzip files, checked against their SHA-256 sums each time they are read
and unpacked in memory: what is damaged, half written or unpacked by others is
never used. One process at a time downloads, and a file gets its name when it is
complete.
"""

import errno
import gzip
import hashlib
import http.client
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
LARGEST = 32 << 20  # bytes of an archive: a mirror may send without end
TIMEOUT = 10.0  # seconds that a mirror may stay silent
FULL = (errno.ENOSPC, errno.EDQUOT)


def fashion_mnist(root: str | Path | None = None) -> list[Tensor]:
    """Train images, train labels, test images, test labels, as uint8.

    Looks in root, $VITNB_DATA and the user's cache, then downloads into the first that can be written.
    Raises: ConnectionError if there is nothing here and no download; RuntimeError if what is here is
        damaged and could not be replaced; OSError if the disk is full.
    """
    folders = _folders(root)
    found = next(filter(None, map(_read, folders)), None)
    if found is not None:
        return found
    target = next(filter(_writable, folders), folders[-1])
    try:
        _download(target)
    except OSError as error:
        if error.errno in FULL:
            what = f"the disk is full: Fashion-MNIST needs 31 MB in {target}; make room, or set VITNB_DATA"
            raise OSError(error.errno, what) from error
        _check_damage(folders, error)
        raise ConnectionError(str(error)) from error
    return _read(target)


def place() -> Path | None:
    """The folder in which all four archives are whole, None if there is none; nothing is downloaded."""
    return next((folder for folder in _folders() if _whole(folder)), None)


def cache_dir() -> Path:
    """The folder where this platform keeps a user's caches, for vitnb."""
    home = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or home) / "vitnb"


def _folders(root: str | Path | None = None) -> list[Path]:
    """Where the archives may be, in the order in which they are looked for."""
    places = [place for place in (root, os.environ.get("VITNB_DATA"), cache_dir()) if place]
    return [Path(place).expanduser() / "FashionMNIST" / "raw" for place in places]


def _whole(folder: Path) -> list[bytes] | None:
    blobs = [_archive(folder / name, sha256) for name, sha256 in RESOURCES]
    return None if None in blobs else blobs


def _check_damage(folders: list[Path], error: Exception) -> None:
    """Raise RuntimeError if an archive is there and damaged: its owner should know, rather than get other images."""
    for path, sha256 in ((folder / name, sha256) for folder in folders for name, sha256 in RESOURCES):
        if path.exists() and _archive(path, sha256) is None:
            raise RuntimeError(
                f"{path} is damaged: its SHA-256 sum is {_sum(path.read_bytes())} and should be {sha256}; no good copy"
                f" could be fetched ({error}). Replace it, or delete it and load again with a network."
            ) from error


def _read(folder: Path) -> list[Tensor] | None:
    """Train images, train labels, test images, test labels; None unless all archives are there and right."""
    blobs = _whole(folder)
    return blobs and [_unpack(blob) for blob in blobs]


def _archive(path: Path, sha256: str) -> bytes | None:
    """The bytes of an archive, None if it is missing or damaged."""
    try:
        blob = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return blob if _sum(blob) == sha256 else None


def _sum(blob: bytes) -> str:
    return hashlib.sha256(blob).hexdigest()


def _unpack(blob: bytes) -> Tensor:
    """The IDX format: two zeros, type, number of axes, the sizes as big-endian integers, the bytes."""
    raw = bytearray(gzip.decompress(blob))
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
            if _archive(folder / name, sha256) is None:
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

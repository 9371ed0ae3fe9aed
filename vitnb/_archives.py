"""Where Fashion-MNIST's archives come from, and how they stay whole.

Four gzip files, checked against torchvision's MD5 sums each time they are read
and unpacked in memory: what is damaged, half written or unpacked by others is
never used. A download goes to a folder of its own, under a lock, and each file
gets its name when it is complete.
"""

import errno
import gzip
import hashlib
import http.client
import io
import os
import shutil
import socket
import struct
import sys
import threading
import urllib.request
from contextlib import contextmanager, nullcontext, redirect_stderr
from pathlib import Path

import torch
from filelock import FileLock
from torch import Tensor
from torchvision.datasets import FashionMNIST
from torchvision.datasets.utils import download_url

from vitnb._validate import switched_on

TIMEOUT = 10.0  # seconds that a mirror may stay silent
FULL = (errno.ENOSPC, errno.EDQUOT)


def fashion_mnist(root: str | Path | None = None) -> list[Tensor]:
    """Train images, train labels, test images, test labels, as uint8.

    Looks in root, $VITNB_DATA and the user's cache, then downloads into the first that can be written.
    Raises: ConnectionError if there is nothing here and no download; RuntimeError if what is here is
        damaged and could not be replaced; OSError if the disk is full.
    """
    places = [place for place in (root, os.environ.get("VITNB_DATA"), cache_dir()) if place]
    folders = [Path(place).expanduser() / "FashionMNIST" / "raw" for place in places]
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


def cache_dir() -> Path:
    """The folder where this platform keeps a user's caches, for vitnb."""
    home = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return Path(os.environ.get("XDG_CACHE_HOME") or home) / "vitnb"


def _check_damage(folders: list[Path], error: Exception) -> None:
    """Nothing here is one thing, something broken another: its owner wants to know."""
    for path, md5 in ((folder / name, md5) for folder in folders for name, md5 in FashionMNIST.resources):
        if path.exists() and _archive(path, md5) is None:
            raise RuntimeError(
                f"{path} is damaged: its MD5 sum is {_md5(path.read_bytes())} and should be {md5}; no good copy"
                f" could be fetched ({error}). Replace it, or delete it and load again with a network."
            ) from error


def _read(folder: Path) -> list[Tensor] | None:
    """Train images, train labels, test images, test labels; None unless all archives are there and right."""
    blobs = [_archive(folder / name, md5) for name, md5 in FashionMNIST.resources]
    return None if None in blobs else [_unpack(blob) for blob in blobs]


def _archive(path: Path, md5: str) -> bytes | None:
    """The bytes of an archive, None if it is missing or damaged."""
    try:
        blob = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return blob if _md5(blob) == md5 else None


def _md5(blob: bytes) -> str:
    return hashlib.md5(blob, usedforsecurity=False).hexdigest()


def _unpack(blob: bytes) -> Tensor:
    """The IDX format: two zeros, type, number of axes, the sizes as big-endian integers, the bytes."""
    raw = bytearray(gzip.decompress(blob))
    header = 4 + 4 * raw[3]
    return torch.frombuffer(raw, dtype=torch.uint8, offset=header).view(struct.unpack(f">{raw[3]}I", raw[4:header]))


def _writable(folder: Path) -> bool:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return os.access(existing, os.W_OK)


def _download(folder: Path) -> None:
    """Fetch what is missing: one process at a time; a file gets its name when it is complete."""
    if switched_on("VITNB_OFFLINE"):
        raise ConnectionError("VITNB_OFFLINE is set")
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / ".part"
    with FileLock(folder / ".lock", timeout=600):
        try:
            for name, md5 in FashionMNIST.resources:
                if _archive(folder / name, md5) is None:
                    _fetch(name, md5, part)
                    os.replace(part / name, folder / name)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _fetch(name: str, md5: str, part: Path) -> None:
    """torchvision's checksummed download, from the first of its mirrors that works."""
    problems = []
    for mirror in FashionMNIST.mirrors:
        try:
            with _patience():
                _knock(mirror + name)
                return download_url(mirror + name, str(part), name, md5)
        except (OSError, RuntimeError, http.client.HTTPException) as error:
            if getattr(error, "errno", None) in FULL:
                raise
            problems.append(str(error) or type(error).__name__)
    raise ConnectionError(f"{name}: {'; '.join(problems)}")


def _knock(url: str) -> None:
    """Fail after TIMEOUT seconds in all, even when the name server or each of ten addresses stays silent."""
    answer: list[Exception | None] = [TimeoutError(f"no answer within {TIMEOUT:g} s")]

    def ask() -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=TIMEOUT).close()
            answer[0] = None
        except Exception as error:
            answer[0] = error

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(TIMEOUT)
    if answer[0] is not None:
        raise answer[0]


@contextmanager
def _patience():
    """Within: a silent socket times out, and the download's bar shows in a terminal only, never in a notebook."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)
    try:
        with nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO()):
            yield
    finally:
        socket.setdefaulttimeout(before)

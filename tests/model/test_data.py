"""vitnb.data: what it loads, and that nothing breaks the reader's cache."""

import contextlib
import errno
import gzip
import hashlib
import http.server
import os
import struct
import sys
import tempfile
import threading
import time
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch

import vitbook
from vitbook import budget, images
from vitbook.images import sample_image
from vitnb import _archives, data
from vitnb.data import Dataset, augment


def archive(array: torch.Tensor) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return gzip.compress(header + array.numpy().tobytes(), mtime=0)


def small_archives() -> dict[str, bytes]:
    g = torch.Generator().manual_seed(0)
    arrays = []
    for n in (40, 20):
        arrays.append(torch.randint(0, 256, (n, 28, 28), dtype=torch.uint8, generator=g))
        arrays.append(torch.arange(n, dtype=torch.uint8) % 10)
    return {name: archive(array) for (name, _), array in zip(_archives.RESOURCES, arrays, strict=True)}


ARCHIVES = small_archives()
SUMS = [(name, hashlib.sha256(blob).hexdigest()) for name, blob in ARCHIVES.items()]
IMAGES = SUMS[0][0]
FORKS = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")  # other processes import torch anew


@pytest.fixture(autouse=True)
def small(monkeypatch, tmp_path):
    """A Fashion-MNIST of 60 images, an empty cache and no network."""
    monkeypatch.setattr(_archives, "RESOURCES", SUMS)
    monkeypatch.setattr(_archives, "MIRRORS", ["http://127.0.0.1:1/"])  # refuses
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("VITNB_DATA", raising=False)
    monkeypatch.delenv("VITNB_OFFLINE", raising=False)


@pytest.fixture
def mirror():
    """A web server with the archives; .files may be changed, .pause holds it in the middle of a file."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.files, server.pause, server.sent = dict(ARCHIVES), 0.0, []
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.url = f"http://127.0.0.1:{server.server_port}/"
    yield server
    server.shutdown()
    server.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_response(200)
        self.end_headers()

    def do_GET(self):
        name = self.path.rsplit("/", 1)[1]
        blob = self.server.files[name]
        self.server.sent.append(name)
        self.send_response(200)
        self.send_header("Content-Length", str(len(ARCHIVES[name])))
        self.end_headers()
        try:
            self.wfile.write(blob[:500])
            self.wfile.flush()
            time.sleep(self.server.pause)
            self.wfile.write(blob[500:])
        except OSError:
            pass  # the client was killed

    def log_message(self, *_):
        pass


def raw(root: Path) -> Path:
    return root / "FashionMNIST" / "raw"


def place(root: Path, **changed: bytes) -> Path:
    raw(root).mkdir(parents=True)
    for name, blob in ARCHIVES.items():
        (raw(root) / name).write_bytes(changed.get(name.split(".")[0].replace("-", "_"), blob))
    return root


def is_fashion(dataset: Dataset) -> bool:
    return dataset.name == "fashion_mnist" and dataset.train_images.shape == (40, 1, 28, 28)


def use(monkeypatch, mirror) -> None:
    monkeypatch.setattr(_archives, "MIRRORS", [mirror.url])


# --- where it is found ---


def test_loads_from_root_with_types_classes_and_values(tmp_path):
    d = data.load(root=place(tmp_path / "mine"))
    assert is_fashion(d) and d.test_images.shape == (20, 1, 28, 28)
    assert d.train_images.dtype == torch.uint8 and d.train_labels.dtype == torch.int64
    assert d.train_labels[:12].tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1]
    assert d.classes[9] == "Ankle boot" and d.mirror


def test_finds_vitnb_data_and_then_the_cache(tmp_path, monkeypatch):
    place(tmp_path / "cache" / "vitnb")
    assert is_fashion(data.load())
    monkeypatch.setenv("VITNB_DATA", str(tmp_path / "nothing here"))
    assert is_fashion(data.load())
    monkeypatch.setenv("VITNB_DATA", str(place(tmp_path / "own")))
    (tmp_path / "cache" / "vitnb" / "FashionMNIST" / "raw" / IMAGES).unlink()
    assert is_fashion(data.load())


def test_a_root_is_only_read(tmp_path):
    root = place(tmp_path / "mine")
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    for path in (raw(root), root):
        path.chmod(0o500)
    assert is_fashion(data.load(root=root))
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before
    for path in (root, raw(root)):
        path.chmod(0o700)


def reader(root: Path, offline: str, said: Path) -> None:
    """Load from there as another user, in a process of its own."""
    with said.open("w") as file, contextlib.redirect_stdout(file):
        if os.geteuid() == 0:
            os.setuid(65534)
        assert not os.access(root, os.W_OK)
        os.environ |= {"VITNB_DATA": str(root), "HOME": str(root), "VITNB_OFFLINE": offline}
        os.environ.pop("XDG_CACHE_HOME")
        print(data.load().name)


@FORKS
@pytest.mark.parametrize("offline", ["0", "1"])
def test_a_class_reads_one_folder_in_which_nobody_can_write(offline, tmp_path, monkeypatch):
    """As on a JupyterHub: another user owns it, and a home that cannot be written does no harm either."""
    monkeypatch.setattr(_archives, "MIRRORS", [])
    data.load("digits")  # another user may not be able to import what root's Python has

    def said(root):
        process = get_context("fork").Process(target=reader, args=(root, offline, tmp_path / "said"))
        process.start(), process.join(120)
        assert process.exitcode == 0
        return (tmp_path / "said").read_text()

    with tempfile.TemporaryDirectory() as folder:  # tmp_path is closed to other users
        root = place(Path(folder) / "class")
        for path in (root / "FashionMNIST" / "raw", root / "FashionMNIST", root, Path(folder)):
            path.chmod(0o555)
        try:
            assert said(root) == "fashion_mnist\n"
            assert {path.name for path in raw(root).iterdir()} == set(ARCHIVES)
            raw(root).chmod(0o755)
            (raw(root) / IMAGES).unlink()
            raw(root).chmod(0o555)
            assert (lines := said(root).splitlines())[-1].split()[-1] == "digits" and len(lines) == 2
        finally:
            for path in (Path(folder), root, root / "FashionMNIST", raw(root)):
                path.chmod(0o755)


def test_a_truncated_unpacked_file_does_no_harm(tmp_path):
    root = place(tmp_path / "mine")
    (raw(root) / IMAGES.removesuffix(".gz")).write_bytes(b"\0\0\10\3")
    assert is_fashion(data.load(root=root))


def test_the_real_archives_if_they_are_here(monkeypatch):
    monkeypatch.undo()
    place = os.environ.get("VITNB_DATA")
    if not place or not all((raw(Path(place)) / name).exists() for name, _ in _archives.RESOURCES):
        pytest.skip("VITNB_DATA holds no Fashion-MNIST")
    d = data.load()
    assert d.train_images.shape == (60000, 1, 28, 28) and d.test_images.shape == (10000, 1, 28, 28)
    assert d.train_labels.bincount().tolist() == [6000] * 10
    pixels = torch.arange(256) / 255
    share = d.train_images.flatten().long().bincount(minlength=256) / d.train_images.numel()
    mean = (share * pixels).sum()
    assert abs(mean - d.mean[0]) < 1e-4
    assert abs((share * (pixels - mean) ** 2).sum().sqrt() - d.std[0]) < 1e-4


# --- the download and what can go wrong ---


def test_downloads_once(tmp_path, monkeypatch, mirror, capfd):
    use(monkeypatch, mirror)
    assert is_fashion(data.load())
    assert set(mirror.sent) == set(ARCHIVES)
    mirror.sent.clear()
    assert is_fashion(data.load()) and mirror.sent == []
    left = {path.name for path in raw(tmp_path / "cache" / "vitnb").iterdir()}
    assert left - {".lock"} == set(ARCHIVES)
    assert capfd.readouterr() == ("", "")  # nothing in a notebook's output


@pytest.mark.parametrize("damage", [lambda b: b[:-7], lambda b: b[:-1] + b"x", lambda b: b""])
def test_a_damaged_archive_is_fetched_again(tmp_path, monkeypatch, mirror, damage):
    use(monkeypatch, mirror)
    root = place(tmp_path / "mine", train_images_idx3_ubyte=damage(ARCHIVES[IMAGES]))
    assert is_fashion(data.load(root=root))
    assert set(mirror.sent) == {IMAGES}
    assert (raw(root) / IMAGES).read_bytes() == ARCHIVES[IMAGES]


def test_a_damaged_archive_without_network_is_an_error_with_both_sums(tmp_path, capsys):
    root = place(tmp_path / "mine", train_images_idx3_ubyte=b"broken")
    with pytest.raises(RuntimeError) as error:
        data.load(root=root)
    for part in (str(raw(root) / IMAGES), hashlib.sha256(b"broken").hexdigest(), SUMS[0][1], "delete it"):
        assert part in str(error.value)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("damage", [lambda b: b[:300], lambda b: b[:-1] + b"x", lambda b: b"<html>"])
def test_a_mirror_that_sends_rubbish_leaves_no_file(tmp_path, monkeypatch, mirror, capsys, damage):
    use(monkeypatch, mirror)
    mirror.files[IMAGES] = damage(ARCHIVES[IMAGES])
    assert data.load().name == "digits"
    assert not (raw(tmp_path / "cache" / "vitnb") / IMAGES).exists()
    mirror.files[IMAGES] = ARCHIVES[IMAGES]
    assert is_fashion(data.load())


def test_mirrors_are_asked_by_https_only(monkeypatch):
    monkeypatch.undo()
    assert len(_archives.MIRRORS) >= 1 and all(url.startswith("https://") for url in _archives.MIRRORS)
    assert all(len(bytes.fromhex(sum_)) == 32 for _, sum_ in _archives.RESOURCES)  # SHA-256


def test_a_mirror_that_sends_without_end_is_left(monkeypatch, mirror):
    """Of a stream without end only the size of the largest archive is read, and it is not unpacked."""
    monkeypatch.setattr(_archives, "LARGEST", 1000)
    asked = []

    class Endless:
        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def read(self, count=-1):
            asked.append(count)
            assert 0 < count <= 1001, "all of a stream without end"
            return b"x" * count

    monkeypatch.setattr(_archives, "_check_answers", lambda url: None)
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: Endless())
    use(monkeypatch, mirror)
    monkeypatch.setattr(
        _archives.gzip, "decompress", lambda blob: pytest.fail("an archive of the wrong sum is unpacked")
    )
    assert data.load().name == "digits" and asked


def test_the_second_mirror_helps(monkeypatch, mirror):
    monkeypatch.setattr(_archives, "MIRRORS", ["http://127.0.0.1:1/", mirror.url])
    assert is_fashion(data.load())


def test_a_full_disk_is_an_error_and_leaves_the_cache_good(tmp_path, monkeypatch, mirror):
    use(monkeypatch, mirror)

    def full(path, content):
        with path.open("wb") as file:
            file.write(content[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as m:
        m.setattr(Path, "write_bytes", full)
        with pytest.raises(OSError, match="disk is full.*make room") as error:
            data.load()
    assert error.value.errno == errno.ENOSPC
    assert [p.name for p in raw(tmp_path / "cache" / "vitnb").iterdir()] in ([], [".lock"])
    assert is_fashion(data.load())


def test_a_silent_mirror_does_not_hang(monkeypatch):
    import socket

    monkeypatch.setattr(_archives, "TIMEOUT", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts and never answers
        monkeypatch.setattr(_archives, "MIRRORS", [f"http://127.0.0.1:{server.getsockname()[1]}/"])
        start = time.monotonic()
        assert data.load().name == "digits"
    assert time.monotonic() - start < 5
    assert socket.getdefaulttimeout() is None


def test_a_mirror_that_falls_silent_in_the_middle_is_left_for_the_next(monkeypatch, mirror):
    monkeypatch.setattr(_archives, "TIMEOUT", 0.5)
    mirror.pause = 30.0
    monkeypatch.setattr(_archives, "MIRRORS", [mirror.url, "http://127.0.0.1:1/"])
    start = time.monotonic()
    assert data.load().name == "digits" and mirror.sent == [IMAGES]
    assert time.monotonic() - start < 5


def test_a_name_server_that_never_answers_does_not_hang(monkeypatch, capsys):
    monkeypatch.setattr(_archives, "TIMEOUT", 0.3)
    monkeypatch.setattr(_archives, "MIRRORS", ["http://mirror.example/"])
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: time.sleep(30))
    start = time.monotonic()
    assert data.load().name == "digits" and time.monotonic() - start < 5
    assert "no answer within 0.3 s" in capsys.readouterr().out


def test_an_archive_can_be_read_by_whom_any_new_file_can(tmp_path, monkeypatch, mirror):
    use(monkeypatch, mirror)
    data.load()
    (tmp_path / "ordinary").touch()
    assert (raw(tmp_path / "cache" / "vitnb") / IMAGES).stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def test_offline_means_offline(monkeypatch, mirror, capsys):
    use(monkeypatch, mirror)
    monkeypatch.setenv("VITNB_OFFLINE", "1")
    assert data.load().name == "digits"
    out = capsys.readouterr()
    assert out.out.count("\n") == 1 and "VITNB_OFFLINE" in out.out and "digits" in out.out and out.err == ""
    assert mirror.sent == []


@pytest.mark.parametrize("no", ["", "0", "false", "False", " no "])
def test_a_flag_that_says_no_means_no(monkeypatch, mirror, tmp_path, no):
    use(monkeypatch, mirror)
    monkeypatch.setenv("VITNB_OFFLINE", no)
    monkeypatch.setenv("VITNB_FAST", no)
    assert is_fashion(data.load(root=tmp_path)) and mirror.sent
    assert budget(full=2, fast=1) == 2


@pytest.mark.parametrize("yes", ["1", "true", "yes"])
def test_a_flag_that_says_yes_means_yes(monkeypatch, yes):
    monkeypatch.setenv("VITNB_OFFLINE", yes)
    monkeypatch.setenv("VITNB_FAST", yes)
    assert data.load().name == "digits" and budget(full=2, fast=1) == 1


def half(path: Path, content: bytes) -> None:
    """Write to a slow disk."""
    with path.open("wb") as file:
        file.write(content[:100])
        file.flush()
        time.sleep(30)


def child(mirror, root: Path, slow_disk: bool = False) -> BaseProcess:
    """Another process, which loads from there."""

    def loads() -> None:
        _archives.MIRRORS = [mirror.url]
        Path.write_bytes = half if slow_disk else Path.write_bytes
        assert is_fashion(data.load(root=root))

    process = get_context("fork").Process(target=loads)
    process.start()
    return process


@FORKS
def test_two_processes_at_once_download_once(tmp_path, mirror, monkeypatch):
    use(monkeypatch, mirror)
    data.load(root=tmp_path / "alone")
    alone = sorted(mirror.sent)
    mirror.sent.clear()
    mirror.pause = 0.5
    children = [child(mirror, tmp_path / "both") for _ in range(2)]
    for process in children:
        process.join(120)
        assert process.exitcode == 0
    assert sorted(mirror.sent) == alone


@FORKS
@pytest.mark.parametrize("slow_disk", [False, True], ids=["sent", "written"])
def test_killed_in_the_middle_the_next_one_succeeds(tmp_path, mirror, monkeypatch, slow_disk):
    mirror.pause = 0.0 if slow_disk else 30.0
    process = child(mirror, tmp_path, slow_disk)
    deadline = time.monotonic() + 120
    while not ([*raw(tmp_path).glob(".*.part")] if slow_disk else mirror.sent) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.join()
    assert mirror.sent == [IMAGES] and not any(raw(tmp_path).glob("*.gz"))
    mirror.pause = 0.0
    use(monkeypatch, mirror)
    assert is_fashion(data.load(root=tmp_path))
    assert {path.name for path in raw(tmp_path).iterdir()} - {".lock"} == set(ARCHIVES)


# --- the other images ---


def test_digits():
    d, again = data.load("digits"), data.load("digits")
    assert d.name == "digits" and d.train_images.shape == (1500, 1, 28, 28) and d.test_images.shape == (297, 1, 28, 28)
    assert torch.equal(d.train_images, again.train_images) and d.train_images.max() == 255
    assert not d.mirror, "a mirrored 2 is no 2"
    x = d.normalize(d.train_images)
    assert abs(x.mean()) < 1e-3 and abs(x.std() - 1) < 1e-3
    # One original pixel became a 3x3 square on a margin of 2 and was smoothed over 3x3: its centre is itself.
    from sklearn.datasets import load_digits

    centres = d.train_images[:, 0, 3:27:3, 3:27:3].float()
    assert (centres - torch.tensor(load_digits().images[:1500]) * 255 / 16).abs().max() < 1


def test_sample_image():
    photo = sample_image(96)
    assert photo.shape == (3, 96, 96) and photo.dtype == torch.float32
    assert 0 <= photo.min() < 0.1 and 0.9 < photo.max() <= 1
    assert torch.equal(photo, sample_image(96))


@pytest.mark.parametrize("folder", [images.STAMPS_FOLDER, "nowhere"])
def test_six_kinds_of_images_are_drawn_without_overlap(folder, monkeypatch, capsys):
    monkeypatch.setattr(images, "STAMPS_FOLDER", Path(folder))
    there = images.STAMPS_FOLDER.is_dir()
    pixels, labels, classes = images.stamps(56)
    assert ("apt-get install" in capsys.readouterr().out) != there
    assert pixels.shape[1:] == (3, 56, 56) and pixels.dtype == torch.uint8
    assert len(classes) == 6 and labels.bincount().min() >= 20
    assert pixels.flatten(1).unique(dim=0).shape[0] > 0.95 * len(pixels)  # not one image many times
    train, test = images.draw(labels, 10, 10, seed=0)
    assert labels[train].bincount().tolist() == labels[test].bincount().tolist() == [10] * 6
    assert not set(train.tolist()) & set(test.tolist())
    assert not torch.equal(train, images.draw(labels, 10, 10, seed=1)[0])


def test_subset_is_balanced_and_repeatable():
    d = data.load("digits")
    assert d.subset(100, seed=1).train_labels.bincount().tolist() == [10] * 10
    assert d.subset(13).train_labels.bincount().sort().values.tolist() == [1] * 7 + [2] * 3
    assert torch.equal(d.subset(50, 3).train_images, d.subset(50, 3).train_images)
    assert not torch.equal(d.subset(50, 3).train_images, d.subset(50, 4).train_images)
    assert len(d.subset(50).test_labels) == 297


# --- augmentation ---


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_shift_moves_by_whole_pixels_and_fills_with_zeros():
    images = torch.zeros(500, 2, 7, 9, dtype=torch.uint8)
    images[:, :, 3, 4] = 200
    moved = augment(images, generator(), flip=False, shift=2)
    assert moved.dtype == torch.uint8 and (moved.sum((2, 3)) == 200).all()
    assert torch.equal(moved[:, 0], moved[:, 1]), "channels move together"
    places = {tuple(p) for p in moved[:, 0].nonzero()[:, 1:].tolist()}
    assert places == {(3 + dy, 4 + dx) for dy in range(-2, 3) for dx in range(-2, 3)}
    bright = augment(torch.full((200, 1, 5, 5), 9), generator(), flip=False, shift=1)
    assert set(bright.unique().tolist()) == {0, 9}


def test_flip_mirrors_about_half():
    images = torch.arange(12.0).view(1, 1, 3, 4).expand(400, 1, 3, 4)
    flipped = augment(images, generator(), shift=0)
    same = (flipped == images).flatten(1).all(1)
    assert (flipped[~same] == images[~same].flip(-1)).all() and 150 < same.sum() < 250


def test_erase_blanks_one_rectangle_in_its_share():
    erased = augment(torch.ones(2000, 1, 16, 24), generator(), flip=False, shift=0, erase=0.5)[:, 0] == 0
    hit = erased.flatten(1).any(1)
    assert 900 < hit.sum() < 1100
    area = erased.any(1).sum(1) * erased.any(2).sum(1)
    assert torch.equal(area, erased.sum((1, 2))), "a full rectangle"
    assert erased.any(2).sum(1).max() <= 8 and erased.any(1).sum(1).max() <= 12
    assert erased.any(0).all(), "every pixel may be hit"


def test_augment_repeats_with_its_generator_and_leaves_its_input():
    images = data.load("digits").train_images[:64]
    copy = images.clone()
    first, again, other = (augment(images, generator(s), True, 2, 0.5) for s in (0, 0, 1))
    assert torch.equal(first, again) and not torch.equal(first, other) and torch.equal(images, copy)
    assert torch.equal(augment(images, generator(), flip=False, shift=0), images)


def test_pairs_match_every_second_time_and_neither_side_tells_alone():
    K, n = 4, 4000
    kinds = torch.arange(K).repeat(5)
    images = (kinds + 1)[:, None, None, None].expand(-1, 1, 6, 8).to(torch.uint8)  # the gray says the kind
    pairs = vitbook.images.pairs(data.Dataset(images, kinds, images, kinds, tuple("abcd")), n, 20)
    assert pairs.train_images.shape == (n, 1, 3, 8) and len(pairs.test_labels) == 20
    left, right = pairs.train_images[:, 0, 0, 0].long() - 1, pairs.train_images[:, 0, 0, -1].long() - 1
    assert torch.equal(pairs.train_labels, (left == right).long())
    assert torch.equal(pairs.train_labels, torch.arange(n) % 2)
    for side in (left, right):
        share = torch.bincount(side[left == right], minlength=K) / torch.bincount(side, minlength=K)
        assert (share - 0.5).abs().max() < 0.06


# --- other layouts, and what the line about the digits says ---


def unpacked(monkeypatch) -> dict[str, bytes]:
    plain = {name.removesuffix(".gz"): gzip.decompress(blob) for name, blob in ARCHIVES.items()}
    monkeypatch.setattr(_archives, "UNPACKED", [hashlib.sha256(blob).hexdigest() for blob in plain.values()])
    return plain


@pytest.mark.parametrize("layout", ["FashionMNIST/raw", "raw", "."])
@pytest.mark.parametrize("files", ["packed", "unpacked", "mixed"])
@pytest.mark.parametrize("way", ["root", "VITNB_DATA"])
def test_every_layout_is_found(tmp_path, monkeypatch, layout, files, way):
    plain = unpacked(monkeypatch)
    names = list(ARCHIVES)
    some = {"packed": ARCHIVES, "unpacked": plain}.get(files)
    some = some or {names[0]: ARCHIVES[names[0]]} | {
        n.removesuffix(".gz"): plain[n.removesuffix(".gz")] for n in names[1:]
    }
    folder = tmp_path / "mine" / layout
    folder.mkdir(parents=True)
    for name, blob in some.items():
        (folder / name).write_bytes(blob)
    if way == "VITNB_DATA":
        monkeypatch.setenv("VITNB_DATA", str(tmp_path / "mine"))
    assert is_fashion(data.load(root=tmp_path / "mine" if way == "root" else None))


def test_what_is_unpacked_of_another_data_set_is_not_taken(tmp_path, monkeypatch):
    """The files of MNIST have the same names."""
    unpacked(monkeypatch)
    for name in ARCHIVES:
        (tmp_path / name.removesuffix(".gz")).write_bytes(b"\0\0\10\1\0\0\0\1\7")
    with pytest.raises(RuntimeError, match=r"train-images-idx3-ubyte is damaged, or of another data set"):
        data.load(root=tmp_path)


def test_the_real_sums_of_unpacked_files(monkeypatch):
    monkeypatch.undo()
    place = _archives.place()
    if place is None:
        pytest.skip("Fashion-MNIST is not here")
    for (name, _), digest in zip(_archives.RESOURCES, _archives.UNPACKED, strict=True):
        assert hashlib.sha256(gzip.decompress((place / name).read_bytes())).hexdigest() == digest


def test_the_line_says_where_it_looked_and_what_was_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("VITNB_OFFLINE", "1")
    monkeypatch.setenv("VITNB_DATA", str(tmp_path / "typo"))
    three = place(tmp_path / "three")
    (raw(three) / "t10k-labels-idx1-ubyte.gz").unlink()
    (tmp_path / "cache" / "vitnb").mkdir(parents=True)
    assert data.load(root=three).name == "digits"
    line = capsys.readouterr().out
    assert line.count("\n") == 1
    for part in (
        f"{raw(three)} lacks t10k-labels-idx1-ubyte.gz",
        f"{tmp_path / 'typo'} is no folder",
        f"{tmp_path / 'cache' / 'vitnb'} has no FashionMNIST/raw/*.gz",
        "VITNB_OFFLINE is set",
    ):
        assert part in line

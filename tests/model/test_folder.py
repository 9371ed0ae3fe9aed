"""A folder of your own photos: what cameras and people put into one."""

import io
import os
import subprocess
import sys
import zlib
from multiprocessing import get_context

import numpy as np
import pytest
import torch
from PIL import Image

from vitnb import ViT, ViTConfig, data
from vitnb.training import Recipe, fit

SIZE = 32


def photo(color, size=(48, 40), mode="RGB"):
    noise = np.random.default_rng(sum(map(ord, color))).integers(0, 40, (size[1], size[0], 3))
    base = np.array(Image.new("RGB", size, color)).astype(int)
    return Image.fromarray((base * 0.8 + noise).clip(0, 255).astype(np.uint8)).convert(mode)


def fill(root, count=12, colors=("red", "green", "blue")):
    """A folder a colour, all photos different."""
    for color in colors:
        (root / color).mkdir(parents=True)
        for n in range(count):
            image = photo(color)
            image.putpixel((10 + n % 28, 5 + n // 28), (255, 255, 255))
            image.save(root / color / f"{n}.png")
    return root


def test_classes_shapes_and_moments(tmp_path):
    found = data.folder(fill(tmp_path / "colors"), SIZE)
    assert found.classes == ("blue", "green", "red") and found.name == "colors" and found.held_out == "validation"
    assert found.train_images.shape[1:] == (3, SIZE, SIZE) and found.train_images.dtype == torch.uint8
    assert len(found.train_labels) + len(found.test_labels) == 36 and 0 < len(found.test_labels) < 18
    for images, labels in ((found.train_images, found.train_labels), (found.test_images, found.test_labels)):
        assert torch.equal(images.float().mean((2, 3)).argmax(1), 2 - labels)  # blue is channel 2 and class 0
    normal = found.normalize(found.train_images)
    torch.testing.assert_close(normal.mean((0, 2, 3)), torch.zeros(3), atol=1e-3, rtol=0)
    torch.testing.assert_close(normal.std((0, 2, 3)), torch.ones(3), atol=1e-3, rtol=0)


def test_it_trains(tmp_path):
    found = data.folder(fill(tmp_path), 16)
    model = ViT(ViTConfig(img_size=16, in_chans=3, num_classes=3, embed_dim=16, depth=1, num_heads=2))
    assert fit(model, found, Recipe(epochs=10, batch_size=8, lr=1e-2, shift=0)).test_accuracy[-1] == 1


def test_the_split_goes_by_the_bytes_of_a_photo(tmp_path):
    one, other = fill(tmp_path / "one"), fill(tmp_path / "other")
    for n, path in enumerate(sorted((other / "red").iterdir())):
        path.rename(path.with_name(f"renamed {12 - n}.jpeg"))  # Pillow goes by content, not by name
        (other / "red" / f"copy {n}.png").write_bytes((other / "red" / f"renamed {12 - n}.jpeg").read_bytes())
    bytes_of = lambda images: {image.numpy().tobytes() for image in images}  # noqa: E731
    a, b = data.folder(one, SIZE), data.folder(other, SIZE)
    assert bytes_of(a.train_images) == bytes_of(b.train_images) and bytes_of(a.test_images) == bytes_of(b.test_images)
    assert len(b.train_images) > len(a.train_images) and not bytes_of(b.train_images) & bytes_of(b.test_images)


@pytest.mark.parametrize("validation, aside", [(0.0, 0), (0.01, 1), (0.99, 4)])
def test_every_class_can_be_trained_and_something_is_set_aside(tmp_path, validation, aside):
    found = data.folder(fill(tmp_path, count=3, colors=("red", "blue")), SIZE, validation=validation)
    assert len(found.test_labels) == aside and set(found.train_labels.tolist()) == {0, 1}


def exif(image, orientation):
    tags = Image.Exif()
    tags[274] = orientation
    image.save(file := io.BytesIO(), "JPEG", exif=tags, quality=95)
    return file.getvalue()


HELD = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE"}
HELD |= {6: "ROTATE_90", 7: "TRANSVERSE", 8: "ROTATE_270"}


@pytest.mark.parametrize("orientation", HELD)
def test_a_photo_is_turned_as_its_camera_says(tmp_path, orientation):
    upright = photo("red", (48, 48))
    upright.paste((0, 0, 255), (0, 0, 48, 12))  # blue sky
    upright.paste((0, 255, 0), (0, 24, 12, 48))  # a tree on the left
    turned = upright.transpose(Image.Transpose[HELD[orientation]])  # so the camera was held, and wrote it down
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    (tmp_path / "a" / "x.jpg").write_bytes(exif(upright, 1))
    (tmp_path / "b" / "x.jpg").write_bytes(exif(turned, orientation))
    one, other = data.folder(tmp_path, 48, validation=0).train_images
    assert (one.float() - other.float()).abs().mean() < 4
    assert one[2, :10].float().mean() > 200 > 100 > one[2, 20:].float().mean()


@pytest.mark.parametrize("mode", ["L", "LA", "RGBA", "P", "1", "CMYK", "YCbCr", "I;16"])
@pytest.mark.parametrize("in_chans", [1, 3])
def test_gray_alpha_and_palettes(tmp_path, mode, in_chans):
    gray = Image.new("RGB", (40, 40), (128, 128, 128))
    image = Image.fromarray(np.full((40, 40), 32768, np.uint16)) if mode == "I;16" else gray.convert(mode)
    kind = "TIFF" if mode in ("CMYK", "YCbCr") else "PNG"
    for name in "ab":
        (tmp_path / name).mkdir()
        image.save(tmp_path / name / "x", kind)
    found = data.folder(tmp_path, SIZE, in_chans, validation=0).train_images
    assert found.shape == (2, in_chans, SIZE, SIZE)
    assert abs(found.float().mean() - 128) < 3


def test_what_is_transparent_becomes_white(tmp_path):
    for name, pixel in (("a", (0, 0, 0, 0)), ("b", (0, 0, 0, 255))):
        (tmp_path / name).mkdir()
        Image.new("RGBA", (40, 40), pixel).save(tmp_path / name / "x.png")
    clear, solid = data.folder(tmp_path, SIZE, validation=0).train_images
    assert (clear == 255).all() and (solid == 0).all()


def claims(png, side):
    """A PNG that says it is that large: to decode it would take all memory."""
    header = png[12:16] + side.to_bytes(4, "big") * 2 + png[24:29]
    return png[:12] + header + zlib.crc32(header).to_bytes(4, "big") + png[33:]


def test_a_thousand_photos_and_what_people_put_beside_them(tmp_path, capsys):
    root = fill(tmp_path, 330)
    whole = (root / "red" / "0.png").read_bytes()
    broken = {
        "cut.png": whole[: len(whole) // 2],
        "empty.jpg": b"",
        "page.jpg": b"<html>404</html>",
        "notes.txt": b"buy milk",
        "bomb.png": claims(whole, 60_000),
        "film.mp4": b"\0\0\0\x20ftypisom" + bytes(99),
        "head.jpg": b"\xff\xd8\xff\xe0",
        "cut.gif": b"GIF89a",
        "zip.heic": b"PK\x03\x04",
        "cut.tif": b"II*\0\x08\0\0\0",
    }
    for name, content in broken.items():
        (root / "blue" / name).write_bytes(content)
    (root / "blue" / ".DS_Store").write_bytes(b"\0" * 9)
    (root / "blue" / "holiday").mkdir()
    photo("blue", (1, 1)).save(root / "blue" / "holiday" / "tiny.png")
    photo("blue", (3000, 2)).save(root / "blue" / "wide.png")
    photo("blue", (6000, 4000)).save(root / "blue" / "huge.jpg")
    found = data.folder(root, SIZE)
    assert len(found.train_labels) + len(found.test_labels) == 993
    assert 0.15 < len(found.test_labels) / 993 < 0.25
    for images, labels in ((found.train_images, found.train_labels), (found.test_images, found.test_labels)):
        assert torch.equal(images.float().mean((2, 3)).argmax(1), 2 - labels)  # also the tiny and the huge one
    line = capsys.readouterr().out
    assert line.count("\n") == 1 and "10 of 1003 files" in line and "and 5 more" in line
    assert sum(name in line for name in broken) == 5 and ".DS_Store" not in line


def test_beyond_its_memory_the_pixels_lie_on_the_disk(tmp_path):
    root = fill(tmp_path)
    inside, outside = data.folder(root, SIZE), data.folder(root, SIZE, memory=1000)
    assert torch.equal(inside.train_images, outside.train_images) and inside.mean == outside.mean
    assert outside.train_images.is_shared() and not inside.train_images.is_shared()
    model = ViT(ViTConfig(img_size=SIZE, in_chans=3, num_classes=3, embed_dim=8, depth=1, num_heads=2))
    assert fit(model, outside, Recipe(epochs=1, batch_size=8)).losses


CHANGES = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.truncate")


def reads(root, said):
    def refuse(event, args):  # as the system does, but for an administrator as well
        writes = event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if (writes or event in CHANGES) and any(str(arg).startswith(str(root)) for arg in args[:2]):
            raise PermissionError(13, f"{event} {args}")

    sys.addaudithook(refuse)
    said.write_text(str(data.folder(root, 32, memory=1000).train_images.sum().item()))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork")  # other processes import torch anew
def test_two_processes_read_a_folder_in_which_nobody_can_write(tmp_path):
    root = fill(tmp_path / "photos")
    for path in (root / "red", root):
        path.chmod(0o555)
    before = sorted(root.rglob("*"))
    two = [get_context("fork").Process(target=reads, args=(root, tmp_path / name)) for name in "ab"]
    for process in two:
        process.start()
    for process in two:
        process.join(timeout=120)
    assert [process.exitcode for process in two] == [0, 0]
    sums = [(tmp_path / name).read_text() for name in "ab"]
    assert sums[0] == sums[1] and int(sums[0]) > 0 and sorted(root.rglob("*")) == before
    for path in (root, root / "red"):
        path.chmod(0o755)


MEASURED = """
import os, resource, sys
from vitnb import data
import PIL.Image, PIL.PngImagePlugin
os.cpu_count = os.process_cpu_count = lambda: 1  # as many photos are open at once as there are threads
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
data.folder(sys.argv[1], 16)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts in kilobytes")
def test_photos_are_not_kept_at_their_full_size(tmp_path):
    for name, color in (("a", "red"), ("b", "blue")):
        (tmp_path / name).mkdir()
        Image.new("RGB", (1000, 1000), color).save(tmp_path / name / "0.png")
        for n in range(1, 40):
            (tmp_path / name / f"{n}.png").hardlink_to(tmp_path / name / "0.png")
    run = subprocess.run([sys.executable, "-c", MEASURED, tmp_path], stdout=subprocess.PIPE, text=True, check=True)
    assert int(run.stdout) * 1024 < 80 * 1000 * 1000 * 3 / 3  # a third of what all take


def test_a_photo_that_nobody_may_read_is_left_out(tmp_path, monkeypatch, capsys):
    root, readable = fill(tmp_path, 3), open

    def guarded(file, *args, **options):
        if str(file).endswith("1.png"):
            raise PermissionError(13, "Permission denied")
        return readable(file, *args, **options)

    monkeypatch.setattr("builtins.open", guarded)
    monkeypatch.setattr("io.open", guarded)
    found = data.folder(root, SIZE)
    assert len(found.train_labels) + len(found.test_labels) == 6 and set(found.train_labels.tolist()) == {0, 1, 2}
    line = capsys.readouterr().out
    assert "3 of 9 files" in line and line.count("Permission denied") == 3


@pytest.mark.parametrize("validation", [0.5, 0.9])
def test_what_is_no_photo_does_not_decide_who_is_set_aside(tmp_path, validation):
    for n in range(8):  # by their bytes, one or the other would be what a class keeps
        root = fill(tmp_path / str(n), 2, ("red", "blue"))
        for path in (root / "red" / "0.png", root / "blue" / "1.png"):
            path.write_bytes(b"no photo %d" % n)
        (root / "red" / "notes.txt").write_bytes(b"buy milk %d" % n)
        found = data.folder(root, SIZE, validation=validation)
        assert sorted(found.train_labels.tolist()) == [0, 1] and not len(found.test_labels)


def test_bad_input_is_named(tmp_path):
    root = fill(tmp_path / "photos", 2, ("red", "blue"))
    (tmp_path / "split" / "train").mkdir(parents=True), (tmp_path / "split" / "val").mkdir()
    (root / "none").mkdir()
    for call, error, words in (
        (lambda: data.folder(tmp_path / "typo"), FileNotFoundError, "typo is no folder"),
        (lambda: data.folder(root), ValueError, "no photo to train on in 'none'"),
        (lambda: data.folder(root / "red"), ValueError, "holds 0 folders"),
        (lambda: data.folder(tmp_path / "split"), ValueError, "train, val, which are no classes: use .*train"),
        (lambda: data.folder(root, 0), ValueError, "img_size .*at least 1"),
        (lambda: data.folder(root, in_chans=4), ValueError, "in_chans must be 1 or 3, got 4: use 3"),
        (lambda: data.folder(root, validation=1.0), ValueError, "validation .*0.1"),
        (lambda: data.folder(root, memory=0), ValueError, "memory .*at least 1"),
        (lambda: data.folder(None), TypeError, "path .*None"),
    ):
        with pytest.raises(error, match=words):
            call()

"""Your own photos as tensors: one folder a class, whatever Pillow can read."""

import hashlib
import tempfile
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

SPLITS = {"train", "val", "valid", "validation", "test"}
NAMED = 5  # of the files that are left out
AT_ONCE = 64  # photos that are decoded side by side


@dataclass(frozen=True)
class Photo:
    """A file, its class, and where in [0, 1) the SHA-256 sum of its bytes lies."""

    path: Path
    label: int
    place: float


def photos(root: Path, classes: Sequence[str]) -> list[Photo]:
    """All files below the folders of the classes, hidden ones left out."""
    found = []
    for label, name in enumerate(classes):
        for path in sorted((root / name).rglob("*")):
            hidden = any(part.startswith(".") for part in path.relative_to(root).parts)
            if path.is_file() and not hidden:
                found.append(Photo(path, label, _place(path)))
    return found


def _place(path: Path) -> float:
    try:
        return int.from_bytes(hashlib.sha256(path.read_bytes()).digest()[:8]) / 2**64
    except OSError:  # what may not be read is left out later, with its reason
        return 0.0


def class_names(root: Path) -> list[str]:
    """The names of the folders in a folder, sorted.

    Raises: FileNotFoundError; ValueError if there are not at least two, or if they are the parts of a split.
    """
    if not root.is_dir():
        raise FileNotFoundError(f"path {root} is no folder: use one that has a folder for each class")
    names = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    if names and {name.lower() for name in names} <= SPLITS:
        raise ValueError(f"path {root} holds {', '.join(names)}, which are no classes: use {root / names[0]}")
    if len(names) < 2:
        raise ValueError(
            f"path {root} holds {len(names)} folders: use one that has a folder for each class, two or more"
        )
    return names


def split(found: list[Photo], validation: float, classes: int) -> tuple[list[Photo], list[Photo]]:
    """Photos to train on, and those to validate on: equal bytes lie on the same side, whatever their names.

    Each class keeps a photo to train on, and if it can be, one photo at least is set aside.
    """
    places = [{photo.place for photo in found if photo.label == label} for label in range(classes)]
    last = {max(its) for its in places if its}  # what each class keeps
    aside = {place for its in places for place in its if place < validation} - last
    spare = set().union(*places) - last
    if validation and spare and not aside:
        aside = {min(spare)}
    return [p for p in found if p.place not in aside], [p for p in found if p.place in aside]


def decoded(path: Path, size: tuple[int, int], in_chans: int) -> Tensor:
    """A photo turned as its camera says, its middle cut out and resampled: uint8 (C, H, W).

    What is transparent becomes white; 16 bits become 8.

    Raises: OSError, ValueError, SyntaxError or DecompressionBombError, as Pillow does, for what is no image.
    """
    from PIL import Image, ImageOps

    with Image.open(path) as image:
        image.draft(None, (2 * size[1], 2 * size[0]))  # a JPEG need not be decoded at full size
        image = _eight_bits(ImageOps.exif_transpose(image))
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    image = image.convert("L" if in_chans == 1 else "RGB")
    image = ImageOps.fit(image, size[::-1], Image.Resampling.BICUBIC)
    return torch.from_numpy(np.array(image)).reshape(*size, in_chans).permute(2, 0, 1)  # (C, H, W)


def _eight_bits(image: Any) -> Any:
    """An image whose gray values have 16 or 32 bits, with 8: Pillow would cut all above 255 off."""
    from PIL import Image

    if not image.mode.startswith(("I", "F")):
        return image
    gray = np.asarray(image, dtype=np.float64)
    top = 65535 if image.mode.startswith("I") else max(1.0, float(gray.max()))
    return Image.fromarray((gray / top * 255).clip(0, 255).round().astype(np.uint8))


def storage(shape: tuple[int, ...], memory: int) -> Tensor:
    """Zeros of uint8: in memory, or beyond `memory` bytes in a file of which the system keeps what is in use."""
    size = int(np.prod(shape))
    if size <= memory:
        return torch.zeros(shape, dtype=torch.uint8)
    with tempfile.NamedTemporaryFile(prefix="vitnb-", delete=False) as file:
        path = Path(file.name)
    images = torch.from_file(str(path), shared=True, size=size, dtype=torch.uint8).view(shape)
    with suppress(OSError):  # Windows keeps it
        path.unlink()  # on the disk it goes with the tensor
    return images


def read(found: list[Photo], size: tuple[int, int], in_chans: int, memory: int) -> tuple[Tensor, list[Photo], list]:
    """The images (N, C, H, W) of the photos that can be read, these photos, and (path, reason) of the others."""
    import PIL.Image  # noqa: F401  (here, since without Pillow every photo would be a broken one)

    images, kept, broken = storage((len(found), in_chans, *size), memory), [], []
    with warnings.catch_warnings(), ThreadPoolExecutor() as pool:
        warnings.simplefilter("ignore")  # Pillow's: of damaged EXIF data, of large images
        for first in range(0, len(found), AT_ONCE):
            part = found[first : first + AT_ONCE]
            for photo, image in zip(part, pool.map(lambda p: _tried(p.path, size, in_chans), part), strict=True):
                if isinstance(image, Tensor):
                    images[len(kept)] = image
                    kept.append(photo)
                else:
                    broken.append((photo.path, image))
    return images[: len(kept)], kept, broken


def _tried(path: Path, size: tuple[int, int], in_chans: int) -> Tensor | str:
    try:
        return decoded(path, size, in_chans)
    except Exception as error:  # Pillow's many readers raise whatever they like
        return str(error).split("\n")[0] or type(error).__name__


def moments(images: Tensor) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of each channel, of pixels from 0 to 1, part by part."""
    total, squares = torch.zeros(2, images.shape[1], dtype=torch.float64)  # (C,), (C,)
    for part in images.split(AT_ONCE):
        pixels = part.double() / 255
        total, squares = total + pixels.sum((0, 2, 3)), squares + pixels.square().sum((0, 2, 3))
    count = len(images) * images[0, 0].numel()
    mean = total / count
    std = (squares / count - mean.square()).clamp(min=1e-4).sqrt()
    return tuple(mean.tolist()), tuple(std.tolist())


def report(broken: list[tuple[Path, str]], root: Path, total: int) -> None:
    """Print one line on what was left out."""
    if broken:
        listed = "; ".join(f"{path.relative_to(root)} ({reason[:60]})" for path, reason in broken[:NAMED])
        more = f"; and {len(broken) - NAMED} more" if len(broken) > NAMED else ""
        print(f"{len(broken)} of {total} files in {root} are left out, which cannot be read: {listed}{more}.")

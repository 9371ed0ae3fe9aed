"""Images to train on: Fashion-MNIST, the handwritten digits, your own (chapter 09).

A dataset is four tensors. Images stay uint8, one byte a pixel, on the device
of the model; they are augmented and normalised there, a whole batch at once.
"""

from collections.abc import Sized
from dataclasses import dataclass, replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from vitnb import _folder
from vitnb._archives import fashion_mnist
from vitnb._validate import Size, float_from_0, pair, positive_int, probability, shown, switch, tensor
from vitnb._validate import labels as check_labels
from vitnb._validate import path as check_path
from vitnb._validate import pixels as check_pixels

NAMES = ("fashion_mnist", "digits")
FASHION_MEAN, FASHION_STD = 0.2860, 0.3530  # of the training pixels of Fashion-MNIST
CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


@dataclass(frozen=True)
class Dataset:
    """Training and test images with their classes.

    mean and std are those of the training pixels, one number or one a channel.
    mirror says whether a mirrored image keeps its class: a shoe does, a 2 does not.
    held_out names what test_images are: the test set, or after hold_out a validation set.

    Shapes: images (N, C, H, W), uint8 or float in [0, 1]; labels (N,), int64.
    Raises: ValueError if shapes, lengths, ranges or labels do not fit together; TypeError for what is no tensor.
    """

    train_images: Tensor
    train_labels: Tensor
    test_images: Tensor
    test_labels: Tensor
    classes: tuple[str, ...]
    name: str = "mine"
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)
    mirror: bool = False
    held_out: str = "test"

    def __post_init__(self) -> None:
        if not isinstance(self.classes, Sized):
            raise TypeError(f"classes must be names, got {shown(self.classes)}: use tuple('0123456789')")
        channels = None
        for part in ("train", "test"):
            images = check_pixels(f"{part}_images", getattr(self, f"{part}_images"), channels)
            check_labels(f"{part}_labels", getattr(self, f"{part}_labels"), len(images), len(self.classes))
            channels = images.shape[1]
        for name, least in (("mean", 0.0), ("std", 1e-6)):
            values = torch.as_tensor(getattr(self, name), dtype=torch.float).flatten()
            if len(values) not in (1, channels) or not all(least <= value <= 1 for value in values.tolist()):
                raise ValueError(
                    f"{name} must be 1 number or {channels} from {least:g} to 1, as pixels from 0 to 1 have it, "
                    f"got {getattr(self, name)}: use (0.5,)"
                )

    def to(self, device: torch.device | str) -> "Dataset":
        """The same images on another device."""
        fields = ("train_images", "train_labels", "test_images", "test_labels")
        return replace(self, **{field: getattr(self, field).to(device) for field in fields})

    def subset(self, n: int, seed: int = 0, test: int | None = None) -> "Dataset":
        """n training images, equally many of each class (up to one); all test images, or the first ones.

        Raises: ValueError if n is below 1 or more than every class can give.
        """
        order = torch.randperm(len(self.train_labels), generator=torch.Generator().manual_seed(seed))
        labels, classes = self.train_labels.cpu()[order], len(self.classes)
        members = [order[labels == label] for label in range(classes)]
        most = min(map(len, members)) * classes
        if not 1 <= n <= most:
            raise ValueError(f"n is {n}: use 1 to {most}, as many images as a balanced subset can have here")
        shares = [n // classes + (label < n % classes) for label in range(classes)]
        chosen = torch.cat([m[:share] for m, share in zip(members, shares, strict=True)])  # (n,)
        chosen = chosen.sort().values.to(self.train_labels.device)
        return replace(
            self,
            train_images=self.train_images[chosen],
            train_labels=self.train_labels[chosen],
            test_images=self.test_images[:test],
            test_labels=self.test_labels[:test],
        )

    def hold_out(self, n: int = 5_000, seed: int = 0) -> "Dataset":
        """Set n training images aside as a validation set: they stand in the place of the test images.

        Choose a recipe by them; use the real test images once, at the end.

        Raises: ValueError if n leaves no image to train on, or is below 1.
        """
        images = len(self.train_labels)
        if not isinstance(n, int) or not 1 <= n < images:
            raise ValueError(
                f"n is {shown(n)}: use a whole number from 1 to {images - 1}, fewer than the training images"
            )
        order = torch.randperm(images, generator=torch.Generator().manual_seed(seed)).to(self.train_labels.device)
        kept, aside = order[n:].sort().values, order[:n].sort().values
        return replace(
            self,
            train_images=self.train_images[kept],
            train_labels=self.train_labels[kept],
            test_images=self.train_images[aside],
            test_labels=self.train_labels[aside],
            held_out="validation",
        )

    def normalize(self, images: Tensor) -> Tensor:
        """Pixels to floats with mean 0 and standard deviation 1 over the training set.

        Shapes: images (B, C, H, W), uint8 or float in [0, 1] -> float (B, C, H, W).
        Raises: ValueError or TypeError for other images, such as normalised ones.
        """
        images = check_pixels("images", images, self.train_images.shape[1])
        if not images.is_floating_point():
            images = images.float() / 255
        mean, std = (
            torch.as_tensor(v, dtype=torch.float, device=images.device).view(1, -1, 1, 1) for v in (self.mean, self.std)
        )
        return (images - mean) / std  # (B, C, H, W)


def load(name: str = "fashion_mnist", root: str | Path | None = None, device: str | None = None) -> Dataset:
    """Load a dataset; "fashion_mnist" is downloaded once, "digits" comes with scikit-learn.

    Looks for torchvision's archives in root, in $VITNB_DATA and in the user's
    cache, as FashionMNIST/raw/*.gz, raw/*.gz or *.gz, packed or unpacked, then
    downloads them. They are
    checked against their SHA-256 sums at every load and unpacked in memory,
    so a damaged or half-written file is never used. With neither data nor
    network it says so and gives the digits: .name holds which it was.
    VITNB_OFFLINE=1 forbids the download.

    Raises: ValueError for an unknown name; RuntimeError if an archive is
        damaged and cannot be fetched again; OSError if the disk is full.
    """
    if name not in NAMES:
        raise ValueError(f"name is {shown(name)}: use one of {', '.join(map(repr, NAMES))}")
    if root is not None:
        root = check_path("root", root, "data")
    dataset = _digits() if name == "digits" else _fashion_mnist(root)
    return dataset if device is None else dataset.to(device)


def folder(
    path: str | Path,
    img_size: Size = 224,
    in_chans: int = 3,
    validation: float = 0.2,
    mirror: bool = True,
    memory: int = 4 << 30,
) -> Dataset:
    """Your own photos: a folder for each class, below path, whatever Pillow reads.

    A photo is turned as its camera says, cut to its middle and resampled; what
    is transparent becomes white. Files that cannot be read are named in one line
    and left out. A share of the photos is set aside to validate on, chosen by
    their bytes: the same ones on every machine, and copies never on both sides.
    Beyond `memory` bytes the pixels lie in a temporary file, of which
    the system keeps in memory what is in use.

    Raises: FileNotFoundError if path is no folder; ValueError or TypeError for another argument that cannot
        be, for a folder without classes, or for a class without a photo to train on; ImportError without Pillow.
    """
    root = check_path("path", path, "photos")
    size, in_chans = pair("img_size", img_size), positive_int("in_chans", in_chans)
    if in_chans not in (1, 3):
        raise ValueError(f"in_chans must be 1 or 3, got {in_chans}: use 3, for example")
    share, mirror = probability("validation", validation), switch("mirror", mirror)
    memory = positive_int("memory", memory)
    classes = _folder.class_names(root)
    sides = _folder.split(_folder.photos(root, classes), share, len(classes))
    images, kept, broken = _folder.read(sum(sides, []), size, in_chans, memory)
    _folder.report(broken, root, len(kept) + len(broken))
    sides = _folder.split(kept, share, len(classes))  # one that cannot be read is nothing that a class keeps
    if sum(sides, []) != kept:
        images, kept, _ = _folder.read(sum(sides, []), size, in_chans, memory)
    n = len(sides[0])
    labels = torch.tensor([photo.label for photo in kept], dtype=torch.long)
    if missing := set(range(len(classes))) - set(labels[:n].tolist()):
        raise ValueError(f"path {root} has no photo to train on in {classes[min(missing)]!r}: add some, or remove it")
    mean, std = _folder.moments(images[:n])
    tensors = images[:n], labels[:n], images[n:], labels[n:]
    return Dataset(*tensors, tuple(classes), root.resolve().name, mean, std, mirror, "validation")


def augment(
    images: Tensor, generator: torch.Generator | None, flip: bool = True, shift: int = 1, erase: float = 0.0
) -> Tensor:
    """Mirror, move and partly erase each image at random: new images of the same things.

    flip mirrors half of them left to right; shift moves each by up to that many
    pixels, zeros coming in; erase is the share of images that lose a rectangle
    (Zhong et al. 2020). The same generator state gives
    the same images; without a generator, torch's own is used.

    Shapes: images (B, C, H, W) -> (B, C, H, W), same dtype, same device.
    Raises: ValueError if images are not 4-D, shift is negative or erase is not in [0, 1].
    """
    _check_augment(images, shift, erase)
    batch, device = len(images), images.device
    if flip:
        mirrored = torch.rand(batch, 1, 1, 1, device=device, generator=generator) < 0.5
        images = torch.where(mirrored, images.flip(-1), images)  # (B, C, H, W)
    if shift:
        offsets = torch.randint(0, 2 * shift + 1, (2, batch, 1), device=device, generator=generator)
        rows, cols = (
            torch.arange(n, device=device) + o for n, o in zip(images.shape[2:], offsets, strict=True)
        )  # (B, H), (B, W)
        index = torch.arange(batch, device=device)[:, None, None]
        padded = F.pad(images, (shift,) * 4)  # (B, C, H+2s, W+2s)
        images = padded[index, :, rows[:, :, None], cols[:, None, :]].permute(0, 3, 1, 2)  # (B, C, H, W)
    if erase:
        images = images.masked_fill(_rectangles(images, erase, generator), 0)
    return images


def _rectangles(images: Tensor, erase: float, generator: torch.Generator | None) -> Tensor:
    """One random rectangle per image, sides of 1/8 to 1/2 of the image's: True inside, (B, 1, H, W)."""
    draw = torch.rand(5, len(images), 1, device=images.device, generator=generator)  # size 2, place 2, whether
    sides = []
    for n, size, place in zip(images.shape[2:], draw[:2], draw[2:4], strict=True):
        length = n * (0.125 + 0.375 * size)  # (B, 1)
        at = torch.arange(n, device=images.device) + 0.5 - place * (n - length)  # (B, n), pixel centres
        sides.append((at >= 0) & (at < length))
    return (sides[0][:, :, None] & sides[1][:, None, :] & (draw[4, :, :, None] < erase))[:, None]  # (B, 1, H, W)


def _digits() -> Dataset:
    """1,797 digits of 8x8 pixels, three times as large on a margin of 2: 28x28.

    The last 297 are the test: mostly other writers than the training images'.
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float)[:, None]  # (N, 1, 8, 8), 0 to 16
    large = F.pad(images.repeat_interleave(3, 2).repeat_interleave(3, 3), (2,) * 4)  # (N, 1, 28, 28)
    smooth = F.avg_pool2d(large, 3, stride=1, padding=1, divisor_override=1).long()  # whole numbers, 0 to 144
    images = (smooth * 255 // 144).byte()
    labels = torch.tensor(digits.target, dtype=torch.long)
    classes = tuple("0123456789")
    split = images[:1500], labels[:1500], images[1500:], labels[1500:]
    return Dataset(*split, classes, "digits", mean=(0.2232,), std=(0.3027,))


def _fashion_mnist(root: str | Path | None) -> Dataset:
    try:
        train_images, train_labels, test_images, test_labels = fashion_mnist(root)
    except ConnectionError as error:
        print(f"No Fashion-MNIST: {error}. These are scikit-learn's handwritten digits instead.")
        return _digits()
    split = train_images[:, None], train_labels.long(), test_images[:, None], test_labels.long()
    return Dataset(*split, CLOTHES, "fashion_mnist", (FASHION_MEAN,), (FASHION_STD,), mirror=True)


def _check_augment(images: Tensor, shift: int, erase: float) -> None:
    tensor("images", images, 4, "(B, C, H, W)")
    positive_int("shift", shift, least=0)
    float_from_0("erase", erase, most=1)

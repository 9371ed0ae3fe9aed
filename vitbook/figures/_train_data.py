"""The images that a page trains on: small, in 4 bits a pixel, gzipped to travel in the page."""

import gzip
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from vitnb import data
from vitnb._validate import choice
from vitnb.vit import ViTConfig

SMALL = dict(embed_dim=32, depth=2, num_heads=4)
CONFIGS = {
    "digits": ViTConfig(img_size=8, patch_size=2, **SMALL),  # 16 patches of 2 x 2 pixels
    "fashion_mnist": ViTConfig(img_size=16, patch_size=4, **SMALL),  # 16 patches of 4 x 4
}
SIZES = {"digits": (1297, 500), "fashion_mnist": (4000, 1000)}  # images to train on and to test with


@dataclass(frozen=True)
class Packed:
    """Images and labels as bytes, and what train.js must know to unpack and normalise them."""

    bytes: bytes  # gzip of all pixels, two in a byte, and all labels
    meta: dict[str, Any]  # name, stored and full side, train and test, mean, std, classes


def packed(name: str) -> Packed:
    """Pack the images of a dataset for the page: those to train on, then those to test with.

    The digits are scikit-learn's own 8 x 8 pixels, well mixed, so that the same
    writers stand on both sides. Fashion-MNIST is a balanced subset, averaged to
    14 x 14 pixels, which the page sets on a margin of 1. The digits' bytes are
    those of digits.gz: another version of zlib would make others of the same images.

    Raises: ValueError for an unknown name; RuntimeError where Fashion-MNIST is not to be had.
    """
    images, labels, classes = _digits() if choice("name", name, CONFIGS) == "digits" else _fashion_mnist()
    train, test = SIZES[name]
    pixels = (images.float() / 17).round().byte()  # (n, stored, stored), 0 to 15
    small, side = pixels.shape[1], CONFIGS[name].img_size
    seen = F.pad(pixels[:train].double() / 15, ((side - small) // 2,) * 4)  # as the page shows them
    pairs = pixels.reshape(-1, 2).numpy()  # (n stored stored / 2, 2)
    text = (pairs[:, 0] << 4 | pairs[:, 1]).tobytes() + labels.byte().numpy().tobytes()
    meta = {"name": name, "stored": small, "side": side, "train": train, "test": test, "classes": list(classes)}
    meta |= {"mean": round(seen.mean().item(), 4), "std": round(seen.std().item(), 4)}
    file = Path(__file__).with_name(f"{name}.gz")
    stored = file.read_bytes() if file.exists() else gzip.compress(b"")
    same = gzip.decompress(stored) == text
    return Packed(stored if same else gzip.compress(text, 9, mtime=0), meta)


def dataset(name: str) -> data.Dataset:
    """The images that packed gives, as the page unpacks them: (N, 1, side, side), 16 shades, set on their margin.

    Raises: as packed.
    """
    one = packed(name)
    meta, raw = one.meta, torch.frombuffer(bytearray(gzip.decompress(one.bytes)), dtype=torch.uint8)
    n, stored, margin = meta["train"] + meta["test"], meta["stored"], (meta["side"] - meta["stored"]) // 2
    pairs, labels = raw.split([n * stored**2 // 2, n])
    pixels = torch.stack([pairs >> 4, pairs & 15], dim=1).reshape(n, 1, stored, stored)
    images, labels = F.pad(17 * pixels, (margin,) * 4).split([meta["train"], meta["test"]]), labels.long()
    train, test = labels.split([meta["train"], meta["test"]])
    classes, mean, std = tuple(meta["classes"]), (meta["mean"],), (meta["std"],)
    return data.Dataset(images[0], train, images[1], test, classes, name, mean, std)


def _digits() -> tuple[Tensor, Tensor, tuple[str, ...]]:
    digits = data.load("digits")
    images = torch.cat([digits.train_images, digits.test_images])[:, 0, 3:27:3, 3:27:3]  # the middle of each pixel
    labels = torch.cat([digits.train_labels, digits.test_labels])
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(labels)))
    return images[order], labels[order], digits.classes


def _fashion_mnist() -> tuple[Tensor, Tensor, tuple[str, ...]]:
    train, test = SIZES["fashion_mnist"]
    clothes = data.load("fashion_mnist")
    if clothes.name != "fashion_mnist":
        raise RuntimeError("Fashion-MNIST is not here and cannot be downloaded: packed('digits') needs no download")
    some = clothes.subset(train, seed=0, test=test)
    order = torch.from_numpy(np.random.default_rng(0).permutation(train))
    images = torch.cat([some.train_images[order], some.test_images]).float()  # (n, 1, 28, 28)
    labels = torch.cat([some.train_labels[order], some.test_labels])
    return F.avg_pool2d(images, 2)[:, 0], labels, clothes.classes

"""The images of the experiments."""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from vitnb.data import Dataset, load


def clothes() -> Dataset:
    """The real images: a result measured on the digits that stand in for them would be another result."""
    data = load("fashion_mnist")
    if data.name != "fashion_mnist":
        raise SystemExit("This experiment needs the real Fashion-MNIST: set VITNB_DATA, or run it once with a network.")
    return data


def validated() -> Dataset:
    """The real images with 5,000 training images set aside: they stand in the place of the test images."""
    return clothes().hold_out(5_000)


def unwatched(data: Dataset) -> Dataset:
    """The same without images to judge a training by."""
    return replace(data, test_images=data.test_images[:0], test_labels=data.test_labels[:0])


def watched_on(data: Dataset, n: int) -> Dataset:
    """The same with the first held-out images only: enough to watch a training by."""
    return replace(data, test_images=data.test_images[:n], test_labels=data.test_labels[:n])


def resized(images: Tensor, side: int) -> Tensor:
    """Images (B, C, H, W) of bytes, side pixels high and wide."""
    if images.shape[-1] == side:
        return images
    return F.interpolate(images.float(), size=(side, side), mode="bilinear").round().to(torch.uint8)


def enlarged(data: Dataset) -> Dataset:
    """The images as the textbook feeds them: 96 x 96, pixels from 0 to 1."""
    train_images, test_images = (resized(images, 96) for images in (data.train_images, data.test_images))
    return replace(data, train_images=train_images, test_images=test_images, mean=(0.0,), std=(1.0,))

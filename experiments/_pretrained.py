"""What the experiments with DINOv2's weights share."""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from vitnb import ViT, weights
from vitnb.data import Dataset
from vitnb.lora import add_lora

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's pixels, as DINOv2 was trained
SIDE = 56  # pixels of enlarged clothes: 4 x 4 patches


def normalized(images: Tensor) -> Tensor:
    """Colour images of bytes as the network takes them."""
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, STD))
    return (images / 255 - mean) / std  # (B, 3, H, W)


def enlarged(images: Tensor) -> Tensor:
    """Gray images (B, 1, 28, 28) of bytes, large and in three equal channels, from 0 to 1."""
    return F.interpolate(images / 255, (SIDE, SIDE), mode="bilinear").expand(-1, 3, -1, -1)


def to_train(few: Dataset) -> Dataset:
    """The training images as the network takes them, and none to judge by on the way."""
    none = {"test_images": torch.empty(0, 3, SIDE, SIDE), "test_labels": few.test_labels[:0]}
    return replace(few, train_images=enlarged(few.train_images), mean=MEAN, std=STD, **none)


def pretrained(img_size: int, num_classes: int, seed: int) -> ViT:
    """DINOv2 for images of this size, with a new head."""
    torch.manual_seed(seed)
    model = weights.dinov2("package")
    if model is None:
        raise RuntimeError("this experiment needs the weights of requirements-pretrained.txt")
    return model.resized(img_size).with_head(num_classes)


def start(way: str, img_size: int, num_classes: int, seed: int) -> ViT:
    """What a way of adapting begins with: "from scratch", "head alone", "LoRA" or "all weights"."""
    if way == "from scratch":
        torch.manual_seed(seed)
        return ViT(replace(weights.DINOV2, img_size=img_size, num_classes=num_classes))
    model = pretrained(img_size, num_classes, seed)
    if way == "head alone":
        model.requires_grad_(False).head.requires_grad_(True)
    return add_lora(model) if way == "LoRA" else model

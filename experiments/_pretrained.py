"""What the experiments with DINOv2's weights share."""

import torch
from torch import Tensor

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's pixels, as DINOv2 was trained


def normalized(images: Tensor) -> Tensor:
    """Colour images of bytes as the network takes them."""
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, STD))
    return (images / 255 - mean) / std  # (B, 3, H, W)

"""Chapter 15: low-rank adaptation, which trains few numbers beside frozen weights."""

from copy import deepcopy

import torch
from torch import Tensor, nn

from vitnb._validate import positive_float, positive_int
from vitnb.vit import ViT


class LoRA(nn.Module):
    """A linear layer that stays as it is, and beside it a product of low rank that is trained.

    The product begins at zero, so that the layer computes what it did.

    Shapes: x (..., inputs) -> (..., outputs).
    Raises: ValueError or TypeError for another layer, a rank below 1 or a scale that is not above 0.
    Source: Hu et al. 2021, section 4.1; scale is their alpha / r.
    """

    def __init__(self, linear: nn.Linear, rank: int = 8, scale: float = 2.0):
        super().__init__()
        if not isinstance(linear, nn.Linear):
            raise TypeError(f"linear must be an nn.Linear, got {type(linear).__name__}: use nn.Linear(64, 64)")
        outputs, inputs = linear.weight.shape
        rank, self.scale = positive_int("rank", rank), positive_float("scale", scale)
        self.linear = linear.requires_grad_(False)
        self.down = nn.Parameter(linear.weight.new_empty(rank, inputs).normal_(std=inputs**-0.5))  # A, (r, inputs)
        self.up = nn.Parameter(linear.weight.new_zeros(outputs, rank))  # B, (outputs, r)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + self.scale * (x @ self.down.T) @ self.up.T  # (..., outputs)

    def change(self) -> Tensor:
        """What the product adds to the weight: (outputs, inputs)."""
        return self.scale * self.up @ self.down

    @torch.no_grad()
    def merged(self) -> nn.Linear:
        """A linear layer of the same function, with the change in its weight."""
        linear = deepcopy(self.linear).requires_grad_(True)
        linear.weight += self.change()
        return linear


def add_lora(model: ViT, rank: int = 8, scale: float = 2.0) -> ViT:
    """A copy that trains its head and, beside the layers of attention, products of low rank; all else is frozen.

    Raises: ValueError or TypeError for a rank below 1 or a scale that is not above 0.
    """
    model = deepcopy(model).requires_grad_(False)
    for block in model.blocks:
        for name in ("qkv", "proj"):
            setattr(block.attention, name, LoRA(getattr(block.attention, name), rank, scale))
    model.head.requires_grad_(True)
    return model


def merge_lora(model: ViT) -> ViT:
    """A copy without products of low rank, of the same function: weights.save and the to_... functions take it."""
    model = deepcopy(model)
    for part in [*model.modules()]:
        for name, layer in part.named_children():
            if isinstance(layer, LoRA):
                setattr(part, name, layer.merged())
    return model.requires_grad_(True)

"""Matplotlib figures in the book's style: one look, legible on light and dark pages."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from torch import Tensor

from vitnb._validate import Size, pair, tensor
from vitnb.patches import grid_size

# Okabe and Ito 2008: eight colours that colour-blind readers can tell apart.
COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#f0e442"]


def use_style() -> None:
    """Set the book's look for all figures that follow."""
    plt.rcParams.update(
        {
            "axes.prop_cycle": plt.cycler(color=COLORS),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "figure.constrained_layout.use": True,
            "figure.dpi": 80,
            "figure.facecolor": "white",  # dark pages lay figures on a light card
            "font.size": 11,
            "image.cmap": "gray",
            "image.interpolation": "nearest",
            "legend.frameon": False,
            "lines.linewidth": 2,
            "svg.hashsalt": "vitnb",
        }
    )


def show_images(images: Tensor, titles: Sequence[str] = (), columns: int = 8, size: float = 1.1) -> list[Axes]:
    """Show images (B, C, H, W) side by side, a title above each.

    C is 1 (gray) or 3 (colour); values from 0 to 1, or uint8.
    """
    images = tensor("images", images, 4, "(B, C, H, W)").cpu()
    rows = -(-len(images) // columns)
    columns = min(columns, len(images))
    height = size * images.shape[2] / images.shape[3] + (0.28 if titles else 0)
    figure, axes = plt.subplots(rows, columns, figsize=(columns * size, rows * height), squeeze=False)
    for number, axis in enumerate(axes.flat):
        axis.set_axis_off()
        if number < len(images):
            draw_image(axis, images[number])
            axis.set_title(titles[number] if titles else "", fontsize=9)
    return list(axes.flat)


def draw_image(axis: Axes, image: Tensor) -> None:
    """Draw one image (C, H, W) into an axis."""
    top = 255 if image.dtype == torch.uint8 else 1
    pixels = image.cpu().permute(1, 2, 0) if image.shape[0] == 3 else image.cpu()[0]
    axis.imshow(pixels.clamp(0, top) if image.is_floating_point() else pixels, vmin=0, vmax=top)


def patch_grid(axis: Axes, image: Tensor, patch_size: Size, numbers: bool = True) -> None:
    """Draw an image (C, H, W) with the lines of its patches, and each token's number."""
    (rows, cols), (ph, pw) = grid_size(tuple(image.shape[1:]), patch_size), pair("patch_size", patch_size)
    draw_image(axis, image)
    axis.set_xticks([c * pw - 0.5 for c in range(cols + 1)], [])
    axis.set_yticks([r * ph - 0.5 for r in range(rows + 1)], [])
    axis.grid(color="white", linewidth=1)
    axis.tick_params(length=0)
    box = dict(boxstyle="round,pad=0.15", facecolor="black", alpha=0.55, linewidth=0)
    for n in range(rows * cols if numbers else 0):
        x, y = n % cols * pw + pw / 2 - 0.5, n // cols * ph + ph / 2 - 0.5
        axis.text(x, y, str(n), color="white", ha="center", va="center", fontsize=8, bbox=box)


def mean_and_range(axis: Axes, xs: Sequence[float], runs: Sequence[Sequence[float]], label: str, color: str) -> None:
    """Draw the mean of several runs (seeds) over xs, and the band from the lowest to the highest."""
    values = torch.tensor(runs, dtype=torch.float64)  # (seeds, points)
    axis.plot(xs, values.mean(0), color=color, label=f"{label} (n={len(values)})")
    axis.fill_between(xs, values.amin(0), values.amax(0), color=color, alpha=0.2, linewidth=0)


def confusion(axis: Axes, matrix: Tensor, classes: Sequence[str]) -> None:
    """Draw a confusion matrix (K, K): row = the true class, column = the prediction; in per cent of the row."""
    share = 100 * matrix / matrix.sum(dim=1, keepdim=True).clamp(min=1)
    axis.imshow(share, cmap="Blues", vmin=0, vmax=100)
    ticks = range(len(classes))
    axis.set_xticks(ticks, classes, rotation=45, ha="right")
    axis.set_yticks(ticks, classes)
    axis.set(xlabel="what the model says", ylabel="what it is")
    axis.spines[:].set_visible(False)
    for i in ticks:
        for j in ticks:
            if share[i, j] >= 0.5:
                color = "white" if share[i, j] > 50 else "black"
                axis.text(j, i, f"{share[i, j]:.0f}", ha="center", va="center", fontsize=9, color=color)

"""Matplotlib figures in the book's style: one look, legible on light and dark pages."""

from collections.abc import Sequence

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from torch import Tensor

from vitnb._validate import Size, pair, tensor
from vitnb.attention import record_attention
from vitnb.patches import grid_size
from vitnb.vit import ViT

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


def pictures(images: Tensor, titles: Sequence[str] = (), columns: int = 8, size: float = 1.1) -> list[Axes]:
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


def spread(axis: Axes, xs: Sequence[float], runs: Sequence[Sequence[float]], label: str, color: str) -> None:
    """Draw the mean of several runs (seeds) over xs, and the band from the lowest to the highest."""
    values = torch.tensor(runs, dtype=torch.float64)  # (seeds, points)
    axis.plot(xs, values.mean(0), color=color, label=f"{label} (n={len(values)})")
    axis.fill_between(xs, values.amin(0), values.amax(0), color=color, alpha=0.2, linewidth=0)


def confusion(axis: Axes, matrix: Tensor, classes: Sequence[str]) -> None:
    """Draw a confusion matrix (K, K): row = the true class, column = the answer; in per cent of the row."""
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
                axis.text(
                    j,
                    i,
                    f"{share[i, j]:.0f}",
                    ha="center",
                    va="center",
                    fontsize=9,
                    color="white" if share[i, j] > 50 else "black",
                )


class Drawing:
    """A drawing as SVG text: notebooks show it, and it is as sharp on paper as on a phone."""

    def __init__(self, svg: str, name: str):
        self.svg, self.name = svg, name

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"Drawing: {self.name}"


@torch.no_grad()
def model_shapes(model: ViT, images: Tensor) -> dict[str, tuple[int, ...]]:
    """Send images through a ViT and note the shape of what comes out of every step.

    Raises: ValueError unless the model is the paper's: one convolution as stem, a cls token, pre-norm.
    """
    c = model.config
    if (c.stem, c.global_pool, c.norm) != ("patch", "cls", "pre"):
        raise ValueError(
            f"model must be the paper's, got stem={c.stem!r}, global_pool={c.global_pool!r}, norm={c.norm!r}: "
            "use ViT(ViTConfig.vit_b_16())"
        )
    seen, block = {"images": images}, model.blocks[0]
    hook = block.mlp.fc1.register_forward_hook(lambda layer, x, out: seen.update(hidden=out))
    try:
        with record_attention(block) as maps:
            steps = model.forward_intermediates(images)
    finally:
        hook.remove()
    seen["convolution"] = model.patch_embed.proj(images)  # (B, D, H/p, W/p)
    seen["flat"] = seen["convolution"].flatten(2)  # (B, D, N)
    seen |= {"patches": seen["flat"].transpose(1, 2), "joined": model.pool.prepend(steps["patches"])}
    seen |= {"cls": model.pool.token, "table": model.positions.table, "maps": maps[0]}
    return {name: tuple(x.shape) for name, x in (steps | seen).items()}


def model_diagram(model: ViT, images: Tensor) -> Drawing:
    """Draw a whole ViT from images to logits, with the shape of every step on its arrow.

    Every number is read off the model or off a run of it on these images
    (B, C, H, W), which may lie on the device "meta".

    Raises: ValueError unless the model is the paper's (see model_shapes).
    Source: after figure 1 of Dosovitskiy et al. 2021.
    """
    shapes, c = model_shapes(model, images), model.config
    (rows, cols), (ph, pw) = model.patch_embed.grid_size, model.patch_embed.patch_size
    blue, orange, green, gray = "#b5d7ee", "#f6c9a5", "#b4e0d2", "#eeeeee"  # patches, cls, blocks, all else
    parts, y = [], 8

    def text(x: float, y: float, words: str, style: str = "") -> None:
        parts.append(f'<text x="{x}" y="{y}" {style}>{words}</text>')

    def box(x: float, y: float, width: float, words: str, fill: str) -> None:
        parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="26" rx="5" fill="{fill}"/>')
        text(x + width / 2, y + 17.5, words, 'text-anchor="middle"')

    def line(path: str, end: str = ' marker-end="url(#tip)"') -> None:
        parts.append(f'<path d="{path}"{end}/>')

    def shape(name: str, batch: bool = True) -> str:
        sides = ["B"] * batch + [str(side) for side in shapes[name][batch:]]
        return f"({', '.join(sides)})"

    def arrow(name: str) -> None:
        """The arrow to the next step, with the shape of what flows."""
        nonlocal y
        line(f"M60 {y} V{y + 21}")
        text(68, y + 15, shape(name), 'class="shape"')
        y += 24

    def step(words: str, fill: str, note: str = "", token: str = "") -> None:
        """A step; beside it a note, or a learned tensor that joins in."""
        nonlocal y
        box(8, y, 166, words, fill)
        if token:
            line(f"M196 {y + 13} H178")
            text(200, y + 10, note)
            text(200, y + 25, shape(token, batch=False), 'class="shape"')
        else:
            text(184, y + 17.5, note, 'class="note"')
        y += 26

    side = 56
    grid = "".join(
        [f"M{8 + side * n / cols:.1f} {y}v{side}" for n in range(cols + 1)]
        + [f"M8 {y + side * n / rows:.1f}h{side}" for n in range(rows + 1)]
    )
    parts.append(f'<rect x="8" y="{y}" width="{side}" height="{side}" fill="{blue}"/>')
    parts.append(f'<path d="{grid}" style="stroke: white; stroke-width: 1"/>')
    text(76, y + 22, "images, cut into patches")
    text(76, y + 40, f"{rows} × {cols} patches of {ph} × {pw} pixels", 'class="note"')
    y += side + 2
    arrow("images")
    step(f"convolution {ph} × {pw}", blue, f"in steps of {ph}: patch times E")
    arrow("convolution")
    step("flatten(2)", blue, "the grid becomes a list")
    arrow("flat")
    step("transpose(1, 2)", blue, "one row a patch")
    arrow("patches")
    step("put in front", orange, "cls token", "cls")
    arrow("joined")
    step("add positions", gray, "position table", "table")
    arrow("embedded")

    top, y = y, y + 8  # one block, drawn open
    inner = len(parts)
    for name, note in (("attention", f"maps {shape('maps')}"), ("MLP", f"hidden {shape('hidden')}")):
        line(f"M60 {y - 8} V{y + 90}", "")
        line(f"M60 {y} H96 V{y + 4}")
        box(76, y + 6, 76, "norm", gray)
        line(f"M114 {y + 32} V{y + 36}", "")
        box(76, y + 36, 76, name, green)
        line(f"M114 {y + 62} V{y + 74} H70")
        parts.append(f'<circle cx="60" cy="{y + 74}" r="8" fill="white"/>')
        text(60, y + 78.5, "+", 'text-anchor="middle"')
        text(184, y + 53.5, note, 'class="shape"')
        y += 90
    text(184, top + 30, f"a block, {c.depth} of them", 'style="font-weight: bold"')
    parts.insert(inner, f'<rect x="8" y="{top}" width="346" height="{y - top}" rx="8" class="block"/>')
    arrow(f"block_{c.depth}")
    step("last norm", gray, "each token by itself")
    arrow("features")
    step("read token 0", orange, "the cls token alone")
    arrow("pooled")
    step("head", gray, "one linear layer")
    arrow("logits")
    text(8, y + 13, f"logits: a score for each of {shapes['logits'][1]:,} classes")
    height = y + 22
    svg = f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 362 {height}" width="470" role="img">
<title>The Vision Transformer, from images to logits</title>
<style>text {{ font: 13px sans-serif; fill: #000 }} .shape {{ font: 12px monospace }}
.note {{ fill: #444; font-size: 12px }}
path, circle, rect {{ fill-rule: evenodd; stroke: #444; stroke-width: 1.2 }} path {{ fill: none }}
.block {{ fill: none; stroke-dasharray: 4 3 }}</style>
<defs><marker id="tip" markerWidth="7" markerHeight="7" refX="5" refY="3" orient="auto">
<path d="M0 0 L6 3 L0 6 z" style="fill: #444; stroke: none"/></marker></defs>
<rect width="100%" height="100%" style="fill: white; stroke: none"/>
{chr(10).join(parts)}
</svg>"""
    return Drawing(svg, f"a ViT of {c.depth} blocks, with every shape")

"""From a pixel to its patch and its place in the vector (chapter 01)."""

import math
from collections.abc import Mapping, Sequence

import matplotlib.figure
import torch
import traitlets
from matplotlib import pyplot as plt
from torch import Tensor

from vitbook.faults.cut import reshape_alone
from vitbook.figures._base import Figure, image_bytes, module, style, within
from vitbook.images import boot, sample_image
from vitnb import plots
from vitnb._validate import positive_int
from vitnb.patches import unpatchify


class PatchExplorer(Figure):
    """Pick a pixel and see its patch and its place in the vector, beside a cut by reshape alone.

    images maps a name to an image (C, H, W), float in [0, 1] or uint8, with
    1 or 3 channels and at most 256 pixels a side; without it there are five,
    the boot first. image, patch_size, row and column follow the reader's choice.

    Raises: TypeError or ValueError if an image is not as above or has no
        patch side but 1, or if patch_size does not divide the first image.
    """

    _esm = module("patch_explorer.js")
    _css = style("patch_explorer.css")

    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    shapes = traitlets.List(traitlets.List(traitlets.Int())).tag(sync=True)  # (C, H, W) each
    pixels = traitlets.Bytes().tag(sync=True)  # all images, one behind the other
    image = traitlets.Int(0).tag(sync=True)
    patch_size = traitlets.Int(4).tag(sync=True)
    row = traitlets.Int(0).tag(sync=True)
    column = traitlets.Int(0).tag(sync=True)

    def __init__(self, images: Mapping[str, Tensor] | None = None, patch_size: int = 4):
        images = dict(_images() if images is None else images)
        if not images:
            raise ValueError("images is empty: use {'photo': images.sample_image(96)}, for example")
        pixels = b"".join(image_bytes(f"images[{name!r}]", image) for name, image in images.items())
        for name, image in images.items():
            if len(_sides(image.shape)) < 2:
                H, W = image.shape[1:]
                raise ValueError(f"images[{name!r}]: only 1 divides {H} and {W} pixels: use 96 x 96, for example")
        shapes = [list(image.shape) for image in images.values()]
        _, H, W = shapes[0]
        super().__init__(
            names=[str(name) for name in images],
            shapes=shapes,
            pixels=pixels,
            patch_size=_fitting(patch_size, shapes[0]),
            row=int(0.62 * H),  # the boot's toe
            column=int(0.06 * W),
        )

    def still(self) -> matplotlib.figure.Figure:
        shape, p = self.shapes[self.image], self.patch_size
        start = sum(map(math.prod, self.shapes[: self.image]))
        flat = torch.frombuffer(bytearray(self.pixels), dtype=torch.uint8)
        images = flat[start : start + math.prod(shape)].reshape(1, *shape)  # (1, C, H, W)
        C, H, W = shape
        torn = reshape_alone(images, p)  # (1, N, C*p*p)
        figure, axes = plt.subplots(1, 2, figsize=(8, 4.2 * H / W))
        titles = ("cut into patches", "cut by reshape alone")
        for axis, image, title in zip(axes, (images, unpatchify(torn, p, (H, W), C)), titles, strict=True):
            plots.patch_grid(axis, image[0], p, numbers=(H * W) // p**2 <= 64)
            axis.set_title(title)
        return figure

    @traitlets.validate("image", "patch_size", "row", "column")
    def _check(self, proposal: dict) -> int:
        name = proposal["trait"].name
        shape = self.shapes[0 if name == "image" else self.image]
        if name == "patch_size":
            return _fitting(proposal["value"], shape)
        return within(proposal, {"image": len(self.shapes) - 1, "row": shape[1] - 1, "column": shape[2] - 1})

    @traitlets.observe("image")
    def _fit(self, change: dict) -> None:
        sides = _sides(self.shapes[self.image])
        if self.patch_size not in sides:
            self.patch_size = min(sides, key=lambda p: abs(p - self.patch_size))
        _, H, W = self.shapes[self.image]
        self.row, self.column = min(self.row, H - 1), min(self.column, W - 1)


def _sides(shape: Sequence[int]) -> list[int]:
    """The patch sides that divide an image (C, H, W), up to half its shorter side."""
    _, H, W = shape
    return [p for p in range(1, min(H, W) // 2 + 1) if H % p == W % p == 0]


def _fitting(patch_size: int, shape: Sequence[int]) -> int:
    """Return patch_size if it cuts an image (C, H, W) exactly; the message names sides that do."""
    sides, p = _sides(shape), positive_int("patch_size", patch_size)
    if p not in sides:
        raise ValueError(f"patch_size {p} does not cut {shape[1]} x {shape[2]} pixels: use one of {sides}")
    return p


def _images() -> dict[str, Tensor]:
    """The boot; 24 pixels; a photograph; a part of it in gray, higher than wide; addresses as colours."""
    photo = sample_image(96)  # (C, H, W)
    gray = photo.mean(dim=0, keepdim=True)[:, :, 20:68]  # (1, 96, 48)
    rows, columns = torch.linspace(0, 1, 24)[:, None], torch.linspace(0, 1, 24)
    addresses = torch.stack(torch.broadcast_tensors(rows, columns, 1 - rows))  # (3, 24, 24)
    few = torch.arange(24).reshape(1, 4, 6) / 23  # those of the chapter, from black to white
    return {"boot": boot(), "24 pixels": few, "photograph": photo, "gray, narrow": gray, "addresses": addresses}

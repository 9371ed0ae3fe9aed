"""Which patches are like this one? In four photos, as a pretrained ViT finds (chapter 15)."""

import io
from typing import Any

import matplotlib.figure
import numpy as np
import torch
import traitlets
from matplotlib import pyplot as plt
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from vitbook import results
from vitbook.figures._base import Figure, check_whole, module, style, within
from vitnb import plots

FADE = 0.35, 0.8, 0.2  # the cosines at which a patch is faint, and at which it is as in the photo; what faint is
QUALITY = 90  # of the photos in a page


class LikenessExplorer(Figure):
    """Point at a patch of a photo: what is like it keeps its brightness, there and in three other photos.

    All that it shows is stored: the experiment `likeness` ran DINOv2 over the
    photos. photo and patch follow the reader's choice; patches are numbered row
    by row.

    Raises: TypeError or ValueError if there is no such photo or patch.
    """

    _esm = module("likeness_explorer.js")
    _css = style("likeness_explorer.css")
    late = ("tokens",)

    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    grid = traitlets.Int(24).tag(sync=True)
    fade = traitlets.List(traitlets.Float()).tag(sync=True)
    pixels = traitlets.Bytes().tag(sync=True)  # uint8, (photos, 3, S, S)
    tokens = traitlets.Bytes().tag(sync=True)  # int8, (photos, N, directions)
    photo = traitlets.Int(0).tag(sync=True)
    patch = traitlets.Int(0).tag(sync=True)

    def __init__(self, photo: int = 0, patch: int = 276):
        config = results.result("likeness")["config"]
        stored = load_file(results.folder() / "likeness.safetensors")
        super().__init__(
            names=list(config["photos"].values()),
            grid=config["grid"],
            fade=list(FADE),
            pixels=stored["pixels"].numpy().tobytes(),
            tokens=stored["tokens"].numpy().tobytes(),
        )
        check_whole(photo=photo, patch=patch)
        self.photo, self.patch = photo, patch

    def cosines(self) -> Tensor:
        """Of the chosen patch with all patches of all photos: (photos, N)."""
        tokens = torch.frombuffer(bytearray(self.tokens), dtype=torch.int8)
        tokens = F.normalize(tokens.reshape(len(self.names), self.grid**2, -1).float(), dim=-1)
        return tokens @ tokens[self.photo, self.patch]

    @classmethod
    def first(cls, state: dict[str, Any]) -> dict[str, bytes]:
        """Return the cosines of the patch that is chosen, and the photos as a WebP image."""
        cosines, image = cls.stored(state).cosines(), io.BytesIO()
        pixels = np.frombuffer(state["pixels"], dtype=np.uint8)
        side = int((len(pixels) / len(state["names"]) / 3) ** 0.5)
        photos = pixels.reshape(-1, 3, side, side).transpose(0, 2, 3, 1).reshape(-1, side, 3)  # below each other
        Image.fromarray(photos).save(image, "webp", quality=QUALITY)
        return {"view": cosines.numpy().astype("<f4").tobytes(), "pixels": image.getvalue()}

    def still(self) -> matplotlib.figure.Figure:
        low, high, faint = self.fade
        P, side = len(self.names), self.grid
        pixels = torch.frombuffer(bytearray(self.pixels), dtype=torch.uint8)
        photos = pixels.reshape(P, 3, -1).unflatten(2, (int((len(self.pixels) / P / 3) ** 0.5), -1)) / 255
        bright = ((self.cosines() - low) / (high - low)).clamp(0, 1).reshape(P, 1, side, side)
        bright = faint + (1 - faint) * F.interpolate(bright, photos.shape[2:])
        figure, axes = plt.subplots(1, P, figsize=(11, 3.1))
        for axis, name, image in zip(axes, self.names, 1 - bright * (1 - photos), strict=True):
            plots.draw_image(axis, image)
            axis.set_title(name, fontsize=10)
            axis.set(xticks=[], yticks=[])
        scale = photos.shape[2] / side
        axes[self.photo].plot(
            (self.patch % side + 0.5) * scale, (self.patch // side + 0.5) * scale, "s", mfc="none", mec=plots.COLORS[1]
        )
        return figure

    @traitlets.validate("photo", "patch")
    def _check(self, proposal: dict[str, Any]) -> int:
        return within(proposal, {"photo": len(self.names) - 1, "patch": self.grid**2 - 1})

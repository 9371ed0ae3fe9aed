"""What rounds of attention leave of an image whose patches they replace (chapter 05)."""

import matplotlib.figure
import torch
import traitlets
from matplotlib import pyplot as plt
from torch import Tensor
from torch.nn import functional as F

from vitbook.figures._base import Figure, image_bytes, module, pixels_of, within
from vitbook.images import boot
from vitnb import plots
from vitnb.patches import patchify, unpatchify

MOST = 12  # as many rounds as ViT-Base has layers of attention
SIDE, PATCH = 28, 4
ALIKE = 0.05  # patches no farther apart count as the same


class RoundsExplorer(Figure):
    """Replace every patch of the boot by an average of similar ones, round after round.

    rounds follows the reader's choice.

    Raises: ValueError if rounds is not between 0 and 12.
    """

    _esm = module("rounds_explorer.js")

    side = traitlets.Int(SIDE).tag(sync=True)
    pixels = traitlets.Bytes().tag(sync=True)  # uint8, the images (side, side) after 0 to 12 rounds
    kinds = traitlets.List(traitlets.Int()).tag(sync=True)  # how many of the patches differ, after each round
    rounds = traitlets.Int(0).tag(sync=True)

    def __init__(self, rounds: int = 0):
        patches = attended(MOST)  # (rounds, T, 16)
        images = unpatchify(patches, PATCH, SIDE, 1).clamp(0, 1)  # (rounds, 1, H, W)
        super().__init__(
            pixels=b"".join(image_bytes("images", image) for image in images),
            kinds=[different(x) for x in patches],
            rounds=rounds,
        )

    def image(self, rounds: int) -> Tensor:
        """Return the image after some rounds, (1, H, W), uint8."""
        return pixels_of(self.pixels, 1, SIDE, SIDE)[rounds]

    def still(self) -> matplotlib.figure.Figure:
        figure, axes = plt.subplots(1, 3, figsize=(5.4, 2.4))
        for axis, rounds in zip(axes, (0, 2, 8), strict=True):
            plots.draw_image(axis, self.image(rounds))
            axis.set_title(f"{rounds} rounds\n{self.kinds[rounds]} kinds of patches", fontsize=10.5)
            axis.set_axis_off()
        return figure

    @traitlets.validate("rounds")
    def _check(self, proposal: dict) -> int:
        return within(proposal, {"rounds": MOST}, good=8)


def attended(rounds: int) -> Tensor:
    """Return the patches of the boot after 0 to `rounds` rounds of attention by similarity: (1 + rounds, T, 16)."""
    x = patchify(boot()[None] / 255, PATCH)[0]  # (T, 16)
    every = [x]
    for _ in range(rounds):
        unit = F.normalize(x - x.mean(dim=0), dim=1)  # as in chapter 3
        x = (8 * unit @ unit.T).softmax(dim=1) @ x  # (T, T) @ (T, 16)
        every.append(x)
    return torch.stack(every)


def different(patches: Tensor) -> int:
    """Count the patches (T, 16) that differ from all before them."""
    kinds: list[Tensor] = []
    for patch in patches:
        if all((patch - kind).norm() > ALIKE for kind in kinds):
            kinds.append(patch)
    return len(kinds)

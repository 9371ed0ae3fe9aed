"""A push that all images share, and a norm after it: what is left of the distance of two images (chapter 06)."""

from typing import Any

import matplotlib.figure
import torch
import traitlets
from matplotlib import pyplot as plt
from torch import Tensor
from torch.nn import functional as F

from vitbook.figures._base import Figure, module, style, within
from vitnb import plots

BOOT, BAG, PUSH = [1.0, -1.0, 1.0, -1.0], [1.0, -1.0, -1.0, 1.0], [1.0, -1.0, 0.0, 0.0]
SHARES = [0.0, 0.25, 0.5, 0.75, 1.0]  # of the stream that pass a norm: from pre-norm to post-norm
GAINS = [1.0, 0.1, 0.01, 0.0001]
MOST = 72  # two pushes in each of 36 blocks


class PushExplorer(Figure):
    """Push a boot and a bag the same way, again and again, and see what the norms leave of their distance.

    share and gain follow the reader's choice, as places in the lists shares (of the
    stream that pass a norm: 0 is pre-norm, 1 is post-norm) and gains; pushes is how
    many there were.

    Raises: ValueError if one of them is not among those to choose from.
    """

    _esm = module("push_explorer.js")
    _css = style("push_explorer.css")

    boot = traitlets.List(BOOT).tag(sync=True)
    bag = traitlets.List(BAG).tag(sync=True)
    push = traitlets.List(PUSH).tag(sync=True)
    shares = traitlets.List(SHARES).tag(sync=True)
    gains = traitlets.List(GAINS).tag(sync=True)
    most = traitlets.Int(MOST).tag(sync=True)
    share = traitlets.Int(len(SHARES) - 1).tag(sync=True)
    gain = traitlets.Int(0).tag(sync=True)
    pushes = traitlets.Int(1).tag(sync=True)

    def tokens(self, pushes: int, share: int, gain: int = 0) -> Tensor:
        """Return boot and bag after some pushes, as the head reads them: (2, D)."""
        return self._read(torch.tensor([BOOT, BAG], dtype=torch.double), pushes, share, gain)

    def distances(self, share: int, gain: int = 0) -> list[float]:
        """Return the distance of boot and bag after 0 to 72 pushes."""
        ends = (self.tokens(pushes, share, gain) for pushes in range(MOST + 1))
        return [(boot - bag).norm().item() for boot, bag in ends]

    def gradient(self, pushes: int, share: int, gain: int = 0) -> float:
        """Return how the head's feature 3 of the boot follows a change at the start; 1 without pushes."""
        boot = torch.tensor(BOOT, dtype=torch.double, requires_grad=True)
        ways = [torch.autograd.grad(self._read(boot, n, share, gain)[2], boot)[0] for n in (pushes, 0)]
        first, alone = (way[2] - way[3] for way in ways)
        return (first / alone).item()

    @staticmethod
    def _read(x: Tensor, pushes: int, share: int, gain: int) -> Tensor:
        for _ in range(pushes):
            x = x + GAINS[gain] * torch.tensor(PUSH, dtype=torch.double)
            x = torch.lerp(x, F.layer_norm(x, (4,)), SHARES[share])
        return F.layer_norm(x, (4,))  # the final norm

    def still(self) -> matplotlib.figure.Figure:
        figure, (plane, curve) = plt.subplots(1, 2, figsize=(8, 3.6))
        angles = torch.linspace(-1.75, 1.75, 99)
        plane.plot(2**0.5 * angles.cos(), 2**0.5 * angles.sin(), color="gray", lw=1.5)
        for name, token, color in (("boot", BOOT, plots.COLORS[2]), ("bag", BAG, plots.COLORS[3])):
            start, shift = torch.tensor(token), torch.tensor(PUSH)
            end, back = start + shift, F.layer_norm(start + shift, (4,))
            for line, (a, b) in (("-", (start, end)), (":", (end, back))):
                plane.plot([a[0], b[0]], [a[2], b[2]], line, color=color)
            plane.plot(*start[[0, 2]], "o", color=color, mfc="white")
            plane.plot(*back[[0, 2]], "o", color=color, ms=9)
            plane.annotate(name, start[[0, 2]].tolist(), (-8, -4), textcoords="offset points", ha="right", color=color)
        plane.annotate("push", (1.5, 1.08), ha="center")
        plane.annotate("norm", (1.85, 0.7), ha="center")
        plane.set(xlim=(-0.5, 2.7), ylim=(-1.6, 1.6), aspect="equal", xlabel="feature 1, which they share")
        plane.set_ylabel("feature 3, in which they differ")
        for share, name, color in ((0, "pre-norm", plots.COLORS[0]), (-1, "post-norm", plots.COLORS[1])):
            curve.semilogy(self.distances(share, self.gain), color=color, label=name)
        curve.set(xlabel="pushes", ylabel="distance of boot and bag", xticks=range(0, MOST + 1, 12))
        curve.legend(loc="lower left")
        return figure

    @traitlets.validate("share", "gain", "pushes")
    def _check(self, proposal: dict[str, Any]) -> int:
        return within(proposal, {"share": len(SHARES) - 1, "gain": len(GAINS) - 1, "pushes": MOST})

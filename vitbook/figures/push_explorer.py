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
WIRINGS = ["post-norm", "pre-norm"]
GAINS = [1.0, 0.1, 0.01, 0.0001]
MOST = 72  # two pushes in each of 36 blocks


class PushExplorer(Figure):
    """Push a boot and a bag the same way, again and again, and see what the norms leave of their distance.

    wiring and gain follow the reader's choice, as places in the lists wirings
    and gains; pushes is how many there were.

    Raises: ValueError if one of them is not among those to choose from.
    """

    _esm = module("push_explorer.js")
    _css = style("push_explorer.css")

    boot = traitlets.List(BOOT).tag(sync=True)
    bag = traitlets.List(BAG).tag(sync=True)
    push = traitlets.List(PUSH).tag(sync=True)
    wirings = traitlets.List(WIRINGS).tag(sync=True)
    gains = traitlets.List(GAINS).tag(sync=True)
    most = traitlets.Int(MOST).tag(sync=True)
    wiring = traitlets.Int(0).tag(sync=True)
    gain = traitlets.Int(0).tag(sync=True)
    pushes = traitlets.Int(1).tag(sync=True)

    def tokens(self, pushes: int, wiring: int, gain: int = 0) -> Tensor:
        """Return boot and bag after some pushes, as the head reads them: (2, D)."""
        x, push = torch.tensor([BOOT, BAG], dtype=torch.double), torch.tensor(PUSH, dtype=torch.double)
        for _ in range(pushes):
            x = x + GAINS[gain] * push
            x = F.layer_norm(x, (4,)) if WIRINGS[wiring] == "post-norm" else x
        return F.layer_norm(x, (4,))  # the final norm

    def distances(self, wiring: int, gain: int = 0) -> list[float]:
        """Return the distance of boot and bag after 0 to 72 pushes."""
        ends = (self.tokens(pushes, wiring, gain) for pushes in range(MOST + 1))
        return [(boot - bag).norm().item() for boot, bag in ends]

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
        for wiring, name in reversed(list(enumerate(WIRINGS))):
            curve.semilogy(self.distances(wiring, self.gain), color=plots.COLORS[1 - wiring], label=name)
        curve.set(xlabel="pushes", ylabel="distance of boot and bag", xticks=range(0, MOST + 1, 12))
        curve.legend(loc="lower left")
        return figure

    @traitlets.validate("wiring", "gain", "pushes")
    def _check(self, proposal: dict[str, Any]) -> int:
        return within(proposal, {"wiring": len(WIRINGS) - 1, "gain": len(GAINS) - 1, "pushes": MOST})

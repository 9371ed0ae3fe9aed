"""Which number of which token lands in which head, by view and transpose and by view alone (chapter 04)."""

import matplotlib.figure
import torch
import traitlets
from matplotlib import pyplot as plt

from vitbook.figures._base import Figure, module, style, within

NAMES = ["shaft", "heel", "sole"]
T, HEADS, d = len(NAMES), 2, 2  # tokens, heads, features of a head
MOST = 8  # steps of the slider to either side
SHADES = ("#9ec9e2", "#99c8bc", "#dcb4cb")  # of the tokens, as the page has them


class SplitExplorer(Figure):
    """Split the queries of three tokens among two heads, rightly or wrongly, and follow each number.

    place follows the reader's choice: at 0 the numbers stand as they lie in memory,
    at 8 as view and transpose give them to the heads, at -8 as view alone does.

    Raises: ValueError if place is not between -8 and 8.
    """

    _esm = module("split_explorer.js")
    _css = style("split_explorer.css")

    names = traitlets.List(NAMES).tag(sync=True)
    heads = traitlets.Int(HEADS).tag(sync=True)
    right = traitlets.List(traitlets.Int()).tag(sync=True)  # the numbers (h, T, d) of all heads, flattened
    wrong = traitlets.List(traitlets.Int()).tag(sync=True)
    most = traitlets.Int(MOST).tag(sync=True)
    place = traitlets.Int(0).tag(sync=True)

    def __init__(self, place: int = 0):
        q = torch.arange(T * HEADS * d)  # as a query (T, D) lies in memory
        super().__init__(
            right=q.view(T, HEADS, d).transpose(0, 1).flatten().tolist(),
            wrong=q.view(HEADS, T, d).flatten().tolist(),
            place=place,
        )

    def still(self) -> matplotlib.figure.Figure:
        memory = torch.arange(T * HEADS * d).view(1, T, HEADS * d)
        right, wrong = (torch.tensor(order).view(HEADS, T, d) for order in (self.right, self.wrong))
        ways = {"tokens (T, D)": memory, "view(T, h, d).transpose(0, 1)": right, "view(h, T, d) alone": wrong}
        figure, axes = plt.subplots(1, len(ways), figsize=(8, 1.9), width_ratios=[5, 6, 6])
        for axis, (title, values) in zip(axes, ways.items(), strict=True):
            _draw(axis, values)
            axis.set_title(title, fontsize=10)
        return figure

    @traitlets.validate("place")
    def _check(self, proposal: dict) -> int:
        return within(proposal, {"place": MOST}, -MOST)


def _draw(axis: plt.Axes, values: torch.Tensor) -> None:
    """Draw numbers (h, T, columns), the heads side by side, each number in the shade of its token."""
    wide = values.shape[2] + 1
    for head, row, column in torch.cartesian_prod(*map(torch.arange, values.shape)).tolist():
        number = values[head, row, column].item()
        x = head * wide + column
        axis.add_patch(plt.Rectangle((x, row), 1, 1, facecolor=SHADES[number // (HEADS * d)], edgecolor="white"))
        axis.text(x + 0.5, row + 0.5, number, ha="center", va="center", fontsize=9)
    heads = len(values)
    axis.set(xlim=(0, heads * wide - 1), ylim=(T, 0), aspect="equal", yticks=[0.5 + t for t in range(T)])
    axis.set_yticklabels(NAMES)
    axis.set_xticks([head * wide + (wide - 1) / 2 for head in range(heads)])
    axis.set_xticklabels([f"head {head}" for head in range(heads)] if heads > 1 else ["in memory"])
    axis.tick_params(length=0)
    axis.grid(visible=False)
    axis.spines[:].set_visible(False)

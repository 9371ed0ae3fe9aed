"""Queries and keys of a few tokens as arrows to drag, and the attention that follows from them (chapter 03)."""

import math
from collections.abc import Sequence

import matplotlib.figure
import torch
import traitlets
from matplotlib import pyplot as plt
from torch import Tensor

from vitbook.figures._base import Figure, module, style, within
from vitbook.figures.attention_explorer import AXES
from vitnb import plots
from vitnb._validate import choice, float_tensor


class QKVExplorer(Figure):
    """Drag the query of a token or a key: scores, weights and output follow.

        QKVExplorer(q, k, v, ["shaft", "sole", "heel"], ["shoe", "trousers"])

    names are those of the tokens, features those of a value's numbers. In a
    page the figure stays in view while the text of its section scrolls by,
    and a link of the page with a title such as "scores: row 0, column 1"
    lights this cell (or "query: row 0", "key: row 1", "output: row 0").

    token, axis ("keys", "queries": over which the softmax runs), scale (a
    factor of the divided scores), q and k follow the reader's choice.

    Shapes: q (T, 2), k (T, 2), v (T, e), with T from 2 to 4, and e 1 or 2.
    Raises: TypeError or ValueError for other tensors or names.
    """

    _esm = module("qkv_explorer.js")
    _css = style("qkv_explorer.css")

    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    features = traitlets.List(traitlets.Unicode()).tag(sync=True)
    q = traitlets.List().tag(sync=True)
    k = traitlets.List().tag(sync=True)
    v = traitlets.List().tag(sync=True)
    token = traitlets.Int(0).tag(sync=True)
    axis = traitlets.Unicode("keys").tag(sync=True)
    scale = traitlets.Float(1.0).tag(sync=True)

    def __init__(self, q: Tensor, k: Tensor, v: Tensor, names: Sequence[str], features: Sequence[str]):
        q, k, v = (float_tensor(name, x, 2, "(T, d)") for name, x in (("q", q), ("k", k), ("v", v)))
        T, e = v.shape
        if not 2 <= T <= 4 or not 1 <= e <= 2 or q.shape != (T, 2) or k.shape != (T, 2):
            raise ValueError(
                f"the figure holds 2 to 4 tokens with queries and keys of 2 numbers, got q {tuple(q.shape)}, "
                f"k {tuple(k.shape)}, v {tuple(v.shape)}: use (3, 2) for each, for example"
            )
        if len(names) != T or len(features) != e:
            raise ValueError(
                f"names has {len(names)} for {T} tokens, features {len(features)} for {e} numbers of a value: "
                "give each one"
            )
        lists = {"q": q.tolist(), "k": k.tolist(), "v": v.tolist()}
        super().__init__(names=list(names), features=list(features), **lists)

    def weights(self) -> Tensor:
        """Return the weights as the figure has them: (T, T)."""
        q, k = torch.tensor(self.q), torch.tensor(self.k)
        return (self.scale * q @ k.T / q.shape[1] ** 0.5).softmax(dim=AXES[self.axis])

    def still(self) -> matplotlib.figure.Figure:
        q, k, weights = torch.tensor(self.q), torch.tensor(self.k), self.weights()
        shown = {"scores": q @ k.T, "weights": weights, "output": weights @ torch.tensor(self.v)}
        figure, (plane, *axes) = plt.subplots(1, 4, figsize=(8, 2.1), layout="constrained")
        for name, at in zip(self.names, self.k, strict=True):
            plane.annotate(name, at, xytext=(4, 4), textcoords="offset points", fontsize=8)
            plane.plot(*zip((0, 0), at, strict=True), "--o", color=plots.COLORS[0])
        plane.plot(*zip((0, 0), self.q[self.token], strict=True), "-o", color=plots.COLORS[1], markersize=8)
        plane.set_title(f"keys, query of the {self.names[self.token]}", fontsize=9)
        plane.set(xlim=(-0.5, 2.5), ylim=(-0.5, 2.5), aspect="equal")
        for axis, (title, numbers) in zip(axes, shown.items(), strict=True):
            axis.imshow(numbers, cmap="Purples", vmin=0, vmax=2 * numbers.max())
            for (i, j), number in zip(
                torch.cartesian_prod(*map(torch.arange, numbers.shape)), numbers.flatten(), strict=True
            ):
                axis.text(j, i, f"{number:.3g}", ha="center", va="center", fontsize=8)
            axis.set_title(title, fontsize=9)
            columns = self.features if title == "output" else self.names
            axis.set_xticks(range(len(columns)), columns, fontsize=8)
            axis.set_yticks(range(len(self.names)), self.names, fontsize=8)
            axis.grid(visible=False)
        return figure

    @traitlets.validate("token")
    def _check_token(self, proposal: dict) -> int:
        return within(proposal, {"token": len(self.names) - 1})

    @traitlets.validate("axis")
    def _check_axis(self, proposal: dict) -> str:
        return choice("axis", proposal["value"], tuple(AXES))

    @traitlets.validate("scale")
    def _check_scale(self, proposal: dict) -> float:
        return within(proposal, {"scale": math.nextafter(math.inf, 0)}, good=1)

"""What a ViT costs, by five numbers: work in matrices and between tokens, maps, weights (chapter 13)."""

from typing import Any

import matplotlib.figure
import traitlets
from matplotlib import pyplot as plt

from vitbook.figures._base import Figure, module, style
from vitnb import plots
from vitnb._validate import divides
from vitnb.vit import ViTConfig

SIDES = [28, 32, 56, 64, 96, 112, 128, 224, 256, 448]
PATCHES = [4, 7, 8, 14, 16, 28, 32]
WIDTHS = [64, 128, 192, 256, 384, 512, 768, 1024]
DEPTHS = [1, 2, 4, 6, 8, 12, 24]
HEADS = [1, 2, 4, 8, 12, 16]
RATIO = 4  # how many times as wide as a token the MLP is
VALUES = {"side": SIDES, "patch": PATCHES, "width": WIDTHS, "depth": DEPTHS, "heads": HEADS}


class CostExplorer(Figure):
    """Change the image, the patches or the blocks of a ViT and see what one image costs.

    config gives the first side of the image, side of a patch, width, depth
    and number of heads; all five follow the reader's choice. Counted are the
    blocks, with an MLP four times as wide as a token; a cls token is left out.

    Raises: TypeError or ValueError if config is no such model, or a number is none of those to choose from.
    """

    _esm = module("cost_explorer.js")
    _css = style()

    choices = traitlets.Dict(VALUES).tag(sync=True)
    ratio = traitlets.Int(RATIO).tag(sync=True)
    side = traitlets.Int(28).tag(sync=True)
    patch = traitlets.Int(7).tag(sync=True)
    width = traitlets.Int(64).tag(sync=True)
    depth = traitlets.Int(4).tag(sync=True)
    heads = traitlets.Int(4).tag(sync=True)

    def __init__(self, config: ViTConfig | None = None):
        super().__init__()
        if config is not None:
            if not isinstance(config, ViTConfig):
                raise TypeError(f"config must be a ViTConfig, got {type(config).__name__}: use ViTConfig()")
            sizes = {"side": config.img_size, "patch": config.patch_size, "width": config.embed_dim}
            for name, value in (sizes | {"depth": config.depth, "heads": config.num_heads}).items():
                setattr(self, name, value)

    def cost(self, tokens: int | None = None) -> dict[str, int]:
        """Return what the blocks take for an image of `tokens` (default: those of side and patch).

        matrices and between are multiplications, maps and weights numbers.

        Raises: ValueError if patch does not divide side, or heads the width.
        """
        divides("side", self.side, "patch", self.patch)
        divides("width", self.width, "heads", self.heads)
        T = (self.side // self.patch) ** 2 if tokens is None else tokens
        D, L = self.width, self.depth
        weights = L * (4 + 2 * self.ratio) * D**2
        return {
            "tokens": T,
            "matrices": T * weights,
            "between": L * 2 * T**2 * D,
            "maps": L * self.heads * T**2,
            "weights": weights,
        }

    def still(self) -> matplotlib.figure.Figure:
        figure, axis = plt.subplots(figsize=(6.2, 3.2))
        xs = [2**n for n in range(2, 15)]
        for color, kind, words in ((0, "matrices", "in matrices"), (1, "between", "between tokens")):
            axis.loglog(xs, [self.cost(x)[kind] for x in xs], color=plots.COLORS[color], label=words)
            axis.plot(self.cost()["tokens"], self.cost()[kind], "o", color=plots.COLORS[color])
        axis.axvline(self.cost()["tokens"], color="gray", linestyle=":")
        axis.set(xlabel="tokens", ylabel="multiplications, one image")
        axis.set_title(
            f"{self.side} pixels, patches of {self.patch}, width {self.width}, {self.depth} blocks", fontsize=9
        )
        axis.legend()
        return figure

    @traitlets.validate(*VALUES)
    def _check(self, proposal: dict[str, Any]) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        if value not in VALUES[name]:
            raise ValueError(f"{name} must be one of {VALUES[name]}, got {value!r}: use {VALUES[name][1]}, for example")
        return value

"""What each token attends to: one row over the image, every head beside it, raw or rolled out (chapters 03 and 11)."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.figure
import numpy as np
import torch
import traitlets
from matplotlib import pyplot as plt
from torch import Tensor

from vitbook.figures._base import Figure, module, named_images, named_networks, pixels_of, style, within
from vitnb import plots
from vitnb._validate import choice
from vitnb.attention import record_attention
from vitnb.inspection import rollout
from vitnb.vit import ViT

SHOWS = ("head", "mean", "rollout")
AXES = {"keys": -1, "queries": -2}  # over which the softmax runs: the second is the bug
MAX_WEIGHTS = 16_000_000


class AttentionExplorer(Figure):
    """Pick a token, a layer and a head: what does the token attend to?

        AttentionExplorer(model, image)                      # yours
        AttentionExplorer({"trained": model, "random": start}, images, names, normalize=clothes.normalize)

    models is one ViT, or one or two under names that share their number of
    layers, heads and tokens. images are what is shown, (B, C, H, W) or
    (C, H, W), uint8 or float in [0, 1]; normalize makes of them what the
    network was trained on (without it, pixels from 0 to 1). names has one for
    each image. The maps are recorded here, once, and travel as bytes. With
    scores=True the scores travel, and the figure also shows what a softmax
    over the wrong axis makes of them, and what larger scores do.

    image, token, layer, head and show ("head", "mean", "rollout") follow the
    reader's choice and move the figure when they are set; all count from 0.
    So do axis ("keys", "queries") and scale, a factor of the scores.

    Raises: TypeError or ValueError if models, images or names are not as
        above, or if all maps together hold more than 16 million weights.
    """

    _esm = module("attention_explorer.js")
    _css = style("attention_explorer.css")
    late = "maps", "scores"

    networks = traitlets.List(traitlets.Unicode()).tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    sizes = traitlets.List(traitlets.Int()).tag(sync=True)  # L, h, T
    grid = traitlets.List(traitlets.Int()).tag(sync=True)
    prefix = traitlets.Int(0).tag(sync=True)
    shape = traitlets.List(traitlets.Int()).tag(sync=True)  # (C, H, W) of an image
    pixels = traitlets.Bytes().tag(sync=True)
    maps = traitlets.Bytes().tag(sync=True)  # (networks, B, L, h, T, T), see _record
    scores = traitlets.Bytes().tag(sync=True)  # the same shape, float32, instead of maps
    width = traitlets.Int().tag(sync=True)  # of queries and keys

    image = traitlets.Int(0).tag(sync=True)
    token = traitlets.Int(0).tag(sync=True)
    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    show = traitlets.Unicode("head").tag(sync=True)
    axis = traitlets.Unicode("keys").tag(sync=True)
    scale = traitlets.Float(1.0).tag(sync=True)

    def __init__(
        self,
        models: ViT | Mapping[str, ViT],
        images: Tensor,
        names: Sequence[str] | None = None,
        normalize: Callable[[Tensor], Tensor] | None = None,
        scores: bool = False,
    ):
        models = _networks(models)
        images, names, pixels = named_images(images, names)
        first = next(iter(models.values()))
        L, T = first.config.depth, first.num_prefix_tokens + first.patch_embed.num_patches
        sizes = [L, first.config.num_heads, T]
        if (weights := len(models) * len(images) * math.prod(sizes) * T) > MAX_WEIGHTS:
            raise ValueError(
                f"the maps of {len(images)} images hold {weights:,} weights, at most {MAX_WEIGHTS:,} can travel: "
                "use fewer images, or a larger patch_size"
            )
        recorded = b"".join(_record(model, images, normalize, scores) for model in models.values())
        super().__init__(
            networks=list(models),
            names=names,
            sizes=sizes,
            grid=list(first.patch_embed.grid_size),
            prefix=first.num_prefix_tokens,
            shape=list(images.shape[1:]),
            pixels=pixels,
            width=first.config.embed_dim // first.config.num_heads,
            token=first.num_prefix_tokens,
            **{"scores" if scores else "maps": recorded},
        )

    def weights(self) -> Tensor:
        """Return the maps of the image that is shown, as the figure has them: (networks, L, h, T, T)."""
        stored = np.frombuffer(self.scores or self.maps, dtype="<f4" if self.scores else "<u2").astype(np.float32)
        stored = torch.from_numpy(stored).reshape(len(self.networks), len(self.names), *self.sizes, -1)[:, self.image]
        if self.scores:
            return (self.scale * stored).softmax(dim=AXES[self.axis])
        return stored / stored.sum(dim=-1, keepdim=True)

    def row(self) -> Tensor:
        """Return the rows that are shown, one a network: (networks, T)."""
        weights = self.weights()  # (networks, L, h, T, T)
        if self.show == "rollout":
            return rollout(list(weights.transpose(0, 1)[: self.layer + 1]))[:, self.token]
        layer = weights[:, self.layer]  # (networks, h, T, T)
        return (layer.mean(dim=1) if self.show == "mean" else layer[:, self.head])[:, self.token]

    @classmethod
    def first(cls, state: dict[str, Any]) -> dict[str, bytes]:
        """Return rows of each network: that of the token in all columns of all layers, then all of the map shown."""
        shown = cls.stored(state)
        weights, heads = shown.weights(), shown.sizes[1]  # (networks, L, h, T, T)
        rolled = [rollout(list(weights.transpose(0, 1)[: n + 1])) for n in range(shown.sizes[0])]
        columns = torch.cat([weights, weights.mean(2, keepdim=True), torch.stack(rolled, 1)[:, :, None]], dim=2)
        column = shown.head if shown.show == "head" else heads + SHOWS.index(shown.show) - 1
        rows = torch.cat([columns[..., shown.token, :].flatten(1, 2), columns[:, shown.layer, column]], dim=1)
        return {"view": rows.numpy().astype("<f4").tobytes()}  # (networks, L (h + 2) + T, T)

    def still(self) -> matplotlib.figure.Figure:
        rows, cols = self.grid
        _, H, W = self.shape
        image = pixels_of(self.pixels, *self.shape)[self.image]
        weights, n = self.weights()[:, self.layer, :, self.token], self.token - self.prefix  # (networks, h, T)
        shown = min(self.sizes[1], 6)
        columns = 1 + shown
        figure, axes = plt.subplots(
            len(self.networks), columns, figsize=(1.5 * columns, 1.7 * len(self.networks)), squeeze=False
        )
        for head in range(shown):
            axes[0, 1 + head].set_title(f"layer {self.layer}, head {head}", fontsize=9)
        for line, heads, name in zip(axes, weights, self.networks, strict=True):
            plots.draw_image(line[0], image)
            if n >= 0:
                corner = (n % cols * W / cols - 0.5, n // cols * H / rows - 0.5)
                line[0].add_patch(
                    plt.Rectangle(corner, W / cols, H / rows, fill=False, linewidth=3, edgecolor=plots.COLORS[1])
                )
            line[0].set_ylabel(name if len(axes) > 1 else f"token {self.token}")
            for head, axis in enumerate(line[1:]):
                grid = heads[head, self.prefix :].reshape(rows, cols)
                full = min(6 / self.sizes[2], 1)  # the still's own: in the page it is FULL of attention_explorer.js
                axis.imshow(grid, cmap="Blues", vmin=0, vmax=full)
            for axis in line:
                axis.set(xticks=[], yticks=[])
        return figure

    @traitlets.validate("image", "token", "layer", "head")
    def _check_number(self, proposal: dict) -> int:
        L, heads, T = self.sizes
        last = {"image": len(self.names) - 1, "token": T - 1, "layer": L - 1, "head": heads - 1}
        return within(proposal, last)

    @traitlets.validate("show", "axis")
    def _check_word(self, proposal: dict) -> str:
        name = proposal["trait"].name
        return choice(name, proposal["value"], {"show": SHOWS, "axis": tuple(AXES)}[name])

    @traitlets.validate("scale")
    def _check_scale(self, proposal: dict) -> float:
        if not 0 <= proposal["value"] < math.inf:
            raise ValueError(f"scale must be 0 or more, got {proposal['value']}: use {self.width**0.5:g}, for example")
        return proposal["value"]


def _networks(models: ViT | Mapping[str, ViT]) -> dict[str, ViT]:
    """Return the networks under their names if they can be shown side by side."""
    models = named_networks(models if isinstance(models, Mapping) else {"network": models})
    if not 1 <= len(models) <= 2:
        raise ValueError(f"models must be one or two, got {len(models)}: use {{'trained': model, 'random': start}}")
    kinds = [
        (m.config.depth, m.config.num_heads, m.num_prefix_tokens, m.patch_embed.grid_size) for m in models.values()
    ]
    if kinds[0] != kinds[-1]:
        raise ValueError(
            f"models must share (depth, num_heads, prefix tokens, grid), got {kinds[0]} and {kinds[1]}: use one config"
        )
    return models


@torch.no_grad()
def _record(model: ViT, images: Tensor, normalize: Callable[[Tensor], Tensor] | None, scores: bool) -> bytes:
    """Run a network on images and return its maps (B, L, h, T, T) as two bytes each, 65535 tops each row, or scores."""
    pixels = images if images.is_floating_point() else images.float() / 255
    device, training, qkv = next(model.parameters()).device, model.training, []
    hooks = [block.attention.qkv.register_forward_hook(lambda *call: qkv.append(call[-1])) for block in model.blocks]
    model.eval()
    try:
        with record_attention(model) as maps:
            model((normalize or torch.Tensor.float)(pixels).to(device))
    finally:
        model.train(training)
        for hook in hooks:
            hook.remove()
    weights = torch.stack([layer.float().cpu() for layer in maps], dim=1)  # (B, L, h, T, T)
    if not weights.isfinite().all():
        raise ValueError("the attention of models is not finite: use weights that hold no NaN or infinity")
    if scores:
        parts = torch.stack(qkv, dim=1).float().cpu().unflatten(-1, (3, model.config.num_heads, -1))
        q, k, _ = parts.permute(3, 0, 1, 4, 2, 5)  # 3 x (B, L, h, T, D/h)
        return (q @ k.mT * k.shape[-1] ** -0.5).numpy().astype("<f4").tobytes()
    return (65535 * weights / weights.amax(dim=-1, keepdim=True)).round().numpy().astype("<u2").tobytes()

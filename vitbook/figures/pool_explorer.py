"""The weight that each pooling gives to every token for the one vector that is read (chapter 07)."""

from collections.abc import Callable, Mapping, Sequence

import matplotlib.figure
import torch
import traitlets
from matplotlib import pyplot as plt
from torch import Tensor

from vitbook.figures._base import Figure, module, named_images, named_networks, pixels_of, within
from vitnb import plots
from vitnb.attention import record_attention
from vitnb.pooling import AttentionPool, ClsToken, MeanPool
from vitnb.vit import ViT

KINDS = {ClsToken: "cls", MeanPool: "mean", AttentionPool: "attn"}


class PoolExplorer(Figure):
    """See which weight each patch has in a network that pools by cls token, by mean, or by attention.

    models maps a name to a ViT with one of vitnb's poolings; they share their
    grid of patches. images are what is shown, (B, C, H, W) or (C, H, W), uint8
    or float in [0, 1]; normalize makes of them what the networks were trained
    on. names has one for each image, classes one for each logit; where all names
    are classes, an answer other than the image's name is marked as wrong.

    The weights of a mean and of attention pooling are exact: they are what the
    tokens are averaged by. For a cls token they are its row in the attention
    of the last block, an approximation. Of several heads the mean is shown.

    `image`, `pool` and `patch` follow the reader's choice and move the figure when
    they are set; all count from 0.

    Raises: TypeError or ValueError if models, images, names or classes are not as above.
    """

    _esm = module("pool_explorer.js")

    pools = traitlets.List(traitlets.Unicode()).tag(sync=True)
    kinds = traitlets.List(traitlets.Unicode()).tag(sync=True)
    heads = traitlets.List(traitlets.Int()).tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    answers = traitlets.List(traitlets.List(traitlets.Unicode())).tag(sync=True)  # of each network for each image
    right = traitlets.List(traitlets.List(traitlets.Bool())).tag(sync=True)  # the same; empty if names are no classes
    grid = traitlets.List(traitlets.Int()).tag(sync=True)
    shape = traitlets.List(traitlets.Int()).tag(sync=True)  # (C, H, W) of an image
    pixels = traitlets.Bytes().tag(sync=True)
    shares = traitlets.Bytes().tag(sync=True)  # (networks, B, 1 + N), float32; first what cls gives to itself

    image = traitlets.Int(0).tag(sync=True)
    pool = traitlets.Int(0).tag(sync=True)
    patch = traitlets.Int(0).tag(sync=True)

    def __init__(
        self,
        models: Mapping[str, ViT],
        images: Tensor,
        names: Sequence[str] | None = None,
        normalize: Callable[[Tensor], Tensor] | None = None,
        classes: Sequence[str] | None = None,
    ):
        models = _networks(models)
        images, names, pixels = named_images(images, names)
        first = next(iter(models.values()))
        K = first.config.num_classes
        classes = [f"class {k}" for k in range(K)] if classes is None else [str(name) for name in classes]
        if len(classes) != K:
            raise ValueError(f"classes has {len(classes)} names for {K} logits: give each logit one")
        read = [_read(model, images, normalize) for model in models.values()]
        shares = torch.stack([row for row, _ in read])  # (networks, B, 1 + N)
        if not shares.isfinite().all():
            raise ValueError("the weights of models are not finite: use weights that hold no NaN or infinity")
        super().__init__(
            pools=list(models),
            kinds=[KINDS[type(model.pool)] for model in models.values()],
            heads=[_heads(model) for model in models.values()],
            names=names,
            answers=[[_answer(one, classes) for one in logits] for _, logits in read],
            right=[_right(logits, names, classes) for _, logits in read] if set(names) <= set(classes) else [],
            grid=list(first.patch_embed.grid_size),
            shape=list(images.shape[1:]),
            pixels=pixels,
            shares=shares.numpy().tobytes(),
            patch=first.patch_embed.num_patches // 2,
        )

    def weights(self) -> Tensor:
        """Return the weight of each patch of the image that is shown: (networks, N)."""
        shares = torch.frombuffer(bytearray(self.shares), dtype=torch.float32)
        return shares.reshape(len(self.pools), len(self.names), -1)[:, self.image, 1:]

    def still(self) -> matplotlib.figure.Figure:
        rows, cols = self.grid
        image = pixels_of(self.pixels, *self.shape)[self.image]
        weights = self.weights()
        figure, axes = plt.subplots(1, 1 + len(weights), figsize=(2.2 * (1 + len(weights)), 2.5))
        plots.draw_image(axes[0], image)
        axes[0].set_title(self.names[self.image], fontsize=10)
        for axis, row, name in zip(axes[1:], weights, self.pools, strict=True):
            axis.imshow(row.reshape(rows, cols), cmap="Blues", vmin=0, vmax=weights.max())
            axis.set_title(name, fontsize=10)
            for n in range(rows * cols if rows * cols <= 49 else 0):
                colour = "white" if row[n] > 0.6 * weights.max() else "black"
                text = f"{100 * row[n]:.0f}"
                axis.text(n % cols, n // cols, text, ha="center", va="center", fontsize=8, color=colour)
        for axis in axes:
            axis.set(xticks=[], yticks=[])
        return figure

    @traitlets.validate("image", "pool", "patch")
    def _check_number(self, proposal: dict) -> int:
        count = {"image": len(self.names), "pool": len(self.pools), "patch": self.grid[0] * self.grid[1]}
        return within(proposal, {name: n - 1 for name, n in count.items()})


def _networks(models: Mapping[str, ViT]) -> dict[str, ViT]:
    """Return the networks under their names if they can be compared."""
    if not isinstance(models, Mapping) or not models:
        raise ValueError(f"models must map names to vitnb.ViTs, got {type(models).__name__}: use {{'cls': model}}")
    models = named_networks(models)
    for name, model in models.items():
        if type(model.pool) not in KINDS:
            raise TypeError(
                f"models[{name!r}] pools with {type(model.pool).__name__}, whose weights are not known here: "
                "use ClsToken, MeanPool or AttentionPool"
            )
    shapes = [(model.patch_embed.grid_size, model.config.num_classes) for model in models.values()]
    for name, found in zip(models, shapes, strict=True):
        if found != shapes[0] or not found[1]:
            raise ValueError(f"models must share (grid, num_classes), got {found} as {name!r}: use {shapes[0]} for all")
    return models


@torch.no_grad()
def _read(model: ViT, images: Tensor, normalize: Callable[[Tensor], Tensor] | None) -> tuple[Tensor, Tensor]:
    """Run a network: the weight of each token, the cls token first (B, 1 + N), and the logits (B, K)."""
    pixels = images if images.is_floating_point() else images.float() / 255
    device, training = next(model.parameters()).device, model.training
    model.eval()
    try:
        with record_attention(model) as maps:
            x = model.forward_features((normalize or torch.Tensor.float)(pixels).to(device))  # (B, T, D)
        logits = model.forward_head(x)  # (B, K)
    finally:
        model.train(training)
    if isinstance(model.pool, ClsToken):
        return maps[-1].mean(dim=1)[:, 0].float().cpu(), logits.cpu()
    weights = _query(model.pool, x) if isinstance(model.pool, AttentionPool) else torch.ones(x.shape[:2]) / x.shape[1]
    return torch.cat([torch.zeros(len(x), 1), weights.float().cpu()], dim=1), logits.cpu()


def _query(pool: AttentionPool, x: Tensor) -> Tensor:
    """Return the weights of attention pooling, which its fused kernel does not show, mean of the heads (B, N)."""
    B, N, D = x.shape
    k = pool.kv(x)[..., :D].reshape(B, N, pool.num_heads, pool.head_dim)  # (B, N, h, D/h)
    q = pool.query.reshape(pool.num_heads, pool.head_dim)  # (h, D/h)
    scores = (k * q).sum(dim=-1) * pool.head_dim**-0.5  # (B, N, h)
    return scores.softmax(dim=1).mean(dim=-1)


def _heads(model: ViT) -> int:
    if isinstance(model.pool, MeanPool):
        return 1
    return model.pool.num_heads if isinstance(model.pool, AttentionPool) else model.config.num_heads


def _right(logits: Tensor, names: Sequence[str], classes: Sequence[str]) -> list[bool]:
    return [classes[best] == name for best, name in zip(logits.argmax(dim=1).tolist(), names, strict=True)]


def _answer(logits: Tensor, classes: Sequence[str]) -> str:
    best, shares = logits.argmax().item(), logits.softmax(dim=-1)
    return f"{classes[best]} ({100 * shares[best]:.0f} %)"

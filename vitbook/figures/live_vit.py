"""A trained Vision Transformer that runs where it is read (overview, chapter 11)."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import matplotlib.figure
import torch
import traitlets
from matplotlib import pyplot as plt
from matplotlib.figure import SubFigure
from torch import Tensor

from vitbook.figures._base import Figure, module, style, within
from vitnb import plots
from vitnb._validate import choice, positive_int
from vitnb.attention import record_attention
from vitnb.data import Dataset
from vitnb.vit import LATER, ViT, ViTConfig, count_parameters

MODES = ("hide", "query", "draw")
OVERLAYS = ("head", "mean", "rollout", "none")
MAX_PARAMETERS = 3_000_000
MAX_TOKENS = 400


class LiveViT(Figure):
    """Run a ViT in the browser: hide, shuffle and draw patches, ablate heads, and see attention and answer change.

    model is any vitnb ViT of up to 3 million parameters and 400 tokens; its
    weights travel as float16. data gives the images to choose from (the
    first of the test images, equally many of each class), their mean and
    std, and the names of the classes; classes names the logits if the network
    was trained on other data than these.

    The traits follow the reader, and move the figure when they are set. All
    count from 0: image (-1: the reader's own), token (the query),
    layer and head, overlay ("head", "mean", "rollout", "none"), hidden (patches),
    removed (hidden patches are no tokens; else their pixels become the mean),
    order (the patch at each place; empty: at home), positions, ablated ([layer,
    head] pairs). logits comes back from the browser; network_input() is the image.
    compact shows one forward pass in place of the heads and tokens: moment says
    how far it has come, 0 the image, 1 its patches, 2 the tokens, 3 after block
    0, ..., depth + 3 the answer; more brings what makes an image of one's own.

    Raises: TypeError or ValueError if the model is not as above or holds a
        number that float16 does not, or if the images or classes do not fit it.
    """

    _esm = module("live_vit/main.js")
    _css = style("live_vit/live_vit.css")
    late = ("weights",)

    config = traitlets.Dict().tag(sync=True)
    layout = traitlets.List().tag(sync=True)  # [name, shape] of each weight, in the order of the bytes
    weights = traitlets.Bytes().tag(sync=True)  # float16
    classes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    images = traitlets.Bytes().tag(sync=True)  # (n, C, H, W)
    labels = traitlets.List(traitlets.Int()).tag(sync=True)
    image_classes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    mean = traitlets.List(traitlets.Float()).tag(sync=True)
    std = traitlets.List(traitlets.Float()).tag(sync=True)
    note = traitlets.Unicode("").tag(sync=True)

    image = traitlets.Int(0).tag(sync=True)
    own = traitlets.Bytes(b"").tag(sync=True, from_json=lambda value, _: bytes(value))  # the browser sends a memoryview
    mode = traitlets.Unicode("hide").tag(sync=True)
    pen = traitlets.List(traitlets.Int()).tag(sync=True)  # the keyboard's: x, y, 1 if it is down
    erase = traitlets.Bool(False).tag(sync=True)
    token = traitlets.Int(0).tag(sync=True)
    stage = traitlets.Int(0).tag(sync=True)
    layer = traitlets.Int(0).tag(sync=True)
    head = traitlets.Int(0).tag(sync=True)
    overlay = traitlets.Unicode("none").tag(sync=True)
    hidden = traitlets.List(traitlets.Int()).tag(sync=True)
    removed = traitlets.Bool(False).tag(sync=True)
    order = traitlets.List(traitlets.Int()).tag(sync=True)
    positions = traitlets.Bool(True).tag(sync=True)
    ablated = traitlets.List(traitlets.List(traitlets.Int())).tag(sync=True)
    logits = traitlets.List(traitlets.Float()).tag(sync=True)
    compact = traitlets.Bool(False).tag(sync=True)  # as it is when the figure is made
    moment = traitlets.Float().tag(sync=True)
    more = traitlets.Bool(False).tag(sync=True)

    def __init__(
        self,
        model: ViT,
        data: Dataset,
        images: int = 30,
        classes: Sequence[str] | None = None,
        note: str = "",
        compact: bool = False,
        image: int = 0,
    ):
        config = _suitable(model).config
        if not isinstance(data, Dataset):
            raise TypeError(f"data must be a vitnb.data.Dataset, got {type(data).__name__}: use data.load()")
        classes = [str(name) for name in (data.classes if classes is None else classes)]
        if len(classes) != config.num_classes:
            raise ValueError(f"classes has {len(classes)} names for {config.num_classes} logits: give each logit one")
        images, labels = _choose(data, positive_int("images", images), model)
        layout, weights = _half(model)
        # What the traits may be; and a model of our own, for the still image.
        self._model, self._images = copy.deepcopy(model).float().cpu().eval(), len(images)
        super().__init__(
            config=config.to_dict(),
            layout=layout,
            weights=weights,
            classes=classes,
            images=images.numpy().tobytes(),
            labels=labels.tolist(),
            image_classes=[str(name) for name in data.classes],
            mean=list(data.mean),
            std=list(data.std),
            note=note,
            compact=compact,
            image=image,
            stage=config.depth,
            layer=config.depth - 1,
            moment=config.depth + 3,
        )

    @classmethod
    @torch.no_grad()
    def first(cls, state: dict[str, Any]) -> dict[str, bytes]:
        """Return one forward pass: the logits, of each block the mean of its heads, the tokens of each moment."""
        if not state["compact"]:
            return {}  # shows every head
        live = cls.stored(state, _model=_network(state), _images=len(state["labels"]))
        with record_attention(live._model) as maps:
            steps = live._model.forward_intermediates(live.network_input())
        L = live._model.config.depth
        tokens = [steps["embedded"], *(steps[f"block_{n + 1}"] for n in range(L))]
        numbers = [steps["logits"], *(weights.mean(1) for weights in maps[:L]), *tokens]
        return {"view": torch.cat([part.flatten() for part in numbers]).numpy().astype("<f4").tobytes()}

    def network_input(self) -> Tensor:
        """Return the image as the network gets it, normalised, before anything is hidden: (1, C, H, W)."""
        embed = self._model.patch_embed
        shape = embed.in_chans, *embed.img_size
        start = self.image * math.prod(shape)
        flat = self.own if self.image < 0 else self.images[start : start + math.prod(shape)]
        pixels = torch.frombuffer(bytearray(flat), dtype=torch.uint8).reshape(1, *shape).float() / 255  # (1, C, H, W)
        mean, std = (torch.tensor(v).reshape(1, -1, 1, 1) for v in (self.mean, self.std))
        return (pixels - mean) / std

    @torch.no_grad()
    def still(self) -> matplotlib.figure.Figure:
        model, images = self._model, self.network_input()
        with record_attention(model) as maps:
            steps = model.forward_intermediates(images)
        mean, std = (torch.tensor(v).reshape(-1, 1, 1) for v in (self.mean, self.std))
        pixels = (images[0] * std + mean).clamp(0, 1)  # (C, H, W)

        figure = plt.figure(figsize=(9, 3.2))
        left, middle, right = figure.subfigures(1, 3, width_ratios=[1, 1.1, 1.3])
        axis = left.subplots()
        plots.patch_grid(axis, pixels if len(pixels) == 3 else pixels[:1], model.patch_embed.patch_size, numbers=False)
        axis.set_title("the image")
        if self.compact:
            _draw_tokens(middle, steps[f"block_{model.config.depth}"][0], maps[model.config.depth - 1][0].mean(0)[0])
        else:
            _draw_maps(middle, torch.cat(maps), model)
        axis = right.subplots()
        shares = steps["logits"][0].softmax(dim=-1)  # (K,)
        best = shares.argsort(descending=True, stable=True)[:10].sort().values
        axis.barh(range(len(best)), (100 * shares[best]).tolist(), color=plots.COLORS[0])
        axis.set_yticks(range(len(best)), [self.classes[k] for k in best], fontsize=8)
        axis.set(xlim=(0, 100), xlabel="probability (%)")
        axis.invert_yaxis()
        return figure

    @traitlets.validate("image", "token", "stage", "layer", "head", "moment")
    def _check_number(self, proposal: dict) -> float:
        config = self._model.config
        last = {
            "image": self._images - 1,
            "token": _tokens(self._model) - 1,
            "stage": config.depth,
            "layer": config.depth - (config.global_pool != "attn"),  # attention pooling is one layer more
            "head": config.num_heads - 1,
            "moment": config.depth + 3,
        }
        return within(proposal, last, -1 if proposal["trait"].name == "image" and self.own else 0)

    @traitlets.validate("mode", "overlay")
    def _check_word(self, proposal: dict) -> str:
        name = proposal["trait"].name
        return choice(name, proposal["value"], {"mode": MODES, "overlay": OVERLAYS}[name])

    @traitlets.validate("hidden", "order")
    def _check_patches(self, proposal: dict) -> list[int]:
        name, value, N = proposal["trait"].name, proposal["value"], self._model.config.num_patches
        if not all(0 <= patch < N for patch in value):
            raise ValueError(f"{name} must hold patches from 0 to {N - 1}, got {value}: use [0, {N - 1}], for example")
        if name == "order" and value and sorted(value) != list(range(N)):
            raise ValueError(f"order must hold each of {N} patches once, got {value}: use torch.randperm({N}).tolist()")
        return value

    @traitlets.validate("ablated")
    def _check_ablated(self, proposal: dict) -> list[list[int]]:
        value, depth, heads = proposal["value"], self._model.config.depth, self._model.config.num_heads
        for pair in value:
            if len(pair) != 2 or not (0 <= pair[0] < depth and 0 <= pair[1] < heads):
                raise ValueError(
                    f"ablated must hold [layer, head] pairs up to [{depth - 1}, {heads - 1}], got {pair}: use [[0, 0]]"
                )
        return value

    @traitlets.validate("own")
    def _check_own(self, proposal: dict) -> bytes:
        embed, value = self._model.patch_embed, proposal["value"]
        expected = embed.in_chans * math.prod(embed.img_size)
        if value and len(value) != expected:
            raise ValueError(f"own must be one image of {expected} bytes, got {len(value)}: use bytes({expected})")
        return value


def _draw_maps(figure: SubFigure, heads: Tensor, model: ViT) -> None:
    """Draw what the first token attends to, in each head of each block: heads (L, h, T, T)."""
    first, grid = model.num_prefix_tokens, model.patch_embed.grid_size
    for axis, weights in zip(figure.subplots(*heads.shape[:2], squeeze=False).flat, heads.flatten(0, 1), strict=True):
        axis.imshow(weights[0, first:].reshape(grid).numpy(), cmap="Blues")
        axis.set(xticks=[], yticks=[])
    figure.suptitle("attention: block × head")


def _draw_tokens(figure: SubFigure, tokens: Tensor, row: Tensor) -> None:
    """Draw tokens (T, D) as columns, and above them as arcs what the first one took from each, row (T,)."""
    T, D = tokens.shape
    above, below = figure.subplots(2, 1, height_ratios=[1, 1.6], sharex=True)
    turn = torch.linspace(0, math.pi, 40)
    for token, share in enumerate((row / row.max()).tolist()):
        radius = token / 2 or 0.3
        style = dict(color=plots.COLORS[1], lw=0.5 + 3 * share, alpha=0.12 + 0.88 * share)
        above.plot(token / 2 + radius * turn.cos(), radius * turn.sin(), **style)
    above.set_axis_off()
    below.imshow(tokens.T / (2.5 * tokens.square().mean().sqrt()), cmap="PuOr", vmin=-1, vmax=1, aspect="auto")
    below.set(xticks=[], yticks=[], xlabel=f"{T} tokens of {D} numbers")
    figure.suptitle("attention in the last block")


def _tokens(model: ViT) -> int:
    return model.num_prefix_tokens + model.patch_embed.num_patches


def _suitable(model: Any) -> ViT:
    """Return the model if a browser can run it."""
    if not isinstance(model, ViT):
        raise TypeError(f"model must be a vitnb.ViT, got {type(model).__name__}: use results.trained()")
    if not model.config.num_classes:
        raise ValueError("model must have a head, got num_classes=0: use ViTConfig(num_classes=10)")
    if (parameters := count_parameters(model)) > MAX_PARAMETERS:
        raise ValueError(
            f"model must have at most {MAX_PARAMETERS:,} parameters to run in a page, got {parameters:,}: "
            "use a smaller embed_dim or depth"
        )
    if (tokens := _tokens(model)) > MAX_TOKENS:
        raise ValueError(f"model must have at most {MAX_TOKENS} tokens, got {tokens}: use a larger patch_size")
    if model.config.stem != "patch":
        raise ValueError(f"model must cut plain patches to run in a page, got stem={model.config.stem!r}: use 'patch'")
    if later := [name for name in LATER if name in model.config.to_dict()]:
        raise ValueError(f"model must be plain to run in a page, got {later[0]}: use a config without it")
    if model.patch_embed.in_chans not in (1, 3):
        raise ValueError(f"model must read 1 or 3 channels, got in_chans={model.config.in_chans}: use 1 or 3")
    return model


def _half(model: ViT) -> tuple[list, bytes]:
    """Return the names and shapes of the weights, and their bytes as float16, little end first."""
    weights = dict(model.state_dict())
    if model.config.pos_embed == "sincos":
        weights["positions.table"] = model.positions.table  # fixed, so no file keeps it
    parts = []
    for name, weight in weights.items():
        half = weight.detach().cpu().half()
        if not half.isfinite().all():
            raise ValueError(f"model holds a number in {name} that is NaN or beyond 65,504 (float16): train it again")
        parts.append(half.numpy().astype("<f2").tobytes())
    return [[name, list(weight.shape)] for name, weight in weights.items()], b"".join(parts)


def _network(state: dict[str, Any]) -> ViT:
    """Return the network of a stored figure: what _half made of it."""
    numbers = torch.frombuffer(bytearray(state["weights"]), dtype=torch.float16).float()
    parts = numbers.split([math.prod(shape) for _, shape in state["layout"]])
    weights = {name: part.reshape(shape) for (name, shape), part in zip(state["layout"], parts, strict=True)}
    model = ViT(ViTConfig(**state["config"])).eval()
    if state["config"]["pos_embed"] == "sincos":
        model.positions.table = weights.pop("positions.table")
    model.load_state_dict(weights)
    return model


def _choose(data: Dataset, n: int, model: ViT) -> tuple[Tensor, Tensor]:
    """Return the first n test images, equally many of each class where the data have them, as uint8."""
    embed = model.patch_embed
    shape = embed.in_chans, *embed.img_size
    if tuple(data.test_images.shape[1:]) != shape:
        raise ValueError(
            f"data has images of {tuple(data.test_images.shape[1:])}, the model reads {shape}: use data of that shape"
        )
    labels = data.test_labels.cpu()
    turn = torch.zeros_like(labels)  # which of its class an image is: 0, 1, ...
    for label in labels.unique():
        turn[labels == label] = torch.arange((labels == label).sum())
    chosen = (turn * len(data.classes) + labels).argsort()[:n]  # the first of each class, then the second of each
    images = data.test_images.cpu()[chosen]
    if images.is_floating_point():
        if not ((images >= 0) & (images <= 1)).all():  # NaN is not
            raise ValueError("data has test_images outside [0, 1]: use pixels from 0 to 1, or uint8")
        images = (255 * images).round().byte()
    return images.contiguous(), labels[chosen]

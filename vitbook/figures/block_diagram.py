"""Where the norms of a block stand, and what that does to the signal, the gradient and the training (chapter 05)."""

from functools import cache
from typing import Any

import matplotlib.figure
import torch
import traitlets
from matplotlib import pyplot as plt
from torch import Tensor, nn
from torch.nn import functional as F

from vitbook import results
from vitbook.faults.wire import NormaliseThenAdd
from vitbook.figures._base import Figure, check_whole, module, style, within
from vitnb import plots
from vitnb.blocks import PreNormBlock
from vitnb.vit import ViT, ViTConfig


class BlockDiagram(Figure):
    """Switch the arrows of a block; see signal and gradient run through a deep stack, and which stack trains.

    The curves are computed when the figure is made, in the model of the
    stored experiment `norms`, with fresh weights (Xavier), on random
    images: the rms of the stream after each block, and the norm of the
    gradient of all parameters of each block, mean and range of the seeds.
    What trains is read from `norms`.
    wiring, depth, rate and warmup follow the reader's choice, as places in
    the lists wirings, depths, rates and warmups.

    Raises: TypeError or ValueError if a choice is not in its list.
    """

    _esm = module("block_diagram.js")
    _css = style("block_diagram.css")

    wirings = traitlets.List(traitlets.Unicode()).tag(sync=True)
    depths = traitlets.List(traitlets.Int()).tag(sync=True)
    rates = traitlets.List(traitlets.Float()).tag(sync=True)
    warmups = traitlets.List(traitlets.Int()).tag(sync=True)
    steps = traitlets.Int(0).tag(sync=True)  # of each training
    tested = traitlets.Int(0).tag(sync=True)  # images behind an accuracy
    seeds = traitlets.Int(3).tag(sync=True)  # of the curves
    # float32, wiring by wiring, depth by depth: lowest, mean and highest of the seeds, then the blocks
    rms = traitlets.Bytes().tag(sync=True)
    gradient = traitlets.Bytes().tag(sync=True)
    # {wiring, depth, warmup, lr, accuracy}: what was trained, one accuracy a seed
    trained = traitlets.List(traitlets.Dict()).tag(sync=True)
    wiring = traitlets.Int(0).tag(sync=True)
    depth = traitlets.Int(0).tag(sync=True)
    rate = traitlets.Int(0).tag(sync=True)
    warmup = traitlets.Int(0).tag(sync=True)

    def __init__(self, wiring: int = 0, depth: int = 0, rate: int = 0, warmup: int = 0):
        check_whole(wiring=wiring, depth=depth, rate=rate, warmup=warmup)
        stored = results.result("norms")
        config = stored["config"]
        lists = {"depths": config["depths"], "rates": config["learning_rates"], "warmups": config["warmup_steps"]}
        curves = measure(ViTConfig(**config["model"]), tuple(config["depths"]), seeds=3)
        super().__init__(
            wirings=list(WIRINGS),
            **lists,
            steps=config["steps"],
            tested=config["test_images"],
            rms=_floats(curves["rms"]),
            gradient=_floats(curves["gradient"]),
            trained=_trained(stored["result"]["arms"]),
        )
        self.wiring, self.depth, self.rate, self.warmup = wiring, depth, rate, warmup

    def still(self) -> matplotlib.figure.Figure:
        figure, axes = plt.subplots(1, 3, figsize=(10, 3.2))
        L = self.depths[self.depth]
        for axis, name in zip(axes, TITLES, strict=False):
            for w, wiring in enumerate(self.wirings):
                low, mean, high = self.curve(name, w, self.depth)
                axis.plot(range(1, L + 1), mean, color=plots.COLORS[w], ls=STYLES[w], label=wiring)
                axis.fill_between(range(1, L + 1), low, high, color=plots.COLORS[w], alpha=0.2, lw=0)
            axis.set(xlabel="block", yscale="log", title=TITLES[name])
            limits = axis.get_ylim()
            ticks = [tick for tick in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10) if limits[0] <= tick <= limits[1]]
            axis.set_yticks(ticks, ticks)
            axis.minorticks_off()
        lr, warmup = self.rates[self.rate], self.warmups[self.warmup]
        for w, wiring in enumerate(self.wirings):
            runs = [a for a in self.trained if (a["wiring"], a["lr"], a["warmup"]) == (wiring, lr, warmup)]
            for run in runs:
                axes[2].plot([run["depth"]] * len(run["accuracy"]), run["accuracy"], ".", color=plots.COLORS[w])
            means = [sum(run["accuracy"]) / len(run["accuracy"]) for run in runs]
            axes[2].plot([run["depth"] for run in runs], means, color=plots.COLORS[w], ls=STYLES[w], marker="_")
        axes[2].set(
            xlabel=f"blocks (learning rate {lr:g}, warm-up {warmup})",
            xticks=self.depths,
            ylim=(0, 1),
            title="test accuracy",
        )
        figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=9)
        return figure

    def curve(self, name: str, wiring: int, depth: int) -> Tensor:
        """Lowest, mean and highest value after each block, (3, blocks): name is "rms" or "gradient"."""
        numbers = torch.frombuffer(bytearray(getattr(self, name)), dtype=torch.float32)
        numbers = numbers.reshape(len(self.wirings), -1)[wiring]
        return numbers.split([3 * L for L in self.depths])[depth].reshape(3, -1)

    @traitlets.validate("wiring", "depth", "rate", "warmup")
    def _check(self, proposal: dict[str, Any]) -> int:
        name = proposal["trait"].name
        return within(proposal, {name: len(getattr(self, f"{name}s")) - 1})


class SandwichBlock(PreNormBlock):
    """A norm before and a norm after each branch, none on the stream.

    Source: Ding et al. 2021 (CogView), the Sandwich-LN.
    """

    def forward(self, x: Tensor) -> Tensor:
        x = x + F.layer_norm(self.attention(self.norm1(x)), x.shape[-1:])
        return x + F.layer_norm(self.mlp(self.norm2(x)), x.shape[-1:])  # (B, T, D)


WIRINGS = {"pre-norm": None, "post-norm": None, "normalise, then add": NormaliseThenAdd, "sandwich": SandwichBlock}
TITLES = {"rms": "size of the stream (rms)", "gradient": "gradient of each block"}
STYLES = ("-", "--", ":", "-.")


@cache
def measure(config: ViTConfig, depths: tuple[int, ...], seeds: int) -> dict[str, Tensor]:
    """Rms of the stream after each block, and gradient norm of each block, before training.

    Returns both as one row a wiring; in it, for each depth, the lowest, the
    mean and the highest of the seeds, (3, blocks) flattened.
    """
    found = {"rms": [], "gradient": []}
    for wiring in WIRINGS:
        runs = [[_start(config, wiring, depth, seed) for seed in range(seeds)] for depth in depths]
        for at, name in enumerate(found):
            each = [torch.tensor([run[at] for run in group]) for group in runs]  # (seeds, blocks) a depth
            parts = [torch.stack([x.amin(0), x.mean(0), x.amax(0)]).flatten() for x in each]
            found[name].append(torch.cat(parts))
    return {name: torch.stack(rows) for name, rows in found.items()}


def stack(config: ViTConfig, wiring: str, depth: int) -> ViT:
    """A fresh model whose blocks are wired in one of the four ways."""
    fields = config.to_dict() | {"depth": depth, "norm": "post" if wiring == "post-norm" else "pre"}
    model = ViT(ViTConfig(**fields))
    for block in model.blocks:
        block.__class__ = WIRINGS[wiring] or block.__class__
    return model


def _start(config: ViTConfig, wiring: str, depth: int, seed: int) -> tuple[list[float], list[float]]:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = stack(config, wiring, depth)
        images = torch.randn(16, config.in_chans, config.img_size, config.img_size)  # (B, C, H, W)
        labels = torch.randint(config.num_classes, (16,))
    sizes = []
    for block in model.blocks:
        block.register_forward_hook(lambda _, __, x: sizes.append(x.detach().square().mean().sqrt().item()))
    F.cross_entropy(model(images), labels).backward()
    return sizes, [_length(block) for block in model.blocks]


def _length(block: nn.Module) -> float:
    """The length of the gradient of all parameters of a block."""
    return torch.stack([p.grad.norm() for p in block.parameters() if p.grad is not None]).norm().item()


def _trained(arms: list[dict]) -> list[dict]:
    """The stored trainings of a wiring that the figure draws."""
    names = {("pre", ""): "pre-norm", ("post", ""): "post-norm", ("pre", "normalise then add"): "normalise, then add"}
    named = [(arm, names.get((arm["norm"], arm["change"]))) for arm in arms]
    keys = ("depth", "warmup", "lr", "accuracy")
    return [{"wiring": name} | {key: arm[key] for key in keys} for arm, name in named if name]


def _floats(values: Tensor) -> bytes:
    """The bytes of float32 numbers, four digits of each, as kit/figure.js reads them."""
    return torch.tensor([float(f"{v:.4g}") for v in values.flatten().tolist()]).numpy().tobytes()

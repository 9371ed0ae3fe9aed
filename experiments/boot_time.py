"""One boot through the small ViT takes a time that is mostly fixed; enlarged, most of it goes between the tokens.

Chapter 13: the seconds of one forward pass on one processor core, by part of
the model and by the side of the image, and those of a boot in a batch. Seconds
are those of the processor, and sizes take turns, round by round, so what else
the machine does meets all alike.
"""

import random
import time
from collections import defaultdict
from dataclasses import replace
from statistics import median, quantiles

import torch
from torch import Tensor, nn

from experiments._data import resized
from experiments._experiment import Experiment
from experiments._models import SMALL
from vitbook.images import boot
from vitnb import ViT

PARTS = ["patch embedding", "norms", "attention: matrices", "attention: between tokens", "MLP", "rest"]
THIS = Experiment(
    seeds=[0],
    purpose="timing",
    data=None,
    model=SMALL,
    sides=[28, 56, 112, 224, 448],
    batches=[1, 4, 16, 64, 256],
    rounds=35,
    threads=1,
)


def run() -> dict:
    torch.manual_seed(THIS.seeds[0])
    chance = random.Random(THIS.seeds[0])
    models = {side: ViT(replace(THIS.model, img_size=side)).eval() for side in THIS.sides}
    clocks = {side: Clock(model) for side, model in models.items()}
    boots = {side: resized(boot()[None], side) / 255 for side in THIS.sides}
    by_part = {side: {part: [] for part in PARTS} for side in THIS.sides}
    whole = {side: [] for side in THIS.sides}
    batched = {batch: [] for batch in THIS.batches}
    for number in range(THIS.rounds + 1):  # the first one warms up
        for side in chance.sample(THIS.sides, len(THIS.sides)):
            seconds = timed(models[side], boots[side])
            parts = clocks[side].parts(boots[side])
            if number:
                whole[side].append(seconds)
                for part in PARTS:
                    by_part[side][part].append(parts[part])
        for batch in chance.sample(THIS.batches, len(THIS.batches)):
            seconds = timed(models[28], boots[28].repeat(batch, 1, 1, 1)) / batch
            if number:
                batched[batch].append(seconds)
    return {
        "sides": [
            {
                "side": side,
                "tokens": models[side].config.num_patches + 1,
                **summary(whole[side]),
                "parts": {part: summary(runs) for part, runs in by_part[side].items()},
            }
            for side in THIS.sides
        ],
        "batches": [{"batch": batch, **summary(batched[batch])} for batch in THIS.batches],
    }


def summary(runs: list[float]) -> dict:
    low, _, high = quantiles(runs, n=4)
    return {"seconds": float(f"{median(runs):.4g}"), "quartiles": [float(f"{low:.4g}"), float(f"{high:.4g}")]}


@torch.no_grad()
def timed(model: nn.Module, images: Tensor) -> float:
    """Seconds of one forward pass, after another one: what comes first in a turn finds the caches cold."""
    model(images)
    start = time.process_time()
    model(images)
    return time.process_time() - start


class Clock:
    """The seconds of each part of a model, by hooks that look at the clock before and after a layer."""

    def __init__(self, model: ViT):
        self.model, self.on = model, False
        self.seconds: dict[str, float] = defaultdict(float)
        self.started: dict[nn.Module, float] = {}
        for name, layer in model.named_modules():
            part = {"patch_embed": "patch embedding", "attention": "attention", "mlp": "MLP", "qkv": "qkv"}.get(
                name.split(".")[-1], "norms" if isinstance(layer, nn.LayerNorm) else ""
            )
            if name.endswith("attention.proj"):
                part = "proj"
            if part:
                layer.register_forward_pre_hook(lambda layer, given: self.start(layer))
                layer.register_forward_hook(lambda layer, given, result, part=part: self.stop(layer, part))

    def start(self, layer: nn.Module) -> None:
        if self.on:
            self.started[layer] = time.process_time()

    def stop(self, layer: nn.Module, part: str) -> None:
        if self.on:
            self.seconds[part] += time.process_time() - self.started[layer]

    def parts(self, images: Tensor) -> dict[str, float]:
        """Run the model once: seconds of each of PARTS."""
        self.seconds.clear()
        self.on = True
        start = time.process_time()
        with torch.no_grad():
            self.model(images)
        total = time.process_time() - start
        self.on = False
        s = self.seconds
        found = {"patch embedding": s["patch embedding"], "norms": s["norms"], "MLP": s["MLP"]}
        found["attention: matrices"] = s["qkv"] + s["proj"]
        found["attention: between tokens"] = s["attention"] - found["attention: matrices"]
        return found | {"rest": total - sum(found.values())}

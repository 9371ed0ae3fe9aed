"""With ten labels a class, a pretrained ViT is fine-tuned whole, by LoRA, and, as a control, trained from scratch.

Chapter 15: DINOv2's ViT-S/14 on clothes enlarged to 56 x 56 pixels, five draws
of a hundred labelled images. Each way tries three learning rates below its
head; each draw is judged by a fifth of the validation images and, for the
report, by a fifth of the test images.
"""

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from experiments._data import clothes
from experiments._experiment import Experiment
from experiments._pretrained import MEAN, STD
from vitnb import ViT, weights
from vitnb.data import Dataset
from vitnb.lora import add_lora
from vitnb.training import Recipe, fit

SIDE = 56  # pixels: 4 x 4 patches
THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="choice",
    reported_on="test",
    images={"train": 100, "validation": 150, "test": 600},
    rates={"from scratch": [1e-4, 1e-3, 1e-2], "LoRA": [1e-4, 1e-3, 1e-2], "all weights": [1e-5, 1e-4, 1e-3]},
    head_rate=1e-3,
    recipe=Recipe(epochs=3, batch_size=16, shift=0),
)


def start(way: str, seed: int) -> ViT:
    torch.manual_seed(seed)
    if way == "from scratch":
        return ViT(replace(weights.DINOV2, img_size=SIDE, num_classes=10))
    model = weights.dinov2("package")
    if model is None:
        raise RuntimeError("this experiment needs the weights of requirements-pretrained.txt")
    model = model.resized(SIDE).with_head(10)
    return add_lora(model) if way == "LoRA" else model


def enlarged(images: Tensor) -> Tensor:
    """Gray images (B, 1, 28, 28) of bytes, large and in three equal channels, from 0 to 1."""
    return F.interpolate(images / 255, (SIDE, SIDE), mode="bilinear").expand(-1, 3, -1, -1).contiguous()


def draws() -> list[tuple[Dataset, dict[str, tuple[Tensor, Tensor]]]]:
    """For each seed, its labelled images, and the validation and test images that judge it."""
    n, data = THIS.images, clothes()
    held = data.hold_out(n["validation"])
    judges = {
        "validation": (held.test_images, held.test_labels),
        "test": (data.test_images[: n["test"]], data.test_labels[: n["test"]]),
    }
    found = []
    for number, seed in enumerate(THIS.seeds):
        few = held.subset(n["train"], seed)
        train = replace(
            few,
            train_images=enlarged(few.train_images),
            test_images=torch.empty(0, 3, SIDE, SIDE),  # judged below, once trained
            test_labels=few.test_labels[:0],
            mean=MEAN,
            std=STD,
        )
        fifths = {part: (x.chunk(5)[number], y.chunk(5)[number]) for part, (x, y) in judges.items()}
        found.append((train, fifths))
    return found


@torch.no_grad()
def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
    answers = model.eval()((enlarged(images) - mean) / std).argmax(1)
    return round((answers == labels).float().mean().item(), 4)


def run() -> dict:
    result: dict = {}
    for way, rates in THIS.rates.items():
        result[way] = {rate: {"validation_accuracy": [], "test_accuracy": []} for rate in rates}
        for seed, (train, judges) in zip(THIS.seeds, draws(), strict=True):
            for rate, found in result[way].items():
                model = start(way, seed)
                settings = {"lr": rate, "lr_by_part": {"head": THIS.head_rate}, "seed": seed}
                fit(model, train, replace(THIS.recipe, **settings))
                for part, judge in judges.items():
                    found[f"{part}_accuracy"].append(accuracy(model, *judge))
                print(way, seed, rate, found, flush=True)
    return {"ways": result}

"""What the experiments with DINOv2's weights share: small colour images, ways to fine-tune, jobs that are kept."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache

import torch
from torch import Tensor, nn

from experiments._data import clothes, resized, unwatched, validated
from experiments._trials import checkpoint, plain_products
from vitnb import ViT, weights
from vitnb._files import replacing
from vitnb.data import Dataset
from vitnb.evaluation import Evaluation, evaluate
from vitnb.lora import add_lora
from vitnb.training import History, Recipe, Training, fit

SIDE = 56  # pixels: 16 patches
MOST = 200  # labelled images of a class
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's pixels, as DINOv2 was trained
RECIPE = Recipe(epochs=1, batch_size=16, warmup=0.1, shift=0)


@dataclass(frozen=True)
class Way:
    """How a network is fine-tuned: from which weights, by LoRA or whole, at which learning rates."""

    lr: float
    head: float | None = 1e-3  # the learning rate of the new head; None: the same
    lora: bool = False
    weights: str = "pretrained"  # or "random"


@cache
def start(kind: str, seed: int = 0) -> ViT:
    """The network before it is fine-tuned: "pretrained", or "random", of the same sizes."""
    if kind == "random":
        torch.manual_seed(seed)
        return ViT(weights.DINOV2).resized(SIDE)
    model = weights.dinov2("package")
    if model is None:
        raise RuntimeError("this experiment needs the weights of requirements-pretrained.txt")
    return model.resized(SIDE)


def coloured(images: Tensor) -> Tensor:
    """Gray images of bytes as DINOv2 takes them: larger, with three channels that are equal."""
    return resized(images, SIDE).expand(-1, 3, -1, -1).contiguous()


@cache
def held_out() -> Dataset:
    return validated()


def drawn(labels: int, seed: int) -> Dataset:
    """A number of labelled images of each class, of those that the seed draws, in colour; none to judge by."""
    data, classes = held_out(), len(held_out().classes)
    data = unwatched(data.subset(MOST * classes, seed).subset(labels * classes, seed))
    images, none = coloured(data.train_images), data.test_images.expand(-1, 3, -1, -1)
    return replace(data, train_images=images, test_images=none, mean=MEAN, std=STD)


def judges(kind: str, count: int) -> tuple[Tensor, Tensor]:
    """The first validation images or test images, gray and of bytes, and their labels."""
    data = held_out() if kind == "validation" else clothes()
    return data.test_images[:count], data.test_labels[:count]


def normalized(images: Tensor) -> Tensor:
    """Colour images of bytes as the network takes them."""
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, STD))
    return (images / 255 - mean) / std  # (B, 3, H, W)


def judged(model: nn.Module, images: Tensor, labels: Tensor) -> Evaluation:
    """What a model says of gray images of bytes."""
    return evaluate(model, normalized(coloured(images)), labels, batch_size=50)


def fine_tune(
    way: Way, data: Dataset, steps: int, seed: int, callbacks: Sequence[Callable[[Training], None]] = ()
) -> tuple[nn.Module, History]:
    """Give the network a new head and train both, or products of low rank and the head, for a number of steps."""
    torch.manual_seed(seed)
    model: nn.Module = start(way.weights, seed).with_head(len(data.classes))
    model = add_lora(model) if way.lora else model
    recipe = replace(
        RECIPE,
        lr=way.lr,
        lr_by_part=None if way.head is None else {"head": way.head},
        epochs=steps / (len(data.train_labels) // RECIPE.batch_size),
        seed=seed,
    )
    return model, fit(model, data, recipe, callbacks)


def kept_job(job: tuple[str, Callable[..., dict], tuple]) -> dict:
    """What measure(*args) finds; a job that was done before is not done again."""
    name, measure, args = job
    path = checkpoint(name)
    if not path.exists():
        torch.set_num_threads(1)
        with plain_products():
            found = measure(*args)
        print(f"{name}: {found.get('shown', '')}", flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            torch.save(found, file)
    return torch.load(path, weights_only=True)

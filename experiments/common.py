"""What the experiments share: the book's small models, how they are trained, clocked and summed up."""

import math
import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, median, stdev
from zipfile import ZIP_DEFLATED, ZipFile

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from experiments import RESULTS, ROOT
from vitnb import ViT, ViTConfig
from vitnb._files import replacing
from vitnb.data import Dataset, load
from vitnb.evaluation import evaluate, final_test, looks
from vitnb.progress import ProgressBar
from vitnb.training import History, Recipe, Training, fit
from vitnb.vit import count_parameters
from vitnb.weights import save

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"

# ---- Models and recipes

# The small model of chapter 09, and the best that came of it.
SMALL = ViTConfig(patch_size=7, embed_dim=64, depth=4, num_heads=4, mlp_ratio=4.0, pos_std=1.0)
BEST = replace(SMALL, stem="conv", global_pool="mean")
FAST, FAST_STEM = replace(BEST, depth=3), (32, 64, 64)  # its convolutions have so many channels: with_stem
FIVE_MINUTES = Recipe(epochs=10, optimizer="muon")
# For a whole hour: wider tokens, and one convolution more, which does not halve its image.
WIDER, WIDER_STEM, WIDER_STRIDES = replace(FAST, embed_dim=80), (32, 64, 64, 80), (2, 2, 1, 2)
LONGER = replace(FIVE_MINUTES, epochs=40, erase=0.25)
SHORT, SHORT_PICTURES = Recipe(epochs=6, batch_size=64), 6_000  # to compare recipes by

# Zhang et al. 2023, section 11.8: images of 96 pixels, two wide blocks, plain SGD.
TEXTBOOK = ViTConfig(
    96, 16, embed_dim=512, depth=2, num_heads=8, mlp_ratio=4.0, dropout=0.1, qkv_bias=False, pos_std=1.0
)
TEXTBOOK_RECIPE = Recipe(
    epochs=1,
    batch_size=128,
    lr=0.1,
    betas=(0.0, 0.99),
    weight_decay=0.0,
    warmup=0.0,
    schedule="constant",
    optimizer="sgd",
    clip=None,
    flip=False,
    shift=0,
)

# Chapter 02: a small model with four kinds of positions.
PLACED = ViTConfig(patch_size=7, embed_dim=48, depth=3, num_heads=4, mlp_ratio=4.0)
PLACED_RECIPE = Recipe(epochs=5)
PLACES = {
    "none": {"pos_embed": "none"},
    "learned, std 0.02": {"pos_embed": "learned", "pos_std": 0.02},
    "learned, std 1": {"pos_embed": "learned", "pos_std": 1.0},
    "sin-cos": {"pos_embed": "sincos"},
}

# Chapter 06: stacks of any depth, trained for 150 steps.
STACK = ViTConfig(patch_size=14, embed_dim=32, num_heads=2, mlp_ratio=2.0, pos_std=1.0, global_pool="mean")
STACK_RECIPE = Recipe(epochs=1, batch_size=32, schedule="constant")
STACK_STEPS = 150
GAINS = {"layer scale": 1e-4, "layer scale from 1": 1.0}  # the initial gains


# Chapters 00 and 12: how the page's small ViT learns the page's digits.
PAGE_RECIPE = Recipe(epochs=10, batch_size=32, flip=False, shift=0)

# What is timed: images, then the Transformer; the batch of a step.
SIZES = {
    "28/4 64x6": dict(img_size=28, patch_size=4, in_chans=1, embed_dim=64, depth=6, num_heads=4, batch=128),
    "28/4 128x6": dict(img_size=28, patch_size=4, in_chans=1, embed_dim=128, depth=6, num_heads=4, batch=128),
    "96/16 512x2": dict(img_size=96, patch_size=16, in_chans=1, embed_dim=512, depth=2, num_heads=8, batch=64),
    "224/16 768x12": dict(img_size=224, patch_size=16, in_chans=3, embed_dim=768, depth=12, num_heads=12, batch=4),
}


class CNN(nn.Module):
    """Convolutions of 3 x 3, each with BatchNorm and ReLU, two of which halve the image; then the mean and a head."""

    def __init__(self, widths=(32, 64, 128, 96), num_classes: int = 10):
        super().__init__()
        layers: list[nn.Module] = []
        for before, after, stride in zip((1, *widths), widths, (1, 2, 2, 1), strict=False):
            layers += [nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(widths[-1], num_classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.layers(images).mean((2, 3)))  # (B, C, H, W) -> (B, K)


class Stem(nn.Module):
    """A convolutional stem with channels of one's choice; ConvStem has a quarter, a half and all of a token's width."""

    def __init__(self, widths: tuple[int, ...], strides: tuple[int, ...]):
        super().__init__()
        layers: list[nn.Module] = []
        for before, after, stride in zip((1, *widths), widths[:-1], strides, strict=False):
            layers += [nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.GELU()]
        self.layers = nn.Sequential(*layers, nn.Conv2d(*widths[-2:], 3, strides[-1], 1))

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images).flatten(2).transpose(1, 2)  # (B, 1, H, W) -> (B, N, D)


def with_stem(config: ViTConfig, widths: tuple[int, ...], strides: tuple[int, ...] = (2, 2, 2)) -> ViT:
    """A ViT whose convolutions have so many channels."""
    model = ViT(config)
    model.patch_embed = Stem(widths, strides)
    return model


def fast_vit() -> ViT:
    """The model of the five minutes and of the hour: what did best in stems.py."""
    return with_stem(FAST, FAST_STEM)


def wider_vit() -> ViT:
    """The model of the full hour, laid out as convolutions like it: channels last."""
    return with_stem(WIDER, WIDER_STEM, WIDER_STRIDES).to(memory_format=torch.channels_last)


class LayerScale(nn.Module):
    """A branch times one learned gain a channel, initialised small (Touvron et al. 2021)."""

    def __init__(self, branch: nn.Module, embed_dim: int, gain: float):
        super().__init__()
        self.branch, self.gain = branch, nn.Parameter(torch.full((embed_dim,), gain))

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * self.branch(x)  # (B, T, D)


def stack(depth: int, norm: str, change: str, seed: int) -> ViT:
    """One stack, with LayerScale on its branches if GAINS names the change; else as the seed makes it."""
    torch.manual_seed(seed)
    model = ViT(replace(STACK, depth=depth, norm=norm))
    for block in model.blocks if change in GAINS else ():
        block.attention = LayerScale(block.attention, STACK.embed_dim, GAINS[change])
        block.mlp = LayerScale(block.mlp, STACK.embed_dim, GAINS[change])
    return model


def changed(model: ViTConfig, recipe: Recipe, changes: dict) -> tuple[ViTConfig, Recipe]:
    """The model and the recipe with the changes that are theirs."""
    return tuple(replace(one, **{k: v for k, v in changes.items() if hasattr(one, k)}) for one in (model, recipe))


# ---- Data


def clothes() -> Dataset:
    """The real images: a result measured on the digits that stand in for them would be another result."""
    data = load("fashion_mnist")
    if data.name != "fashion_mnist":
        raise SystemExit("This experiment needs the real Fashion-MNIST: set VITNB_DATA, or run it once with a network.")
    return data


def validated() -> Dataset:
    """The real images with 5,000 training images set aside: they stand in the place of the test images."""
    return clothes().hold_out(5_000)


def unwatched(data: Dataset) -> Dataset:
    """The same without images to judge a training by."""
    return replace(data, test_images=data.test_images[:0], test_labels=data.test_labels[:0])


def watched_on(data: Dataset, pictures: int) -> Dataset:
    """The same with the first held-out images only: enough to watch a training by."""
    return replace(data, test_images=data.test_images[:pictures], test_labels=data.test_labels[:pictures])


def resized(images: Tensor, side: int) -> Tensor:
    """Images (B, C, H, W) of bytes, side pixels high and wide."""
    if images.shape[-1] == side:
        return images
    return F.interpolate(images.float(), size=(side, side), mode="bilinear").round().to(torch.uint8)


def enlarged(data: Dataset) -> Dataset:
    """The images as the textbook feeds them: 96 x 96, pixels from 0 to 1."""
    train_images, test_images = (resized(images, 96) for images in (data.train_images, data.test_images))
    return replace(data, train_images=train_images, test_images=test_images, mean=(0.0,), std=(1.0,))


# ---- Trials


def checkpoint(name: str) -> Path:
    """Where an experiment keeps a run that may be interrupted; deleted when its result is stored."""
    return Path(os.environ.get("VITNB_CHECKPOINTS", ROOT / ".cache" / "checkpoints")) / f"{name}.pt"


# Plain products: every run the same kernel.
plain_products = partial(sdpa_kernel, SDPBackend.MATH)


def train(
    build: Callable[[], nn.Module], data: Dataset, recipe: Recipe, name: str | None = None
) -> tuple[nn.Module, History]:
    """Train a new model with the recipe's seed; a run that has a name goes on where it was interrupted."""
    torch.manual_seed(recipe.seed)
    model = build()
    return model, fit(model, data, recipe, [ProgressBar()] if name else (), name and checkpoint(name))


def accuracy(model: nn.Module, images: Tensor, labels: Tensor) -> float:
    return round(evaluate(model, images, labels).accuracy, 4)


def summary(runs: list[dict]) -> dict:
    """The mean and the standard deviation of the runs' accuracies, and the runs."""
    found: dict = {}
    for key in ("validation_accuracy", "test_accuracy"):
        accuracies = [run[key] for run in runs if key in run]
        if accuracies:
            found |= {f"{key}_mean": mean(accuracies), f"{key}_sd": stdev(accuracies)}
    return found | {"runs": runs}


def tried_run(name: str, build: Callable[[], nn.Module], recipe: Recipe) -> dict:
    """Like whole_run, for a run that is compared with others: it does not meet the test images."""
    with plain_products():
        model, history = train(build, validated(), recipe, f"{name}-{recipe.seed}")
    return {
        "seed": recipe.seed,
        "parameters": count_parameters(model),
        "validation_accuracy": round(history.test_accuracy[-1], 4),
        "train_accuracy": round(history.train_accuracy[-1], 4),
        "seconds": round(history.seconds, 1),
        "cpu_seconds": round(history.cpu_seconds, 1),
    }


def whole_run(name: str, build: Callable[[], nn.Module], recipe: Recipe, validate: bool = True) -> dict:
    """Train with one seed on all but the validation images, watched by these, or on all images; then test it once."""
    test = clothes()
    data = validated() if validate else unwatched(test)
    with plain_products():
        model, history = train(build, data, recipe, f"{name}-{recipe.seed}")
        end = final_test(model, test)
    confusion = end.confusion
    wrong = (end.predictions != end.labels).nonzero()[:24, 0]
    found = {
        "seed": recipe.seed,
        "parameters": count_parameters(model),
        "test_accuracy": round(end.accuracy, 4),
        "test_loss": round(end.loss, 4),
        "looks": looks(model),
        "seconds": round(history.seconds, 1),
        "cpu_seconds": round(history.cpu_seconds, 1),  # without waiting for other programs
        "images_per_second": round(history.images_per_second),
        "steps": len(history.losses),
        "images": history.images,
        "losses": thin(history.losses),
        "train_accuracy_by_epoch": [round(a, 4) for a in history.train_accuracy],
        "accuracy_by_class": [round(a, 4) for a in (confusion.diag() / confusion.sum(1)).tolist()],
        "confusion": confusion.tolist(),
        "wrong": [{"index": i, "true": int(end.labels[i]), "said": int(end.predictions[i])} for i in wrong.tolist()],
    }
    if validate:
        found |= {
            "validation_accuracy": round(history.test_accuracy[-1], 4),
            "validation_loss": round(history.test_loss[-1], 4),
            "validation_accuracy_by_epoch": [round(a, 4) for a in history.test_accuracy],
        }
    return found


def stored_model(name: str, config: ViTConfig, recipe: Recipe) -> dict:
    """Train one model on all images for readers to look into; its weights go beside the result, under its name."""
    data = clothes()
    with plain_products():
        model, history = train(lambda: ViT(config), data, recipe, f"{name}-{recipe.seed}")
    test = evaluate(model, data.normalize(data.test_images), data.test_labels)
    save(model, RESULTS / f"{name}.safetensors")
    return {
        "parameters": count_parameters(model),
        "classes": list(data.classes),
        "test_accuracy": round(test.accuracy, 4),
        "test_loss": round(test.loss, 4),
        "training_seconds": round(history.seconds, 1),
        "steps": len(history.losses),
    }


def whole_runs(runs: list[dict]) -> dict:
    """What whole runs of one model have in common, and the runs."""
    return {
        "parameters": runs[0]["parameters"],
        "classes": list(clothes().classes),
        "seconds_max": max(run["seconds"] for run in runs),
        "cpu_seconds_max": max(run["cpu_seconds"] for run in runs),
    } | summary(runs)


def store_code(name: str) -> None:
    """Write the code that made a result beside it: every file of the book's that this process has loaded."""
    loaded = {Path(module.__file__) for module in [*sys.modules.values()] if getattr(module, "__file__", None)}
    folders = [ROOT / name for name in ("vitnb", "vitbook", "experiments")]
    own = sorted(path for path in loaded if any(path.is_relative_to(folder) for folder in folders))
    with replacing(RESULTS / f"{name}.zip") as part, ZipFile(part, "w", ZIP_DEFLATED) as archive:
        for path in own:
            archive.write(path, path.relative_to(ROOT))


def thin(values: list[float], points: int = 300) -> list[float]:
    """Means of equal stretches, at most so many, to four digits: what a curve needs."""
    width = -(-len(values) // points)
    return [
        float(f"{sum(part) / len(part):.4g}") for part in (values[i : i + width] for i in range(0, len(values), width))
    ]


# ---- Equal times


@dataclass(frozen=True)
class Arm:
    """What is compared with others for equal seconds: a model, how it is trained, the side and number of its images."""

    build: Callable[[], nn.Module]
    recipe: Recipe
    side: int = 28
    pictures: int | None = None  # for training; None: all


CLOCKINGS = 5  # of each arm's step


def for_seconds(name: str, arms: dict[str, Arm], seconds: float, seeds: list[int]) -> dict[str, dict]:
    """Train every arm with every seed for the steps that so many seconds of one core hold; judge on validation images.

    First the steps of all arms are clocked. Both there and in training two
    processes run at a time, one on each core.
    """
    steps = steps_within(seconds, name, arms)
    runs = trained_for(steps, name, arms, seeds)
    return {label: {"steps": steps[label]} | summary(runs[label]) for label in arms}


def steps_within(seconds: float, name: str, arms: dict[str, Arm]) -> dict[str, int]:
    """Clock a step of each arm: how many of them so many seconds hold."""
    path = checkpoint(f"{name}-steps")
    if not path.exists():  # a run that goes on keeps the steps that it began with
        clocked = two_at_a_time(seconds_a_step, [*arms.values()] * CLOCKINGS)  # in turn, as the machine's speed varies
        each = {arm: median(clocked[n :: len(arms)]) for n, arm in enumerate(arms)}
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({arm: round(seconds / each[arm]) for arm in arms}, path)
    return torch.load(path, weights_only=True)


def trained_for(steps: dict, name: str, arms: dict, seeds: list[int]) -> dict:
    """Train every arm with every seed for its steps: the runs of each, judged on validation images."""
    jobs = [
        (replace(arm, recipe=replace(arm.recipe, seed=seed)), steps[label], f"{name}-{n}-{seed}")
        for n, (label, arm) in enumerate(arms.items())
        for seed in seeds
    ]
    runs = two_at_a_time(timed_trial, jobs)
    return {label: runs[n * len(seeds) : (n + 1) * len(seeds)] for n, label in enumerate(arms)}


def two_at_a_time(one: Callable, jobs: Iterable) -> list:
    """The results of one(job) for all jobs, two processes at a time, each on a core of its own."""
    with ProcessPoolExecutor(2, get_context("spawn"), torch.set_num_threads, [1]) as pool:
        return list(pool.map(one, jobs))


once = cache(validated)  # in each process


def seconds_a_step(arm: Arm, seconds: float = 5.0) -> float:
    """Seconds of processor time of a training step: the median of those of so many seconds, after three others."""
    data, times = of_side(once().subset(2_000), arm.side), []
    torch.manual_seed(0)
    with plain_products():
        run = Training(arm.build().train(), data, replace(arm.recipe, epochs=1_000))
        while run.step <= 4 or times[-1] - times[2] <= seconds:
            run.train_step()
            times.append(time.process_time())
    return median(after - before for before, after in zip(times[2:], times[3:], strict=False))


def timed_trial(job: tuple[Arm, int, str]) -> dict:
    """Train an arm for about so many steps on images that its recipe's seed draws; what was found is kept."""
    (arm, steps, name), data = job, once()
    path = checkpoint(name)
    if not path.exists():
        part, epochs = drawn(arm, steps, data)
        with plain_products():
            model, history = train(arm.build, of_side(part, arm.side), replace(arm.recipe, epochs=epochs))
        found = {
            "seed": arm.recipe.seed,
            "parameters": count_parameters(model),
            f"{data.held_out}_accuracy": round(held_out_accuracy(model, data, arm.side), 4),
            "train_accuracy": round(history.train_accuracy[-1], 4),
            "seconds": round(history.cpu_seconds, 1),
            "images": history.images,
        }
        print(f"{name}: {found}", flush=True)
        with replacing(path) as file:
            torch.save(found, file)
    return torch.load(path, weights_only=True)


def drawn(arm: Arm, steps: int, data: Dataset) -> tuple[Dataset, int]:
    """Images and epochs for so many steps: with ten epochs or more all images, else as many as come out even.

    Up to a twentieth of an epoch is left out, as it is not worth one more epoch of fewer images.
    """
    batch = arm.recipe.batch_size
    order = torch.randperm(len(data.train_labels), generator=torch.Generator().manual_seed(arm.recipe.seed))
    order = order[: arm.pictures]
    in_epoch = len(order) // batch
    if steps >= 10 * in_epoch:
        epochs = round(steps / in_epoch)
    else:
        epochs = max(1, math.ceil(steps / in_epoch - 0.05))
        order = order[: steps // epochs * batch]
    return replace(data, train_images=data.train_images[order], train_labels=data.train_labels[order]), epochs


def held_out_accuracy(model: nn.Module, data: Dataset, side: int) -> float:
    """Accuracy on all that data holds out, made so many pixels high and wide, a thousand images at a time."""
    right = 0.0
    for images, labels in zip(data.test_images.split(1000), data.test_labels.split(1000), strict=True):
        right += evaluate(model, data.normalize(resized(images, side)), labels).accuracy * len(labels)
    return right / len(data.test_labels)


def of_side(data: Dataset, side: int) -> Dataset:
    """The training images at a size, and none to judge by: held_out_accuracy does that at the end."""
    return replace(unwatched(data), train_images=resized(data.train_images, side))


# ---- Time and memory


def race(
    runners: dict[str, Callable[[], None]],
    rounds: int,
    chance: random.Random,
    unit: float | None = 0.3,
    against: dict[str, str] | None = None,
) -> dict:
    """Time all of them, in turn: seconds (median) and how many times as long as the first one, with its quartiles.

    Rounds are interleaved: each holds one timing of every runner, in another
    order each time, and the ratios are taken within a round. So what else the
    machine does meanwhile meets all of them alike. A timing repeats its runner
    for about unit seconds; without a unit it is one call, and none before it.
    against names another one to compare with: {"b": "c"} has the times of b divided by those of c.
    """
    for one in runners.values() if unit else ():
        one()
        one()
    first = next(iter(runners))
    repeat = max(1, round(unit / seconds_of(runners[first], 1))) if unit else 1
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name in chance.sample(list(runners), len(runners)):
            seconds[name].append(seconds_of(runners[name], repeat))
    found = {}
    for name, times in seconds.items():
        bases = seconds[(against or {}).get(name, first)]
        ratios = sorted(t / base for t, base in zip(times, bases, strict=True))
        low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
        found[name] = {"seconds": round(median(times), 6), "ratio": round(median(ratios), 3)}
        found[name] |= {"quartiles": [round(low, 3), round(high, 3)]}
    return found


def seconds_of(one: Callable[[], None], repeat: int) -> float:
    """Seconds of one call, in the mean of so many."""
    synchronize()
    start = time.perf_counter()
    for _ in range(repeat):
        one()
    synchronize()
    return (time.perf_counter() - start) / repeat


def synchronize() -> None:
    """Wait for what a GPU still computes."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def step(model: nn.Module, images: Tensor, labels: Tensor, lr: float = 1e-4, half: bool = False) -> Callable[[], None]:
    """One training step with AdamW, as a function; with half, in bfloat16."""
    optimizer = torch.optim.AdamW(model.parameters(), lr, fused=True)

    def one() -> None:
        with torch.autocast(DEVICE, torch.bfloat16, enabled=half):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return one


def memory_of_this_process(key: str) -> int:
    """Bytes that Linux counts for this process: VmRSS now, VmHWM at the peak."""
    return 1024 * int(re.search(rf"{key}:\s+(\d+)", Path("/proc/self/status").read_text())[1])

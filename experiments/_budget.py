"""Trainings for equal seconds: steps are clocked first, and each arm takes as many as its time holds."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, partial
from multiprocessing import get_context

import torch
from torch import Tensor, nn

from experiments._data import resized, unwatched, validated
from experiments._trials import checkpoint, plain_products, summary, train, whole_run, whole_runs
from vitnb._files import replacing
from vitnb.data import Dataset
from vitnb.evaluation import evaluate
from vitnb.training import Recipe, Training
from vitnb.vit import count_parameters


@dataclass(frozen=True)
class Arm:
    """What is compared with others for equal seconds: a model, how it is trained, the side and number of its images."""

    build: Callable[[], nn.Module]
    recipe: Recipe
    side: int = 28
    images: int | None = None  # for training; None: all


def for_seconds(name: str, arms: dict[str, Arm], seconds: float, seeds: list[int]) -> dict[str, dict]:
    """Train every arm with every seed for the steps that fit into the seconds of one core; judge by validation.

    First the steps of all arms are clocked. Both there and in training two
    processes run at a time, one on each core.
    """
    steps = steps_within(seconds, name, arms)
    runs = trained_for(steps, name, arms, seeds)
    return {label: {"steps": steps[label]} | summary(runs[label]) for label in arms}


def whole_runs_side_by_side(name: str, build: Callable[[], nn.Module], recipe: Recipe, seeds: list[int]) -> dict:
    """Train and test one model with each seed, two at a time, each on a core of its own."""
    recipes = [replace(recipe, seed=seed) for seed in seeds]
    return whole_runs(two_at_a_time(partial(whole_run, name, build), recipes))


def steps_within(seconds: float, name: str, arms: dict[str, Arm]) -> dict[str, int]:
    """Clock a step of each arm: how many of them fit into these seconds."""
    path = checkpoint(f"{name}-steps")
    if not path.exists():  # a run that goes on keeps the steps that it began with
        clocked = torch.cat(two_at_a_time(seconds_of_steps, [[*arms.values()]] * 2)).median(0).values
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save({arm: round(seconds / one) for arm, one in zip(arms, clocked.tolist(), strict=True)}, path)
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


def seconds_of_steps(arms: list[Arm], rounds: int = 40, steps: int = 4) -> Tensor:
    """Seconds of processor time of a training step, (rounds, arms).

    The arms take turns: a machine's speed may vary by a tenth within a minute,
    and that meets all of them alike. The first step of a turn is not counted,
    because it finds the caches full of another arm: a linear model takes half
    as long again for it.
    """
    torch.manual_seed(0)
    data = {side: of_side(once().subset(2_000), side) for side in {arm.side for arm in arms}}
    runs = [Training(arm.build().train(), data[arm.side], replace(arm.recipe, epochs=1_000)) for arm in arms]
    times = []
    with plain_products():
        for _ in range(rounds + 1):  # one to warm up
            for run in runs:
                run.train_step()
                start = time.process_time()
                for _ in range(steps):
                    run.train_step()
                times.append((time.process_time() - start) / steps)
    return torch.tensor(times).view(-1, len(arms))[1:]


def timed_trial(job: tuple[Arm, int, str]) -> dict:
    """Train an arm for about its number of steps on images that its recipe's seed draws; what was found is kept."""
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
            "distinct_images": min(history.images, len(part.train_labels)),
            "epochs": round(epochs, 3),
        }
        print(f"{name}: {found}", flush=True)
        with replacing(path) as file:
            torch.save(found, file)
    return torch.load(path, weights_only=True)


def drawn(arm: Arm, steps: int, data: Dataset) -> tuple[Dataset, float]:
    """The images that every arm of a seed draws from, whatever its steps, and these steps in epochs."""
    order = torch.randperm(len(data.train_labels), generator=torch.Generator().manual_seed(arm.recipe.seed))
    order = order[: arm.images]
    epochs = steps / (len(order) // arm.recipe.batch_size)
    return replace(data, train_images=data.train_images[order], train_labels=data.train_labels[order]), epochs


def held_out_accuracy(model: nn.Module, data: Dataset, side: int) -> float:
    """Accuracy on all that data holds out, resized to side x side pixels, a thousand images at a time."""
    right = 0.0
    for images, labels in zip(data.test_images.split(1000), data.test_labels.split(1000), strict=True):
        right += evaluate(model, data.normalize(resized(images, side)), labels).accuracy * len(labels)
    return right / len(data.test_labels)


def of_side(data: Dataset, side: int) -> Dataset:
    """The training images at a size, and none to judge by: held_out_accuracy does that at the end."""
    return replace(unwatched(data), train_images=resized(data.train_images, side))

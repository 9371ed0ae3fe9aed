"""Wrong training: learning rates by step, who decays, a batch in parts, the order of images, a step, a comparison.

Losses mostly fall.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbook.faults._fault import fault
from vitnb.training import Recipe, decay_groups

# Schedules: (step, steps, peak, warmup_steps) -> learning rate.


def lr_at(step: int, steps: int, peak: float, warmup_steps: int) -> float:
    """The right one, that of the recipe."""
    return Recipe(lr=peak, warmup=warmup_steps / steps).lr_at(step, steps)


def _falls(step: int, steps: int, peak: float, warmup_steps: int, share: Callable[[float], float]) -> float:
    """The right warm-up, then a share of the peak that depends on the share of the steps after the warm-up."""
    if step < warmup_steps:
        return lr_at(step, steps, peak, warmup_steps)
    return peak * share((step - warmup_steps) / (steps - warmup_steps))


@fault("starts at a learning rate of 0, so that its first batch teaches nothing", Recipe.lr_at, None)
def starts_at_zero(step: int, steps: int, peak: float, warmup_steps: int) -> float:
    return peak * step / warmup_steps if step < warmup_steps else lr_at(step, steps, peak, warmup_steps)


@fault("has no warm-up", Recipe.lr_at, None)
def no_warmup(step: int, steps: int, peak: float, warmup_steps: int) -> float:
    return lr_at(step, steps, peak, 0)


@fault("never reaches its peak in the warm-up", Recipe.lr_at, None)
def warmup_below_the_peak(step: int, steps: int, peak: float, warmup_steps: int) -> float:
    below = peak * (step + 1) / (warmup_steps + 1)
    return below if step < warmup_steps else lr_at(step, steps, peak, warmup_steps)


@fault("forgets the peak and returns shares of it", Recipe.lr_at, None)
def forgotten_peak(step: int, steps: int, peak: float, warmup_steps: int) -> float:
    return lr_at(step, steps, 1.0, warmup_steps)


@fault("runs its cosine over all steps, so that it jumps where the warm-up ends", Recipe.lr_at, None)
def cosine_over_all_steps(step: int, steps: int, peak: float, warmup_steps: int) -> float:
    return lr_at(step, steps, peak, warmup_steps if step < warmup_steps else 0)


@fault("runs a whole cosine: it falls and climbs back", Recipe.lr_at, None)
def whole_cosine(step: int, steps: int, peak: float, warmup_steps: int) -> float:
    return _falls(step, steps, peak, warmup_steps, lambda t: (1 + math.cos(2 * math.pi * t)) / 2)


@fault("falls in a straight line", Recipe.lr_at, None)
def straight_line(step: int, steps: int, peak: float, warmup_steps: int) -> float:
    return _falls(step, steps, peak, warmup_steps, lambda t: 1 - t)


@fault("stays at its peak after the warm-up", Recipe.lr_at, None)
def stays_at_the_peak(step: int, steps: int, peak: float, warmup_steps: int) -> float:
    return _falls(step, steps, peak, warmup_steps, lambda t: 1.0)


@fault("is 0 one step too early, so that its last batch teaches nothing", Recipe.lr_at, None)
def ends_too_early(step: int, steps: int, peak: float, warmup_steps: int) -> float:
    last = steps - warmup_steps - 1
    return _falls(step, steps, peak, warmup_steps, lambda t: (1 + math.cos(math.pi * (step - warmup_steps) / last)) / 2)


# Parameter groups: (model, weight_decay) -> groups for an optimizer, those that decay first.

Groups = list[dict[str, Any]]


def _groups(model: nn.Module, weight_decay: float, decays: Callable[[str, nn.Parameter], bool]) -> Groups:
    named = list(model.named_parameters())
    decayed, spared = ([p for name, p in named if decays(name, p) is side] for side in (True, False))
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": spared, "weight_decay": 0.0}]


def _decays(model: nn.Module) -> set[str]:
    return {n for n, p in model.named_parameters() if p.ndim >= 2} - model.no_weight_decay()


@fault("decays everything", decay_groups, None)
def everything_decays(model: nn.Module, weight_decay: float) -> Groups:
    return _groups(model, weight_decay, lambda name, p: True)


@fault("decays all that has several axes, positions and tokens too", decay_groups, None)
def all_with_axes_decay(model: nn.Module, weight_decay: float) -> Groups:
    return _groups(model, weight_decay, lambda name, p: p.ndim >= 2)


@fault("decays norms and biases too", decay_groups, None)
def norms_decay(model: nn.Module, weight_decay: float) -> Groups:
    return _groups(model, weight_decay, lambda name, p: name not in model.no_weight_decay())


@fault("spares the head", decay_groups, None)
def head_spared(model: nn.Module, weight_decay: float) -> Groups:
    return _groups(model, weight_decay, lambda name, p: name in _decays(model) and "head" not in name)


@fault("spares the patch projection, a kernel", decay_groups, None)
def kernels_spared(model: nn.Module, weight_decay: float) -> Groups:
    return _groups(model, weight_decay, lambda name, p: name in _decays(model) and p.ndim == 2)


@fault("decays what should be spared, and spares what should decay", decay_groups, None)
def groups_swapped(model: nn.Module, weight_decay: float) -> Groups:
    return _groups(model, weight_decay, lambda name, p: name not in _decays(model))


# A batch in parts: (model, images, labels, most) -> the gradient of the mean loss, one vector.


def gradient(model: nn.Module, images: Tensor, labels: Tensor, most: int) -> Tensor:
    """The right one: each part counts as often as it has images."""
    return sum(len(y) / len(labels) * _slope(model, x, y) for x, y in _parts(images, labels, most))


def _parts(images: Tensor, labels: Tensor, most: int) -> list[tuple[Tensor, Tensor]]:
    return list(zip(images.split(most), labels.split(most), strict=True))


@torch.enable_grad()
def _slope(model: nn.Module, images: Tensor, labels: Tensor, reduction: str = "mean") -> Tensor:
    loss = F.cross_entropy(model(images), labels, reduction=reduction)
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(model.parameters()))])


@fault("adds to the gradient that an earlier batch has left", gradient, None)
def gradient_not_cleared(model: nn.Module, images: Tensor, labels: Tensor, most: int) -> Tensor:
    left = torch.cat([p.grad.flatten() if p.grad is not None else 0 * p.flatten() for p in model.parameters()])
    return left.detach() + gradient(model, images, labels, most)


@fault("adds up the means of the parts", gradient, None)
def sum_of_means(model: nn.Module, images: Tensor, labels: Tensor, most: int) -> Tensor:
    return sum(_slope(model, x, y) for x, y in _parts(images, labels, most))


@fault("averages the means of the parts, so that an image in a small part counts more", gradient, None)
def mean_of_means(model: nn.Module, images: Tensor, labels: Tensor, most: int) -> Tensor:
    return sum_of_means(model, images, labels, most) / len(_parts(images, labels, most))


@fault("adds up the losses of all images", gradient, None)
def sum_of_losses(model: nn.Module, images: Tensor, labels: Tensor, most: int) -> Tensor:
    return len(labels) * gradient(model, images, labels, most)


@fault("keeps the mean of the last part alone", gradient, None)
def last_part(model: nn.Module, images: Tensor, labels: Tensor, most: int) -> Tensor:
    return _slope(model, *_parts(images, labels, most)[-1])


@fault("sets its gradient to zero before each part, so that the last one's share is left", gradient, None)
def gradient_cleared_in_the_loop(model: nn.Module, images: Tensor, labels: Tensor, most: int) -> Tensor:
    x, y = _parts(images, labels, most)[-1]
    return _slope(model, x, y, "sum") / len(labels)


@fault("takes the mean of the first part alone", gradient, None)
def first_part(model: nn.Module, images: Tensor, labels: Tensor, most: int) -> Tensor:
    return _slope(model, *_parts(images, labels, most)[0])


@fault("leaves out the last part, which may be smaller", gradient, None)
def last_part_left_out(model: nn.Module, images: Tensor, labels: Tensor, most: int) -> Tensor:
    whole = _parts(images, labels, most)[:-1] or _parts(images, labels, most)
    return sum(_slope(model, x, y) for x, y in whole) / len(whole)


# The order of an epoch: (labels, generator) -> the numbers of its images.


def order(labels: Tensor, generator: torch.Generator) -> Tensor:
    """The right one: all images once, mixed."""
    return torch.randperm(len(labels), generator=generator)


@fault("does not shuffle, so that the classes come one after the other", order, None)
def not_shuffled(labels: Tensor, generator: torch.Generator) -> Tensor:
    return labels.argsort(stable=True)


# One step of a training: (model, optimizer, scheduler, images, labels) -> the loss.

Optimizer, Scheduler = torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler


def step(model: nn.Module, optimizer: Optimizer, scheduler: Scheduler, images: Tensor, labels: Tensor) -> Tensor:
    """The right one."""
    loss = F.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    return loss.detach()


def _in_order(*acts: str, given: tuple, read: Callable[[Tensor], Tensor] = lambda logits: logits) -> Tensor:
    """A step that does these things, in this order, when it has its loss."""
    model, optimizer, scheduler, images, labels = given
    loss = F.cross_entropy(read(model(images)), labels)
    does = {"clear": optimizer.zero_grad, "backward": loss.backward, "step": optimizer.step, "schedule": scheduler.step}
    for act in acts:
        does[act]()
    return loss.detach()


@fault("never clears the gradients, so that each step goes by the sum of all batches so far", step, None)
def gradients_never_cleared(*given: Any) -> Tensor:
    return _in_order("backward", "step", "schedule", given=given)


@fault("clears the gradients after the backward pass, so that none are left for the step", step, None)
def gradients_cleared_too_late(*given: Any) -> Tensor:
    return _in_order("backward", "clear", "step", "schedule", given=given)


@fault("moves before the backward pass, by the gradients of the batch before", step, None)
def step_before_backward(*given: Any) -> Tensor:
    return _in_order("step", "clear", "backward", "schedule", given=given)


@fault("calls the scheduler before the optimizer, so that the first learning rate is never used", step, None)
def scheduler_before_optimizer(*given: Any) -> Tensor:
    return _in_order("clear", "backward", "schedule", "step", given=given)


@fault("calls the scheduler and never the optimizer", step, None)
def scheduler_alone(*given: Any) -> Tensor:
    return _in_order("clear", "backward", "schedule", given=given)


@fault("never calls the scheduler, so that the learning rate stays where it is", step, None)
def scheduler_forgotten(*given: Any) -> Tensor:
    return _in_order("clear", "backward", "step", given=given)


@fault("gives probabilities to the loss, which takes a softmax of its own", step, None)
def probabilities_in_the_loss(*given: Any) -> Tensor:
    return _in_order("clear", "backward", "step", "schedule", given=given, read=lambda logits: logits.softmax(-1))


# A comparison: (models, train, test), pairs of images and labels -> the accuracy of each model on the test images.

Pair = tuple[Tensor, Tensor]


def compare(models: list[nn.Module], train: Pair, test: Pair) -> list[float]:
    """The right one: as many steps for each, on the training images alone, then the test images in eval mode."""
    for model in models:
        learn(model.train(), train)
    return [accuracy(model.eval(), test) for model in models]


def learn(model: nn.Module, train: Pair, epochs: int = 2, batch_size: int = 4) -> None:
    """Train by plain gradient descent, batch after batch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        for images, labels in zip(*(part.split(batch_size) for part in train), strict=True):
            optimizer.zero_grad()
            F.cross_entropy(model(images), labels).backward()
            optimizer.step()


@torch.no_grad()
def accuracy(model: nn.Module, test: Pair) -> float:
    """The share of images that a model gets right, in the mode that it is in."""
    images, labels = test
    return (model(images).argmax(-1) == labels).float().mean().item()


@fault("leaves the models in train mode while it tests them, with dropout on", compare, None)
def tested_in_train_mode(models: list[nn.Module], train: Pair, test: Pair) -> list[float]:
    for model in models:
        learn(model.train(), train)
    return [accuracy(model, test) for model in models]


@fault("trains on the test images, too", compare, None)
def test_images_in_training(models: list[nn.Module], train: Pair, test: Pair) -> list[float]:
    for model in models:
        learn(model.train(), tuple(map(torch.cat, zip(train, test, strict=True))))
    return [accuracy(model.eval(), test) for model in models]


@fault("gives the last model twice as many epochs as the others", compare, None)
def unlike_budgets(models: list[nn.Module], train: Pair, test: Pair) -> list[float]:
    for model in models:
        learn(model.train(), train, epochs=4 if model is models[-1] else 2)
    return [accuracy(model.eval(), test) for model in models]


@fault("reports the accuracy on the images that it has trained on", compare, None)
def tested_on_training_images(models: list[nn.Module], train: Pair, test: Pair) -> list[float]:
    for model in models:
        learn(model.train(), train)
    return [accuracy(model.eval(), train) for model in models]

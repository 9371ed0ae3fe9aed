"""Exercises of chapter 7: the schedule, the loss, the pooling and the weight decay of a training."""

import math
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vitnb.checks.engine import Wrong, call, close, described, exercise, fresh, number, tensor_like
from vitnb.vit import ViT, ViTConfig


def _lr_at(step: int, steps: int, peak: float, warmup_steps: int) -> float:
    """The schedule of vitnb.training.Recipe."""
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    return peak * (1 + math.cos(math.pi * (step - warmup_steps) / (steps - warmup_steps))) / 2


# Shares of the peak at t, the share of the steps after the warm-up; u is the share of all steps.
DECAY_MISTAKES: dict[str, Callable[[float, float], float]] = {
    "The cosine runs over all steps instead of those after the warm-up, so the rate jumps where the warm-up ends.": (
        lambda t, u: (1 + math.cos(math.pi * u)) / 2
    ),
    "That is a whole cosine: the rate falls and then climbs back to the peak. Half a cosine is wanted.": (
        lambda t, u: (1 + math.cos(2 * math.pi * t)) / 2
    ),
    "That is a straight line down, not a cosine.": lambda t, u: 1 - t,
    "After the warm-up the rate stays where it is.": lambda t, u: 1.0,
}


@exercise(
    "7.1",
    "lr_at(step, steps, peak, warmup_steps)",
    "Two cases. While step < warmup_steps: which share of the peak belongs to step 0, which to step "
    "warmup_steps - 1? Steps count from 0, shares do not.",
    "For the rest, first compute how far along you are: a number that is 0 at the end of the warm-up and 1 at step "
    "== steps. cos(pi * that) goes from 1 to -1: move and scale it to go from 1 to 0.",
)
def _schedule(answer: Callable) -> str:
    peak, cases = random.Random().randrange(1, 100) / 1000, ((40, 7), (23, 0), (31, 1))
    for steps, warmup in cases:
        rates = [number(call(answer, step, steps, peak, warmup)) for step in range(steps + 1)]
        right = [_lr_at(step, steps, peak, warmup) for step in range(steps + 1)]
        off = [step for step in range(steps + 1) if abs(rates[step] - right[step]) > 1e-6 * peak]
        if off:
            part = _warmup_mistake if off[0] < warmup else _decay_mistake
            shares = [rate / peak for rate in rates]
            bound = "high" if rates[off[0]] > right[off[0]] else "low"
            where = (
                f"Step {off[0]} of {steps}, with {warmup} of warm-up: {shares[off[0]]:.3f} of the peak is too {bound}."
            )
            raise Wrong(f"{where} {part(shares, steps, warmup)}")
    return "every step of 3 schedules, one of them without warm-up."


def _warmup_mistake(shares: list[float], steps: int, warmup: int) -> str:
    if shares[0] == 0:
        return "The first step gets a learning rate of 0: its batch is computed and learns nothing."
    if all(abs(s - shares[0]) < 1e-6 for s in shares[:warmup]) or shares[0] > 0.9:
        return "There is no warm-up: the first steps should climb in a line."
    return "The warm-up is a line through its first and its last step: check both."


def _decay_mistake(shares: list[float], steps: int, warmup: int) -> str:
    after = range(warmup, steps + 1)
    for message, mistake in DECAY_MISTAKES.items():
        if all(abs(shares[s] - mistake((s - warmup) / (steps - warmup), s / steps)) < 1e-6 for s in after):
            return message
    if abs(shares[steps - 1]) < 1e-6:
        return "It is 0 one step too early, so that the last batch learns nothing: the 0 belongs to step == steps."
    return "The cosine should be the peak at step == warmup_steps and 0 at step == steps."


@exercise(
    "7.2",
    "loss_floor(num_classes)",
    "The best that such a model can return is 1 for the right class and 0 for the others. The loss takes these K "
    "numbers for logits: what does its own softmax make of them?",
    "Write down e to the power of each of these K numbers, for K = 3 first. What share of their sum belongs to the "
    "right class? Cross-entropy is minus the logarithm of that share.",
)
def _floor(answer: Callable) -> str:
    for K in (10, 2, random.Random().randrange(3, 10), random.Random().randrange(11, 1000), 1000):
        loss, right = number(call(answer, K)), math.log(math.e + K - 1) - 1
        mistakes = {
            0.0: "That is the floor for logits, which may lie far apart. Probabilities are at most 1 apart.",
            math.log(K): "That is the loss of a model that knows nothing; this one may be certain and right.",
            right + 1: "That is the loss of a class whose probability is 0: the right one may have 1.",
            right / math.log(10): "Cross-entropy takes the natural logarithm.",
        }
        if abs(loss - right) > 1e-3:
            near = [message for value, message in mistakes.items() if abs(loss - value) < 1e-3]
            bound = "No model can reach that." if loss < right else "A model can get below that."
            raise Wrong(f"For {K} classes you say {loss:.3f}. {near[0] if near else bound}")
    return "5 numbers of classes, to 1e-3."


@exercise(
    "7.3",
    "mean_logits(model, images)",
    "model.forward_features(images) gives all tokens after the last norm, (B, 1 + N, D). Which one is not a patch?",
    "Average over the axis of the tokens, so that (B, N, D) becomes (B, D); then model.head.",
)
def _mean_logits(answer: Callable) -> str:
    # As many patches as features: a mean over the wrong axis then shows in the numbers, not as a wrong shape.
    for K, size, pos_embed in ((7, (12, 32), "learned"), (5, (24, 16), "sincos")):
        model = _random_vit(img_size=size, in_chans=2, num_classes=K, pos_embed=pos_embed)
        images = fresh(3, 2, *size)
        with torch.no_grad():
            features = model.forward_features(images)
            right = model.head(features[:, 1:].mean(1))
        result = call(answer, model, images)
        if isinstance(result, Tensor) and result.shape == (features.shape[1] - 1, K):
            raise Wrong("Your mean runs over the pictures of the batch: one row comes back for each patch.")
        result = tensor_like(result, right)
        if not close(result, right, 1e-4):
            raise Wrong(_mean_mistake(result, right, model, images))
    return "the same logits as the reference for 2 models with random weights, on 3 pictures with height unlike width."


@torch.no_grad()
def _mean_mistake(result: Tensor, right: Tensor, model: ViT, images: Tensor) -> str:
    features = model.forward_features(images)  # (B, 1 + N, D)
    last = model.forward_intermediates(images)[f"block_{model.config.depth}"]  # (B, 1 + N, D)
    mistakes = {
        "The cls token is in your mean: average the patch tokens only.": model.head(features.mean(1)),
        "That is the cls token alone, what the model does anyway.": model(images),
        "You leave out the last patch and keep the cls token: which end is it at?": model.head(
            features[:, :-1].mean(1)
        ),
        "You return probabilities: leave the softmax to the loss.": right.softmax(1),
        "The final norm is missing.": model.head(last[:, 1:].mean(1)),
        "You average first and normalise then: the mean of the normalised tokens is wanted.": (
            model.head(model.norm(last[:, 1:].mean(1)))
        ),
        "Your mean runs over the features, not the tokens.": model.head(features[:, 1:].mean(2)),
    }
    for message, wrong in mistakes.items():
        if close(result, wrong, 1e-4):
            return message
    return f"Your logits are off by up to {(result - right).abs().max():.2g}."


def _random_vit(**config: Any) -> ViT:
    """A small ViT whose every parameter is random: at the start zeros and ones would hide mistakes."""
    model = ViT(ViTConfig(patch_size=4, embed_dim=24, depth=2, num_heads=3, **config)).eval()
    for parameter in model.parameters():
        parameter.data = 0.3 * fresh(*parameter.shape)
    return model


SPARED = "it is no matrix that multiplies its input, and nothing is gained by pulling it to 0"


@exercise(
    "7.4",
    "split_parameters(model)",
    "Print name and shape of each of model.named_parameters(). Weight decay belongs to what multiplies: matrices and "
    "kernels. How many axes do these have, how many has a bias?",
    "Two or three parameters have several axes and are still no matrix. Find them by printing the names; the model "
    "knows their names, too: look at its methods.",
)
def _split(answer: Callable) -> str:
    for pos_embed, pool in (("learned", "cls"), ("none", "attn"), ("sincos", "mean")):
        model = _random_vit(img_size=(12, 20), pos_embed=pos_embed, global_pool=pool)
        decayed, spared = _names(call(answer, model))
        shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
        right = {name for name, shape in shapes.items() if len(shape) > 1} - model.no_weight_decay()
        _each_once(decayed, spared, shapes)
        if set(spared) == right:
            raise Wrong("Your two lists are swapped: the decayed ones come first.")
        if not spared:
            raise Wrong(f"You decay everything, {_example(decayed, right, shapes)} too: {SPARED}.")
        if set(decayed) - right:
            raise Wrong(f"You decay {_example(decayed, right, shapes)}: {SPARED}.")
        if right - set(decayed):
            raise Wrong(f"You spare {_example(spared, set(shapes) - right, shapes)}: it multiplies, like any matrix.")
    return "every parameter of 3 ViTs (cls token, attention and mean pooling) is on its side."


def _names(result: Any) -> tuple[list[str], list[str]]:
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise Wrong(f"Your function returns {described(result)}: two lists of names are wanted, decayed and spared.")
    try:
        decayed, spared = map(list, result)
    except TypeError:
        raise Wrong("Two lists of names are wanted, decayed and spared.") from None
    for name in [*decayed, *spared]:
        if not isinstance(name, str):
            raise Wrong(f"Your lists hold {described(name)}: the names are wanted, as in named_parameters().")
    return decayed, spared


def _each_once(decayed: list[str], spared: list[str], shapes: dict[str, tuple[int, ...]]) -> None:
    names = [*decayed, *spared]
    for name in shapes:
        if names.count(name) != 1:
            where = "in neither list" if name not in names else "there more than once"
            raise Wrong(f"{name} is {where}: each parameter belongs to one side.")
    if unknown := set(names) - set(shapes):
        raise Wrong(f"The model has no parameter named {sorted(unknown)[0]!r}.")


# In this order: what is most telling comes first.
KINDS = {
    "positions.table": "the position table",
    "pool.token": "the cls token",
    "pool.query": "the query of the pooling",
    "norm": "the gain or bias of a norm",
    "bias": "a bias",
    "head": "the weights of the head",
    "patch_embed": "the patch projection",
}


def _example(names: list[str], right: set[str], shapes: dict[str, tuple[int, ...]]) -> str:
    """Name one parameter that lies on a side where it does not belong."""
    wrong = [name for name in names if name not in right]
    found = [(kind, name) for part, kind in KINDS.items() for name in wrong if part in name]
    kind, name = found[0] if found else ("a matrix", wrong[0])
    return f"{kind} ({name}, shape {shapes[name]})"

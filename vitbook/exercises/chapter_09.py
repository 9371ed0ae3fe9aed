"""Exercises of chapter 9: a paired error, a loop with three faults, weight decay, fair comparisons."""

import copy
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbook.exercises.declaration import Exercise, NotDone, Wrong
from vitbook.exercises.forms import compute, letters
from vitbook.exercises.values import chance, close, expected, first_that, fresh, number, parts, perturbed
from vitbook.faults import train
from vitnb.vit import ViT, ViTConfig


def _paired(a: Tensor, b: Tensor) -> float:
    return ((a - b).std() / len(a) ** 0.5).item()


def _runs() -> list[tuple[Tensor, Tensor]]:
    """Accuracies of two models on the same seeds: what a seed does to both is larger than what it does to one."""
    draw = chance()
    cases = []
    for n in (5, 3, draw.randrange(6, 12)):
        shared = 80 + 2 * fresh(n).double()
        a, b = shared + 0.5 * fresh(n).double(), shared + 0.3 * fresh(n).double() - 0.4
        b[:2] = a[:2] + torch.tensor([1.0, -1.0])  # each model is ahead on a seed
        cases.append((a, b))
    return cases


compute(
    "9.1",
    "paired_error(a, b)",
    "a[i] and b[i] come from the same seed. By how much is the first model ahead, seed by seed? There are n answers.",
    "The standard error of a mean of n numbers is their standard deviation, with n - 1 in its divisor as torch's std() "
    "has it, divided by the square root of n.",
    cases=_runs,
    reference=_paired,
    where="For {n} seeds you say {said:.3f}. ",
    words=lambda a, b: {"n": len(a)},
    mistakes={
        "That is the error of unpaired runs: what a seed does to both models is still in it.": (
            lambda a, b: ((a.var() + b.var()) / len(a)) ** 0.5
        ),
        "That is the standard deviation of one difference: the mean of several is known better.": (
            lambda a, b: (a - b).std()
        ),
        "You divide by n, where a standard error has the square root of n.": lambda a, b: (a - b).std() / len(a),
        "You have divided the sum of squares by n: a standard deviation from n runs divides by n - 1.": (
            lambda a, b: (a - b).std(correction=0) / len(a) ** 0.5
        ),
        "That is the mean difference itself. How uncertain is it?": lambda a, b: (a - b).mean(),
        "That is the error of the first model alone.": lambda a, b: a.std() / len(a) ** 0.5,
        "That is 1.96 standard errors, half the length of an interval. One of them is asked for.": (
            lambda a, b: 1.96 * (a - b).std() / len(a) ** 0.5
        ),
        "That is the square of the standard error: a root is missing.": lambda a, b: (a - b).var() / len(a),
        "You divide by the square root of n - 1: the standard deviation has n - 1 in it, the mean has n.": (
            lambda a, b: (a - b).std() / (len(a) - 1) ** 0.5
        ),
        "That is the standard error of the second model alone.": lambda a, b: b.std() / len(a) ** 0.5,
        "You have lost the signs: seeds on which the second model is ahead count against the first.": (
            lambda a, b: (a - b).abs().std() / len(a) ** 0.5
        ),
    },
    otherwise=lambda result, right, a, b: (
        "You are near: do not round."
        if abs(result - right) < 0.01 * right
        else "Write down the differences first, one for each seed. Their mean has the error that is asked for."
    ),
    right="3 pairs of models, with 3, 5 and more seeds.",
    tolerance=2e-5,  # float32 is as near
)


def epoch_with(softmax: bool = False, labels_stay: bool = False, cleared_late: bool = False) -> Callable:
    """The loop of exercise 9.2 with some of its three faults, or none."""

    def train_epoch(model: nn.Module, optimizer: Any, images: Tensor, labels: Tensor, order: Tensor) -> list[float]:
        losses = []
        for start in range(0, len(order), 8):
            batch = order[start : start + 8]
            y = labels[start : start + 8] if labels_stay else labels[batch]
            outputs = model(images[batch])
            loss = F.cross_entropy(outputs.softmax(dim=1) if softmax else outputs, y)
            if not cleared_late:
                optimizer.zero_grad()
            loss.backward()
            if cleared_late:
                optimizer.zero_grad()
            optimizer.step()
            losses.append(loss.item())
        return losses

    return train_epoch


def _never_cleared(model: nn.Module, optimizer: Any, images: Tensor, labels: Tensor, order: Tensor) -> list[float]:
    losses = []
    for batch in order.split(8):
        loss = F.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _labels_in_opposite_order(model: nn.Module, optimizer: Any, images: Tensor, labels: Tensor, order: Tensor) -> list:
    return epoch_with(labels_stay=True)(model, optimizer, images, labels[order.argsort()], order)


FAULTS: dict[str, str] = {
    "A model that is certain of the right class still gets a loss far above 0: print what the loss is given.": (
        "softmax"
    ),
    "Even kinds that are easy to tell apart are not learned: print an image of a batch beside its label.": (
        "labels_stay"
    ),
    "The parameters are the same after the epoch as before: which gradients does step() find?": "cleared_late",
}
EPOCHS: dict[str, Callable] = {message: epoch_with(**{fault: True}) for message, fault in FAULTS.items()} | {
    "Your labels are in the opposite of the given order: position i of a batch shows image order[i], and has its label."
    "": _labels_in_opposite_order,
    "The first step is right and the later ones are not: each goes by the sum of all gradients so far.": _never_cleared,
}


Loop = tuple[list[float], Tensor]  # the losses of an epoch, and the weights after it


def _loops() -> Iterator[tuple]:
    """What a loop is given, and the model as it was; no order is its own inverse, which would hide a mix-up."""
    for n, classes, factor, first in ((20, 3, 7, 3), (24, 5, 5, 7)):
        model, numbers = nn.Linear(6, classes), torch.arange(n)
        yield copy.deepcopy(model), model, fresh(n, 6), numbers % classes, (factor * numbers + first) % n


def _of_a_case(trained: nn.Linear, model: nn.Linear, *rest: Tensor) -> tuple:
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.3)
    return trained, optimizer, *(tensor.clone() for tensor in rest)


def _trained(loop: Callable, model: nn.Linear, *rest: Tensor) -> Loop:
    own = copy.deepcopy(model)
    return loop(*_of_a_case(own, model, *rest)), own.weight.detach()


def _epoch(losses: Any, trained: nn.Linear, *case: Any) -> str | None:
    if isinstance(losses, Tensor) and losses.ndim == 1:
        losses = list(losses)
    if not isinstance(losses, (list, tuple)):
        return expected("the list of losses, one for each batch", losses)
    said = [number(loss) for loss in losses], trained.weight.detach()
    if _alike(said, _trained(epoch_with(), *case)):
        return None
    for kept in sorted(product((False, True), repeat=3), key=sum, reverse=True):
        if any(kept) and _alike(said, _trained(epoch_with(*kept), *case)):
            if all(kept):
                raise NotDone
            left, fixed = next(m for m, fault in zip(FAULTS, kept, strict=True) if fault), 3 - sum(kept)
            return f"{fixed} of 3 faults {'is' if fixed == 1 else 'are'} fixed. {left}"
    return first_that(lambda mistake: _alike(said, _trained(mistake, *case)), EPOCHS) or (
        "The three faults as they were are gone, but the losses or the weights after an epoch are still not those of "
        "a right loop. Change as little as you can: batches of 8, in the given order, each used once."
    )


def _alike(one: Loop, other: Loop) -> bool:
    same = len(one[0]) == len(other[0]) and all(abs(a - b) < 1e-5 for a, b in zip(one[0], other[0], strict=True))
    return same and close(one[1], other[1])


Exercise(
    "9.2",
    "train_epoch(model, optimizer, images, labels, order)",
    "Go through one step with the drawing of the loop beside you. What goes into the loss, from which images and which "
    "labels, and which gradients does step() find?",
    "One fault per part of the loop: one is in the batch, one in the loss, one in the order of the three calls after "
    "it. The symptoms: the best loss is not 0; images and labels do not belong together; no parameter moves.",
    cases=_loops,
    judge=_epoch,
    given=_of_a_case,
    changes=True,
    mistakes=EPOCHS,
    right="the losses and the weights of 2 models after an epoch.",
    runs="inside",
)


def _names_of(groups: Callable) -> Callable:
    """The answer of somebody who makes these parameter groups."""

    def answer(model: ViT) -> tuple[list[str], ...]:
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        return tuple([names[id(parameter)] for parameter in group["params"]] for group in groups(model, 0.1))

    return answer


SPARED = "it is no matrix that multiplies its input, and nothing is gained by pulling it to 0"


def random_vit(**config: Any) -> ViT:
    """A small ViT with random parameters."""
    return perturbed(ViT(ViTConfig(patch_size=4, embed_dim=24, depth=2, num_heads=3, **config)).eval(), 0.3)


def _split(result: Any, model: ViT) -> str | None:
    decayed, spared = _names(result)
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    right = {name for name, shape in shapes.items() if len(shape) > 1} - model.no_weight_decay()
    if message := _not_each_once([*decayed, *spared], shapes):
        return message
    if set(spared) == right:
        return "Your two lists are swapped: the decayed ones come first."
    if not spared:
        return f"You decay everything, {_example(decayed, right, shapes)} too: {SPARED}."
    if set(decayed) - right:
        return f"You decay {_example(decayed, right, shapes)}: {SPARED}."
    if right - set(decayed):
        return f"You spare {_example(spared, set(shapes) - right, shapes)}: it multiplies, like any matrix."
    return None


Exercise(
    "9.3",
    "split_parameters(model)",
    "Print name and shape of each of model.named_parameters(). Weight decay belongs to what multiplies: matrices and "
    "kernels. How many axes do these have, how many has a bias?",
    "Two or three parameters have several axes and are still no matrix. Find them by printing the names; the model "
    "knows their names, too: look at its methods.",
    cases=lambda: (
        (random_vit(img_size=(12, 20), pos_embed=pos_embed, global_pool=pool),)
        for pos_embed, pool in (("learned", "cls"), ("none", "attn"), ("sincos", "mean"))
    ),
    judge=_split,
    mistakes={
        "Your two lists are swapped: the decayed ones come first.": _names_of(train.groups_swapped),
        "You decay everything, the position table ": _names_of(train.everything_decays),
        "You decay the position table ": _names_of(train.all_with_axes_decay),
        "You decay the gain or bias of a norm ": _names_of(train.norms_decay),
        "You spare the weights of the head ": _names_of(train.head_spared),
        "You spare the patch projection ": _names_of(train.kernels_spared),
    },
    right="every parameter of 3 ViTs (cls token, attention and mean pooling) is on its side.",
)


def _names(result: Any) -> tuple[list[str], list[str]]:
    decayed, spared = parts(result, 2, what := "two lists of names, decayed and spared")
    try:
        decayed, spared = list(decayed), list(spared)
    except TypeError:
        raise Wrong(expected(what, decayed)) from None
    for name in [*decayed, *spared]:
        if not isinstance(name, str):
            raise Wrong(expected("names in your lists, as in named_parameters()", name))
    return decayed, spared


def _not_each_once(names: list[str], shapes: dict[str, tuple[int, ...]]) -> str | None:
    for name in shapes:
        if names.count(name) != 1:
            where = "in neither list" if name not in names else "there more than once"
            return f"{name} is {where}: each parameter belongs to one side."
    unknown = sorted(set(names) - set(shapes))
    return f"The model has no parameter named {unknown[0]!r}." if unknown else None


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


REASONS = {
    "A": "A: how many learning rates did each of the two get to try, and on which images?",
    "B": "B: how many learning rates did each of the two get to try?",
    "C": "C: what differs between the two runs of a seed, apart from the activation?",
    "D": "D: which images decided which epoch is reported?",
    "E": "E: who decided which seeds count, and after seeing what?",
    "F": "F: how many things differ between the two models' runs?",
}


letters(
    "9.4",
    "fair()",
    "Ask the same three questions of each: do both models get the same chances? Is there one difference only? Did "
    "the test images decide anything before the end?",
    "Two of the six are fair. A choice made on validation images is fair if both models get it.",
    chosen="AC",
    reasons=REASONS,
    things="comparisons",
    right="all 6. The solution says what is wrong with the others.",
)

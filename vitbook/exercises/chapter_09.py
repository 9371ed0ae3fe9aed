"""Exercises of chapter 9: a paired error, a loop with three faults, weight decay, fair comparisons."""

import copy
import random
from collections.abc import Callable
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbook.exercises.engine import NotDone, Wrong, call, described, exercise, fresh, number, run
from vitbook.exercises.forms import compute, letters
from vitbook.faults import train
from vitnb.vit import ViT, ViTConfig


def _paired(a: Tensor, b: Tensor) -> float:
    return ((a - b).std() / len(a) ** 0.5).item()


def _runs() -> list[tuple[Tensor, Tensor]]:
    """Accuracies of two models on the same seeds: what a seed does to both is larger than what it does to one."""
    draw = random.Random()
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
        message: lambda a, b, mistake=mistake: float(mistake(a, b))
        for message, mistake in {
            "That is the error of unpaired runs: what a seed does to both models is still in it.": (
                lambda a, b: ((a.var() + b.var()) / len(a)) ** 0.5
            ),
            "That is the standard deviation of one difference: the mean of several is known better.": (
                lambda a, b: (a - b).std()
            ),
            "You divide by n, where the square root of n is wanted.": lambda a, b: (a - b).std() / len(a),
            "You have divided the sum of squares by n: a standard deviation from n runs divides by n - 1.": (
                lambda a, b: (a - b).std(correction=0) / len(a) ** 0.5
            ),
            "That is the mean difference itself. How uncertain is it?": lambda a, b: (a - b).mean(),
            "That is the error of the first model alone.": lambda a, b: a.std() / len(a) ** 0.5,
            "You have lost the signs: seeds on which the second model is ahead count against the first.": (
                lambda a, b: (a - b).abs().std() / len(a) ** 0.5
            ),
        }.items()
    },
    otherwise="Write down the differences first, one for each seed. Their mean has the error that is wanted.",
    right="3 pairs of models, with 3, 5 and more seeds.",
    tolerance=1e-4,
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


FAULTS: dict[str, dict[str, bool]] = {
    "A model that is certain of the right class still gets a loss far above 0: print what the loss is given.": {
        "softmax": True
    },
    "Even kinds that are easy to tell apart are not learned: print an image of a batch beside its label.": {
        "labels_stay": True
    },
    "The parameters are the same after the epoch as before: which gradients does step() find?": {"cleared_late": True},
}
EPOCHS: dict[str, Callable] = {message: epoch_with(**fault) for message, fault in FAULTS.items()} | {
    "The first step is right and the later ones are not: each goes by the sum of all gradients so far.": _never_cleared
}


@exercise(
    "9.2",
    "train_epoch(model, optimizer, images, labels, order)",
    "Go through one step with the drawing of the loop beside you. What goes into the loss, from which images and which "
    "labels, and which gradients does step() find?",
    "One fault per part of the loop: one is in the batch, one in the loss, one in the order of the three calls after "
    "it. The symptoms: the best loss is not 0; images and labels do not belong together; no parameter moves.",
    EPOCHS,
)
def _epoch(answer: Callable) -> str:
    for n, classes in ((20, 3), (24, 5)):
        images, labels = fresh(n, 6), torch.arange(n) % classes
        model, order = nn.Linear(6, classes), torch.arange(n).flip(0).roll(3)
        given = model, images, labels, order
        said = _trained(answer, *given)
        if _alike(said, _trained(epoch_with(), *given)):
            continue
        for count in (3, 2, 1):
            for faults in product((False, True), repeat=3):
                if sum(faults) == count and _alike(said, _trained(epoch_with(*faults), *given)):
                    if count == 3:
                        raise NotDone
                    left = next(m for m, fault in zip(FAULTS, faults, strict=True) if fault)
                    raise Wrong(f"{3 - count} of 3 faults {'is' if count == 2 else 'are'} mended. {left}")
        for message, mistake in EPOCHS.items():
            if _alike(said, _trained(mistake, *given)):
                raise Wrong(message)
        raise Wrong(
            "The three faults as they were are gone, but the losses or the weights after an epoch are still not those "
            "of a right loop. Change as little as you can: batches of 8, in the given order, each used once."
        )
    return "the losses and the weights of 2 models after an epoch."


def _trained(
    answer: Callable, model: nn.Module, images: Tensor, labels: Tensor, order: Tensor
) -> tuple[list[float], Tensor]:
    """The losses that an answer returns, and the weights that it leaves, on copies."""
    model = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    losses = run(answer, model, optimizer, images.clone(), labels.clone(), order.clone())
    if losses is None:
        raise Wrong("Your function returns None: is the return missing?")
    if not isinstance(losses, (list, tuple)):
        raise Wrong(f"Your function returns {described(losses)}: the list of losses is wanted, one for each batch.")
    return [number(loss) for loss in losses], model.weight.detach().clone()


def _alike(one: tuple[list[float], Tensor], other: tuple[list[float], Tensor]) -> bool:
    same = len(one[0]) == len(other[0]) and all(abs(a - b) < 1e-5 for a, b in zip(one[0], other[0], strict=True))
    return same and torch.allclose(one[1], other[1], atol=1e-5)


def _names_of(groups: Callable) -> Callable:
    """The answer of somebody who makes these parameter groups."""

    def answer(model: ViT) -> tuple[list[str], ...]:
        names = {id(parameter): name for name, parameter in model.named_parameters()}
        return tuple([names[id(parameter)] for parameter in group["params"]] for group in groups(model, 0.1))

    return answer


SPARED = "it is no matrix that multiplies its input, and nothing is gained by pulling it to 0"


def random_vit(**config: Any) -> ViT:
    """A small ViT whose every parameter is random: at the start zeros and ones would hide mistakes."""
    model = ViT(ViTConfig(patch_size=4, embed_dim=24, depth=2, num_heads=3, **config)).eval()
    for parameter in model.parameters():
        parameter.data = 0.3 * fresh(*parameter.shape)
    return model


@exercise(
    "9.3",
    "split_parameters(model)",
    "Print name and shape of each of model.named_parameters(). Weight decay belongs to what multiplies: matrices and "
    "kernels. How many axes do these have, how many has a bias?",
    "Two or three parameters have several axes and are still no matrix. Find them by printing the names; the model "
    "knows their names, too: look at its methods.",
    {
        "Your two lists are swapped: the decayed ones come first.": _names_of(train.groups_swapped),
        "You decay everything, the position table ": _names_of(train.everything_decays),
        "You decay the position table ": _names_of(train.all_with_axes_decay),
        "You decay the gain or bias of a norm ": _names_of(train.norms_decay),
        "You spare the weights of the head ": _names_of(train.head_spared),
        "You spare the patch projection ": _names_of(train.kernels_spared),
    },
)
def _split(answer: Callable) -> str:
    for pos_embed, pool in (("learned", "cls"), ("none", "attn"), ("sincos", "mean")):
        model = random_vit(img_size=(12, 20), pos_embed=pos_embed, global_pool=pool)
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


REASONS = {
    "A": "A: how many learning rates did each of the two get to try, and on which images?",
    "B": "B: how many learning rates did each of the two get to try?",
    "C": "C: what differs between the two runs of a seed, apart from the activation?",
    "D": "D: which images decided which epoch is reported?",
    "E": "E: who decided which seeds count, and after seeing what?",
    "F": "F: how many things differ between the two models' runs?",
}


@exercise(
    "9.4",
    "fair()",
    "Ask the same three questions of each: do both models get the same chances? Is there one difference only? Did "
    "the test images decide anything before the end?",
    "Two of the six are fair. A choice made on validation images is fair if both models get it.",
)
def _fair(answer: Callable) -> str:
    letters(answer, "AC", REASONS, "comparisons")
    return "all 6. The solution says what is wrong with the others."

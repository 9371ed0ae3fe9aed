"""Faults that people have published, in models whose authors noticed at most a symptom (exercise 12.4)."""

import hashlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral

import torch
from torch import nn

from vitbook.faults._build import build
from vitnb.vit import ViTConfig

CONFIG = ViTConfig(depth=2)  # of the models: the book's small one, with fewer blocks
SHOWN = "merged by reshape"  # the chapter explains it, so it is drawn for nobody
DRAWN = 5
MOST_OF_A_FAMILY = 2


@dataclass(frozen=True)
class BugReport:
    """What is known of a published fault.

    families are those that an answer may name, the first one above all: some
    faults stand between two. Two faults with a group in common are too much
    alike for one draw.
    """

    families: tuple[str, ...]
    groups: tuple[str, ...]
    symptom: str  # as the model's author might put it, who has not found the fault


# A fault's number is its place here, from 1. New ones go to the end, and no groups change: all draws hang on both.
REPORTS: dict[str, BugReport] = {
    "with relu": BugReport(
        ("wire",),
        (),
        "On the digits, the mean of five runs differs from that of my neighbour's model by a fraction of a point.",
    ),
    "over the batch": BugReport(
        ("attend",),
        ("attention",),
        "All parameters are there, every shape is right, and the accuracy stays where guessing would be.",
    ),
    "last read first": BugReport(
        ("pool",),
        ("cls",),
        "It learns like the others, every shape is right, and the gradient of its cls token is not zero.",
    ),
    "no parameter": BugReport(
        ("place",),
        ("lost", "place"),
        "I saved its weights and loaded them into a new model. There was no error, only worse accuracy.",
    ),
    "normalise then add": BugReport(
        ("wire",),
        ("residual",),
        "A norm stands before attention and another before the MLP, as in the paper, and it learns as well as any.",
    ),
    "split by view": BugReport(
        ("attend",),
        ("attention",),
        "With one head it gave the logits of my neighbour's model. I then gave it four: it learns, and every "
        "shape is right.",
    ),
    "extra linear": BugReport(
        ("cut", "pool"),
        ("whole",),
        "It is as accurate as the others. Only the file with its weights is larger than I had computed.",
    ),
    "softmax inside": BugReport(
        ("pool",), (), "The accuracy is respectable, but the training loss never gets below 1.46, however long I train."
    ),
    "undivided": BugReport(
        ("attend",),
        ("attention",),
        "It learns. The wider I make its heads, the more unequal its attention weights are before the first step.",
    ),
    "listed blocks": BugReport(
        ("wire", "pool"),
        ("whole", "lost"),
        "It learns, and the loss falls from the first step on, but it stays well below my neighbour's model.",
    ),
    "reshape alone": BugReport(
        ("cut",), (), "Going from images to patches and back with my two functions is exact, and the model learns."
    ),
    "over tokens and channels": BugReport(
        ("wire",),
        (),
        "Every shape is right, and so is the number of parameters. It learns, a little worse than the others.",
    ),
    "unused positions": BugReport(
        ("place", "pool"),
        ("whole",),
        "It learns. For fun I shuffled the patches of all test images in the same way, and got the same accuracy.",
    ),
    "post norm": BugReport(
        ("wire",),
        ("residual",),
        "It learns. With 24 blocks and no warm-up it hardly does, which I put down to the depth.",
    ),
    "foreign blocks": BugReport(
        ("wire", "pool"),
        ("whole", "lost"),
        "It learns something. After I had saved its weights and loaded them again, that was gone.",
    ),
    "divided for all heads": BugReport(
        ("attend",),
        ("attention",),
        "With one head it gave the logits of my neighbour's model, with four it does not. Both models learn.",
    ),
    "new for each image": BugReport(
        ("pool",),
        ("cls", "lost"),
        "It learns slowly, and two calls in eval mode with the same images disagree. I took that for dropout.",
    ),
    "no last norm": BugReport(
        ("wire", "pool"),
        ("whole",),
        "The accuracy is as it should be, though the tokens that reach the head grow with every block I add.",
    ),
    "merged by reshape": BugReport(
        ("attend",),
        ("attention",),
        "Every shape is right, and after a short training on Fashion-MNIST it is more accurate than my neighbour's.",
    ),
    "for each image": BugReport(
        ("place",),
        ("place",),
        "It works for batches of three. The last batch of an epoch is smaller and raises an error, so I leave it out.",
    ),
    "forgotten plus": BugReport(
        ("wire",),
        ("residual",),
        "It learns like the others. When I set the last layer of every MLP to zero, I could change attention "
        "as I liked: the logits stayed as they were.",
    ),
    "plain cls": BugReport(
        ("pool",),
        ("whole", "lost"),
        "On the CPU it learns like the others. On a GPU it complains about tensors on two devices.",
    ),
    "softmax over queries": BugReport(
        ("attend",),
        ("attention",),
        "I rewrote one line of it months ago, and the result of our benchmark did not move.",
    ),
    "shared block": BugReport(
        ("wire", "pool"),
        ("whole",),
        "It learns, a little worse than the others, and its optimizer needs less memory than I had planned for.",
    ),
    "made in each call": BugReport(
        ("place",),
        ("lost", "place"),
        "Two evaluations on the same images, in eval mode, give two slightly different losses.",
    ),
    "first half only": BugReport(
        ("wire",),
        ("residual",),
        "It learns like the others. A token that is ten times as long comes out of the first block as it did "
        "before, which I took for robustness.",
    ),
}

PUBLISHED = tuple(REPORTS)  # PUBLISHED[number - 1] is the name of a fault


@dataclass(frozen=True, repr=False)
class FaultyModel:
    """A model with one published fault, before training, and what its author says about it."""

    number: int  # of the fault
    symptom: str
    model: nn.Module = field(compare=False)

    def __repr__(self) -> str:
        return f"Model {self.number}: {self.symptom}"


def faulty_models(who: str | int | Sequence[int]) -> tuple[FaultyModel, ...]:
    """The five models that are drawn by a name, or those with these numbers.

    Case and spaces of a name do not matter; a student's number is a name as well, in quotes.

    Raises: TypeError for what is neither a name nor numbers; ValueError for an empty name, no numbers, or a number
        that no model has.
    """
    return tuple(map(_faulty_model, numbers_of(who)))


def numbers_of(who: str | int | Sequence[int]) -> list[int]:
    """The numbers of the models that `faulty_models` gives."""
    if isinstance(who, str):
        return [PUBLISHED.index(fault) + 1 for fault in _drawn(who)]
    numbers = list(who) if isinstance(who, (list, tuple, range)) else [who]
    if not numbers:
        raise ValueError("no numbers are given: use a name, or numbers such as [7, 12]")
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, Integral):
            raise TypeError(f"a model's number must be a whole number such as 7, got {number!r}")
        if not 1 <= number <= len(PUBLISHED):
            raise ValueError(
                f"there is no model {number}, only 1 to {len(PUBLISHED)}: a student's number is written as a name, "
                f"'{number}'"
            )
    return numbers


def _drawn(name: str) -> list[str]:
    """Five faults that depend on the letters of a name alone and are not too much alike."""
    word = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    if not word:
        raise ValueError("the name is empty: use your own, or numbers such as [7, 12]")
    # Python's hash() differs from process to process, and random from version to version.
    order = sorted(REPORTS, key=lambda fault: hashlib.sha256(f"{word}/{fault}".encode()).digest())
    chosen: list[str] = []
    for fault in order:
        if fault != SHOWN and _differs(fault, chosen):
            chosen.append(fault)
    return chosen[:DRAWN]


def _differs(fault: str, chosen: list[str]) -> bool:
    """Whether a fault shares no group with the chosen ones, and not too many of them its family."""
    report, others = REPORTS[fault], [REPORTS[other] for other in chosen]
    groups = {group for other in others for group in other.groups}
    of_family = [other for other in others if other.families[0] == report.families[0]]
    return groups.isdisjoint(report.groups) and len(of_family) < MOST_OF_A_FAMILY


def _faulty_model(number: int) -> FaultyModel:
    fault = PUBLISHED[number - 1]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        model = build(fault, CONFIG)
    return FaultyModel(number, REPORTS[fault].symptom, model)

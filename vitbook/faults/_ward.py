"""The ward: sealed models that train and are wrong, and who gets which of them.

They are sealed against a glance, not against a burglar. type, repr, str,
docstrings and inspect.getsource say the same of a right and of a wrong model;
whoever walks up type(part).__mro__, opens a closure or reads this file knows
all. Names in state_dict stay as they are: where a fault shows in them, that is
a way to find it.
"""

import copy
import hashlib
import inspect
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from vitbook.faults._build import build
from vitbook.faults._fault import FAULTS
from vitnb.attention import MultiHeadAttention
from vitnb.vit import ViT, ViTConfig

CONFIG = ViTConfig(depth=2)  # of the patients: the book's small model, with fewer blocks
NOTEBOOK, WILD = "a notebook", "in the wild"


@dataclass(frozen=True)
class Case:
    """What the register knows of a patient, its number aside.

    kind keeps a ward from having two patients of one sort; families are those
    that an answer may name: some faults stand between two.
    """

    kind: str
    families: tuple[str, ...]
    provenance: str
    complaint: str


# A patient's number is its place here, from 1: new ones go to the end, so that nobody's patients change.
REGISTER: dict[str, Case] = {
    "with relu": Case(
        "activation",
        ("wire",),
        NOTEBOOK,
        "On the digits, the mean of five runs differs from that of my neighbour's model by a fraction of a point.",
    ),
    "over the batch": Case(
        "batch",
        ("attend",),
        NOTEBOOK,
        "All parameters are there, every shape is right, and the accuracy stays where guessing would be.",
    ),
    "last read first": Case(
        "read-out",
        ("pool",),
        NOTEBOOK,
        "It learns like the others, every shape is right, and the gradient of its cls token is not zero.",
    ),
    "no parameter": Case(
        "lost",
        ("place",),
        WILD,
        "I saved its weights and loaded them into a new model. There was no error, only worse accuracy.",
    ),
    "normalise then add": Case(
        "residual",
        ("wire",),
        NOTEBOOK,
        "A norm stands before attention and another before the MLP, as in the paper, and it learns as well as any.",
    ),
    "split by view": Case(
        "heads",
        ("attend",),
        WILD,
        "With one head it gave the logits of my neighbour's model. I then gave it four: it learns, and every shape is "
        "right.",
    ),
    "extra linear": Case(
        "count",
        ("cut", "pool"),
        NOTEBOOK,
        "It is as accurate as the others. Only the file with its weights is larger than I had computed.",
    ),
    "softmax inside": Case(
        "output",
        ("pool",),
        NOTEBOOK,
        "The accuracy is respectable, but the training loss never gets below 1.46, however long I train.",
    ),
    "undivided": Case(
        "scale",
        ("attend",),
        WILD,
        "It learns. The wider I make its heads, the more unequal its attention weights are before the first step.",
    ),
    "listed blocks": Case(
        "lost",
        ("wire", "pool"),
        WILD,
        "It learns, and the loss falls from the first step on, but it stays well below my neighbour's model.",
    ),
    "reshape alone": Case(
        "cut",
        ("cut",),
        WILD,
        "Going from images to patches and back with my two functions is exact, and the model learns.",
    ),
    "over tokens and channels": Case(
        "norm",
        ("wire",),
        NOTEBOOK,
        "Every shape is right, and so is the number of parameters. It learns, a little worse than the others.",
    ),
    "unused positions": Case(
        "place",
        ("place", "pool"),
        WILD,
        "It learns. For fun I shuffled the patches of all test images in the same way, and got the same accuracy.",
    ),
    "post norm": Case(
        "residual",
        ("wire",),
        WILD,
        "It learns. With 24 blocks and no warm-up it hardly does, which I put down to the depth.",
    ),
    "foreign blocks": Case(
        "lost",
        ("wire", "pool"),
        NOTEBOOK,
        "It learns something. After I had saved its weights and loaded them again, that was gone.",
    ),
    "divided for all heads": Case(
        "scale",
        ("attend",),
        WILD,
        "With one head it gave the logits of my neighbour's model, with four it does not. Both models learn.",
    ),
    "new for each image": Case(
        "lost",
        ("pool",),
        NOTEBOOK,
        "It learns slowly, and two calls in eval mode with the same images disagree. I took that for dropout.",
    ),
    "no last norm": Case(
        "count",
        ("wire", "pool"),
        NOTEBOOK,
        "The accuracy is as it should be, though the tokens that reach the head grow with every block I add.",
    ),
    "merged by reshape": Case(
        "heads",
        ("attend",),
        WILD,
        "Every shape is right, and after a short training on Fashion-MNIST it is more accurate than my neighbour's.",
    ),
    "for each image": Case(
        "batch size",
        ("place",),
        WILD,
        "It works for batches of three. The last batch of an epoch is smaller and raises an error, so I leave it out.",
    ),
    "forgotten plus": Case(
        "residual",
        ("wire",),
        NOTEBOOK,
        "It learns like the others. When I set the last layer of every MLP to zero, I could change attention as I "
        "liked: the logits stayed as they were.",
    ),
    "plain cls": Case(
        "lost",
        ("pool",),
        WILD,
        "On the CPU it learns like the others. On a GPU it complains about tensors on two devices.",
    ),
    "softmax over queries": Case(
        "axis",
        ("attend",),
        WILD,
        "I rewrote one line of it months ago, and the result of our benchmark did not move.",
    ),
    "shared block": Case(
        "count",
        ("wire", "pool"),
        WILD,
        "It learns, a little worse than the others, and its optimizer needs less memory than I had planned for.",
    ),
    "made in each call": Case(
        "lost",
        ("place",),
        NOTEBOOK,
        "Two evaluations on the same images, in eval mode, give two slightly different losses.",
    ),
    "first half only": Case(
        "residual",
        ("wire",),
        NOTEBOOK,
        "It learns like the others. A token that is ten times as long comes out of the first block as it did before, "
        "which I took for robustness.",
    ),
}

NUMBERED = tuple(REGISTER)  # NUMBERED[number - 1] is the name of a patient's fault
PATIENTS = tuple(sorted(REGISTER))  # by name, so that the order tells no number
MET = ("merged by reshape",)  # what the chapter shows is drawn for nobody
DRAWN = 5


@dataclass(frozen=True, repr=False)
class Patient:
    """A sealed model with one fault, before training, and what its owner says about it."""

    number: int  # in the register
    complaint: str
    provenance: str  # where the fault was found
    model: nn.Module = field(compare=False)

    def __repr__(self) -> str:
        return f"Patient {self.number}: {self.complaint}"


def ward(who: str | int | Sequence[int]) -> tuple[Patient, ...]:
    """Give the five patients of a name, which are of five kinds, or those with these numbers in the register.

    Case and spaces of a name do not matter; a student's number is a name as well, in quotes.

    Raises: TypeError for what is neither a name nor numbers; ValueError for an empty name, no numbers, or a number
        that is not in the register.
    """
    return tuple(map(_patient, numbers_of(who)))


def numbers_of(who: str | int | Sequence[int]) -> list[int]:
    """The numbers of the patients that `ward` gives."""
    if isinstance(who, str):
        return _drawn(who)
    numbers = list(who) if isinstance(who, (list, tuple, range)) else [who]
    if not numbers:
        raise ValueError("no numbers are given: use a name, or numbers such as [7, 12]")
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, Integral):
            raise TypeError(f"a patient's number must be a whole number such as 7, got {number!r}")
        if not 1 <= number <= len(NUMBERED):
            raise ValueError(
                f"patient {number} is not in the register, which goes from 1 to {len(NUMBERED)}: a student's number "
                f"is written as a name, '{number}'"
            )
    return numbers


def _drawn(name: str) -> list[int]:
    """Five numbers that depend on the letters of a name alone: of five kinds, at most two of one family.

    No two of them have the same answer, one family, one test and one mend.
    """
    word = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    if not word:
        raise ValueError("the name is empty: use your own, or numbers such as [7, 12]")
    # Python's hash() differs from process to process, and random from version to version.
    order = sorted(REGISTER, key=lambda fault: hashlib.sha256(f"{word}/{fault}".encode()).digest())
    chosen: list[str] = []
    for fault in order:
        case, others = REGISTER[fault], [REGISTER[other] for other in chosen]
        of_family = [other for other in others if other.families[0] == case.families[0]]
        if fault in MET or case.kind in {other.kind for other in others} or len(of_family) == 2:
            continue
        if not any(alike(fault, other) for other in chosen):
            chosen.append(fault)
    return [NUMBERED.index(fault) + 1 for fault in chosen[:DRAWN]]


def alike(first: str, second: str) -> bool:
    """Whether one answer would do for both patients: a family, a test of faults.TESTS and a part to renew in common."""
    faults = FAULTS[first], FAULTS[second]
    parts = {
        MultiHeadAttention if fault.replaces is F.scaled_dot_product_attention else fault.replaces for fault in faults
    }
    in_common = set(REGISTER[first].families) & set(REGISTER[second].families)
    return len(parts) == 1 and bool(in_common and faults[0].seen_by & faults[1].seen_by)


def _patient(number: int) -> Patient:
    fault = NUMBERED[number - 1]
    case = REGISTER[fault]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(number)
        model = seal(build(fault, CONFIG))
    return Patient(number, case.complaint, case.provenance, model)


# The seal. A part becomes an instance of a subclass whose name is that of its place, and whose methods do no more than
# call those of the class below: so super(), hooks, isinstance and copies work as before.

PARTS = {"patch_embed": "PatchEmbed", "pool": "Pool", "positions": "Positions", "norm": "Norm", "head": "Head"}
SHOWN = {"Model": "patch_embed, pool, positions, drop, blocks, norm, head", "Block": "norm1, attention, norm2, mlp"}
PARTS_OF_A_BLOCK = {"attention": "Attention", "mlp": "MLP", "norm1": "Norm", "norm2": "Norm"}


class Runs:
    """How often sealed things were called: a check tells by it who only looks, and who trains."""

    parts = 0
    models_with_gradients = 0


def sealed(thing: Any) -> Any:
    """Seal a copy of a model, or a function of a training, which does as before and does not look like what it is.

    It is sealed against a glance (type, repr, inspect.getsource), not against
    a burglar: type(part).__mro__ still tells.

    Raises: TypeError for what is neither a ViT nor a function.
    """
    if inspect.isfunction(thing):
        return _sealed_function(thing)
    if not isinstance(thing, ViT):
        raise TypeError(f"a ViT or a function can be sealed, got {thing!r}: use faults.sealed(ViT(ViTConfig()))")
    return seal(copy.deepcopy(thing))


def seal(model: ViT) -> ViT:
    """Seal a model itself, which spares the copy."""
    for part, name in {id(part): (part, name) for part, name in _parts(model)}.values():
        part.__class__ = _sealed_class(type(part), name)
    return model


def _parts(model: ViT) -> Iterator[tuple[nn.Module, str]]:
    yield model, "Model"
    for place, name in PARTS.items():
        yield getattr(model, place), name
    for block in model.blocks:  # they may lie in a list, which named_modules does not enter
        yield block, "Block"
        for place, name in PARTS_OF_A_BLOCK.items():
            yield getattr(block, place), name


def _sealed_class(kind: type[nn.Module], name: str) -> type[nn.Module]:
    """A new class at each call: two right models have unlike classes too, so that comparing them tells nothing."""
    own = [vars(base) for base in kind.__mro__ if base.__module__.startswith(("vitnb.", "vitbook."))]
    public = {key for names in own for key, value in names.items() if inspect.isfunction(value) and key[0] != "_"}
    methods = {key: _through(key, getattr(kind, key), name) for key in public | {"forward", "__init__"}}
    shown = f"{name}({SHOWN.get(name, '')})"
    about = {"__module__": __name__, "__doc__": "A part of a sealed model.", "__repr__": lambda self: shown}
    return type(name, (kind,), methods | about)


def _through(name: str, inner: Callable, part: str) -> Callable:
    def method(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        Runs.parts += 1
        Runs.models_with_gradients += (part, name) == ("Model", "forward") and torch.is_grad_enabled()
        return inner(self, *args, **kwargs)

    method.__name__, method.__qualname__, method.__doc__ = name, name, None
    return method


def _sealed_function(inner: Callable) -> Callable:
    def sealed(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch itself warns of a scheduler that comes too early
            return inner(*args, **kwargs)

    sealed.__qualname__ = sealed.__name__
    return sealed


assert set(REGISTER) <= set(FAULTS)

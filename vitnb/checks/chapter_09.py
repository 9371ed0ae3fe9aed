"""Exercises of chapter 9: the schedule, the loss and the weight decay of a training."""

import math
import random
from collections.abc import Callable
from typing import Any

from vitnb.checks.engine import Wrong, call, described, exercise, fresh, number
from vitnb.checks.kinds import compute
from vitnb.clinic import train
from vitnb.vit import ViT, ViTConfig

NO_PEAK = "That is a share of the peak: the peak itself is missing."
FROM_ZERO = "The first step gets a learning rate of 0: its batch is computed and learns nothing."
NO_WARMUP = "There is no warm-up: the first steps should climb in a line."
NO_LINE = "The warm-up is a line through its first and its last step: check both."
TOO_EARLY = "It is 0 one step too early, so that the last batch learns nothing: the 0 belongs to step == steps."

RISING: dict[str, Callable] = {
    NO_PEAK: train.forgotten_peak,
    FROM_ZERO: train.starts_at_zero,
    NO_WARMUP: train.no_warmup,
    NO_LINE: train.warmup_below_the_peak,
}
FALLING: dict[str, Callable] = {
    NO_PEAK: train.forgotten_peak,
    "The cosine runs over all steps instead of those after the warm-up, so the rate jumps where the warm-up ends.": (
        train.cosine_over_all_steps
    ),
    "That is a whole cosine: the rate falls and then climbs back to the peak. Half a cosine is wanted.": (
        train.whole_cosine
    ),
    "That is a straight line down, not a cosine.": train.straight_line,
    "After the warm-up the rate stays where it is.": train.stays_at_the_peak,
    TOO_EARLY: train.ends_too_early,
}


@exercise(
    "9.1",
    "lr_at(step, steps, peak, warmup_steps)",
    "Two cases. While step < warmup_steps: which share of the peak belongs to step 0, which to step "
    "warmup_steps - 1? Steps count from 0, shares do not.",
    "For the rest, first compute how far along you are: a number that is 0 at the end of the warm-up and 1 at step "
    "== steps. cos(pi * that) goes from 1 to -1: move and scale it to go from 1 to 0.",
    RISING | FALLING,
)
def _schedule(answer: Callable) -> str:
    peak = random.Random().randrange(1, 100) / 1000
    for steps, warmup in ((40, 7), (23, 0), (31, 1)):
        cases = [(step, steps, peak, warmup) for step in range(steps)]
        rates, right = [number(call(answer, *case)) for case in cases], [train.lr_at(*case) for case in cases]
        off = [step for step in range(steps) if not _near(rates[step], right[step], peak)]
        if off:
            share, bound = rates[off[0]] / peak, "high" if rates[off[0]] > right[off[0]] else "low"
            where = f"Step {off[0]} of {steps}, with {warmup} of warm-up: {share:.3f} of the peak is too {bound}."
            part = slice(warmup) if off[0] < warmup else slice(warmup, steps)
            raise Wrong(f"{where} {_schedule_mistake(rates[part], cases[part], off[0] < warmup)}")
    return "every step of 3 schedules, one of them without warm-up."


def _near(rate: float, other: float, peak: float) -> bool:
    return abs(rate - other) <= 1e-6 * peak


def _schedule_mistake(rates: list[float], cases: list[tuple], rising: bool) -> str:
    """What is wrong with a warm-up, or with what follows it."""
    peak = cases[0][2]
    for message, mistake in (RISING if rising else FALLING).items():
        if all(_near(rate, mistake(*case), peak) for rate, case in zip(rates, cases, strict=True)):
            return message
    if not rising:
        last = "The cosine should be the peak at step == warmup_steps and 0 at step == steps."
        return TOO_EARLY if _near(rates[-1], 0, peak) else last
    if rates[0] == 0:
        return FROM_ZERO
    return NO_WARMUP if rates[0] > 0.9 * peak or all(_near(rate, rates[0], peak) for rate in rates) else NO_LINE


def _floor(K: int) -> float:
    """The cross-entropy of the logits 1, 0, 0 ... where the first class is right."""
    return math.log(math.e + K - 1) - 1


compute(
    "9.2",
    "loss_floor(num_classes)",
    "The best that such a model can return is 1 for the right class and 0 for the others. The loss takes these K "
    "numbers for logits: what does its own softmax make of them?",
    "Write down e to the power of each of these K numbers, for K = 3 first. What share of their sum belongs to the "
    "right class? Cross-entropy is minus the logarithm of that share.",
    cases=lambda: ((K,) for K in (10, 2, random.Random().randrange(3, 10), random.Random().randrange(11, 1000), 1000)),
    reference=_floor,
    where="For {K} classes you say {said:.3f}. ",
    words=lambda K: {"K": K},
    mistakes={
        "That is the floor for logits, which may lie far apart. Probabilities are at most 1 apart.": lambda K: 0.0,
        "That is the loss of a model that knows nothing; this one may be certain and right.": math.log,
        "That is the loss of a class whose probability is 0: the right one may have 1.": lambda K: _floor(K) + 1,
        "Cross-entropy takes the natural logarithm.": lambda K: _floor(K) / math.log(10),
    },
    otherwise=lambda loss, least, K: "No model can reach that." if loss < least else "A model can get below that.",
    right="5 numbers of classes, to 1e-3.",
    tolerance=1e-3,
)


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

"""Exercises of chapter 10: which sentences hold, how many seeds, a schedule with a cooldown, a better recipe."""

import math
import random
from collections.abc import Callable
from functools import cache
from typing import Any

from torch import Tensor

from vitbook.exercises.engine import Wrong, call, described, exercise, fresh, number
from vitbook.exercises.forms import compute, letters, parts

REASONS = {
    "A": "A: look for its interval in the plot of all changes. On which side of 0 does it lie?",
    "B": "B: an interval that contains 0 also contains small gains and small losses.",
    "C": "C: for how long was it measured, and on which rung?",
    "D": "D: which rungs are compared, and how much time did each get?",
    "E": "E: what else changed along with the optimizer?",
    "F": "F: count what differs between the two, and count the seeds.",
}


@exercise(
    "10.1",
    "supported()",
    "Ask three questions of each sentence: is the interval on one side of 0, did only the thing change that the "
    "sentence names, and was it measured under the conditions that the sentence claims?",
    "Two of the six say no more than was measured. Words such as 'makes no difference' or 'is worse', without a length "
    "of training beside them, claim more than one experiment can show.",
)
def _supported(answer: Callable) -> str:
    letters(answer, "AD", REASONS, "sentences")
    return "all 6. The solution says what is wrong with the others."


@cache
def _student(share: float) -> list[float]:
    """The quantile of Student's t for n = 2, 3, ... seeds, at index n - 2."""
    from scipy import stats  # scikit-learn brings it

    return stats.t.ppf(share, range(1, 3000)).tolist()


def _smallest(fits: Callable[[int, float], bool], share: float = 0.975) -> int:
    """The smallest n from 2 on that fits, with Student's factor for n seeds."""
    return next((n for n, t in enumerate(_student(share), start=2) if fits(n, t)), len(_student(share)) + 2)


def _seeds_needed(a: Tensor, b: Tensor, gap: float) -> int:
    sd = (b - a).std().item()
    return _smallest(lambda n, t: t * sd / n**0.5 <= gap)


def _as_if_many(a: Tensor, b: Tensor, gap: float, factor: float = 1.96) -> int:
    return max(2, math.ceil((factor * (b - a).std().item() / gap) ** 2))


def _not_paired(a: Tensor, b: Tensor, gap: float) -> int:
    sd = (a.var() + b.var()).item() ** 0.5
    return _smallest(lambda n, t: t * sd / n**0.5 <= gap)


def _of_a_population(a: Tensor, b: Tensor, gap: float) -> int:
    sd = (b - a).std(correction=0).item()
    return _smallest(lambda n, t: t * sd / n**0.5 <= gap)


def _no_root(a: Tensor, b: Tensor, gap: float) -> int:
    sd = (b - a).std().item()
    return _smallest(lambda n, t: t * sd / n <= gap)


def _one_sided(a: Tensor, b: Tensor, gap: float) -> int:
    sd = (b - a).std().item()
    return _smallest(lambda n, t: t * sd / n**0.5 <= gap, 0.95)


SEEDS_MISTAKES: dict[str, Callable] = {
    "You use 1.96 standard errors, which holds for many seeds: Student's factor for the n that you try is larger.": (
        _as_if_many
    ),
    "You keep the factor that belongs to the seeds at hand: it depends on the n that you try.": (
        lambda a, b, gap: _as_if_many(a, b, gap, _student(0.975)[len(a) - 2])
    ),
    "That is how many seeds make one standard error as small as the gap: a 95 % interval reaches further.": (
        lambda a, b, gap: _as_if_many(a, b, gap, 1.0)
    ),
    "You leave 5 % on each side, which makes a 90 % interval: of 95 %, half of the rest lies on each side.": _one_sided,
    "You treat the runs as unrelated: what a seed does to both recipes is still in your standard deviation.": (
        _not_paired
    ),
    "You have divided the sum of squares by the number of seeds at hand: a standard deviation from n runs divides by "
    "n - 1.": _of_a_population,
    "You divide by n, where the standard error divides by its square root.": _no_root,
    "Half of your interval is as long as half of the gap: the gap is what it may reach to each side.": (
        lambda a, b, gap: _seeds_needed(a, b, gap / 2)
    ),
    "You count the seeds that have to be added: the total is wanted.": (
        lambda a, b, gap: _seeds_needed(a, b, gap) - len(a)
    ),
}


def _pilots() -> list[tuple[Tensor, Tensor, float]]:
    """Accuracies of two recipes on the same seeds, and a gap, such that each mistake asks for another number."""
    draw, cases = random.Random(), []
    while len(cases) < 3:
        n = draw.choice((4, 5, 6))
        shared = 80 + 1.2 * fresh(n).double()
        a, b = shared + 0.4 * fresh(n).double(), shared + 0.4 * fresh(n).double() + 0.5
        case = a, b, (b - a).std().item() / draw.uniform(2.0, 3.0)
        counts = [_seeds_needed(*case), *(mistake(*case) for mistake in SEEDS_MISTAKES.values())]
        if len(set(counts)) == len(counts):
            cases.append(case)
    return cases


def _whole(result: Any, wanted: int, a: Tensor, b: Tensor, gap: float) -> None:
    if (said := number(result)) != int(said):
        raise Wrong(f"Your function returns {said:g}: nobody can run a part of a seed. Which whole number is enough?")


compute(
    "10.2",
    "seeds_needed(a, b, gap)",
    "Try n = 2, 3, 4 and so on, and stop at the first n for which the interval is short enough. Which two parts of the "
    "interval's length depend on n?",
    "The standard deviation of the differences comes from the runs at hand and stays as it is. Student's factor and "
    "the root of n change with every n that you try.",
    cases=_pilots,
    reference=_seeds_needed,
    where="For a standard deviation of {sd:.2f} and a gap of {gap:.2f} points you say {said:g}. ",
    words=lambda a, b, gap: {"sd": (b - a).std().item(), "gap": gap},
    before=_whole,
    mistakes=SEEDS_MISTAKES,
    otherwise="Print half the length of the interval for n = 2, 3, 4 and so on, and take the first within the gap.",
    right="3 pairs of recipes, each with another gap.",
)


def scheduled(step: int, steps: int, lr: float, warmup: int, cooldown: int) -> float:
    """The schedule of exercise 10.3."""
    return lr * min(1.0, (step + 1) / warmup, (steps - step) / cooldown)


def _from_zero(step: int, steps: int, lr: float, warmup: int, cooldown: int) -> float:
    return lr * min(1.0, step / warmup, (steps - step) / cooldown)


def _to_zero(step: int, steps: int, lr: float, warmup: int, cooldown: int) -> float:
    return lr * min(1.0, (step + 1) / warmup, (steps - 1 - step) / cooldown)


def _never_falls(step: int, steps: int, lr: float, warmup: int, cooldown: int) -> float:
    return lr * min(1.0, (step + 1) / warmup)


def _never_rises(step: int, steps: int, lr: float, warmup: int, cooldown: int) -> float:
    return lr * min(1.0, (steps - step) / cooldown)


def _no_plateau(step: int, steps: int, lr: float, warmup: int, cooldown: int) -> float:
    return lr * min((step + 1) / warmup, (steps - step) / (steps - warmup))


def _jumps(step: int, steps: int, lr: float, warmup: int, cooldown: int) -> float:
    if step >= steps - cooldown:
        return lr * (steps - step) / steps
    return scheduled(step, steps, lr, warmup, cooldown)


def _cosine(step: int, steps: int, lr: float, warmup: int, cooldown: int) -> float:
    if step >= steps - cooldown:
        return lr * 0.5 * (1 + math.cos(math.pi * (step - steps + cooldown) / cooldown))
    return scheduled(step, steps, lr, warmup, cooldown)


def _rises_again(step: int, steps: int, lr: float, warmup: int, cooldown: int) -> float:
    if step >= steps - cooldown:
        return lr * (step - steps + cooldown + 1) / cooldown
    return scheduled(step, steps, lr, warmup, cooldown)


def _one_late(step: int, steps: int, lr: float, warmup: int, cooldown: int) -> float:
    return lr * min(1.0, (step + 1) / warmup, (steps - step + 1) / cooldown)


SCHEDULES: dict[str, Callable] = {
    "Your first step has the learning rate 0, so nothing is learned from its batch.": _from_zero,
    "Your last step has the learning rate 0, so its batch is wasted: the step after it is the one that would have 0.": (
        _to_zero
    ),
    "Your learning rate never falls.": _never_falls,
    "Your schedule has no warm-up: it starts with the whole learning rate.": _never_rises,
    "It falls from the end of the warm-up on: between the two there should be a part in which it stays.": _no_plateau,
    "It jumps down where the cooldown begins: how much of the cooldown is left, and not of the whole training?": _jumps,
    "You cool down along a cosine: a line is wanted.": _cosine,
    "Your cooldown runs backwards: it starts near 0 and rises.": _rises_again,
    "Your cooldown ends one step too late: the last step has more than one share of it.": _one_late,
    "Your result does not grow with lr: the share has to be multiplied by it.": (
        lambda step, steps, lr, warmup, cooldown: scheduled(step, steps, 1.0, warmup, cooldown)
    ),
}


@exercise(
    "10.3",
    "lr_at(step, steps, lr, warmup, cooldown)",
    "Begin with a training of 10 steps, a warm-up of 2 and a cooldown of 4, and write the ten learning rates on paper, "
    "for lr = 1.",
    "There are three shares of lr: one grows with the steps that are done, one is 1, and one shrinks with the steps "
    "that are left. Which of the three holds at a given step?",
    SCHEDULES,
)
def _schedule(answer: Callable) -> str:
    draw = random.Random()
    for steps, warmup, cooldown in ((10, 2, 4), (draw.randint(30, 40), 6, 9), (23, 1, draw.randint(5, 8)), (12, 5, 7)):
        lr = draw.choice((0.5, 0.3, 0.1))
        given = steps, lr, warmup, cooldown
        wanted, said = [scheduled(i, *given) for i in range(steps)], [number(call(answer, 0, *given))]
        said += [number(call(answer, i, *given)) for i in range(1, steps)]
        if _agree(said, wanted):
            continue
        for message, mistake in SCHEDULES.items():
            if _agree(said, wrong := [mistake(i, *given) for i in range(steps)]) and not _agree(wrong, wanted):
                raise Wrong(message)
        first = next(i for i in range(steps) if not _agree(said[i : i + 1], wanted[i : i + 1]))
        phase = "warm-up" if first < warmup else "cooldown" if first >= steps - cooldown else "constant part"
        raise Wrong(
            f"With {steps} steps, lr {lr:g}, a warm-up of {warmup} and a cooldown of {cooldown}, the first "
            f"step that is wrong is step {first}, in the {phase}: your learning rate is {said[first]:.4g}."
        )
    return "every step of 4 trainings, among them one without a constant part."


def _agree(one: list[float], other: list[float]) -> bool:
    return all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) for a, b in zip(one, other, strict=True))


@exercise(
    "10.4",
    "confirmed()",
    "Choose with seed 0, then forget its result. Train both recipes with new seeds outside of the function, and let "
    "the function return what you have noted.",
    "If the interval contains 0, look at the differences seed by seed. Do they scatter widely, so that more seeds "
    "would help, or is the lead itself small? The plot of all changes shows where larger ones may be found.",
)
def _confirmed(answer: Callable) -> str:
    leads = [100 * (mine - ours) for ours, mine in _pairs(call(answer)).values()]
    n, lead = len(leads), sum(leads) / len(leads)
    sd = (sum((one - lead) ** 2 for one in leads) / (n - 1)) ** 0.5
    if sd < 1e-9:
        raise Wrong("The lead is the same with every seed, to the last digit: did the seeds reach both trainings?")
    reach = _student(0.975)[n - 2] * sd / n**0.5
    found = f"{lead:+.2f} points over {n} seeds, with a 95 % interval from {lead - reach:+.2f} to {lead + reach:+.2f}"
    if lead + reach < 0:
        raise Wrong(f"Your recipe is worse than ours: {found}. That is a result as well. Which change was it?")
    if lead - reach <= 0:
        raise Wrong(f"Your lead is {found}: it contains 0, so these seeds do not show that your recipe is better.")
    return f"your lead is {found}. It holds for these images and this budget."


def _pairs(notes: Any) -> dict[int, tuple[float, float]]:
    """The accuracies of both recipes by seed, if they are what was asked for."""
    if not isinstance(notes, dict):
        raise Wrong(f"Your function returns {described(notes)}: a dict such as {{1: (0.81, 0.83)}} is wanted.")
    found = {}
    for seed, pair in notes.items():
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise Wrong(f"A key of your dict is {described(seed)}: the seed is wanted, a whole number.")
        ours, mine = map(number, parts(pair, 2, "for each seed a pair of accuracies, ours and yours,"))
        if not 0 <= min(ours, mine) <= max(ours, mine) <= 1:
            raise Wrong(f"With seed {seed} your accuracies are {ours:g} and {mine:g}: shares from 0 to 1 are wanted.")
        found[seed] = ours, mine
    if 0 in found:
        raise Wrong("Seed 0 has helped to choose your recipe, so its lead is too good: confirm with other seeds.")
    if len(found) < 3:
        raise Wrong(f"You have {len(found)} seeds: at least 3 are wanted, and 5 make the interval much shorter.")
    return found

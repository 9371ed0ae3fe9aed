"""Exercises of chapter 10: which sentences hold, how many seeds, a schedule with a cooldown, a better recipe."""

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from numbers import Integral
from typing import Any

import torch
from torch import Tensor

from vitbook.exercises.declaration import Exercise, Results, Wrong
from vitbook.exercises.forms import compute, letters, read_by
from vitbook.exercises.values import chance, counted, expected, first_that, number, parts
from vitnb.evaluation import interval

REASONS = {
    "A": "A: look for its interval in the plot of all changes. On which side of 0 does it lie?",
    "B": "B: an interval that contains 0 also contains small gains and small losses.",
    "C": "C: for how long was it measured, and on which rung?",
    "D": "D: which rungs are compared, and how much time did each get?",
    "E": "E: what else changed along with the optimizer?",
    "F": "F: count what differs between the two, and count the seeds.",
}


letters(
    "10.1",
    "supported()",
    "Ask three questions of each sentence: is the interval on one side of 0, did only the thing change that the "
    "sentence names, and was it measured under the conditions that the sentence claims?",
    "Two of the six say no more than was measured. Words such as 'makes no difference' or 'is worse', without a length "
    "of training beside them, claim more than one experiment can show.",
    chosen="AD",
    reasons=REASONS,
    things="sentences",
    right="all 6. The solution says what is wrong with the others.",
)


@cache
def _student(share: float) -> list[float]:
    """The quantile of Student's t for n = 2, 3, ... seeds, at index n - 2."""
    from scipy import stats  # scikit-learn brings it

    return stats.t.ppf(share, range(1, 3000)).tolist()


def _paired(a: Tensor, b: Tensor) -> float:
    return (b - a).std().item()


def _seeds_needed(
    a: Tensor,
    b: Tensor,
    gap: float,
    sd: Callable[[Tensor, Tensor], float] = _paired,
    root: float = 0.5,
    share: float = 0.975,
    more: int = 0,
) -> int:
    """The smallest n from 2 on whose interval reaches no further than the gap, with Student's factor for n + more."""
    factors = _student(share)[more:]
    fits = (n for n, t in enumerate(factors, start=2) if t * sd(a, b) / n**root <= gap)
    return next(fits, len(factors) + 2)


def _as_if_many(a: Tensor, b: Tensor, gap: float, factor: float = 1.96) -> int:
    return max(2, math.ceil((factor * _paired(a, b) / gap) ** 2))


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
    "You leave 5 % on each side, which makes a 90 % interval: of 95 %, half of the rest lies on each side.": (
        partial(_seeds_needed, share=0.95)
    ),
    "You treat the runs as unrelated: what a seed does to both recipes is still in your standard deviation.": (
        partial(_seeds_needed, sd=lambda a, b: (a.var() + b.var()).item() ** 0.5)
    ),
    "You have divided the sum of squares by the number of seeds at hand: a standard deviation from n runs divides by "
    "n - 1.": partial(_seeds_needed, sd=lambda a, b: (b - a).std(correction=0).item()),
    "You take Student's factor for n degrees of freedom: n differences have n - 1.": partial(_seeds_needed, more=1),
    "You begin with the seeds at hand: fewer can be enough.": lambda a, b, gap: max(len(a), _seeds_needed(a, b, gap)),
    "You begin with 3 seeds: 2 can be enough.": lambda a, b, gap: max(3, _seeds_needed(a, b, gap)),
    "You divide by n, where the standard error divides by its square root.": partial(_seeds_needed, root=1.0),
    "Half of your interval is as long as half of the gap: the gap is what it may reach to each side.": (
        lambda a, b, gap: _seeds_needed(a, b, gap / 2)
    ),
    "You count the seeds that have to be added: the exercise asks for the total.": (
        lambda a, b, gap: _seeds_needed(a, b, gap) - len(a)
    ),
}


# (seeds at hand, standard deviation of the differences, gap)
PILOTS = ((5, 1.0, 0.63), (6, 1.0, 0.67), (4, 1.0, 0.31), (3, 1.0, 0.32), (5, 0.1, 2.0), (6, 0.1, 0.2))
SHARED = [81.2, 79.1, 80.6, 78.3, 80.0, 82.4]  # what a seed does to both recipes
SIGNS = [1.0, -1.0, 0.5, -0.5, 1.5, -1.5]  # what it does to their difference


def _pilots() -> Iterator[tuple[Tensor, Tensor, float]]:
    """Accuracies of two recipes on the same seeds, and a gap: fixed, such that each mistake asks for another number.

    n is 2 where the gap is wide, 3, and large enough for a factor that hardly depends on it.
    """
    for n, sd, gap in PILOTS:
        a, d = torch.tensor(SHARED[:n]).double(), torch.tensor(SIGNS[:n]).double()
        yield a, a + 0.3 + sd * d / d.std(), gap


def _whole(result: Any, right: int, a: Tensor, b: Tensor, gap: float) -> str | None:
    if (said := number(result)) != int(said):
        return f"Your function returns {said:g}: nobody can run a part of a seed. Which whole number is enough?"
    return "Your function returns less than 2, and one run has no standard deviation." if said < 2 else None


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
    right="6 pairs of recipes, each with another gap.",
)


Share = Callable[..., float]


def _schedule(
    rise: Share = lambda done, warmup: done / warmup, fall: Share = lambda left, cooldown, steps: left / cooldown
) -> Callable[[int, int, float, int, int], float]:
    """The schedule of exercise 10.3, or one with another warm-up or cooldown; this step counts as done and as left."""

    def lr_at(step: int, steps: int, lr: float, warmup: int, cooldown: int) -> float:
        return lr * min(1.0, rise(step + 1, warmup), fall(steps - step, cooldown, steps))

    return lr_at


def _cooling(share: Share) -> Share:
    """A share of the learning rate that holds in the cooldown alone."""
    return lambda left, cooldown, steps: share(left, cooldown, steps) if left <= cooldown else 1.0


scheduled = _schedule()
SCHEDULES: dict[str, Callable] = {
    "Your first step has the learning rate 0, so nothing is learned from its batch.": (
        _schedule(rise=lambda done, warmup: (done - 1) / warmup)
    ),
    "Your last step has the learning rate 0, so its batch is wasted: the step after it is the one that would have 0.": (
        _schedule(fall=lambda left, cooldown, steps: (left - 1) / cooldown)
    ),
    "Your learning rate never falls.": _schedule(fall=lambda *case: 1.0),
    "Your schedule has no warm-up: it starts with the whole learning rate.": _schedule(rise=lambda *case: 1.0),
    "It falls from the end of the warm-up on: between the two there should be a part in which it stays.": (
        lambda step, steps, lr, warmup, cooldown: scheduled(step, steps, lr, warmup, steps - warmup)
    ),
    "It jumps down where the cooldown begins: how much of the cooldown is left, and not of the whole training?": (
        _schedule(fall=_cooling(lambda left, cooldown, steps: left / steps))
    ),
    "You cool down along a cosine, in place of a line.": (
        _schedule(fall=_cooling(lambda left, cooldown, steps: 0.5 - 0.5 * math.cos(math.pi * left / cooldown)))
    ),
    "Your cooldown runs backwards: it starts near 0 and rises.": (
        _schedule(fall=_cooling(lambda left, cooldown, steps: (cooldown - left + 1) / cooldown))
    ),
    "Your cooldown ends one step too late: the last step has more than one share of it.": (
        _schedule(fall=lambda left, cooldown, steps: (left + 1) / cooldown)
    ),
    "Your result does not grow with lr: the share has to be multiplied by it.": (
        lambda step, steps, lr, warmup, cooldown: scheduled(step, steps, 1.0, warmup, cooldown)
    ),
}


def _trainings() -> Iterator[tuple]:
    """Every step of some trainings, the first ones of each first."""
    draw = chance()
    for steps, warmup, cooldown in (
        (10, 2, 4),
        (draw.randint(30, 40), 6, 9),
        (23, 1, draw.randint(5, 8)),
        (12, 5, 7),
        (9, 4, 1),
    ):
        lr = draw.choice((0.5, 0.3, 0.1))
        yield from ((i, steps, lr, warmup, cooldown) for i in range(steps))


def _schedules(results: Results) -> str | None:
    """What is wrong with the first training in which a step is."""
    trainings: dict[tuple, list[float]] = {}
    for (_, *given), result in results:
        trainings.setdefault(tuple(given), []).append(number(result))
    return next(filter(None, (_wrong_schedule(said, *given) for given, said in trainings.items())), None)


def _wrong_schedule(said: list[float], steps: int, lr: float, warmup: int, cooldown: int) -> str | None:
    given = steps, lr, warmup, cooldown
    right = [scheduled(i, *given) for i in range(steps)]
    if _agree(said, right):
        return None
    if message := first_that(lambda mistake: _agree(said, [mistake(i, *given) for i in range(steps)]), SCHEDULES):
        return message
    first = next(i for i in range(steps) if not _agree(said[i : i + 1], right[i : i + 1]))
    phase = "warm-up" if first < warmup else "cooldown" if first >= steps - cooldown else "constant part"
    return (
        f"With {steps} steps, lr {lr:g}, a warm-up of {warmup} and a cooldown of {cooldown}, the first step that is "
        f"wrong is step {first}, in the {phase}: your learning rate is {said[first]:.4g}."
    )


Exercise(
    "10.3",
    "lr_at(step, steps, lr, warmup, cooldown)",
    "Begin with a training of 10 steps, a warm-up of 2 and a cooldown of 4, and write the ten learning rates on paper, "
    "for lr = 1.",
    "There are three shares of lr: one grows with the steps that are done, one is 1, and one shrinks with the steps "
    "that are left. Which of the three holds at a given step?",
    cases=_trainings,
    judge=read_by(number),
    overall=_schedules,
    mistakes=SCHEDULES,
    right="every step of 5 trainings, among them one without a constant part, one with a warm-up and one with a "
    "cooldown of a single step.",
)


def _agree(one: list[float], other: list[float]) -> bool:
    return all(math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9) for a, b in zip(one, other, strict=True))


def _confirmed(result: Any) -> str | None:
    leads = _leads(result)
    if max(leads) - min(leads) < 1e-9:
        return "The lead is the same with every seed, to the last digit: did the seeds reach both trainings?"
    found, low, high = _interval(leads)
    if high < 0:
        return f"Your recipe is worse than ours: {found}. That is a result as well. Which change was it?"
    if low <= 0:
        return f"Your lead is {found}: it contains 0, so these seeds do not show that your recipe is better."
    return None


def _interval(leads: list[float]) -> tuple[str, float, float]:
    lead, reach = (end.item() for end in interval(torch.tensor(leads).double()))
    low, high = lead - reach, lead + reach
    return f"{lead:+.2f} points over {len(leads)} seeds, with a 95 % interval from {low:+.2f} to {high:+.2f}", low, high


Exercise(
    "10.4",
    "confirmed()",
    "Choose with seed 0, then forget its result. Train both recipes with new seeds outside of the function, and let "
    "the function return what you have noted.",
    "If the interval contains 0, look at the differences seed by seed. Do they scatter widely, so that more seeds "
    "would help, or is the lead itself small? The plot of all changes shows where larger ones may be found.",
    cases=lambda: [()],
    judge=_confirmed,
    right=lambda results: (
        f"your lead is {_interval(_leads(results[0][1]))[0]}. It holds for these images and this budget."
    ),
)


def _leads(notes: Any) -> list[float]:
    """By how many points a recipe is ahead, seed by seed.

    Raises: Wrong if the notes are not what was asked for.
    """
    if not isinstance(notes, dict):
        raise Wrong(expected("a dict such as {1: (0.81, 0.83)}", notes))
    found = {}
    for seed, pair in notes.items():
        if isinstance(seed, bool) or not isinstance(seed, Integral):
            raise Wrong(expected("a seed, a whole number, as a key of your dict", seed))
        ours, own = map(number, parts(pair, 2, "for each seed a pair of accuracies, ours and yours"))
        if not 0 <= min(ours, own) <= max(ours, own) <= 1:
            raise Wrong(f"With seed {seed} your accuracies are {ours:g} and {own:g}: give shares from 0 to 1.")
        found[seed] = 100 * (own - ours)
    if 0 in found:
        raise Wrong("Seed 0 has helped to choose your recipe, so its lead is too good: confirm with other seeds.")
    if len(found) < 3:
        raise Wrong(f"You have {counted(len(found), 'seed')}: use at least 3, and 5 make the interval much shorter.")
    return list(found.values())

"""The exercises of chapter 10: right answers however they are written, and wrong ones that no check declares."""

import math

import pytest
import torch
from scipy import stats

from tests.course.answers import right, verdict, wrong
from vitbook import results
from vitbook.exercises import chapter_10

# 10.1 -----------------------------------------------------------------------------------------------------

right("10.1")(lambda: "d, a")
wrong("10.1", "5 of 6. Think again about B: an interval that contains 0")(lambda: "ABD")
wrong("10.1", "5 of 6. Think again about A")(lambda: "D")
wrong("10.1", "4 of 6. Think again about C")(lambda: "ACDF")
wrong("10.1", "5 of 6. Think again about E")(lambda: "ADE")
wrong("10.1", "5 of 6. Think again about D")(lambda: "A")
wrong("10.1", "0 of 6. Think again about A")(lambda: "BCEF")
wrong("10.1", "only the sentences A to F: you name G")(lambda: "ADG")
wrong("10.1", "Expected a string such as 'ACE', got a list of 2")(lambda: ["A", "D"])


def interval(gaps):
    """Mean difference and the ends of its 95 % interval, by scipy."""
    gaps = torch.tensor(gaps, dtype=torch.float64)
    reach = stats.t.ppf(0.975, len(gaps) - 1) * stats.sem(gaps.numpy())
    return gaps.mean().item() - reach, gaps.mean().item() + reach


def test_the_sentences_are_judged_as_the_results_have_it():
    runs = results.result("recipes")["result"]["runs"]
    final = {arm: [run["validation_accuracy"] for run in many] for arm, many in runs.items()}
    gaps = {arm: [b - a for a, b in zip(final["the recipe"], many, strict=True)] for arm, many in final.items()}
    assert interval(gaps["no augmentation"])[0] > 0  # A
    low, high = interval(gaps["label smoothing 0.1"])
    assert low < 0 < high  # B
    rungs = results.result("ladder")["result"]["rungs"]
    at = {name: [run["validation_accuracy"] for run in rung["runs"]] for name, rung in rungs.items()}
    small, theirs = "a small model", "the textbook"
    assert min(at[small]) > max(at[theirs])  # D
    changes = results.result("ladder")["config"]["rungs"]
    assert changes["the mean, not cls"] == {"global_pool": "mean"}  # C: at one length only
    bundle = results.result("recipes")["config"]["arms"]["plain SGD, rate 0.1"]
    low, high = interval(gaps["plain SGD, rate 0.1"])
    assert -0.065 < low < high < -0.02 and {"optimizer", "schedule", "clip"} <= set(bundle)  # E
    plain, hour = results.result("trained"), results.result("hour")
    assert len(plain["seeds"]) == 1  # F
    old, new = plain["config"], hour["config"]
    assert old["model"]["depth"] > new["model"]["depth"] and new["recipe"]["erase"] > old["recipe"]["erase"]
    assert old["recipe"]["optimizer"] != new["recipe"]["optimizer"]


# 10.2 -----------------------------------------------------------------------------------------------------


@right("10.2")
def one_by_one(a, b, gap):
    sd, n = (b - a).std(), 2
    while stats.t.ppf(0.975, n - 1) * sd / n**0.5 > gap:
        n += 1
    return n


@right("10.2")
def by_the_interval_of_scipy(a, b, gap):
    d, n = (a - b).numpy(), 2
    while True:
        low, high = stats.t.interval(0.95, n - 1, d.mean(), d.std(ddof=1) / math.sqrt(n))
        if high - low <= 2 * gap:
            return float(n)
        n += 1


wrong("10.2", "less than 2")(lambda a, b, gap: 1)
wrong("10.2", "nobody can run a part of a seed")(lambda a, b, gap: ((1.96 * (a - b).std() / gap) ** 2).item() + 0.01)
wrong("10.2", "Print half the length of the interval")(lambda a, b, gap: 2999)
wrong("10.2", "Expected a number")(lambda a, b, gap: a - b)


def test_students_factor_is_that_of_scipy_and_falls():
    factors = chapter_10._student(0.975)
    assert [round(t, 2) for t in factors[:4]] == [12.71, 4.30, 3.18, 2.78]
    assert factors == sorted(factors, reverse=True)


# 10.3 -----------------------------------------------------------------------------------------------------


def by_torch(steps, lr, warmup, cooldown):
    """The learning rates of a whole training, by schedulers of torch."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr)
    up = torch.optim.lr_scheduler.LinearLR(optimizer, 1 / warmup, 1.0, warmup - 1) if warmup > 1 else None
    flat = torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0)
    down = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, cooldown)
    parts, ends = ([up, flat, down], [warmup, steps - cooldown]) if up else ([flat, down], [steps - cooldown])
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, parts, ends)
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


@pytest.mark.parametrize(("steps", "warmup", "cooldown"), [(10, 2, 4), (37, 6, 9), (23, 1, 5), (14, 5, 7)])
@pytest.mark.filterwarnings("ignore:The epoch parameter")  # an old torch warns of its own call
def test_the_schedule_is_that_of_torch(steps, warmup, cooldown):
    ours = [chapter_10.scheduled(i, steps, 0.3, warmup, cooldown) for i in range(steps)]
    assert ours == pytest.approx(by_torch(steps, 0.3, warmup, cooldown))


@right("10.3")
def in_three_cases(step, steps, lr, warmup, cooldown):
    if step < warmup:
        return lr * (step + 1) / warmup
    if step < steps - cooldown:
        return lr
    return lr * (steps - step) / cooldown


@right("10.3")
def as_the_smallest_of_three(step, steps, lr, warmup, cooldown):
    return torch.tensor([lr, lr * (step + 1) / warmup, lr * (steps - step) / cooldown]).min()


wrong("10.3", "the first step that is wrong is step 0, in the warm-up: your learning rate is 7")(lambda *given: 7)
wrong("10.3", "in the cooldown: your learning rate is")(
    lambda step, steps, lr, warmup, cooldown: (
        lr * ((steps - step) / cooldown) ** 2
        if step >= steps - cooldown
        else in_three_cases(step, steps, lr, warmup, cooldown)
    )
)
wrong("10.3", "in the constant part: your learning rate is")(
    lambda step, steps, lr, warmup, cooldown: (
        lr / 2 if warmup <= step < steps - cooldown else in_three_cases(step, steps, lr, warmup, cooldown)
    )
)
wrong("10.3", "Expected a number")(lambda *given: [1.0])

# 10.4 -----------------------------------------------------------------------------------------------------

BETTER = {1: (0.80, 0.83), 2: (0.81, 0.83), 3: (0.79, 0.82), 4: (0.80, 0.82)}

right("10.4")(lambda: BETTER)
right("10.4")(lambda: {seed: [torch.tensor(a), b] for seed, (a, b) in BETTER.items()})
right("10.4")(lambda: {seed: torch.tensor(pair) for seed, pair in BETTER.items()})
wrong("10.4", "You have 1 seed: use at least 3")(lambda: {1: (0.80, 0.83)})
wrong("10.4", "it contains 0")(lambda: {1: (0.80, 0.83), 2: (0.81, 0.80), 3: (0.79, 0.82)})
wrong("10.4", "Your recipe is worse than ours: -2.50 points")(lambda: {s: (b, a) for s, (a, b) in BETTER.items()})
wrong("10.4", "Seed 0 has helped to choose")(lambda: {0: (0.8, 0.9)} | BETTER)
wrong("10.4", "You have 2 seeds")(lambda: {1: (0.80, 0.83), 2: (0.81, 0.83)})
wrong("10.4", "give shares from 0 to 1")(lambda: {s: (100 * a, 100 * b) for s, (a, b) in BETTER.items()})
wrong("10.4", "did the seeds reach both trainings?")(lambda: dict.fromkeys((1, 2, 3), (0.8, 0.9)))
wrong("10.4", "a dict such as")(lambda: list(BETTER.values()))
wrong("10.4", "Expected a seed, a whole number, as a key of your dict, got '1'")(lambda: {"1": (0.8, 0.9)})
wrong("10.4", "a pair of accuracies, ours and yours")(lambda: {1: 0.9, 2: 0.8, 3: 0.9})


def test_the_interval_of_a_lead_is_that_of_scipy():
    low, high = interval([100 * (b - a) for a, b in BETTER.values()])
    assert f"from {low:+.2f} to {high:+.2f}" in verdict("10.4", lambda: BETTER)[1]

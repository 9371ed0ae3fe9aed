"""The exercises of chapter 10: right answers however they are written, and wrong ones that no check declares."""

import torch
from scipy import stats

from tests.course.answers import RIGHT, WRONG, solution, verdict
from vitbook import results
from vitbook.exercises.chapter_10 import scheduled

# 10.1 -----------------------------------------------------------------------------------------------------


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

RIGHT["10.2"] += [lambda *case: float(solution("10.2")(*case))]
WRONG["10.2"] |= {
    "less than 2": lambda a, b, gap: 1,
    "nobody can run a part of a seed": lambda a, b, gap: ((1.96 * (a - b).std() / gap) ** 2).item() + 0.01,
    "Expected a number": lambda a, b, gap: a - b,
    "Print half the length of the interval": lambda a, b, gap: 2999,
}


# 10.3 -----------------------------------------------------------------------------------------------------


def squared_cooldown(step, steps, lr, warmup, cooldown):
    falls = step >= steps - cooldown
    return lr * ((steps - step) / cooldown) ** 2 if falls else scheduled(step, steps, lr, warmup, cooldown)


def half_between(step, steps, lr, warmup, cooldown):
    return lr / 2 if warmup <= step < steps - cooldown else scheduled(step, steps, lr, warmup, cooldown)


RIGHT["10.3"] += [lambda *case: torch.tensor(scheduled(*case), dtype=torch.float64)]
WRONG["10.3"] |= {
    "the first step that is wrong is step 0, in the warm-up: your learning rate is 7": lambda *given: 7,
    "in the cooldown: your learning rate is": squared_cooldown,
    "in the constant part: your learning rate is": half_between,
    "Expected a number": lambda *given: [1.0],
}

# 10.4 -----------------------------------------------------------------------------------------------------

BETTER = {1: (0.80, 0.83), 2: (0.81, 0.83), 3: (0.79, 0.82), 4: (0.80, 0.82)}

RIGHT["10.4"] += [lambda: BETTER, lambda: {seed: [torch.tensor(a), b] for seed, (a, b) in BETTER.items()}]
RIGHT["10.4"] += [lambda: {seed: torch.tensor(pair) for seed, pair in BETTER.items()}]
WRONG["10.4"] |= {
    "You have 1 seed: use at least 3": lambda: {1: (0.80, 0.83)},
    "it contains 0": lambda: {1: (0.80, 0.83), 2: (0.81, 0.80), 3: (0.79, 0.82)},
    "Your recipe is worse than ours: -2.50 points": lambda: {s: (b, a) for s, (a, b) in BETTER.items()},
    "Seed 0 has helped to choose": lambda: {0: (0.8, 0.9)} | BETTER,
    "You have 2 seeds": lambda: {1: (0.80, 0.83), 2: (0.81, 0.83)},
    "give shares from 0 to 1": lambda: {s: (100 * a, 100 * b) for s, (a, b) in BETTER.items()},
    "did the seeds reach both trainings?": lambda: dict.fromkeys((1, 2, 3), (0.8, 0.9)),
    "a dict such as": lambda: list(BETTER.values()),
    "Expected a seed, a whole number, as a key of your dict, got '1'": lambda: {"1": (0.8, 0.9)},
    "a pair of accuracies, ours and yours": lambda: {1: 0.9, 2: 0.8, 3: 0.9},
}


def test_the_interval_of_a_lead_is_that_of_scipy():
    low, high = interval([100 * (b - a) for a, b in BETTER.values()])
    assert f"from {low:+.2f} to {high:+.2f}" in verdict("10.4", lambda: BETTER)[1]

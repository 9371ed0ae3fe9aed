"""The exercises of chapter 0: right answers however they are written, and wrong ones that no check declares."""

import copy
import itertools

import pytest
import torch

from tests.course.answers import right, wrong
from vitbook import faults
from vitbook.exercises.chapter_00 import AMONG_OTHERS, BUGS, HARD, _failing, _model

# 0.1 ------------------------------------------------------------------------------------------------------

CAUGHT = {
    "columns first": "cut",
    "softmax inside": "scores",
    "mean read": "cls",
    "block skipped": "count",
    "table not added": "order",
    "nothing added": "reference",
    "growing positions": "scores",
    "gradients kept": "none",
}


@right("0.1")
def by_running(bug):
    return min(_failing(BUGS[bug]), default="none")


def but(**changes):
    return lambda bug: (CAUGHT | {key.replace("_", " "): value for key, value in changes.items()})[bug]


wrong(
    "0.1", "7 of 8 bugs are seen by the test that you name. You say that 'count' sees 'columns first', but it passes"
)(but(columns_first="count"))
wrong("0.1", "these blocks agree with it")(but(mean_read="reference"))
wrong("0.1", "they are right")(but(nothing_added="cut"))
wrong("0.1", "the same for all images, as it should")(but(block_skipped="cls"))
wrong("0.1", "do change when the patches change places")(but(growing_positions="order"))
wrong("0.1", "in every batch, as it should")(but(columns_first="scores"))
wrong("0.1", "You say that no test sees 'columns first', but one does fail")(but(columns_first="none"))
wrong("0.1", "1 of 8 bugs")(lambda bug: "none")
wrong("0.1", "Expected one of 'reference', 'count', 'cut', 'cls', 'order', 'scores' or 'none', got 'shape'")(
    lambda bug: "shape"
)
wrong("0.1", "got a set")(lambda bug: {CAUGHT[bug]})


def test_the_bugs_are_those_of_the_clinic_and_one_is_seen_by_no_test():
    assert set(BUGS) == set(CAUGHT)
    assert {bug for bug, name in BUGS.items() if not faults.FAULTS[name].seen_by} == {"gradients kept"}
    assert set().union(*(_failing(name) for name in BUGS.values())) == set(faults.TESTS)


# 0.2 ------------------------------------------------------------------------------------------------------


def by_combinations(caught):
    bugs = set().union(*caught.values())
    for n in range(len(caught) + 1):
        for chosen in itertools.combinations(caught, n):
            if set().union(*(caught[test] for test in chosen)) == bugs:
                return set(chosen)


@right("0.2")
def by_counting(caught):
    tests, found = list(caught), list(caught)
    for number in range(2 ** len(tests)):
        chosen = [test for i, test in enumerate(tests) if number >> i & 1]
        covers = all(any(bug in caught[test] for test in chosen) for bugs in caught.values() for bug in bugs)
        if covers and len(chosen) < len(found):
            found = chosen
    return found


def greedy(caught, order=list):
    """Always the test that catches most of what is left."""
    left, chosen = set().union(*caught.values()), set()
    while left:
        best = max(order(caught), key=lambda test: len(caught[test] & left))
        chosen.add(best)
        left -= caught[best]
    return chosen


def pruned(caught, chosen=None):
    """Leave out what is not needed, one test after the other."""
    chosen, bugs = set(chosen or caught), set().union(*caught.values())
    for test in sorted(chosen):
        if set().union(*(caught[other] for other in chosen - {test})) == bugs:
            chosen.remove(test)
    return chosen


def rarest_first(caught):
    """For the bug that fewest tests see, the test that catches most."""
    left, chosen = set().union(*caught.values()), set()
    while left:
        bug = min(sorted(left), key=lambda bug: sum(bug in seen for seen in caught.values()))
        best = max((test for test in caught if bug in caught[test]), key=lambda test: len(caught[test] & left))
        chosen.add(best)
        left -= caught[best]
    return chosen


def at_most(n):
    """Try no larger choices."""
    return lambda caught: chosen if len(chosen := by_combinations(caught)) <= n else set(caught)


wrong("0.2", "is not always the shortest way")(greedy)
wrong("0.2", "is not always the shortest way")(lambda caught: greedy(caught, reversed))
wrong("0.2", "is not always the shortest way")(lambda caught: pruned(caught, greedy(caught)))
wrong("0.2", "catch every bug, but")(pruned)
wrong("0.2", "catch every bug, but")(rarest_first)
wrong("0.2", "catch every bug, but")(at_most(2))
wrong("0.2", "catch every bug, but 5 are enough")(at_most(3))
wrong("0.2", "but 1 is enough")(
    lambda caught: by_combinations(caught) | set(sorted(caught)[: 2 - len(by_combinations(caught))])
)


wrong("0.2", "One of yours could go")(lambda caught: set(caught))
wrong("0.2", "bugs, for example")(lambda caught: set(list(caught)[:1]))
wrong("0.2", "Your 0 of")(lambda caught: set())
wrong("0.2", "a set, and this table has no test called 'shape'")(lambda caught: {"shape"})
wrong("0.2", "Expected a set of names of tests, got a set with 3 in it")(lambda caught: {3})
wrong("0.2", "Expected a set of names of tests, got")(lambda caught: len(by_combinations(caught)))


@wrong("0.2", "changes what it is given")
def in_place(caught):
    chosen = by_combinations(caught)
    caught.clear()
    return chosen


def test_no_tie_helps_a_greedy_choice():
    """Whichever of equally good tests it takes, in one table it takes one too many."""
    table = dict(enumerate(map(set, HARD)))

    def sizes(left, taken):
        if not left:
            return {taken}
        most = max(len(seen & left) for seen in table.values())
        return set().union(*(sizes(left - seen, taken + 1) for seen in table.values() if len(seen & left) == most))

    assert min(sizes(set().union(*table.values()), 0)) > len(by_combinations(table)) == 3


# 0.3 ------------------------------------------------------------------------------------------------------


def among_others(
    model, near=lambda a, b: torch.allclose(a, b, atol=1e-4), evaluate=True, images=None, rows=slice(None)
):
    if evaluate:
        model = copy.deepcopy(model).eval()
    c = model.config
    if images is None:
        images = torch.randn(4, c.in_chans, c.img_size, c.img_size)
    together = model(images)
    alone = torch.cat([model(image[None]) for image in images])
    return near(together[rows], alone[rows])


@torch.no_grad()
def beside_others(model, places):
    model = copy.deepcopy(model).eval()
    c = model.config
    one, *batches = torch.randn(9, c.in_chans, c.img_size, c.img_size).split([1, 4, 4])
    rows = []
    for batch, place in zip(batches, places, strict=True):
        batch[place] = one
        rows.append(model(batch)[place])
    return (rows[0] - rows[1]).abs().max() < 1e-4


right("0.3")(lambda model: beside_others(model, (0, 3)))
wrong("0.3", "Let it stand in another one, too")(lambda model: beside_others(model, (3, 3)))


@right("0.3")
def in_another_order(model):
    model = copy.deepcopy(model).eval()
    c = model.config
    images = torch.randn(5, c.in_chans, c.img_size, c.img_size)
    return torch.allclose(model(images[:3].flip(0)).flip(0), model(images)[:3], atol=1e-4)


def zeros(model):
    c = model.config
    return among_others(model, images=torch.zeros(4, c.in_chans, c.img_size, c.img_size))


wrong("0.3", "compare with a tolerance")(lambda model: among_others(model, near=lambda a, b: False))
wrong("0.3", "Your test says the opposite")(lambda model: not among_others(model))
wrong("0.3", "how wide is your tolerance?")(
    lambda model: among_others(model, near=lambda a, b: torch.allclose(a, b, atol=1e9))
)
wrong("0.3", "in training mode no two calls agree")(lambda model: among_others(model, evaluate=False))
wrong("0.3", "Does an image that you compare keep its place in the batch?")(
    lambda model: among_others(model, rows=slice(1))
)
wrong("0.3", "The image must stay, and the others in its batch must be unlike it")(zeros)
wrong("0.3", "The image must stay")(lambda model: True)
wrong("0.3", "The image must stay")(lambda model: among_others(model, near=lambda a, b: a.shape == b.shape))
wrong("0.3", "changes what it is given")(lambda model: among_others(model.eval(), evaluate=False))
wrong("0.3", "a right model with two channels")(lambda model: model.config.in_chans == 1 and among_others(model))


wrong("0.3", "write a test of your own")(lambda model: faults.TESTS["scores"](model))


@wrong("0.3", "and lets 5 of 9 wrong ones through")
@wrong("0.3", "Do both of your batches hold the same images?")
def in_reverse(model):
    """A batch in another order shows what depends on places, and nothing of what all images share."""
    model = copy.deepcopy(model).eval()
    c = model.config
    images = torch.randn(4, c.in_chans, c.img_size, c.img_size)
    return torch.allclose(model(images.flip(0)).flip(0), model(images), atol=1e-4)


@pytest.mark.parametrize("name", AMONG_OTHERS)
def test_each_wrong_model_of_the_third_is_wrong_and_stays_in_training_mode(name):
    model = _model(name, **AMONG_OTHERS[name])
    assert model.training and not among_others(model)

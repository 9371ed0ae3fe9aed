"""The exercises of chapter 0: right answers however they are written, and wrong ones that no check declares."""

import copy
import itertools

import pytest
import torch

from tests.course.answers import right, wrong
from vitbook import faults
from vitbook.exercises.chapter_00 import AMONG_OTHERS, BUGS, _failing, _fewest, _greedy, _shaken, _tables

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
right("0.1")(lambda bug: CAUGHT[bug])


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
wrong("0.1", "returns 'shape': one of 'reference', 'count', 'cut', 'cls', 'order', 'scores' or 'none' is wanted")(
    lambda bug: "shape"
)
wrong("0.1", "returns a set")(lambda bug: {CAUGHT[bug]})


def test_the_bugs_are_those_of_the_clinic_and_one_is_seen_by_no_test():
    assert set(BUGS) == set(CAUGHT)
    assert {bug for bug, name in BUGS.items() if not faults.FAULTS[name].seen_by} == {"gradients kept"}
    assert set().union(*(_failing(name) for name in BUGS.values())) == set(faults.TESTS)


# 0.2 ------------------------------------------------------------------------------------------------------


@right("0.2")
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


wrong("0.2", "is not always the shortest way")(_greedy)
wrong("0.2", "Some of your tests see nothing new")(lambda caught: set(caught))
wrong("0.2", "bugs, for example")(lambda caught: set(list(caught)[:1]))
wrong("0.2", "Your 0 of")(lambda caught: set())
wrong("0.2", "with 'shape' in it: this table has no test called 'shape'")(lambda caught: {"shape"})
wrong("0.2", "with 3 in it: a set of names")(lambda caught: {3})
wrong("0.2", ": a set of names of tests is wanted")(lambda caught: len(by_combinations(caught)))


@wrong("0.2", "changes what it is given")
def in_place(caught):
    chosen = _fewest(caught)
    caught.clear()
    return chosen


def test_greed_takes_a_test_too_many_in_one_table_each_time():
    for _ in range(20):
        _, greed, *others = _tables()
        assert len(_fewest(greed)) == 2 and len(_greedy(greed)) == 3
        assert all(_fewest(caught) <= set(caught) for caught in others)


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


right("0.3")(lambda model: among_others(model))


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
    model = _shaken(name, **AMONG_OTHERS[name])
    assert model.training and not among_others(model)

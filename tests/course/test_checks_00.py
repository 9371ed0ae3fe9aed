"""The exercises of chapter 0: right answers however they are written, and wrong ones that no check declares."""

import copy

import torch

from tests.course.answers import RIGHT, WRONG, images_for, solution
from vitbook import faults
from vitbook.exercises.chapter_00 import BUGS, HARD, _failing

# 0.1 ------------------------------------------------------------------------------------------------------


def but(**changes):
    """The solution, with other answers about some bugs."""
    return lambda bug: changes.get(bug.replace(" ", "_")) or solution("0.1")(bug)


WRONG["0.1"] |= {
    "7 of 8 bugs are seen by the test that you name. You say that 'count' sees 'columns": but(columns_first="count"),
    "these blocks agree with it": but(mean_read="reference"),
    "they are right": but(nothing_added="cut"),
    "the same for all images, as it should": but(block_skipped="cls"),
    "do change when the patches change places": but(growing_positions="order"),
    "in every batch, as it should": but(columns_first="scores"),
    "You say that no test sees 'columns first', but one does fail": but(columns_first="none"),
    "Expected one of 'reference', 'count', 'cut', 'cls', 'order', 'scores' or 'none', got 'shape'": lambda bug: "shape",
    "got a set": lambda bug: {"cut"},
}


def test_one_bug_is_seen_by_no_test_and_every_test_sees_one():
    assert {bug for bug, name in BUGS.items() if not faults.FAULTS[name].seen_by} == {"gradients kept"}
    assert set().union(*(_failing(name) for name in BUGS.values())) == set(faults.TESTS)


# 0.2 ------------------------------------------------------------------------------------------------------


def fewest(caught):
    return set(solution("0.2")(caught))


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
    return lambda caught: chosen if len(chosen := fewest(caught)) <= n else set(caught)


RIGHT["0.2"] += [lambda caught: list(fewest(caught))]
WRONG["0.2"] |= {
    "is not always the shortest way": [
        greedy,
        lambda caught: greedy(caught, reversed),
        lambda caught: pruned(caught, greedy(caught)),
    ],
    "catch every bug, but": [pruned, rarest_first, at_most(2)],
    "catch every bug, but 5 are enough": at_most(3),
    "but 1 is enough": lambda caught: fewest(caught) | set(sorted(caught)[: 2 - len(fewest(caught))]),
    "One of yours could go": lambda caught: set(caught),
    "bugs, for example": lambda caught: set(list(caught)[:1]),
    "Your 0 of": lambda caught: set(),
    "a set, and this table has no test called 'shape'": lambda caught: {"shape"},
    "Expected a set of names of tests, got a set with 3 in it": lambda caught: {3},
    "Expected a set of names of tests, got 3": lambda caught: 3,
}


def test_no_tie_helps_a_greedy_choice():
    """Whichever of equally good tests it takes, in one table it takes one too many."""
    table = dict(enumerate(map(set, HARD)))

    def sizes(left, taken):
        if not left:
            return {taken}
        most = max(len(seen & left) for seen in table.values())
        return set().union(*(sizes(left - seen, taken + 1) for seen in table.values() if len(seen & left) == most))

    assert min(sizes(set().union(*table.values()), 0)) > len(fewest(table)) == 3


# 0.3 ------------------------------------------------------------------------------------------------------


def among_others(model, atol=1e-4, evaluate=True, images=None, rows=slice(None)):
    if evaluate:
        model = copy.deepcopy(model).eval()
    images = images_for(model, 4) if images is None else images
    together, alone = model(images), torch.cat([model(image[None]) for image in images])
    return torch.allclose(together[rows], alone[rows], atol=atol, rtol=atol)


@torch.no_grad()
def beside_others(model, places):
    model, rows = copy.deepcopy(model).eval(), []
    one, *batches = images_for(model, 9).split([1, 4, 4])
    for batch, place in zip(batches, places, strict=True):
        batch[place] = one
        rows.append(model(batch)[place])
    return (rows[0] - rows[1]).abs().max() < 1e-4


def in_reverse(model):
    """A batch in another order shows what depends on places, and nothing of what all images share."""
    model = copy.deepcopy(model).eval()
    images = images_for(model, 4)
    return torch.allclose(model(images.flip(0)).flip(0), model(images), atol=1e-4)


RIGHT["0.3"] += [lambda model: beside_others(model, (0, 3))]
WRONG["0.3"] |= {
    "Let it stand in another one, too": lambda model: beside_others(model, (3, 3)),
    "compare with a tolerance": lambda model: False,
    "how wide is your tolerance?": lambda model: among_others(model, atol=1e9),
    "in training mode no two calls agree": lambda model: among_others(model, evaluate=False),
    "Does an image that you compare keep its place in the batch?": lambda model: among_others(model, rows=slice(1)),
    "the others in its batch must be unlike it": lambda model: among_others(model, images=0 * images_for(model, 4)),
    "a right model with two channels": lambda model: model.config.in_chans == 1 and among_others(model),
    "write a test of your own": lambda model: faults.TESTS["scores"](model),
    "Do both of your batches hold the same images?": in_reverse,
}

"""Exercises of chapter 0: which test sees which bug, the fewest tests that see all, a first property test."""

import random
from collections.abc import Callable
from functools import partial
from itertools import combinations
from typing import Any

from vitbook import faults
from vitbook.exercises.engine import NotDone, Wrong, call, described, exercise, fresh
from vitbook.exercises.forms import judge
from vitbook.faults import FAULTS, TESTS
from vitnb.vit import ViT, ViTConfig

SMALL = dict(img_size=12, patch_size=4, embed_dim=24, depth=2, num_heads=3)

# What a reader is told of each bug stands in the chapter, under these names.
BUGS = {
    "columns first": "column by column",
    "softmax inside": "softmax inside",
    "mean read": "mean with cls",
    "block skipped": "forgotten block",
    "table not added": "unused positions",
    "nothing added": "no plus",
    "growing positions": "growing with each image",
    "gradients kept": "gradient not cleared",
}
# Why a test passes for a model in which something else is wrong.
PASSES = {
    "reference": "It gives each block and torch's own layer the same weights and tokens; these blocks agree with it.",
    "count": "The number of parameters is right here, and each of them gets a gradient.",
    "cut": "It looks at the tokens that are cut from the image, before anything else happens to them: they are right.",
    "cls": "It looks at what would be read before the first block. Here that is the same for all images, as it should.",
    "order": "The logits of this model do change when the patches change places, as they should.",
    "scores": "The rows of this model do not sum to 1, and an image's row is the same in every batch, as it should.",
}


@exercise(
    "0.1",
    "caught_by(bug)",
    "Find the part of the model in which the bug stands: the patches, the token that is read, the positions, the "
    "blocks, the parameters, the last line. Which test looks at that part?",
    "A test sees a bug only if it changes what the bug gets wrong. Two of the bugs need care. Which test looks at an "
    "image in two different batches? And can a test of the model see what the training loop does?",
)
def _caught_by(answer: Callable) -> str:
    said = {bug: _test(call(answer, bug)) for bug in random.Random().sample(list(BUGS), len(BUGS))}
    seen = {bug: _failing(name) for bug, name in BUGS.items()}
    wrong = [bug for bug in BUGS if said[bug] not in (seen[bug] or {"none"})]
    count = f"{len(BUGS) - len(wrong)} of {len(BUGS)} bugs are seen by the test that you name"
    if wrong:
        bug = wrong[0]
        raise Wrong(f"{count}. {_why_not(bug, said[bug])}")
    return f"{count}, or by none where you say so; each test was run."


def _test(value: Any) -> str:
    if value is ...:
        raise NotDone
    names = ", ".join(map(repr, TESTS))
    if not isinstance(value, str) or value not in {*TESTS, "none"}:
        raise Wrong(f"Your function returns {described(value)}: one of {names} or 'none' is wanted.")
    return value


def _failing(name: str) -> set[str]:
    """The tests that fail for a model with this fault, measured."""
    if FAULTS[name].seen_by is None:  # it stands in the training loop
        return set()
    model = faults.build(name, ViTConfig(**SMALL))
    return {test for test, passes in TESTS.items() if not passes(model)}


def _why_not(bug: str, said: str) -> str:
    if said == "none":
        return f"You say that no test sees {bug!r}, but one does fail: which of them looks at the part that is wrong?"
    return f"You say that {said!r} sees {bug!r}, but it passes. {PASSES[said]}"


Caught = dict[str, set[str]]


def _fewest(caught: Caught) -> set[str]:
    bugs = set().union(*caught.values())
    for size in range(len(caught) + 1):
        for chosen in combinations(caught, size):
            if set().union(*(caught[test] for test in chosen)) == bugs:
                return set(chosen)
    raise AssertionError("all tests together catch what each of them catches")


def _greedy(caught: Caught) -> set[str]:
    """Always the test that catches most of what is left."""
    left, chosen = set().union(*caught.values()), set()
    while left:
        best = max(caught, key=lambda test: len(caught[test] & left))
        chosen.add(best)
        left -= caught[best]
    return chosen


def _tables() -> list[Caught]:
    """The clinic's own, one in which greed takes a test too many, and random ones; all with names from the clinic."""
    chance, names = random.Random(), list(FAULTS)
    real = {test: {name for name, fault in FAULTS.items() if test in (fault.seen_by or ())} for test in TESTS}
    a, b, c, d, e, f = chance.sample(names, 6)
    greed = dict(zip(chance.sample(list(TESTS), 4), ({a, b, c, d}, {a, b, e}, {c, d, f}, {e}), strict=True))
    some = []
    for tests in (4, 5, 6, 6):
        bugs = chance.sample(names, 9)
        some.append({test: set(chance.sample(bugs, chance.randint(2, 4))) for test in list(TESTS)[:tests]})
    return [real, greed, *some]


@exercise(
    "0.2",
    "fewest(caught)",
    "Which bugs must be caught at all? The union of all the sets. When do some tests catch them all? When the union of "
    "their sets is that one.",
    "With six tests there are few enough choices to try them all: first no test, then every single one, then every "
    "pair, and so on. itertools.combinations lists them; the first choice that catches everything is a smallest one.",
)
def _chosen(answer: Callable) -> str:
    tables = _tables()
    for caught in tables:
        chosen, best = _names(call(answer, caught), caught), _fewest(caught)
        missed = set().union(*caught.values()).difference(*(caught[test] for test in chosen))
        if missed:
            all_of = len(set().union(*caught.values()))
            raise Wrong(
                f"Your {len(chosen)} of {len(caught)} tests miss {len(missed)} of {all_of} bugs, for example "
                f"{min(missed)!r}."
            )
        if len(chosen) > len(best):
            most = (
                "To take the test that catches most of what is left, again and again, is not always the shortest way."
            )
            reason = most if chosen == _greedy(caught) else "Some of your tests see nothing new."
            raise Wrong(f"Your {len(chosen)} tests catch every bug, but {len(best)} are enough. {reason}")
    return f"nothing is missed, and no choice is smaller, in {len(tables)} tables."


def _names(value: Any, caught: Caught) -> set[str]:
    wanted = "a set of names of tests is wanted"
    if not isinstance(value, (set, frozenset, list, tuple, dict)):
        raise Wrong(f"Your function returns {described(value)}: {wanted}.")
    for name in value:
        if not isinstance(name, str) or name not in caught:
            reason = f"this table has no test called {name!r}" if isinstance(name, str) else wanted
            raise Wrong(f"Your function returns {described(value)} with {described(name)} in it: {reason}.")
    return set(value)


def _shaken(name: str | None = None, **changes: Any) -> ViT:
    """A model with random parameters everywhere, so that no bug hides behind zeros and ones; in training mode."""
    config = ViTConfig(**SMALL | changes)
    model = faults.build(name, config) if name else ViT(config)
    for parameter in model.parameters():
        parameter.data = 0.4 * fresh(*parameter.shape)
    return model


RIGHT = {
    "with a cls token": {},
    "with two channels": {"in_chans": 2},
    "with mean pooling": {"global_pool": "mean", "img_size": 16},
    "with attention pooling": {"global_pool": "attn"},
    "without positions": {"pos_embed": "none"},
    "with dropout": {"dropout": 0.2},
}
# Wrong elsewhere, and has the property that is asked for: who hands in the clinic's own test rejects it.
PROBABILITIES = "whose rows are probabilities"
AMONG_OTHERS = {
    "growing with each image": {},
    "over the images": {},
    "over everything": {},
    "centred over the batch": {},
    "first image for all": {},
    "patches of the first": {},
    "batch as sequence": {},
    "over the batch": {"global_pool": "mean"},  # with a cls token its logits depend on no image at all
    "new for each image": {},
}
FIRST = {FAULTS[name].symptom for name in ("growing with each image", "first image for all", "patches of the first")}


def _advice(rejected: list[str], missed: list[str]) -> str:
    if len(rejected) > len(RIGHT):
        return "Two batches agree up to rounding only, so compare with a tolerance such as 1e-4."
    if rejected == ["with dropout"]:
        return "That one has dropout: in training mode no two calls agree. Is your copy in eval mode?"
    if rejected == [PROBABILITIES]:
        return (
            "That one ends in a softmax, and still an image's row is the same in every batch. The clinic's test scores "
            "asks for more than this exercise: write a test of your own, for this one property."
        )
    if rejected:
        return f"Rejected is, for example, a right model {rejected[0]}."
    if len(missed) >= len(AMONG_OTHERS) - 2:
        return (
            "What differs between your two calls? The image must stay, and the others in its batch must be unlike it."
        )
    if missed and set(missed) <= FIRST:
        return "Does an image that you compare keep its place in the batch? Let it stand in another one, too."
    if missed and not set(missed) & FIRST:
        return (
            "Do both of your batches hold the same images? What an image takes from all of them alike shows only when "
            "its neighbours are other ones."
        )
    return ""


judge(
    "0.3",
    "my_test(model)",
    "Call the model twice. One image stays the same in both calls; what stands beside it in the batch does not. Which "
    "rows of the two results must agree?",
    "Five random images at once, then each of them in a batch of its own: five rows, and five times one row. Compare "
    "all of them, because the first image of a batch may be treated better than the others.",
    right={symptom: partial(_shaken, **changes) for symptom, changes in RIGHT.items()}
    | {PROBABILITIES: partial(_shaken, "softmax inside")},
    wrong={FAULTS[name].symptom: partial(_shaken, name, **changes) for name, changes in AMONG_OTHERS.items()},
    nouns=("right models", "wrong ones"),
    given=lambda make: (make(),),
    more=_advice,
    accepted="it accepts {right} right models and sees through {wrong} wrong ones, without any training.",
)

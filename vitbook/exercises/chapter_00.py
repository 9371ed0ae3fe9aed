"""Exercises of chapter 0: which test sees which bug, the fewest tests that see all, a first property test."""

from collections.abc import Iterable, Iterator
from functools import cache, partial
from itertools import combinations
from typing import Any

from vitbook import faults
from vitbook.exercises.declaration import Exercise
from vitbook.exercises.forms import hunt
from vitbook.exercises.values import chance, counted, described, expected, perturbed
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


Exercise(
    "0.1",
    "caught_by(bug)",
    "Find the part of the model in which the bug stands: the patches, the token that is read, the positions, the "
    "blocks, the parameters, the last line. Which test looks at that part?",
    "A test sees a bug only if it changes what the bug gets wrong. Two of the bugs need care. Which test looks at an "
    "image in two different batches? And can a test of the model see what the training loop does?",
    cases=lambda: [(bug,) for bug in chance().sample(list(BUGS), len(BUGS))],
    judge=lambda said, bug: _no_test(said),
    overall=lambda results: _wrongly_named({bug: said for (bug,), said in results}),
    right=f"{len(BUGS)} of {len(BUGS)} bugs are seen by the test that you name, or by none where you say so; each "
    "test was run.",
    work=3.0,  # forty-eight tests of models
)


def _no_test(value: Any) -> str | None:
    if isinstance(value, str) and value in {*TESTS, "none"}:
        return None
    return expected(f"one of {', '.join(map(repr, TESTS))} or 'none'", value)


def _wrongly_named(said: dict[str, str]) -> str | None:
    seen = {bug: _failing(name) or {"none"} for bug, name in BUGS.items()}
    wrong = [bug for bug in BUGS if said[bug] not in seen[bug]]
    if not wrong:
        return None
    count = f"{len(BUGS) - len(wrong)} of {len(BUGS)} bugs are seen by the test that you name"
    return f"{count}. {_why_not(wrong[0], said[wrong[0]])}"


@cache
def _failing(name: str) -> set[str]:
    """The tests that fail for a model with this fault, measured once in a session."""
    if FAULTS[name].seen_by is None:  # it stands in the training loop
        return set()
    model = faults.build(name, ViTConfig(**SMALL))
    return {test for test, passes in TESTS.items() if not passes(model)}


def _why_not(bug: str, said: str) -> str:
    if said == "none":
        return f"You say that no test sees {bug!r}, but one does fail: which of them looks at the part that is wrong?"
    return f"You say that {said!r} sees {bug!r}, but it passes. {PASSES[said]}"


Caught = dict[str, set[str]]


def _seen(caught: Caught, tests: Iterable[str]) -> set[str]:
    return set().union(*(caught[test] for test in tests))


def _fewest(caught: Caught) -> int:
    """How many tests are enough: all together catch what each of them catches."""
    choices = (chosen for size in range(len(caught) + 1) for chosen in combinations(caught, size))
    return next(len(chosen) for chosen in choices if _seen(caught, chosen) == _seen(caught, caught))


# Fixed, so that no verdict is luck: every short cut that people take needs a test too many in one of them, whatever
# the order in which it looks at the tests. A digit is a bug; in the first table a single test is enough.
HARD = ("367", "145", "1258", "59", "148", "289")
TABLES = (
    ("12", "345", "12345"),
    HARD,
    HARD[::-1],
    ("47", "28", "39", "458", "14", "15"),
    ("579", "1679", "56", "12379", "2345", "12467"),  # for whoever begins with the bug that fewest tests see
    ("259", "146", "5679", "26", "378", "1258", "127"),  # for whoever leaves out what a greedy choice does not need
)


def _tables() -> Iterator[tuple[Caught]]:
    """The clinic's own table and the fixed ones, with names from the clinic."""
    yield ({test: {name for name, fault in FAULTS.items() if test in (fault.seen_by or ())} for test in TESTS},)
    for table in TABLES:
        bugs = dict(zip("123456789", chance().sample(list(FAULTS), 9), strict=True))
        yield ({test: {bugs[bug] for bug in seen} for test, seen in zip((*TESTS, "speed"), table, strict=False)},)


def _not_fewest(chosen: Any, caught: Caught) -> str | None:
    if not isinstance(chosen, (set, frozenset, list, tuple, dict)):
        return expected("a set of names of tests", chosen)
    for name in chosen:
        if not isinstance(name, str):
            return f"Expected a set of names of tests, got {described(chosen)} with {described(name)} in it."
        if name not in caught:
            return f"Your function returns {described(chosen)}, and this table has no test called {name!r}."
    chosen, best, bugs = set(chosen), _fewest(caught), _seen(caught, caught)
    if missed := bugs - _seen(caught, chosen):
        tests = f"{len(chosen)} of {counted(len(caught), 'test')}"
        return f"Your {tests} miss {len(missed)} of {counted(len(bugs), 'bug')}, for example {min(missed)!r}."
    if len(chosen) == best:
        return None
    useless = [test for test in chosen if bugs == _seen(caught, chosen - {test})]
    reason = (
        "One of yours could go, because the others see all that it sees."
        if useless
        else "Each of yours sees something that no other one of them sees, and still there is a smaller choice: to "
        "take one good test after the other is not always the shortest way."
    )
    number = "1 is" if best == 1 else f"{best} are"
    return f"Your {counted(len(chosen), 'test')} catch every bug, but {number} enough. {reason}"


Exercise(
    "0.2",
    "fewest(caught)",
    "Which bugs must be caught at all? The union of all the sets. When do some tests catch them all? When the union of "
    "their sets is that one.",
    "With six tests there are few enough choices to try them all: first no test, then every single one, then every "
    "pair, and so on. itertools.combinations lists them; the first choice that catches everything is a smallest one.",
    cases=_tables,
    judge=_not_fewest,
    right=f"nothing is missed, and no choice is smaller, in {1 + len(TABLES)} tables.",
)


def _model(name: str | None = None, **changes: Any) -> ViT:
    """A model with random parameters, in training mode."""
    config = ViTConfig(**SMALL | changes)
    return perturbed(faults.build(name, config) if name else ViT(config))


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
        return (
            "Every right model is rejected. Two batches agree up to rounding only, so compare with a tolerance such as "
            "1e-4. And does each image meet its own row of the other result?"
        )
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
            "What differs between your two calls? The image must stay, and the others in its batch must be unlike it. "
            "And a difference of more than rounding must count: how wide is your tolerance?"
        )
    if missed and set(missed) <= FIRST:
        return "Does an image that you compare keep its place in the batch? Let it stand in another one, too."
    if missed and not set(missed) & FIRST:
        return (
            "Do both of your batches hold the same images? What an image takes from all of them alike shows only when "
            "its neighbours are other ones."
        )
    return ""


hunt(
    "0.3",
    "my_test(model)",
    "Call the model twice. One image stays the same in both calls; what stands beside it in the batch does not. Which "
    "rows of the two results must agree?",
    "Five random images at once, then each of them in a batch of its own: five rows, and five times one row. Compare "
    "all of them, because the first image of a batch may be treated better than the others.",
    right={symptom: partial(_model, **changes) for symptom, changes in RIGHT.items()}
    | {PROBABILITIES: partial(_model, "softmax inside")},
    wrong={FAULTS[name].symptom: partial(_model, name, **changes) for name, changes in AMONG_OTHERS.items()},
    nouns=("right models", "wrong ones"),
    handed=lambda make: make(),
    more=_advice,
    accepted="it accepts {right} right models and sees through {wrong} wrong ones, without any training.",
)

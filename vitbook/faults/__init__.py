"""The bug clinic: every wrong version in the book, once, each one difference away from the right one.

A file a family: `cut` (images into patches), `place` (positions), `attend`,
`wire` (blocks and norms), `pool` (from tokens to logits) and `train`. Checks,
figures, experiments and tests take their wrong versions from here.

    faults.FAULTS["normalise then add"].symptom
    faults.build("normalise then add", ViTConfig())  # a model with that fault
    faults.of(PreNormBlock)                          # {symptom: wrong version}
    faults.FAULTS["undivided"].effect                # "same function": other weights make up for it
    faults.to_wrong("undivided", model)              # the wrong model, with those weights
    {name: test(model) for name, test in faults.TESTS.items()}

Some of them people have really published:

    faults.PUBLISHED                                 # their names
    faults.faulty_models("Ada Lovelace")             # five models with one each, drawn by a name
"""

from vitbook.faults import attend, cut, place, pool, train, wire
from vitbook.faults._build import build, to_right, to_wrong
from vitbook.faults._fault import EFFECTS, FAMILIES, FAULTS, Fault, of
from vitbook.faults._published import PUBLISHED, FaultyModel, faulty_models
from vitbook.faults._tests import TESTS

__all__ = [
    "EFFECTS",
    "FAMILIES",
    "FAULTS",
    "PUBLISHED",
    "TESTS",
    "Fault",
    "FaultyModel",
    "attend",
    "build",
    "cut",
    "faulty_models",
    "of",
    "place",
    "pool",
    "to_right",
    "to_wrong",
    "train",
    "wire",
]

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

The ward holds those that people have really met, as sealed models:

    faults.PATIENTS                                  # their names
    faults.ward("Ada Lovelace")                      # five of them, hers
    faults.sealed(model)                             # any model, sealed
"""

from vitbook.faults import attend, cut, place, pool, train, wire
from vitbook.faults._build import build, to_right, to_wrong
from vitbook.faults._fault import EFFECTS, FAMILIES, FAULTS, Fault, of
from vitbook.faults._tests import TESTS
from vitbook.faults._ward import PATIENTS, Patient, sealed, ward

__all__ = [
    "EFFECTS",
    "FAMILIES",
    "FAULTS",
    "PATIENTS",
    "TESTS",
    "Fault",
    "Patient",
    "attend",
    "build",
    "cut",
    "of",
    "place",
    "pool",
    "sealed",
    "to_right",
    "to_wrong",
    "train",
    "ward",
    "wire",
]

"""The bug clinic: every wrong version in the book, once, each one difference away from the right one.

A file a family: `cut` (images into patches), `place` (positions), `attend`,
`wire` (blocks and norms), `pool` (from tokens to logits) and `train`. Checks,
figures, experiments and tests take their wrong versions from here.

    clinic.FAULTS["normalise then add"].symptom
    clinic.build("normalise then add", ViTConfig())  # a model with that fault
    clinic.of(PreNormBlock)                          # {symptom: wrong version}
    clinic.FAULTS["undivided"].effect                # "same function": other weights make up for it
    clinic.to_wrong("undivided", model)              # the wrong model, with those weights
    {name: test(model) for name, test in clinic.TESTS.items()}

The ward holds those that people have really met, as sealed models:

    clinic.PATIENTS                                  # their names
    clinic.ward("Ada Lovelace")                      # five of them, hers
    clinic.sealed(model)                             # any model, sealed
"""

from vitnb.clinic import attend, cut, place, pool, train, wire
from vitnb.clinic._build import build, to_right, to_wrong
from vitnb.clinic._fault import EFFECTS, FAMILIES, FAULTS, Fault, of
from vitnb.clinic._tests import TESTS
from vitnb.clinic._ward import PATIENTS, Patient, sealed, ward

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

"""The test accuracy of a small ViT with each fault that was added from the field, beside that of the right one.

Chapter 16: as in mutants.py, on digits; five runs each.
"""

from experiments._page import FROM_THE_FIELD, accuracies, of_faults

PLANS = {"digits": ("digits", {}, FROM_THE_FIELD)}
THIS = of_faults(PLANS)


def run() -> dict:
    return {"results": accuracies("field_faults", PLANS)}

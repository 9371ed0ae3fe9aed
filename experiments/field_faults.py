"""The test accuracy of a small ViT with each fault that was added from the field, beside that of the right one.

Chapter 16: as in mutants.py, on digits; five runs each.
"""

from experiments._experiment import Experiment
from experiments._page import FROM_THE_FIELD, PART, RECIPES, SEEDS, TEST_BATCH, accuracies
from vitbook.figures._train_data import CONFIGS

PLANS = {"digits": ("digits", {}, FROM_THE_FIELD)}
THIS = Experiment(
    seeds=SEEDS,
    purpose="mechanism",
    data="vitbook.figures._train_data.dataset",
    models=CONFIGS,
    recipes=RECIPES,
    part=PART,
    test_batch=TEST_BATCH,
    plans={plan: {"data": data, "changes": changes} for plan, (data, changes, _) in PLANS.items()},
)


def run() -> dict:
    return {"results": accuracies("field_faults", PLANS)}

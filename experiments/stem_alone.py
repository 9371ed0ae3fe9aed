"""The convolutions of the five minutes without blocks behind them, for the same time: what do the blocks bring?

The control of five_minutes.py: its recipe, and as many epochs as take the
convolutions alone the time of its ten. How many these are is what the clocks of
stems.py say about both, side by side. Two runs at a time, each on a core of its
own. The result of a seed is the accuracy after its last step, on the test
images, which are looked at once.
"""

from dataclasses import replace
from functools import partial

from experiments._budget import two_at_a_time
from experiments._experiment import Experiment
from experiments._models import FAST_VIT, FIVE_MINUTES, fast_vit
from experiments._trials import whole_run, whole_runs
from vitbook import results
from vitnb import ViT

clocked = {name: arm["steps"] for name, arm in results.result("stems")["result"]["arms"].items()}
TIMES_AS_LONG = clocked["32, 64, 64 and no block"] / clocked["32, 64, 64 and three blocks"]
THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="choice",
    side_by_side=2,
    reported_on="test",
    **FAST_VIT,
    blocks_kept=0,
    recipe=replace(FIVE_MINUTES, epochs=round(FIVE_MINUTES.epochs * TIMES_AS_LONG)),
)


def run() -> dict:
    recipes = [replace(THIS.recipe, seed=seed) for seed in THIS.seeds]
    return whole_runs(two_at_a_time(partial(whole_run, "stem_alone", alone), recipes))


def alone() -> ViT:
    model = fast_vit()
    model.blocks = model.blocks[: THIS.blocks_kept]
    return model

"""The convolutions of the hour without blocks behind them, for the same time: what do the blocks bring?

The control of hour.py, as stem_alone.py is that of five_minutes.py: its recipe,
and as many epochs as take the convolutions alone the time of its forty. The
result of a seed is the accuracy after its last step, on the test images, which
are looked at once.
"""

from dataclasses import replace
from functools import partial

from experiments._budget import two_at_a_time
from experiments._experiment import Experiment
from experiments._models import LONGER, STEM_ALONE, as_long_alone, without_blocks
from experiments._trials import whole_run, whole_runs

THIS = Experiment(
    seeds=[0, 1, 2],
    purpose="choice",
    side_by_side=2,
    reported_on="test",
    **STEM_ALONE,
    recipe=as_long_alone(LONGER),
)


def run() -> dict:
    recipes = [replace(THIS.recipe, seed=seed) for seed in THIS.seeds]
    return whole_runs(two_at_a_time(partial(whole_run, "stem_alone_hour", without_blocks), recipes))

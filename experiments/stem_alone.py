"""The convolutions of the five minutes without blocks behind them, for the same time: what do the blocks bring?

The control of five_minutes.py: its recipe, and as many epochs as take the
convolutions alone the time of its ten. Two runs at a time, each on a core of its
own. The result of a seed is the accuracy after its last step, on the test
images, which are looked at once.
"""

from experiments._budget import whole_runs_side_by_side
from experiments._experiment import Experiment
from experiments._models import FIVE_MINUTES, STEM_ALONE, as_long_alone, without_blocks

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="choice",
    side_by_side=2,
    reported_on="test",
    **STEM_ALONE,
    recipe=as_long_alone(FIVE_MINUTES),
)


def run() -> dict:
    return whole_runs_side_by_side("stem_alone", without_blocks, THIS.recipe, THIS.seeds)

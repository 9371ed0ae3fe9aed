"""The convolutions of the hour without blocks behind them, for the same time: what do the blocks bring?

The control of hour.py, as stem_alone.py is that of five_minutes.py: its recipe,
and as many epochs as take the convolutions alone the time of its forty. The
result of a seed is the accuracy after its last step, on the test images, which
are looked at once.
"""

from experiments._budget import whole_runs_side_by_side
from experiments._experiment import Experiment
from experiments._models import LONGER, STEM_ALONE, as_long_alone, without_blocks

THIS = Experiment(
    seeds=[0, 1, 2],
    purpose="choice",
    side_by_side=2,
    reported_on="test",
    **STEM_ALONE,
    recipe=as_long_alone(LONGER),
)


def run() -> dict:
    return whole_runs_side_by_side("stem_alone_hour", without_blocks, THIS.recipe, THIS.seeds)

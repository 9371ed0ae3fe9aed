"""The convolutions of the five minutes without blocks behind them, for the same time: what do the blocks bring?

The control of five_minutes.py: its recipe and seeds, and as many epochs as
take the convolutions alone the time of its ten. Steps of both are clocked first.
"""

from dataclasses import replace
from functools import partial

from experiments._budget import Arm, steps_within, two_at_a_time
from experiments._experiment import Experiment
from experiments._models import FAST_VIT, FIVE_MINUTES, fast_vit
from experiments._trials import whole_run, whole_runs
from vitnb import ViT

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="choice",
    side_by_side=2,
    reported_on="test",
    **FAST_VIT,
    blocks_kept=0,
    recipe=FIVE_MINUTES,
    as_long_as="five_minutes",
)


def run() -> dict:
    arms = {"with blocks": Arm(fast_vit, THIS.recipe), "alone": Arm(alone, THIS.recipe)}
    steps = steps_within(300, "stem_alone", arms)
    recipe = replace(THIS.recipe, epochs=THIS.recipe.epochs * steps["alone"] / steps["with blocks"])
    runs = two_at_a_time(partial(whole_run, "stem_alone", alone), [replace(recipe, seed=s) for s in THIS.seeds])
    return {"steps": steps, "epochs": recipe.epochs} | whole_runs(runs)


def alone() -> ViT:
    model = fast_vit()
    model.blocks = model.blocks[: THIS.blocks_kept]
    return model

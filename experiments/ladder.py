"""From a textbook's recipe to ours, one change at a time, with a minute of one processor core for each.

Chapter 10: every rung keeps what the rungs before it changed. The steps of all
rungs are clocked first; a rung is trained for as many of them as the minute
holds, so a cheaper model sees more images.
"""

from functools import partial

from experiments._budget import Arm, for_seconds
from experiments._experiment import Experiment
from experiments._models import TEXTBOOK, TEXTBOOK_RECIPE, changed
from vitnb import ViT

ADAMW = {"optimizer": "adamw", "lr": 3e-3, "betas": (0.9, 0.99), "weight_decay": 0.05}
THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="choice",
    side_by_side=2,
    model=TEXTBOOK,
    recipe=TEXTBOOK_RECIPE,
    rungs={  # what is changed of the model or of the recipe
        "the textbook": {},
        "28 pixels, not 96": {"img_size": 28, "patch_size": 7},
        "a small model": {"embed_dim": 64, "depth": 4, "num_heads": 4, "qkv_bias": True},
        "AdamW": ADAMW,
        "clipping": {"clip": 1.0},
        "warm-up": {"warmup": 0.05},
        "cosine": {"schedule": "cosine"},
        "no dropout": {"dropout": 0.0},
        "batches of 64": {"batch_size": 64},
        "convolutions first": {"stem": "conv"},
        "mirrored": {"flip": True},
        "the mean, not cls": {"global_pool": "mean"},
    },
    seconds=60,
)


def run() -> dict:
    arms, changes = {}, {}
    for rung, change in THIS.rungs.items():
        changes |= change
        model, recipe = changed(THIS.model, THIS.recipe, changes)
        arms[rung] = Arm(partial(ViT, model), recipe, model.img_size)
    return {"rungs": for_seconds("ladder", arms, THIS.seconds, THIS.seeds)}

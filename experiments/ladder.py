"""From a textbook's recipe to ours, one change at a time, with two minutes of one processor core for each.

Chapter 10: every rung keeps what the rungs before it changed. A rung is shown
as many images as one core gets through in about two minutes, so a cheaper
model sees more of them; each run's seconds of processor time are stored.
"""

from dataclasses import asdict

import torch

from experiments.common import TEXTBOOK, TEXTBOOK_RECIPE, clothes, trials

ADAMW = {"optimizer": "adamw", "lr": 3e-3, "betas": (0.9, 0.99), "weight_decay": 0.05, "clip": 1.0}
RUNGS = {  # what is changed of model or recipe; "pictures": different ones, "epochs": how often each is shown
    "the textbook": {"pictures": 6_400},
    "28 pixels, not 96": {"img_size": 28, "patch_size": 7, "pictures": 12_000},
    "a small model": {
        "embed_dim": 64, "depth": 4, "num_heads": 4, "qkv_bias": True, "pictures": 50_000, "epochs": 2
    },
    "AdamW, clipping": ADAMW,
    "warm-up, cosine": {"warmup": 0.05, "schedule": "cosine"},
    "no dropout": {"dropout": 0.0, "epochs": 3},
    "batches of 64": {"batch_size": 64},
    "convolutions first": {"stem": "conv", "epochs": 2},
    "mirrored": {"flip": True},
    "the mean, not cls": {"global_pool": "mean"},
}  # fmt: skip
SEEDS = [0, 1, 2]
CONFIG = {
    "device": "cpu",
    "data": "fashion_mnist",
    "model": TEXTBOOK.to_dict(),
    "recipe": asdict(TEXTBOOK_RECIPE),
    "rungs": RUNGS,
}


def run() -> dict:
    data = clothes()
    torch.set_num_threads(1)
    changes, rungs = {}, {}
    for number, (rung, change) in enumerate(RUNGS.items()):
        changes |= change
        rungs[rung] = trials(data, f"ladder-{number}", TEXTBOOK, TEXTBOOK_RECIPE, changes, SEEDS)
    return {"rungs": rungs}

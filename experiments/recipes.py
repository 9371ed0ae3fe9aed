"""One change of the recipe at a time: what each is worth to a small ViT in a short training.

Chapter 10: the chapter's model and recipe on a part of the images, then the
same with one thing changed. All arms of a seed start with the same weights and
see the same images; each run's curves are stored.
"""

from dataclasses import asdict, replace

from experiments.common import (
    SHORT,
    SHORT_PICTURES,
    SMALL,
    TEXTBOOK_RECIPE,
    accuracy,
    changed,
    thin,
    train,
    validated,
    watched_on,
)
from vitnb import ViT
from vitnb.data import Dataset

BY_THE_TEXTBOOK = ("optimizer", "lr", "betas", "weight_decay", "clip", "warmup", "schedule")
SGD = {name: getattr(TEXTBOOK_RECIPE, name) for name in BY_THE_TEXTBOOK}
ARMS = {  # what is changed: of the recipe, or of the model
    "the recipe": {},
    "no warm-up": {"warmup": 0.0},
    "constant rate": {"schedule": "constant"},
    "rate / 10": {"lr": 3e-4},
    "rate × 10": {"lr": 3e-2},
    "plain SGD, rate 0.1": SGD,
    "SGD, our decay": SGD | {"weight_decay": SHORT.weight_decay},
    "no augmentation": {"flip": False, "shift": 0},
    "label smoothing 0.1": {"label_smoothing": 0.1},
    "batches of 512": {"batch_size": 512},
    "faint positions": {"pos_std": 0.02},
}
WATCHED = 1_000  # validation images after each epoch; at the end all of them
SEEDS = [0, 1, 2, 3, 4]
CONFIG = {
    "data": "fashion_mnist",
    "pictures": SHORT_PICTURES,
    "judged_on": "validation",
    "device": "cpu",
    "model": SMALL.to_dict(),
    "recipe": asdict(SHORT),
    "arms": ARMS,
}


def run() -> dict:
    data = validated().subset(SHORT_PICTURES)
    return {"runs": {arm: [one(data, arm, seed) for seed in SEEDS] for arm in ARMS}}


def one(data: Dataset, arm: str, seed: int) -> dict:
    """Train one arm with one seed; a run that was interrupted goes on."""
    config, recipe = changed(SMALL, replace(SHORT, seed=seed), ARMS[arm])
    name = f"recipes-{list(ARMS).index(arm)}-{seed}"
    model, history = train(lambda: ViT(config), watched_on(data, WATCHED), recipe, name)
    right = accuracy(model, data.normalize(data.test_images), data.test_labels)
    print(f"{arm}, seed {seed}: {right:.3f}", flush=True)
    return {
        "seed": seed,
        "validation_accuracy": right,
        "seconds": round(history.seconds, 1),
        "steps": len(history.losses),
        "losses": thin(history.losses, 60),
        "train_accuracy_by_epoch": [round(a, 4) for a in history.train_accuracy],
        "validation_accuracy_by_epoch": [round(a, 4) for a in history.test_accuracy],
    }

"""One change of the recipe at a time: what each is worth to a small ViT in a short training.

Chapter 10: the chapter's model and recipe on a part of the images, then the
same with one thing changed. All arms of a seed start with the same weights and
see the same images; each run's curves are stored.
"""

from dataclasses import replace

from experiments._data import validated, watched_on
from experiments._experiment import Experiment
from experiments._models import SHORT, SHORT_IMAGES, SMALL, TEXTBOOK_RECIPE, changed
from experiments._trials import accuracy, thin, train
from vitnb import ViT
from vitnb.data import Dataset

BY_THE_TEXTBOOK = ("optimizer", "lr", "betas", "weight_decay", "clip", "warmup", "schedule")
SGD = {name: getattr(TEXTBOOK_RECIPE, name) for name in BY_THE_TEXTBOOK}
WATCHED = 1_000  # validation images after each epoch; at the end all of them
THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="choice",
    torch_threads=None,
    images=SHORT_IMAGES,
    model=SMALL,
    recipe=SHORT,
    arms={  # what is changed: of the recipe, or of the model
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
    },
)


def run() -> dict:
    data = validated().subset(THIS.images)
    return {"runs": {arm: [one(data, arm, seed) for seed in THIS.seeds] for arm in THIS.arms}}


def one(data: Dataset, arm: str, seed: int) -> dict:
    """Train one arm with one seed; a run that was interrupted goes on."""
    config, recipe = changed(THIS.model, replace(THIS.recipe, seed=seed), THIS.arms[arm])
    name = f"recipes-{list(THIS.arms).index(arm)}-{seed}"
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

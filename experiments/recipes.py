"""One change of the recipe at a time: what each is worth to a small ViT in a short training.

Chapter 07: the chapter's model and recipe on a part of the pictures, then the
same with one thing changed. All arms of a seed start with the same weights and
see the same pictures; each run's curves are stored.
"""

from dataclasses import asdict, replace

import torch

from experiments import checkpoint, clothes, ladder, thin
from vitnb import ViT, ViTConfig
from vitnb.data import Dataset
from vitnb.training import ProgressBar, Recipe, evaluate, fit

MODEL = ViTConfig(patch_size=7, embed_dim=64, depth=4, num_heads=4, mlp_ratio=4.0, pos_std=1.0)
RECIPE = Recipe(epochs=6, batch_size=64)
BY_THE_TEXTBOOK = ("optimizer", "lr", "betas", "weight_decay", "clip", "warmup", "schedule")
SGD = {name: getattr(ladder.RECIPE, name) for name in BY_THE_TEXTBOOK}
ARMS = {  # what is changed: of the recipe, or of the model
    "the recipe": {},
    "no warm-up": {"warmup": 0.0},
    "constant rate": {"schedule": "constant"},
    "rate / 10": {"lr": 3e-4},
    "rate × 10": {"lr": 3e-2},
    "plain SGD, rate 0.1": SGD,
    "SGD, our decay": SGD | {"weight_decay": RECIPE.weight_decay},
    "no augmentation": {"flip": False, "shift": 0},
    "label smoothing 0.1": {"label_smoothing": 0.1},
    "batches of 512": {"batch_size": 512},
    "faint positions": {"pos_std": 0.02},
}
PICTURES, WATCHED = 6_000, 1_000  # the test pictures after each epoch; at the end all of them
SEEDS = [0, 1, 2, 3, 4]
CONFIG = {
    "data": "fashion_mnist",
    "pictures": PICTURES,
    "device": "cpu",
    "model": MODEL.to_dict(),
    "recipe": asdict(RECIPE),
    "arms": ARMS,
}


def run() -> dict:
    data = clothes()
    data = data.subset(PICTURES)
    return {"runs": {arm: [one(data, arm, seed) for seed in SEEDS] for arm in ARMS}}


def one(data: Dataset, arm: str, seed: int) -> dict:
    """Train one arm with one seed; a run that was interrupted goes on."""
    change = ARMS[arm]
    of_model = {key: value for key, value in change.items() if hasattr(MODEL, key)}
    of_recipe = {key: value for key, value in change.items() if key not in of_model}
    torch.manual_seed(seed)
    model = ViT(replace(MODEL, **of_model))
    watched = replace(data, test_images=data.test_images[:WATCHED], test_labels=data.test_labels[:WATCHED])
    file = checkpoint(f"recipes-{list(ARMS).index(arm)}-{seed}")
    history = fit(model, watched, replace(RECIPE, seed=seed, **of_recipe), [ProgressBar()], file)
    test = evaluate(model, data.normalize(data.test_images), data.test_labels)
    print(f"{arm}, seed {seed}: {test.accuracy:.3f}", flush=True)
    return {
        "seed": seed,
        "test_accuracy": round(test.accuracy, 4),
        "seconds": round(history.seconds, 1),
        "steps": len(history.losses),
        "losses": thin(history.losses, 60),
        "train_accuracy_by_epoch": [round(a, 4) for a in history.train_accuracy],
        "test_accuracy_by_epoch": [round(a, 4) for a in history.test_accuracy],
    }

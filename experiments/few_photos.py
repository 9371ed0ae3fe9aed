"""With 3 and 10 labelled images of a kind, a pretrained ViT is adapted by its head alone, by LoRA and whole.

Chapter 15: colour images of animals, plants, food and houses at 112 x 112 pixels,
five draws of the labelled ones. All ways read the same token by the same new head and
see the same number of images; training from scratch and a linear classifier of raw
pixels are the controls. The learning rates are those that few_labels chose most often,
on other images; for the raw pixels leaving one out chooses the penalty.
"""

from dataclasses import replace
from functools import partial

from sklearn.linear_model import RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from experiments._experiment import Experiment
from experiments._pretrained import MEAN, STD, start
from experiments._trials import accuracy, kept_runs
from vitbook import images
from vitnb.data import Dataset
from vitnb.training import Recipe, fit

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="mechanism",
    data="images of Tux Paint",
    img_size=112,
    labels_per_class=[3, 10],
    tested_per_class=10,
    seen=600,  # images in a training, however many of them differ
    penalties=[1e0, 1e1, 1e2, 1e3, 1e4],  # of large weights, for the raw pixels
    learning_rates={"from scratch": 1e-4, "head alone": 1e-2, "LoRA": 1e-3, "all weights": 1e-5},
    head_rate=1e-3,  # beside LoRA and all weights
    recipe=Recipe(batch_size=16, shift=0),
)


def one(way: str, few: Dataset, seed: int) -> dict:
    """The test accuracy of one training, and the seconds of a core that it took."""
    if way == "raw pixels":
        linear = make_pipeline(StandardScaler(), RidgeClassifierCV(THIS.penalties))
        linear.fit(few.train_images.flatten(1), few.train_labels)
        return {"test_accuracy": round(linear.score(few.test_images.flatten(1), few.test_labels), 4), "cpu_seconds": 0}
    parts = {"lr_by_part": {"head": THIS.head_rate}} if way in ("LoRA", "all weights") else {}
    epochs, lr = THIS.seen / len(few.train_images), THIS.learning_rates[way]
    recipe = replace(THIS.recipe, epochs=epochs, lr=lr, seed=seed, **parts)
    model = start(way, THIS.img_size, len(few.classes), seed)
    history = fit(model, replace(few, test_images=few.test_images[:0], test_labels=few.test_labels[:0]), recipe)
    test_accuracy = accuracy(model, few.normalize(few.test_images), few.test_labels)
    return {"test_accuracy": test_accuracy, "cpu_seconds": round(history.cpu_seconds, 1)}


def run() -> dict:
    pixels, labels, classes = images.stamps(THIS.img_size)
    if not images.STAMPS_FOLDER.is_dir():
        raise RuntimeError("this experiment needs the Debian package tuxpaint-stamps-default")
    kept, result = kept_runs("few_photos-runs"), {}

    def drawn(way: str, count: int, seed: int) -> dict:
        train, test = images.draw(labels, count, THIS.tested_per_class, seed)
        sets = pixels[train], labels[train], pixels[test], labels[test]
        return one(way, Dataset(*sets, tuple(classes), mean=MEAN, std=STD, mirror=True), seed)

    for count in THIS.labels_per_class:
        for way in ("raw pixels", *THIS.learning_rates):
            runs = [kept(f"{count} {way} {seed}", partial(drawn, way, count, seed)) for seed in THIS.seeds]
            result.setdefault(str(count), {})[way] = {name: [run[name] for run in runs] for name in runs[0]}
    return {"labels": result}

"""With 10, 50 and 200 labels a class, a pretrained ViT is adapted by its head alone, by LoRA and whole.

Chapter 15: DINOv2's ViT-S/14 on clothes enlarged to 56 x 56 pixels, five draws
of the labelled images. All ways read the same token by the same new head and
see the same number of images; training from scratch and a linear classifier
of raw pixels are the controls. Validation images choose each way's setting,
on the first draw; the others, and all test images, choose nothing.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from experiments._data import clothes
from experiments._experiment import Experiment
from experiments._pretrained import SIDE, enlarged, start, to_train
from experiments._trials import accuracy, kept_runs
from vitnb.data import Dataset
from vitnb.training import Recipe, fit

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="choice",
    reported_on="test",
    labels_per_class=[10, 50, 200],
    images={"validation": 300, "test": 1_000},
    seen=2_000,  # images in a training, however many of them differ
    tries={  # a learning rate, and for raw pixels the penalty of large weights
        "raw pixels": [1e2, 1e3, 1e4, 1e5],
        "from scratch": [1e-4, 3e-4, 1e-3],
        "head alone": [1e-3, 1e-2, 1e-1],
        "LoRA": [3e-4, 1e-3, 3e-3],
        "all weights": [1e-5, 3e-5, 1e-4],
    },
    head_rate=1e-3,  # beside LoRA and all weights
    recipe=Recipe(batch_size=16, shift=0),
)


def one(way: str, setting: float, few: Dataset, seed: int) -> tuple[Callable[[Tensor, Tensor], float], float]:
    """What tells the accuracy on images with their labels, and the seconds of a core that training took."""
    if way == "raw pixels":
        linear = make_pipeline(StandardScaler(), RidgeClassifier(setting))
        linear.fit(few.train_images.flatten(1), few.train_labels)
        return lambda images, labels: round(linear.score(images.flatten(1), labels), 4), 0.0
    parts = {} if way in ("from scratch", "head alone") else {"lr_by_part": {"head": THIS.head_rate}}
    recipe = replace(THIS.recipe, epochs=THIS.seen / len(few.train_images), lr=setting, seed=seed, **parts)
    train = to_train(few)
    model = start(way, SIDE, 10, seed)
    history = fit(model, train, recipe)
    return lambda images, labels: accuracy(model, train.normalize(enlarged(images)), labels), history.cpu_seconds


def run() -> dict:
    data = clothes()
    held = data.hold_out(THIS.images["validation"])
    test = [x[: THIS.images["test"]] for x in (data.test_images, data.test_labels)]
    kept = kept_runs("few_labels-runs")

    def made(count: int, way: str, setting: float, seed: int) -> dict:
        judged, seconds = one(way, setting, held.subset(10 * count, seed), seed)
        run = {"test_accuracy": judged(*test), "cpu_seconds": round(seconds, 1)}
        if seed == THIS.seeds[0]:
            run["validation_accuracy"] = judged(held.test_images, held.test_labels)
        return run

    def stored(*case) -> dict:
        return kept(" ".join(map(str, case)), partial(made, *case))

    result: dict = {}
    for count in THIS.labels_per_class:
        result[str(count)] = {}
        for way, tries in THIS.tries.items():
            again = partial(stored, count, way)
            tried = {setting: again(setting, THIS.seeds[0])["validation_accuracy"] for setting in tries}
            best = max(tried, key=tried.__getitem__)
            runs = [again(best, seed) for seed in THIS.seeds]
            result[str(count)][way] = {
                "validation_accuracy": list(tried.values()),
                "setting": best,
                "test_accuracy": [run["test_accuracy"] for run in runs],
                "cpu_seconds": round(sum(run["cpu_seconds"] for run in runs) / len(runs), 1),
            }
    return {"labels": result}

"""What a pretrained ViT makes of few labels: by a probe, by LoRA, whole; beside raw pixels and random weights.

Chapter 15: DINOv2's ViT-S/14 and 10, 50 or 200 labelled images of each class of
Fashion-MNIST, enlarged to 56 x 56 pixels. The regularisation of each probe is
chosen by 1,000 validation images, the learning rates by the experiment
`learning_rates`. Judged by the first 1,000 test images. Features are the cls
token beside the mean of the patch tokens, standardised.
"""

import time
from collections.abc import Iterable
from functools import partial

import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from experiments._budget import two_at_a_time
from experiments._experiment import Experiment
from experiments._pretrained import (
    MOST,
    RECIPE,
    SIDE,
    Way,
    coloured,
    drawn,
    fine_tune,
    judged,
    judges,
    kept_job,
    normalized,
    start,
)
from vitnb.vit import count_parameters

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="mechanism",
    side_by_side=2,
    side=SIDE,
    labels={"10": 60, "50": 120, "200": 200},  # of each class: steps of fine-tuning
    recipe=RECIPE,
    probes={"raw pixels": "pixels", "random weights, probe": "random", "DINOv2, probe": "pretrained"},
    regularisations=[1e-4, 1e-3, 1e-2, 1e-1, 1.0],  # C of scikit-learn's LogisticRegression
    ways={
        "DINOv2, LoRA": {"lr": 1e-3, "lora": True},
        "DINOv2, all weights": {"lr": 1e-4},
        "random weights, all weights": {"lr": 1e-4, "weights": "random"},
    },
    validation_images=1000,
    test_images=1000,
)


@torch.no_grad()
def features(kind: str, seed: int, images: Tensor) -> Tensor:
    """Of colour images of bytes: raw pixels, or the cls token and the mean of the patch tokens."""
    if kind == "pixels":
        return images[:, 0, ::2, ::2].flatten(1) / 255
    model = start(kind, seed).eval()
    tokens = torch.cat([model.forward_features(normalized(part)) for part in images.split(50)])  # (B, T, D)
    return torch.cat([tokens[:, 0], tokens[:, 1:].mean(1)], dim=1)  # (B, 2 D)


def probe(kind: str, seed: int) -> dict:
    """The accuracies of a probe for each number of labels and each regularisation, and its seconds."""
    images = {which: judges(which, THIS.config()[f"{which}_images"]) for which in ("validation", "test")}
    judging = {which: (features(kind, seed, coloured(x)), y) for which, (x, y) in images.items()}
    found: dict = {}
    for labels in map(int, THIS.labels):
        begin, data = time.process_time(), drawn(labels, seed)
        inputs = features(kind, seed, data.train_images)
        mean, std = inputs.mean(0), inputs.std(0) + 1e-6
        extracted = time.process_time() - begin
        rows: dict[str, list[float]] = {"validation": [], "test": [], "seconds": []}
        for C in THIS.regularisations:
            begin = time.process_time()
            model = LogisticRegression(C=C, max_iter=500).fit((inputs - mean) / std, data.train_labels)
            rows["seconds"].append(round(extracted + time.process_time() - begin, 2))
            for which, (x, y) in judging.items():
                rows[which].append(round(model.score((x - mean) / std, y), 4))
        found[str(labels)] = rows
    return found | {"shown": {labels: max(rows["validation"]) for labels, rows in found.items()}}


def tuned(name: str, labels: str, seed: int) -> dict:
    """Fine-tune one network in one way: its accuracy, its seconds, and how many numbers were trained."""
    model, history = fine_tune(Way(**THIS.ways[name]), drawn(int(labels), seed), THIS.labels[labels], seed)
    accuracy = judged(model, *judges("test", THIS.test_images)).accuracy
    return {
        "test_accuracy": round(accuracy, 4),
        "seconds": round(history.cpu_seconds, 1),
        "trained": count_parameters(model),
        "shown": f"{accuracy:.3f} in {history.cpu_seconds:.0f} s",
    }


def best(runs: list[dict], labels: str) -> dict:
    """Of the probes of all seeds: what the regularisation gives that is best for the validation images of all."""
    choices = range(len(THIS.regularisations))
    chosen = max(choices, key=lambda n: sum(run[labels]["validation"][n] for run in runs))
    return {
        "test_accuracy": [run[labels]["test"][chosen] for run in runs],
        "seconds": [run[labels]["seconds"][chosen] for run in runs],
        "regularisation": THIS.regularisations[chosen],
    }


def jobs() -> Iterable[tuple]:
    """The probes first, then the other arms, seed by seed."""
    for seed in THIS.seeds:
        for kind in THIS.probes.values():
            yield f"finetuning-{kind}-{seed}", partial(probe, kind), (seed,)
    for seed in THIS.seeds:
        for n, name in enumerate(THIS.ways):
            for labels in THIS.labels:
                yield f"finetuning-{n}-{labels}-{seed}", partial(tuned, name, labels), (seed,)


def run() -> dict:
    torch.set_num_threads(1)
    listed = list(jobs())
    found = dict(zip([name for name, *_ in listed], two_at_a_time(kept_job, listed), strict=True))
    arms: dict[str, dict] = {}
    for name, kind in THIS.probes.items():
        runs = [found[f"finetuning-{kind}-{seed}"] for seed in THIS.seeds]
        arms[name] = {labels: best(runs, labels) for labels in THIS.labels}
    for n, name in enumerate(THIS.ways):
        arms[name] = {}
        for labels in THIS.labels:
            runs = [found[f"finetuning-{n}-{labels}-{seed}"] for seed in THIS.seeds]
            arms[name][labels] = {key: [one[key] for one in runs] for key in ("test_accuracy", "seconds")}
            arms[name][labels]["trained"] = runs[0]["trained"]
    return {"arms": arms, "drawn_from": MOST}

"""Fine-tuning by learning rate: what trains a pretrained ViT well, and what destroys it within steps.

Chapter 15: DINOv2's ViT-S/14 is fine-tuned on 50 labelled images of each class
of Fashion-MNIST, enlarged to 56 x 56 pixels, at several learning rates. On the
way we ask which share of validation images gets the most frequent answer.
Judged by 500 validation images, which choose the rates of the experiment
`finetuning`.
"""

from functools import partial

import torch

from experiments._budget import two_at_a_time
from experiments._experiment import Experiment
from experiments._pretrained import RECIPE, SIDE, Way, drawn, fine_tune, judged, judges, kept_job
from vitnb.training import Training

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="choice",
    side_by_side=2,
    side=SIDE,
    labels=50,  # of each class
    steps=40,
    recipe=RECIPE,
    ways={
        "all weights, 1e-5": {"lr": 1e-5},
        "all weights, 1e-4": {"lr": 1e-4},
        "all weights, 1e-3": {"lr": 1e-3},
        "all weights, 1e-2": {"lr": 1e-2, "head": None},
        "all weights, 1e-4, the head too": {"lr": 1e-4, "head": None},
        "LoRA, 1e-3": {"lr": 1e-3, "lora": True},
        "LoRA, 1e-2": {"lr": 1e-2, "lora": True},
    },
    looks=[1, 2, 3, 5, 10, 20, 40],  # the steps after which the share is measured
    looked_at=100,
    validation_images=500,
)


def one(name: str, seed: int) -> dict:
    """Fine-tune one network in one way, and look at its answers on the way."""
    images, labels = judges("validation", THIS.validation_images)
    shares: list[float] = []

    def look(run: Training) -> None:
        if run.step in THIS.looks:
            answers = judged(run.model, images[: THIS.looked_at], labels[: THIS.looked_at]).predictions
            run.model.train()
            shares.append(round(answers.bincount().max().item() / THIS.looked_at, 4))

    try:
        model, history = fine_tune(Way(**THIS.ways[name]), drawn(THIS.labels, seed), THIS.steps, seed, [look])
        losses, accuracy = history.losses, judged(model, images, labels).accuracy
    except FloatingPointError:  # the loss is NaN or infinite: it guesses
        losses, accuracy = [], 1 / 10
    return {
        "validation_accuracy": round(accuracy, 4),
        "most_frequent": shares,
        "losses": [round(loss, 3) for loss in losses],
        "shown": f"{accuracy:.3f} {shares}",
    }


def run() -> dict:
    torch.set_num_threads(1)
    jobs = [
        (f"learning_rates-{n}-{seed}", partial(one, name), (seed,))
        for seed in THIS.seeds
        for n, name in enumerate(THIS.ways)
    ]
    runs = two_at_a_time(kept_job, jobs)
    ways = {}
    for n, name in enumerate(THIS.ways):
        mine = runs[n :: len(THIS.ways)]
        ways[name] = {key: [found[key] for found in mine] for key in ("validation_accuracy", "most_frequent", "losses")}
    return {"ways": ways}

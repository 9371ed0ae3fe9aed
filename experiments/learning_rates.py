"""How large a learning rate the features of a pretrained ViT survive: all its weights, six steps.

Chapter 15: DINOv2's ViT-S/14 on ten labelled clothes of each class, five draws.
Afterwards a linear classifier learns from the same images, as the trained body sees
them, and the answers of the head that was trained with it are counted.
"""

from dataclasses import replace

import torch
from sklearn.linear_model import RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from experiments._data import clothes
from experiments._experiment import Experiment
from experiments._pretrained import SIDE, enlarged, pretrained, to_train
from vitnb import ViT
from vitnb.training import Recipe, fit

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="mechanism",
    labels_per_class=10,
    images=1_000,  # to judge by
    rates=[0.0, 1e-5, 1e-4, 1e-3, 1e-2],
    penalty=1e3,  # of the linear classifier
    recipe=Recipe(epochs=1, batch_size=16, shift=0),
)


@torch.no_grad()
def cls_tokens(model: ViT, images: Tensor) -> Tensor:
    return torch.cat([model.forward_features(part)[:, 0] for part in images.split(100)])  # (B, D)


def run() -> dict:
    data, found = clothes(), {rate: {"test_accuracy": [], "commonest_answer": []} for rate in THIS.rates}
    for seed in THIS.seeds:
        few = data.subset(10 * THIS.labels_per_class, seed)
        train = to_train(few)
        test = train.normalize(enlarged(data.test_images[: THIS.images]))
        for rate in THIS.rates:
            model = pretrained(SIDE, 10, seed)
            if rate:
                fit(model, train, replace(THIS.recipe, lr=rate, seed=seed))
            model.eval()
            linear = make_pipeline(StandardScaler(), RidgeClassifier(THIS.penalty))
            linear.fit(cls_tokens(model, train.normalize(train.train_images)), few.train_labels)
            seen = cls_tokens(model, test)
            with torch.no_grad():
                answers = model.head(seen).argmax(1).bincount(minlength=10)
            found[rate]["test_accuracy"].append(round(linear.score(seen, data.test_labels[: THIS.images]), 4))
            found[rate]["commonest_answer"].append(round(answers.max().item() / THIS.images, 3))
            print(seed, rate, {name: values[-1] for name, values in found[rate].items()}, flush=True)
    return {"rates": found}

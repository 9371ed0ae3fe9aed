"""Six learning curves of the same small ViT, one right and five with a fault: which are which, the curves do not say.

Chapter 00: the small ViT of TrainRace on the page's digits, and the same with
five faults, each seen by another test of vitbook.faults. All six of a seed start
with the same weights and see the same batches. The accuracy on the test images
after each epoch; nothing is chosen by it.
"""

from dataclasses import replace
from functools import partial

from experiments._experiment import Experiment
from experiments._page import page
from experiments._trials import plain_products, train
from vitbook import faults
from vitbook.figures._train_data import dataset
from vitnb import ViT

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    **page("digits"),
    torch_threads=None,
    faults=("last read first", "listed blocks", "split by view", "softmax inside", "reshape alone"),
)


def build(name: str) -> ViT:
    return ViT(THIS.model) if name == "right" else faults.build(name, THIS.model)


def run() -> dict:
    data = dataset("digits")
    accuracy: dict[str, list[list[float]]] = {}
    loss: dict[str, list[list[float]]] = {}
    for name in ("right", *THIS.faults):
        with plain_products():
            found = [train(partial(build, name), data, replace(THIS.recipe, seed=seed))[1] for seed in THIS.seeds]
        accuracy[name] = [[round(share, 4) for share in one.test_accuracy] for one in found]
        loss[name] = [[round(value, 4) for value in one.train_loss] for one in found]
        print(name, [shares[-1] for shares in accuracy[name]], flush=True)
    return {"accuracy": accuracy, "loss": loss}

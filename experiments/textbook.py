"""The textbook's own model and recipe to the end of its ten epochs.

Chapter 10. The run takes hours, and goes on where it was interrupted. Because
it shares its machine with other programs, what an image costs is clocked apart
(few_epochs.py).
"""

from dataclasses import replace

from experiments._data import clothes, enlarged
from experiments._experiment import Experiment
from experiments._models import TEXTBOOK_RECIPE
from experiments._trials import plain_products, thin, train
from vitbook.textbook import textbook_vit
from vitnb.vit import count_parameters

THIS = Experiment(
    seeds=[0],
    purpose="mechanism",
    torch_threads=2,
    model="vitbook.textbook.textbook_vit()",
    pixels=[0, 1],
    recipe=replace(TEXTBOOK_RECIPE, epochs=10),
)


def run() -> dict:
    with plain_products():
        _, long = train(textbook_vit, enlarged(clothes()), THIS.recipe, "textbook-ten")
    return {
        "parameters": count_parameters(textbook_vit()),
        "images": long.images,
        "losses": thin(long.losses),
        "test_loss_by_epoch": [round(loss, 4) for loss in long.test_loss],
        "test_accuracy_by_epoch": [round(a, 4) for a in long.test_accuracy],
        "train_accuracy_by_epoch": [round(a, 4) for a in long.train_accuracy],
        "seconds": round(long.seconds, 1),
    }

"""The test accuracy of a small ViT with each fault of the clinic, beside that of the right one: five runs each.

Chapters 00 and 12: the small ViT of TrainRace (vitbook.figures) with the page's
own images, and the same with each fault of the clinic that a model or a
training loop can have; on Fashion-MNIST with those that people have published.
All runs of a seed start with the same weights and see the same batches. Nothing
is chosen by the test accuracy, which is that after the last step; a loss
that is NaN counts as guessing. Where a model draws its cls token anew in each
call, another run gives other numbers.
"""

from experiments._page import FROM_THE_FIELD, ORDERED, accuracies, of_faults
from vitbook import faults
from vitbook.faults.train import gradient, order
from vitnb.training import Recipe, decay_groups

# With one channel and square images these are no faults; the last one takes batches of one size only.
LEFT_OUT = ("channels last", "channels reversed", "sides swapped", "for each image")
# What people have published: the faults of exercise 12.4, and a few more.
WRITTEN = [
    *(name for name in sorted(faults.PUBLISHED) if name not in LEFT_OUT),
    "no plus",
    "mean with cls",
    "everything decays",
    "gradient not cleared",
    "not shuffled",
]
IN_TRAINING = (Recipe.lr_at, decay_groups, gradient, order)  # what a fault of a loop replaces
OTHERS = [
    name
    for in_training in (False, True)
    for name, fault in faults.FAULTS.items()
    if name not in (*WRITTEN, *LEFT_OUT, *FROM_THE_FIELD)
    and (fault.replaces in IN_TRAINING if in_training else fault.seen_by is not None)
]
PLANS = {  # name of the result: images, changes of the model, faults
    "digits": ("digits", {}, (*WRITTEN, *OTHERS)),
    "digits, std 1": ("digits", {"pos_std": 1.0}, ORDERED),
    "digits, none": ("digits", {"pos_embed": "none"}, ORDERED),
    "fashion_mnist": ("fashion_mnist", {}, WRITTEN),
}
THIS = of_faults(PLANS)


def run() -> dict:
    return {"results": accuracies("mutants", PLANS)}

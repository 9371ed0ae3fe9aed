"""The small ViT of the page with twenty seeds, right and with its heads split or merged wrongly, seed by seed.

Chapters 00, 04 and 12: the experiment `mutants` has five seeds of every bug, and
five seeds of the right model are a draw of their own. Here are twenty of the
right one, whose first five are those of `mutants` but for rounding, and of the two bugs whose
accuracy is above it.
"""

from dataclasses import replace

from experiments._experiment import Experiment
from experiments._page import ORDERED, TEST_BATCH, one, page
from experiments._trials import plain_products
from vitbook.figures._train_data import dataset

DATA = "digits"
NAMES = ("right", *ORDERED)
THIS = Experiment(seeds=list(range(20)), **page(DATA), test_batch=TEST_BATCH)


def run() -> dict:
    data, config, recipe = dataset(DATA), THIS.model, THIS.recipe
    with plain_products():
        return {name: [one(data, name, config, replace(recipe, seed=seed)) for seed in THIS.seeds] for name in NAMES}

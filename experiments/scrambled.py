"""A ViT trains on patches that are cut wrongly: neither the shape nor a short training tells.

Chapter 01: the same small model on patches cut right, on bundles of stripes
that reshape alone makes, and on images whose pixels were shuffled, all alike.
Once with a position table that starts so small that it is hardly read, as
chapter 02 shows, and once with one that is.
"""

from dataclasses import replace
from functools import partial

from experiments._data import clothes
from experiments._experiment import Experiment
from experiments._trials import train
from vitbook.faults import cut
from vitnb import PatchEmbedding, ViT, ViTConfig
from vitnb.data import Dataset
from vitnb.training import Recipe

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="mechanism",
    images=12_800,
    model=ViTConfig(patch_size=7, embed_dim=64, depth=4, num_heads=4, mlp_ratio=4.0),
    pos_stds=[0.02, 1.0],
    recipe=Recipe(epochs=4, lr=1e-3),
)
ARMS = {
    "right": PatchEmbedding,
    "reshape alone": cut.embedding(cut.reshape_alone),
    "pixels shuffled": cut.ShuffledPixels,
}


def build(arm: str, pos_std: float) -> ViT:
    """The model of one arm; all arms of a seed start with the same weights."""
    model = ViT(replace(THIS.model, pos_std=pos_std))
    model.patch_embed.__class__ = ARMS[arm]
    return model


def one(data: Dataset, arm: str, seed: int, pos_std: float) -> float:
    """Train one arm with one seed and return its accuracy on the test images."""
    name = f"scrambled-{list(ARMS).index(arm)}-{seed}-{pos_std}"
    _, history = train(partial(build, arm, pos_std), data, replace(THIS.recipe, seed=seed), name)
    accuracy = history.test_accuracy[-1]
    print(f"{arm}, pos_std {pos_std}, seed {seed}: {accuracy:.4f}", flush=True)
    return round(accuracy, 4)


def run() -> dict:
    data = clothes().subset(THIS.images, test=5000)
    return {
        "accuracy": {
            str(pos_std): {arm: [one(data, arm, seed, pos_std) for seed in THIS.seeds] for arm in ARMS}
            for pos_std in THIS.pos_stds
        }
    }

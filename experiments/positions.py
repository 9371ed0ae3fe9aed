"""Without positions a ViT reads a bag of patches; the larger its initial positions, the more shuffling costs it.

Chapter 02: the same small model with four kinds of positions, trained on
ordered images; then tested on images whose patches were shuffled, and,
with its position table stretched in the right and in a wrong way, on
images of other sizes.
"""

import copy
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from experiments._data import clothes, watched_on
from experiments._experiment import Experiment
from experiments._models import PLACED, PLACED_RECIPE, PLACES
from experiments._trials import accuracy, train
from vitbook.faults.place import as_one_line
from vitnb import ViT, patchify, resize_positions, unpatchify
from vitnb.data import Dataset

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="mechanism",
    torch_threads=None,
    images=8_000,
    test_images=5_000,
    model=PLACED,
    arms=PLACES,
    recipe=PLACED_RECIPE,
    sizes=[21, 28, 35, 42],
    size_test_images=2_000,  # test images for each size: more tokens, more time
)


def shuffle_patches(images: Tensor, patch_size: int, seed: int) -> Tensor:
    """Put the patches of each image (B, C, H, W) in an order of its own."""
    B, C, H, W = images.shape
    patches = patchify(images, patch_size)  # (B, N, C*p*p)
    noise = torch.rand(patches.shape[:2], generator=torch.Generator().manual_seed(seed))
    order = noise.argsort(dim=1)[..., None].expand_as(patches)
    return unpatchify(patches.gather(1, order), patch_size, (H, W), C)  # (B, C, H, W)


def resized(model: ViT, size: int, stretch=resize_positions) -> ViT:
    """The same weights for images of another size, the position table stretched."""
    larger = ViT(replace(model.config, img_size=size)).eval()
    state = copy.copy(model.state_dict())
    old, new = model.patch_embed.grid_size, larger.patch_embed.grid_size
    table = stretch(model.positions.table.detach(), old, new)
    if "positions.table" in state:
        state["positions.table"] = table
    else:
        larger.positions.table = table  # a buffer that is not stored: sin-cos
    larger.load_state_dict(state)
    return larger


def run() -> dict:
    data = clothes()
    data = data.subset(THIS.images, test=THIS.test_images)
    results = {arm: [one(data, arm, seed) for seed in THIS.seeds] for arm in THIS.arms}
    with_table = [arm for arm in THIS.arms if arm != "none"]
    return {
        "accuracy": {arm: {k: [r[k] for r in runs] for k in ("ordered", "shuffled")} for arm, runs in results.items()},
        "sizes": {arm: {k: [r[k] for r in results[arm]] for k in ("right", "line")} for arm in with_table},
    }


def one(data: Dataset, arm: str, seed: int) -> dict:
    """Train one arm with one seed and test it in every way."""
    config, name = replace(THIS.model, **THIS.arms[arm]), f"positions-{list(THIS.arms).index(arm)}-{seed}"
    model, _ = train(lambda: ViT(config), watched_on(data, 500), replace(THIS.recipe, seed=seed), name)
    images, labels = data.normalize(data.test_images), data.test_labels
    out = {
        "ordered": accuracy(model, images, labels),
        "shuffled": accuracy(model, shuffle_patches(images, THIS.model.patch_size, seed), labels),
        "right": [],
        "line": [],
    }
    print(f"{arm}, seed {seed}: {out['ordered']:.3f} in order, {out['shuffled']:.3f} shuffled", flush=True)
    if arm == "none":
        return out
    for size in THIS.sizes:
        scaled = F.interpolate(images[: THIS.size_test_images], size=(size, size), mode="bilinear", antialias=True)
        for key, stretch in (("right", resize_positions), ("line", as_one_line)):
            out[key].append(accuracy(resized(model, size, stretch), scaled, labels[: THIS.size_test_images]))
    return out

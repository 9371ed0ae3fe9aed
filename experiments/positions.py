"""Without positions a ViT reads a bag of patches; the larger its positions at the start, the more shuffling costs it.

Chapter 02: the same small model with four kinds of positions, trained on
ordered pictures; then tested on pictures whose patches were shuffled, and,
with its position table stretched in the right and in a wrong way, on
pictures of other sizes.
"""

import copy
from dataclasses import asdict, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from experiments import checkpoint, clothes
from vitnb import ViT, ViTConfig, patchify, resize_positions, unpatchify
from vitnb.data import Dataset
from vitnb.training import ProgressBar, Recipe, evaluate, fit

MODEL = ViTConfig(patch_size=7, embed_dim=48, depth=3, num_heads=4, mlp_ratio=4.0)
ARMS = {
    "none": {"pos_embed": "none"},
    "learned, std 0.02": {"pos_embed": "learned", "pos_std": 0.02},
    "learned, std 1": {"pos_embed": "learned", "pos_std": 1.0},
    "sin-cos": {"pos_embed": "sincos"},
}
RECIPE = Recipe(epochs=5)
PICTURES = 8_000
TEST_PICTURES = 5_000
SIZES = [21, 28, 35, 42]
SIZE_TEST = 2_000  # test pictures for each size: more tokens, more time
SEEDS = [0, 1, 2, 3, 4]
CONFIG = {
    "data": "fashion_mnist",
    "pictures": PICTURES,
    "test_pictures": TEST_PICTURES,
    "device": "cpu",
    "model": MODEL.to_dict(),
    "arms": ARMS,
    "recipe": asdict(RECIPE),
    "sizes": SIZES,
    "size_test_pictures": SIZE_TEST,
}


def shuffle_patches(images: Tensor, patch_size: int, seed: int) -> Tensor:
    """Put the patches of each picture (B, C, H, W) in an order of its own."""
    B, C, H, W = images.shape
    patches = patchify(images, patch_size)  # (B, N, C*p*p)
    noise = torch.rand(patches.shape[:2], generator=torch.Generator().manual_seed(seed))
    order = noise.argsort(dim=1)[..., None].expand_as(patches)
    return unpatchify(patches.gather(1, order), patch_size, (H, W), C)  # (B, C, H, W)


def as_a_line(table: Tensor, old: tuple[int, int], new: tuple[int, int]) -> Tensor:
    """The wrong way: stretch the table (1, 1 + N, D) as if the places stood in one line."""
    line = table[:, 1:].mT  # (1, D, N)
    line = F.interpolate(line, size=new[0] * new[1], mode="linear")  # (1, D, N')
    return torch.cat([table[:, :1], line.mT], dim=1)  # (1, 1 + N', D)


def resized(model: ViT, size: int, stretch=resize_positions) -> ViT:
    """The same weights for pictures of another size, the position table stretched."""
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
    data = data.subset(PICTURES, test=TEST_PICTURES)
    results = {arm: [one(data, arm, seed) for seed in SEEDS] for arm in ARMS}
    with_table = [arm for arm in ARMS if arm != "none"]
    return {
        "accuracy": {arm: {k: [r[k] for r in runs] for k in ("ordered", "shuffled")} for arm, runs in results.items()},
        "sizes": {arm: {k: [r[k] for r in results[arm]] for k in ("right", "line")} for arm in with_table},
    }


def one(data: Dataset, arm: str, seed: int) -> dict:
    """Train one arm with one seed and test it in every way."""
    torch.manual_seed(seed)
    model = ViT(replace(MODEL, **ARMS[arm]))
    name = f"positions-{list(ARMS).index(arm)}-{seed}"
    few = replace(data, test_images=data.test_images[:500], test_labels=data.test_labels[:500])  # after each epoch
    fit(model, few, replace(RECIPE, seed=seed), [ProgressBar()], checkpoint(name))
    images, labels = data.normalize(data.test_images), data.test_labels
    out = {
        "ordered": accuracy(model, images, labels),
        "shuffled": accuracy(model, shuffle_patches(images, MODEL.patch_size, seed), labels),
        "right": [],
        "line": [],
    }
    print(f"{arm}, seed {seed}: {out['ordered']:.3f} in order, {out['shuffled']:.3f} shuffled", flush=True)
    if arm == "none":
        return out
    for size in SIZES:
        scaled = F.interpolate(images[:SIZE_TEST], size=(size, size), mode="bilinear", antialias=True)
        for key, stretch in (("right", resize_positions), ("line", as_a_line)):
            out[key].append(accuracy(resized(model, size, stretch), scaled, labels[:SIZE_TEST]))
    return out


def accuracy(model: ViT, images: Tensor, labels: Tensor) -> float:
    return round(evaluate(model, images, labels).accuracy, 4)

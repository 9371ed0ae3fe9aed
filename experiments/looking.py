"""What shows in a small ViT after a short training, and what in the same network before it.

Chapter 08: how many tokens a head hears, how far it looks, whether the position table
knows its neighbours, whether the filters are smooth, and whether attention tells which
patches the answer depends on. Five seeds, each beside its own random start.
"""

from dataclasses import asdict, replace

import torch
from torch import Tensor

from experiments import clothes
from experiments.trained import MODEL
from vitnb import ViT, patchify, record_attention
from vitnb.data import Dataset
from vitnb.inspection import (
    attention_distance,
    occlusion,
    position_similarity,
    rank_correlation,
    rollout,
    token_removal,
)
from vitnb.training import ProgressBar, Recipe, fit

RECIPE = Recipe(epochs=4)
THREADS = 1
TRAIN, LOOK = 12_800, 500  # pictures to learn from, and to look at
SEEDS = [0, 1, 2, 3, 4]
CONFIG = {
    "data": "fashion_mnist",
    "pictures": TRAIN,
    "pictures_looked_at": LOOK,
    "device": "cpu",
    "model": MODEL.to_dict(),
    "recipe": asdict(RECIPE),
}


def run() -> dict:
    data = clothes().subset(TRAIN)
    torch.set_num_threads(THREADS)
    runs = []
    for seed in SEEDS:
        torch.manual_seed(seed)
        model = ViT(MODEL).eval()
        before = look(model, data)
        history = fit(model, data, replace(RECIPE, seed=seed), [ProgressBar()])
        accuracy = round(history.test_accuracy[-1], 4)
        runs.append({"seed": seed, "test_accuracy": accuracy, "random": before, "trained": look(model, data)})
    return {"runs": runs}


@torch.no_grad()
def look(model: ViT, data: Dataset) -> dict:
    """Everything that chapter 08 looks at, as numbers."""
    pixels = data.test_images[:LOOK]
    images = data.normalize(pixels)  # (B, C, H, W)
    with record_attention(model) as maps:
        said = model(images).argmax(1)  # (B,)
    signs = {
        "attention of cls, last layer": maps[-1].mean(1)[:, 0, 1:],  # (B, N)
        "rollout": rollout(maps)[:, 0, 1:],
        "brightness": patchify(pixels.float(), MODEL.patch_size).mean(2),
    }
    black = (0 - data.mean[0]) / data.std[0]
    moved = {
        "black": occlusion(model, images, said, black).abs(),
        "gray": occlusion(model, images, said).abs(),
        "removed": token_removal(model, images, said).abs(),
    }
    kernels = model.patch_embed.proj.weight  # (D, C, p, p)
    energy = torch.linalg.svdvals(kernels.flatten(1)) ** 2
    near, far = similarity(model)
    return {
        "heard": rounded(heard(maps)),
        "distance": rounded(attention_distance(maps, model.patch_embed.grid_size)),
        "similarity_neighbours": near,
        "similarity_others": far,
        "energy_first_4": round((energy[:4].sum() / energy.sum()).item(), 4),
        "agreement": {
            sign: {way: round(rank_correlation(a, b).nanmean().item(), 4) for way, b in moved.items()}
            for sign, a in signs.items()
        },
    }


def heard(maps: list[Tensor]) -> Tensor:
    """How many tokens a row of attention hears, e to the power of its entropy: (layers, h)."""
    return torch.stack([(-(a * a.clamp(min=1e-30).log()).sum(-1)).exp().mean((0, 2)) for a in maps])


def similarity(model: ViT) -> tuple[float, float]:
    """The mean cosine of two places that are neighbours, and of two that are not."""
    rows, cols = model.patch_embed.grid_size
    places = torch.cartesian_prod(torch.arange(rows), torch.arange(cols)).float()
    distance, cosine = torch.cdist(places, places), position_similarity(model.positions.table)
    return round(cosine[distance == 1].mean().item(), 4), round(cosine[distance > 1].mean().item(), 4)


def rounded(values: Tensor) -> list:
    return [[round(v, 3) for v in row] for row in values.tolist()]

"""What shows in a small ViT after a short training, and what in the same network before it.

Chapter 11: how many tokens a head attends to, its attention distance, whether the position table
knows its neighbours, whether the filters are smooth, whether cls attends to the clothes,
whether attention tells which patches the answer depends on (and whether it says more than
the place of a patch does), and what the accuracy loses without a head or a layer's heads.
Five seeds, each beside its own initialisation.
"""

from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor

from experiments._data import clothes
from experiments._experiment import Experiment
from experiments._models import SMALL
from vitnb import ViT, patchify, record_attention
from vitnb.data import Dataset
from vitnb.inspection import (
    ablate,
    attention_distance,
    head_means,
    mean_of_others,
    occlusion,
    overlap,
    position_similarity,
    rank_correlation,
    rollout,
    share_inside,
    token_removal,
)
from vitnb.progress import ProgressBar
from vitnb.training import Recipe, fit

THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="mechanism",
    images=12_800,
    images_looked_at=500,
    images_ablated=2_000,
    ink=0.1,  # a patch with this mean brightness or more shows clothes
    model=SMALL,
    recipe=Recipe(epochs=4),
)


def run() -> dict:
    data = clothes().subset(THIS.images)
    runs = []
    for seed in THIS.seeds:
        torch.manual_seed(seed)
        model = ViT(THIS.model).eval()
        start = deepcopy(model)
        history = fit(model, data, replace(THIS.recipe, seed=seed), [ProgressBar()])
        model.eval()
        accuracy = round(history.test_accuracy[-1], 4)
        shown = {"random": look(start, data, start), "trained": look(model, data, start)}
        runs.append({"seed": seed, "test_accuracy": accuracy, **shown, "ablated": ablated(model, data)})
    return {"patches_with_ink": round(ink(data).float().mean().item(), 4), "runs": runs}


@torch.no_grad()
def look(model: ViT, data: Dataset, start: ViT) -> dict:
    """Everything that chapter 11 measures."""
    pixels = data.test_images[: THIS.images_looked_at]
    images = data.normalize(pixels)  # (B, C, H, W)
    with record_attention(model) as maps:
        predicted = model(images).argmax(1)  # (B,)
    with record_attention(start) as start_maps:
        start(images)
    signs = {
        "attention of cls, last layer": maps[-1].mean(1)[:, 0, 1:],  # (B, N)
        "rollout": rollout(maps)[:, 0, 1:],
        "rollout of the random network": rollout(start_maps)[:, 0, 1:],
        "brightness": patchify(pixels.float(), THIS.model.patch_size).mean(2),
    }
    black = (0 - data.mean[0]) / data.std[0]
    moved = {
        "black": occlusion(model, images, predicted, black).abs(),
        "gray": occlusion(model, images, predicted).abs(),
        "removed": token_removal(model, images, predicted).abs(),
    }
    kernels = model.patch_embed.proj.weight  # (D, C, p, p)
    energy = torch.linalg.svdvals(kernels.flatten(1)) ** 2
    near, far = similarity(model)
    return {
        "attended_tokens": rounded(attended_tokens(maps)),
        "distance": rounded(attention_distance(maps, model.patch_embed.grid_size)),
        "similarity_neighbours": near,
        "similarity_others": far,
        "energy_first_4": round((energy[:4].sum() / energy.sum()).item(), 4),
        "agreement": {
            sign: {way: mean(rank_correlation(a, b)) for way, b in moved.items()} for sign, a in signs.items()
        }
        | {"place": {way: mean(rank_correlation(mean_of_others(b), b)) for way, b in moved.items()}},
        # What is left of both when the mean of the other images is taken away: is a sign about this image?
        "agreement_beyond_place": {
            sign: {
                way: mean(rank_correlation(a - mean_of_others(a), b - mean_of_others(b))) for way, b in moved.items()
            }
            for sign, a in signs.items()
        },
        "cls": [on_the_clothes(weights[:, :, 0, 1:], ink(data)) for weights in maps],  # a layer each
    }


def ink(data: Dataset) -> Tensor:
    """Which patches of the images show clothes: (B, N)."""
    return patchify(data.test_images[: THIS.images_looked_at].float() / 255, THIS.model.patch_size).mean(2) >= THIS.ink


def on_the_clothes(heads: Tensor, mask: Tensor) -> dict:
    """Whether the maps of cls (B, h, N) lie on the patches of the mask, and whether they cover them."""
    maps = heads.mean(1)  # (B, N)
    return {
        "on_ink": mean(share_inside(maps, mask)),
        "on_ink_others": mean(share_inside(mean_of_others(maps), mask)),  # what the place alone gives
        "overlap": mean(overlap(maps, mask)),
        "overlap_best_head": max(mean(overlap(head, mask)) for head in heads.unbind(1)),
    }


@torch.no_grad()
def ablated(model: ViT, data: Dataset) -> dict:
    """What the accuracy gains without one head, or without the heads of a layer, and the paired standard error."""
    images, labels = data.normalize(data.test_images[: THIS.images_ablated]), data.test_labels[: THIS.images_ablated]
    layers, h = THIS.model.depth, THIS.model.num_heads
    means = head_means(model, data.normalize(data.train_images[: THIS.images_ablated]))
    whole = (model(images).argmax(1) == labels).float()  # (B,)

    def lost(heads: list[tuple[int, int]], means: Tensor | None) -> list[float]:
        change = (ablate(model, heads, means)(images).argmax(1) == labels).float() - whole  # (B,)
        return [round(change.mean().item(), 4), round((change.std() / len(change) ** 0.5).item(), 4)]

    found = {"whole": mean(whole)}
    for way, values in (("zeros", None), ("means", means)):
        found[way] = {
            "head": [[lost([(layer, head)], values) for head in range(h)] for layer in range(layers)],
            "layer": [lost([(layer, head) for head in range(h)], values) for layer in range(layers)],
        }
    return found


def mean(values: Tensor) -> float:
    return round(values.nanmean().item(), 4)


def attended_tokens(maps: list[Tensor]) -> Tensor:
    """How many tokens a row of attention attends to, e to the power of its entropy: (layers, h)."""
    return torch.stack([(-(a * a.clamp(min=1e-30).log()).sum(-1)).exp().mean((0, 2)) for a in maps])


def similarity(model: ViT) -> tuple[float, float]:
    """The mean cosine of two places that are neighbours, and of two that are not."""
    rows, cols = model.patch_embed.grid_size
    places = torch.cartesian_prod(torch.arange(rows), torch.arange(cols)).float()
    distance, cosine = torch.cdist(places, places), position_similarity(model.positions.table)
    return round(cosine[distance == 1].mean().item(), 4), round(cosine[distance > 1].mean().item(), 4)


def rounded(values: Tensor) -> list:
    return [[round(v, 3) for v in row] for row in values.tolist()]

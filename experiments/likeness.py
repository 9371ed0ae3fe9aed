"""Patches of four photos, and how like each other a pretrained ViT finds them, for the live figure of chapter 15.

DINOv2's ViT-S/14 sees the photos in 24 x 24 patches. Of their tokens, each
divided by its length, the directions in which all differ most are stored, in
bytes; the record says how far the cosines of what is stored are from those of
the tokens themselves.
"""

import torch
from safetensors.torch import save
from torch import Tensor
from torch.nn import functional as F

from experiments import RESULTS
from experiments._experiment import Experiment
from experiments._pretrained import normalized
from vitbook import images
from vitnb import weights
from vitnb._files import replacing

THIS = Experiment(
    seeds=[0],
    purpose="untrained",
    torch_threads=None,
    data=None,
    photos={"hopper": "Grace Hopper", "collins": "Eileen Collins", "rocket": "a rocket", "cat": "a cat"},
    grid=24,
    pixels=144,  # of a stored photo
    directions=40,
)


def tokens_of(photos: Tensor) -> Tensor:
    """The patch tokens of photos of bytes, of length 1: (photos, N, D)."""
    model = weights.dinov2("package")
    if model is None:
        raise RuntimeError("this experiment needs the weights of requirements-pretrained.txt")
    with torch.no_grad():
        tokens = model.resized(photos.shape[-1]).forward_features(normalized(photos))
    return F.normalize(tokens[:, 1:], dim=-1)


def shortened(tokens: Tensor) -> Tensor:
    """The tokens in the directions that count most, as signed bytes: (photos, N, directions)."""
    _, _, axes = torch.linalg.svd(tokens.flatten(0, 1), full_matrices=False)
    short = tokens @ axes[: THIS.directions].T
    return (127 * short / short.abs().max()).round().to(torch.int8)


def cosines(tokens: Tensor) -> Tensor:
    """Of every patch with every other one: (photos * N, photos * N)."""
    tokens = F.normalize(tokens.float().flatten(0, 1), dim=-1)
    return tokens @ tokens.T


def run() -> dict:
    side = 14 * THIS.grid
    photos = torch.stack([(255 * images.photo(name, side)).round() for name in THIS.photos])
    tokens = tokens_of(photos.byte())
    short = shortened(tokens)
    small = torch.stack([(255 * images.photo(name, THIS.pixels)).round().byte() for name in THIS.photos])
    with replacing(RESULTS / "likeness.safetensors") as part:
        part.write_bytes(save({"pixels": small, "tokens": short.contiguous()}))
    off = (cosines(short) - cosines(tokens)).abs()
    return {
        "cosines_off_mean": round(off.mean().item(), 4),
        "cosines_off_max": round(off.max().item(), 4),
        "bytes": small.numel() + short.numel(),
    }

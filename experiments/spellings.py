"""Two layers of vitnb beside the same arithmetic spelled otherwise: time of a pass forward and back.

Chapter 01 shows the first. The patches by one product or by the convolution with the
same weights; q, k and v by chunk or by permute; and attention that cannot be
recorded, so has nothing to ask. The rounds are interleaved.
"""

import random
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from experiments._experiment import Experiment
from experiments._models import SIZES
from experiments._timing import DEVICE, race
from vitnb import MultiHeadAttention, PatchEmbedding

THIS = Experiment(seeds=[0], purpose="timing", torch_threads=None, data=None, device=DEVICE, sizes=SIZES, rounds=25)


class ByConvolution(PatchEmbedding):
    def __init__(self, img_size: int, patch_size: int, in_chans: int, embed_dim: int):
        super().__init__(img_size, patch_size, in_chans, embed_dim)
        self.proj = nn.Conv2d(in_chans, embed_dim, patch_size, patch_size)


class ByPermute(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = self.qkv(x).reshape(B, T, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        return self.proj(self.attend(q, k, v).transpose(1, 2).reshape(B, T, D))


class NeverRecorded(MultiHeadAttention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)


def run() -> dict:
    torch.manual_seed(THIS.seeds[0])
    chance = random.Random(THIS.seeds[0])
    result: dict[str, dict] = {"patches": {}, "attention": {}}
    for size, s in THIS.sizes.items():
        patches, attention = layers(s)
        images = torch.randn(s["batch"], s["in_chans"], s["img_size"], s["img_size"], device=DEVICE)
        tokens = torch.randn(s["batch"], patches["product"].num_patches + 1, s["embed_dim"], device=DEVICE)
        tokens.requires_grad_()
        for kind, choices, x in (("patches", patches, images), ("attention", attention, tokens)):
            result[kind][size] = race(
                {n: both_ways(layer, x) for n, layer in choices.items()}, THIS.rounds, chance, 0.1
            )
    return result


def layers(s: dict[str, int]) -> tuple[dict[str, nn.Module], dict[str, nn.Module]]:
    """Both layers in all spellings, with equal weights."""
    sizes = s["img_size"], s["patch_size"], s["in_chans"], s["embed_dim"]
    patches = {"product": PatchEmbedding(*sizes), "convolution": ByConvolution(*sizes)}
    heads = s["embed_dim"], s["num_heads"]
    attention = {"chunk": MultiHeadAttention(*heads), "permute": ByPermute(*heads), "never": NeverRecorded(*heads)}
    for ours, *others in (patches.values(), attention.values()):
        for other in others:
            other.load_state_dict(ours.state_dict())
    return tuple({n: layer.to(DEVICE) for n, layer in kinds.items()} for kinds in (patches, attention))


def both_ways(layer: nn.Module, x: Tensor) -> Callable[[], None]:
    def one() -> None:
        y = layer(x)
        y.backward(torch.ones_like(y))

    return one

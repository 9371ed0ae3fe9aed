"""The exercises of chapter 6: right answers however they are written, and wrong ones that no check declares."""

import math

import torch
from torch import nn

from tests.course.answers import RIGHT, WRONG, remade, wrong
from vitbook.exercises.chapter_06 import _Scaled
from vitnb import MLP

# 6.2 ------------------------------------------------------------------------------------------------------


def push(L):
    return math.sqrt(0.5 ** (-1 / L) - 1)


RIGHT["6.2"] += [lambda L: torch.tensor(math.expm1(math.log(2) / L)).sqrt()]
WRONG["6.2"] |= {
    "leaves 1 of the distance": lambda L: 0,
    "0.50025 of the distance, and not one half. You are near:": lambda L: round(push(L), 3) - 0.0005 * (L == 1),
    "The size of a push is not negative": lambda L: -push(L),
}

# 6.3 ------------------------------------------------------------------------------------------------------


@wrong("6.3", "No gradient reaches your gain1")
class Detached(_Scaled):
    def forward(self, x):
        x = x + self.gain1.detach() * self.attention(self.norm1(x))
        return x + self.gain2 * self.mlp(self.norm2(x))


@wrong("6.3", "gain1 starts at 0.5 in one of its features: all of it should start at 0.0001")
class OneFeatureOff(_Scaled):
    def __init__(self, dim, num_heads, gain):
        super().__init__(dim, num_heads, gain)
        self.gain1.data[-1] = 0.5


def gain_by(make):
    """The second gain, made in another way."""
    return remade(_Scaled, gain2=lambda block, dim, num_heads, gain: make(torch.full((dim,), gain)))


WRONG["6.3"] |= {
    "which no optimizer would train": gain_by(lambda numbers: numbers),
    "Expected gain2 of shape (48,), one gain for each feature, got (1,)": gain_by(lambda n: nn.Parameter(n[:1])),
    "Your gain2 has requires_grad=False": gain_by(lambda numbers: nn.Parameter(numbers, requires_grad=False)),
    "one and the same parameter": remade(_Scaled, gain2=lambda block, *sizes: block.gain1),
    "an MLP with 192 hidden units, 4 * dim, got 96": remade(_Scaled, mlp=lambda m, D, *rest: MLP(D, 2 * D)),
}

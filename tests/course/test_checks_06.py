"""The exercises of chapter 6: right answers however they are written, and wrong ones that no check declares."""

import math

import torch
from torch import nn

from tests.course.answers import right, wrong
from vitbook.exercises.chapter_06 import _Scaled

# 6.1 ------------------------------------------------------------------------------------------------------


right("6.1")(lambda: "BC")
right("6.1")(lambda: "c, b")
wrong("6.1", "draw the borders of the blocks elsewhere")(lambda: "ABC")
wrong("6.1", "which boxes stand on its residual stream")(lambda: "B")
wrong("6.1", "what is left of a block when its branches")(lambda: "C")
wrong("6.1", "You are right about 3 of 4")(lambda: "BCD")
wrong("6.1", "what does a gain of 1 change")(lambda: "BCD")
wrong("6.1", "You are right about 0 of 4")(lambda: "A D")
wrong("6.1", "only the stacks A to D: you name E")(lambda: "BCE")
wrong("6.1", "a string such as 'AC' is wanted")(lambda: ["B", "C"])

# 6.2 ------------------------------------------------------------------------------------------------------

right("6.2")(lambda L: math.sqrt(0.5 ** (-1 / L) - 1))
right("6.2")(lambda L: torch.tensor(math.expm1(math.log(2) / L)).sqrt())


@right("6.2")
def by_bisection(L):
    low, high = 0.0, 2.0
    for _ in range(60):
        beta = (low + high) / 2
        low, high = (beta, high) if (1 + beta**2) ** -L > 0.5 else (low, beta)
    return beta


wrong("6.2", "leaves 0.0625 of the distance: one half is wanted")(lambda L: math.sqrt(15) if L == 1 else 0)
wrong("6.2", "leaves 1 of the distance")(lambda L: 0)
wrong("6.2", "a number is wanted")(lambda L: "large")

# 6.3 ------------------------------------------------------------------------------------------------------

right("6.3")(_Scaled)


@right("6.3")
class InAnotherOrder(_Scaled):
    def forward(self, x):
        x = self.attention(self.norm1(x)) * self.gain1 + x
        return torch.addcmul(x, self.mlp(self.norm2(x)), self.gain2)


@wrong("6.3", "which no optimizer would train")
class NoParameter(_Scaled):
    def __init__(self, dim, num_heads, gain):
        super().__init__(dim, num_heads, gain)
        del self.gain1
        self.gain1 = torch.full((dim,), gain)


@wrong("6.3", "gain2 has the shape (1,)")
class OneNumber(_Scaled):
    def __init__(self, dim, num_heads, gain):
        super().__init__(dim, num_heads, gain)
        self.gain2 = nn.Parameter(torch.tensor([gain]))


@wrong("6.3", "gain1 starts at 1 in its first feature: all of it should start at 0.0001")
class FromOne(_Scaled):
    def __init__(self, dim, num_heads, gain):
        super().__init__(dim, num_heads, 1.0)


@wrong("6.3", "one and the same parameter")
class Shared(_Scaled):
    def __init__(self, dim, num_heads, gain):
        super().__init__(dim, num_heads, gain)
        self.gain2 = self.gain1


@wrong("6.3", "A part named norm2, of the kind LayerNorm, is wanted: there is none")
class OneNorm(_Scaled):
    def __init__(self, dim, num_heads, gain):
        super().__init__(dim, num_heads, gain)
        del self.norm2


@wrong("6.3", "1 heads: 6 were asked for")
class OneHead(_Scaled):
    def __init__(self, dim, num_heads, gain):
        super().__init__(dim, 1, gain)


@wrong("6.3", "by no mistake that I know")
class MLPFirst(_Scaled):
    def forward(self, x):
        x = x + self.gain2 * self.mlp(self.norm2(x))
        return x + self.gain1 * self.attention(self.norm1(x))


wrong("6.3", "an nn.Module is wanted")(lambda dim, num_heads, gain: gain)

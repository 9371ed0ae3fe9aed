"""The exercises of chapter 6: right answers however they are written, and wrong ones that no check declares."""

import math

import torch
from torch import nn

from tests.course.answers import right, wrong
from vitbook.exercises.chapter_06 import _Scaled
from vitnb import MLP

# 6.1 ------------------------------------------------------------------------------------------------------


right("6.1")(lambda: "c, b")
wrong("6.1", "draw the borders of the blocks elsewhere")(lambda: "ABC")
wrong("6.1", "which boxes stand on its residual stream")(lambda: "B")
wrong("6.1", "what is left of a block when its branches")(lambda: "C")
wrong("6.1", "You are right about 3 of 4")(lambda: "BCD")
wrong("6.1", "what does a gain of 1 change")(lambda: "BCD")
wrong("6.1", "You are right about 0 of 4")(lambda: "A D")
wrong("6.1", "only the stacks A to D: you name E")(lambda: "BCE")
wrong("6.1", "Expected a string such as 'AC', got a list of 2")(lambda: ["B", "C"])

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


wrong("6.2", "leaves 0.0625 of the distance, and not one half")(lambda L: math.sqrt(15) if L == 1 else 0)
wrong("6.2", "leaves 1 of the distance")(lambda L: 0)
wrong("6.2", "leaves 0.50025 of the distance, and not one half. You are near: do not round")(
    lambda L: round(math.sqrt(0.5 ** (-1 / L) - 1), 3) - (0.0005 if L == 1 else 0)
)
wrong("6.2", "The size of a push is not negative")(lambda L: -math.sqrt(0.5 ** (-1 / L) - 1))
wrong("6.2", "Expected a number")(lambda L: "large")

# 6.3 ------------------------------------------------------------------------------------------------------


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


@wrong("6.3", "Expected gain2 of shape (48,), one gain for each feature, got (1,)")
class OneNumber(_Scaled):
    def __init__(self, dim, num_heads, gain):
        super().__init__(dim, num_heads, gain)
        self.gain2 = nn.Parameter(torch.tensor([gain]))


@wrong("6.3", "gain1 starts at 1 in one of its features: all of it should start at 0.0001")
class FromOne(_Scaled):
    def __init__(self, dim, num_heads, gain):
        super().__init__(dim, num_heads, 1.0)


@wrong("6.3", "one and the same parameter")
class Shared(_Scaled):
    def __init__(self, dim, num_heads, gain):
        super().__init__(dim, num_heads, gain)
        self.gain2 = self.gain1


@wrong("6.3", "Expected a part named norm2, of the kind LayerNorm: there is none")
class OneNorm(_Scaled):
    def __init__(self, dim, num_heads, gain):
        super().__init__(dim, num_heads, gain)
        del self.norm2


@wrong("6.3", "Expected attention with 6 heads, the num_heads given, got 1.")
class OneHead(_Scaled):
    def __init__(self, dim, num_heads, gain):
        super().__init__(dim, 1, gain)


@wrong("6.3", "Expected an MLP with 192 hidden units, 4 * dim, got 96")
class Narrow(_Scaled):
    def __init__(self, dim, num_heads, gain):
        super().__init__(dim, num_heads, gain)
        self.mlp = MLP(dim, 2 * dim)


@wrong("6.3", "Your gain2 has requires_grad=False")
class Frozen(_Scaled):
    def __init__(self, dim, num_heads, gain):
        super().__init__(dim, num_heads, gain)
        self.gain2.requires_grad_(False)


@wrong("6.3", "No gradient reaches your gain1")
class Detached(_Scaled):
    def forward(self, x):
        x = x + self.gain1.detach() * self.attention(self.norm1(x))
        return x + self.gain2 * self.mlp(self.norm2(x))


@wrong("6.3", "gain1 starts at 0.5 in one of its features")
class OneFeatureOff(_Scaled):
    def __init__(self, dim, num_heads, gain):
        super().__init__(dim, num_heads, gain)
        self.gain1.data[-1] = 0.5


@wrong("6.3", "by no mistake that I know")
class MLPFirst(_Scaled):
    def forward(self, x):
        x = x + self.gain2 * self.mlp(self.norm2(x))
        return x + self.gain1 * self.attention(self.norm1(x))


wrong("6.3", "Expected an nn.Module")(lambda dim, num_heads, gain: gain)

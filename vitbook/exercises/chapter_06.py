"""Exercises of chapter 6: which deep stack trains, how large a push may be, a block with LayerScale."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from vitbook.exercises.chapter_05 import block_as_asked
from vitbook.exercises.forms import blank_class, changed, compute, found, letters
from vitbook.exercises.values import fresh
from vitnb.attention import MultiHeadAttention
from vitnb.blocks import MLP

REASONS = {
    "A": "A: draw the borders of the blocks elsewhere. Which stack is it then?",
    "B": "B: what is left of a block when its branches are multiplied by 0.0001?",
    "C": "C: which boxes stand on its residual stream? Find it in the experiment.",
    "D": "D: what does a gain of 1 change in the first steps?",
}


letters(
    "6.1",
    "these_train()",
    "Draw the diagram of each. Where does a norm stand on the residual stream? And how far is each block from the "
    "identity before the first step?",
    "One of them is another one in disguise: chapter 5 proves it. And a number that multiplies by 1 does nothing, "
    "at first.",
    chosen="BC",
    reasons=REASONS,
    things="stacks",
    right="the measurement says the same. The solution prints it.",
)


def _other_push(result: float, right: float, L: int) -> str:
    if result < 0:
        return "The size of a push is not negative: an equation with beta^2 has two roots."
    left = (1 + result**2) ** -L
    rounded = " You are near: do not round." if abs(result - right) < 0.01 * right else ""
    return f"For L = {L} your push {result:.6g} leaves {left:.6g} of the distance, and not one half.{rounded}"


compute(
    "6.2",
    "largest_push(L)",
    "What is left of the distance after one sum and its norm, if the push has the size beta? How many sums are there "
    "in L blocks?",
    "Set the rule for post-norm equal to one half. Take the L-th root of both sides before you solve for beta.",
    cases=lambda: ((L,) for L in (1, 3, 6, 24, 36, 100)),
    reference=lambda L: (2 ** (1 / L) - 1) ** 0.5,
    mistakes={
        "That is the square of the push: a root is missing.": lambda L: 2 ** (1 / L) - 1,
        "You count one sum for each block: a block has two branches, and each of them ends in a sum and a norm.": (
            lambda L: (4 ** (1 / L) - 1) ** 0.5
        ),
        "You take 2L for the exponent of 1 + beta^2: each of the 2L norms divides by the square root of that.": (
            lambda L: (2 ** (1 / (2 * L)) - 1) ** 0.5
        ),
        "You let each norm divide by 1 + beta: pushes in unrelated directions add as squares do.": (
            lambda L: 2 ** (1 / (2 * L)) - 1
        ),
        "That is the answer for pre-norm, which divides only once, in its final norm.": lambda L: (3 / (2 * L)) ** 0.5,
        "That is what it approaches for many blocks: the exact answer needs no logarithm.": (
            lambda L: (torch.tensor(2.0, dtype=torch.double).log().item() / L) ** 0.5
        ),
        "Your push does not depend on L: it leaves half of the distance after one block, and less after each further "
        "one.": lambda L: 1.0,
    },
    otherwise=_other_push,
    right="half of the distance is left for 6 depths from 1 to 100 blocks.",
)


class _Scaled(nn.Module):
    """A pre-norm block with LayerScale; the wrong ones below differ in one half, or in both."""

    def __init__(self, dim: int, num_heads: int, gain: float):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention, self.mlp = MultiHeadAttention(dim, num_heads), MLP(dim, 4 * dim)
        self.gain1, self.gain2 = (nn.Parameter(torch.full((dim,), float(gain))) for _ in range(2))

    def half(self, x: Tensor, norm: nn.Module, layer: nn.Module, gain: Tensor) -> Tensor:
        return x + gain * layer(norm(x))

    def first(self, x: Tensor) -> Tensor:
        return self.half(x, self.norm1, self.attention, self.gain1)

    def second(self, x: Tensor) -> Tensor:
        return self.half(x, self.norm2, self.mlp, self.gain2)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))


def _halves(half: Callable[..., Tensor]) -> type[nn.Module]:
    """A block whose two halves are both made in this way, from (x, norm, layer, gain)."""
    return changed(_Scaled, half=lambda self, *parts: half(*parts))


SCALED_MISTAKES: dict[str, type[nn.Module]] = {
    "Your gains are made and not used: the block computes what a plain pre-norm block computes.": (
        _halves(lambda x, norm, layer, gain: x + layer(norm(x)))
    ),
    "Only attention has a gain: the MLP's branch needs one as well.": (
        changed(_Scaled, second=lambda self, x: x + self.mlp(self.norm2(x)))
    ),
    "Only the MLP has a gain: attention's branch needs one as well.": (
        changed(_Scaled, first=lambda self, x: x + self.attention(self.norm1(x)))
    ),
    "You use gain1 twice: the MLP has a gain of its own, gain2.": (
        changed(_Scaled, second=lambda self, x: self.half(x, self.norm2, self.mlp, self.gain1))
    ),
    "The two gains are swapped: gain1 belongs to attention, gain2 to the MLP.": changed(
        _Scaled,
        first=lambda self, x: self.half(x, self.norm1, self.attention, self.gain2),
        second=lambda self, x: self.half(x, self.norm2, self.mlp, self.gain1),
    ),
    "Your gain multiplies the sum, so it shrinks the residual stream as well: it belongs to the branch alone.": (
        _halves(lambda x, norm, layer, gain: gain * (x + layer(norm(x))))
    ),
    "Your gain multiplies the residual stream and not the branch: it is the other way round.": (
        _halves(lambda x, norm, layer, gain: gain * x + layer(norm(x)))
    ),
    "Your gain stands before the norm, which divides it out while all its numbers are equal: it belongs to the end of "
    "the branch.": _halves(lambda x, norm, layer, gain: x + layer(norm(gain * x))),
    "Your gain stands between the norm and the layer: it belongs to the end of the branch.": (
        _halves(lambda x, norm, layer, gain: x + layer(gain * norm(x)))
    ),
    "That is a post-norm block with LayerScale: it adds, then normalises the residual stream.": (
        _halves(lambda x, norm, layer, gain: norm(x + gain * layer(x)))
    ),
    "The normalised token takes the place of the residual stream: normalise, then add, is post-norm.": (
        _halves(lambda x, norm, layer, gain: (x := norm(x)) + gain * layer(x))
    ),
    "There is no plus: each branch replaces the residual stream.": (
        _halves(lambda x, norm, layer, gain: gain * layer(norm(x)))
    ),
}


def _parts_as_asked(block: nn.Module, D: int, heads: int, gain: float) -> str | None:
    if message := block_as_asked(block, D, heads):
        return message
    for name in ("gain1", "gain2"):
        own = getattr(block, name, None)
        if not isinstance(own, nn.Parameter):
            untrained = "" if own is None else ", which no optimizer would train"
            return f"Expected a parameter named {name}: {found(own)}{untrained}."
        if own.shape != (D,):
            return f"Expected {name} of shape ({D},), one gain for each feature, got {tuple(own.shape)}."
        if wrong := [value for value in own.tolist() if abs(value - gain) > 1e-5 * gain]:
            return f"{name} starts at {wrong[0]:.2g} in one of its features: all of it should start at {gain:g}."
    if block.gain1 is block.gain2:
        return "gain1 and gain2 are one and the same parameter: each branch has a gain of its own."
    return None


blank_class(
    "6.3",
    "ScaledBlock(dim, num_heads, gain)",
    "Begin with the pre-norm block of chapter 5. What is learned belongs into an nn.Parameter, and torch.full makes a "
    "tensor with the same number everywhere.",
    "The equation of LayerScale has one product and one sum. Which of the two lines of a pre-norm block is f(x) in it, "
    "and where does the gain stand?",
    kind=_Scaled,
    parts=("norm1", "attention", "norm2", "mlp", "gain1", "gain2"),
    asked=_parts_as_asked,
    cases=lambda: (
        ((D, heads, gain), (3 * fresh(B, T, D),)) for B, T, D, heads, gain in ((3, 17, 48, 6, 1e-4), (2, 5, 8, 2, 0.1))
    ),
    mistakes=SCALED_MISTAKES,
    otherwise="Set both gains to zero: does it return x?",
    right="2 sizes, with random weights, and gains that start where they should.",
)

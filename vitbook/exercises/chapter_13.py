"""Exercises of chapter 13: products counted, what grows, a large batch in small parts, attention piece by piece."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from vitbook.exercises.declaration import Exercise, Results
from vitbook.exercises.forms import compute, read_by
from vitbook.exercises.values import apart, chance, close, counted, fresh, number, parts
from vitbook.faults import attend, train
from vitnb.vit import ViT, ViTConfig


def _count(T: int, D: int, L: int, r: float) -> float:
    return L * (4 * T * D * D + 2 * r * T * D * D + 2 * T * T * D)


def _models() -> Iterator[tuple[int, int, int, int]]:
    draw = chance()
    for _ in range(12):  # T is odd and D is not: what is missing once is never as much as something else
        yield 2 * draw.randint(1, 150) + 1, 12 * draw.randint(1, 40), draw.randint(2, 12), draw.choice([2, 3, 4])


compute(
    "13.1",
    "products(T, D, L, r)",
    "Go through one block with a pencil: which matrices multiply each token, and which two products take place between "
    "tokens? The heads share the width, so their number does not matter.",
    "A matrix with m rows and n columns costs m times n products for each token. Between tokens, every pair needs a "
    "score of D products over all heads, and then values are mixed.",
    cases=_models,
    reference=_count,
    where="For T={T}, D={D}, L={L}, r={r} you say {said:,.0f}. ",
    words=lambda T, D, L, r: {"T": T, "D": D, "L": L, "r": r},
    mistakes={
        "That is one block: there are L of them.": lambda T, D, L, r: _count(T, D, 1, r),
        "That is twice as much: you count additions as well.": lambda T, D, L, r: 2 * _count(T, D, L, r),
        "The products between tokens are missing: scores, and the mix of the values.": (
            lambda T, D, L, r: L * (4 + 2 * r) * T * D * D
        ),
        "Only one of the two products between tokens is there: scores need one, mixing the values another.": (
            lambda T, D, L, r: _count(T, D, L, r) - L * T * T * D
        ),
        "The matrix that comes after the heads, proj, is missing.": (
            lambda T, D, L, r: _count(T, D, L, r) - L * T * D * D
        ),
        "The MLP has two matrices: one widens, one narrows.": (
            lambda T, D, L, r: _count(T, D, L, r) - L * r * T * D * D
        ),
        "That is for one token: all T of them pass through the matrices.": (
            lambda T, D, L, r: L * (4 * D * D + 2 * r * D * D + 2 * T * D)
        ),
    },
    otherwise="Try T=1, D=1, L=1, r=1 by hand: four products in attention's matrices, and how many more?",
    right="12 models of 2 to 12 blocks.",
    tolerance=0.0,
)

BASE = ViTConfig(img_size=32, patch_size=8, embed_dim=16, depth=2, num_heads=2, mlp_ratio=4.0, global_pool="mean")
GROWTHS: dict[str, dict[str, int]] = {
    "double the image's side": {"img_size": 64},
    "halve the patch's side": {"patch_size": 4},
    "double the width": {"embed_dim": 32},
    "double the depth": {"depth": 4},
    "double the heads": {"num_heads": 4},
}
FACTORS = (
    "the tokens",
    "the products in the MLPs",
    "the products between tokens",
    "the numbers in all maps",
    "the numbers in the blocks' matrices",
)
TOTAL = len(FACTORS) * len(GROWTHS)


def _measured(config: ViTConfig) -> tuple[int, ...]:
    """Count, for one model, what FACTORS names."""
    model, c = ViT(config), config
    tokens, pairs = c.num_patches, c.num_patches**2
    mlps = [weight.numel() for name, weight in model.blocks.named_parameters() if "mlp" in name and weight.ndim == 2]
    matrices = [weight.numel() for weight in model.blocks.parameters() if weight.ndim == 2]
    between = c.depth * 2 * pairs * c.embed_dim
    return tokens, tokens * sum(mlps), between, c.depth * c.num_heads * pairs, sum(matrices)


def _growth() -> dict[str, tuple[float, ...]]:
    """What the models say."""
    before = _measured(BASE)
    after = {change: _measured(replace(BASE, **new)) for change, new in GROWTHS.items()}
    return {change: tuple(b / a for a, b in zip(before, grown, strict=True)) for change, grown in after.items()}


def _factors(value: Any) -> tuple[float, ...]:
    return tuple(map(number, parts(value, len(FACTORS), "a tuple (tokens, MLPs, between tokens, maps, matrices)")))


def _grows(results: Results) -> str | None:
    said, true = {change: _factors(result) for (change,), result in results}, _growth()
    right = sum(a == b for change in GROWTHS for a, b in zip(said[change], true[change], strict=True))
    return None if right == TOTAL else f"{right} of {TOTAL} factors agree with the models. {_think(said, true)}"


def _think(said: dict[str, tuple[float, ...]], true: dict[str, tuple[float, ...]]) -> str:
    """What to think about again."""
    side, width, heads = (said[f"double the {what}"] for what in ("image's side", "width", "heads"))
    if side != said["halve the patch's side"]:
        return "Larger images or smaller patches: the blocks see more tokens, and no other difference."
    if side[0] == 2:
        return "A side that doubles makes twice as many rows of patches, and each row is longer as well."
    if side[3] == side[0] and side[0] != 1:
        return "A map has a row for each token *and* a column for each token."
    if side[2] == side[0] and side[0] != 1:
        return "Between tokens there is a product for every pair: how many pairs are there now?"
    if side[4] != 1:
        return "Does a matrix of the blocks know how many tokens pass through it?"
    if width[4] == 2 or width[1] == 2:
        return "A matrix from D to 4 D becomes wider on both sides."
    if heads[2] == 2:
        return "Twice the heads make twice the scores, but each is a dot product of half as many features."
    change = next(change for change in GROWTHS if said[change] != true[change])
    if change == "double the heads":
        return "Heads share the width: more of them cut it into thinner slices, each with its own map."
    column = next(i for i in range(len(FACTORS)) if said[change][i] != true[change][i])
    return f"Think again of {FACTORS[column]} when you {change}."


Exercise(
    "13.2",
    "grows(change)",
    "First ask what the change does to the number of tokens, and whether any matrix becomes larger. The rest follows "
    "from these two.",
    "A side that doubles makes how many more patches? A map has a row and a column for each token, and every head of "
    "every block has a map of its own; but the features of its queries are only the head's share of the width.",
    cases=lambda: [(change,) for change in GROWTHS],
    judge=read_by(_factors),
    overall=_grows,
    right=f"{TOTAL} of {TOTAL} factors agree with the models.",
)


class Small(nn.Module):
    """A model with memory for a few images and no more, and with gradients, as an earlier batch leaves them."""

    def __init__(self, most: int):
        super().__init__()
        self.most, self.body = most, nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.GELU(), nn.Linear(8, 5))
        for parameter in self.parameters():
            parameter.data = fresh(*parameter.shape) / 2
            parameter.grad = torch.ones_like(parameter)

    def __deepcopy__(self, memo: dict) -> "Small":
        """What an answer is given: torch copies no gradients."""
        copied = Small(self.most)
        copied.load_state_dict(self.state_dict())
        return copied

    def forward(self, images: Tensor) -> Tensor:
        if len(images) > self.most:
            raise MemoryError(f"room for {self.most} images at a time, got {len(images)}")
        return self.body(images)


def _sizes(B: int, most: int) -> list[int]:
    return [min(most, B - i) for i in range(0, B, most)]


def _batch_words(model: nn.Module, images: Tensor, labels: Tensor, most: int) -> dict[str, Any]:
    sizes = _sizes(len(images), most)
    return {
        "B": len(images),
        "most": most,
        "n": len(sizes),
        "sizes": ", ".join(map(str, sizes)),
        "left": counted(sizes[-1], "image"),
    }


LEFT_OUT = "what is left after the last whole part, {left}, is left out: a part may be smaller than the others."


def _other_gradient(result: Tensor, right: Tensor, model: nn.Module, images: Tensor, labels: Tensor, most: int) -> str:
    n = len(_sizes(len(images), most))
    if n > 1 and close(result, train.last_part_left_out(model, images, labels, most) * (n - 1) / n, 1e-4):
        return LEFT_OUT
    length = (result.norm() / right.norm()).item()
    return f"your gradient is {length:.3g} times as long as that of the mean loss of all images, or points elsewhere."


compute(
    "13.3",
    "gradient(model, images, labels, most)",
    "Cut the batch into parts of at most that many images. The loss of a part is a mean over its own images: how "
    "much must it count in the mean over all?",
    "A part of n images out of B contributes its mean times n / B. The last part may be smaller than the others.",
    cases=lambda: (
        (Small(most), fresh(B, 1, 3, 4), torch.arange(B) % 5, most)
        for B, most in ((12, 4), (10, 4), (3, 5), (7, 1), (9, 8))
    ),
    reference=train.gradient,
    where="With {B} images, {most} at a time, ",
    words=_batch_words,
    mistakes={
        "your gradient holds what an earlier batch had left in .grad as well.": train.gradient_not_cleared,
        "your gradient is the sum of {n} means: every part counts as if it were the whole batch.": train.sum_of_means,
        "your parts of {sizes} images count alike: an image in a small part counts more.": train.mean_of_means,
        "your gradient is that of the sum of all losses, {B} times that of their mean.": train.sum_of_losses,
        "your gradient is that of the last part alone: what became of the others?": train.last_part,
        "only the last part is left in your gradient: are the gradients set to zero in the loop?": (
            train.gradient_cleared_in_the_loop
        ),
        "your gradient is that of the first part alone.": train.first_part,
        LEFT_OUT: train.last_part_left_out,
    },
    otherwise=_other_gradient,
    right="5 batches, in 1 to 7 parts, equal and unequal.",
    tolerance=1e-4,
)


class Watched(TorchDispatchMode):
    """Notes whether PyTorch's own kernel is called, how large results are, and the longest sum of a product.

    To mix values is to sum over keys, so the longest sum is the number of keys at a time.
    """

    def __init__(self, q: Tensor, k: Tensor, v: Tensor, most: int):
        super().__init__()
        (*_, self.T, self.d), self.most = q.shape, most
        self.kernel, self.numbers, self.longest = False, 0, 0

    def __torch_dispatch__(
        self, operation: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.kernel = self.kernel or "scaled_dot_product" in str(operation)
        result = operation(*args, **(kwargs or {}))
        for x in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(x, Tensor):
                self.numbers = max(self.numbers, x.numel())
        if "mm" in str(operation):  # mm, bmm, addmm, baddbmm
            self.longest = max(self.longest, args[-2].shape[-1])
        return result

    def breach(self) -> str | None:
        """What is wrong with PyTorch's own kernel, a map of all pairs, or products with more keys than allowed."""
        T, most = self.T, self.most
        where = f"With {T} keys, {most} at a time, "
        if self.kernel:
            return "Your answer calls PyTorch's own kernel, which the exercise forbids: write down what it does."
        if most < T and self.numbers >= T * T:
            return f"{where}an operation returns {self.numbers:,} numbers: that is a whole map of {T} × {T}."
        if most < T and self.longest > max(most, self.d):
            return f"{where}a product sums over {self.longest}: that many keys at once, and {most} are allowed."
        return None


NAN = (
    "Your result holds NaN or infinity: with large scores exp is too large for a float. Subtract the largest score "
    "first, the largest of those that came so far."
)
NAN_BELOW = (
    "Your result holds NaN or infinity where all scores are far below 0: with a largest score that starts at 0, every "
    "power is 0, and so is their sum."
)


def _not_finite(result: Any, right: Tensor, q: Tensor, k: Tensor, v: Tensor, most: int) -> str | None:
    if isinstance(result, Tensor) and result.shape == right.shape and not result.isfinite().all():
        return NAN_BELOW if (q @ k.mT).max() < 0 else NAN
    return None


def _pieces() -> Iterator[tuple[Tensor, Tensor, Tensor, int]]:
    """The last two: scores far above and far below 0, which need the largest score so far from the first piece on."""
    sizes = ((1, 2, 60, 4, 12), (2, 1, 61, 5, 7), (1, 1, 60, 4, 60), (1, 2, 60, 4, 8))
    for B, h, T, d, most in sizes:
        yield *(fresh(B, h, T, d) for _ in "qkv"), most
    q, k, v = (fresh(1, 2, 60, 4) for _ in "qkv")
    yield 99 * q, k, v, 8
    yield 8 + 0.3 * q.abs(), -8 - 0.3 * k.abs(), v, 8


compute(
    "13.4",
    "piecewise(q, k, v, most)",
    "Begin with the loop of the chapter, which has one query. For all queries at once, the largest score so far and "
    "the sum of the powers become tensors with one number for each query: (B, h, T, 1).",
    "A tensor's own split cuts keys and values into pieces, the last of which may be smaller. Start with a largest "
    "score of minus infinity and sums of zero: exp(-inf) is 0, so the first piece needs no rule of its own.",
    cases=_pieces,
    reference=attend.piecewise,
    before=_not_finite,
    watch=Watched,
    where="With {T} keys, {most} at a time, ",
    words=lambda q, k, v, most: {"T": q.shape[-2], "most": most},
    mistakes={
        "when a larger score comes, all that was added up before it must shrink: your sums do not.": (
            attend.sums_not_rescaled
        ),
        "your mixed values do not shrink when a larger score comes: the sum of the powers does.": (
            attend.values_not_rescaled
        ),
        "the sum of the powers does not shrink when a larger score comes: your mixed values do.": (
            attend.total_not_rescaled
        ),
        "you average one softmax for each piece: a piece with small scores then counts as much as one with large "
        "scores.": attend.mean_of_softmaxes,
        "you add up one softmax for each piece: your weights sum to the number of pieces.": attend.sum_of_softmaxes,
        "your scores are not divided by the root of the features.": attend.pieces_undivided,
        "the keys after the last whole piece are left out: most need not divide T.": attend.last_keys_left_out,
    },
    otherwise=lambda result, right, *_: f"your result is {apart(result, right)}, by no mistake that I know.",
    right="6 cases in pieces, equal and unequal, with scores far above and far below 0, and no map of all pairs.",
    tolerance=1e-4,
)

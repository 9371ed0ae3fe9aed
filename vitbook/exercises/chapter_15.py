"""Exercises of chapter 15: what a first step changes, gray images, labels by likeness, LoRA for queries and values."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbook.exercises.declaration import Exercise, Judgement, NotDone
from vitbook.exercises.forms import changed, compute, kinds, predict, unreached
from vitbook.exercises.values import apart, close, expected, first_that, fresh, other_shape, parts, tensor_like

# 15.1: the first step --------------------------------------------------------------------------------------

PROBE = "Of the probe: which layer is the linear classifier, and which belong to the network that stays as it is?"
QUESTIONS = {  # (way, name of the weights): whether a first step of plain gradient descent changes them; what to think
    ("probe", "head.weight"): (True, PROBE),
    ("probe", "norm.weight"): (False, PROBE),
    ("LoRA", "blocks.0.attention.qkv.linear.weight"): (False, "Of LoRA: is the weight itself changed while it trains?"),
    ("LoRA", "blocks.0.attention.qkv.up"): (True, "Of LoRA's up: what is its gradient made of, if down is not zero?"),
    ("LoRA", "blocks.0.attention.qkv.down"): (
        False,
        "Of LoRA's down: its gradient is a product. What are its factors before the first step?",
    ),
    ("LoRA", "positions.table"): (False, "Of LoRA: where are its products, and what is trained besides them?"),
    ("all weights", "pool.token"): (True, "Of all weights: does a gradient reach the cls token?"),
    ("all weights", "blocks.0.ls1.gamma"): (True, "Of all weights: does a gradient reach the gains of LayerScale?"),
}
CHANGES = {question: changes for question, (changes, _) in QUESTIONS.items()}


def _what_changes(said: dict[Any, Any], truth: dict[Any, Any]) -> str:
    """What to think about at the first wrong prediction."""
    return next(QUESTIONS[question][1] for question in truth if said[question] != truth[question])


predict(
    "15.1",
    "changes(way, name)",
    "Two questions for each: is the weight trained at all? And if it is, can its gradient be zero?",
    "The change is scale * up @ down. Its derivative by the one factor is made of the other one. Which of them is zero "
    "when training begins?",
    truth=lambda: CHANGES,
    advice=_what_changes,
    right="predictions agree with a network that took the step",
)


# 15.2: one channel -----------------------------------------------------------------------------------------

Pair = tuple[Tensor, Tensor]


def _folded(kernel: Tensor, bias: Tensor, mean: Tensor, std: Tensor, sign: float = -1.0) -> Pair:
    """The kernel (D, 1, p, p) and the bias that take a gray image as it is; sign is that of what the means add."""
    scaled = kernel / std.view(3, 1, 1)
    return scaled.sum(1, keepdim=True), bias + sign * (scaled * mean.view(3, 1, 1)).sum((1, 2, 3))


GRAY_ONES = {
    "You take the mean over the channels, so a token gets a third of what it should: three equal channels add up.": (
        lambda kernel, bias, mean, std: _folded(kernel / 3, bias, mean, std)
    ),
    "You add up the channels as if the images were not normalised. What is (x - mean) / std of each channel?": (
        lambda kernel, bias, mean, std: (kernel.sum(1, keepdim=True), bias)
    ),
    "Your kernel is right, and your bias is the old one. What does - mean / std add to a token, whatever the image?": (
        lambda kernel, bias, mean, std: _folded(kernel, bias, mean, std, sign=0.0)
    ),
    "Your kernel is right; what the means add to the bias has the wrong sign.": (
        lambda kernel, bias, mean, std: _folded(kernel, bias, mean, std, sign=1.0)
    ),
    "You multiply by the standard deviations; to normalise is to divide by them.": (
        lambda kernel, bias, mean, std: _folded(kernel, bias, mean, 1 / std)
    ),
    "Your kernel has no axis for the channel: a convolution takes (D, 1, p, p).": (
        lambda kernel, bias, mean, std: (_folded(kernel, bias, mean, std)[0][:, 0], bias)
    ),
}


def _for_gray(result: Any, *case: Tensor) -> str | None:
    right, found = _folded(*case), parts(result, 2, "the pair (kernel, bias)")
    if other_shape(found[0], right[0]) and found[0].shape == right[0][:, 0].shape:
        return list(GRAY_ONES)[-1]
    found = tuple(map(tensor_like, found, right))

    def fits(pair: Pair) -> bool:
        return all(close(a, b, 1e-4) for a, b in zip(found, pair, strict=True))

    if fits(right):
        return None
    known = first_that(lambda wrong: fits(wrong(*case)), GRAY_ONES)
    off = [apart(a, b) for a, b in zip(found, right, strict=True)]
    return known or f"Your kernel is {off[0]}, your bias {off[1]}, and by no mistake that I know."


Exercise(
    "15.2",
    "for_gray(kernel, bias, mean, std)",
    "Write down what the convolution adds up at one place: channels, rows and columns of the patch, each pixel as "
    "(x - mean) / std of its channel. If x is the same in all three channels, what can be factored out?",
    "The factor of x is the new kernel, (D, 1, p, p). What is left has no x in it: one number for each feature, and so "
    "it belongs to the bias.",
    cases=lambda: [
        (fresh(D, 3, p, p), fresh(D), 0.3 + 0.1 * fresh(3).abs(), 0.2 + 0.1 * fresh(3).abs())
        for D, p in ((5, 4), (8, 2))
    ],
    judge=_for_gray,
    mistakes=GRAY_ONES,
    right="a gray image gives the tokens of the same image with three equal channels, normalised.",
)


# 15.3: labels by likeness ----------------------------------------------------------------------------------


def _labels(tokens: Tensor, examples: Tensor, labels: Tensor) -> Tensor:
    return labels[(F.normalize(tokens, dim=-1) @ F.normalize(examples, dim=-1).T).argmax(1)]


def _map_of_labels() -> list[tuple[Tensor, Tensor, Tensor]]:
    """Tokens and examples of very different lengths, so that a comparison without norms goes wrong."""
    found = []
    for N, K, D in ((40, 6, 5), (25, 9, 8), (60, 4, 3)):
        lengths = [2.0 ** torch.arange(-3, 4).repeat(n)[:n, None] for n in (N, K)]
        examples = fresh(K, D) * lengths[1]
        found.append((fresh(N, D) * lengths[0] + 1, examples + 1, (torch.arange(K) * 5 + 2) % 7))
    return found


compute(
    "15.3",
    "labels_of(tokens, examples, labels)",
    "First the cosines of all tokens (N, D) with all examples (K, D): a matrix (N, K). Which function divides rows by "
    "their length?",
    "argmax over the examples gives the place of the nearest example. What was asked for is that example's label.",
    cases=_map_of_labels,
    reference=_labels,
    mistakes={
        "You compare by the dot product: a long example then wins everywhere. Divide both by their lengths first.": (
            lambda tokens, examples, labels: labels[(tokens @ examples.T).argmax(1)]
        ),
        "You compare by the distance, which depends on the lengths of the tokens. The cosine does not.": (
            lambda tokens, examples, labels: labels[torch.cdist(tokens, examples).argmin(1)]
        ),
        "You return which example is nearest, not its label.": (
            lambda tokens, examples, labels: _labels(tokens, examples, torch.arange(len(labels)))
        ),
        "You take the example that is least like the token.": (
            lambda tokens, examples, labels: _labels(-tokens, examples, labels)
        ),
    },
    otherwise=lambda result, right, *case: (
        f"{(result != right).sum()} of {len(right)} tokens get another label than that of the nearest example."
    ),
    right="each token has the label of the example with the largest cosine, for three sets of tokens.",
)


# 15.4: LoRA for queries and values -------------------------------------------------------------------------


class QueryValueLoRA(nn.Module):
    """A frozen qkv layer; queries and values get a product of low rank each, keys stay as they are."""

    def __init__(self, qkv: nn.Linear, rank: int):
        super().__init__()
        D = qkv.in_features
        self.qkv = qkv.requires_grad_(False)
        self.down_q, self.down_v = (nn.Parameter(fresh(rank, D) / D**0.5) for _ in range(2))
        self.up_q, self.up_v = (nn.Parameter(torch.zeros(D, rank)) for _ in range(2))

    def changes(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What is added to the queries, the keys and the values."""
        q, v = x @ self.down_q.T @ self.up_q.T, x @ self.down_v.T @ self.up_v.T
        return q, torch.zeros_like(q), v

    def forward(self, x: Tensor) -> Tensor:
        return self.qkv(x) + torch.cat(self.changes(x), dim=-1)  # (..., 3 D)


def _reordered(order: str) -> type[QueryValueLoRA]:
    """A version that adds the changes to other thirds: "qvk" gives the keys what belongs to the values."""

    def changes(self: QueryValueLoRA, x: Tensor) -> tuple:
        named = dict(zip("qkv", QueryValueLoRA.changes(self, x), strict=True))
        return tuple(named[letter] for letter in order)

    return changed(QueryValueLoRA, changes=changes)


def _of_the_output(self: QueryValueLoRA, x: Tensor) -> Tensor:
    q, k, v = self.qkv(x).chunk(3, dim=-1)
    return torch.cat([q + self.changes(q)[0], k, v + self.changes(v)[2]], dim=-1)


WRONG_ONES = {
    "What belongs to the values is added to the keys: qkv gives queries, keys, values, in this order.": (
        _reordered("qvk")
    ),
    "Queries and values get each other's change.": _reordered("vkq"),
    "The values stay as they were.": _reordered("qkk"),
    "The queries stay as they were.": _reordered("kkv"),
    "Your products are applied to the queries and values; their input is x, as that of qkv is.": (
        changed(QueryValueLoRA, forward=_of_the_output)
    ),
}
PRODUCTS = ("down_q", "up_q", "down_v", "up_v")


def _made_as_asked(own: Any, D: int, rank: int) -> str | None:
    """What is wrong with the parts of an answer, before it is called."""
    if not isinstance(own, nn.Module):
        return expected("an nn.Module from your class", own)
    if not any(True for _ in own.children()) and not any(True for _ in own.parameters()):
        raise NotDone
    if message := kinds(own, {"qkv": nn.Linear} | dict.fromkeys(PRODUCTS, nn.Parameter)):
        return message
    for name in PRODUCTS:
        shape = (rank, D) if name.startswith("down") else (D, rank)
        if (found := tuple(getattr(own, name).shape)) != shape:
            return f"{name} has the shape {found}, and for width {D} and rank {rank} it is {shape}."
        if not getattr(own, name).requires_grad:
            return f"{name} has requires_grad=False: it would never learn."
    if any(parameter.requires_grad for parameter in own.qkv.parameters()):
        return "qkv is trained as well: LoRA freezes it, its bias included."
    return None


def _query_value(own: Any, qkv: nn.Linear, rank: int, x: Tensor) -> Judgement:
    D = qkv.in_features
    if message := _made_as_asked(own, D, rank):
        return message
    begins = yield own.forward, x
    if not close(tensor_like(begins, qkv(x)), qkv(x), 1e-4):
        off = f"Before training your layer is {apart(begins, qkv(x))} from qkv alone."
        return f"{off} Which factor must begin at zero, and are the products added to what qkv gives?"
    if any(not getattr(own, name).any() for name in ("down_q", "down_v")):
        return "Both factors of a product are zero: then both gradients are zero, and it never learns."
    for name in PRODUCTS:
        getattr(own, name).data = fresh(*getattr(own, name).shape)
    result = yield own.forward, x
    right = _with_products(QueryValueLoRA, own, rank)(x)
    if not close(tensor_like(result, right), right, 1e-3):
        known = first_that(lambda wrong: close(result, _with_products(wrong, own, rank)(x), 1e-3), WRONG_ONES)
        return known or f"With random products your layer is {apart(result, right)}. Is there a scale? Here it is 1."
    return unreached(result, own, PRODUCTS)


def _with_products(kind: type[QueryValueLoRA], own: nn.Module, rank: int) -> QueryValueLoRA:
    other = kind(own.qkv, rank)
    for name in PRODUCTS:
        setattr(other, name, getattr(own, name))
    return other


Exercise(
    "15.4",
    "QueryValueLoRA(qkv, rank)",
    "The layer returns queries, keys and values side by side, (..., 3 D). Part them along the last axis, add to two of "
    "the three, and put them side by side again.",
    "There are two products, each with a down (rank, D) and an up (D, rank), both fed with x. In __init__ the ups are "
    "zero and the downs random; qkv.requires_grad_(False) freezes weight and bias.",
    cases=lambda: [(nn.Linear(D, 3 * D), rank, fresh(2, T, D)) for D, rank, T in ((12, 2, 5), (8, 3, 4))],
    judge=_query_value,
    given=lambda qkv, rank, x: (qkv, rank),
    mistakes=WRONG_ONES,
    right="it begins as qkv alone, and adds to queries and values what its products say, with two widths and ranks.",
    runs="inside",
    changes=True,
)

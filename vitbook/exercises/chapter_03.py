"""Exercises of chapter 3: attention from memory, a prediction, a sum of two separate terms, cross-attention."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbook.exercises.declaration import Exercise, Results
from vitbook.exercises.forms import blank_class, changed, compute, forbidding, linear
from vitbook.exercises.values import apart, chance, fresh, parts, tensor_like
from vitbook.faults import attend

compute(
    "3.1",
    "my_attention(q, k, v)",
    "Three steps: scores (B, h, T, T), weights whose rows sum to 1, and the weighted values (B, h, T, d). Which two "
    "axes of k change places so that a query can meet every key?",
    "A row of scores belongs to one query and runs over all keys: that is the axis to be normalised. The divisor is "
    "the root of the length of a query, not of all heads together.",
    cases=lambda: (fresh(3, *size) for size in ((2, 3, 5, 7), (1, 5, 11, 6), (3, 1, 4, 9))),
    reference=F.scaled_dot_product_attention,
    watch=forbidding(dot_product_attention="F.scaled_dot_product_attention", multi_head="nn.MultiheadAttention"),
    mistakes={
        "The scores are not divided: their standard deviation grows with the width of a head.": attend.undivided,
        "The softmax runs over the queries (dim=-2): your columns sum to 1, the rows do not.": (
            attend.softmax_over_queries
        ),
        "The softmax runs over the heads: each token's weights are shared out among heads, not tokens.": (
            attend.softmax_over_heads
        ),
        "The scores are divided by the root of all features together, not by that of one head.": (
            attend.divided_for_all_heads
        ),
        "The scores are divided by the root of the number of tokens.": attend.divided_for_the_tokens,
        "The scores are divided by the width itself, not by its root.": attend.divided_without_root,
        "The scores are multiplied by the root, where they should be divided.": attend.multiplied,
        "The softmax is missing: the values are mixed with the scores themselves.": attend.no_softmax,
        "You divide the weights after the softmax: the rows do not sum to 1.": attend.divided_after_softmax,
        "Queries and keys have changed places: row i should hold the scores of query i.": (
            attend.queries_and_keys_exchanged
        ),
        "You mix the keys, not the values.": attend.keys_mixed,
    },
    otherwise=lambda result, right, *_: (
        f"Your result is {apart(result, right)}. Print the sums of the rows of your weights: are they all 1?"
    ),
    right="equal to F.scaled_dot_product_attention to 1e-5, for 3 sizes with 3, 5 and 1 heads.",
)


def _lead(T: int, weight: float) -> float:
    return math.log(weight / (1 - weight) * (T - 1))


def _leads() -> list[tuple[int, float]]:
    draw = chance()
    return [(2, 0.5), (196, 0.5), (draw.randrange(20, 60), 0.9), (draw.randrange(100, 900), 0.7), (7, 0.05)]


def _other_lead(said: float, right: float, T: int, weight: float) -> str:
    reached = 1 / (1 + (T - 1) * math.exp(min(-said, 700.0)))
    return f"With that lead its weight would be {reached:.3f}: too {'small' if said < right else 'large'}."


compute(
    "3.2",
    "needed_lead(T, weight)",
    "Let the others all have the score 0 and the one the score s. What are the T powers of e, and what is their sum?",
    "You have weight = (its power) / (sum of all powers). Solve for the power, then take the natural logarithm. Try "
    "T = 2 and weight = 0.5: no lead is needed.",
    cases=_leads,
    reference=_lead,
    where="For {T} tokens and a weight of {weight} you say {said:.3f}. ",
    words=lambda T, weight: {"T": T, "weight": weight},
    mistakes={
        "The others are T - 1: the token itself is not among them.": lambda T, w: math.log(w / (1 - w) * T),
        "That is a logarithm to the base 10, where e takes the natural one.": lambda T, w: _lead(T, w) / math.log(10),
        "Its own power is part of the sum: compare it with the rest, weight to 1 - weight.": (
            lambda T, w: math.log(w * (T - 1))
        ),
        "Its own power is part of the sum that you divide by.": lambda T, w: math.log(w * T),
        "That is the lead over a single other token: there are more.": lambda T, w: math.log(w / (1 - w)),
        "That is the lead for the rest of the weight: its odds are turned round.": (
            lambda T, w: math.log((1 - w) / w * (T - 1))
        ),
        "That is the ratio of the powers. The score is its logarithm.": lambda T, w: w / (1 - w) * (T - 1),
    },
    otherwise=_other_lead,
    right=f"5 cases. Half of the weight among 196 tokens takes a lead of {_lead(196, 0.5):.2f}. A query of width 64 "
    "that meets its own double scores 64 / 8 = 8: among 195 scores of 0 that is a weight of "
    f"{math.exp(8) / (math.exp(8) + 195):.2f}.",
    tolerance=1e-4,
)


def _sums(result: Any, K: int) -> Tensor:
    f, g = (_numbers(part, K) for part in parts(result, 2, "the pair (f, g)"))
    return f[:, None] + g  # (K, K)


def _terms(result: Any, K: int) -> str | None:
    sums = _sums(result, K)
    same = (sums > 0)[torch.eye(K).bool()].float().mean().item()
    different = (sums <= 0)[~torch.eye(K).bool()].float().mean().item()
    return _terms_mistake(sums, same, different) if same + different < 1.5 - 1e-6 else None


def _and_its_loss(results: Results) -> str:
    (K,), first = results[0]
    return (
        "3 of 4 pairs, for 10, 3, 2 and 6 kinds: no sum of two separate terms reaches more. And its loss for 10 kinds "
        f"is {_pair_loss(_sums(first, K)):.2f}, above the {math.log(2):.2f} of a coin: cross-entropy would lead away "
        "from it."
    )


Exercise(
    "3.3",
    "terms(K)",
    "If two of a kind are always to be called the same, what must then hold for f[a] + g[a]? Then look at one pair of "
    "different kinds both ways round, (a, b) and (b, a).",
    "Let f grow with the number of the kind and g fall. Which of (a, b) and (b, a) is then above 0, and what keeps a "
    "pair of one kind there?",
    cases=lambda: ((10,), (3,), (2,), (6,)),
    judge=_terms,
    right=_and_its_loss,
)


def _numbers(part: Any, K: int) -> Tensor:
    """One of the two terms as K floats; whole numbers, a list and (K, 1) will do."""
    if isinstance(part, (list, tuple, np.ndarray)):
        part = torch.as_tensor(part)
    if isinstance(part, Tensor) and part.numel() == K:
        part = part.flatten().float()
    return tensor_like(part, torch.zeros(K))


def _pair_loss(sums: Tensor) -> float:
    """The cross-entropy of logits (K, K) where half of the pairs are of one kind."""
    same = torch.eye(len(sums))
    each = F.binary_cross_entropy_with_logits(sums, same, reduction="none")
    return (each[same.bool()].mean() + each[~same.bool()].mean()).item() / 2


def _terms_mistake(sums: Tensor, same: float, different: float) -> str:
    case = f"For {len(sums)} kinds you are right on {50 * (same + different):.0f} % of the pairs"
    if (same, different) in ((1, 0), (0, 1)):
        return f"{case}: you call every pair {'the same' if same else 'different'}, and half of them are."
    if sums.diagonal().abs().max() < 1e-6:
        return f"{case}: two of a kind always add up to 0, and that is not above 0. They need a small lead."
    return (
        f"{case}: {100 * same:.0f} % of those of one kind, {100 * different:.0f} % of the others. It can be all of the "
        "first and half of the second."
    )


def _masked(scores: Tensor, valid: Tensor) -> Tensor:
    return scores.masked_fill(~valid[:, None], -math.inf)


class _Cross(nn.Module):
    """Cross-attention as it should be; its wrong versions change one step."""

    def __init__(self, dim: int, context_dim: int, head_dim: int):
        super().__init__()
        self.dims = dim, context_dim
        self.query = nn.Linear(dim, head_dim)
        self.key, self.value = (nn.Linear(context_dim, head_dim) for _ in "kv")

    def divisor(self, q: Tensor, k: Tensor) -> float:
        return q.shape[-1] ** 0.5

    def weights(self, scores: Tensor, valid: Tensor) -> Tensor:
        return _masked(scores, valid).softmax(-1)

    def mixed(self, k: Tensor, v: Tensor) -> Tensor:
        return v

    def forward(self, x: Tensor, context: Tensor, valid: Tensor) -> Tensor:
        q, k, v = self.query(x), self.key(context), self.value(context)
        weights = self.weights(q @ k.mT / self.divisor(q, k), valid)  # (B, T, S)
        return weights @ self.mixed(k, v)  # (B, T, d)


def _divided_by(divisor: Callable[[_Cross, Tensor, Tensor], float]) -> type[nn.Module]:
    return changed(_Cross, divisor=divisor)


def _weighed(weights: Callable[[_Cross, Tensor, Tensor], Tensor]) -> type[nn.Module]:
    return changed(_Cross, weights=weights)


CROSS_MISTAKES: dict[str, type[nn.Module]] = {
    "The scores are not divided by the root of head_dim.": _divided_by(lambda self, q, k: 1.0),
    "The scores are divided by head_dim itself, not by its root.": _divided_by(lambda self, q, k: q.shape[-1]),
    "The scores are divided by the root of dim: the dot product has head_dim terms.": (
        _divided_by(lambda self, q, k: self.dims[0] ** 0.5)
    ),
    "The scores are divided by the root of context_dim: the dot product has head_dim terms.": (
        _divided_by(lambda self, q, k: self.dims[1] ** 0.5)
    ),
    "The scores are divided by the root of the number of tokens: the dot product has head_dim terms.": (
        _divided_by(lambda self, q, k: k.shape[1] ** 0.5)
    ),
    "The scores are multiplied by the root of head_dim, where they should be divided.": (
        _divided_by(lambda self, q, k: q.shape[-1] ** -0.5)
    ),
    "The padding gets weight: valid changes nothing.": _weighed(lambda self, scores, valid: scores.softmax(-1)),
    "The mask is turned round: only the padding gets weight.": (
        _weighed(lambda self, scores, valid: _Cross.weights(self, scores, ~valid))
    ),
    "The mask comes after the softmax: what the padding would have got is lost, and rows sum to less than 1.": (
        _weighed(lambda self, scores, valid: scores.softmax(-1) * valid[:, None])
    ),
    "The padding has the score 0, and e to the power of 0 is 1: it still gets weight.": (
        _weighed(lambda self, scores, valid: scores.masked_fill(~valid[:, None], 0).softmax(-1))
    ),
    "The softmax runs over the queries: the rows do not sum to 1.": (
        _weighed(lambda self, scores, valid: scores.softmax(1) * valid[:, None])
    ),
    "The softmax runs over the images of the batch: the rows do not sum to 1.": (
        _weighed(lambda self, scores, valid: _masked(scores, valid).softmax(0).nan_to_num())
    ),
    "Every image gets the padding of the first one: each has its own row of valid.": (
        _weighed(lambda self, scores, valid: _Cross.weights(self, scores, valid[:1].expand_as(valid)))
    ),
    "You mix the keys, not the values.": changed(_Cross, mixed=lambda self, k, v: k),
}
PARTS = ("query", "key", "value")


def _layers(layer: nn.Module, dim: int, context_dim: int, head_dim: int) -> str | None:
    found = (linear(layer, name, n, head_dim) for name, n in zip(PARTS, (dim, context_dim, context_dim), strict=True))
    return next(filter(None, found), None)


def _contexts() -> Iterator[tuple[tuple, tuple]]:
    for B, T, S, *sizes in ((2, 5, 7, 12, 20, 6), (3, 9, 4, 8, 5, 11)):
        valid = torch.ones(B, S, dtype=torch.bool)
        valid[0, S - 2 :] = valid[1, 1] = False
        yield tuple(sizes), (fresh(B, T, sizes[0]), fresh(B, S, sizes[1]), valid)


blank_class(
    "3.4",
    "CrossAttention(dim, context_dim, head_dim)",
    "Three linear layers. Which of the two inputs goes into which, and how many features has each? The scores are then "
    "(B, T, S).",
    "valid has shape (B, S), and every token of x meets the same padding: where does the new axis belong? What must a "
    "score be so that its weight is exactly 0 after the softmax?",
    kind=_Cross,
    parts=PARTS,
    asked=_layers,
    cases=_contexts,
    mistakes=CROSS_MISTAKES,
    otherwise="Go through it with the shapes: scores (B, T, S), weights that sum to 1 over what is valid, values.",
    right="2 sizes, against F.scaled_dot_product_attention's formula with a mask; T and S differ.",
)

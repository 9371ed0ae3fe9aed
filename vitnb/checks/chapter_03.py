"""Exercises of chapter 3: attention, the share of each head, weights set by hand, a prediction, a test for layers."""

import copy
import math
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitnb import clinic
from vitnb.attention import MultiHeadAttention
from vitnb.checks.engine import Wrong, call, close, exercise, fresh, tensor_like
from vitnb.checks.kinds import compute, judge, parts
from vitnb.clinic import attend
from vitnb.positions import sincos_table

compute(
    "3.1",
    "my_attention(q, k, v)",
    "Three steps: scores (B, h, T, T), weights whose rows sum to 1, and the weighted values (B, h, T, d). Which two "
    "axes of k change places so that a query can meet every key?",
    "A row of scores belongs to one query and runs over all keys: that is the axis to be normalised. The divisor is "
    "the root of the length of a query, not of all heads together.",
    cases=lambda: (fresh(3, *size) for size in ((2, 3, 5, 7), (1, 5, 11, 6), (3, 1, 4, 9))),
    reference=F.scaled_dot_product_attention,
    mistakes={
        "The scores are not divided: their spread grows with the width of a head.": attend.undivided,
        "The softmax runs over the tokens that ask (dim=-2): your columns sum to 1, the rows do not.": (
            attend.softmax_over_queries
        ),
        "The softmax runs over the heads: each token's weights are shared out among heads, not tokens.": (
            attend.softmax_over_heads
        ),
        "The scores are divided by the root of all features together, not by that of one head.": (
            attend.divided_for_all_heads
        ),
        "The scores are divided by the root of the number of tokens.": attend.divided_for_the_tokens,
        "The scores are divided by the width itself: its root is wanted.": attend.divided_without_root,
        "The scores are multiplied by the root, where they should be divided.": attend.multiplied,
        "The softmax is missing: the values are mixed with the scores themselves.": attend.no_softmax,
        "You divide the weights after the softmax: the rows do not sum to 1.": attend.divided_after_softmax,
        "Queries and keys have changed places: row i should hold what token i asks.": (
            attend.queries_and_keys_exchanged
        ),
        "You mix the keys, not the values.": attend.keys_mixed,
    },
    otherwise=lambda result, wanted, *_: (
        f"Your result is off by up to {(result - wanted).abs().max():.2g}. Print the sums of the rows of your "
        "weights: are they all 1?"
    ),
    right="equal to F.scaled_dot_product_attention to 1e-5, for 3 sizes with 3, 5 and 1 heads.",
)


def _matrices(layer: MultiHeadAttention) -> Tensor:
    """What takes the result of each head home, (h, d, D)."""
    return layer.proj.weight.T.unflatten(0, (layer.num_heads, layer.head_dim))


def _terms(
    layer: MultiHeadAttention,
    x: Tensor,
    kind: type[MultiHeadAttention] = MultiHeadAttention,
    matrices: Callable[[MultiHeadAttention], Tensor] = _matrices,
) -> Tensor:
    """What each head adds to each token, (B, h, T, D), if the layer is of this kind."""
    heads = copy.deepcopy(layer)
    heads.__class__, heads.proj = kind, nn.Identity()
    out = heads(x).unflatten(-1, (layer.num_heads, layer.head_dim))  # (B, T, h, d)
    return out.transpose(1, 2) @ matrices(layer)


def _layer(kind: type[nn.Module], D: int, h: int) -> nn.Module:
    layer = kind(D, h).eval()
    for parameter in layer.parameters():
        parameter.data = 0.4 * fresh(*parameter.shape)
    return layer


def _one_tensor(result: Any, wanted: Tensor, layer: MultiHeadAttention, x: Tensor) -> None:
    listed = isinstance(result, (list, tuple)) and len(result) == layer.num_heads
    if listed and all(isinstance(term, Tensor) for term in result):
        raise Wrong(f"Your function returns a {type(result).__name__} of tensors: one tensor (B, h, T, D) is wanted.")


def _no_terms(result: Tensor, wanted: Tensor, layer: MultiHeadAttention, x: Tensor) -> str:
    total = result.sum(1)
    if close(total, wanted.sum(1), 1e-4) or close(total, layer(x), 1e-4):
        return "Your terms add up to the right sum, but the single ones are not those of the heads."
    return (
        f"The terms of all {layer.num_heads} heads and the bias should add up to layer(x): yours are off by up to "
        f"{(total - wanted.sum(1)).abs().max():.2g}. Are the heads right before layer.proj? And which columns of its "
        "weight does head 1 meet?"
    )


compute(
    "3.2",
    "contributions(layer, x)",
    "layer.qkv(x) holds all queries, then all keys, then all values; in each, head after head. Split as the class "
    "does, and stop before the heads are put side by side.",
    "A Linear computes x @ weight.T, so the numbers of head s meet only some columns of layer.proj.weight. How many, "
    "and from where? The bias belongs to no head.",
    cases=lambda: (
        (_layer(MultiHeadAttention, D, h), fresh(B, T, D))
        for B, T, D, h in ((2, 5, 12, 3), (3, 7, 20, 5), (1, 6, 8, 1))
    ),
    reference=_terms,
    before=_one_tensor,
    mistakes={
        "Every head brings the bias along, so {h} heads add it {h} times: it belongs to none of them.": (
            lambda layer, x: _terms(layer, x) + layer.proj.bias
        ),
        "You share the bias out among the heads: it belongs to none of them, leave it out.": (
            lambda layer, x: _terms(layer, x) + layer.proj.bias / layer.num_heads
        ),
        "You cut layer.proj.weight into rows. A Linear computes x @ weight.T. Which columns of layer.proj.weight does "
        "head 1 meet?": (
            lambda layer, x: _terms(layer, x, matrices=lambda a: a.proj.weight.unflatten(0, (a.num_heads, -1)))
        ),
        "You give each head every {h}-th column, and its own lie side by side. Which columns of layer.proj.weight does "
        "head 1 meet?": (
            lambda layer, x: _terms(
                layer, x, matrices=lambda a: a.proj.weight.T.unflatten(0, (-1, a.num_heads)).transpose(0, 1)
            )
        ),
    }
    | {
        f"Your terms are those of a layer that {symptom}.": lambda layer, x, kind=kind: _terms(layer, x, kind)
        for symptom, kind in (
            *((symptom, attend.layer(mix)) for symptom, mix in clinic.of(attend.MIX).items()),
            *clinic.of(MultiHeadAttention).items(),
        )
    },
    otherwise=_no_terms,
    words=lambda layer, x: {"h": layer.num_heads},
    right="on 3 layers with 3, 5 and 1 heads; with the bias, your terms add up to what the layer says.",
    tolerance=1e-4,
)


@exercise(
    "3.3",
    "look(D, down, right)",
    "The chapter's head that looks left is the case down=0, right=-1. Which of its two blocks has to do with rows? "
    "Positions grow downwards and to the right.",
    "Two rotations in one matrix: the first half of the features is turned by the rows to go, the second half by the "
    "columns. rotation(k, D // 2) of the chapter makes each.",
)
def _look(answer: Callable) -> str:
    ways = [(2, -3), (0, -1), (0, 1), (1, 0), (-1, 0), (-1, 2)]
    for D in (64, 48):  # at 48, speeds that fall too slowly find every neighbour, too
        for down, right in ways:
            rows, cols = 6, 7
            table = sincos_table((rows, cols), D)[0]  # (N, D)
            W = tensor_like(call(answer, D, down, right), table[0, :1].expand(D, D), whose="")
            _looks(W, table.reshape(rows, cols, D), down, right)
    return "at every place of a grid of 6 x 7 that has such a neighbour, in 6 directions and 2 widths."


def _target(queries: Tensor, table: Tensor, down: int, right: int) -> float:
    """The share of places whose first choice is the one so far away, of those that have one."""
    rows, cols, D = table.shape
    first = (queries.reshape(-1, D) @ table.reshape(-1, D).T).argmax(-1)  # (N,)
    places = [
        (r * cols + c, (r + down) * cols + c + right)
        for r in range(rows)
        for c in range(cols)
        if 0 <= r + down < rows and 0 <= c + right < cols
    ]
    here, there = torch.tensor(places).T
    return (first[here] == there).float().mean().item()


def _looks(W: Tensor, table: Tensor, down: int, right: int) -> None:
    queries = table @ W  # (rows, cols, D)
    if _target(queries, table, down, right) == 1.0:
        weight = (20 * queries.flatten(0, 1) @ table.flatten(0, 1).T).softmax(-1).amax(-1).mean()
        if weight < 0.75:
            raise Wrong(
                f"The first choice is right, but at beta 20 its weight is {weight:.2f}: the scores are too small."
            )
        return
    case = f"look({W.shape[0]}, down={down}, right={right})"
    wrong_ways = {
        "looks the other way": (-down, -right),
        "takes rows for columns": (right, down),
        "takes rows for columns and looks the other way": (-right, -down),
        "looks at the place itself": (0, 0),
        "goes the right way up and down and the wrong way left and right": (down, -right),
        "goes the right way left and right and the wrong way up and down": (-down, right),
    }
    for words, way in wrong_ways.items():
        if way != (down, right) and _target(queries, table, *way) == 1.0:
            transposed = " Is a matrix transposed?" if way == (-down, -right) else ""
            raise Wrong(f"{case} {words}.{transposed}")
    found = _target(queries, table, down, right)
    raise Wrong(f"{case} finds that neighbour first at {100 * found:.0f} % of the places that have one.")


def _lead(T: int, weight: float) -> float:
    return math.log(weight / (1 - weight) * (T - 1))


def _leads() -> list[tuple[int, float]]:
    draw = random.Random()
    return [(2, 0.5), (196, 0.5), (draw.randrange(20, 60), 0.9), (draw.randrange(100, 900), draw.choice((0.2, 0.7)))]


def _other_lead(said: float, wanted: float, T: int, weight: float) -> str:
    reached = 1 / (1 + (T - 1) * math.exp(min(-said, 700.0)))
    return f"With that lead its weight would be {reached:.3f}: too {'small' if said < wanted else 'large'}."


compute(
    "3.4",
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
        "That is a logarithm to the base 10: e wants the natural one.": lambda T, w: _lead(T, w) / math.log(10),
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
    right=f"4 cases. Half of the weight among 196 tokens takes a lead of {_lead(196, 0.5):.2f}. A query of width 64 "
    "that meets its own double scores 64 / 8 = 8: among 195 scores of 0 that is a weight of "
    f"{math.exp(8) / (math.exp(8) + 195):.2f}.",
    tolerance=1e-4,
)


class _Torchs(nn.Module):
    """torch's own layer, set up rightly."""

    def __init__(self, D: int, h: int):
        super().__init__()
        self.inner = nn.MultiheadAttention(D, h, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x, x)[0]


class _Stepwise(MultiHeadAttention):
    """The same sum, head after head, image after image."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([_terms(self, one[None])[0].sum(0) for one in x]) + self.proj.bias


def _precise(rejected: list[str], missed: list[str]) -> str:
    if len(rejected) == 3 and not missed:
        return "Does it ever say True?"
    return "Sums in another order differ in the last digits: do you leave room for that?" if rejected else ""


judge(
    "3.5",
    "is_sound(layer, D)",
    "Three questions: does every token hear of a change in another one of its picture? Does any other picture hear "
    "of it? Does a new order of the tokens only change the order of the output?",
    "Use random tokens with 2 or more pictures and a number of tokens unlike both the batch and D. Compare numbers "
    "with a small tolerance, and look at each token and each picture, not at a mean.",
    right={"the book's": MultiHeadAttention, "torch's own": _Torchs, "head after head": _Stepwise},
    wrong={
        symptom: kind
        for symptom, kind in (
            *clinic.of(MultiHeadAttention).items(),
            ("lets every token attend to itself alone", attend.layer(attend.only_itself)),
            ("lets a token attend only to those before it", attend.layer(attend.causal)),
        )
        if kind is not attend.Deleted
    },
    nouns=("sound layers", "others"),
    given=lambda kind: (_layer(kind, 24, 4), 24),
    more=_precise,
    accepted="it accepts {right} sound layers and sees through {wrong} that run and are wrong.",
)


@exercise(
    "3.6",
    "opinions(K)",
    "If two of a kind are always to be called the same, what does that ask of f[a] + g[a]? Then look at one pair of "
    "different kinds both ways round, (a, b) and (b, a).",
    "Let f grow with the number of the kind and g fall. Which of (a, b) and (b, a) is then above 0, and what keeps a "
    "pair of one kind there?",
)
def _opinions(answer: Callable) -> str:
    for K in (10, 3, 6):
        f, g = (_numbers(part, K) for part in parts(call(answer, K), 2, "the pair (f, g)"))
        sums = f[:, None] + g  # (K, K)
        same = (sums > 0)[torch.eye(K).bool()].float().mean().item()
        different = (sums <= 0)[~torch.eye(K).bool()].float().mean().item()
        if same + different < 1.5 - 1e-6:
            raise Wrong(_opinions_mistake(sums, same, different))
        if K == 10:
            loss = _pair_loss(sums)
    return (
        "3 of 4 pairs, for 10, 3 and 6 kinds: more than 75 % no sum of two opinions can reach. And its loss for 10 "
        f"kinds is {loss:.2f}, above the {math.log(2):.2f} of a coin: cross-entropy would lead away from it."
    )


def _numbers(part: Any, K: int) -> Tensor:
    """One of the two opinions as K floats; whole numbers and (K, 1) will do."""
    if isinstance(part, Tensor) and part.numel() == K:
        part = part.flatten().float()
    return tensor_like(part, torch.zeros(K), whose="")


def _pair_loss(sums: Tensor) -> float:
    """The cross-entropy of logits (K, K) where half of the pairs are of one kind."""
    same = torch.eye(len(sums))
    each = F.binary_cross_entropy_with_logits(sums, same, reduction="none")
    return (each[same.bool()].mean() + each[~same.bool()].mean()).item() / 2


def _opinions_mistake(sums: Tensor, same: float, different: float) -> str:
    case = f"For {len(sums)} kinds you are right on {50 * (same + different):.0f} % of the pairs"
    if (same, different) in ((1, 0), (0, 1)):
        return f"{case}: you call every pair {'the same' if same else 'different'}, and half of them are."
    if sums.diagonal().abs().max() < 1e-6:
        return f"{case}: two of a kind always add up to 0, and that is not above 0. They need a small lead."
    return (
        f"{case}: {100 * same:.0f} % of those of one kind, {100 * different:.0f} % of the others. It can be all of the "
        "first and half of the second."
    )

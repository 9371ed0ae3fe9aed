"""Exercises of chapter 3: attention, the share of each head, weights set by hand, a prediction, a test for layers."""

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitnb.attention import MultiHeadAttention
from vitnb.checks.engine import NotDone, Wrong, call, close, described, exercise, fresh, number, tensor_like
from vitnb.positions import sincos_table


@exercise(
    "3.1",
    "my_attention(q, k, v)",
    "Three steps: scores (B, h, T, T), weights whose rows sum to 1, and the weighted values (B, h, T, d). Which two "
    "axes of k change places so that a query can meet every key?",
    "A row of scores belongs to one query and runs over all keys: that is the axis to be normalised. The divisor is "
    "the root of the length of a query, not of all heads together.",
)
def _attention(answer: Callable) -> str:
    for B, h, T, d in ((2, 3, 5, 7), (1, 5, 11, 6), (3, 1, 4, 9)):
        q, k, v = fresh(3, B, h, T, d)
        wanted = F.scaled_dot_product_attention(q, k, v)
        result = tensor_like(call(answer, q, k, v), wanted)
        if not close(result, wanted):
            raise Wrong(_attention_mistake(result, q, k, v))
    return "equal to F.scaled_dot_product_attention to 1e-5, for 3 sizes with 3, 5 and 1 heads."


def _attention_mistake(result: Tensor, q: Tensor, k: Tensor, v: Tensor) -> str:
    h, T, d = q.shape[1:]
    raw = q @ k.mT  # (B, h, T, T)
    scores = raw / d**0.5
    mistakes = {
        "The scores are not divided: their spread grows with the width of a head.": raw.softmax(-1) @ v,
        "The softmax runs over the tokens that ask (dim=-2): your columns sum to 1, the rows do not.": (
            scores.softmax(-2) @ v
        ),
        "The softmax runs over the heads: each token's weights are shared out among heads, not tokens.": (
            scores.softmax(1) @ v
        ),
        "The scores are divided by the root of all features together, not by that of one head.": (
            (raw / (h * d) ** 0.5).softmax(-1) @ v
        ),
        "The scores are divided by the root of the number of tokens.": (raw / T**0.5).softmax(-1) @ v,
        "The scores are divided by the width itself: its root is wanted.": (raw / d).softmax(-1) @ v,
        "The scores are multiplied by the root, where they should be divided.": (raw * d**0.5).softmax(-1) @ v,
        "The softmax is missing: the values are mixed with the scores themselves.": scores @ v,
        "You divide the weights after the softmax: the rows do not sum to 1.": raw.softmax(-1) @ v / d**0.5,
        "Queries and keys have changed places: row i should hold what token i asks.": scores.mT.softmax(-1) @ v,
        "You mix the keys, not the values.": scores.softmax(-1) @ k,
    }
    for message, wrong in mistakes.items():
        if close(result, wrong):
            return message
    off = (result - F.scaled_dot_product_attention(q, k, v)).abs().max()
    return f"Your result is off by up to {off:.2g}. Print the sums of the rows of your weights: are they all 1?"


@exercise(
    "3.2",
    "contributions(layer, x)",
    "layer.qkv(x) holds all queries, then all keys, then all values; in each, head after head. Split as the class "
    "does, and stop before the heads are put side by side.",
    "A Linear computes x @ weight.T, so the numbers of head s meet only some columns of layer.proj.weight. How many, "
    "and from where? The bias belongs to no head.",
)
def _contributions(answer: Callable) -> str:
    for B, T, D, h in ((2, 5, 12, 3), (3, 7, 20, 5), (1, 6, 8, 1)):
        layer, x = MultiHeadAttention(D, h), fresh(B, T, D)
        for parameter in layer.parameters():
            parameter.data = 0.4 * fresh(*parameter.shape)
        with torch.no_grad():
            parts, wanted = _parts(layer, x), layer(x)
        result = call(answer, layer, x)
        if isinstance(result, (list, tuple)) and len(result) == h and all(isinstance(r, Tensor) for r in result):
            raise Wrong(
                f"Your function returns a {type(result).__name__} of tensors: one tensor (B, h, T, D) is wanted."
            )
        result = tensor_like(result, parts)
        if not close(result, parts, 1e-4):
            raise Wrong(_contributions_mistake(result, parts, wanted, layer))
    return "on 3 layers with 3, 5 and 1 heads; with the bias, your terms add up to what the layer says."


def _parts(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    """What each head adds to each token, (B, h, T, D)."""
    B, T, D = x.shape
    h, d = layer.num_heads, layer.head_dim
    q, k, v = layer.qkv(x).reshape(B, T, 3, h, d).permute(2, 0, 3, 1, 4)
    out = F.scaled_dot_product_attention(q, k, v)  # (B, h, T, d)
    return torch.einsum("bhtd,ohd->bhto", out, layer.proj.weight.reshape(D, h, d))


def _contributions_mistake(result: Tensor, parts: Tensor, wanted: Tensor, layer: MultiHeadAttention) -> str:
    bias, h = layer.proj.bias, layer.num_heads
    if close(result, parts + bias, 1e-4):
        return f"Every head brings the bias along, so {h} heads add it {h} times: it belongs to none of them."
    if close(result, parts + bias / h, 1e-4):
        return "You share the bias out among the heads: it belongs to none of them, leave it out."
    total = result.sum(1)
    if close(total, wanted, 1e-4) or close(total, wanted - bias, 1e-4):
        return "Your terms add up to the right sum, but the single ones are not those of the heads."
    off = (total + bias - wanted).abs().max().item()
    return (
        f"The terms of all {h} heads and the bias should add up to layer(x): yours are off by up to {off:.2g}. Which "
        "columns of layer.proj.weight does head 1 meet?"
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
    for D in (32, 48):
        for down, right in ways:
            rows, cols = 6, 7
            table = sincos_table((rows, cols), D)[0]  # (N, D)
            W = tensor_like(call(answer, D, down, right), table[0, :1].expand(D, D))
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


@exercise(
    "3.4",
    "needed_lead(T, weight)",
    "Let the others all have the score 0 and the one the score s. What are the T powers of e, and what is their sum?",
    "You have weight = (its power) / (sum of all powers). Solve for the power, then take the natural logarithm. Try "
    "T = 2 and weight = 0.5: no lead is needed.",
)
def _lead(answer: Callable) -> str:
    draw = random.Random()
    cases = [(2, 0.5), (196, 0.5), (draw.randrange(20, 60), 0.9), (draw.randrange(100, 900), draw.choice((0.2, 0.7)))]
    for T, weight in cases:
        said, lead = number(call(answer, T, weight)), math.log(weight / (1 - weight) * (T - 1))
        if abs(said - lead) > 1e-4:
            raise Wrong(f"For {T} tokens and a weight of {weight} you say {said:.3f}. {_lead_mistake(said, T, weight)}")
    self_weight = math.exp(8) / (math.exp(8) + 195)
    return (
        f"4 cases. Half of the weight among 196 tokens takes a lead of {math.log(195):.2f}. A query of width 64 that "
        f"meets its own double scores 64 / 8 = 8: among 195 scores of 0 that is a weight of {self_weight:.2f}."
    )


def _lead_mistake(said: float, T: int, weight: float) -> str:
    odds = weight / (1 - weight)
    mistakes = {
        math.log(odds * T): "The others are T - 1: the token itself is not among them.",
        math.log10(odds * (T - 1)): "That is a logarithm to the base 10: e wants the natural one.",
        math.log(weight * (T - 1)): "Its own power is part of the sum: compare it with the rest, weight to 1 - weight.",
        math.log(weight * T): "Its own power is part of the sum that you divide by.",
        math.log(odds): "That is the lead over a single other token: there are more.",
        math.log(1 / odds * (T - 1)): "That is the lead for the rest of the weight: its odds are turned round.",
        odds * (T - 1): "That is the ratio of the powers. The score is its logarithm.",
    }
    for number_, message in mistakes.items():
        if abs(said - number_) < 1e-4:
            return message
    small = said < math.log(odds * (T - 1))
    return f"With that lead its weight would be {_weight(said, T):.3f}: too {'small' if small else 'large'}."


def _weight(lead: float, T: int) -> float:
    """The weight of a token that leads T - 1 others."""
    return 1 / (1 + (T - 1) * math.exp(max(-lead, -700.0) if lead > -700 else 700.0))


class _Torchs(nn.Module):
    """torch's own layer, set up rightly."""

    def __init__(self, D: int, h: int):
        super().__init__()
        self.inner = nn.MultiheadAttention(D, h, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x, x)[0]


class _Stepwise(MultiHeadAttention):
    """The same sum, head after head, picture after picture."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([_parts(self, one[None])[0].sum(0) for one in x]) + self.proj.bias


class _Crossed(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(0, 1)).transpose(0, 1)


class _Merged(MultiHeadAttention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        B, h, T, d = q.shape
        return super().attend(q, k, v).reshape(B, T, h, d).transpose(1, 2)


class _SplitByView(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = (t.reshape(B, self.num_heads, T, self.head_dim) for t in self.qkv(x).chunk(3, dim=-1))
        return self.proj(self.attend(q, k, v).transpose(1, 2).reshape(B, T, D))


class _Alone(MultiHeadAttention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return v


class _BackOnly(MultiHeadAttention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class _AllTogether(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.reshape(1, -1, x.shape[2])).reshape(x.shape)


class _FirstOfAll(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:1]).expand_as(x)


class _Centred(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(0, keepdim=True))


RIGHT = (MultiHeadAttention, _Torchs, _Stepwise)
# What a reader is told about one that was let through.
MUTANTS: dict[str, type[MultiHeadAttention]] = {
    "in which tokens of different pictures attend to each other (batch_first)": _Crossed,
    "whose heads are merged without the transpose": _Merged,
    "whose heads are split by view alone": _SplitByView,
    "in which every token hears itself alone": _Alone,
    "in which a token hears only those before it": _BackOnly,
    "that takes the whole batch for one long sequence": _AllTogether,
    "that gives every picture the answer of the first": _FirstOfAll,
    "that subtracts the mean over the batch first": _Centred,
}


@exercise(
    "3.5",
    "is_sound(layer, D)",
    "Three questions: does every token hear of a change in another one of its picture? Does any other picture hear "
    "of it? Does a new order of the tokens only change the order of the output?",
    "Use random tokens with 2 or more pictures and a number of tokens unlike both the batch and D. Compare numbers "
    "with a small tolerance, and look at each token and each picture, not at a mean.",
)
def _is_sound(answer: Callable) -> str:
    h, D = 4, 24
    rejected = sum(not _verdict(answer, _layer(kind, D, h), D) for kind in RIGHT)
    missed = [symptom for symptom, kind in MUTANTS.items() if _verdict(answer, _layer(kind, D, h), D)]
    if rejected or missed:
        count = f"It rejects {rejected} of {len(RIGHT)} sound layers and lets {len(missed)} of {len(MUTANTS)} others "
        example = f"through, for example one {missed[0]}." if missed else "through."
        exact = " Sums in another order differ in the last digits: do you leave room for that?" if rejected else ""
        exact = " Does it ever say True?" if rejected == len(RIGHT) and not missed else exact
        raise Wrong(count + example + exact)
    return f"it accepts {len(RIGHT)} sound layers and sees through {len(MUTANTS)} that run and are wrong."


def _layer(kind: type[nn.Module], D: int, h: int) -> nn.Module:
    layer = kind(D, h).eval()
    for parameter in layer.parameters():
        parameter.data = 0.4 * fresh(*parameter.shape)
    return layer


def _verdict(answer: Callable, layer: nn.Module, D: int) -> bool:
    result: Any = call(answer, layer, D)
    if isinstance(result, Tensor) and result.ndim == 0:
        result = result.item()
    if not isinstance(result, (bool, np.bool_)):
        raise Wrong(f"Your function returns {described(result)}: True or False is wanted.")
    return bool(result)


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
        pair = call(answer, K)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise Wrong(f"Your function returns {described(pair)}: the pair (f, g) is wanted.")
        if any(part is ... for part in pair):
            raise NotDone
        f, g = (_numbers(part, K) for part in pair)
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
    return tensor_like(part, torch.zeros(K))


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

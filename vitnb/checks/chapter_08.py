"""Exercises of chapter 8: following attention back, a head by hand, a hidden map, what a map cannot see, rollout."""

import random
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitnb.checks.engine import NotDone, Wrong, call, close, described, exercise, fresh, number, tensor_like
from vitnb.inspection import rollout


@exercise(
    "8.1",
    "source(heard, token)",
    "Begin where the answer is: which token does `token` hear in the last layer? And what had that one taken in, one "
    "layer before?",
    "Go through the layers from the last to the first, and keep one number: the token at which you have arrived.",
)
def _source(answer: Callable) -> str:
    draw, cases = random.Random(), []
    for T, L in [(3, 3), (6, 4), (5, 1), (9, 6)] * 6:
        heard, token = [[draw.randrange(T) for _ in range(T)] for _ in range(L)], draw.randrange(T)
        cases.append((heard, token, number(call(answer, heard, token))))
    missed = [case for case in cases if case[2] != _follow(case[0][::-1], case[1])]
    if missed:
        heard, token, said = min(missed, key=lambda case: len(case[0][0]))
        start = f"For {heard} and token {token}" if len(heard[0]) == 3 else f"With {len(heard)} layers"
        mistakes = [message for message, rule in SOURCE_MISTAKES.items() if all(s == rule(h, t) for h, t, s in cases)]
        hand = "Follow it with a finger: from the last layer to the first, one token at a time."
        raise Wrong(f"{start} you say {said:g}. {(mistakes or [hand])[0]}")
    return f"{len(cases)} paths through 1 to 6 layers of 3 to 9 tokens."


def _follow(layers: list[list[int]], token: int) -> int:
    return reduce(lambda at, layer: layer[at], layers, token)


SOURCE_MISTAKES: dict[str, Callable[[list[list[int]], int], int]] = {
    "You start with the first layer: that is the product in the wrong order. What acts last is read first.": _follow,
    "That is what the last layer alone says; by then, that token holds the content of another.": (
        lambda heard, token: heard[-1][token]
    ),
    "That is the token itself, as if only the residual path were left.": lambda heard, token: token,
}


@exercise(
    "8.2",
    "head_of_distance(rows, cols, distance)",
    "You know two heads whose distance is easy: one that looks at itself, and one that hears all alike. What is the "
    "distance of a head that is half the one and half the other?",
    "A mean distance is linear in the map. So mix the two maps; the share follows from the distance of `all alike` on "
    "this grid, which you have to compute.",
)
def _head(answer: Callable) -> str:
    for rows, cols, share in ((4, 4, 0.5), (3, 5, 0.8), (5, 2, 0.0), (2, 6, 1.0), (4, 3, 0.1)):
        N, apart = rows * cols, _apart(rows, cols)
        distance = share * apart.mean().item()
        A = call(answer, rows, cols, distance)
        A = tensor_like(A.float() if isinstance(A, Tensor) else A, torch.zeros(N, N))  # double is as good
        case = f"On a grid of {rows} x {cols} and for a distance of {distance:.2f},"
        if A.min() < -1e-6:
            raise Wrong(f"{case} you have a weight of {A.min():.2g}: a softmax gives none below 0.")
        sums = A.sum(dim=1)
        if not close(sums, torch.ones(N), 1e-4):
            sideways = " Your columns do." if close(A.sum(dim=0), torch.ones(N), 1e-4) else ""
            raise Wrong(f"{case} your rows sum to {sums.min():.2f} up to {sums.max():.2f}, not to 1.{sideways}")
        got = (A * apart).sum(dim=1).mean().item()
        if abs(got - distance) > 1e-3:
            raise Wrong(f"{case} your head has {got:.2f}. {_head_mistake(A, got, distance, rows, cols)}")
    return "5 grids, distances from 0 to all alike."


def _apart(rows: int, cols: int, p: float = 2) -> Tensor:
    places = torch.cartesian_prod(torch.arange(rows), torch.arange(cols)).float()  # (N, 2)
    return torch.cdist(places, places, p)  # (N, N)


def _head_mistake(A: Tensor, got: float, distance: float, rows: int, cols: int) -> str:
    if close(A, torch.full_like(A, 1 / len(A))):
        return "It hears all alike, whatever distance is asked for."
    swapped = (A * _apart(cols, rows)).sum(dim=1).mean().item()
    if rows != cols and abs(swapped - distance) < 1e-3:
        return "It would be right on a grid with rows and columns exchanged."
    if got < 1e-6 < distance:
        return "It looks only at itself."
    steps = (A * _apart(rows, cols, p=1)).sum(dim=1).mean().item()
    if abs(steps - distance) < 1e-3:
        return "It would be right if one had to walk along rows and columns: distances are straight lines."
    return "How far does a head look that hears all alike on this grid? It is not the same on every grid."


@exercise(
    "8.3",
    "hidden_maps(layer, x)",
    "F.linear with the layer's own weight and bias gives queries, keys and values side by side. From there it is the "
    "cell of this chapter that made the map by hand.",
    "Heads share the features: each has D/h of them, next to each other. The root is of that width, and the softmax "
    "runs over the tokens that are asked.",
)
def _hidden_maps(answer: Callable) -> str:
    for B, T, D, h in ((2, 5, 12, 3), (3, 7, 8, 2), (1, 4, 20, 5)):
        layer = nn.MultiheadAttention(D, h, batch_first=True).eval()
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.copy_(fresh(*parameter.shape) * 0.6)
            x = fresh(B, T, D)
            wanted = layer(x, x, x, average_attn_weights=False)[1]  # (B, h, T, T)
            result = call(answer, layer, x)
            if isinstance(result, tuple):
                raise Wrong(f"Your function returns a tuple of {len(result)}: the maps alone are wanted.")
            if isinstance(result, Tensor) and close(result, wanted.mean(1)):
                raise Wrong("Your map is the mean over the heads: a map for each head is wanted, (B, h, T, T).")
            result = tensor_like(result, wanted)
            if not close(result, wanted, 1e-4):
                raise Wrong(_maps_mistake(result, wanted, layer, x))
    return "the maps of 3 layers with 2, 3 and 5 heads, to 1e-4."


def _maps_mistake(result: Tensor, wanted: Tensor, layer: nn.MultiheadAttention, x: Tensor) -> str:
    (B, T, D), h = x.shape, layer.num_heads
    d, qkv = D // h, F.linear(x, layer.in_proj_weight, layer.in_proj_bias)
    q, k, v = qkv.reshape(B, T, 3, h, d).permute(2, 0, 3, 1, 4)
    scores = q @ k.mT

    def other(a: Tensor, b: Tensor) -> Tensor:
        return (a @ b.mT / d**0.5).softmax(-1)

    naked = F.linear(x, layer.in_proj_weight).reshape(B, T, 3, h, d).permute(2, 0, 3, 1, 4)
    viewed = [part.reshape(B, h, T, d) for part in qkv.chunk(3, dim=-1)]
    woven = qkv.reshape(B, T, h, 3, d).permute(3, 0, 2, 1, 4)
    across = qkv.reshape(B, T, 3, d, h).permute(2, 0, 4, 1, 3)
    mistakes = {
        "You return the scores before the softmax.": scores / d**0.5,
        "Your softmax runs over the tokens that ask: the columns sum to 1, not the rows.": (scores / d**0.5).softmax(2),
        f"You divide by the root of D = {D}: the dot product has only D/h = {d} terms.": (scores / D**0.5).softmax(-1),
        "You do not divide the scores by the root of D/h.": scores.softmax(-1),
        f"You divide by D/h = {d} itself, not by its root.": (scores / d).softmax(-1),
        "Queries and keys are exchanged: row and column change places.": other(k, q),
        "You multiply queries with values: the keys come second in in_proj_weight.": other(q, v),
        "The bias is forgotten: in_proj_bias.": other(naked[0], naked[1]),
        "Your heads are split with view or reshape alone, which tears the tokens apart.": other(viewed[0], viewed[1]),
        "You cut the features into heads first and into q, k, v then: in in_proj_weight it is the other way round.": (
            other(woven[0], woven[1])
        ),
        "Your heads take every h-th feature: a head's features lie side by side.": other(across[0], across[1]),
    }
    for message, wrong in mistakes.items():
        if close(result, wrong, 1e-4):
            return message
    if not close(result.sum(-1), torch.ones(B, h, T), 1e-3):
        return "The rows of your maps do not sum to 1."
    return f"Your maps are off by up to {(result - wanted).abs().max():.2g}, though their rows sum to 1."


# (does the map change, does the output change): the tests measure each.
CHANGES = {
    "double queries": (True, True),
    "double queries, halve keys": (False, False),
    "double values": (False, True),
    "shift keys": (False, False),
    "shift queries": (True, True),
    "swap two heads in proj": (False, True),
}


@exercise(
    "8.4",
    "changes(what)",
    "A map is softmax(q k / root of d): which of the changes reach q or k at all? And what does the softmax do with a "
    "row to which the same number is added everywhere?",
    "Write q + s or k + s into the dot product and multiply out. One of the terms that appear is the same for all "
    "tokens that are asked, the other is not.",
)
def _changes(answer: Callable) -> str:
    said = {what: _pair(call(answer, what)) for what in CHANGES}
    right = sum(said[what] == CHANGES[what] for what in CHANGES)
    if right == len(CHANGES):
        return "6 of 6 predictions agree with the layer."
    count = f"{right} of {len(CHANGES)} predictions agree with the layer."
    if any(moved and not out for moved, out in said.values()):
        more = "Somewhere you have a new map with the old output: not with random values, and these are."
    elif any(said[w][0] for w in ("double values", "swap two heads in proj")):
        more = "The map is made before the values are mixed and before the projection: neither can change it."
    elif said["shift keys"][0] or said["double queries, halve keys"][0]:
        more = "One change of the keys at least never reaches the map: multiply out."
    elif not said["shift queries"][0]:
        more = "Shifting queries and shifting keys is not alike: what is the same along a row?"
    else:
        more = "Ask of each: do the scores of a row change, apart from a number that all of them share?"
    raise Wrong(f"{count} {more}")


def _pair(value: Any) -> tuple[bool, bool]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise Wrong(f"Your function returns {described(value)}: a pair (map, output) of True or False is wanted.")
    if any(part is ... for part in value):
        raise NotDone
    return _yes_or_no(value[0]), _yes_or_no(value[1])


def _steps(maps: list[Tensor]) -> list[Tensor]:
    return [(weights.mean(1) + torch.eye(weights.shape[-1])) / 2 for weights in maps]


def _chained(steps: list[Tensor]) -> Tensor:
    return reduce(lambda total, step: step @ total, steps)


def _without_keepdim(maps: list[Tensor]) -> Tensor:
    """Divide down the columns; as every row of step sums to 2, this does no harm."""
    steps = [weights.mean(1) + torch.eye(weights.shape[-1]) for weights in maps]
    return _chained([step / step.sum(-1)[:, None, :] for step in steps])


def _from_the_end(maps: list[Tensor]) -> Tensor:
    return reduce(lambda total, step: total @ step, _steps(maps)[::-1])


def _no_identity(maps: list[Tensor]) -> Tensor:
    return _chained([weights.mean(1) for weights in maps])


def _identity_afterwards(maps: list[Tensor]) -> Tensor:
    total = _no_identity(maps)
    return (total + torch.eye(total.shape[-1])) / 2


def _columns(maps: list[Tensor]) -> Tensor:
    steps = [weights.mean(1) + torch.eye(weights.shape[-1]) for weights in maps]
    return _chained([step / step.sum(1, keepdim=True) for step in steps])


RIGHT = (rollout, lambda maps: _chained(_steps(maps)), _from_the_end, _without_keepdim)
# What a reader is told about one that was let through.
MUTANTS: dict[str, Callable[[list[Tensor]], Tensor]] = {
    "leaves the residual path out": _no_identity,
    "multiplies in the wrong order": lambda maps: _chained(_steps(maps)[::-1]),
    "does not make the rows sum to 1": lambda maps: _chained([2 * step for step in _steps(maps)]),
    "normalises the columns instead of the rows": _columns,
    "looks at the last layer alone": lambda maps: _steps(maps)[-1],
    "forgets the first layer": lambda maps: _chained(_steps(maps)[1:]),
    "uses the first head alone": lambda maps: _chained(_steps([weights[:, :1] for weights in maps])),
    "adds the identity once, at the end": _identity_afterwards,
    "mixes the pictures of a batch": lambda maps: rollout(maps).mean(0, keepdim=True).expand(len(maps[0]), -1, -1),
    "is transposed: it says where a token goes to, not where it comes from": lambda maps: rollout(maps).mT,
}


@exercise(
    "8.5",
    "is_rollout(function)",
    "Make random maps whose rows sum to 1, with several heads, pictures and layers. For which network is rollout "
    "exact? You can run that network.",
    "Send tokens with a few features through the layers, half of each layer the tokens, half what they hear. What "
    "must the function's matrix do with the tokens that you started with?",
)
def _is_rollout(answer: Callable) -> str:
    rejected = sum(not _verdict(answer, function) for function in RIGHT)
    missed = [symptom for symptom, function in MUTANTS.items() if _verdict(answer, function)]
    if rejected or missed:
        count = f"It rejects {rejected} of {len(RIGHT)} right ones and lets {len(missed)} of {len(MUTANTS)} wrong "
        example = f"ones through, for example a rollout that {missed[0]}." if missed else "ones through."
        shape = " Does it look at the shape only?" if len(missed) == len(MUTANTS) else ""
        strict = " There is more than one right way to write it; allow for rounding." if rejected else ""
        raise Wrong(count + example + shape + strict)
    return f"it accepts {len(RIGHT)} right implementations and sees through {len(MUTANTS)} wrong ones."


def _verdict(answer: Callable, function: Callable) -> bool:
    return _yes_or_no(call(answer, function))


def _yes_or_no(value: Any) -> bool:
    if isinstance(value, Tensor) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, (bool, np.bool_)):
        raise Wrong(f"Your function returns {described(value)}: True or False is wanted.")
    return bool(value)

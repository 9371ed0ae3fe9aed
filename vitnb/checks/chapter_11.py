"""Exercises of chapter 11: following attention back, a head by hand, a hidden map, what a map cannot see, rollout."""

import random
from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitnb import clinic
from vitnb.checks.engine import Wrong, call, close, exercise, fresh, number, tensor_like, yes_or_no
from vitnb.checks.kinds import compute, judge, parts, predict
from vitnb.clinic import attend
from vitnb.inspection import rollout


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
    "11.1",
    "source(heard, token)",
    "Begin where the answer is: which token does `token` hear in the last layer? And what had that one taken in, one "
    "layer before?",
    "Go through the layers from the last to the first, and keep one number: the token at which you have arrived.",
    SOURCE_MISTAKES,
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


@exercise(
    "11.2",
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


def _maps(split: Callable = attend.split_heads, mix: Callable = attend.MIX, bias: bool = True) -> Callable:
    """An answer that splits the heads in this way, and makes the weights of which this function mixes the values."""

    def answer(layer: nn.MultiheadAttention, x: Tensor) -> Tensor:
        qkv = F.linear(x, layer.in_proj_weight, layer.in_proj_bias if bias else None)  # (B, T, 3*D)
        q, k, _ = split(qkv, layer.num_heads)  # (B, h, T, d)
        B, h, T, _ = q.shape
        return mix(q, k, torch.eye(T).expand(B, h, T, T))  # to mix the identity is to show the weights

    return answer


def _layers_and_tokens() -> list[tuple[nn.MultiheadAttention, Tensor]]:
    cases = []
    for B, T, D, h in ((2, 5, 12, 3), (3, 7, 8, 2), (1, 4, 20, 5)):
        layer = nn.MultiheadAttention(D, h, batch_first=True).eval()
        for parameter in layer.parameters():
            parameter.data = 0.6 * fresh(*parameter.shape)
        cases.append((layer, fresh(B, T, D)))
    return cases


def _one_map_a_head(result: object, wanted: Tensor, *_: object) -> None:
    if isinstance(result, tuple):
        raise Wrong(f"Your function returns a tuple of {len(result)}: the maps alone are wanted.")
    if isinstance(result, Tensor) and close(result, wanted.mean(1)):
        raise Wrong("Your map is the mean over the heads: a map for each head is wanted, (B, h, T, T).")


def _unknown_maps(result: Tensor, wanted: Tensor, *_: object) -> str:
    if not close(result.sum(-1), torch.ones(wanted.shape[:3]), 1e-3):
        return "The rows of your maps do not sum to 1."
    return f"Your maps are off by up to {(result - wanted).abs().max():.2g}, though their rows sum to 1."


compute(
    "11.3",
    "hidden_maps(layer, x)",
    "F.linear with the layer's own weight and bias gives queries, keys and values side by side. From there it is the "
    "cell of this chapter that made the map by hand.",
    "Heads share the features: each has D/h of them, next to each other. The root is of that width, and the softmax "
    "runs over the tokens that are asked.",
    cases=_layers_and_tokens,
    reference=lambda layer, x: layer(x, x, x, average_attn_weights=False)[1],  # (B, h, T, T)
    before=_one_map_a_head,
    mistakes={
        "You return the scores before the softmax.": _maps(mix=attend.no_softmax),
        "Your softmax runs over the tokens that ask: the columns sum to 1, not the rows.": (
            _maps(mix=attend.softmax_over_queries)
        ),
        "You divide by the root of D = {D}: the dot product has only D/h = {d} terms.": (
            _maps(mix=attend.divided_for_all_heads)
        ),
        "You do not divide the scores by the root of D/h.": _maps(mix=attend.undivided),
        "You divide by D/h = {d} itself, not by its root.": _maps(mix=attend.divided_without_root),
        "Queries and keys are exchanged: row and column change places.": _maps(mix=attend.queries_and_keys_exchanged),
        "You multiply queries with values: the keys come second in in_proj_weight.": _maps(attend.values_as_keys),
        "The bias is forgotten: in_proj_bias.": _maps(bias=False),
        "Your heads are split with view or reshape alone, which tears the tokens apart.": (
            _maps(attend.heads_by_reshape)
        ),
        "You cut the features into heads first and into q, k, v then: in in_proj_weight it is the other way round.": (
            _maps(attend.heads_first)
        ),
        "Your heads take every h-th feature: a head's features lie side by side.": _maps(attend.every_hth_feature),
    },
    otherwise=_unknown_maps,
    words=lambda layer, x: {"D": layer.embed_dim, "d": layer.head_dim},
    right="the maps of 3 layers with 2, 3 and 5 heads, to 1e-4.",
    tolerance=1e-4,
)


# (does the map change, does the output change): the tests measure each.
CHANGES = {
    "double queries": (True, True),
    "double queries, halve keys": (False, False),
    "double values": (False, True),
    "shift keys": (False, False),
    "shift queries": (True, True),
    "swap two heads in proj": (False, True),
}


def _what_moves(said: dict[str, tuple[bool, bool]], known: dict[str, tuple[bool, bool]]) -> str:
    if any(moved and not out for moved, out in said.values()):
        return "Somewhere you have a new map with the old output: not with random values, and these are."
    if any(said[w][0] for w in ("double values", "swap two heads in proj")):
        return "The map is made before the values are mixed and before the projection: neither can change it."
    if said["shift keys"][0] or said["double queries, halve keys"][0]:
        return "One change of the keys at least never reaches the map: multiply out."
    if not said["shift queries"][0]:
        return "Shifting queries and shifting keys is not alike: what is the same along a row?"
    return "Ask of each: do the scores of a row change, apart from a number that all of them share?"


predict(
    "11.4",
    "changes(what)",
    "A map is softmax(q k / root of d): which of the changes reach q or k at all? And what does the softmax do with a "
    "row to which the same number is added everywhere?",
    "Write q + s or k + s into the dot product and multiply out. One of the terms that appear is the same for all "
    "tokens that are asked, the other is not.",
    truth=lambda: CHANGES,
    read=lambda value: tuple(map(yes_or_no, parts(value, 2, "a pair (map, output) of True or False"))),
    advice=_what_moves,
    agree="predictions agree with the layer",
)


def _from_the_end(maps: list[Tensor]) -> Tensor:
    return reduce(lambda total, step: total @ step, attend.steps(maps)[::-1])


def _without_keepdim(maps: list[Tensor]) -> Tensor:
    """Divide down the columns; as every row of step sums to 2, this does no harm."""
    steps = [weights.mean(1) + torch.eye(weights.shape[-1]) for weights in maps]
    return attend.chained([step / step.sum(-1)[:, None, :] for step in steps])


ROLLOUTS = {
    "the package's": rollout,
    "from the first layer to the last": lambda maps: attend.chained(attend.steps(maps)),
    "from the last layer to the first": _from_the_end,
    "without keepdim": _without_keepdim,
}


def _which_rollouts(rejected: list[str], missed: list[str]) -> str:
    shape = "Does it look at the shape only? " if len(missed) == len(clinic.of(rollout)) else ""
    return shape + ("There is more than one right way to write it; allow for rounding." if rejected else "")


judge(
    "11.5",
    "is_rollout(function)",
    "Make random maps whose rows sum to 1, with several heads, pictures and layers. For which network is rollout "
    "exact? You can run that network.",
    "Send tokens with a few features through the layers, half of each layer the tokens, half what they hear. What "
    "must the function's matrix do with the tokens that you started with?",
    right=ROLLOUTS,
    wrong=clinic.of(rollout),
    one="a rollout that",
    more=_which_rollouts,
    accepted="it accepts {right} right implementations and sees through {wrong} wrong ones.",
)

"""Exercises of chapter 11: following attention back, rollout, a hidden map, what a map cannot show, deletion."""

from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbook import faults
from vitbook.exercises.declaration import Exercise, Results
from vitbook.exercises.forms import compute, hunt, predict, read_by
from vitbook.exercises.values import (
    apart,
    chance,
    close,
    counted,
    first_that,
    fresh,
    number,
    parts,
    perturbed,
    yes_or_no,
)
from vitbook.faults import attend
from vitnb.inspection import rollout


def _follow(layers: list[list[int]], token: int) -> int:
    return reduce(lambda at, layer: layer[at], layers, token)


SOURCE_MISTAKES: dict[str, Callable[[list[list[int]], int], int]] = {
    "You start with the first layer: that is the product in the wrong order. What acts last is read first.": _follow,
    "That is what the last layer alone says; by then, that token holds the content of another.": (
        lambda attended, token: attended[-1][token]
    ),
    "That is the token itself, as if only the residual connection were left.": lambda attended, token: token,
}


def _paths() -> Iterator[tuple[list[list[int]], int]]:
    """The exercise's own path first, on which all mistakes but that of one layer are wrong; then random ones."""
    draw = chance()
    yield [[2, 1, 0], [0, 1, 1], [2, 0, 2]], 1
    yield [[1, 2, 3, 0], [2, 0, 1, 3], [0, 3, 1, 2], [3, 1, 0, 2]], 0
    for T, L in [(3, 3), (6, 4), (5, 1), (9, 6)] * 6:
        yield [[draw.randrange(T) for _ in range(T)] for _ in range(L)], draw.randrange(T)


def _sources(results: Results) -> str | None:
    cases = [(attended, token, number(result)) for (attended, token), result in results]
    missed = [case for case in cases if case[2] != _follow(case[0][::-1], case[1])]
    if not missed:
        return None
    attended, token, said = min(missed, key=lambda case: len(case[0][0]))
    layers = counted(len(attended), "layer")
    start = f"For {attended} and token {token}" if len(attended[0]) == 3 else f"With {layers}"
    known = first_that(lambda rule: all(said == rule(*case) for *case, said in cases), SOURCE_MISTAKES)
    hand = "Follow it with a finger: from the last layer to the first, one token at a time."
    return f"{start} you say {said:g}. {known or hand}"


Exercise(
    "11.1",
    "source(attended, token)",
    "Begin where the answer is: which token does `token` attend to in the last layer? And what had that one taken in, "
    "one layer before?",
    "Go through the layers from the last to the first, and keep one number: the token at which you have arrived.",
    cases=_paths,
    judge=read_by(number),
    overall=_sources,
    mistakes=SOURCE_MISTAKES,
    right=lambda results: f"{len(results)} paths through 1 to 6 layers of 3 to 9 tokens.",
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
    shape = "Does it look at the shape only? " if len(missed) == len(faults.of(rollout)) else ""
    return shape + ("There is more than one right way to write it; allow for rounding." if rejected else "")


hunt(
    "11.2",
    "is_rollout(function)",
    "Make random maps whose rows sum to 1, with several heads, images and layers. For which network is rollout "
    "exact? You can run that network.",
    "Send tokens with a few features through the layers: each layer returns half of the token and half of the mean of "
    "what it attends to. What must the function's matrix do with the tokens that you started with?",
    right=ROLLOUTS,
    wrong=faults.of(rollout),
    one="a rollout that",
    more=_which_rollouts,
    accepted="it accepts {right} right implementations and sees through {wrong} wrong ones.",
)


def _maps(split: Callable = attend.split_heads, mix: Callable = attend.MIX, bias: bool = True) -> Callable:
    """An answer that splits the heads in this way, and makes the weights of which this function mixes the values."""

    def answer(layer: nn.MultiheadAttention, x: Tensor) -> Tensor:
        qkv = F.linear(x, layer.in_proj_weight, layer.in_proj_bias if bias else None)  # (B, T, 3*D)
        q, k, _ = split(qkv, layer.num_heads)  # (B, h, T, d)
        B, h, T, _ = q.shape
        return mix(q, k, torch.eye(T).expand(B, h, T, T))  # to mix the identity is to show the weights

    return answer


def _unknown_maps(result: Tensor, right: Tensor, *_: Any) -> str:
    if not close(result.sum(-1), torch.ones(right.shape[:3]), 1e-3):
        return "The rows of your maps do not sum to 1."
    return f"Your maps are {apart(result, right)}, though their rows sum to 1."


compute(
    "11.3",
    "hidden_maps(layer, x)",
    "F.linear with the layer's own weight and bias gives queries, keys and values side by side. From there it is the "
    "cell of this chapter that made the map by hand.",
    "Heads share the features: each has D/h of them, next to each other. The root is of that width, and the softmax "
    "runs over the tokens that are attended to.",
    cases=lambda: (
        (perturbed(nn.MultiheadAttention(D, h, batch_first=True).eval(), 0.6), fresh(B, T, D))
        for B, T, D, h in ((2, 5, 12, 3), (3, 7, 8, 2), (1, 4, 20, 5))
    ),
    reference=lambda layer, x: layer(x, x, x, average_attn_weights=False)[1],  # (B, h, T, T)
    before=lambda result, *_: (
        f"Expected the maps alone, got a tuple of {len(result)}." if isinstance(result, tuple) else None
    ),
    mistakes={
        "Your map is the mean over the heads, in place of one map for each, (B, h, T, T).": (
            lambda layer, x: layer(x, x, x)[1]
        ),
        "You return the scores before the softmax.": _maps(mix=attend.no_softmax),
        "Your softmax runs over the tokens that attend: the columns sum to 1, not the rows.": (
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
    "tokens that are attended to, the other is not.",
    truth=lambda: CHANGES,
    read=lambda value: tuple(map(yes_or_no, parts(value, 2, "a pair (map, output) of True or False"))),
    advice=_what_moves,
    right="predictions agree with the layer",
)


def _tokens_and_orders() -> list[tuple[Tensor, Tensor, int]]:
    """Tokens of several images, an order of the patches for each, and how many of them go."""
    return [
        (fresh(B, 1 + N, D), torch.stack([torch.randperm(N) for _ in range(B)]), k)
        for B, N, D, k in ((3, 9, 4, 2), (2, 12, 5, 7), (4, 6, 3, 3), (3, 8, 2, 0), (2, 7, 3, 6))
    ]


def _with_cls(tokens: Tensor, places: Tensor) -> Tensor:
    """The cls token, and the tokens at these places of each image."""
    places = torch.cat([torch.zeros(len(places), 1, dtype=places.dtype), places], dim=1)
    return tokens[torch.arange(len(places))[:, None], places]


def _sorted_with_cls(tokens: Tensor, order: Tensor) -> Tensor:
    return _with_cls(tokens, 1 + order.sort(dim=1).values)


def _without(tokens: Tensor, order: Tensor, k: int) -> Tensor:
    return _sorted_with_cls(tokens, order[:, k:])


def _zeroed(tokens: Tensor, order: Tensor, k: int) -> Tensor:
    return tokens.scatter(1, 1 + order[:, :k, None].expand(-1, -1, tokens.shape[2]), 0.0)


def _fewer_tokens(result: Any, right: Tensor, tokens: Tensor, order: Tensor, k: int) -> str | None:
    if not isinstance(result, Tensor) or result.ndim != 3 or result.shape == right.shape:
        return None
    cls = result.shape[1] > 0 and close(result[:, 0], tokens[:, 0])
    if close(result, _zeroed(tokens, order, k)):
        return "You replace the tokens by zeros, and then others still attend to them: take them out."
    gone = _sorted_with_cls(tokens, order[:, :k]), _with_cls(tokens, 1 + order[:, :k])
    if cls and any(close(result, one) for one in gone):
        return f"You return cls and the {counted(k, 'patch')} that should go, in place of the others."
    if result.shape[1] == right.shape[1] - 1:
        return f"You return one token too few: {'you take a patch too many out' if cls else 'is cls still there?'}."
    if result.shape[1] == right.shape[1] + 1:
        return f"You return one token too many: of {counted(k, 'patch')} to go, one is left."
    return None


compute(
    "11.5",
    "without(tokens, order, k)",
    "order[:, k:] holds the patches that stay. Where in `tokens` is patch n?",
    "Sort what stays, add 1 for the cls token, put a column of zeros in front, and index the tokens of each image "
    "with its own row: tokens[torch.arange(B)[:, None], rows].",
    cases=_tokens_and_orders,
    reference=_without,
    before=_fewer_tokens,
    mistakes={
        "Patch n is token n + 1, because cls stands in front: you take the neighbour out.": (
            lambda tokens, order, k: _sorted_with_cls(tokens[:, :-1], order[:, k:] - 1)
        ),
        "You take the last k patches of the order out, the least important ones.": (
            lambda tokens, order, k: _sorted_with_cls(tokens, order[:, : order.shape[1] - k])
        ),
        "Every image loses the patches of the first image: each has its own row of order.": (
            lambda tokens, order, k: _without(tokens, order[:1].expand_as(order), k)
        ),
        "The right patches stay, but in the order of the map. The model would not mind, because attention sees no "
        "order and the positions were added before; sort them all the same.": (
            lambda tokens, order, k: _with_cls(tokens, 1 + order[:, k:])
        ),
    },
    otherwise="These are not cls and the patches that stay, in their old order. Try one image with three patches.",
    right="5 batches with 6 to 12 patches, of which 0 to 7 went.",
)

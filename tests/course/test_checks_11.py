"""The checks of chapter 11: right answers however written, wrong ones named, predictions measured.

They join the tables of test_checks.py. With their verdicts: pytest tests/course/test_checks_11.py -k table -s
"""

import copy
from functools import reduce

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from tests.course.answers import right, verdict, wrong
from vitbook import faults
from vitbook.exercises.chapter_11 import CHANGES, ROLLOUTS
from vitnb import MultiHeadAttention, record_attention
from vitnb.inspection import rollout

# 11.1 ------------------------------------------------------------------------------------------------------


def backwards(attended, token):
    for layer in attended[::-1]:
        token = layer[token]
    return token


@right("11.1")
def by_matrices(attended, token):
    T = len(attended[0])
    return reduce(lambda total, layer: torch.eye(T)[layer] @ total, attended, torch.eye(T))[token].argmax()


@right("11.1")
def by_recursion(attended, token):
    return token if not attended else by_recursion(attended[:-1], attended[-1][token])


wrong("11.1", "Follow it with a finger")(lambda attended, token: -1)
wrong("11.1", "Expected a number")(lambda attended, token: [backwards(attended, token)])
wrong("11.1", "you say")(lambda attended, token: attended[0][token])


@wrong("11.1", "changes what it is given")
def pops(attended, token):
    while attended:
        token = attended.pop()[token]
    return token


# 11.2 ------------------------------------------------------------------------------------------------------


def some_maps(B=2, h=3, T=5, layers=3):
    return [torch.randn(B, h, T, T).softmax(-1) for _ in range(layers)]


@right("11.2")
def runs_the_network(function):
    maps = some_maps()
    tokens = x = torch.randn(2, 5, 4)
    for weights in maps:
        x = 0.5 * (x + weights.mean(1) @ x)
    return torch.allclose(function(maps) @ tokens, x, atol=1e-4)


@right("11.2")
def compares(function):
    maps = some_maps(B=3, h=2, T=7, layers=4)
    return function(maps).sub(rollout(maps)).abs().max() < 1e-5


@right("11.2")
def with_one_layer_and_with_more(function):
    return all(torch.allclose(function(m := some_maps(layers=L)), rollout(m), atol=1e-4) for L in (1, 3))


wrong(
    "11.2", "lets 10 of 10 wrong ones through, for example a rollout that leaves the residual path out. Does it look"
)(lambda function: function(some_maps()).shape == (2, 5, 5))
wrong("11.2", "rejects 4 of 4 right ones and lets 0")(lambda function: False)
wrong("11.2", "a rollout that leaves the residual path out")(
    lambda function: bool(torch.allclose(function(some_maps()).sum(-1), torch.ones(2, 5)))
)
wrong("11.2", "for example a rollout that leaves the residual path out")(
    lambda function: torch.allclose(function([torch.eye(5).expand(2, 3, 5, 5)] * 3), torch.eye(5).expand(2, 5, 5))
)
wrong("11.2", "a rollout that multiplies in the wrong order")(
    lambda f: torch.allclose(f(m := some_maps(layers=1) * 3), rollout(m), atol=1e-4)
)
wrong("11.2", "a rollout that uses the first head alone")(
    lambda f: torch.allclose(f(m := some_maps(h=1)), rollout(m), atol=1e-4)
)
wrong("11.2", "a rollout that mixes the images of a batch")(
    lambda f: torch.allclose(f(m := some_maps(B=1)), rollout(m), atol=1e-4)
)
wrong("11.2", "allow for rounding")(lambda f: torch.equal(f(m := some_maps(layers=6)), rollout(m)))
wrong("11.2", "Expected True or False")(lambda function: "yes")
wrong("11.2", "raises TypeError")(lambda function: function(torch.eye(3), torch.eye(3)))


# 11.3 ------------------------------------------------------------------------------------------------------


def maps_of(layer, x, parts=(0, 1)):
    B, T, D = x.shape
    h = layer.num_heads
    qkv = F.linear(x, layer.in_proj_weight, layer.in_proj_bias).reshape(B, T, 3, h, D // h).permute(2, 0, 3, 1, 4)
    return (qkv[parts[0]] @ qkv[parts[1]].mT / (D // h) ** 0.5).softmax(-1)


right("11.3")(maps_of)
right("11.3")(lambda layer, x: layer(x, x, x, need_weights=True, average_attn_weights=False)[1])


@right("11.3")
def by_head(layer, x):
    q, k, _ = (x @ layer.in_proj_weight.T + layer.in_proj_bias).chunk(3, dim=-1)
    d = layer.head_dim
    pairs = zip(q.split(d, dim=-1), k.split(d, dim=-1), strict=True)
    return torch.stack([F.softmax(torch.einsum("btd,bsd->bts", a, b) * d**-0.5, dim=2) for a, b in pairs], dim=1)


wrong("11.3", "though their rows sum to 1")(lambda layer, x: maps_of(layer, x, parts=(1, 2)))
wrong("11.3", "the mean over the heads")(lambda layer, x: layer(x, x, x)[1])
wrong("11.3", "a tuple of 2")(lambda layer, x: layer(x, x, x, average_attn_weights=False))
wrong("11.3", "is the return missing?")(lambda layer, x: layer(x, x, x, need_weights=False)[1])
wrong("11.3", "Expected a tensor of shape (2, 3, 5, 5), got (3, 5, 5)")(lambda layer, x: maps_of(layer, x)[0])


# 11.4 ------------------------------------------------------------------------------------------------------

right("11.4")(
    lambda what: [
        np.bool_(what in ("double queries", "shift queries")),
        what not in ("double queries, halve keys", "shift keys"),
    ]
)
wrong("11.4", "neither can change it")(lambda what: (True, True))
wrong("11.4", "Somewhere you have a new map with the old output")(lambda what: (True, False))
wrong("11.4", "multiply out")(lambda what: (True, True) if what == "shift keys" else CHANGES[what])
wrong("11.4", "multiply out")(lambda what: (True, True) if "halve" in what else CHANGES[what])
wrong("11.4", "what is the same along a row?")(lambda what: (False, False) if "shift" in what else CHANGES[what])
wrong("11.4", "5 of 6 predictions agree with the layer. Ask of each")(
    lambda what: (False, False) if "values" in what else CHANGES[what]
)
wrong("11.4", "a pair (map, output)")(lambda what: True)
wrong("11.4", "Expected True or False")(lambda what: ("yes", "no"))


def test_the_predictions_are_what_a_layer_does():
    torch.manual_seed(0)
    layer, x, s = MultiHeadAttention(12, 3), torch.randn(2, 7, 12), torch.randn(12)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.5)

    def changed(change):
        other = copy.deepcopy(layer)
        parts = [[p[12 * n : 12 * n + 12] for p in (other.qkv.weight.data, other.qkv.bias.data)] for n in range(3)]
        change(other, *parts)
        with torch.no_grad(), record_attention(nn.ModuleList([layer, other])) as maps:
            outs = layer(x), other(x)
        return tuple(not torch.allclose(a, b, atol=1e-4) for a, b in (maps, outs))

    def times(parts, factor):
        for part in parts:
            part *= factor

    def swap_heads(layer, *_):
        layer.proj.weight.data = layer.proj.weight.data[:, [4, 5, 6, 7, 0, 1, 2, 3, 8, 9, 10, 11]]

    measured = {
        "double queries": changed(lambda layer, q, k, v: times(q, 2)),
        "double queries, halve keys": changed(lambda layer, q, k, v: (times(q, 2), times(k, 0.5))),
        "double values": changed(lambda layer, q, k, v: times(v, 2)),
        "shift keys": changed(lambda layer, q, k, v: k[1].add_(s)),
        "shift queries": changed(lambda layer, q, k, v: q[1].add_(s)),
        "swap two heads in proj": changed(swap_heads),
    }
    assert measured == CHANGES


# 11.5 ------------------------------------------------------------------------------------------------------


@right("11.5")
def by_a_mask(tokens, order, k):
    B, T, D = tokens.shape
    stay = torch.ones(B, T, dtype=torch.bool).scatter(1, 1 + order[:, :k], False)
    return tokens[stay].view(B, T - k, D)


@right("11.5")
def by_gathering(tokens, order, k):
    left = 1 + order[:, k:].sort(dim=1).values
    patches = tokens.gather(1, left[:, :, None].expand(-1, -1, tokens.shape[2]))
    return torch.cat([tokens[:, :1], patches], dim=1)


@right("11.5")
def image_by_image(tokens, order, k):
    gone = [{1 + n for n in row[:k].tolist()} for row in order]
    return torch.stack([x[[n for n in range(len(x)) if n not in out]] for x, out in zip(tokens, gone, strict=True)])


wrong("11.5", "replace the tokens by zeros")(
    lambda tokens, order, k: (
        tokens * ~torch.zeros(tokens.shape[:2], dtype=bool).scatter(1, 1 + order[:, :k], True)[..., None]
    )
)
wrong("11.5", "cls and the 2 patches that should go")(
    lambda tokens, order, k: torch.cat([tokens[:, :1], tokens[torch.arange(len(order))[:, None], 1 + order[:, :k]]], 1)
)
wrong("11.5", "You return one token too few: you take a patch too many out.")(
    lambda tokens, order, k: by_gathering(tokens, order, k + 1) if k < order.shape[1] else tokens[:, :0]
)
wrong("11.5", "You return one token too many: of 2 patches to go, one is left.")(
    lambda tokens, order, k: by_gathering(tokens, order, max(k - 1, 0))
)
wrong("11.5", "is cls still there?")(lambda tokens, order, k: by_gathering(tokens, order, k)[:, 1:])
wrong("11.5", "Every image loses the patches of the first image")(
    lambda tokens, order, k: tokens[:, [0, *(1 + order[0, k:].sort().values).tolist()]]
)
wrong("11.5", "in the order of the map")(
    lambda tokens, order, k: torch.cat([tokens[:, :1], tokens[torch.arange(len(order))[:, None], 1 + order[:, k:]]], 1)
)
wrong("11.5", "in their old order")(lambda tokens, order, k: tokens[:, : tokens.shape[1] - k])
wrong("11.5", "Expected a tensor of shape (3, 8, 4), got (3, 10, 4)")(lambda tokens, order, k: tokens)


# ----------------------------------------------------------------------------------------------------------


def test_the_untouched_prediction_is_not_done_yet():
    assert verdict("11.4", lambda what: dict.fromkeys(CHANGES, ...)[what]) == (False, "11.4: not done yet.")
    assert verdict("11.4", lambda what: (..., ...)) == (False, "11.4: not done yet.")


def test_right_rollouts_are_right_and_wrong_ones_are_not():
    maps = some_maps()
    for function in ROLLOUTS.values():
        torch.testing.assert_close(function(maps), rollout(maps))
    for symptom, function in faults.of(rollout).items():
        assert function(maps).shape == (2, 5, 5), symptom
        assert (function(maps) - rollout(maps)).abs().max() > 1e-3, symptom

"""The checks of chapter 11: right answers however written, wrong ones named, predictions measured.

They join the tables of test_checks.py. With their verdicts: pytest tests/test_checks_11.py -k table -s
"""

import copy
from functools import reduce

import numpy as np
import torch
from answers import right, verdict, wrong
from torch import nn
from torch.nn import functional as F

from vitnb import MultiHeadAttention, clinic, record_attention
from vitnb.checks.chapter_11 import CHANGES, ROLLOUTS
from vitnb.inspection import attention_distance, rollout

# 11.1 ------------------------------------------------------------------------------------------------------


@right("11.1")
def backwards(heard, token):
    for layer in heard[::-1]:
        token = layer[token]
    return token


@right("11.1")
def by_matrices(heard, token):
    T = len(heard[0])
    return reduce(lambda total, layer: torch.eye(T)[layer] @ total, heard, torch.eye(T))[token].argmax()


@right("11.1")
def by_recursion(heard, token):
    return token if not heard else by_recursion(heard[:-1], heard[-1][token])


wrong("11.1", "Follow it with a finger")(lambda heard, token: -1)
wrong("11.1", "a number is wanted")(lambda heard, token: [backwards(heard, token)])
wrong("11.1", "you say")(lambda heard, token: heard[0][token])


@wrong("11.1", "changes what it is given")
def pops(heard, token):
    while heard:
        token = heard.pop()[token]
    return token


# 11.2 ------------------------------------------------------------------------------------------------------


def apart(rows, cols):
    places = torch.cartesian_prod(torch.arange(rows), torch.arange(cols)).float()
    return torch.cdist(places, places)


@right("11.2")
def mixed(rows, cols, distance):
    share = distance / apart(rows, cols).mean()
    return share / (rows * cols) + (1 - share) * torch.eye(rows * cols)


@right("11.2")
def by_the_package(rows, cols, distance):
    N = rows * cols
    even = torch.full((1, 1, N, N), 1 / N)
    share = distance / attention_distance([even], (rows, cols), 0).item()
    return torch.lerp(torch.eye(N), even[0, 0], share)


@right("11.2")
def row_by_row(rows, cols, distance):
    far, N = apart(rows, cols), rows * cols
    A = torch.zeros(N, N)
    for n in range(N):
        share = distance * N * N / far.sum()
        A[n] = share / N
        A[n, n] += 1 - share
    return A


@right("11.2")
def to_the_far_end(rows, cols, distance):
    far, N = apart(rows, cols), rows * cols
    A = torch.eye(N)[far.argmax(dim=1)].double()
    share = distance / (A * far).sum(1).mean()
    return share * A + (1 - share) * torch.eye(N)


@right("11.2")
def by_bisection(rows, cols, distance):
    far, low, high = apart(rows, cols).double(), 0.0, 60.0
    for _ in range(60):
        A = (-(low + high) / 2 * far).softmax(-1)
        low, high = (((low + high) / 2), high) if (A * far).sum(1).mean() > distance else (low, (low + high) / 2)
    return A


@wrong("11.2", "It is not the same on every grid")
def divides_by_n_once(rows, cols, distance):
    N = rows * cols
    share = distance * N / apart(rows, cols).sum()
    return share / N + (1 - share) * torch.eye(N)


@wrong("11.2", "along rows and columns")
def walks(rows, cols, distance):
    places, N = torch.cartesian_prod(torch.arange(rows), torch.arange(cols)).float(), rows * cols
    share = distance / torch.cdist(places, places, p=1).mean()
    return share / N + (1 - share) * torch.eye(N)


@wrong("11.2", "with rows and columns exchanged")
def exchanged(rows, cols, distance):
    places = torch.cartesian_prod(torch.arange(cols), torch.arange(rows)).float()
    A = torch.eye(rows * cols)[torch.cdist(places, places).argmax(dim=1)]
    share = distance / (A * torch.cdist(places, places)).sum(1).mean()
    return share * A + (1 - share) * torch.eye(rows * cols)


wrong("11.2", "a torch tensor is wanted")(lambda rows, cols, distance: mixed(rows, cols, distance).numpy())
wrong("11.2", "It is not the same on every grid")(
    lambda rows, cols, distance: (
        (s := min(distance / 2.01, 1)) / (rows * cols) + (1 - s) * torch.eye(rows * cols)  # fmt: skip
    )
)
wrong("11.2", "It hears all alike")(lambda rows, cols, distance: torch.full((rows * cols,) * 2, 1 / (rows * cols)))
wrong("11.2", "It looks only at itself")(lambda rows, cols, distance: torch.eye(rows * cols))
wrong("11.2", "your rows sum to 0.00 up to 0.00")(lambda rows, cols, distance: torch.zeros(rows * cols, rows * cols))
wrong("11.2", "your rows sum to")(lambda rows, cols, distance: mixed(rows, cols, distance) * 2)
wrong("11.2", "Your columns do.")(
    lambda rows, cols, distance: torch.rand(rows * cols, rows * cols).softmax(0)  # fmt: skip
)
wrong("11.2", "has shape (17, 17)")(lambda rows, cols, distance: mixed(1, rows * cols + 1, distance))
wrong("11.2", "a softmax gives none below 0")(
    lambda rows, cols, distance: 2 * torch.eye(rows * cols) - torch.eye(rows * cols).roll(1, 0)
)
wrong("11.2", "It is not the same on every grid")(
    lambda rows, cols, distance: torch.eye(rows * cols)[torch.arange(rows * cols).sub(1).clamp(min=0)]
)


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
wrong("11.3", "is wanted")(lambda layer, x: maps_of(layer, x)[0])


# 11.4 ------------------------------------------------------------------------------------------------------

right("11.4")(lambda what: CHANGES[what])
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
wrong("11.4", "True or False is wanted")(lambda what: ("yes", "no"))


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


def some_maps(B=2, h=3, T=5, layers=3):
    return [torch.randn(B, h, T, T).softmax(-1) for _ in range(layers)]


@right("11.5")
def runs_the_network(function):
    maps = some_maps()
    tokens = x = torch.randn(2, 5, 4)
    for weights in maps:
        x = 0.5 * (x + weights.mean(1) @ x)
    return torch.allclose(function(maps) @ tokens, x, atol=1e-4)


@right("11.5")
def compares(function):
    maps = some_maps(B=3, h=2, T=7, layers=4)
    return function(maps).sub(rollout(maps)).abs().max() < 1e-5


@right("11.5")
def with_one_layer_and_with_more(function):
    return all(torch.allclose(function(m := some_maps(layers=L)), rollout(m), atol=1e-4) for L in (1, 3))


wrong(
    "11.5", "lets 10 of 10 wrong ones through, for example a rollout that leaves the residual path out. Does it look"
)(lambda function: function(some_maps()).shape == (2, 5, 5))
wrong("11.5", "rejects 4 of 4 right ones and lets 0")(lambda function: False)
wrong("11.5", "a rollout that leaves the residual path out")(
    lambda function: bool(torch.allclose(function(some_maps()).sum(-1), torch.ones(2, 5)))
)
wrong("11.5", "for example a rollout that leaves the residual path out")(
    lambda function: torch.allclose(function([torch.eye(5).expand(2, 3, 5, 5)] * 3), torch.eye(5).expand(2, 5, 5))
)
wrong("11.5", "a rollout that multiplies in the wrong order")(
    lambda f: torch.allclose(f(m := some_maps(layers=1) * 3), rollout(m), atol=1e-4)
)
wrong("11.5", "a rollout that uses the first head alone")(
    lambda f: torch.allclose(f(m := some_maps(h=1)), rollout(m), atol=1e-4)
)
wrong("11.5", "a rollout that mixes the images of a batch")(
    lambda f: torch.allclose(f(m := some_maps(B=1)), rollout(m), atol=1e-4)
)
wrong("11.5", "allow for rounding")(lambda f: torch.equal(f(m := some_maps(layers=6)), rollout(m)))
wrong("11.5", "True or False is wanted")(lambda function: "yes")
wrong("11.5", "raises TypeError")(lambda function: function(torch.eye(3), torch.eye(3)))


# ----------------------------------------------------------------------------------------------------------


def test_the_untouched_prediction_is_not_done_yet():
    assert verdict("11.4", lambda what: dict.fromkeys(CHANGES, ...)[what]) == (False, "11.4: not done yet.")
    assert verdict("11.4", lambda what: (..., ...)) == (False, "11.4: not done yet.")


def test_right_rollouts_are_right_and_wrong_ones_are_not():
    maps = some_maps()
    for function in ROLLOUTS.values():
        torch.testing.assert_close(function(maps), rollout(maps))
    for symptom, function in clinic.of(rollout).items():
        assert function(maps).shape == (2, 5, 5), symptom
        assert (function(maps) - rollout(maps)).abs().max() > 1e-3, symptom

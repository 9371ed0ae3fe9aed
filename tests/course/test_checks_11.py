"""The checks of chapter 11: right answers however written, wrong ones named, predictions measured."""

import copy
from functools import partial

import numpy as np
import torch
from torch import nn

from tests.course.answers import RIGHT, WRONG, right, solution
from vitbook.exercises.chapter_11 import CHANGES
from vitnb import MultiHeadAttention, record_attention
from vitnb.inspection import rollout

# 11.1 ------------------------------------------------------------------------------------------------------

RIGHT["11.1"] += [lambda attended, token: torch.tensor(solution("11.1")(attended, token))]
WRONG["11.1"] |= {"Follow it with a finger": lambda attended, token: -1}

# 11.2 ------------------------------------------------------------------------------------------------------


def some_maps(B=2, h=3, T=5, layers=3):
    return [torch.randn(B, h, T, T).softmax(-1) for _ in range(layers)]


@right("11.2")
def with_one_layer_and_with_more(function):
    return all(torch.allclose(function(m := some_maps(layers=L)), rollout(m), atol=1e-4) for L in (1, 3))


near = partial(torch.allclose, atol=1e-4)


def on(maps, same=near):
    """A test that compares with the package on maps of one kind."""
    return lambda function: bool(same(function(m := maps()), rollout(m)))


WRONG["11.2"] |= {
    "lets 10 of 10 wrong ones through, for example a rollout that leaves the residual path out. Does it look": (
        lambda function: function(some_maps()).shape == (2, 5, 5)
    ),
    "for example a rollout that leaves the residual path out": on(lambda: [torch.eye(5).expand(2, 3, 5, 5)] * 3),
    "a rollout that multiplies in the wrong order": on(lambda: some_maps(layers=1) * 3),
    "a rollout that uses the first head alone": on(lambda: some_maps(h=1)),
    "a rollout that mixes the images of a batch": on(lambda: some_maps(B=1)),
    "allow for rounding": on(lambda: some_maps(layers=6), torch.equal),
}


# 11.3 ------------------------------------------------------------------------------------------------------

RIGHT["11.3"] += [lambda layer, x: layer(x, x, x, need_weights=True, average_attn_weights=False)[1]]
WRONG["11.3"] |= {
    "though their rows sum to 1": lambda *case: solution("11.3")(*case).roll(1, -1),
    "The rows of your maps do not sum to 1": lambda *case: solution("11.3")(*case) / 2,
    "a tuple of 2": lambda layer, x: layer(x, x, x, average_attn_weights=False),
}

# 11.4 ------------------------------------------------------------------------------------------------------

RIGHT["11.4"] += [lambda what: list(map(np.bool_, CHANGES[what]))]
WRONG["11.4"] |= {
    "neither can change it": lambda what: (True, True),
    "Somewhere you have a new map with the old output": lambda what: (True, False),
    "5 of 6 predictions agree with the layer. One change of the keys at least": (
        lambda what: (True, True) if what == "shift keys" else CHANGES[what]
    ),
    "never reaches the map: multiply out": lambda what: (True, True) if "halve" in what else CHANGES[what],
    "what is the same along a row?": lambda what: (False, False) if "shift" in what else CHANGES[what],
    "5 of 6 predictions agree with the layer. Ask": lambda what: (False, False) if "values" in what else CHANGES[what],
    "a pair (map, output)": lambda what: True,
    "Expected True or False": lambda what: ("yes", "no"),
}


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


def gathered(tokens, order):
    """The cls token and these patches of each image."""
    places = torch.cat([torch.zeros(len(order), 1, dtype=torch.long), 1 + order], dim=1)
    return tokens.gather(1, places[..., None].expand(-1, -1, tokens.shape[2]))


def zeroed(tokens, order, k):
    kept = torch.ones(tokens.shape[:2]).scatter(1, 1 + order[:, :k], 0)
    return tokens * kept[..., None]


WRONG["11.5"] |= {
    "replace the tokens by zeros": zeroed,
    "cls and the 2 patches that should go": lambda tokens, order, k: gathered(tokens, order[:, :k]),
    "You return cls and the 2 patches": lambda tokens, order, k: gathered(tokens, order[:, :k].sort(dim=1).values),
    "You return one token too few: you take a patch too many out.": (
        lambda tokens, order, k: solution("11.5")(tokens, order, k + 1) if k < order.shape[1] else tokens[:, :0]
    ),
    "one token too many: of 2 patches to go, one is left.": (
        lambda tokens, order, k: solution("11.5")(tokens, order, max(k - 1, 0))
    ),
    "is cls still there?": lambda *case: solution("11.5")(*case)[:, 1:],
    "in their old order": lambda tokens, order, k: tokens[:, : tokens.shape[1] - k],
}

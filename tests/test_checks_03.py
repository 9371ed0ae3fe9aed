"""The exercises of chapter 3: right answers however they are written, and wrong ones that people write.

They join the tables of test_checks.py, whose tests (hostile answers, skeletons, hints) run on them, too.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from answers import RIGHT, right, wrong
from torch import nn
from torch.nn import functional as F

from vitnb import MultiHeadAttention, SinCosPositions, record_attention
from vitnb.checks import chapter_03

# 3.1 ------------------------------------------------------------------------------------------------------

right("3.1")(F.scaled_dot_product_attention)
right("3.1")(lambda q, k, v: (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1) @ v)


@right("3.1")
def by_einsum(q, k, v):
    powers = torch.einsum("bhid,bhjd->bhij", q, k).mul(q.size(3) ** -0.5).exp()
    return torch.einsum("bhij,bhjd->bhid", powers, v) / powers.sum(-1, keepdim=True)


@right("3.1")
def by_loop(q, k, v):
    out = torch.zeros_like(q)
    for i in range(q.shape[2]):
        weights = ((q[:, :, i : i + 1] * k).sum(-1) / q.shape[-1] ** 0.5).softmax(-1)  # (B, h, T)
        out[:, :, i] = (weights[..., None] * v).sum(2)
    return out


wrong("3.1", "has shape (2, 3, 5, 5)")(lambda q, k, v: (q @ k.mT / q.shape[3] ** 0.5).softmax(-1))
wrong("3.1", "are they all 1?")(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
wrong("3.1", "raises RuntimeError")(lambda q, k, v: (q @ k).softmax(-1) @ v)

# 3.2 ------------------------------------------------------------------------------------------------------


@right("3.2")
def by_splitting(layer, x):
    with record_attention(layer) as maps:
        layer(x)
    v = layer.qkv(x).chunk(3, dim=-1)[2]
    d = layer.head_dim
    parts = [
        maps[0][:, s] @ v[..., s * d : s * d + d] @ layer.proj.weight[:, s * d : s * d + d].T
        for s in range(layer.num_heads)
    ]
    return torch.stack(parts, dim=1)


@right("3.2")
@torch.no_grad()
def by_silence(layer, x):
    """Let all heads but one be silent, and take off the bias."""
    weight, d, parts = layer.proj.weight.clone(), layer.head_dim, []
    for s in range(layer.num_heads):
        layer.proj.weight.zero_()
        layer.proj.weight[:, s * d : s * d + d] = weight[:, s * d : s * d + d]
        parts.append(layer(x) - layer.proj.bias)
    layer.proj.weight.copy_(weight)
    return torch.stack(parts, dim=1)


def split(x, h):
    return x.unflatten(-1, (h, -1)).transpose(1, 2)


def bring_home(layer, x, mix=F.scaled_dot_product_attention, cut=split):
    q, k, v = (cut(part, layer.num_heads) for part in layer.qkv(x).chunk(3, -1))
    return mix(q, k, v) @ layer.proj.weight.T.unflatten(0, (layer.num_heads, -1))


right("3.2")(bring_home)
wrong("3.2", "has shape")(lambda layer, x: layer(x))
wrong("3.2", "the single ones are not those of the heads")(
    lambda layer, x: ((layer(x) - layer.proj.bias) / layer.num_heads)[:, None].expand(-1, layer.num_heads, -1, -1)
)
wrong("3.2", "one tensor (B, h, T, D) is wanted")(lambda layer, x: list(bring_home(layer, x).unbind(1)))


wrong("3.2", "splits its heads with view alone")(
    lambda layer, x: bring_home(layer, x, cut=lambda t, h: t.reshape(len(t), h, t.shape[1], -1))
)
wrong("3.2", "does not divide the scores")(
    lambda layer, x: bring_home(layer, x, mix=lambda q, k, v: (q @ k.mT).softmax(-1) @ v)
)
wrong("3.2", "runs its softmax over the queries")(
    lambda layer, x: bring_home(layer, x, mix=lambda q, k, v: (q @ k.mT / q.shape[-1] ** 0.5).softmax(2) @ v)
)
wrong("3.2", "Are the heads right before layer.proj?")(lambda layer, x: bring_home(layer, x, mix=lambda q, k, v: k))


# 3.3 ------------------------------------------------------------------------------------------------------


def rotation(k, D, base=10_000):
    speeds = base ** (-torch.arange(D // 2) / (D // 2))
    c, s = (k * speeds).cos().diag(), (k * speeds).sin().diag()
    return torch.cat([torch.cat([c, -s], 1), torch.cat([s, c], 1)])


right("3.3")(lambda D, down, right: torch.block_diag(rotation(down, D // 2), rotation(right, D // 2)))
right("3.3")(lambda D, down, right: 7 * torch.block_diag(rotation(down, D // 2), rotation(right, D // 2)))


@right("3.3")
def by_least_squares(D, down, right):
    """Solve places @ W = the places so far away, on a large grid."""
    places = SinCosPositions((24, 25), D).table[0].reshape(24, 25, D).double()
    here = places[4:20, 4:20].reshape(-1, D)
    there = places[4 + down : 20 + down, 4 + right : 20 + right].reshape(-1, D)
    return torch.linalg.lstsq(here, there, driver="gelsd").solution.float()


wrong("3.3", "looks the other way. Is a matrix transposed?")(
    lambda D, down, right: torch.block_diag(rotation(down, D // 2), rotation(right, D // 2)).T
)
wrong("3.3", "takes rows for columns")(
    lambda D, down, right: torch.block_diag(rotation(right, D // 2), rotation(down, D // 2))
)
wrong("3.3", "torch.float32 is wanted. Hint")(lambda D, down, right: rotation(right, D).double())
wrong("3.3", "looks at the place itself")(lambda D, down, right: torch.eye(D))
wrong("3.3", "finds that neighbour first at")(lambda D, down, right: rotation(right, D))
wrong("3.3", "(64, 64) is wanted")(lambda D, down, right: rotation(right, D // 2))
wrong("3.3", "finds that neighbour first at")(
    lambda D, down, right: (
        torch.block_diag(rotation(0, D // 2), rotation(-1, D // 2)) if (down, right) != (0, -1) else torch.zeros(D, D)
    )
)
wrong("3.3", "% of the places that have one")(
    lambda D, down, right: torch.block_diag(rotation(down, D // 2, 100), rotation(right, D // 2, 100))
)
wrong("3.3", "the scores are too small")(
    lambda D, down, right: 0.01 * torch.block_diag(rotation(down, D // 2), rotation(right, D // 2))
)
wrong("3.3", "wrong way left and right")(
    lambda D, down, right: (
        torch.block_diag(rotation(down, D // 2), rotation(-right, D // 2))
        if down * right
        else torch.block_diag(rotation(down, D // 2), rotation(right, D // 2))
    )
)

# 3.4 ------------------------------------------------------------------------------------------------------

right("3.4")(lambda T, weight: math.log(weight * (T - 1) / (1 - weight)))
right("3.4")(lambda T, weight: np.log(T - 1) - np.log(1 / weight - 1))


@right("3.4")
def by_bisection(T, weight):
    low, high = -20.0, 20.0
    for _ in range(60):
        lead = (low + high) / 2
        first = torch.tensor([lead] + [0.0] * (T - 1), dtype=torch.double).softmax(0)[0]
        low, high = (lead, high) if first < weight else (low, lead)
    return lead


wrong("3.4", "there are more")(lambda T, w: 0.0)
wrong("3.4", "too small")(lambda T, w: 0 if T == 2 else 1)
wrong("3.4", "too large")(lambda T, w: 8 if T > 2 else 0)
wrong("3.4", "too large")(lambda T, w: 1e6)
wrong("3.4", "too small")(lambda T, w: -1e6)

# 3.5 ------------------------------------------------------------------------------------------------------


def moves(layer, D):
    """Who hears of a change of token 2 in picture 1: (B, T)."""
    x = torch.randn(3, 7, D)
    y = x.clone()
    y[1, 2] = torch.randn(D)
    return (layer(y) - layer(x)).abs().amax(-1) > 1e-4


def follows(layer, D):
    x, order = torch.randn(3, 7, D), torch.tensor([3, 1, 6, 0, 2, 5, 4])
    return torch.allclose(layer(x[:, order]), layer(x)[:, order], atol=1e-4)


@right("3.5")
def three_questions(layer, D):
    heard = moves(layer, D)
    return bool(heard[1].all() and not heard[0].any() and not heard[2].any()) and follows(layer, D)


@right("3.5")
@torch.no_grad()
def against_the_reference(layer, D):
    """Alone as in a batch, any order, and with two tokens each needs the other."""
    x = torch.randn(4, 6, D)
    out = layer(x)
    alone = torch.cat([layer(one[None]) for one in x])
    other = torch.cat([x[:, :-1], torch.randn(4, 1, D)], dim=1)
    first = torch.cat([torch.randn(4, 1, D), x[:, 1:]], dim=1)
    talk = ((layer(other) - out)[:, 0].abs().max() > 1e-4) & ((layer(first) - out)[:, -1].abs().max() > 1e-4)
    return torch.allclose(alone, out, atol=1e-4) and torch.allclose(layer(x.flip(1)).flip(1), out, atol=1e-4) and talk


wrong("3.5", "rejects 0 of 3 sound layers and lets 8 of 8 others through")(
    lambda layer, D: layer(torch.randn(2, 5, D)).shape == (2, 5, D)
)
wrong("3.5", "one that lets tokens of different images attend")(follows)
wrong("3.5", "one that merges its heads without the transpose")(
    lambda layer, D: bool((heard := moves(layer, D))[1].all() and not heard[0].any() and not heard[2].any())
)
wrong("3.5", "rejects 3 of 3 sound layers and lets 0 of 8")(lambda layer, D: False)
wrong("3.5", "leave room for that")(lambda layer, D: type(layer) is MultiHeadAttention or follows(layer, D) and D < 0)
wrong("3.5", "True or False is wanted")(lambda layer, D: moves(layer, D).float().mean().item())


@wrong("3.5", "(batch_first)")
def shuffles_the_batch(layer, D):
    """The test that sounds made for it."""
    x, order = torch.randn(4, 7, D), torch.tensor([2, 0, 3, 1])
    return torch.allclose(layer(x[order]), layer(x)[order], atol=1e-4)


@wrong("3.5", "(batch_first)")
def one_picture_alone(layer, D):
    """With one picture there is nothing to mix with."""
    x = torch.randn(1, 7, D)
    return layer(x).isfinite().all().item() and torch.allclose(layer(x.flip(1)).flip(1), layer(x), atol=1e-4)


@wrong("3.5", "ever say True?")
def exactly(layer, D):
    x = torch.randn(3, 7, D)
    wanted = nn.MultiheadAttention(D, 4, batch_first=True)
    return torch.equal(layer(x), wanted(x, x, x)[0])


# 3.6 ------------------------------------------------------------------------------------------------------

right("3.6")(lambda K: (torch.arange(K), 0.5 - torch.arange(K)))


@right("3.6")
def falls_and_rises(K):
    """The other way round, far apart and in an order of its own."""
    worth = torch.randperm(K).float() * 7
    return [-worth[:, None], worth[None] + 3]


@right("3.6")
def all_but_one_of_a_kind(K):
    """Gives up the pairs of the last kind, and is right on 75 % all the same."""
    f, g = torch.arange(K).float(), 0.5 - torch.arange(K)
    f[-1] = -1e6
    return f, g


wrong("3.6", "always add up to 0")(lambda K: (torch.arange(K), -torch.arange(K)))
wrong("3.6", "you call every pair different")(lambda K: (torch.zeros(K), torch.zeros(K)))
wrong("3.6", "you call every pair the same")(lambda K: (torch.ones(K), torch.ones(K)))
wrong("3.6", "It can be all of the first")(lambda K: (torch.arange(K), 1.5 - torch.arange(K)))
wrong("3.6", "0 % of those of one kind, 50 % of the others")(lambda K: (torch.arange(K), -0.5 - torch.arange(K)))
wrong("3.6", "For 3 kinds you are right on")(lambda K: (torch.arange(K), min(K, 10) / 20 * (K > 9) - torch.arange(K)))
wrong("3.6", "has shape (10, 10)")(lambda K: (10 * torch.eye(K), torch.zeros(K)))
wrong("3.6", "the pair (f, g) is wanted")(lambda K: torch.arange(K)[:, None] + 0.5 - torch.arange(K))
wrong("3.6", "a torch tensor is wanted")(lambda K: (list(range(K)), [0.5 - k for k in range(K)]))


# ----------------------------------------------------------------------------------------------------------


def test_the_right_layers_of_35_stand_the_three_questions():
    for kind in (MultiHeadAttention, chapter_03._Torchs, chapter_03._Stepwise):
        assert three_questions(chapter_03._layer(kind, 24, 4), 24)


def test_the_chapters_rotation_moves_the_packages_positions():
    places = SinCosPositions((5, 6), 32).table[0].reshape(5, 6, 32)
    W = RIGHT["3.3"][0](32, 2, -1)
    torch.testing.assert_close((places @ W)[:3, 1:], places[2:, :-1], atol=1e-5, rtol=0)


@pytest.mark.parametrize("K", [2, 3, 4])
def test_no_sum_of_two_opinions_is_right_on_more_than_three_of_four_pairs(K):
    """f[a] + g[b] > 0 asks which of f[a] and -g[b] is larger: all orders of these 2 K numbers are all sums."""
    ranks = torch.tensor(list(itertools.permutations(range(2 * K))))
    says_same = ranks[:, :K, None] > ranks[:, None, K:]  # (orders, K, K)
    own = torch.eye(K).bool()
    right = says_same[:, own].double().mean(1) + (~says_same)[:, ~own].double().mean(1)
    assert right.max() / 2 == pytest.approx(0.75)


def test_every_sum_of_two_opinions_has_a_larger_loss_than_a_coin():
    coin = math.log(2)
    assert chapter_03._pair_loss(torch.zeros(10, 10)) == pytest.approx(coin)
    for size in (1e-2, 0.1, 1, 10):
        for f, g in (RIGHT["3.6"][0](10), torch.randn(2, 10), torch.randn(2, 10)):
            sums = size * (f[:, None] + g)
            assert chapter_03._pair_loss(sums) > coin
    # A product has no such limit.
    assert chapter_03._pair_loss(20 * torch.eye(10) @ (torch.eye(10) - 0.5)) < 1e-3


def test_the_division_makes_a_row_flatter_in_the_products_and_keeps_it_from_saturating():
    """The slope of a weight in q . k is a (1 - a) / sqrt(d): the factor is the chain rule's."""
    d = 64
    torch.manual_seed(0)
    q, k = torch.randn(2, 50, d, dtype=torch.double)
    products = (q @ k.T).requires_grad_()  # (T, T)
    steep = {}
    for divisor in (1, d**0.5):
        a = (products / divisor).softmax(-1)
        slopes = torch.stack([torch.autograd.grad(a[0, j], products, retain_graph=True)[0][0, j] for j in range(50)])
        torch.testing.assert_close(slopes, a[0] * (1 - a[0]) / divisor)
        steep[divisor] = (a * (1 - a)).sum(-1).mean() / divisor
        saturated = a.amax(-1) > 0.95
        assert saturated.any() == (divisor == 1)
        assert ((a * (1 - a)).sum(-1)[saturated] < 0.1).all()
    assert steep[1] > steep[d**0.5]

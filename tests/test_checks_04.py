"""The exercises of chapter 4: right answers however they are written, and wrong ones that people write.

They join the tables of test_checks.py, whose tests (hostile answers, skeletons, hints) run on them, too.
"""

import torch
from answers import RIGHT, right, wrong
from torch import nn
from torch.nn import functional as F

from vitnb import MultiHeadAttention, SinCosPositions, record_attention
from vitnb.checks import chapter_04

# 4.1 ------------------------------------------------------------------------------------------------------


@right("4.1")
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


@right("4.1")
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


right("4.1")(bring_home)
wrong("4.1", "has shape")(lambda layer, x: layer(x))
wrong("4.1", "the single ones are not those of the heads")(
    lambda layer, x: ((layer(x) - layer.proj.bias) / layer.num_heads)[:, None].expand(-1, layer.num_heads, -1, -1)
)
wrong("4.1", "one tensor (B, h, T, D) is wanted")(lambda layer, x: list(bring_home(layer, x).unbind(1)))


wrong("4.1", "splits its heads with view alone")(
    lambda layer, x: bring_home(layer, x, cut=lambda t, h: t.reshape(len(t), h, t.shape[1], -1))
)
wrong("4.1", "does not divide the scores")(
    lambda layer, x: bring_home(layer, x, mix=lambda q, k, v: (q @ k.mT).softmax(-1) @ v)
)
wrong("4.1", "runs its softmax over the queries")(
    lambda layer, x: bring_home(layer, x, mix=lambda q, k, v: (q @ k.mT / q.shape[-1] ** 0.5).softmax(2) @ v)
)
wrong("4.1", "Are the heads right before layer.proj?")(lambda layer, x: bring_home(layer, x, mix=lambda q, k, v: k))


# 4.2 ------------------------------------------------------------------------------------------------------


def rotation(k, D, base=10_000):
    speeds = base ** (-torch.arange(D // 2) / (D // 2))
    c, s = (k * speeds).cos().diag(), (k * speeds).sin().diag()
    return torch.cat([torch.cat([c, -s], 1), torch.cat([s, c], 1)])


right("4.2")(lambda D, down, right: torch.block_diag(rotation(down, D // 2), rotation(right, D // 2)))
right("4.2")(lambda D, down, right: 7 * torch.block_diag(rotation(down, D // 2), rotation(right, D // 2)))


@right("4.2")
def by_least_squares(D, down, right):
    """Solve places @ W = the places so far away, on a large grid."""
    places = SinCosPositions((24, 25), D).table[0].reshape(24, 25, D).double()
    here = places[4:20, 4:20].reshape(-1, D)
    there = places[4 + down : 20 + down, 4 + right : 20 + right].reshape(-1, D)
    return torch.linalg.lstsq(here, there, driver="gelsd").solution.float()


wrong("4.2", "looks the other way. Is a matrix transposed?")(
    lambda D, down, right: torch.block_diag(rotation(down, D // 2), rotation(right, D // 2)).T
)
wrong("4.2", "takes rows for columns")(
    lambda D, down, right: torch.block_diag(rotation(right, D // 2), rotation(down, D // 2))
)
wrong("4.2", "torch.float32 is wanted. Hint")(lambda D, down, right: rotation(right, D).double())
wrong("4.2", "looks at the place itself")(lambda D, down, right: torch.eye(D))
wrong("4.2", "finds that neighbour first at")(lambda D, down, right: rotation(right, D))
wrong("4.2", "(64, 64) is wanted")(lambda D, down, right: rotation(right, D // 2))
wrong("4.2", "finds that neighbour first at")(
    lambda D, down, right: (
        torch.block_diag(rotation(0, D // 2), rotation(-1, D // 2)) if (down, right) != (0, -1) else torch.zeros(D, D)
    )
)
wrong("4.2", "% of the places that have one")(
    lambda D, down, right: torch.block_diag(rotation(down, D // 2, 100), rotation(right, D // 2, 100))
)
wrong("4.2", "the scores are too small")(
    lambda D, down, right: 0.01 * torch.block_diag(rotation(down, D // 2), rotation(right, D // 2))
)
wrong("4.2", "wrong way left and right")(
    lambda D, down, right: (
        torch.block_diag(rotation(down, D // 2), rotation(-right, D // 2))
        if down * right
        else torch.block_diag(rotation(down, D // 2), rotation(right, D // 2))
    )
)

# 4.3 ------------------------------------------------------------------------------------------------------


def moves(layer, D):
    """Who hears of a change of token 2 in picture 1: (B, T)."""
    x = torch.randn(3, 7, D)
    y = x.clone()
    y[1, 2] = torch.randn(D)
    return (layer(y) - layer(x)).abs().amax(-1) > 1e-4


def follows(layer, D):
    x, order = torch.randn(3, 7, D), torch.tensor([3, 1, 6, 0, 2, 5, 4])
    return torch.allclose(layer(x[:, order]), layer(x)[:, order], atol=1e-4)


@right("4.3")
def three_questions(layer, D):
    heard = moves(layer, D)
    return bool(heard[1].all() and not heard[0].any() and not heard[2].any()) and follows(layer, D)


@right("4.3")
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


wrong("4.3", "rejects 0 of 3 sound layers and lets 8 of 8 others through")(
    lambda layer, D: layer(torch.randn(2, 5, D)).shape == (2, 5, D)
)
wrong("4.3", "one that lets tokens of different images attend")(follows)
wrong("4.3", "one that merges its heads without the transpose")(
    lambda layer, D: bool((heard := moves(layer, D))[1].all() and not heard[0].any() and not heard[2].any())
)
wrong("4.3", "rejects 3 of 3 sound layers and lets 0 of 8")(lambda layer, D: False)
wrong("4.3", "leave room for that")(lambda layer, D: type(layer) is MultiHeadAttention or follows(layer, D) and D < 0)
wrong("4.3", "True or False is wanted")(lambda layer, D: moves(layer, D).float().mean().item())


@wrong("4.3", "(batch_first)")
def shuffles_the_batch(layer, D):
    """The test that sounds made for it."""
    x, order = torch.randn(4, 7, D), torch.tensor([2, 0, 3, 1])
    return torch.allclose(layer(x[order]), layer(x)[order], atol=1e-4)


@wrong("4.3", "(batch_first)")
def one_picture_alone(layer, D):
    """With one picture there is nothing to mix with."""
    x = torch.randn(1, 7, D)
    return layer(x).isfinite().all().item() and torch.allclose(layer(x.flip(1)).flip(1), layer(x), atol=1e-4)


@wrong("4.3", "ever say True?")
def exactly(layer, D):
    x = torch.randn(3, 7, D)
    wanted = nn.MultiheadAttention(D, 4, batch_first=True)
    return torch.equal(layer(x), wanted(x, x, x)[0])


# ----------------------------------------------------------------------------------------------------------


def test_the_right_layers_of_43_stand_the_three_questions():
    for kind in (MultiHeadAttention, chapter_04._Torchs, chapter_04._Stepwise):
        assert three_questions(chapter_04._layer(kind, 24, 4), 24)


def test_the_chapters_rotation_moves_the_packages_positions():
    places = SinCosPositions((5, 6), 32).table[0].reshape(5, 6, 32)
    W = RIGHT["4.2"][0](32, 2, -1)
    torch.testing.assert_close((places @ W)[:3, 1:], places[2:, :-1], atol=1e-5, rtol=0)

"""The exercises of chapter 4: right answers however they are written, and wrong ones that people write.

They join the tables of test_checks.py, whose tests (hostile answers, skeletons, hints) run on them, too.
"""

import torch
from torch import nn
from torch.nn import functional as F

from tests.course.answers import right, solution, verdict, wrong
from vitbook.exercises import chapter_04
from vitnb import MultiHeadAttention, SinCosPositions, record_attention

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
def by_ablation(layer, x):
    """Ablate all heads but one, and subtract the bias."""
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
wrong("4.1", "Expected a tensor of shape (2, 3, 5, 12), got (2, 5, 12)")(lambda layer, x: layer(x))
wrong("4.1", "the single ones are not those of the heads")(
    lambda layer, x: ((layer(x) - layer.proj.bias) / layer.num_heads)[:, None].expand(-1, layer.num_heads, -1, -1)
)
wrong("4.1", "Expected one tensor (B, h, T, D), got a list of 3")(lambda layer, x: list(bring_home(layer, x).unbind(1)))


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


right("4.2")(lambda D, down, right: 7 * torch.block_diag(rotation(down, D // 2), rotation(right, D // 2)))


@right("4.2")
def by_least_squares(D, down, right):
    """Solve places @ W = the places so far away, on a large grid."""
    places = SinCosPositions((24, 25), D).table[0].reshape(24, 25, D).double()
    here = places[4:20, 4:20].reshape(-1, D)
    there = places[4 + down : 20 + down, 4 + right : 20 + right].reshape(-1, D)
    return torch.linalg.lstsq(here, there, driver="gelsd").solution.float()


wrong("4.2", "attends in the opposite direction. Is a matrix transposed?")(
    lambda D, down, right: torch.block_diag(rotation(down, D // 2), rotation(right, D // 2)).T
)
wrong("4.2", "exchanges rows and columns")(
    lambda D, down, right: torch.block_diag(rotation(right, D // 2), rotation(down, D // 2))
)
wrong("4.2", "Expected a tensor of type torch.float32, got torch.float64. Hint")(
    lambda D, down, right: rotation(right, D).double()
)
wrong("4.2", "attends to the token's own place")(lambda D, down, right: torch.eye(D))
wrong("4.2", "gives that place the highest score for")(lambda D, down, right: rotation(right, D))
wrong("4.2", "Expected a tensor of shape (64, 64), got (32, 32)")(lambda D, down, right: rotation(right, D // 2))
wrong("4.2", "gives that place the highest score for")(
    lambda D, down, right: (
        torch.block_diag(rotation(0, D // 2), rotation(-1, D // 2)) if (down, right) != (0, -1) else torch.zeros(D, D)
    )
)
wrong("4.2", "% of the tokens that have one")(
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


class Mine(nn.Module):
    """Its parts are what wrong answers change."""

    bias = True

    def __init__(self, dim, num_heads):
        super().__init__()
        self.h = num_heads
        self.query, self.key, self.value, self.proj = (nn.Linear(dim, dim, bias=self.bias) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (self.h, -1)).transpose(1, 2)

    def merge(self, x):
        return x.transpose(1, 2).flatten(2)

    def forward(self, x):
        q, k, v = (self.split(part(x)) for part in (self.query, self.key, self.value))
        return self.proj(self.merge(F.scaled_dot_product_attention(q, k, v)))


@right("4.3")
class ByLoop(Mine):
    """Head after head, image after image, without biases."""

    bias = False

    def forward(self, x):
        out = []
        for one in x:
            parts = zip(*(part(one).chunk(self.h, dim=-1) for part in (self.query, self.key, self.value)), strict=True)
            out.append(torch.cat([(q @ k.T / q.shape[-1] ** 0.5).softmax(1) @ v for q, k, v in parts], dim=1))
        return self.proj(torch.stack(out))


class SplitByReshape(Mine):
    def split(self, x):
        return x.reshape(len(x), self.h, x.shape[1], -1)


class MergedByReshape(Mine):
    def merge(self, x):
        return x.reshape(len(x), x.shape[2], -1)


class BothByReshape(SplitByReshape, MergedByReshape):
    """Two mistakes that undo each other in the shapes, and not in the numbers."""


class HeadsLeftApart(Mine):
    def merge(self, x):
        return x.transpose(1, 2).sum(2, keepdim=True).expand(-1, -1, self.h, -1).flatten(2)


class OneLinear(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)


class NarrowQueries(Mine):
    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        self.query = nn.Linear(dim, dim // num_heads)


class NotMerged(Mine):
    def forward(self, x):
        return self.split(super().forward(x))


class ByTorch(Mine):
    def forward(self, x):
        layer = nn.MultiheadAttention(x.shape[-1], self.h, batch_first=True)
        first = (self.query, self.key, self.value)
        layer.in_proj_weight = nn.Parameter(torch.cat([part.weight for part in first]))
        layer.in_proj_bias = nn.Parameter(torch.cat([part.bias for part in first]))
        layer.out_proj = self.proj
        return layer(x, x, x)[0]


class OneForTwo(Mine):
    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        self.key = self.query


right("4.3")(Mine)
wrong("4.3", "No gradient reaches your query")(ByTorch)
wrong("4.3", "Your query.weight and key.weight are one and the same parameter")(OneForTwo)
wrong("4.3", "splits its heads with view alone")(SplitByReshape)
wrong("4.3", "merges its heads without the transpose")(MergedByReshape)
wrong("4.3", "does each bring its own features back")(BothByReshape)
wrong("4.3", "Do all heads attend")(HeadsLeftApart)
wrong("4.3", "Expected a linear layer named query from 12 to 12 features: there is none")(OneLinear)
wrong("4.3", "Expected a linear layer named query from 12 to 12 features: yours goes from 12 to 4")(NarrowQueries)
wrong("4.3", "Expected a tensor of shape (2, 5, 12), got (2, 3, 5, 4)")(NotMerged)
wrong("4.3", "Expected an nn.Module")(lambda dim, num_heads: torch.zeros(dim))


def test_an_empty_class_is_not_done():
    class MyAttention(nn.Module):
        def __init__(self, dim, num_heads):
            super().__init__()

        def forward(self, x): ...

    assert verdict("4.3", MyAttention) == (False, "4.3: not done yet.")


def test_the_layer_that_43_compares_with_is_torchs():
    ours, torchs = chapter_04._four(MultiHeadAttention)(20, 5), nn.MultiheadAttention(20, 5, batch_first=True)
    first = [getattr(ours, name) for name in chapter_04.PARTS[:3]]
    torchs.in_proj_weight.data = torch.cat([part.weight for part in first])
    torchs.in_proj_bias.data = torch.cat([part.bias for part in first])
    torchs.out_proj.load_state_dict(ours.proj.state_dict())
    x = torch.randn(3, 7, 20)
    torch.testing.assert_close(ours(x), torchs(x, x, x)[0])


# ----------------------------------------------------------------------------------------------------------


def test_the_chapters_rotation_moves_the_packages_positions():
    places = SinCosPositions((5, 6), 32).table[0].reshape(5, 6, 32)
    W = solution("4.2")(32, 2, -1)
    torch.testing.assert_close((places @ W)[:3, 1:], places[2:, :-1], atol=1e-5, rtol=0)

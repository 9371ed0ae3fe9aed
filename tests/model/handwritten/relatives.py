"""Relatives of the ViT: designs that an examination must leave alone, and the slip that each of them invites.

RELATIVES = {name: (build, build with the slip or None, the code that names the slip)}
"""

import torch
from torch import nn
from torch.nn import functional as F

IMAGE, H, W, D, HEADS = (3, 24, 32), 6, 8, 32, 2
RELATIVES = {}


def relative(name, code=None):
    def add(kind):
        RELATIVES[name] = (kind, (lambda: kind(slip=True)) if code else None, code)
        return kind

    return add


class Attention(nn.Module):
    def __init__(self, slip=False):
        super().__init__()
        self.norm, self.slip = nn.LayerNorm(D), slip
        self.q, self.k, self.v, self.out = (nn.Linear(D, D) for _ in range(4))

    def split(self, x):
        return x.unflatten(-1, (HEADS, -1)).transpose(-3, -2)  # (..., T, D) -> (..., h, T, d)

    def turn(self, q, k):
        return q, k

    def weigh(self, q, k):
        return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1)

    def forward(self, x):
        x = self.norm(x)
        q, k = self.turn(self.split(self.q(x)), self.split(self.k(x)))
        return self.out((self.weigh(q, k) @ self.split(self.v(x))).transpose(-3, -2).flatten(-2))


class Mlp(nn.Sequential):
    def __init__(self, width=D):
        super().__init__(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))


class Small(nn.Module):
    """Patches, positions, two blocks of two branches, the mean of the tokens."""

    attention, positions = Attention, True

    def __init__(self, slip=False):
        super().__init__()
        self.patches, self.slip = nn.Conv2d(3, D, 4, 4), slip
        if self.positions:
            self.places = nn.Parameter(0.1 * torch.randn(1, H * W, D))
        self.blocks = nn.ModuleList(nn.ModuleList([self.attention(slip), Mlp()]) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, 10)

    def embed(self, x):
        x = self.patches(x).flatten(2).mT
        return x + self.places if self.positions else x

    def encode(self, x):
        for attention, mlp in self.blocks:
            x = x + attention(x)
            x = x + mlp(x)
        return x

    def read(self, x):
        return self.norm(x).mean(1)

    def forward(self, x):
        return self.head(self.read(self.encode(self.embed(x))))


def of(attention, **changes):
    """Small, with another attention."""
    return lambda slip=False: type("Other", (Small,), {"attention": attention} | changes)(slip)


# No plain ViTs ------------------------------------------------------------------------------------


@relative("latents read the patches, with one layer again and again")
class Latents(Small):
    def __init__(self, slip=False):
        super().__init__(slip)
        self.latents = nn.Parameter(torch.randn(1, 12, D))
        self.look, self.think = nn.MultiheadAttention(D, 2, batch_first=True), Mlp()

    def encode(self, x):
        z = self.latents.expand(len(x), -1, -1)
        for attention, mlp in self.blocks:
            z = z + self.look(z, x, x, need_weights=False)[0]
            z = z + self.think(z)
            z = z + attention(z)
            z = z + mlp(z)
        return z

    def read(self, x):
        return self.norm(x)[:, 0]


@relative("an MLP over the tokens before attention")
class Mixed(Small):
    def __init__(self, slip=False):
        super().__init__(slip)
        self.mix = Mlp(H * W)

    def embed(self, x):
        x = super().embed(x)
        return x + self.mix(x.mT).mT


@relative("two streams", "old skip")
class Streams(Small):
    def encode(self, x):
        a = b = x
        for attention, mlp in self.blocks:
            if self.slip:  # one stream, and the plus of attention is lost
                b = b + mlp(b + attention(b))
            else:
                a = a + attention(b)
                b = b + mlp(a)
        return b if self.slip else (a + b) / 2


@relative("residual convolutions before the tokens, and pooling by weights")
class Convolved(Small):
    def __init__(self, slip=False):
        super().__init__(slip)
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU())
        self.wide, self.patches = nn.Conv2d(16, 16, 7, 1, 3), nn.Conv2d(16, D, 7, 2, 3)
        self.score = nn.Linear(D, 1)

    def embed(self, x):
        x = self.stem(x)
        for _ in range(3):
            x = x + self.wide(x).relu()
        return super().embed(x)

    def read(self, x):
        x = self.norm(x)
        return (self.score(x).softmax(1) * x).sum(1)


@relative("norms in convolutions, and a stage without a skip")
class Staged(Small):
    def __init__(self, slip=False):
        super().__init__(slip)
        self.mix = nn.Sequential(nn.Conv2d(D, D, 3, 1, 1), nn.BatchNorm2d(D), nn.GELU(), nn.Conv2d(D, D, 1))
        self.down = nn.Sequential(nn.Conv2d(D, D, 2, 2), nn.BatchNorm2d(D))
        self.last = nn.ModuleList([Attention(), Mlp()])

    def encode(self, x):
        x = super().encode(x).mT.unflatten(2, (H, W))
        x = self.down(x + self.mix(x)).flatten(2).mT
        for layer in self.last:
            x = x + layer(x)
        return x


@relative("heads in cascade: each adds what the last one found to its share of the features")
class Cascaded(Small):
    def __init__(self, slip=False):
        super().__init__(slip)
        d = D // HEADS
        self.heads = nn.ModuleList(nn.Sequential(nn.Conv2d(d, 3 * d, 1), nn.BatchNorm2d(3 * d)) for _ in range(HEADS))
        self.out = nn.Sequential(nn.ReLU(), nn.Conv2d(D, D, 1), nn.BatchNorm2d(D))
        self.mlp = nn.Sequential(nn.Conv2d(D, 2 * D, 1), nn.BatchNorm2d(2 * D), nn.ReLU(), nn.Conv2d(2 * D, D, 1))

    def encode(self, x):
        x = x.mT.unflatten(2, (H, W))
        outs = []
        for head, part in zip(self.heads, x.chunk(HEADS, 1), strict=True):
            x_h = part + outs[-1] if outs else part
            q, k, v = head(x_h).flatten(2).chunk(3, 1)
            outs.append((v @ (k.mT @ q * q.shape[1] ** -0.5).softmax(1)).view_as(part))
        x = x + self.out(torch.cat(outs, 1))
        return (x + self.mlp(x)).flatten(2).mT


@relative("the cls token passes by the MLPs, the last of which reaches nothing")
class Bypassed(Small):
    def __init__(self, slip=False):
        super().__init__(slip)
        self.token = nn.Parameter(torch.randn(1, 1, D))

    def encode(self, x):
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1)
        for attention, mlp in self.blocks:
            x = x + attention(x)
            x = torch.cat([x[:, :1], x[:, 1:] + mlp(x[:, 1:])], 1)
        return x

    def read(self, x):
        return self.norm(x[:, 0])


# Attention of other kinds -------------------------------------------------------------------------


class OfFeatures(Attention):
    def weigh(self, q, k):
        return (q.mT @ k * q.shape[-2] ** -0.5).softmax(-1)

    def forward(self, x):
        x = self.norm(x)
        q, k, v = (self.split(layer(x)) for layer in (self.q, self.k, self.v))
        return self.out((v @ self.weigh(q, k).mT).transpose(-3, -2).flatten(-2))


class Linear(Attention):
    def forward(self, x):
        x = self.norm(x)
        q, k, v = (self.split(layer(x)) for layer in (self.q, self.k, self.v))
        q, k = F.elu(q) + 1, F.elu(k) + 1
        x = q @ (k.mT @ v) / (q @ k.sum(-2, keepdim=True).mT)
        return self.out(x.transpose(-3, -2).flatten(-2))


class Talking(Attention):
    def __init__(self, slip=False):
        super().__init__(slip)
        self.mix = nn.Linear(HEADS, HEADS, bias=False)

    def weigh(self, q, k):
        scores = q @ k.mT * q.shape[-1] ** -0.5
        return self.mix(scores.movedim(1, -1)).movedim(-1, 1).softmax(-1)


class ByMaps(Attention):
    """Queries, keys and values by convolutions of tokens turned into rows and columns (CvT)."""

    def __init__(self, slip=False):
        super().__init__(slip)
        self.q, self.k, self.v = (nn.Conv2d(D, D, 3, 1, 1) for _ in range(3))

    def forward(self, x):
        x = self.norm(x).mT.unflatten(2, (H, W))
        q, k, v = (self.split(layer(x).flatten(2).mT) for layer in (self.q, self.k, self.v))
        return self.out((self.weigh(q, k) @ v).transpose(-3, -2).flatten(-2))


class ByConv1d(Attention):
    def __init__(self, slip=False):
        super().__init__(slip)
        self.q, self.k, self.v = (nn.Conv1d(D, D, 1) for _ in range(3))

    def forward(self, x):
        x = self.norm(x).mT
        q, k, v = (self.split(layer(x).mT) for layer in (self.q, self.k, self.v))
        x = self.weigh(q, k) @ v  # (B, h, T, d)
        return self.out(x.reshape(len(x), H * W, D) if self.slip else x.transpose(1, 2).flatten(2))


class Differential(Attention):
    """The difference of two softmaxes weighs the values (Ye et al. 2024)."""

    def weigh(self, q, k):
        first, second = (Attention.weigh(self, *both) for both in zip(q.chunk(2, -1), k.chunk(2, -1), strict=True))
        return first - 0.3 * second


class Unit(Attention):
    def __init__(self, slip=False):
        super().__init__(slip)
        self.sharp = nn.Parameter(torch.full((HEADS, 1, 1), 3.0))

    def weigh(self, q, k):
        q, k = (F.normalize(x, dim=1 if self.slip else -1) for x in (q, k))  # over the heads: the slip
        return (self.sharp * q @ k.mT).softmax(-1)


class Rotary(Attention):
    def coordinates(self, place):
        return place // W, place % W

    def turn(self, q, k):
        speed = 10.0 ** -(torch.arange(4) / 4)
        angle = torch.cat([x * speed for x in self.coordinates(torch.arange(H * W)[:, None])], -1).to(q.device)
        angle = angle.repeat_interleave(2, -1) if self.slip else torch.cat([angle, angle], -1)

        def turned(x):
            a, b = x.chunk(2, -1)
            return x * angle.cos() + torch.cat([-b, a], -1) * angle.sin()

        return turned(q), turned(k)


class RowsTwice(Rotary):
    def coordinates(self, place):
        return place // W, place // W


class ByEinsum(Attention):
    def forward(self, x):
        x = self.norm(x)
        q, k, v = (layer(x).unflatten(-1, (HEADS, -1)) for layer in (self.q, self.k, self.v))  # (B, T, h, d)
        pairs, mix = ("bthd,btgd->bthg", "bthg,btgd->bthd") if self.slip else ("bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd")
        weights = (torch.einsum(pairs, q, k) * q.shape[-1] ** -0.5).softmax(-1)
        return self.out(torch.einsum(mix, weights, v).flatten(-2))


class Relative(Attention):
    def __init__(self, slip=False):
        super().__init__(slip)
        self.table = nn.Parameter(0.1 * torch.randn((2 * H - 1) * (2 * W - 1), HEADS))
        r, c = torch.arange(H * W) // W, torch.arange(H * W) % W
        index = (r[:, None] - r + H - 1) * (W if slip else 2 * W - 1) + c[:, None] - c + W - 1
        self.register_buffer("index", index)

    def weigh(self, q, k):
        return (q @ k.mT * q.shape[-1] ** -0.5 + self.table[self.index].permute(2, 0, 1)).softmax(-1)


class Axial(Attention):
    def __init__(self, slip=False):
        super().__init__(slip)
        self.column = Attention()

    def forward(self, x):
        x = x.unflatten(1, (H, W))
        rows = super().forward(x)
        columns = self.column(x) if self.slip else self.column(x.transpose(1, 2)).transpose(1, 2)
        return (rows + columns).flatten(1, 2)


class Windows(Attention):
    """Windows of 2 x 2 patches, which are shifted before, and back behind."""

    def forward(self, x):
        x = x.unflatten(1, (H, W)).roll((-1, -1), (1, 2))
        x = x.unflatten(2, (W // 2, 2)).unflatten(1, (H // 2, 2)).transpose(2, 3).flatten(3, 4)
        x = super().forward(x).unflatten(3, (2, 2)).transpose(2, 3).flatten(3, 4).flatten(1, 2)
        return x.roll((-1, -1) if self.slip else (1, 1), (1, 2)).flatten(1, 2)


RELATIVES |= {
    "attention of features": (of(OfFeatures), None, None),
    "linear attention": (of(Linear), None, None),
    "heads mixed before the softmax": (of(Talking), None, None),
    "projections by convolutions": (of(ByMaps), None, None),
    "projections by Conv1d": (of(ByConv1d), lambda: of(ByConv1d)(True), "heads merged"),
    "the difference of two softmaxes": (of(Differential), None, None),
    "products by einsum": (of(ByEinsum), lambda: of(ByEinsum)(True), "no mixing"),
    "rotary, and rows for columns": (of(Rotary, positions=False), of(RowsTwice, positions=False), "one coordinate"),
    "queries and keys of unit length": (of(Unit), lambda: of(Unit)(True), "norm axes"),
    "rotary positions": (of(Rotary, positions=False), lambda: of(Rotary, positions=False)(True), "offsets"),
    "relative positions": (of(Relative, positions=False), lambda: of(Relative, positions=False)(True), "offsets"),
    "rows and columns": (of(Axial), lambda: of(Axial)(True), "one axis"),
    "shifted windows": (of(Windows), lambda: of(Windows)(True), "heads merged"),
}


# Branches, read-out, training mode ----------------------------------------------------------------


@relative("a scale in each branch", "scaled skip")
class Scaled(Small):
    def __init__(self, slip=False):
        super().__init__(slip)
        self.gains = nn.ParameterList(torch.full((D,), 0.1) for _ in range(4))

    def encode(self, x):
        for layer, gain in zip([layer for block in self.blocks for layer in block], self.gains, strict=True):
            x = gain * x + layer(x) if self.slip else x + gain * layer(x)
        return x


@relative("two tokens with two classifiers", "same token")
class Distilled(Small):
    def __init__(self, slip=False):
        super().__init__(slip)
        self.tokens, self.other = nn.Parameter(torch.randn(1, 2, D)), nn.Linear(D, 10)

    def embed(self, x):
        return torch.cat([self.tokens.expand(len(x), -1, -1), super().embed(x)], 1)

    def forward(self, x):
        x = self.norm(self.encode(self.embed(x)))
        return (self.head(x[:, 0]) + self.other(x[:, 0 if self.slip else 1])) / 2


@relative("the mean of the tokens with two classifiers")
class Twice(Small):
    def __init__(self, slip=False):
        super().__init__(slip)
        self.other = nn.Linear(D, 10)

    def forward(self, x):
        x = self.read(self.encode(self.embed(x)))
        return (self.head(x) + self.other(x)) / 2


@relative("stochastic depth", "dropped")
class Deep(Small):
    def path(self, x):
        if not self.training:
            return x
        keep = torch.rand(len(x), 1, 1) + (0.1 if self.slip else 0.9)
        return x * keep.floor() / 0.9

    def encode(self, x):
        for block in self.blocks:
            for layer in block:
                x = x + self.path(layer(x))
        return x


@relative("dropout at the embedding, in the branches and before the classifier", "dropped skip")
class Dropped(Small):
    def encode(self, x):
        x = F.dropout(x, 0.5, self.training)
        for block in self.blocks:
            for layer in block:
                y = layer(x)
                x = F.dropout(x + y, 0.1, self.training) if self.slip else x + F.dropout(y, 0.5, self.training)
        return x

    def read(self, x):
        return F.dropout(super().read(x), 0.5, self.training)


@relative("noise while it is trained", "left over")
class Noisy(Small):
    noise = 0.0

    def embed(self, x):
        x = super().embed(x)
        noise = 0.1 * torch.randn(x.shape[1:]) if self.training else 0.0
        self.noise = noise if self.training or not self.slip else self.noise
        return x + self.noise


@relative("a norm over each image while it is trained", "other images")
class Whitened(Small):
    def embed(self, x):
        x = super().embed(x)
        return x - x.mean((0, 1) if self.slip else 1, keepdim=True) if self.training else x

"""Forty-four small vision transformers, written in forty-four hands.

RIGHT   = {name: (build, (C, H, W), num_classes)}
DEPARTS = {name: (build, (C, H, W), num_classes, what)}

Only torch is needed; the models that use einops are left out when it is missing.
"""
import math
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

try:
    import einops
    from einops import rearrange, repeat, reduce
    HAVE_EINOPS = True
except ImportError:
    HAVE_EINOPS = False

RIGHT = {}
DEPARTS = {}


# What several hands write alike: a pre-norm block around an attention, and all that stands around the blocks.
class PreNormBlock(nn.Module):
    def __init__(self, dim, attention, hidden, norm=nn.LayerNorm):
        super().__init__()
        self.norm1, self.attn = norm(dim), attention
        self.norm2, self.mlp = norm(dim), nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Framed(nn.Module):
    """Patches by a convolution, a cls token or the mean, learned positions, and a norm before the head."""

    def __init__(self, blocks, patches, patch, dim, num_classes, in_chans=3, cls=True, norm=nn.LayerNorm):
        super().__init__()
        self.patch = nn.Conv2d(in_chans, dim, patch, patch)
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * .02) if cls else None
        self.pos = nn.Parameter(torch.randn(1, patches + cls, dim) * .02)
        self.blocks = nn.Sequential(*blocks)
        self.norm = norm(dim)
        self.head = nn.Linear(dim, num_classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        if self.cls is not None:
            x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], 1)
        x = self.norm(self.blocks(x + self.pos))
        return self.head(x.mean(1) if self.cls is None else x[:, 0])


# 1. A student's homework. Everything spelled out.
class MyLayerNorm(nn.Module):
    # (x - mean) / sqrt(var + eps) * gain + bias
    def __init__(self, n):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(n))
        self.bias = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        mu = x.mean(dim=-1, keepdim=True)
        var = ((x - mu) ** 2).mean(dim=-1, keepdim=True)
        return self.gain * (x - mu) / torch.sqrt(var + 1e-5) + self.bias


class MySelfAttention(nn.Module):
    def __init__(self, D, n_heads):
        super().__init__()
        assert D % n_heads == 0
        self.n_heads = n_heads
        self.d = D // n_heads
        self.query = nn.Linear(D, D)
        self.key = nn.Linear(D, D)
        self.value = nn.Linear(D, D)
        self.out = nn.Linear(D, D)

    def forward(self, x):
        B, T, D = x.shape
        # B, T, D -> B, heads, T, d
        q = self.query(x).view(B, T, self.n_heads, self.d).transpose(1, 2)
        k = self.key(x).view(B, T, self.n_heads, self.d).transpose(1, 2)
        v = self.value(x).view(B, T, self.n_heads, self.d).transpose(1, 2)
        scores = q @ k.transpose(2, 3) / math.sqrt(self.d)
        probs = torch.softmax(scores, dim=-1)
        y = probs @ v
        y = y.transpose(1, 2).contiguous().view(B, T, D)
        return self.out(y)


class MyBlock(nn.Module):
    def __init__(self, D, n_heads):
        super().__init__()
        self.ln1 = MyLayerNorm(D)
        self.attn = MySelfAttention(D, n_heads)
        self.ln2 = MyLayerNorm(D)
        self.fc1 = nn.Linear(D, 4 * D)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(4 * D, D)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        x = x + self.fc2(self.act(self.fc1(self.ln2(x))))
        return x


class MyViT(nn.Module):
    def __init__(self):
        super().__init__()
        D = 48
        self.patch = nn.Conv2d(3, D, kernel_size=8, stride=8)
        self.cls = nn.Parameter(torch.randn(1, 1, D) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, 17, D) * 0.02)
        self.block1 = MyBlock(D, 4)
        self.block2 = MyBlock(D, 4)
        self.ln = MyLayerNorm(D)
        self.classifier = nn.Linear(D, 10)

    def forward(self, x):
        x = self.patch(x)            # B, 48, 4, 4
        x = x.flatten(2)             # B, 48, 16
        x = x.transpose(1, 2)        # B, 16, 48
        c = self.cls.expand(x.shape[0], -1, -1)
        x = torch.cat([c, x], dim=1)
        x = x + self.pos
        x = self.block1(x)
        x = self.block2(x)
        x = self.ln(x)
        return self.classifier(x[:, 0])


RIGHT["homework_spelled_out"] = (MyViT, (3, 32, 32), 10)


# 2. Lecture code: a head is a module, a patch is a loop iteration.
class OneHead(nn.Module):
    """A single attention head, mapping D features to `size` features."""

    def __init__(self, D, size):
        super().__init__()
        self.q = nn.Linear(D, size, bias=False)
        self.k = nn.Linear(D, size, bias=False)
        self.v = nn.Linear(D, size, bias=False)

    def forward(self, x):
        q, k, v = self.q(x), self.k(x), self.v(x)
        wei = q @ k.transpose(-2, -1) * k.shape[-1] ** -0.5
        wei = F.softmax(wei, dim=-1)
        return wei @ v


class ManyHeads(nn.Module):
    def __init__(self, D, n):
        super().__init__()
        self.heads = nn.ModuleList([OneHead(D, D // n) for _ in range(n)])
        self.mix = nn.Linear(D, D)

    def forward(self, x):
        return self.mix(torch.cat([h(x) for h in self.heads], dim=-1))


class LectureViT(nn.Module):
    side, p, D = 24, 6, 30

    def __init__(self):
        super().__init__()
        g = self.side // self.p
        self.embed = nn.Linear(3 * self.p * self.p, self.D)
        self.start = nn.Parameter(torch.zeros(self.D))
        self.where = nn.Embedding(g * g + 1, self.D)
        self.blocks = nn.Sequential(*[PreNormBlock(self.D, ManyHeads(self.D, 3), 4 * self.D) for _ in range(2)])
        self.final = nn.LayerNorm(self.D)
        self.head = nn.Linear(self.D, 7)

    def forward(self, img):
        B = img.size(0)
        pieces = [self.start.repeat(B, 1)]
        for top in range(0, self.side, self.p):
            for left in range(0, self.side, self.p):
                piece = img[:, :, top:top + self.p, left:left + self.p]
                pieces.append(self.embed(piece.reshape(B, -1)))
        tok = torch.stack(pieces, dim=1)
        tok = tok + self.where(torch.arange(tok.size(1), device=img.device))
        tok = self.final(self.blocks(tok))
        return self.head(tok[:, 0, :])


RIGHT["lecture_head_modules"] = (LectureViT, (3, 24, 24), 7)


# 3. Library style with a factory taking keyword arguments.
class DropPathA(nn.Module):
    def __init__(self, p: float = 0.0):
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if self.p == 0.0 or not self.training:
            return x
        keep = 1.0 - self.p
        shape = (x.shape[0],) + (1,) * (x.ndim - 1)
        gate = x.new_empty(shape).bernoulli_(keep)
        return x * gate / keep


class LayerScaleA(nn.Module):
    def __init__(self, dim, init=1e-1):
        super().__init__()
        self.gamma = nn.Parameter(init * torch.ones(dim))

    def forward(self, x):
        return x * self.gamma


class AttentionA(nn.Module):
    def __init__(self, dim, num_heads=8, qkv_bias=True, proj_drop=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = dim // num_heads
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.proj = nn.Linear(dim, dim)
        self.proj_drop = nn.Dropout(proj_drop)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        x = F.scaled_dot_product_attention(q, k, v)
        x = x.transpose(1, 2).reshape(B, N, C)
        return self.proj_drop(self.proj(x))


class MlpA(nn.Module):
    def __init__(self, in_features, hidden_features=None, out_features=None, act_layer=nn.GELU, drop=0.0):
        super().__init__()
        out_features = out_features or in_features
        hidden_features = hidden_features or in_features
        self.fc1 = nn.Linear(in_features, hidden_features)
        self.act = act_layer()
        self.drop1 = nn.Dropout(drop)
        self.fc2 = nn.Linear(hidden_features, out_features)
        self.drop2 = nn.Dropout(drop)

    def forward(self, x):
        return self.drop2(self.fc2(self.drop1(self.act(self.fc1(x)))))


class BlockA(nn.Module):
    def __init__(self, dim, num_heads, mlp_ratio=4.0, drop=0.0, drop_path=0.0, norm_layer=nn.LayerNorm):
        super().__init__()
        self.norm1 = norm_layer(dim)
        self.attn = AttentionA(dim, num_heads, proj_drop=drop)
        self.ls1 = LayerScaleA(dim)
        self.drop_path1 = DropPathA(drop_path)
        self.norm2 = norm_layer(dim)
        self.mlp = MlpA(dim, int(dim * mlp_ratio), drop=drop)
        self.ls2 = LayerScaleA(dim)
        self.drop_path2 = DropPathA(drop_path)

    def forward(self, x):
        x = x + self.drop_path1(self.ls1(self.attn(self.norm1(x))))
        x = x + self.drop_path2(self.ls2(self.mlp(self.norm2(x))))
        return x


class VisionTransformerA(nn.Module):
    def __init__(self, img_size=32, patch_size=8, in_chans=3, num_classes=100, embed_dim=64, depth=3,
                 num_heads=4, mlp_ratio=4.0, drop_rate=0.1, drop_path_rate=0.1):
        super().__init__()
        norm_layer = partial(nn.LayerNorm, eps=1e-6)
        self.num_classes = num_classes
        self.patch_embed = nn.Conv2d(in_chans, embed_dim, patch_size, patch_size)
        n = (img_size // patch_size) ** 2
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, n + 1, embed_dim))
        self.pos_drop = nn.Dropout(drop_rate)
        dpr = [r.item() for r in torch.linspace(0, drop_path_rate, depth)]
        self.blocks = nn.ModuleList(
            BlockA(embed_dim, num_heads, mlp_ratio, drop_rate, dpr[i], norm_layer) for i in range(depth))
        self.norm = norm_layer(embed_dim)
        self.head = nn.Linear(embed_dim, num_classes)
        nn.init.trunc_normal_(self.pos_embed, std=0.02)
        nn.init.trunc_normal_(self.cls_token, std=0.02)
        self.apply(self._init_weights)

    @staticmethod
    def _init_weights(m):
        if isinstance(m, nn.Linear):
            nn.init.trunc_normal_(m.weight, std=0.02)
            if m.bias is not None:
                nn.init.zeros_(m.bias)

    def forward_features(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.cls_token.expand(x.shape[0], -1, -1), x), dim=1)
        x = self.pos_drop(x + self.pos_embed)
        for blk in self.blocks:
            x = blk(x)
        return self.norm(x)

    def forward_head(self, x, pre_logits=False):
        x = x[:, 0]
        return x if pre_logits else self.head(x)

    def forward(self, x):
        return self.forward_head(self.forward_features(x))


RIGHT["library_kwargs"] = (VisionTransformerA, (3, 32, 32), 100)


# 4. einops everywhere, inner width different from the model width.
class EinAttention(nn.Module):
    def __init__(self, dim, heads, dim_head, dropout):
        super().__init__()
        inner = heads * dim_head
        self.h = heads
        self.scale = dim_head ** -0.5
        self.norm = nn.LayerNorm(dim)
        self.to_qkv = nn.Linear(dim, inner * 3, bias=False)
        self.to_out = nn.Sequential(nn.Linear(inner, dim), nn.Dropout(dropout))

    def forward(self, x):
        q, k, v = (rearrange(t, 'b n (h d) -> b h n d', h=self.h)
                   for t in self.to_qkv(self.norm(x)).chunk(3, dim=-1))
        attn = (torch.einsum('b h i d, b h j d -> b h i j', q, k) * self.scale).softmax(dim=-1)
        out = torch.einsum('b h i j, b h j d -> b h i d', attn, v)
        return self.to_out(rearrange(out, 'b h n d -> b n (h d)'))


def ein_feedforward(dim, hidden, dropout):
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, hidden), nn.GELU(), nn.Dropout(dropout),
                         nn.Linear(hidden, dim), nn.Dropout(dropout))


class EinViT(nn.Module):
    def __init__(self, *, image=28, patch=7, channels=3, num_classes=5, dim=40, depth=2, heads=4, dim_head=16,
                 mlp_dim=80, pool='cls', dropout=0.1):
        super().__init__()
        assert pool in {'cls', 'mean'}
        n = (image // patch) ** 2
        pd = channels * patch * patch
        self.patch = patch
        self.to_patch = nn.Sequential(nn.LayerNorm(pd), nn.Linear(pd, dim), nn.LayerNorm(dim))
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim))
        self.cls = nn.Parameter(torch.randn(dim))
        self.layers = nn.ModuleList([
            nn.ModuleList([EinAttention(dim, heads, dim_head, dropout), ein_feedforward(dim, mlp_dim, dropout)])
            for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.pool = pool
        self.head = nn.Linear(dim, num_classes)

    def forward(self, img):
        x = rearrange(img, 'b c (h p1) (w p2) -> b (h w) (p1 p2 c)', p1=self.patch, p2=self.patch)
        x = self.to_patch(x)
        x = torch.cat([repeat(self.cls, 'd -> b 1 d', b=x.shape[0]), x], dim=1)
        x = x + self.pos
        for attn, ff in self.layers:
            x = attn(x) + x
            x = ff(x) + x
        x = self.norm(x)
        x = x[:, 0] if self.pool == 'cls' else reduce(x, 'b n d -> b d', 'mean')
        return self.head(x)


if HAVE_EINOPS:
    RIGHT["einops_inner_width"] = (lambda num_classes=5: EinViT(num_classes=num_classes), (3, 28, 28), 5)


# 5. A physicist: tensors with indices, einsum, one Parameter for q, k and v.
class TensorViT(nn.Module):
    def __init__(self, L=2, D=32, H=4, M=64, P=4, side=28, K=10):
        super().__init__()
        d = D // H
        N = (side // P) ** 2
        g = lambda *s, fan: nn.Parameter(torch.randn(*s) * fan ** -0.5)
        self.P, self.L, self.d = P, L, d
        self.E = g(P, P, D, fan=P * P)                       # patch pixels -> features
        self.X0 = g(N, D, fan=D)                             # positions
        self.W = g(L, 3, H, D, d, fan=D)                     # q, k, v of all layers
        self.O = g(L, H, d, D, fan=D)
        self.A = g(L, D, M, fan=D)
        self.a = nn.Parameter(torch.zeros(L, M))
        self.C = g(L, M, D, fan=M)
        self.c = nn.Parameter(torch.zeros(L, D))
        self.gain = nn.Parameter(torch.ones(2 * L + 1, D))
        self.bias = nn.Parameter(torch.zeros(2 * L + 1, D))
        self.U = g(D, K, fan=D)

    def ln(self, x, i):
        return F.layer_norm(x, x.shape[-1:], self.gain[i], self.bias[i])

    def forward(self, img):
        u = img[:, 0].unfold(1, self.P, self.P).unfold(2, self.P, self.P)       # b y x p q
        x = torch.einsum('byxpq,pqD->byxD', u, self.E).flatten(1, 2) + self.X0
        for l in range(self.L):
            q, k, v = torch.einsum('btD,chDd->cbhtd', self.ln(x, 2 * l), self.W[l])
            s = torch.einsum('bhtd,bhsd->bhts', q / self.d ** 0.5, k)
            z = torch.einsum('bhts,bhsd->bhtd', s.softmax(-1), v)
            x = x + torch.einsum('bhtd,hdD->btD', z, self.O[l])
            m = F.gelu(torch.einsum('btD,Dm->btm', self.ln(x, 2 * l + 1), self.A[l]) + self.a[l])
            x = x + torch.einsum('btm,mD->btD', m, self.C[l]) + self.c[l]
        return torch.einsum('btD,DK->bK', self.ln(x, -1), self.U) / x.shape[1]


RIGHT["physicist_einsum"] = (TensorViT, (1, 28, 28), 10)


# 6. nn.MultiheadAttention, batch first, the norm called for each argument.
class EncoderLayer6(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm_a = nn.LayerNorm(width)
        self.mha = nn.MultiheadAttention(width, heads, dropout=0.1, batch_first=True)
        self.norm_m = nn.LayerNorm(width)
        self.mlp = nn.Sequential(OrderedDict(
            up=nn.Linear(width, 3 * width), gelu=nn.GELU(), drop=nn.Dropout(0.1), down=nn.Linear(3 * width, width)))

    def forward(self, x):
        a, _ = self.mha(self.norm_a(x), self.norm_a(x), self.norm_a(x), need_weights=False)
        x = torch.add(x, a)
        return torch.add(x, self.mlp(self.norm_m(x)))


class ViT6(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_parameter("cls", nn.Parameter(torch.empty(1, 1, 36).normal_(std=.02)))
        self.register_parameter("positions", nn.Parameter(torch.empty(1, 17, 36).normal_(std=.02)))
        self.tokenizer = nn.Sequential(nn.Conv2d(3, 36, 10, 10), nn.Flatten(2))
        self.encoder = nn.Sequential(EncoderLayer6(36, 6), EncoderLayer6(36, 6), nn.LayerNorm(36))
        self.to_logits = nn.Linear(36, 12)

    def forward(self, pixel_values):
        x = self.tokenizer(pixel_values).mT
        x = torch.cat([self.cls.repeat(len(x), 1, 1), x], 1) + self.positions
        return self.to_logits(self.encoder(x).select(1, 0))


RIGHT["mha_three_norm_calls"] = (ViT6, (3, 40, 40), 12)


# 7. Sequence first, class token last in the sequence and read there.
class SeqFirstViT(nn.Module):
    """All activations are (T, B, D). The class token sits at the END."""

    def __init__(self, size=(24, 32), patch=8, D=32, heads=2, depth=2, classes=4):
        super().__init__()
        rows, cols = size[0] // patch, size[1] // patch
        self.T = rows * cols + 1
        self.proj = nn.Conv2d(3, D, patch, stride=patch)
        self.query_token = nn.Parameter(torch.randn(1, 1, D) * .02)
        self.position = nn.Embedding(self.T, D)
        self.attn = nn.ModuleList(nn.MultiheadAttention(D, heads) for _ in range(depth))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D)) for _ in range(depth))
        self.ln_a = nn.ModuleList(nn.LayerNorm(D) for _ in range(depth))
        self.ln_f = nn.ModuleList(nn.LayerNorm(D) for _ in range(depth))
        self.ln_out = nn.LayerNorm(D)
        self.out = nn.Linear(D, classes)

    def forward(self, x):
        x = self.proj(x).flatten(2).permute(2, 0, 1)                  # T-1, B, D
        x = torch.cat((x, self.query_token.expand(1, x.shape[1], -1)))   # T, B, D
        x = x + self.position(torch.arange(self.T, device=x.device)).unsqueeze(1)
        for attn, ff, na, nf in zip(self.attn, self.ff, self.ln_a, self.ln_f):
            y = na(x)
            x = x + attn(y, y, y)[0]
            x = x + ff(nf(x))
        return self.out(self.ln_out(x[-1]))


RIGHT["seq_first_cls_last"] = (SeqFirstViT, (3, 24, 32), 4)


# 8. Stock nn.TransformerEncoder, fixed 2-D sin-cos buffer (not in state_dict).
def sincos_2d(h, w, dim):
    assert dim % 4 == 0
    y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    omega = 1.0 / 10000 ** (torch.arange(dim // 4) / (dim // 4 - 1))
    y = y.flatten()[:, None] * omega[None]
    x = x.flatten()[:, None] * omega[None]
    return torch.cat((x.sin(), x.cos(), y.sin(), y.cos()), dim=1)


class StockViT(nn.Module):
    def __init__(self, num_classes=20):
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 8, 8)
        self.register_buffer("pe", sincos_2d(4, 4, 64), persistent=False)
        layer = nn.TransformerEncoderLayer(64, 4, dim_feedforward=128, dropout=0.1, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, norm=nn.LayerNorm(64), enable_nested_tensor=False)
        self.fc = nn.Linear(64, num_classes)

    def forward(self, x):
        z = self.stem(x).flatten(2).transpose(1, 2) + self.pe
        return self.fc(self.encoder(z).mean(1))


RIGHT["stock_encoder_sincos"] = (StockViT, (3, 32, 32), 20)


# 9. Signal-processing person: (B, D, T), every linear map is a Conv1d.
class ChanNorm1d(nn.Module):
    def __init__(self, c, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1, c, 1))
        self.bias = nn.Parameter(torch.zeros(1, c, 1))
        self.eps = eps

    def forward(self, x):
        v = torch.var(x, dim=1, keepdim=True, unbiased=False)
        m = torch.mean(x, dim=1, keepdim=True)
        return (x - m) * torch.rsqrt(v + self.eps) * self.weight + self.bias


class ConvAttn1d(nn.Module):
    def __init__(self, c, h):
        super().__init__()
        self.h, self.c = h, c
        self.in_conv = nn.Conv1d(c, 3 * c, 1)
        self.out_conv = nn.Conv1d(c, c, 1)

    def forward(self, x):                                   # B, C, T
        b, c, t = x.shape
        q, k, v = self.in_conv(x).split(c, dim=1)
        q = q.reshape(b, self.h, c // self.h, t)
        k = k.reshape(b, self.h, c // self.h, t)
        v = v.reshape(b, self.h, c // self.h, t)
        s = torch.matmul(k.transpose(-1, -2), q)            # B, h, key, query
        s = s.mul((c // self.h) ** -0.5).softmax(dim=-2)    # keys are on the second last axis here
        return self.out_conv(torch.matmul(v, s).reshape(b, c, t))


class ConvViT1d(nn.Module):
    def __init__(self, in_chans=4, c=48, n_cls=6):
        super().__init__()
        self.cut = nn.Conv2d(in_chans, c, 8, 8)
        self.pos = nn.Parameter(torch.randn(1, c, 17) / 10)
        self.tok = nn.Parameter(torch.randn(1, c, 1) / 10)
        self.n1 = nn.ModuleList([ChanNorm1d(c), ChanNorm1d(c)])
        self.at = nn.ModuleList([ConvAttn1d(c, 3), ConvAttn1d(c, 3)])
        self.n2 = nn.ModuleList([ChanNorm1d(c), ChanNorm1d(c)])
        self.ml = nn.ModuleList([nn.Sequential(nn.Conv1d(c, 96, 1), nn.GELU(), nn.Conv1d(96, c, 1)) for _ in '12'])
        self.nf = ChanNorm1d(c)
        self.cl = nn.Conv1d(c, n_cls, 1)

    def forward(self, x):
        x = self.cut(x).flatten(2)
        x = torch.cat([self.tok.expand(x.size(0), -1, -1), x], dim=2) + self.pos
        for i in range(2):
            x = x + self.at[i](self.n1[i](x))
            x = x + self.ml[i](self.n2[i](x))
        return self.cl(self.nf(x)[:, :, :1]).squeeze(2)


RIGHT["conv1d_channels_first"] = (ConvViT1d, (4, 32, 32), 6)


# 10. Tokens are a (B, H, W, D) map all the way; rows and columns have tables.
#     LayerNorm through GroupNorm(1, D) on (B*H*W, D): the same thing.
class GNasLN(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gn = nn.GroupNorm(1, dim)

    def forward(self, x):
        return self.gn(x.reshape(-1, x.shape[-1])).view(x.shape)


class MapAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, m):
        B, H, W, D = m.shape
        n, d = self.heads, D // self.heads
        q = self.wq(m).view(B, H, W, n, d)
        k = self.wk(m).view(B, H, W, n, d)
        v = self.wv(m).view(B, H, W, n, d)
        s = torch.einsum("bijnd,bklnd->bnijkl", q, k) / math.sqrt(d)
        s = s.flatten(-2).softmax(-1).unflatten(-1, (H, W))
        o = torch.einsum("bnijkl,bklnd->bijnd", s, v)
        return self.wo(o.reshape(B, H, W, D))


class MapViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 60, (8, 8), (8, 8))
        self.row = nn.Parameter(torch.randn(3, 1, 60) * 0.1)
        self.col = nn.Parameter(torch.randn(1, 5, 60) * 0.1)
        self.layers = nn.Sequential(*[PreNormBlock(60, MapAttention(60, 5), 120, GNasLN) for _ in range(2)])
        self.n = GNasLN(60)
        self.head = nn.Linear(60, 6)

    def forward(self, x):
        m = self.patch(x).permute(0, 2, 3, 1)
        m = self.layers(m + self.row + self.col)
        return self.head(self.n(m).mean(dim=(1, 2)))


RIGHT["token_map_row_col"] = (MapViT, (3, 24, 40), 6)


# 11. Performance person of 2019: heads folded into the batch, baddbmm/bmm.
class FoldedAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.norm_factor = math.sqrt(self.head_dim)
        self.in_proj = nn.Linear(embed_dim, 3 * embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def _fold(self, t, bsz, n):
        return t.view(bsz, n, self.num_heads, self.head_dim).transpose(1, 2) \
                .reshape(bsz * self.num_heads, n, self.head_dim)

    def forward(self, hidden):
        bsz, n, _ = hidden.size()
        q, k, v = (self._fold(t, bsz, n) for t in torch.chunk(self.in_proj(hidden), 3, dim=-1))
        buf = torch.empty(bsz * self.num_heads, n, n, dtype=q.dtype, device=q.device)
        scores = torch.baddbmm(buf, q, k.transpose(1, 2), beta=0.0, alpha=1.0 / self.norm_factor)
        probs = F.softmax(scores, dim=2)
        ctx = torch.bmm(probs, v)
        ctx = ctx.view(bsz, self.num_heads, n, self.head_dim).transpose(1, 2).reshape(bsz, n, self.embed_dim)
        return self.out_proj(ctx)


class FoldedViT(nn.Module):
    def __init__(self):
        super().__init__()
        dim = 56
        self.to_tokens = nn.Linear(75, dim)
        self.cls_embedding = nn.Parameter(torch.zeros(dim))
        self.pos_embedding = nn.Parameter(torch.randn(17, dim) * .02)
        norm = partial(nn.LayerNorm, eps=1e-12)
        self.layer = nn.Sequential(*[PreNormBlock(dim, FoldedAttention(dim, 7), 2 * dim, norm) for _ in range(2)])
        self.final_layernorm = norm(dim)
        self.classifier = nn.Linear(dim, 9)

    def forward(self, images):
        b, c, h, w = images.shape
        p = 5
        t = images.reshape(b, c, h // p, p, w // p, p).permute(0, 2, 4, 3, 5, 1).reshape(b, -1, p * p * c)
        hidden = torch.cat([self.cls_embedding.view(1, 1, -1).expand(b, 1, -1), self.to_tokens(t)], dim=1)
        hidden = self.layer(hidden + self.pos_embedding)
        return self.classifier(self.final_layernorm(hidden)[:, 0])


RIGHT["folded_heads_baddbmm"] = (FoldedViT, (3, 20, 20), 9)


# 12. Rotary positions along the raster order, by complex numbers.
def rotate_complex(x, freq):
    # x: B, h, T, d   freq: d/2
    t = torch.arange(x.shape[2], device=x.device, dtype=freq.dtype)
    ang = torch.outer(t, freq)
    rot = torch.polar(torch.ones_like(ang), ang)
    xc = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(xc * rot).flatten(-2).type_as(x)


class RopeBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.h = h
        self.attention_norm = nn.LayerNorm(d)
        self.wq = nn.Linear(d, d, bias=False)
        self.wk = nn.Linear(d, d, bias=False)
        self.wv = nn.Linear(d, d, bias=False)
        self.wo = nn.Linear(d, d, bias=False)
        self.ffn_norm = nn.LayerNorm(d)
        self.w1 = nn.Linear(d, 4 * d)
        self.w2 = nn.Linear(4 * d, d)

    def forward(self, x, freq):
        b, t, d = x.shape
        y = self.attention_norm(x)
        xq, xk, xv = [w(y).view(b, t, self.h, d // self.h).transpose(1, 2) for w in (self.wq, self.wk, self.wv)]
        xq, xk = rotate_complex(xq, freq), rotate_complex(xk, freq)
        scores = F.softmax(xq @ xk.transpose(-1, -2) / math.sqrt(d // self.h), -1)
        h = x + self.wo((scores @ xv).transpose(1, 2).flatten(2))
        return h + self.w2(F.gelu(self.w1(self.ffn_norm(h))))


class RopeViT(nn.Module):
    def __init__(self, d=24, h=2, n_layers=2):
        super().__init__()
        hd = d // h
        self.tok = nn.Conv2d(3, d, 4, 4)
        self.cls = nn.Parameter(torch.randn(1, 1, d))
        self.register_buffer("freq", 1.0 / (100.0 ** (torch.arange(0, hd, 2).float() / hd)), persistent=False)
        self.layers = nn.ModuleList([RopeBlock(d, h) for _ in range(n_layers)])
        self.norm = nn.LayerNorm(d)
        self.output = nn.Linear(d, 2)

    def forward(self, x):
        x = self.tok(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), 1, -1), x], 1)
        for layer in self.layers:
            x = layer(x, self.freq)
        return self.output(self.norm(x[:, 0]))


RIGHT["rope_1d_complex"] = (RopeViT, (3, 16, 16), 2)


# 13. Two-dimensional rotary positions, SwiGLU, four registers.
def axial_rope_tables(h, w, head_dim, base=50.0):
    quarter = head_dim // 4
    f = base ** (-torch.arange(quarter) / quarter)
    yy = (torch.arange(h)[:, None] * f).repeat_interleave(w, dim=0)     # T, d/4
    xx = (torch.arange(w)[:, None] * f).repeat(h, 1)                    # T, d/4
    ang = torch.cat([yy, xx], dim=-1)                                    # T, d/2
    ang = torch.cat([ang, ang], dim=-1)                                  # T, d
    return ang.cos(), ang.sin()


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([-b, a], dim=-1)


class SwiGLU(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w12 = nn.Linear(dim, 2 * hidden)
        self.w3 = nn.Linear(hidden, dim)

    def forward(self, x):
        a, b = self.w12(x).chunk(2, dim=-1)
        return self.w3(F.silu(a) * b)


class Rope2dAttention(nn.Module):
    def __init__(self, dim, heads, prefix):
        super().__init__()
        self.heads, self.prefix = heads, prefix
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def rope(self, t, cos, sin):
        head, body = t[:, :, :self.prefix], t[:, :, self.prefix:]
        body = body * cos + rotate_half(body) * sin
        return torch.cat([head, body], dim=2)

    def forward(self, x, cos, sin):
        B, N, D = x.shape
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = self.rope(q, cos, sin), self.rope(k, cos, sin)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Rope2dViT(nn.Module):
    n_reg = 4

    def __init__(self, num_classes=11, dim=64, heads=4, depth=2):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, 6, 6)
        self.cls_token = nn.Parameter(torch.randn(1, 1, dim) * .02)
        self.registers = nn.Parameter(torch.randn(1, self.n_reg, dim) * .02)
        cos, sin = axial_rope_tables(6, 6, dim // heads)
        self.register_buffer("cos", cos)
        self.register_buffer("sin", sin)
        self.blocks = nn.ModuleList()
        for _ in range(depth):
            b = nn.Module()
            b.norm1, b.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
            b.attn = Rope2dAttention(dim, heads, 1 + self.n_reg)
            b.ffn = SwiGLU(dim, dim * 8 // 3)
            self.blocks.append(b)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, num_classes)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        B = x.shape[0]
        x = torch.cat([self.cls_token.expand(B, -1, -1), self.registers.expand(B, -1, -1), x], dim=1)
        for b in self.blocks:
            x = x + b.attn(b.norm1(x), self.cos, self.sin)
            x = x + b.ffn(b.norm2(x))
        return self.head(self.norm(x)[:, 0])


RIGHT["rope_2d_swiglu_registers"] = (lambda num_classes=11: Rope2dViT(num_classes), (3, 36, 36), 11)


# 14. Relative position bias table, mean pooling.
class RelBiasAttention(nn.Module):
    def __init__(self, dim, heads, grid):
        super().__init__()
        gh, gw = grid
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.table = nn.Parameter(torch.empty((2 * gh - 1) * (2 * gw - 1), heads))
        nn.init.trunc_normal_(self.table, std=0.5)
        coords = torch.stack(torch.meshgrid(torch.arange(gh), torch.arange(gw), indexing="ij")).flatten(1)
        rel = (coords[:, :, None] - coords[:, None, :]).permute(1, 2, 0).contiguous()
        rel[..., 0] += gh - 1
        rel[..., 1] += gw - 1
        rel[..., 0] *= 2 * gw - 1
        self.register_buffer("index", rel.sum(-1))
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        q = q * self.scale
        attn = q @ k.transpose(-2, -1)
        bias = self.table[self.index.view(-1)].view(N, N, -1).permute(2, 0, 1).contiguous()
        attn = (attn + bias.unsqueeze(0)).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class RelBiasViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Conv2d(3, 48, 4, 4)
        self.blocks = nn.Sequential(*[PreNormBlock(48, RelBiasAttention(48, 3, (8, 8)), 96) for _ in range(2)])
        self.norm = nn.LayerNorm(48)
        self.avgpool = nn.AdaptiveAvgPool1d(1)
        self.head = nn.Linear(48, 15)

    def forward(self, x):
        x = self.norm(self.blocks(self.embed(x).flatten(2).transpose(1, 2)))
        x = self.avgpool(x.transpose(1, 2)).flatten(1)
        return self.head(x)


RIGHT["relative_bias_table"] = (RelBiasViT, (3, 32, 32), 15)


# 15. Conditional positions (depthwise convolution with zero padding).
class PEG(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.dw = nn.Conv2d(c, c, 3, padding=1, groups=c)

    def forward(self, x, hw):
        b, n, c = x.shape
        m = x.transpose(1, 2).reshape(b, c, *hw)
        return (self.dw(m) + m).flatten(2).transpose(1, 2)


class CondAttention(nn.Module):
    def __init__(self, c, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(c, c)
        self.kv = nn.Linear(c, 2 * c)
        self.o = nn.Linear(c, c)

    def forward(self, y):
        b, n, c = y.shape
        q = self.q(y).reshape(b, n, self.heads, -1).permute(0, 2, 1, 3)
        k, v = self.kv(y).reshape(b, n, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        # the scale goes to the keys
        w = torch.matmul(q, (k * k.size(-1) ** -0.5).transpose(2, 3)).softmax(3)
        return self.o(torch.matmul(w, v).permute(0, 2, 1, 3).reshape(b, n, c))


class CondViT(nn.Module):
    def __init__(self, c=40, k=8):
        super().__init__()
        self.patch = nn.Conv2d(3, c, 5, 5)
        self.peg = PEG(c)
        self.blocks = nn.ModuleList(PreNormBlock(c, CondAttention(c, 5), 3 * c) for _ in range(3))
        self.norm = nn.LayerNorm(c)
        self.fc = nn.Linear(c, k)

    def forward(self, x):
        f = self.patch(x)
        hw = f.shape[-2:]
        t = f.flatten(2).transpose(1, 2)
        for i, blk in enumerate(self.blocks):
            t = blk(t)
            if i == 0:
                t = self.peg(t, hw)
        return self.fc(self.norm(t).mean(dim=1))


RIGHT["conditional_positions"] = (CondViT, (3, 30, 30), 8)


# 16. Two class tokens (class + distillation), logits averaged.
class DistilledViT(nn.Module):
    def __init__(self, width=72, depth=2, heads=6, K=50):
        super().__init__()
        self.heads = heads
        self.conv_proj = nn.Conv2d(3, width, 8, 8)
        self.special = nn.Parameter(torch.empty(1, 2, width))
        self.pos = nn.Parameter(torch.empty(1, 18, width))
        nn.init.trunc_normal_(self.special, std=.02)
        nn.init.trunc_normal_(self.pos, std=.02)
        mk = lambda i, o: nn.ModuleList(nn.Linear(i, o) for _ in range(depth))
        self.qkv, self.proj = mk(width, 3 * width), mk(width, width)
        self.up, self.down = mk(width, 2 * width), mk(2 * width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth + 1))
        self.head_cls = nn.Linear(width, K)
        self.head_dist = nn.Linear(width, K)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.special.expand(len(x), -1, -1), x], dim=1) + self.pos
        norms = iter(self.norms)
        for qkv, proj, up, down in zip(self.qkv, self.proj, self.up, self.down):
            y = next(norms)(x)
            q, k, v = (t.unflatten(2, (self.heads, -1)).transpose(1, 2) for t in qkv(y).tensor_split(3, dim=2))
            y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.0, is_causal=False)
            x = x + proj(y.transpose(1, 2).flatten(2))
            x = x + down(F.gelu(up(next(norms)(x))))
        x = next(norms)(x)
        return 0.5 * (self.head_cls(x[:, 0]) + self.head_dist(x[:, 1]))


RIGHT["two_class_tokens"] = (DistilledViT, (3, 32, 32), 50)


# 17. Attention pooling with a learned query; a NamedTuple comes out.
class PoolOut(NamedTuple):
    logits: Tensor
    pooled: Tensor
    weights: Tensor


class AttnPoolViT(nn.Module):
    class Attention(nn.Module):
        def __init__(self, e, h):
            super().__init__()
            self.h = h
            self.to_q, self.to_k, self.to_v = nn.Linear(e, e), nn.Linear(e, e), nn.Linear(e, e)
            self.merge = nn.Linear(e, e)

        def split(self, t):
            return torch.stack(t.chunk(self.h, dim=-1), dim=1)      # B, h, T, e/h

        def forward(self, y):
            q, k, v = map(self.split, (self.to_q(y), self.to_k(y), self.to_v(y)))
            a = (q @ k.mT).div(q.size(-1) ** 0.5).softmax(-1) @ v
            return self.merge(torch.cat(a.unbind(1), dim=-1))

    def __init__(self, e=32, K=8):
        super().__init__()
        self.patchify = nn.Conv2d(1, e, 4, 4)
        self.where = nn.Parameter(torch.randn(25, e) * .1)
        self.layers = nn.Sequential(*[PreNormBlock(e, self.Attention(e, 4), 2 * e) for _ in range(2)])
        self.norm = nn.LayerNorm(e)
        self.seed = nn.Parameter(torch.randn(e) * .1)
        self.pool_k = nn.Linear(e, e)
        self.pool_v = nn.Linear(e, e)
        self.head = nn.Linear(e, K)

    def forward(self, x):
        t = self.norm(self.layers(self.patchify(x).flatten(2).mT + self.where))
        w = (self.pool_k(t) @ self.seed / self.seed.numel() ** 0.5).softmax(dim=1)     # B, T
        pooled = (w.unsqueeze(1) @ self.pool_v(t)).squeeze(1)
        return PoolOut(self.head(pooled), pooled, w)


RIGHT["attention_pooling_namedtuple"] = (AttnPoolViT, (1, 20, 20), 8)


# 18. Max pooling over tokens, nn.Unfold, tanh GELU by formula.
def gelu_tanh(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x.pow(3))))


class MaxPoolViT(nn.Module):
    def __init__(self, nb=2, nf=44, nh=4, ps=8):
        super().__init__()
        self.nh = nh
        self.unfold = nn.Unfold(kernel_size=ps, stride=ps)
        self.lin = nn.Linear(2 * ps * ps, nf)
        self.pe = nn.Parameter(torch.zeros(1, 16, nf).uniform_(-0.1, 0.1))
        self.p = nn.ModuleList()
        for _ in range(nb):
            self.p.extend([nn.LayerNorm(nf), nn.Linear(nf, nf * 3), nn.Linear(nf, nf),
                           nn.LayerNorm(nf), nn.Linear(nf, nf * 2), nn.Linear(nf * 2, nf)])
        self.nb = nb
        self.ln = nn.LayerNorm(nf)
        self.fc = nn.Linear(nf, 3)

    def forward(self, x):
        x = self.lin(self.unfold(x).transpose(1, 2)) + self.pe
        bs, nt, nf = x.shape
        for i in range(self.nb):
            ln1, qkv, out, ln2, l1, l2 = self.p[6 * i:6 * i + 6]
            h = qkv(ln1(x)).view(bs, nt, 3, self.nh, nf // self.nh)
            q = h[:, :, 0].transpose(1, 2)
            k = h[:, :, 1].permute(0, 2, 3, 1)
            v = h[:, :, 2].transpose(1, 2)
            w = torch.softmax((q @ k) * (nf // self.nh) ** -.5, dim=-1)
            x = x + out((w @ v).transpose(1, 2).reshape(bs, nt, nf))
            x = x + l2(gelu_tanh(l1(ln2(x))))
        return self.fc(self.ln(x).amax(dim=1))


RIGHT["max_pool_unfold"] = (MaxPoolViT, (2, 32, 32), 3)


# 19. cls and mean of patches concatenated; dict output; LayerNorm by std_mean.
class StdMeanNorm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(n))
        self.shift = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        s, m = torch.std_mean(x, dim=-1, correction=0, keepdim=True)
        return torch.addcmul(self.shift, (x - m) / (s + 1e-6), self.scale)


class ConcatViT(nn.Module):
    def __init__(self, dim=48, heads=2, n_classes=10):
        super().__init__()
        self.cfg = dict(dim=dim, heads=heads)
        self.emb = nn.Conv2d(3, dim, kernel_size=(4, 8), stride=(4, 8))   # 24x32 -> 6x4
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, 24, dim) * 0.02)          # patches only
        for i in (0, 1):
            setattr(self, f"ln_a{i}", StdMeanNorm(dim))
            setattr(self, f"ln_b{i}", StdMeanNorm(dim))
            setattr(self, f"attn{i}", nn.MultiheadAttention(dim, heads, batch_first=True))
            setattr(self, f"mlp{i}", nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)))
        self.ln = StdMeanNorm(dim)
        self.fc = nn.Linear(2 * dim, n_classes)

    def forward(self, x):
        z = self.emb(x).flatten(2).transpose(1, 2) + self.pos
        z = torch.cat([self.cls.expand(z.size(0), -1, -1), z], 1)
        for i in (0, 1):
            y = getattr(self, f"ln_a{i}")(z)
            z = z + getattr(self, f"attn{i}")(y, y, y)[0]
            z = z + getattr(self, f"mlp{i}")(getattr(self, f"ln_b{i}")(z))
        z = self.ln(z)
        feat = torch.cat([z[:, 0], z[:, 1:].mean(1)], dim=-1)
        return {"logits": self.fc(feat), "features": feat}


RIGHT["cls_mean_concat_dict"] = (ConcatViT, (3, 24, 32), 10)


# 20. Convolution person: (B, D, h, w), PixelUnshuffle, MLP as 1x1 Conv2d.
class LN2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class MHSA2d(nn.Module):
    def __init__(self, ch, heads):
        super().__init__()
        self.heads = heads
        self.q = nn.Conv2d(ch, ch, 1, bias=False)
        self.k = nn.Conv2d(ch, ch, 1, bias=False)
        self.v = nn.Conv2d(ch, ch, 1)
        self.o = nn.Conv2d(ch, ch, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        d = c // self.heads
        q = self.q(x).reshape(n * self.heads, d, h * w)
        k = self.k(x).reshape(n * self.heads, d, h * w)
        v = self.v(x).reshape(n * self.heads, d, h * w)
        e = torch.bmm(q.transpose(1, 2), k) * (1 / d ** 0.5)         # query, key
        a = e.softmax(-1)
        y = torch.bmm(v, a.transpose(1, 2))                          # d, query
        return self.o(y.reshape(n, c, h, w))


class ShuffleViT(nn.Module):
    def __init__(self, ch=52):
        super().__init__()
        self.stem = nn.Sequential(nn.PixelUnshuffle(4), nn.Conv2d(32, ch, 1))
        self.pos = nn.Parameter(torch.randn(1, ch, 4, 6) * .05)
        self.stages = nn.ModuleList([nn.ModuleList([
            LN2d(ch), MHSA2d(ch, 2), LN2d(ch),
            nn.Sequential(nn.Conv2d(ch, 2 * ch, 1), nn.GELU(), nn.Conv2d(2 * ch, ch, 1))]) for _ in range(2)])
        self.ln = LN2d(ch)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(ch, 5))

    def forward(self, x):
        x = self.stem(x) + self.pos
        for ln1, sa, ln2, mlp in self.stages:
            x = x + sa(ln1(x))
            x = x + mlp(ln2(x))
        return self.head(self.ln(x))


RIGHT["pixel_unshuffle_conv2d"] = (ShuffleViT, (2, 16, 24), 5)


# 21. Early convolutions: overlapping stem with BatchNorm and ReLU.
def conv_bn_relu(i, o, s):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class StemViT(nn.Module):
    def __init__(self, dim=64, heads=4, depth=2, drop_path=0.1, classes=10):
        super().__init__()
        self.stem = nn.Sequential(conv_bn_relu(3, 24, 2), conv_bn_relu(24, 48, 2), nn.Conv2d(48, dim, 1))
        self.pos = nn.Parameter(torch.zeros(1, 64, dim))
        nn.init.normal_(self.pos, std=.02)
        self.attn_norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.attns = nn.ModuleList([AttentionStem(dim, heads) for _ in range(depth)])
        self.mlp_norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(depth)])
        self.mlps = nn.ModuleList([nn.Sequential(nn.Linear(dim, 128), nn.GELU(), nn.Linear(128, dim))
                                   for _ in range(depth)])
        self.drop_path = drop_path
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def maybe_drop(self, branch):
        if self.training and self.drop_path > 0:
            alive = (torch.rand(branch.shape[0], 1, 1, device=branch.device) >= self.drop_path).to(branch.dtype)
            branch = branch * alive / (1 - self.drop_path)
        return branch

    def forward(self, x):
        x = self.stem(x).flatten(2).transpose(1, 2) + self.pos
        for na, a, nm, m in zip(self.attn_norms, self.attns, self.mlp_norms, self.mlps):
            x = x + self.maybe_drop(a(na(x)))
            x = x + self.maybe_drop(m(nm(x)))
        return self.head(self.norm(x.mean(dim=1)))


class AttentionStem(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * dim, dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * dim))
        nn.init.xavier_uniform_(self.in_proj_weight)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = F.linear(x, self.in_proj_weight, self.in_proj_bias).split(c, dim=-1)
        shape = (b, n, self.heads, c // self.heads)
        q, k, v = q.view(shape), k.view(shape), v.view(shape)
        logits = torch.einsum("bqhc,bkhc->bhqk", q, k) * (c // self.heads) ** -0.5
        return self.out_proj(torch.einsum("bhqk,bkhc->bqhc", logits.softmax(-1), v).flatten(2))


RIGHT["conv_stem_batchnorm"] = (StemViT, (3, 32, 32), 10)


# 22. One image at a time, matrices only, result written into a prepared array.
class OneByOne(nn.Module):
    P, T, D, HEADS, K = 8, 9, 30, 3, 6

    def __init__(self):
        super().__init__()
        P, T, D, K = self.P, self.T, self.D, self.K
        self.patch_matrix = nn.Linear(P * P * 3, D)
        self.class_vector = nn.Parameter(torch.randn(D) * 0.1)
        self.position_matrix = nn.Parameter(torch.randn(T + 1, D) * 0.1)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(D), nn.LayerNorm(D), nn.LayerNorm(D)
        self.Wq, self.Wk, self.Wv, self.Wo = (nn.Linear(D, D) for _ in range(4))
        self.W1, self.W2 = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)
        self.Wc = nn.Linear(D, K)

    def attention(self, X):
        d = self.D // self.HEADS
        Q, K, V = self.Wq(X), self.Wk(X), self.Wv(X)
        Z = X.new_zeros(X.shape)
        for h in range(self.HEADS):
            cols = slice(h * d, (h + 1) * d)
            S = Q[:, cols] @ K[:, cols].T / math.sqrt(d)
            Z[:, cols] = torch.softmax(S, dim=1) @ V[:, cols]
        return self.Wo(Z)

    def single(self, image):
        rows = [self.class_vector]
        for i in range(0, image.shape[1], self.P):
            for j in range(0, image.shape[2], self.P):
                rows.append(self.patch_matrix(image[:, i:i + self.P, j:j + self.P].flatten()))
        X = torch.stack(rows) + self.position_matrix
        X = X + self.attention(self.norm1(X))
        X = X + self.W2(F.gelu(self.W1(self.norm2(X))))
        return self.Wc(self.norm3(X[0]))

    def forward(self, images):
        result = images.new_zeros(images.shape[0], self.K)
        for n, image in enumerate(images):
            result[n] = self.single(image)
        return result


RIGHT["one_image_at_a_time"] = (OneByOne, (3, 24, 24), 6)


# 23. No submodules: a ParameterDict and functions.
def _lin(p, name, x):
    return F.linear(x, p[name + "_w"], p[name + "_b"])


def _norm(p, name, x):
    return F.layer_norm(x, (x.size(-1),), p[name + "_g"], p[name + "_h"], 1e-5)


def _attention(p, name, x, heads):
    q, k, v = (torch.cat(_lin(p, f"{name}_{c}", x).split(x.size(-1) // heads, -1), 0) for c in "qkv")
    # heads stacked over the batch axis: (heads*B, T, d)
    a = (q @ k.transpose(1, 2) / q.size(-1) ** .5).softmax(-1) @ v
    return _lin(p, name + "_o", torch.cat(a.chunk(heads, 0), -1))


def _block(p, i, x, heads, training):
    x = x + F.dropout(_attention(p, f"a{i}", _norm(p, f"n{i}", x), heads), 0.1, training)
    return x + F.dropout(_lin(p, f"d{i}", F.gelu(_lin(p, f"u{i}", _norm(p, f"m{i}", x)))), 0.1, training)


class Functional(nn.Module):
    def __init__(self, D=36, depth=2, heads=2, P=6, side=24, K=14):
        super().__init__()
        self.depth, self.heads, self.P = depth, heads, P
        p = {}

        def lin(name, i, o):
            p[name + "_w"] = nn.Parameter(nn.init.xavier_normal_(torch.empty(o, i)))
            p[name + "_b"] = nn.Parameter(torch.zeros(o))

        def norm(name):
            p[name + "_g"] = nn.Parameter(torch.ones(D))
            p[name + "_h"] = nn.Parameter(torch.zeros(D))

        lin("patch", 3 * P * P, D)
        p["pos"] = nn.Parameter(torch.randn((side // P) ** 2, D) * 0.05)
        for i in range(depth):
            norm(f"n{i}"), norm(f"m{i}")
            for c in "qkvo":
                lin(f"a{i}_{c}", D, D)
            lin(f"u{i}", D, 2 * D), lin(f"d{i}", 2 * D, D)
        norm("last")
        lin("head", D, K)
        self.p = nn.ParameterDict(p)

    def forward(self, x):
        p = self.p
        x = F.unfold(x, self.P, stride=self.P).transpose(1, 2)
        x = _lin(p, "patch", x) + p["pos"]
        for i in range(self.depth):
            x = _block(p, i, x, self.heads, self.training)
        return _lin(p, "head", _norm(p, "last", x).mean(1))


RIGHT["parameter_dict_functional"] = (Functional, (3, 24, 24), 14)


# 24. Attention by elementwise products; softmax by logsumexp; erf GELU.
class ElementwiseBlock(nn.Module):
    def __init__(self, D, H):
        super().__init__()
        self.H, self.d = H, D // H
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.kqv = nn.Linear(D, 3 * D)            # order: key, query, value
        self.out = nn.Linear(D, D)
        self.l1, self.l2 = nn.Linear(D, 2 * D), nn.Linear(2 * D, D)

    def forward(self, x):
        B, T, D = x.shape
        k, q, v = self.kqv(self.n1(x)).reshape(B, T, 3, self.H, self.d).unbind(2)   # B T H d
        s = (q[:, :, None] * k[:, None, :]).sum(-1) / self.d ** 0.5                  # B Tq Tk H
        w = torch.exp(s - torch.logsumexp(s, dim=2, keepdim=True))
        o = (w[..., None] * v[:, None]).sum(dim=2)                                   # B Tq H d
        x = x + self.out(o.flatten(2))
        u = self.l1(self.n2(x))
        u = u * 0.5 * (1 + torch.erf(u / math.sqrt(2)))
        return x + self.l2(u)


class ElementwiseViT(nn.Module):
    def __init__(self):
        super().__init__()
        self.pe = nn.Conv2d(3, 24, 8, 8)
        self.c = nn.Parameter(torch.zeros(1, 1, 24))
        self.p = nn.Parameter(torch.randn(1, 17, 24) * .2)
        self.b = nn.Sequential(ElementwiseBlock(24, 3), ElementwiseBlock(24, 3), ElementwiseBlock(24, 3))
        self.n = nn.LayerNorm(24)
        self.h = nn.Linear(24, 10)

    def forward(self, x):
        x = torch.flatten(self.pe(x), 2).transpose(-1, -2)
        x = torch.cat((self.c + torch.zeros_like(x[:, :1]), x), 1) + self.p
        return self.h(self.n(self.b(x))[:, 0])


RIGHT["elementwise_logsumexp"] = (ElementwiseViT, (3, 32, 32), 10)


# 25. Config dataclass, gradient checkpointing, dataclass output.
@dataclass
class CkptConfig:
    image_size: int = 32
    patch_size: int = 8
    num_channels: int = 3
    hidden_size: int = 48
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    intermediate_size: int = 192
    layer_norm_eps: float = 1e-12
    hidden_dropout_prob: float = 0.0
    initializer_range: float = 0.02
    id2label: dict = field(default_factory=lambda: {i: f"LABEL_{i}" for i in range(13)})


@dataclass
class ClassifierOutput:
    logits: Tensor
    hidden_states: Optional[Tensor] = None


class CkptSelfAttention(nn.Module):
    def __init__(self, config: CkptConfig):
        super().__init__()
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = config.hidden_size // config.num_attention_heads
        self.query = nn.Linear(config.hidden_size, config.hidden_size)
        self.key = nn.Linear(config.hidden_size, config.hidden_size)
        self.value = nn.Linear(config.hidden_size, config.hidden_size)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def transpose_for_scores(self, x):
        return x.view(x.size()[:-1] + (self.num_attention_heads, self.attention_head_size)).permute(0, 2, 1, 3)

    def forward(self, hidden_states):
        key_layer = self.transpose_for_scores(self.key(hidden_states))
        value_layer = self.transpose_for_scores(self.value(hidden_states))
        query_layer = self.transpose_for_scores(self.query(hidden_states))
        attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
        attention_scores = attention_scores / math.sqrt(self.attention_head_size)
        attention_probs = nn.functional.softmax(attention_scores, dim=-1)
        context_layer = torch.matmul(attention_probs, value_layer).permute(0, 2, 1, 3).contiguous()
        return self.dense(context_layer.view(hidden_states.size()))


class CkptLayer(nn.Module):
    def __init__(self, config: CkptConfig):
        super().__init__()
        self.attention = CkptSelfAttention(config)
        self.intermediate = nn.Sequential(nn.Linear(config.hidden_size, config.intermediate_size), nn.GELU())
        self.output = nn.Sequential(nn.Linear(config.intermediate_size, config.hidden_size),
                                    nn.Dropout(config.hidden_dropout_prob))
        self.layernorm_before = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.layernorm_after = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def forward(self, hidden_states):
        hidden_states = self.attention(self.layernorm_before(hidden_states)) + hidden_states
        return self.output(self.intermediate(self.layernorm_after(hidden_states))) + hidden_states


class CkptForImageClassification(nn.Module):
    def __init__(self, config: CkptConfig):
        super().__init__()
        self.config = config
        n = (config.image_size // config.patch_size) ** 2
        self.projection = nn.Conv2d(config.num_channels, config.hidden_size, config.patch_size, config.patch_size)
        self.cls_token = nn.Parameter(torch.randn(1, 1, config.hidden_size) * config.initializer_range)
        self.position_embeddings = nn.Parameter(torch.randn(1, n + 1, config.hidden_size) * config.initializer_range)
        self.layer = nn.ModuleList([CkptLayer(config) for _ in range(config.num_hidden_layers)])
        self.layernorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.classifier = nn.Linear(config.hidden_size, len(config.id2label))

    def forward(self, pixel_values, output_hidden_states=False):
        h = self.projection(pixel_values).flatten(2).transpose(1, 2)
        h = torch.cat((self.cls_token.expand(pixel_values.shape[0], -1, -1), h), dim=1) + self.position_embeddings
        for layer in self.layer:
            if torch.is_grad_enabled():
                h = checkpoint(layer, h, use_reentrant=False)
            else:
                h = layer(h)
        h = self.layernorm(h)
        return ClassifierOutput(logits=self.classifier(h[:, 0, :]), hidden_states=h if output_hidden_states else None)


RIGHT["checkpointed_dataclass"] = (lambda: CkptForImageClassification(CkptConfig()), (3, 32, 32), 13)


# 26. The attention is a scripted module.
class ScriptableAttention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.to_qkv = nn.Linear(dim, 3 * dim)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        qkv = self.to_qkv(x).reshape(b, n, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        a = torch.softmax(torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.head_dim), dim=-1)
        return self.to_out(torch.matmul(a, v).transpose(1, 2).reshape(b, n, c))


def scripted_vit():
    attention = torch.jit.script(ScriptableAttention(32, 4))
    return Framed([PreNormBlock(32, attention, 128)], 16, 7, 32, 10, in_chans=1)


RIGHT["scripted_attention"] = (scripted_vit, (1, 28, 28), 10)


# 27. Weight norm and spectral norm parametrisations.
def wn(i, o):
    return parametrizations.weight_norm(nn.Linear(i, o))


def sn(i, o):
    return parametrizations.spectral_norm(nn.Linear(i, o))


class ReparamBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = wn(dim, 3 * dim), sn(dim, dim)
        self.fc1, self.fc2 = wn(dim, 2 * dim), sn(2 * dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).unbind(2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


def reparam_vit(in_chans=3, num_classes=10):
    return Framed([ReparamBlock(40, 4), ReparamBlock(40, 4)], 16, 8, 40, num_classes, in_chans, cls=False)


RIGHT["weight_and_spectral_norm"] = (reparam_vit, (3, 32, 32), 10)


# 28. Input normalised inside, learned temperature, float32 softmax.
class TempAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        d = dim // heads
        self.heads = heads
        self.temperature = nn.Parameter(torch.full((heads, 1, 1), d ** -0.5))
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.wqkv(x).view(b, t, self.heads, 3, -1).permute(3, 0, 2, 1, 4)   # per-head packing
        s = (q @ k.transpose(-2, -1)) * self.temperature
        p = F.softmax(s, dim=-1, dtype=torch.float32).to(v.dtype)
        return self.wo((p @ v).transpose(1, 2).reshape(b, t, c))


class SelfNormalisingInputViT(Framed):
    """Takes images in [0, 1]."""

    def __init__(self, dim=54, heads=3, depth=2, classes=7):
        super().__init__([PreNormBlock(dim, TempAttention(dim, heads), 2 * dim) for _ in range(depth)], 20, 8, dim, classes)
        self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1))

    def forward(self, x):
        return super().forward((x - self.mean) / self.std)


RIGHT["input_norm_temperature"] = (SelfNormalisingInputViT, (3, 40, 32), 7)


# 29. Any image size: padding to a multiple of the patch, positions resized.
class AnySizeViT(nn.Module):
    patch: int = 8

    def __init__(self, dim: int = 48, heads: int = 4, depth: int = 2, grid: int = 4, num_classes: int = 10) -> None:
        super().__init__()
        self.heads = heads
        self.proj = nn.Conv2d(3, dim, self.patch, self.patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.cls_pos = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.grid_pos = nn.Parameter(torch.randn(1, dim, grid, grid) * 0.2)
        self.blocks = nn.ModuleList([BlockA(dim, heads, mlp_ratio=2.0) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, num_classes)

    def pad(self, x: Tensor) -> Tensor:
        h, w = x.shape[-2:]
        return F.pad(x, (0, -w % self.patch, 0, -h % self.patch))

    def positions(self, h: int, w: int) -> Tensor:
        pos = self.grid_pos
        if pos.shape[-2:] != (h, w):
            pos = F.interpolate(pos, size=(h, w), mode="bicubic", align_corners=False)
        return pos

    def forward(self, x: Tensor) -> Tensor:
        x = self.proj(self.pad(x))
        x = x + self.positions(x.shape[2], x.shape[3])
        x = x.flatten(2).transpose(1, 2)
        cls = (self.cls + self.cls_pos).expand(x.shape[0], -1, -1)
        x = torch.cat([cls, x], dim=1)
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x)[:, 0])


RIGHT["padded_interpolated"] = (AnySizeViT, (3, 30, 34), 10)


# 30. Research code with modes and a pretraining head that classifying ignores.
class MultiModeViT(nn.Module):
    MODES = ("classify", "reconstruct", "features")

    def __init__(self, dim=64, heads=8, depth=2, p=4, side=24, ncls=16):
        super().__init__()
        self.p, self.n = p, (side // p) ** 2
        self.heads = heads
        self.patchify_proj = nn.Linear(3 * p * p, dim)
        self.pos = nn.Parameter(torch.zeros(1, self.n, dim))           # zero at the start, learned
        self.mask_token = nn.Parameter(torch.zeros(1, 1, dim))         # pretraining only
        self.blocks = nn.ModuleList()
        for _ in range(depth):
            self.blocks.append(nn.ModuleDict({
                "ln_1": nn.LayerNorm(dim), "c_attn": nn.Linear(dim, 3 * dim), "c_proj": nn.Linear(dim, dim),
                "ln_2": nn.LayerNorm(dim), "c_fc": nn.Linear(dim, 2 * dim), "m_proj": nn.Linear(2 * dim, dim)}))
        self.ln_f = nn.LayerNorm(dim)
        self.cls_head = nn.Linear(dim, ncls)
        self.pixel_head = nn.Linear(dim, 3 * p * p)                    # pretraining only

    def patchify(self, x):
        B, C, H, W = x.shape
        p = self.p
        x = x.reshape(B, C, H // p, p, W // p, p)
        return torch.einsum("nchpwq->nhwpqc", x).reshape(B, self.n, p * p * C)

    def encode(self, tok):
        tok = tok + self.pos
        for b in self.blocks:
            B, T, C = tok.size()
            q, k, v = b["c_attn"](b["ln_1"](tok)).split(C, dim=2)
            k = k.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            q = q.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            v = v.view(B, T, self.heads, C // self.heads).transpose(1, 2)
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, is_causal=False)
            tok = tok + b["c_proj"](y.transpose(1, 2).contiguous().view(B, T, C))
            tok = tok + b["m_proj"](F.gelu(b["c_fc"](b["ln_2"](tok)), approximate="tanh"))
        return self.ln_f(tok)

    def forward(self, x, mode="classify", mask=None):
        assert mode in self.MODES
        tok = self.patchify_proj(self.patchify(x))
        if mode == "reconstruct" and mask is not None:
            tok = torch.where(mask.unsqueeze(-1), self.mask_token, tok)
        z = self.encode(tok)
        if mode == "reconstruct":
            return self.pixel_head(z)
        z = z.mean(dim=1)
        return z if mode == "features" else self.cls_head(z)


RIGHT["modes_unused_head"] = (MultiModeViT, (3, 24, 24), 16)


# 31. ModuleDict of blocks, hidden layer narrower than D, return_features flag.
class NarrowViT(nn.Module):
    def __init__(self):
        super().__init__()
        E, H = 96, 3
        self.H = H
        self.parts = nn.ModuleDict()
        self.parts["patches"] = nn.Conv2d(3, E, 16, 8, 4)                # overlapping patches
        for n in ("first", "second", "third"):
            self.parts[n + "_norm_a"] = nn.LayerNorm(E)
            self.parts[n + "_qkv"] = nn.Linear(E, 3 * E)
            self.parts[n + "_join"] = nn.Linear(E, E)
            self.parts[n + "_norm_b"] = nn.LayerNorm(E)
            self.parts[n + "_squeeze"] = nn.Linear(E, E // 4)
            self.parts[n + "_expand"] = nn.Linear(E // 4, E)
        self.parts["norm"] = nn.LayerNorm(E)
        self.parts["head"] = nn.Linear(E, 25)
        self.cls = nn.Parameter(torch.randn(E) * .02)
        self.pos = nn.Parameter(torch.randn(17, E) * .02)

    def forward(self, x, return_features=False):
        P = self.parts
        x = P["patches"](x).flatten(2).transpose(1, 2)
        b, t, e = x.shape
        x = torch.cat([self.cls.expand(b, 1, e), x], 1) + self.pos
        for n in ("first", "second", "third"):
            q, k, v = P[n + "_qkv"](P[n + "_norm_a"](x)).reshape(b, t + 1, 3, self.H, e // self.H).permute(2, 3, 0, 1, 4)
            out = []
            for h in range(self.H):
                w = torch.softmax(q[h] @ k[h].transpose(1, 2) / math.sqrt(e // self.H), dim=2)
                out.append(w @ v[h])
            x = x + P[n + "_join"](torch.cat(out, dim=2))
            x = x + P[n + "_expand"](F.gelu(P[n + "_squeeze"](P[n + "_norm_b"](x))))
        f = P["norm"](x)[:, 0]
        return (P["head"](f), f) if return_features else P["head"](f)


RIGHT["moduledict_narrow_mlp"] = (NarrowViT, (3, 32, 32), 25)


# 32. Masks that mask nothing; separate Linears for each head.
class MaskableAttention(nn.Module):
    def __init__(self, d_model, h):
        super().__init__()
        self.h, self.d_k = h, d_model // h
        self.W_q = nn.ModuleList([nn.Linear(d_model, self.d_k) for _ in range(h)])
        self.W_k = nn.ModuleList([nn.Linear(d_model, self.d_k) for _ in range(h)])
        self.W_v = nn.ModuleList([nn.Linear(d_model, self.d_k) for _ in range(h)])
        self.W_o = nn.Linear(d_model, d_model)

    def forward(self, query, key, value, mask=None):
        result = []
        for i in range(self.h):
            Q, K, V = self.W_q[i](query), self.W_k[i](key), self.W_v[i](value)
            score = torch.bmm(Q, K.permute(0, 2, 1)) / (self.d_k ** 0.5)
            if mask is not None:
                score = score.masked_fill(mask == 0, float("-inf"))
            result.append(torch.bmm(score.softmax(dim=-1), V))
        return self.W_o(torch.cat(result, dim=-1))


class MaskableViT(nn.Module):
    def __init__(self, d_model=28, h=2, N=2):
        super().__init__()
        self.src_embed = nn.Linear(4 * 8 * 3, d_model)                      # patches 4 high, 8 wide
        pe = torch.zeros(20, d_model)
        position = torch.arange(0, 20).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))
        self.self_attn = nn.ModuleList([MaskableAttention(d_model, h) for _ in range(N)])
        self.norm1 = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(N)])
        self.norm2 = nn.ModuleList([nn.LayerNorm(d_model) for _ in range(N)])
        self.feed_forward = nn.ModuleList(
            [nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))
             for _ in range(N)])
        self.norm = nn.LayerNorm(d_model)
        self.generator = nn.Linear(d_model, 4)

    def forward(self, x):
        b = x.size(0)
        x = x.view(b, 3, 5, 4, 4, 8).permute(0, 2, 4, 1, 3, 5).reshape(b, 20, 96)
        x = self.src_embed(x) + self.pe
        mask = torch.ones(b, 20, 20, device=x.device)
        for i in range(len(self.self_attn)):
            y = self.norm1[i](x)
            x = x + self.self_attn[i](y, y, y, mask)
            x = x + self.feed_forward[i](self.norm2[i](x))
        return self.generator(self.norm(x).mean(1))


RIGHT["mask_of_ones_head_linears"] = (MaskableViT, (3, 20, 32), 4)


# 33. T = D = K = 36, one head, LayerNorm through F.normalize.
class UnitNorm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.g, self.b = nn.Parameter(torch.ones(n)), nn.Parameter(torch.zeros(n))

    def forward(self, x):
        c = x - x.mean(-1, keepdim=True)
        # |c| = sqrt(n * var), so sqrt(n) * c / |c| = c / std
        return F.normalize(c, dim=-1, eps=1e-6) * math.sqrt(x.shape[-1]) * self.g + self.b


class Square(nn.Module):
    def __init__(self):
        super().__init__()
        n = 36
        self.e = nn.Linear(16, n)
        self.p = nn.Parameter(torch.randn(n, n) * .1)
        self.q, self.k, self.v, self.o = [nn.Linear(n, n) for _ in range(4)]
        self.m1, self.m2 = nn.Linear(n, n), nn.Linear(n, n)
        self.n1, self.n2, self.n3 = UnitNorm(n), UnitNorm(n), UnitNorm(n)
        self.h = nn.Linear(n, n)

    def forward(self, x):
        b = x.shape[0]
        x = x.reshape(b, 6, 4, 6, 4).transpose(2, 3).reshape(b, 36, 16)
        x = self.e(x) + self.p
        y = self.n1(x)
        s = self.q(y) @ self.k(y).transpose(1, 2) / 6.0           # sqrt(36)
        x = x + self.o(s.softmax(2) @ self.v(y))
        x = x + self.m2(F.gelu(self.m1(self.n2(x))))
        return self.h(self.n3(x).mean(1))


RIGHT["square_collisions"] = (Square, (1, 24, 24), 36)


# 34. Multispectral: ten channels, oblong patches, GLU, residual wrappers, tuple.
class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        return x + self.fn(x)


class PreNorm(nn.Module):
    def __init__(self, dim, fn):
        super().__init__()
        self.norm, self.fn = nn.LayerNorm(dim), fn

    def forward(self, x):
        return self.fn(self.norm(x))


class GLUFeed(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.inp, self.out = nn.Linear(dim, 2 * hidden), nn.Linear(hidden, dim)

    def forward(self, x):
        return self.out(F.glu(self.inp(x), dim=-1))


class SpectralAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.mix = nn.Linear(dim, dim * 3)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.mix(x).chunk(3, -1)
        q, k, v = [torch.stack(t.split(t.shape[-1] // self.heads, -1), 1) for t in (q, k, v)]
        return self.out(torch.cat(F.scaled_dot_product_attention(q, k, v).unbind(1), -1))


class Spectral(nn.Module):
    def __init__(self, in_chans=10):
        super().__init__()
        self.cut = nn.Conv2d(in_chans, 60, (4, 8), (4, 8))
        self.pos = nn.Parameter(torch.randn(1, 24, 60) * .05)
        self.body = nn.Sequential(
            Residual(PreNorm(60, SpectralAttention(60, 6))), Residual(PreNorm(60, GLUFeed(60, 80))),
            Residual(PreNorm(60, SpectralAttention(60, 6))), Residual(PreNorm(60, GLUFeed(60, 80))),
            nn.LayerNorm(60))
        self.head = nn.Linear(60, 17)

    def forward(self, x):
        x = self.body(self.cut(x).flatten(2).transpose(1, 2) + self.pos).mean(1)
        return self.head(x), x


RIGHT["multispectral_glu_tuple"] = (Spectral, (10, 32, 24), 17)


# 35. Patches by strided slicing; both q and k scaled by d ** -0.25; stack-sums.
class SliceViT(nn.Module):
    def __init__(self, in_chans=1, num_classes=10, p=4, dim=32, heads=4):
        super().__init__()
        self.p, self.heads, self.d = p, heads, dim // heads
        self.fc_in = nn.Linear(in_chans * p * p, dim)
        self.register_buffer("ids", torch.arange(36), persistent=False)
        self.table = nn.Embedding(36, dim)
        self.cls = nn.Parameter(torch.randn(1, 1, dim))
        self.ln = nn.ModuleList(nn.LayerNorm(dim) for _ in range(5))
        self.fc = nn.ModuleList(nn.ModuleList(
            [nn.Linear(dim, 3 * dim), nn.Linear(dim, dim), nn.Linear(dim, 2 * dim), nn.Linear(2 * dim, dim)])
            for _ in range(2))
        self.fc_out = nn.Linear(dim, num_classes)

    @staticmethod
    def softmax(s):
        s = s - s.amax(dim=-1, keepdim=True)
        e = s.exp()
        return e / e.sum(dim=-1, keepdim=True)

    def forward(self, x):
        p = self.p
        x = torch.cat([x[:, :, i::p, j::p] for i in range(p) for j in range(p)], dim=1)   # B, C p p, h, w
        x = self.fc_in(x.flatten(2).transpose(1, 2))
        x = torch.stack([x, self.table(self.ids).expand_as(x)]).sum(0)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1)
        for i, (qkv, o, up, down) in enumerate(self.fc):
            q, k, v = qkv(self.ln[2 * i](x)).unflatten(2, (3, self.heads, self.d)).permute(2, 0, 3, 1, 4)
            q, k = q * self.d ** -0.25, k * self.d ** -0.25
            a = self.softmax(q @ k.transpose(2, 3)) @ v
            x = torch.stack([x, o(a.transpose(1, 2).flatten(2))]).sum(0)
            x = torch.stack([x, down(F.gelu(up(self.ln[2 * i + 1](x))))]).sum(0)
        return self.fc_out(self.ln[4](x[:, 0]))


RIGHT["strided_slices_quarter_scale"] = (SliceViT, (1, 24, 24), 10)


# 36. qk-norm, zero-initialised head.
class QKNormAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, hd = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.q_norm, self.k_norm = nn.LayerNorm(hd), nn.LayerNorm(hd)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, _ = x.shape
        q, k, v = self.qkv(x).view(B, N, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k = self.q_norm(q), self.k_norm(k)
        y = F.scaled_dot_product_attention(q, k, v, scale=q.shape[-1] ** -0.5)
        return self.proj(y.permute(0, 2, 1, 3).reshape(B, N, -1))


def build_qknorm():
    model = Framed([PreNormBlock(48, QKNormAttention(48, 3), 192) for _ in range(2)], 16, 4, 48, 10)
    nn.init.zeros_(model.head.weight)
    nn.init.zeros_(model.head.bias)
    return model


RIGHT["qk_norm_zero_head"] = (build_qknorm, (3, 16, 16), 10)


# 37. Memory-minded: in-place additions, LayerScale 1e-6 through addcmul_.
#     The norm saves only the centred copy, so changing x in place is allowed.
class CentredNorm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w, self.b = nn.Parameter(torch.ones(n)), nn.Parameter(torch.zeros(n))

    def forward(self, x):
        c = x - x.mean(-1, keepdim=True)
        return c * torch.rsqrt(c.square().mean(-1, keepdim=True) + 1e-5) * self.w + self.b


class InplaceViT(nn.Module):
    def __init__(self, D=40, H=5, L=2):
        super().__init__()
        self.H, self.L = H, L
        self.patches = nn.Conv2d(3, D, 8, 8)
        self.pos = nn.Parameter(torch.randn(1, 12, D) * .1)
        self.na, self.nm = (nn.ModuleList(CentredNorm(D) for _ in range(L)) for _ in range(2))
        self.qkv = nn.ModuleList(nn.Linear(D, 3 * D) for _ in range(L))
        self.prj = nn.ModuleList(nn.Linear(D, D) for _ in range(L))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D)) for _ in range(L))
        self.ga = nn.ParameterList(nn.Parameter(torch.full((D,), 1e-6)) for _ in range(L))
        self.gm = nn.ParameterList(nn.Parameter(torch.full((D,), 1e-6)) for _ in range(L))
        self.nf = CentredNorm(D)
        self.cls = nn.Linear(D, 10)

    def attention(self, i, y):
        B, T, D = y.shape
        q, k, v = self.qkv[i](y).view(B, T, 3, self.H, D // self.H).unbind(2)
        out = torch.empty_like(y).view(B, T, self.H, D // self.H)
        for h in range(self.H):
            s = (q[:, :, h] @ k[:, :, h].transpose(1, 2)) * (D // self.H) ** -0.5
            out[:, :, h] = s.softmax(-1) @ v[:, :, h]
        return self.prj[i](out.view(B, T, D))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2).contiguous()
        x += self.pos
        for i in range(self.L):
            x.addcmul_(self.ga[i], self.attention(i, self.na[i](x)))
            x += self.gm[i] * self.mlp[i](self.nm[i](x))
        return self.cls(self.nf(x).mean(1))


RIGHT["inplace_layerscale_tiny"] = (InplaceViT, (3, 24, 32), 10)


# 38. Ported from a functional framework: DenseGeneral kernels, encoderblock_i.
class DenseGeneral(nn.Module):
    def __init__(self, in_shape, out_shape):
        super().__init__()
        self.nin = len(in_shape)
        self.kernel = nn.Parameter(torch.empty(*in_shape, *out_shape))
        self.bias = nn.Parameter(torch.zeros(*out_shape))
        bound = math.sqrt(6.0 / (math.prod(in_shape) + math.prod(out_shape)))
        nn.init.uniform_(self.kernel, -bound, bound)

    def forward(self, x):
        return torch.tensordot(x, self.kernel, dims=self.nin) + self.bias


class MultiHeadDotProductAttention(nn.Module):
    def __init__(self, features, num_heads):
        super().__init__()
        hd = features // num_heads
        self.query = DenseGeneral((features,), (num_heads, hd))
        self.key = DenseGeneral((features,), (num_heads, hd))
        self.value = DenseGeneral((features,), (num_heads, hd))
        self.out = DenseGeneral((num_heads, hd), (features,))

    def forward(self, inputs_q, inputs_kv):
        query, key, value = self.query(inputs_q), self.key(inputs_kv), self.value(inputs_kv)
        query = query / math.sqrt(query.shape[-1])
        weights = torch.einsum("...qhd,...khd->...hqk", query, key)
        weights = F.softmax(weights, dim=-1)
        return self.out(torch.einsum("...hqk,...khd->...qhd", weights, value))


class Encoder1DBlock(nn.Module):
    def __init__(self, features, mlp_dim, num_heads):
        super().__init__()
        self.LayerNorm_0 = nn.LayerNorm(features, eps=1e-6)
        self.MultiHeadDotProductAttention_1 = MultiHeadDotProductAttention(features, num_heads)
        self.LayerNorm_2 = nn.LayerNorm(features, eps=1e-6)
        self.Dense_0 = DenseGeneral((features,), (mlp_dim,))
        self.Dense_1 = DenseGeneral((mlp_dim,), (features,))

    def forward(self, inputs):
        x = self.LayerNorm_0(inputs)
        x = self.MultiHeadDotProductAttention_1(x, x)
        x = x + inputs
        y = self.LayerNorm_2(x)
        y = self.Dense_1(F.gelu(self.Dense_0(y)))
        return x + y


class PortedViT(nn.Module):
    def __init__(self, in_chans=3, num_classes=21, features=64, num_layers=2):
        super().__init__()
        self.embedding = DenseGeneral((in_chans, 8, 8), (features,))
        self.cls = nn.Parameter(torch.zeros(1, 1, features))
        self.pos_embedding = nn.Parameter(torch.empty(1, 17, features).normal_(std=0.02))
        for lyr in range(num_layers):
            self.add_module(f"encoderblock_{lyr}", Encoder1DBlock(features, 2 * features, 4))
        self.num_layers = num_layers
        self.encoder_norm = nn.LayerNorm(features, eps=1e-6)
        self.head = DenseGeneral((features,), (num_classes,))

    def forward(self, x):
        n, c, h, w = x.shape
        x = x.unflatten(2, (h // 8, 8)).unflatten(4, (w // 8, 8)).permute(0, 2, 4, 1, 3, 5)   # n gh gw c p p
        x = self.embedding(x).flatten(1, 2)
        x = torch.concatenate([self.cls.tile(n, 1, 1), x], dim=1)
        x = x + self.pos_embedding
        for lyr in range(self.num_layers):
            x = self.get_submodule(f"encoderblock_{lyr}")(x)
        x = self.encoder_norm(x)
        return self.head(x[:, 0])


RIGHT["ported_dense_general"] = (PortedViT, (3, 32, 32), 21)


# ===========================================================================
# DEPARTS: sound models that leave the standard recipe on purpose.
# ===========================================================================

# 39. Post-norm, as in the first Transformer paper.
class PostNormBlock(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.attn = nn.MultiheadAttention(d, h, batch_first=True)
        self.n1 = nn.LayerNorm(d)
        self.ffn = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.n2 = nn.LayerNorm(d)

    def forward(self, x):
        x = self.n1(x + self.attn(x, x, x, need_weights=False)[0])
        return self.n2(x + self.ffn(x))


def post_norm_vit():
    return Framed([PostNormBlock(48, 4), PostNormBlock(48, 4)], 16, 8, 48, 10, norm=nn.Identity)


DEPARTS["post_norm"] = (post_norm_vit, (3, 32, 32), 10, "post-norm blocks (norm after each addition), no separate last norm")


# 40. ReLU in the MLP (the default of nn.TransformerEncoderLayer).
class ReluViT(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        d = 32
        self.emb = nn.Conv2d(1, d, 7, 7)
        self.cls = nn.Parameter(torch.randn(1, 1, d))
        self.pos = nn.Parameter(torch.randn(17, 1, d) * .1)
        layer = nn.TransformerEncoderLayer(d, 4, 64, dropout=0.0, norm_first=True)      # (T, B, D)
        self.enc = nn.TransformerEncoder(layer, 2, nn.LayerNorm(d), enable_nested_tensor=False)
        self.fc = nn.Linear(d, num_classes)

    def forward(self, x):
        x = self.emb(x).flatten(2).permute(2, 0, 1)
        x = torch.cat([self.cls.expand(-1, x.size(1), -1), x], 0) + self.pos
        return self.fc(self.enc(x)[0])


DEPARTS["relu_mlp"] = (lambda num_classes=10: ReluViT(num_classes), (1, 28, 28), 10, "ReLU instead of GELU in the MLP")


# 41. RMSNorm everywhere.
class RMS(nn.Module):
    def __init__(self, n, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(n))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class RmsViT(nn.Module):
    def __init__(self, d=48, h=3):
        super().__init__()
        self.h = h
        self.emb = nn.Linear(108, d)
        self.pos = nn.Parameter(torch.randn(16, d) * .1)
        self.blocks = nn.ModuleList(nn.ModuleDict({
            "na": RMS(d), "qkv": nn.Linear(d, 3 * d, bias=False), "o": nn.Linear(d, d, bias=False),
            "nf": RMS(d), "f": SwiGLU(d, 2 * d)}) for _ in range(2))
        self.norm = RMS(d)
        self.out = nn.Linear(d, 5)

    def forward(self, x):
        b = x.shape[0]
        x = x.unfold(2, 6, 6).unfold(3, 6, 6).permute(0, 2, 3, 1, 4, 5).reshape(b, 16, 108)
        x = self.emb(x) + self.pos
        for m in self.blocks:
            q, k, v = (t.reshape(b, 16, self.h, -1).transpose(1, 2) for t in m["qkv"](m["na"](x)).chunk(3, -1))
            x = x + m["o"](F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, 16, -1))
            x = x + m["f"](m["nf"](x))
        return self.out(self.norm(x).mean(1))


DEPARTS["rms_norm"] = (RmsViT, (3, 24, 24), 5, "RMSNorm instead of LayerNorm")


# 42. No norm before the head.
class NoLastNormViT(nn.Module):
    def __init__(self, dim=36, heads=4):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, 8, 8)
        self.rows = nn.Embedding(4, dim)
        self.cols = nn.Embedding(4, dim)
        self.blocks = nn.Sequential(*[MyBlock(dim, heads) for _ in range(2)])
        self.head = nn.Linear(dim, 10)

    def forward(self, x):
        x = self.patch_embed(x).permute(0, 2, 3, 1)
        g = torch.arange(4, device=x.device)
        x = x + self.rows(g)[:, None] + self.cols(g)[None, :]
        return self.head(self.blocks(x.flatten(1, 2)).mean(1))


DEPARTS["no_last_norm"] = (NoLastNormViT, (3, 32, 32), 10, "no norm between the last block and the head")


# 43. Heads concatenated, no output projection.
class BareHeads(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = nn.ModuleList(OneHead(dim, dim // heads) for _ in range(heads))

    def forward(self, x):
        return torch.cat([h(x) for h in self.heads], -1)


def no_projection_vit(dim=40, heads=4):
    blocks = [PreNormBlock(dim, BareHeads(dim, heads), 80) for _ in range(2)]
    return Framed(blocks, 16, 10, dim, 8)


DEPARTS["no_output_projection"] = (no_projection_vit, (3, 40, 40), 8, "heads concatenated without an output projection")


# 44. Parallel blocks: x + attn(norm(x)) + mlp(norm(x)), one fused input matrix.
class ParallelBlock(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.heads, self.split = heads, (dim, dim, dim, hidden)
        self.norm = nn.LayerNorm(dim)
        self.fused = nn.Linear(dim, 3 * dim + hidden)
        self.attn_out, self.ff_out = nn.Linear(dim, dim), nn.Linear(hidden, dim)

    def forward(self, x):
        q, k, v, f = self.fused(self.norm(x)).split(self.split, dim=-1)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        return x + self.attn_out(a) + self.ff_out(F.gelu(f))


class ParallelViT(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, 8, 8)
        self.register_buffer("pos", sincos_2d(4, 4, dim))
        self.blocks = nn.ModuleList(ParallelBlock(dim, 4, 96) for _ in range(3))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 30)

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2) + self.pos
        for b in self.blocks:
            x = b(x)
        return self.head(self.norm(x).mean(1))


DEPARTS["parallel_blocks"] = (ParallelViT, (3, 32, 32), 30, "attention and MLP in parallel from one norm")

"""The exercises of chapter 14: right answers however they are written, and wrong ones that no check declares."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.course.answers import right, wrong
from vitbook.exercises.chapter_14 import _Attention, _packing_mask, _rotate, _shifted_mask

# 14.1 -----------------------------------------------------------------------------------------------------


@right("14.1")
def block_by_block(lengths, T):
    mask, start = torch.eye(T, dtype=torch.bool), 0
    for length in lengths:
        mask[start : start + length, start : start + length] = True
        start += length
    return mask


wrong("14.1", "Expected a tensor of shape (12, 12), got (10, 10)")(
    lambda lengths, T: _packing_mask(lengths, sum(lengths))
)
wrong("14.1", "Expected a tensor of type torch.bool, got torch.float32")(lambda *case: _packing_mask(*case).float())
wrong("14.1", "allows 104 pairs that must not attend to each other, and forbids 0 that may")(
    lambda lengths, T: torch.ones(T, T, dtype=torch.bool)
)

# 14.2 -----------------------------------------------------------------------------------------------------


@right("14.2")
def by_the_image(H, W, w, s):
    """Two tokens share a window of the image, cut s later, without any wrapping."""
    cells = {(r, c): ((r - s) // w, (c - s) // w) for r in range(H) for c in range(W)}
    masks = []
    for top in range(0, H, w):
        for left in range(0, W, w):
            held = [cells[(top + i + s) % H, (left + j + s) % W] for i in range(w) for j in range(w)]
            masks.append([[a == b for b in held] for a in held])
    return torch.tensor(masks)


@right("14.2")
def nine_regions(H, W, w, s):
    image = torch.zeros(H, W)
    for n, rows in enumerate((slice(0, -w), slice(-w, -s), slice(-s, None))):
        for m, columns in enumerate((slice(0, -w), slice(-w, -s), slice(-s, None))):
            image[rows, columns] = 3 * n + m
    cut = image.unfold(0, w, w).unfold(1, w, w).reshape(-1, w * w)
    return cut[:, :, None] == cut[:, None]


wrong("14.2", "Expected a tensor of shape (6, 9, 9), got (54, 54)")(
    lambda H, W, w, s: torch.ones(H * W, H * W, dtype=torch.bool)
)
wrong("14.2", "and forbids")(
    lambda H, W, w, s: torch.eye(w * w, dtype=torch.bool).expand(H * W // w**2, -1, -1).clone()
)

# 14.3 -----------------------------------------------------------------------------------------------------


@right("14.3")
class ByHand(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.h = num_heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(dim // num_heads, 1e-6), nn.RMSNorm(dim // num_heads, 1e-6)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x, places):
        B, T, D = x.shape
        q, k, v = self.qkv(x).reshape(B, T, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4)
        q, k = _rotate(self.q_norm(q), places), _rotate(self.k_norm(k), places)
        weights = (q @ k.mT / (D // self.h) ** 0.5).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(B, T, D))


@wrong("14.3", "Your qkv has a bias")
class WithBias(_Attention):
    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        self.qkv = nn.Linear(dim, 3 * dim)


@wrong("14.3", "q_norm normalises (48,) features: a head has 8")
class OverTheWidth(_Attention):
    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        self.q_norm = nn.RMSNorm(dim)


@wrong("14.3", "Expected an nn.RMSNorm named k_norm, got a LayerNorm")
class OtherNorm(_Attention):
    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        self.k_norm = nn.LayerNorm(dim // num_heads)


@wrong("14.3", "one and the same")
class SharedNorm(_Attention):
    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        self.k_norm = self.q_norm


@wrong("14.3", "Expected q_norm with eps=1e-6, got 0.01")
class OtherEps(_Attention):
    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        self.q_norm = nn.RMSNorm(dim // num_heads, eps=1e-2)


@wrong("14.3", "q_norm has no gains")
class NoGains(_Attention):
    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        self.q_norm = nn.RMSNorm(dim // num_heads, elementwise_affine=False)


@wrong("14.3", "Expected a linear layer named proj from 48 to 48 features: there is none")
class NoProjection(_Attention):
    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        del self.proj


@wrong("14.3", "Expected a linear layer named qkv from 48 to 144 features: yours goes from 48 to 48")
class OneOfThree(_Attention):
    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        self.qkv = nn.Linear(dim, dim, bias=False)


@wrong("14.3", "by no mistake that I know")
class ByThePlacesOfOthers(_Attention):
    def forward(self, x, places):
        return super().forward(x, places.flip(0))


wrong("14.3", "Expected an nn.Module")(lambda dim, num_heads: dim)


def test_the_rotation_depends_on_the_offset_alone_and_the_values_do_not_matter():
    layer, x, places = _Attention(24, 2), torch.randn(2, 9, 24), torch.randn(9, 2)
    moved = places + torch.tensor([3.0, -7.0])
    assert torch.allclose(layer(x, places), layer(x, moved), atol=1e-5)
    assert not torch.allclose(layer(x, places), layer(x, places.flip(1)), atol=1e-3)


@pytest.mark.parametrize("H, W, w, s", [(6, 9, 3, 1), (14, 14, 7, 3), (8, 12, 4, 2)])
def test_the_mask_makes_windows_of_the_image_of_windows_of_the_rolled_grid(H, W, w, s):
    x = torch.randn(1, H, W, 5)

    def windows(x):
        return x.reshape(1, H // w, w, W // w, w, -1).transpose(2, 3).reshape(-1, w * w, x.shape[-1])

    rolled = windows(x.roll((-s, -s), (1, 2)))
    mine = F.scaled_dot_product_attention(rolled, rolled, rolled, attn_mask=_shifted_mask(H, W, w, s))
    row, column = (
        (torch.arange(H) - s).div(w, rounding_mode="floor"),
        (torch.arange(W) - s).div(w, rounding_mode="floor"),
    )
    cell = (100 * row[:, None] + column).flatten()
    flat = x.reshape(1, H * W, 5)
    full = F.scaled_dot_product_attention(flat, flat, flat, attn_mask=cell[:, None] == cell).reshape(1, H, W, 5)
    assert torch.allclose(windows(full.roll((-s, -s), (1, 2))), mine, atol=1e-5)

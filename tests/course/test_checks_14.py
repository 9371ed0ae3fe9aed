"""The exercises of chapter 14: right answers however they are written, and wrong ones that no check declares."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.course.answers import WRONG, remade
from vitbook.exercises.chapter_14 import _Attention, _shifted_mask

# 14.1 and 14.2 --------------------------------------------------------------------------------------------

WRONG["14.1"] |= {
    "allows 104 pairs that must not attend to each other, and forbids 0": lambda _, T: torch.ones(T, T) > 0
}
WRONG["14.2"] |= {"and forbids": lambda H, W, w, s: torch.eye(w * w, dtype=torch.bool).repeat(H * W // w**2, 1, 1)}

# 14.3 -----------------------------------------------------------------------------------------------------

WRONG["14.3"] |= {
    "Your qkv has a bias": remade(_Attention, qkv=lambda m, D, h: nn.Linear(D, 3 * D)),
    "q_norm normalises (48,) features: a head has 8": remade(_Attention, q_norm=lambda m, D, h: nn.RMSNorm(D)),
    "RMSNorm named k_norm, got a LayerNorm": remade(_Attention, k_norm=lambda m, D, h: nn.LayerNorm(D // h)),
    "Expected an nn.RMSNorm named k_norm, there is none": remade(_Attention, k_norm=None),
    "q_norm and k_norm are one and the same": remade(_Attention, k_norm=lambda m, D, h: m.q_norm),
    "q_norm with eps=1e-6, got 0.01": remade(_Attention, q_norm=lambda m, D, h: nn.RMSNorm(D // h, eps=1e-2)),
    "q_norm has no gains": remade(_Attention, q_norm=lambda m, D, h: nn.RMSNorm(D // h, elementwise_affine=False)),
    "Expected a linear layer named proj from 48 to 48 features: there is none": remade(_Attention, proj=None),
    "named qkv from 48 to 144 features: yours goes": (
        remade(_Attention, qkv=lambda m, D, h: nn.Linear(D, D, bias=False))
    ),
}


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
    row, column = ((torch.arange(side) - s).div(w, rounding_mode="floor") for side in (H, W))
    cell = (100 * row[:, None] + column).flatten()
    flat = x.reshape(1, H * W, 5)
    full = F.scaled_dot_product_attention(flat, flat, flat, attn_mask=cell[:, None] == cell).reshape(1, H, W, 5)
    assert torch.allclose(windows(full.roll((-s, -s), (1, 2))), mine, atol=1e-5)

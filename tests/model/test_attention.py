"""Attention: equal to torch's own, in every mode, recorded or not."""

import pytest
import torch
from torch import nn

from vitnb import MultiHeadAttention, ViT, ViTConfig, record_attention

B, T, D, H = 3, 17, 48, 6


@pytest.mark.parametrize("qkv_bias", [True, False])
def test_equals_torchs_multihead_attention_on_copied_weights(qkv_bias):
    ours, theirs = MultiHeadAttention(D, H, qkv_bias), nn.MultiheadAttention(D, H, bias=qkv_bias, batch_first=True)
    theirs.in_proj_weight.data.copy_(ours.qkv.weight)
    theirs.out_proj.weight.data.copy_(ours.proj.weight)
    if qkv_bias:
        nn.init.normal_(ours.qkv.bias)
        theirs.in_proj_bias.data.copy_(ours.qkv.bias)
        theirs.out_proj.bias.data.copy_(ours.proj.bias)
    else:
        nn.init.zeros_(ours.proj.bias)  # torch's bias=False drops the output bias too
    x = torch.randn(B, T, D)
    with record_attention(ours) as maps:
        ours(x)
    expected, weights = theirs(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(ours(x), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(maps[0], weights, atol=1e-5, rtol=0)


@pytest.mark.parametrize("training", [True, False])
def test_recorded_attention_times_values_is_what_the_fused_kernel_gives(training):
    model = ViT(ViTConfig(depth=3)).train(training)
    layer, x = model.blocks[1].attention, torch.randn(B, T, 64)
    fused = layer(x)
    with record_attention(layer) as maps:
        explicit = layer(x)
    torch.testing.assert_close(explicit, fused, atol=1e-5, rtol=0)
    v = layer.qkv(x)[..., 128:].reshape(B, T, 4, 16).transpose(1, 2)  # (B, h, T, D/h)
    mixed = (maps[0] @ v).transpose(1, 2).reshape(B, T, 64)
    torch.testing.assert_close(layer.proj(mixed), fused, atol=1e-5, rtol=0)


@pytest.mark.parametrize("training", [True, False])
def test_recording_gives_one_map_a_layer_and_the_same_logits(training):
    model = ViT(ViTConfig(depth=3)).train(training)
    images = torch.randn(2, 1, 28, 28)
    expected = model(images)
    with record_attention(model) as maps:
        logits = model(images)
    assert [tuple(m.shape) for m in maps] == [(2, 4, 50, 50)] * 3
    torch.testing.assert_close(logits, expected, atol=1e-5, rtol=0)
    for rows in maps:
        torch.testing.assert_close(rows.sum(dim=-1), torch.ones(2, 4, 50))


def test_recording_ends_with_the_block_also_after_an_error_and_may_be_nested():
    model = ViT(ViTConfig(depth=1))
    with pytest.raises(ZeroDivisionError), record_attention(model):
        raise ZeroDivisionError
    assert model.blocks[0].attention.record is None
    images = torch.randn(1, 1, 28, 28)
    with record_attention(model) as outer:
        with record_attention(model) as inner:
            model(images)
        model(images)
    assert len(outer) == len(inner) == 1


def test_attention_dropout_acts_in_training_only():
    layer, x = MultiHeadAttention(D, H, attn_dropout=0.5), torch.randn(B, T, D)
    assert not torch.allclose(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_bfloat16_stays_finite():
    layer = MultiHeadAttention(D, H).bfloat16()
    assert layer(100 * torch.randn(B, T, D).bfloat16()).isfinite().all()

"""Blocks: equal to torch's encoder layer, and the identity when their branches are silent."""

import pytest
import torch
from torch import nn

from vitnb import MLP, PostNormBlock, PreNormBlock

B, T, D, H = 3, 17, 48, 6


def copied(block, norm_first):
    """torch's own layer with the weights of ours."""
    layer = nn.TransformerEncoderLayer(
        D, H, 4 * D, dropout=0.0, activation="gelu", layer_norm_eps=1e-6, batch_first=True, norm_first=norm_first
    )
    for theirs, ours in [
        (layer.self_attn.out_proj, block.attention.proj),
        (layer.linear1, block.mlp.fc1),
        (layer.linear2, block.mlp.fc2),
        (layer.norm1, block.norm1),
        (layer.norm2, block.norm2),
    ]:
        theirs.load_state_dict(ours.state_dict())
    layer.self_attn.in_proj_weight.data.copy_(block.attention.qkv.weight)
    layer.self_attn.in_proj_bias.data.copy_(block.attention.qkv.bias)
    return layer


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("cls, norm_first", [(PreNormBlock, True), (PostNormBlock, False)])
def test_equals_torchs_encoder_layer_on_copied_weights(cls, norm_first, training):
    block = cls(D, H).train(training)
    for p in block.parameters():
        nn.init.normal_(p, std=0.2)  # gains and biases too: at 1 and 0 they would hide mistakes
    x = torch.randn(B, T, D)
    layer = copied(block, norm_first).train(training)
    torch.testing.assert_close(block(x), layer(x), atol=1e-5, rtol=0)
    assert not torch.allclose(block(x), copied(block, not norm_first)(x), atol=1e-2)


def test_mlp_treats_tokens_alike_and_drops_after_both_layers():
    mlp, x = MLP(8, 12, dropout=0.9), torch.randn(4, 50, 8)
    mlp.eval()
    torch.testing.assert_close(mlp(x)[:, 3], mlp(x[:, 3:4])[:, 0])
    expected = mlp.fc2(nn.functional.gelu(mlp.fc1(x)))
    torch.testing.assert_close(mlp(x), expected)
    mlp.train()
    assert (mlp(x) == 0).float().mean() == pytest.approx(0.9, abs=0.05)

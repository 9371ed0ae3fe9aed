"""Positions: what they add, and how a table stretches."""

import torch

from vitnb import SinCosPositions, ViT, ViTConfig, resize_positions
from vitnb.positions import sincos_table


def test_sincos_similarity_falls_with_distance_and_shifts_are_rotations():
    table = sincos_table((7, 5), 32)[0].reshape(7, 5, 32)
    centre = (table @ table[3, 2]).flatten()
    row, col = torch.meshgrid(torch.arange(7), torch.arange(5), indexing="ij")
    distance = ((row - 3) ** 2 + (col - 2) ** 2).sqrt().flatten()
    assert torch.corrcoef(torch.stack([centre, distance]))[0, 1] < -0.9
    # The product of two codes depends on their distance alone.
    torch.testing.assert_close(table[0, 0] @ table[2, 1], table[4, 3] @ table[6, 4])


def test_sincos_leaves_prefix_tokens_alone_and_is_not_stored():
    positions = SinCosPositions((2, 3), 8, num_prefix_tokens=1)
    x = torch.randn(2, 7, 8)
    assert torch.equal(positions(x)[:, 0], x[:, 0])
    assert not torch.equal(positions(x)[:, 1], x[:, 1])
    assert not positions.state_dict() and not list(positions.parameters())


def test_resize_to_the_same_grid_is_the_identity():
    table = torch.randn(1, 1 + 6, 8)
    assert torch.equal(resize_positions(table, (2, 3), (2, 3)), table)


def test_without_positions_a_mean_pooled_model_ignores_the_order_of_the_patches():
    torch.manual_seed(0)
    images = torch.randn(2, 1, 28, 28)
    shuffled = images.reshape(2, 1, 7, 4, 28)[:, :, torch.randperm(7)].reshape(2, 1, 28, 28)  # rows of patches
    for pos_embed, ignores in [("none", True), ("learned", False), ("sincos", False)]:
        model = ViT(ViTConfig(depth=2, pos_embed=pos_embed, global_pool="mean", pos_std=1.0)).eval()
        same = torch.allclose(model(images), model(shuffled), atol=1e-5)
        assert same == ignores, pos_embed

"""Patches: exact inverses, the right order, and the convolution that is a linear layer."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from vitnb import ConvStem, PatchEmbedding, patchify, unpatchify

DTYPES = [torch.uint8, torch.int64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.bool]


@settings(max_examples=200, deadline=None)
@given(
    batch=st.integers(1, 3),
    channels=st.integers(1, 5),
    rows=st.integers(1, 5),
    cols=st.integers(1, 5),
    patch=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    dtype=st.sampled_from(DTYPES),
    seed=st.integers(0, 2**31),
)
def test_unpatchify_inverts_patchify_exactly(batch, channels, rows, cols, patch, dtype, seed):
    size = (rows * patch[0], cols * patch[1])
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (batch, channels, *size), generator=generator).to(dtype)
    patches = patchify(images, patch)
    assert patches.shape == (batch, rows * cols, channels * patch[0] * patch[1])
    assert patches.dtype == dtype
    assert torch.equal(unpatchify(patches, patch, size, channels), images)
    assert torch.equal(patchify(unpatchify(patches, patch, size, channels), patch), patches)


def test_patches_run_row_by_row_and_are_laid_out_like_a_kernel():
    images = torch.arange(2 * 3 * 8 * 12).reshape(2, 3, 8, 12)
    patches = patchify(images, 4)
    assert torch.equal(patches[1, 0], images[1, :, :4, :4].flatten())
    assert torch.equal(patches[1, 1], images[1, :, :4, 4:8].flatten())  # right of patch 0
    assert torch.equal(patches[1, 3], images[1, :, 4:, :4].flatten())  # three patches a row


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 4), st.tuples(st.integers(1, 4), st.integers(1, 4)), st.tuples(st.integers(1, 5), st.integers(1, 5))
)
def test_convolution_equals_unfold_and_linear(channels, grid, patch):
    size = (grid[0] * patch[0], grid[1] * patch[1])
    embed = PatchEmbedding(size, patch, channels, 7)
    images = torch.randn(2, channels, *size)
    weight = embed.proj.weight.flatten(1)  # (D, C*p*p)
    by_convolution = F.conv2d(images, embed.proj.weight, embed.proj.bias, patch).flatten(2).mT  # (B, N, D)
    by_unfold = F.linear(F.unfold(images, patch, stride=patch).transpose(1, 2), weight, embed.proj.bias)
    torch.testing.assert_close(embed(images), by_convolution, atol=1e-5, rtol=0)
    torch.testing.assert_close(embed(images), by_unfold, atol=1e-5, rtol=0)


def test_the_projection_is_a_convolution_that_the_embedding_calls():
    """A hook on it fires with the tokens' numbers, and what is put in its place counts."""
    torch.manual_seed(0)
    embed, images = PatchEmbedding((8, 12), (4, 6), 2, 5), torch.randn(3, 2, 8, 12)
    seen = []
    with embed.proj.register_forward_hook(lambda proj, given, out: seen.append(out)):
        tokens = embed(images)
    assert len(seen) == 1 and seen[0].shape == (3, 4, 5)
    assert torch.equal(seen[0], tokens)

    class LowRank(nn.Module):  # as LoRA wraps a layer
        def __init__(self, proj):
            super().__init__()
            self.proj, self.down, self.up = proj, nn.Conv2d(2, 1, (4, 6), (4, 6)), nn.Conv2d(1, 5, 1)

        def forward(self, x):
            return self.proj(x) + self.up(self.down(x)).flatten(2).transpose(1, 2)

    embed.proj = LowRank(embed.proj)
    expected = tokens + embed.proj.up(embed.proj.down(images)).flatten(2).transpose(1, 2)
    torch.testing.assert_close(embed(images), expected)
    embed.proj = nn.Identity()
    assert torch.equal(embed(images), images.flatten(2).transpose(1, 2))


def test_the_projection_is_torchs_convolution_to_its_first_random_numbers():
    torch.manual_seed(0)
    theirs, state = nn.Conv2d(3, 8, (4, 2), (4, 2)), torch.get_rng_state()
    torch.manual_seed(0)
    ours, images = PatchEmbedding((8, 6), (4, 2), 3, 8).proj, torch.randn(2, 3, 8, 6)
    assert isinstance(ours, nn.Conv2d) and list(ours.state_dict()) == list(theirs.state_dict())
    assert all(torch.equal(p, q) for p, q in zip(ours.parameters(), theirs.parameters(), strict=True))
    torch.testing.assert_close(ours(images), theirs(images).flatten(2).mT)
    torch.manual_seed(0)
    PatchEmbedding((8, 6), (4, 2), 3, 8)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_stem_makes_no_layer_that_it_does_not_keep(monkeypatch):
    made = []
    reset = nn.Conv2d.reset_parameters
    monkeypatch.setattr(nn.Conv2d, "reset_parameters", lambda conv: made.append(conv) or reset(conv))
    stem = ConvStem(16, 4, 1, 8)
    assert set(made) == {layer for layer in stem.modules() if isinstance(layer, nn.Conv2d)}


def test_the_first_random_numbers_of_a_stem_are_those_of_the_stored_results():
    """They come after as many as the projection of the same patches takes."""
    torch.manual_seed(0)
    PatchEmbedding(28, 7, 1, 64)
    first = nn.Conv2d(1, 16, 3, 2, 1, bias=False).weight
    torch.manual_seed(0)
    stem = ConvStem(28, 7, 1, 64)
    assert torch.equal(stem.layers[0].weight, first)
    assert list(stem.state_dict())[:2] == ["proj.weight", "proj.bias"], "the order of initialise and of checkpoints"


@pytest.mark.parametrize("size, patch", [(28, 7), (28, 4), (28, 14), ((96, 64), 16), (8, 2), (6, 1)])
def test_stem_has_a_token_for_each_patch(size, patch):
    if patch == 1:
        with pytest.raises(ValueError, match="use patch_size 2"):
            ConvStem(size, patch)
        return
    embed = ConvStem(size, patch, 2, 16)
    height, width = embed.img_size
    tokens = embed(torch.randn(3, 2, height, width))
    assert tokens.shape == (3, *PatchEmbedding(size, patch, 2, 16)(torch.randn(3, 2, height, width)).shape[1:])


def test_stem_shows_a_pixel_to_its_token_and_the_neighbours():
    torch.manual_seed(0)
    embed, images = ConvStem(32, 8, 1, 16).eval(), torch.randn(1, 1, 32, 32)
    changed = images.clone()
    changed[0, 0, 7, 8] += 1  # the last row of token row 0, the first column of token column 1
    moved = (embed(changed) - embed(images)).abs().sum(dim=2)[0] > 1e-6
    assert moved.view(4, 4).nonzero().tolist() == [[0, 1], [1, 1]]


def test_images_do_not_mix_in_a_stem_in_eval_mode():
    torch.manual_seed(0)
    embed, images = ConvStem(28, 7, 1, 16), torch.randn(4, 1, 28, 28)
    assert not torch.allclose(embed(images)[:1], embed(images[:1]), atol=1e-3)
    embed.eval()
    torch.testing.assert_close(embed(images)[:1], embed(images[:1]))

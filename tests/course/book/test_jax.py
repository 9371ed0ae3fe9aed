"""The appendix's model in JAX beyond what the cells of book/jax.ipynb prove when they run.

They compare the logits of all kinds of models with PyTorch's, see most traps, and train; the classes here are theirs.
Images have three channels: one hides a wrong patch order.
"""

import numpy as np
import pytest
import torch
from torch import nn

REASON = "JAX is not installed: make jax"
pytest.importorskip("jax", reason=REASON)
nnx = pytest.importorskip("flax.nnx", reason=REASON)
pytest.importorskip("optax", reason=REASON)

from experiments.jax_step import appendix, step_of_jax, step_of_torch  # noqa: E402  (after the skips)
from vitnb import ViT, ViTConfig, data  # noqa: E402

BOOK = appendix()
CONFIG = ViTConfig(32, 8, in_chans=3, embed_dim=96, depth=2, num_heads=3, num_classes=7)


def both(config):
    """A vitnb model with every parameter perturbed, its copy in JAX, and images."""
    torch.manual_seed(0)
    theirs = BOOK["jittered"](ViT(config))
    ours = BOOK["from_vitnb"](theirs, BOOK["ViT"](config, nnx.Rngs(0)))
    return theirs, ours, torch.randn(3, config.in_chans, config.img_size, config.img_size)


def changed(config, **changes):
    return ViTConfig(**config.to_dict() | changes)


def test_dropout_is_at_the_same_places():
    """At dropout rate 1 - tiny everything dropped is 0: what is left says where dropout acts."""
    config = ViTConfig(img_size=8, patch_size=4, in_chans=3, embed_dim=8, depth=1, num_heads=2)

    def kept(**rates):
        theirs, ours, images = both(changed(config, **rates))
        ours.train()
        return theirs.train()(images).detach().numpy(), np.asarray(ours(BOOK["nhwc"](images)))

    theirs, ours = kept(dropout=0.999_999)  # the stream is empty: logits are norm's and head's biases
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    theirs, ours = kept(attn_dropout=0.999_999)  # attention gives proj's bias only
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_a_wrong_shape_is_not_broadcast():
    theirs, _, _ = both(CONFIG)
    with pytest.raises(AssertionError, match="head"):
        BOOK["from_vitnb"](theirs, BOOK["ViT"](changed(theirs.config, num_classes=9), nnx.Rngs(0)))


def test_the_copy_shares_no_memory():
    """jnp.asarray may: then PyTorch's optimizer, which works in place, would train both models."""
    theirs, ours, images = both(CONFIG)
    before = np.asarray(ours(BOOK["nhwc"](images)))
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.zero_()
    np.testing.assert_array_equal(np.asarray(ours(BOOK["nhwc"](images))), before)


def test_twenty_losses_follow_pytorch():
    torch.manual_seed(0)
    losses = BOOK["twenty"](data.load(), ViTConfig(patch_size=7, depth=2, pos_std=1.0))
    difference = np.abs(losses[:, 1] / losses[:, 0] - 1).max()
    print(f"\nlargest relative difference of 20 losses: {difference:.1e}")
    assert losses.shape == (20, 2) and difference < 1e-4
    assert losses[-1, 0] < 0.95 * losses[0, 0]


def test_what_is_timed_is_the_same_step():
    torch.manual_seed(0)
    model = ViT(ViTConfig(img_size=16, patch_size=8, embed_dim=16, depth=1, num_heads=2))
    images, labels = torch.randn(8, 1, 16, 16), torch.arange(8)
    kept = []
    names = BOOK | {"from_vitnb": lambda *given: kept.append(BOOK["from_vitnb"](*given)) or kept[0]}
    ours, theirs = step_of_jax(names, model, images, labels), step_of_torch(BOOK, model, images, labels)
    before = BOOK["worst"](model, kept[0], images)
    for _ in range(3):
        ours()
    apart = BOOK["worst"](model, kept[0], images)
    for _ in range(3):
        theirs()
    assert before < 1e-5 and apart > 1e-3 and BOOK["worst"](model, kept[0], images) < 1e-4


def test_epsilon_slips_through_a_model_and_not_through_its_own_test():
    """Every layer norm against PyTorch's, on a token that hardly varies and on one far from 0."""
    config = changed(CONFIG, pos_std=1.0)
    theirs, ours, images = both(config)
    norms = [n for block in ours.blocks.layers for n in (block.norm1, block.norm2)] + [ours.norm]
    modules = [m for m in theirs.modules() if isinstance(m, nn.LayerNorm)]
    assert len(norms) == len(modules) == 2 * config.depth + 1
    flat = 1e-3 * torch.randn(3, config.embed_dim)

    def apart():
        return [
            max(np.abs(np.asarray(n(x.numpy())) - m(x).detach().numpy()).max() for x in (flat, flat + 1))
            for n, m in zip(norms, modules, strict=True)
        ]

    assert max(apart()) < 1e-3
    assert theirs.embed(images).var(-1).mean() > 1  # so that an epsilon of 1e-5 hardly counts
    for norm in norms:
        norm.epsilon = 1e-5
    assert BOOK["worst"](theirs, ours, images) < 2e-5  # as good as nothing
    assert min(apart()) > 0.1
    for norm in norms:
        norm.epsilon, norm.use_fast_variance = 1e-6, True
    assert BOOK["worst"](theirs, ours, images) < 1e-5  # nothing
    assert min(apart()) > 1e-3


def test_our_patch_embedding_is_flaxs_convolution():
    _, ours, images = both(CONFIG)
    conv = nnx.Conv(3, 96, (8, 8), strides=8, padding="VALID", rngs=nnx.Rngs(0))
    conv.kernel[...] = ours.patch_embed.proj.kernel[...].reshape(8, 8, 3, 96)
    conv.bias[...] = ours.patch_embed.proj.bias[...]
    x = BOOK["nhwc"](images)
    np.testing.assert_allclose(conv(x).reshape(3, 16, 96), ours.patch_embed(x), atol=1e-5)


def test_the_position_table_starts_with_the_configs_standard_deviation():
    for std in (0.02, 1.0):
        model = BOOK["ViT"](changed(CONFIG, pos_std=std), nnx.Rngs(0))
        assert abs(float(model.positions[...].std()) / std - 1) < 0.1

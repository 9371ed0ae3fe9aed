"""The appendix's model in JAX: PyTorch's logits and losses from the same weights, and each trap seen.

The classes are those of book/jax.ipynb itself. Images have three channels: one hides a wrong patch order.
"""

import numpy as np
import pytest
import torch
from torch import nn

REASON = "JAX is not installed: make jax"
jax = pytest.importorskip("jax", reason=REASON)
linen = pytest.importorskip("flax.linen", reason=REASON)
nnx = pytest.importorskip("flax.nnx", reason=REASON)
pytest.importorskip("optax", reason=REASON)
jnp = jax.numpy

from experiments.jax_step import appendix, step_of_jax, step_of_torch  # noqa: E402  (after the skips)
from vitbook import results  # noqa: E402
from vitbook.textbook import textbook_vit  # noqa: E402
from vitnb import MultiHeadAttention, ViT, ViTConfig, data  # noqa: E402

BOOK = appendix()
SIZES = {
    "28/4": ViTConfig(in_chans=3, depth=3),
    "28/7": ViTConfig(in_chans=3, patch_size=7, depth=2, mlp_ratio=4.0, pos_std=1.0),
    "32/8": ViTConfig(32, 8, in_chans=3, embed_dim=96, depth=2, num_heads=3, num_classes=7),
}


def both(config, seed=0):
    """A vitnb model with every parameter perturbed, its copy in JAX, and images."""
    torch.manual_seed(seed)
    theirs = BOOK["jittered"](ViT(config))
    ours = BOOK["from_vitnb"](theirs, BOOK["ViT"](config, nnx.Rngs(0)))
    return theirs, ours, torch.randn(3, config.in_chans, config.img_size, config.img_size)


def changed(config, **changes):
    return ViTConfig(**config.to_dict() | changes)


@pytest.mark.parametrize(
    "size, norm, pool",
    [("28/4", "pre", "cls"), ("28/4", "post", "mean"), ("28/7", "pre", "mean"), ("32/8", "post", "cls")],
)
def test_the_same_weights_give_the_same_logits(size, norm, pool):
    theirs, ours, images = both(changed(SIZES[size], norm=norm, global_pool=pool))
    assert all((p != 0).all() and (p != 1).all() for p in theirs.parameters())
    difference = BOOK["worst"](theirs, ours, images)
    print(f"\n{size} {norm} {pool}: {difference:.1e}")
    assert difference < 1e-5
    assert BOOK["worst"](theirs, ours, images.flip(0)) < 1e-5


def test_the_textbooks_own_model():
    torch.manual_seed(0)
    theirs = BOOK["jittered"](textbook_vit())
    ours = BOOK["textbook_vit"](theirs.config, nnx.Rngs(0))
    assert BOOK["count"](ours) == 6_457_866
    assert ours.blocks.layers[0].attention.proj.bias is None
    assert BOOK["worst"](theirs, BOOK["from_vitnb"](theirs, ours), torch.rand(4, 1, 96, 96)) < 1e-5


def test_the_trained_model_of_the_book():
    theirs = results.trained().eval()
    ours = BOOK["from_vitnb"](theirs, BOOK["ViT"](theirs.config, nnx.Rngs(0)))
    clothes = data.load()
    images = clothes.normalize(clothes.test_images[:64])
    logits = theirs(images).detach().numpy()
    np.testing.assert_allclose(np.asarray(ours(BOOK["nhwc"](images))), logits, atol=1e-5 * np.abs(logits).max())


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
    theirs, _, _ = both(SIZES["32/8"])
    with pytest.raises(AssertionError, match="head"):
        BOOK["from_vitnb"](theirs, BOOK["ViT"](changed(theirs.config, num_classes=9), nnx.Rngs(0)))


def test_the_copy_shares_no_memory():
    """jnp.asarray may: then PyTorch's optimizer, which works in place, would train both models."""
    theirs, ours, images = both(SIZES["32/8"])
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


# The traps, each by a comparison that fails, and fixed


def test_tanh_gelu_is_seen():
    theirs, ours, images = both(SIZES["28/7"])
    for block in ours.blocks.layers:
        block.mlp.activation = jax.nn.gelu
    assert BOOK["worst"](theirs, ours, images) > 1e-4


def test_epsilon_slips_through_a_model_and_not_through_its_own_test():
    """Every layer norm against PyTorch's, on a token that hardly varies and on one far from 0."""
    config = changed(SIZES["32/8"], pos_std=1.0)
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


@pytest.mark.parametrize("channels, seen", [(1, False), (3, True)])
def test_a_wrong_patch_order_needs_channels(channels, seen):
    theirs, ours, images = both(changed(SIZES["28/7"], in_chans=channels))
    weight = theirs.patch_embed.proj.weight.detach().numpy()
    ours.patch_embed.proj.kernel[...] = jnp.asarray(weight.reshape(len(weight), -1).T)
    assert (BOOK["worst"](theirs, ours, images) > 0.1) == seen


def test_our_patch_embedding_is_flaxs_convolution():
    _, ours, images = both(SIZES["32/8"])
    conv = nnx.Conv(3, 96, (8, 8), strides=8, padding="VALID", rngs=nnx.Rngs(0))
    conv.kernel[...] = ours.patch_embed.proj.kernel[...].reshape(8, 8, 3, 96)
    conv.bias[...] = ours.patch_embed.proj.bias[...]
    x = BOOK["nhwc"](images)
    np.testing.assert_allclose(conv(x).reshape(3, 16, 96), ours.patch_embed(x), atol=1e-5)


@pytest.mark.parametrize("swapped", [False, True])
def test_heads_of_the_stock_layer(swapped):
    torch.manual_seed(0)
    attention, x = MultiHeadAttention(12, 3), torch.randn(2, 5, 12)
    stock = nnx.MultiHeadAttention(3, 12, decode=False, rngs=nnx.Rngs(0))
    for part, w, b in zip(
        (stock.query, stock.key, stock.value),
        attention.qkv.weight.detach().chunk(3),
        attention.qkv.bias.detach().chunk(3),
        strict=True,
    ):
        kernel = w.T.reshape(12, 4, 3).mT if swapped else w.T.reshape(12, 3, 4)
        part.kernel[...], part.bias[...] = jnp.asarray(kernel.numpy()), jnp.asarray(b.reshape(3, 4).numpy())
    stock.out.kernel[...] = jnp.asarray(attention.proj.weight.detach().T.reshape(3, 4, 12).numpy())
    stock.out.bias[...] = jnp.asarray(attention.proj.bias.detach().numpy())
    difference = np.abs(np.asarray(stock(jnp.asarray(x.numpy()))) - attention(x).detach().numpy()).max()
    assert difference > 0.1 if swapped else difference < 1e-5


@pytest.mark.parametrize("side, padding, tokens", [(96, "SAME", 36), (100, "SAME", 49), (100, "VALID", 36)])
def test_same_padding_makes_tokens(side, padding, tokens):
    asked = {} if padding == "SAME" else {"padding": padding}  # SAME is what one gets without asking
    conv = nnx.Conv(3, 2, (16, 16), 16, **asked, rngs=nnx.Rngs(0))
    _, rows, cols, _ = conv(jnp.ones((1, side, side, 3))).shape
    assert rows * cols == tokens


def test_a_global_dropout_rate_is_found_where_no_cell_defines_it():
    class Stem(linen.Module):
        emb_dropout: float

        @linen.compact
        def __call__(self, x):
            return linen.Dropout(emb_dropout, deterministic=False)(x)  # noqa: F821  (the bug)

    class Fixed(Stem):
        @linen.compact
        def __call__(self, x):
            return linen.Dropout(self.emb_dropout, deterministic=False)(x)

    x, keys = jnp.ones(10_000), {"dropout": jax.random.key(0)}
    with pytest.raises(NameError, match="emb_dropout"):
        Stem(0.5).apply({}, x, rngs=keys)
    assert abs(float((Fixed(0.5).apply({}, x, rngs=keys) == 0).mean()) - 0.5) < 0.03


def test_the_position_tables_start_a_hundred_times_apart():
    table = linen.initializers.normal()(jax.random.key(0), (1, 37, 512))
    assert abs(table.std() - 0.01) < 1e-3 and abs(torch.randn(1, 37, 512).std() - 1) < 0.05
    for std in (0.02, 1.0):
        model = BOOK["ViT"](changed(SIZES["32/8"], pos_std=std), nnx.Rngs(0))
        assert abs(float(model.positions[...].std()) / std - 1) < 0.1


def test_jax_jit_repeats_the_mask_and_nnx_jit_does_not():
    model = BOOK["ViT"](changed(SIZES["28/7"], dropout=0.5), nnx.Rngs(0))
    model.train()
    images = jnp.ones((2, 28, 28, 3))
    for jit, same in ((jax.jit, True), (nnx.jit, False)):
        run = jit(lambda model, images: model(images))
        assert bool((run(model, images) == run(model, images)).all()) == same

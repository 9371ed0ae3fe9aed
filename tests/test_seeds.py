"""One test for each document that the book started from: all that it builds works here.

0  first draft of a textbook chapter (PyTorch)     2  its slides
1  its revision (PyTorch, and JAX: an appendix)    3, 4  two learners' notebooks
"""

from dataclasses import replace

import torch
from torch import nn
from torch.nn import functional as F

from vitnb import (
    MLP,
    ClsToken,
    LearnedPositions,
    MultiHeadAttention,
    PatchEmbedding,
    PreNormBlock,
    ViT,
    ViTConfig,
    data,
    patchify,
    record_attention,
)
from vitnb.training import Recipe, evaluate, fit
from vitnb.vit import count_parameters

TEXTBOOK = dict(img_size=96, patch_size=16, in_chans=1, embed_dim=512, depth=2, num_heads=8, mlp_ratio=4.0, pos_std=1.0)


def upsampled(n: int) -> data.Dataset:
    """The first n clothes (or digits) at 96 x 96, as the textbook feeds them."""
    d = data.load("fashion_mnist")

    def grow(images):
        return F.interpolate(images[:n].float(), size=96, mode="bilinear").round().byte()

    return replace(
        d,
        train_images=grow(d.train_images),
        train_labels=d.train_labels[:n],
        test_images=grow(d.test_images),
        test_labels=d.test_labels[:n],
    )


def test_0_first_draft():
    tokens = PatchEmbedding(96, 16, 3, 512)(torch.randn(4, 3, 96, 96))
    assert tokens.shape == (4, 36, 512)
    x = torch.randn(2, 100, 24)  # its own check fed ones, which LayerNorm turns into zeros
    mlp = MLP(24, 48, dropout=0.5).eval()
    torch.testing.assert_close(mlp(x), mlp.fc2(F.gelu(mlp.fc1(x))))
    block = PreNormBlock(24, 8, mlp_ratio=2.0, dropout=0.5).eval()
    assert block(x).shape == x.shape
    # Its block forgot the residual around attention and normalised over the tokens too.
    assert block.norm1.normalized_shape == (24,)
    nn.init.zeros_(block.mlp.fc2.weight), nn.init.zeros_(block.mlp.fc2.bias)
    torch.testing.assert_close(block(x) - x, block.attention(block.norm1(x)))
    model = ViT(ViTConfig(**TEXTBOOK, dropout=0.1, attn_dropout=0.1, qkv_bias=False))
    assert model(torch.randn(2, 1, 96, 96)).shape == (2, 10)


def test_1_revision_trains_on_fashion_mnist():
    clothes = upsampled(64)
    torch.manual_seed(0)
    config = ViTConfig(**TEXTBOOK, dropout=0.1, qkv_bias=False)
    model = ViT(config)
    plain = dict(betas=(0.0, 0.0), weight_decay=0.0, warmup=0.0, schedule="constant", clip=None, flip=False, shift=0)
    history = fit(model, clothes, Recipe(epochs=1, batch_size=16, optimizer="sgd", lr=0.1, **plain))
    assert len(history.losses) == 4  # its plain SGD runs; what it reaches is measured in chapter 7
    model = ViT(config)
    fit(model, clothes, Recipe(epochs=10, batch_size=16, lr=5e-4, shift=0, flip=False))
    assert evaluate(model, clothes.normalize(clothes.train_images), clothes.train_labels).accuracy > 0.6
    # Its third exercise: other hyper-parameters, fewer seconds, more accuracy.
    better = ViT(ViTConfig(img_size=96, patch_size=16, embed_dim=64, depth=2))
    assert count_parameters(better) * 20 < count_parameters(model)
    # Its second exercise: the average of the patches instead of the cls token.
    mean = ViT(replace(config, global_pool="mean"))
    assert count_parameters(model) - count_parameters(mean) == 2 * 512


def test_2_slides():
    embed, images = PatchEmbedding(96, 16, 1, 512), torch.randn(2, 1, 96, 96)
    patches = patchify(images, 16)  # split, then project: one strided convolution
    projected = F.linear(patches, embed.proj.weight.flatten(1), embed.proj.bias)
    torch.testing.assert_close(embed(images), projected, atol=1e-5, rtol=0)
    # patches, cls, positions, dropout, blocks, read cls, norm, linear head
    model = ViT(ViTConfig(**TEXTBOOK, dropout=0.1)).eval()
    x = model.patch_embed(images)
    x = torch.cat([model.pool.token.expand(2, -1, -1), x], dim=1) + model.positions.table
    for block in model.blocks:
        x = block(x)
        assert x.shape == (2, 37, 512)
    torch.testing.assert_close(model(images), model.head(F.layer_norm(x[:, 0], (512,), *model.norm.parameters(), 1e-6)))


def test_3_vit_base_on_224_with_every_shape_of_the_paper():
    torch.manual_seed(0)
    images = torch.randn(2, 3, 224, 224)
    model = ViT(ViTConfig.vit_b_16()).eval()
    with torch.no_grad():
        assert model.patch_embed.proj(images).shape == (2, 768, 14, 14)
        out = model.forward_intermediates(images)
        assert out["patches"].shape == (2, 196, 768)
        assert out["embedded"].shape == out["block_12"].shape == out["features"].shape == (2, 197, 768)
        assert out["pooled"].shape == (2, 768) and out["logits"].shape == (2, 1000)
        assert torch.equal(model(images), out["logits"])  # nothing random in a forward pass
        # Attention mixes the tokens of an image, never the images of a batch.
        assert not torch.allclose(model(images[:1]), model(images[1:]), atol=1e-3)
        torch.testing.assert_close(model(images[:1]), out["logits"][:1], atol=1e-4, rtol=0)
    # Table 1 of the paper; the cls token and the positions are parameters, one for all images.
    assert len(model.blocks) == 12 and model.blocks[0].mlp.fc1.out_features == 3072
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    assert shapes["pool.token"] == (1, 1, 768) and shapes["positions.table"] == (1, 197, 768)
    assert count_parameters(model) == 86_567_656
    # Probabilities are the reader's business: softmax of the logits.
    probabilities = out["logits"].softmax(dim=1)
    torch.testing.assert_close(probabilities.sum(dim=1), torch.ones(2))


def test_4_reshape_and_linear_view_up_to_the_head():
    torch.manual_seed(0)
    images = torch.randn(2, 3, 224, 224)
    patches = patchify(images, 16)
    assert patches.shape == (2, 196, 768)
    tokens = nn.Linear(768, 192)(patches)  # the width is free: it is not 3 * 16 * 16
    tokens = ClsToken(192).prepend(tokens)
    positions = LearnedPositions(197, 192)
    x = positions(tokens)
    assert torch.equal(x[1], tokens[1] + positions.table[0])
    block = PreNormBlock(192, 4, mlp_ratio=2.0, dropout=0.2).eval()
    assert block(x).shape == (2, 197, 192)
    config = ViTConfig(224, 16, 3, 5, embed_dim=192, depth=2, num_heads=4, dropout=0.2)
    model = ViT(config).eval()
    assert model(images).shape == (2, 5)  # classes, not (2, 197, classes)
    # The cls token stands first and is read first: with no block it knows no image.
    assert torch.equal(model.embed(images)[0, 0], model.embed(images)[1, 0])
    with record_attention(model) as maps:
        model(images)
    assert len(maps) == len([m for m in model.modules() if isinstance(m, MultiHeadAttention)]) == 2

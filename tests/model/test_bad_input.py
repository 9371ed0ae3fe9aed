"""Bad input: an error that names the argument, the value received and a value that works."""

import pytest
import torch

from vitnb import (
    MLP,
    AttentionPool,
    ClsToken,
    ConvStem,
    LearnedPositions,
    MultiHeadAttention,
    PatchEmbedding,
    PreNormBlock,
    SinCosPositions,
    ViT,
    ViTConfig,
    patchify,
    record_attention,
    resize_positions,
    unpatchify,
)
from vitnb.training import Recipe, fit

V, T = ValueError, TypeError
x = torch.zeros


def tiny(**changes):
    return ViT(ViTConfig(**{"img_size": 8, "embed_dim": 8, "depth": 1, "num_heads": 2, **changes}))


# call, error, words that the message must hold: the argument, the value received, a value that works
CASES = {
    "patchify: list": (lambda: patchify([[1]], 4), T, ["images", "list", "as_tensor"]),
    "patchify: one image": (lambda: patchify(x(1, 8, 8), 4), V, ["images", "(1, 8, 8)", "images[None]|x[None]"]),
    "patchify: height": (lambda: patchify(x(1, 1, 30, 28), 4), V, ["height", "30", "28 or 32"]),
    "patchify: width": (lambda: patchify(x(1, 1, 28, 27), 4), V, ["width", "27", "24 or 28"]),
    "patchify: patch too big": (lambda: patchify(x(1, 1, 3, 3), 4), V, ["height", "3", "use 4"]),
    "patchify: patch 0": (lambda: patchify(x(1, 1, 8, 8), 0), V, ["patch_size", "0", "4"]),
    "patchify: patch -4": (lambda: patchify(x(1, 1, 8, 8), -4), V, ["patch_size", "-4", "at least 1"]),
    "patchify: patch 2.5": (lambda: patchify(x(1, 1, 8, 8), 2.5), T, ["patch_size", "2.5", "4"]),
    "patchify: patch True": (lambda: patchify(x(1, 1, 8, 8), True), T, ["patch_size", "True", "4"]),
    "patchify: patch '4'": (lambda: patchify(x(1, 1, 8, 8), "4"), T, ["patch_size", "'4'", "4"]),
    "patchify: three sides": (lambda: patchify(x(1, 1, 8, 8), (4, 4, 4)), V, ["patch_size", "(4, 4, 4)", "(28, 28)"]),
    "unpatchify: count": (lambda: unpatchify(x(1, 5, 16), 4, 8, 1), V, ["patches", "(1, 5, 16)", "(1, 4, 16)"]),
    "unpatchify: length": (lambda: unpatchify(x(1, 4, 15), 4, 8, 1), V, ["patches", "(1, 4, 15)", "(1, 4, 16)"]),
    "unpatchify: channels": (lambda: unpatchify(x(1, 4, 16), 4, 8, 0), V, ["channels", "0", "at least 1"]),
    "unpatchify: size": (lambda: unpatchify(x(1, 4, 16), 4, 9, 1), V, ["height", "9", "8 or 12"]),
    "embedding: other size": (
        lambda: PatchEmbedding(8, 4)(x(1, 1, 12, 8)),
        V,
        ["images", "(1, 1, 12, 8)", "(1, 1, 8, 8)"],
    ),
    "embedding: channels": (lambda: PatchEmbedding(8, 4)(x(1, 3, 8, 8)), V, ["images", "(1, 3, 8, 8)", "(1, 1, 8, 8)"]),
    "embedding: bytes": (lambda: PatchEmbedding(8, 4)(x(1, 1, 8, 8).byte()), T, ["images", "uint8", "data.normalize"]),
    "embedding: size": (lambda: PatchEmbedding(30, 4), V, ["height", "30", "28 or 32"]),
    "embedding: width 0": (lambda: PatchEmbedding(8, 4, 1, 0), V, ["embed_dim", "0", "use 64"]),
    "embedding: in_chans": (lambda: PatchEmbedding(8, 4, -1), V, ["in_chans", "-1", "at least 1"]),
    "stem: grid": (lambda: ConvStem(24, 6), V, ["patch_size 6", "img_size 24", "(4, 4)", "(3, 3)", "use patch_size 8"]),
    "stem: width": (lambda: ConvStem(16, 8, 1, 6), V, ["embed_dim 6", "4", "use"]),
    "stem: size": (lambda: ConvStem(8, 4)(x(1, 1, 12, 8)), V, ["images", "(1, 1, 12, 8)", "(1, 1, 8, 8)"]),
    "positions: too few": (lambda: LearnedPositions(5, 8)(x(1, 4, 8)), V, ["tokens", "4", "5 tokens"]),
    "positions: width": (lambda: LearnedPositions(5, 8)(x(1, 5, 9)), V, ["tokens", "(1, 5, 9)", "(B, T, 8)"]),
    "positions: std": (lambda: LearnedPositions(5, 8, std=-1), V, ["std", "-1", "1.0"]),
    "positions: sincos width": (lambda: SinCosPositions(2, 30), V, ["embed_dim", "30", "28 or 32"]),
    "positions: resize": (lambda: resize_positions(x(1, 10, 8), 2, 3), V, ["table", "10", "(1, 5, 8)"]),
    "attention: heads": (lambda: MultiHeadAttention(64, 5), V, ["embed_dim 64", "num_heads 5", "use num_heads 4"]),
    "attention: no heads": (lambda: MultiHeadAttention(64, 0), V, ["num_heads", "0", "at least 1"]),
    "attention: width": (lambda: MultiHeadAttention(8, 2)(x(1, 5, 9)), V, ["tokens", "(1, 5, 9)", "(B, T, 8)"]),
    "attention: no tokens": (lambda: MultiHeadAttention(8, 2)(x(1, 0, 8)), V, ["tokens", "(1, 0, 8)", "(B, 1, 8)"]),
    "attention: one image": (lambda: MultiHeadAttention(8, 2)(x(5, 8)), V, ["tokens", "(5, 8)", "[None]"]),
    "attention: integers": (lambda: MultiHeadAttention(8, 2)(x(1, 5, 8).long()), T, ["tokens", "int64", "float()"]),
    "attention: dropout": (lambda: MultiHeadAttention(8, 2, dropout=1.0), V, ["dropout", "1.0", "0.1"]),
    "recording: none": (
        lambda: record_attention(torch.nn.Linear(1, 1)).__enter__(),
        V,
        ["model", "Linear", "vitnb.ViT"],
    ),
    "mlp: hidden": (lambda: MLP(8, 0), V, ["hidden_dim", "0", "at least 1"]),
    "block: ratio": (lambda: PreNormBlock(8, 2, mlp_ratio=0), V, ["mlp_ratio", "0", "1.0"]),
    "block: width": (lambda: PreNormBlock(8, 3), V, ["embed_dim 8", "num_heads 3", "2 or 4"]),
    "cls: width": (lambda: ClsToken("8"), T, ["embed_dim", "'8'", "4"]),
    "pool: heads": (lambda: AttentionPool(8, 3), V, ["embed_dim 8", "num_heads 3", "2 or 4"]),
    "config: norm": (lambda: ViTConfig(norm="layer"), V, ["norm", "'layer'", "'pre', 'post'"]),
    "config: positions": (lambda: ViTConfig(pos_embed="sin"), V, ["pos_embed", "'sin'", "'sincos'"]),
    "config: stem": (lambda: ViTConfig(stem="cnn"), V, ["stem", "'cnn'", "'conv'"]),
    "config: pool": (lambda: ViTConfig(global_pool="avg"), V, ["global_pool", "'avg'", "'mean'"]),
    "config: size": (lambda: ViTConfig(img_size=27), V, ["height", "27", "24 or 28"]),
    "config: heads": (lambda: ViTConfig(num_heads=3), V, ["embed_dim 64", "num_heads 3", "2 or 4"]),
    "config: depth": (lambda: ViTConfig(depth=0), V, ["depth", "0", "at least 1"]),
    "config: classes": (lambda: ViTConfig(num_classes=-1), V, ["num_classes", "-1", "at least 0"]),
    "config: dropout": (lambda: ViTConfig(dropout="much"), T, ["dropout", "'much'", "0.1"]),
    "vit: keywords": (lambda: ViT({"depth": 2}), T, ["config", "{'depth': 2}", "ViTConfig"]),
    "vit: size": (lambda: tiny()(x(1, 1, 12, 12)), V, ["images", "(1, 1, 12, 12)", "(1, 1, 8, 8)"]),
    "vit: head": (lambda: tiny().forward_head(x(1, 8)), V, ["tokens", "(1, 8)", "[None]"]),
    "recipe: batch": (lambda: Recipe(batch_size=-1), V, ["batch_size", "-1", "use 128"]),
    "fit: no data": (lambda: fit(tiny(), x(8, 1, 8, 8), Recipe(epochs=1)), T, ["data", "Tensor", "load"]),
}


@pytest.mark.parametrize("name", CASES)
def test_bad_input(name):
    call, error, words = CASES[name]
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert type(caught.value) is error
    for alternatives in words:
        assert any(word in message for word in alternatives.split("|")), f"{alternatives!r} is not in: {message}"

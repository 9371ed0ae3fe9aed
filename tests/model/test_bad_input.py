"""Bad input: an error names the argument, the value received and a value that works; test_advice.py follows it."""

import re
from dataclasses import replace

import pytest
import torch

import vitnb
from vitbook import images
from vitnb import ViT, ViTConfig, data, evaluation, training, weights

# What the rows may call.
SPACE = vars(vitnb) | vars(evaluation) | vars(training) | vars(data) | vars(images) | vars(weights)


def small(**changes):
    return ViT(ViTConfig(**{"img_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "num_classes": 2} | changes))


def linear():
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))


def with_nan():
    images = pixels / 255
    images[3, 0, 2, 2] = nan
    return replace(D, train_images=images)


pixels = torch.arange(6 * 64).reshape(6, 1, 8, 8).remainder(256).to(torch.uint8)
D = data.Dataset(pixels, torch.arange(6) % 2, pixels, torch.arange(6) % 2, ("a", "b"))
nan, ONE, x = float("nan"), training.Recipe(1, 2), torch.zeros
GRAY, LABEL = torch.zeros(3, 1, 4, 4), torch.zeros(3, dtype=torch.long)

# a call; the words of its message, in order: the argument, the value received, a value that works
SAID = {
    ValueError: [
        ("patchify(x(1, 1, 30, 28), 4)", "height … 30 … 28 or 32"),
        ("patchify(x(1, 1, 3, 3), 4)", "height … 3 … use 4"),
        ("patchify(x(1, 1, 8, 8), 0)", "patch_size … 0 … 4"),
        ("patchify(x(1, 1, 8, 8), (4, 4, 4))", "patch_size … (4, 4, 4) … (28, 28)"),
        ("unpatchify(x(1, 4, 16), 4, 8, 0)", "channels … at least 1 … 0"),
        ("unpatchify(x(1, 4, 16), 4, 9, 1)", "height … 9 … 8 or 12"),
        ("PatchEmbedding(8, 4)(x(1, 1, 12, 8))", "images … (1, 1, 8, 8) … (1, 1, 12, 8)"),
        ("PatchEmbedding(30, 4)", "height … 30 … 28 or 32"),
        ("PatchEmbedding(8, 4, 1, 0)", "embed_dim … 0 … use 64"),
        ("PatchEmbedding(8, 4, -1)", "in_chans … at least 1 … -1"),
        ("ConvStem(16, 8, 1, 6)", "embed_dim 6 … 4 … use"),
        ("ConvStem(8, 4)(x(1, 1, 12, 8))", "images … (1, 1, 8, 8) … (1, 1, 12, 8)"),
        ("LearnedPositions(5, 8)(x(1, 5, 9))", "tokens … (1, 5, 9) … (B, T, 8)"),
        ("LearnedPositions(5, 8, std=-1)", "std … -1 … 1.0"),
        ("SinCosPositions(2, 30)", "embed_dim … 30 … 28 or 32"),
        ("MultiHeadAttention(64, 0)", "num_heads … at least 1 … 0"),
        ("MultiHeadAttention(8, 2)(x(5, 8))", "tokens … (5, 8) … [None]"),
        ("MultiHeadAttention(8, 2, dropout=1.0)", "dropout … 1.0 … 0.1"),
        ("MLP(8, 0)", "hidden_dim … at least 1 … 0"),
        ("PreNormBlock(8, 2, mlp_ratio=0)", "mlp_ratio … 0 … 1.0"),
        ("PreNormBlock(8, 3)", "embed_dim 8 … num_heads 3 … 2 or 4"),
        ("AttentionPool(8, 3)", "embed_dim 8 … num_heads 3 … 2 or 4"),
        ("ViTConfig(pos_embed='sin')", "pos_embed … 'sincos' … 'sin'"),
        ("ViTConfig(stem='cnn')", "stem … 'conv' … 'cnn'"),
        ("ViTConfig(global_pool='avg')", "global_pool … 'mean' … 'avg'"),
        ("ViTConfig(img_size=27)", "height … 27 … 24 or 28"),
        ("ViTConfig(num_heads=3)", "embed_dim 64 … num_heads 3 … 2 or 4"),
        ("ViTConfig(num_classes=-1)", "num_classes … at least 0 … -1"),
        ("small().forward_head(x(1, 8))", "tokens … (1, 8) … [None]"),
        ("Recipe(batch_size=-1)", "batch_size … -1 … use 128"),
        ("data.load('digits').subset(1499)", "n is 1499: … 1 to 14"),
        ("augment(GRAY[0], None)", "shape (1, 4, 4)"),
        (
            "Dataset(GRAY[:, 0], LABEL, GRAY, LABEL, ('a',))",
            "train_images must be … (3, 4, 4) … use train_images[:, None]",
        ),
        ("Dataset(GRAY.long(), LABEL, GRAY, LABEL, ('a',))", "int64 … use train_images.float"),
        ("Dataset(GRAY, LABEL, GRAY, LABEL[:2], ('a',))", "test_labels … use shape (3,)"),
        ("Dataset(GRAY, LABEL.int(), GRAY, LABEL, ('a',))", "int32 … use train_labels.long"),
        ("fit(linear(), with_nan(), ONE)", "nan … use train_images.nan_to_num"),
        ("fit(torch.nn.Linear(8, 2), D, ONE)", "(2, 1, 8, 2): use logits"),
        ("evaluate(linear(), torch.rand(0, 1, 8, 8), LABEL[:0])", "images … got 0 and 0"),
        ("Recipe(epochs=0)", "epochs … 0: use 20"),
        ("Recipe(betas=(0.9, 1.0))", "betas … 1.0"),
        ("Recipe(warmup=5)", "warmup … 5"),
        ("Recipe(schedule='linear')", "'cosine', 'constant', got 'linear'"),
        ("Recipe(optimizer='adam')", "optimizer … 'adamw', 'sgd', 'muon', got 'adam'"),
        ("Recipe(clip=0)", "clip … 0"),
        ("vitnb.examine(small, torch.rand(2, 1, 8, 8))", "image … Tensor of shape (2, 1, 8, 8): use (1, 8, 8)"),
        ("vitnb.examine(small, [8] * 999)", "image … 8, 8 … use (3, 32, 32)"),
        ("ViTConfig(stem=torch.rand(9, 9))", "stem … Tensor of shape (9, 9): use 'patch'"),
    ],
    TypeError: [
        ("patchify(x(1, 1, 8, 8), True)", "patch_size … True … 4"),
        ("patchify(x(1, 1, 8, 8), '4')", "patch_size … '4' … 4"),
        ("PatchEmbedding(8, 4)(x(1, 1, 8, 8).byte())", "images … uint8 … data.normalize"),
        ("MultiHeadAttention(8, 2)(x(1, 5, 8).long())", "tokens … int64 … float()"),
        ("ClsToken('8')", "embed_dim … '8' … 4"),
        ("evaluate(linear(), pixels, D.test_labels)", "uint8 … use data.normalize"),
        ("Recipe(batch_size=1.5)", "batch_size … 1.5"),
        ("Recipe(shift=0.5)", "shift … 0.5"),
        ("ViT(small())", "config … got ViT: use ViTConfig"),
        ("MLP(torch.rand(99, 99), 4)", "embed_dim … Tensor of shape (99, 99): use 64"),
    ],
}


@pytest.mark.parametrize("error, call, words", [(error, *row) for error, rows in SAID.items() for row in rows])
def test_an_error_names_the_argument_its_value_and_one_that_works(error, call, words):
    with pytest.raises(error, match=".*".join(map(re.escape, words.split(" … ")))) as caught:
        eval(call, SPACE | globals())
    assert caught.type is error
    assert len(str(caught.value)) < 300 and "\n" not in str(caught.value)


def test_what_is_left_out_on_purpose_is_no_error():
    state = {"head.bias": torch.ones(2)}
    assert small().load_state_dict(state, strict=False).missing_keys
    with pytest.raises(ValueError, match=r"head.bias of shape \(2,\), got \(\)"):
        small().load_state_dict({"head.bias": "ones"}, strict=False)
    with pytest.raises(ValueError, match=r"state_dict must hold head.bias of shape \(2,\), got \(3,\): use with_head"):
        small().load_state_dict({"head.bias": torch.ones(3), "more": torch.ones(1)}, strict=False)


def test_weights_with_another_head_load_as_the_error_advises():
    state = small(num_classes=3).state_dict()
    with pytest.raises(ValueError, match=r"use with_head\(3\)"):
        small().load_state_dict(state)
    assert small().with_head(3).load_state_dict(state)

"""Bad input: an error names the argument, the value received and a value that works.

Of people who bring a model, take one away, or train one the advice is read from the message and followed to the
letter; where it is prose, the row says what a reader does.
"""

import re
from dataclasses import replace

import pytest
import timm
import torch
import torchvision
import transformers
from PIL import Image

import vitnb
from tests.course.book.advice import code
from vitbook import images
from vitnb import ViT, ViTConfig, data, evaluation, record_attention, training, weights

# What the rows may call.
SPACE = vars(vitnb) | vars(evaluation) | vars(training) | vars(data) | vars(images) | vars(weights)


def small(**changes):
    return ViT(ViTConfig(**{"img_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "num_classes": 2} | changes))


def tv():
    return torchvision.models.VisionTransformer(32, 16, 1, 2, 16, 24)


def tm():
    return timm.models.VisionTransformer(32, 16, embed_dim=16, depth=1, num_heads=2)


def hf():
    sizes = dict(image_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=24)
    return transformers.ViTModel(transformers.ViTConfig(**sizes))


def on_meta(build):
    with torch.device("meta"):
        return build()


def frozen_but_its_head():
    model = small().requires_grad_(False)
    model.head.requires_grad_(True)
    return model


def recorded(model):
    with record_attention(model) as maps:
        return maps


def exported(images):
    return torch.export.export(small().eval(), (images,))


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
ITSELF = "the advice is the call"

# the call, the name and its wrong value; what the message says of both; what to do where the advice is prose
ROWS = [
    ("from_timm(model)", "model", "'vit_base_patch16_224'", "model must be .* got str", "tm()"),
    ("from_timm(model)", "model", "tv()", "model must be .* got VisionTransformer of torchvision", ITSELF),
    ("from_torchvision(model)", "model", "tm()", "model must be .* got VisionTransformer of timm", ITSELF),
    ("from_huggingface(model)", "model", "tm()", "model must be .* got VisionTransformer of timm", ITSELF),
    ("from_timm(model)", "model", "hf()", "model must be .* got ViTModel of transformers", ITSELF),
    ("from_torchvision(model)", "model", "on_meta(tv)", "model.class_token is on the device meta"),
    ("to_timm(model)", "model", "ViT", "model must be a vitnb.ViT, got type"),
    ("save(model, 'm')", "model", "small().state_dict()", "model must be a vitnb.ViT, got OrderedDict"),
    ("save(model, 'm')", "model", "on_meta(small)", "model.patch_embed.proj.weight is on the device meta"),
    ("save(small(), path)", "path", "None", "path must be a path, got None"),
    ("load(path)", "path", "3", "path must be a path, got 3"),
    (
        "small().load_state_dict(state)",
        "state",
        "small(num_classes=3).state_dict()",
        r"head.bias .*\(2,\), got \(3,\)",
        "small().state_dict()",
    ),
    (
        "small().load_state_dict(state)",
        "state",
        "small(depth=3).state_dict()",
        "state_dict must not hold blocks.2",
        "small().state_dict()",
    ),
    ("small().load_state_dict(state)", "state", "{}", "state_dict must hold .* got None", "small().state_dict()"),
    ("small().with_head(num_classes)", "num_classes", "['cat', 'dog']", r"num_classes .* got \('cat', 'dog'\)"),
    ("small().with_head(num_classes)", "num_classes", "False", "num_classes .* got False"),
    ("small().resized(img_size)", "img_size", "'8'", "img_size .* got '8'"),
    ("small().resized(img_size)", "img_size", "(8,)", r"img_size .* got \(8,\)"),
    ("ViTConfig(mlp_ratio=ratio)", "ratio", "nan", "mlp_ratio .* got nan"),
    ("ViTConfig(qkv_bias=flag)", "flag", "'no'", "qkv_bias .* got 'no'"),
    ("ViTConfig(init_values=init)", "init", "0", "init_values .* got 0"),
    ("ViTConfig(reg_tokens=n)", "n", "0.0", "reg_tokens .* got 0.0"),
    ("data.folder('photos', 8, memory=memory)", "memory", "'4GB'", "memory .* got '4GB'"),
    ("data.folder('photos', 8, validation=share)", "share", "20", "validation .* got 20"),
    ("data.folder('photos', 8, mirror=mirror)", "mirror", "'no'", "mirror .* got 'no'"),
    ("data.folder('photos', img_size)", "img_size", "'8x8'", "img_size .* got '8x8'"),
    ("Recipe(lr_by_part=parts)", "parts", "[('head', 1e-3)]", r"lr_by_part .* got \[\('head', 0.001\)\]"),
    ("Recipe(lr_by_part=parts)", "parts", "{11: 1e-3}", "lr_by_part .* got {11: 0.001}"),
    ("Recipe(lr_by_part={'head': lr})", "lr", "nan", r"lr_by_part\['head'\] .* got nan: use 0.001"),
    ("Recipe(epochs=epochs)", "epochs", "nan", "epochs .* got nan"),
    ("Recipe(epochs=epochs)", "epochs", "'2.5'", "epochs .* got '2.5'"),
    ("Recipe(betas=betas)", "betas", "0.9", "betas .* got 0.9"),
    ("Recipe(weight_decay=decay)", "decay", "'0.05'", "weight_decay .* got '0.05'"),
    ("Recipe(erase=erase)", "erase", "None", "erase .* got None"),
    ("Recipe(flip=flip)", "flip", "'no'", "flip .* got 'no'"),
    (
        "fit(frozen_but_its_head(), D, Recipe(1, 2, lr_by_part={part: 1e-3}))",
        "part",
        "'blocks'",
        "lr_by_part names 'blocks', .* use one of 'head'$",
        "'head'",
    ),
    ("fit(small(), D, ONE, callbacks)", "callbacks", "print", "callbacks .* got <built-in function print>"),
    ("fit(small(), D, ONE, checkpoint=path)", "path", "3", "checkpoint .* got 3"),
    ("fit(model, D, ONE)", "model", "ViT", "model .* got type", "small()"),
    ("recorded(model)", "model", "None", "model NoneType", "small()"),
    ("exported(images)", "images", "pixels", "images must be .* got uint8", "D.normalize(pixels)"),
    (
        "exported(images)",
        "images",
        "torch.rand(2, 1, 9, 8)",
        r"images must be .* got .*\(2, 1, 9, 8\)",
        "torch.rand(2, 1, 8, 8)",
    ),
]


# a call; the words of its message, in order: the argument, the value received, a value that works
SAID = {
    ValueError: [
        ("patchify(x(1, 8, 8), 4)", "images … (1, 8, 8) … images[None]"),
        ("patchify(x(1, 1, 30, 28), 4)", "height … 30 … 28 or 32"),
        ("patchify(x(1, 1, 28, 27), 4)", "width … 27 … 24 or 28"),
        ("patchify(x(1, 1, 3, 3), 4)", "height … 3 … use 4"),
        ("patchify(x(1, 1, 8, 8), 0)", "patch_size … 0 … 4"),
        ("patchify(x(1, 1, 8, 8), (4, 4, 4))", "patch_size … (4, 4, 4) … (28, 28)"),
        ("unpatchify(x(1, 5, 16), 4, 8, 1)", "patches … (1, 5, 16) … (1, 4, 16)"),
        ("unpatchify(x(1, 4, 15), 4, 8, 1)", "patches … (1, 4, 15) … (1, 4, 16)"),
        ("unpatchify(x(1, 4, 16), 4, 8, 0)", "channels … at least 1 … 0"),
        ("unpatchify(x(1, 4, 16), 4, 9, 1)", "height … 9 … 8 or 12"),
        ("PatchEmbedding(8, 4)(x(1, 1, 12, 8))", "images … (1, 1, 8, 8) … (1, 1, 12, 8)"),
        ("PatchEmbedding(8, 4)(x(1, 3, 8, 8))", "images … (1, 1, 8, 8) … (1, 3, 8, 8)"),
        ("PatchEmbedding(30, 4)", "height … 30 … 28 or 32"),
        ("PatchEmbedding(8, 4, 1, 0)", "embed_dim … 0 … use 64"),
        ("PatchEmbedding(8, 4, -1)", "in_chans … at least 1 … -1"),
        ("ConvStem(24, 6)", "patch_size 6 … img_size 24 … (4, 4) … (3, 3) … use patch_size 8"),
        ("ConvStem(16, 8, 1, 6)", "embed_dim 6 … 4 … use"),
        ("ConvStem(8, 4)(x(1, 1, 12, 8))", "images … (1, 1, 8, 8) … (1, 1, 12, 8)"),
        ("LearnedPositions(5, 8)(x(1, 4, 8))", "tokens … 4 … 5 tokens"),
        ("LearnedPositions(5, 8)(x(1, 5, 9))", "tokens … (1, 5, 9) … (B, T, 8)"),
        ("LearnedPositions(5, 8, std=-1)", "std … -1 … 1.0"),
        ("SinCosPositions(2, 30)", "embed_dim … 30 … 28 or 32"),
        ("resize_positions(x(1, 10, 8), 2, 3)", "table … 10 … (1, 5, 8)"),
        ("MultiHeadAttention(64, 5)", "embed_dim 64 … num_heads 5 … use num_heads 4"),
        ("MultiHeadAttention(64, 0)", "num_heads … at least 1 … 0"),
        ("MultiHeadAttention(8, 2)(x(1, 5, 9))", "tokens … (1, 5, 9) … (B, T, 8)"),
        ("MultiHeadAttention(8, 2)(x(1, 0, 8))", "tokens … (1, 0, 8) … (B, 1, 8)"),
        ("MultiHeadAttention(8, 2)(x(5, 8))", "tokens … (5, 8) … [None]"),
        ("MultiHeadAttention(8, 2, dropout=1.0)", "dropout … 1.0 … 0.1"),
        ("record_attention(torch.nn.Linear(1, 1)).__enter__()", "model … Linear … vitnb.ViT"),
        ("MLP(8, 0)", "hidden_dim … at least 1 … 0"),
        ("PreNormBlock(8, 2, mlp_ratio=0)", "mlp_ratio … 0 … 1.0"),
        ("PreNormBlock(8, 3)", "embed_dim 8 … num_heads 3 … 2 or 4"),
        ("AttentionPool(8, 3)", "embed_dim 8 … num_heads 3 … 2 or 4"),
        ("ViTConfig(norm='layer')", "norm … 'pre', 'post' … 'layer'"),
        ("ViTConfig(pos_embed='sin')", "pos_embed … 'sincos' … 'sin'"),
        ("ViTConfig(stem='cnn')", "stem … 'conv' … 'cnn'"),
        ("ViTConfig(global_pool='avg')", "global_pool … 'mean' … 'avg'"),
        ("ViTConfig(img_size=27)", "height … 27 … 24 or 28"),
        ("ViTConfig(num_heads=3)", "embed_dim 64 … num_heads 3 … 2 or 4"),
        ("ViTConfig(depth=0)", "depth … at least 1 … 0"),
        ("ViTConfig(num_classes=-1)", "num_classes … at least 0 … -1"),
        ("small()(x(1, 1, 12, 12))", "images … (1, 1, 8, 8) … (1, 1, 12, 12)"),
        ("small().forward_head(x(1, 8))", "tokens … (1, 8) … [None]"),
        ("Recipe(batch_size=-1)", "batch_size … -1 … use 128"),
        ("data.load('mnist')", "'mnist': use one of 'fashion_mnist', 'digits'"),
        ("sample_image(0)", "size is 0: use 224"),
        ("data.load('digits').subset(0)", "n is 0: … 1 to 1"),
        ("data.load('digits').subset(1499)", "n is 1499: … 1 to 14"),
        ("augment(GRAY[0], None)", "shape (1, 4, 4)"),
        ("augment(GRAY, None, shift=-1)", "shift must be at least 0, got -1"),
        ("augment(GRAY, None, erase=2)", "erase must be at least 0 and at most 1, got 2"),
        (
            "Dataset(GRAY[:, 0], LABEL, GRAY, LABEL, ('a',))",
            "train_images must be … (3, 4, 4) … use train_images[:, None]",
        ),
        ("Dataset(GRAY.long(), LABEL, GRAY, LABEL, ('a',))", "int64 … use train_images.float"),
        ("Dataset(GRAY, LABEL, GRAY, LABEL[:2], ('a',))", "test_labels … use shape (3,)"),
        ("Dataset(GRAY, LABEL.int(), GRAY, LABEL, ('a',))", "int32 … use train_labels.long"),
        ("Dataset(GRAY, LABEL + 1, GRAY, LABEL, ('a',))", "got 1 to 1: use train_labels - 1"),
        ("fit(linear(), with_nan(), ONE)", "nan … use train_images.nan_to_num"),
        ("fit(linear(), D, Recipe(1, 7))", "7, … 6 … use 6 or fewer"),
        ("fit(torch.nn.Linear(8, 2), D, ONE)", "(2, 1, 8, 2): use logits"),
        ("fit(small(num_classes=7), D, ONE)", "(2, 7): use logits"),
        ("evaluate(linear(), torch.rand(0, 1, 8, 8), LABEL[:0])", "images … got 0 and 0"),
        ("evaluate(linear(), torch.rand(4, 1, 8, 8), LABEL)", "got 4 and 3"),
        ("Recipe(epochs=0)", "epochs … 0: use 20"),
        ("Recipe(lr=-1)", "lr … -1: use 0.003"),
        ("Recipe(betas=(0.9, 1.0))", "betas … 1.0"),
        ("Recipe(betas=(0.9,))", "betas … use (0.9, 0.99)"),
        ("Recipe(warmup=5)", "warmup … 5"),
        ("Recipe(schedule='linear')", "'cosine', 'constant', got 'linear'"),
        ("Recipe(optimizer='adam')", "optimizer … 'adamw', 'sgd', 'muon', got 'adam'"),
        ("Recipe(weight_decay=-0.1)", "weight_decay … -0.1"),
        ("Recipe(clip=0)", "clip … 0"),
        ("Recipe(erase=1.5)", "erase … 1.5"),
        ("Recipe(seed=-1)", "seed … -1"),
    ],
    TypeError: [
        ("patchify([[1]], 4)", "images … list … as_tensor"),
        ("patchify(x(1, 1, 8, 8), True)", "patch_size … True … 4"),
        ("patchify(x(1, 1, 8, 8), '4')", "patch_size … '4' … 4"),
        ("PatchEmbedding(8, 4)(x(1, 1, 8, 8).byte())", "images … uint8 … data.normalize"),
        ("MultiHeadAttention(8, 2)(x(1, 5, 8).long())", "tokens … int64 … float()"),
        ("ClsToken('8')", "embed_dim … '8' … 4"),
        ("ViTConfig(dropout='much')", "dropout … 'much' … 0.1"),
        ("ViT({'depth': 2})", "config … ViTConfig … {'depth': 2}"),
        ("fit(small(), x(8, 1, 8, 8), Recipe(epochs=1))", "data … Tensor … load"),
        ("data.load(root=3)", "root must be a path, got 3: use 'data'"),
        ("evaluate(linear(), pixels, D.test_labels)", "uint8 … use data.normalize"),
        ("Recipe(batch_size=1.5)", "batch_size … 1.5"),
        ("Recipe(shift=0.5)", "shift … 0.5"),
    ],
}


@pytest.mark.parametrize("error, call, words", [(error, *row) for error, rows in SAID.items() for row in rows])
def test_an_error_names_the_argument_its_value_and_one_that_works(error, call, words):
    with pytest.raises(error, match=".*".join(map(re.escape, words.split(" … ")))) as caught:
        eval(call, SPACE | globals())
    assert caught.type is error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:3]))
def test_the_error_names_the_value_and_its_advice_works(row, tmp_path, monkeypatch):
    call, name, wrong, says, *fix = row
    monkeypatch.chdir(tmp_path)
    weights.save(small(), "vit.safetensors")
    for label, color in (("a", "red"), ("b", "blue")):
        (tmp_path / "photos" / label).mkdir(parents=True)
        Image.new("RGB", (9, 9), color).save(tmp_path / "photos" / label / "x.png")
    space = SPACE | globals()
    space[name] = eval(wrong, space)
    with pytest.raises((ValueError, TypeError), match=says) as caught:
        eval(call, space)
    message = str(caught.value)
    assert "\n" not in message and ": use " in message
    if fix == [ITSELF]:
        assert isinstance(eval(code(message), space), ViT)
        return
    space[name] = eval(fix[0] if fix else code(message), space)
    eval(call, space)


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

"""Thirty and more wrong values of people who bring a model, take one away, or train one: what the error advises works.

Each message is a sentence that names the argument and the value received. Its advice is read from it and followed
to the letter; where it is prose, the row says what a reader does.
"""

import pytest
import timm
import torch
import torchvision
import transformers
from PIL import Image

from tests.course.book.advice import code
from vitnb import ViT, ViTConfig, data, record_attention
from vitnb.training import Recipe, fit  # noqa: F401  (this and the next: the rows call them)
from vitnb.weights import from_huggingface, from_timm, from_torchvision, load, save, to_timm  # noqa: F401


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


pixels = torch.arange(6 * 64).reshape(6, 1, 8, 8).remainder(256).to(torch.uint8)
D = data.Dataset(pixels, torch.arange(6) % 2, pixels, torch.arange(6) % 2, ("a", "b"))
nan, ONE = float("nan"), Recipe(1, 2)
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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:3]))
def test_the_error_names_the_value_and_its_advice_works(row, tmp_path, monkeypatch):
    call, name, wrong, says, *fix = row
    monkeypatch.chdir(tmp_path)
    save(small(), "vit.safetensors")
    for label, color in (("a", "red"), ("b", "blue")):
        (tmp_path / "photos" / label).mkdir(parents=True)
        Image.new("RGB", (9, 9), color).save(tmp_path / "photos" / label / "x.png")
    space = globals() | {name: eval(wrong, globals())}
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

"""Weights: the same logits in torchvision and timm, and files that are whole or absent."""

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
import timm
import torch
import torchvision
import transformers
from safetensors.torch import save_file

from vitnb import ViT, ViTConfig
from vitnb.vit import count_parameters
from vitnb.weights import (
    NOT_HERE,
    TIMM,
    _fetched,
    _perturbed,
    from_huggingface,
    from_timm,
    from_torchvision,
    imagenet_vit_b_16,
    load,
    save,
    to_timm,
    to_torchvision,
)


def randomised(model):
    """Random weights everywhere: zero heads, gains at 1 and biases at 0 would hide mistakes."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.02 * torch.randn(p.shape, generator=generator))
    return model.eval()


def assert_same_logits(one, other, images):
    with torch.no_grad():
        a, b = one(images), other(images)
    assert a.std() > 1e-2  # not equal because both are silent
    torch.testing.assert_close(a, b, atol=1e-5, rtol=0)


@pytest.mark.parametrize("preset", ["vit_b_16", "vit_b_32", "vit_l_16"])
def test_torchvision_models_both_ways(preset):
    """With two blocks each: all 24 of the largest are a gigabyte."""
    config = replace(getattr(ViTConfig, preset)(), depth=2)
    sizes = config.depth, config.num_heads, config.embed_dim, int(config.mlp_ratio * config.embed_dim)
    theirs = randomised(torchvision.models.VisionTransformer(224, config.patch_size, *sizes))
    ours, images = from_torchvision(theirs), torch.randn(1, 3, 224, 224)
    assert count_parameters(ours) == count_parameters(theirs)
    assert ours.config == config
    assert_same_logits(ours, theirs, images)
    back = to_torchvision(ours)
    assert_same_logits(back, theirs, images)
    assert all(torch.equal(t, theirs.state_dict()[n]) for n, t in back.state_dict().items())


@pytest.mark.parametrize(
    "name, preset, depth", [("vit_base_patch16_224", "vit_b_16", 2), ("vit_small_patch16_224", "vit_s_16", 12)]
)
def test_timm_models_both_ways(name, preset, depth):
    theirs = randomised(timm.create_model(name, depth=depth))
    ours, images = from_timm(theirs), torch.randn(1, 3, 224, 224)
    expected = replace(getattr(ViTConfig, preset)(), depth=depth)
    assert count_parameters(ours) == count_parameters(theirs)
    assert {**ours.config.to_dict(), "img_size": 224, "patch_size": 16} == expected.to_dict()
    assert_same_logits(ours, theirs, images)
    assert_same_logits(to_timm(ours), theirs, images)


@pytest.mark.parametrize(
    "name, prefix",
    [("deit3_small_patch16_224", 1), ("vit_small_patch14_dinov2", 1), ("vit_small_patch14_reg4_dinov2", 5)],
)
def test_layerscale_registers_and_tables_without_cls_are_timms(name, prefix):
    size = 224 if "224" in name else 70
    theirs = randomised(timm.create_model(name, depth=3, img_size=size, num_classes=7))
    ours, images = from_timm(theirs), torch.randn(2, 3, size, size)
    assert ours.num_prefix_tokens == prefix
    torch.testing.assert_close(ours.forward_features(images), theirs.forward_features(images), atol=1e-5, rtol=0)
    assert_same_logits(ours, theirs, images)
    assert_same_logits(to_timm(ours), theirs, images)


SMALL = dict(num_hidden_layers=2, hidden_size=48, num_attention_heads=4)
HUGGING_FACE = {  # kind -> its sizes, and what it may compute that we do not
    "ViTForImageClassification": (
        dict(intermediate_size=96, image_size=(32, 48), num_labels=5),
        {"hidden_act": "relu"},
    ),
    "ViTModel": (dict(intermediate_size=96, image_size=32, layer_norm_eps=1e-3), {"hidden_act": "gelu_new"}),
    "Dinov2Model": (dict(image_size=28, patch_size=14), {"use_swiglu_ffn": True}),
    "Dinov2WithRegistersModel": (dict(image_size=28, patch_size=14), {"drop_path_rate": 0.3}),
}


def hugging_face(name, **more):
    config = name.replace("ForImageClassification", "Model").replace("Model", "Config")
    return getattr(transformers, name)(getattr(transformers, config)(**SMALL, **HUGGING_FACE[name][0], **more))


@pytest.mark.parametrize("name", HUGGING_FACE)
def test_models_of_hugging_face(name):
    theirs = randomised(hugging_face(name))
    ours = from_huggingface(theirs)
    images = torch.randn(2, 3, *ours.patch_embed.img_size)
    with torch.no_grad():
        found = theirs(images)
        if hasattr(found, "logits"):
            torch.testing.assert_close(ours(images), found.logits, atol=1e-5, rtol=0)
        else:
            tokens = ours.forward_features(images)
            torch.testing.assert_close(tokens, found.last_hidden_state, atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match="model"):
        from_huggingface(hugging_face(name, **HUGGING_FACE[name][1]))


def test_hugging_face_models_that_do_not_fit_are_refused():
    config = transformers.Dinov2Config(**SMALL, image_size=28, num_labels=3)
    with pytest.raises(ValueError, match="reads 96 numbers.*use model.dinov2"):
        from_huggingface(transformers.Dinov2ForImageClassification(config))
    with pytest.raises(TypeError, match="ViT of transformers, got Linear"):
        from_huggingface(torch.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="distillation_token"):
        from_huggingface(transformers.DeiTModel(transformers.DeiTConfig(**SMALL, image_size=32)))


@pytest.mark.parametrize("wrap", [dict, lambda s: {"state_dict": s}, lambda s: {"model": s, "step": 3}])
@pytest.mark.parametrize(
    "prefix", ["", "_orig_mod.", "module.", "module._orig_mod.", "_fsdp_wrapped_module.", "model."]
)
def test_state_dicts_of_wrapped_models_load(prefix, wrap):
    config = ViTConfig(depth=1, embed_dim=8, num_heads=2)
    one, other = ViT(config), ViT(config)
    other.load_state_dict(wrap({prefix + name: value for name, value in one.state_dict().items()}))
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


@pytest.mark.parametrize(
    "build, function",
    [
        (lambda: timm.create_model("vit_small_patch16_224", depth=1), "from_timm"),
        (lambda: torchvision.models.VisionTransformer(32, 16, 1, 1, 8, 8), "from_torchvision"),
        (lambda: transformers.ViTModel(transformers.ViTConfig(**SMALL)), "from_huggingface"),
    ],
)
def test_a_state_dict_of_a_library_names_what_converts_it(build, function):
    with pytest.raises(ValueError, match=function):
        ViT(ViTConfig()).load_state_dict(build().state_dict())
    with pytest.raises(TypeError, match="got ViT: use state_dict"):
        ViT(ViTConfig()).load_state_dict(ViT(ViTConfig()))


def test_a_subclass_may_have_parts_of_a_librarys_names():
    class Own(ViT):
        def __init__(self, config):
            super().__init__(config)
            self.attn = torch.nn.ModuleDict({"qkv": torch.nn.Linear(2, 2)})
            self.more = torch.nn.ModuleDict({"attn": torch.nn.ModuleDict({"qkv": torch.nn.Linear(2, 2)})})

    one, other = Own(ViTConfig(depth=1)), Own(ViTConfig(depth=1))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one.more["attn"]["qkv"].weight, other.more["attn"]["qkv"].weight)


def wide():
    """A model whose weights are long enough that the proof's, parts of the same numbers, overlap."""
    return timm.models.VisionTransformer(32, 8, embed_dim=96, depth=3, num_heads=4, num_classes=7)


def reads_wrongly(path, change):
    """A model in which one layer computes with its weight and bias changed."""

    def forward(self, x):
        product = torch.nn.functional.linear if isinstance(self, torch.nn.Linear) else self._conv_forward
        return product(x, *change(self.weight, self.bias))

    model = wide()
    layer = model.get_submodule(path)
    layer.__class__ = type("Changed", (type(layer),), {"forward": forward})
    return model


class Backwards(torch.nn.Sequential):
    def forward(self, x):
        for block in reversed(self):
            x = block(x)
        return x


WRONG_READINGS = {
    "transposed": ("blocks.0.attn.proj", lambda w, b: (w.T, b)),
    "queries for keys": ("blocks.1.attn.qkv", lambda w, b: (torch.cat([w[96:192], w[:96], w[192:]]), b)),
    "keys for values": ("blocks.1.attn.qkv", lambda w, b: (torch.cat([w[:96], w[192:], w[96:192]]), b)),
    "head after head": ("blocks.2.attn.proj", lambda w, b: (w.roll(24, 1), b)),
    "rows": ("blocks.1.mlp.fc1", lambda w, b: (w.roll(1, 0), b)),
    "columns": ("blocks.1.mlp.fc1", lambda w, b: (w.roll(1, 1), b)),
    "number after number": ("blocks.1.mlp.fc1", lambda w, b: (w.flatten().roll(1).view_as(w), b)),
    "upside down": ("blocks.2.mlp.fc2", lambda w, b: (w.flip(0), b)),
    "a bias": ("blocks.0.mlp.fc1", lambda w, b: (w, b.roll(1))),
    "pixels by columns": ("patch_embed.proj", lambda w, b: (w.transpose(2, 3), b)),
    "colors": ("patch_embed.proj", lambda w, b: (w.flip(1), b)),
    "classes": ("head", lambda w, b: (w.roll(1, 0), b)),
}


@pytest.mark.parametrize("name", WRONG_READINGS)
def test_no_weight_looks_like_itself_turned_or_rearranged(name):
    with pytest.raises(ValueError, match="does not compute"):
        from_timm(reads_wrongly(*WRONG_READINGS[name]))


def test_no_block_looks_like_another():
    assert from_timm(reads_wrongly("blocks.0.mlp.fc1", lambda w, b: (w.clone(), b)))  # the change alone is no error
    model = wide()
    model.blocks.__class__ = Backwards
    with pytest.raises(ValueError, match="does not compute"):
        from_timm(model)


def test_every_weight_of_the_proof_is_another():
    model = wide()
    found = dict(_perturbed(model, [(b, a) for a, b in TIMM], 1e-3).named_parameters())
    assert found.keys() == dict(model.named_parameters()).keys()
    for name, weight in found.items():
        assert len(weight.unique()) > 0.99 * weight.numel() and weight.ne(0).all()
        others = [w for n, w in found.items() if n != name and w.shape == weight.shape]
        assert all((weight != other).float().mean() > 0.99 for other in others)


def test_a_conversion_draws_no_random_numbers_and_shares_no_weights(tmp_path):
    ours = ViT(ViTConfig(in_chans=3, depth=1))
    before = torch.get_rng_state()
    for there, back in [(to_torchvision, from_torchvision), (to_timm, from_timm)]:
        theirs = there(ours)
        again = back(theirs)
        for parameter in theirs.parameters():
            parameter.data.fill_(7.0)
        assert not any((p == 7).any() for model in (ours, again) for p in model.parameters())
    save(ours, tmp_path / "m")
    load(tmp_path / "m")
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("pool", ["cls", "mean"])
@pytest.mark.parametrize("pos_embed", ["learned", "sincos", "none"])
def test_our_models_in_timm_with_any_shape(pos_embed, pool):
    config = ViTConfig((28, 20), (4, 5), 2, pos_embed=pos_embed, global_pool=pool, qkv_bias=False, norm_eps=1e-3)
    config = replace(config, init_values=0.1, reg_tokens=3, no_embed_class=pos_embed == "learned")
    ours, images = randomised(ViT(config)), torch.randn(2, 2, 28, 20)
    assert_same_logits(to_timm(ours), ours, images)
    assert_same_logits(from_timm(to_timm(ours)), ours, images)


def test_mode_and_dtype_travel():
    ours = ViT(ViTConfig(in_chans=3, depth=1)).double().train()
    for there, back in [(to_torchvision, from_torchvision), (to_timm, from_timm)]:
        assert there(ours).training and back(there(ours)).head.weight.dtype == torch.float64
        assert not there(ours.eval()).training
        ours.train()


def test_dropout_travels():
    ours = ViT(ViTConfig(in_chans=3, depth=1, dropout=0.1, attn_dropout=0.2))
    assert from_torchvision(to_torchvision(ours)).config == ours.config
    assert from_timm(to_timm(ours)).config.attn_dropout == 0.2


@pytest.mark.parametrize(
    "convert, build, word",
    [
        (from_timm, lambda: timm.create_model("resnet18"), "resnet18|ResNet"),
        (from_torchvision, lambda: torch.nn.Linear(2, 2), "Linear"),
        (to_torchvision, lambda: ViT(ViTConfig()), "in_chans"),
        (to_torchvision, lambda: ViT(ViTConfig(img_size=(28, 24), in_chans=3)), "img_size"),
        (to_torchvision, lambda: ViT(ViTConfig(norm="post", in_chans=3)), "norm"),
        (to_torchvision, lambda: ViT(ViTConfig(stem="conv", in_chans=3)), "stem"),
        (to_torchvision, lambda: ViT(ViTConfig(in_chans=3, init_values=0.1)), "init_values"),
        (to_torchvision, lambda: ViT(ViTConfig(in_chans=3, reg_tokens=2)), "reg_tokens"),
        (to_timm, lambda: ViT(ViTConfig(stem="conv")), "stem"),
        (to_torchvision, lambda: ViT(ViTConfig(pos_embed="none", in_chans=3)), "pos_embedding|pos_embed"),
        (to_timm, lambda: ViT(ViTConfig(global_pool="attn")), "global_pool"),
        (to_timm, lambda: torch.nn.Linear(2, 2), "Linear"),
    ],
)
def test_models_that_do_not_fit_are_refused(convert, build, word):
    with pytest.raises((ValueError, TypeError), match=word):
        convert(build())


def test_images_that_look_at_each_other_are_refused():
    class Rolled(torchvision.models.VisionTransformer):
        """Right for each image alone; in a batch it answers with the next one's logits."""

        def forward(self, x):
            return super().forward(x).roll(1, 0)

    with pytest.raises(ValueError, match="its logits are off"):
        from_torchvision(Rolled(32, 16, 1, 1, 8, 8))


def noisy(_part, _given, x):
    """A hook that adds noise in training."""
    return x + 0.1 * torch.randn_like(x) if _part.training else x


def patched(model):
    inner = model.forward
    model.forward = lambda x: inner(x + 0.1 * torch.randn_like(x) if model.training else x)


class OneMore(torch.nn.GELU):
    def forward(self, x):
        return super().forward(x) * (1.1 if self.training else 1)


ONLY_IN_TRAINING = [  # what a model computes otherwise while it trains, each in a place of its own
    lambda m: m.encoder.register_forward_hook(noisy),
    lambda m: m.encoder.ln.register_forward_pre_hook(lambda part, given: noisy(part, None, given[0])),
    patched,
    lambda m: setattr(m.heads, "head", torch.nn.Sequential(torch.nn.Dropout(0.5), m.heads.head)),
    lambda m: setattr(m.encoder, "dropout", torch.nn.BatchNorm1d(5, affine=False)),
    lambda m: m.encoder.layers[0].mlp.__setitem__(1, OneMore()),
    lambda m: setattr(m.encoder, "dropout", torchvision.ops.StochasticDepth(0.5, "row")),
]


@pytest.mark.parametrize("n", range(len(ONLY_IN_TRAINING)))
def test_what_is_otherwise_only_in_training_is_refused(n):
    model = torchvision.models.VisionTransformer(32, 16, 2, 1, 8, 8)
    ONLY_IN_TRAINING[n](model)
    with pytest.raises(ValueError, match="compute in training|tokens are off|holds|drops"):
        from_torchvision(model.eval())


@pytest.mark.parametrize(
    ("convert", "build"),
    [
        (from_timm, lambda **drops: timm.models.VisionTransformer(32, 16, embed_dim=8, depth=2, num_heads=1, **drops)),
        (
            from_huggingface,
            lambda **drops: transformers.Dinov2Model(
                transformers.Dinov2Config(
                    hidden_size=8, num_hidden_layers=2, num_attention_heads=1, image_size=32, patch_size=16, **drops
                )
            ),
        ),
    ],
)
def test_whole_branches_that_are_dropped_in_training_are_refused(convert, build):
    convert(build().eval())
    with pytest.raises(ValueError, match="compute in training"):
        convert(build(drop_path_rate=0.9).eval())


def test_a_saved_file_can_be_read_by_whom_any_new_file_can(tmp_path):
    ordinary = tmp_path / "ordinary"
    ordinary.touch()
    save(ViT(ViTConfig(embed_dim=8, depth=1, num_heads=2)), tmp_path / "model.safetensors")
    assert (tmp_path / "model.safetensors").stat().st_mode == ordinary.stat().st_mode


def test_save_and_load(tmp_path):
    model, images = randomised(ViT(ViTConfig((28, 20), (4, 5), pos_embed="sincos"))), torch.randn(2, 1, 28, 20)
    save(model, tmp_path / "m.safetensors")
    loaded = load(tmp_path / "m.safetensors")
    assert loaded.config == model.config and not loaded.training
    assert torch.equal(loaded(images), model(images))
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "m.safetensors"
    save(ViT(ViTConfig(depth=1)), path)
    before = path.read_bytes()

    def full(path, content):
        with path.open("wb") as file:
            file.write(content[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        save(ViT(ViTConfig(depth=2)), path)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


def test_damaged_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    with pytest.raises(FileNotFoundError, match="no weights"):
        load(path)
    save(ViT(ViTConfig(depth=1)), path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match="no whole safetensors file"):
        load(path)
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(ValueError, match="without a vitnb config"):
        load(path)


# ---- The weights of ImageNet


def hub(tmp_path, monkeypatch):
    """Where torch.hub keeps the file in this test, and a machine that may not download."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setenv("VITNB_OFFLINE", "1")
    return tmp_path / "checkpoints" / torchvision.models.ViT_B_16_Weights.IMAGENET1K_V1.url.split("/")[-1]


def test_weights_in_the_cache_are_read(tmp_path, monkeypatch, capsys):
    path = hub(tmp_path, monkeypatch)
    path.parent.mkdir()
    model = randomised(torchvision.models.VisionTransformer(32, 16, 2, 3, 24, 48))
    old = {k.replace("mlp.0.", "mlp.linear_1.").replace("mlp.3.", "mlp.linear_2."): t for k, t in state(model).items()}
    torch.save(old, path)
    found = imagenet_vit_b_16()
    assert found.keys() == state(model).keys() != old.keys()
    model.load_state_dict(old)  # torchvision renames them likewise
    assert all(torch.equal(found[name], tensor) for name, tensor in state(model).items())
    assert capsys.readouterr().out == ""


def state(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("flag", ["VITNB_OFFLINE", "VITNB_FAST"])
def test_without_weights_it_says_how_to_get_them(tmp_path, monkeypatch, capsys, flag):
    path = hub(tmp_path, monkeypatch)
    monkeypatch.setattr("vitnb.weights._fetched", lambda *_: pytest.fail("it downloads"))
    monkeypatch.delenv("VITNB_OFFLINE")
    monkeypatch.setenv(flag, "1")
    assert imagenet_vit_b_16() is None and not path.exists()
    assert capsys.readouterr().out == NOT_HERE + "\n"


def test_a_download_is_whole_or_not_there(tmp_path):
    blob = bytes(range(256)) * 10_000
    source = tmp_path / "source"
    source.write_bytes(blob)
    whole = tmp_path / "new" / f"vit-{hashlib.sha256(blob).hexdigest()[:8]}.pth"
    assert _fetched(source.as_uri(), whole, 60) and whole.read_bytes() == blob
    damaged, late = tmp_path / "new" / "vit-00000000.pth", tmp_path / "new" / ("late-" + whole.name)
    assert not _fetched(source.as_uri(), damaged, 60)
    assert not _fetched(source.as_uri(), late, -1)
    assert not _fetched((tmp_path / "nowhere").as_uri(), late, 60)
    assert list(whole.parent.iterdir()) == [whole]

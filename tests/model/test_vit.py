"""The whole model: published sizes, poolings, gradients, names."""

import math
from dataclasses import replace
from itertools import product

import pytest
import torch

from vitnb import AttentionPool, PreNormBlock, ViT, ViTConfig
from vitnb._validate import pair
from vitnb.vit import count_parameters
from vitnb.weights import from_timm, to_timm

PUBLISHED = {  # timm and torchvision pin the same numbers
    "vit_ti_16": 5_717_416,
    "vit_s_16": 22_050_664,
    "vit_b_16": 86_567_656,
    "vit_b_32": 88_224_232,
    "vit_l_16": 304_326_632,
    "vit_l_32": 306_535_400,
    "vit_h_14": 632_045_800,
}
PARTS = ("pre", "post"), ("learned", "sincos", "none"), ("cls", "mean", "attn"), ("patch", "conv")
# A third of all combinations, in which each two parts of different kinds meet.
EVERY = [
    [parts[n] for parts, n in zip(PARTS, places, strict=True)]
    for places in product(*(range(len(parts)) for parts in PARTS))
    if sum(places) % 3 == 0
]


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts_are_the_published_ones(name):
    with torch.device("meta"):
        assert count_parameters(ViT(getattr(ViTConfig, name)())) == PUBLISHED[name]


@pytest.mark.parametrize("norm, pos_embed, pool, stem", EVERY)
def test_each_two_parts_learn_sixteen_images_together(norm, pos_embed, pool, stem):
    torch.manual_seed(0)
    parts = dict(norm=norm, pos_embed=pos_embed, global_pool=pool, stem=stem)
    model = ViT(ViTConfig(img_size=(8, 12), patch_size=4, in_chans=2, depth=2, **parts))
    images, labels = torch.randn(16, 2, 8, 12), torch.arange(16) % 10
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    first = torch.nn.functional.cross_entropy(model(images), labels).item()
    assert first == pytest.approx(math.log(10), abs=0.35)
    for _ in range(80):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if loss.item() < 0.1:
            break
    assert loss.item() < 0.1
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


@pytest.mark.parametrize(
    "norm, pool, stem", [("pre", "cls", "patch"), ("post", "mean", "conv"), ("pre", "attn", "conv")]
)
def test_intermediates_see_what_a_hook_a_new_block_or_a_subclass_changes(norm, pool, stem):
    """There is one way through the model."""

    class Changed(ViT):
        def _pos_embed(self, x):
            return super()._pos_embed(x) + 1

        def _in_order(self):
            return reversed(self.blocks)

    torch.manual_seed(0)
    config = ViTConfig(depth=2, norm=norm, global_pool=pool, stem=stem)
    model, images = Changed(config).eval(), torch.randn(2, 1, 28, 28)
    plain = ViT(config).eval()
    plain.load_state_dict(model.state_dict())
    model.blocks[0] = torch.nn.Sequential(model.blocks[0], torch.nn.Tanh())
    model.blocks[1].register_forward_hook(lambda block, given, x: 3 * x)
    out = model.forward_intermediates(images)
    assert list(out) == ["patches", "embedded", "block_1", "block_2", "features", "pooled", "logits"]
    assert torch.equal(out["logits"], model(images)) and not torch.allclose(out["logits"], plain(images))
    assert torch.equal(out["features"], model.forward_features(images))
    assert torch.equal(out["embedded"], plain.embed(images) + 1)
    assert torch.equal(out["block_1"], 3 * plain.blocks[1](out["embedded"]))
    assert torch.equal(out["block_2"], plain.blocks[0](out["block_1"]).tanh())


def test_intermediates_of_a_block_that_stands_in_several_places():
    model, images = ViT(ViTConfig(depth=3)).eval(), torch.randn(2, 1, 28, 28)
    model.blocks = torch.nn.ModuleList([model.blocks[0]] * 3)
    out = model.forward_intermediates(images)
    for before, after in (("embedded", "block_1"), ("block_1", "block_2"), ("block_2", "block_3")):
        assert torch.equal(model.blocks[0](out[before]), out[after])
    assert torch.equal(model.norm(out["block_3"]), out["features"])


@pytest.mark.parametrize("name", ["embed", "encode", "forward_features", "forward_head"])
def test_intermediates_are_refused_where_a_subclass_goes_another_way(name):
    kind = type("Own", (ViT,), {name: lambda self, x: getattr(super(type(self), self), name)(x)})
    model, images = kind(ViTConfig(depth=1)), torch.randn(2, 1, 28, 28)
    assert model(images).shape == (2, 10)
    with pytest.raises(TypeError, match=f"Own overrides {name}.*override _pos_embed or _in_order"):
        model.forward_intermediates(images)


def test_intermediates_of_wrong_images_are_refused():
    with pytest.raises(ValueError, match="images"):
        ViT(ViTConfig(depth=1)).forward_intermediates(torch.randn(2, 1, 28, 27))


def test_the_presets_are_for_colour_images_and_say_what_they_are():
    config = ViTConfig.vit_h_14(num_classes=5, img_size=28)
    assert config == ViTConfig(28, 14, 3, 5, 1280, 32, 16, mlp_ratio=4.0)
    assert all(getattr(ViTConfig, name).__doc__ for name in PUBLISHED)
    assert "632 million" in ViTConfig.vit_h_14.__doc__


def test_attention_pool_averages_values_when_the_query_is_silent():
    pool, x = AttentionPool(8, 2), torch.randn(2, 5, 8)
    torch.nn.init.zeros_(pool.query)
    values = pool.kv(x)[..., 8:]
    torch.testing.assert_close(pool(x), pool.proj(values.mean(dim=1)))


def test_eval_is_deterministic_and_training_with_dropout_is_not():
    model, images = ViT(ViTConfig(depth=1, dropout=0.3)), torch.randn(2, 1, 28, 28)
    assert not torch.equal(model(images), model(images))
    model.eval()
    assert torch.equal(model(images), model(images))


@pytest.mark.parametrize("pos_embed", ["learned", "sincos", "none"])
def test_state_dict_round_trip_gives_the_same_output(pos_embed):
    config, images = ViTConfig(depth=2, pos_embed=pos_embed, global_pool="attn"), torch.randn(2, 1, 28, 28)
    first, second = ViT(config).eval(), ViT(config).eval()
    assert not torch.equal(first(images), second(images))
    second.load_state_dict(first.state_dict())
    assert torch.equal(first(images), second(images))


def test_config_is_plain_data():
    config = ViTConfig(img_size=[28, 20], patch_size=[4, 5])
    assert ViTConfig(**config.to_dict()) == config and hash(config) and config.num_patches == 28
    with pytest.raises(AttributeError):
        config.depth = 3


@pytest.mark.parametrize("pool, prefix", [("cls", 4), ("mean", 3), ("attn", 3)])
@pytest.mark.parametrize("no_embed_class", [False, True])
@pytest.mark.parametrize("pos_embed", ["learned", "sincos", "none"])
def test_registers_attend_and_no_pooling_reads_them(pool, prefix, no_embed_class, pos_embed):
    config = ViTConfig(depth=1, reg_tokens=3, global_pool=pool, no_embed_class=no_embed_class, pos_embed=pos_embed)
    model, images = ViT(config).eval(), torch.randn(2, 1, 28, 28)
    tokens = model.embed(images)
    assert model.num_prefix_tokens == prefix and tokens.shape == (2, prefix + 49, 64)
    if pos_embed == "learned":
        assert model.positions.table.shape[1] == 49 + (0 if no_embed_class else prefix)
    after, other = model.encode(tokens), model.encode(tokens)
    other[:, prefix - 3 : prefix] += 1
    assert torch.equal(model.forward_head(after), model.forward_head(other))  # they are not read
    before = model(images)
    model.registers.token.data += torch.randn(1, 3, 64)
    assert not torch.allclose(model(images), before)  # and still they matter


def test_layerscale_begins_a_block_as_the_identity():
    x = torch.randn(2, 5, 16)
    block = PreNormBlock(16, 2, init_values=1e-5)
    torch.testing.assert_close(block(x), x, atol=1e-4, rtol=0)
    plain = PreNormBlock(16, 2)
    block.load_state_dict(plain.state_dict() | {"ls1.gamma": torch.ones(16), "ls2.gamma": torch.ones(16)})
    assert torch.equal(block(x), plain(x))


def test_what_came_later_is_named_only_where_it_is_used():
    assert "reg_tokens" not in repr(ViTConfig()) and "init_values" not in ViTConfig().to_dict()
    config = ViTConfig(reg_tokens=2, init_values=0.1, no_embed_class=True)
    assert eval(repr(config)) == config == ViTConfig(**config.to_dict())


def test_a_new_head_leaves_the_body():
    model, images = ViT(ViTConfig(depth=1)).double(), torch.randn(2, 1, 28, 28).double()
    other = model.with_head(3)
    assert other(images).shape == (2, 3) and other.config == replace(model.config, num_classes=3)
    assert torch.equal(other.forward_features(images), model.forward_features(images))
    assert 0 < other.head.weight.std() < 0.03 and not other.head.bias.any() and other.head.weight.dtype == torch.float64
    assert model.config.num_classes == 10 and torch.equal(
        other.with_head(0)(images), other.forward_features(images)[:, 0]
    )
    with pytest.raises(ValueError, match="num_classes .*-1"):
        model.with_head(-1)


@pytest.mark.parametrize("size", [(42, 28), 56, 14])
@pytest.mark.parametrize("reg_tokens, no_embed_class", [(0, False), (2, False), (2, True)])
def test_another_image_size_is_timms(size, reg_tokens, no_embed_class):
    model = ViT(ViTConfig(patch_size=7, depth=2, pos_std=1.0, reg_tokens=reg_tokens, no_embed_class=no_embed_class))
    theirs = to_timm(model)
    theirs.set_input_size(pair("img_size", size))
    ours, images = model.resized(size), torch.randn(2, 1, *pair("img_size", size))
    assert torch.equal(ours.positions.table, theirs.pos_embed)
    torch.testing.assert_close(ours(images), theirs(images))
    assert model.config.img_size == 28 and from_timm(theirs).config.img_size == pair("img_size", size)


@pytest.mark.parametrize("pos_embed, stem", [("sincos", "patch"), ("none", "patch"), ("learned", "conv")])
def test_another_image_size_of_other_kinds(pos_embed, stem):
    model = ViT(ViTConfig(pos_embed=pos_embed, stem=stem, depth=1)).eval()
    ours, images = model.resized((28, 56)), torch.randn(2, 1, 28, 56)
    assert ours(images).shape == (2, 10)
    fresh = ViT(ours.config).eval()
    fresh.load_state_dict(ours.state_dict())
    assert torch.equal(fresh(images), ours(images))
    with pytest.raises(ValueError, match="height 30 .*use 28 or 32"):
        model.resized(30)

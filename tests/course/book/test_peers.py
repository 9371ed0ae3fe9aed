"""What the experiments time: the same architecture, as many images, and a race that is fair."""

import random
import re
from dataclasses import replace

import pytest
import torch

from experiments import _libraries, _timing, epoch, spellings
from experiments._timing import DEVICE
from vitnb import ViT
from vitnb.data import load

SIZES = dict(img_size=16, patch_size=8, in_chans=1, embed_dim=16, depth=2, num_heads=2)


def parameters(name):
    return {n: p for n, p in _libraries.ARMS[name](**SIZES).to(DEVICE).named_parameters()}


@pytest.mark.parametrize("name", _libraries.ARMS)
def test_each_peer_is_the_same_transformer(name):
    def matrices(of):
        return sum(p.numel() for n, p in parameters(of).items() if p.ndim in (2, 4) and not re.search("pos|cls", n))

    assert matrices(name) == matrices("vitnb")  # they differ in biases and norms at most
    model = _libraries.ARMS[name](**SIZES).to(DEVICE).eval()
    images = torch.randn(3, 1, 16, 16, device=DEVICE)
    with torch.no_grad():
        logits = model(images)
        assert logits.shape == (3, 10)
        torch.testing.assert_close(model(images[1:2]), logits[1:2], atol=1e-5, rtol=0)  # each image by itself
    before = {n: p.clone() for n, p in model.named_parameters()}
    step = _timing.step(model.train(), images, torch.tensor([0, 1, 2], device=DEVICE))
    step()
    step()  # behind a head of zeros nothing moves at first
    moved = [n for n, p in model.named_parameters() if not torch.equal(p, before[n])]
    assert len(moved) > 0.9 * len(before)


def test_a_peer_without_bias_is_measured_against_vitnb_without_it():
    def biased(of):
        layers = _libraries.ARMS[of](**SIZES).named_modules()
        return {layer.bias is not None for n, layer in layers if re.search(r"qkv$|\.[qkv]$", n)}

    assert biased("vitnb") == {True} == biased("timm")
    assert biased(_libraries.UNBIASED) == {False}
    for name in _libraries.AGAINST:
        assert biased(name) == {False}


def test_a_race_times_everyone_in_each_round(monkeypatch):
    calls, now = [], [0.0]
    monkeypatch.setattr(_timing.time, "perf_counter", lambda: now[0])

    def runner(name, seconds):
        def one():
            calls.append(name)
            now[0] += seconds

        return one

    found = _timing.race({"a": runner("a", 0.1), "b": runner("b", 0.15)}, 5, random.Random(0))
    assert found["a"]["ratio"] == 1 and found["b"]["ratio"] == 1.5 and found["b"]["quartiles"] == [1.5, 1.5]
    assert calls.count("a") == 2 + 1 + 5 * 3 and calls.count("b") == 2 + 5 * 3

    found = _timing.race(
        {n: runner(n, t) for n, t in {"a": 0.1, "b": 0.3, "c": 0.2}.items()}, 3, random.Random(0), against={"b": "c"}
    )
    assert {n: f["ratio"] for n, f in found.items()} == {"a": 1, "b": 1.5, "c": 2}


def test_all_ways_through_an_epoch_show_as_many_images_equally_normalised(monkeypatch):
    digits = load("digits")

    def enlarged(images):
        return images.repeat_interleave(4, 2).repeat_interleave(4, 3)[:, :, :28, :28]

    large = replace(digits, train_images=enlarged(digits.train_images), test_images=enlarged(digits.test_images))
    seen = []

    class Recording(ViT):
        def forward(self, images):
            if self.training:
                seen.append(images.detach().cpu())
            return super().forward(images)

    monkeypatch.setitem(epoch.THIS.settings, "images", 200)
    monkeypatch.setitem(epoch.THIS.settings, "batch", 50)
    monkeypatch.setattr(epoch, "ViT", Recording)
    monkeypatch.setattr(epoch.data, "load", lambda: large)
    shown = {}
    for name, one in epoch.epochs().items():
        one()
        shown[name] = torch.cat(seen)
        seen.clear()
    usual = shown["DataLoader"]
    for images in shown.values():
        assert images.shape == usual.shape == (200, 1, 28, 28)
        for ours, theirs in ((images.mean(), usual.mean()), (images.std(), usual.std()), (images.min(), usual.min())):
            assert abs(ours - theirs) < 0.03


@pytest.mark.parametrize("kind, other", [(0, "convolution"), (1, "permute"), (1, "never")])
def test_all_spellings_of_a_layer_compute_the_same(kind, other):
    layers = spellings.layers(SIZES | {"batch": 3})[kind]
    ours, other = next(iter(layers.values())), layers[other]
    x = torch.randn([(3, 1, 16, 16), (3, 5, 16)][kind], device=DEVICE)
    both = [x.clone().requires_grad_() for _ in range(2)]
    for layer, given in zip((ours, other), both, strict=True):
        spellings.both_ways(layer, given)()
    torch.testing.assert_close(ours(x), other(x), atol=1e-5, rtol=0)
    torch.testing.assert_close(both[0].grad, both[1].grad, atol=1e-4, rtol=0)
    for p, q in zip(ours.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, atol=1e-4, rtol=0)
    assert type(ours) is not type(other)

"""BlockDiagram: in Python against torch, and in the page of chapter 05 against the stored trainings."""

import re

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from torch.nn import functional as F

from tests.pages.driver import assert_fits_a_phone, drag, read_line, refuses, survives, touch
from vitbook import results
from vitbook.faults.wire import NormaliseThenAdd
from vitbook.figures import BlockDiagram
from vitbook.figures.block_diagram import SandwichBlock, stack
from vitnb import ViT, ViTConfig

PAGE, PLACE = "book/05-pre-norm-post-norm.html", 2  # behind the rounds of attention and the quiz
WIRINGS = ["pre-norm", "post-norm", "normalise, then add", "sandwich"]


@pytest.fixture(scope="module")
def diagram():
    return BlockDiagram()


@pytest.fixture(scope="module")
def stored():
    return results.result("norms")


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_curves_are_those_of_the_model_that_was_trained(diagram, stored, norm):
    """The same weights and images, measured in another way."""
    config = stored["config"]["model"] | {"norm": norm, "depth": 12}
    rms, gradient = [], []
    for seed in range(3):
        torch.manual_seed(seed)
        model = ViT(ViTConfig(**config))
        images, labels = torch.randn(16, 1, 28, 28), torch.randint(10, (16,))
        steps = model.forward_intermediates(images)
        rms.append([steps[f"block_{n}"].pow(2).mean().sqrt().item() for n in range(1, 13)])
        grads = torch.autograd.grad(F.cross_entropy(steps["logits"], labels), list(model.blocks.parameters()))
        each = len(grads) // 12
        parts = [torch.cat([g.flatten() for g in grads[each * n : each * n + each]]) for n in range(12)]
        gradient.append([part.norm().item() for part in parts])
    for name, runs in (("rms", rms), ("gradient", gradient)):
        runs = torch.tensor(runs)  # (seeds, blocks)
        expected = torch.stack([runs.amin(0), runs.mean(0), runs.amax(0)])
        found = diagram.curve(name, WIRINGS.index(f"{norm}-norm"), 1)
        torch.testing.assert_close(found, expected, rtol=2e-3, atol=0)  # four digits are kept


def test_the_two_other_blocks_are_wired_as_they_say(stored):
    config = ViTConfig(**stored["config"]["model"])
    x = torch.randn(2, 5, config.embed_dim)  # (B, T, D)
    for wiring, kind in (("normalise, then add", NormaliseThenAdd), ("sandwich", SandwichBlock)):
        model = stack(config, wiring, 2)
        block = model.blocks[1]
        assert type(block) is kind
        assert isinstance(model.norm, torch.nn.LayerNorm)
        for branch in (block.attention.proj, block.mlp.fc2):
            torch.nn.init.zeros_(branch.weight)
            torch.nn.init.zeros_(branch.bias)
        stays = torch.allclose(block(x), x)
        assert stays == (wiring == "sandwich")  # silent branches: does the stream pass?


def test_it_carries_the_trainings(diagram, stored):
    assert diagram.wirings == WIRINGS
    plain = [arm for arm in stored["result"]["arms"] if not arm["change"]]
    assert sum(run["wiring"] in ("pre-norm", "post-norm") for run in diagram.trained) == len(plain)
    for arm in plain:
        keys = {key: arm[key] for key in ("depth", "warmup", "lr", "accuracy")}
        assert {"wiring": f"{arm['norm']}-norm"} | keys in diagram.trained


test_bad_input_is_refused_with_words = refuses(
    (lambda: BlockDiagram(wiring=4), ValueError, ["wiring", "3", "4"]),
    (lambda: BlockDiagram(depth=-1), ValueError, ["depth", "-1"]),
    (lambda: BlockDiagram(rate=0.001), TypeError, ["rate", "0.001"]),
    (lambda: setattr(BlockDiagram(), "warmup", 2), ValueError, ["warmup", "2", "1"]),
)


def accuracy_in_words(stored, depth, norm, lr, warmup):
    """What the figure should say of one training."""
    expected = {"depth": depth, "norm": norm, "lr": lr, "warmup": warmup, "change": ""}
    (arm,) = (arm for arm in stored["result"]["arms"] if expected.items() <= arm.items())
    runs = torch.tensor(arm["accuracy"], dtype=torch.float64) * 100
    return f"{runs.mean():.1f} % ({runs.min():.1f} to {runs.max():.1f})"


def assert_curves(figure, diagram, wiring, depth, lr=0.001, warmup=0):
    """What one reads off the three axes is what is stored; the chosen wiring has its band and is drawn thick."""
    axes = figure.locator(".vf-axes")
    for name, plot in (("rms", axes.nth(0)), ("gradient", axes.nth(1))):
        for w, other in enumerate(WIRINGS):
            line, stored = read_line(plot, other, log="y"), diagram.curve(name, w, diagram.depths.index(depth)).numpy()
            np.testing.assert_allclose(line.ys, stored[1], rtol=5e-3)
            np.testing.assert_allclose(line.xs, np.arange(1, depth + 1), atol=0.01 * depth)
            chosen = other == wiring
            np.testing.assert_allclose([line.low, line.high], stored[[0, 2]] if chosen else np.empty((2, 0)), rtol=5e-3)
            (width,) = plot.locator(f"[data-line='{other}'] polyline").all()
            assert float(width.get_attribute("stroke-width")) == (3.5 if chosen else 1.25)
        assert plot.locator("[data-line]").last.get_attribute("data-line") == wiring  # on top
    for other in WIRINGS:
        line = read_line(axes.nth(2), other)
        setting = {"wiring": other, "lr": lr, "warmup": warmup}
        runs = [run for run in diagram.trained if setting.items() <= run.items()]
        dots = [(run["depth"], 100 * share) for run in runs for share in run["accuracy"]]
        np.testing.assert_allclose(line.dots, np.reshape(dots, (-1, 2)), atol=0.1)
        np.testing.assert_allclose(line.ys, [100 * np.mean(run["accuracy"]) for run in runs], atol=0.1)
    guides = [guide.get_attribute("data-guide") for guide in axes.nth(2).locator("[data-guide]").all()]
    assert guides == ["10", str(depth)]  # chance, and the chosen depth


def parts(figure):
    """The boxes of the diagram from below, those on the stream with a bar."""
    boxes = figure.locator(".vf-block [data-part]").all()
    sides = {"11.5": "|", "104": ""}
    return [sides[box.get_attribute("x")] + box.get_attribute("data-part") for box in boxes]


def test_by_mouse_and_key_it_shows_the_stored_numbers(live, diagram, stored):
    figure, page, watch = live(PAGE, PLACE, from_file=True)
    says, depth = figure.get_by_role("status"), figure.locator("input[type=range]")
    expect(says).to_contain_text("6 blocks, pre-norm")
    expect(says).to_contain_text(accuracy_in_words(stored, 6, "pre", 0.001, 0))
    assert_curves(figure, diagram, "pre-norm", 6)
    assert parts(figure) == ["norm", "attention", "norm", "MLP"]
    figure.get_by_label("post-norm").check()
    expect(figure.locator("pre")).to_have_text("x = norm1(x + attention(x))\nx = norm2(x + mlp(x))")
    assert parts(figure) == ["attention", "|norm", "MLP", "|norm"]
    expect(figure.locator(".vf-block")).to_have_attribute("aria-label", re.compile("2 norms on the stream, 0 on the b"))
    drag(depth, 0, 1)
    expect(says).to_contain_text("36 blocks, post-norm")
    expect(says).to_contain_text(accuracy_in_words(stored, 36, "post", 0.001, 0))
    depth.focus()
    page.keyboard.press("ArrowLeft")
    figure.get_by_label("0.003").check()
    figure.get_by_label("50 steps").check()
    expect(says).to_contain_text(accuracy_in_words(stored, 24, "post", 0.003, 50))
    assert_curves(figure, diagram, "post-norm", 24, lr=0.003, warmup=50)
    figure.get_by_label("sandwich").check()
    expect(figure.locator(".vf-block")).to_have_attribute("aria-label", re.compile("0 norms on the stream, 4 on the b"))
    expect(says).to_contain_text("was not trained")
    words = says.inner_text()
    said = [float(v) for v in re.search(r"stream is (\S+) after block 1 and (\S+) after block 24", words).groups()]
    said += [float(v) for v in re.search(r"gradient is (\S+) in block 1 and (\S+) in block 24", words).groups()]
    real = [diagram.curve(name, 3, 2)[1][at].item() for name in ("rms", "gradient") for at in (0, -1)]
    torch.testing.assert_close(torch.tensor(said), torch.tensor(real), rtol=0.01, atol=0)
    watch.assert_clean()


def test_by_touch_on_a_phone(live, diagram):
    figure, page, watch = live(PAGE, PLACE, width=390, touch=True, dark=True)
    says = figure.get_by_role("status")
    figure.get_by_label("normalise, then add").tap()
    expect(says).to_contain_text("6 blocks, normalise, then add")
    touch(figure.locator("input[type=range]"), 0.98, 0.5)
    expect(says).to_contain_text("36 blocks, normalise, then add")
    assert_curves(figure, diagram, "normalise, then add", 36)
    assert parts(figure) == ["|norm", "attention", "|norm", "MLP"]
    assert_fits_a_phone(figure, page, watch)


GARBAGE = {
    "there is no depth number 9": (r'"depth": 0', '"depth": 9'),
    "there is no wiring number null": (r'"wiring": 0', '"wiring": null'),
    "it knows no wiring post-office": (
        r'"wirings": \["pre-norm", "post-norm"',
        '"wirings": ["pre-norm", "post-office"',
    ),
    "its rms should take": (r'"depths": \[6, 12', '"depths": [6, 13'),
}
test_garbage_becomes_a_message_and_the_page_goes_on = survives(PAGE, GARBAGE, PLACE)

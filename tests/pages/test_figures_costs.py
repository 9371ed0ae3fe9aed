"""CostExplorer: in Python against PyTorch's counter, and in the page of chapter 13 against Python."""

import numpy as np
import torch
from playwright.sync_api import expect
from torch.utils.flop_counter import FlopCounterMode

from tests.pages.driver import assert_fits_a_phone, drag, read_line, refuses, survives
from vitbook.figures import CostExplorer
from vitnb import ViT, ViTConfig, record_attention

PAGE = "book/13-scale.html"
SMALL = ViTConfig(img_size=32, patch_size=4, embed_dim=64, depth=2, num_heads=2, mlp_ratio=4.0, global_pool="mean")


# ---- Python


def test_the_blocks_of_a_real_model_cost_as_much():
    model, said = ViT(SMALL).eval(), CostExplorer(SMALL).cost()
    x = torch.zeros(1, said["tokens"], 64)
    with FlopCounterMode(display=False) as counter, torch.no_grad(), record_attention(model) as maps:
        for block in model.blocks:
            x = block(x)
    assert counter.get_total_flops() == 2 * (said["matrices"] + said["between"])
    assert sum(part.numel() for part in maps) == said["maps"]
    assert sum(w.numel() for w in model.blocks.parameters() if w.ndim == 2) == said["weights"]


def test_both_kinds_are_equal_at_six_widths():
    explorer = CostExplorer(SMALL)
    even = explorer.cost(6 * explorer.width)
    assert even["matrices"] == even["between"]


test_bad_input_is_refused_with_words = refuses(
    (lambda: CostExplorer("vit"), TypeError, ["config", "str", "ViTConfig()"]),
    (lambda: CostExplorer(ViTConfig(depth=5)), ValueError, ["depth", "got 5", "use 2"]),
    (lambda: setattr(CostExplorer(), "side", 30), ValueError, ["side", "got 30", "use 32"]),
    (lambda: (explorer := CostExplorer(), setattr(explorer, "patch", 16), explorer.cost()), ValueError, ["patch"]),
)


# ---- The page


def assert_numbers(figure, **sizes):
    """What the figure says of a model is what Python says."""
    explorer = CostExplorer()
    for name, value in sizes.items():
        setattr(explorer, name, value)
    cost = explorer.cost()
    share = round(100 * cost["between"] / (cost["matrices"] + cost["between"]))
    status = figure.get_by_role("status")
    expect(status).to_contain_text(f"{cost['tokens']:,} tokens: ")
    expect(status).to_contain_text(f"{share}\u00a0% of them between tokens")
    expect(status).to_contain_text(f"equal at {6 * explorer.width:,} tokens")
    facts = figure.locator("dl")  # expect waits: a figure draws at the next frame
    expect(facts).to_contain_text(f"{cost['weights']:,}")
    unit, name = next((u, n) for u, n in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")) if 4 * cost["maps"] >= u)
    three_digits = float(f"{4 * cost['maps'] / unit:.3g}")
    expect(facts).to_contain_text(f"{three_digits:,g}\u00a0{name}")
    assert figure.get_by_role("img").get_attribute("aria-label").endswith(status.inner_text())
    for name, kind in (("in matrices", "matrices"), ("between tokens", "between")):
        line = read_line(figure.locator(".vf-axes"), name, log="xy")
        tokens = [4, 16384]
        np.testing.assert_allclose(line.xs, tokens, rtol=1e-3)
        np.testing.assert_allclose(line.ys, [explorer.cost(n)[kind] for n in tokens], rtol=5e-3)
        np.testing.assert_allclose(line.dots, [[cost["tokens"], cost[kind]]], rtol=5e-3)


START = {"side": 28, "patch": 7, "width": 64, "depth": 4, "heads": 4}
BASE = {"side": 224, "patch": 16, "width": 768, "depth": 12, "heads": 12}


def test_by_mouse_and_key_it_says_what_python_says(live):
    figure, page, watch = live(PAGE, from_file=True)
    assert_numbers(figure, **START)
    figure.get_by_role("radio", name="224/16, ViT-B").click()
    assert_numbers(figure, **BASE)
    figure.get_by_role("slider", name="Heads").focus()
    page.keyboard.press("ArrowLeft")
    assert_numbers(figure, **BASE | {"heads": 8})
    assert figure.get_by_role("radio", checked=True).count() == 0  # no model of the list any more
    figure.get_by_role("slider", name="Side of a patch").focus()
    page.keyboard.press("ArrowLeft")
    assert_numbers(figure, **BASE | {"heads": 8, "patch": 14})
    drag(figure.get_by_role("slider", name="Blocks"), 5 / 6, 1)
    assert_numbers(figure, **BASE | {"heads": 8, "patch": 14, "depth": 24})
    watch.assert_clean()


def test_a_side_that_the_patch_does_not_divide_takes_the_nearest_patch(live):
    figure, page, _ = live(PAGE)
    figure.get_by_role("slider", name="Side of the image").focus()
    page.keyboard.press("ArrowRight")
    assert_numbers(figure, **START | {"side": 32, "patch": 8})
    expect(figure.get_by_role("slider", name="Side of a patch")).to_have_attribute(
        "aria-valuetext", "8 pixels: 4 × 4 tokens"
    )
    figure.get_by_role("radio", name="224/16, ViT-B").click()
    assert_numbers(figure, **BASE)  # drawn at the next frame: a key that comes sooner moves the slider of before
    figure.get_by_role("slider", name="Width").focus()
    page.keyboard.press("ArrowRight")  # twelve heads do not divide 1,024
    assert_numbers(figure, **BASE | {"width": 1024, "heads": 16})


def test_by_touch_on_a_phone(live):
    figure, page, watch = live(PAGE, width=390, touch=True, dark=True)
    figure.get_by_text("96/16, the textbook's", exact=True).tap()
    assert_numbers(figure, side=96, patch=16, width=512, depth=2, heads=8)
    assert_fits_a_phone(figure, page, watch)


GARBAGE = {
    "patches of 16 do not divide 28 pixels": (r'"patch": 7,', '"patch": 16,'),
    "its depth cannot be 0": (r'"depth": 4,', '"depth": 0,'),
    "its width cannot be null": (r'"width": 64', '"width": null'),
    "its ratio is": (r'"ratio": 4', '"ratio": -4'),
}
test_garbage_becomes_a_message_and_the_page_goes_on = survives(PAGE, GARBAGE)

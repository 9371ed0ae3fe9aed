"""QKVExplorer: its numbers are torch's wherever an arrow stands, and words of chapter 3 light what they name."""

import pytest
import torch
from playwright.sync_api import expect
from torch.nn import functional as F

from tests.pages.driver import FRAMES, assert_fits_a_phone, assert_sound, refuses, survives
from vitbook.figures import QKVExplorer

PAGE, NUMBER = "book/03-attention.html", 1
TOKENS = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
Q, K, V = TOKENS.flip(1) * torch.tensor([1.0, 2.0]), TOKENS, TOKENS.flip(1)
NAMES, FEATURES = ["shaft", "sole", "heel"], ["shoe", "trousers"]
VALUES = (
    """(root, part) => [...root.querySelectorAll(`[data-part^="${part} "]`)].map((one) => Number(one.dataset.value))"""
)
LIT = "root => [...root.querySelectorAll('[data-lit]')].map((one) => one.dataset.part)"


def small():
    return QKVExplorer(Q, K, V, NAMES, FEATURES)


def test_python_has_the_weights_and_a_still_image():
    explorer = small()
    assert torch.equal(explorer.weights(), (Q @ K.T / 2**0.5).softmax(-1))
    explorer.axis, explorer.scale = "queries", 3
    torch.testing.assert_close(explorer.weights(), (3 * Q @ K.T / 2**0.5).softmax(0))
    assert "image/png" in explorer._repr_mimebundle_()[0] and repr(explorer) == repr(small())


test_bad_input_is_refused_with_words = refuses(
    (lambda: QKVExplorer([1], K, V, NAMES, FEATURES), TypeError, ["q must be a torch tensor", "list"]),
    (lambda: QKVExplorer(Q, K[:, :1], V, NAMES, FEATURES), ValueError, ["k (3, 1)", "(3, 2) for each"]),
    (lambda: QKVExplorer(Q, K, V, NAMES[:2], FEATURES), ValueError, ["names has 2 for 3 tokens"]),
    (lambda: setattr(small(), "token", 3), ValueError, ["token", "between 0 and 2", "3"]),
    (lambda: setattr(small(), "axis", "rows"), ValueError, ["axis", "'queries'", "rows"]),
    (lambda: setattr(small(), "scale", -1), ValueError, ["scale", "-1", "use 1"]),
)


def assert_shows(figure, q=Q, k=K, dim=-1, scale=1.0):
    """Scores, weights and output are those of torch."""
    root = figure.locator(".vf").first
    root.page.evaluate(FRAMES)
    weights = (scale * q @ k.T / 2**0.5).softmax(dim)
    right = {"scores": q @ k.T, "weights": weights, "output": weights @ V}
    if (dim, scale) == (-1, 1):
        torch.testing.assert_close(right["output"], F.scaled_dot_product_attention(q, k, V))
    for part, numbers in right.items():
        shown = torch.tensor(root.evaluate(VALUES, part), dtype=torch.float32)
        torch.testing.assert_close(shown, numbers.flatten(), atol=1e-4, rtol=0)


def moved(x, token, to):
    """The vectors with that of one token elsewhere."""
    x = x.clone()
    x[token] = torch.tensor(to)
    return x


@pytest.mark.parametrize("from_file", [False, True], ids=["http", "file"])
def test_by_mouse_and_key_the_numbers_are_those_of_torch(live, from_file):
    figure, page, watch = live(PAGE, NUMBER, from_file=from_file)
    assert_shows(figure)
    says, sums = figure.get_by_role("status"), figure.locator("svg").nth(2)
    expect(says).to_contain_text("Output of the shaft: 0.108 × (0, 1) + 0.446 × (1, 0)")
    tip = figure.locator(".vf-qkv-query circle")
    tip.scroll_into_view_if_needed()
    box, plane = tip.bounding_box(), figure.locator(".vf-qkv-plane").bounding_box()
    unit = plane["width"] / 4  # of the plane, which is 4 wide
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + unit, y + unit, steps=4)
    page.mouse.move(x + 1.5 * unit, y + 1.25 * unit, steps=4)
    page.mouse.up()
    q = moved(Q, 0, [1.5, 0.75])
    assert_shows(figure, q)
    figure.locator(".vf-qkv-key").nth(1).focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    k = moved(K, 1, [0.5, 0.75])
    assert_shows(figure, q, k)
    figure.get_by_label("queries (columns)").check()
    slider = figure.get_by_role("slider", name="Scores")
    slider.focus()
    page.keyboard.press("End")
    assert_shows(figure, q, k, 0, 16)
    assert sums.locator("text").last.inner_html() != "1.00"
    figure.locator("[data-part='weights 2 0']").click()
    expect(says).to_contain_text("Output of the heel")
    figure.get_by_role("button", name="Reset").click()
    assert_shows(figure)
    watch.assert_clean()


def test_words_of_the_text_light_what_they_name_and_the_figure_stays_in_view(live):
    figure, page, watch = live(PAGE, NUMBER)
    root = figure.locator(".vf").first
    link = page.get_by_role("link", name="0.446 from the sole")
    link.focus()
    assert root.evaluate(LIT) == ["weights 0 1"]
    link.evaluate("link => link.scrollIntoView({ block: 'end' })")
    shown, below = figure.locator(".vf-qkv").bounding_box(), link.bounding_box()
    assert shown["y"] >= 0 and shown["y"] + shown["height"] < below["y"]  # the figure is above the words
    page.get_by_role("link", name="its query").first.hover()
    assert root.evaluate(LIT) == ["query 0"]
    before = page.evaluate("scrollY")
    page.get_by_role("link", name="its query").first.click()
    page.mouse.move(1, 1)
    assert root.evaluate(LIT) == ["query 0"] and abs(page.evaluate("scrollY") - before) < 5
    output = page.get_by_role("link", name="its vector says")
    output.evaluate("link => scrollBy(0, link.getBoundingClientRect().top - 0.6 * innerHeight)")  # it scrolls by
    page.wait_for_function(
        f"() => ({LIT})(document.querySelector('.vf[data-pinned]')).join() === 'output 0 0,output 0 1'"
    )
    figure.get_by_label("Keep in view").uncheck()
    output.scroll_into_view_if_needed()
    page.evaluate("scrollBy(0, 800)")
    assert figure.bounding_box()["y"] + figure.bounding_box()["height"] < 0
    watch.assert_clean()
    assert_sound(page)


def test_by_touch_on_a_phone_and_in_both_themes(live):
    figure, page, watch = live(PAGE, NUMBER, width=390, touch=True, dark=True)
    figure.get_by_label("queries (columns)").tap()
    assert_shows(figure, dim=0)
    page.get_by_role("link", name="2 to the sole").tap()
    assert figure.locator(".vf").first.evaluate(LIT) == ["scores 0 1"]
    shown = figure.locator(".vf-qkv").bounding_box()
    assert shown["height"] < 0.55 * 844  # there is room for the text
    assert_fits_a_phone(figure, page, watch)


GARBAGE = {
    "its q should be 3 vectors": (r'"q": \[\s*\[', '"q": [[1, 1], ['),
    "its softmax cannot run over rows": (r'"axis": "keys"(?=[^}]*"features")', '"axis": "rows"'),
    "there is no token 9": (r'"token": 0', '"token": 9'),
}
test_garbage_becomes_a_message_and_the_page_goes_on = survives(PAGE, GARBAGE, NUMBER)

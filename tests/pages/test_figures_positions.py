"""PositionExplorer: in Python, and in the page of chapter 02 against the stored numbers."""

import re

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from tests.pages.driver import assert_fits_a_phone, ink, refuses, survives, touch
from vitbook import results
from vitbook.figures import PositionExplorer
from vitnb.inspection import position_similarity

PAGE = "book/02-positions.html"


@pytest.fixture(scope="module")
def stored():
    return results.result("shuffled")["result"]


def test_position_explorer_carries_the_experiment(stored):
    explorer = PositionExplorer(image=2, order=3)
    models = list(stored["models"].values())
    carried = torch.frombuffer(bytearray(explorer.probabilities), dtype=torch.float32)
    assert torch.equal(carried, torch.tensor([m["probabilities"] for m in models]).flatten())
    assert explorer.widths == [0, 48, 48, 48]
    for table, model in zip(explorer._tables()[1:], models[1:], strict=True):
        assert torch.equal(table, torch.tensor(model["table"]))
    assert len(explorer.pixels) == 28 * 28 * len(explorer.classes)


def test_stored_answers_show_what_the_chapter_says(stored):
    """Without positions no order changes anything; with large positions every order does."""
    change = {}
    for name, model in stored["models"].items():
        p = torch.tensor(model["probabilities"])  # (images, orders, classes)
        change[name] = (p - p[:, :1]).abs().max().item()
        torch.testing.assert_close(p.sum(-1), torch.ones(p.shape[:2]), atol=1e-3, rtol=0)
    assert change["none"] < 2e-4  # rounded to 4 digits
    assert min(c for name, c in change.items() if name != "none") > 0.2
    assert len(set(stored["models"]["none"]["accuracy"])) == 1
    assert all(sorted(order) == list(range(16)) for order in stored["orders"])
    assert stored["orders"][0] == list(range(16))


test_bad_input_is_refused_with_words = refuses(
    (lambda: PositionExplorer(image=10), ValueError, ["image", "9", "10"]),
    (lambda: PositionExplorer(order=-1), ValueError, ["order", "-1", "8"]),
    (lambda: PositionExplorer(place="5"), TypeError, ["place", "'5'"]),
    (lambda: setattr(PositionExplorer(), "place", 16), ValueError, ["place", "16", "15"]),
)


def map_of(figure, name):
    """The map of a network's position embeddings, on which one chooses a place."""
    return figure.get_by_role("application", name=re.compile(f"^{re.escape(name)}:"))


def assert_shades(figure, stored, place):
    """Each map marks the place, and shades it and all others by the cosines of their stored vectors."""
    expect(figure.locator("[data-chosen]").last).to_have_attribute("data-chosen", str(place))
    for name, model in stored["models"].items():
        shown = map_of(figure, name)
        assert shown.locator("[data-chosen]").last.get_attribute("data-chosen") == str(place)
        cells = shown.locator("[data-cell]").all()
        if not model["table"]:
            assert {cell.get_attribute("fill") for cell in cells} == {"none"}
            continue
        cosines = position_similarity(torch.tensor(model["table"])[None], 0)[place].numpy()
        opacity = [float(cell.get_attribute("fill-opacity")) for cell in cells]
        np.testing.assert_allclose(opacity, 0.65 * abs(cosines), atol=1e-3)
        colours = [cell.get_attribute("fill") for cell in cells]
        assert colours == [f"var(--vf-{'blue' if cosine < 0 else 'mark'})" for cosine in cosines]


def test_by_mouse_and_key_it_shows_the_stored_numbers(live, stored):
    figure, page, watch = live(PAGE, from_file=True)
    pad, [says, chosen] = figure.locator(".vf-pad").nth(1), figure.get_by_role("status").all()
    pad.scroll_into_view_if_needed()
    box = pad.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + box["height"] * 0.1)
    expect(chosen).to_contain_text("Place 3 of 0 to 15 is chosen")
    assert_shades(figure, stored, 3)
    pad.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    expect(chosen).to_contain_text("Place 6 of 0 to 15 is chosen")
    assert_shades(figure, stored, 6)
    for name, model in stored["models"].items():
        label = map_of(figure, name).get_attribute("aria-label")
        if not model["table"]:
            assert "no position embeddings" in label
            continue
        shown = torch.tensor([float(v) for v in label.split(": ")[-1].split(", ")])
        expected = position_similarity(torch.tensor(model["table"])[None], 0)[6]
        torch.testing.assert_close(shown, expected, atol=0.0051, rtol=0)
        expected[6] = -2
        card = figure.locator(".vf-pos > div").filter(has_text=re.compile(f"^{re.escape(name)}"))
        assert f"most similar: place {expected.argmax()}, {expected.max():.2f}" in card.last.inner_text()
    button = figure.get_by_role("button", name="Shuffle")
    button.focus()
    page.keyboard.press("Enter")
    expect(says).to_contain_text("order 1 of 8")
    button.click()
    expect(says).to_contain_text("order 2 of 8")
    figure.get_by_role("combobox").select_option("Bag")
    expect(says).to_contain_text("of class “Bag”")
    index = stored["classes"].index("Bag")
    for name, model in stored["models"].items():
        p = model["probabilities"][index]
        before, now = (stored["classes"][max(range(10), key=p[o].__getitem__)] for o in (0, 2))
        words = f"still {now}" if before == now else f"{now}, no longer {before}"
        expect(says).to_contain_text(f"{name}: {words}")
        card = figure.locator(".vf-pos > div").filter(has_text=re.compile(f"^{re.escape(name)}"))
        points = max(abs(a - b) for a, b in zip(p[0], p[2], strict=True))
        assert f"Largest change: {100 * points:.1f} points" in card.first.inner_text()
        assert f"Accuracy in this order: {100 * model['accuracy'][2]:.0f}\u00a0%" in card.first.inner_text()
    figure.get_by_role("button", name="In order").click()
    expect(says).to_contain_text("in order")
    watch.assert_clean()


def test_by_touch_on_a_phone(live):
    figure, page, watch = live(PAGE, width=390, touch=True, dark=True)
    [says, chosen], before = figure.get_by_role("status").all(), ink(figure)
    touch(figure.locator(".vf-pad").last, 0.1, 0.9)
    expect(chosen).to_contain_text("Place 12 of")
    figure.get_by_role("button", name="Shuffle").tap()
    expect(says).to_contain_text("every probability as before")
    assert ink(figure)[0] != before[0]
    assert_fits_a_phone(figure, page, watch)


GARBAGE = {
    "there is no place 99": (r'"place": 5', '"place": 99'),
    "there is no order": (r'"order": 0', '"order": null'),
    "its tables should take": (r'"widths": \[0, 48', '"widths": [0, 47'),
    "do not divide into": (r'"grid": 4', '"grid": 5'),
}
test_garbage_becomes_a_message_and_the_page_goes_on = survives(PAGE, GARBAGE)

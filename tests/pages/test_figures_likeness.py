"""LikenessExplorer: in Python, and in the page of chapter 15 against the stored features."""

import re

import torch
from playwright.sync_api import expect

from tests.pages.driver import assert_fits_a_phone, ink, refuses, survives, touch
from vitbook import results
from vitbook.figures import LikenessExplorer

PAGE = "book/15-pretrained.html"


def test_it_carries_the_stored_features_within_its_weight():
    explorer, record = LikenessExplorer(photo=1, patch=300), results.result("likeness")
    assert len(explorer.pixels) + len(explorer.tokens) == record["result"]["bytes"]
    assert explorer.names == list(record["config"]["photos"].values())
    cosines = explorer.cosines()
    assert cosines.shape == (4, 576) and cosines[1, 300] == cosines.max()
    torch.testing.assert_close(cosines.max(), torch.tensor(1.0))
    assert record["result"]["cosines_off_mean"] < 0.05


def test_parts_of_one_photo_are_found_in_another():
    """The nose of one portrait finds the face of the other, the uniform its suit."""
    for patch, rows, columns in ((9 * 24 + 12, (3, 9), (8, 14)), (18 * 24 + 5, (9, 23), (1, 23))):
        best = int(LikenessExplorer(photo=0, patch=patch).cosines()[1].argmax())
        row, column = divmod(best, 24)
        assert rows[0] <= row <= rows[1] and columns[0] <= column <= columns[1], (patch, row, column)


test_bad_input_is_refused_with_words = refuses(
    (lambda: LikenessExplorer(photo=4), ValueError, ["photo", "3", "4"]),
    (lambda: LikenessExplorer(patch=-1), ValueError, ["patch", "-1", "575"]),
    (lambda: LikenessExplorer(patch="5"), TypeError, ["patch", "'5'"]),
    (lambda: setattr(LikenessExplorer(), "patch", 576), ValueError, ["patch", "576", "575"]),
)


def assert_shows(figure, photo, patch):
    """The ring, the sentence and the counts are those of the stored features."""
    explorer = LikenessExplorer(photo=photo, patch=patch)
    cosines, (low, high, _) = explorer.cosines(), explorer.fade
    expect(figure.locator("[data-chosen]").last).to_have_attribute("data-chosen", str(patch))
    says = figure.get_by_role("status")
    expect(says).to_contain_text(f"row {patch // 24}, column {patch % 24} of {explorer.names[photo]}")
    for n, name in enumerate(explorer.names):
        label = figure.locator(".vf-pad").nth(n).get_attribute("aria-label")
        shown = int(re.search(r"(\d+) of 576", label)[1])
        assert abs(shown - int((cosines[n] > (low + high) / 2).sum())) <= 1
        if n != photo:
            best = int(figure.locator(".vf-pad").nth(n).locator("[data-best]").get_attribute("data-best"))
            assert cosines[n, best] > cosines[n].max() - 1e-5
            expect(says).to_contain_text(f"{name}: row {best // 24}, column {best % 24} ({cosines[n].max():.2f})")


def test_by_mouse_and_key_it_shows_the_stored_features(live):
    figure, page, watch = live(PAGE, from_file=True)
    first, second = figure.locator(".vf-pad").nth(0), figure.locator(".vf-pad").nth(1)
    before = ink(figure)
    first.scroll_into_view_if_needed()
    box = first.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 2.5 / 24, box["y"] + box["height"] * 3.5 / 24)
    assert_shows(figure, 0, 3 * 24 + 2)
    assert ink(figure) != before
    page.keyboard.press("Tab")
    second.focus()
    page.keyboard.press("ArrowDown")
    middle = (576 + 24) // 2 + 24
    assert_shows(figure, 1, middle)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    assert_shows(figure, 1, middle - 2)
    watch.assert_clean()


def test_it_begins_with_the_chosen_patch_and_brings_the_rest_when_touched(live):
    figure, page, watch = live(PAGE, whole=False)
    assert_shows(figure, 0, 276)
    began = ink(figure)
    figure.locator(".vf-pad").nth(0).focus()
    page.keyboard.press("ArrowRight")
    assert_shows(figure, 0, 277)
    page.keyboard.press("ArrowLeft")
    assert_shows(figure, 0, 276)
    assert ink(figure) == began
    watch.assert_clean()


def test_by_touch_on_a_phone(live):
    figure, page, watch = live(PAGE, width=390, touch=True, dark=True)
    touch(figure.locator(".vf-pad").nth(2), 12.5 / 24, 12.5 / 24)
    assert_shows(figure, 2, 12 * 24 + 12)
    tops = [figure.locator(".vf-pad").nth(n).bounding_box()["y"] for n in range(4)]
    assert tops[0] == tops[1] < tops[2] == tops[3]  # cause and effect on one screen
    assert_fits_a_phone(figure, page, watch)


GARBAGE = {
    "there is no patch 999": (r'"patch": 276', '"patch": 999'),
    "there is no photo": (r'"photo": 0', '"photo": null'),
    "are not whole": (r'"grid": 24', '"grid": 25'),
}
test_garbage_becomes_a_message_and_the_page_goes_on = survives(PAGE, GARBAGE)

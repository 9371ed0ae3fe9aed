"""SplitExplorer: its orders are torch's, and in the page of chapter 04 each number goes where they say."""

import re

import pytest
import torch
from playwright.sync_api import expect

from tests.pages.driver import assert_fits_a_phone, drag, survives, touch
from vitbook.figures import SplitExplorer
from vitbook.figures.split_explorer import MOST

PAGE = "book/04-heads.html"
# Where a number is drawn, in units of the drawing, and the runs of memory with their heads.
SEATS = """svg => Object.fromEntries([...svg.querySelectorAll("[data-number]")].map(
  (cell) => [cell.dataset.number, cell.getAttribute("transform").match(/[\\d.]+/g).map(Number)]))"""
RUNS = "svg => [...svg.querySelectorAll('[data-run]')].map((run) => run.dataset.run)"


@pytest.fixture(scope="module")
def explorer():
    return SplitExplorer()


def test_the_right_split_gives_every_head_a_part_of_every_token(explorer):
    q = torch.arange(12).view(1, 3, 4)  # (B, T, D)
    right = torch.tensor(explorer.right).view(2, 3, 2)  # (h, T, d)
    assert torch.equal(right, torch.stack(q[0].chunk(2, dim=1)))  # the first half of each token, the second half
    assert torch.equal(torch.tensor(explorer.wrong).view(2, 3, 2), q.view(1, 2, 3, 2)[0])
    assert explorer.wrong == list(range(12))  # view never moves a number


@pytest.mark.parametrize("place", [-9, 9])
def test_bad_input_is_refused_with_words(place):
    with pytest.raises(ValueError, match=f"place must lie between -8 and 8, got {place}: use 0"):
        SplitExplorer(place=place)


def rows_of(seats):
    """The numbers of each row of the drawing, from left to right."""
    rows = {}
    for number in sorted(seats, key=lambda number: seats[number]):  # from left to right
        rows.setdefault(seats[number][1], []).append(int(number))
    return [rows[y] for y in sorted(rows)]


def assert_shows(figure, order):
    """Each number stands in the row and the head that torch gives it, and memory has the borders of these heads."""
    drawing = figure.locator("svg.vf-split")
    expect(drawing.get_by_text("head 0").first).to_be_visible()
    heads = torch.tensor(order).view(2, 3, 2)  # (h, T, d)
    assert rows_of(drawing.evaluate(SEATS)) == torch.cat([*heads], dim=1).tolist()  # heads side by side
    owner = {number: head for head in (0, 1) for number in heads[head].flatten().tolist()}
    runs = [re.findall(r"\d+", run) for run in drawing.evaluate(RUNS)]
    covered = {n: int(head) for head, start, end in runs for n in range(int(start), int(end) + 1)}
    assert covered == owner


def test_by_mouse_and_key_the_numbers_go_where_torch_puts_them(live, explorer):
    figure, page, watch = live(PAGE, from_file=True)
    slider, says = figure.get_by_role("slider", name="Split the heads"), figure.get_by_role("status")
    drawing = figure.locator("svg.vf-split")
    expect(says).to_contain_text("each of 3 tokens has 4 numbers side by side")
    ends, track = figure.locator(".vf-split-ends span"), slider.bounding_box()
    assert ends.all_inner_texts() == ["view alone", "view, transpose"]
    left, right = (end.bounding_box() for end in ends.all())
    assert abs(left["x"] - track["x"]) < 5 and abs(right["x"] + right["width"] - track["x"] - track["width"]) < 5
    assert rows_of(drawing.evaluate(SEATS)) == torch.arange(12).view(3, 4).tolist()
    assert drawing.evaluate(RUNS) == []
    slider.focus()
    page.keyboard.press("ArrowRight")
    expect(says).to_contain_text("for the heel its own 4 and 5")
    expect(slider).to_have_attribute("aria-valuetext", "right: q.view(T, h, d).transpose(0, 1)")
    drag(slider, 0.5 + 0.5 / MOST, 1)
    assert_shows(figure, explorer.right)
    drag(slider, 1, 0)
    expect(says).to_contain_text("for the heel the shaft’s 2 and 3 and for the sole the heel’s 4 and 5")
    assert_shows(figure, explorer.wrong)
    watch.assert_clean()


def test_by_touch_on_a_phone_and_in_both_themes(live, explorer):
    figure, page, watch = live(PAGE, width=390, touch=True, dark=True)
    touch(figure.get_by_role("slider", name="Split the heads"), 0.99, 0.5)
    assert_shows(figure, explorer.right)
    assert_fits_a_phone(figure, page, watch)


GARBAGE = {
    "there is no place 99 of its slider": (r'"place": 0', '"place": 99'),
    "its right split should hold each of 12 numbers once": (r'"right": \[\s*0,\s*1,', '"right": [0, 0,'),
    "it cannot split 12 numbers": (r'"heads": 2', '"heads": 5'),
}
test_garbage_becomes_a_message_and_the_page_goes_on = survives(PAGE, GARBAGE)

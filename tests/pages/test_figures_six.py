"""SixRace: a bet, six programs that learn in the page, and the tests that say which is right."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from tests.pages import small_book
from tests.pages.driver import assert_fits_a_phone, assert_sound, read_line, refuses, survives
from vitbook import faults, results
from vitbook.figures import SixRace
from vitbook.figures._train_data import CONFIGS
from vitbook.figures.six_race import SIX_CURVES, WORDS
from vitnb import ViT

PAGE, LONG = "book/short.html", "book/long.html"
STEPS = 40
STORED = results.result("six_curves")["result"]["accuracy"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small book of two races: of 40 steps, and of 400."""
    races = {"short": SixRace(STORED, steps=STEPS), "long": SixRace(STORED)}
    return small_book.build(tmp_path_factory.mktemp("six"), races)


# ---- Python


def test_each_test_sees_one_of_the_six_and_none_sees_the_right_one():
    models = {one: ViT(CONFIGS["digits"]) for one, name in SIX_CURVES.items() if name == "right"}
    models |= {one: faults.build(name, CONFIGS["digits"]) for one, name in SIX_CURVES.items() if one not in models}
    failed = {one: [name for name, test in faults.TESTS.items() if not test(model)] for one, model in models.items()}
    assert failed.pop("E") == []
    assert sorted(failed.values()) == [["cls"], ["count"], ["cut"], ["reference"], ["scores"]]
    assert set(WORDS) == set(SIX_CURVES)


test_bad_input_is_refused_with_words = refuses(
    (lambda: SixRace({"right": [[1.0]]}), ValueError, ["'last read first'", "six_curves"]),
    (lambda: SixRace(STORED, seed=-1), ValueError, ["seed", "-1", "use 0"]),
    (lambda: SixRace(STORED, steps=0), ValueError, ["steps", "at least 1", "0"]),
    (lambda: SixRace(STORED, steps=9999), ValueError, ["steps", "at most 2000", "9999"]),
    (lambda: setattr(SixRace(STORED), "bet", "G"), ValueError, ["bet", "'G'", "'A'"]),
)


# ---- The page


def letter(figure: Locator, name: str) -> Locator:
    return figure.locator(".sr-picks").get_by_role("button", name=name, exact=True)


def verdict(figure: Locator) -> str:
    """What the figure says at the end."""
    says = figure.get_by_role("status")
    expect(says).to_contain_text(re.compile(r"and (wrong|right)\."), timeout=240_000)
    return says.inner_text()


def lamps(figure: Locator) -> dict[str, str]:
    """What each test says of the program that was chosen."""
    expect(figure.locator("[data-state=waiting]")).to_have_count(0)
    lines = figure.locator("[data-light]").all()
    return {line.get_attribute("data-light"): line.get_attribute("data-state") for line in lines}


def test_a_bet_starts_the_race_and_the_tests_judge_it(live):
    figure, _, watch = live(PAGE, from_file=True)
    expect(figure.get_by_role("status")).to_have_text("Six programs for the same network. Five have a bug.")
    assert figure.locator(".vf-axes polygon").count() == 6  # the stored bands
    assert not figure.locator(".sr-tests").is_visible()
    letter(figure, "C").click()
    said = verdict(figure)
    assert said.startswith("You bet C: ") and "and wrong. C mixes up which features" in said
    found = lamps(figure)
    assert [name for name, state in found.items() if state == "fails"] == ["reference"]
    expect(figure.get_by_text("Six tests of program C, which need no training: 1 of 6 fails")).to_be_visible()
    plot = figure.locator(".vf-axes")
    for one in SIX_CURVES:
        line = read_line(plot, one)
        assert len(line.ys) == 21 and line.ys[-1] > line.ys[0]  # all six learn
    for one, name in SIX_CURVES.items():  # whoever is chosen now is tested, too
        letter(figure, one).click()
        expect(figure.get_by_text(f"Six tests of program {one}, which")).to_be_visible()
        dark = [test for test, state in lamps(figure).items() if state == "fails"]
        assert len(dark) == (name != "right")
    first = read_line(plot, "E").ys.tolist()
    figure.get_by_role("button", name="Race again").click()
    expect(figure.get_by_role("status")).to_have_text("Six programs for the same network. Five have a bug.")
    letter(figure, "E").click()
    assert "and right. One bug makes no difference" in verdict(figure)
    assert read_line(plot, "E").ys.tolist() != first  # another seed
    watch.assert_clean()


def test_ten_epochs_by_keyboard_alone(live):
    figure, page, watch = live(LONG)
    assert_sound(page)
    letter(figure, "C").focus()
    page.keyboard.press("Enter")
    expect(figure.get_by_text("Your bet: C")).to_be_visible()
    expect(figure.get_by_role("status")).to_have_text("You bet C. All six are learning, in this page.")
    assert_sound(page)
    letter(figure, "D").click()  # a bet stands while they learn
    expect(figure.get_by_text("Your bet: C")).to_be_visible()
    said = verdict(figure)
    accuracy = float(re.search(r"([\d.]+)\u00a0%", said)[1])
    assert accuracy > 90 and "the highest, and wrong" in said
    ends = {one: read_line(figure.locator(".vf-axes"), one).ys[-1] for one in SIX_CURVES}
    assert max(ends, key=ends.get) == "C" and min(ends.values()) > 60
    watch.assert_clean()


# Notes, frame by frame, how many lamps are not on yet, when that changes.
NOTE = """() => {
  window.waiting = [];
  const note = () => {
    const lamps = [...document.querySelectorAll("[data-light]")];
    const now = lamps.filter((lamp) => lamp.dataset.state === "waiting").length;
    if (lamps.length && waiting.at(-1) !== now) waiting.push(now);
    requestAnimationFrame(note);
  };
  note();
}"""


def test_by_touch_on_a_phone_lamps_go_on_one_after_the_other(live):
    figure, page, watch = live(PAGE, width=390, touch=True, dark=True)
    page.emulate_media(reduced_motion="no-preference")
    page.evaluate(NOTE)
    height = figure.bounding_box()["height"]
    letter(figure, "F").tap()
    verdict(figure)
    assert [name for name, state in lamps(figure).items() if state == "fails"] == ["cut"]
    waiting = page.evaluate("waiting")
    assert waiting[0] == 6 and waiting == sorted(waiting, reverse=True) and len(waiting) > 3
    page.emulate_media(reduced_motion="reduce")
    assert figure.bounding_box()["height"] < 844  # one screen
    assert figure.bounding_box()["height"] < height + 330
    assert_fits_a_phone(figure, page, watch)


GARBAGE = {
    "it has no programs": (r'"programs": \[\{', '"programs": [], "x": [{'),
    "it has no stored runs of A": (r'"stored": \{', '"stored": {}, "x": {'),
    "its seed is -1": (r'"seed": 0', '"seed": -1'),
    "it has null steps": (rf'"steps": {STEPS}', '"steps": null'),
    "it has no program G": (r'"bet": ""', '"bet": "G"'),
}
test_garbage_becomes_a_message_and_the_page_goes_on = survives(PAGE, GARBAGE)

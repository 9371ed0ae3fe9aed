"""Clinic: its right versions are right, and in the page of chapter 12 each verdict excludes whom it should."""

from pathlib import Path

import pytest
import torch
from playwright.sync_api import expect
from torch.nn import functional as F

from tests.pages.driver import assert_fits_a_phone, stored, survives
from vitbook.faults import FAULTS
from vitbook.figures import Clinic, clinic
from vitnb.blocks import PreNormBlock

PATH = Path(__file__).resolve().parents[2] / "book" / "12-bug-clinic.ipynb"
PAGE = f"book/{PATH.stem}.html"
NUMBER, STATE = stored(PAGE, "Clinic")
TESTS = ["reference", "cut"]
REFUSED = {name: [test in FAULTS[name].seen_by for test in TESTS] for name in ("undivided", "zeros", "plain cls")}


def test_the_right_versions_beside_the_bugs_are_right():
    q, k, v = torch.randn(3, 2, 4, 5, 6)  # (B, h, T, d) each
    assert torch.allclose(clinic.attend(q, k, v), F.scaled_dot_product_attention(q, k, v), atol=1e-5)
    x, gain, bias = torch.randn(2, 3, 8), torch.randn(8), torch.randn(8)
    assert torch.allclose(clinic.normalise(x, gain, bias, 1e-6), F.layer_norm(x, (8,), gain, bias, 1e-6), atol=1e-5)
    block = PreNormBlock(8, 2).eval()
    expected = block(x)
    block.__class__ = clinic.Block
    assert torch.equal(block(x), expected)


def test_a_difference_is_that_of_the_definitions():
    right, wrong = clinic.difference(FAULTS["undivided"]).splitlines()
    assert right == "- return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v"
    assert wrong == "+ return (q @ k.mT).softmax(-1) @ v"
    for fault in FAULTS.values():
        if fault.seen_by is not None:
            added = [line for line in clinic.difference(fault).splitlines() if line[0] == "+"]
            assert 1 <= len(added) <= 6, fault


def test_the_chapter_has_all_bugs_with_the_verdicts_of_its_map():
    bugs = STATE["bugs"]
    assert {bug["name"] for bug in bugs} == {n for n, f in FAULTS.items() if f.seen_by is not None} - {"for each image"}
    text = PATH.read_text().lower()
    for said, count in (
        ("all nine tests together refuse", sum("1" in bug["verdicts"] for bug in bugs)),
        ("are refused by exactly one test", sum(bug["verdicts"].count("1") == 1 for bug in bugs)),
    ):
        assert f"{said} {count}." in text or f"{count} {said}" in text


@pytest.mark.parametrize(
    "tests, refused, words",
    [
        ([], REFUSED, "got 0 and 3"),
        (TESTS, {}, "got 2 and 0"),
        (TESTS, {"zero": [True, True]}, "'zero'"),
        (TESTS, {"zeros": [True]}, "1 verdicts: use 2"),
    ],
)
def test_bad_input_is_refused_with_words(tests, refused, words):
    with pytest.raises(ValueError, match=words):
        Clinic(tests, refused, {})
    one = Clinic(TESTS, REFUSED, {"zeros": (-80, 3)})
    assert "-80.0 ± 3.0" in [bug["points"] for bug in one.bugs] and "image/png" in one._repr_mimebundle_()[0]
    for trait, value, most in (("patient", 3, 2), ("ordered", [2], 1)):
        with pytest.raises(ValueError, match=f"{trait} must lie between 0 and {most}"):
            one.set_trait(trait, value)


def left_in(figure):
    return figure.get_by_role("group", name="Suspects").locator("button:not(.cl-out)").all_inner_texts()


def name_it(figure, page, name):
    """By key: choose a suspect, and name it."""
    for button in (figure.get_by_role("button", name=name, exact=True), figure.locator(".vf-buttons button")):
        button.focus()
        page.keyboard.press("Enter")


def assert_solved(figure, bug, effort):
    expect(figure.get_by_role("status")).to_contain_text(f"Right, after {effort}.")
    expect(figure).to_contain_text(f"{bug['name']}: it {bug['symptom']}.")
    assert figure.locator(".cl-code > *").all_inner_texts() == bug["code"].splitlines()


def test_each_verdict_excludes_those_whom_it_should(live):
    figure, page, watch = live(PAGE, NUMBER, from_file=True)
    bugs = {bug["name"]: bug for bug in STATE["bugs"]}
    for patient, bug in enumerate(STATE["bugs"][:2]):
        expect(figure).to_contain_text(f"Patient {patient + 1} of {len(bugs)}")
        expect(figure).to_contain_text(bug["points"] or "not measured")
        left, t = left_in(figure), 0
        assert {bugs[name]["verdicts"] for name in left} == {one["verdicts"] for one in bugs.values()}
        while len(left) > 1:
            order = figure.get_by_role("group", name="Tests").get_by_role("button").nth(t)
            order.click()
            expect(order).to_have_text(f"{STATE['tests'][t]} {'refuses' if bug['verdicts'][t] == '1' else 'passes'}")
            left = [name for name in left if bugs[name]["verdicts"][t] == bug["verdicts"][t]]
            assert left_in(figure) == left
            t += 1
        name_it(figure, page, bug["name"])
        assert_solved(figure, bug, f"{t} tests")
        page.keyboard.press("Enter")  # the same button: the next patient
        expect(figure.get_by_role("group", name="Tests").get_by_role("button").first).to_be_focused()
    expect(figure).to_contain_text(f"Patient 3 of {len(bugs)}")
    wrong, right = sorted(left_in(figure), key=STATE["bugs"][2]["name"].__eq__)[-2:]
    for name in (wrong, right):
        name_it(figure, page, name)
    assert_solved(figure, bugs[right], "0 tests and 1 wrong name")
    watch.assert_clean()


def test_by_touch_on_a_phone_and_in_both_themes(live):
    figure, page, watch = live(PAGE, NUMBER, width=390, touch=True, dark=True)
    tests, bug = figure.get_by_role("group", name="Tests"), STATE["bugs"][0]
    tests.get_by_role("button").first.tap()
    expect(figure.get_by_role("status")).to_contain_text(STATE["tests"][0])
    act = figure.locator(".vf-buttons").bounding_box()
    assert act["y"] + act["height"] - tests.bounding_box()["y"] < 844  # cause and effect on one screen
    figure.get_by_role("button", name=bug["name"], exact=True).tap()
    figure.locator(".vf-buttons button").tap()
    assert_solved(figure, bug, "1 test")
    assert_fits_a_phone(figure, page, watch, redraws=False)


GARBAGE = {
    "there is no patient 99": (r'"patient": 0', '"patient": 99'),
    "each of its bugs should have 9 verdicts": (r'"verdicts": "[01]{9}"', '"verdicts": "01"'),
}
test_garbage_becomes_a_message_and_the_page_goes_on = survives(PAGE, GARBAGE, NUMBER)

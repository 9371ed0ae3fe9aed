"""RoundsExplorer: in Python against attention by similarity, and in the page of chapter 05 against Python."""

import pytest
import torch
from playwright.sync_api import expect
from torch.nn import functional as F

from tests.pages.driver import assert_fits_a_phone, drag, gray_of, survives, touch
from vitbook import images
from vitbook.figures import RoundsExplorer
from vitbook.figures.rounds_explorer import MOST, different
from vitnb import patchify

PAGE = "book/05-pre-norm-post-norm.html"


@pytest.fixture(scope="module")
def explorer():
    return RoundsExplorer()


def test_each_round_replaces_the_patches_by_averages_of_similar_ones(explorer):
    assert torch.equal(explorer.image(0), images.boot())
    x = patchify(images.boot()[None] / 255, 4)[0]  # (T, 16)
    for _ in range(MOST):
        cosines = F.cosine_similarity(*(y - x.mean(0) for y in (x[:, None], x[None])), dim=-1)  # (T, T)
        x = (8 * cosines).softmax(1) @ x
    last = patchify(explorer.image(MOST)[None] / 255, 4)[0]
    torch.testing.assert_close(last, x, atol=0.003, rtol=0)  # of the 255 grays of a page, half a step


def test_patches_are_counted_once_if_they_are_alike(explorer):
    assert different(torch.tensor([[0.0, 0], [0, 0.01], [1, 0], [0, 0]])) == 2
    assert explorer.kinds == sorted(explorer.kinds, reverse=True)
    for rounds in (0, 8):
        patches = patchify(explorer.image(rounds)[None] / 255, 4)[0]
        assert explorer.kinds[rounds] == different(patches)


@pytest.mark.parametrize("rounds", [-1, 13])
def test_bad_input_is_refused_with_words(rounds):
    with pytest.raises(ValueError, match=f"rounds must lie between 0 and 12, got {rounds}: use 8"):
        RoundsExplorer(rounds=rounds)


def assert_shows(figure, explorer, rounds):
    says = figure.get_by_role("status")
    expect(says).to_contain_text(f"After {rounds} round")
    expect(says).to_contain_text(f"{explorer.kinds[rounds]} different patches")
    expect(says).to_contain_text(f"at first there were {explorer.kinds[0]}.")
    for canvas, shown in zip(figure.locator("canvas").all(), (0, rounds), strict=True):
        assert gray_of(canvas) == explorer.image(shown).numpy().tobytes()
        expect(canvas).to_have_attribute("aria-label", f"The boot after {shown} round{'s' * (shown != 1)} of attention")


def test_by_mouse_and_key_it_shows_what_python_computes(live, explorer):
    figure, page, watch = live(PAGE, from_file=True)
    slider = figure.get_by_role("slider", name="Rounds of attention")
    assert_shows(figure, explorer, 0)
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert_shows(figure, explorer, 1)
    drag(slider, 1 / MOST, 1)
    assert_shows(figure, explorer, MOST)
    watch.assert_clean()


def test_by_touch_on_a_phone(live, explorer):
    figure, page, watch = live(PAGE, width=390, touch=True, dark=True)
    touch(figure.get_by_role("slider", name="Rounds of attention"), 0.99, 0.5)
    assert_shows(figure, explorer, MOST)
    first, last = (canvas.bounding_box() for canvas in figure.locator("canvas").all())
    assert first["y"] == last["y"] and first["x"] + first["width"] <= last["x"]  # cause and effect side by side
    assert_fits_a_phone(figure, page, watch, redraws=False)


GARBAGE = {
    "there is no number of rounds 99": (r'"rounds": 0', '"rounds": 99'),
    "its images should take": (r'"side": 28', '"side": 29'),
}
test_garbage_becomes_a_message_and_the_page_goes_on = survives(PAGE, GARBAGE)

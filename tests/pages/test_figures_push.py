"""PushExplorer: in Python against the proof of chapter 06, and in its page against Python."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from playwright.sync_api import expect
from torch.nn import functional as F

from tests.pages.driver import assert_fits_a_phone, drag, read_line, survives, touch
from vitbook.figures import PushExplorer
from vitbook.figures.push_explorer import BAG, BOOT, GAINS, PUSH, SHARES

ROOT = Path(__file__).resolve().parents[2]
PAGE = "book/06-depth.html"
PRE, POST = SHARES.index(0), SHARES.index(1)
NAMES = ["pre-norm", *(f"norm on {100 * share:g} % of the stream" for share in SHARES[1:-1]), "post-norm"]


# ---- Python


def test_the_chapter_computes_with_the_same_numbers():
    cells = json.loads((ROOT / "book" / "06-depth.ipynb").read_text())["cells"]
    sources, known = {cell["id"]: "".join(cell["source"]) for cell in cells}, {"torch": torch, "F": F}
    for name in ("depth-boot-bag", "depth-toy-code", "depth-toy-loop"):
        exec(sources[name], known)
    assert [known[name].tolist() for name in ("boot", "bag", "push")] == [BOOT, BAG, PUSH]
    for share, norm in ((POST, "post"), (PRE, "pre")):
        torch.testing.assert_close(known["after"](7, norm, 0.1), PushExplorer().tokens(7, share, 1).float())


def test_distances_are_those_of_the_proof():
    pre, post = (torch.tensor(PushExplorer().distances(share)) for share in (PRE, POST))
    n = torch.arange(73.0)
    torch.testing.assert_close(pre, 4 / ((n + 1) ** 2 + 1).sqrt(), rtol=1e-4, atol=0)
    assert (post[:-1] / post[1:] > 2.5**0.5 - 1e-6).all() and post[0] == pytest.approx(8**0.5, rel=1e-4)


@pytest.mark.parametrize("share", range(1, len(SHARES)))
def test_any_share_on_the_stream_makes_depth_an_exponent(share):
    """In the end a push meets a token of size 1 / share + root 2 - 1, in feature 1: what it leaves stays the same."""
    left = 1 - SHARES[share] / (1 + 2**0.5 * SHARES[share])
    far = PushExplorer().distances(share)
    gradients = [PushExplorer().gradient(pushes, share) for pushes in (71, 72)]
    assert far[72] / far[71] == pytest.approx(left, rel=1e-3)
    assert gradients[1] / gradients[0] == pytest.approx(left, rel=1e-3)


def test_a_smaller_push_takes_less():
    ends = [[PushExplorer().distances(share, gain)[-1] for gain in range(len(GAINS))] for share in (POST, PRE)]
    assert all(sorted(row) == row for row in ends)
    assert ends[0][-1] == pytest.approx(8**0.5, rel=0.01)


@pytest.mark.parametrize("name, value", [("pushes", 73), ("pushes", -1), ("share", 5), ("gain", 4)])
def test_bad_input_is_refused_with_words(name, value):
    with pytest.raises(ValueError, match=rf"{name} .* got {value}: use 0"):
        setattr(PushExplorer(), name, value)


# ---- The page


def said(value):
    """A number as the figure writes it."""
    if abs(value) >= 0.001:
        return f"{float(f'{value:.3g}'):g}"
    digits, power = f"{value:.1e}".split("e")
    return f"{digits}e{int(power):+d}"


def assert_shows(figure, share, pushes, gain=0):
    """Words, curves, tokens and the gradient are those of Python."""
    explorer, axes = PushExplorer(), figure.locator(".vf-axes")
    far = explorer.distances(share, gain)
    says = figure.get_by_role("status")
    expect(says).to_contain_text(f"{NAMES[share]}, {pushes} push")
    expect(says).to_contain_text(f"Their distance in all four features is {said(far[pushes])}; it was 2.83")
    expect(figure.locator("dl")).to_contain_text(said(explorer.gradient(pushes, share, gain)))
    for k, name in enumerate(NAMES):
        line = read_line(axes.nth(1), name, log="y")
        np.testing.assert_allclose(line.ys, explorer.distances(k, gain), rtol=0.02)
        np.testing.assert_allclose(line.xs, np.arange(73), atol=0.05)
    np.testing.assert_allclose(read_line(axes.nth(1), NAMES[share], log="y").dots, [[pushes, far[pushes]]], rtol=0.02)
    for name, token in zip(("boot", "bag"), explorer.tokens(pushes, share, gain), strict=True):
        np.testing.assert_allclose(read_line(axes.nth(0), name).dots, [token[[0, 2]].numpy()], atol=0.01)


def test_by_mouse_and_key_it_shows_what_python_computes(live):
    figure, page, watch = live(PAGE, from_file=True)
    slider = figure.get_by_role("slider", name="Number of pushes")
    assert_shows(figure, POST, 1)
    moved = read_line(figure.locator(".vf-axes").nth(0), "boot, push")
    np.testing.assert_allclose([moved.xs, moved.ys], [[1, 2], [1, 1]], atol=0.01)
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert_shows(figure, POST, 2)
    drag(slider, 2 / 72, 1)
    assert_shows(figure, POST, 72)
    norm = figure.get_by_role("slider", name="The norm, from branch to stream")
    norm.focus()
    for share in (3, 2, 1, PRE):
        page.keyboard.press("ArrowLeft")
        assert_shows(figure, share, 72)
    expect(figure.locator("dl")).to_contain_text("51.6")
    figure.get_by_role("radio", name="0.0001").check()
    assert_shows(figure, PRE, 72, gain=3)
    drag(norm, 0, 1)
    assert_shows(figure, POST, 72, gain=3)
    watch.assert_clean()


def test_by_touch_on_a_phone(live):
    figure, page, watch = live(PAGE, width=390, touch=True, dark=True)
    touch(figure.get_by_role("slider", name="The norm"), 0.01, 0.5)
    assert_shows(figure, PRE, 1)
    touch(figure.get_by_role("slider", name="Number of pushes"), 0.99, 0.5)
    assert_shows(figure, PRE, 72)
    assert_fits_a_phone(figure, page, watch)


GARBAGE = {
    "there is no number of pushes 99": (r'"pushes": 1', '"pushes": 99'),
    "there is no share null": (r'"share": 4', '"share": null'),
    "its push should be four numbers": (r'"push": \[1.0, ', '"push": ['),
    "it has a norm on a share of 7": (r'"shares": \[0.0', '"shares": [7'),
}
test_garbage_becomes_a_message_and_the_page_goes_on = survives(PAGE, GARBAGE)

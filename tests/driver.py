"""How the tests drive a live figure in a page, and what every figure must stand."""

import re

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

# All that a canvas shows, as one number.
INK = """canvas => canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data
  .reduce((sum, value) => (31 * sum + value) | 0, 7)"""


def ink(figure):
    """What the canvases of a figure show: one number each."""
    figure.page.evaluate("new Promise(requestAnimationFrame)")
    figure.page.evaluate("new Promise(requestAnimationFrame)")
    return [canvas.evaluate(INK) for canvas in figure.locator("canvas").all()]


def drag(slider, start, end):
    """Drag the knob of a slider with the mouse, between two shares of its width."""
    box, mouse = slider.bounding_box(), slider.page.mouse
    y, radius = box["y"] + box["height"] / 2, 8
    at = [box["x"] + radius + share * (box["width"] - 2 * radius) for share in (start, end)]
    mouse.move(at[0], y)
    mouse.down()
    mouse.move(at[1], y, steps=5)
    mouse.up()


def touch(element, x, y):
    """Tap at a place of an element, given as shares of its width and height."""
    box = element.bounding_box()
    element.tap(position={"x": x * box["width"], "y": y * box["height"]})


def assert_sound(page, part=".live-figure"):
    """axe finds nothing wrong with what can be seen now."""
    results = Axe().run(page, {"include": [part]})
    assert results.violations_count == 0, results.generate_report()


def assert_fits_a_phone(page, watch):
    """A figure in use is no wider than a phone, and accessible; the page made no error and asked nobody."""
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    watch.assert_clean()  # before axe, which reads the style sheets once more, from other places
    assert_sound(page)


def assert_follows_the_theme(figure, page, dark):
    """A figure in use is drawn anew when the page turns dark or light, and is accessible there, too."""
    before = ink(figure)
    page.evaluate(f"document.documentElement.dataset.theme = '{'light' if dark else 'dark'}'")
    assert ink(figure) != before
    assert_sound(page)


def assert_survives(figure, page, path, garbage):
    """Each damage to the stored state, {words: (pattern, replacement)}, becomes a message; the page goes on."""
    whole, served = page.request.get(page.url).text(), {}
    page.route(f"**/{path}", lambda route: route.fulfill(content_type="text/html", **served))
    for words, (sound, damaged) in garbage.items():
        served["body"], times = re.subn(sound, damaged, whole)
        assert times == 1, f"{sound} stands {times} times in the page"
        page.reload()
        figure.scroll_into_view_if_needed()
        expect(figure).to_contain_text(words)
        assert page.locator("article h1").count() == 1
    assert_sound(page)

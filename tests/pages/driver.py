"""How the tests drive a live figure in a page, and what every figure must stand."""

import base64
import json
import os
import re
import shutil
import subprocess
from types import SimpleNamespace

import nbformat
import numpy as np
import pytest
from axe_playwright_python.sync_playwright import DEFAULT_OPTIONS, Axe, AxeResults
from playwright.sync_api import expect

from pages import live_figures, notebooks
from tests.conftest import ROOT

# All that a drawing shows, as one value: a canvas's pixels, or an SVG's elements with the colours that they have now.
INK = """drawing => drawing.matches("canvas")
  ? drawing.getContext("2d").getImageData(0, 0, drawing.width, drawing.height).data
      .reduce((sum, value) => (31 * sum + value) | 0, 7)
  : [drawing, ...drawing.querySelectorAll("*")].map(getComputedStyle).map(({ fill, stroke }) => fill + stroke).join()
      + drawing.innerHTML"""
# The ticks of axes and where they are, and one line of them: its points, its band, its dots.
LINE = """(axes, name) => {
  const places = (kind, at) => [...axes.querySelectorAll(`[data-${kind}]`)].map(
    (tick) => [Number(tick.dataset[kind]), Number(tick.getAttribute(at))]);
  const group = [...axes.querySelectorAll("[data-line]")].find((one) => one.dataset.line === name);
  const points = (tag) =>
    (group.querySelector(tag)?.getAttribute("points") ?? "").match(/[-\\d.]+/g)?.map(Number) ?? [];
  const dots = [...group.querySelectorAll("circle")].flatMap(
    (dot) => [Number(dot.getAttribute("cx")), Number(dot.getAttribute("cy"))]);
  return { x: places("x", "x1"), y: places("y", "y1"), line: points("polyline"), band: points("polygon"), dots };
}"""


GRAY = "canvas => [...canvas.getContext('2d').getImageData(0, 0, 28, 28).data].filter((_, i) => i % 4 === 0)"
# Two frames later: what a figure draws in answer to a change is drawn.
FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"


def ink(figure):
    """What the drawings of a figure show: one value each."""
    figure.page.evaluate(FRAMES)
    return [drawing.evaluate(INK) for drawing in figure.locator("canvas, svg").all()]


def gray_of(canvas):
    """The bytes of an image of 28 × 28 gray pixels."""
    return bytes(canvas.evaluate(GRAY))


def read_line(axes, name, log=""):
    """A line of the axes as a reader reads it off the ticks: xs, ys, low, high and dots; log: "x", "y" or "xy"."""
    found = axes.evaluate(LINE, name)

    def values(points):
        columns = []
        for axis, places in zip("xy", np.reshape(points, (-1, 2)).T, strict=True):
            (first, start), *_, (last, end) = found[axis]
            low, high = np.log([first, last]) if axis in log else (first, last)
            column = low + (places - start) / (end - start) * (high - low)
            columns.append(np.exp(column) if axis in log else column)
        return np.array(columns)

    (xs, ys), (_, edges) = values(found["line"]), values(found["band"])
    high, low = np.split(edges, 2)
    return SimpleNamespace(xs=xs, ys=ys, low=low[::-1], high=high, dots=values(found["dots"]).T)


def drag(slider, start, end):
    """Drag the knob of a slider with the mouse, between two shares of its width."""
    box, mouse = slider.bounding_box(), slider.page.mouse
    y, radius = box["y"] + box["height"] / 2, 8
    at = [box["x"] + radius + share * (box["width"] - 2 * radius) for share in (start, end)]
    mouse.move(at[0], y)
    mouse.down()
    mouse.move(at[1], y, steps=5)
    mouse.up()


def unfold(part):
    """Open what a figure, or a page, has behind "More"."""
    part.evaluate("part => part.querySelectorAll('.vf-more').forEach((more) => (more.open = true))")


def touch(element, x, y):
    """Tap at a place of an element, given as shares of its width and height."""
    box = element.bounding_box()
    element.tap(position={"x": x * box["width"], "y": y * box["height"]})


# The thousands of pieces of a page's text share a few looks, and of each look one is measured: the other pieces of
# code become plain text, other sentences are marked. What is drawn, or stands over something else, is all measured.
ALIKE = """() => {
  const seen = new Set(), around = new Map([[null, ""]]);
  const behind = (element) => {
    if (!around.has(element)) {
      const { backgroundColor, backgroundImage, opacity, display } = getComputedStyle(element);
      const own = [backgroundColor, backgroundImage, opacity, display === "none"].join();
      around.set(element, own + behind(element.parentElement));
    }
    return around.get(element);
  };
  const look = (piece) => {
    const { color, fontSize, fontWeight, visibility } = getComputedStyle(piece);
    return [color, fontSize, fontWeight, visibility, behind(piece)].join();
  };
  const first = (text) => !seen.has(text) && !!seen.add(text);
  const known = (piece) => !first(look(piece));
  // Of code there is so much that pieces of one class in one block are not even looked at.
  const blocks = new Map();
  const block = (one) => blocks.get(one) ?? blocks.set(one, look(one)).get(one);
  const twin = (piece) =>
    !first([piece.className, piece.getAttribute("style"), block(piece.parentElement)].join()) || known(piece);
  const pieces = [...document.querySelectorAll("pre *")].filter(
    (piece) => !piece.children.length && !piece.closest(".live-figure"));
  for (const piece of pieces.filter(twin)) piece.replaceWith(...piece.childNodes);
  const texts = [...document.querySelectorAll("article *")].filter(
    (piece) => !piece.closest(".live-figure, svg, pre *") && getComputedStyle(piece).position === "static"
      && [...piece.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim()));
  for (const piece of texts) piece.toggleAttribute("data-alike", known(piece));
}"""
# What is left to measure: axe takes its time for each element, measured or not.
PRUNED = """() => [...document.querySelectorAll("article [data-alike]")].reverse().forEach(
  (piece) => piece.querySelector(":not([data-alike])") ?? piece.remove())"""
MEASURED = "axe.configure({ rules: [{ id: 'color-contrast', selector: ':not([data-alike])' }] })"
# Style sheets, which axe would fetch once more, are asked for by no rule that is on.
OPTIONS = DEFAULT_OPTIONS | {"preload": {"assets": ["media"]}}
COLOURS = {"runOnly": ["color-contrast", "link-in-text-block"]}
ALL_ELSE = {"rules": {name: {"enabled": False} for name in COLOURS["runOnly"]}}


def assert_sound(page, part=".live-figure", colours_only=False):
    """axe finds nothing wrong with what can be seen now; part: None for all; colours_only: all else was seen before."""
    assert_passes(page, part, COLOURS if colours_only else {})


def assert_text_sound(page, colours_only=False):
    """The same of a page's article, of which afterwards little is left."""
    if colours_only:
        page.evaluate(ALIKE)
    else:
        assert_passes(page, "article", ALL_ELSE)
    page.evaluate(PRUNED)
    assert_passes(page, "article", COLOURS)


def assert_passes(page, part, rules):
    page.evaluate(ALIKE)
    if page.evaluate("typeof axe === 'undefined'"):
        page.evaluate(Axe().axe_script)
        page.evaluate(MEASURED)
    asked = [part and {"include": [part]}, OPTIONS | rules]
    results = AxeResults(page.evaluate("([part, options]) => axe.run(part ?? document, options)", asked))
    assert results.violations_count == 0, results.generate_report()


def assert_fits_a_phone(figure, page, watch, redraws=True):
    """A figure in use is no wider than a phone and accessible in both themes; the page made no error, asked nobody."""
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert_in_use(figure, page, watch, redraws)


def assert_in_use(figure, page, watch, redraws=True):
    """A figure in use is accessible, follows the theme (also in what it draws: redraws), and is accessible there."""
    watch.assert_clean()  # before axe, which reads the style sheets once more, from other places
    assert_sound(page)
    before, said = looks(figure), figure.get_by_role("status").all_inner_texts()
    turn_the_theme(page)
    now = looks(figure)
    assert now.pop(0) != before.pop(0) and (now != before or not redraws)
    assert figure.get_by_role("status").all_inner_texts() == said
    assert_sound(page, colours_only=True)


def looks(figure):
    """The paper of a figure, and what its drawings show."""
    return [figure.locator(".vf").first.evaluate("one => getComputedStyle(one).backgroundColor"), *ink(figure)]


PAPER = "document.documentElement.dataset"


def turn_the_theme(page):
    """From light to dark, or back, as the button in the page's bar does."""
    page.evaluate(f"{PAPER}.theme = {PAPER}.theme === 'dark' ? 'light' : 'dark'")


FRAME = re.compile(r'<div class="live-figure .*?</script></div>', re.DOTALL)
STORED = re.compile(r'(?<=widget-state\+json">).*?(?=</script>)', re.DOTALL)


SEEN_AND_FILLED = "frame => { frame.scrollIntoView(); return frame.textContent.trim() !== '' }"


def stored(page, kind):
    """Which figure of a page is of this kind, and its traits as the chapter holds them."""
    notebook = nbformat.read(ROOT / page.replace(".html", ".ipynb"), 4)
    models = notebooks.models(notebook)
    for number, (_, model) in enumerate(notebooks.views(notebook)):
        state = dict(models[model]["state"])
        if state.get("_anywidget_id", "").endswith(f".{kind}"):
            buffers = models[model].get("buffers", [])
            return number, state | {one["path"][0]: base64.b64decode(one["data"]) for one in buffers}
    raise AssertionError(f"no {kind} in {page}")


def whole(site, path):
    """A built page with the states of its figures, which lie beside it."""
    return live_figures.joined((site / path).read_text(), lambda name: (site / live_figures.FOLDER / name).read_text())


def assert_survives(visit, site, path, garbage, number=0):
    """Each damage to the stored state, {words: (pattern, replacement)}, becomes a message; the page goes on.

    One page shows the figure with every damage, each with a state of its own, and at last without any.
    """
    built = whole(site, path)
    place, stored, frames = FRAME.findall(built)[number], json.loads(STORED.search(built)[0]), []
    for sound, damaged in [*garbage.values(), (r"\A", "")]:
        html, found = re.subn(sound, damaged, built, count=1)  # figures share files: in the first one's
        assert found, f"{sound} stands nowhere in the page"
        frame = FRAME.findall(html)[number]
        model = re.search(r'(?<="model_id": ")\w+', frame)[0]
        if state := json.loads(STORED.search(html)[0])["state"].get(model):
            stored["state"][f"{model}-{len(frames)}"] = state
        frames.append(frame.replace(f'"{model}"', f'"{model}-{len(frames)}"'))
    body = STORED.sub(lambda _: json.dumps(stored).replace("</", "<\\/"), built).replace(place, "\n".join(frames))
    page, _ = visit(path, body=body)
    for shown, words in enumerate(garbage, number):
        failed = page.locator(".live-figure").nth(shown)
        page.wait_for_function(SEEN_AND_FILLED, arg=failed.element_handle(), polling=200)
        expect(failed).to_contain_text(words)
    turn_the_theme(page)  # all draw again
    page.evaluate(FRAMES)
    for shown, words in enumerate(garbage, number):
        assert words in page.locator(".live-figure").nth(shown).inner_text()
    alive = page.locator(".live-figure").nth(number + len(garbage))
    alive.scroll_into_view_if_needed()
    expect(alive.locator(".vf").first).to_be_visible()
    assert page.locator("article h1").count() == 1
    assert_sound(page)


def survives(path, garbage, number=0):
    """The test that a damaged state of a figure of a page becomes a message, and the page goes on."""
    return lambda visit, site: assert_survives(visit, site, path, garbage, number)


def refuses(*cases):
    """The test that a call with a bad value raises this error, whose message has these words."""

    @pytest.mark.parametrize("call, error, words", cases)
    def test(call, error, words):
        with pytest.raises(error) as caught:
            call()
        assert all(word in str(caught.value) for word in words), caught.value

    return test


def node(*arguments, **environment):
    """What Node prints; without Node the test is skipped, but never in CI."""
    program = shutil.which("node")
    if not program:
        message = "no Node on this machine: JavaScript was not compared with Python"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
    surroundings = os.environ | environment
    result = subprocess.run([program, *arguments], capture_output=True, text=True, env=surroundings, cwd=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout

"""The built pages in Chromium: offline, without errors, legible, on a phone, for a screen reader."""

import re
from pathlib import Path

import pytest
import yaml

from pages import frame, notebooks, origin
from tests.conftest import ROOT
from tests.pages.driver import assert_sound, assert_text_sound

TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())
CHAPTERS = [TOC["root"], *(page for _, pages in frame.contents(ROOT) for page in pages)]
NOTEBOOKS = [chapter for chapter in CHAPTERS if (ROOT / f"{chapter}.ipynb").exists()]
PAGES = [f"{chapter}.html" for chapter in CHAPTERS]

UNFOLD = "document.querySelectorAll('details').forEach(element => element.open = true)"
# What in the article element sticks out to the right and lies in no box that scrolls.
# The theme draws some icons with letters of a font that the book does not load: each would show as an empty box.
BOXES_FOR_ICONS = """[...document.querySelectorAll(".bd-main *")].flatMap((node) =>
  ["::before", "::after"].map((part) => getComputedStyle(node, part).content)
    .filter((text) => /[\\uE000-\\uF8FF]/.test(text)).map(() => node.className))"""
# tables that scroll, and that the keyboard does not reach
OUT_OF_REACH = """[...document.querySelectorAll("article table")].filter(
    table => table.scrollWidth > table.clientWidth && table.tabIndex < 0).map(table => table.innerText)"""
STICKING_OUT = """() => [...document.querySelectorAll("article *")].filter(element => {
  const box = element.getBoundingClientRect();
  if (box.width === 0 || box.right <= innerWidth + 1) return false;
  for (let up = element.parentElement; up && up.tagName !== "ARTICLE"; up = up.parentElement)
    if (getComputedStyle(up).overflowX !== "visible") return false;
  return true;
}).map(element => element.outerHTML.slice(0, 120))"""
# What a visit brings, unpacked, and how much of it belongs to live figures.
WEIGHT = """() => {
  const loaded = ["navigation", "resource"].flatMap((kind) => performance.getEntriesByType(kind));
  const bytes = (files) => files.reduce((sum, file) => sum + file.decodedBodySize, 0);
  const states = [...document.querySelectorAll("script[type^='application/vnd.jupyter.widget']")];
  const host = bytes(loaded.filter((file) => /\\/figures[./]/.test(file.name)));
  return [bytes(loaded), states.reduce((sum, state) => sum + state.textContent.length, host)];
}"""

# Pages whose formulas have a letter that the small fonts lack: formulas.css says how these are made.
WHOLE_FONT = "performance.getEntriesByType('resource').some((file) => file.name.includes('STIXTwoMath'))"
# Roots without their sign, which is no letter of the page: a font that lacks it loads no other.
BARE_ROOTS = """[...document.querySelectorAll("article msqrt")].filter((root) => {
  const [whole, inside] = [root, root.lastElementChild].map((one) => one.getBoundingClientRect());
  return whole.width && whole.right - inside.right + inside.left - whole.left < 5;
}).length"""


def assert_set(page, theme):
    """The page has the system's colours and all its formulas."""
    assert page.locator("html").get_attribute("data-theme") == theme
    assert page.locator("article .math").count() == page.locator("article .math > math").count()


@pytest.mark.parametrize("path", PAGES)
def test_page_is_light_to_load_whole_and_accessible(visit, path):
    page, watch = visit(path)
    whole, figures = page.evaluate(WEIGHT)
    print(f"\n{path}: a first visit brings {whole:,} bytes unpacked, {figures:,} of them for live figures")
    assert figures < (notebooks.MAX_BYTES if Path(path).stem in notebooks.HEAVY else notebooks.MAX_STATE)
    assert 300_000 < whole < 3_000_000  # less, and something was not counted
    assert not page.evaluate(WHOLE_FONT) and page.evaluate(BARE_ROOTS) == 0
    watch.assert_clean()
    assert_set(page, "light")
    assert page.locator("article h1").count() == 1
    page.evaluate(UNFOLD)
    assert page.evaluate(BOXES_FOR_ICONS) == []
    assert_text_sound(page)


def test_a_request_to_another_host_fails_and_is_noted(visit, server):
    page, watch = visit("search.html", bypass_csp=True)  # else it would not even be made
    other = server.replace("127.0.0.1", "another.localhost")  # Chromium would find it on this machine
    fetched = "url => fetch(url, { mode: 'no-cors' }).then(() => 'came', () => 'failed')"
    assert [page.evaluate(fetched, url) for url in (server, other)] == ["came", "failed"]
    assert watch.foreign == [other]
    with pytest.raises(AssertionError, match="requests to other hosts.*another"):
        watch.assert_clean()


@pytest.mark.parametrize("pieces", ["article .cell_input pre span.n:visible", "article section > p:visible"])
def test_a_pale_piece_among_thousands_is_seen(visit, pieces):
    page, _ = visit(PAGES[1])
    page.evaluate(UNFOLD)
    names = page.locator(pieces)
    assert names.count() > 30
    names.last.evaluate("name => name.style.color = '#bbb'")
    with pytest.raises(AssertionError, match="color-contrast"):
        assert_text_sound(page, colours_only=True)


@pytest.mark.parametrize("path", [*PAGES, "search.html"])
def test_page_opens_from_the_disk_on_a_phone_in_the_dark_and_nothing_sticks_out(visit, path):
    page, watch = visit(path, width=390, touch=True, dark=True, from_file=True)
    watch.assert_clean()
    assert_set(page, "dark")
    assert page.evaluate(OUT_OF_REACH) == []
    page.evaluate(UNFOLD)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate(STICKING_OUT) == []
    watch.assert_clean()
    if path in PAGES:
        assert_text_sound(page, colours_only=True)  # of the dark page nothing else differs


@pytest.mark.parametrize("from_file", [False, True], ids=["http", "file"])
def test_the_front_door_leads_to_the_book(visit, from_file):
    page, watch = visit("search.html", from_file=from_file)
    page.goto(f"{watch.home}index.html")
    page.wait_for_url(f"{watch.home}{TOC['root']}.html")


@pytest.mark.parametrize("chapter", NOTEBOOKS)
def test_colab_opens_the_stamped_copy_of_this_notebook(site, chapter):
    declared = yaml.safe_load((ROOT / "_config.yml").read_text())["repository"]["url"]
    slug = origin.repository(declared.removeprefix("https://github.com/"), ROOT)
    links = set(re.findall(r"https://colab\.research[^\"]+", (site / f"{chapter}.html").read_text()))
    assert links == {f"https://colab.research.google.com/github/{slug}/blob/colab/{chapter}.ipynb"}


# The theme's own keys work: without them the theme makes errors.
NO_STORAGE = """for (const name of ["getItem", "setItem"]) {
  const own = Storage.prototype[name];
  Storage.prototype[name] = function (key, ...rest) {
    if (key === "show-all-code") throw Error("no storage");
    return own.call(this, key, ...rest);
  };
}"""
FOLDED = ".cell:not(.tag_hide-cell) > details.hide"


@pytest.mark.parametrize("width", [1200, 390])
def test_one_button_shows_all_code_and_the_browser_remembers(visit, width):
    page, watch = visit("book/10-recipes.html", width=width)
    button = page.get_by_role("button", name="Show all code")
    folded = page.locator(FOLDED)
    assert folded.count() > 10 and page.locator(f"{FOLDED}[open]").count() == 0
    assert page.locator(f"{FOLDED} + .cell_output").count() == 0  # what it draws stands first
    assert folded.first.bounding_box()["height"] < 30
    assert_sound(page, "article", colours_only=True)
    button.click()
    assert page.locator(f"{FOLDED}[open]").count() == folded.count()
    page.reload()
    assert page.locator(f"{FOLDED}[open]").count() == folded.count()
    page.get_by_role("button", name="Hide all code").click()
    assert page.locator(f"{FOLDED}[open]").count() == 0
    watch.assert_clean()


def test_all_code_shows_where_the_browser_keeps_nothing(visit):
    page, watch = visit("book/10-recipes.html", from_file=True)
    page.add_init_script(NO_STORAGE)
    page.reload()
    page.get_by_role("button", name="Show all code").click()
    assert page.locator(f"{FOLDED}[open]").count() == page.locator(FOLDED).count()
    watch.assert_clean()

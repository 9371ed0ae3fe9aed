"""What stands around every page, formulas, the words of the glossary; and the first page's first screen."""

import json
import re
from html import unescape

import pytest
import yaml
from docutils import nodes
from PIL import Image
from playwright.sync_api import expect
from sphinx.errors import SphinxError

from pages import formulas, frame, glossary
from tests.conftest import ROOT
from tests.pages.driver import assert_sound

TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())
PAGES = [page for _, pages in frame.contents(ROOT) for page in pages]
CHAPTERS = [page for page in PAGES if frame.number(page) is not None]
FIRST = f"{TOC['root']}.html"


def tag(html: str, name: str) -> str:
    """What a page says of itself under this name."""
    return unescape(re.search(rf'<meta (?:name|property)="{name}" content="([^"]*)"', html)[1])


# ---- Formulas


def test_a_formula_becomes_mathml_that_browsers_draw():
    made = formulas.mathml(r"\mathcal{L} = \ln q + \ln(q) + \mathbf{x} + \mathbb{R}", True)
    assert made.startswith("<math") and 'display="block"' in made
    assert [drawn in made for drawn in "ℒ𝐱ℝ"] == [True] * 3  # no browser draws mathvariant="script"
    assert f"<mi>ln</mi>{formulas.THIN}<mi>q</mi>" in made and "<mi>ln</mi><mo>&#x2061;</mo><mo" in made
    assert "data-mjx" not in made and "\n" not in made


@pytest.mark.parametrize("tex, words", [(r"\frac{1", "Missing close brace"), (r"\foo x", r"\\foo")])
def test_what_is_no_tex_stops_the_build(tex, words):
    with pytest.raises(SphinxError, match=words):
        formulas.mathml(tex, False)


def test_every_formula_of_the_book_is_set_and_no_page_has_mathjax(site):
    found = 0
    for path in [*site.glob("book/*.html"), *site.glob("slides/*.html"), *site.glob("handouts/*.html")]:
        html = path.read_text()
        assert not re.search(r"<script[^>]*mathjax", html, re.IGNORECASE), path.name
        set_ones = re.findall(r'class="math(?: block)?"[^>]*>\s*(?:<span class="eqno">.*?</span>)?<math', html)
        assert len(re.findall(r'class="math(?: block)?"', html)) == len(set_ones), path.name
        assert "<merror" not in html and 'mathvariant="-tex' not in html
        found += html.count("<math")
    assert found > 300
    assert not list(site.rglob("*mathjax*"))


# ---- What a page says of itself, and where it leads


def test_each_page_describes_itself(site):
    said = {}
    for page in [TOC["root"], *PAGES]:
        html = (site / f"{page}.html").read_text()
        said[page] = tag(html, "description")
        assert frame.SHORTEST <= len(said[page]) <= frame.LONGEST, page
        assert tag(html, "og:description") == said[page]
        assert tag(html, "og:site_name") == "Understanding Vision Transformers" and tag(html, "og:title")
        assert tag(html, "og:image").endswith(frame.CARD)
        assert re.search(r'<link rel="icon" href="[^"]*favicon.svg"', html)
    assert len(set(said.values())) == len(said)
    with Image.open(site / frame.CARD) as card:
        assert card.size == (1200, 630)


@pytest.mark.parametrize(
    "variable, slug, address",
    [
        ("", "OWNER/REPO", ""),
        ("", "Ann/vit", "https://ann.github.io/vit/"),
        ("", "ann/ann.github.io", "https://ann.github.io/"),
        ("https://vit.example.org", "ann/vit", "https://vit.example.org/"),
    ],
)
def test_where_the_pages_are(monkeypatch, variable, slug, address):
    monkeypatch.setenv("BOOK_URL", variable)
    assert frame.published(slug) == address


def test_chapters_name_their_neighbours_and_lead_to_the_map(site):
    for before, after in zip(CHAPTERS, CHAPTERS[1:], strict=False):
        titles = re.findall(r'prev-next-title">([^<]*)<', (site / f"{before}.html").read_text())
        assert titles[-1].startswith(f"{frame.number(after)}. ")
        html = (site / f"{after}.html").read_text()
        assert re.findall(r'prev-next-title">([^<]*)<', html)[0].startswith(f"{frame.number(before)}. ")
        assert html.count(f'href="index.html#{frame.MAP}"') == 1
    assert f'id="{frame.MAP}"' in (site / FIRST).read_text()


def test_the_list_of_chapters_says_what_the_chapters_say(site):
    html = re.sub(r"<[^>]+>", "", (site / FIRST).read_text())
    for page in [*CHAPTERS, "book/jax"]:
        chapter = frame.read_chapter(ROOT, page)
        assert chapter, f"{page} has no card with its minutes"
        assert f"{frame.numbered(page, chapter.title)} · {chapter.reading} min" in unescape(html)


def test_the_page_for_teachers_says_what_memory_a_user_needs(site):
    measured = json.loads((ROOT / "book" / "results" / "kernels.json").read_text())["result"]
    least, most = (choose(measured["kernels"], key=measured["kernels"].get) for choose in (min, max))
    page = (site / "book" / "teaching.html").read_text()
    [table] = [part for part in re.findall(r"<table.*?</table>", page, re.DOTALL) if "memory at the peak" in part]
    rows = [unescape(re.sub(r"<[^>]+>", " ", row)) for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)][1:]
    sizes = (measured["server"], measured["kernels"][least], measured["kernels"][most])
    assert [re.search(r"\d+ MB", row)[0] for row in rows] == [f"{size / 1e6:.0f} MB" for size in sizes]
    assert f'href="{least}.html"' in table and f'href="{most}.html"' in table


def test_minutes_are_read_in_both_ways_of_writing(tmp_path):
    (tmp_path / "book").mkdir()
    for name, time, expected in (
        ("01-a", "70 minutes, 40 of them for the exercises", (30, 40)),
        ("02-b", "45 minutes, and 55 for the exercises", (45, 55)),
        ("03-c", "20 minutes", (20, 0)),
    ):
        card = f"# T\n\n| | |\n| --- | --- |\n| **You will be able to** | cut; paste |\n| **Time** | {time} |"
        cells = [{"cell_type": "markdown", "source": [card]}]
        (tmp_path / "book" / f"{name}.ipynb").write_text(json.dumps({"cells": cells}))
        chapter = frame.read_chapter(tmp_path, f"book/{name}")
        assert (chapter.reading, chapter.exercises, chapter.aim) == (*expected, "cut")


def test_icons_that_no_page_uses_are_left_out():
    script = 'x={sun:[5,5,[97],"f1","M1"],"magnifying-glass":[5,5,[9,"search"],"f2","M2"],moon:[5,5,[],"f3",["M","N"]]}'
    assert frame.used_icons(script, {"search", "sun"}) == script.replace(',moon:[5,5,[],"f3",["M","N"]]', "")
    assert frame.used_icons(script, {"moon"}) == 'x={moon:[5,5,[],"f3",["M","N"]]}'


# ---- Words of the glossary

WORDS = """# Glossary

attention
: Every token takes an **average** of `all` tokens, $f(x)$. ([3](03-attention.ipynb))

attention map
: The matrix of one head. ([8](08-looking-inside.ipynb))

key
: What can be found there. ([3](03-attention.ipynb))
"""


def marked(texts: list[str], chapter: int) -> list[str]:
    """The words that are marked in paragraphs of a chapter."""
    marker, paragraphs = glossary.Marker(glossary.entries(WORDS), chapter, "glossary.html"), []
    for text in texts:
        paragraphs.append(nodes.paragraph("", text))
        marker.mark(paragraphs[-1][0])
        assert paragraphs[-1].astext() == text
    return [use.astext() for paragraph in paragraphs for use in paragraph.findall(glossary.FirstUse)]


def test_the_glossary_is_read():
    found = glossary.entries(WORDS)
    assert found["attention"] == ("Every token takes an average of all tokens, f(x).", 3)
    assert len(glossary.entries((ROOT / "book" / "glossary.md").read_text())) > 80


def test_a_word_is_marked_once_the_longest_first_and_not_in_its_ordinary_sense():
    assert marked(["Attention maps, and attention again: an attention map."], 3) == ["Attention maps", "attention"]
    assert marked(["The key to it is that keys match."], 1) == []
    assert marked(["The key to it is that keys match."], 3) == ["key"]
    assert marked(["Inattention, attention-free."], 3) == []


def test_no_heading_code_or_link_is_marked_and_each_mark_leads_to_its_entry(site):
    words = (site / "book" / "glossary.html").read_text()
    for page in CHAPTERS:
        html = (site / f"{page}.html").read_text()
        uses = re.findall(r'<a class="term" data-sentence="[^"]+" href="glossary.html#([\w-]+)"', html)
        assert uses and len(uses) == len(set(uses)), page
        assert [use for use in uses if f'<dt id="{use}"' not in words] == []
        for outer in ("h[1-6]", "pre", "code", "a", "button"):
            assert not re.search(rf'<{outer}\b[^>]*>(?:(?!</{outer}>).)*<a class="term"', html, re.DOTALL), (
                page,
                outer,
            )


def test_a_sentence_shows_on_hover_focus_and_tap(visit):
    page, watch = visit("book/03-attention.html", from_file=True)
    word, sentence = page.locator("article a.term").first, page.locator("#term-sentence")
    assert sentence.is_hidden()
    word.hover()
    expect(sentence).to_have_text(word.get_attribute("data-sentence"))
    sentence.hover()  # the pointer may go there
    page.wait_for_timeout(400)
    assert sentence.is_visible()
    assert_sound(page, "article", colours_only=True)
    page.keyboard.press("Escape")
    assert sentence.is_hidden()
    page.mouse.move(0, 0)
    word.focus()
    expect(word).to_have_attribute("aria-describedby", "term-sentence")
    assert sentence.is_visible()
    page.keyboard.press("Tab")
    expect(word).not_to_have_attribute("aria-describedby", "term-sentence")
    word.click()
    page.wait_for_url("**/glossary.html#term-*")
    watch.assert_clean()


def test_on_a_phone_the_first_tap_shows_it_and_the_second_follows(visit):
    page, _ = visit("book/03-attention.html", width=390, touch=True)
    word, sentence = page.locator("article a.term").first, page.locator("#term-sentence")
    word.tap()
    expect(sentence).to_be_visible()
    box = sentence.bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("article h1").tap()
    assert sentence.is_hidden()
    word.tap()
    word.tap()
    page.wait_for_url("**/glossary.html#term-*")


# ---- The first page


@pytest.mark.parametrize("width, height, icons", [(1280, 800, 8), (390, 844, 5)])
def test_the_first_screen_holds_a_model_that_answers_and_leads_into_the_book(visit, width, height, icons):
    page, watch = visit(FIRST, width=width, dark=width == 390, from_file=True)
    page.set_viewport_size({"width": width, "height": height})
    page.locator(".lv-easel").wait_for()
    assert page.evaluate("scrollY") == 0
    for part in (".lv-shelf", ".lv-easel", ".lv-bars .lv-best", *([".live-figure"] if width > 390 else [])):
        box = page.locator(part).first.bounding_box()
        assert box["y"] > 0 and box["y"] + box["height"] <= height, part
    assert page.locator("article .cell_input:visible").count() == 0
    before = page.locator(".lv-bars").inner_text()
    for patch in (4, 5, 8, 9):
        page.locator(".lv-grid button").nth(patch).click()
    expect(page.locator(".vf-says").first).to_contain_text("4 of 16 patches painted grey")
    assert page.locator(".lv-bars").inner_text() != before
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    bar = page.locator(".bd-header-article .header-article-items :is(.dropdown-toggle, .btn-sm):not(.dropdown-item)")
    assert 3 < sum(icon.is_visible() for icon in bar.all()) <= icons
    for button in (".dropdown-launch-buttons", ".theme-switch-button"):
        assert page.locator(button).first.is_visible()
    page.evaluate("scrollTo(0, 0)")
    links = page.locator(".begin a")
    grounds = [link.evaluate("link => getComputedStyle(link).backgroundColor") for link in links.all()]
    assert links.count() == 4 and len(set(grounds[1:])) == 1 and grounds[0] != grounds[1]  # one button, quieter links
    chapters, run, teach = (link.get_attribute("href") for link in links.all()[1:])
    assert all(page.locator(f'[id="{place.removeprefix("#")}"]').count() == 1 for place in (chapters, run))
    assert teach == "teaching.html"
    assert links.first.bounding_box()["y"] < 400
    watch.assert_clean()
    links.first.click()
    page.wait_for_url(f"**/{CHAPTERS[0]}.html")


def test_the_front_door_says_what_the_first_page_says():
    image = '<meta property="og:image" content="../_static/card.png">'
    first = f'<title>A book</title><meta name="description" content="One &amp; two.">{image}<meta name="generator">'
    door = frame.front_door(first, "book/index.html")
    assert door.startswith('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">')
    assert tag(door, "description") == "One & two." and tag(door, "og:image") == "_static/card.png"
    assert "<title>A book</title>" in door and "generator" not in door
    assert 'content="0; url=book/index.html"' in door and '<a href="book/index.html">A book</a>' in door


def test_the_first_page_shows_no_code():
    cells = json.loads((ROOT / f"{TOC['root']}.ipynb").read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code and all({"remove-input", "remove-cell"} & set(cell["metadata"]["tags"]) for cell in code)

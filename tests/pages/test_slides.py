"""The decks of slides: what they take from the chapters, and how they stand in a browser that asks nobody else."""

import html
import json
import re

import pytest
from playwright.sync_api import expect

from pages import slides
from pages.print_slides import print_deck, save_deck
from tests.conftest import ROOT, complete
from tests.pages.driver import assert_sound
from tests.pages.test_extension import build
from vitbook import drawings

DECKS = slides.decks(ROOT)
NAMES = [deck.stem for deck in DECKS]
LECTURE = "vit-in-one-lecture"
# All that is seen of a slide lies inside it, and nothing is too small to be read from the last row.
STICKS_OUT = """slide => {
  const box = slide.getBoundingClientRect();
  return [...slide.querySelectorAll(":not(.notes, .notes *, math *, script, svg *), svg text")].filter(element => {
    const { right, bottom, width } = element.getBoundingClientRect();
    const text = element.matches("pre") && element.scrollWidth > element.clientWidth + 1;
    return text || (width > 0 && (right > box.right + 1 || bottom > box.bottom + 1));
  }).map(element => element.outerHTML.slice(0, 90));
}"""
# The same whatever is chosen in its live figures: at most twenty choices.
STICKS_OUT_SOMETIMES = f"""async slide => {{
  const found = [], frame = () => new Promise(requestAnimationFrame);
  for (const choice of [...slide.querySelectorAll(".vf :is([type=radio], [role=radio])")].slice(0, 20)) {{
    choice.click();
    await frame(), await frame();
    found.push(...({STICKS_OUT})(slide));
  }}
  return found;
}}"""
# Whether a live figure draws or says something else than when this was asked last.
CHANGED = """async figure => {
  for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
  const all = (kind, of) => [...figure.querySelectorAll(kind)].map(of);
  const drawn = [all("canvas", one => one.toDataURL()), all("svg", one => one.innerHTML)];
  const [before, now] = [figure.shown, figure.shown = figure.innerText + drawn];
  return before !== now;
}"""
SMALLEST = """slide => Math.min(...[...slide.querySelectorAll("h1, h2, p:not(.keys):not(.vf p), li, pre")]
  .filter(element => !element.closest(".notes, .vf")).map(element => parseFloat(getComputedStyle(element).fontSize)))"""


def parts(deck):
    """The slides of a deck as written: title -> (body, notes)."""
    found = {}
    for text in slides.SLIDE.split(deck.read_text()):
        body, _, notes = slides.NOTE.split(text.strip(), maxsplit=1)
        title, _, body = body.partition("\n")
        found[title.strip("# ")] = body, notes
    return found


# ---- As written


@pytest.mark.parametrize("deck", DECKS, ids=NAMES)
def test_deck_takes_its_cells_from_the_chapters(deck):
    made = slides.Deck(deck, ROOT / "book")
    page = made.page()
    assert made.models, "a deck has at least one live figure"
    assert page.count('<div class="live-figure"') == len(re.findall(r"^\{\{.* live \}\}$", deck.read_text(), re.M))
    shown = [html.unescape(re.sub("<[^>]+>", "", code)) for code in re.findall(r"<code>.*?</code>", page, re.DOTALL)]
    for found in slides.INCLUDE.finditer(deck.read_text()):
        if "code" in found[3].split():
            source = "".join(made.cell(found[1] or deck.stem, found[2])["source"])
            assert source.strip() in [code.strip() for code in shown]


@pytest.mark.parametrize("deck", DECKS, ids=NAMES)
def test_deck_is_one_lesson(deck):
    written = parts(deck)
    assert 8 <= len(written) <= 14
    assert "ask" in "".join(body for body, _ in list(written.values())[:2])
    assert sum("{.ask}" in body for body, _ in written.values()) >= 5
    for title, (_, notes) in written.items():
        assert len(notes.split()) > 40, f"{title}: too little to speak from"
    minutes = sum(int(found) for found in slides.NOTE.findall(deck.read_text()))
    assert 40 <= minutes <= 75


@pytest.mark.parametrize("deck", DECKS, ids=NAMES)
def test_measured_numbers_come_from_cells(deck):
    typed = re.findall(r"\d[\d.,]* ?(?:%|seconds|GFLOP|GB|MB|points)", deck.read_text())
    assert set(typed) <= {"10 %", "95 %"}, "a deck may state itself only chance and the level of an interval"


SOUND = "# Title\n\nWords.\n\n{body}\n\nNote (1 min): words\n"
CELLS = [
    {"id": "code", "cell_type": "code", "source": "x = 1", "metadata": {}, "outputs": [{"text": "one\ntwo <2>\n"}]},
    {"id": "words", "cell_type": "markdown", "source": "A\n\n$$\nx < y\n$$\n\n| a |\n| --- |\n| b |", "metadata": {}},
    {"id": "long", "cell_type": "code", "source": "a = 1\n\n  def f():\n    g\n\nb = 2", "metadata": {}},
    {"id": "bare", "cell_type": "code", "source": "y", "metadata": {}, "outputs": [{"data": {"image/png": "iVBO"}}]},
    {
        "id": "drawn",
        "cell_type": "code",
        "source": "drawings.whole_model()",
        "metadata": {},
        "outputs": [{"data": {"image/svg+xml": drawings.whole_model().svg}}],
    },
]


def small_deck(folder, text):
    """A deck with this text beside a chapter with three cells."""
    (folder / "slides").mkdir(exist_ok=True)
    (folder / "one.ipynb").write_text(json.dumps({"cells": CELLS, "metadata": {}}))
    (folder / "slides" / "one.md").write_text(text)
    return slides.Deck(folder / "slides" / "one.md", folder)


@pytest.mark.parametrize(
    "body, expected",
    [
        ("{{ code text }}", "one\ntwo &lt;2&gt;"),
        ("{{ code text /two/ }}", '<pre class="output">two &lt;2&gt;</pre>'),
        ("{{ one:words math }}", "<mo>&lt;</mo>"),
        ("{{ words table }}", "<td>b</td>"),
        ("{.fragment}\n{{ code output }}", '<div class="fragment"><pre class="output">one'),
        ("left\n\n|||\n\nright", "minmax(0, 1fr) minmax(0, 1fr)"),
        ("left\n\n||| 3 2\n\nright", "minmax(0, 3fr) minmax(0, 2fr)"),
        ("{{ drawn drawing }}", '<div class="image" style="--w: 720; --h: 878"><svg class="vd vd-wide"'),
        ("{{ drawn output }}", "The Vision Transformer, read from top to bottom."),
    ],
)
def test_a_deck_takes_what_it_names(tmp_path, body, expected):
    assert expected in small_deck(tmp_path, SOUND.format(body=body)).page()


def test_a_passage_ends_at_the_next_empty_line(tmp_path):
    page = small_deck(tmp_path, SOUND.format(body="{{ long passage /def/ }}")).page()
    code = re.search(r"<pre>.*?</pre>", page, re.DOTALL)[0]
    assert html.unescape(re.sub("<[^>]+>", "", code)) == "def f():\n  g\n"


def test_a_drawing_leads_to_the_chapters_that_there_are(tmp_path):
    (tmp_path / "03-attention.ipynb").touch()
    page = small_deck(tmp_path, SOUND.format(body="{{ drawn drawing }}")).page()
    drawn = re.search("<svg.*</svg>", page, re.DOTALL)[0]
    assert set(re.findall('<a href="(.*?)"', drawn)) == {"../book/03-attention.html"}
    assert "vd-narrow" not in drawn


@pytest.mark.parametrize(
    "text, words",
    [
        (SOUND.format(body="{{ two:code code }}"), ["one.md", "chapter", "two"]),
        (SOUND.format(body="{{ code coda }}"), ["one.md", "code", "coda", "live"]),
        (SOUND.format(body="{{ code live }}"), ["one.md", "code", "live"]),
        (SOUND.format(body="{{ words code }}"), ["one.md", "words", "code"]),
        (SOUND.format(body="{{ code text /three/ }}"), ["one.md", "code", "/three/"]),
        (SOUND.format(body="{{ long passage /class/ }}"), ["one.md", "long", "passage", "/class/"]),
        (SOUND.format(body="{{ code }}"), ["one.md", "{{ code }}"]),
        (SOUND.format(body="{{ bare drawing }}"), ["one.md", "bare", "drawing"]),
        (SOUND.format(body="{{ bare image }}"), ["one.md", "bare", "alt"]),
        ("# Title\n\nNo notes.\n", ["one.md", "Note (2 min)", "# Title"]),
        ("No title.\n\nNote (1 min): words\n", ["one.md", "title", "No title."]),
    ],
)
def test_a_deck_that_asks_for_what_is_not_there_is_an_error(tmp_path, text, words):
    with pytest.raises(slides.DeckError) as error:
        small_deck(tmp_path, text).page()
    assert [word for word in words if word not in str(error.value)] == []


def test_the_strict_build_stops_at_an_unknown_cell(tmp_path):
    (tmp_path / "book" / "slides").mkdir(parents=True)
    (tmp_path / "book" / "slides" / "one.md").write_text(SOUND.format(body="{{ 1a2b3c4d code }}"))
    result = build(tmp_path, "# One\n")
    assert result.returncode != 0
    assert "slides/one.md" in result.stderr and "1a2b3c4d" in result.stderr


# ---- In the browser


@pytest.fixture
def show(visit):
    """A function that opens a deck at 1280 pixels and waits until it stands."""

    def open_deck(name, **options):
        page, watch = visit(f"slides/{name}", width=1280, **options)
        page.locator("html[data-ready]").wait_for()
        return page, watch

    return open_deck


def each_slide(page):
    """Go from slide to slide, with all that comes by further keys; yield each, its live figure awake."""
    for number in range(page.evaluate("Reveal.getTotalSlides()")):
        page.evaluate(f"Reveal.slide({number}, 0, 99)")
        slide = page.locator("section.present")
        for figure in slide.locator(".live-figure").all():
            figure.locator(".vf:visible").wait_for()
            complete(figure)
        yield slide


def assert_colours(page, theme):
    assert page.locator("html").get_attribute("data-theme") == theme
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(20, 24, 30)" if theme == "dark" else "rgb(255, 255, 255)")


def assert_keys_lead_through(page):
    """From the first slide to the last, fragment by fragment, and back."""
    titles = page.locator(".slides h1, .slides h2")
    expect(titles.first).to_be_visible()
    fragments = page.locator(".fragment").count()
    for _ in range(titles.count() - 1 + fragments):
        page.keyboard.press("ArrowRight")
    expect(titles.last).to_be_visible()
    assert page.evaluate("Reveal.isLastSlide()")
    page.keyboard.press("Home")
    expect(titles.first).to_be_visible()


def controls(figure):
    """What can be pressed in a live figure; where there is nothing to press, what can be moved."""
    pressed = figure.get_by_role("radio").or_(figure.get_by_role("button"))
    return pressed if pressed.count() else figure.get_by_role("slider")


def answers(figure):
    """Whether a choice changes what a live figure draws or says."""
    figure.evaluate(CHANGED)
    for control in controls(figure).all():
        control.click()
        if control.get_attribute("type") == "range":
            control.press("End")  # the knob may have stood where the click was
        if figure.evaluate(CHANGED):
            return True
    return False


PAPER = "getComputedStyle(document.querySelector('section.present .vf')).backgroundColor"


def assert_legible(page, slide, number):
    """A slide fits and is accessible, in both colours."""
    assert slide.evaluate(STICKS_OUT) == []
    assert slide.evaluate(SMALLEST) >= 14
    page.evaluate("document.activeElement.blur()")  # or the key d would be a figure's
    papers = set()
    for theme in ("dark", "light"):
        assert_colours(page, theme)
        part = "section.present" if number else None  # what is around it, once
        assert_sound(page, part, colours_only=theme == "light")
        papers |= {page.evaluate(PAPER)} if slide.locator(".vf").count() else {theme}
        page.keyboard.press("d")
    assert len(papers) == 2


def assert_figures_answer(slide):
    """Its live figures answer, and fit whatever they show."""
    assert all(map(answers, slide.locator(".live-figure").all()))
    assert slide.evaluate(STICKS_OUT) == []
    for slider in slide.locator(".vf input[type=range]:visible").all():
        slider.press("End")
    assert slide.evaluate(STICKS_OUT_SOMETIMES) == []


def assert_keys_are_its_own(page, figure, number):
    """Keys are a live figure's while it has the focus; those of a remote control turn the slide."""
    controls(figure).first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("Reveal.getIndices().h") == number
    page.keyboard.press("Escape")
    assert not page.evaluate("Reveal.isOverview()")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("Reveal.getIndices().h") == max(number - 1, 0)
    page.evaluate(f"Reveal.slide({number})")
    controls(figure).first.focus()
    page.keyboard.press("PageDown")
    assert page.evaluate("Reveal.getIndices().h") == number + 1


@pytest.mark.parametrize("name", NAMES)
def test_every_slide_is_legible_and_keys_lead_through(show, site, name):
    """From the disk; and the first slide leads back to the book."""
    page, watch = show(f"{name}.html", from_file=True, dark=True)
    assert page.locator(".math").count() == page.locator(".math > math").count()
    assert_keys_lead_through(page)
    woken = 0
    for number, slide in enumerate(each_slide(page)):
        figures = slide.locator(".live-figure").all()
        woken += len(figures)
        assert_legible(page, slide, number)
        assert_figures_answer(slide)
        for figure in figures:
            assert_keys_are_its_own(page, figure, number)
    assert woken == page.locator(".live-figure").count() > 0
    page.keyboard.press("Home")
    back = page.locator(".keys a").last
    assert (site / "slides" / back.get_attribute("href")).resolve().exists()
    back.click()
    page.wait_for_url(f"{watch.home}book/*", wait_until="commit")
    watch.assert_clean()


def test_a_race_runs_on_its_slide(show):
    """Its curves and maps come during the race, and fit."""
    page, watch = show("00-it-trains-is-it-right.html")
    slide = next(slide for slide in each_slide(page) if slide.locator(".tr").count())
    slide.get_by_role("radio", name="yours", exact=True).click()
    slide.get_by_role("button", name="Train").click()
    expect(slide.locator(".tr-forming svg")).to_have_count(4)
    for part in slide.locator(".tr-curves svg, .tr-forming svg").all():
        expect(part).to_be_visible()
    assert slide.evaluate(STICKS_OUT) == []
    slide.get_by_role("button", name="Stop").click()
    watch.assert_clean()


def test_a_quiz_fits_its_slide_whatever_is_said(show):
    page, watch = show("12-bug-clinic.html")
    slide = next(slide for slide in each_slide(page) if slide.locator(".vf-quiz").count())
    for number in range(3):
        for question in slide.locator("form").all():
            question.get_by_role("radio").nth(number).click()
            question.get_by_role("button", name="Check this answer").click()
            expect(question.locator("output")).not_to_be_empty()
        assert slide.evaluate(STICKS_OUT) == []
    watch.assert_clean()


@pytest.mark.parametrize("from_file", [False, True], ids=["http", "file"])
def test_the_speaker_sees_the_notes(show, from_file):
    page, watch = show(f"{LECTURE}.html", from_file=from_file)
    asked = []
    page.context.on("request", lambda request: asked.append(request.url))
    with page.expect_popup() as popup:
        page.keyboard.press("s")
    notes = parts(ROOT / "book" / "slides" / f"{LECTURE}.md")["The Vision Transformer in one lecture"][1]
    expect(popup.value.locator(".speaker-controls-notes")).to_contain_text(notes.split(".")[0].strip())
    assert [url for url in asked if not url.startswith((watch.home, "about:", "data:", "blob:"))] == []
    watch.assert_clean()


@pytest.mark.parametrize("name", NAMES)
def test_print_shows_still_images_and_makes_a_page_of_each_slide(show, browser, site, tmp_path, name):
    page, watch = show(f"{name}.html?print-pdf", dark=True)
    assert page.locator("html").get_attribute("data-theme") == "light"
    number = page.locator(".pdf-page").count()
    assert number == page.locator("section").count() == len(parts(ROOT / "book" / "slides" / f"{name}.md"))
    assert page.locator(".vf").count() == 0
    for still in page.locator(".live-figure img").all():
        box = still.bounding_box()
        assert box["width"] > 400 and box["height"] > 150
    for slide in page.locator("section").all():
        assert slide.evaluate(STICKS_OUT) == []
    watch.assert_clean()
    if name == LECTURE:  # as python -m pages.print_slides does
        print_deck(browser, site / "slides" / f"{name}.html", tmp_path / "deck.pdf")
    else:
        save_deck(page, tmp_path / "deck.pdf")
    pdf = (tmp_path / "deck.pdf").read_bytes()
    assert len(re.findall(rb"/Type ?/Page\b", pdf)) == number
    assert len(pdf) > 100_000  # blank pages take next to nothing


@pytest.mark.parametrize("name", NAMES)
def test_the_book_leads_to_the_deck(site, name):
    start = f"{name}.html" if (ROOT / "book" / f"{name}.ipynb").exists() else "index.html"
    assert f'href="../slides/{name}.html"' in (site / "book" / start).read_text()
    assert (site / "slides" / f"{name}.html").exists()


@pytest.mark.parametrize("overview", ["index", "teaching"])
def test_the_overviews_lead_to_every_deck(site, overview):
    page = (site / "book" / f"{overview}.html").read_text()
    assert [name for name in NAMES if f'href="../slides/{name}.html"' not in page] == []

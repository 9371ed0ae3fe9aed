"""The three paths and the plan by weeks: that they sum up the cards, where they lead, what a browser keeps of them."""

import json
import re
from html import unescape

import pytest
from playwright.sync_api import expect

from pages import count, frame
from pages.paths import PATHS
from tests.pages.driver import assert_sound
from tests.pages.test_frame import CHAPTERS, FIRST, PAGES, ROOT

CARDS = [frame.read_chapter(ROOT, page) for page in CHAPTERS]
APPENDICES = [page for page in PAGES if page not in CHAPTERS and (ROOT / f"{page}.ipynb").exists()]


def counted(page, part):
    return count.count(json.loads((ROOT / f"{page}.ipynb").read_text()))[part].minutes


def test_the_minutes_of_a_path_are_the_sum_of_its_cards(site):
    afternoon = sum(CARDS[number].reading for number in PATHS["afternoon"].chapters)
    lessons = sum(card.reading for card in CARDS)
    everything = lessons + sum(card.exercises + counted(card.docname, "closer looks") for card in CARDS)
    for page in APPENDICES:  # not all of them have a card
        card = frame.read_chapter(ROOT, page)
        everything += card.reading + card.exercises if card else counted(page, "lesson")
    html = unescape(re.sub(r"<[^>]+>", "", (site / FIRST).read_text()))
    for path, minutes in zip(PATHS.values(), (afternoon, lessons, everything), strict=True):
        assert f"{path.name} · {frame.duration(minutes)}\n" in html


def test_each_chapter_is_on_the_path_of_lessons_and_each_notebook_on_that_of_claims():
    assert PATHS["lessons"].pages(ROOT) == CHAPTERS
    assert PATHS["claims"].pages(ROOT) == CHAPTERS + APPENDICES


def test_the_plan_by_weeks_has_each_chapter_once_and_adds_up(site):
    page = (site / "book" / "teaching.html").read_text()
    [plan] = [table for table in re.findall(r"<table.*?</table>", page, re.DOTALL) if "lessons before class" in table]
    assert re.findall(r'href="(\d\d-[\w-]+)\.html"', plan) == [page.removeprefix("book/") for page in CHAPTERS]
    totals = sum(card.reading for card in CARDS), sum(card.exercises for card in CARDS)
    assert re.findall(r"<p>(.+?)</p>", plan[plan.rindex("<tr") :]) == ["all", *map(frame.duration, totals)]


def test_without_scripts_the_first_page_offers_all_paths(site):
    html = (site / FIRST).read_text()
    offered = re.search(r'<ul class="paths[^>]*>.*?</ul>', html, re.DOTALL)[0]
    links = [re.findall(r'href="([\w-]+)\.html', item) for item in offered.split("<li>")[1:]]
    ends = [CHAPTERS[0], CHAPTERS[-1]]
    expected = [PATHS["afternoon"].pages(ROOT), ends, ends + APPENDICES]
    assert links == [[page.removeprefix("book/") for page in pages] for pages in expected]


def test_a_reader_chooses_a_path_follows_it_and_sees_how_far(visit):
    page, watch = visit(FIRST, width=390, dark=True, from_file=True)
    first, status, marks = page.url, page.locator(".path [role=status]"), page.locator(".chapters .finished")
    following, done = page.locator("a.right-next"), page.get_by_label("I have finished this lesson")
    page.get_by_label("the book’s order").press("ArrowDown")
    expect(status).to_have_text("0 of 6 lessons finished.")
    page.get_by_role("link", name="Next: 0.").click()
    for number in (1, 3):
        expect(following).to_contain_text("· An afternoon")
        following.click()
        page.wait_for_url(f"**/0{number}-*.html")
    expect(page.locator("a.left-prev")).to_have_attribute("href", "../book/01-patchify.html")
    assert_sound(page, ".prev-next-footer")

    page.goto(first.replace("index", "02-positions"))  # off the path: the book's order
    expect(done).not_to_be_checked()
    expect(following).to_have_attribute("href", "03-attention.html")
    page.goto(first.replace("index", "16-in-the-wild"))  # its end
    expect(following).to_have_attribute("href", "../book/index.html#the-paths")
    done.check()
    done.uncheck()

    page.goto(first)
    page.reload()
    expect(status).to_have_text("2 of 6 lessons finished.")
    assert [mark.locator("xpath=..").inner_text()[:2] for mark in marks.all()] == ["0.", "1."]
    assert_sound(page, "fieldset.path")
    page.get_by_role("button", name="Reset progress").click()
    expect(marks).to_have_count(0)
    page.reload()
    expect(page.get_by_label("An afternoon")).to_be_checked()
    expect(status).to_have_text("0 of 6 lessons finished.")
    watch.assert_clean()


@pytest.mark.parametrize(
    "path, storage",
    [(FIRST, "throw new DOMException('denied', 'SecurityError')"), ("book/03-attention.html", "return null")],
)
def test_where_nothing_can_be_kept_the_pages_stay_as_they_are_built(visit, path, storage):
    page, watch = visit(path, from_file=True)
    getter = f"{{ configurable: true, get() {{ {storage} }} }}"
    page.add_init_script(f'Object.defineProperty(window, "localStorage", {getter})')
    page.reload()
    expect(page.locator("a.right-next .prev-next-subtitle")).to_have_text("next")
    assert page.locator("fieldset.path, .finished").count() == 0
    watch.assert_clean()


def test_a_page_that_does_not_see_the_path_yet_leaves_it_kept(visit):
    page, watch = visit("book/03-attention.html", from_file=True)
    name = "understanding-vision-transformers:path"
    page.evaluate(f"localStorage.setItem('{name}', 'afternoon')")
    page.add_init_script(
        "window.read = Storage.prototype.getItem; Storage.prototype.getItem = function (name) { "
        "return name.endsWith(':path') ? null : read.call(this, name); }"
    )
    page.reload()
    # What a page opened from the disk has stored reaches its next process late. A function, as the page forbids eval.
    page.wait_for_function(f"() => read.call(localStorage, '{name}') === 'afternoon'")
    watch.assert_clean()

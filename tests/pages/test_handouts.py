"""The handouts: what they take from the chapters, and that each prints on one sheet of paper."""

import html
import json
import re
import shutil
from functools import cache

import pytest

from pages import handouts
from pages.frame import contents, number
from pages.print_slides import save_handout
from pages.slides import DeckError
from tests.conftest import ROOT
from tests.pages.driver import assert_sound

FOUND = handouts.handouts(ROOT)
NAMES = [path.stem for path in FOUND]
CHAPTERS = [page.split("/")[-1] for _, pages in contents(ROOT) for page in pages]
SHAPE = re.compile(r"# \(([^)]*)\)")
# All that is seen lies on the sheet, and above what follows it.
STICKS_OUT = """sheet => {
  const box = sheet.getBoundingClientRect(), foot = sheet.querySelector("footer").getBoundingClientRect().top;
  return [...sheet.querySelectorAll("*")].filter(element => {
    if (element.closest("math *, svg *")) return false;
    const { right, bottom, width } = element.getBoundingClientRect();
    return width > 0 && (right > box.right + 1 || bottom > (element.closest("footer") ? box.bottom : foot) + 1);
  }).map(element => element.outerHTML.slice(0, 90));
}"""
MILLIMETRE = 96 / 25.4


@cache
def made(name):
    """A handout of the book, as HTML."""
    return handouts.Handout(ROOT / "book" / "handouts" / f"{name}.md", ROOT / "book").page()


def text(part):
    """HTML without its tags."""
    return html.unescape(re.sub("<[^>]+>", "", part))


# ---- As written


def test_every_chapter_has_a_handout_and_every_handout_a_chapter():
    assert [name for name in CHAPTERS if number(name) is not None or name == "jax"] == NAMES
    assert sorted(path.stem for path in (ROOT / "book" / "handouts").iterdir()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_handout_says_what_its_chapter_says(name):
    page = made(name)
    cells = json.loads((ROOT / "book" / f"{name}.ipynb").read_text())["cells"]
    words = "\n\n".join("".join(cell["source"]) for cell in cells)
    assert text(re.search("<h1>(.*?)</h1>", page)[1]).endswith(re.search("^# (.+)$", words, re.M)[1])
    summary = words.split("## What to remember")[1].split("\n## ")[0]
    expected = [item.split()[0] for item in re.findall(r"^\d+\. (.+)$", summary, re.M)]
    shown = re.search('class="remember".*?</section>', page, re.S)[0]
    assert [text(item).split()[0] for item in re.findall("<li>(.*?)</li>", shown, re.S)] == expected
    assert len(expected) in (2, 3) and "{{" not in page and "chapter:" not in page


@pytest.mark.parametrize("name", NAMES)
def test_the_code_is_short_and_the_letters_of_its_shapes_are_explained(name):
    page = made(name)
    code = [text(found) for found in re.findall("<pre>.*?</pre>", page, re.S)]
    assert sum(len(lines.strip().splitlines()) for lines in code) <= 10
    explained = set(re.findall(r"\w", " ".join(text(name) for name in re.findall("<dt>(.*?)</dt>", page))))
    shapes = " ".join(SHAPE.findall(" ".join(code)))
    assert set(re.findall(r"\b[A-Za-z]\b", shapes)) <= explained
    assert explained


LEGEND = "| letter | meaning |\n| --- | --- |\n| B | images in a batch |\n| $x$ | the tokens |\n"
CELLS = [
    {"id": "title", "cell_type": "markdown", "source": "# One\n\nWords.", "metadata": {}},
    {"id": "code", "cell_type": "code", "source": "x = 1  # (B,)", "metadata": {}, "outputs": []},
    {
        "id": "end",
        "cell_type": "markdown",
        "source": "## What to remember\n\n1. *This*.\n2. [That](02-two.ipynb).\n\nMore.\n",
        "metadata": {},
    },
]
SOUND = "{{ code code }}\n\nLetters: B; $x$\n- $m$: a number\n\n{{ code code }}\n"


def small(folder, written=SOUND, cells=CELLS):
    """A handout with this text beside a chapter with these cells."""
    (folder / "one.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}}))
    (folder / "legend.md").write_text(LEGEND)
    (folder / "handouts").mkdir(exist_ok=True)
    (folder / "handouts" / "one.md").write_text(written)
    return handouts.Handout(folder / "handouts" / "one.md", folder, home="https://example.org/")


def test_a_handout_takes_what_it_names(tmp_path):
    page = small(tmp_path).page()
    assert "<dt>B</dt><dd>images in a batch</dd>" in page and "<dd>a number</dd>" in page
    assert "<em>This</em>" in page and ">That.<" in page.replace("\n", "") and "More." not in page
    assert "<footer>https://example.org/book/one.html</footer>" in page
    assert page.count('class="highlight"') == 2 and "Letters:" not in page


@pytest.mark.parametrize(
    "written, cells, words",
    [
        (SOUND.replace("{{ code", "{{ 1a2b3c4d"), CELLS, ["handouts/one.md", "1a2b3c4d"]),
        (SOUND.replace("B; $x$", "B; Q"), CELLS, ["handouts/one.md", "symbols", "'Q'"]),
        (SOUND.replace("Letters", "Symbols"), CELLS, ["handouts/one.md", "Letters: ..."]),
        (SOUND, CELLS[:2], ["handouts/one.md", "What to remember", "one"]),
        (SOUND, CELLS[1:], ["handouts/one.md", "title", "one"]),
    ],
)
def test_a_handout_that_asks_for_what_is_not_there_is_an_error(tmp_path, written, cells, words):
    with pytest.raises(DeckError) as error:
        small(tmp_path, written, cells).page()
    assert [word for word in words if word not in str(error.value)] == []


def test_a_live_figure_does_not_print(tmp_path):
    for name in ("legend.md", "03-attention.ipynb"):
        shutil.copy(ROOT / "book" / name, tmp_path)
    cells = json.loads((tmp_path / "03-attention.ipynb").read_text())["cells"]
    live = next(
        c["id"] for c in cells if any("widget-view" in kind for o in c.get("outputs", []) for kind in o.get("data", {}))
    )
    (tmp_path / "03-attention.md").write_text(SOUND.replace("code code", f"{live} live"))
    with pytest.raises(DeckError, match="does not print"):
        handouts.Handout(tmp_path / "03-attention.md", tmp_path).page()


# ---- In the browser


@pytest.mark.parametrize("name", NAMES)
def test_handout_is_one_sheet(visit, tmp_path, name):
    page, watch = visit(f"handouts/{name}.html", from_file=True, dark=True)
    assert_sound(page, None)
    assert page.locator(".math").count() == page.locator(".math > math").count()
    shown = page.locator(".drawing :is(img, svg)")
    assert shown.count() == 1 and len(shown.get_attribute("alt") or shown.get_attribute("aria-label")) > 40
    page.emulate_media(media="print")
    page.set_viewport_size({"width": round(186 * MILLIMETRE), "height": round(254 * MILLIMETRE)})
    sheet = page.locator(".sheet")
    assert sheet.evaluate(STICKS_OUT) == []
    assert page.locator(".lines").bounding_box()["height"] > 18 * MILLIMETRE
    assert page.locator(".screen").is_hidden()
    watch.assert_clean()
    for paper in ("A4", "Letter"):
        save_handout(page, tmp_path / "one.pdf", paper)
        assert len(re.findall(rb"/Type ?/Page\b", (tmp_path / "one.pdf").read_bytes())) == 1


def test_a_handout_is_black_on_white_in_a_dark_room(visit):
    page, _ = visit(f"handouts/{NAMES[0]}.html", dark=True)
    assert page.locator(".sheet").evaluate("e => getComputedStyle(e).backgroundColor") == "rgb(255, 255, 255)"
    ground = page.locator(".drawing svg > rect").first.evaluate("e => getComputedStyle(e).fill")
    assert ground == "rgb(255, 255, 255)"


def test_the_book_leads_to_the_handouts_and_back(visit, site):
    teaching = (site / "book" / "teaching.html").read_text()
    for name in NAMES:
        link = f'href="../handouts/{name}.html"'
        assert link in teaching and link in (site / "book" / f"{name}.html").read_text()
    page, watch = visit(f"handouts/{NAMES[1]}.html")
    page.locator(".screen a").click()
    page.wait_for_url(f"**/book/{NAMES[1]}.html")
    watch.assert_clean()

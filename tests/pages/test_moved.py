"""pages/moved.py: an old link to a section that has moved leads to where it stands now."""

import re
from urllib.parse import urljoin

import pytest

from pages.moved import MOVED
from tools.links import Page

OLD = [(page, today, old) for page, moved in MOVED.items() for today, names in moved.items() for old in names]


def test_every_anchor_that_has_moved_is_left_once_and_leads_to_one_that_is_there(site):
    for page, today, old in OLD:
        html = (site / f"{page}.html").read_text()
        [rest] = re.findall(rf'id="{re.escape(old)}"([^>]*)>', html)
        target = urljoin(f"{page}.html", re.search('data-moved="([^"]*)"', rest)[1])
        path, anchor = target.split("#")
        assert f"{path.removesuffix('.html')}#{anchor}" == today
        assert anchor in Page((site / path).read_text()).anchors, today


@pytest.mark.parametrize("from_file", [False, True], ids=["served", "from the disk"])
def test_a_browser_goes_there(visit, from_file):
    page, watch = visit("book/10-recipes.html#sec-seconds", from_file=from_file)
    page.wait_for_url("**/book/speed.html#sec-seconds")
    watch.assert_clean()
    page.go_back()
    assert "10-recipes.html" not in page.url  # the old address is not in the way back


def test_an_anchor_of_the_same_page_is_reached_and_one_that_stayed_is_left_alone(visit):
    page, _ = visit("book/10-recipes.html#convolutions-first")
    page.wait_for_url("**/book/10-recipes.html#sec-stem")
    page, _ = visit("book/10-recipes.html#sec-ladder")
    page.wait_for_timeout(300)
    assert page.url.endswith("/book/10-recipes.html#sec-ladder")

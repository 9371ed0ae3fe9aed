"""One style sheet a page, without the rules that no page can use, and no script that holds up what is seen."""

import re

import pytest

from pages.sheets import light, used

THERE, GONE = ".a .b{x:1}", ".zz .a{x:1}"


@pytest.mark.parametrize(
    "css, kept",
    [
        (f"{THERE}\n{GONE}", THERE),
        (".a,.zz{x:1}", ".a,.zz{x:1}"),
        (f"@media (width > 1px){{{THERE}{GONE}}}", f"@media (width > 1px){{{THERE}}}"),
        (f"@media print{{{GONE}}}", ""),
        (".a:not(.zz),.zz:is(.a,.b){x:1}", ".a:not(.zz),.zz:is(.a,.b){x:1}"),
        ('.a:is(.zz,.b),a[href=".zz"]{x:1}', '.a:is(.zz,.b),a[href=".zz"]{x:1}'),
        ('@charset "UTF-8";@font-face{font-family:"F"}:root{--x:1}', '@font-face{font-family:"F"}\n:root{--x:1}'),
        ("#zz{x:1}#a{x:1}", "#a{x:1}"),
    ],
)
def test_rules_that_can_apply_are_kept(css, kept):
    assert used(css, {"a", "b"}) == kept


def test_one_sheet_takes_the_place_of_the_first():
    page = """<head><link href="../_static/styles/theme.css?d=1" rel="stylesheet" />
<link rel="preload" as="script" href="../_static/b.js"><link rel="stylesheet" href="../_static/book.css" />
<script src="../_static/documentation_options.js?v=1"></script><script src="../_static/b.js"></script>
<script defer="defer" src="../_static/c.js"></script></head>"""
    made = light(page, "book-1.css", "const X = 1;")
    assert re.findall(r"<link[^>]*>", made) == ['<link rel="stylesheet" href="../_static/book-1.css">']
    assert re.findall(r"<script[^>]*>", made) == [
        "<script>",
        '<script defer src="../_static/b.js">',
        '<script defer="defer" src="../_static/c.js">',
    ]


def test_no_page_waits_for_a_script_and_all_images_keep_their_place(site):
    for path in site.glob("book/*.html"):
        html = path.read_text()
        assert len(re.findall(r'<link[^>]*rel="stylesheet"', html)) == 1, path.name
        head = html.split("</head>")[0]
        assert re.findall(r"<script(?![^>]*\bdefer)[^>]* src=[^>]*>", head) == [], path.name
        plots = re.findall(r"<img[^>]*_images/[^>]*\.webp[^>]*>", html)
        assert all("width=" in plot and "height=" in plot for plot in plots), path.name

"""Anchors that have moved: who follows an old link to a section lands where that section stands now.

The page that a section has left keeps its anchor, empty, with the new address, and moved.js goes there. Without
scripts a reader lands at the end of the page, where its text has to say where its sections have gone.
"""

import html

from sphinx.application import Sphinx

# The page with the old anchors -> page and anchor of today: the old ones.
MOVED = {
    "book/10-recipes": {
        "book/10-recipes#sec-cnn": ("beside-a-convolutional-network",),
        "book/10-recipes#sec-limits": ("what-these-experiments-show-and-what-they-do-not",),
        "book/10-recipes#sec-muon": ("further-changes",),
        "book/10-recipes#sec-stem": ("convolutions-first",),
        "book/10-recipes#sec-textbook": ("the-textbook-to-its-end",),
        "book/speed#sec-all-images": ("all-training-images", "fig-all-images"),
        "book/speed#sec-entries": ("from-five-minutes-to-an-hour",),
        "book/speed#sec-five-minutes": ("five-minutes", "fig-five"),
        "book/speed#sec-forty": ("a-longer-training", "fig-hour"),
        "book/speed#sec-full-hour": ("sec-full-hour", "a-full-hour", "fig-full-hour"),
        "book/speed#sec-full-hour-parts": ("what-the-full-hour-changed", "fig-wider"),
        "book/speed#sec-longer-cnn": ("a-longer-training-for-the-cnn-and-a-resnet-18", "fig-longer-cnn"),
        "book/speed#sec-published": ("sec-published", "what-is-94-2-worth"),
        "book/speed#sec-rules": ("the-rules-of-a-race",),
        "book/speed#sec-seconds": ("sec-seconds", "seconds-to-93-and-to-94", "fig-speed"),
        "book/speed#sec-stems": ("a-wider-stem-and-one-block-less", "fig-stems"),
    },
}


def keep_anchors(app: Sphinx, pagename: str, template: str, context: dict, doctree: object) -> None:
    """Put the old anchors at the end of a page that has lost some, and the script that follows them."""
    if pagename not in MOVED or "body" not in context or app.builder.name == "epub":
        return
    for today, old in MOVED[pagename].items():
        page, anchor = today.split("#")
        address = html.escape(f"{app.builder.get_relative_uri(pagename, page)}#{anchor}")
        context["body"] += "".join(f'<span id="{name}" data-moved="{address}"></span>' for name in old)
    app.add_js_file("moved.js", loading_method="defer")  # to this page alone


def setup(app: Sphinx) -> None:
    """Register what is here."""
    app.connect("html-page-context", keep_anchors)

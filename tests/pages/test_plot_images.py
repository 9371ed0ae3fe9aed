"""Plots: which of them turn with a dark page, which scroll on a phone; and where the states of figures stand."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from ipywidgets import Widget
from PIL import Image

from pages import live_figures, plot_images
from vitbook.figures import LikenessExplorer

A = 'width="720" height="100" loading="lazy"'


def image(path, width, black):
    """An image on white of which a share is black, and a tenth blue."""
    pixels = np.full((100, width, 3), 255, dtype=np.uint8)
    pixels[:10] = (0, 114, 178)
    pixels[10 : 10 + round(100 * black)] = 0
    Image.fromarray(pixels).save(path)


@pytest.mark.parametrize(
    "width, black, classes",
    [(400, 0.02, ["plot-drawn"]), (720, 0.02, ["plot-wide", "plot-drawn"]), (400, 0.2, []), (720, 0.7, ["plot-wide"])],
)
def test_a_drawing_may_turn_and_what_is_wide_scrolls(tmp_path, width, black, classes):
    image(tmp_path / "a.png", width, black)
    assert plot_images.looks(tmp_path / "a.png") == (classes, (width, 100))


def test_every_page_says_what_its_plots_are_like(tmp_path):
    (tmp_path / "_images").mkdir()
    (tmp_path / "book").mkdir()
    image(tmp_path / "_images" / "a.png", 720, 0.0)
    image(tmp_path / "_images" / "b.png", 400, 0.5)
    start = '<div class="bd-article">'
    page = (
        start
        + '<img alt="one" src="../_images/a.png"><img class="x" src="../_images/a.png"><img src="../_images/b.png">'
    )
    (tmp_path / "book" / "page.html").write_text(page + '<img src="../_static/logo.png"><img src="../_images/no.png">')
    plot_images.mark(SimpleNamespace(outdir=tmp_path))
    assert (tmp_path / "book" / "page.html").read_text() == (
        f'{start}<img class="plot-wide plot-drawn" {A} alt="one" src="../_images/a.webp">'
        f'<img {A} class="x plot-wide plot-drawn" src="../_images/a.webp">'
        '<img width="400" height="100" loading="lazy" src="../_images/b.webp">'
        '<img src="../_static/logo.png"><img src="../_images/no.png">'
    )
    assert sorted(path.name for path in (tmp_path / "_images").iterdir()) == ["a.webp", "b.webp"]


def test_a_drawing_is_stored_exactly_and_a_photo_lightly(tmp_path):
    image(tmp_path / "drawing.png", 400, 0.02)
    noise = np.random.default_rng(0).integers(0, 60, (96, 96), dtype=np.uint8)
    Image.fromarray(noise).resize((200, 200)).convert("RGB").save(tmp_path / "photo.png")
    for name in ("drawing", "photo"):
        plot_images.lighten(tmp_path / f"{name}.png")
        before, after = (np.asarray(Image.open(tmp_path / f"{name}.{kind}"), dtype=int) for kind in ("png", "webp"))
        assert abs(before - after).mean() < (5 if name == "photo" else 1e-9)
    sizes = [(tmp_path / f"photo.{kind}").stat().st_size for kind in ("webp", "png")]
    assert 2 * sizes[0] < sizes[1]


def test_the_states_of_figures_stand_behind_all_that_is_seen():
    state = f'<script type="{live_figures.STATE}">{{"state": {{}}}}</script>'
    page = f"<html><head>{state}\n</head><body><p>Text</p>{state}</body></html>"
    assert live_figures.at_the_end(page) == f"<html><head></head><body><p>Text</p>{state}\n{state}</body></html>"
    assert live_figures.at_the_end("<html><body></body></html>") == "<html><body></body></html>"


def test_long_texts_of_states_stand_in_files_once_and_come_back(tmp_path):
    long, short = "a </script> \u2028 \\ ; = " * 100, {"count": 3, "_css": ""}
    models = {
        "one": {"state": {"_esm": long, **short}, "buffers": [{"path": ["data"], "data": "QUJD" * 300}]},
        "two": {"state": {"_esm": long, **short}},
    }
    state = json.dumps({"state": models}).replace("</", r"<\/")
    page = f'<p>Text</p><script type="{live_figures.STATE}">{state}</script>'
    parted = live_figures.parted(page, tmp_path)
    assert len(parted) < 600 and len(list(tmp_path.iterdir())) == 2
    assert live_figures.joined(parted, lambda name: (tmp_path / name).read_text()) == page
    assert live_figures.parted(parted, tmp_path) == parted


def test_a_figure_with_a_first_view_names_what_is_late(tmp_path):
    model = LikenessExplorer()
    state = json.dumps({"state": Widget.get_manager_state(widgets=[model])["state"]}).replace("</", r"<\/")
    page = f'<script type="{live_figures.STATE}">{state}</script>'
    parted = live_figures.parted(page, tmp_path)
    first = json.loads(live_figures.SAVED.search(parted)[2])["state"][model.model_id]["first"]
    assert first["late"] == ["tokens"] and set(first) == {"late", "view", "pixels"}
    assert live_figures.joined(parted, lambda name: (tmp_path / name).read_text()) == page

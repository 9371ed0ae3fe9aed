"""The drawing of the whole model: its shapes are those of a run, none is typed."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import torch

from vitnb import ViT, ViTConfig, plots


@pytest.fixture
def small():
    torch.manual_seed(0)
    return ViT(ViTConfig((12, 20), 4, 2, num_classes=7, embed_dim=24, depth=3, num_heads=2)).eval()


def shapes_of(model, images):
    svg = plots.model_diagram(model, images).svg
    ElementTree.fromstring(svg)  # well-formed
    return re.findall(r"\(([\dB, ]+)\)<", svg.replace("transpose(1, 2)", ""))


def test_vit_b_16_has_every_shape_of_the_paper():
    with torch.device("meta"):
        model, images = ViT(ViTConfig.vit_b_16()), torch.empty(2, 3, 224, 224)
    flow = shapes_of(model, images)
    assert [shape for shape in flow if shape[0] == "B"] == [
        "B, 3, 224, 224",
        "B, 768, 14, 14",
        "B, 768, 196",
        "B, 196, 768",
        "B, 197, 768",
        "B, 197, 768",
        "B, 12, 197, 197",
        "B, 197, 3072",
        "B, 197, 768",
        "B, 197, 768",
        "B, 768",
        "B, 1000",
    ]
    assert [shape for shape in flow if shape[0] == "1"] == ["1, 1, 768", "1, 197, 768"]


def test_the_shapes_follow_the_model(small):
    flow = shapes_of(small, torch.randn(2, 2, 12, 20))
    assert {"B, 2, 12, 20", "B, 24, 3, 5", "B, 24, 15", "B, 15, 24", "B, 16, 24", "B, 2, 16, 16", "B, 7"} <= set(flow)
    assert "3 of them" in plots.model_diagram(small, torch.randn(2, 2, 12, 20)).svg


def test_the_steps_that_are_drawn_are_those_that_run(small):
    images = torch.randn(2, 2, 12, 20)
    drawn = small.patch_embed.proj(images).flatten(2).transpose(1, 2)
    torch.testing.assert_close(drawn, small.forward_intermediates(images)["patches"], atol=1e-5, rtol=1e-5)


def test_looking_leaves_no_hook_behind(small):
    plots.model_shapes(small, torch.randn(2, 2, 12, 20))
    assert not small.blocks[0].mlp.fc1._forward_hooks


@pytest.mark.parametrize("change", [{"norm": "post"}, {"global_pool": "mean"}])
def test_another_model_is_refused_with_words(small, change):
    with pytest.raises(ValueError, match="vit_b_16"):
        plots.model_diagram(ViT(replace(small.config, **change)), torch.randn(2, 2, 12, 20))


def test_a_notebook_shows_it_and_its_text_is_fixed(small):
    drawing = plots.model_diagram(small, torch.randn(2, 2, 12, 20))
    assert drawing._repr_svg_() == drawing.svg
    assert repr(drawing) == "Drawing: a ViT of 3 blocks, with every shape"
    assert not re.search(r"(href|src)=|url\((?!#)", drawing.svg)  # no request to anywhere

"""The reference of vitnb: it names all that the package exports, and reads docstrings as they are written."""

import importlib
import re
from pathlib import Path

import vitnb
from pages import api

PAGE = Path(__file__).resolve().parents[2] / "book" / "api.md"
MODULES = re.findall(r"\{api\} (\S+)", PAGE.read_text())
DOCSTRING = """Collect maps_of * a | model.

    with record(model) as maps:
        maps[0]

Of "digits", for example.

Shapes: images (B, *) -> maps.
Raises: ValueError if it
    has none.
"""
READ = r"""Collect maps\_of \* a \| model.

::

    with record(model) as maps:
        maps[0]

Of ``"digits"``, for example.

:Shapes: images (B, \*) -> maps.
:Raises: ValueError if it
    has none."""


def test_the_page_names_what_vitnb_exports_and_the_modules_for_training_and_looking_inside():
    offered = [name for module in MODULES for name in api.offered(importlib.import_module(module))]
    assert {name.removeprefix("vitnb.") for name in offered} >= set(vitnb.__all__)
    assert {"vitnb.data.load", "vitnb.training.fit", "vitnb.inspection.rollout", "vitnb.weights.save"} <= set(offered)
    assert {"vitnb.examine.Report", "vitnb.examine.Finding"} <= set(offered)
    assert len(offered) == len(set(offered)) and not [name for name in offered if "._" in name or "Tensor" in name]


def test_a_docstring_keeps_its_letters_its_example_and_its_fields():
    assert api.restructured(DOCSTRING) == READ


def test_the_built_page_has_a_place_for_each_name_and_no_docstring_of_torch(site):
    html = (site / "book" / "api.html").read_text()
    for module in MODULES:
        for name in api.offered(importlib.import_module(module)):
            assert f'id="{name}"' in html
    assert 'id="vitnb.ViTConfig.num_patches"' in html  # a class shows its methods
    assert "Define the computation performed at every call" not in html and "**kwargs" not in html
    assert html.count(">Shapes<") > 20

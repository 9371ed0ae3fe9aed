"""What a page brings until its first live figure is awake."""

import pytest

from tests.conftest import served
from tools import paint

MOST = 300_000  # bytes, packed
HEAVY = ("index", "03-attention", "08-vit", "11-looking-inside", "15-pretrained")  # a network, maps, photos


@pytest.mark.parametrize("name", HEAVY)
def test_the_first_figure_wakes_after_at_most_300_kilobytes(browser, site, name):
    with served(site, paint.Packing) as address:
        _, came, _ = paint.measure(browser, f"{address}book/{name}.html")
    assert 100_000 < came < MOST

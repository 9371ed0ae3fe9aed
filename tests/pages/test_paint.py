"""What a page brings until its first live figure is awake."""

import threading
from functools import partial
from http.server import ThreadingHTTPServer

import pytest

from tools import paint

MOST = 300_000  # bytes, packed
HEAVY = ("index", "03-attention", "08-vit", "11-looking-inside", "15-pretrained")  # a network, maps, photos


@pytest.mark.parametrize("name", HEAVY)
def test_the_first_figure_wakes_after_at_most_300_kilobytes(browser, site, name):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(paint.Packing, directory=site)) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        _, came, _ = paint.measure(browser, f"http://127.0.0.1:{http.server_port}/book/{name}.html")
        http.shutdown()
    assert 100_000 < came < MOST

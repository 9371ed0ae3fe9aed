"""tools/links.py: links inside the book lead somewhere; of other sites it asks gently and reports what they answer."""

import http.server
import json
import threading

import pytest

from tools import links

CODES = {"/here": 200, "/gone": 404, "/locked": 403, "/ill": 500}


def test_every_link_inside_the_book_leads_to_a_file_and_an_anchor(site):
    pages = links.read(site)
    assert len(pages) > 30 and sum(len(page.links) for page in pages.values()) > 1000
    assert links.inside(pages) == []
    assert len(links.outside(pages)) > 30


@pytest.fixture
def book(tmp_path):
    """Two pages with good links and bad ones, and a theme's template."""
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "macros.html").write_text('<a href="{{ nowhere }}">')
    (tmp_path / "one two.html").write_text(
        '<h1 id="top">1</h1><a href="#top"><a href="a%C3%A4.html#here"><a href="mailto:me@example.org">'
        '<a href="a%C3%A4.html#there"><img src="none.png"><a href="https://a.example/x#y">'
        '<a href="https://colab.research.google.com/z"><a href="https://github.com/OWNER/REPO/edit/main/z.md">'
    )
    (tmp_path / "aä.html").write_text('<a name="here"></a><a href="https://a.example/x">')
    return links.read(tmp_path)


def test_a_link_to_no_file_or_no_anchor_is_found(book):
    assert links.inside(book) == [
        "one two.html: a%C3%A4.html#there leads to no anchor",
        "one two.html: none.png leads to no file",
    ]


def test_an_address_of_another_site_is_asked_once_and_says_where_it_stands(book):
    assert links.outside(book) == {"https://a.example/x": ["aä.html", "one two.html"]}


@pytest.fixture
def sites():
    """A function that gives a new server's address; .asked holds what was asked of any."""
    asked, servers = [], []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            again = self.path == "/tired" and asked.count("/tired") == 1
            self.send_response(503 if again else CODES.get(self.path, 200))
            self.end_headers()

        def log_message(self, *_):
            pass

    def site():
        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}"

    site.asked = asked
    yield site
    for server in servers:
        server.shutdown()
        server.server_close()


def test_answers_are_ok_unsure_or_broken_and_only_what_may_pass_is_asked_again(sites):
    home, waits = sites(), []
    names = ("/here", "/gone", "/locked", "/ill", "/tired")
    found = links.ask_all([home + name for name in names] + ["http://127.0.0.1:1/"], waits.append)
    assert [found[home + name] for name in ("/here", "/locked", "/tired")] == ["ok", "unsure: 403", "ok"]
    assert found[home + "/gone"] == "broken: 404 Not Found"
    assert found[home + "/ill"].startswith("broken: 500") and "refused" in found["http://127.0.0.1:1/"]
    assert [sites.asked.count(name) for name in names] == [1, 1, 1, 3, 2]
    assert len(waits) == len(sites.asked) + links.TRIES and min(waits) >= 1  # before each request, the refused ones too


@pytest.mark.parametrize(("name", "status"), [("/here", 0), ("/locked", 0), ("/gone", 1)])
def test_the_report_is_a_file_and_a_broken_link_fails(sites, tmp_path, monkeypatch, capsys, name, status):
    monkeypatch.setattr(links, "ROOT", tmp_path)
    monkeypatch.setattr(links, "PAUSE", 0.0)
    folder = tmp_path / "html"
    folder.mkdir()
    address = sites() + name
    (folder / "index.html").write_text(f'<a href="{address}">')
    assert links.main(folder) == status
    report = json.loads((tmp_path / "_build" / "links.json").read_text())
    assert report["inside"] == [] and report["outside"][address]["pages"] == ["index.html"]
    assert (address in capsys.readouterr().out) == (name != "/here")
    assert links.main(tmp_path / "empty") == 1  # no pages is no success

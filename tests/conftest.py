"""Fixtures of the page tests, on top of pytest-playwright's: the built site, a server for it, a page under watch."""

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Request, TimeoutError, expect

from pages import print_slides

ROOT = Path(__file__).resolve().parents[1]
TRACES = ROOT / "_build" / "traces"
ALONE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"  # JupyterLab's is localhost
HARMLESS = (
    "Access to font at 'file:",  # the theme preloads icon fonts, which Chromium refuses from the disk; icons still show
    "Failed to load resource",  # recorded with its address in `missing` or `foreign`
)
# Several processes take file after file in the order of collection: of these no one may be left alone at the end.
LONG = (
    "test_pages.py",
    "test_slides.py",
    "test_grading.py",
    "test_safety.py",
    "test_torchrun.py",
    "test_figures_livevit.py",
    "test_jax.py",
    "test_experiments.py",
    "test_figures_race.py",
    "test_figures_quiz.py",
    "test_jupyterlab.py",
)
# Whatever a page's policy refuses, for whatever reason, is an error in the page.
REFUSED = """addEventListener("securitypolicyviolation", (event) => console.error(
  `the policy refuses, by ${event.effectiveDirective}: ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`))"""
expect.set_options(timeout=90_000)  # on a busy machine a page takes its time


class QuietHandler(SimpleHTTPRequestHandler):
    """A file server that does not log."""

    def log_message(self, *args: object) -> None:
        """Say nothing."""


class Watch:
    """What went wrong in a page: requests to other hosts, files not found, console errors."""

    def __init__(self, page: Page, home: str):
        self.foreign: list[str] = []
        self.missing: list[str] = []
        self.errors: list[str] = []
        self.home = home
        page.on("request", self.note_request)
        page.on("response", lambda answer: self.missing.append(answer.url) if answer.status >= 400 else None)
        page.on("requestfailed", self.note_failure)
        page.on("pageerror", lambda error: self.note(str(error)))
        page.on("console", lambda message: self.note(message.text) if message.type == "error" else None)

    def note_request(self, request: Request) -> None:
        """Record what does not come from the book itself. (The browser finds no other host.)"""
        if not request.url.startswith((self.home, "data:", "blob:")):
            self.foreign.append(request.url)

    def note_failure(self, request: Request) -> None:
        """Record a file that is not there. (Chromium preloads no font from file://; harmless.)"""
        path = urlsplit(request.url).path
        if request.url.startswith("file:") and not Path(unquote(path)).exists():
            self.missing.append(request.url)

    def note(self, text: str) -> None:
        """Record an error unless the theme makes it everywhere."""
        if not any(harmless in text for harmless in HARMLESS):
            self.errors.append(text)

    def assert_clean(self) -> None:
        """Fail if anything was recorded."""
        assert not self.foreign, f"requests to other hosts: {self.foreign}"
        assert not self.missing, f"not found: {self.missing}"
        assert not self.errors, f"errors in the page: {self.errors}"


def pytest_configure(config: pytest.Config) -> None:
    """What kernels write for a user goes to a folder of its own, and traces to where git ignores them.

    A home folder may be read-only, and kernels of two runs at once meet in one history. The first process makes
    the folder, the others inherit its name. `make traces` asks for traces: they make a page test slower by half.
    """
    if not hasattr(config, "workerinput"):
        folder = Path(tempfile.mkdtemp(prefix="tests-"))
        config.add_cleanup(partial(shutil.rmtree, folder, ignore_errors=True))
        own = ["IPYTHONDIR", "JUPYTER_RUNTIME_DIR"]
        if not os.access(Path.home(), os.W_OK):
            own.append("MPLCONFIGDIR")  # or each process looks through all fonts, and says so
        os.environ |= {name: str(folder / name.lower()) for name in own}
    config.option.output = str(TRACES / os.environ.get("PYTEST_XDIST_WORKER", "main"))  # emptied when a process starts


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files of tests come first, then the notebooks, then all others."""
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.name, len(LONG)))  # else as they were


@pytest.fixture(scope="session")
def site() -> Path:
    """The folder of the built book."""
    folder = ROOT / "_build" / "html"
    assert (folder / "index.html").exists(), "the book is not built: run make book first"
    return folder


@contextmanager
def served(folder: Path, handler: type[SimpleHTTPRequestHandler] = QuietHandler) -> Iterator[str]:
    """Within: the address at which a folder is served."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=folder)) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http.server_port}/"
        http.shutdown()


@pytest.fixture(scope="module")  # a file of tests may have a site of its own
def server(site: Path) -> Iterator[str]:
    """The address at which the site is served."""
    with served(site) as address:
        yield address


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict) -> dict:
    """The machine's own Chromium; without one the test is skipped, but never in CI."""
    program = print_slides.chromium()
    if program is None:
        message = "no Chromium on this machine: the page tests did not run"
        pytest.fail(message) if os.environ.get("CI") == "true" else pytest.skip(message)
    return browser_type_launch_args | {"executable_path": program, "args": [*print_slides.ARGUMENTS, ALONE]}


@pytest.fixture(scope="session")
def base_url() -> None:
    """No page is named by less than its address. (At the plugin's own fixture pytest warns.)"""


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args: dict) -> dict:
    """Nothing fades: axe would measure colours half-way."""
    return browser_context_args | {"reduced_motion": "reduce"}


@pytest.fixture
def visit(new_context: Callable[..., BrowserContext], server: str, site: Path) -> Callable[..., tuple[Page, Watch]]:
    """A function that opens a page of the book: visit("book/index.html", dark=True) -> page, watch.

    `watch.assert_clean()` says whether the page asked another host for
    something, missed a file or logged an error up to then. With `body` that stands at the page's address.
    """

    def open_page(
        path: str,
        width: int = 1200,
        dark: bool = False,
        from_file: bool = False,
        touch: bool = False,
        bypass_csp: bool = False,
        body: str | None = None,
    ) -> tuple[Page, Watch]:
        scheme = "dark" if dark else "light"
        context = new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=touch, bypass_csp=bypass_csp
        )
        context.add_init_script(REFUSED)
        context.set_default_timeout(180_000)
        home = f"{site.as_uri()}/" if from_file else server
        page = context.new_page()
        watch = Watch(page, home)
        if body is not None:
            context.grant_permissions(["local-network-access"])  # a page that a route has filled comes from nowhere
            page.route(f"**/{path}", lambda route: route.fulfill(content_type="text/html", body=body))
        page.goto(home + path, wait_until="load")
        with suppress(TimeoutError):  # Chromium now and then never reports the end of a request
            page.wait_for_load_state("networkidle", timeout=20_000)
        return page, watch

    return open_page


def complete(frame: Locator) -> None:
    """Touch a live figure that is awake, and wait until it has all its data."""
    frame.dispatch_event("focusin")
    expect(frame).not_to_have_attribute("aria-busy", "true")


@pytest.fixture
def live(visit: Callable[..., tuple[Page, Watch]]) -> Callable[..., tuple[Locator, Page, Watch]]:
    """A function that opens a page and wakes a live figure: live("book/01-patchify.html", 0) -> figure, page, watch.

    The figure has all its data; with whole=False only what it has before anybody touches it.
    """

    def wake(path: str, number: int = 0, whole: bool = True, **options: bool | int) -> tuple[Locator, Page, Watch]:
        page, watch = visit(path, **options)
        frame = page.locator(".live-figure").nth(number)
        frame.scroll_into_view_if_needed()
        frame.locator(".vf, .figure-failed").first.wait_for()
        if whole:
            complete(frame)
        return frame, page, watch

    return wake


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say where the traces of failed page tests are, and on which data the notebooks ran."""
    reports = [report for reports in terminalreporter.stats.values() for report in reports]
    noted = [note for report in reports for note in getattr(report, "user_properties", [])]
    if traces := [path for name, path in noted if name == "playwright_trace"]:
        terminalreporter.section("traces, each to be opened with: .venv/bin/playwright show-trace --port 0 TRACE")
        terminalreporter.write("".join(f"{path}\n" for path in traces))
    if config.getoption("nbval_lax", default=False) and not config.option.collectonly:
        from vitnb import data

        terminalreporter.section("data")
        terminalreporter.line(f"The notebooks ran on {data.load().name}.")

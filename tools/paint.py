"""How quick the built pages are on a slow line: python -m tools.paint [PAGE ...]   (after make book)

Each page is loaded once in Chromium at 1.6 Mb/s with 150 ms of delay, from a
server that packs with gzip, on a screen of a phone. The table says when
something was first seen, how many bytes had come until the first live figure
was awake, and how far things moved by themselves (layout shift).
"""

import gzip
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

from pages.print_slides import ARGUMENTS, BUILT, chromium

SLOW = {"offline": False, "latency": 150, "downloadThroughput": 200_000, "uploadThroughput": 94_000}  # bytes a second
PACKED = (".html", ".js", ".css", ".svg", ".json")
MOVED = """new PerformanceObserver((list) => {
  window.moved = list.getEntries().reduce((sum, one) => sum + (one.hadRecentInput ? 0 : one.value), window.moved ?? 0);
}).observe({ type: "layout-shift", buffered: true });"""
SEEN = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN"


class Packing(SimpleHTTPRequestHandler):
    """A file server that packs text with gzip, as GitHub Pages does."""

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if path.suffix not in PACKED or not path.is_file():
            return super().do_GET()
        body = gzip.compress(path.read_bytes())
        self.send_response(200)
        headers = {"Content-Type": self.guess_type(path), "Content-Encoding": "gzip", "Content-Length": len(body)}
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)


def measure(browser: Browser, address: str) -> tuple[float, int, float]:
    """Return the seconds until something is seen, the bytes until the first figure is awake, and the shift."""
    page = browser.new_page(viewport={"width": 390, "height": 844})
    page.add_init_script(MOVED)
    line = page.context.new_cdp_session(page)
    line.send("Network.enable")
    line.send("Network.emulateNetworkConditions", SLOW)
    came = []
    line.on("Network.loadingFinished", lambda event: came.append(event["encodedDataLength"]))
    page.goto(address, wait_until="load", timeout=120_000)
    if page.locator(".live-figure").count():
        page.locator(".live-figure").first.scroll_into_view_if_needed()
        page.locator(".live-figure .vf").first.wait_for(timeout=60_000)
    page.wait_for_timeout(500)
    found = page.evaluate(SEEN) / 1000, int(sum(came)), page.evaluate("window.moved ?? 0")
    page.close()
    return found


def main(names: list[str]) -> int:
    """Measure pages of the built book, all of its chapters if none is named."""
    paths = [BUILT / "book" / f"{name}.html" for name in names] or sorted((BUILT / "book").glob("*.html"))
    print(f"{'page':32} {'seen, s':>8} {'bytes':>10} {'shift':>6}")
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Packing, directory=BUILT)) as http, sync_playwright() as play:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        browser = play.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        for path in paths:
            seen, came, moved = measure(browser, f"http://127.0.0.1:{http.server_port}/book/{path.name}")
            print(f"{path.stem:32} {seen:8.1f} {came:10,} {moved:6.3f}", flush=True)
        browser.close()
        http.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

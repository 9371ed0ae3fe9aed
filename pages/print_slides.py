"""Print the slides and the handouts of the built book, each to a PDF beside it: python -m pages.print_slides"""

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

BUILT = Path(__file__).resolve().parents[1] / "_build" / "html"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
MAC_CHROME = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
ARGUMENTS = ["--no-sandbox", "--disable-background-networking", "--disable-component-update"]


def chromium() -> str | None:
    """Return the path of the machine's own Chromium or Chrome; None if it has none."""
    found = [path for name in NAMES if (path := shutil.which(name))]
    return (found + [MAC_CHROME] * Path(MAC_CHROME).exists() + [None])[0]


def print_deck(browser: Browser, deck: Path, pdf: Path) -> None:
    """Write a deck as a PDF, a page a slide, with the still images of its live figures."""
    page = browser.new_page()
    page.goto(f"{deck.as_uri()}?print-pdf")
    page.locator("html[data-ready]").wait_for()
    save_deck(page, pdf)
    page.close()


def save_deck(page: Page, pdf: Path) -> None:
    """Write a deck that is open as it is printed."""
    page.evaluate("Promise.all([...document.images].map((image) => image.decode())).then(() => null)")
    page.evaluate("document.fonts.ready.then(() => null)")
    page.pdf(path=pdf, prefer_css_page_size=True, print_background=True, tagged=True, outline=True)


def print_handout(browser: Browser, handout: Path, pdf: Path) -> None:
    """Write a handout as a PDF of one page."""
    page = browser.new_page()
    page.goto(handout.as_uri())
    save_handout(page, pdf)
    page.close()


def save_handout(page: Page, pdf: Path, paper: str = "A4") -> None:
    """Write a handout that is open, on this paper."""
    page.evaluate("document.fonts.ready.then(() => null)")
    page.pdf(path=pdf, format=paper, tagged=True)


def main() -> int:
    """Print all of them, or say why not."""
    program = chromium()
    if program is None:
        print("No Chromium on this machine: the decks and handouts are built, their PDFs are not.")
        return 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=ARGUMENTS)
        for write, folder in ((print_deck, "slides"), (print_handout, "handouts")):
            for path in sorted((BUILT / folder).glob("*.html")):
                write(browser, path, path.with_suffix(".pdf"))
                print(path.with_suffix(".pdf"))
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

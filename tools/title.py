"""Draw the card that other sites show for the book, with the strip of the first page on it: python tools/title.py"""

import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright
from print_slides import ARGUMENTS, chromium

from vitnb import drawings

ASSETS = Path(__file__).resolve().parents[1] / "book" / "assets"
CARD = """<!doctype html><meta charset="utf-8"><style>
body {{ width: 1200px; height: 630px; margin: 0; box-sizing: border-box; padding: 70px; background: #1b1d21;
  color: #f2f3f5; font: 34px/1.35 "DejaVu Sans", sans-serif }}
h1 {{ margin: 0 0 18px; font-size: 66px; line-height: 1.1 }} p {{ margin: 0 0 50px; color: #b3b7be }}
.vd-page .vd-wide {{ width: 100% }}</style>
<h1>Understanding<br>Vision Transformers</h1><p>A book that builds one, and proves each step.</p>{drawing}"""


def main() -> int:
    """Write it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1200, "height": 630}, color_scheme="dark")
        strip = drawings.in_page(drawings.overview().svg, lambda chapter: None)
        page.set_content(CARD.format(drawing=strip), wait_until="load")
        card = Image.open(io.BytesIO(page.screenshot())).quantize(128)
        card.save(ASSETS / "card.png", optimize=True)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

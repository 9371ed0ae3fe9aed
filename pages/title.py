"""Draw what stands for the book elsewhere: python -m pages.title

The card that other sites show has the strip of the first page, the cover of the
EPUB the map of the model.
"""

import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from pages.print_slides import ARGUMENTS, chromium
from vitbook import drawings

ASSETS = Path(__file__).resolve().parents[1] / "book" / "assets"
CARD = """<!doctype html><meta charset="utf-8"><style>
body {{ width: 1200px; height: 630px; margin: 0; box-sizing: border-box; padding: 70px; background: #1b1d21;
  color: #f2f3f5; font: 34px/1.35 "DejaVu Sans", sans-serif }}
h1 {{ margin: 0 0 18px; font-size: 66px; line-height: 1.1 }} p {{ margin: 0 0 50px; color: #b3b7be }}
.vd-page .vd-wide {{ width: 100% }}</style>
<h1>Understanding<br>Vision Transformers</h1><p>A book that builds one, and proves each step.</p>{drawing}"""
COVER = """<!doctype html><meta charset="utf-8"><style>
body {{ width: 1200px; height: 1800px; margin: 0; box-sizing: border-box; padding: 90px 90px 0; background: #1b1d21;
  color: #f2f3f5; font: 40px/1.35 "DejaVu Sans", sans-serif }}
h1 {{ margin: 0 0 24px; font-size: 88px; line-height: 1.1 }} p {{ margin: 0 0 50px; color: #b3b7be }}
.vd-page .vd-wide {{ width: 100%; height: auto }} .vd-page .vd-narrow {{ display: none }}
</style><h1>Understanding<br>Vision<br>Transformers</h1><p>A book that builds one, and proves each step.</p>{drawing}"""


def draw(browser: Browser, html: str, drawing: drawings.Drawing, width: int, height: int, name: str) -> None:
    """Write a page of this size with a drawing in it as an image among the assets."""
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme="dark")
    inside = drawings.in_page(drawing.svg, lambda chapter: None)
    page.set_content(html.format(drawing=inside), wait_until="load")
    image = Image.open(io.BytesIO(page.screenshot())).quantize(128)
    image.save(ASSETS / name, optimize=True)
    page.close()


def main() -> int:
    """Write both."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        draw(browser, CARD, drawings.overview(), 1200, 630, "card.png")
        draw(browser, COVER, drawings.whole_model(), 1200, 1800, "cover.png")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

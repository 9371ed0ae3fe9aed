"""Draw the image at the top of the first page and the card that other sites show: python tools/title.py

Both show the same thing, as the book's own network computes it for one image:
patches, tokens, the attention of the cls token in the last block, the answer.
"""

import base64
import io
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from playwright.sync_api import sync_playwright
from print_slides import ARGUMENTS, chromium

from vitnb import data, inspection, record_attention

ASSETS = Path(__file__).resolve().parents[1] / "book" / "assets"
BLUE, ORANGE, GREY = "#2a8fd0", "#e8781e", "#868b94"  # patches, the cls token, all else: on white and on black
IMAGE = 0  # of the test images: an ankle boot
TOKEN_ROWS = 8  # of the 64 numbers of a token
CARD = """<!doctype html><meta charset="utf-8"><style>
body {{ width: 1200px; height: 630px; margin: 0; box-sizing: border-box; padding: 70px; background: #14181e;
  color: #f2f3f5; font: 34px/1.35 "DejaVu Sans", sans-serif }}
h1 {{ margin: 0 0 18px; font-size: 66px; line-height: 1.1 }} p {{ margin: 0 0 64px; color: #b3b7be }}
svg {{ display: block; width: 100%; height: auto }}</style>
<h1>Understanding<br>Vision Transformers</h1><p>A book that builds one, and proves each step.</p>{drawing}"""


def png(pixels: np.ndarray) -> str:
    """Return a grey image (H, W), uint8, as an address that holds it."""
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="png")
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"


def drawing() -> str:
    """Return the image as SVG: no words in it, and colours that stand on white and on black."""
    clothes, model = data.load("fashion_mnist"), inspection.trained()
    pixels, images = clothes.test_images[IMAGE, 0].numpy(), clothes.normalize(clothes.test_images[IMAGE : IMAGE + 1])
    with record_attention(model) as maps, torch.no_grad():
        out = model.forward_intermediates(images)
    shares = out["logits"].softmax(-1)[0]
    looks = maps[-1][0].mean(0)[0]  # (T,): the cls token's row, mean over the heads
    tokens = out["embedded"][0, :, :TOKEN_ROWS]  # (T, 8)
    parts, p = [], model.patch_embed.patch_size[0]
    cut = [pixels[y : y + p, x : x + p] for y in range(0, 28, p) for x in range(0, 28, p)]

    def box(x: float, y: float, width: float, height: float, colour: str, more: str = "") -> None:
        parts.append(f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{colour}"{more}/>')

    def image(x: float, y: float, side: float, which: np.ndarray) -> None:
        size = f'x="{x:g}" y="{y:g}" width="{side:g}" height="{side:g}"'
        parts.append(f'<image {size} style="image-rendering: pixelated" href="{png(which)}"/>')

    def arrow(x: float) -> None:
        parts.append(f'<path d="M{x} 80h22m-7 -6l7 6l-7 6" fill="none" stroke="{GREY}" stroke-width="2.5"/>')

    image(2, 20, 120, pixels)
    arrow(132)
    for n, patch in enumerate(cut):
        image(164 + 32 * (n % 4), 18 + 32 * (n // 4), 28, patch)
    arrow(300)
    for t in range(len(tokens)):
        x = 336 + 25 * t
        if t:
            image(x, 56, 20, cut[t - 1])
            middle, width = 346 + 12.5 * t, 1 + 14 * looks[t].item()
            parts.append(
                f'<path d="M346 52Q{middle:g} {52 - 6.2 * t**0.75 * 1.15:.1f} {x + 10} 52" fill="none" '
                f'stroke="{ORANGE}" stroke-width="{width:.1f}" stroke-opacity="0.8"/>'
            )
        else:
            box(x, 56, 20, 20, ORANGE)
        for row, value in enumerate(tokens[t].tolist()):
            tint = min(1, 0.12 + abs(value) / (2.2 * tokens.std().item()))
            box(x, 80 + 8 * row, 20, 6.5, BLUE if t else ORANGE, f' fill-opacity="{tint:.2f}"')
    arrow(774)
    for k, share in enumerate(shares.tolist()):
        box(808, 18 + 12.6 * k, 190, 8, GREY, ' fill-opacity="0.25"')
        box(808, 18 + 12.6 * k, max(2, 190 * share), 8, ORANGE if share == shares.max() else BLUE)
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 160">{"".join(parts)}</svg>\n'


def main() -> int:
    """Write both."""
    svg = drawing()
    (ASSETS / "title.svg").write_text(svg)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        page = browser.new_page(viewport={"width": 1200, "height": 630})
        page.set_content(CARD.format(drawing=svg), wait_until="load")
        card = Image.open(io.BytesIO(page.screenshot())).quantize(128)
        card.save(ASSETS / "card.png", optimize=True)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

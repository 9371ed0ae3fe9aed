"""Windows of tokens: attention inside them, and how a shift joins them."""

from vitbook import images
from vitbook.drawings._sheet import Drawing, Place, Sheet

SIDE = 7  # pixels of a patch: the boot has 4 x 4 tokens
GRID = 28 // SIDE
W, SHIFT = 2, 1  # tokens along the side of a window, and of its shift
PANELS = {
    "windows": ("Each of the four windows", "holds 2 × 2 tokens, which", "attend to each other."),
    "shifted windows": ("In the next block the image", "is cut one token later, so", "that neighbours meet."),
    "rolled": ("Rolled by one token, these", "are four windows again. No", "attention across the dots."),
}


def windows() -> Drawing:
    """Draw how Swin cuts the boot into windows, shifts the cuts, and rolls the image to have equal windows again."""
    alt = (
        f"Three times the boot, cut into {GRID} by {GRID} patches. First: violet frames make four windows of 2 by 2 "
        "patches each. Second: the frames are moved by one patch down and right, so there are nine windows, smaller "
        "ones along the edges. Third: the image is rolled by one patch, so that its first row and its first column "
        "come last; four frames of 2 by 2 patches again, and dotted lines separate patches inside a frame that come "
        "from opposite sides of the image."
    )
    return Drawing(alt, _windows)


def _windows(wide: bool) -> Sheet:
    sheet = Sheet(720, 316) if wide else Sheet(344, 566)
    side = 184 if wide else 156
    for i, (name, words) in enumerate(PANELS.items()):
        x, y = (34 + i * 234, 42) if wide else (12, 14 + i * 184)
        _panel(sheet, Place(x, y, side, side), i)
        if wide:
            sheet.text(x + side / 2, 20, f"{i + 1}. {name}", weight=700)
            sheet.lines(x + side / 2, y + side + 44, words, 12.5, colour="soft")
        else:
            sheet.text(x + side + 14, y + 44, f"{i + 1}. {name}", "ink", 12.5, "start", 700)
            sheet.lines(x + side + 14, y + 84, words, 10.5, colour="soft", anchor="start")
    return sheet


def _panel(sheet: Sheet, place: Place, which: int) -> None:
    pixels = images.boot()[0]
    if which == 2:
        pixels = pixels.roll((-SHIFT * SIDE, -SHIFT * SIDE), (0, 1))
    sheet.image_patches(place, pixels, SIDE, gap=2)
    cell = place.w / GRID
    cuts = [0, SHIFT, SHIFT + W, GRID] if which == 1 else [0, W, GRID]
    for top, bottom in zip(cuts, cuts[1:], strict=False):
        for left, right in zip(cuts, cuts[1:], strict=False):
            x, y = place.x + left * cell + 1, place.y + top * cell + 1
            frame = Place(x, y, (right - left) * cell - 2, (bottom - top) * cell - 2)
            sheet.rect(frame, None, "weights", 3, 3)
    if which == 2:
        at = (GRID - SHIFT) * cell
        across = f"M{place.x:.1f} {place.y + at:.1f}h{place.w:.1f}"
        for d in (f"M{place.x + at:.1f} {place.y:.1f}v{place.h:.1f}", across):
            sheet.path(d, "paper", 5)
            sheet.path(d, "ink", 2.5, dash="2 4")

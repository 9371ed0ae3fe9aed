"""The strip at the top of the first page: one image on its way through the book's network."""

import torch

from vitbook import images, results
from vitbook.drawings._sheet import Drawing, Place, Sheet, n
from vitbook.results import trained
from vitnb import data
from vitnb.attention import record_attention

ROWS = 8  # of the 64 features of a token
ALT = (
    "From an image to a class. An image of a boot is cut into {N} patches. With a cls token in front they become {T} "
    "tokens, columns of numbers. They pass a transformer of {L} blocks, in which every token attends to the others; "
    "drawn is how much the cls token attends to each in the last block. Of {K} bars one is long: {answer}."
)


@torch.no_grad()
def overview() -> Drawing:
    """Draw image, patches, tokens, transformer and answer, as the book's own network computes them for one image."""
    model, facts = trained(), results.result("trained")["result"]
    boot = images.boot()
    clean = boot[None].float() / 255  # (1, 1, 28, 28)
    mean, std = data.FASHION_MEAN, data.FASHION_STD
    with record_attention(model) as maps:
        out = model.forward_intermediates((clean - mean) / std)
    shares = out["logits"].softmax(-1)[0]  # (K,)
    found = {
        "boot": boot[0],
        "patch": model.patch_embed.patch_size[0],
        "tokens": out["embedded"][0, :, :ROWS],  # (T, 8)
        "looks": maps[-1][0].mean(0)[0],  # (T,): the cls token's row, mean over the heads
        "shares": shares,
        "answer": facts["classes"][shares.argmax()].lower(),
        "blocks": len(model.blocks),
    }
    T = len(found["looks"])
    alt = ALT.format(N=T - 1, T=T, L=found["blocks"], K=len(shares), answer=found["answer"])
    return Drawing(alt, lambda wide: _strip(found, wide))


def _strip(found: dict, wide: bool) -> Sheet:
    """One row where there is room; on a phone the transformer and the answer stand in a second one."""
    sheet = Sheet(720 if wide else 344, 120 if wide else 178)
    side, top, x, size, pitch = (84, 28, 6, 13, 8.7) if wide else (66, 24, 4, 12.5, 7.4)
    middle, T = top + side / 2, len(found["looks"])

    def label(place: Place, words: str) -> None:
        sheet.text(place.cx, place.y - 14, words, size=size, weight=700)

    def onward(x: float, y: float) -> float:
        sheet.arrow((x + 5, y), (x + 25, y))
        return x + 31

    image = sheet.image(Place(x, top, side, side), found["boot"])
    label(image, "image")
    patches = Place(onward(image.right, middle), top, side, side)
    sheet.image_patches(patches, found["boot"], found["patch"], gap=3)
    label(patches, f"{T - 1} patches")
    tokens = Place(onward(patches.right, middle), top, T * pitch, side)
    _tokens(sheet, found, Place(tokens.x, top + 10, tokens.w, side - 10), pitch)
    label(tokens, f"{T} tokens")
    if wide:
        box = Place(onward(tokens.right, middle), top, T * pitch + 18, side)
    else:
        box = Place(4, 120, 192, 54)
        sheet.arrow((tokens.cx, tokens.bottom + 2), (tokens.cx, 95), (14, 95), (14, 118))
    sheet.rect(box, "token-1", "token", 8)
    _attends(sheet, found, box)
    label(box, f"transformer: {found['blocks']} blocks")
    x = onward(box.right, box.cy)
    bars = Place(x, box.y, sheet.width - x - 8, box.h)
    _answer(sheet, found["shares"].tolist(), bars)
    label(bars, f"“{found['answer']}”")
    return sheet


def _tokens(sheet: Sheet, found: dict, place: Place, pitch: float) -> None:
    """Each token a column of shaded cells, the cls token first, under its diamond."""
    tokens, height = found["tokens"], place.h / ROWS
    largest = 2.2 * tokens.std().item()
    for t, token in enumerate(tokens):
        kind = "token" if t else "cls"
        column = Place(place.x + t * pitch, place.y, pitch - 1.6, place.h)
        shades = [[f"{kind}-{max(1, min(8, round(8 * abs(v) / largest)))}x"] for v in token.tolist()]
        sheet.cells(column, shades)
        if not t:
            sheet.diamond(column.cx, place.y - 7, 4)
    lines = "".join(f"M{n(place.x)} {n(place.y + i * height)}h{n(place.w - 1.6)}" for i in range(1, ROWS))
    sheet.path(lines, "paper", 1)


def _attends(sheet: Sheet, found: dict, box: Place) -> None:
    """The tokens in a row, and an arc from the cls token to each: the thicker, the more it attends to it."""
    looks = found["looks"].tolist()
    pitch, floor = (box.w - 16) / len(looks), box.bottom - 18
    first = box.x + 8 + pitch / 2
    reach = box.h - 24
    for t, share in enumerate(looks[1:], 1):
        x, up = first + t * pitch, reach * (t / (len(looks) - 1)) ** 0.6
        sheet.path(
            f"M{n(first)} {n(floor)}C{n(first)} {n(floor - 1.33 * up)} {n(x)} {n(floor - 1.33 * up)} {n(x)} {n(floor)}",
            "cls",
            round(0.5 + 10 * share, 1),
        )
    for t in range(len(looks)):
        spot = Place(first + t * pitch - pitch * 0.36, floor + 2, 0.72 * pitch, 10)
        kind = "token" if t else "cls"
        sheet.rect(spot, f"{kind}-8x", kind, 1.5, 0.8)


def _answer(sheet: Sheet, shares: list[float], place: Place) -> None:
    """A bar for each class, the longest one filled."""
    pitch = place.h / len(shares)
    for k, share in enumerate(shares):
        rail = Place(place.x, place.y + k * pitch, place.w, 0.66 * pitch)
        sheet.rect(rail, "logits-3")
        best = share == max(shares)
        sheet.rect(Place(rail.x, rail.y, max(2, rail.w * share), rail.h), "cls" if best else "token")

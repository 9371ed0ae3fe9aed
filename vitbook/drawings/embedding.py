"""From pixels to tokens with positions."""

from functools import partial

import torch
from torch import Tensor

from vitbook import images
from vitbook.drawings._sheet import Drawing, Place, Sheet
from vitnb._validate import choice, float_tensor
from vitnb.positions import sincos_table

SIDE = 4  # pixels of the patch that is drawn
GRID = 28 // SIDE


def patch_to_token(weight: Tensor | None = None, patch: int = 24) -> Drawing:
    """Draw how one 4 x 4 patch of the boot becomes a token: flatten it, then project it, number by number.

    weight is a projection's, by default a random one of four features; a
    Conv2d's weight (D, 1, 4, 4) fits after .flatten(1). The bias is left out.

    Shapes: weight (D, 16), with D up to 6.
    Raises: TypeError or ValueError for another weight or a patch that is not there.
    """
    if weight is None:
        weight = 0.4 * torch.randn(4, SIDE**2, generator=torch.Generator().manual_seed(1))
        weight = (10 * weight).round() / 10
    weight = float_tensor("weight", weight, 2, "(D, 16)").detach()
    if weight.shape[1] != SIDE**2 or not 1 <= len(weight) <= 6:
        raise ValueError(f"weight must be (D, 16) with D up to 6, got {tuple(weight.shape)}: use (4, 16), for example")
    choice("patch", patch, range(GRID**2))
    row, col = (SIDE * i for i in divmod(patch, GRID))
    pixels = images.boot()[0, row : row + SIDE, col : col + SIDE] / 255  # (p, p)
    token = weight.cpu() @ pixels.flatten()  # (D,)
    alt = (
        f"An image of a boot, cut into {GRID} by {GRID} patches. Patch {patch}, {SIDE} by {SIDE} pixels, is shown "
        f"large with its numbers. Its rows are laid end to end as a vector of {SIDE**2} numbers. Below the vector "
        f"stand the {len(weight)} rows of the weight matrix: each row times the vector, summed, is one feature of "
        f"the token, which has {len(weight)} features here."
    )
    return Drawing(alt, partial(_patch_to_token, pixels, weight.cpu(), token, patch))


def _patch_to_token(pixels: Tensor, weight: Tensor, token: Tensor, patch: int, wide: bool) -> Sheet:
    D = len(weight)
    sheet = Sheet(720 if wide else 344, 0)
    side, (w, h) = (140, (40, 30)) if wide else (112, (35, 26))
    left, y, size = 24 if wide else 10, 52, 12 if wide else 10.5
    sheet.text(left + side / 2, y - 30, "image", weight=700)
    sheet.text(left + side / 2, y - 13, "(C, H, W)", "soft", size, mono=True)
    spots = sheet.image_patches(Place(left, y, side, side), images.boot()[0], SIDE)
    x = 280 if wide else 190
    large = Place(x, y + (side - SIDE * h) / 2, SIDE * w, SIDE * h)
    spot = spots[patch]
    for a, b in ((spot.y, large.y), (spot.bottom, large.bottom)):
        sheet.path(f"M{spot.right:.1f} {a:.1f}L{large.x:.1f} {b:.1f}", "line", 1)
    sheet.rect(spot, None, "mark", width=3)
    sheet.matrix(large.x, large.y, pixels, "patch", (w, h), top=1, size=size)
    sheet.text(large.cx, y - 30, f"patch {patch}", weight=700)
    sheet.text(large.cx, y - 13, "(C, p, p)", "soft", size, mono=True)
    if wide:
        words = "Read it row by row,", "and it is a vector", "of p · p numbers."
        sheet.lines(large.right + 36, large.cy, words, colour="soft", anchor="start")
        return _project_wide(sheet, pixels, weight, token, large, D)
    return _project_narrow(sheet, pixels, weight, token, large, D)


def _project_wide(sheet: Sheet, pixels: Tensor, weight: Tensor, token: Tensor, large: Place, D: int) -> Sheet:
    """The vector lies above the rows of the weight, so that what is multiplied stands below each other."""
    w, h, x, y = 36, 28, 24, 276
    sheet.arrow((large.cx, large.bottom + 10), (large.cx, y - 12), label="flatten")
    sheet.matrix(x, y, pixels.flatten()[None], "patch", (w, h), top=1, size=11)
    for i in range(1, SIDE):
        sheet.path(f"M{x + SIDE * i * w} {y - 1}v{h + 2}", "paper", 5)
    end = x + SIDE**2 * w
    sheet.text(end + 16, y + h / 2 - 8, "vector", size=13, anchor="start", weight=700)
    sheet.text(end + 16, y + h / 2 + 9, "(C·p·p,)", "soft", 12, "start", mono=True)
    y += h + 54
    sheet.text(x, y - 16, "times each row of the weight", "soft", 13, "start")
    sheet.text(end, y - 16, "(D, C·p·p)", "soft", 12, "end", mono=True)
    sheet.matrix(x, y, weight, "token", (w, h), size=11)
    for i in range(D):
        sheet.arrow((end + 6, y + (i + 0.5) * h), (end + 32, y + (i + 0.5) * h))
    out = sheet.matrix(end + 36, y, token[:, None], "token", (52, h), size=12)
    sheet.text(out.cx, y - 32, "token", "token", weight=700)
    sheet.text(out.cx, y - 15, "(D,)", "soft", 12, mono=True)
    sheet.text(end + 6, y + D * h + 16, "summed", "soft", 12, "start")
    sheet.height = y + D * h + 34
    return sheet


def _project_narrow(sheet: Sheet, pixels: Tensor, weight: Tensor, token: Tensor, large: Place, D: int) -> Sheet:
    """The vector stands on the left, the weight lies on its side, and the token is the row below."""
    h, x, y = 21, 22, 254
    w = min(46, 200 / D)
    turn = large.bottom + 26
    sheet.arrow((large.cx, large.bottom + 8), (large.cx, turn), (x + 24, turn), (x + 24, y - 42))
    sheet.text((large.cx + x + 24) / 2, turn + 12, "flatten", size=11, mono=True)
    sheet.text(x + 24, y - 30, "vector", weight=700, size=12)
    sheet.text(x + 24, y - 13, "(C·p·p,)", "soft", 10.5, mono=True)
    sheet.matrix(x, y, pixels.flatten()[:, None], "patch", (48, h), top=1, size=10.5)
    for i in range(1, SIDE):
        sheet.path(f"M{x - 1} {y + SIDE * i * h}h50", "paper", 4)
    left = x + 48 + 34
    sheet.text(left - 17, y + SIDE**2 * h / 2, "@", "soft", 15, mono=True)
    grid = sheet.matrix(left, y, weight.T, "token", (w, h), size=10.5, numbers=w > 34)
    sheet.text(grid.cx, y - 30, "weight, on its side", size=12, weight=700)
    sheet.text(grid.cx, y - 13, "(C·p·p, D)", "soft", 10.5, mono=True)
    y = grid.bottom
    for j in range(D):
        sheet.arrow((left + (j + 0.5) * w, y + 5), (left + (j + 0.5) * w, y + 29))
    sheet.text(left - 10, y + 16, "summed", "soft", 11, "end")
    out = sheet.matrix(left, y + 32, token[None], "token", (w, 28), size=10.5)
    sheet.text(left - 10, out.cy - 8, "token", "token", 12, "end", 700)
    sheet.text(left - 10, out.cy + 8, "(D,)", "soft", 10.5, "end", mono=True)
    sheet.height = out.bottom + 16
    return sheet


def position_heatmap(table: Tensor | None = None, tokens: Tensor | None = None) -> Drawing:
    """Draw token + position = sum as heat maps: a row a token, a column a feature.

    By default the sin-cos table of a 4 x 4 grid, its waves short enough for so
    few tokens to show them, and tokens that are all alike, so that the sums
    differ by position alone.

    Shapes: table (T, D), tokens (T, D) or (1, D), with T and D up to 64.
    Raises: TypeError or ValueError for other tensors.
    """
    table = sincos_table((4, 4), 16, temperature=10)[0] if table is None else float_tensor("table", table, 2, "(T, D)")
    T, D = table.shape
    if tokens is None:
        tokens = torch.randn(1, D, generator=torch.Generator().manual_seed(3))
    tokens = float_tensor("tokens", tokens, 2, "(T, D)").expand(T, D)
    if max(T, D) > 64:
        raise ValueError(f"a drawing holds a table of up to 64 x 64, got {tuple(table.shape)}: use table[:16, :16]")
    alt = (
        f"Three heat maps of {T} rows and {D} columns with a plus and an equals sign between them: the tokens, the "
        "table of positions, and their sum. A row is a token, a column a feature; the sum shows the stripes of both."
    )
    return Drawing(alt, partial(_position_heatmap, table.detach(), tokens.detach()))


def _position_heatmap(table: Tensor, tokens: Tensor, wide: bool) -> Sheet:
    T, D = table.shape
    total = tokens + table
    top = max(tokens.abs().max().item(), table.abs().max().item())
    size = 190 if wide else 200
    cell, tall = (size / D, size / D), size * T / D
    sheet = Sheet(720 if wide else 344, 0)
    x, y = (34, 62) if wide else (92, 54)
    parts = (("tokens", tokens, "token", ""), ("positions", table, "position", "+"), ("sum", total, "token", "="))
    for name, values, kind, sign in parts:
        if sign and wide:
            sheet.text(x - 20, y + tall / 2, sign, size=22)
        elif sign:
            sheet.text(x + size / 2, y - 50, sign, size=22)
        place = sheet.matrix(x, y, values, kind, cell, numbers=False, top=top)
        sheet.text(place.cx, y - 28, name, kind, 14, weight=700)
        sheet.text(place.cx, y - 11, "(N, D)", "soft", 12 if wide else 11, mono=True)
        x, y = (x + size + 40, y) if wide else (x, y + tall + 84)
    bottom = y + tall if wide else y - 84
    sheet.text(sheet.width / 2, bottom + 24, "each row is a token, each column a feature", "soft", 12)
    sheet.height = bottom + 46
    return sheet

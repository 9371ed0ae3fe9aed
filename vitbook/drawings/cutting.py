"""A tiny image, number by number: in which order its pixels are read, and what a matrix makes of its patches."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from vitbook.drawings._sheet import Drawing, Place, Sheet
from vitnb._validate import choice, float_tensor

MOST = 24  # pixels that fit side by side


def patch_order(image: Tensor, patch_size: int = 2, patch: int = 1) -> Drawing:
    """Draw the four axes of an image and the order in which its pixels are read, without permute and with it.

    patch is the one to follow: its pixels lie apart before the permutation, and together after it.

    Shapes: image (H, W), up to 24 pixels.
    Raises: TypeError or ValueError for another image, or a patch_size or patch that does not fit.
    """
    image = float_tensor("image", image, 2, "(H, W)")
    H, W = image.shape
    if H * W > MOST or not 1 <= patch_size <= min(H, W) or H % patch_size or W % patch_size:
        raise ValueError(f"a drawing holds up to {MOST} pixels, got {(H, W)}, patch {patch_size}: use (4, 6), patch 2")
    rows, cols = H // patch_size, W // patch_size
    choice("patch", patch, range(rows * cols))
    owner = torch.arange(rows * cols).reshape(rows, cols)  # the patch of each pixel, (H, W) in the next line
    owner = owner.repeat_interleave(patch_size, 0).repeat_interleave(patch_size, 1)
    after = owner.flatten().argsort(stable=True)  # (H*W,)
    alt = (
        f"An image of {H} by {W} numbers. Its rows are named by row of patches and line, its columns by column of "
        f"patches and place. Patch {patch} holds {_listed(image[owner == patch])}. Below, all numbers in the order of "
        f"reading. Before the permutation, line by line, those of patch {patch} lie apart; after it they lie together."
    )
    return Drawing(alt, partial(_order, image, owner, after, patch, patch_size))


def _listed(values: Tensor) -> str:
    return ", ".join(f"{v:g}" for v in values.tolist()).replace("-", "−")


def _order(image: Tensor, owner: Tensor, after: Tensor, patch: int, p: int, wide: bool) -> Sheet:
    sheet = Sheet(720 if wide else 344, 0)
    place = _named_axes(sheet, image, owner == patch, p, wide)
    y = place.bottom
    if wide:
        _address(sheet, image, owner == patch, p, place.right + 34, place.cy, 13)
    else:
        y += 44
        _address(sheet, image, owner == patch, p, 14, y, 11)
    axes = "row of patches, line, column of patches, place", "row of patches, column of patches, line, place"
    for title, names, order in zip(
        ("after reshape", "after permute(0, 2, 1, 3)"), axes, (torch.arange(image.numel()), after), strict=True
    ):
        y += 50 if wide else 58
        sheet.text(24 if wide else 10, y, title, size=13 if wide else 12, anchor="start", weight=700, mono=True)
        x, below = (250, y) if wide else (10, y + 17)
        sheet.text(x, below, f"read by {names}", "soft", 12.5 if wide else 10.5, "start")
        y = _strip(sheet, image.flatten()[order], owner.flatten()[order], patch, p * p, below + 16, wide)
    sheet.height = y + 16
    return sheet


def _named_axes(sheet: Sheet, image: Tensor, followed: Tensor, p: int, wide: bool) -> Place:
    """The image under the names of its four axes; the patch that is followed has a frame."""
    H, W = image.shape
    (w, h), (x, y), size = ((36, 30), (212, 68), 13) if wide else ((27, 25), (151, 60), 10.5)
    for words, above in (("column of patches", 42), ("place", 16)):
        sheet.text(x - 12, y - above, words, "soft", size, "end")
    for j in range(W):
        sheet.text(x + (j + 0.5) * w, y - 16, str(j % p), "soft", size, mono=True)
    for j in range(W // p):
        sheet.text(x + (j + 0.5) * p * w, y - 42, str(j), "ink", size, weight=700, mono=True)
    for i in range(H):
        sheet.text(x - 12, y + (i + 0.5) * h, f"line {i % p}", "soft", size, "end")
    for i in range(H // p):
        sheet.text(x - 12 - 4.4 * size, y + (i + 0.5) * p * h, f"row of patches {i}", "ink", size, "end")
    place = sheet.matrix(x, y, image, "patch", (w, h), top=_top(image), size=13 if wide else 11)
    for i in range(1, H // p):
        sheet.path(f"M{x} {y + i * p * h}h{W * w}", "paper", 4)
    for j in range(1, W // p):
        sheet.path(f"M{x + j * p * w} {y}v{H * h}", "paper", 4)
    i, j = followed.nonzero()[0].tolist()
    sheet.rect(Place(x + j * w, y + i * h, p * w, p * h), None, "mark", width=3)
    return place


def _top(values: Tensor) -> float:
    """The number that is drawn white."""
    return max(values.max().item(), 1.0)


def _address(sheet: Sheet, image: Tensor, followed: Tensor, p: int, x: float, y: float, size: float) -> None:
    """Where one pixel of the patch that is followed stands on the four axes."""
    i, j = followed.nonzero()[p if p > 1 else 0].tolist()  # the first pixel of its second line
    (r, line), (c, place) = divmod(i, p), divmod(j, p)
    sheet.text(x, y - 1.5 * size, f"{image[i, j]:g} = axes[{r}, {line}, {c}, {place}]", "ink", size, "start", 700, True)
    words = f"row of patches {r}, line {line},", f"column of patches {c}, place {place}"
    sheet.lines(x, y + 0.9 * size, words, size, colour="soft", anchor="start")


def _strip(sheet: Sheet, values: Tensor, owner: Tensor, patch: int, length: int, y: float, wide: bool) -> float:
    """All numbers in the order of reading, with a gap where the next vector begins; return where they end."""
    w, h, across = (27, 26, 24) if wide else (26.5, 25, 12)
    x = 24 if wide else 10
    for start in range(0, len(values), length):
        line, at = divmod(start, across)
        left, top = x + at * w + 4 * (at // length), y + line * (h + 8)
        part = values[None, start : start + length]
        place = sheet.matrix(left, top, part, "patch", (w, h), top=_top(values), size=12 if wide else 10.5)
        mine = (owner[start : start + length] == patch).nonzero()[:, 0].tolist()
        if mine:
            sheet.rect(Place(left + mine[0] * w, top, len(mine) * w, h), None, "mark", width=3)
    return place.bottom


def patch_projection(patches: Tensor, weight: Tensor, names: Sequence[str] = (), row: int = 0) -> Drawing:
    """Draw patches times a matrix = tokens, with every number; row is the patch to follow.

    names are those of the features, up to eight letters each.

    Shapes: patches (N, C*p*p), weight (C*p*p, D), with N, C*p*p and D up to 6, 4 and 3.
    Raises: TypeError or ValueError for other tensors, or a row or names that do not fit.
    """
    patches = float_tensor("patches", patches, 2, "(N, C*p*p)")
    weight = float_tensor("weight", weight, 2, "(C*p*p, D)").detach()
    (N, length), D = patches.shape, weight.shape[1]
    if N > 6 or length > 4 or D > 3 or len(weight) != length:
        shapes = f"{tuple(patches.shape)} and {tuple(weight.shape)}"
        raise ValueError(
            f"a drawing holds up to 6 patches of 4 pixels and 3 features, got {shapes}: use (6, 4), (4, 3)"
        )
    choice("row", row, range(N))
    names = list(names) or [f"column {j}" for j in range(D)]
    if len(names) != D or max(map(len, names)) > 8:
        raise ValueError(f"names are {names}: use {D} of up to 8 letters, such as 'mean'")
    tokens = patches @ weight  # (N, D)
    alt = (
        f"{N} patches of {length} numbers, as the rows of a matrix, times a matrix E with a column for each of {D} "
        f"features, {', '.join(names)}, give {N} tokens. Followed is patch {row}: {_listed(patches[row])} become "
        f"the token {_listed(tokens[row])}."
    )
    return Drawing(alt, partial(_projection, patches, weight, tokens, names, row))


def _projection(patches: Tensor, weight: Tensor, tokens: Tensor, names: list[str], row: int, wide: bool) -> Sheet:
    (N, length), D = patches.shape, weight.shape[1]
    (w, v, h), size, x, y = ((38, 66, 30), 12.5, 78, 62) if wide else ((27, 47, 26), 10.5, 52, 62)
    sheet = Sheet(720 if wide else 344, 0)
    labels = [f"patch {n}" for n in range(N)]
    left = sheet.matrix(x, y, patches, "patch", (w, h), rows=labels, top=_top(patches), size=size)
    E = sheet.matrix(left.right + (36 if wide else 24), y, weight, "token", (v, h), columns=names, size=size)
    sheet.text((left.right + E.x) / 2, y + length * h / 2, "@", "soft", 15, mono=True)
    x, top = (E.right + 78, y) if wide else (E.x, left.bottom + 62)
    labels = [f"token {n}" for n in range(N)]
    out = sheet.matrix(x, top, tokens, "token", (48, h), rows=labels, size=size)
    sheet.text(x - (64 if wide else 72), top + (length * h / 2 if wide else h / 2), "=", "soft", 15, mono=True)
    for place, word, shape in ((left, "patches", "(N, C·p·p)"), (E, "E", "(C·p·p, D)"), (out, "tokens", "(N, D)")):
        sheet.text(place.cx, place.y - 46, word, "ink", 13 if wide else 12, weight=700)
        sheet.text(place.cx, place.y - 29, shape, "soft", 12 if wide else 10.5, mono=True)
    for place in (left, out):
        sheet.rect(Place(place.x - 1.5, place.y + row * h - 1.5, place.w + 3, h + 3), None, "mark", width=3)
    j = min(1, D - 1)
    terms = " + ".join(f"{weight[i, j]:g} · {patches[row, i]:g}" for i in range(length)).replace("+ -", "− ")
    words = f"{names[j]}, of token {row}:", f"{terms} = {tokens[row, j]:g}".replace("-", "−")
    sheet.lines(sheet.width / 2, out.bottom + 34, words, 13 if wide else 10.5, colour="soft")
    sheet.height = out.bottom + 62
    return sheet

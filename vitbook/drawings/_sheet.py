"""A sheet to draw on, and the small pieces that all drawings are made of."""

import base64
import re
import struct
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from xml.sax.saxutils import escape

from torch import Tensor

from vitbook.drawings._palette import LEVELS, TINT, pair, style

SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
MONO = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
# A mark beside the colour: how a kind's edge is drawn. A solid line where nothing stands.
DASHES = {"position": "2 2.5", "key": "6 3", "value": "1.5 2.5 6 2.5"}
SMALLEST = 10  # no text is smaller
NARROW = '<svg class="vd vd-narrow"'
RESPONSIVE = (
    "<style>.vd-page svg{display:block;max-width:100%;height:auto;margin:0 auto}.vd-page .vd-narrow{display:none}"
    "@media(max-width:600px){.vd-page .vd-wide{display:none}.vd-page .vd-narrow{display:block}}"
    ".vd a~.vd-hint{display:inline}.vd a{text-decoration:none}"
    ".vd a:focus-visible{outline:3px solid currentColor;outline-offset:2px}"
    ".vd a:hover rect,.vd a:focus-visible rect{stroke-width:2.5}</style>"
)


@dataclass(frozen=True)
class Place:
    """Where a piece stands: its corner and its size."""

    x: float
    y: float
    w: float
    h: float

    @property
    def cx(self) -> float:
        """The middle, from left to right."""
        return self.x + self.w / 2

    @property
    def cy(self) -> float:
        """The middle, from top to bottom."""
        return self.y + self.h / 2

    @property
    def right(self) -> float:
        """The right edge."""
        return self.x + self.w

    @property
    def bottom(self) -> float:
        """The lower edge."""
        return self.y + self.h


def n(value: float) -> str:
    """Write a length: two decimals at most, no trailing zeros, no minus zero."""
    return f"{round(float(value), 2) + 0.0:.2f}".rstrip("0").rstrip(".")


def attribute(words: str) -> str:
    """Write words as the value of an attribute, always in double quotes."""
    return '"' + escape(words, {'"': "&quot;"}) + '"'


def written(values: Tensor, most: int = 2) -> list[list[str]]:
    """Write numbers (R, C) for their cells: as many decimals as one of them needs, at most `most`; a true minus."""
    rows = [[round(value, most) + 0.0 for value in row] for row in values.tolist()]
    places = max(len(f"{value:.2f}".rstrip("0")) - len(f"{value:.2f}") + 2 for row in rows for value in row)
    return [[f"{value:.{places}f}".replace("-", "−") for value in row] for row in rows]


def png(pixels: Tensor) -> str:
    """Return gray pixels (H, W), uint8, as the address of an image: the same bytes with every zlib."""
    H, W = pixels.shape
    rows = b"".join(b"\0" + bytes(row) for row in pixels.tolist())

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    stored = b"\x78\x01\x01" + struct.pack("<HH", len(rows), len(rows) ^ 0xFFFF) + rows  # one block, not compressed
    head = struct.pack(">IIBBBBB", W, H, 8, 0, 0, 0, 0)
    data = chunk(b"IHDR", head) + chunk(b"IDAT", stored + struct.pack(">I", zlib.adler32(rows))) + chunk(b"IEND", b"")
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + data).decode()


class Sheet:
    """A sheet of width x height units, about one pixel each; y grows downwards.

    Every method draws one thing. Colours are names: of a kind ("query"), of
    one of its shades ("query-3"), or "ink", "soft", "line", "paper".
    """

    def __init__(self, width: float, height: float):
        self.width, self.height = width, height
        self.parts, self.fills, self.strokes = [], {"paper"}, set()

    def paint(self, fill: str | None, stroke: str | None, width: float = 1.5, dash: str | None = None) -> str:
        """The attributes of a shape: classes for the page, plain colours for readers that know no classes."""
        classes, plain = [], ['fill="none"'] if fill is None else []
        if fill:
            self.fills.add(fill)
            classes.append(f"f-{fill}")
            plain.append(f'fill="{pair(fill)[0]}"')
        if stroke:
            self.strokes.add(stroke)
            classes.append(f"s-{stroke}")
            plain.append(f'stroke="{pair(stroke)[0]}" stroke-width="{n(width)}"')
            plain += [f'stroke-dasharray="{dash}"'] if dash else []
        return f'class="{" ".join(classes)}" {" ".join(plain)}'

    def text(
        self,
        x: float,
        y: float,
        words: str,
        colour: str = "ink",
        size: float = 13,
        anchor: str = "middle",
        weight: int = 400,
        mono: bool = False,
    ) -> None:
        """Words whose middle line lies at y; a caret lifts what follows it, up to the next space: k^T."""
        base, *lifted = words.split("^")
        inner = escape(base)
        for piece in lifted:
            up, space, rest = piece.partition(" ")
            rise = n(0.38 * size)
            inner += f'<tspan dy="-{rise}" font-size="{n(0.72 * size)}">{escape(up)}</tspan>'
            inner += f'<tspan dy="{rise}">{escape(space + rest)}</tspan>' if rest else ""
        bold = f' font-weight="{weight}"' if weight != 400 else ""
        family = f' font-family="{MONO}"' if mono else ""
        self.parts.append(
            f'<text x="{n(x)}" y="{n(y + 0.35 * size)}" {self.paint(colour, None)} font-size="{n(size)}" '
            f'text-anchor="{anchor}"{bold}{family}>{inner}</text>'
        )

    def lines(self, x: float, y: float, words: Sequence[str], size: float = 13, **kwargs: object) -> None:
        """Several lines of words, their middle at y."""
        for i, line in enumerate(words):
            self.text(x, y + (i - (len(words) - 1) / 2) * 1.3 * size, line, size=size, **kwargs)

    def rect(
        self,
        place: Place,
        fill: str | None = None,
        stroke: str | None = None,
        rx: float = 0,
        width: float = 1.5,
        dash: str | None = None,
    ) -> Place:
        """A rectangle."""
        x, y, w, h = map(n, (place.x, place.y, place.w, place.h))
        round_ = f' rx="{n(rx)}"' if rx else ""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{w}" height="{h}"{round_} {self.paint(fill, stroke, width, dash)}/>'
        )
        return place

    def path(
        self,
        d: str,
        stroke: str | None = "soft",
        width: float = 1.5,
        fill: str | None = None,
        dash: str | None = None,
        cap: str = "butt",
    ) -> None:
        """A path in SVG's own letters."""
        ends = "" if cap == "butt" else f' stroke-linecap="{cap}"'
        self.parts.append(f'<path d="{d}" {self.paint(fill, stroke, width, dash)} stroke-linejoin="round"{ends}/>')

    def target(self, place: Place) -> None:
        """Nothing to be seen, but all of the place can be clicked."""
        x, y, w, h = map(n, (place.x, place.y, place.w, place.h))
        self.parts.append(f'<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="none" pointer-events="all"/>')

    def hint(self, x: float, y: float, words: str) -> None:
        """Words about links: they show only where links work."""
        self.parts.append('<g class="vd-hint" display="none">')
        self.text(x, y, words, "soft", 12)
        self.parts.append("</g>")

    def circle(self, x: float, y: float, r: float, fill: str | None, stroke: str | None, width: float = 1.5) -> None:
        """A circle around (x, y)."""
        self.parts.append(f'<circle cx="{n(x)}" cy="{n(y)}" r="{n(r)}" {self.paint(fill, stroke, width)}/>')

    def arrow(
        self,
        *points: tuple[float, float],
        label: str = "",
        colour: str = "soft",
        width: float = 1.6,
        size: float = 12,
        dash: str | None = None,
    ) -> None:
        """A line through these points with a head at the last.

        Its label names the shape that flows, above the longest part if that is level, else right of it.
        """
        (ax, ay), (bx, by) = points[-2:]
        length = ((bx - ax) ** 2 + (by - ay) ** 2) ** 0.5
        ux, uy = (bx - ax) / length, (by - ay) / length
        tip, half = 5 + 1.8 * width, 2 + 1.15 * width
        ex, ey = bx - ux * tip, by - uy * tip
        route = [*points[:-1], (ex + ux, ey + uy)]
        self.path("M" + "L".join(f"{n(x)} {n(y)}" for x, y in route), colour, width, dash=dash)
        corners = (bx, by), (ex - uy * half, ey + ux * half), (ex + uy * half, ey - ux * half)
        self.path("M" + "L".join(f"{n(x)} {n(y)}" for x, y in corners) + "Z", None, fill=colour)
        if label:
            runs = list(zip(points, points[1:], strict=False))
            (px, py), (qx, qy) = max(runs, key=lambda r: abs(r[1][0] - r[0][0]) + abs(r[1][1] - r[0][1]))
            x, y = (px + qx) / 2, (py + qy) / 2
            dx, dy, anchor = (0, -0.85 * size, "middle") if abs(qx - px) > abs(qy - py) else (8, 0, "start")
            self.text(x + dx, y + dy, label, "ink", size, anchor, mono=True)

    def box(
        self, place: Place, words: str | Sequence[str], kind: str = "norm", size: float = 13, rx: float = 6
    ) -> Place:
        """A box that does something; the colour and the edge are the kind's."""
        self.rect(place, f"{kind}-{TINT}", kind, rx, dash=DASHES.get(kind))
        words = [words] if isinstance(words, str) else words
        self.lines(place.cx, place.cy, words, size)
        return place

    def plus(self, x: float, y: float, r: float = 9) -> None:
        """The sign of a sum."""
        self.circle(x, y, r, "paper", "ink")
        self.path(f"M{n(x - r / 2)} {n(y)}h{n(r)}M{n(x)} {n(y - r / 2)}v{n(r)}", "ink")

    def matrix(
        self,
        x: float,
        y: float,
        values: Tensor,
        kind: str,
        cell: tuple[float, float] = (40, 28),
        numbers: bool = True,
        rows: Sequence[str] = (),
        columns: Sequence[str] = (),
        top: float | None = None,
        ring: int | None = None,
        size: float = 12,
    ) -> Place:
        """Numbers in cells, shaded by their size; what is below zero is gray. Pixels have their own gray.

        values (R, C); rows and columns are labels; top is the size that gets the
        strongest shade, by default the largest here; ring outlines one row.
        """
        values = values.detach().double().cpu()
        R, C = values.shape
        w, h = cell
        top = top or values.abs().max().item() or 1.0
        place = Place(x, y, C * w, R * h)
        for decimals in (2, 1, 0):  # rather a decimal less than text that nobody can read
            words = written(values, decimals)
            fitting = w / (0.61 * max(len(word) for row in words for word in row))
            if fitting >= SMALLEST:
                break
        size_in = max(SMALLEST, min(size, fitting))
        shades = [[self.shade(kind, value, top, numbers) for value in row] for row in values.tolist()]
        self.cells(place, shades)
        lines = "".join(f"M{n(x + j * w)} {n(y)}v{n(R * h)}" for j in range(1, C))
        lines += "".join(f"M{n(x)} {n(y + i * h)}h{n(C * w)}" for i in range(1, R))
        if lines and min(cell) >= 13:
            self.path(lines, "line", 1)
        for i, row in enumerate(words if numbers else []):
            for j, word in enumerate(row):
                ink = "ink"
                if shades[i][j].startswith("pixel"):  # the better of the two is always good enough
                    ink = "pixel-255" if int(shades[i][j][6:]) < 118 else "pixel-0"
                self.text(x + (j + 0.5) * w, y + (i + 0.5) * h, word, ink, size_in)
        self.rect(place, None, kind, rx=2, width=2, dash=DASHES.get(kind))
        for i, label in enumerate(rows):
            self.text(x - 7, y + (i + 0.5) * h, label, "soft", size, "end")
        for j, label in enumerate(columns):
            self.text(x + (j + 0.5) * w, y - 9, label, "soft", size)
        if ring is not None:
            self.rect(Place(x - 1.5, y + ring * h - 1.5, C * w + 3, h + 3), None, "ink", rx=3, width=2.4)
        return place

    def shade(self, kind: str, value: float, top: float, text: bool = True) -> str:
        """The colour of a number's cell: a patch has its own grays, else stronger is farther from zero."""
        if kind == "patch":
            return f"pixel-{round(255 * min(1.0, max(0.0, value / top)))}"
        level = min(LEVELS, round(LEVELS * abs(value) / top))
        return "paper" if not level else f"{kind if value > 0 else 'soft'}-{level}{'' if text else 'x'}"

    def cells(self, place: Place, shades: Sequence[Sequence[str]]) -> None:
        """The grounds of a matrix, one path a colour, equal neighbours in one piece."""
        w, h = place.w / len(shades[0]), place.h / len(shades)
        pieces = {}
        for i, row in enumerate(shades):
            j = 0
            for shade, run in groupby(row):
                length = len(list(run))
                corner = f"M{n(place.x + j * w)} {n(place.y + i * h)}"
                pieces.setdefault(shade, []).append(f"{corner}h{n(length * w)}v{n(h)}h{n(-length * w)}z")
                j += length
        for shade, paths in sorted(pieces.items()):
            self.parts.append(f'<path d="{"".join(paths)}" {self.paint(shade, None)} shape-rendering="crispEdges"/>')

    def token(self, x: float, y: float, kind: str = "token", side: float = 11) -> None:
        """One token as a column of four features; the cls token wears a diamond."""
        place = Place(x, y, side + 3, 4 * side)
        self.rect(place, f"{kind}-3", kind, rx=4, dash=DASHES.get(kind))
        marks = "".join(f"M{n(x)} {n(y + i * side)}h{n(place.w)}" for i in range(1, 4))
        self.path(marks, kind, 0.8)
        if kind == "cls":
            self.diamond(place.cx, y - 9)

    def norm(self, place: Place) -> None:
        """A LayerNorm: a pill."""
        self.box(place, "norm", "norm", rx=place.h / 2)

    def mlp(self, place: Place) -> None:
        """An MLP: a box that widens in the middle."""
        x, y, w, d = place.x, place.y, place.w, place.h / 4
        corners = (x, y + d), (x + w / 3, y), (x + 2 * w / 3, y), (x + w, y + d)
        corners += tuple((a, 2 * place.cy - b) for a, b in reversed(corners))
        outline = "M" + "L".join(f"{n(a)} {n(b)}" for a, b in corners) + "Z"
        self.path(outline, "mlp", fill=f"mlp-{TINT}")
        self.text(place.cx, place.cy, "MLP")

    def stream(self, *points: tuple[float, float]) -> None:
        """The residual stream: a thick line, in the colour of the tokens that flow in it."""
        self.path("M" + "L".join(f"{n(x)} {n(y)}" for x, y in points), "token", 6, cap="round")

    def bars(self, x: float, y: float, heights: Sequence[float], width: float = 8, gap: float = 4) -> None:
        """Logits: bars on a line at y, the largest one filled."""
        for i, height in enumerate(heights):
            spot = Place(x + i * (width + gap), y - height, width, height)
            self.rect(spot, "logits" if height == max(heights) else "logits-3", "logits", width=1)
        total = len(heights) * (width + gap) - gap
        self.path(f"M{n(x - 3)} {n(y)}h{n(total + 6)}", "ink")

    def diamond(self, x: float, y: float, r: float = 5) -> None:
        """The mark of the cls token."""
        self.path(f"M{n(x)} {n(y - r)}l{n(r)} {n(r)}l{n(-r)} {n(r)}l{n(-r)} {n(-r)}Z", "cls", 1.2, fill="cls")

    def image(self, place: Place, pixels: Tensor) -> Place:
        """An image (H, W), uint8, with sharp pixels."""
        x, y, w, h = map(n, (place.x, place.y, place.w, place.h))
        self.parts.append(
            f'<image x="{x}" y="{y}" width="{w}" height="{h}" preserveAspectRatio="none" '
            f'style="image-rendering:pixelated" href="{png(pixels)}"/>'
        )
        return place

    def image_patches(self, place: Place, pixels: Tensor, patch_size: int, gap: float = 0) -> list[Place]:
        """An image (H, W) cut into patches, row by row: with a gap they stand apart. Returns where each stands."""
        rows, cols = (side // patch_size for side in pixels.shape)
        w, h = (place.w - gap * (cols - 1)) / cols, (place.h - gap * (rows - 1)) / rows
        spots = [
            Place(place.x + j * (w + gap), place.y + i * (h + gap), w, h) for i in range(rows) for j in range(cols)
        ]
        if not gap:
            self.image(place, pixels)
        for index, spot in enumerate(spots):
            i, j = (patch_size * k for k in divmod(index, cols))
            if gap:
                self.image(spot, pixels[i : i + patch_size, j : j + patch_size])
            self.rect(spot, None, "patch", width=1)
        return spots

    @contextmanager
    def link(self, chapter: str | None, name: str) -> Iterator[None]:
        """What is drawn inside leads to a chapter; the page puts its address in."""
        if chapter:
            self.parts.append(f'<a href="chapter:{chapter}" aria-label={attribute(name)}>')
        yield
        if chapter:
            self.parts.append("</a>")

    def svg(self, alt: str, kind: str, inner: str = "") -> str:
        """The whole as one SVG element; with links inside it is a group, else one image."""
        role = "group" if any(part.startswith("<a ") for part in self.parts) else "img"
        w, h = n(self.width), n(self.height)
        ground = f'<rect width="{w}" height="{h}" rx="8" {self.paint("paper", None)}/>'
        return (
            f'<svg class="vd vd-{kind}" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" '
            f'height="{h}" role="{role}" aria-label={attribute(alt)} font-family="{SANS}">'
            f"<style>{style(self.fills, self.strokes)}</style>{ground}\n" + "\n".join(self.parts) + f"\n{inner}</svg>"
        )


class Drawing:
    """A drawing that stands still: crisp at any size, in light and in dark, with words for those who cannot see it.

    alt says what to see. svg is the drawing as a file that shows anywhere; in it
    rests, hidden, the arrangement for phones, which the page of the book takes out.
    """

    def __init__(self, alt: str, draw: Callable[[bool], Sheet]):
        """draw(wide) returns the sheet: 720 units wide if wide, else 344."""
        self.alt = alt
        narrow = draw(False).svg(alt, "narrow").replace(NARROW, f'{NARROW} display="none"', 1)
        self.svg = draw(True).svg(alt, "wide", narrow)

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        """The drawing as a file, and its words. No text/html: GitHub and JupyterLab would strip the SVG from it."""
        bundle = {"image/svg+xml": self.svg, "text/plain": self.alt}
        if "google.colab" in sys.modules:  # where HTML is trusted it follows the theme and the phone
            bundle["text/html"] = in_page(self.svg, lambda chapter: None)
        return bundle

    def __repr__(self) -> str:
        return self.alt


def in_page(svg: str, address: Callable[[str], str | None]) -> str:
    """Return a stored drawing as HTML: both arrangements, of which the style shows one, and real addresses.

    address gives the address of a chapter by the name that stands in its file
    name, such as "attention", or None: then the link is taken out.
    """
    svg = svg.strip()
    wide, narrow = svg[: svg.index(NARROW)] + "</svg>", svg[svg.index(NARROW) : -len("</svg>")]
    both = wide + "\n" + narrow.replace(' display="none"', "", 1)

    def real(link: re.Match[str]) -> str:
        target = address(link[1])
        return f"<a href={attribute(target)}{link[2]}>{link[3]}</a>" if target else f"<g>{link[3]}</g>"

    both = re.sub(r'<a href="chapter:([\w-]+)"([^>]*)>(.*?)</a>', real, both, flags=re.DOTALL)
    return f'<div class="vd-page">{RESPONSIVE}\n{both}\n</div>'

"""The colours of the drawings: what each kind of thing looks like, on a light page and on a dark one."""

import re
from pathlib import Path

KIT = Path(__file__).parents[1] / "figures" / "kit" / "kit.css"
# The live figures' own colours: {"ink": (light, dark), ...}
SHARED = {
    name: (light, dark)
    for name, light, dark in re.findall(
        r"--vf-(\w+): light-dark\((#\w{6}), (#\w{6})\)", KIT.read_text(encoding="utf-8")
    )
}
# What is drawn, and its colour. Hue and lightness differ, so that colour-blind readers can tell them apart, too;
# each kind has a mark besides (see legend), so no drawing needs the colour.
KINDS = {
    "patch": SHARED["soft"],
    "token": SHARED["blue"],
    "cls": SHARED["mark"],
    "position": ("#005a66", "#8ae6ee"),
    "query": SHARED["pink"],
    "key": ("#665200", "#f3e07a"),
    "value": SHARED["green"],
    "weights": ("#54359c", "#cdbfff"),
    "norm": ("#55585e", "#b3b7be"),
    "mlp": ("#7b4a2d", "#dca583"),
    "logits": ("#44474d", "#c4c8cf"),
}
LEVELS = 8  # shades of a kind: 1 is a hint of it, 8 the strongest that still carries text
STRONGEST = {"light": 0.58, "dark": 0.38}
BARE = 0.9  # the strongest shade of cells without text, "token-8x"
TINT = 2  # the shade that fills a box


def mix(colour: str, ground: str, share: float) -> str:
    """Mix a share of a colour into a ground, both as #rrggbb."""
    pairs = zip(*([int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in (colour, ground)), strict=True)
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


def pair(name: str) -> tuple[str, str]:
    """Return a colour's (light, dark): of a kind, of the kit, or a shade such as "token-3" (0 is the paper).

    "pixel-0" to "pixel-255" are the grays of an image, the same in both;
    "token-3x" is for cells without text, which may be stronger.

    Raises: ValueError for a name that the language does not have.
    """
    kind, _, level = name.partition("-")
    if kind == "pixel" and level in map(str, range(256)):
        return (f"#{int(level):02x}" + f"{int(level):02x}" * 2,) * 2
    known, bare = SHARED | KINDS, level.endswith("x")
    if kind not in known or (level and level.removesuffix("x") not in map(str, range(LEVELS + 1))):
        raise ValueError(f"colour is {name!r}: use one of {', '.join(known)}, or a shade such as 'token-{TINT}'")
    if not level:
        return known[kind]
    return tuple(
        mix(colour, paper, int(level.removesuffix("x")) / LEVELS * (BARE if bare else share))
        for colour, paper, share in zip(known[kind], SHARED["paper"], STRONGEST.values(), strict=True)
    )


def style(fills: set[str], strokes: set[str]) -> str:
    """Return the CSS of the colours that a drawing uses; each follows the page's theme.

    A property's value falls back to the attribute beside it where variables are unknown.
    """
    colours = "".join(f"--vd-{n}:light-dark({','.join(pair(n))});" for n in sorted(fills | strokes))
    rules = "".join(f".vd .f-{n}{{fill:var(--vd-{n})}}" for n in sorted(fills))
    rules += "".join(f".vd .s-{n}{{stroke:var(--vd-{n})}}" for n in sorted(strokes))
    return (
        f".vd{{color-scheme:light dark;{colours}}}"
        'html[data-theme="light"] .vd{color-scheme:light}html[data-theme="dark"] .vd,html[theme="dark"] .vd'
        "{color-scheme:dark}"
        f"{rules}"
    )

"""What a page may load and run: a Content-Security-Policy in all HTML that the build has written.

Static hosts send no headers of ours, so the policy stands in the page. It
allows the book's own files and, of what stands inside a page, the scripts,
styles and figures that the build has seen, each by its SHA-256 sum. So a
script, an image or a request that somebody smuggles into a page is refused by
the browser. book/security.md says against whom this helps.
"""

import base64
import hashlib
import json
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import SphinxError

from pages.live_figures import STATE

# What figures.js puts around the text of a figure's module: a script that the page can allow by its sum.
OPENING, CLOSING = '"use strict";\nwindow.bookFigure = (() => {\n', "\n})();"
EXPORTED = re.compile("^export default ", re.MULTILINE)
CHARSET = re.compile(r"<meta[^>]*charset=[^>]*>")  # browsers look for it in the first 1,024 bytes: it stays in front
WRITTEN = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')  # by the build before: pages may stay
SCRIPTS = ("", "text/javascript", "module")  # all other types are data
ADDRESSES = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
ADDRESSES |= {"link": "href", "object": "data", "embed": "src", "form": "action", "base": "href"}
FOREIGN = re.compile(r"\s*(?:[a-z][a-z0-9+.-]*:)?//|\s*javascript:", re.IGNORECASE)
# Thebe runs code of a page on another host, after loading itself from a third. The book does not use it.
THEBE = re.compile(
    r'<script>(?:const THEBE_JS_URL|kernelName =)[^<]*</script>|<script type="text/x-thebe-config">[^<]*</script>'
    r'|<script[^>]*src="[^"]*sphinx-thebe\.js[^"]*"[^>]*></script>|<link[^>]*sphinx-thebe\.css[^>]*>'
)
AHEAD = re.compile(r'<link[^>]*rel="next"[^>]*>')  # Firefox fetches that page, which the policy refuses
HANDLERS = re.compile(r'\bonclick="(toggleFullScreen|window\.print)\(\)"')  # buttons.js does it instead
LEFTOVERS = ("_static/webpack-macros.html", "_static/sbt-webpack-macros.html")  # templates of the theme, no pages
LEFTOVERS += ("_static/sphinx-thebe.js", "_static/sphinx-thebe.css")
ICONS = "_static/vendor/fontawesome/6.5.2/js/all.min.js"
ICONS_STYLE = re.compile(r"=('(?::host|:root)[^']*')")
SPEAKER_VIEW = re.compile(r'document\.write\(("(?:[^"\\]|\\.)*")\)')
# What reveal.js writes into a deck that is printed, at the size that slides.js names.
PRINTED = (
    "@page{size:1280px 720px; margin: 0px;}",
    ".reveal section>img, .reveal section>video, .reveal section>iframe{max-width: 1280px; max-height:720px}",
)


def source(text: str) -> str:
    """Return the sum of a text, as a policy names it."""
    digest = hashlib.sha256(text.replace("\r\n", "\n").encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def runnable(module: str) -> str:
    """Return the script as which figures.js runs a figure's module."""
    return OPENING + EXPORTED.sub("return ", module, count=1) + CLOSING


@dataclass
class Found:
    """What a page holds that a policy has to know of."""

    scripts: list[str] = field(default_factory=list)
    styles: list[str] = field(default_factory=list)
    attributes: list[str] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


class Reader(HTMLParser):
    """Reads a page for what a policy has to know of."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.found, self.into = Found(), None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note addresses, styles and handlers of an element."""
        here = {name: value or "" for name, value in attrs}
        self.found.faults += [f"{tag} has a handler of its own, {name}" for name in here if name.startswith("on")]
        if "style" in here:
            self.found.attributes.append(here["style"])
        address = here.get(ADDRESSES.get(tag, ""), "")
        if FOREIGN.match(address) or here.get("href", "").strip().lower().startswith("javascript:"):
            self.found.faults.append(f"{tag} asks another host, or runs a script: {address or here['href']}")
        if tag == "style":
            self.into = self.found.styles
        elif tag == "script" and "src" in here:
            self.found.files.append(here["src"])
        elif tag == "script" and here.get("type", "") in SCRIPTS:
            self.into = self.found.scripts
        elif tag == "script" and here["type"] == STATE:
            self.into = self.found.states
        if self.into is not None:
            self.into.append("")

    def handle_data(self, data: str) -> None:
        """Note what stands in a script or a style."""
        if self.into is not None:
            self.into[-1] += data

    def handle_endtag(self, tag: str) -> None:
        """End a script or a style."""
        if tag in ("script", "style"):
            self.into = None


def read(page: str) -> Found:
    """Return what a page holds that a policy has to know of."""
    reader = Reader()
    reader.feed(page)
    reader.close()
    return reader.found


def figures(states: list[str]) -> list[dict]:
    """Return the values of the figures whose states a page holds."""
    models = [model for state in states for model in json.loads(state)["state"].values()]
    return [model["state"] for model in models if "_esm" in model["state"]]


def policy(found: Found, extra: Found | None = None) -> str:
    """Return the policy of a page that holds this; extra: what its scripts will put into it."""
    extra, live = extra or Found(), figures(found.states)
    code = "".join(text for one in live for text in one.values() if isinstance(text, str))
    scripts = [*found.scripts, *extra.scripts, *(runnable(one["_esm"]) for one in live)]
    styles = [*found.styles, *extra.styles, *(one.get("_css", "") for one in live)]
    attributes = [*found.attributes, *extra.attributes]
    speaks = any("reveal/notes.js" in name for name in found.files)
    rules = {
        "default-src": "'none'",
        "script-src": ["'self'", *sorted(set(map(source, scripts)))] if found.files or scripts else "'none'",
        "style-src": ["'self'", *sorted(set(map(source, [*styles, *attributes])))],
        "img-src": "'self' data:",
        "font-src": "'self'",
        "form-action": "'self'",
        "base-uri": "'none'",
        "object-src": "'none'",
    }
    if "WebAssembly" in code:
        rules["script-src"].append("'wasm-unsafe-eval'")  # WebAssembly, and no text as code
    if attributes:
        rules["style-src"].insert(1, "'unsafe-hashes'")  # these attributes, and no others
    if "new Worker(" in code:
        rules["worker-src"] = "blob:"  # from the disk no browser starts a worker from a file
    if speaks:
        rules["frame-src"] = "'self'"  # the speaker's view shows this slide and the next
    return "; ".join(f"{name} {value if isinstance(value, str) else ' '.join(value)}" for name, value in rules.items())


def lighter(page: str) -> str:
    """Return a page without what the policy would refuse and the book does not need."""
    return HANDLERS.sub(r'data-does="\1"', AHEAD.sub("", THEBE.sub("", WRITTEN.sub("", page))))


def sealed(page: str, extra: Found | None = None) -> str:
    """Return a page with its policy.

    Raises: ValueError if the page asks another host for something, or has a script in an attribute.
    """
    found = read(page)
    if found.faults:
        raise ValueError("; ".join(found.faults))
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy(found, extra)}">'
    head = CHARSET.search(page)
    return page[: head.end()] + meta + page[head.end() :] if head else meta + page


def of_icons(script: str) -> Found:
    """Return the style sheet that the theme's script of icons writes into each page."""
    found = ICONS_STYLE.search(script)
    return Found(styles=[found[1][1:-1].replace(r"\'", "'")] if found else [])


def of_decks(notes: str) -> Found:
    """Return what reveal.js writes into a deck: for print, and in the window with the speaker's notes."""
    written = SPEAKER_VIEW.search(notes)[1].replace(r"\'", "'")
    window = json.loads(re.sub(r"\\x(\w\w)", r"\\u00\1", written))  # what JavaScript escapes and JSON does not
    found = read(window)
    return Found(scripts=found.scripts, styles=[*found.styles, *PRINTED], attributes=found.attributes)


def seal(app: Sphinx) -> None:
    """Write the policy into all HTML that was built."""
    out = Path(app.outdir)
    for name in LEFTOVERS:
        (out / name).unlink(missing_ok=True)
    icons, notes = out / ICONS, out / "_static" / "reveal" / "notes.js"
    book = of_icons(icons.read_text(encoding="utf-8")) if icons.exists() else Found()
    deck = of_decks(notes.read_text(encoding="utf-8")) if notes.exists() else Found()
    for path in sorted(out.rglob("*.html")):
        page = lighter(path.read_text(encoding="utf-8"))
        extra = deck if "reveal/notes.js" in page else book
        try:
            path.write_text(sealed(page, extra), encoding="utf-8")
        except ValueError as error:
            raise SphinxError(f"{path.relative_to(out)}: {error}") from error


def setup(app: Sphinx) -> None:
    """Register what is here."""
    app.add_js_file("buttons.js", loading_method="defer")

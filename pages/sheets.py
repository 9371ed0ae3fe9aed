"""One style sheet a page, with the rules that the book can use, and scripts that do not hold up what is seen."""

import hashlib
import re
from pathlib import Path

import tinycss2
from sphinx.application import Sphinx

SHEET = re.compile(r'[ \t]*<link(?=[^>]*rel="stylesheet")[^>]*href="((?:\.\./)*)_static/([^"?]+\.css)[^"]*"[^>]*>\n?')
ONE = "pages.css"
THEME = "styles/theme.css"  # the pages that the theme lays out have it
IMPORTED = re.compile(r'@import "\.\./([\w.-]+)";')
PRELOADED = re.compile(r'[ \t]*<link rel="preload" as="script"[^>]*>\n?')
BLOCKING = re.compile(r'<script(?![^>]*\bdefer)(?=[^>]* src="(?:\.\./)*_static/)')
OPTIONS = re.compile(r'<script src="(?:\.\./)*_static/documentation_options\.js[^"]*"></script>')
WORD = re.compile(r"-?[A-Za-z_][\w-]*")
COMPOSED = {"bs-tooltip-auto"}  # by the theme's script, from parts


def used(css: str, words: set[str]) -> str:
    """Return the rules of a style sheet that can apply where these are all the words that pages and scripts hold."""
    return rules(tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True), words)


def rules(parsed: list, words: set[str]) -> str:
    """Return rules as text, in groups such as @media, too."""
    kept = []
    for rule in parsed:
        if rule.type == "qualified-rule":
            if any(names <= words for names in asked(rule.prelude)):
                kept.append(rule.serialize())
        elif rule.type == "at-rule" and rule.lower_at_keyword in ("media", "supports"):
            inner = rules(tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True), words)
            if inner:
                kept.append(f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}{{{inner}}}")
        elif rule.type == "at-rule" and rule.lower_at_keyword != "charset":
            kept.append(rule.serialize())
    return "\n".join(kept)


def asked(selectors: list) -> list[set[str]]:
    """Return for each alternative of a rule the classes and ids that it asks for; what stands in brackets may lack."""
    found: list[set[str]] = [set()]
    for token, after in zip(selectors, [*selectors[1:], None], strict=True):
        if token == ",":
            found.append(set())
        elif token.type == "hash" or (token == "." and after and after.type == "ident"):
            found[-1].add(token.value if token.type == "hash" else after.value)
    return found


def read(static: Path, name: str) -> str:
    """Return a style sheet, with what it imports in its place."""
    text = (static / name).read_text(encoding="utf-8")
    return IMPORTED.sub(lambda found: read(static, found[1]), text)


def light(page: str, sheet: str, options: str) -> str:
    """Return a page with one style sheet in the place of its first, and with scripts that wait for the page."""
    page = PRELOADED.sub("", OPTIONS.sub(lambda _: f"<script>{options}</script>", page))
    links = list(SHEET.finditer(page))
    start = links[0].start()
    one = f'  <link rel="stylesheet" href="{links[0][1]}_static/{sheet}">\n'
    return BLOCKING.sub("<script defer", page[:start] + one + SHEET.sub("", page[start:]))


def lighten(app: Sphinx) -> None:
    """Give each page of the theme its one style sheet."""
    static = Path(app.outdir, "_static")
    pages = {path: path.read_text(encoding="utf-8") for path in Path(app.outdir).rglob("*.html")}
    scripts = [path.read_text(encoding="utf-8") for path in static.rglob("*.js")]
    words = COMPOSED.union(WORD.findall("\n".join([*pages.values(), *scripts])))
    options = (static / "documentation_options.js").read_text(encoding="utf-8")
    ours = {path: page for path, page in pages.items() if THEME in [name for _, name in SHEET.findall(page)]}
    names = dict.fromkeys(name for page in ours.values() for _, name in SHEET.findall(page))
    css = used("\n".join(read(static, name) for name in names), words)
    (static / ONE).write_text(css, encoding="utf-8")
    version = f"{ONE}?v={hashlib.sha256(css.encode()).hexdigest()[:8]}"
    for path, page in ours.items():
        path.write_text(light(page, version, options), encoding="utf-8")

"""Formulas as MathML, written when the book is built: a page needs no script for them, and screen readers read them.

MathJax makes the MathML (from the package sphinx-mathjax-offline, run by the
Node that Playwright brings). The font is in book/assets/fonts.
"""

import importlib.util
import json
import re
import subprocess
import unicodedata
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

TAG = re.compile(r"\\tag\{(.+?)\}")
ROWS = r"\begin{aligned} %s \end{aligned}"
# What browsers have no use for: MathJax's notes to itself, and the layout of its source.
NOTES = re.compile(r'\s+(?:data-mjx-[\w-]+|xmlns|rowspacing|columnspacing)="[^"]*"|\n\s*')
# After a function's name TeX leaves a thin space, unless a bracket follows; MathML leaves none.
APPLIED = re.compile(r"<mo>&#x2061;</mo>(?!(?:<mrow>)?<mo[^>]*>[(\[{])")
THIN = '<mspace width="0.167em"></mspace>'
# Browsers know no letter's style but upright; for the others Unicode has letters of their own.
STYLES = "bold|script|double-struck|bold-italic"
STYLED = re.compile(rf'<(m[ion]) (?:[\w-]+="[^"]*" )*?mathvariant="({STYLES})"[^>]*>([A-Za-z])</\1>')
ERROR = re.compile(r'data-mjx-error="([^"]*)"|mathcolor="red">([^<]*)<')  # the second: a command that it does not know

_made: dict[tuple[str, bool], str] = {}


def package(name: str, *path: str) -> Path:
    """Return the path of a file that an installed package brings."""
    return Path(importlib.util.find_spec(name).submodule_search_locations[0], *path)


def styled(found: re.Match) -> str:
    """Return a letter in bold, script or double-struck, as Unicode has it."""
    tag, style, letter = found.groups()
    name = f"{style.upper()} {'CAPITAL' if letter.isupper() else 'SMALL'} {letter.upper()}"
    try:
        drawn = unicodedata.lookup(f"MATHEMATICAL {name.replace('BOLD-ITALIC', 'BOLD ITALIC')}")
    except KeyError:
        drawn = unicodedata.lookup(name)  # a few are older than the rest
    return f'<{tag} mathvariant="normal">{drawn}</{tag}>'


def prepare(formulas: list[tuple[str, bool]]) -> None:
    """Turn formulas (TeX, displayed?) into MathML, all at once: to start MathJax takes a quarter of a second.

    Raises: SphinxError with MathJax's words if one of them is no TeX.
    """
    new = sorted(set(formulas) - _made.keys())
    if not new:
        return
    node = package("playwright", "driver", "node")
    bundle = package("sphinx-mathjax-offline", "static", "mathjax", "tex-chtml-full.js")
    command = [node, Path(__file__).with_name("formulas.js"), bundle]
    found = subprocess.run(command, input=json.dumps(new), capture_output=True, text=True)
    if found.returncode or not found.stdout:
        raise SphinxError(f"MathJax did not start: {found.stderr[-500:]}")
    for formula, mathml in zip(new, json.loads(found.stdout), strict=True):
        if fault := ERROR.search(mathml):
            raise SphinxError(f"{fault[1] or fault[2]}: {formula[0]}")
        mathml = NOTES.sub("", STYLED.sub(styled, mathml).replace('data-mjx-alternate="1"', 'class="prime"'))
        _made[formula] = APPLIED.sub(THIN, mathml)


def mathml(tex: str, display: bool) -> str:
    """Return a formula as MathML.

    Raises: SphinxError with MathJax's words if it is no TeX.
    """
    prepare([(tex, display)])
    return _made[tex, display]


def source(node: nodes.math | nodes.math_block) -> tuple[str, bool]:
    """Return the TeX of a formula, lines aligned as Sphinx aligns them and without a \\tag, and if it is displayed."""
    if isinstance(node, nodes.math):
        return node.astext(), False
    tex = TAG.sub("", node.astext()).strip()
    return ROWS % tex if r"\\" in tex and r"\begin" not in tex else tex, True


def prepare_page(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Turn all formulas of a page into MathML."""
    if app.builder.format == "html":
        prepare([source(node) for kind in (nodes.math, nodes.math_block) for node in doctree.findall(kind)])


def write_inline(writer: HTML5Translator, node: nodes.math) -> None:
    """Write a formula in a line."""
    writer.body.append(f"{writer.starttag(node, 'span', '', CLASS='math')}{mathml(*source(node))}</span>")
    raise nodes.SkipNode


def write_displayed(writer: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own, with its number, or the one that \\tag gives it."""
    writer.body.append(writer.starttag(node, "div", CLASS="math"))
    if tag := TAG.search(node.astext()):
        writer.body.append(f'<span class="eqno">({tag[1]})</span>')
    elif node["number"]:
        writer.body.append(f'<span class="eqno">({get_node_equation_number(writer, node)})')
        writer.add_permalink_ref(node, "Link to this equation")
        writer.body.append("</span>")
    writer.body.append(f"{mathml(*source(node))}</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register what is here."""
    app.add_html_math_renderer("mathml", (write_inline, None), (write_displayed, None))
    app.connect("doctree-resolved", prepare_page)

"""Build the book as EPUB and have epubcheck judge it: python -m pages.make_epub"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from jupyter_book.config import get_final_config
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from pages import edition

ROOT = Path(__file__).resolve().parents[1]

BUILT = ROOT / "_build" / "epub"
NAME = "understanding-vision-transformers"
CHECKER = "/usr/share/java/epubcheck.jar"  # Debian's package epubcheck
# What belongs to web pages only, and for LaTeX.
NOT_HERE = {"sphinx_togglebutton", "sphinx_copybutton", "sphinx_thebe", "sphinx_comments", "sphinx.ext.intersphinx"}
NOT_HERE |= {"sphinx_book_theme", "sphinx_jupyterbook_latex"}


def configuration(source: Path) -> dict:
    """Return what Sphinx needs to know to build the book of this folder as EPUB."""
    words = {"latex_individualpages": False}
    config, _ = get_final_config(user_yaml=source / "_config.yml", sourcedir=source, cli_config=words)
    this, ext = edition.read(source), source / "pages"
    files = [ext / "still.css", source / "book" / "assets" / "fonts" / "STIXTwoMath.woff2"]
    files.append(source / "book" / "assets" / "cover.png")
    del config["comments_config"]
    return config | {
        "extensions": [name for name in config["extensions"] if name not in NOT_HERE],
        "project": this.title,
        "version": this.version,
        "release": this.version,
        "author": this.authors,
        "language": "en",
        "html_theme": "basic",
        "html_css_files": [],
        "html_static_path": [str(path) for path in files],
        "pygments_style": "a11y-high-contrast-light",
        "epub_basename": NAME,
        "epub_identifier": this.identifier,
        "epub_uid": this.identifier,
        "epub_description": this.abstract,
        "epub_contributor": this.authors,
        "epub_cover": ("_static/cover.png", "epub-cover.html"),
        "epub_css_files": ["still.css"],
        "epub_show_urls": "no",
        "epub_tocscope": "includehidden",
        "epub_tocdup": False,
        "epub_use_index": False,
    }


def build(source: Path, out: Path) -> Path:
    """Build the book of a folder; return the file. Raises: SystemExit if Sphinx warns of anything."""
    shutil.rmtree(out, ignore_errors=True)
    os.environ["SOURCE_DATE_EPOCH"] = str(edition.seconds(source))
    config = configuration(source) | {"nitpicky": True}
    with patch_docutils(), docutils_namespace():
        app = Sphinx(
            srcdir=source,
            confdir=None,
            outdir=out,
            doctreedir=out.with_name(f".{out.name}-doctrees"),
            buildername="epub",
            confoverrides=config,
            status=None,
            freshenv=True,
            warningiserror=True,
            keep_going=True,
        )
        app.build(force_all=True)
    if app.statuscode:
        sys.exit("The EPUB is not right: see the warnings above.")
    return out / f"{NAME}.epub"


def check(epub: Path) -> str:
    """Return epubcheck's last words. Raises: SystemExit if it finds an error or warns, or if CI has no epubcheck."""
    if not (shutil.which("java") and Path(CHECKER).exists()):
        words = "not checked: epubcheck is not installed (Debian: epubcheck, default-jre-headless)"
        return words if os.environ.get("CI") != "true" else sys.exit(f"{epub}: {words}")
    command = ["java", "-jar", CHECKER, "--failonwarnings", epub]
    found = subprocess.run(command, capture_output=True, text=True)
    printed = found.stdout + found.stderr
    if found.returncode:
        sys.exit(f"{printed}{epub}: epubcheck is not content")
    return next((line for line in printed.splitlines() if line.startswith("Messages")), printed.strip())


def main() -> int:
    """Build and check it."""
    epub = build(ROOT, BUILT)
    print(f"epubcheck: {check(epub)}")
    print(f"{epub} ({epub.stat().st_size / 1e6:.1f} MB)")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Pack the built pages for a stick: python -m pages.make_zip, and with --publish put all files of the book beside them.

The same pages give the same bytes. Whoever unpacks it opens index.html by a
double click.
"""

import shutil
import sys
from pathlib import Path

from pages import still
from pages.make_epub import BUILT, NAME, ROOT

SITE = ROOT / "_build" / "html"
ZIP = ROOT / "_build" / f"{NAME}.zip"
DOWNLOADS = SITE / "downloads"
LEFT_OUT = {".buildinfo", "objects.inv"}  # for Sphinx alone


def pack_site(site: Path, out: Path) -> Path:
    """Write the pages of a folder, without the downloads in it, as a zip with one folder in it. Return its path.

    Raises: SystemExit if there are no pages.
    """
    if not (site / "index.html").exists():
        sys.exit(f"{site} holds no book: run make book first.")
    files = [path for path in sorted(site.rglob("*")) if path.is_file() and path.name not in LEFT_OUT]
    files = [path for path in files if path.relative_to(site).parts[0] != DOWNLOADS.name]
    entries = [(f"{NAME}/{path.relative_to(site).as_posix()}", path.read_bytes()) for path in files]
    still.pack(out, [(f"{NAME}/", b""), *entries])
    return out


def publish() -> None:
    """Copy the zip, the EPUB and the PDF into the folder that is published."""
    DOWNLOADS.mkdir(exist_ok=True)
    for path in (ZIP, BUILT / f"{NAME}.epub", BUILT.with_name("pdf") / f"{NAME}.pdf"):
        shutil.copy(path, DOWNLOADS)
        print(DOWNLOADS / path.name)


def main() -> int:
    """Pack the pages, or publish what was made."""
    if sys.argv[1:] == ["--publish"]:
        publish()
    else:
        print(f"{pack_site(SITE, ZIP)} ({ZIP.stat().st_size / 1e6:.1f} MB): unpack it and open index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())

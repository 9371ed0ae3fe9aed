"""Copy the notebooks so that Colab runs them as they are: each installs the package of one commit.

    python -m pages.stamp FOLDER                                      this repository, this commit
    python -m pages.stamp FOLDER --repository ann/vit --commit 3f2a1c0

In a copy the setup cell installs exactly that commit, a badge comes first, and
links lead to GitHub and Colab. All else is as committed. GitHub Actions puts
the copies on the branch "colab" (.github/workflows/pages.yml). Needs Python
and git only.
"""

import argparse
import io
import json
import posixpath
import re
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

from pages import origin

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(!?)(\[[^\]]*\])\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
README = """\
# The notebooks, ready for Colab

Copies of the notebooks of commit [{short}](https://github.com/{slug}/commit/{commit}), made by `pages/stamp.py` at
each push: the first cell installs exactly that commit. Changes belong on the branch that they come from.

"""


def badge(slug: str, path: str) -> str:
    """Return the button that opens a notebook in Colab."""
    return f"[![Open in Colab]({origin.COLAB}/assets/colab-badge.svg)]({origin.in_colab(slug, path)})"


def led_out(text: str, path: str, slug: str, commit: str) -> str:
    """Return the Markdown of a notebook with links that lead somewhere from Colab, where it lies alone."""

    def link(found: re.Match) -> str:
        image, words, target = found[1], found[2], posixpath.normpath(f"{posixpath.dirname(path)}/{found[3]}")
        if image:
            return f"!{words}(https://raw.githubusercontent.com/{slug}/{commit}/{target})"
        if target.endswith(".ipynb"):
            return f"{words}({origin.in_colab(slug, target)})"
        return f"{words}(https://github.com/{slug}/blob/{commit}/{target}{found[4] or ''})"

    return LINK.sub(link, text.replace(f"https://github.com/{origin.UNKNOWN}", f"https://github.com/{slug}"))


def stamped(text: str, path: str, slug: str, commit: str) -> str:
    """Return a stored notebook as Colab shall open it; `path` is where it lies in the repository.

    Raises: ValueError if its setup cell does not name one archive.
    """
    notebook = json.loads(text)
    named = 0
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            source = led_out(source, path, slug, commit)
        elif cell["id"] == "setup":
            source, named = origin.ARCHIVE.subn(origin.archive(slug, commit), source)
        cell["source"] = source.splitlines(keepends=True)
    if named != 1:
        raise ValueError(f"the setup cell of {path} names {named} archives to install, and must name one")
    first = {"cell_type": "markdown", "id": "badge", "metadata": {}, "source": [badge(slug, path)]}
    notebook["cells"].insert(0, first)
    return json.dumps(notebook, sort_keys=True, indent=1, ensure_ascii=False) + "\n"


def committed(commit: str) -> dict[str, str]:
    """Return the notebooks of a commit: path -> text."""
    command = ["git", "-C", ROOT, "archive", "--format=tar", commit, "book"]
    packed = subprocess.run(command, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        names = sorted(name for name in files.getnames() if name.endswith(".ipynb"))
        return {name: files.extractfile(name).read().decode() for name in names}


def write(out: Path, slug: str, commit: str) -> list[str]:
    """Write the stamped notebooks of a commit, and a README that lists them, into a folder; return their paths."""
    notebooks = committed(commit)
    for path, text in notebooks.items():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_text(stamped(text, path, slug, commit), encoding="utf-8")
    lines = [f"- {badge(slug, path)} [{path}]({path})\n" for path in notebooks]
    listed = README.format(slug=slug, commit=commit, short=commit[:7]) + "".join(lines)
    (out / "README.md").write_text(listed, encoding="utf-8")
    return list(notebooks)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the copies that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repository", metavar="OWNER/NAME", help="of GitHub; by default that of the remote")
    parser.add_argument("--commit", default="HEAD", help="by default the commit at hand")
    options = parser.parse_args(arguments)
    slug = options.repository or origin.repository(folder=ROOT)
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", slug) or slug == origin.UNKNOWN:
        parser.error("no remote named origin leads to GitHub: use --repository OWNER/NAME")
    commit = origin.git("rev-parse", "--verify", "-q", f"{options.commit}^{{commit}}", folder=ROOT)
    if not commit:
        parser.error(f"there is no commit {options.commit!r} here")
    paths = write(options.folder, slug, commit)
    print(f"{len(paths)} notebooks of {slug} at {commit} are in {options.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

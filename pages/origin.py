"""Where this copy of the book comes from: its repository on GitHub, its branch, its commit. (Python and git only.)"""

import os
import re
import shutil
import subprocess
from pathlib import Path

UNKNOWN = "OWNER/REPO"  # in _config.yml and in the notebooks, wherever nobody has named a repository
COLAB = "https://colab.research.google.com"
BRANCH = "colab"  # of the stamped notebooks (pages/stamp.py)
SLUG = re.compile(r"(?:^|[/@.])github\.com(?::\d+)?[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/*$", re.IGNORECASE)
# What a notebook's setup cell installs on Colab.
ARCHIVE = re.compile(r"https://github\.com/[\w.-]+/[\w.-]+/archive/[\w./-]+\.zip")


def git(*arguments: str, folder: Path | str = ".") -> str:
    """Return what git says; nothing where there is no git, no repository or no such thing in it."""
    if not shutil.which("git"):
        return ""
    return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True).stdout.strip()


def repository(declared: str = UNKNOWN, folder: Path | str = ".") -> str:
    """Return the owner/name of the repository on GitHub that this is a copy of.

    BOOK_REPOSITORY counts first, then GITHUB_REPOSITORY (set in GitHub
    Actions), then the remote named origin, then what is declared.
    """
    for variable in ("BOOK_REPOSITORY", "GITHUB_REPOSITORY"):
        if os.environ.get(variable):
            return os.environ[variable]
    found = SLUG.search(git("remote", "get-url", "origin", folder=folder))
    return found[1] if found else declared


def branch(declared: str = "main", folder: Path | str = ".") -> str:
    """Return the branch to link to: that of the run in GitHub Actions, or the one at hand if a remote can have it.

    A pull request's "12/merge" and a tag are none: then it is what is declared.
    """
    name = os.environ.get("GITHUB_REF_NAME", "")
    if kind := os.environ.get("GITHUB_REF_TYPE"):
        return name if kind == "branch" and name and not name.endswith("/merge") else declared
    if not SLUG.search(git("remote", "get-url", "origin", folder=folder)):
        return declared
    return git("symbolic-ref", "--short", "-q", "HEAD", folder=folder) or declared


def commit(folder: Path | str = ".") -> str:
    """Return the commit at hand, or nothing where the folder is not the top of a repository."""
    top = git("rev-parse", "--show-toplevel", folder=folder)
    if not top or Path(top).resolve() != Path(folder).resolve():
        return ""
    return git("rev-parse", "--verify", "-q", "HEAD", folder=folder)


def pushed(folder: Path | str = ".") -> str:
    """Return the commit at hand if a branch of a remote has it, else nothing."""
    at = commit(folder)
    return at if at and git("branch", "-r", "--contains", at, folder=folder) else ""


def archive(slug: str, at: str) -> str:
    """Return the address of everything at a commit (or the tip of a branch), as pip installs it."""
    return f"https://github.com/{slug}/archive/{at}.zip"


def in_colab(slug: str, path: str) -> str:
    """Return the address at which Colab opens the stamped copy of a notebook."""
    return f"{COLAB}/github/{slug}/blob/{BRANCH}/{path}"

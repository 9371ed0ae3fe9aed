"""The Sphinx extension: links that follow the repository, MyST in comments, a strict build, citations."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import nbformat
import pytest
from pybtex.database import parse_file

from pages import extension, notebooks, origin
from tests.conftest import ROOT
from tests.pages import small_book

TEXTS = (".html", ".ipynb", ".js", ".md", ".txt")
VARIABLES = ("BOOK_REPOSITORY", "GITHUB_REPOSITORY", "GITHUB_REF_NAME", "GITHUB_REF_TYPE")
PAGE = """\
# One

$$
N = \\frac{HW}{P^2}
$$ <!-- (eq-n) -->

<!-- (sec-two)= -->
## Two

Equation [(N)](#eq-n), [this section](#sec-two), [a file](https://github.com/OWNER/REPO/blob/main/README.md).

![The legend](assets/drawings/legend.svg)

<!-- :::{exercise} Softmax
:label: ex-one
-->
Prove it.
<!-- ::: -->
"""


@pytest.fixture(autouse=True)
def no_variables(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    "remote, slug",
    [
        ("https://github.com/ann/vit.git", "ann/vit"),
        ("https://github.com/ann/vit", "ann/vit"),
        ("git@github.com:ann/my.vit-book.git", "ann/my.vit-book"),
        ("git@github.com:ann/vit", "ann/vit"),
        ("ssh://git@github.com/ann/vit/", "ann/vit"),
        ("ssh://git@github.com:22/ann/vit.git", "ann/vit"),
        ("ssh://git@ssh.github.com:443/ann/vit.git", "ann/vit"),
        ("git://github.com/ann/vit.git/", "ann/vit"),
        ("https://ann@GitHub.com/ann/ann.github.io", "ann/ann.github.io"),
        ("https://www.github.com/Ann-B/v_i.t.git", "Ann-B/v_i.t"),
        ("https://example.org/ann/vit.git", "OWNER/REPO"),
        ("https://notgithub.com/ann/vit.git", "OWNER/REPO"),
        ("https://github.com/ann", "OWNER/REPO"),
        (None, "OWNER/REPO"),
    ],
)
def test_repository_follows_the_remote(tmp_path, monkeypatch, remote, slug):
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    if remote:
        subprocess.run(["git", "remote", "add", "origin", remote], check=True)
    assert origin.repository("OWNER/REPO") == slug


def test_a_machine_without_git_takes_what_is_declared(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert origin.repository("OWNER/REPO") == "OWNER/REPO"


def test_variables_come_before_the_remote(monkeypatch):
    monkeypatch.setenv("GITHUB_REPOSITORY", "ben/fork")
    assert origin.repository("OWNER/REPO") == "ben/fork"
    monkeypatch.setenv("BOOK_REPOSITORY", "cat/fork")
    assert origin.repository("OWNER/REPO") == "cat/fork"


@pytest.mark.parametrize(
    "kind, name, found", [("branch", "dev", "dev"), ("branch", "12/merge", "main"), ("tag", "v1", "main")]
)
def test_branch_is_one_that_has_pages(monkeypatch, kind, name, found):
    monkeypatch.setenv("GITHUB_REF_TYPE", kind)
    monkeypatch.setenv("GITHUB_REF_NAME", name)
    assert origin.branch() == found


def test_without_variables_it_is_the_branch_at_hand_if_a_remote_can_have_it(tmp_path):
    git = ("git", "-C", tmp_path)
    subprocess.run(["git", "init", "-q", "-b", "lessons", tmp_path], check=True)
    assert origin.branch(folder=tmp_path) == "main" and origin.commit(tmp_path) == ""
    subprocess.run([*git, "remote", "add", "origin", "git@github.com:ann/vit.git"], check=True)
    assert origin.branch(folder=tmp_path) == "lessons"
    author = ("-c", "user.name=Ann", "-c", "user.email=ann@localhost")
    subprocess.run([*git, *author, "commit", "-q", "--allow-empty", "-m", "one"], check=True)
    assert re.fullmatch("[0-9a-f]{40}", commit := origin.commit(tmp_path)) and origin.pushed(tmp_path) == ""
    subprocess.run([*git, "update-ref", "refs/remotes/origin/lessons", "HEAD"], check=True)
    assert origin.pushed(tmp_path) == commit
    subprocess.run([*git, "checkout", "-q", "--detach"], check=True)
    assert origin.branch("dev", tmp_path) == "dev"
    (tmp_path / "inside").mkdir()
    assert origin.commit(tmp_path / "inside") == ""  # a copy inside another repository has none of its own


@pytest.mark.parametrize(
    "hidden, shown",
    [
        ("<!-- ::: -->", ":::\n"),
        ("<!-- :::{exercise} Softmax\n:label: ex-one\n-->", ":::{exercise} Softmax\n:label: ex-one\n"),
        ("<!-- (sec-a)= -->", "(sec-a)="),
        ("$$ <!-- (eq-a) -->", "$$ (eq-a)"),
        ("<!-- a remark: nothing -->", "<!-- a remark: nothing -->"),
    ],
)
def test_uncomment(hidden, shown):
    assert extension.uncomment(hidden) == shown


def build(folder: Path, page: str, *others: str) -> subprocess.CompletedProcess:
    """Build a book with our configuration, one notebook and others, in a clone of a fork, on its branch "lessons"."""
    small_book.lay_out(folder, "one", *others)
    cells = [nbformat.v4.new_markdown_cell(page), notebooks.setup_cell(origin.archive("OWNER/REPO", "main"))]
    metadata = {"language_info": {"name": "python"}}  # as pages/notebooks.py writes it
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), folder / "book" / "one.ipynb")
    for command in (
        ("init", "-q", "-b", "lessons"),
        ("remote", "add", "origin", "https://github.com/someone/else.git"),
        ("add", "book", "_config.yml", "_toc.yml"),
        ("-c", "user.name=Ann", "-c", "user.email=ann@localhost", "commit", "-q", "-m", "one"),
    ):
        subprocess.run(["git", "-C", folder, *command], check=True)
    return small_book.jupyter_book(folder)


SECONDS = {
    "result": {"full": {"one": 41.4, "two": 20.0}, "fast": {"one": 7.7, "two": 1.0}},
    "config": {"threads": 2},
    "device": "cpu (2 cores)",
    "command": "python -m experiments chapters",
}
CITED = """
## Three

Clothes [(Xiao et al., 2017)](https://arxiv.org/abs/1708.07747), timm
[(Wightman, 2019)](https://doi.org/10.5281/zenodo.4414861), [else](https://arxiv.org/abs/1).

<!-- :::{chapter-seconds}
-->
<!-- ::: -->

<!-- :::{bibliography}
:all:
-->
<!-- ::: -->
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """The folder of a small book, built once."""
    folder = tmp_path_factory.mktemp("built")
    (folder / "book" / "results").mkdir(parents=True)
    (folder / "book" / "results" / "chapters.json").write_text(json.dumps(SECONDS))
    two = nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# Two")])
    nbformat.write(two, folder / "book" / "two.ipynb")
    shutil.copy(ROOT / "book" / "references.bib", folder / "book")
    with pytest.MonkeyPatch.context() as patch:
        for name in VARIABLES:
            patch.delenv(name, raising=False)
        result = build(folder, PAGE + CITED, "two")
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture
def html(built) -> str:
    return (built / "_build" / "html" / "book" / "one.html").read_text()


def test_build_follows_a_fork(built, html):
    site = built / "_build" / "html"
    fork, commit = "https://github.com/someone/else", origin.commit(built)
    chapter, _ = html.split('<section id="three">')
    rest = html.split("</article>")[1]
    assert set(re.findall(r'href="(https://(?:github|colab)\.[^"]*)"', chapter + rest)) == {
        fork,  # the button that leads to the repository
        f"{fork}/blob/main/README.md",  # the page's own link
        f"{fork}/edit/lessons/book/one.ipynb",
        f"{fork}/issues/new?title=Issue%20on%20page%20%2Fbook/one.html&body=Your%20issue%20content%20here.",
        f"{fork}/commit/{commit}",  # below the page
        "https://colab.research.google.com/github/someone/else/blob/colab/book/one.ipynb",
    }
    assert f'<p>Built from commit <a href="{fork}/commit/{commit}"><code>{commit[:7]}</code></a>.</p>' in html
    for text in (re.sub(r"<[^>]+>", "", html), (site / "_sources" / "book" / "one.ipynb").read_text()):
        assert f"{fork}/archive/{commit}.zip" in text  # the first cell, in the page and in the notebook it offers
    assert not [path for path in site.rglob("*.*") if path.suffix in TEXTS and "OWNER/REPO" in path.read_text()]


def test_build_shows_hidden_myst(built, html):
    assert "Exercise 1" in html and 'id="ex-one"' in html
    assert 'href="#equation-eq-n"' in html
    assert 'href="#sec-two"' in html
    inside = re.findall(r'<svg class="vd vd-(\w+)"', html)
    assert inside == ["wide", "narrow"] and "<p><div" not in html  # the drawing itself, once for phones
    assert not list((built / "_build" / "html").rglob("*mathjax*"))
    assert re.search(
        r'<span class="eqno">\(1\).*?</span>\s*<math [^>]*display="block"><mi>N</mi><mo>=</mo><mfrac>', html
    )


def test_build_prints_the_seconds_of_each_chapter(html):
    rows = re.findall(r"<tr.*?</tr>", html, re.DOTALL)
    cells = [[re.sub(r"<[^>]+>", "", c).strip() for c in re.findall(r"<t[hd].*?</t[hd]>", r, re.DOTALL)] for r in rows]
    assert cells[1][1:] == ["41", "8"] and cells[2][1:] == ["20", "1"] and cells[3] == ["all", "61", "9"]
    assert "python -m experiments chapters" in re.sub(r"<[^>]+>", "", html)


def test_a_link_to_a_papers_address_leads_to_the_list_and_the_list_to_the_paper(html):
    for words, paper in (
        ("(Xiao et al., 2017)", "https://arxiv.org/abs/1708.07747"),
        ("(Wightman, 2019)", "https://doi.org/10.5281/zenodo.4414861"),
    ):
        link = re.search(rf'<a class="reference internal" href="#(\w+)" title="([^"]+)">{re.escape(words)}<', html)
        place, title = link.groups()
        entry = html[html.index(f'id="{place}"') :].split("</div>")[0]
        assert f'<a class="reference external" href="{paper}">' in entry and title[:10] in entry
    assert '<a class="reference external" href="https://arxiv.org/abs/1">else</a>' in html


def test_every_source_has_an_address_of_its_own():
    entries = parse_file(ROOT / "book" / "references.bib").entries
    assert [key for key, entry in entries.items() if extension.address(entry) is None] == []
    assert len({extension.address(entry) for entry in entries.values()}) == len(entries)

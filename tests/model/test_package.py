"""`import vitnb` by itself: every module is at hand, and none that is slow is loaded before it is used."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vitnb

ROOT = Path(__file__).resolve().parents[2]
SLOW = ("torchvision", "matplotlib", "sklearn", "ipywidgets", "anywidget", "safetensors", "timm")
ALONE = f"""
import pkgutil, sys
import vitnb
early = [name for name in {SLOW} if name in sys.modules]
assert not early, f"import vitnb loads {{early}}"
modules = [module.name for module in pkgutil.iter_modules(vitnb.__path__) if not module.name.startswith("_")]
assert set(modules) <= set(dir(vitnb))
missing = [name for name in modules if getattr(vitnb, name) is not sys.modules["vitnb." + name]]
assert not missing
assert vitnb.data.load("digits").name == "digits"
print(*modules)
"""


def test_every_module_works_after_import_vitnb_alone():
    result = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert {"data", "inspection", "plots", "training", "weights"} <= set(result.stdout.split())


def test_no_module_needs_itself():
    """Imports go downwards only, those for type hints and those inside functions included."""
    needs = {}
    for path in (ROOT / "vitnb").glob("*.py"):
        lines = re.findall(r"^\s*(?:from vitnb\.(\w+) import|from vitnb import (.+))", path.read_text(), re.MULTILINE)
        needs[path.stem] = {name for one, several in lines for name in (one, *re.findall(r"\w+", several)) if name}
    while needs:
        lowest = {name for name, below in needs.items() if not below & set(needs)}
        assert lowest, f"these import each other: {sorted(needs)}"
        needs = {name: below for name, below in needs.items() if name not in lowest}


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(vitnb, "date") and not hasattr(vitnb, "_nothing")
    with pytest.raises(ImportError, match="date"):
        from vitnb import date  # noqa: F401


def test_every_public_name_stands_once_and_is_there():
    assert sorted(vitnb.__all__) == sorted(set(vitnb.__all__))
    assert all(hasattr(vitnb, name) for name in vitnb.__all__)


def test_a_flag_is_read_in_one_way_only():
    folders = (ROOT / folder for folder in ("vitnb", "vitbook", "experiments", "pages", "tools"))
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        read = re.search(r"environ(?:\.get\(|\[)[\"']VITNB_(?:FAST|OFFLINE)", path.read_text())
        assert not read, f"{path}: use vitnb._validate.switched_on, for which 0 means no"


BARE = """
import re, sys
from importlib import metadata
from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder

def plain(name):
    return re.sub("[-_.]+", "-", name).lower()

INSTALLED = {plain(one.metadata["Name"]) for one in metadata.distributions()}

def needed(name, found):
    found.add(name)
    for line in metadata.requires(name) or ():
        inner = plain(re.match(r"[\\w.-]+", line)[0])
        if "extra ==" not in line and inner in INSTALLED - found:
            needed(inner, found)
    return found

ALLOWED = needed("vitnb", set())

class Bare:
    owners = metadata.packages_distributions()

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        owners = set(map(plain, cls.owners.get(name.split(".")[0], ())))
        return None if owners and not owners & ALLOWED else PathFinder.find_spec(name, path, target)

assert "matplotlib" not in ALLOWED and "torch" in ALLOWED
sys.meta_path[:] = [BuiltinImporter, FrozenImporter, Bare]
import torch
import vitnb
from vitnb.training import Recipe, fit
assert vitnb.__file__.startswith(sys.argv[1]), vitnb.__file__
model = vitnb.ViT(vitnb.ViTConfig(depth=1))
images, labels = torch.rand(24, 1, 28, 28), torch.arange(24) % 10
mine = vitnb.data.Dataset(images, labels, images, labels, tuple("0123456789"))
assert len(fit(model, mine, Recipe(epochs=1, batch_size=8)).losses) == 3
vitnb.weights.save(model, sys.argv[1] + "/m.safetensors")
assert torch.equal(vitnb.weights.load(sys.argv[1] + "/m.safetensors")(images), model(images))
try:
    import matplotlib
except ModuleNotFoundError:
    print("bare")
"""


def test_installed_bare_it_imports_builds_and_trains(tmp_path):
    """With what pyproject.toml says that vitnb needs, and with none of the extras."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--no-build-isolation"]
    source = tmp_path / "source"
    source.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("vitnb", "vitbook", "book/results"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([*pip, "--target", tmp_path / "site", source], check=True)
    (tmp_path / "bare.py").write_text(BARE)
    result = subprocess.run(
        [sys.executable, "-P", tmp_path / "bare.py", str(tmp_path / "site")],
        env=os.environ | {"PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert result.returncode == 0 and result.stdout == "bare\n", result.stderr

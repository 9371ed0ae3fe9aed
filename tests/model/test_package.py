"""`import vitnb` by itself: every module is at hand, and none that is slow is loaded before it is used."""

import re
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

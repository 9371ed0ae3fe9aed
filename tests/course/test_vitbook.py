"""`import vitbook` by itself: every module is at hand, none is loaded early, none loads JAX; the wheel holds all."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ALONE = """
import pkgutil, sys
import vitbook
early = [name for name in sys.modules if name.startswith(("vitbook.", "torch"))]
assert not early, f"import vitbook loads {early}"
modules = [module.name for module in pkgutil.iter_modules(vitbook.__path__) if not module.name.startswith("_")]
assert {*modules, "budget", "check", "quiz"} <= set(dir(vitbook))
missing = [name for name in modules if getattr(vitbook, name) is not sys.modules["vitbook." + name]]
assert not missing and not hasattr(vitbook, "date")
from vitbook import budget, check, quiz
assert check is vitbook.exercises.check and quiz is vitbook.quizzes.quiz and budget(2, 2) == 2
import experiments.jax_step
assert not {"jax", "flax", "optax"} & set(sys.modules)
print(*modules)
"""


def test_every_module_works_after_import_vitbook_alone():
    result = subprocess.run([sys.executable, "-c", ALONE], cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert {"exercises", "faults", "figures", "grading", "images", "results"} <= set(result.stdout.split())


def test_the_wheel_holds_every_file_of_figures_and_quizzes(tmp_path):
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    ignore = shutil.ignore_patterns("__pycache__")
    for folder in ("vitnb", "vitbook", "book/results"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignore)
    build = "from setuptools import build_meta; print(build_meta.build_wheel('.'))"
    result = subprocess.run([sys.executable, "-c", build], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    (wheel,) = tmp_path.glob("*.whl")
    packed = set(zipfile.ZipFile(wheel).namelist())
    figures = (path for kind in ("js", "css", "gz") for path in (ROOT / "vitbook" / "figures").rglob(f"*.{kind}"))
    needed = {path.relative_to(ROOT).as_posix() for path in figures}
    assert "vitbook/figures/kit/kit.css" in needed
    needed |= {f"vitbook/records/{path.name}" for path in (ROOT / "book" / "results").glob("*.[js][sa]*")}
    needed |= {f"vitbook/photos/{path.name}" for path in (ROOT / "vitbook").rglob("photos/*.jpg")}
    assert "vitbook/photos/cat.jpg" in needed
    needed |= {f"vitbook/exercises/quizzes/{path.name}" for path in (ROOT / "vitbook").rglob("quizzes/*.md")}
    assert "vitbook/exercises/quizzes/00.md" in needed
    assert needed <= packed, f"not in the wheel: {sorted(needed - packed)}"

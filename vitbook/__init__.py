"""vitbook: what only the book needs, beside the model in vitnb.

Exercises and their checks, the wrong versions (faults), live figures, drawings,
quizzes, stored results, and the teacher's side (grading).
"""

import importlib
import importlib.util
import pkgutil
from typing import Any

FUNCTIONS = {"budget": "budgets", "check": "exercises", "quiz": "quizzes"}  # {name: its module}


def __getattr__(name: str) -> Any:
    """Import a module of vitbook, or one of three functions, when it is first used: `import vitbook` is cheap."""
    if name in FUNCTIONS:
        return getattr(importlib.import_module(f"vitbook.{FUNCTIONS[name]}"), name)
    if not name.startswith("_") and importlib.util.find_spec(f"vitbook.{name}"):
        return importlib.import_module(f"vitbook.{name}")
    raise AttributeError(f"module 'vitbook' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Name the modules too: for the Tab key."""
    return sorted({*globals(), *FUNCTIONS, *(module.name for module in pkgutil.iter_modules(__path__))})

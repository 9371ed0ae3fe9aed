"""Instant checks of the exercises: check("1.2", my_unpatchify).

One module per chapter, one declaration per exercise (declaration.py); engine.py
calls the answers, forms.py has what several exercises share.
"""

import importlib
import pkgutil

from vitbook.exercises import state
from vitbook.exercises.engine import check

__all__ = ["check"]

for _module in pkgutil.iter_modules(__path__):
    if _module.name.startswith("chapter_"):
        importlib.import_module(f"{__name__}.{_module.name}")  # it registers its exercises

state.remember()

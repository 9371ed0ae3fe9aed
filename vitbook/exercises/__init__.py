"""Instant checks of the exercises: check("1.2", my_unpatchify).

One module per chapter, one declaration per exercise (declaration.py); engine.py
calls the answers, forms.py has what several exercises share.
"""

from vitbook.exercises import (  # noqa: F401  (they register their exercises)
    chapter_00,
    chapter_01,
    chapter_02,
    chapter_03,
    chapter_04,
    chapter_05,
    chapter_06,
    chapter_07,
    chapter_08,
    chapter_09,
    chapter_10,
    chapter_11,
    chapter_12,
    chapter_13,
    chapter_14,
    chapter_15,
    chapter_16,
    chapter_jax,
    state,
)
from vitbook.exercises.engine import check

__all__ = ["check"]

state.remember()

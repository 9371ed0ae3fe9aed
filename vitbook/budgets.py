"""How much a live cell of the book does."""

from vitnb._validate import switched_on


def budget(full: int, fast: int) -> int:
    """Choose how much a live cell of the book does: fast with VITNB_FAST=1 (a smoke run), else full."""
    return fast if switched_on("VITNB_FAST") else full

"""The appendix needs JAX: without it nbval skips that notebook."""

import pytest
from notebooks import NEEDS, missing


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the cells of notebooks that cannot run here, and say why."""
    for item in items:
        name = item.path.stem
        if item.path.suffix == ".ipynb" and missing(name):
            reason = (
                f"{name}.ipynb needs {missing(name)}: {NEEDS[name][1]}"
            )
            item.add_marker(pytest.mark.skip(reason=reason))

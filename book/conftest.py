"""Skip notebooks that cannot run here; give a kernel three tries."""

from collections.abc import Callable
from functools import wraps

import nbval.kernel
import pytest

from pages.notebooks import NEEDS, missing


def pytest_configure() -> None:
    """Give nbval's kernels more than one chance."""
    nbval.kernel.start_new_kernel = started(nbval.kernel.start_new_kernel)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip the cells of notebooks that cannot run here, and say why."""
    for item in items:
        name = item.path.stem
        if item.path.suffix == ".ipynb" and missing(name):
            reason = (
                f"{name}.ipynb needs {missing(name)}: {NEEDS[name][1]}"
            )
            item.add_marker(pytest.mark.skip(reason=reason))


def started(start: Callable, times: int = 3) -> Callable:
    """Start a kernel again that dies at once.

    A kernel's ports are drawn before it listens, and another program may
    take one of them meanwhile.
    """

    @wraps(start)
    def starts(*args, **kwargs):
        for _ in range(times - 1):
            try:
                return start(*args, **kwargs)
            except RuntimeError as error:
                if "Kernel died" not in str(error):
                    raise
        return start(*args, **kwargs)

    return starts

"""How pytest runs notebooks: nbval's options, and what is left out."""

import os
from collections.abc import Callable
from functools import wraps

import nbval.kernel
import pytest

from pages.notebooks import NEEDS, missing


def pytest_configure(config: pytest.Config) -> None:
    """Set nbval's options, and give its kernels more than one chance."""
    config.option.nbval_lax = config.option.nbval_current_env = True
    # A cell takes a minute, and ten where a machine has much else to do.
    config.option.nbval_cell_timeout = 900.0
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
    """Start a kernel for a smoke run, and again if it dies at once.

    No output that is compared depends on budget(); VITNB_FAST= (set to
    nothing) runs the cells at full size. A kernel's ports are drawn before
    it listens, and another program may take one of them meanwhile.
    """

    @wraps(start)
    def starts(*args, **kwargs):
        kwargs["env"] = {"VITNB_FAST": "1"} | os.environ
        for _ in range(times - 1):
            try:
                return start(*args, **kwargs)
            except RuntimeError as error:
                if "Kernel died" not in str(error):
                    raise
        return start(*args, **kwargs)

    return starts

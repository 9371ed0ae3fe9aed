"""python -m vitnb.examine my_vit.py:build --image 3 32 32 --classes 10: a report, and 1 if something breaks."""

import argparse
import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path

from vitnb.examine import examine


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m vitnb.examine", description="Examine a Vision Transformer.")
    parser.add_argument(
        "build", help="where a function stands that returns a model: my_vit.py:build, or package.module:build"
    )
    parser.add_argument("--image", nargs=3, type=int, default=(3, 32, 32), metavar=("C", "H", "W"))
    parser.add_argument("--classes", type=int, default=10, metavar="K")
    parser.add_argument("--allow", nargs="*", default=(), metavar="CODE", help="findings that are so by design")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    try:
        report = examine(found(options.build), tuple(options.image), options.classes, options.allow)
    except (ValueError, TypeError) as error:
        parser.error(str(error))
    print(report.to_json() if options.json else report)
    return report.exit_status


def found(where: str) -> Callable:
    """The function that FILE.py:NAME or MODULE:NAME names.

    Raises: ValueError if there is none.
    """
    place, _, name = where.rpartition(":")
    if not place or not name:
        raise ValueError(f"build must be FILE.py:NAME, got {where!r}: use my_vit.py:build, for example")
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        return getattr(module, name)
    except (OSError, ImportError, AttributeError) as error:
        raise ValueError(f"build {where!r} cannot be had: {error}: use my_vit.py:build, for example") from error


def _from_file(path: Path):
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}")
    sys.path.insert(0, str(path.parent.resolve()))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader  # it ends in .py
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())

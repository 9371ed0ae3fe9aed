"""The reference of vitnb, from its docstrings: a directive that lists what a module offers, by Sphinx's autodoc."""

import importlib
import re
from types import ModuleType

from sphinx.application import Sphinx
from sphinx.config import Config

import vitnb
from pages.about import Facts

FIELD = re.compile(r"^(Shapes|Raises|Source): ", re.MULTILINE)
QUOTED = re.compile(r'"\w+"|[\\*|_`]')  # a value, or what reStructuredText would take for more than a letter


def offered(module: ModuleType) -> list[str]:
    """Return the full names of what a module offers, in the order of its file.

    A part of the model offers what `vitnb` itself exports of it, under that
    shorter name, and what else it names in __all__; any other module its
    __all__, or all that it defines.
    """
    own = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    if exported := [name for name in own if name in vitnb.__all__]:
        more = [name for name in getattr(module, "__all__", []) if name not in exported]
        callables = [name for name in more if callable(getattr(module, name))]
        return [f"vitnb.{name}" for name in exported] + [f"{module.__name__}.{name}" for name in callables]
    public = [name for name in own if not name.startswith("_")]
    return [f"{module.__name__}.{name}" for name in getattr(module, "__all__", public)]


def entry(name: str) -> str:
    """Return the directive of autodoc for a class or a function."""
    module, _, short = name.rpartition(".")
    if isinstance(getattr(importlib.import_module(module), short), type):
        return f".. autoclass:: {name}\n   :members:\n"
    return f".. autofunction:: {name}\n"


class Api(Facts):
    """What a module of vitnb offers, each with its docstring."""

    required_arguments = 1

    def text(self) -> str:
        """Return the entries. Raises: ModuleNotFoundError if there is no such module."""
        module = importlib.import_module(self.arguments[0])
        self.env.note_dependency(module.__file__)
        return "\n".join(["```{eval-rst}", *map(entry, offered(module)), "```"])


def restructured(docstring: str) -> str:
    """Return a docstring of vitnb in reStructuredText: an indented paragraph is code, Shapes and so on are fields."""
    made = []
    for paragraph in docstring.strip().split("\n\n"):
        plain = QUOTED.sub(lambda found: f"``{found[0]}``" if len(found[0]) > 1 else f"\\{found[0]}", paragraph)
        made.append(f"::\n\n{paragraph}" if paragraph.startswith(" ") else FIELD.sub(r":\1: ", plain))
    return "\n\n".join(made)


def rewrite(app: Sphinx, what: str, name: str, thing: object, options: dict, lines: list[str]) -> None:
    """Let autodoc read a docstring as ours are written."""
    lines[:] = restructured("\n".join(lines)).splitlines()


def drop_arguments(
    app: Sphinx, what: str, name: str, thing: object, options: dict, signature: str, result: str
) -> tuple:
    """Show no arguments where nn.Module only passes on whatever it gets."""
    return ("()" if what == "class" and "**kwargs" in (signature or "") else signature), result


def ask_nobody(app: Sphinx, config: Config) -> None:
    """Leave the types of other packages without a link: their own pages are on other hosts."""
    config.nitpick_ignore_regex = [*config.nitpick_ignore_regex, ("py:.*", ".*")]


def setup(app: Sphinx) -> None:
    """Register what is here."""
    app.setup_extension("sphinx.ext.autodoc")
    app.config.autodoc_member_order = "bysource"
    app.config.autodoc_inherit_docstrings = False  # or each forward gets that of nn.Module
    app.add_directive("api", Api)
    app.connect("config-inited", ask_nobody)
    app.connect("autodoc-process-docstring", rewrite)
    app.connect("autodoc-process-signature", drop_arguments)

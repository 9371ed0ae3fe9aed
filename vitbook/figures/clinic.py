"""A patient with one hidden bug: order tests, exclude suspects, name the bug (chapter 12)."""

import ast
import difflib
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib.figure
import torch
import traitlets
from matplotlib import pyplot as plt
from torch import Tensor
from torch.nn import functional as F

from vitbook.faults import FAULTS, Fault
from vitbook.faults.wire import _centred, _variance
from vitbook.figures._base import Figure, module, style
from vitnb._validate import choice
from vitnb.blocks import PreNormBlock
from vitnb.patches import patchify

MOST_TESTS = 12  # the page tries all sets of them, to say how few would do


class Clinic(Figure):
    """Find the bug of one patient after the other by tests whose verdicts are known.

    refused says for each bug of vitbook.faults which of the tests refuse a model with it, change
    what it does to the accuracy, (points, half of the interval), where that was measured. The
    suspects are one bug of each group that the tests tell apart: all tests together leave one.

    `patient` counts from 0; `ordered` holds the tests and `accused` the bugs that the reader chose
    for this patient, `moves` how many tests and wrong names each patient before took.

    Raises: ValueError if refused has other bugs or verdicts, or for a patient, test or bug that is not there.
    """

    _esm = module("clinic.js")
    _css = style("clinic.css")

    tests = traitlets.List(traitlets.Unicode()).tag(sync=True)
    bugs = traitlets.List(traitlets.Dict()).tag(sync=True)  # {name, symptom, verdicts, points, code}
    patient = traitlets.Int(0).tag(sync=True)
    ordered = traitlets.List(traitlets.Int()).tag(sync=True)
    accused = traitlets.List(traitlets.Int()).tag(sync=True)
    moves = traitlets.List(traitlets.Int()).tag(sync=True)

    def __init__(
        self, tests: Sequence[str], refused: Mapping[str, Sequence[bool]], change: Mapping[str, Sequence[float]]
    ):
        if not (1 <= len(tests) <= MOST_TESTS and refused):
            raise ValueError(
                f"tests and refused must have 1 to {MOST_TESTS} tests and a bug, got {len(tests)} and {len(refused)}: "
                "use ['reference'] and {'causal': [True]}, for example"
            )
        bugs = []
        for name, verdicts in refused.items():
            fault = FAULTS[choice("a bug of refused", name, FAULTS)]
            if len(verdicts) != len(tests):
                raise ValueError(f"refused[{name!r}] has {len(verdicts)} verdicts: use {len(tests)}, one for each test")
            text = "".join(str(int(verdict)) for verdict in verdicts)
            points = "{:+.1f} ± {:.1f}".format(*change[name]) if name in change else ""
            bug = {"name": name, "symptom": fault.symptom, "points": points, "code": difference(fault)}
            bugs.append(bug | {"verdicts": text})
        order = torch.randperm(len(bugs), generator=torch.Generator().manual_seed(0))  # neighbours are alike
        super().__init__(tests=list(tests), bugs=[bugs[n] for n in order])

    def still(self) -> matplotlib.figure.Figure:
        shown = list({bug["verdicts"]: bug for bug in self.bugs}.values())  # one of each group
        table = [[int(bug["verdicts"][t]) for bug in shown] for t in range(len(self.tests))]
        figure, axis = plt.subplots(figsize=(6.4, 3.6))
        axis.imshow(table, cmap="Blues", vmin=0, vmax=1.3, aspect="auto")
        axis.set_yticks(range(len(self.tests)), self.tests, fontsize=9)
        axis.set_xticks(range(len(shown)), [bug["name"] for bug in shown], fontsize=9, rotation=40, ha="right")
        return figure

    @traitlets.validate("patient", "ordered", "accused")
    def _check(self, proposal: dict[str, Any]) -> int | list[int]:
        name, value = proposal["trait"].name, proposal["value"]
        count = len(self.tests if name == "ordered" else self.bugs)
        for one in value if isinstance(value, list) else [value]:
            if not 0 <= one < count:
                raise ValueError(f"{name} must lie between 0 and {count - 1}, got {one}: use 0, for example")
        return value


# ---- What a bug changes


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """What torch's fused kernel computes."""
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v


def normalise(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    """What torch's layer norm computes."""
    return gain * _centred(x) / (_variance(x) + eps).sqrt() + bias


class Block(PreNormBlock):
    """The book's block, which has no layer scale."""

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


# The right version where torch has it in C++, or vitnb with what is no part of the difference.
RIGHT = {F.scaled_dot_product_attention: attend, F.layer_norm: normalise, PreNormBlock: Block, patchify: None}
MOST_LINES = 2  # of a right version that is shown beside a bug


def difference(fault: Fault) -> str:
    """Return the lines of a bug, and those of the right version that they replace where these are few, as a diff."""
    right, wrong = RIGHT.get(fault.replaces, fault.replaces), fault.wrong
    pairs = [(right, wrong)]
    if inspect.isclass(wrong):
        own = {name: part for name, part in vars(wrong).items() if inspect.isfunction(part)}
        pairs = [(getattr(right, name, None), part) for name, part in own.items()]
    lines = []
    for old, new in ((_lines(old), _lines(new)) for old, new in pairs):
        hides = len(old) > MOST_LINES or any("super()" in line for line in new)
        lines += [line for line in difflib.ndiff([] if hides else old, new) if line[0] in "+-"]
    return "\n".join(lines)


def _lines(function: Callable | None) -> list[str]:
    """The body of a function without its docstring."""
    if function is None:
        return []
    source = textwrap.dedent(inspect.getsource(function))
    node = ast.parse(source).body[0]
    first = node.body[ast.get_docstring(node) is not None].lineno
    return textwrap.dedent("\n".join(source.splitlines()[first - 1 :])).splitlines()

"""One change of the recipe at a time: the curves of stored runs, and what each change is worth (chapter 10)."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.figure
import numpy as np
import traitlets
from matplotlib import pyplot as plt

from vitbook.figures._base import Figure, check_whole, module, within
from vitnb import plots
from vitnb.evaluation import interval

USE = "use results.result('recipes')"
CURVES = {"losses": "losses", "train": "train_accuracy_by_epoch", "validation": "validation_accuracy_by_epoch"}
VIEWS = ("training loss", "training accuracy (%)", "validation accuracy (%), on a sample")


class RecipeExplorer(Figure):
    """Pick one change of the recipe and see its runs beside those of the recipe: curves and final accuracies.

    record is a stored experiment: record["result"]["runs"] has, for each
    recipe, one run for each seed, all recipes with the same seeds. The first
    is what all others are compared with.
    change (0 is none) and view (0 the loss, 1 training accuracy, 2 validation accuracy)
    follow the reader's choice.

    Raises: TypeError or ValueError if the record is not as above, or there is no such change or view.
    """

    _esm = module("recipe_explorer.js")

    arms = traitlets.List(traitlets.Unicode()).tag(sync=True)
    seeds = traitlets.Int(0).tag(sync=True)  # how many
    epochs = traitlets.Int(0).tag(sync=True)
    steps = traitlets.List(traitlets.Int()).tag(sync=True)  # of each arm
    points = traitlets.List(traitlets.Int()).tag(sync=True)  # of each arm's loss curve
    losses = traitlets.Bytes().tag(sync=True)  # float32, for each arm (seeds, points)
    train = traitlets.Bytes().tag(sync=True)  # float32, (arms, seeds, epochs)
    validation = traitlets.Bytes().tag(sync=True)  # float32, (arms, seeds, epochs)
    final = traitlets.Bytes().tag(sync=True)  # float32, (arms, seeds)
    change = traitlets.Int(0).tag(sync=True)
    view = traitlets.Int(0).tag(sync=True)

    def __init__(self, record: Mapping[str, Any], change: int = 0, view: int = 0):
        runs = _runs(record)
        first = next(iter(runs.values()))
        super().__init__(
            arms=list(runs),
            seeds=len(first),
            epochs=len(first[0]["validation_accuracy_by_epoch"]),
            steps=[arm[0]["steps"] for arm in runs.values()],
            points=[len(arm[0]["losses"]) for arm in runs.values()],
            final=_floats(run["validation_accuracy"] for arm in runs.values() for run in arm),
            **{
                name: _floats(value for arm in runs.values() for run in arm for value in run[key])
                for name, key in CURVES.items()
            },
        )
        check_whole(change=change, view=view)
        self.change, self.view = change, view

    def accuracies(self) -> np.ndarray:
        """Return the accuracy at the end, on all validation images: (arms, seeds)."""
        return np.frombuffer(self.final, np.float32).reshape(len(self.arms), self.seeds)

    def still(self) -> matplotlib.figure.Figure:
        figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2))
        shown = [0, self.change] if self.change else [0]
        for arm, colour in zip(shown, plots.COLORS, strict=False):
            xs, curves = self._curves(arm)
            plots.mean_and_range(left, xs, curves.tolist(), self.arms[arm], colour)
        left.set(xlabel="epoch" if self.view else "step", ylabel=VIEWS[self.view])
        left.legend(fontsize=8)
        final = 100 * self.accuracies()
        places = range(len(self.arms))
        mean, reach = interval(final)
        right.errorbar(mean, places, xerr=reach, fmt="o", capsize=3, color=plots.COLORS[0])
        right.set_yticks(places, self.arms, fontsize=8)
        right.invert_yaxis()
        right.set_xlabel(f"final accuracy (%), 95 % interval, n={self.seeds}")
        return figure

    def _curves(self, arm: int) -> tuple[np.ndarray, np.ndarray]:
        """The curves of an arm that view shows: where its points lie (P,), and the values (seeds, P)."""
        if self.view:
            values = np.frombuffer(self.train if self.view == 1 else self.validation, np.float32)
            values = values.reshape(len(self.arms), self.seeds, self.epochs)[arm]
            return np.arange(1, self.epochs + 1), 100 * values
        start, count = self.seeds * sum(self.points[:arm]), self.points[arm]
        values = np.frombuffer(self.losses, np.float32)[start : start + self.seeds * count]
        width = math.ceil(self.steps[arm] / count)
        starts = width * np.arange(count)
        return (starts + np.minimum(starts + width, self.steps[arm])) / 2, values.reshape(self.seeds, count)

    @traitlets.validate("change", "view")
    def _check(self, proposal: dict[str, Any]) -> int:
        return within(proposal, {"change": len(self.arms) - 1, "view": len(VIEWS) - 1})


def _floats(values: Any) -> bytes:
    return np.fromiter(values, np.float32).tobytes()


def _runs(record: Any) -> dict[str, list[dict]]:
    """Return the runs of a record if they can be compared."""
    if not isinstance(record, Mapping):
        raise TypeError(f"record must be a stored experiment, got {type(record).__name__}: {USE}")
    result = record.get("result")
    runs = result.get("runs") if isinstance(result, Mapping) else None
    if not isinstance(runs, Mapping) or not runs:
        raise ValueError(f"record must have ['result']['runs'] by recipe, got {list(record)}: {USE}")
    if len(runs) < 2:
        raise ValueError(f"record must hold a recipe and at least one change of it, got {list(runs)}: {USE}")
    seeds = None
    for name, arm in runs.items():
        if not isinstance(arm, Sequence) or isinstance(arm, str) or not all(isinstance(run, Mapping) for run in arm):
            raise TypeError(f"record's runs of {name!r} must be a list of runs, got {type(arm).__name__}: {USE}")
        missing = {"seed", "validation_accuracy", "steps", *CURVES.values()}.difference(*[set(run) for run in arm[:1]])
        found = [run.get("seed") for run in arm]
        if missing or len(found) < 2 or found != (seeds or found):
            expected = seeds or "two at least"
            raise ValueError(
                f"record's runs of {name!r} have the seeds {found} and lack {sorted(missing)}: "
                f"use seeds {expected}, or {USE}"
            )
        seeds = found
        _check_arm(name, arm, len(next(iter(runs.values()))[0]["validation_accuracy_by_epoch"]))
    return dict(runs)


def _check_arm(name: str, arm: Sequence[Mapping], epochs: int) -> None:
    """Raise unless the runs of one recipe have as many points each, all of them sound numbers."""
    for run in arm:
        where = f"record's run of {name!r}, seed {run['seed']},"
        lengths = [len(run.get(key, [])) for key in CURVES.values()]
        expected = [len(arm[0]["losses"]), epochs, epochs]
        if lengths != expected or not all(lengths) or not 0 < lengths[0] <= run["steps"] == arm[0]["steps"]:
            raise ValueError(
                f"{where} has curves of {lengths} points and {run['steps']} steps: use {expected}, or {USE}"
            )
        shares = [run["validation_accuracy"], *run["train_accuracy_by_epoch"], *run["validation_accuracy_by_epoch"]]
        for value in (*shares, *run["losses"]):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise ValueError(f"{where} holds {value!r}: use numbers that are finite, or {USE}")
        if not all(0 <= value <= 1 for value in shares):
            raise ValueError(
                f"{where} has accuracies of {min(shares)} to {max(shares)}: use shares such as 0.8, or {USE}"
            )

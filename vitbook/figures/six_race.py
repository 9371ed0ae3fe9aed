"""Six programs learn side by side in the page, and one of them is right (chapter 00)."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.figure
import torch
import traitlets
from matplotlib import pyplot as plt

from vitbook.figures._base import Figure, module, style
from vitbook.figures._train_data import CONFIGS, packed
from vitbook.figures.train_race import step_count
from vitnb import plots
from vitnb._validate import choice

# Which of the models of book/results/six_curves.json is behind which letter, and what is said to whoever bets on it.
SIX_CURVES = {
    "A": "last read first",
    "B": "listed blocks",
    "C": "split by view",
    "D": "softmax inside",
    "E": "right",
    "F": "reshape alone",
}
WORDS = {
    "A": "A puts its answer into one token and reads another one. Its curve can hardly be told from the right one's.",
    "B": "B hides most of its layers from the optimizer, so they stay as random as they were. It learns all the same.",
    "C": "C mixes up which features belong to which token. The rest of this chapter shows how that can help.",
    "D": "D has one softmax too many. A curve that rises more slowly does not reveal that.",
    "E": "One bug makes no difference that we can see, two cost accuracy, and two raise it.",
    "F": "F divides the image into strips of pixels, not into squares. On these images that even helps.",
}


class SixRace(Figure):
    """Bet which of six programs is right, watch all six learn, and see which of six tests each one fails.

    All are trained in the page on the digits, from one seed and on the same
    batches. accuracy holds stored runs behind which the curves grow, for each
    name of SIX_CURVES (runs, epochs). The traits follow the reader: bet is a
    letter or "", which asks for a new bet; accuracies holds how a race ended.

    Raises: ValueError if a name has no stored runs, or for another seed or steps.
    """

    _esm = module("six_race/main.js")
    _css = style("six_race/six_race.css", "train_race/train_race.css")

    worker = traitlets.Unicode(module("train_worker.js")).tag(sync=True)
    programs = traitlets.List().tag(sync=True)  # {letter, fault, words}
    stored = traitlets.Dict().tag(sync=True)  # letter: [lowest, highest], by epoch
    images = traitlets.Dict().tag(sync=True)

    seed = traitlets.Int(0).tag(sync=True)
    steps = traitlets.Int(400).tag(sync=True)
    bet = traitlets.Unicode("").tag(sync=True)
    accuracies = traitlets.Dict().tag(sync=True)

    def __init__(self, accuracy: Mapping[str, Sequence[Sequence[float]]], seed: int = 0, steps: int = 400):
        if missing := [name for name in SIX_CURVES.values() if name not in accuracy]:
            raise ValueError(f"accuracy has no runs of {missing[0]!r}: use results.result('six_curves')")
        self._runs = {letter: torch.tensor(accuracy[name]) for letter, name in SIX_CURVES.items()}  # (runs, epochs)
        digits = packed("digits")
        faults = {letter: "" if name == "right" else name for letter, name in SIX_CURVES.items()}
        super().__init__(
            programs=[{"letter": one, "fault": faults[one], "words": WORDS[one]} for one in SIX_CURVES],
            stored={one: [runs.amin(0).tolist(), runs.amax(0).tolist()] for one, runs in self._runs.items()},
            images={"bytes": digits.bytes, "meta": digits.meta, "config": CONFIGS["digits"].to_dict()},
            seed=seed,
            steps=steps,
        )

    def still(self) -> matplotlib.figure.Figure:
        figure, axis = plt.subplots(figsize=(6.4, 4))
        ends = {letter: 100 * runs[:, -1].mean().item() for letter, runs in self._runs.items()}
        for n, (letter, runs) in enumerate(self._runs.items()):
            epochs = range(1, runs.shape[1] + 1)
            color = plots.COLORS[n]
            axis.plot(epochs, 100 * runs.mean(0), color=color, marker="os^DvP"[n], ms=5)
            axis.fill_between(epochs, 100 * runs.amin(0), 100 * runs.amax(0), color=color, alpha=0.13)
            axis.text(10.25, _apart(ends)[letter], letter, color=color, va="center", weight="bold", fontsize=13)
        axis.set(xlabel="epoch", ylabel="test accuracy (%)", ylim=(20, 101))
        axis.set_xticks(range(1, 11))
        return figure

    @traitlets.validate("bet")
    def _check_bet(self, proposal: dict[str, Any]) -> str:
        return choice("bet", proposal["value"], ("", *SIX_CURVES))

    @traitlets.validate("seed")
    def _check_seed(self, proposal: dict[str, Any]) -> int:
        if proposal["value"] < 0:
            raise ValueError(f"seed must be at least 0, got {proposal['value']}: use 0, for example")
        return proposal["value"]

    @traitlets.validate("steps")
    def _check_steps(self, proposal: dict[str, Any]) -> int:
        return step_count(proposal["value"])


def _apart(ends: dict[str, float], least: float = 5.0) -> dict[str, float]:
    """Where the letters stand that the curves end in: near their ends, and none on another."""
    places, order = dict(ends), sorted(ends, key=ends.get)
    for _ in range(3 * len(order)):
        for below, above in zip(order, order[1:], strict=False):
            missing = max(0.0, least - (places[above] - places[below]))
            places[below] -= missing / 2
            places[above] += missing / 2
    return places

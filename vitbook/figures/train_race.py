"""A right ViT and one with a fault learn side by side in the page (chapter 00)."""

from collections.abc import Sequence
from typing import Any

import matplotlib.figure
import traitlets
from matplotlib import pyplot as plt

from vitbook.faults import FAULTS, TESTS
from vitbook.figures._base import Figure, module, style
from vitbook.figures._train_data import CONFIGS, packed
from vitnb import plots
from vitnb._validate import choice, positive_int

FAMILIES = {
    "cut": "cut: images into patches",
    "place": "place: positions",
    "attend": "attend: attention",
    "wire": "wire: blocks and norms",
    "pool": "pool: from tokens to logits",
    "train": "train: the training loop",
}
CHANGES = (
    "reshape alone",
    "made in each call",
    "split by view",
    "merged by reshape",
    "undivided",
    "softmax over queries",
    "softmax twice",
    "uniform",
    "normalise then add",
    "post norm",
    "no plus",
    "last read first",
    "unused positions",
    "softmax inside",
    "gradient not cleared",
    "not shuffled",
)
POSITIONS = ("learned", "std 1", "none")
BETS = ("", "yours", "right", "equal")
SEEDS = range(10)
MAX_STEPS = 2000
TABLE = ("made in each call", "unused positions")  # wrong only where there is a position table
# What makes a map of attention, drawn over the image, no longer a map of the cls token's attention to patches.
MAPS = {
    "reshape alone": "its patches are strips of pixels, not squares",
    "split by view": "a row of the map is no longer one token",
    "last read first": "what the first patch attends to, since it is read",
}


class TrainRace(Figure):
    """Bet, press Train, and watch a right ViT and one with a fault learn from the same initialisation and batches.

    Both models are trained in the page, by its own engine, in a worker: no
    kernel, no network; the same seed gives the same bits. fault is one of
    CHANGES, by its name in vitbook.faults; positions says how the position table
    of both models starts: "learned" (standard deviation 0.02), "std 1" or "none"
    (there is no table). dataset is "digits", "fashion_mnist" (400 KB in
    the page) or a list of both, between which the reader chooses.

    The traits follow the reader, and move the figure when they are set. bet is
    "yours", "right", "equal" or "" and asked again for each contest; races
    lists the last eight as {dataset, fault, positions, seed, steps, bet, accuracies},
    the right model's accuracy first.

    Raises: TypeError or ValueError for another fault, positions, seed, steps or dataset;
        RuntimeError where Fashion-MNIST is not to be had.
    """

    _esm = module("train_race/main.js")
    _css = style("train_race/train_race.css", "live_vit/live_vit.css")

    worker = traitlets.Unicode(module("train_worker.js")).tag(sync=True)
    changes = traitlets.List().tag(sync=True)
    images = traitlets.Dict().tag(sync=True)  # name: {bytes, meta, config}

    dataset = traitlets.Unicode().tag(sync=True)
    fault = traitlets.Unicode().tag(sync=True)
    positions = traitlets.Unicode("learned").tag(sync=True)
    seed = traitlets.Int(0).tag(sync=True)
    steps = traitlets.Int(400).tag(sync=True)
    bet = traitlets.Unicode("").tag(sync=True)
    races = traitlets.List().tag(sync=True)

    def __init__(
        self,
        dataset: str | Sequence[str] = "digits",
        fault: str = "split by view",
        positions: str = "learned",
        seed: int = 0,
        steps: int = 400,
    ):
        names = [dataset] if isinstance(dataset, str) else list(dataset)
        if not names:
            raise ValueError('dataset is empty: use "digits"')
        images = {}
        for name in names:
            one = packed(choice("dataset", name, CONFIGS))
            images[name] = {"bytes": one.bytes, "meta": one.meta, "config": CONFIGS[name].to_dict()}
        self._names = names  # what dataset may be
        super().__init__(
            changes=[_change(name) for name in CHANGES],
            images=images,
            dataset=names[0],
            fault=fault,
            positions=positions,
            seed=seed,
            steps=steps,
        )

    def still(self) -> matplotlib.figure.Figure:
        seen = FAULTS[self.fault].seen_by or frozenset()
        if self.positions == "none":  # no table, no order to test
            seen = frozenset() if self.fault in TABLE else seen - {"order"}
        figure, axis = plt.subplots(figsize=(6.2, 2.9))
        axis.axis("off")
        figure.suptitle(f"Which model will be ahead after {self.steps} steps?", fontsize=11)
        for x, name, dark in ((0.3, "right", ()), (0.62, f"yours: {self.fault}", seen)):
            axis.text(x, 0.95, name, weight="bold")
            for row, test in enumerate(TESTS):
                fails = test in dark
                words = "✗ fails" if fails else "✓ passes"
                axis.text(x, 0.8 - 0.145 * row, words, color=plots.COLORS[1 if fails else 2])
        axis.text(0, 0.95, "six tests", weight="bold")
        for row, test in enumerate(TESTS):
            axis.text(0, 0.8 - 0.145 * row, test)
        return figure

    @traitlets.validate("fault", "positions", "bet", "dataset")
    def _check_word(self, proposal: dict[str, Any]) -> str:
        name = proposal["trait"].name
        allowed = {"fault": CHANGES, "positions": POSITIONS, "bet": BETS, "dataset": self._names}
        return choice(name, proposal["value"], allowed[name])

    @traitlets.validate("seed")
    def _check_seed(self, proposal: dict[str, Any]) -> int:
        if proposal["value"] not in SEEDS:
            raise ValueError(f"seed must lie between 0 and 9, got {proposal['value']}: use 0, for example")
        return proposal["value"]

    @traitlets.validate("steps")
    def _check_steps(self, proposal: dict[str, Any]) -> int:
        return step_count(proposal["value"])


def step_count(value: object) -> int:
    """How many steps a race takes; raises TypeError or ValueError for what is no such number."""
    steps = positive_int("steps", value)
    if steps > MAX_STEPS:
        raise ValueError(f"steps must be at most {MAX_STEPS}, got {steps}: use 400, for example")
    return steps


def _change(name: str) -> dict[str, Any]:
    """What the page must know of a fault: its name, family, words, and what becomes of its maps."""
    fault = FAULTS[name]
    short = fault.symptom.split(":")[0].split(" (")[0].split(", so that")[0]
    return {
        "name": name,
        "family": FAMILIES[fault.family],
        "training": fault.family == "train",
        "symptom": short,
        "table": name in TABLE,
        "cls_last": name == "last read first",
        "map": MAPS.get(name, ""),
    }

"""An experiment as data: what its script sets, once, for the script itself, its record and the tests."""

from dataclasses import asdict
from typing import Any

from vitnb import ViTConfig
from vitnb.training import Recipe

JUDGED_ON = {  # by the purpose of an experiment: the images that may judge its trainings
    "choice": "validation",  # something is chosen by its result
    "mechanism": "test",  # it shows how something works, and chooses nothing
    "refit": None,  # what another experiment chose, once more on all training images: nothing is left to judge by
    "untrained": None,
}


class Experiment:
    """What an experiment sets, by name: THIS.recipe in its script is "recipe" in its record.

    side_by_side says how many of its trainings run at a time, torch_threads on
    how many threads this process computes (None: as many as torch likes). A
    purpose of "timing" trains nothing that is judged.
    """

    def __init__(
        self,
        seeds: list[int],
        purpose: str,
        side_by_side: int = 1,
        torch_threads: int | None = 1,
        device: str = "cpu",
        data: str | None = "fashion_mnist",
        **settings: Any,
    ):
        self.seeds, self.purpose, self.side_by_side, self.torch_threads = seeds, purpose, side_by_side, torch_threads
        judged_on = {} if purpose == "timing" else {"judged_on": JUDGED_ON[purpose]}
        self.settings = {"device": device} | ({"data": data} if data else {}) | judged_on | settings

    def __getattr__(self, name: str) -> Any:
        try:
            return vars(self)["settings"][name]
        except KeyError:
            raise AttributeError(f"this experiment sets no {name}") from None

    def config(self) -> dict[str, Any]:
        """The settings as plain values, for the record."""
        return {name: _plain(value) for name, value in self.settings.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, ViTConfig):
        return value.to_dict()
    if isinstance(value, Recipe):
        return asdict(value)
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value

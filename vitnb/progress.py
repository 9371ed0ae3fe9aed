"""Chapter 9: callbacks of a training, a progress line and a live curve.

In a notebook both redraw one output in place, and their last state holds no
time of day and no speed: running the notebook again leaves the same bytes.
"""

import io
import sys
import time
from typing import Any

from vitnb.training import Training

BLUE, ORANGE = "#0072b2", "#d55e00"  # Okabe and Ito: distinct to colour-blind eyes


class _Display:
    """A callback that shows where a training stands: at most once in `every` seconds, and at its end."""

    def __init__(self, every: float = 1.0):
        self.every = every
        self._run: Training | None = None

    def __call__(self, run: Training) -> None:
        if self._run is not run:
            self._run, self._next, self._output = run, 0.0, _Output()
        if run.finished or time.monotonic() >= self._next:
            self._show(run)
            self._next = time.monotonic() + self.every

    def _show(self, run: Training) -> None:
        raise NotImplementedError


class ProgressBar(_Display):
    """One line: how far, which loss, which accuracy.

    Rewritten at most once in `every` seconds; in a notebook in its cell, in a
    terminal on stderr, elsewhere one line an epoch on stderr.
    """

    def _show(self, run: Training) -> None:
        if in_notebook():
            self._output.show({"text/plain": _line(run)})
        elif sys.stderr.isatty():
            print("\r\x1b[K" + _line(run), end="\n" if run.finished else "", file=sys.stderr, flush=True)
        elif run.epoch_ends:
            print(_line(run), file=sys.stderr, flush=True)


class LiveCurve(_Display):
    """Loss and accuracy on training and held-out images, redrawn in the notebook while it trains; nothing elsewhere."""

    def _show(self, run: Training) -> None:
        if in_notebook():
            alt = f"Loss and accuracy on the training and the {run.data.held_out} images. {_line(run)}"
            self._output.show({"image/png": draw_curves(run), "text/plain": alt}, {"image/png": {"alt": alt}})


def draw_curves(run: Training) -> bytes:
    """The image of LiveCurve, as PNG; the same history gives the same bytes."""
    from matplotlib.figure import Figure  # without pyplot: no global state, no second display

    history, held_out = run.history, run.data.held_out
    figure = Figure(figsize=(8, 2.8), dpi=100, layout="constrained")
    left, right = figure.subplots(1, 2)
    steps, losses = _smooth(history.losses)
    left.plot(steps, losses, color=BLUE, label="training")
    ends = [min(run.steps_per_epoch * (epoch + 1), run.steps) for epoch in range(len(history.test_loss))]
    left.plot(ends, history.test_loss, "o-", color=ORANGE, markersize=3, label=held_out)
    left.set(xlabel="step", ylabel="loss", xlim=(0, run.steps * 1.02))
    left.legend(frameon=False, loc="upper right")
    for name, values, color in (("training", history.train_accuracy, BLUE), (held_out, history.test_accuracy, ORANGE)):
        right.plot(range(1, len(values) + 1), [100 * v for v in values], "o-", color=color, markersize=3, label=name)
    right.set(xlabel="epoch", ylabel="accuracy (%)", xlim=(0.5, run.epochs + 0.5))
    right.legend(frameon=False, loc="lower right")
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None}, pil_kwargs={"optimize": True})
    return buffer.getvalue()


def in_notebook() -> bool:
    """Whether this runs in a Jupyter kernel."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    return hasattr(get_ipython(), "kernel")


def _line(run: Training) -> str:
    parts = [f"epoch {run.epoch}/{run.epochs}", f"step {run.step}/{run.steps}", f"loss {run.loss:.3f}"]
    if run.history.test_accuracy:
        parts.append(f"{run.data.held_out} accuracy {100 * run.history.test_accuracy[-1]:.1f} %")
    return ", ".join(parts)


def _smooth(losses: list[float], points: int = 300) -> tuple[list[float], list[float]]:
    """Means of equal stretches, each at the middle of its stretch."""
    width = max(1, len(losses) // points)
    starts = range(0, len(losses) - width + 1, width)
    return [start + width / 2 for start in starts], [sum(losses[s : s + width]) / width for s in starts]


class _Output:
    """One output of a notebook cell that can be replaced."""

    def __init__(self):
        self.handle: Any = None

    def show(self, data: dict[str, Any], metadata: dict[str, Any] | None = None) -> None:
        from IPython.display import display

        if self.handle is None:
            self.handle = display(data, metadata=metadata or {}, raw=True, display_id=True)
        else:
            self.handle.update(data, metadata=metadata or {}, raw=True)

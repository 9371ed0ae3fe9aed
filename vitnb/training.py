"""Training an image classifier: one loop, and what stands beside it (chapter 09).

Every step draws its batch, its augmentation and its dropout from the recipe's
seed and its own number alone. So a run that was stopped anywhere goes on
exactly as if it had not been, and on a CPU ends with the same bits.
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitnb import _processes
from vitnb._checkpoint import keeping
from vitnb.data import Dataset, augment
from vitnb.evaluation import Evaluation, History, count_look, device_of, dtype_of, evaluate, final_test, looks
from vitnb.progress import LiveCurve, ProgressBar, Run
from vitnb.recipe import Optimizer, Recipe, decay_groups, muon_matrices

__all__ = [
    "Evaluation",
    "History",
    "LiveCurve",
    "ProgressBar",
    "Recipe",
    "Training",
    "decay_groups",
    "evaluate",
    "final_test",
    "fit",
    "looks",
    "loop",
    "muon_matrices",
]

LOOK_EVERY = 50  # steps between looks at the losses: each look makes a GPU wait


def fit(
    model: nn.Module,
    data: Dataset,
    recipe: Recipe | None = None,
    callbacks: Sequence[Callable[[Run], None]] = (),
    checkpoint: str | Path | None = None,
    save_every: float = 30.0,
) -> History:
    """Train a model that turns images (B, C, H, W) into logits (B, K); it comes back in eval mode.

    The images move to the model's device; the last incomplete batch of an
    epoch is left out. After each step every callback gets the Training. With a
    checkpoint, the run is saved after each epoch, every save_every seconds and
    at Ctrl-C; the same call goes on where the file stands, or returns at once
    if it was finished.

    In a program that torchrun started several times, each process takes its
    share of every batch, the gradients are averaged (DistributedDataParallel),
    and the first process alone calls the callbacks and writes the checkpoint.
    Without dropout and BatchNorm the weights are those of one process, up to rounding.

    Raises: ValueError for images with NaN, a batch larger than the training set or no multiple
        of the processes, logits of a wrong shape or a checkpoint of another run; FloatingPointError
        if the loss is no number any more; KeyboardInterrupt after Ctrl-C, between two steps, once all is saved.
    """
    _processes.join(device_of(model))
    recipe = Recipe() if recipe is None else recipe
    run = Training(model, data, recipe)
    gpus = [run.device] if run.device.type == "cuda" else []
    model.train()
    try:
        with torch.random.fork_rng(gpus), keeping(run, callbacks, checkpoint, save_every) as after_step:
            for _ in loop(run):
                after_step()
    finally:
        model.eval()
    return run.history


def loop(run: "Training") -> Iterator[int]:
    """Train from the step where a run stands to its last one: the loop of chapter 9.

    It yields the number of each step that is done, so that whoever asks for
    the next one may look, save or stop in between.
    """
    recipe, model, optimizer = run.recipe, run.parallel, run.optimizer
    while not run.finished:
        with run.clock():
            images, labels = run.batch()  # (B, C, H, W), (B,)
            lr = recipe.lr_at(run.step, run.steps)
            optimizer.set_lr(lr)
            with torch.autocast(run.device.type, torch.bfloat16, enabled=run.half):
                logits = model(images)  # (B, K)
                _check_logits(logits, len(labels), len(run.data.classes))
                loss = F.cross_entropy(logits, labels, label_smoothing=recipe.label_smoothing)
            optimizer.zero_grad()
            loss.backward()
            if recipe.clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), recipe.clip)
            optimizer.step()
            run.note(loss.detach(), (logits.argmax(1) == labels).sum(), lr)
        if run.step % run.steps_per_epoch == 0:
            run.end_epoch()
        yield run.step


class Training:
    """A training under way: what loop advances and callbacks see.

    To be read: model, data, recipe; step of steps, epoch (from 1) of
    recipe.epochs; lr; loss and history (looking at these two makes a GPU wait).
    """

    def __init__(self, model: nn.Module, data: Dataset, recipe: Recipe):
        _check(model, data, recipe)
        self.model, self.recipe, self.device = model, recipe, device_of(model)
        self.share = _processes.share(recipe.batch_size)  # this process' part of a batch
        self.parallel = _processes.parallel(model, self.device)  # the model itself, if there is one process
        self.data = data.to(self.device)
        self.half = recipe.autocast and self.device.type == "cuda"
        self.steps_per_epoch = len(data.train_labels) // recipe.batch_size
        self.steps = recipe.epochs * self.steps_per_epoch
        self.step = 0
        self.optimizer = Optimizer(model, recipe)
        self._history = History()
        self._unseen: list[Tensor] = []  # losses that still lie on the device
        self._correct = torch.zeros((), dtype=torch.long, device=self.device)  # in this epoch
        self._order: Tensor | None = None

    @property
    def finished(self) -> bool:
        return self.step == self.steps

    @property
    def epoch(self) -> int:
        return max(1, math.ceil(self.step / self.steps_per_epoch))

    @property
    def lr(self) -> float:
        return self.history.lrs[-1]

    @property
    def loss(self) -> float:
        return self.history.losses[-1]

    @property
    def history(self) -> History:
        self._fetch()
        return self._history

    def batch(self) -> tuple[Tensor, Tensor]:
        """Draw the images (B, C, H, W) and labels (B,) of the next step: always the same ones for the same step."""
        epoch, index = divmod(self.step, self.steps_per_epoch)
        if index == 0 or self._order is None:
            self._seed(2 * epoch + 1)
            self._order = torch.randperm(len(self.data.train_labels), device=self.device)  # (N,)
        self._seed(2 * self.step)
        size, r = self.recipe.batch_size, self.recipe
        chosen = self._order[index * size : (index + 1) * size]  # (B,)
        images = augment(self.data.train_images[chosen], None, r.flip and self.data.mirror, r.shift, r.erase)
        if self.share.start:  # else each process would drop the same features of other images
            self._seed(2 * self.step + 1_000_003 * self.share.start)
        images, labels = images[self.share], self.data.train_labels[chosen][self.share]
        return self.data.normalize(images).to(dtype_of(self.model)), labels

    def note(self, loss: Tensor, correct: Tensor, lr: float) -> None:
        """Take in a step: this process' loss, and how many of its images the model had right."""
        loss, correct = _processes.total(torch.stack([loss, correct]))  # of all processes
        self.step += 1
        self._unseen.append(loss / _processes.world()[1])
        self._correct += correct.long()
        self._history.lrs.append(lr)
        self._history.images += self.recipe.batch_size
        if self.step % LOOK_EVERY == 0:
            self._fetch()

    def end_epoch(self) -> None:
        """Sum the epoch up, and test the model."""
        with self.clock():
            self._fetch()  # waits for the GPU
        history, n = self._history, self.steps_per_epoch
        history.train_loss.append(sum(history.losses[-n:]) / n)
        history.train_accuracy.append(self._correct.item() / (n * self.recipe.batch_size))
        self._correct.zero_()
        if len(self.data.test_labels):
            result = evaluate(self.model, self.data.normalize(self.data.test_images), self.data.test_labels)
            history.test_loss.append(result.loss)
            history.test_accuracy.append(result.accuracy)
            if self.data.held_out == "test":
                count_look(self.model)

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Count the time within as training."""
        start, cpu = time.perf_counter(), time.process_time()
        yield
        self._history.seconds += time.perf_counter() - start
        self._history.cpu_seconds += time.process_time() - cpu

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next step needs.

        Raises: FloatingPointError if the loss is no number any more: such a state is not worth keeping.
        """
        return {
            "step": self.step,
            "correct": self._correct,
            "history": asdict(self.history),
            "model": self.model.state_dict(),
            "optimizers": self.optimizer.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take another run's place."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizers"])
        self.step, self._correct, self._history = state["step"], state["correct"], History(**state["history"])

    def _seed(self, number: int) -> None:
        seed = self.recipe.seed * 1_000_003 + number
        if self.device.type == "cpu":
            torch.default_generator.manual_seed(seed)  # torch.manual_seed looks for GPUs at each call
        else:
            torch.manual_seed(seed)

    def _fetch(self) -> None:
        """Get the losses since the last time, and stop at one that is no number."""
        fresh = torch.stack(self._unseen).tolist() if self._unseen else []
        self._unseen.clear()
        for loss in fresh:
            if not math.isfinite(loss):
                step = len(self._history.losses) + 1
                raise FloatingPointError(
                    f"the loss is {loss} at step {step} of {self.steps} (lr {self._history.lrs[step - 1]:.2g}):"
                    f" try lr={self.recipe.lr / 3:.2g}, clip=1.0 or a longer warmup"
                )
            self._history.losses.append(loss)


def _check(model: nn.Module, data: Dataset, recipe: Recipe) -> None:
    if not isinstance(data, Dataset):
        raise TypeError(f"data must be a vitnb.data.Dataset, got {type(data).__name__}: use data.load()")
    if not isinstance(recipe, Recipe):
        raise TypeError(f"recipe must be a Recipe, got {type(recipe).__name__}: use Recipe(epochs=20)")
    if not any(parameter.requires_grad for parameter in model.parameters()):
        raise ValueError(f"model {type(model).__name__} has no parameter to train: use model.requires_grad_(True)")
    data.__post_init__()  # its tensors may have changed since
    n = len(data.train_labels)
    if n < recipe.batch_size:
        raise ValueError(f"batch_size is {recipe.batch_size}, but there are {n} training images: use {n or 1} or fewer")


def _check_logits(logits: Tensor, batch: int, classes: int) -> None:
    if logits.shape != (batch, classes):
        raise ValueError(f"model returns shape {tuple(logits.shape)}: use logits of ({batch}, {classes})")

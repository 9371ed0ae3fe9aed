"""Training a picture classifier: a recipe, one loop, honest numbers (chapter 07).

Every step draws its batch, its augmentation and its dropout from the recipe's
seed and its own number alone. So a run that was stopped anywhere goes on
exactly as if it had not been, and on a CPU ends with the same bits.
"""

import hashlib
import math
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitnb import _processes
from vitnb._checkpoint import patient_ctrl_c, read, write
from vitnb._validate import choice, positive_float, positive_int, probability, switched_on
from vitnb.data import Dataset, augment
from vitnb.progress import LiveCurve, ProgressBar

__all__ = [
    "Evaluation",
    "History",
    "LiveCurve",
    "ProgressBar",
    "Recipe",
    "Training",
    "budget",
    "decay_groups",
    "evaluate",
    "fit",
    "muon_matrices",
]

LOOK_EVERY = 50  # steps between looks at the losses: each look makes a GPU wait


@dataclass(frozen=True)
class Recipe:
    """How to train: everything but the model and the data.

    Raises: ValueError or TypeError for a value that no training can have.
    """

    epochs: int = 20
    batch_size: int = 128
    lr: float = 3e-3  # the highest, reached after the warm-up
    betas: tuple[float, float] = (0.9, 0.99)  # 0.999 remembers 1,000 steps: too long for a short run
    weight_decay: float = 0.05  # of matrices only: see decay_groups
    warmup: float = 0.05  # share of the steps; Adam's first estimates are poor
    schedule: str = "cosine"  # or "constant"
    optimizer: str = "adamw"  # or "sgd", with betas[0] as its momentum; or "muon": see muon_matrices
    clip: float | None = 1.0  # longest gradient: one odd batch cannot throw the weights away
    label_smoothing: float = 0.0
    flip: bool = True  # only where data.mirror says that a mirrored picture keeps its class
    shift: int = 1  # pixels
    erase: float = 0.0  # share of the pictures that lose a rectangle
    autocast: bool = True  # bfloat16 on a GPU; a CPU computes in float32 either way
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            positive_int(name, getattr(self, name))
        positive_float("lr", self.lr)
        if self.clip is not None:
            positive_float("clip", self.clip)
        if len(self.betas) != 2:
            raise ValueError(f"betas must be two numbers, got {self.betas!r}: use (0.9, 0.99)")
        object.__setattr__(self, "betas", tuple(probability("betas", beta) for beta in self.betas))
        for name in ("warmup", "label_smoothing"):
            probability(name, getattr(self, name))
        choice("schedule", self.schedule, ("cosine", "constant"))
        choice("optimizer", self.optimizer, ("adamw", "sgd", "muon"))
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"weight_decay must be at least 0 and finite, got {self.weight_decay!r}: use 0.05 or 0")
        if not isinstance(self.shift, int) or self.shift < 0:
            raise ValueError(f"shift must be a whole number of pixels, got {self.shift!r}: use 1, or 0 for none")
        if not 0 <= self.erase <= 1:
            raise ValueError(f"erase must lie in [0, 1], got {self.erase!r}: use 0.25, or 0 for none")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"seed must be a whole number from 0 on, got {self.seed!r}: use 0")

    def lr_at(self, step: int, steps: int) -> float:
        """The learning rate of a step (from 0) of so many: up in a line, then down half a cosine."""
        rising = round(self.warmup * steps)
        if step < rising:
            return self.lr * (step + 1) / rising
        if self.schedule == "constant":
            return self.lr
        return self.lr * 0.5 * (1 + math.cos(math.pi * (step - rising) / (steps - rising)))


@dataclass
class History:
    """What a training left behind, as plain numbers.

    Per step: losses, lrs. Per epoch: train_* on the batches as they were trained
    on (augmented, with dropout, smoothed), test_* on the whole test set. The
    result is the last epoch's, never the best one's: choosing by the test set is
    cheating. seconds counts the training steps, not the evaluations;
    cpu_seconds is the processor time of the same steps, all threads together,
    without what other programs took meanwhile.
    """

    losses: list[float] = field(default_factory=list)
    lrs: list[float] = field(default_factory=list)
    train_loss: list[float] = field(default_factory=list)
    train_accuracy: list[float] = field(default_factory=list)
    test_loss: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    images: int = 0

    @property
    def images_per_second(self) -> float:
        return self.images / self.seconds if self.seconds else 0.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self) | {"images_per_second": self.images_per_second}


@dataclass(frozen=True)
class Evaluation:
    """How a model does on pictures it has not trained on. logits are (N, K), the others follow from them."""

    accuracy: float
    loss: float
    logits: Tensor
    labels: Tensor

    @property
    def predictions(self) -> Tensor:
        return self.logits.argmax(1)  # (N,)

    @property
    def probabilities(self) -> Tensor:
        return self.logits.softmax(1)  # (N, K)

    @property
    def confusion(self) -> Tensor:
        """(K, K): row = the true class, column = what the model says."""
        k = self.logits.shape[1]
        return torch.bincount(self.labels * k + self.predictions, minlength=k * k).view(k, k)


def budget(full: int, fast: int) -> int:
    """Choose how much a live cell of the book does: fast with VITNB_FAST=1 (a smoke run), else full."""
    return fast if switched_on("VITNB_FAST") else full


@torch.no_grad()
def evaluate(model: nn.Module, images: Tensor, labels: Tensor, batch_size: int = 1000) -> Evaluation:
    """Run a model in eval mode over pictures and compare with their labels.

    Shapes: images (N, C, H, W), already normalised: data.normalize(data.test_images); labels (N,).
    Raises: TypeError for uint8 images; ValueError for none, or another number of labels.
    """
    if not images.is_floating_point():
        raise TypeError(f"images must be normalised floats, got {images.dtype}: use data.normalize(images)")
    if len(images) == 0 or len(images) != len(labels):
        raise ValueError(f"images and labels must be equally many and at least 1, got {len(images)} and {len(labels)}")
    positive_int("batch_size", batch_size)
    was_training, device = model.training, _device(model)
    model.eval()
    try:
        batches = images.split(batch_size)
        logits = torch.cat([model(batch.to(device, _dtype(model))).float() for batch in batches]).cpu()  # (N, K)
    finally:
        model.train(was_training)
    labels = labels.cpu()
    accuracy = (logits.argmax(1) == labels).float().mean().item()
    return Evaluation(accuracy, F.cross_entropy(logits, labels).item(), logits, labels)


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups: weight decay for matrices and kernels, none for the rest.

    Decay pulls a product's weights to zero; a bias, a norm's gain or a token
    that is added has no reason to be small. Tokens and position tables have
    several axes like matrices, so the model names them in no_weight_decay().
    """
    named = model.no_weight_decay() if hasattr(model, "no_weight_decay") else set()
    groups: dict[bool, list[nn.Parameter]] = {True: [], False: []}
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            groups[parameter.ndim >= 2 and name not in named].append(parameter)
    return [{"params": groups[True], "weight_decay": weight_decay}, {"params": groups[False], "weight_decay": 0.0}]


def muon_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The matrices that Muon trains: those of the blocks; all else is AdamW's.

    Muon makes every direction of an update equally long, which suits a matrix
    between two layers; patch embedding, positions, cls token, norms, biases
    and the head are no such matrices.

    Raises: ValueError if the model has no blocks, or torch no Muon.
    Source: Jordan et al. 2024; the length of the update: Liu et al. 2025, section 2.2.
    """
    blocks = getattr(model, "blocks", None)
    if not isinstance(blocks, nn.Module):
        raise ValueError(f"optimizer 'muon' needs a model with blocks, got {type(model).__name__}: use 'adamw'")
    if not hasattr(torch.optim, "Muon"):
        raise ValueError(f"optimizer 'muon' needs torch 2.9 or newer, got {torch.__version__}: use 'adamw'")
    return [parameter for parameter in blocks.parameters() if parameter.requires_grad and parameter.ndim == 2]


def fit(
    model: nn.Module,
    data: Dataset,
    recipe: Recipe | None = None,
    callbacks: Sequence[Callable[["Training"], None]] = (),
    checkpoint: str | Path | None = None,
    save_every: float = 30.0,
) -> History:
    """Train a model that turns images (B, C, H, W) into logits (B, K); it comes back in eval mode.

    The pictures move to the model's device; the last incomplete batch of an
    epoch is left out. After each step every callback gets the Training. With a
    checkpoint, the run is saved after each epoch, every save_every seconds and
    at Ctrl-C; the same call goes on where the file stands, or returns at once
    if it was finished.

    In a program that torchrun started several times, each process takes its
    share of every batch, the gradients are averaged (DistributedDataParallel),
    and the first process alone calls the callbacks and writes the checkpoint.
    Without dropout and BatchNorm the weights are those of one process, up to rounding.

    Raises: ValueError for pictures with NaN, a batch larger than the training set or no multiple
        of the processes, logits of a wrong shape or a checkpoint of another run; FloatingPointError
        if the loss is no number any more; KeyboardInterrupt after Ctrl-C, between two steps, once all is saved.
    """
    _processes.join(_device(model))
    run = Training(model, data, recipe or Recipe())
    if checkpoint is not None:
        if Path(checkpoint).exists():
            run.resume(Path(checkpoint))
        _processes.check_alike(run.step, Path(checkpoint), run.device)
    if _processes.world()[0] > 0:
        callbacks, checkpoint = (), None
    model.train()
    try:
        with torch.random.fork_rng([run.device] if run.device.type == "cuda" else []), patient_ctrl_c() as pressed:
            for callback in callbacks if run.finished else ():
                callback(run)
            saved = time.monotonic()
            while not run.finished:
                run.advance()
                due = run.step % run.steps_per_epoch == 0 or time.monotonic() - saved >= save_every
                if checkpoint is not None and due:
                    run.save(Path(checkpoint))
                    saved = time.monotonic()
                for callback in callbacks:
                    callback(run)
                if pressed.is_set():
                    if checkpoint is not None:
                        run.save(Path(checkpoint))
                    where = f"saved in {checkpoint}: the same call goes on" if checkpoint else "no checkpoint asked for"
                    print(f"Interrupted after step {run.step} of {run.steps}; {where}.")
                    raise KeyboardInterrupt
    finally:
        model.eval()
    return run.history


class Training:
    """A training under way: what fit advances and callbacks see.

    To be read: model, data, recipe; step of steps, epoch (from 1) of
    recipe.epochs; lr; loss and history (looking at these two makes a GPU wait).
    """

    def __init__(self, model: nn.Module, data: Dataset, recipe: Recipe):
        _check(data, recipe)
        self.model, self.recipe, self.device = model, recipe, _device(model)
        self._share = _processes.share(recipe.batch_size)
        self._parallel = _processes.parallel(model, self.device)
        self.data = data.to(self.device)
        self.steps_per_epoch = len(data.train_labels) // recipe.batch_size
        self.steps = recipe.epochs * self.steps_per_epoch
        self.step = 0
        self.optimizers = _optimizers(model, recipe)
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
        self._look()
        return self._history

    def advance(self) -> None:
        """One step down the gradient; at the end of an epoch, the test as well."""
        with self._clock():
            images, labels = self._batch()
            lr = self.recipe.lr_at(self.step, self.steps)
            for optimizer in self.optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = lr
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self._half):
                logits = self._parallel(images)  # (B, K)
                _check_logits(logits, len(labels), len(self.data.classes))
                loss = F.cross_entropy(logits, labels, label_smoothing=self.recipe.label_smoothing)
            for optimizer in self.optimizers:
                optimizer.zero_grad()
            loss.backward()
            if self.recipe.clip is not None:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
            for optimizer in self.optimizers:
                optimizer.step()
            seen = torch.stack([loss.detach(), (logits.argmax(1) == labels).sum()])
            self._note(_processes.total(seen), lr)
        if self.step % self.steps_per_epoch == 0:
            self._end_epoch()

    def save(self, path: Path) -> None:
        """Write everything that the next step needs; the old file stays until the new one is complete."""
        history = self.history.to_dict()
        state = {
            "identity": self._identity,
            "step": self.step,
            "correct": self._correct,
            "history": {key: value for key, value in history.items() if key != "images_per_second"},
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }
        write(path, state)

    def resume(self, path: Path) -> None:
        """Take a checkpoint's place in the run.

        Raises: ValueError if it is damaged or belongs to another recipe, model or data.
        """
        state = read(path, self._identity, self.device)
        self.model.load_state_dict(state["model"])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self._correct, self._history = state["step"], state["correct"], History(**state["history"])

    @property
    def _half(self) -> bool:
        return self.recipe.autocast and self.device.type == "cuda"

    def _batch(self) -> tuple[Tensor, Tensor]:
        epoch, index = divmod(self.step, self.steps_per_epoch)
        if index == 0 or self._order is None:
            self._seed(2 * epoch + 1)
            self._order = torch.randperm(len(self.data.train_labels), device=self.device)  # (N,)
        self._seed(2 * self.step)
        size, r = self.recipe.batch_size, self.recipe
        chosen = self._order[index * size : (index + 1) * size]  # (B,)
        images = augment(self.data.train_images[chosen], None, r.flip and self.data.mirror, r.shift, r.erase)
        if self._share.start:  # else each process would drop the same features of other pictures
            self._seed(2 * self.step + 1_000_003 * self._share.start)
        images, labels = images[self._share], self.data.train_labels[chosen][self._share]
        return self.data.normalize(images).to(_dtype(self.model)), labels

    def _seed(self, number: int) -> None:
        seed = self.recipe.seed * 1_000_003 + number
        if self.device.type == "cpu":
            torch.default_generator.manual_seed(seed)  # torch.manual_seed looks for GPUs at each call
        else:
            torch.manual_seed(seed)

    def _note(self, seen: Tensor, lr: float) -> None:
        """Take in a step: seen holds the processes' losses, added up, and the number of right answers."""
        self.step += 1
        self._unseen.append(seen[0] / _processes.world()[1])
        self._correct += seen[1].long()
        self._history.lrs.append(lr)
        self._history.images += self.recipe.batch_size
        if self.step % LOOK_EVERY == 0:
            self._look()

    def _look(self) -> None:
        """Fetch the losses since the last look, and stop at one that is no number."""
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

    def _end_epoch(self) -> None:
        with self._clock():
            self._look()  # waits for the GPU
        history, n = self._history, self.steps_per_epoch
        history.train_loss.append(sum(history.losses[-n:]) / n)
        history.train_accuracy.append(self._correct.item() / (n * self.recipe.batch_size))
        self._correct.zero_()
        if len(self.data.test_labels):
            result = evaluate(self.model, self.data.normalize(self.data.test_images), self.data.test_labels)
            history.test_loss.append(result.loss)
            history.test_accuracy.append(result.accuracy)

    @cached_property
    def _identity(self) -> dict[str, Any]:
        """What must be equal for a checkpoint to fit."""
        digest = hashlib.md5(usedforsecurity=False)
        for tensor in (self.data.train_images, self.data.train_labels):
            digest.update(tensor.cpu().contiguous().numpy().data)
        return {f"recipe.{key}": value for key, value in asdict(self.recipe).items()} | {
            "the model's config": repr(getattr(self.model, "config", None)),
            "the model's shapes": {name: tuple(value.shape) for name, value in self.model.state_dict().items()},
            "data.name": self.data.name,
            "the training set's MD5 sum": digest.hexdigest(),
        }

    @contextmanager
    def _clock(self):
        start, cpu = time.perf_counter(), time.process_time()
        yield
        self._history.seconds += time.perf_counter() - start
        self._history.cpu_seconds += time.process_time() - cpu


def _optimizers(model: nn.Module, recipe: Recipe) -> list[torch.optim.Optimizer]:
    groups, others = decay_groups(model, recipe.weight_decay), []
    if recipe.optimizer == "sgd":
        return [torch.optim.SGD(groups, recipe.lr, momentum=recipe.betas[0])]
    if recipe.optimizer == "muon":
        matrices = muon_matrices(model)
        taken = {id(matrix) for matrix in matrices}
        for group in groups:
            group["params"] = [parameter for parameter in group["params"] if id(parameter) not in taken]
        # An update as long as AdamW's, so that one learning rate serves both.
        settings = {"weight_decay": recipe.weight_decay, "adjust_lr_fn": "match_rms_adamw"}
        others = [torch.optim.Muon(matrices, recipe.lr, **settings)]
    fused = _device(model).type in ("cpu", "cuda")  # one pass over all weights: the same numbers, sooner
    return [torch.optim.AdamW(groups, recipe.lr, recipe.betas, fused=fused), *others]


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _dtype(model: nn.Module) -> torch.dtype:
    return next(model.parameters()).dtype


def _check(data: Dataset, recipe: Recipe) -> None:
    if not isinstance(data, Dataset):
        raise TypeError(f"data must be a vitnb.data.Dataset, got {type(data).__name__}: use data.load()")
    n = len(data.train_labels)
    if n < recipe.batch_size:
        raise ValueError(f"batch_size is {recipe.batch_size}, but there are {n} training images: use {n or 1} or fewer")
    for part, images in (("train", data.train_images), ("test", data.test_images)):
        if images.is_floating_point() and not images.isfinite().all():
            first = int((~images.isfinite()).flatten(1).any(1).nonzero()[0])
            raise ValueError(f"{part}_images[{first}] holds NaN or infinity: leave it out, or use images.nan_to_num()")


def _check_logits(logits: Tensor, batch: int, classes: int) -> None:
    if logits.shape != (batch, classes):
        raise ValueError(f"the model returns shape {tuple(logits.shape)}: logits of ({batch}, {classes}) are needed")

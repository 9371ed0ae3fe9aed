"""Chapter 9: training, from a recipe to a model and its history.

Every step draws its batch, its augmentation and its dropout from the recipe's
seed and its own number alone. So a run that was stopped anywhere goes on
exactly as if it had not been, and on a CPU ends with the same bits.
"""

import hashlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Event
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitnb import distributed
from vitnb._validate import choice, float_from_0, positive_float, positive_int, probability, shown, switch
from vitnb._validate import path as check_path
from vitnb.checkpoint import delayed_interrupt, load_checkpoint, save_checkpoint
from vitnb.data import Dataset, augment
from vitnb.evaluation import count_look, device_of, dtype_of, evaluate_held_out

LOSSES_EVERY = 50  # steps after which the losses are fetched from the device: each time a GPU has to be waited for


@dataclass(frozen=True)
class Recipe:
    """How to train: everything but the model and the data.

    Raises: ValueError or TypeError for a value that no training can have.
    """

    epochs: float = 20  # 2.5 are two, and half of the images once more
    batch_size: int = 128
    lr: float = 3e-3  # the highest, reached after the warm-up
    betas: tuple[float, float] = (0.9, 0.99)  # 0.999 remembers 1,000 steps: too long for a short run
    weight_decay: float = 0.05  # of matrices only: see decay_groups
    warmup: float = 0.05  # share of the steps; Adam's first estimates are poor
    schedule: str = "cosine"  # or "constant"
    optimizer: str = "adamw"  # or "sgd", with betas[0] as its momentum; or "muon": see muon_matrices
    clip: float | None = 1.0  # longest gradient: one odd batch cannot throw the weights away
    label_smoothing: float = 0.0
    flip: bool = True  # only where data.mirror says that a mirrored image keeps its class
    shift: int = 1  # pixels
    erase: float = 0.0  # share of the images that lose a rectangle
    autocast: bool | str = True  # bfloat16 on a GPU; "cpu": on a processor, too, if it has the instructions
    seed: int = 0
    lr_by_part: Mapping[str, float] | None = None  # {"head": 1e-3}: the highest of parameters whose names begin so

    def __post_init__(self) -> None:
        for name, least in (("batch_size", 1), ("shift", 0), ("seed", 0)):
            object.__setattr__(self, name, positive_int(name, getattr(self, name), least))
        epochs = positive_float("epochs", self.epochs)
        object.__setattr__(self, "epochs", int(epochs) if epochs.is_integer() else epochs)
        positive_float("lr", self.lr)
        if self.lr_by_part is not None:
            _check_lrs(self.lr_by_part)
        if self.lr_by_part and self.optimizer == "muon":
            raise ValueError(f"lr_by_part needs another optimizer than {self.optimizer!r}: use 'adamw'")
        if self.clip is not None:
            positive_float("clip", self.clip)
        if not isinstance(self.betas, Sized) or len(self.betas) != 2:
            raise ValueError(f"betas must be two numbers, got {shown(self.betas)}: use (0.9, 0.99)")
        object.__setattr__(self, "betas", tuple(probability("betas", beta) for beta in self.betas))
        for name in ("warmup", "label_smoothing"):
            probability(name, getattr(self, name))
        choice("schedule", self.schedule, ("cosine", "constant"))
        choice("optimizer", self.optimizer, ("adamw", "sgd", "muon"))
        float_from_0("weight_decay", self.weight_decay)
        float_from_0("erase", self.erase, most=1)
        switch("flip", self.flip)
        if self.autocast != "cpu":
            switch("autocast", self.autocast)

    def lr_at(self, step: int, steps: int) -> float:
        """The learning rate of a step, from 0 to steps - 1: up in a line, then down half a cosine."""
        rising = round(self.warmup * steps)
        if step < rising:
            return self.lr * (step + 1) / rising
        if self.schedule == "constant":
            return self.lr
        return self.lr * 0.5 * (1 + math.cos(math.pi * (step - rising) / (steps - rising)))


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Parameter groups: weight decay for matrices and kernels, none for the rest.

    Decay pulls a product's weights to zero; a bias, a norm's gain or a token
    that is added has no reason to be small. Tokens and position tables have
    several axes like matrices, so the model names them in no_weight_decay().
    """
    named = getattr(model, "no_weight_decay", set)()
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

    Raises: ValueError if the model has no blocks.
    """
    blocks = getattr(model, "blocks", None)
    if not isinstance(blocks, nn.Module):
        raise ValueError(f"optimizer 'muon' needs a model with blocks, got {type(model).__name__}: use 'adamw'")
    return [parameter for parameter in blocks.parameters() if parameter.requires_grad and parameter.ndim == 2]


class Muon(torch.optim.Optimizer):
    """Momentum for matrices, in updates as long as AdamW's: one learning rate serves both.

    It computes what torch.optim.Muon does with "match_rms_adamw", but in
    float32. That one multiplies in bfloat16, which a processor without its
    instructions has to emulate.

    Raises: ValueError for a parameter that is no matrix.
    Source: Jordan et al. 2024; the length of the update: Liu et al. 2025, section 2.2.
    """

    def __init__(self, matrices: Iterable[nn.Parameter], lr: float, weight_decay: float = 0.0, momentum: float = 0.95):
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})
        for matrix in (matrix for group in self.param_groups for matrix in group["params"]):
            if matrix.ndim != 2:
                raise ValueError(f"matrices holds one of shape {tuple(matrix.shape)}: use muon_matrices(model)")

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        with torch.enable_grad():
            loss = closure() if closure else None
        for group in self.param_groups:
            lr, momentum = group["lr"], group["momentum"]
            for matrix in group["params"]:
                if matrix.grad is None:
                    continue
                state = self.state[matrix]
                if not state:
                    state["momentum_buffer"] = torch.zeros_like(matrix)
                mean = state["momentum_buffer"].lerp_(matrix.grad, 1 - momentum)
                update = orthogonal(matrix.grad.lerp(mean, momentum))
                matrix.mul_(1 - lr * group["weight_decay"])
                matrix.add_(update, alpha=-lr * 0.2 * max(matrix.shape) ** 0.5)
        return loss


def orthogonal(matrix: Tensor) -> Tensor:
    """Bring the singular values of a matrix near 1, without an SVD: (M, N) -> (M, N), float32.

    Source: the five Newton-Schulz iterations of Jordan et al. 2024.
    """
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x = wide.float() / wide.float().norm().clamp(min=1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = torch.addmm(x, torch.addmm(gram, gram, gram, beta=-4.7750, alpha=2.0315), x, beta=3.4445)
    return x if wide is matrix else x.T


def lr_groups(model: nn.Module, groups: list[dict[str, Any]], recipe: Recipe) -> list[dict[str, Any]]:
    """Split parameter groups by the parts of recipe.lr_by_part: "lr_scale" is how many times recipe.lr a group has.

    A parameter belongs to the longest part that its name begins with, as "head" or "blocks.11".

    Raises: ValueError for a part of which the model trains no parameter.
    """
    if not recipe.lr_by_part:
        return groups
    names = {parameter: name for name, parameter in model.named_parameters()}
    by_length = sorted(recipe.lr_by_part, key=len, reverse=True)
    found: dict[tuple[int, str], list[nn.Parameter]] = {}
    for number, group in enumerate(groups):
        for parameter in group["params"]:
            part = next((part for part in by_length if f"{names[parameter]}.".startswith(f"{part}.")), "")
            found.setdefault((number, part), []).append(parameter)
    if missing := set(by_length) - {part for _, part in found}:
        trained = (name for parameter, name in names.items() if parameter.requires_grad)
        parts = ", ".join(sorted({repr(name.split(".")[0]) for name in trained}))
        raise ValueError(f"lr_by_part names {min(missing)!r}, of which nothing is trained: use one of {parts}")
    scales = {"": 1.0} | {part: lr / recipe.lr for part, lr in recipe.lr_by_part.items()}
    return [groups[n] | {"params": chosen, "lr_scale": scales[part]} for (n, part), chosen in found.items()]


def make_optimizers(model: nn.Module, recipe: Recipe) -> list[torch.optim.Optimizer]:
    """The optimizer of a recipe, in a list: Muon trains the matrices of the blocks only, so it comes with AdamW.

    Raises: ValueError as muon_matrices, if the recipe says "muon".
    """
    groups = lr_groups(model, decay_groups(model, recipe.weight_decay), recipe)
    if recipe.optimizer == "sgd":
        return [torch.optim.SGD(groups, recipe.lr, momentum=recipe.betas[0])]
    others: list[torch.optim.Optimizer] = []
    if recipe.optimizer == "muon":
        matrices = muon_matrices(model)
        taken = {id(matrix) for matrix in matrices}
        for group in groups:
            group["params"] = [parameter for parameter in group["params"] if id(parameter) not in taken]
        others = [Muon(matrices, recipe.lr, recipe.weight_decay)] if matrices else []
    fused = next(model.parameters()).device.type in ("cpu", "cuda")  # one pass over all: the same numbers, sooner
    return [torch.optim.AdamW(groups, recipe.lr, recipe.betas, fused=fused), *others]


@dataclass
class History:
    """What a training left behind, as plain numbers.

    Per step: losses, lrs. Per epoch: train_* on the batches as they were trained
    on (augmented, with dropout, smoothed), test_* on the data's test images, which
    after Dataset.hold_out are a validation set. The result is the last epoch's,
    never the best one's: choosing by the test set is cheating. seconds counts the
    training steps, not the evaluations; cpu_seconds is the processor time of the
    same steps, all threads together, without what other programs took meanwhile.
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


class Batches:
    """The training images batch by batch, shuffled anew each epoch and augmented: the same step, the same batch.

    To draw one seeds torch's generator, so the step's dropout is always the same as well.
    """

    def __init__(self, data: Dataset, recipe: Recipe):
        self.data, self.recipe, self.device = data, recipe, data.train_labels.device
        self.shard = distributed.shard(recipe.batch_size)  # this process' part of a batch
        self.per_epoch = len(data.train_labels) // recipe.batch_size
        self._order: Tensor | None = None

    def draw(self, step: int) -> tuple[Tensor, Tensor]:
        """Return the normalised images (B, C, H, W) and the labels (B,) of a step, from 0."""
        r, (epoch, index) = self.recipe, divmod(step, self.per_epoch)
        if index == 0 or self._order is None:
            self._seed(2 * epoch + 1)
            self._order = torch.randperm(len(self.data.train_labels), device=self.device)  # (N,)
        self._seed(2 * step)
        chosen = self._order[index * r.batch_size : (index + 1) * r.batch_size]  # (B,)
        images = augment(self.data.train_images[chosen], None, r.flip and self.data.mirror, r.shift, r.erase)
        if self.shard.start:  # else each process would drop the same features of other images
            self._seed(2 * step + 1_000_003 * self.shard.start)
        return self.data.normalize(images[self.shard]), self.data.train_labels[chosen][self.shard]

    def _seed(self, number: int) -> None:
        seed = self.recipe.seed * 1_000_003 + number
        if self.device.type == "cpu":
            torch.default_generator.manual_seed(seed)  # torch.manual_seed looks for GPUs at each call
        else:
            torch.manual_seed(seed)


class Training:
    """A training under way: what fit takes from step to step and a callback sees.

    To be read: model, data, recipe; step of steps, epoch (from 1) of
    epochs; lr; loss and history (looking at these two makes a GPU wait).
    """

    def __init__(self, model: nn.Module, data: Dataset, recipe: Recipe):
        _check(model, data, recipe)
        self.model, self.recipe, self.device = model, recipe, device_of(model)
        self.data = data.to(self.device) if _fits(data, self.device) else data  # else batch by batch
        self.batches = Batches(self.data, recipe)
        self.parallel = distributed.data_parallel(model, self.device)  # the model itself, if there is one process
        self.half = bool(recipe.autocast) and self.device.type in ("cuda", recipe.autocast)
        self.steps_per_epoch = self.batches.per_epoch
        self.steps = max(1, round(recipe.epochs * self.steps_per_epoch))
        self.epochs = math.ceil(recipe.epochs)  # the last of them may be a part
        self.step = 0
        self.optimizers = make_optimizers(model, recipe)
        self._history = History()
        self._losses: list[Tensor] = []  # those that still lie on the device
        self._correct = torch.zeros((), dtype=torch.long, device=self.device)  # in this epoch

    @property
    def finished(self) -> bool:
        return self.step == self.steps

    @property
    def epoch(self) -> int:
        return max(1, math.ceil(self.step / self.steps_per_epoch))

    @property
    def epoch_ends(self) -> bool:
        """Whether the step that was taken last is the last one of its epoch, or of the training."""
        return self.step % self.steps_per_epoch == 0 or self.finished

    @property
    def lr(self) -> float:
        return self._history.lrs[-1]

    @property
    def loss(self) -> float:
        return self.history.losses[-1]

    @property
    def history(self) -> History:
        self._fetch_losses()
        return self._history

    def train_step(self) -> None:
        """Take the next step, and after the last one of an epoch test the model."""
        with self._clock():
            images, labels = self.batches.draw(self.step)  # (B, C, H, W), (B,)
            lr = self.recipe.lr_at(self.step, self.steps)
            images, labels = images.to(self.device, dtype_of(self.model)), labels.to(self.device)
            loss, correct = self._update(images, labels, lr)
            self._note(loss, correct, lr)
        if self.epoch_ends:
            self._end_epoch()

    def _update(self, images: Tensor, labels: Tensor, lr: float) -> tuple[Tensor, Tensor]:
        """The step of chapter 9: the loss, its gradient, and the parameters against it."""
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = lr * group.get("lr_scale", 1.0)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            logits = self.parallel(images)  # (B, K)
            _check_logits(logits, len(labels), len(self.data.classes))
            loss = F.cross_entropy(logits, labels, label_smoothing=self.recipe.label_smoothing)
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        loss.backward()
        if self.recipe.clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        for optimizer in self.optimizers:
            optimizer.step()
        return loss.detach(), (logits.argmax(1) == labels).sum()

    def _note(self, loss: Tensor, correct: Tensor, lr: float) -> None:
        """Write down a step: this process' loss, and how many of its images the model got right."""
        loss, correct = distributed.all_reduce(torch.stack([loss, correct]))
        self.step += 1
        self._losses.append(loss / distributed.world_size())
        self._correct += correct.long()
        self._history.lrs.append(lr)
        self._history.images += self.recipe.batch_size
        if self.step % LOSSES_EVERY == 0 or self.epoch_ends:
            self._fetch_losses()

    def _fetch_losses(self) -> None:
        """Get the losses since the last time from the device, and stop at one that is NaN or infinite."""
        fresh = torch.stack(self._losses).tolist() if self._losses else []
        self._losses.clear()
        for loss in fresh:
            if not math.isfinite(loss):
                step = len(self._history.losses) + 1
                raise FloatingPointError(
                    f"the loss is {loss} at step {step} of {self.steps} (lr {self._history.lrs[step - 1]:.2g}):"
                    f" try lr={self.recipe.lr / 3:.2g}, clip=1.0 or a longer warmup"
                )
            self._history.losses.append(loss)

    def _end_epoch(self) -> None:
        """Sum the epoch up, and test the model."""
        history, n = self._history, (self.step - 1) % self.steps_per_epoch + 1
        history.train_loss.append(sum(history.losses[-n:]) / n)
        history.train_accuracy.append(self._correct.item() / (n * self.recipe.batch_size))
        self._correct.zero_()
        if len(self.data.test_labels):
            result = evaluate_held_out(self.model, self.data)
            history.test_loss.append(result.loss)
            history.test_accuracy.append(result.accuracy)
            if self.data.held_out == "test":
                count_look(self.model)

    @contextmanager
    def _clock(self) -> Iterator[None]:
        """Count the time within as training."""
        start, cpu = time.perf_counter(), time.process_time()
        yield
        self._history.seconds += time.perf_counter() - start
        self._history.cpu_seconds += time.process_time() - cpu

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next step needs."""
        return {
            "step": self.step,
            "correct": self._correct,
            "history": asdict(self.history),
            "model": self.model.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the state of another run."""
        self.model.load_state_dict(state["model"])
        for optimizer, its_state in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(its_state)
        self.step, self._correct, self._history = state["step"], state["correct"], History(**state["history"])

    @cached_property
    def identity(self) -> dict[str, Any]:
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

    def save(self, path: Path) -> None:
        """Write a checkpoint.

        Raises: FloatingPointError if the loss is NaN or infinite: such a state is not worth keeping.
        """
        save_checkpoint(path, {"identity": self.identity} | self.state_dict())

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint, if there is one.

        Raises: ValueError if it is damaged, belongs to another run, or is not the same for all processes.
        """
        if path.exists():
            self.load_state_dict(load_checkpoint(path, self.identity, self.device))
        distributed.check_same_step(self.step, path, self.device)


def fit(
    model: nn.Module,
    data: Dataset,
    recipe: Recipe | None = None,
    callbacks: Sequence[Callable[[Training], None]] = (),
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
        if the loss is NaN or infinite; KeyboardInterrupt after Ctrl-C, between two steps, once all is saved.
    """
    distributed.init(device_of(model))
    run = Training(model, data, Recipe() if recipe is None else recipe)
    path = None if checkpoint is None else check_path("checkpoint", checkpoint, "run.pt")
    if not isinstance(callbacks, Iterable):
        raise TypeError(f"callbacks must be a list of functions, got {shown(callbacks)}: use [callbacks]")
    gpus = [run.device] if run.device.type == "cuda" else []
    model.train()
    try:
        with torch.random.fork_rng(gpus), delayed_interrupt() as interrupted:
            if path is not None:
                run.resume(path)
            if distributed.rank() > 0:
                callbacks, path = (), None
            _train(run, callbacks, path, save_every, interrupted)
    finally:
        model.eval()
    return run.history


def _train(
    run: Training,
    callbacks: Sequence[Callable[[Training], None]],
    path: Path | None,
    save_every: float,
    interrupted: Event,
) -> None:
    """Take all steps that are left; after each one save if it is time, call the callbacks, and stop at Ctrl-C."""
    saved = time.monotonic()
    for callback in callbacks if run.finished else ():
        callback(run)
    while not run.finished:
        run.train_step()
        if path is not None and (run.epoch_ends or time.monotonic() - saved >= save_every):
            run.save(path)
            saved = time.monotonic()
        for callback in callbacks:
            callback(run)
        if interrupted.is_set():
            _stop(run, path)


def _stop(run: Training, path: Path | None) -> None:
    if path is not None:
        run.save(path)
    where = f"saved in {path}: the same call goes on" if path else "no checkpoint asked for"
    print(f"Interrupted after step {run.step} of {run.steps}; {where}.")
    raise KeyboardInterrupt


def _fits(data: Dataset, device: torch.device) -> bool:
    """Whether the images leave the model at least half of what is free on its device."""
    size = data.train_images.nbytes + data.test_images.nbytes
    return device.type != "cuda" or size < torch.cuda.mem_get_info(device)[0] / 2


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


def _check_lrs(by_part: Mapping[str, float]) -> None:
    if not isinstance(by_part, Mapping) or not all(isinstance(part, str) for part in by_part):
        raise TypeError(
            f"lr_by_part must be a dictionary of names and rates, got {shown(by_part)}: use {{'head': 1e-3}}"
        )
    for part, lr in by_part.items():
        positive_float(f"lr_by_part[{part!r}]", lr)


def _check_logits(logits: Tensor, batch: int, classes: int) -> None:
    if logits.shape != (batch, classes):
        raise ValueError(f"model returns shape {tuple(logits.shape)}: use logits of ({batch}, {classes})")

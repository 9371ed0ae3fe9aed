"""A model under examination: fresh, perturbed, traced; each is made once."""

import copy
import inspect
import io
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from vitnb.examine._structure import Structure
from vitnb.examine._trace import Trace, trace

SIZES = (1, 2, 3, 5)  # of batches
NEAR = 1e-3  # standard deviations: what rounding leaves is a hundred times smaller


class Exam:
    """A model, or what builds one, and what its tests need in common."""

    def __init__(self, build: Callable[..., nn.Module] | nn.Module, image: tuple[int, int, int], num_classes: int):
        self.image, self.num_classes = image, num_classes
        self.can_build = not isinstance(build, nn.Module)
        self._build, self._copies = build, None  # whether copies of the model are whole
        self.model = self._given(build) if isinstance(build, nn.Module) else self.fresh()
        self.codes: set[str] = set()  # what was found so far
        self.sizes: list[int] = []  # of batches that the model takes
        self.squeezes = False  # whether it returns (K,) for one image
        self.grid: Grid | None = None
        self.patch_tokens: frozenset[int] = frozenset()  # that pixels reach; the others are cls and registers

    # Models ---------------------------------------------------------------------------------------

    def fresh(self, **options) -> nn.Module:
        """A new model, in eval mode, float32, on the CPU."""
        model = self._build(**{name: value for name, value in options.items() if self.accepts(name)})
        if not isinstance(model, nn.Module):
            raise TypeError(
                f"build must return an nn.Module, got {type(model).__name__}: use lambda: MyViT(), for example"
            )
        copied = self._copy(model)  # whoever returns one and the same model gets it back as it was
        return plain(model if copied is None else copied)

    def accepts(self, name: str) -> bool:
        """Whether what builds the model has an argument of this name."""
        return self.can_build and name in inspect.signature(self._build).parameters

    def _given(self, model: nn.Module) -> nn.Module:
        copied = self._copy(unwrapped(model))
        if copied is None:
            raise TypeError("build must be a function, since this model cannot be copied: use lambda: MyViT()")
        return plain(copied)

    def _copy(self, model: nn.Module) -> nn.Module | None:
        """A copy, unless there is none, or one that computes with parts of the model, which a lambda may hold."""
        try:
            copied = copy.deepcopy(model)
        except Exception:
            return None
        if self._copies is None:
            own = {id(parameter) for parameter in model.parameters()}
            try:
                self._copies = not any(id(node.out) in own for node in trace(plain(copied), self.images(1)).nodes)
            except Exception:  # not every model takes one image
                self._copies = True
        return copied if self._copies else None

    @cached_property
    def perturbed(self) -> nn.Module:
        """A copy with random weights: zeros and equal gains hide what a model does."""
        return perturbed(self.copied())

    def copied(self) -> nn.Module:
        """A copy of the model as it was built; one more is built where it cannot be copied."""
        copied = self._copy(self.model)
        return self.fresh() if copied is None else copied

    # Images and logits ----------------------------------------------------------------------------

    def images(self, B: int, seed: int = 1) -> Tensor:
        return torch.randn(B, *self.image, generator=torch.Generator().manual_seed(seed))  # (B, C, H, W)

    def outputs(self, output: object, B: int) -> Tensor:
        """The logits (B, K) among what a model returns."""
        output = output["logits"] if isinstance(output, dict) and "logits" in output else output
        output = getattr(output, "logits", output)
        everything = [t for t in tree_leaves(output) if isinstance(t, Tensor) and t.is_floating_point()]
        tensors = [t for t in everything if t.ndim and len(t) == B]
        if self.num_classes == 1 and tensors and tensors[0].ndim == 1:
            return tensors[0][:, None]
        squeezed = [t for t in everything if B == 1 < self.num_classes and t.shape == (self.num_classes,)]
        if squeezed:
            self.squeezes = True
            return squeezed[0][None]
        fitting = [t for t in tensors if t.ndim == 2 and t.shape[1] == self.num_classes]
        for found in (fitting, [t for t in tensors if t.ndim == 2], tensors):
            if found:
                return found[0]
        shapes = [tuple(t.shape) for t in tree_leaves(output) if isinstance(t, Tensor)]
        raise ValueError(
            f"{B} images give {shapes or type(output).__name__}, where logits ({B}, {self.num_classes}) belong"
        )

    def logits(self, images: Tensor, model: nn.Module | None = None) -> Tensor:
        with torch.no_grad():
            return self.outputs((self.perturbed if model is None else model)(images), len(images)).double()

    @cached_property
    def scale(self) -> float:
        """The standard deviation of the perturbed model's logits."""
        return self.logits(self.images(self.sizes[-1], 11)).std(correction=0).item()

    def moved(self, a: Tensor, b: Tensor) -> float:
        """The largest difference of logits of the perturbed model, in standard deviations."""
        return difference(a, b, self.scale)

    # Traces ---------------------------------------------------------------------------------------

    @cached_property
    def one(self) -> Trace:
        """A pass of the perturbed model over one image."""
        return trace(self.perturbed, self.images(1))

    @cached_property
    def three(self) -> Trace:
        return trace(self.perturbed, self.images(3))

    @cached_property
    def structure(self) -> Structure:
        return Structure(self.one, self.three if 3 in self.sizes else None)

    @cached_property
    def as_built(self) -> Structure:
        return Structure(trace(self.model, self.images(3 if 3 in self.sizes else 1)))

    def edited(self, edits: dict) -> Trace:
        """A pass over one image in which the results of some operations are replaced."""
        return trace(self.perturbed, self.images(1), edits)

    def logits_of(self, seen: Trace) -> Tensor:
        return self.outputs(seen.output, 1).double()


class Grid(NamedTuple):
    """Which token holds which patch: patch sides, and the tokens in rows."""

    sides: tuple[int, int]
    tokens: list[list[int]]

    @property
    def number(self) -> int:
        return len(self.tokens) * len(self.tokens[0])


def unwrapped(model: nn.Module) -> nn.Module:
    """The model inside torch.compile and DataParallel."""
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            inner = model.module
        if inner is None:
            return model
        model = inner


def plain(model: nn.Module) -> nn.Module:
    return unwrapped(model).cpu().float().eval()


def perturbed(model: nn.Module, seed: int = 0) -> nn.Module:
    """Give all parameters random values of a size at which a deep model still computes."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim < 2 or not parameter.numel():
                parameter.add_(0.3 * noise)
            elif parameter.ndim > 2 and len(parameter) == 1 or parameter[0].numel() == 1:
                if parameter.requires_grad or not parameter.any():  # not a table that was computed
                    parameter.copy_(0.5 * noise)  # cls tokens and tables of positions
            else:
                parameter.copy_(noise * parameter[0].numel() ** -0.5)
    return model


def difference(a: Tensor, b: Tensor, scale: float | None = None) -> float:
    """The largest difference, in standard deviations of b or another scale."""
    if a.shape != b.shape:
        return float("inf")
    return (a - b).abs().max().item() / max(b.std(correction=0).item() if scale is None else scale, 1e-6)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Restore torch's random numbers and settings afterwards; two runs examine alike, and models do not print."""
    with torch.random.fork_rng([]), torch.enable_grad(), warnings.catch_warnings(), redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        yield


class MovedOnTheWay(TorchFunctionMode):
    """While a model is built, nn.Parameter(…).to(device) returns what it would on a GPU: no parameter."""

    def __torch_function__(self, func, types, args: tuple = (), kwargs=None):
        out = func(*args, **(kwargs or {}))
        moves = getattr(func, "__name__", "") in ("to", "cuda") and torch.is_grad_enabled()
        return out.clone() if moves and out is args[0] and isinstance(out, nn.Parameter) else out


class OtherDevice(TorchFunctionMode):
    """The CPU, named in the code, stands for another device: tensors that say so go to meta."""

    def __torch_function__(self, func, types, args: tuple = (), kwargs=None):
        kwargs = dict(kwargs or {})
        if kwargs.get("device") is not None:
            kwargs["device"] = self._other(kwargs["device"])
        if getattr(func, "__name__", "") == "to":
            args = (args[0], *(self._other(a) if isinstance(a, str | torch.device) else a for a in args[1:]))
        return func(*args, **kwargs)

    @staticmethod
    def _other(device: object) -> object:
        return "meta" if str(device).startswith("cpu") else device

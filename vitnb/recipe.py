"""How to train: the numbers of a recipe, and the optimizer that it asks for (chapter 09)."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vitnb._validate import choice, positive_float, positive_int, probability


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
    flip: bool = True  # only where data.mirror says that a mirrored image keeps its class
    shift: int = 1  # pixels
    erase: float = 0.0  # share of the images that lose a rectangle
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

    Raises: ValueError if the model has no blocks, or torch no Muon.
    Source: Jordan et al. 2024; the length of the update: Liu et al. 2025, section 2.2.
    """
    blocks = getattr(model, "blocks", None)
    if not isinstance(blocks, nn.Module):
        raise ValueError(f"optimizer 'muon' needs a model with blocks, got {type(model).__name__}: use 'adamw'")
    if not hasattr(torch.optim, "Muon"):
        raise ValueError(f"optimizer 'muon' needs torch 2.9 or newer, got {torch.__version__}: use 'adamw'")
    return [parameter for parameter in blocks.parameters() if parameter.requires_grad and parameter.ndim == 2]


class Optimizer:
    """The optimizer of a recipe, for one model: what a training loop needs of it, and nothing else.

    Muon trains only some of the parameters, so there may be two of torch's
    optimizers inside; they take their steps together.

    Raises: ValueError as muon_matrices, if the recipe says "muon".
    """

    def __init__(self, model: nn.Module, recipe: Recipe):
        groups = decay_groups(model, recipe.weight_decay)
        if recipe.optimizer == "sgd":
            self.parts = [torch.optim.SGD(groups, recipe.lr, momentum=recipe.betas[0])]
            return
        others: list[torch.optim.Optimizer] = []
        if recipe.optimizer == "muon":
            matrices = muon_matrices(model)
            taken = {id(matrix) for matrix in matrices}
            for group in groups:
                group["params"] = [parameter for parameter in group["params"] if id(parameter) not in taken]
            # An update as long as AdamW's, so that one learning rate serves both.
            if matrices:
                decay = recipe.weight_decay
                others = [torch.optim.Muon(matrices, recipe.lr, decay, adjust_lr_fn="match_rms_adamw")]
        fused = next(model.parameters()).device.type in ("cpu", "cuda")  # one pass over all: the same numbers, sooner
        self.parts = [torch.optim.AdamW(groups, recipe.lr, recipe.betas, fused=fused), *others]

    def set_lr(self, lr: float) -> None:
        """Set the learning rate of every parameter."""
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = lr

    def zero_grad(self) -> None:
        """Forget the gradients of the last step."""
        for part in self.parts:
            part.zero_grad()

    def step(self) -> None:
        """Move the parameters by their gradients."""
        for part in self.parts:
            part.step()

    def state_dict(self) -> list[dict[str, Any]]:
        """What the optimizer remembers, to go on later."""
        return [part.state_dict() for part in self.parts]

    def load_state_dict(self, states: list[dict[str, Any]]) -> None:
        """Take up what another one remembered."""
        for part, state in zip(self.parts, states, strict=True):
            part.load_state_dict(state)

"""Exercises of chapter 2: what a bag notices, equivariance, an address by hand, stretching a table, sound tables."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitnb.attention import MultiHeadAttention
from vitnb.blocks import PreNormBlock
from vitnb.checks.engine import NotDone, Wrong, call, close, described, exercise, fresh, tensor_like
from vitnb.positions import LearnedPositions, NoPositions, SinCosPositions, resize_positions

# Does a model without positions, with mean pooling, give the same logits? The tests measure each.
STAYS = {
    "roll by a patch": True,
    "roll by a pixel": False,
    "mirror": False,
    "swap": True,
    "turn": False,
    "twice": True,
}


@exercise(
    "2.1",
    "stays(change)",
    "Write down which squares the picture consists of before the change and after it. Where they lie does not count; "
    "what is inside them does.",
    "For the last one: the answer is made from a mean over the tokens. What happens to a mean if every number in it "
    "comes twice?",
)
def _stays(answer: Callable) -> str:
    said = {change: _yes_or_no(call(answer, change)) for change in STAYS}
    right = sum(said[change] == STAYS[change] for change in STAYS)
    if right == len(STAYS):
        return "6 of 6 predictions agree with the model."
    count = f"{right} of {len(STAYS)} predictions agree with the model."
    if all(said.values()):
        more = "You say that nothing moves the logits. But inside a patch each pixel has a weight of its own."
    elif not any(said.values()):
        more = "You say that everything moves the logits. But a bag of patches does not know where a patch was."
    elif said == STAYS | {"twice": False}:
        more = "You know what the bag holds. Does it count the patches, or their shares?"
    elif said["roll by a patch"] != said["swap"]:
        more = "You treat two ways of moving whole patches to other places unlike."
    elif said["roll by a pixel"]:
        more = "One at least of your True changes makes patches that were not there before."
    else:
        more = "Ask of each change: are they the same squares afterwards, in the same shares?"
    raise Wrong(f"{count} {more}")


class _WithParameters(nn.Module):
    """A layer whose parameters are random, so that none is at a start that hides what it does."""

    def __init__(self, layer: nn.Module):
        super().__init__()
        self.layer = layer
        for parameter in layer.parameters():
            parameter.data = 0.3 * fresh(*parameter.shape)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


class _AddsPlaces(nn.Module):
    def __init__(self, T: int, D: int):
        super().__init__()
        self.table = nn.Parameter(fresh(1, T, D))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table


class _AttendsOverTheBatch(nn.Module):
    def __init__(self, D: int):
        super().__init__()
        self.attention = MultiHeadAttention(D, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x.transpose(0, 1)).transpose(0, 1)


class _Along(nn.Module):
    """A convolution along the tokens with the given kernel of three; circular, so the ends are no exception."""

    def __init__(self, *kernel: float):
        super().__init__()
        self.kernel = kernel

    def forward(self, x: Tensor) -> Tensor:
        return sum(weight * x.roll(shift, dims=1) for shift, weight in zip((1, 0, -1), self.kernel, strict=True))


class _Function(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def _equivariant(T: int, D: int) -> dict[str, nn.Module]:
    return {
        "a linear layer": nn.Linear(D, D + 3),
        "a block with attention": PreNormBlock(D, 2),
        "attention": MultiHeadAttention(D, 2),
        "a layer that adds the mean of all tokens to each": _Function(lambda x: x + x.mean(1, keepdim=True)),
        "attention over the batch": _AttendsOverTheBatch(D),
    }


def _not_equivariant(T: int, D: int) -> dict[str, nn.Module]:
    return {
        "adds a position table": _AddsPlaces(T, D),
        "normalises over tokens and features, with a gain for each place": _WithParameters(nn.LayerNorm([T, D])),
        "adds up the tokens before each one": _Function(lambda x: x.cumsum(1)),
        "is invariant: it sorts the tokens": _Function(lambda x: x.sort(dim=1).values),
        "mixes each token with its left neighbour": _Along(1.0, 0.5, 0.0),
        "mixes each token with both neighbours alike, so that it survives a flip and a roll": _Along(0.5, 1.0, 0.5),
        "puts the tokens in reverse order": _Function(lambda x: x.flip(1)),
    }


@exercise(
    "2.2",
    "is_equivariant(layer, T, D)",
    "Both sides of the equation are calls of the layer: one on shuffled tokens, one on tokens in order. Which of the "
    "two results do you shuffle?",
    "Draw the order at random, more than once: a flip or a roll is special. And compare with a tolerance, since sums "
    "in another order differ in their last digits.",
)
def _is_equivariant(answer: Callable) -> str:
    good, bad = _equivariant(7, 12), _not_equivariant(7, 12)
    with torch.no_grad():
        accepted = {name: _yes_or_no(call(answer, layer, 7, 12)) for name, layer in good.items()}
        missed = [name for name, layer in bad.items() if _yes_or_no(call(answer, layer, 7, 12))]
        both = not any(accepted.values()) and "is invariant: it sorts the tokens" in missed
    rejected = [name for name, yes in accepted.items() if not yes]
    if both:
        raise Wrong("You test for invariance, f(Px) = f(x): you accept a layer that sorts its tokens.")
    if len(missed) == len(bad) and not rejected:
        raise Wrong(f"You accept all {len(good) + len(bad)} layers: what does your function compare?")
    if "attention" in rejected and "a linear layer" not in rejected:
        raise Wrong("You reject attention, which is equivariant up to rounding: its sums run in another order.")
    if rejected:
        raise Wrong(f"You reject {len(rejected)} of {len(good)} equivariant layers, for example {rejected[0]}.")
    if missed:
        special = " Is your order or your input a special one?" if any("neighbour" in name for name in missed) else ""
        count = f"You let {len(missed)} of {len(bad)} layers through that are not equivariant, for example one that "
        raise Wrong(f"{count}{missed[-1]}.{special}")
    return f"you accept {len(good)} equivariant layers and see through {len(bad)} others."


@exercise(
    "2.3",
    "address(rows, cols, D)",
    "Two features of every token are free. Write the row of the place into one and its column into the other. Where "
    "in the table does the place in row r and column c stand?",
    "Places are counted row by row: look at what the number of a place leaves when it is divided by the number of "
    "columns. And a weight of 0 in `read` means that a feature is not heard.",
)
def _address(answer: Callable) -> str:
    for rows, cols, D in ((3, 5, 8), (6, 4, 11)):
        pair = call(answer, rows, cols, D)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise Wrong(f"Your function returns {described(pair)}: the pair (table, read) is wanted.")
        if any(part is ... for part in pair):
            raise NotDone
        table, read = pair
        if isinstance(table, Tensor) and table.ndim == 3 and table.shape[0] == 1:
            table = table[0]
        table = tensor_like(table, torch.zeros(rows * cols, D))
        read = tensor_like(read, torch.zeros(D, 2))
        content = 10 * fresh(4, rows * cols, D)
        content[..., -2:] = 0
        found = (content + table) @ read  # (4, N, 2)
        n = torch.arange(rows * cols)
        wanted = torch.stack([n // cols, n % cols], dim=1).float()  # (N, 2)
        if not torch.allclose(found, wanted.expand_as(found), atol=1e-2):
            raise Wrong(_address_mistake(table, read, found, wanted, rows, cols))
    return "each token reads its row and column on grids of 3 x 5 and 6 x 4, whatever it shows."


def _address_mistake(table: Tensor, read: Tensor, found: Tensor, wanted: Tensor, rows: int, cols: int) -> str:
    quiet, n = table @ read, torch.arange(rows * cols)  # (N, 2)
    if not (table.any() or read.any()):
        return "Your table and your read are all zeros: nobody hears anything."
    if close(quiet, wanted, 1e-3):
        off = (found - wanted).abs().max().item()
        return (
            f"Without content you are right, with content you are off by up to {off:.1f}: your read listens to "
            "features in which the patch speaks."
        )
    if close(quiet, wanted.flip(1), 1e-3):
        return "You read (column, row): (row, column) is wanted."
    if close(quiet, torch.stack([n // rows, n % rows], 1).float(), 1e-3):
        return f"You divide by the number of rows, {rows}: the places stand row by row, {cols} in each."
    if close(quiet, torch.stack([n % rows, n // rows], 1).float(), 1e-3):
        return "You count the places column by column: place 1 stands right of place 0, not below it."
    if close(quiet, wanted + 1, 1e-3):
        return "You count rows and columns from 1: the first ones are 0."
    place = int((quiet - wanted).abs().amax(1).argmax())
    r, c = (round(v, 2) for v in quiet[place].tolist())
    return f"On a grid of {rows} x {cols}, place {place} reads ({r}, {c}), and that is not its row and column."


@exercise(
    "2.4",
    "my_resize(table, old, new, num_prefix)",
    "First cut the table in two: the rows before the patches, which have no place on the grid, and the rest. F.inter"
    "polate wants (1, D, rows, cols); what you have is (1, N, D).",
    "The features must become channels, and that takes more than new borders: put the places on their grid first, "
    "then move the last axis. On the way back, the same in reverse.",
)
def _resize(answer: Callable) -> str:
    for old, new, prefix in (((3, 5), (6, 4), 1), ((4, 2), (3, 7), 0), ((5, 4), (7, 9), 3), ((3, 4), (3, 4), 1)):
        table = fresh(1, prefix + old[0] * old[1], 6)
        result = call(answer, table, old, new, prefix)
        wanted = resize_positions(table, old, new, prefix)
        case = f"From {old[0]} x {old[1]} to {new[0]} x {new[1]} with {prefix} row{'s' * (prefix != 1)} in front"
        if isinstance(result, Tensor) and result.ndim == 3 and result.shape[1] == wanted.shape[1] - prefix:
            if prefix:
                raise Wrong(f"{case}: you return the patches' rows only. The rows in front are missing.")
        result = tensor_like(result, wanted)
        if not any(close(result, _stretched(table, old, new, prefix, way), 1e-4) for way in WAYS):
            raise Wrong(f"{case}: {_resize_mistake(result, table, old, new, prefix)}")
    return "4 pairs of grids, larger and smaller, with 0, 1 and 3 rows in front."


Grid = tuple[int, int]
WAYS: list[dict[str, Any]] = [
    dict(mode=mode, antialias=antialias, align_corners=corners)
    for mode in ("bicubic", "bilinear")
    for antialias in (True, False)
    for corners in (False, True)
]


def _stretched(table: Tensor, old: Grid, new: Grid, prefix: int, way: dict[str, Any]) -> Tensor:
    grid = table[:, prefix:].reshape(1, *old, -1).permute(0, 3, 1, 2)  # (1, D, rows, cols)
    grid = F.interpolate(grid, size=new, **way)  # (1, D, rows', cols')
    return torch.cat([table[:, :prefix], grid.flatten(2).mT], dim=1)  # (1, T', D)


def _line(table: Tensor, length: int, corners: bool) -> Tensor:
    return F.interpolate(table.mT, size=length, mode="linear", align_corners=corners).mT  # (1, length, D)


def _resize_mistake(result: Tensor, table: Tensor, old: Grid, new: Grid, prefix: int) -> str:
    D, N, places = table.shape[2], new[0] * new[1], table[:, prefix:]
    if prefix and not close(result[:, :prefix], table[:, :prefix]):
        if close(result[:, -prefix:], table[:, :prefix]):
            return "the rows in front stand at the end of your table."
        return "the rows in front are changed. The cls token has no place on the grid: keep it out of the stretching."
    if prefix and any(close(result, _line(table, prefix + N, corners), 1e-4) for corners in (False, True)):
        return "you stretch the whole table, cls and all, as one line: keep cls out of it and use the grid."
    rest = result[:, prefix:]
    for way in WAYS:
        swapped = _stretched(places, old[::-1], new, 0, way)
        turned = F.interpolate(places.reshape(1, *old, D).permute(0, 3, 2, 1), size=new, **way).flatten(2).mT
        if close(rest, swapped, 1e-4) or close(rest, turned, 1e-4):
            return "rows and columns are swapped."
        torn = F.interpolate(places.reshape(1, D, *old), size=new, **way)
        if close(rest, torn.flatten(2).mT, 1e-4) or close(rest, torn.reshape(1, N, D), 1e-4):
            return "every vector is torn: reshape(1, D, rows, cols) draws new borders and moves no feature. Permute."
        right = _stretched(places, old, new, 0, way).mT
        if close(rest, right.reshape(1, N, D), 1e-4):
            return "the stretching is right, the way back is not: the features must be the last axis again. Transpose."
    nearest = F.interpolate(places.mT, size=N, mode="nearest").mT
    if any(close(rest, line, 1e-4) for line in (_line(places, N, False), _line(places, N, True), nearest)):
        return "you stretch the places as one line, so that a row's end runs into the next row's start."
    if old == new:
        return "the grid stays the same, yet your table does not."
    return "your table is not the old one, stretched on its grid."


class _PerCall(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + fresh(1, *x.shape[1:])


class _PerSample(nn.Module):
    def __init__(self, B: int, T: int, D: int):
        super().__init__()
        self.table = nn.Parameter(fresh(B, T, D))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table


class _PerCallAndSample(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + nn.Parameter(fresh(*x.shape))


class _NoParameter(nn.Module):
    def __init__(self, T: int, D: int):
        super().__init__()
        self.table = fresh(1, T, D)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table


class _GrowsWithTheBatch(nn.Module):
    """Adds the table once for the first picture, twice for the second: a broadcast over the wrong axis."""

    def __init__(self, T: int, D: int):
        super().__init__()
        self.table = nn.Parameter(fresh(1, T, D))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table * torch.arange(1, len(x) + 1)[:, None, None]


def _makers(B: int, T: int, D: int) -> tuple[dict[str, Callable], dict[str, Callable]]:
    sound = {
        "a learned table": lambda: LearnedPositions(T, D, std=0.7),
        "waves": lambda: SinCosPositions((2, (T - 1) // 2), D, 1),
        "no positions at all": NoPositions,
    }
    unsound = {
        "are made anew in each call": _PerCall,
        "differ from picture to picture": lambda: _PerSample(B, T, D),
        "are no parameter, so that they get lost with the weights": lambda: _NoParameter(T, D),
        "are louder in the second picture than in the first": lambda: _GrowsWithTheBatch(T, D),
        "are those of Suspect": _PerCallAndSample,
    }
    return sound, unsound


@exercise(
    "2.5",
    "is_sound(make, x)",
    "Three sentences, three comparisons: picture with picture, call with call, module with module. What do the "
    "positions give for tokens that are all zero?",
    "For the third: make two modules, give the second one the weights of the first, and compare what they do. Any "
    "random table that is not among the weights shows itself.",
)
def _is_sound(answer: Callable) -> str:
    B, T, D = 3, 7, 12
    sound, unsound = _makers(B, T, D)
    x = fresh(B, T, D)
    accepted = {name: _yes_or_no(call(answer, make, x)) for name, make in sound.items()}
    missed = [name for name, make in unsound.items() if _yes_or_no(call(answer, make, x))]
    if not any(accepted.values()):
        raise Wrong("You find none of 3 sound kinds of positions sound. Do you compare differences bit by bit?")
    rejected = [name for name, yes in accepted.items() if not yes]
    if rejected:
        raise Wrong(f"You reject sound positions: {rejected[0]}. Not every table is learned, or has to be.")
    if len(missed) == len(unsound):
        raise Wrong("You accept everything, Suspect too. A shape proves nothing: compare values.")
    if missed:
        raise Wrong(
            f"You let {len(missed)} of {len(unsound)} unsound ones through, for example positions that {missed[0]}."
        )
    return f"you accept {len(sound)} sound kinds of positions and see through {len(unsound)} others."


def _yes_or_no(value: Any) -> bool:
    if isinstance(value, Tensor) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, (bool, np.bool_)):
        raise Wrong(f"Your function returns {described(value)}: True or False is wanted.")
    return bool(value)

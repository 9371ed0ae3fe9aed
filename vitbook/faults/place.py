"""Wrong positions: modules that add them to tokens (B, T, D), stretched tables, and layers that feel a place."""

from collections.abc import Callable
from functools import wraps

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbook.faults._fault import fault
from vitnb.positions import LearnedPositions, NoPositions, resize_positions


@fault("makes its table anew in each call", LearnedPositions, {"count", "scores"})
class MadeInEachCall(nn.Module):
    def __init__(self, num_tokens: int, embed_dim: int, std: float = 0.02):
        super().__init__()
        self.std = std

    def forward(self, x: Tensor) -> Tensor:
        return x + nn.Parameter(self.std * torch.randn(1, *x.shape[1:]))


@fault("has a table for each image of the batch", LearnedPositions, {"count", "scores"})
class ForEachImage(LearnedPositions):
    def __init__(self, num_tokens: int, embed_dim: int, std: float = 0.02, batch_size: int = 3):
        super().__init__(num_tokens, embed_dim)
        self.table = nn.Parameter(std * torch.randn(batch_size, num_tokens, embed_dim))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table


@fault("holds a table that is no parameter, so that it gets lost with the weights", LearnedPositions, {"count"})
class NoParameter(nn.Module):
    def __init__(self, num_tokens: int, embed_dim: int, std: float = 0.02):
        super().__init__()
        self.table = std * torch.randn(1, num_tokens, embed_dim)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table


@fault("adds its table once to the first image, twice to the second, and so on", LearnedPositions, {"scores"})
class GrowingWithEachImage(LearnedPositions):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.table * torch.arange(1, len(x) + 1)[:, None, None]


@fault("makes a table for each image, anew in each call", LearnedPositions, {"count", "scores"})
class MadeForEachImage(MadeInEachCall):
    def forward(self, x: Tensor) -> Tensor:
        return x + nn.Parameter(self.std * torch.randn(x.shape))


# Layers that should treat all places alike, as a model without positions does: each is made for (T, D).


class _Layer(nn.Module):
    def __init__(self, num_tokens: int, embed_dim: int):
        super().__init__()


@fault("adds a position table whose first two places are alike", NoPositions, None)
class TwoPlacesAlike(LearnedPositions):
    def __init__(self, num_tokens: int, embed_dim: int):
        super().__init__(num_tokens, embed_dim, std=1.0)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.cat([self.table[:, :1], self.table[:, :1], self.table[:, 2:]], dim=1)


@fault("normalises over tokens and features, with a gain for each place", NoPositions, None)
class GainForEachPlace(_Layer):
    def __init__(self, num_tokens: int, embed_dim: int):
        super().__init__(num_tokens, embed_dim)
        self.gain = nn.Parameter(torch.randn(num_tokens, embed_dim))

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[1:]) * self.gain


@fault("adds up the tokens before each one", NoPositions, None)
class RunningSum(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        return x.cumsum(1)


@fault("is invariant: it sorts the tokens", NoPositions, None)
class SortedTokens(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        return x.sort(dim=1).values


@fault("mixes each token with its left neighbour", NoPositions, None)
class LeftNeighbour(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        return x.roll(1, dims=1) + 0.5 * x  # circular, so that the ends are no exception


@fault("mixes each token with both neighbours alike, so that it survives a flip and a roll", NoPositions, None)
class BothNeighbours(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x.roll(1, dims=1) + x + 0.5 * x.roll(-1, dims=1)


@fault("puts the tokens in reverse order", NoPositions, None)
class ReversedTokens(_Layer):
    def forward(self, x: Tensor) -> Tensor:
        return x.flip(1)


# Stretched tables. `way` goes to F.interpolate: bicubic on the grid and linear in a line, where it does not say.

Grid = tuple[int, int]


def _keeping_the_prefix(stretch: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Make a function of the places alone, (1, N, D) -> (1, N', D), one with the arguments of resize_positions."""

    @wraps(stretch)
    def resize(table: Tensor, old_grid: Grid, new_grid: Grid, num_prefix_tokens: int = 1, **way: str | bool) -> Tensor:
        places = stretch(table[:, num_prefix_tokens:], old_grid, new_grid, **way)
        return torch.cat([table[:, :num_prefix_tokens], places], dim=1)  # (1, T', D)

    return resize


def _on_grid(places: Tensor, grid: Grid) -> Tensor:
    return places.reshape(1, *grid, -1).permute(0, 3, 1, 2)  # (1, D, rows, cols)


def _stretched(places: Tensor, new: Grid, mode: str = "bicubic", **way: bool) -> Tensor:
    return F.interpolate(places, size=new, mode=mode, **way)  # (1, D, rows', cols')


def _line(places: Tensor, length: int, mode: str = "linear", **way: bool) -> Tensor:
    return F.interpolate(places.mT, size=length, mode=mode, **way).mT  # (1, length, D)


@fault("stretches the places as if they stood in one line", resize_positions, None)
@_keeping_the_prefix
def as_one_line(places: Tensor, old: Grid, new: Grid, **way: str | bool) -> Tensor:
    return _line(places, new[0] * new[1], **way)


@fault("takes the rows of the old grid for its columns", resize_positions, None)
@_keeping_the_prefix
def rows_as_columns(places: Tensor, old: Grid, new: Grid, **way: str | bool) -> Tensor:
    return _stretched(_on_grid(places, old[::-1]), new, **way).flatten(2).mT


@fault("mirrors the old grid at its diagonal", resize_positions, None)
@_keeping_the_prefix
def grid_transposed(places: Tensor, old: Grid, new: Grid, **way: str | bool) -> Tensor:
    return _stretched(_on_grid(places, old).mT, new, **way).flatten(2).mT


@fault("tears the vectors: a reshape puts the features first, and nothing moves them", resize_positions, None)
@_keeping_the_prefix
def torn(places: Tensor, old: Grid, new: Grid, **way: str | bool) -> Tensor:
    return _stretched(places.reshape(1, -1, *old), new, **way).flatten(2).mT


@fault("tears the vectors on the way back too", resize_positions, None)
@_keeping_the_prefix
def torn_twice(places: Tensor, old: Grid, new: Grid, **way: str | bool) -> Tensor:
    return _stretched(places.reshape(1, -1, *old), new, **way).reshape(1, -1, places.shape[2])


@fault("stretches the grid and then reads features for places", resize_positions, None)
@_keeping_the_prefix
def torn_on_the_way_back(places: Tensor, old: Grid, new: Grid, **way: str | bool) -> Tensor:
    return _stretched(_on_grid(places, old), new, **way).reshape(1, -1, places.shape[2])


@fault("stretches the whole table as one line, the prefix tokens too", resize_positions, None)
def prefix_in_the_line(
    table: Tensor, old_grid: Grid, new_grid: Grid, num_prefix_tokens: int = 1, **way: str | bool
) -> Tensor:
    return _line(table, num_prefix_tokens + new_grid[0] * new_grid[1], **way)


@fault("puts the prefix tokens behind the places", resize_positions, None)
def prefix_last(table: Tensor, old_grid: Grid, new_grid: Grid, num_prefix_tokens: int = 1, **way: str | bool) -> Tensor:
    places = _stretched(_on_grid(table[:, num_prefix_tokens:], old_grid), new_grid, **way)
    return torch.cat([places.flatten(2).mT, table[:, :num_prefix_tokens]], dim=1)

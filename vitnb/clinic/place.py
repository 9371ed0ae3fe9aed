"""Wrong positions: modules that add them to tokens (B, T, D), stretched tables, and layers that feel a place."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitnb.clinic._fault import fault
from vitnb.positions import LearnedPositions, NoPositions, resize_positions


@fault("makes its table anew in each call", LearnedPositions, {"count"})
class MadeInEachCall(nn.Module):
    def __init__(self, num_tokens: int, embed_dim: int, std: float = 0.02):
        super().__init__()
        self.std = std

    def forward(self, x: Tensor) -> Tensor:
        return x + nn.Parameter(self.std * torch.randn(1, *x.shape[1:]))


@fault("has a table for each image of the batch", LearnedPositions, {"count"})
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


@fault("adds its table once to the first image, twice to the second, and so on", LearnedPositions)
class LouderInEachImage(LearnedPositions):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.table * torch.arange(1, len(x) + 1)[:, None, None]


@fault("makes a table for each image, anew in each call", LearnedPositions, {"count"})
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
class GainForEachPlace(nn.LayerNorm):
    def __init__(self, num_tokens: int, embed_dim: int):
        super().__init__([num_tokens, embed_dim])
        nn.init.normal_(self.weight)


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


# Stretched tables: the arguments of resize_positions, then those of F.interpolate.

Grid = tuple[int, int]


def _places(table: Tensor, grid: Grid, num_prefix_tokens: int) -> Tensor:
    return table[:, num_prefix_tokens:].reshape(1, *grid, -1).permute(0, 3, 1, 2)  # (1, D, rows, cols)


def _behind(table: Tensor, num_prefix_tokens: int, places: Tensor) -> Tensor:
    """The places, (1, N', D), behind the prefix tokens of the old table."""
    return torch.cat([table[:, :num_prefix_tokens], places], dim=1)  # (1, T', D)


@fault("stretches the places as if they stood in one line", resize_positions, None)
def as_one_line(
    table: Tensor, old_grid: Grid, new_grid: Grid, num_prefix_tokens: int = 1, mode: str = "linear", **way: bool
) -> Tensor:
    line = F.interpolate(table[:, num_prefix_tokens:].mT, size=new_grid[0] * new_grid[1], mode=mode, **way)
    return _behind(table, num_prefix_tokens, line.mT)


@fault("stretches the whole table as one line, the prefix tokens too", resize_positions, None)
def prefix_in_the_line(
    table: Tensor, old_grid: Grid, new_grid: Grid, num_prefix_tokens: int = 1, mode: str = "linear", **way: bool
) -> Tensor:
    return F.interpolate(table.mT, size=num_prefix_tokens + new_grid[0] * new_grid[1], mode=mode, **way).mT


@fault("puts the prefix tokens behind the places", resize_positions, None)
def prefix_last(
    table: Tensor, old_grid: Grid, new_grid: Grid, num_prefix_tokens: int = 1, mode: str = "bicubic", **way: bool
) -> Tensor:
    places = F.interpolate(_places(table, old_grid, num_prefix_tokens), size=new_grid, mode=mode, **way)
    return torch.cat([places.flatten(2).mT, table[:, :num_prefix_tokens]], dim=1)


@fault("takes the rows of the old grid for its columns", resize_positions, None)
def rows_as_columns(
    table: Tensor, old_grid: Grid, new_grid: Grid, num_prefix_tokens: int = 1, mode: str = "bicubic", **way: bool
) -> Tensor:
    places = F.interpolate(_places(table, old_grid[::-1], num_prefix_tokens), size=new_grid, mode=mode, **way)
    return _behind(table, num_prefix_tokens, places.flatten(2).mT)


@fault("mirrors the old grid at its diagonal", resize_positions, None)
def grid_transposed(
    table: Tensor, old_grid: Grid, new_grid: Grid, num_prefix_tokens: int = 1, mode: str = "bicubic", **way: bool
) -> Tensor:
    places = F.interpolate(_places(table, old_grid, num_prefix_tokens).mT, size=new_grid, mode=mode, **way)
    return _behind(table, num_prefix_tokens, places.flatten(2).mT)


@fault("tears the vectors: a reshape puts the features first, and nothing moves them", resize_positions, None)
def torn(
    table: Tensor, old_grid: Grid, new_grid: Grid, num_prefix_tokens: int = 1, mode: str = "bicubic", **way: bool
) -> Tensor:
    places = table[:, num_prefix_tokens:].reshape(1, -1, *old_grid)
    return _behind(table, num_prefix_tokens, F.interpolate(places, size=new_grid, mode=mode, **way).flatten(2).mT)


@fault("tears the vectors on the way back too", resize_positions, None)
def torn_twice(
    table: Tensor, old_grid: Grid, new_grid: Grid, num_prefix_tokens: int = 1, mode: str = "bicubic", **way: bool
) -> Tensor:
    places = table[:, num_prefix_tokens:].reshape(1, -1, *old_grid)
    places = F.interpolate(places, size=new_grid, mode=mode, **way)
    return _behind(table, num_prefix_tokens, places.reshape(1, -1, table.shape[2]))


@fault("stretches the grid and then reads features for places", resize_positions, None)
def torn_on_the_way_back(
    table: Tensor, old_grid: Grid, new_grid: Grid, num_prefix_tokens: int = 1, mode: str = "bicubic", **way: bool
) -> Tensor:
    places = F.interpolate(_places(table, old_grid, num_prefix_tokens), size=new_grid, mode=mode, **way)
    return _behind(table, num_prefix_tokens, places.reshape(1, -1, table.shape[2]))

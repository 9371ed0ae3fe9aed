"""Chapter 2: position embeddings, which give tokens a place."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitnb._validate import Size, float_tensor, pair, positive_float, positive_int
from vitnb._validate import tokens as check_tokens


class LearnedPositions(nn.Module):
    """Add one learned vector per place, the cls token's place included.

    Shapes: tokens (B, T, D) -> tokens (B, T, D).
    Raises: ValueError if the tokens are not T of width D.
    Source: Dosovitskiy et al. 2021, equation 1, the matrix E_pos.
    """

    def __init__(self, num_tokens: int, embed_dim: int, std: float = 0.02):
        super().__init__()
        shape = (1, positive_int("num_tokens", num_tokens), positive_int("embed_dim", embed_dim))
        self.table = nn.Parameter(torch.randn(shape) * positive_float("std", std))  # (1, T, D)

    def forward(self, x: Tensor) -> Tensor:
        return x + _matching(self.table, x)


class SinCosPositions(nn.Module):
    """Add fixed waves: half of the width codes the row, half the column.

    Tokens before the patches (the cls token) get zeros.

    Shapes: tokens (B, prefix + N, D) -> tokens of the same shape.
    Raises: ValueError if embed_dim is not a multiple of 4 or the tokens
        do not fit the grid.
    Source: Vaswani et al. 2017, section 3.5, once per axis.
    """

    def __init__(self, grid_size: Size, embed_dim: int, num_prefix_tokens: int = 0, temperature: float = 10_000.0):
        super().__init__()
        self.recipe = pair("grid_size", grid_size), embed_dim, temperature
        self.num_prefix_tokens = num_prefix_tokens
        self.register_buffer("table", self._waves(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.table.is_meta and not x.is_meta:  # the weights came by load_state_dict(assign=True)
            self.fill(x)
        return x + _matching(self.table, x)

    def fill(self, like: Tensor) -> None:
        """Compute the table again, which no checkpoint holds."""
        with torch.device("meta" if like.is_meta else "cpu"):
            self.table = self._waves().to(like)

    def _waves(self) -> Tensor:
        table = sincos_table(*self.recipe)  # (1, N, D)
        return torch.cat([torch.zeros(1, self.num_prefix_tokens, table.shape[2]), table], dim=1)  # (1, T, D)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "SinCosPositions":
        before = self.table
        super()._apply(fn, recurse)  # to(), half(), or to_empty(), which would lose the numbers
        if before.is_meta and not self.table.is_meta:
            self.fill(self.table)
        elif not self.table.is_meta:
            self.table = before.to(self.table)
        return self


class NoPositions(nn.Module):
    """Leave the tokens as they are: a bag of patches.

    Shapes: tokens (B, T, D) -> the same tokens.
    """

    def forward(self, x: Tensor) -> Tensor:
        return x


def sincos_table(grid_size: Size, embed_dim: int, temperature: float = 10_000.0) -> Tensor:
    """Build the two-dimensional sine and cosine code of every place.

    Shapes: returns (1, N, D), row by row; D/2 for the row, D/2 for the column.
    Raises: ValueError if embed_dim is not a multiple of 4.
    """
    if positive_int("embed_dim", embed_dim) % 4:
        raise ValueError(
            f"embed_dim {embed_dim} is not a multiple of 4 (sine and cosine for two axes): "
            f"use {embed_dim // 4 * 4 or 4} or {(embed_dim // 4 + 1) * 4}"
        )
    rows, cols = pair("grid_size", grid_size)
    quarter = embed_dim // 4
    frequencies = positive_float("temperature", temperature) ** (-torch.arange(quarter) / quarter)  # (D/4,)
    row, col = torch.meshgrid(torch.arange(rows), torch.arange(cols), indexing="ij")  # (rows, cols)
    angles = [place.reshape(-1, 1) * frequencies for place in (row, col)]  # 2 x (N, D/4)
    return torch.cat([f(a) for a in angles for f in (torch.sin, torch.cos)], dim=1)[None]  # (1, N, D)


def resize_positions(table: Tensor, old_grid: Size, new_grid: Size, num_prefix_tokens: int = 1) -> Tensor:
    """Stretch a position table to another grid of patches.

    The vectors before the patches (the cls token's) are kept; the rest is
    put back on its grid and interpolated there. The same grid gives the
    same table, exactly.

    Shapes: table (1, T, D) -> (1, T', D).
    Raises: ValueError if T is not num_prefix_tokens plus the old grid.
    Source: Dosovitskiy et al. 2021, section 3.2 (fine-tuning at higher resolution).
    """
    old, new = pair("old_grid", old_grid), pair("new_grid", new_grid)
    T = float_tensor("table", table, 3, "(1, T, D)").shape[1]
    if T != num_prefix_tokens + math.prod(old):
        raise ValueError(
            f"table of {T} places is not {num_prefix_tokens} + {old[0]} x {old[1]}: "
            f"use a table of shape (1, {num_prefix_tokens + math.prod(old)}, {table.shape[2]})"
        )
    if old == new:
        return table.clone()
    prefix, places = table[:, :num_prefix_tokens], table[:, num_prefix_tokens:]
    places = places.reshape(1, *old, -1).permute(0, 3, 1, 2)  # (1, D, rows, cols)
    # The target size, never a scale factor: rounding would lose a row of patches.
    places = F.interpolate(places, size=new, mode="bicubic", antialias=True)  # (1, D, rows', cols')
    return torch.cat([prefix, places.flatten(2).transpose(1, 2)], dim=1)  # (1, T', D)


def _matching(table: Tensor, x: Tensor) -> Tensor:
    check_tokens("tokens", x, table.shape[2])
    if x.shape[1] != table.shape[1]:
        raise ValueError(
            f"tokens has {x.shape[1]} places, the position table {table.shape[1]}: "
            f"use {table.shape[1]} tokens, or resize_positions(table, ...)"
        )
    return table

# %% [markdown]
# # Solutions of chapter 2
#
# One right answer to each exercise of [chapter 2](../02-positions.ipynb), each accepted by its check; there are others.

# %%
import torch
from torch.nn import functional as F

from vitnb.checks import check

# %% [markdown]
# ## Exercise 2.1: what does a bag notice?
#
# Ask which squares there are afterwards, and in which shares. Rolling by a patch and swapping leave the same 49 squares. Rolling by a pixel, mirroring and turning make squares that were not there before. `twice` doubles the number of every square; attention weighs by shares and the mean divides by the number, so nothing moves: the bag knows shares, not numbers.

# %% {"tags": ["nbval-check-output"]}
def stays(change):
    """True if the logits stay, False if they move."""
    return {
        "roll by a patch": True,
        "roll by a pixel": False,
        "mirror": False,
        "swap": True,
        "turn": False,
        "twice": True,
    }[change]


assert check("2.1", stays)

# %% [markdown]
# ## Exercise 2.2: a test for equivariance
#
# A flip or a roll alone is too weak: a convolution along the tokens can be equivariant to both. And `torch.equal` is too strict: attention sums in another order, and the last digits differ. One of the five attends over the *batch* instead of the tokens, which is a bug, and it passes: equivariance does not prove everything.

# %% {"tags": ["nbval-check-output"]}
def is_equivariant(layer, T, D):
    """True if shuffling before layer is shuffling after it."""
    x = torch.randn(2, T, D)  # (B, T, D)
    for _ in range(5):
        order = torch.randperm(T)
        before, after = layer(x[:, order]), layer(x)[:, order]
        if not torch.allclose(before, after, atol=1e-4):
            return False
    return True


assert check("2.2", is_equivariant)

# %% [markdown]
# ## Exercise 2.3: an address, by hand
#
# `read` has zeros where the content speaks, so it does not hear the patch. This is what room means: in $D$ features, content and place can have directions of their own.

# %% {"tags": ["nbval-check-output"]}
def address(rows, cols, D):
    """A table (N, D) and a read-out (D, 2) of row and column."""
    n = torch.arange(rows * cols)
    table, read = torch.zeros(rows * cols, D), torch.zeros(D, 2)
    table[:, -2], table[:, -1] = n // cols, n % cols
    read[-2, 0] = read[-1, 1] = 1
    return table, read


assert check("2.3", address)

# %% [markdown]
# ## Exercise 2.4: stretch a table
#
# `reshape(1, D, rows, cols)` without the `permute` has the right shape too, and tears every vector apart: it is the mistake of [chapter 1](../01-patchify.ipynb#by-hand-on-24-pixels) again.

# %% {"tags": ["nbval-check-output"]}
def my_resize(table, old, new, num_prefix):
    """Table (1, num_prefix + N, D) -> (1, num_prefix + N', D)."""
    prefix, places = table[:, :num_prefix], table[:, num_prefix:]
    grid = places.reshape(1, *old, -1)  # (1, rows, cols, D)
    grid = grid.permute(0, 3, 1, 2)  # (1, D, rows, cols)
    grid = F.interpolate(grid, size=new, mode="bicubic")
    places = grid.flatten(2).transpose(1, 2)  # (1, N', D)
    return torch.cat([prefix, places], dim=1)


assert check("2.4", my_resize)

# %% [markdown]
# ## Exercise 2.5: a table that is no table
#
# Tokens of zeros show the table alone, with no rounding. `Suspect` makes its table anew in each call, so it is never learned: `list(Suspect().parameters())` is empty, although the word `nn.Parameter` stands there. And with the axis for the batch each picture has places of its own.

# %% {"tags": ["nbval-check-output"]}
def is_sound(make, x):
    """True if the positions that make() builds can be trusted."""
    zeros, first, second = torch.zeros_like(x), make(), make()
    second.load_state_dict(first.state_dict())
    table = first(zeros)  # (B, T, D)
    return (
        torch.equal(table, table[:1].expand_as(table))
        and torch.equal(table, first(zeros))
        and torch.equal(table, second(zeros))
    )


assert check("2.5", is_sound)


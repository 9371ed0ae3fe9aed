"""Exercises of chapter 2: what a bag notices, equivariance, an address by hand, stretching a table, sound tables."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitnb import clinic
from vitnb.attention import MultiHeadAttention
from vitnb.blocks import PreNormBlock
from vitnb.checks.engine import Wrong, call, close, exercise, fresh, tensor_like
from vitnb.checks.kinds import judge, parts, predict
from vitnb.clinic import attend, place
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


def _what_stays(said: dict[str, bool], known: dict[str, bool]) -> str:
    if all(said.values()):
        return "You say that nothing moves the logits. But inside a patch each pixel has a weight of its own."
    if not any(said.values()):
        return "You say that everything moves the logits. But a bag of patches does not know where a patch was."
    if said == known | {"twice": False}:
        return "You know what the bag holds. Does it count the patches, or their shares?"
    if said["roll by a patch"] != said["swap"]:
        return "You treat two ways of moving whole patches to other places unlike."
    if said["roll by a pixel"]:
        return "One at least of your True changes makes patches that were not there before."
    return "Ask of each change: are they the same squares afterwards, in the same shares?"


predict(
    "2.1",
    "stays(change)",
    "Write down which squares the picture consists of before the change and after it. Where they lie does not count; "
    "what is inside them does.",
    "For the last one: the answer is made from a mean over the tokens. What happens to a mean if every number in it "
    "comes twice?",
    truth=lambda: STAYS,
    advice=_what_stays,
    agree="predictions agree with the model",
)


class _AddsTheMean(nn.Module):
    def __init__(self, T: int, D: int):
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return x + x.mean(1, keepdim=True)


EQUIVARIANT: dict[str, Callable[[int, int], nn.Module]] = {
    "a linear layer": lambda T, D: nn.Linear(D, D + 3),
    "a block with attention": lambda T, D: PreNormBlock(D, 2),
    "attention": lambda T, D: MultiHeadAttention(D, 2),
    "a layer that adds the mean of all tokens to each": _AddsTheMean,
    "attention over the batch": lambda T, D: attend.OverTheBatch(D, 2),
}


def _which_layers(rejected: list[str], missed: list[str]) -> str:
    wrong = clinic.of(NoPositions)
    if len(rejected) == len(EQUIVARIANT) and "is invariant: it sorts the tokens" in missed:
        return "You test for invariance, f(Px) = f(x): you accept a layer that sorts its tokens."
    if len(missed) == len(wrong) and not rejected:
        return f"You accept all {len(EQUIVARIANT) + len(wrong)} layers: what does your function compare?"
    if "attention" in rejected and "a linear layer" not in rejected:
        return "You reject attention, which is equivariant up to rounding: its sums run in another order."
    if rejected:
        return f"One that you reject is {rejected[0]}."
    special = any("neighbour" in name or "first two" in name for name in missed)
    return "Is your order or your input a special one?" if special else ""


judge(
    "2.2",
    "is_equivariant(layer, T, D)",
    "Both sides of the equation are calls of the layer: one on shuffled tokens, one on tokens in order. Which of the "
    "two results do you shuffle?",
    "Draw the order at random, more than once: a flip or a roll is special. And compare with a tolerance, since sums "
    "in another order differ in their last digits.",
    right=EQUIVARIANT,
    wrong=clinic.of(NoPositions),
    nouns=("equivariant layers", "others"),
    given=lambda kind: (kind(11, 12).requires_grad_(False), 11, 12),  # 7 tokens: one order in 100 is a special one
    more=_which_layers,
    accepted="you accept {right} equivariant layers and see through {wrong} others.",
)


def _written(reading: Callable[[Tensor, int, int], tuple[Tensor, Tensor]], first: int = -2) -> Callable:
    """An answer that writes these two numbers of every place n into two features, and reads them there."""

    def answer(rows: int, cols: int, D: int) -> tuple[Tensor, Tensor]:
        table, read = torch.zeros(rows * cols, D), torch.zeros(D, 2)
        for i, numbers in enumerate(reading(torch.arange(rows * cols), rows, cols)):
            table[:, first + i], read[first + i, i] = numbers.float(), 1
        return table, read

    return answer


ADDRESSES: dict[str, Callable] = {
    "Without content you are right, with content you are off by up to {off:.1f}: your read listens to features in "
    "which the patch speaks.": _written(lambda n, rows, cols: (n // cols, n % cols), first=0),
    "You read (column, row): (row, column) is wanted.": _written(lambda n, rows, cols: (n % cols, n // cols)),
    "You divide by the number of rows, {rows}: the places stand row by row, {cols} in each.": (
        _written(lambda n, rows, cols: (n // rows, n % rows))
    ),
    "You count the places column by column: place 1 stands right of place 0, not below it.": (
        _written(lambda n, rows, cols: (n % rows, n // rows))
    ),
    "You count rows and columns from 1: the first ones are 0.": (
        _written(lambda n, rows, cols: (n // cols + 1, n % cols + 1))
    ),
}


@exercise(
    "2.3",
    "address(rows, cols, D)",
    "Two features of every token are free. Write the row of the place into one and its column into the other. Where "
    "in the table does the place in row r and column c stand?",
    "Places are counted row by row: look at what the number of a place leaves when it is divided by the number of "
    "columns. And a weight of 0 in `read` means that a feature is not heard.",
    ADDRESSES,
)
def _address(answer: Callable) -> str:
    for rows, cols, D in ((3, 5, 8), (6, 4, 11)):
        table, read = parts(call(answer, rows, cols, D), 2, "the pair (table, read)")
        if isinstance(table, Tensor) and table.ndim == 3 and table.shape[0] == 1:
            table = table[0]
        table = tensor_like(table, torch.zeros(rows * cols, D), whose="")
        read = tensor_like(read, torch.zeros(D, 2), whose="")
        content = 10 * fresh(4, rows * cols, D)
        content[..., -2:] = 0
        found = (content + table) @ read  # (4, N, 2)
        wanted = torch.cartesian_prod(torch.arange(rows), torch.arange(cols)).float()  # (N, 2)
        if not torch.allclose(found, wanted.expand_as(found), atol=1e-2):
            raise Wrong(_address_mistake(table, read, (found - wanted).abs().max().item(), rows, cols))
    return "each token reads its row and column on grids of 3 x 5 and 6 x 4, whatever it shows."


def _address_mistake(table: Tensor, read: Tensor, off: float, rows: int, cols: int) -> str:
    if not (table.any() or read.any()):
        return "Your table and your read are all zeros: nobody hears anything."
    quiet = table @ read  # (N, 2)
    for message, mistake in ADDRESSES.items():
        theirs, reads = mistake(rows, cols, table.shape[1])
        if close(quiet, theirs @ reads, 1e-3):
            return message.format(off=off, rows=rows, cols=cols)
    wanted = torch.cartesian_prod(torch.arange(rows), torch.arange(cols))
    n = int((quiet - wanted).abs().amax(1).argmax())
    r, c = (round(v, 2) for v in quiet[n].tolist())
    return f"On a grid of {rows} x {cols}, place {n} reads ({r}, {c}), and that is not its row and column."


Grid = tuple[int, int]
WAYS = [
    dict(mode=mode, antialias=antialias, align_corners=corners)
    for mode in ("bicubic", "bilinear")
    for antialias in (True, False)
    for corners in (False, True)
]
LINES = [dict(mode="linear", align_corners=False), dict(mode="linear", align_corners=True), dict(mode="nearest")]
# {message: (wrong versions, ways in which each may stretch)}
STRETCHED: dict[str, tuple[tuple[Callable, ...], list[dict]]] = {
    "the rows in front stand at the end of your table.": ((place.prefix_last,), WAYS),
    "you stretch the places as one line, so that a row's end runs into the next row's start.": (
        (place.as_one_line,),
        LINES,
    ),
    "you stretch the whole table, cls and all, as one line: keep cls out of it and use the grid.": (
        (place.prefix_in_the_line,),
        LINES,
    ),
    "rows and columns are swapped.": ((place.rows_as_columns, place.grid_transposed), WAYS),
    "every vector is torn: reshape(1, D, rows, cols) draws new borders and moves no feature. Permute.": (
        (place.torn, place.torn_twice),
        WAYS,
    ),
    "the stretching is right, the way back is not: the features must be the last axis again. Transpose.": (
        (place.torn_on_the_way_back,),
        WAYS,
    ),
}


@exercise(
    "2.4",
    "my_resize(table, old, new, num_prefix)",
    "First cut the table in two: the rows before the patches, which have no place on the grid, and the rest. F.inter"
    "polate wants (1, D, rows, cols); what you have is (1, N, D).",
    "The features must become channels, and that takes more than new borders: put the places on their grid first, "
    "then move the last axis. On the way back, the same in reverse.",
    {message: versions[0] for message, (versions, _) in STRETCHED.items()},
)
def _resize(answer: Callable) -> str:
    for case in (((3, 5), (6, 4), 1), ((4, 2), (3, 7), 0), ((5, 4), (7, 9), 3), ((3, 4), (3, 4), 1)):
        old, new, prefix = case
        table = fresh(1, prefix + old[0] * old[1], 6)
        result, wanted = call(answer, table, *case), resize_positions(table, *case)
        where = f"From {old[0]} x {old[1]} to {new[0]} x {new[1]} with {prefix} row{'s' * (prefix != 1)} in front"
        if isinstance(result, Tensor) and result.ndim == 3 and result.shape[1] == wanted.shape[1] - prefix:
            if prefix:
                raise Wrong(f"{where}: you return the patches' rows only. The rows in front are missing.")
        result = tensor_like(result, wanted)
        if not any(close(result, _stretched(table, *case, **way), 1e-4) for way in WAYS):
            raise Wrong(f"{where}: {_resize_mistake(result, table, *case)}")
    return "4 pairs of grids, larger and smaller, with 0, 1 and 3 rows in front."


def _stretched(table: Tensor, old: Grid, new: Grid, prefix: int, **way: str | bool) -> Tensor:
    grid = table[:, prefix:].reshape(1, *old, -1).permute(0, 3, 1, 2)  # (1, D, rows, cols)
    grid = F.interpolate(grid, size=new, **way)  # (1, D, rows', cols')
    return torch.cat([table[:, :prefix], grid.flatten(2).mT], dim=1)  # (1, T', D)


def _resize_mistake(result: Tensor, table: Tensor, old: Grid, new: Grid, prefix: int) -> str:
    for message, (versions, ways) in STRETCHED.items():
        if any(close(result, wrong(table, old, new, prefix, **way), 1e-4) for wrong in versions for way in ways):
            return message
    if prefix and not close(result[:, :prefix], table[:, :prefix]):
        return "the rows in front are changed. The cls token has no place on the grid: keep it out of the stretching."
    if old == new:
        return "the grid stays the same, yet your table does not."
    return "your table is not the old one, stretched on its grid."


SOUND: dict[str, Callable[[int, int, float], nn.Module]] = {
    "a learned table": LearnedPositions,
    "waves": lambda T, D, std: SinCosPositions((2, (T - 1) // 2), D, 1),
    "no positions at all": lambda T, D, std: NoPositions(),
}


def _which_positions(rejected: list[str], missed: list[str]) -> str:
    if len(rejected) == len(SOUND):
        return "You find none of 3 sound kinds of positions sound. Do you compare differences bit by bit?"
    if rejected:
        return f"You reject sound positions: {rejected[0]}. Not every table is learned, or has to be."
    if len(missed) == len(clinic.of(LearnedPositions)):
        return "You accept everything, Suspect too. A shape proves nothing: compare values."
    return ""


judge(
    "2.5",
    "is_sound(make, x)",
    "Three sentences, three comparisons: picture with picture, call with call, module with module. What do the "
    "positions give for tokens that are all zero?",
    "For the third: make two modules, give the second one the weights of the first, and compare what they do. Any "
    "random table that is not among the weights shows itself.",
    right=SOUND,
    wrong=clinic.of(LearnedPositions),
    nouns=("sound kinds of positions", "unsound ones"),
    given=lambda kind: (lambda: kind(7, 12, 0.7), fresh(3, 7, 12)),
    more=_which_positions,
    accepted="you accept {right} sound kinds of positions and see through {wrong} others.",
)

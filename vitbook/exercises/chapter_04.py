"""Exercises of chapter 4: what each head adds, weights set by hand, the layer from a blank class."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from vitbook import faults
from vitbook.exercises.declaration import Exercise
from vitbook.exercises.forms import blank_class, compute, forbidding, linear
from vitbook.exercises.values import apart, close, counted, expected, fresh, perturbed, tensor_like
from vitbook.faults import attend
from vitnb.attention import MultiHeadAttention
from vitnb.positions import sincos_table

WRONG_MIXES = {symptom: attend.layer(mix) for symptom, mix in faults.of(attend.MIX).items()}
WRONG_LAYERS = WRONG_MIXES | faults.of(MultiHeadAttention)


def _matrices(layer: MultiHeadAttention) -> Tensor:
    """The rows of the output projection that meet each head, (h, d, D)."""
    return layer.proj.weight.T.unflatten(0, (layer.num_heads, layer.head_dim))


def _terms(
    layer: MultiHeadAttention,
    x: Tensor,
    kind: type[MultiHeadAttention] = MultiHeadAttention,
    matrices: Callable[[MultiHeadAttention], Tensor] = _matrices,
) -> Tensor:
    """The term of each head in the output, (B, h, T, D), if the layer is of this kind."""
    heads = copy.deepcopy(layer)
    heads.__class__, heads.proj = kind, nn.Identity()
    out = heads(x).unflatten(-1, (layer.num_heads, layer.head_dim))  # (B, T, h, d)
    return out.transpose(1, 2) @ matrices(layer)


def _one_tensor(result: Any, right: Tensor, layer: MultiHeadAttention, x: Tensor) -> str | None:
    listed = isinstance(result, (list, tuple)) and len(result) == layer.num_heads
    if listed and all(isinstance(term, Tensor) for term in result):
        return expected("one tensor (B, h, T, D)", result)
    return None


def _no_terms(result: Tensor, right: Tensor, layer: MultiHeadAttention, x: Tensor) -> str:
    total = result.sum(1)
    if close(total, right.sum(1), 1e-4) or close(total, layer(x), 1e-4):
        return "Your terms add up to the right sum, but the single ones are not those of the heads."
    return (
        f"The terms of {'all ' * (layer.num_heads > 1)}{counted(layer.num_heads, 'head')} and the bias should add up "
        f"to layer(x): yours are {apart(total, right.sum(1))}. Are the heads right before layer.proj? And which "
        "columns of its weight does head 1 meet?"
    )


compute(
    "4.1",
    "contributions(layer, x)",
    "layer.qkv(x) holds all queries, then all keys, then all values; in each, head after head. Split as the class "
    "does, and stop before the heads are merged.",
    "A Linear computes x @ weight.T, so the numbers of head s meet only some columns of layer.proj.weight. How many, "
    "and from where? The bias belongs to no head.",
    cases=lambda: (
        (perturbed(MultiHeadAttention(D, h).eval()), fresh(B, T, D))
        for B, T, D, h in ((2, 5, 12, 3), (3, 7, 20, 5), (1, 6, 8, 1))
    ),
    reference=_terms,
    before=_one_tensor,
    mistakes={
        "Each of your terms contains the bias, so {h} heads add it {h} times: it belongs to none of them.": (
            lambda layer, x: _terms(layer, x) + layer.proj.bias
        ),
        "You share the bias out among the heads: it belongs to none of them, leave it out.": (
            lambda layer, x: _terms(layer, x) + layer.proj.bias / layer.num_heads
        ),
        "You cut layer.proj.weight into rows. A Linear computes x @ weight.T. Which columns of layer.proj.weight does "
        "head 1 meet?": (
            lambda layer, x: _terms(layer, x, matrices=lambda a: a.proj.weight.unflatten(0, (a.num_heads, -1)))
        ),
        "You give each head every {h}-th column, and its own lie side by side. Which columns of layer.proj.weight does "
        "head 1 meet?": (
            lambda layer, x: _terms(
                layer, x, matrices=lambda a: a.proj.weight.T.unflatten(0, (-1, a.num_heads)).transpose(0, 1)
            )
        ),
    }
    | {
        f"Your terms are those of a layer that {symptom}.": lambda layer, x, kind=kind: _terms(layer, x, kind)
        for symptom, kind in WRONG_LAYERS.items()
    },
    otherwise=_no_terms,
    words=lambda layer, x: {"h": layer.num_heads},
    right="on 3 layers with 3, 5 and 1 heads; with the bias, your terms add up to the layer's output.",
    tolerance=1e-4,
)


GRID = (6, 7)
WAYS = ((2, -3), (0, -1), (0, 1), (1, 0), (-1, 0), (-1, 2))


def _query_matrix(W: Any, P: int, down: int, right: int) -> str | None:
    table = sincos_table(GRID, P)[0]  # (N, P)
    return _attends(tensor_like(W, torch.zeros(P, P)), table.reshape(*GRID, P), down, right)


Exercise(
    "4.2",
    "query_matrix(P, down, right)",
    "The chapter's head for the left neighbour is the case down=0, right=-1. Which of its two blocks has to do with "
    "rows? Positions grow downwards and to the right.",
    "Two rotations in one matrix: the first half of the features is moved by the number of rows, the second half by "
    "the number of columns. The chapter's rotation(k, P // 2) makes each.",
    cases=lambda: [(P, *way) for P in (64, 48) for way in WAYS],  # at 48, speeds that fall too slowly hit all, too
    judge=_query_matrix,
    right=f"at every place of a grid of 6 x 7 that has such a neighbour, in {len(WAYS)} directions and 2 widths.",
)


def _target(queries: Tensor, table: Tensor, down: int, right: int) -> float:
    """The share of places whose first choice is the one so far away, of those that have one."""
    rows, cols, D = table.shape
    first = (queries.reshape(-1, D) @ table.reshape(-1, D).T).argmax(-1)  # (N,)
    places = [
        (r * cols + c, (r + down) * cols + c + right)
        for r in range(rows)
        for c in range(cols)
        if 0 <= r + down < rows and 0 <= c + right < cols
    ]
    here, there = torch.tensor(places).T
    return (first[here] == there).float().mean().item()


WRONG_WAYS: dict[str, Callable[[int, int], tuple[int, int]]] = {
    "attends in the opposite direction": lambda down, right: (-down, -right),
    "exchanges rows and columns": lambda down, right: (right, down),
    "exchanges rows and columns and attends in the opposite direction": lambda down, right: (-right, -down),
    "attends to the token's own place": lambda down, right: (0, 0),
    "goes the right way up and down and the wrong way left and right": lambda down, right: (down, -right),
    "goes the right way left and right and the wrong way up and down": lambda down, right: (-down, right),
}


def _attends(W: Tensor, table: Tensor, down: int, right: int) -> str | None:
    queries = table @ W  # (rows, cols, P)
    if _target(queries, table, down, right) == 1.0:
        weight = (20 * queries.flatten(0, 1) @ table.flatten(0, 1).T).softmax(-1).amax(-1).mean()
        small = f"The highest score is at the right place, but at beta 20 its weight is {weight:.2f}: the scores are "
        return f"{small}too small." if weight < 0.75 else None
    case = f"query_matrix({W.shape[0]}, down={down}, right={right})"
    for words, turned in WRONG_WAYS.items():
        way = turned(down, right)
        if way != (down, right) and _target(queries, table, *way) == 1.0:
            return f"{case} {words}.{' Is a matrix transposed?' if way == (-down, -right) else ''}"
    found = _target(queries, table, down, right)
    return f"{case} gives that place the highest score for {100 * found:.0f} % of the tokens that have one."


PARTS = ("query", "key", "value", "proj")


def _four(kind: type[MultiHeadAttention]) -> type[nn.Module]:
    """A layer of this kind that keeps its weights in four linear layers, as the reader's does."""

    class Four(nn.Module):
        def __init__(self, dim: int, num_heads: int):
            super().__init__()
            self.dim, self.num_heads = dim, num_heads
            self.query, self.key, self.value, self.proj = (nn.Linear(dim, dim) for _ in PARTS)

        def forward(self, x: Tensor) -> Tensor:
            layer = kind(self.dim, self.num_heads).eval()
            layer.qkv, layer.proj = _SideBySide([self.query, self.key, self.value]), self.proj
            return layer(x)

    return Four


class _SideBySide(nn.ModuleList):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([part(x) for part in self], dim=-1)  # (B, T, 3 * D)


class _Unprojected(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        self.proj = nn.Identity()
        return super().forward(x)


class _EveryHth(MultiHeadAttention):
    """Feature 0 goes to head 0, feature 1 to head 1, ... and they come back in the same way."""

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = (t.unflatten(-1, (-1, self.num_heads)).permute(0, 3, 1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        return self.proj(self.attend(q, k, v).permute(0, 2, 3, 1).flatten(2))


class _OneHead(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        return self.proj(self.attend(*self.qkv(x)[:, None].chunk(3, dim=-1))[:, 0])


MY_MISTAKES: dict[str, type[nn.Module]] = {
    "The output projection is missing: proj is not used.": _four(_Unprojected),
    "There is only one head: num_heads changes nothing.": _four(_OneHead),
    "A head gets every num_heads-th feature, in place of those that lie side by side.": _four(_EveryHth),
} | {f"Your layer {symptom}.": _four(kind) for symptom, kind in WRONG_LAYERS.items()}


def _layers(layer: nn.Module, dim: int, num_heads: int) -> str | None:
    return next(filter(None, (linear(layer, name, dim, dim) for name in PARTS)), None)


blank_class(
    "4.3",
    "MyAttention(dim, num_heads)",
    "Four linear layers, then: split each of queries, keys and values into (B, h, T, d), attend, merge, project. Say "
    "the shape of every line aloud.",
    "Splitting takes two steps, because view draws borders and transpose moves the axes. In which order? Merging takes "
    "the same two, backwards.",
    kind=_four(MultiHeadAttention),
    parts=PARTS,
    asked=_layers,
    cases=lambda: (((dim, num_heads), (fresh(B, T, dim),)) for B, T, dim, num_heads in ((2, 5, 12, 3), (3, 7, 20, 5))),
    watch=forbidding(multi_head="nn.MultiheadAttention"),
    mistakes=MY_MISTAKES,
    otherwise="Do all heads attend, and does each bring its own features back to its own tokens?",
    right="with 3 and 5 heads, against the layer that equals nn.MultiheadAttention.",
)

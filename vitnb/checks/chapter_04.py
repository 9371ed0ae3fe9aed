"""Exercises of chapter 4: the share of each head, weights set by hand, a test for layers."""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from vitnb import clinic
from vitnb.attention import MultiHeadAttention
from vitnb.checks.engine import Wrong, call, close, exercise, fresh, tensor_like
from vitnb.checks.kinds import compute, judge
from vitnb.clinic import attend
from vitnb.positions import sincos_table


def _matrices(layer: MultiHeadAttention) -> Tensor:
    """What takes the result of each head home, (h, d, D)."""
    return layer.proj.weight.T.unflatten(0, (layer.num_heads, layer.head_dim))


def _terms(
    layer: MultiHeadAttention,
    x: Tensor,
    kind: type[MultiHeadAttention] = MultiHeadAttention,
    matrices: Callable[[MultiHeadAttention], Tensor] = _matrices,
) -> Tensor:
    """What each head adds to each token, (B, h, T, D), if the layer is of this kind."""
    heads = copy.deepcopy(layer)
    heads.__class__, heads.proj = kind, nn.Identity()
    out = heads(x).unflatten(-1, (layer.num_heads, layer.head_dim))  # (B, T, h, d)
    return out.transpose(1, 2) @ matrices(layer)


def _layer(kind: type[nn.Module], D: int, h: int) -> nn.Module:
    layer = kind(D, h).eval()
    for parameter in layer.parameters():
        parameter.data = 0.4 * fresh(*parameter.shape)
    return layer


def _one_tensor(result: Any, wanted: Tensor, layer: MultiHeadAttention, x: Tensor) -> None:
    listed = isinstance(result, (list, tuple)) and len(result) == layer.num_heads
    if listed and all(isinstance(term, Tensor) for term in result):
        raise Wrong(f"Your function returns a {type(result).__name__} of tensors: one tensor (B, h, T, D) is wanted.")


def _no_terms(result: Tensor, wanted: Tensor, layer: MultiHeadAttention, x: Tensor) -> str:
    total = result.sum(1)
    if close(total, wanted.sum(1), 1e-4) or close(total, layer(x), 1e-4):
        return "Your terms add up to the right sum, but the single ones are not those of the heads."
    return (
        f"The terms of all {layer.num_heads} heads and the bias should add up to layer(x): yours are off by up to "
        f"{(total - wanted.sum(1)).abs().max():.2g}. Are the heads right before layer.proj? And which columns of its "
        "weight does head 1 meet?"
    )


compute(
    "4.1",
    "contributions(layer, x)",
    "layer.qkv(x) holds all queries, then all keys, then all values; in each, head after head. Split as the class "
    "does, and stop before the heads are put side by side.",
    "A Linear computes x @ weight.T, so the numbers of head s meet only some columns of layer.proj.weight. How many, "
    "and from where? The bias belongs to no head.",
    cases=lambda: (
        (_layer(MultiHeadAttention, D, h), fresh(B, T, D))
        for B, T, D, h in ((2, 5, 12, 3), (3, 7, 20, 5), (1, 6, 8, 1))
    ),
    reference=_terms,
    before=_one_tensor,
    mistakes={
        "Every head brings the bias along, so {h} heads add it {h} times: it belongs to none of them.": (
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
        for symptom, kind in (
            *((symptom, attend.layer(mix)) for symptom, mix in clinic.of(attend.MIX).items()),
            *clinic.of(MultiHeadAttention).items(),
        )
    },
    otherwise=_no_terms,
    words=lambda layer, x: {"h": layer.num_heads},
    right="on 3 layers with 3, 5 and 1 heads; with the bias, your terms add up to what the layer says.",
    tolerance=1e-4,
)


@exercise(
    "4.2",
    "look(D, down, right)",
    "The chapter's head that looks left is the case down=0, right=-1. Which of its two blocks has to do with rows? "
    "Positions grow downwards and to the right.",
    "Two rotations in one matrix: the first half of the features is turned by the rows to go, the second half by the "
    "columns. rotation(k, D // 2) of the chapter makes each.",
)
def _look(answer: Callable) -> str:
    ways = [(2, -3), (0, -1), (0, 1), (1, 0), (-1, 0), (-1, 2)]
    for D in (64, 48):  # at 48, speeds that fall too slowly find every neighbour, too
        for down, right in ways:
            rows, cols = 6, 7
            table = sincos_table((rows, cols), D)[0]  # (N, D)
            W = tensor_like(call(answer, D, down, right), table[0, :1].expand(D, D), whose="")
            _looks(W, table.reshape(rows, cols, D), down, right)
    return "at every place of a grid of 6 x 7 that has such a neighbour, in 6 directions and 2 widths."


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


def _looks(W: Tensor, table: Tensor, down: int, right: int) -> None:
    queries = table @ W  # (rows, cols, D)
    if _target(queries, table, down, right) == 1.0:
        weight = (20 * queries.flatten(0, 1) @ table.flatten(0, 1).T).softmax(-1).amax(-1).mean()
        if weight < 0.75:
            raise Wrong(
                f"The first choice is right, but at beta 20 its weight is {weight:.2f}: the scores are too small."
            )
        return
    case = f"look({W.shape[0]}, down={down}, right={right})"
    wrong_ways = {
        "looks the other way": (-down, -right),
        "takes rows for columns": (right, down),
        "takes rows for columns and looks the other way": (-right, -down),
        "looks at the place itself": (0, 0),
        "goes the right way up and down and the wrong way left and right": (down, -right),
        "goes the right way left and right and the wrong way up and down": (-down, right),
    }
    for words, way in wrong_ways.items():
        if way != (down, right) and _target(queries, table, *way) == 1.0:
            transposed = " Is a matrix transposed?" if way == (-down, -right) else ""
            raise Wrong(f"{case} {words}.{transposed}")
    found = _target(queries, table, down, right)
    raise Wrong(f"{case} finds that neighbour first at {100 * found:.0f} % of the places that have one.")


class _Torchs(nn.Module):
    """torch's own layer, set up rightly."""

    def __init__(self, D: int, h: int):
        super().__init__()
        self.inner = nn.MultiheadAttention(D, h, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x, x, x)[0]


class _Stepwise(MultiHeadAttention):
    """The same sum, head after head, image after image."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([_terms(self, one[None])[0].sum(0) for one in x]) + self.proj.bias


def _precise(rejected: list[str], missed: list[str]) -> str:
    if len(rejected) == 3 and not missed:
        return "Does it ever say True?"
    return "Sums in another order differ in the last digits: do you leave room for that?" if rejected else ""


judge(
    "4.3",
    "is_sound(layer, D)",
    "Three questions: does every token hear of a change in another one of its picture? Does any other picture hear "
    "of it? Does a new order of the tokens only change the order of the output?",
    "Use random tokens with 2 or more pictures and a number of tokens unlike both the batch and D. Compare numbers "
    "with a small tolerance, and look at each token and each picture, not at a mean.",
    right={"the book's": MultiHeadAttention, "torch's own": _Torchs, "head after head": _Stepwise},
    wrong={
        symptom: kind
        for symptom, kind in (
            *clinic.of(MultiHeadAttention).items(),
            ("lets every token attend to itself alone", attend.layer(attend.only_itself)),
            ("lets a token attend only to those before it", attend.layer(attend.causal)),
        )
        if kind is not attend.Deleted
    },
    nouns=("sound layers", "others"),
    given=lambda kind: (_layer(kind, 24, 4), 24),
    more=_precise,
    accepted="it accepts {right} sound layers and sees through {wrong} that run and are wrong.",
)

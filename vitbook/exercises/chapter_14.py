"""Exercises of chapter 14: a mask for packed images, a mask for shifted windows, attention as in a recent ViT."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbook.exercises.forms import blank_class, changed, compute, linear
from vitbook.exercises.values import described, fresh


def _pairs(name: str) -> Callable[..., str]:
    """What is said of an unknown mask: what differs is counted, not measured."""

    def said(result: Tensor, right: Tensor, *case: object) -> str:
        too_many, too_few = (result & ~right).sum().item(), (~result & right).sum().item()
        return (
            f"{name}{case} allows {too_many} pairs that must not attend to each other, and forbids {too_few} that may."
        )

    return said


def _owners(lengths: list[int], T: int) -> Tensor:
    """The number of each token's image; every token of padding has a number of its own."""
    used = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    return torch.cat([used, len(lengths) + torch.arange(T - len(used))])  # (T,)


def _packing_mask(lengths: list[int], T: int) -> Tensor:
    return _alike(_owners(lengths, T))


def _used(lengths: list[int], T: int) -> Tensor:
    return torch.arange(T)[:, None] < sum(lengths)  # (T, 1)


compute(
    "14.1",
    "packing_mask(lengths, T)",
    "Give each token a number: that of its image. Two tokens may attend to each other if their numbers are equal.",
    "What number keeps a token of padding apart from the images and from the rest of the padding? Tensors of shape "
    "(T, 1) and (T,) can be compared.",
    cases=lambda: (([3, 5, 2], 12), ([4, 1], 8), ([6, 7], 13)),
    reference=_packing_mask,
    mistakes={
        "It is turned round: True means that a token may attend.": lambda lengths, T: ~_packing_mask(lengths, T),
        "Your padding is one more image: its tokens attend to each other, and each should attend to itself alone.": (
            lambda lengths, T: _alike(_owners(lengths, T).clamp(max=len(lengths)))
        ),
        "Your tokens of padding attend to nothing. A softmax over no token at all gives NaN, so let each attend to "
        "itself.": lambda lengths, T: _packing_mask(lengths, T) & _used(lengths, T),
        "Only the padding is kept apart: tokens of different images attend to each other.": (
            lambda lengths, T: _used(lengths, T) & _used(lengths, T).T | torch.eye(T, dtype=torch.bool)
        ),
        "Your tokens attend to earlier ones only, as in a causal mask: in an image all attend to all.": (
            lambda lengths, T: _packing_mask(lengths, T).tril()
        ),
    },
    otherwise=_pairs("packing_mask"),
    right="3 sequences of up to three images, with padding and without.",
)


def _windows(x: Tensor, w: int) -> Tensor:
    """Cut (H, W) into windows (n, M)."""
    H, W = x.shape
    return x.reshape(H // w, w, W // w, w).transpose(1, 2).reshape(-1, w * w)


def _by_marks(rows: Tensor, columns: Tensor, w: int) -> Tensor:
    """(H,) and (W,) marks -> (n, M, M): who has the same marks as whom in a window."""
    return _alike(_windows(2 * rows[:, None].long() + columns.long(), w))


def _alike(marks: Tensor) -> Tensor:
    """(..., M) marks -> (..., M, M): which of them are equal."""
    return marks[..., :, None] == marks[..., None, :]


def _came_round(length: int, s: int) -> Tensor:
    return torch.arange(length) >= length - s


def _shifted_mask(H: int, W: int, w: int, s: int) -> Tensor:
    return _by_marks(_came_round(H, s), _came_round(W, s), w)


def _nowhere(length: int) -> Tensor:
    return torch.zeros(length, dtype=torch.bool)


compute(
    "14.2",
    "shifted_mask(H, W, w, s)",
    "Which rows of the rolled grid came round from the other side, and which columns? Mark them before you cut "
    "anything.",
    "A token has one of four marks: its row came round or not, its column came round or not. Cut the marks into "
    "windows as you cut the tokens, and compare them within each window.",
    cases=lambda: ((6, 9, 3, 1), (14, 21, 7, 3), (8, 12, 4, 1), (10, 10, 5, 2)),
    reference=_shifted_mask,
    mistakes={
        "It is turned round: True means that a token may attend.": lambda *case: ~_shifted_mask(*case),
        "You allow every pair: after the roll some neighbours in a window come from opposite sides of the image.": (
            lambda H, W, w, s: _by_marks(_nowhere(H), _nowhere(W), w)
        ),
        "You separate the rows that came round, and not the columns.": (
            lambda H, W, w, s: _by_marks(_came_round(H, s), _nowhere(W), w)
        ),
        "You separate the columns that came round, and not the rows.": (
            lambda H, W, w, s: _by_marks(_nowhere(H), _came_round(W, s), w)
        ),
        "Your marks are at the wrong end: the first rows are rolled to the end of the grid, so they stand there now.": (
            lambda H, W, w, s: _by_marks(torch.arange(H) < s, torch.arange(W) < s, w)
        ),
        "Your marks name the right tokens in the grid before the roll, or they are rolled once too often: mark the "
        "places where the tokens stand after the roll.": (
            lambda H, W, w, s: _by_marks(_came_round(H, s).roll(-s), _came_round(W, s).roll(-s), w)
        ),
        "A token whose row came round and one whose column did are from different corners of the image: your marks do "
        "not tell them apart.": (
            lambda H, W, w, s: _alike(_windows(_came_round(H, s)[:, None].long() + _came_round(W, s).long(), w))
        ),
    },
    otherwise=_pairs("shifted_mask"),
    right="4 grids, with windows of 3, 4, 5 and 7 tokens and shifts of 1, 2 and 3.",
)


def _rotate(x: Tensor, places: Tensor, base: float = 100.0) -> Tensor:
    """Rotate features (..., T, d) by rows and columns (T, 2), as the chapter does."""
    quarter = x.shape[-1] // 4
    speeds = base ** (-torch.arange(quarter) / quarter)  # (d/4,)
    angles = (places[:, :, None] * speeds).flatten(1)  # (T, 2, d/4) -> (T, d/2)
    a, b = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)


class _Attention(nn.Module):
    """Attention as in a recent ViT; its wrong versions change one step."""

    scale: float | None = None

    def __init__(self, dim: int, num_heads: int):
        super().__init__()
        self.num_heads, d = num_heads, dim // num_heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim)
        self.q_norm, self.k_norm = nn.RMSNorm(d, eps=1e-6), nn.RMSNorm(d, eps=1e-6)

    def split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, h, T, d)

    def placed(self, q: Tensor, k: Tensor, v: Tensor, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return _rotate(self.q_norm(q), places), _rotate(self.k_norm(k), places), v

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        q, k, v = (self.split(part) for part in self.qkv(x).chunk(3, dim=-1))  # 3 x (B, h, T, d)
        q, k, v = self.placed(q, k, v, places)
        out = F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        return self.proj(out.transpose(1, 2).flatten(2))  # (B, T, dim)


def _placed(placed: Callable[..., tuple[Tensor, Tensor, Tensor]]) -> type[nn.Module]:
    """Attention that normalises and rotates in another way."""
    return changed(_Attention, placed=placed)


ATTENTION_MISTAKES: dict[str, type[nn.Module]] = {
    "You rotate the values as well: then what a token passes on depends on where it stands, and not only how much of "
    "it is taken.": _placed(lambda self, q, k, v, at: (*_Attention.placed(self, q, k, v, at)[:2], _rotate(v, at))),
    "You rotate the queries and not the keys: the scores depend on where the query stands, and not on the offset.": (
        _placed(lambda self, q, k, v, at: (_rotate(self.q_norm(q), at), self.k_norm(k), v))
    ),
    "Nothing is rotated: the tokens do not know where they are.": _placed(
        lambda self, q, k, v, at: (self.q_norm(q), self.k_norm(k), v)
    ),
    "Your rotation follows the rows only: two tokens of one row get the same angles, whatever their columns.": (
        _placed(lambda self, q, k, v, at: _Attention.placed(self, q, k, v, at[:, [0, 0]]))
    ),
    "Your rotation follows the columns only: two tokens of one column get the same angles, whatever their rows.": (
        _placed(lambda self, q, k, v, at: _Attention.placed(self, q, k, v, at[:, [1, 1]]))
    ),
    "You rotate first and normalise after. The gains of the norm then stretch the rotated pairs, and the scores no "
    "longer depend on the offset alone.": _placed(
        lambda self, q, k, v, at: (self.q_norm(_rotate(q, at)), self.k_norm(_rotate(k, at)), v)
    ),
    "Queries and keys are not normalised: q_norm and k_norm are made and not used.": _placed(
        lambda self, q, k, v, at: (_rotate(q, at), _rotate(k, at), v)
    ),
    "You use q_norm for the keys too: they have gains of their own, in k_norm.": _placed(
        lambda self, q, k, v, at: (_rotate(self.q_norm(q), at), _rotate(self.q_norm(k), at), v)
    ),
    "The scores are not divided by the square root of the width of a head.": changed(_Attention, scale=1.0),
    "Your heads mix tokens: reshape keeps the order of the numbers, so split the last axis first and then swap axes.": (
        changed(_Attention, split=lambda self, x: x.reshape(len(x), self.num_heads, x.shape[1], -1))
    ),
}


def _parts_as_asked(layer: nn.Module, D: int, heads: int) -> str | None:
    if message := linear(layer, "qkv", D, 3 * D) or linear(layer, "proj", D, D):
        return message
    if layer.qkv.bias is not None:
        return "Your qkv has a bias: the models of the figure have none there."
    for name in ("q_norm", "k_norm"):
        part = getattr(layer, name, None)
        if not isinstance(part, nn.RMSNorm):
            return (
                f"Expected an nn.RMSNorm named {name}, {'there is none' if part is None else f'got {described(part)}'}."
            )
        if tuple(part.normalized_shape) != (D // heads,):
            return (
                f"{name} normalises {tuple(part.normalized_shape)} features: a head has {D // heads}, and each is "
                "normalised by itself."
            )
        if part.weight is None:
            return f"{name} has no gains: leave elementwise_affine as it is."
        if part.eps != 1e-6:
            return f"Expected {name} with eps=1e-6, got {f'{part.eps:g}' if part.eps else 'the default'}."
    if layer.q_norm is layer.k_norm:
        return "q_norm and k_norm are one and the same: queries and keys have gains of their own."
    return None


blank_class(
    "14.3",
    "RecentAttention(dim, num_heads)",
    "Begin with the class of chapter 4: one linear layer for queries, keys and values, three chunks, each split into "
    "heads. Which of the three does the norm belong to, and which does the rotation?",
    "Norm first, then rotate: after a rotation the gains would act on mixed features. The chapter's rotate takes any "
    "axes in front of the last two, so it can be called on all heads at once.",
    kind=_Attention,
    parts=("qkv", "proj", "q_norm", "k_norm"),
    asked=_parts_as_asked,
    cases=lambda: (
        ((D, heads), (2 * fresh(B, T, D), (4 * fresh(T, 2)).round()))
        for B, T, D, heads in ((3, 17, 48, 6), (2, 5, 24, 2))
    ),
    mistakes=ATTENTION_MISTAKES,
    otherwise="Add the same two numbers to all places: does the result stay as it was?",
    right="2 sizes, with random weights and gains, at random places.",
)

"""Exercises of chapter 7: what is read, a mean of patches beside a cls token, a test, a mean by hand."""

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from vitbook import faults
from vitbook.exercises.declaration import Exercise, Judgement
from vitbook.exercises.forms import UNREACHED, changed, hunt, weights
from vitbook.exercises.values import (
    apart,
    chance,
    close,
    expected,
    first_that,
    fresh,
    perturbed,
    tensor_like,
    yes_or_no,
)
from vitbook.faults import attend, pool
from vitnb.attention import MultiHeadAttention, record_attention
from vitnb.pooling import ClsToken
from vitnb.vit import ViT, ViTConfig


def _cases() -> list[tuple[str, int, str, bool]]:
    cases = list(itertools.product(("cls", "mean", "attn"), (0, 3), ("before", "after"), (True, False)))
    chance().shuffle(cases)
    return cases


def _moves(result: Any, *case: Any) -> str | None:
    return None if (moves := yes_or_no(result)) == _really_moves(*case) else _reason(*case, moves)


Exercise(
    "7.1",
    "logits_move(pool, token, place, attention)",
    "Two questions for each case. Is the token that was changed read at the end? If it is not, is there a way left "
    "from it to one that is?",
    "With pool 'cls' one row is read, with the other two every row. And the only way from one token to another is "
    "the attention of a block: how many blocks are still to come?",
    cases=_cases,
    judge=_moves,
    right="all 24 cases, compared with models that were really run.",
)


@torch.no_grad()
def _really_moves(pool: str, token: int, place: str, attention: bool) -> bool:
    """Replace one token by noise in a model with random weights and look."""
    model = perturbed(ViT(ViTConfig(img_size=12, embed_dim=12, depth=2, num_heads=2, global_pool=pool)).eval(), 0.5)
    for block in model.blocks:
        block.attention.proj.weight.mul_(attention)
        block.attention.proj.bias.mul_(attention)
    x = fresh(1, 9 + model.pool.num_prefix_tokens, 12)  # (1, T, D), before the last block
    noise = x.clone()
    noise[:, token] = fresh(12)
    last, after = model.blocks[-1], []
    if place == "before":
        after = [last(x), last(noise)]
    else:
        after = [last(x), last(x)]
        after[1][:, token] = noise[:, token]
    a, b = (model.head(model.pool(model.norm(y))) for y in after)  # (1, K)
    return not close(a, b)


def _reason(pool: str, token: int, place: str, attention: bool, said: bool) -> str:
    case = f"pool={pool!r}, token={token}, place={place!r}, attention={attention}: you say {said}."
    if pool != "cls":
        zero = "token 0 is the first patch, and " if token == 0 else ""
        return f"{case} There is no cls token here: {zero}every token is read."
    if token == 0:
        return f"{case} Token 0 is the one that is read."
    if not attention:
        return f"{case} Token 0 alone is read, and with attention ablated no patch can reach it."
    if place == "after":
        return f"{case} Token 0 alone is read, and no block is left that could carry the patch to it."
    return f"{case} The attention of the last block is still to come, and token 0 attends to every patch."


def _reads(read: Callable[[Tensor], Tensor]) -> type[nn.Module]:
    """A cls token that reads something else from the tokens (B, 1 + N, D)."""
    return changed(ClsToken, forward=lambda self, x: read(x))


READS = {
    "The cls token is in your mean: change it alone, and the answer moves.": pool.MeanWithCls,
    "That is the cls token alone, and not the mean of the patches.": ClsToken,
    "You leave out the last patch and keep the cls token.": _reads(lambda x: x[:, :-1].mean(1)),
    "You take the sum, not the mean.": _reads(lambda x: x[:, 1:].sum(1)),
    "You sum the patches and divide by 1 + N; there are N of them.": _reads(lambda x: x[:, 1:].sum(1) / x.shape[1]),
    "You take the largest value of each feature, not the mean.": _reads(lambda x: x[:, 1:].amax(1)),
}


def _patch_mean(own: Any, D: int, x: Tensor, z: Tensor) -> Judgement:
    if not isinstance(own, nn.Module):
        return expected("an nn.Module", own)
    if missing := [name for name in ("prepend", "forward") if not hasattr(own, name)]:
        return f"Your {type(own).__name__} has no {missing[0]}."
    joined = yield own.prepend, x
    read = yield own.forward, z
    if message := _no_token(own, D) or _not_joined(joined, x):
        return message
    token = next(own.parameters())
    token.data = fresh(*token.shape)
    joined = yield own.prepend, x
    if message := _not_the_token(joined, token, x):
        return message
    right = z[:, 1:].mean(1)
    if not close(mean := tensor_like(read, right), right):
        known = first_that(lambda wrong: close(mean, wrong(D)(z)), READS)
        return known or f"Your vector is {apart(mean, right)} from the mean of the patches."
    if not read.requires_grad:
        return UNREACHED.format("blocks through what is read")
    if getattr(own, "num_prefix_tokens", None) != 1:
        return "A ViT asks for num_prefix_tokens, to give your token a place in the position table: it is 1."
    return None


def _no_token(pool: nn.Module, D: int) -> str | None:
    parameters = dict(pool.named_parameters())
    if not parameters:
        return (
            "named_parameters() is empty: your token is never trained. It must be an nn.Parameter that is assigned to "
            "self in __init__."
        )
    if len(parameters) > 1 or sum(p.numel() for p in parameters.values()) != D:
        shapes = ", ".join(f"{name} {tuple(p.shape)}" for name, p in parameters.items())
        return f"Expected one parameter of {D} numbers for embed_dim={D}, got {shapes}."
    return None


def _not_joined(joined: Any, x: Tensor) -> str | None:
    B, N, D = x.shape
    joined = tensor_like(joined, x.new_empty(B, 1 + N, D))
    if torch.equal(joined[:, 1:], x):
        return None
    last = ": your token comes last" if torch.equal(joined[:, :-1], x) else ""
    return f"After prepend, tokens 1 to N are not the patches in their order{last}."


def _not_the_token(joined: Tensor, token: nn.Parameter, x: Tensor) -> str | None:
    """Is the first of the tokens the parameter, and does it learn?"""
    if not torch.equal(joined.detach()[:, 0], token.detach().reshape(1, -1).expand(len(x), -1)):
        return "Token 0 is not your parameter: whatever training does to it, the model would not notice."
    learns = token.requires_grad and joined.requires_grad
    if not learns or torch.autograd.grad(joined[:, 0].sum(), token, allow_unused=True)[0] is None:
        return (
            "No gradient reaches your token, so it would never learn: is it detached, joined under no_grad, or without "
            "requires_grad?"
        )
    return None


Exercise(
    "7.2",
    "PatchMean(embed_dim)",
    "prepend is that of the chapter's ClsToken, and so is the parameter. Only what is read at the end is new.",
    "Cut off the row that is no patch, then average over the axis of the tokens: (B, 1 + N, D) becomes (B, N, D), "
    "then (B, D).",
    cases=lambda: (
        (D, fresh(B, N, D), fresh(B, 1 + N, D).requires_grad_()) for B, N, D in ((3, 7, 12), (5, 4, 6), (1, 9, 8))
    ),
    judge=_patch_mean,
    given=lambda D, x, z: (D,),
    mistakes=READS,
    right="one learned token joins the patches, and exactly the patches are averaged.",
    runs="inside",
)


class Repeated(ClsToken):
    """Written differently, and right."""

    def __init__(self, embed_dim: int):
        nn.Module.__init__(self)
        self.cls = nn.Parameter(fresh(1, 1, embed_dim))

    def prepend(self, x: Tensor) -> Tensor:
        return torch.cat((self.cls.repeat(len(x), 1, 1), x), 1)


class LastReadLast(Repeated):
    """Any place will do, if it is the same twice."""

    def prepend(self, x: Tensor) -> Tensor:
        return torch.cat((x, self.cls.expand(len(x), -1, -1)), 1)

    def forward(self, x: Tensor) -> Tensor:
        return x[:, -1]


def _started(kind: type[ClsToken]) -> type[ClsToken]:
    """The same, whose token starts from random numbers: zeros hide mistakes."""

    def start(self: ClsToken, embed_dim: int) -> None:
        kind.__init__(self, embed_dim)
        perturbed(self, 1.0)

    return changed(kind, __init__=start, __module__=kind.__module__)


def _too_strict(rejected: list[str], missed: list[str]) -> str:
    if "last" in rejected and "repeated" not in rejected:
        return "A token may stand first or last, if that is where it is read."
    if rejected == ["repeated", "last"]:
        return "A token may start from any numbers, zeros or not, and its parameter may have any name."
    return "Does it ever say True?" if rejected and not missed else ""


hunt(
    "7.4",
    "is_cls(Pool)",
    "Without any block: prepend, then read at once. What must come out, for two different images? That one question "
    "finds the token that is put last and read first.",
    "Three more questions. Is prepend the same in two calls? Is there a parameter? And when the tokens are then "
    "changed at random, as blocks would, is one of the rows exactly what is read?",
    right={"the book's": ClsToken, "repeated": Repeated, "last": LastReadLast},
    wrong={
        symptom: _started(kind) for symptom, kind in faults.of(ClsToken).items() if kind is not pool.NewForEachImage
    },
    more=_too_strict,
    accepted="it accepts {right} right cls tokens and sees through {wrong} wrong ones.",
)


class _RowZero(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x)[:, 0]  # (B, D)


def _flagged(N: int, D: int) -> Tensor:
    """Tokens (3, 1 + N, D) with a flag in feature 0: 1 in the cls token, 0 in the patches.

    The cls token is so close to the mean of the patches in all other features
    that the flag decides how exact an answer is: a near miss gets the same
    verdict each time.
    """
    x = fresh(3, 1 + N, D)
    x[:, 0] = x[:, 1:].mean(1) + x[:, 0].clamp(-0.9, 0.9)
    x[:, :, 0] = torch.arange(1 + N) == 0
    return x


def _other_mean(own: MultiHeadAttention, result: Tensor, target: Tensor, D: int, x: Tensor) -> str:
    with record_attention(own) as maps:
        own(x)
    row = maps[0][:, :, 0]  # (B, h, T)
    if close(result, x.mean(1), 1e-4):
        return "The cls token is in your mean: its own weight is 1 / (1 + N), like that of every patch."
    if close(result, x[:, 1:].sum(1) / x.shape[1], 1e-4):
        return "The value of the cls token is 0, but it still takes its share of the weight: you divide by 1 + N."
    # What comes out with exact weights? If that is right, the fault is in the weights, however small.
    own.__class__ = attend.layer(lambda q, k, v: v[:, :, 1:].mean(2, keepdim=True).expand_as(v))
    limit = 1e-6 if close(own(x)[:, 0], target, 1e-4) else 1e-3
    if (row[:, :, 1:].amax(2) - row[:, :, 1:].amin(2)).amax() > limit:
        return "The patches do not get equal weights in row 0: their scores still depend on what is in them."
    if row[:, :, 0].amax() > limit:
        return f"The cls token gets a weight of {row[:, :, 0].amax():.2g} in its own row, in place of 0."
    return "The weights of row 0 are right; what they average is not the patches: see the values, proj and the biases."


weights(
    "7.5",
    "cls_is_mean(embed_dim)",
    "Values first: which qkv and proj pass the tokens on as they are? Then the weights of row 0: equal for all "
    "patches, 0 for the cls token itself. Feature 0 tells the two kinds apart.",
    "Equal scores give equal weights, so the patches' scores may all be 0. The score of the cls token with itself "
    "must be far below: let q and k both be made of feature 0 alone, with opposite signs.",
    kind=MultiHeadAttention,
    cases=lambda: (((D,), (_flagged(N, D),)) for N, D in ((7, 6), (16, 12), (3, 10))),
    make=lambda own, D: _RowZero(D, own.num_heads, qkv_bias=own.qkv.bias is not None),
    reference=lambda D: lambda x: x[:, 1:].mean(1),
    mistakes={},
    otherwise=_other_mean,
    right="row 0 is the mean of 3, 7 and 16 patches, to 1e-4, and never of the cls token.",
)

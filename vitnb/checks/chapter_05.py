"""Exercises of chapter 5: what is read, the mean beside a cls token, weights by hand, a test for cls tokens."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vitnb.attention import MultiHeadAttention, record_attention
from vitnb.checks.engine import Wrong, call, close, described, exercise, fresh, tensor_like
from vitnb.pooling import ClsToken
from vitnb.vit import ViT, ViTConfig


def _truth(result: Any) -> bool:
    if isinstance(result, Tensor) and result.ndim == 0:
        result = result.item()
    if not isinstance(result, (bool, np.bool_)):
        raise Wrong(f"Your function returns {described(result)}: True or False is wanted.")
    return bool(result)


def _module(result: Any, *attributes: str) -> nn.Module:
    if not isinstance(result, nn.Module):
        raise Wrong(f"Your function returns {described(result)}: an nn.Module is wanted.")
    for name in attributes:
        if not hasattr(result, name):
            raise Wrong(f"Your {type(result).__name__} has no {name}.")
    return result


@exercise(
    "5.1",
    "logits_move(pool, token, place, attention)",
    "Two questions for each case. Is the token that was changed read at the end? If it is not, is there a way left "
    "from it to one that is?",
    "With pool 'cls' one row is read, with the other two every row. And the only way from one token to another is "
    "the attention of a block: how many blocks are still to come?",
)
def _moves(answer: Callable) -> str:
    cases = [
        (pool, token, place, attention)
        for pool in ("cls", "mean", "attn")
        for token in (0, 3)
        for place in ("before", "after")
        for attention in (True, False)
    ]
    random.Random().shuffle(cases)
    said = [_truth(call(answer, *case)) for case in cases]
    for case, moves in zip(cases, said, strict=True):
        if moves != _really_moves(*case):
            raise Wrong(_reason(*case, moves))
    return f"all {len(cases)} cases, compared with models that were really run."


@torch.no_grad()
def _really_moves(pool: str, token: int, place: str, attention: bool) -> bool:
    """Replace one token by noise in a model with random weights and look."""
    model = ViT(ViTConfig(img_size=12, embed_dim=12, depth=2, num_heads=2, global_pool=pool)).eval()
    for parameter in model.parameters():
        parameter.data = 0.5 * fresh(*parameter.shape)
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
        return f"{case} Token 0 alone is read, and with attention switched off no patch can reach it."
    if place == "after":
        return f"{case} Token 0 alone is read, and no block is left that could carry the patch to it."
    return f"{case} The attention of the last block is still to come, and token 0 looks at every patch."


@exercise(
    "5.2",
    "PatchMean(embed_dim)",
    "prepend is that of the chapter's ClsToken, and so is the parameter. Only what is read at the end is new.",
    "Cut off the row that is no patch, then average over the axis of the tokens: (B, 1 + N, D) becomes (B, N, D), "
    "then (B, D).",
)
def _patch_mean(answer: Callable) -> str:
    for B, N, D in ((3, 7, 12), (5, 4, 6), (1, 9, 8)):
        pool = _module(call(answer, D), "prepend", "forward")
        x, z = fresh(B, N, D), fresh(B, 1 + N, D)
        y = call(pool.prepend, x)
        read = call(pool.forward, z)
        token = _token(pool, D)
        _joined(pool, token, x, y)
        right = z[:, 1:].mean(1)
        if not close(read := tensor_like(read, right), right):
            raise Wrong(_read_mistake(read, z))
    if getattr(pool, "num_prefix_tokens", None) != 1:
        raise Wrong("A ViT asks for num_prefix_tokens, to give your token a place in the position table: it is 1.")
    return "one learned token of shape (1, 1, D) joins the patches, and exactly the patches are averaged."


def _token(pool: nn.Module, D: int) -> nn.Parameter:
    parameters = dict(pool.named_parameters())
    if not parameters:
        raise Wrong(
            "named_parameters() is empty: your token is never trained. It must be an nn.Parameter that is assigned to "
            "self in __init__."
        )
    (name, token), *more = parameters.items()
    if more or token.numel() != D:
        shapes = ", ".join(f"{name} {tuple(p.shape)}" for name, p in parameters.items())
        raise Wrong(f"Your parameters are {shapes} for embed_dim={D}: one vector is wanted, shape (1, 1, {D}).")
    return token


def _joined(pool: nn.Module, token: nn.Parameter, x: Tensor, y: Any) -> None:
    """Is y the token and then the patches x?"""
    B, N, D = x.shape
    y = tensor_like(y, x.new_empty(B, 1 + N, D))
    if not torch.equal(y[:, 1:], x):
        last = ": your token comes last" if torch.equal(y[:, :-1], x) else ""
        raise Wrong(f"After prepend, tokens 1 to N are not the patches in their order{last}.")
    with torch.no_grad():
        token.copy_(fresh(*token.shape))
    y = tensor_like(call(pool.prepend, x), y)
    if not torch.equal(y[:, 0], token.detach().reshape(1, D).expand(B, -1)):
        raise Wrong("Token 0 is not your parameter: whatever training does to it, the model would not notice.")


def _read_mistake(read: Tensor, z: Tensor) -> str:
    mistakes = {
        "The cls token is in your mean: change it alone, and the answer moves.": z.mean(1),
        "That is the cls token alone: the patches are wanted.": z[:, 0],
        "You leave out the last patch and keep the cls token.": z[:, :-1].mean(1),
        "You take the sum, not the mean.": z[:, 1:].sum(1),
        "You sum the patches and divide by 1 + N; there are N of them.": z[:, 1:].sum(1) / z.shape[1],
        "You take the largest value of each feature, not the mean.": z[:, 1:].amax(1),
    }
    for message, wrong in mistakes.items():
        if close(read, wrong):
            return message
    off = (read - z[:, 1:].mean(1)).abs().max().item()
    return f"Your vector is off the mean of the patches by up to {off:.2g}."


@exercise(
    "5.3",
    "brightest(embed_dim)",
    "A weight is large where q · k is. Let the keys and the values be the tokens themselves: which query then gives "
    "feature 0 of the token, and nothing else?",
    "Both halves of kv.weight, the keys' and the values', are an identity, and proj is one; no bias. A query along "
    "feature 0 looks at the right token; the longer it is, the less it looks at the others.",
)
def _brightest(answer: Callable) -> str:
    for N, D in ((9, 6), (20, 12), (5, 16)):
        pool = _module(call(answer, D), "query", "kv", "proj")
        x, rows = fresh(3, N, D), torch.arange(3)
        winner = torch.tensor([random.Random().randrange(N) for _ in rows])  # (B,)
        x[rows, winner, 0] = x[:, :, 0].amax(1) + 1
        right = x[rows, winner]  # (B, D)
        result = tensor_like(call(pool, x), right)
        if not close(result, right, 1e-3):
            raise Wrong(_bright_mistake(pool, x, winner))
    return "the right token out of 5, 9 and 20, to 1e-3."


@torch.no_grad()
def _bright_mistake(pool: nn.Module, x: Tensor, winner: Tensor) -> str:
    D = x.shape[2]
    try:
        a = (pool.kv(x)[:, :, :D] @ pool.query.reshape(D) / D**0.5).softmax(1)  # (B, N), for one head
    except Exception:
        return "query, kv and proj do not have the shapes of AttentionPool(embed_dim, 1)."
    if getattr(pool, "num_heads", 1) != 1:
        return f"Your pooling has {pool.num_heads} heads, each with its own query: one is enough."
    if a.amax() - a.amin() < 1e-3:
        return "All tokens get the same weight, so you get a mean: the query or the keys are zero."
    if torch.equal(a.argmax(1), x[:, :, 0].argmin(1)):
        return "You look at the token with the least of feature 0: the sign is wrong."
    weight = a[torch.arange(3), winner].amin().item()
    if not torch.equal(a.argmax(1), winner):
        return f"You look at another token: the right one gets a weight of {weight:.2f}. Do the keys show feature 0?"
    if weight < 0.999:
        return f"You look at the right token, but not only: its weight is {weight:.2f}, the others get the rest."
    bias = (
        "a bias is added" if pool.proj.bias is not None and pool.proj.bias.abs().sum() > 0 else "is proj still random?"
    )
    return f"You look at the right token alone, and something else comes out: see the values and proj ({bias})."


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


def _mutant(prepend: Callable | None = None, forward: Callable | None = None, token: Callable | None = None) -> type:
    """A cls token with one thing changed: functions of (its token, x)."""

    class Pool(Repeated):
        def __init__(self, embed_dim: int):
            super().__init__(embed_dim)
            if token is not None:
                del self.cls
                self.cls = token(embed_dim)

        def prepend(self, x: Tensor) -> Tensor:
            return super().prepend(x) if prepend is None else prepend(self.cls, x)

        def forward(self, x: Tensor) -> Tensor:
            return x[:, 0] if forward is None else forward(self.cls, x)

    return Pool


def _first(token: Tensor, x: Tensor) -> Tensor:
    return torch.cat([token.expand(len(x), -1, -1), x], dim=1)


RIGHT = (ClsToken, Repeated, LastReadLast)
# What a reader is told about one that was let through.
MUTANTS: dict[str, type] = {
    "puts its token last and reads the first patch": _mutant(lambda t, x: torch.cat([x, _first(t, x)[:, :1]], dim=1)),
    "puts its token first and reads token 1": _mutant(forward=lambda t, x: x[:, 1]),
    "reads the mean of all tokens, its own among them": _mutant(forward=lambda t, x: x.mean(1)),
    "adds the mean of the patches to its token before it joins them": _mutant(
        lambda t, x: torch.cat([t + x.mean(1, keepdim=True), x], dim=1)
    ),
    "draws its token anew in each call": _mutant(lambda t, x: _first(fresh(1, 1, x.shape[2]), x), token=lambda D: None),
    "keeps its token in a plain tensor, which no optimizer ever sees": _mutant(token=lambda D: fresh(1, 1, D)),
    "has another token for each place in the batch": _mutant(
        lambda t, x: torch.cat([t[: len(x)], x], dim=1), token=lambda D: nn.Parameter(fresh(64, 1, D))
    ),
    "writes its token over the first patch": _mutant(lambda t, x: _first(t, x[:, 1:])),
    "answers with its token as it went in, whatever the blocks have made of it": _mutant(
        forward=lambda t, x: t[0].expand(len(x), -1)
    ),
}


@exercise(
    "5.4",
    "is_cls(Pool)",
    "Without any block: prepend, then read at once. What must come out, for two unlike pictures? That one question "
    "finds the token that is put last and read first.",
    "Three more questions. Is prepend the same in two calls? Is there a parameter? And when the tokens are then "
    "changed at random, as blocks would, is one of the rows exactly what is read?",
)
def _is_cls(answer: Callable) -> str:
    rejected = sum(not _truth(call(answer, pool)) for pool in RIGHT)
    missed = [symptom for symptom, pool in MUTANTS.items() if _truth(call(answer, pool))]
    if rejected or missed:
        count = f"It rejects {rejected} of {len(RIGHT)} right ones and lets {len(missed)} of {len(MUTANTS)} wrong "
        example = f"ones through, for example one that {missed[0]}." if missed else "ones through."
        strict = " A token may stand first or last, if that is where it is read." if rejected else ""
        raise Wrong(count + example + strict)
    return f"it accepts {len(RIGHT)} right cls tokens and sees through {len(MUTANTS)} wrong ones."


@exercise(
    "5.5",
    "cls_is_mean(embed_dim)",
    "Values first: which qkv and proj pass the tokens on as they are? Then the weights of row 0: equal for all "
    "patches, 0 for the cls token itself. Feature 0 tells the two kinds apart.",
    "Equal scores give equal weights, so the patches' scores may all be 0. The score of the cls token with itself "
    "must be far below: let q and k both be made of feature 0 alone, with opposite signs.",
)
def _cls_is_mean(answer: Callable) -> str:
    for N, D in ((7, 6), (16, 12), (3, 10)):
        attention = _module(call(answer, D))
        if not isinstance(attention, MultiHeadAttention):
            raise Wrong(f"Your function returns {described(attention)}: a vitnb.MultiHeadAttention is wanted.")
        x = fresh(3, 1 + N, D)
        x[:, :, 0] = torch.arange(1 + N) == 0  # the flag: 1 for the cls token, 0 for a patch
        right = x[:, 1:].mean(1)
        result = call(attention, x)
        result = tensor_like(result, x)[:, 0]
        if not close(result, right, 1e-4):
            raise Wrong(_by_hand_mistake(attention, x, result))
    return "row 0 is the mean of 3, 7 and 16 patches, to 1e-4, and never of the cls token."


@torch.no_grad()
def _by_hand_mistake(attention: MultiHeadAttention, x: Tensor, result: Tensor) -> str:
    T = x.shape[1]
    with record_attention(attention) as maps:
        attention(x)
    row = maps[0][:, :, 0]  # (B, h, T)
    if close(result, x.mean(1), 1e-4):
        return "The cls token is in your mean: its own weight is 1 / (1 + N), like that of every patch."
    if close(result, x[:, 1:].sum(1) / T, 1e-4):
        return "The value of the cls token is 0, but it still takes its share of the weight: you divide by 1 + N."
    if (row[:, :, 1:].amax(2) - row[:, :, 1:].amin(2)).amax() > 1e-3:
        return "The patches do not get equal weights in row 0: their scores still depend on what is in them."
    if row[:, :, 0].amax() > 1e-3:
        return f"The cls token gets a weight of {row[:, :, 0].amax():.2f} in its own row: 0 is wanted."
    return "The weights of row 0 are right; what they average is not the patches: see the values, proj and the biases."

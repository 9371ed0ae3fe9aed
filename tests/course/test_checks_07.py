"""The exercises of chapter 7: right answers however they are written, and wrong ones that no check declares."""

import copy

import pytest
import torch
from torch import nn

from tests.course.answers import right, verdict, wrong
from vitbook import faults
from vitbook.exercises.chapter_07 import LastReadLast, Repeated, _started
from vitbook.faults import pool
from vitnb import ClsToken, MeanPool, MultiHeadAttention, ViT, ViTConfig

# 7.1 ------------------------------------------------------------------------------------------------------


def by_rule(pool, token, place, attention):
    if pool != "cls" or token == 0:
        return True
    return place == "before" and attention


@right("7.1")
@torch.no_grad()
def by_running(pool, token, place, attention):
    model = ViT(ViTConfig(embed_dim=16, depth=1, global_pool=pool)).eval()
    if not attention:
        model.blocks[0].attention.proj.weight.zero_()
    x = model.embed(torch.randn(1, 1, 28, 28))
    noise = torch.randn(16)
    y = x.clone()
    y[:, token] = noise
    x, y = (model.blocks[0](z) if place == "before" else z for z in (x, y))
    return not torch.allclose(model.forward_head(x), model.forward_head(y), atol=1e-6)


wrong("7.1", "Token 0 alone is read, and no block is left")(lambda p, t, place, a: a or by_rule(p, t, place, a))
wrong("7.1", "no patch can reach it")(lambda p, t, place, a: p != "cls" or t == 0 or place == "before")
wrong("7.1", "The attention of the last block is still to come")(lambda p, t, place, a: p != "cls" or t == 0)
wrong("7.1", "every token is read")(lambda p, *rest: by_rule(p, *rest) and (p == "cls" or rest[2]))
wrong("7.1", "Token 0 is the one that is read")(
    lambda p, t, place, a: p != "cls" or (t > 0 and by_rule(p, t, place, a))
)
wrong("7.1", "token 0 is the first patch")(lambda p, *rest: by_rule(p, *rest) if p == "cls" else rest[0] > 0)
wrong("7.1", "you say")(lambda p, t, place, a: True)
wrong("7.1", "Expected True or False")(lambda p, t, place, a: "yes")


# 7.2 ------------------------------------------------------------------------------------------------------


@right("7.2")
class Vector(nn.Module):
    """Its token has one axis."""

    num_prefix_tokens = 1

    def __init__(self, embed_dim):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(embed_dim))

    def prepend(self, x):
        return torch.cat([self.token.expand(x.shape[0], 1, -1), x], dim=1)

    def forward(self, x):
        return x[:, 1:].mean(dim=1)


@right("7.2")
class Inherited(ClsToken):
    def forward(self, x):
        _, patches = x.split([1, x.shape[1] - 1], dim=1)
        return patches.sum(1) / patches.shape[1]


@right("7.2")
class RepeatedMean(Repeated):
    def forward(self, x):
        return (x.sum(1) - x[:, 0]) / (x.shape[1] - 1)


def patch_mean(base=ClsToken, **methods):
    return type("PatchMean", (base,), {"forward": Inherited.forward, **methods})


class InForward(MeanPool):
    num_prefix_tokens = 1

    def __init__(self, embed_dim):
        super().__init__()

    def prepend(self, x):
        token = nn.Parameter(torch.randn(len(x), 1, x.shape[2]))
        return torch.cat([token, x], dim=1)


class Ignored(ClsToken):
    def prepend(self, x):
        return torch.cat([torch.zeros(len(x), 1, x.shape[2]), x], dim=1)


wrong("7.2", "from the mean of the patches")(patch_mean(forward=lambda self, x: x[:, 1]))
wrong("7.2", "Expected a tensor of shape (3, 12), got (3, 7)")(patch_mean(forward=lambda self, x: x[:, 1:].mean(2)))
wrong("7.2", "your token comes last")(patch_mean(LastReadLast))
wrong("7.2", "never trained")(patch_mean(pool.PlainTensor))
wrong("7.2", "never trained")(InForward)
wrong("7.2", "Expected one parameter of 12 numbers for embed_dim=12, got")(patch_mean(pool.OnePerPlace))
wrong("7.2", "Token 0 is not your parameter")(patch_mean(Ignored))


class Frozen(ClsToken):
    def __init__(self, embed_dim):
        super().__init__(embed_dim)
        self.token.requires_grad_(False)


def detached(self, x):
    return torch.cat([self.token.detach().expand(len(x), -1, -1), x], dim=1)


wrong("7.2", "No gradient reaches your token")(patch_mean(Frozen))
wrong("7.2", "No gradient reaches your token")(patch_mean(prepend=detached))
wrong("7.2", "No gradient reaches your token")(patch_mean(prepend=torch.no_grad()(ClsToken.prepend)))
wrong("7.2", "No gradient reaches your token")(
    patch_mean(prepend=lambda self, x: detached(self, x) + 0 * torch.ones(1, requires_grad=True))
)
wrong("7.2", "No gradient reaches your blocks")(patch_mean(forward=lambda self, x: x[:, 1:].mean(1).detach()))
wrong("7.2", "num_prefix_tokens")(patch_mean(num_prefix_tokens=0))
wrong("7.2", "has no prepend")(lambda D: nn.Linear(D, D))
wrong("7.2", "Expected a tensor of shape (3, 8, 12), got (3, 7, 12)")(patch_mean(prepend=lambda self, x: x))
wrong("7.2", "Expected an nn.Module")(lambda D: torch.zeros(1, 1, D))


# 7.4 ------------------------------------------------------------------------------------------------------


@right("7.4")
def five_questions(Pool, B=2):
    pool, x, z = Pool(8), torch.randn(B, 5, 8), torch.randn(B, 6, 8)
    y = pool.prepend(x)
    row = pool(y)
    return (
        y.shape == z.shape
        and torch.equal(row[0], row[1])
        and torch.equal(pool.prepend(x), y)
        and len(list(pool.parameters())) > 0
        and any(torch.equal(pool(z), z[:, i]) for i in range(6))
    )


@right("7.4")
def by_place(Pool):
    pool = Pool(4)
    parameters = [p for p in pool.parameters() if p.shape == (1, 1, 4)]
    x, z = torch.randn(3, 7, 4), torch.randn(3, 8, 4)
    with torch.no_grad():
        for p in parameters:
            p.copy_(torch.tensor([1.0, 2.0, 3.0, 4.0]))
    y = pool.prepend(x)
    place = [i for i in range(y.shape[1]) if bool((y[:, i] == torch.tensor([1.0, 2.0, 3.0, 4.0])).all())]
    return len(parameters) == 1 and len(place) == 1 and y.shape[1] == 8 and torch.equal(pool(z), z[:, place[0]])


wrong("7.4", "draws its token anew")(lambda Pool: not _depends(Pool))
right("7.4")(lambda Pool: five_questions(Pool, B=65))
wrong("7.4", "A token may stand first or last")(lambda Pool: five_questions(Pool) and _first_is_equal(Pool))
wrong("7.4", "may start from any numbers, zeros or not")(
    lambda Pool: five_questions(Pool) and not any(p.any() for p in Pool(8).parameters())
)
wrong("7.4", "Does it ever say True?")(lambda Pool: False)
wrong("7.4", "lets 9 of 9 wrong ones through")(lambda Pool: True)
wrong("7.4", "rejects 3 of 3 right ones")(lambda Pool: False)
wrong("7.4", "rejects 1 of 3 right ones")(lambda Pool: five_questions(Pool) and _first_is_equal(Pool))
wrong("7.4", "lets 4 of 9 wrong ones through")(lambda Pool: not _depends(Pool))
wrong("7.4", "puts its token last")(lambda Pool: Pool(8).prepend(torch.randn(2, 5, 8)).shape == (2, 6, 8))
wrong("7.4", "raises AttributeError")(lambda Pool: Pool(8).token.shape == (1, 1, 8))
wrong("7.4", "puts its token last")(lambda Pool: _gradient(Pool))
wrong("7.4", "Expected True or False")(lambda Pool: Pool(8))


def _depends(Pool):
    pool = Pool(8)
    row = pool(pool.prepend(torch.randn(2, 5, 8)))
    return not torch.equal(row[0], row[1])


def _first_is_equal(Pool):
    y = Pool(8).prepend(torch.randn(2, 5, 8))
    return torch.equal(y[0, 0], y[1, 0])


def _gradient(Pool):
    """The popular test: does every parameter get a gradient? The tokens see each other on the way."""
    pool = Pool(8)
    y = pool.prepend(torch.randn(2, 5, 8))
    pool(y + y.mean(1, keepdim=True)).square().sum().backward() if any(True for _ in pool.parameters()) else None
    return all(p.grad is not None for p in pool.parameters())


# 7.5 ------------------------------------------------------------------------------------------------------


@torch.no_grad()
def by_hand(D, far=30.0, key=None, value=None, proj=None, bias=0.0):
    attention, eye = MultiHeadAttention(D, 1), torch.eye(D)
    query = torch.zeros(D, D)
    query[0, 0] = -far * D**0.5
    key = torch.zeros(D, D).index_put((torch.tensor(0), torch.tensor(0)), torch.tensor(1.0)) if key is None else key
    attention.qkv.weight.copy_(torch.cat([query, key, eye if value is None else value]))
    attention.qkv.bias.zero_()
    attention.proj.weight.copy_(eye if proj is None else proj)
    attention.proj.bias.fill_(bias)
    return attention


@right("7.5")
@torch.no_grad()
def with_the_bias_of_the_query(D):
    """Every token asks the same question, in two heads: how little of feature 0 is there?"""
    attention, eye = MultiHeadAttention(D, 2), torch.eye(D)
    for p in attention.parameters():
        p.zero_()
    attention.qkv.weight[D : 2 * D, 0] = -1.0
    attention.qkv.bias[:D] = 100.0
    attention.qkv.weight[2 * D :].copy_(3 * eye)
    attention.proj.weight.copy_(eye / 3)
    return attention


def no_flag(D):
    value = torch.eye(D)
    value[0, 0] = 0
    return value


wrong("7.5", "The cls token is in your mean")(lambda D: by_hand(D, far=0.0))
wrong("7.5", "their scores still depend")(lambda D: MultiHeadAttention(D, 1))
wrong("7.5", "The cls token gets a weight of 1 ")(lambda D: by_hand(D, far=-30.0))
wrong("7.5", "The cls token gets a weight of 0.")(lambda D: by_hand(D, far=2.0))
wrong("7.5", "what they average is not the patches")(lambda D: by_hand(D, proj=2 * torch.eye(D)))
wrong("7.5", "what they average is not the patches")(lambda D: by_hand(D, bias=1.0))
wrong("7.5", "what they average is not the patches")(lambda D: by_hand(D, value=torch.zeros(D, D)))
wrong("7.5", "The cls token is in your mean")(lambda D: by_hand(D, far=0.0, key=torch.eye(D)))
wrong("7.5", "Expected a vitnb.MultiHeadAttention, got a MultiheadAttention")(lambda D: nn.MultiheadAttention(D, 1))
wrong("7.5", "Expected a vitnb.MultiHeadAttention, got a tensor")(lambda D: torch.eye(D))
wrong("7.5", "The cls token gets a weight of 0.000")(lambda D: by_hand(D, far=7.5))  # small, and the fault all the same
right("7.5")(lambda D: by_hand(D, far=9.5))


@wrong("7.5", "do not get equal weights")
@torch.no_grad()
def almost_equal_weights(D):
    attention = by_hand(D)
    attention.qkv.weight[D + 1, 1] = 0.002
    attention.qkv.bias[1] = 1.0
    return attention


@wrong("7.5", "do not get equal weights")
def with_another_forward(D):
    attention = MultiHeadAttention(D, 1)
    attention.forward = lambda x: x[:, 1:].mean(1, keepdim=True).expand_as(x)
    return attention


class PatchedAttention(MultiHeadAttention):
    def forward(self, x):
        return x[:, 1:].mean(1, keepdim=True).expand_as(x)


wrong("7.5", "do not get equal weights")(lambda D: PatchedAttention(D, 1))


# ----------------------------------------------------------------------------------------------------------


class UntouchedPool(nn.Module):
    """The skeleton of exercise 7.2."""

    num_prefix_tokens = 1

    def __init__(self, embed_dim):
        super().__init__()
        ...

    def prepend(self, x): ...

    def forward(self, x): ...


def test_the_untouched_class_is_not_done_yet():
    assert verdict("7.2", UntouchedPool) == (False, "7.2: not done yet.")


@pytest.mark.parametrize("kind", faults.of(ClsToken).values())
def test_wrong_cls_tokens_have_the_shape_and_are_wrong(kind):
    x, own = torch.randn(2, 5, 8), kind(8)
    assert own.prepend(x).shape[1] in (5, 6)
    assert copy.deepcopy(own)(own.prepend(x)).shape == (2, 8)
    assert not five_questions(_started(kind))


def test_every_wrong_cls_token_needs_a_question():
    """No single question of the solution sees through all."""
    kinds = faults.of(ClsToken).values()
    assert sum(_depends(_started(kind)) for kind in kinds) < len(kinds)


def test_a_near_miss_gets_the_same_verdict_each_time():
    (text,) = {verdict("7.5", lambda D: by_hand(D, far=7.9))[1] for _ in range(20)}
    assert "weight" in text

"""The exercises of chapter 7: right answers however they are written, and wrong ones that no check declares."""

import torch
from torch import nn

from tests.course.answers import RIGHT, WRONG, remade, solution, verdict, wrong
from vitbook.exercises.chapter_07 import LastReadLast
from vitbook.faults import pool
from vitnb import ClsToken, MultiHeadAttention

# 7.1 ------------------------------------------------------------------------------------------------------


def rule(*case):
    return solution("7.1")(*case)


WRONG["7.1"] |= {
    "Token 0 alone is read, and no block is left": lambda p, t, place, a: a or rule(p, t, place, a),
    "no patch can reach it": lambda p, t, place, a: p != "cls" or t == 0 or place == "before",
    "The attention of the last block is still to come": lambda p, t, place, a: p != "cls" or t == 0,
    "every token is read": lambda p, *rest: rule(p, *rest) and (p == "cls" or rest[2]),
    "Token 0 is the one that is read": lambda p, t, place, a: rule(p, t, place, a) and (p != "cls" or t > 0),
    "token 0 is the first patch": lambda p, *rest: rule(p, *rest) if p == "cls" else rest[0] > 0,
    "Expected True or False": lambda p, t, place, a: "yes",
}

# 7.2 ------------------------------------------------------------------------------------------------------


def patch_mean(base=ClsToken, **methods):
    return type("PatchMean", (base,), {"forward": lambda self, x: x[:, 1:].mean(dim=1), **methods})


def detached(self, x):
    return torch.cat([self.token.detach().expand(len(x), -1, -1), x], dim=1)


def beside_the_parameter(self, x):
    return detached(self, x) + 0 * torch.ones(1, requires_grad=True)


def before_each(self, x):
    return torch.cat([self.token.expand(len(x), 1, -1), x], dim=1)


def frozen(pool, dim):
    return nn.Parameter(torch.zeros(1, 1, dim), requires_grad=False)


def of_one_axis(pool, dim):
    return nn.Parameter(torch.zeros(dim))


RIGHT["7.2"] += [patch_mean(remade(ClsToken, token=of_one_axis), prepend=before_each)]
WRONG["7.2"] |= {
    "from the mean of the patches": patch_mean(forward=lambda self, x: x[:, 1]),
    "Expected a tensor of shape (3, 12), got (3, 7)": patch_mean(forward=lambda self, x: x[:, 1:].mean(2)),
    "your token comes last": patch_mean(LastReadLast),
    "never trained": patch_mean(pool.PlainTensor),
    "Expected one parameter of 12 numbers for embed_dim=12, got": patch_mean(pool.OnePerPlace),
    "Token 0 is not your parameter": (
        patch_mean(prepend=lambda self, x: torch.cat([torch.zeros(len(x), 1, x.shape[2]), x], dim=1))
    ),
    "No gradient reaches your token": [
        patch_mean(remade(ClsToken, token=frozen)),
        patch_mean(prepend=detached),
        patch_mean(prepend=beside_the_parameter),
    ],
    "No gradient reaches your blocks": patch_mean(forward=lambda self, x: x[:, 1:].mean(1).detach()),
    "num_prefix_tokens": patch_mean(num_prefix_tokens=0),
    "has no prepend": lambda D: nn.Linear(D, D),
    "Expected a tensor of shape (3, 8, 12), got (3, 7, 12)": patch_mean(prepend=lambda self, x: x),
    "Expected an nn.Module, got a tensor": lambda D: torch.zeros(1, 1, D),
}

# 7.4 ------------------------------------------------------------------------------------------------------


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


def depends(Pool):
    pool = Pool(8)
    row = pool(pool.prepend(torch.randn(2, 5, 8)))
    return not torch.equal(row[0], row[1])


def first_is_equal(Pool):
    y = Pool(8).prepend(torch.randn(2, 5, 8))
    return torch.equal(y[0, 0], y[1, 0])


RIGHT["7.4"] += [lambda Pool: five_questions(Pool, B=65)]
WRONG["7.4"] |= {
    "lets 4 of 9 wrong ones through, for example one that draws its token anew": lambda Pool: not depends(Pool),
    "rejects 1 of 3 right ones and lets 0 of 9 wrong ones through. A token may stand first or last": (
        lambda Pool: five_questions(Pool) and first_is_equal(Pool)
    ),
    "may start from any numbers, zeros or not": (
        lambda Pool: five_questions(Pool) and not any(p.any() for p in Pool(8).parameters())
    ),
    "rejects 3 of 3 right ones and lets 0 of 9 wrong ones through. Does it ever say True?": lambda Pool: False,
    "lets 9 of 9 wrong ones through": lambda Pool: True,
    "On one of the right ones (repeated): Your function raises": lambda Pool: Pool(8).token.shape == (1, 1, 8),
}

# 7.5 ------------------------------------------------------------------------------------------------------


@torch.no_grad()
def by_hand(D, far=30.0, proj=1.0):
    """One head: the cls token, which alone has feature 0, is so far below the patches in its own row."""
    attention, eye, flag = MultiHeadAttention(D, 1), torch.eye(D), torch.zeros(D, D)
    flag[0, 0] = 1
    attention.qkv.weight.copy_(torch.cat([-far * D**0.5 * flag, flag, eye]))
    attention.qkv.bias.zero_()
    attention.proj.weight.copy_(proj * eye)
    attention.proj.bias.zero_()
    return attention


@wrong("7.5", "do not get equal weights")
@torch.no_grad()
def almost_equal_weights(D):
    attention = by_hand(D)
    attention.qkv.weight[D + 1, 1] = 0.002
    attention.qkv.bias[1] = 1.0
    return attention


RIGHT["7.5"] += [lambda D: by_hand(D, far=9.5)]
WRONG["7.5"] |= {
    "The cls token is in your mean": lambda D: by_hand(D, far=0.0),
    "their scores still depend": lambda D: MultiHeadAttention(D, 1),
    "The cls token gets a weight of 1 ": lambda D: by_hand(D, far=-30.0),
    "what they average is not the patches": lambda D: by_hand(D, proj=2.0),
    "The cls token gets a weight of 0.000": lambda D: by_hand(D, far=7.5),  # small, and the fault all the same
}


def test_a_near_miss_gets_the_same_verdict_each_time():
    (text,) = {verdict("7.5", lambda D: by_hand(D, far=7.9))[1] for _ in range(20)}
    assert "weight" in text

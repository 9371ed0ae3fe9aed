"""The exercises of chapter 3: right answers however they are written, and wrong ones that no check declares.

test_checks.py judges them.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.course.answers import RIGHT, WRONG, remade, right, solution
from vitbook.exercises import chapter_03

# 3.1 ------------------------------------------------------------------------------------------------------


@right("3.1")
def by_einsum(q, k, v):
    powers = torch.einsum("bhid,bhjd->bhij", q, k).mul(q.size(3) ** -0.5).exp()
    return torch.einsum("bhij,bhjd->bhid", powers, v) / powers.sum(-1, keepdim=True)


WRONG["3.1"] |= {
    "calls F.scaled_dot_product_attention, which the exercise forbids": F.scaled_dot_product_attention,
    "are they all 1?": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
}

# 3.2 ------------------------------------------------------------------------------------------------------

RIGHT["3.2"] += [lambda T, weight: np.log(T - 1) - np.log(1 / weight - 1)]
WRONG["3.2"] |= {"too large": lambda T, w: 1e6, "too small": lambda T, w: -1e6}

# 3.3 ------------------------------------------------------------------------------------------------------


@right("3.3")
def falls_and_rises(K):
    """The other way round, far apart and in an order of its own."""
    worth = torch.randperm(K).float() * 7
    return [-worth[:, None], worth[None] + 3]


@right("3.3")
def all_but_one_of_a_kind(K):
    """Gives up the pairs of the last kind, and is right on 75 % all the same."""
    f, g = torch.arange(K).float(), 0.5 - torch.arange(K)
    f[-1] = -1e6
    return f, g


RIGHT["3.3"] += [lambda K: (list(range(K)), np.array([0.5 - k for k in range(K)]))]
WRONG["3.3"] |= {
    "always add up to 0": lambda K: (torch.arange(K), -torch.arange(K)),
    "you call every pair different": lambda K: (torch.zeros(K), torch.zeros(K)),
    "you call every pair the same": lambda K: (torch.ones(K), torch.ones(K)),
    "It can be all of the first": lambda K: (torch.arange(K), 1.5 - torch.arange(K)),
    "For 3 kinds you are right on": lambda K: (torch.arange(K), min(K, 10) / 20 * (K > 9) - torch.arange(K)),
    "Expected a tensor of shape (10,), got (10, 10)": lambda K: (10 * torch.eye(K), torch.zeros(K)),
}

# 3.4 ------------------------------------------------------------------------------------------------------

Cross = chapter_03._Cross
RIGHT["3.4"] += [remade(Cross, query=lambda m, dim, context, head: nn.Linear(dim, head, bias=False))]
WRONG["3.4"] |= {
    "Expected a linear layer named query from 12 to 6 features: there is none": remade(Cross, query=None),
    "named key from 20 to 6 features: yours goes from 12 to 6": (
        remade(Cross, key=lambda m, dim, context, head: nn.Linear(dim, head))
    ),
    "layer named value from 20 to 6 features: yours is an Identity": remade(Cross, value=lambda *sizes: nn.Identity()),
}


@pytest.mark.parametrize("K", [2, 3, 4])
def test_no_sum_of_two_terms_is_right_on_more_than_three_of_four_pairs(K):
    """f[a] + g[b] > 0 asks which of f[a] and -g[b] is larger: all orders of these 2 K numbers are all sums."""
    ranks = torch.tensor(list(itertools.permutations(range(2 * K))))
    says_same = ranks[:, :K, None] > ranks[:, None, K:]  # (orders, K, K)
    own = torch.eye(K).bool()
    right = says_same[:, own].double().mean(1) + (~says_same)[:, ~own].double().mean(1)
    assert right.max() / 2 == pytest.approx(0.75)


def test_every_sum_of_two_terms_has_a_larger_loss_than_a_coin():
    coin = math.log(2)
    assert chapter_03._pair_loss(torch.zeros(10, 10)) == pytest.approx(coin)
    for size in (1e-2, 0.1, 1, 10):
        for f, g in (solution("3.3")(10), torch.randn(2, 10), torch.randn(2, 10)):
            sums = size * (f[:, None] + g)
            assert chapter_03._pair_loss(sums) > coin
    # A product has no such limit.
    assert chapter_03._pair_loss(20 * torch.eye(10) @ (torch.eye(10) - 0.5)) < 1e-3

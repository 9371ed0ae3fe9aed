"""The exercises of chapter 3: right answers however they are written, and wrong ones that people write.

They join the tables of test_checks.py, whose tests (hostile answers, skeletons, hints) run on them, too.
"""

import itertools
import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.course.answers import right, solution, verdict, wrong
from vitbook.exercises import chapter_03

# 3.1 ------------------------------------------------------------------------------------------------------

wrong("3.1", "calls F.scaled_dot_product_attention, which the exercise forbids")(F.scaled_dot_product_attention)


@right("3.1")
def by_einsum(q, k, v):
    powers = torch.einsum("bhid,bhjd->bhij", q, k).mul(q.size(3) ** -0.5).exp()
    return torch.einsum("bhij,bhjd->bhid", powers, v) / powers.sum(-1, keepdim=True)


@right("3.1")
def by_loop(q, k, v):
    out = torch.zeros_like(q)
    for i in range(q.shape[2]):
        weights = ((q[:, :, i : i + 1] * k).sum(-1) / q.shape[-1] ** 0.5).softmax(-1)  # (B, h, T)
        out[:, :, i] = (weights[..., None] * v).sum(2)
    return out


wrong("3.1", "Expected a tensor of shape (2, 3, 5, 7), got (2, 3, 5, 5)")(
    lambda q, k, v: (q @ k.mT / q.shape[3] ** 0.5).softmax(-1)
)
wrong("3.1", "are they all 1?")(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
wrong("3.1", "raises RuntimeError")(lambda q, k, v: (q @ k).softmax(-1) @ v)

# 3.2 ------------------------------------------------------------------------------------------------------

right("3.2")(lambda T, weight: np.log(T - 1) - np.log(1 / weight - 1))


@right("3.2")
def by_bisection(T, weight):
    low, high = -20.0, 20.0
    for _ in range(60):
        lead = (low + high) / 2
        first = torch.tensor([lead] + [0.0] * (T - 1), dtype=torch.double).softmax(0)[0]
        low, high = (lead, high) if first < weight else (low, lead)
    return lead


wrong("3.2", "there are more")(lambda T, w: 0.0)
wrong("3.2", "too small")(lambda T, w: 0 if T == 2 else 1)
wrong("3.2", "too large")(lambda T, w: 8 if T > 2 else 0)
wrong("3.2", "too large")(lambda T, w: 1e6)
wrong("3.2", "too small")(lambda T, w: -1e6)


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


wrong("3.3", "always add up to 0")(lambda K: (torch.arange(K), -torch.arange(K)))
wrong("3.3", "you call every pair different")(lambda K: (torch.zeros(K), torch.zeros(K)))
wrong("3.3", "you call every pair the same")(lambda K: (torch.ones(K), torch.ones(K)))
wrong("3.3", "It can be all of the first")(lambda K: (torch.arange(K), 1.5 - torch.arange(K)))
wrong("3.3", "0 % of those of one kind, 50 % of the others")(lambda K: (torch.arange(K), -0.5 - torch.arange(K)))
wrong("3.3", "For 3 kinds you are right on")(lambda K: (torch.arange(K), min(K, 10) / 20 * (K > 9) - torch.arange(K)))
wrong("3.3", "Expected a tensor of shape (10,), got (10, 10)")(lambda K: (10 * torch.eye(K), torch.zeros(K)))
wrong("3.3", "Expected the pair (f, g), got a list of 10")(lambda K: torch.arange(K)[:, None] + 0.5 - torch.arange(K))
right("3.3")(lambda K: (list(range(K)), np.array([0.5 - k for k in range(K)])))

# 3.4 ------------------------------------------------------------------------------------------------------


class ByTheFusedKernel(nn.Module):
    """Cross-attention by torch's own function, without biases."""

    def __init__(self, dim, context_dim, head_dim):
        super().__init__()
        self.query = nn.Linear(dim, head_dim, bias=False)
        self.key, self.value = (nn.Linear(context_dim, head_dim, bias=False) for _ in range(2))

    def mask(self, valid):
        return valid[:, None]  # True: attend

    def forward(self, x, context, valid):
        return F.scaled_dot_product_attention(
            self.query(x), self.key(context), self.value(context), attn_mask=self.mask(valid)
        )


class ByLoop(ByTheFusedKernel):
    """The context without its padding, image after image."""

    def forward(self, x, context, valid):
        out = []
        for one, seen, real in zip(x, context, valid, strict=True):
            q, k, v = self.query(one), self.key(seen[real]), self.value(seen[real])
            out.append((q @ k.T / q.shape[-1] ** 0.5).softmax(1) @ v)
        return torch.stack(out)


class BothFromX(ByTheFusedKernel):
    def forward(self, x, context, valid):
        return self.query(x)


class MaskOverQueries(ByTheFusedKernel):
    def mask(self, valid):
        return valid[:, :, None]


class OtherNames(nn.Module):
    def __init__(self, dim, context_dim, head_dim):
        super().__init__()
        self.W_Q, self.W_K, self.W_V = (nn.Linear(n, head_dim) for n in (dim, context_dim, context_dim))


class KeysFromX(ByTheFusedKernel):
    def __init__(self, dim, context_dim, head_dim):
        super().__init__(context_dim, dim, head_dim)


class OneValue(ByTheFusedKernel):
    def forward(self, x, context, valid):
        return super().forward(x, context, valid)[:, :1]


class Frozen(ByTheFusedKernel):
    def __init__(self, dim, context_dim, head_dim):
        super().__init__(dim, context_dim, head_dim)
        self.key.requires_grad_(False)


class Detached(ByTheFusedKernel):
    @torch.no_grad()
    def forward(self, x, context, valid):
        return super().forward(x, context, valid)


right("3.4")(ByTheFusedKernel)
right("3.4")(ByLoop)
wrong("3.4", "Your key.weight has requires_grad=False")(Frozen)
wrong("3.4", "No gradient reaches your query")(Detached)
wrong("3.4", "by no mistake that I know")(BothFromX)
wrong("3.4", "Your function raises RuntimeError")(MaskOverQueries)
wrong("3.4", "Expected a linear layer named query from 12 to 6 features: there is none")(OtherNames)
wrong("3.4", "Expected a linear layer named query from 12 to 6 features: yours goes from 20 to 6")(KeysFromX)
wrong("3.4", "Expected a tensor of shape (2, 5, 6), got (2, 1, 6)")(OneValue)
wrong("3.4", "Expected an nn.Module")(lambda *sizes: torch.zeros(sizes))


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


def test_the_division_makes_a_row_flatter_in_the_products_and_keeps_it_from_saturating():
    """The slope of a weight in q . k is a (1 - a) / sqrt(d): the factor is the chain rule's."""
    d = 64
    torch.manual_seed(0)
    q, k = torch.randn(2, 50, d, dtype=torch.double)
    products = (q @ k.T).requires_grad_()  # (T, T)
    steep = {}
    for divisor in (1, d**0.5):
        a = (products / divisor).softmax(-1)
        slopes = torch.stack([torch.autograd.grad(a[0, j], products, retain_graph=True)[0][0, j] for j in range(50)])
        torch.testing.assert_close(slopes, a[0] * (1 - a[0]) / divisor)
        steep[divisor] = (a * (1 - a)).sum(-1).mean() / divisor
        saturated = a.amax(-1) > 0.95
        assert saturated.any() == (divisor == 1)
        assert ((a * (1 - a)).sum(-1)[saturated] < 0.1).all()
    assert steep[1] > steep[d**0.5]


def test_an_empty_class_is_not_done():
    class CrossAttention(nn.Module):
        def __init__(self, dim, context_dim, head_dim):
            super().__init__()

        def forward(self, x, context, valid): ...

    assert verdict("3.4", CrossAttention) == (False, "3.4: not done yet.")

"""The exercises of chapter 4: right answers however they are written, and wrong ones that no check declares."""

import torch
from torch import nn

from tests.course.answers import RIGHT, WRONG, remade, solution
from vitbook.exercises import chapter_04
from vitnb import MultiHeadAttention

# 4.1 ------------------------------------------------------------------------------------------------------

WRONG["4.1"] |= {
    "Expected a tensor of shape (2, 3, 5, 12), got (2, 5, 12)": lambda layer, x: layer(x),
    "the single ones are not those of the heads": (
        lambda a, x: ((a(x) - a.proj.bias) / a.num_heads)[:, None].expand(-1, a.num_heads, -1, -1)
    ),
    "add up to the right sum": lambda a, x: (a(x) / a.num_heads)[:, None].expand(-1, a.num_heads, -1, -1),
    "Expected one tensor (B, h, T, D), got a list of 3": lambda *case: list(solution("4.1")(*case).unbind(1)),
    "Are the heads right before layer.proj?": lambda *case: -solution("4.1")(*case),
}

# 4.2 ------------------------------------------------------------------------------------------------------


def rotation(k, D, base=10_000):
    speeds = base ** (-torch.arange(D // 2) / (D // 2))
    c, s = (k * speeds).cos().diag(), (k * speeds).sin().diag()
    return torch.cat([torch.cat([c, -s], 1), torch.cat([s, c], 1)])


def both(D, down, right, base=10_000):
    return torch.block_diag(rotation(down, D // 2, base), rotation(right, D // 2, base))


RIGHT["4.2"] += [lambda *case: 7 * both(*case)]
WRONG["4.2"] |= {
    "attends in the opposite direction. Is a matrix transposed?": lambda *case: both(*case).T,
    "exchanges rows and columns": lambda D, down, right: both(D, right, down),
    "exchanges rows and columns and attends in the opposite": lambda D, down, right: both(D, -right, -down),
    "attends to the token's own place": lambda D, down, right: torch.eye(D),
    "gives that place the highest score for": lambda D, down, right: rotation(right, D),
    "% of the tokens that have one": lambda *case: both(*case, base=100),
    "the scores are too small": lambda *case: 0.01 * both(*case),
    "wrong way left and right": lambda D, down, right: both(D, down, -right if down else right),
    "wrong way up and down": lambda D, down, right: both(D, -down if right else down, right),
}

# 4.3 ------------------------------------------------------------------------------------------------------

Mine = chapter_04._four(MultiHeadAttention)


class ByTorch(Mine):
    def forward(self, x):
        layer = nn.MultiheadAttention(self.dim, self.num_heads, batch_first=True)
        first = (self.query, self.key, self.value)
        layer.in_proj_weight = nn.Parameter(torch.cat([part.weight for part in first]))
        layer.in_proj_bias = nn.Parameter(torch.cat([part.bias for part in first]))
        layer.out_proj = self.proj
        return layer(x, x, x)[0]


class Doubled(Mine):
    def forward(self, x):
        return 2 * super().forward(x)


RIGHT["4.3"] += [remade(Mine, key=lambda m, dim, num_heads: nn.Linear(dim, dim, bias=False))]
WRONG["4.3"] |= {
    "No gradient reaches your query": ByTorch,
    "Your query.weight and key.weight are one and the same parameter": remade(Mine, key=lambda m, *sizes: m.query),
    "does each bring its own features back": Doubled,
    "Expected a linear layer named query from 12 to 12 features: yours goes from 12 to 4": (
        remade(Mine, query=lambda m, dim, num_heads: nn.Linear(dim, dim // num_heads))
    ),
}

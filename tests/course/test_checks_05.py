"""The exercises of chapter 5: right answers however they are written, and wrong ones that no check declares."""

from functools import partial

import torch
from torch import nn
from torch.nn import functional as F

from tests.course.answers import RIGHT, WRONG, remade, right, wrong
from vitbook.exercises import chapter_05
from vitnb import MLP, MultiHeadAttention, PreNormBlock

# 5.1 ------------------------------------------------------------------------------------------------------


@right("5.1")
def by_sums(x, gain, bias, eps):
    D = x.shape[2]
    x = x - x.sum(2)[:, :, None] / D
    return x * torch.rsqrt((x * x).sum(2)[:, :, None] / D + eps) * gain + bias


WRONG["5.1"] |= {
    "F.layer_norm, which the exercise forbids": lambda x, g, b, eps: F.layer_norm(x, x.shape[2:], g, b, eps),
    "compute the token 1, 2, 3, 6": lambda x, g, b, eps: x,
    "its variance is 0, and nothing keeps you from 0/0": lambda x, *rest: by_sums(x, *rest) / (x.var() != 0),
}

# 5.2 ------------------------------------------------------------------------------------------------------


@right("5.2")
class WithDropout(PreNormBlock):
    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads, dropout=0.5)


@wrong("5.2", "No gradient reaches your norm1")
class Detached(PreNormBlock):
    def forward(self, x):
        return super().forward(x).detach()


@wrong("5.2", "no mistake that I know. Set both branches to zero")
class Twice(PreNormBlock):
    def forward(self, x):
        return super().forward(super().forward(x))


@wrong("5.2", "Expected a tensor of shape (3, 17, 48), got (3, 1, 48)")
class OneToken(PreNormBlock):
    def forward(self, x):
        return super().forward(x)[:, :1]


@wrong("5.2", "is the return missing")
class NoReturn(PreNormBlock):
    def forward(self, x):
        super().forward(x)


def with_part(**made):
    """A right block but for some parts, each made from its sizes."""
    return remade(PreNormBlock, **{name: lambda m, *sizes, f=make: f(*sizes) for name, make in made.items()})


WRONG["5.2"] |= {
    "Expected an nn.Module from your class, got": lambda dim, num_heads: dim,
    "a part named norm2, of the kind LayerNorm: there is none": remade(PreNormBlock, norm2=None),
    "a part named mlp, of the kind MLP: yours is a Linear": with_part(mlp=lambda dim, heads: nn.Linear(dim, dim)),
    "norm1 normalises over (17, 48): the features of one": with_part(norm1=lambda dim, heads: nn.LayerNorm([17, dim])),
    "with 6 heads, the num_heads given, got 1.": with_part(attention=lambda dim, heads: MultiHeadAttention(dim, 1)),
    "Expected an MLP with 192 hidden units, 4 * dim, got 48": with_part(mlp=lambda dim, heads: MLP(dim, dim)),
    "norm2 has no gains or no biases": with_part(norm2=lambda dim, heads: nn.LayerNorm(dim, elementwise_affine=False)),
    "norm1 has no gains or no biases": with_part(norm1=lambda dim, heads: nn.LayerNorm(dim, bias=False)),
    "norm2 has eps = 0.01, which changes what it": with_part(norm2=lambda dim, heads: nn.LayerNorm(dim, eps=1e-2)),
    "norm1.weight has requires_grad=False": with_part(norm1=lambda dim, heads: nn.LayerNorm(dim).requires_grad_(False)),
    "norm1 and norm2 are one module": remade(PreNormBlock, norm2=lambda block, *sizes: block.norm1),
}

# 5.3 ------------------------------------------------------------------------------------------------------


@torch.no_grad()
def halves(D, *factors, bias1=0.0, bias2=0.0, act=None):
    """The reference with other factors, biases or another function in the middle."""
    mlp = chapter_05._halves(D, *factors)
    mlp.fc1.bias.fill_(bias1)
    mlp.fc2.bias.fill_(bias2)
    mlp.act = act or mlp.act
    return mlp


@wrong("5.3", "The weights are right, the biases are not")
def with_random_biases(D):
    mlp = halves(D)
    nn.init.normal_(mlp.fc1.bias)
    return mlp


@wrong("5.3", "are its weights still the random ones")
def with_another_forward(D):
    mlp = MLP(D, 2 * D)
    mlp.forward = lambda x: x
    mlp.register_forward_hook(lambda module, given, result: given[0])
    return mlp


RIGHT["5.3"] += [lambda D: halves(D, (-1.0, 1.0), (-1.0, 1.0))]
WRONG["5.3"] |= {
    "nearly straight": lambda D: halves(D, (1.0, 0.0), (1.0, 0.0), bias1=20.0, bias2=-20.0),
    "Expected a vitnb.MLP, got an Identity": lambda D: nn.Identity(),
    "MLP(D, 2 * D) was asked": lambda D: MLP(D, 4 * D),
    "For x = ": lambda D: halves(D, (1.0, -1.0), (0.5, -1.0)),
    "the GELU must stay": lambda D: halves(D, (1.0, -1.0), (1.0, 0.0), act=nn.Identity()),
}

# 5.4 ------------------------------------------------------------------------------------------------------


@right("5.4")
def numbers(wire):
    """Each part takes one number to one other; anything else that it is asked is noticed."""
    table = {"norm1": {1: 2}, "attention": {2: 30}, "norm2": {31: 4}, "mlp": {4: 500}}
    return wire(*(lambda x, name=name: table[name].get(x, 7000) for name in table))(1) == 531


close = partial(torch.allclose, atol=1e-4)  # a sum near 0 keeps few of its digits


def compared(norm1, attention, norm2, mlp, same=close):
    """The solution with other parts."""

    def answer(wire):
        x = torch.randn(2, 5, 12)
        y = x + attention(norm1(x))
        return same(wire(norm1, attention, norm2, mlp)(x), y + mlp(norm2(y)))

    return answer


def zeros(x):
    return 0 * x


def at_zero(wire):
    """The chapter's own test, which sees the residual stream only."""
    x = torch.randn(2, 5, 12)
    return torch.equal(wire(torch.sin, zeros, torch.cos, zeros)(x), x)


WRONG["5.4"] |= {
    "what do the branches read, and what of?": at_zero,
    "Does it look at the shape only?": (
        lambda wire: wire(torch.sin, torch.exp, torch.cos, torch.square)(torch.randn(2, 5)).shape == (2, 5)
    ),
    "Does it ever say True?": lambda wire: False,
    "Your test says the opposite": lambda wire: not numbers(wire),
    "Does your MLP return something": compared(torch.sin, torch.exp, torch.cos, zeros),
    "Are your two norms two different functions?": compared(torch.sin, torch.exp, torch.sin, torch.square),
    "change places without a trace": (compared(lambda x: 2 * x, lambda x: 3 * x, lambda x: 5 * x, lambda x: 7 * x)),
    "do you leave room for that?": compared(torch.sin, torch.exp, torch.cos, torch.square, torch.equal),
    "Expected True or False": lambda wire: "yes",
}

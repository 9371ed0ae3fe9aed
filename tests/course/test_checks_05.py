"""The exercises of chapter 5: right answers however they are written, and wrong ones that no check declares."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.course.answers import right, wrong
from vitbook import check, faults
from vitbook.exercises import chapter_05
from vitbook.exercises.values import perturbed
from vitnb import MLP, MultiHeadAttention, PreNormBlock

# 5.1 ------------------------------------------------------------------------------------------------------


@right("5.1")
def by_var(x, gain, bias, eps):
    deviation = (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    return gain * (x - x.mean(-1, keepdim=True)) / deviation + bias


@right("5.1")
def by_sums(x, gain, bias, eps):
    D = x.shape[2]
    x = x - x.sum(2)[:, :, None] / D
    return x * torch.rsqrt((x * x).sum(2)[:, :, None] / D + eps) * gain + bias


@right("5.1")
def token_by_token(x, gain, bias, eps):
    y = torch.empty_like(x)
    for b in range(len(x)):
        for t in range(x.shape[1]):
            centred = x[b, t] - x[b, t].mean()
            y[b, t] = centred / ((centred**2).mean() + eps) ** 0.5 * gain + bias
    return y


wrong("5.1", "eps is not used")(lambda x, g, b, eps: by_var(x, g, b, 1e-6))
wrong("5.1", "calls nn.LayerNorm or F.layer_norm, which the exercise forbids")(
    lambda x, g, b, eps: F.layer_norm(x, x.shape[2:], g, b, eps)
)
wrong("5.1", "calls nn.LayerNorm or F.layer_norm")(lambda x, g, b, eps: nn.LayerNorm(x.shape[2], eps=eps)(x) * g + b)
wrong("5.1", "compute the token 1, 2, 3, 6")(lambda x, g, b, eps: x)
wrong("5.1", "raises RuntimeError")(lambda x, g, b, eps: g * (x - x.mean(-1)) + b)


# 5.2 ------------------------------------------------------------------------------------------------------


class Block(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attention = MultiHeadAttention(dim, num_heads)
        self.mlp = MLP(dim, 4 * dim)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


@right("5.2")
class OtherNames(Block):
    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        self.drop = nn.Dropout(0.5)

    def forward(self, stream):
        stream = torch.add(self.drop(self.attention(self.norm1(stream))), stream)
        return self.mlp(self.norm2(stream)) + stream


class Skeleton(nn.Module):
    def __init__(self, dim, num_heads):
        super().__init__()
        ...

    def forward(self, x):
        """Tokens (B, T, dim) -> tokens (B, T, dim)."""
        ...


def test_an_untouched_class_is_not_done_yet(capsys):
    assert not check("5.2", Skeleton)
    assert capsys.readouterr().out == "5.2: not done yet.\n"


def with_part(**made):
    """A right block but for some parts, each made from (dim, num_heads)."""

    class Changed(Block):
        def __init__(self, dim, num_heads):
            super().__init__(dim, num_heads)
            for name, make in made.items():
                setattr(self, name, make(dim, num_heads))

    return Changed


wrong("5.2", "Expected an nn.Module")(lambda dim, num_heads: dim)
wrong("5.2", "Expected a part named norm2, of the kind LayerNorm: there is none")(
    with_part(norm2=lambda dim, heads: None)
)
wrong("5.2", "Expected a part named mlp, of the kind MLP: yours is a Linear")(
    with_part(mlp=lambda dim, heads: nn.Linear(dim, dim))
)
wrong("5.2", "norm1 normalises over (17, 48): the features of one token are (48,)")(
    with_part(norm1=lambda dim, heads: nn.LayerNorm([17, dim]))
)
wrong("5.2", "Expected attention with 6 heads, the num_heads given, got 1.")(
    with_part(attention=lambda dim, heads: MultiHeadAttention(dim, 1))
)
wrong("5.2", "Expected an MLP with 192 hidden units, 4 * dim, got 48")(with_part(mlp=lambda dim, heads: MLP(dim, dim)))


wrong("5.2", "norm2 has no gains or no biases")(
    with_part(norm2=lambda dim, heads: nn.LayerNorm(dim, elementwise_affine=False))
)
wrong("5.2", "norm1 has no gains or no biases")(with_part(norm1=lambda dim, heads: nn.LayerNorm(dim, bias=False)))
wrong("5.2", "norm2 has eps = 0.01, which changes what it computes")(
    with_part(norm2=lambda dim, heads: nn.LayerNorm(dim, eps=1e-2))
)
wrong("5.2", "Your norm1.weight has requires_grad=False")(
    with_part(norm1=lambda dim, heads: nn.LayerNorm(dim).requires_grad_(False))
)


@wrong("5.2", "No gradient reaches your norm1")
class Detached(Block):
    def forward(self, x):
        return super().forward(x).detach()


@wrong("5.2", "norm1 and norm2 are one module")
class Shared(Block):
    def __init__(self, dim, num_heads):
        super().__init__(dim, num_heads)
        self.norm2 = self.norm1


@wrong("5.2", "no mistake that I know")
class Twice(Block):
    def forward(self, x):
        return super().forward(super().forward(x))


@wrong("5.2", "is the return missing")
class NoReturn(Block):
    def forward(self, x):
        super().forward(x)


# 5.3 ------------------------------------------------------------------------------------------------------


@torch.no_grad()
def by_weights(D, first=(1.0, -1.0), second=(1.0, -1.0), bias1=0.0, bias2=0.0):
    mlp, eye = MLP(D, 2 * D), torch.eye(D)
    mlp.fc1.weight.copy_(torch.cat([f * eye for f in first]))
    mlp.fc2.weight.copy_(torch.cat([s * eye for s in second], 1))
    if bias1 is not None:
        mlp.fc1.bias.fill_(bias1)
        mlp.fc2.bias.fill_(bias2)
    return mlp


right("5.3")(lambda D: by_weights(D, (-1.0, 1.0), (-1.0, 1.0)))


@right("5.3")
def one_after_the_other(D):
    mlp = MLP(D, 2 * D)
    weight = torch.zeros(2 * D, D)
    for d in range(D):
        weight[2 * d, d], weight[2 * d + 1, d] = 2, -2
    zeros = {"fc1.bias": torch.zeros(2 * D), "fc2.bias": torch.zeros(D)}
    mlp.load_state_dict({"fc1.weight": weight, "fc2.weight": weight.T / 4} | zeros)
    return mlp


wrong("5.3", "the biases are not")(lambda D: by_weights(D, bias1=None))
wrong("5.3", "nearly straight")(lambda D: by_weights(D, (1.0, 0.0), (1.0, 0.0), 20.0, -20.0))
wrong("5.3", "still the random ones")(lambda D: MLP(D, 2 * D))
wrong("5.3", "Expected a vitnb.MLP, got an Identity")(lambda D: nn.Identity())
wrong("5.3", "MLP(D, 2 * D) was asked")(lambda D: MLP(D, 4 * D))
wrong("5.3", "For x = ")(lambda D: by_weights(D, (1.0, -1.0), (0.5, -1.0)))


@wrong("5.3", "the GELU must stay")
def without_the_gelu(D):
    mlp = by_weights(D, second=(1.0, 0.0))
    mlp.act = nn.Identity()
    return mlp


class Patched(MLP):
    """Random weights behind another forward."""

    def forward(self, x):
        return x


@wrong("5.3", "still the random ones")
def with_a_hook(D):
    mlp = MLP(D, 2 * D)
    mlp.register_forward_hook(lambda module, given, result: given[0])
    return mlp


@wrong("5.3", "still the random ones")
def with_another_forward(D):
    mlp = MLP(D, 2 * D)
    mlp.forward = lambda x: x
    return mlp


wrong("5.3", "still the random ones")(lambda D: Patched(D, 2 * D))


# 5.4 ------------------------------------------------------------------------------------------------------


@right("5.4")
def four_curves(wire):
    x = torch.linspace(-1, 1, 5)
    y = x + torch.exp(torch.sin(x))
    return torch.allclose(wire(torch.sin, torch.exp, torch.cos, torch.square)(x), y + torch.cos(y) ** 2)


@right("5.4")
def numbers(wire):
    """Each part takes one number to one other; anything else that it is asked is noticed."""
    table = {"norm1": {1: 2}, "attention": {2: 30}, "norm2": {31: 4}, "mlp": {4: 500}}
    return wire(*(lambda x, name=name: table[name].get(x, 7000) for name in table))(1) == 531


@right("5.4")
@torch.no_grad()
def layers(wire):
    D, x = 12, torch.randn(2, 5, 12)
    parts = [nn.LayerNorm(D), MultiHeadAttention(D, 3), nn.LayerNorm(D), MLP(D, D)]
    for part in parts:
        perturbed(part)
    y = x + parts[1](parts[0](x))
    return torch.allclose(wire(*parts)(x), y + parts[3](parts[2](y)), atol=1e-4)


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


wrong("5.4", "what do the branches read, and what of?")(at_zero)
wrong("5.4", "Does it look at the shape only?")(
    lambda wire: wire(torch.sin, torch.exp, torch.cos, torch.square)(torch.randn(2, 5)).shape == (2, 5)
)
wrong("5.4", "Does it ever say True?")(lambda wire: False)
wrong("5.4", "Your test says the opposite")(lambda wire: not numbers(wire))
wrong("5.4", "Does your MLP return something")(compared(torch.sin, torch.exp, torch.cos, lambda x: 0 * x))
wrong("5.4", "Are your two norms two different functions?")(compared(torch.sin, torch.exp, torch.sin, torch.square))
wrong("5.4", "change places without a trace")(
    compared(lambda x: 2 * x, lambda x: 3 * x, lambda x: 5 * x, lambda x: 7 * x)
)
wrong("5.4", "do you leave room for that?")(compared(torch.sin, torch.exp, torch.cos, torch.square, torch.equal))
wrong("5.4", "Expected True or False")(lambda wire: "yes")


# ----------------------------------------------------------------------------------------------------------


def test_a_token_without_variance_gives_its_bias_and_no_nan():
    flat = chapter_05._norm_cases()[-1]
    assert flat[0].var() == 0 and torch.equal(by_var(*flat), flat[2].expand(2, 3, 6))


@pytest.mark.parametrize("kind", faults.of(PreNormBlock).values())
def test_wrong_blocks_have_the_names_and_the_shape_and_are_wrong(kind):
    x, names = torch.randn(2, 7, 24), PreNormBlock(24, 3).state_dict().keys()
    assert kind(24, 3).state_dict().keys() == names
    assert kind(24, 3)(x).shape == x.shape
    assert not any(test(chapter_05.wired(kind)) for test in (four_curves, numbers, layers))


def test_branches_at_zero_see_some_wrong_blocks_only():
    kinds = faults.of(PreNormBlock).values()
    assert 0 < sum(not at_zero(chapter_05.wired(kind)) for kind in kinds) < len(kinds)

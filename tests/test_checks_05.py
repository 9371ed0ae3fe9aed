"""The exercises of chapter 5: right answers however they are written, and wrong ones that no check declares."""

import pytest
import torch
from answers import right, wrong
from torch import nn
from torch.nn import functional as F

from vitnb import MLP, PreNormBlock, clinic
from vitnb.checks import chapter_05

# 5.1 ------------------------------------------------------------------------------------------------------


@right("5.1")
def by_var(x, gain, bias, eps):
    spread = (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    return gain * (x - x.mean(-1, keepdim=True)) / spread + bias


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


wrong("5.1", "eps is not used")(lambda x, g, b, eps: F.layer_norm(x, x.shape[2:], g, b, 1e-6))
wrong("5.1", "compute the token 1, 2, 3, 6")(lambda x, g, b, eps: x)
wrong("5.1", "raises RuntimeError")(lambda x, g, b, eps: g * (x - x.mean(-1)) + b)


# 5.2 ------------------------------------------------------------------------------------------------------


@right("5.2")
def two_lines(block, x):
    x = x + block.attention(block.norm1(x))
    return x + block.mlp(block.norm2(x))


@right("5.2")
@torch.no_grad()
def other_names(block, stream):
    read = F.layer_norm(stream, stream.shape[2:], block.norm1.weight, block.norm1.bias, block.norm1.eps)
    stream = torch.add(block.attention(read), stream)
    return block.mlp(block.norm2(stream)) + stream


wrong("5.2", "no mistake that I know")(lambda block, x: two_lines(block, two_lines(block, x)))
wrong("5.2", "no mistake that I know")(lambda block, x: x)
wrong("5.2", "changes what it is given")(lambda block, x: two_lines(block.eval(), x))


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


right("5.3")(by_weights)
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
wrong("5.3", "a vitnb.MLP is wanted")(lambda D: nn.Identity())
wrong("5.3", "MLP(D, 2 * D) was asked")(lambda D: MLP(D, 4 * D))
wrong("5.3", "For x = ")(lambda D: by_weights(D, (1.0, -1.0), (0.5, -1.0)))


@wrong("5.3", "the GELU must stay")
def without_the_bend(D):
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
@torch.no_grad()
def against_vitnb(Block):
    block, model = Block(24, 3).eval(), PreNormBlock(24, 3)
    for p in block.parameters():
        p.normal_(std=0.3)
    model.load_state_dict(block.state_dict())
    x = torch.randn(2, 7, 24)
    return torch.allclose(block(x), model(x), atol=1e-4)


@right("5.4")
def by_questions(Block):
    block, x = Block(16, 2).eval(), torch.randn(2, 5, 16)
    for p in block.parameters():
        nn.init.normal_(p, std=0.5)
    y = x + block.attention(F.layer_norm(x, (16,), block.norm1.weight, block.norm1.bias, 1e-6))
    hidden = F.gelu(block.mlp.fc1(F.layer_norm(y, (16,), block.norm2.weight, block.norm2.bias, 1e-6)))
    return ((y + block.mlp.fc2(hidden) - block(x)).abs() < 1e-3).all()


@right("5.4")
@torch.no_grad()
def against_exercise_2(Block):
    """With the parts of the block itself: only the wiring is asked."""
    block = chapter_05._shaken(Block(24, 3).eval())
    x = torch.randn(2, 7, 24)
    return torch.allclose(block(x), two_lines(block, x), atol=1e-4)


def compared(x=torch.randn, shake=True, evaluate=True, same=lambda a, b: torch.allclose(a, b, atol=1e-4)):
    """The solution, with something left out."""

    def answer(Block):
        block, model = Block(24, 3), PreNormBlock(24, 3)
        block.train(not evaluate)
        for p in block.parameters() if shake else ():
            nn.init.normal_(p, std=0.3)
        model.load_state_dict(block.state_dict())
        tokens = x(2, 7, 24)
        return same(block(tokens), model(tokens))

    return answer


@wrong("5.4", "lets attention feed the MLP only")
def silent(Block):
    block, x = Block(24, 3).eval(), torch.randn(2, 7, 24)
    for layer in (block.attention.proj, block.mlp.fc2):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    return torch.equal(block(x), x)


wrong("5.4", "Does it look at the shape only?")(lambda Block: Block(24, 3)(torch.randn(2, 7, 24)).shape == (2, 7, 24))
wrong("5.4", "rejects 3 of 3 right ones")(lambda Block: False)
wrong("5.4", "has swapped its two norms (which a gain of 1 hides)")(compared(shake=False))
wrong("5.4", "One of the right ones has dropout: is it off?")(compared(evaluate=False))
wrong("5.4", "do you leave room for that?")(compared(same=torch.equal))
wrong("5.4", "lets attention feed the MLP only")(lambda Block: silent(Block) or compared()(Block))
wrong("5.4", "True or False is wanted")(lambda Block: "yes")


# ----------------------------------------------------------------------------------------------------------


def test_a_token_without_variance_gives_its_bias_and_no_nan():
    flat = chapter_05._norm_cases()[-1]
    assert flat[0].var() == 0 and torch.equal(by_var(*flat), flat[2].expand(2, 3, 6))


@pytest.mark.parametrize("kind", clinic.of(PreNormBlock).values())
def test_wrong_blocks_have_the_names_and_the_shape_and_are_wrong(kind):
    x, names = torch.randn(2, 7, 24), PreNormBlock(24, 3).state_dict().keys()
    assert kind(24, 3).state_dict().keys() == names
    assert kind(24, 3)(x).shape == x.shape
    assert not against_vitnb(kind) and not against_exercise_2(kind)


def test_silent_branches_see_some_wrong_blocks_only():
    kinds = clinic.of(PreNormBlock).values()
    assert 0 < sum(not silent(kind) for kind in kinds) < len(kinds)

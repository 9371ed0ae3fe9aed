"""The checks of chapter 4: right answers however written, wrong ones named, nothing breaks.

The table of all answers with their verdicts: pytest tests/test_checks_04.py -k table -s
"""

from contextlib import redirect_stdout
from io import StringIO

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from vitnb import MLP, PreNormBlock
from vitnb.checks import chapter_04 as chapter
from vitnb.checks import check, engine

RIGHT, WRONG = {}, {}


def right(number):
    """Note a right answer."""
    return lambda answer: RIGHT.setdefault(number, []).append(answer) or answer


def wrong(number, phrase):
    """Note a wrong answer and what the verdict must say about it."""
    return lambda answer: WRONG.setdefault(number, []).append((answer, phrase)) or answer


# 4.1 ------------------------------------------------------------------------------------------------------


@right("4.1")
def by_var(x, gain, bias, eps):
    spread = (x.var(-1, correction=0, keepdim=True) + eps).sqrt()
    return gain * (x - x.mean(-1, keepdim=True)) / spread + bias


@right("4.1")
def by_sums(x, gain, bias, eps):
    D = x.shape[2]
    x = x - x.sum(2)[:, :, None] / D
    return x * torch.rsqrt((x * x).sum(2)[:, :, None] / D + eps) * gain + bias


@right("4.1")
def token_by_token(x, gain, bias, eps):
    y = torch.empty_like(x)
    for b in range(len(x)):
        for t in range(x.shape[1]):
            centred = x[b, t] - x[b, t].mean()
            y[b, t] = centred / ((centred**2).mean() + eps) ** 0.5 * gain + bias
    return y


def over(*axes, correction=0):
    def answer(x, gain, bias, eps):
        spread = (x.var(axes, correction=correction, keepdim=True) + eps).sqrt()
        return gain * (x - x.mean(axes, keepdim=True)) / spread + bias

    return answer


def middle(x):
    return x - x.mean(-1, keepdim=True)


def std(x):
    return x.std(-1, correction=0, keepdim=True)


wrong("4.1", "over tokens and channels together")(over(1, 2))
wrong("4.1", "over the tokens, channel by channel")(over(1))
wrong("4.1", "what BatchNorm does")(over(0))
wrong("4.1", "each token has its own mean")(over(0, 1, 2))
wrong("4.1", "divides by D - 1")(over(2, correction=1))
wrong("4.1", "Gain and bias are forgotten")(lambda x, g, b, eps: F.layer_norm(x, x.shape[2:], eps=eps))
wrong("4.1", "The bias is forgotten")(lambda x, g, b, eps: F.layer_norm(x, x.shape[2:], g, eps=eps))
wrong("4.1", "The gain is forgotten")(lambda x, g, b, eps: F.layer_norm(x, x.shape[2:], eps=eps) + b)
wrong("4.1", "first the gain, then the bias")(lambda x, g, b, eps: g * (F.layer_norm(x, x.shape[2:], eps=eps) + b))
wrong("4.1", "by the variance, not by its root")(lambda x, g, b, eps: g * middle(x) / (std(x) ** 2 + eps) + b)
wrong("4.1", "eps stands outside the root")(lambda x, g, b, eps: g * middle(x) / (std(x) + eps) + b)
wrong("4.1", "eps is not used")(lambda x, g, b, eps: g * middle(x) / std(x) + b)
wrong("4.1", "eps is not used")(lambda x, g, b, eps: F.layer_norm(x, x.shape[2:], g, b, 1e-6))
wrong("4.1", "The mean is not subtracted")(lambda x, g, b, eps: g * x / (std(x) ** 2 + eps).sqrt() + b)
wrong("4.1", "do not divide by the spread")(lambda x, g, b, eps: g * middle(x) + b)
wrong("4.1", "compute the token 1, 2, 3, 6")(lambda x, g, b, eps: x)
wrong("4.1", "raises RuntimeError")(lambda x, g, b, eps: g * (x - x.mean(-1)) + b)


# 4.2 ------------------------------------------------------------------------------------------------------


@right("4.2")
def two_lines(block, x):
    x = x + block.attention(block.norm1(x))
    return x + block.mlp(block.norm2(x))


@right("4.2")
@torch.no_grad()
def other_names(block, stream):
    read = F.layer_norm(stream, stream.shape[2:], block.norm1.weight, block.norm1.bias, block.norm1.eps)
    stream = torch.add(block.attention(read), stream)
    return block.mlp(block.norm2(stream)) + stream


for wiring, message in chapter.PRE_NORM_MISTAKES.items():
    wrong("4.2", message[:60].rsplit(" ", 1)[0])(wiring.forward)
wrong("4.2", "no mistake that I know")(lambda block, x: two_lines(block, two_lines(block, x)))
wrong("4.2", "no mistake that I know")(lambda block, x: x)
wrong("4.2", "changes what it is given")(lambda block, x: two_lines(block.eval(), x))


# 4.3 ------------------------------------------------------------------------------------------------------


@torch.no_grad()
def by_weights(D, first=(1.0, -1.0), second=(1.0, -1.0), bias1=0.0, bias2=0.0):
    mlp, eye = MLP(D, 2 * D), torch.eye(D)
    mlp.fc1.weight.copy_(torch.cat([f * eye for f in first]))
    mlp.fc2.weight.copy_(torch.cat([s * eye for s in second], 1))
    if bias1 is not None:
        mlp.fc1.bias.fill_(bias1)
        mlp.fc2.bias.fill_(bias2)
    return mlp


right("4.3")(by_weights)
right("4.3")(lambda D: by_weights(D, (-1.0, 1.0), (-1.0, 1.0)))


@right("4.3")
def one_after_the_other(D):
    mlp = MLP(D, 2 * D)
    weight = torch.zeros(2 * D, D)
    for d in range(D):
        weight[2 * d, d], weight[2 * d + 1, d] = 2, -2
    zeros = {"fc1.bias": torch.zeros(2 * D), "fc2.bias": torch.zeros(D)}
    mlp.load_state_dict({"fc1.weight": weight, "fc2.weight": weight.T / 4} | zeros)
    return mlp


wrong("4.3", "the half that sees -x is missing")(lambda D: by_weights(D, second=(1.0, 0.0)))
wrong("4.3", "take their difference")(lambda D: by_weights(D, second=(1.0, 1.0)))
wrong("4.3", "one sign is turned round")(lambda D: by_weights(D, second=(-1.0, 1.0)))
wrong("4.3", "once is enough")(lambda D: by_weights(D, second=(2.0, -2.0)))
wrong("4.3", "the biases are not")(lambda D: by_weights(D, bias1=None))
wrong("4.3", "do the two halves cancel")(lambda D: by_weights(D, first=(1.0, 1.0)))
wrong("4.3", "nearly straight")(lambda D: by_weights(D, (1.0, 0.0), (1.0, 0.0), 20.0, -20.0))
wrong("4.3", "still the random ones")(lambda D: MLP(D, 2 * D))
wrong("4.3", "a vitnb.MLP is wanted")(lambda D: nn.Identity())
wrong("4.3", "MLP(D, 2 * D) was asked")(lambda D: MLP(D, 4 * D))
wrong("4.3", "For x = ")(lambda D: by_weights(D, (1.0, -1.0), (0.5, -1.0)))


@wrong("4.3", "the GELU must stay")
def without_the_bend(D):
    mlp = by_weights(D, second=(1.0, 0.0))
    mlp.act = nn.Identity()
    return mlp


# 4.4 ------------------------------------------------------------------------------------------------------


right("4.4")(lambda: "BC")
right("4.4")(lambda: "c, b")
wrong("4.4", "draw the borders of the blocks elsewhere")(lambda: "ABC")
wrong("4.4", "which boxes stand on its stream")(lambda: "B")
wrong("4.4", "what is left of a block when its branches")(lambda: "C")
wrong("4.4", "3 of your 4 predictions")(lambda: "BCD")
wrong("4.4", "what does a gain of 1 change")(lambda: "BCD")
wrong("4.4", "0 of your 4 predictions")(lambda: "A D")
wrong("4.4", "only the stacks A, B, C and D: you name E")(lambda: "BCE")
wrong("4.4", "a string such as 'ABCD' is wanted")(lambda: ["B", "C"])


# 4.5 ------------------------------------------------------------------------------------------------------


@right("4.5")
@torch.no_grad()
def against_vitnb(Block):
    block, model = Block(24, 3).eval(), PreNormBlock(24, 3)
    for p in block.parameters():
        p.normal_(std=0.3)
    model.load_state_dict(block.state_dict())
    x = torch.randn(2, 7, 24)
    return torch.allclose(block(x), model(x), atol=1e-4)


@right("4.5")
def by_questions(Block):
    block, x = Block(16, 2).eval(), torch.randn(2, 5, 16)
    for p in block.parameters():
        nn.init.normal_(p, std=0.5)
    y = x + block.attention(F.layer_norm(x, (16,), block.norm1.weight, block.norm1.bias, 1e-6))
    hidden = F.gelu(block.mlp.fc1(F.layer_norm(y, (16,), block.norm2.weight, block.norm2.bias, 1e-6)))
    return ((y + block.mlp.fc2(hidden) - block(x)).abs() < 1e-3).all()


def compared(x=torch.randn, shake=True, evaluate=True):
    """The solution, with something left out."""

    def answer(Block):
        block, model = Block(24, 3), PreNormBlock(24, 3)
        block.train(not evaluate)
        for p in block.parameters() if shake else ():
            nn.init.normal_(p, std=0.3)
        model.load_state_dict(block.state_dict())
        tokens = x(2, 7, 24)
        return torch.allclose(block(tokens), model(tokens), atol=1e-4)

    return answer


@wrong("4.5", "lets attention feed the MLP only")
def silent(Block):
    block, x = Block(24, 3).eval(), torch.randn(2, 7, 24)
    for layer in (block.attention.proj, block.mlp.fc2):
        nn.init.zeros_(layer.weight)
        nn.init.zeros_(layer.bias)
    return torch.equal(block(x), x)


wrong("4.5", "Does it look at the shape only?")(lambda Block: Block(24, 3)(torch.randn(2, 7, 24)).shape == (2, 7, 24))
wrong("4.5", "rejects 3 of 3 right ones")(lambda Block: False)
wrong("4.5", "has swapped its two norms (which a gain of 1 hides)")(compared(shake=False))
wrong("4.5", "One of the right ones has dropout: is it off?")(compared(evaluate=False))
wrong("4.5", "lets attention feed the MLP only")(lambda Block: silent(Block) or compared()(Block))
wrong("4.5", "True or False is wanted")(lambda Block: "yes")


# ----------------------------------------------------------------------------------------------------------

NUMBERS = sorted(RIGHT)


def verdict(number, answer=None, **kwargs):
    """Check an answer and return (is it right, what was printed, in one line)."""
    with redirect_stdout(StringIO()) as printed:
        result = check(number, answer, **kwargs)
    lines = printed.getvalue().splitlines()
    assert all(len(line) <= 75 for line in lines), lines
    return result, " ".join(lines)


def test_all_exercises_of_the_chapter_are_here():
    assert [n for n in sorted(engine.EXERCISES) if n.startswith("4.")] == NUMBERS == sorted(WRONG)


@pytest.mark.parametrize("number, answer", [(n, a) for n in RIGHT for a in RIGHT[n]])
def test_right_answers_are_accepted(number, answer):
    for _ in range(5):
        result, text = verdict(number, answer)
        assert result is True, text
        assert text.startswith("Right: ")


@pytest.mark.parametrize("number, answer, phrase", [(n, a, p) for n in WRONG for a, p in WRONG[n]])
def test_wrong_answers_are_named(number, answer, phrase):
    for _ in range(3):
        result, text = verdict(number, answer)
        assert result is False, text
        assert phrase in text
        assert text.endswith((f'. Hint: check("{number}", hint=1).', f'? Hint: check("{number}", hint=1).'))


@pytest.mark.parametrize("number", NUMBERS)
def test_table_of_all_answers(number):
    right, wrong = RIGHT[number], WRONG[number]
    assert len(right) >= 2 and len(wrong) >= 3
    print(f"\n{number}: {len(right)} right accepted, {len(wrong)} wrong rejected\n  + {verdict(number, right[0])[1]}")
    for answer, _ in wrong:
        print(f"  - {verdict(number, answer)[1].split(' Hint: ')[0]}")


@pytest.mark.parametrize("number", NUMBERS)
def test_two_hints_give_no_answer_away(number):
    for hint in (1, 2):
        result, text = verdict(number, RIGHT[number][0], hint=hint)
        assert result is False
        assert text.startswith(f"Hint {hint}: ")
        assert 60 < len(text) < 320
        for code in ("x + ", "torch.eye", "torch.cat", "correction", "return", "==", "allclose"):
            assert code not in text


def test_mutants_have_the_names_and_the_shape_and_are_wrong():
    x, names = torch.randn(2, 7, 24), PreNormBlock(24, 3).state_dict().keys()
    for symptom, mutant in chapter.MUTANTS.items():
        assert mutant(24, 3).state_dict().keys() == names, symptom
        assert mutant(24, 3)(x).shape == x.shape, symptom
        assert not against_vitnb(mutant), symptom


def test_silent_branches_see_some_mutants_only():
    caught = sum(not silent(mutant) for mutant in chapter.MUTANTS.values())
    assert 0 < caught < len(chapter.MUTANTS)

"""Exercises of chapter 4: LayerNorm, the two lines of pre-norm, an exact MLP, which stack trains, a test that tells."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitnb.blocks import MLP, PostNormBlock, PreNormBlock
from vitnb.checks.engine import Wrong, call, close, described, exercise, fresh, tensor_like


@exercise(
    "4.1",
    "my_layer_norm(x, gain, bias, eps)",
    "How many means are there for 3 pictures of 17 tokens? Each token has its own. Along which axis do the numbers of "
    "one token lie?",
    "Keep the axis that you average over (keepdim), or the shapes will not fit. Compare torch.var with the mean of "
    "squares on the token 1, 2, 3, 6 of this chapter, and look where eps stands in the equation.",
)
def _layer_norm(answer: Callable) -> str:
    for shape, eps in (((3, 17, 48), 1e-6), ((2, 5, 7), 0.5), ((1, 1, 11), 1e-5)):
        x, gain, bias = 2 * fresh(*shape) + 3, fresh(shape[2]), fresh(shape[2])
        result = tensor_like(call(answer, x, gain, bias, eps), x)
        wanted = F.layer_norm(x, shape[2:], gain, bias, eps)
        if not close(result, wanted, 1e-4):
            raise Wrong(_layer_norm_mistake(result, x, gain, bias, eps, wanted))
    flat = torch.full((2, 3, 6), 5.0)
    result = call(answer, flat, torch.ones(6), torch.zeros(6), 1e-6)
    if not isinstance(result, Tensor) or not result.isfinite().all():
        raise Wrong("A token whose numbers are all 5 gives NaN: its variance is 0, and nothing keeps you from 0/0.")
    return "equal to nn.LayerNorm for 3 shapes and 3 values of eps, with random gains and biases."


def _layer_norm_mistake(result: Tensor, x: Tensor, gain: Tensor, bias: Tensor, eps: float, wanted: Tensor) -> str:
    def over(*axes: int, correction: int = 0) -> Tensor:
        spread = (x.var(axes, correction=correction, keepdim=True) + eps).sqrt()
        return gain * (x - x.mean(axes, keepdim=True)) / spread + bias

    plain, middle, variance = F.layer_norm(x, x.shape[2:], eps=eps), x - x.mean(-1, keepdim=True), x.var(-1, False)
    spread = variance[..., None].sqrt()
    mistakes = {
        "You normalise over tokens and channels together: every token then depends on all others.": over(1, 2),
        "You normalise over the tokens, channel by channel: LayerNorm takes the D numbers of one token.": over(1),
        "You normalise over the pictures of the batch: that is what BatchNorm does.": over(0),
        "You normalise over all pictures, tokens and channels together: each token has its own mean.": over(0, 1, 2),
        "Your variance divides by D - 1, as torch.var does unless told otherwise; LayerNorm's divides by D.": over(
            2, correction=1
        ),
        "Gain and bias are forgotten.": plain,
        "The bias is forgotten.": gain * plain,
        "The gain is forgotten.": plain + bias,
        "The bias is multiplied by the gain too: first the gain, then the bias.": gain * (plain + bias),
        "You divide by the variance, not by its root.": gain * middle / (spread**2 + eps) + bias,
        "eps stands outside the root: it is added to the variance, before the root is taken.": (
            gain * middle / (spread + eps) + bias
        ),
        "eps is not used.": gain * middle / spread + bias,
        "The mean is not subtracted.": gain * x / (spread**2 + eps).sqrt() + bias,
        "You subtract the mean and do not divide by the spread.": gain * middle + bias,
    }
    for message, wrong in mistakes.items():
        if close(result, wrong, 1e-4) and not close(wrong, wanted, 1e-4):
            return message
    return (
        f"For tokens {tuple(x.shape)} and eps = {eps:g} you are off by up to {(result - wanted).abs().max():.2g}: "
        "compute the token 1, 2, 3, 6 of this chapter on paper."
    )


class NormaliseThenAdd(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x)
        x = x + self.attention(x)
        x = self.norm2(x)
        return x + self.mlp(x)


class FirstHalfOnly(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x)
        x = x + self.attention(x)
        return x + self.mlp(self.norm2(x))


class ForgottenPlus(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x)
        return x + self.mlp(self.norm2(x + self.attention(x)))


class OnlyForTheMLP(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(self.norm2(x + self.attention(self.norm1(x))))


class NoSecondPlus(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.norm2(x + self.attention(self.norm1(x))))


class NoFirstPlus(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class NoPlus(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.norm2(self.attention(self.norm1(x))))


class NoNorms(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x)
        return x + self.mlp(x)


class NoSecondNorm(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(x)


class Swapped(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm2(x))
        return x + self.mlp(self.norm1(x))


class OneNorm(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm1(x))


class Parallel(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(self.norm1(x)) + self.mlp(self.norm2(x))


class MLPFirst(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mlp(self.norm2(x))
        return x + self.attention(self.norm1(x))


class BranchNormed(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.norm1(self.attention(x))
        return x + self.norm2(self.mlp(x))


@exercise(
    "4.2",
    "pre_norm(block, x)",
    "Follow the thick line of the left diagram from below: which boxes stand on it? None. So no line may put a norm's "
    "output in the place of x.",
    "Each of the two lines has the same form: the stream, plus a branch of the stream. The branch begins with a norm. "
    "Which norm belongs to which branch?",
)
def _pre_norm(answer: Callable) -> str:
    for B, T, D, heads in ((3, 17, 48, 6), (2, 5, 8, 2)):
        block, x = _shaken(PreNormBlock(D, heads)), 3 * fresh(B, T, D)
        result = tensor_like(call(answer, block, x), x)
        with torch.no_grad():
            if not close(result, block(x), 1e-4):
                raise Wrong(_pre_norm_mistake(result, block, x))
    return "equal to vitnb.PreNormBlock on 2 blocks with random weights, gains and biases."


PRE_NORM_MISTAKES = {
    PostNormBlock: "That is post-norm: you add, then normalise the stream itself.",
    NormaliseThenAdd: "You normalise, then add: what you add to is the normalised token, the stream is lost. Silent "
    "branches would not give x back.",
    FirstHalfOnly: "In the first half the normalised token takes the place of the stream. The second half is right.",
    ForgottenPlus: "Attention only feeds the MLP: it never writes to the stream, and the stream is normalised.",
    OnlyForTheMLP: "Attention only feeds the MLP: its sum never becomes the stream.",
    NoSecondPlus: "The MLP's output replaces the stream: the second plus is missing.",
    NoFirstPlus: "Attention's output replaces the stream: the first plus is missing.",
    NoPlus: "There is no plus: each part replaces the stream.",
    NoNorms: "There is no norm on the branches.",
    NoSecondNorm: "The MLP reads the stream as it is: the second norm is missing.",
    Swapped: "The two norms are swapped: norm1 belongs to attention, norm2 to the MLP.",
    OneNorm: "You use norm1 twice: the MLP has its own, norm2.",
    Parallel: "Both branches read the same x: the MLP should read the stream after attention has written to it.",
    MLPFirst: "The MLP comes before attention: it should be the other way round.",
    BranchNormed: "The norms stand at the end of the branches: in pre-norm they stand at their beginning.",
}


def _pre_norm_mistake(result: Tensor, block: PreNormBlock, x: Tensor) -> str:
    for wrong, message in PRE_NORM_MISTAKES.items():
        if close(result, wrong.forward(block, x), 1e-4):
            return message
    off = (result - block(x)).abs().max()
    return f"You are off by up to {off:.2g}, and it is no mistake that I know. Silence both branches: is x left?"


def _shaken(block: nn.Module) -> nn.Module:
    """Every parameter random: a gain of 1 or a bias of 0 hides mistakes."""
    with torch.no_grad():
        for p in block.parameters():
            p.copy_(0.4 * fresh(*p.shape))
    return block


@exercise(
    "4.3",
    "identity_mlp(D)",
    "GELU(1) - GELU(-1) is 1, and GELU(2) - GELU(-2) is 2. So one number passes through two hidden units unharmed. "
    "What must these two units see?",
    "Give the first layer two units for each channel, one that sees it and one that sees its negative. The second "
    "layer takes their difference. And a new nn.Linear has random biases.",
)
def _identity(answer: Callable) -> str:
    for D in (7, 4, 12):
        mlp = call(answer, D)
        if not isinstance(mlp, MLP):
            raise Wrong(f"Your function returns {described(mlp)}: a vitnb.MLP is wanted.")
        shapes = tuple(mlp.fc1.weight.shape), tuple(mlp.fc2.weight.shape)
        if shapes != ((2 * D, D), (D, 2 * D)):
            raise Wrong(f"The weights of your MLP have shapes {shapes[0]} and {shapes[1]}: MLP(D, 2 * D) was asked.")
        if not isinstance(mlp.act, nn.GELU):
            raise Wrong(f"Your MLP has {described(mlp.act)} in the middle: the GELU must stay.")
        for size in (1.0, 200.0):
            x = size * fresh(3, 5, D)
            with torch.no_grad():
                result = tensor_like(call(mlp, x), x)
            if not close(result / size, x / size, 1e-4):
                raise Wrong(_identity_mistake(mlp, result, x, size))
    return "mlp(x) = x for 3 widths, on small and on large tokens."


def _identity_mistake(mlp: MLP, result: Tensor, x: Tensor, size: float) -> str:
    if size > 1:
        return (
            "For small tokens your MLP returns its input, for tokens of size 200 it does not. Do you use a place where "
            "GELU is nearly straight? There is a way that is exact everywhere."
        )
    with torch.no_grad():
        if mlp.fc1.bias.abs().max() > 0 or mlp.fc2.bias.abs().max() > 0:
            without = mlp.fc2.weight @ F.gelu(mlp.fc1.weight @ x[0, 0])
            if close(without, x[0, 0], 1e-4):
                return "The weights are right, the biases are not: a new nn.Linear has random ones."
    mistakes = {
        "Your MLP returns GELU(x): the half that sees -x is missing.": F.gelu(x),
        "You add the two halves: take their difference.": F.gelu(x) + F.gelu(-x),
        "Your MLP returns -x: one sign is turned round.": -x,
        "Your MLP returns 2x: both layers take part in the difference, once is enough.": 2 * x,
        "Your MLP returns zero for every input: do the two halves cancel?": torch.zeros_like(x),
    }
    for message, wrong in mistakes.items():
        if close(result, wrong, 1e-4):
            return message
    if close(result.mean(), torch.tensor(0.0), 1e-9) or not (mlp.fc1.weight == 0).any():
        return "Your MLP returns something else than its input: are its weights still the random ones?"
    return f"For x = {x[0, 0, 0]:.2f} in channel 0 your MLP returns {result[0, 0, 0]:.2f}."


@exercise(
    "4.4",
    "these_train()",
    "Draw the diagram of each. Where does a norm stand on the stream? And how far is each block from the identity "
    "before the first step?",
    "One of them is another one in disguise: this chapter proved it. And a number that multiplies by 1 does nothing, "
    "at first.",
)
def _prediction(answer: Callable) -> str:
    letters = call(answer)
    if not isinstance(letters, str):
        raise Wrong(f"Your function returns {described(letters)}: a string such as 'ABCD' is wanted.")
    chosen = set(letters.upper()) - set(" ,")
    if not chosen <= set("ABCD"):
        raise Wrong(f"There are only the stacks A, B, C and D: you name {', '.join(sorted(chosen - set('ABCD')))}.")
    wrong = chosen ^ set("BC")
    if not wrong:
        return "the measurement says the same. The solution prints it."
    questions = {
        "A": "A: draw the borders of the blocks elsewhere. Which stack is it then?",
        "B": "B: what is left of a block when its branches are multiplied by 0.0001?",
        "C": "C: which boxes stand on its stream? Find it in the grid.",
        "D": "D: what does a gain of 1 change in the first steps?",
    }
    reason = questions[min(wrong)]
    raise Wrong(f"{4 - len(wrong)} of your 4 predictions are what was measured. Think again about {reason}")


class WrittenOut(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        branch = self.norm1(x)
        stream = x + self.attention(branch)
        return stream + self.mlp.drop(self.mlp.fc2(self.mlp.drop(F.gelu(self.mlp.fc1(self.norm2(stream))))))


class WithDropout(PreNormBlock):
    def __init__(self, embed_dim: int, num_heads: int):
        super().__init__(embed_dim, num_heads, dropout=0.1, attn_dropout=0.1)


class WithReLU(PreNormBlock):
    def __init__(self, embed_dim: int, num_heads: int):
        super().__init__(embed_dim, num_heads)
        self.mlp.act = nn.ReLU()


class OverTokens(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[1:], eps=self.eps) * self.weight + self.bias


class NormsOverTokens(PreNormBlock):
    def __init__(self, embed_dim: int, num_heads: int):
        super().__init__(embed_dim, num_heads)
        self.norm1, self.norm2 = OverTokens(embed_dim, eps=1e-6), OverTokens(embed_dim, eps=1e-6)


RIGHT = (PreNormBlock, WrittenOut, WithDropout)
# What a reader is told about one that was let through; the last one is named first.
MUTANTS: dict[str, type[PreNormBlock]] = {
    "normalises, then adds": NormaliseThenAdd,
    "is post-norm": PostNormBlock,
    "replaces the stream by the normalised token in its first half": FirstHalfOnly,
    "normalises the stream, and lets attention feed the MLP only": ForgottenPlus,
    "lets the MLP replace the stream": NoSecondPlus,
    "has ReLU in its MLP": WithReLU,
    "lets both branches read the same x": Parallel,
    "normalises over tokens and channels together": NormsOverTokens,
    "has swapped its two norms (which a gain of 1 hides)": Swapped,
    "has no norm before the MLP": NoSecondNorm,
    "lets attention feed the MLP only": OnlyForTheMLP,
}


@exercise(
    "4.5",
    "is_pre_norm(Block)",
    "You have a block that is right: vitnb's. How can two blocks be compared so that only their wiring can make a "
    "difference? And what must the tokens not be?",
    "Copy the weights by load_state_dict, after all parameters, gains and biases too, have got random values. And "
    "dropout must be off.",
)
def _is_pre_norm(answer: Callable) -> str:
    rejected = [cls for cls in RIGHT if not _verdict(answer, cls)]
    missed = [symptom for symptom, cls in MUTANTS.items() if _verdict(answer, cls)]
    if rejected or missed:
        count = f"It rejects {len(rejected)} of {len(RIGHT)} right ones and lets {len(missed)} of {len(MUTANTS)} wrong "
        example = f"ones through, for example a block that {missed[-1]}." if missed else "ones through."
        shape = " Does it look at the shape only?" if len(missed) == len(MUTANTS) else ""
        dropout = " One of the right ones has dropout: is it off?" if rejected == [WithDropout] else ""
        raise Wrong(count + example + shape + dropout)
    return f"it accepts {len(RIGHT)} right blocks and sees through {len(MUTANTS)} wrong ones."


def _verdict(answer: Callable, cls: type[PreNormBlock]) -> bool:
    result = call(answer, cls)
    if isinstance(result, Tensor) and result.ndim == 0:
        result = result.item()
    if not isinstance(result, (bool, np.bool_)):
        raise Wrong(f"Your function returns {described(result)}: True or False is wanted.")
    return bool(result)

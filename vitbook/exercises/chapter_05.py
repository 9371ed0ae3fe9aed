"""Exercises of chapter 5: LayerNorm, a pre-norm block from a blank class, an exact MLP, a test that tells."""

from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbook import faults
from vitbook.exercises.forms import blank_class, compute, forbidding, hunt, kinds, weights
from vitbook.exercises.values import apart, close, counted, described, fresh
from vitbook.faults import wire
from vitnb.attention import MultiHeadAttention
from vitnb.blocks import MLP, PreNormBlock


def _norm_cases() -> list[tuple]:
    drawn = [
        (2 * fresh(*shape) + 3, fresh(shape[2]), fresh(shape[2]), eps)
        for shape, eps in (((3, 17, 48), 1e-6), ((2, 5, 7), 0.5), ((1, 1, 11), 1e-5))
    ]
    return [*drawn, (torch.full((2, 3, 6), 5.0), torch.ones(6), torch.zeros(6), 0.5)]


def _flat(result: Tensor, right: Tensor, x: Tensor, *_: Tensor) -> str | None:
    if x.var() == 0 and isinstance(result, Tensor) and not result.isfinite().all():
        return "A token whose numbers are all 5 gives NaN: its variance is 0, and nothing keeps you from 0/0."
    return None


compute(
    "5.1",
    "my_layer_norm(x, gain, bias, eps)",
    "How many means are there for 3 images of 17 tokens? Each token has its own. Along which axis do the numbers of "
    "one token lie?",
    "Keep the axis that you average over (keepdim), or the shapes will not fit. Compare torch.var with the mean of "
    "squares on the token 1, 2, 3, 6 of this chapter, and look where eps stands in the equation.",
    cases=_norm_cases,
    reference=lambda x, gain, bias, eps: F.layer_norm(x, x.shape[2:], gain, bias, eps),
    before=_flat,
    watch=forbidding(layer_norm="nn.LayerNorm or F.layer_norm"),
    mistakes={
        "You normalise over tokens and channels together: every token then depends on all others.": (
            wire.over_tokens_and_channels
        ),
        "You normalise over the tokens, channel by channel: LayerNorm takes the D numbers of one token.": (
            wire.over_the_tokens
        ),
        "You normalise over the images of the batch: that is what BatchNorm does.": wire.over_the_images,
        "You normalise over all images, tokens and channels together: each token has its own mean.": (
            wire.over_everything
        ),
        "Your variance divides by D - 1, as torch.var does unless told otherwise; LayerNorm's divides by D.": (
            wire.unbiased_variance
        ),
        "Gain and bias are forgotten.": wire.without_gain_and_bias,
        "The bias is forgotten.": wire.without_bias,
        "The gain is forgotten.": wire.without_gain,
        "The bias is multiplied by the gain too: first the gain, then the bias.": wire.gain_after_bias,
        "You divide by the variance, not by its root.": wire.divided_by_the_variance,
        "eps stands outside the root: it is added to the variance, before the root is taken.": wire.eps_after_the_root,
        "eps is not used.": wire.without_eps,
        "The mean is not subtracted.": wire.mean_kept,
        "You subtract the mean and do not divide by the standard deviation.": wire.only_centred,
    },
    otherwise=lambda result, right, x, gain, bias, eps: (
        f"For tokens {tuple(x.shape)} and eps = {eps:g} you are {apart(result, right)}: compute the token 1, 2, 3, 6 "
        "of this chapter on paper."
    ),
    right="equal to nn.LayerNorm for 3 shapes and 3 values of eps, with random gains and biases.",
    tolerance=1e-4,
)


BLOCK_MISTAKES: dict[str, type[nn.Module]] = {
    "That is post-norm: you add, then normalise the residual stream itself.": wire.PostNorm,
    "You normalise, then add: what you add to is the normalised token, so the residual stream is lost. With both "
    "branches at zero your block would not return x.": wire.NormaliseThenAdd,
    "In the first half the normalised token takes the place of the residual stream. The second half is right.": (
        wire.FirstHalfOnly
    ),
    "Attention only feeds the MLP: it never writes to the residual stream, which is normalised besides.": (
        wire.ForgottenPlus
    ),
    "Attention only feeds the MLP: its sum never becomes the residual stream.": wire.OnlyForTheMLP,
    "The MLP's output replaces the residual stream: the second plus is missing.": wire.NoSecondPlus,
    "Attention's output replaces the residual stream: the first plus is missing.": wire.NoFirstPlus,
    "There is no plus: each part replaces the residual stream.": wire.NoPlus,
    "There is no norm on the branches.": wire.NoNorms,
    "The MLP reads the residual stream as it is: the second norm is missing.": wire.NoSecondNorm,
    "The two norms are swapped: norm1 belongs to attention, norm2 to the MLP.": wire.SwappedNorms,
    "You use norm1 twice: the MLP has its own, norm2.": wire.OneNorm,
    "Both branches read the same x: the MLP should read the residual stream after attention has written to it.": (
        wire.Parallel
    ),
    "The MLP comes before attention: it should be the other way round.": wire.MLPFirst,
    "The norms stand at the end of the branches: in pre-norm they stand at their beginning.": wire.BranchesNormedLast,
}


def large_eps(name: str, norm: nn.Module) -> str | None:
    """What is wrong with a norm whose eps is so large that it changes the result."""
    told = f"{name} has eps = {norm.eps:g}, which changes what it computes: 1e-5 or 1e-6 only keeps it from 0/0."
    return told if norm.eps > 1e-4 else None


def block_as_asked(block: nn.Module, D: int, heads: int) -> str | None:
    """What is wrong with the parts of a block, or nothing."""
    if message := kinds(
        block, {"norm1": nn.LayerNorm, "attention": MultiHeadAttention, "norm2": nn.LayerNorm, "mlp": MLP}
    ):
        return message
    for name in ("norm1", "norm2"):
        norm = getattr(block, name)
        if norm.normalized_shape != (D,):
            return f"{name} normalises over {norm.normalized_shape}: the features of one token are ({D},)."
        if norm.weight is None or norm.bias is None:
            return (
                f"{name} has no gains or no biases, which are learned: leave elementwise_affine and bias as they are."
            )
        if message := large_eps(name, norm):
            return message
    if block.norm1 is block.norm2:
        return "norm1 and norm2 are one module: each branch has a norm with a gain and a bias of its own."
    attention, mlp = block.attention, block.mlp
    if attention.num_heads != heads:
        return f"Expected attention with {counted(heads, 'head')}, the num_heads given, got {attention.num_heads}."
    if mlp.fc1.out_features != 4 * D:
        hidden = mlp.fc1.out_features
        return f"Expected an MLP with {4 * D} hidden units, 4 * dim, got {hidden}."
    if not isinstance(mlp.act, nn.GELU):
        return f"Your MLP has {described(mlp.act)} in the middle: the GELU must stay."
    return None


blank_class(
    "5.2",
    "Block(dim, num_heads)",
    "Two parts read the residual stream, and each has a norm of its own in front: four parts to make in __init__. How "
    "many features does a LayerNorm of one token have?",
    "Each of the two lines of forward has the same form: the residual stream, plus a branch that begins with a norm. "
    "So no line may put a norm's output in the place of x.",
    kind=PreNormBlock,
    parts=("norm1", "attention", "norm2", "mlp"),
    asked=block_as_asked,
    cases=lambda: (((D, heads), (3 * fresh(B, T, D),)) for B, T, D, heads in ((3, 17, 48, 6), (2, 5, 8, 2))),
    mistakes=BLOCK_MISTAKES,
    otherwise="Set both branches to zero: does it return x?",
    right="equal to vitnb.PreNormBlock for 2 sizes, with random weights, gains and biases.",
)


class _Sized(MLP):
    """An MLP on tokens of some size, and what it says in that unit."""

    def forward(self, x: Tensor, size: float) -> Tensor:
        return super().forward(size * x) / size


@torch.no_grad()
def _halves(D: int, first: tuple[float, float] = (1, -1), second: tuple[float, float] = (1, -1)) -> MLP:
    """An MLP whose two halves see multiples of x, and are added with these factors."""
    mlp, eye = MLP(D, 2 * D), torch.eye(D)
    mlp.fc1.weight.copy_(torch.cat([f * eye for f in first]))
    mlp.fc2.weight.copy_(torch.cat([f * eye for f in second], dim=1))
    mlp.fc1.bias.zero_()
    mlp.fc2.bias.zero_()
    return mlp


def _mlp_as_asked(mlp: MLP, D: int) -> str | None:
    shapes = tuple(mlp.fc1.weight.shape), tuple(mlp.fc2.weight.shape)
    if shapes != ((2 * D, D), (D, 2 * D)):
        return f"The weights of your MLP have shapes {shapes[0]} and {shapes[1]}: MLP(D, 2 * D) was asked."
    if not isinstance(mlp.act, nn.GELU):
        return f"Your MLP has {described(mlp.act)} in the middle: the GELU must stay."
    return None


def _no_identity(mlp: MLP, result: Tensor, _: Tensor, D: int, x: Tensor, size: float) -> str:
    if size > 1:
        return (
            "For small tokens your MLP returns its input, for tokens of size 200 it does not. Do you use a place where "
            "GELU is nearly straight? There is a way that is exact everywhere."
        )
    if close(F.linear(F.gelu(F.linear(x, mlp.fc1.weight)), mlp.fc2.weight), x, 1e-4):
        return "The weights are right, the biases are not: a new nn.Linear has random ones."
    if not (mlp.fc1.weight == 0).any():
        return "Your MLP returns something else than its input: are its weights still the random ones?"
    return f"For x = {x[0, 0, 0]:.2f} in channel 0 your MLP returns {result[0, 0, 0]:.2f}."


weights(
    "5.3",
    "identity_mlp(D)",
    "GELU(1) - GELU(-1) is 1, and GELU(2) - GELU(-2) is 2. So two hidden units together can pass on a number exactly. "
    "What must these two units see?",
    "Give the first layer two units for each channel, one that sees it and one that sees its negative. The second "
    "layer takes their difference. And a new nn.Linear has random biases.",
    kind=MLP,
    cases=lambda: (((D,), (fresh(3, 5, D), size)) for D in (7, 4, 12) for size in (1.0, 200.0)),
    before=_mlp_as_asked,
    make=lambda mlp, D: _Sized(D, 2 * D),
    reference=lambda D: lambda x, size: x,
    mistakes={
        "Your MLP returns GELU(x): the half that sees -x is missing.": lambda D: _halves(D, second=(1, 0)),
        "You add the two halves: take their difference.": lambda D: _halves(D, second=(1, 1)),
        "Your MLP returns -x: one sign is turned round.": lambda D: _halves(D, second=(-1, 1)),
        "Your MLP returns 2x: both layers take part in the difference, once is enough.": (
            lambda D: _halves(D, second=(2, -2))
        ),
        "Your MLP returns zero for every input: do the two halves cancel?": lambda D: _halves(D, first=(1, 1)),
    },
    otherwise=_no_identity,
    right="mlp(x) = x for 3 widths, on small and on large tokens.",
)


class _AddedLast(PreNormBlock):
    """The same sum in another order, which differs in the last digits."""

    def forward(self, x: Tensor) -> Tensor:
        branch = self.attention(self.norm1(x))
        return x + (branch + self.mlp(self.norm2(x + branch)))


class _AsALoop(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        for norm, layer in ((self.norm1, self.attention), (self.norm2, self.mlp)):
            x = layer(norm(x)) + x
        return x


def wired(kind: type[nn.Module]) -> Callable:
    """The wiring of a block alone: from four functions of the reader's to a function from tokens to tokens."""

    def wire_up(norm1: Callable, attention: Callable, norm2: Callable, mlp: Callable) -> Callable:
        parts = SimpleNamespace(norm1=norm1, attention=attention, norm2=norm2, mlp=mlp)
        parts.ls1 = parts.ls2 = nn.Identity()
        return lambda x: kind.forward(parts, x)

    return wire_up


WRONG_WIRINGS = faults.of(PreNormBlock)
_NAMES = {kind: name for name, kind in WRONG_WIRINGS.items()}


def _strict(rejected: list[str], missed: list[str]) -> str:
    if len(missed) == len(WRONG_WIRINGS):
        return "Does it look at the shape only?"
    if len(rejected) == 3 and not missed:
        return "Does it ever say True?"
    if rejected:
        only_order = rejected == ["another order"]
        return "Sums in another order differ in the last digits: do you leave room for that?" if only_order else ""
    through = {kind for kind, name in _NAMES.items() if name in missed}
    if {wire.OnlyForTheMLP, wire.NoNorms} <= through:
        return "With branches at zero only the residual stream is tested: what do the branches read, and what of?"
    if through & {wire.NoSecondNorm, wire.NoSecondPlus}:
        return "Does your MLP return something, and something that depends on what it reads?"
    if wire.SwappedNorms in through:
        return "Are your two norms two different functions?"
    if through & {wire.MLPFirst, wire.BranchesNormedLast}:
        return "Parts that only multiply can change places without a trace: 2 * (3 * x) is 3 * (2 * x)."
    return ""


hunt(
    "5.4",
    "is_pre_norm(wire)",
    "Choose four functions that you can follow in your head, and a small x. What does a pre-norm block return for "
    "them? Which of the wrong wirings return the same?",
    "Four different functions, none of which may change places with another one without a trace. Squaring and "
    "doubling, for example: the square of a double is no double of the square. Then compare with the two lines of "
    "pre-norm, computed by yourself.",
    right={"the book's": PreNormBlock, "another order": _AddedLast, "a loop": _AsALoop},
    wrong=WRONG_WIRINGS,
    handed=wired,
    one="a block that",
    more=_strict,
    accepted="it accepts {right} right wirings and sees through {wrong} wrong ones.",
)

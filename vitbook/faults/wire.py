"""Wrong blocks, norms and MLPs: the arrows of a block drawn elsewhere, a norm over the wrong axes."""

import torch
from torch import Tensor
from torch.nn import functional as F

from vitbook.faults._fault import fault
from vitbook.faults._rewrite import FIRST_TWICE, SWAPPED, UNBIASED, folded
from vitnb.blocks import MLP, PostNormBlock, PreNormBlock


@fault("normalises, then adds", PreNormBlock, {"reference"})
class NormaliseThenAdd(PreNormBlock):
    """The norm replaces the stream instead of feeding a branch."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x)
        x = x + self.attention(x)
        x = self.norm2(x)
        return x + self.mlp(x)


@fault("is post-norm", PreNormBlock, {"reference"})
class PostNorm(PreNormBlock):
    forward = PostNormBlock.forward


@fault("replaces the stream by the normalised token in its first half", PreNormBlock, {"reference"})
class FirstHalfOnly(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x)
        x = x + self.attention(x)
        return x + self.mlp(self.norm2(x))


@fault("normalises the stream, and lets attention feed the MLP only", PreNormBlock, {"reference"})
class ForgottenPlus(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x)
        return x + self.mlp(self.norm2(x + self.attention(x)))


@fault("carries the normalised tokens past its branches, which read the raw ones", PreNormBlock, {"reference"})
class NormOnTheSkip(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x) + self.attention(x)
        return self.norm2(x) + self.mlp(x)


@fault("adds what attention returns to itself", PreNormBlock, {"reference"})
class AddedToItself(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = self.attention(self.norm1(x))
        x = x + x
        return x + self.mlp(self.norm2(x))


@fault("lets attention feed the MLP only", PreNormBlock, {"reference"})
class OnlyForTheMLP(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(self.norm2(x + self.attention(self.norm1(x))))


@fault("lets the MLP replace the stream", PreNormBlock, {"reference"})
class NoSecondPlus(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.norm2(x + self.attention(self.norm1(x))))


@fault("lets attention replace the stream", PreNormBlock, {"reference"})
class NoFirstPlus(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


@fault("has no plus at all", PreNormBlock, {"reference"})
class NoPlus(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.norm2(self.attention(self.norm1(x))))


@fault("has no norm on its branches", PreNormBlock, {"reference", "count"})
class NoNorms(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x)
        return x + self.mlp(x)


@fault("has no norm before the MLP", PreNormBlock, {"reference", "count"})
class NoSecondNorm(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(x)


@fault("has swapped its two norms (which a gain of 1 hides)", PreNormBlock, {"reference"}, SWAPPED)
class SwappedNorms(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm2(x))
        return x + self.mlp(self.norm1(x))


@fault("uses its first norm twice (which a gain of 1 hides)", PreNormBlock, {"reference", "count"}, FIRST_TWICE)
class OneNorm(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm1(x))


@fault("lets both branches read the same x", PreNormBlock, {"reference"})
class Parallel(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(self.norm1(x)) + self.mlp(self.norm2(x))


@fault("runs the MLP before attention", PreNormBlock, {"reference"})
class MLPFirst(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mlp(self.norm2(x))
        return x + self.attention(self.norm1(x))


@fault("normalises at the end of its branches", PreNormBlock, {"reference"})
class BranchesNormedLast(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.norm1(self.attention(x))
        return x + self.norm2(self.mlp(x))


@fault("has ReLU in its MLP", MLP, {"reference"})
class WithReLU(MLP):
    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.fc2(self.drop(F.relu(self.fc1(x)))))


@fault("has no non-linearity in its MLP", MLP, {"reference"})
class WithoutNonLinearity(MLP):
    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.fc2(self.drop(self.fc1(x))))


@fault("ends its MLP in another GELU", MLP, {"reference"})
class EndsInAnActivation(MLP):
    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(super().forward(x))


NORM = F.layer_norm  # what the functions of (x, gain, bias, eps) are wrong versions of


def _centred(x: Tensor) -> Tensor:
    return x - x.mean(-1, keepdim=True)


def _variance(x: Tensor) -> Tensor:
    return x.var(-1, correction=0, keepdim=True)  # (B, T, 1)


def _over(x: Tensor, gain: Tensor, bias: Tensor, eps: float, *axes: int) -> Tensor:
    """One mean and one variance for all numbers along some axes."""
    variance = x.var(axes, correction=0, keepdim=True)
    return gain * (x - x.mean(axes, keepdim=True)) / (variance + eps).sqrt() + bias


@fault("normalises over tokens and channels together", NORM, {"reference"})
def over_tokens_and_channels(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return _over(x, gain, bias, eps, 1, 2)


@fault("normalises over the tokens, channel by channel", NORM, {"reference"})
def over_the_tokens(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return _over(x, gain, bias, eps, 1)


@fault("normalises over the images of the batch, as BatchNorm does", NORM, {"reference", "order", "scores"})
def over_the_images(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return _over(x, gain, bias, eps, 0)


@fault("normalises over all images, tokens and channels together", NORM, {"reference", "scores"})
def over_everything(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return _over(x, gain, bias, eps, 0, 1, 2)


@fault("has a variance that divides by D - 1", NORM, {"reference"}, UNBIASED)
def unbiased_variance(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return gain * _centred(x) / (x.var(-1, keepdim=True) + eps).sqrt() + bias


@fault(
    "forgets gain and bias",
    NORM,
    {"reference", "count"},
    folded(lambda gain, bias: (torch.ones_like(gain), torch.zeros_like(bias))),
)
def without_gain_and_bias(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return NORM(x, x.shape[-1:], eps=eps)


@fault("forgets the bias", NORM, {"reference", "count"}, folded(lambda gain, bias: (gain, torch.zeros_like(bias))))
def without_bias(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return NORM(x, x.shape[-1:], gain, eps=eps)


@fault("forgets the gain", NORM, {"reference", "count"}, folded(lambda gain, bias: (torch.ones_like(gain), bias)))
def without_gain(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return NORM(x, x.shape[-1:], eps=eps) + bias


@fault("multiplies its bias by the gain, too", NORM, {"reference"}, folded(lambda gain, bias: (gain, gain * bias)))
def gain_after_bias(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return gain * (NORM(x, x.shape[-1:], eps=eps) + bias)


@fault("divides by the variance, not by its root", NORM, {"reference"})
def divided_by_the_variance(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return gain * _centred(x) / (_variance(x) + eps) + bias


@fault("adds eps after the root (which a small eps hides)", NORM, {"reference"})
def eps_after_the_root(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return gain * _centred(x) / (_variance(x).sqrt() + eps) + bias


@fault("does not use eps (which a small eps hides)", NORM, {"reference"})
def without_eps(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return gain * _centred(x) / _variance(x).sqrt() + bias


@fault("does not subtract the mean", NORM, {"reference"})
def mean_kept(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return gain * x / (_variance(x) + eps).sqrt() + bias


@fault("subtracts the mean and does not divide", NORM, {"reference"})
def only_centred(x: Tensor, gain: Tensor, bias: Tensor, eps: float) -> Tensor:
    return gain * _centred(x) + bias

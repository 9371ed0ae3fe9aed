"""Wrong attention: functions of (q, k, v), each (B, h, T, d), layers with tokens (B, T, D) in and out, and rollouts."""

from collections.abc import Callable
from functools import reduce

import torch
from torch import Tensor
from torch.nn import functional as F

from vitbook.faults._fault import fault
from vitbook.faults._rewrite import EXCHANGED, scaled
from vitnb.attention import MultiHeadAttention
from vitnb.inspection import rollout

MIX = F.scaled_dot_product_attention  # what the functions are wrong versions of


@fault("does not divide the scores", MIX, {"reference"}, scaled(lambda d, h, T: d**-0.5))
def undivided(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT).softmax(-1) @ v


@fault("runs its softmax over the queries (dim=-2): the columns sum to 1, the rows do not", MIX, {"reference"})
def softmax_over_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT * q.shape[-1] ** -0.5).softmax(-2) @ v


@fault("runs its softmax over the heads", MIX, {"reference"})
def softmax_over_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(1) @ v


@fault(
    "divides the scores by the root of the whole width D, not of one head's",
    MIX,
    {"reference"},
    scaled(lambda d, h, T: h**0.5),
)
def divided_for_all_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / (q.shape[1] * q.shape[-1]) ** 0.5).softmax(-1) @ v


@fault(
    "divides the scores by the root of the number of tokens", MIX, {"reference"}, scaled(lambda d, h, T: (T / d) ** 0.5)
)
def divided_for_the_tokens(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[2] ** 0.5).softmax(-1) @ v


@fault(
    "divides the scores by the width of a head itself, not by its root",
    MIX,
    {"reference"},
    scaled(lambda d, h, T: d**0.5),
)
def divided_without_root(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1]).softmax(-1) @ v


@fault("multiplies the scores by the root of the width of a head", MIX, {"reference"}, scaled(lambda d, h, T: 1 / d))
def multiplied(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT * q.shape[-1] ** 0.5).softmax(-1) @ v


@fault("has no softmax", MIX, {"reference"})
def no_softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5) @ v


@fault(
    "divides the weights after the softmax", MIX, {"reference"}, scaled(lambda d, h, T: d**-0.5, lambda d, h, T: d**0.5)
)
def divided_after_softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT).softmax(-1) @ v / q.shape[-1] ** 0.5


@fault("takes the softmax twice", MIX, {"reference"})
def softmax_twice(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1).softmax(-1) @ v


@fault("exchanges queries and keys", MIX, {"reference"}, EXCHANGED)
def queries_and_keys_exchanged(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return MIX(k, q, v)


@fault("mixes the keys instead of the values", MIX, {"reference"})
def keys_mixed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return MIX(q, k, k)


@fault("lets a token attend only to those before it", MIX, {"reference", "count", "order"})
def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return MIX(q, k, v, is_causal=True)


# The keys come in pieces of at most `most`: (q, k, v, most) -> tokens, without a map of all scores.


def piecewise(q: Tensor, k: Tensor, v: Tensor, most: int) -> Tensor:
    """The right one: whenever a larger score comes, what was added up before shrinks."""
    return _piecewise(q, k, v, most)


def _piecewise(
    q: Tensor, k: Tensor, v: Tensor, most: int, divided: bool = True, shrinks: tuple[bool, bool] = (True, True)
) -> Tensor:
    high = q.new_full((*q.shape[:-1], 1), -torch.inf)  # (B, h, T, 1)
    total, mixed = torch.zeros_like(high), torch.zeros_like(q)
    for keys, values in zip(k.split(most, -2), v.split(most, -2), strict=True):
        scores = q @ keys.mT / (q.shape[-1] ** 0.5 if divided else 1)  # (B, h, T, most)
        new = torch.maximum(high, scores.amax(-1, keepdim=True))
        shrink, powers = (high - new).exp(), (scores - new).exp()
        total = total * (shrink if shrinks[0] else 1) + powers.sum(-1, keepdim=True)
        mixed = mixed * (shrink if shrinks[1] else 1) + powers @ values
        high = new
    return mixed / total


@fault("never shrinks what it has added up when a larger score comes", piecewise, None)
def sums_not_rescaled(q: Tensor, k: Tensor, v: Tensor, most: int) -> Tensor:
    return _piecewise(q, k, v, most, shrinks=(False, False))


@fault("shrinks the sum of the powers when a larger score comes, and not the mixed values", piecewise, None)
def values_not_rescaled(q: Tensor, k: Tensor, v: Tensor, most: int) -> Tensor:
    return _piecewise(q, k, v, most, shrinks=(True, False))


@fault("shrinks the mixed values when a larger score comes, and not the sum of the powers", piecewise, None)
def total_not_rescaled(q: Tensor, k: Tensor, v: Tensor, most: int) -> Tensor:
    return _piecewise(q, k, v, most, shrinks=(False, True))


@fault("takes a softmax in each piece and averages the results", piecewise, None)
def mean_of_softmaxes(q: Tensor, k: Tensor, v: Tensor, most: int) -> Tensor:
    pieces = list(zip(k.split(most, -2), v.split(most, -2), strict=True))
    return sum((q @ keys.mT / q.shape[-1] ** 0.5).softmax(-1) @ values for keys, values in pieces) / len(pieces)


@fault("takes a softmax in each piece and adds up the results", piecewise, None)
def sum_of_softmaxes(q: Tensor, k: Tensor, v: Tensor, most: int) -> Tensor:
    return mean_of_softmaxes(q, k, v, most) * len(k.split(most, -2))


@fault("does not divide the scores of its pieces", piecewise, None)
def pieces_undivided(q: Tensor, k: Tensor, v: Tensor, most: int) -> Tensor:
    return _piecewise(q, k, v, most, divided=False)


@fault("leaves out the keys after the last whole piece", piecewise, None)
def last_keys_left_out(q: Tensor, k: Tensor, v: Tensor, most: int) -> Tensor:
    whole = max(most, k.shape[-2] // most * most)
    return piecewise(q, k[..., :whole, :], v[..., :whole, :], most)


@fault("lets every token attend to itself alone", MIX, {"reference", "count", "order"})
def only_itself(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return v


@fault("gives every token the plain mean of all values", MIX, {"reference"})
def uniform(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return v.mean(dim=2, keepdim=True).expand_as(v)


def layer(mix: Callable[[Tensor, Tensor, Tensor], Tensor]) -> type[MultiHeadAttention]:
    """The attention layer of the book with another way to mix the values."""

    class Mixing(MultiHeadAttention):
        def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return mix(q, k, v)

    return Mixing


@fault(
    "lets tokens of different images attend to each other (batch_first)",
    MultiHeadAttention,
    {"reference", "count", "order"},
)
class OverTheBatch(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.transpose(0, 1)).transpose(0, 1)


@fault("merges its heads without the transpose", MultiHeadAttention, {"reference"})
class MergedByReshape(MultiHeadAttention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        B, h, T, d = q.shape
        x = super().attend(q, k, v)  # (B, h, T, d)
        return x.reshape(B, T, h, d).transpose(1, 2)  # forward transposes it back


@fault("splits its heads with view alone", MultiHeadAttention, {"reference"})
class SplitByView(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape
        q, k, v = (t.reshape(B, self.num_heads, T, self.head_dim) for t in self.qkv(x).chunk(3, dim=-1))
        return self.drop(self.proj(self.attend(q, k, v).transpose(1, 2).reshape(B, T, D)))


@fault("takes the whole batch for one long sequence", MultiHeadAttention, {"reference", "scores"})
class BatchAsSequence(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.reshape(1, -1, x.shape[2])).reshape(x.shape)


@fault("gives every image the answer of the first", MultiHeadAttention, {"reference", "scores"})
class FirstImageForAll(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:1]).expand_as(x)


@fault("subtracts the mean over the batch first", MultiHeadAttention, {"reference", "scores"})
class CentredOverTheBatch(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(0, keepdim=True))


@fault("gathers nothing: attention is gone", MultiHeadAttention, {"reference", "count", "order"})
class Deleted(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)


def split_heads(qkv: Tensor, num_heads: int) -> tuple[Tensor, ...]:
    """Queries, keys and values, (B, h, T, d) each, from (B, T, 3*D); what follows are wrong versions of it."""
    B, T, _ = qkv.shape
    return tuple(qkv.reshape(B, T, 3, num_heads, -1).permute(2, 0, 3, 1, 4))


@fault("splits queries, keys and values into heads with reshape alone", split_heads, None)
def heads_by_reshape(qkv: Tensor, num_heads: int) -> tuple[Tensor, ...]:
    B, T, _ = qkv.shape
    return tuple(part.reshape(B, num_heads, T, -1) for part in qkv.chunk(3, dim=-1))


@fault("cuts the features into heads first, into queries, keys and values then", split_heads, None)
def heads_first(qkv: Tensor, num_heads: int) -> tuple[Tensor, ...]:
    B, T, _ = qkv.shape
    return tuple(qkv.reshape(B, T, num_heads, 3, -1).permute(3, 0, 2, 1, 4))


@fault("gives every h-th feature to a head, not features that lie side by side", split_heads, None)
def every_hth_feature(qkv: Tensor, num_heads: int) -> tuple[Tensor, ...]:
    B, T, D = qkv.shape
    return tuple(qkv.reshape(B, T, 3, D // 3 // num_heads, num_heads).permute(2, 0, 4, 1, 3))


@fault("takes the values for the keys", split_heads, None)
def values_as_keys(qkv: Tensor, num_heads: int) -> tuple[Tensor, ...]:
    q, k, v = split_heads(qkv, num_heads)
    return q, v, k


def steps(maps: list[Tensor]) -> list[Tensor]:
    """What each layer hands on, (B, T, T): half the token itself, half what its heads attend to."""
    return [(weights.mean(1) + torch.eye(weights.shape[-1])) / 2 for weights in maps]


def chained(layers: list[Tensor]) -> Tensor:
    """The product of the layers, the last one on the left."""
    return reduce(lambda total, layer: layer @ total, layers)


@fault("leaves the residual path out", rollout, None)
def residual_left_out(maps: list[Tensor]) -> Tensor:
    return chained([weights.mean(1) for weights in maps])


@fault("multiplies in the wrong order", rollout, None)
def multiplied_the_other_way(maps: list[Tensor]) -> Tensor:
    return chained(steps(maps)[::-1])


@fault("does not make the rows sum to 1", rollout, None)
def rows_not_normalised(maps: list[Tensor]) -> Tensor:
    return chained([2 * step for step in steps(maps)])


@fault("normalises the columns instead of the rows", rollout, None)
def columns_normalised(maps: list[Tensor]) -> Tensor:
    return chained([step / step.sum(1, keepdim=True) for step in steps(maps)])


@fault("looks at the last layer alone", rollout, None)
def last_layer_alone(maps: list[Tensor]) -> Tensor:
    return steps(maps)[-1]


@fault("forgets the first layer", rollout, None)
def first_layer_forgotten(maps: list[Tensor]) -> Tensor:
    return chained(steps(maps)[1:])


@fault("uses the first head alone", rollout, None)
def first_head_alone(maps: list[Tensor]) -> Tensor:
    return chained(steps([weights[:, :1] for weights in maps]))


@fault("adds the identity once, at the end", rollout, None)
def identity_at_the_end(maps: list[Tensor]) -> Tensor:
    return steps([residual_left_out(maps)[:, None]])[0]


@fault("mixes the images of a batch", rollout, None)
def images_mixed(maps: list[Tensor]) -> Tensor:
    return rollout(maps).mean(0, keepdim=True).expand(len(maps[0]), -1, -1)


@fault("is transposed: it says where a token goes to, not where it comes from", rollout, None)
def rollout_transposed(maps: list[Tensor]) -> Tensor:
    return rollout(maps).mT

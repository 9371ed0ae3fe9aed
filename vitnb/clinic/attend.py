"""Wrong attention: functions of (q, k, v), each (B, h, T, d), and layers with tokens (B, T, D) in and out."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from vitnb.attention import MultiHeadAttention
from vitnb.clinic._fault import fault

MIX = F.scaled_dot_product_attention  # what the functions are wrong versions of


@fault("does not divide the scores", MIX, {"reference"})
def undivided(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT).softmax(-1) @ v


@fault("runs its softmax over the queries (dim=-2): the columns sum to 1, the rows do not", MIX, {"reference"})
def softmax_over_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-2) @ v


@fault("runs its softmax over the heads", MIX, {"reference"})
def softmax_over_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(1) @ v


@fault("divides the scores by the root of the whole width D, not of one head's", MIX, {"reference"})
def divided_for_all_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / (q.shape[1] * q.shape[-1]) ** 0.5).softmax(-1) @ v


@fault("divides the scores by the root of the number of tokens", MIX, {"reference"})
def divided_for_the_tokens(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[2] ** 0.5).softmax(-1) @ v


@fault("divides the scores by the width of a head itself, not by its root", MIX, {"reference"})
def divided_without_root(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1]).softmax(-1) @ v


@fault("multiplies the scores by the root of the width of a head", MIX, {"reference"})
def multiplied(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT * q.shape[-1] ** 0.5).softmax(-1) @ v


@fault("has no softmax", MIX, {"reference"})
def no_softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5) @ v


@fault("divides the weights after the softmax", MIX, {"reference"})
def divided_after_softmax(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT).softmax(-1) @ v / q.shape[-1] ** 0.5


@fault("takes the softmax twice", MIX, {"reference"})
def softmax_twice(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1).softmax(-1) @ v


@fault("exchanges queries and keys", MIX, {"reference"})
def queries_and_keys_exchanged(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return MIX(k, q, v)


@fault("mixes the keys instead of the values", MIX, {"reference"})
def keys_mixed(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return MIX(q, k, k)


@fault("lets a token attend only to those before it", MIX, {"reference", "order"})
def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return MIX(q, k, v, is_causal=True)


@fault("lets every token attend to itself alone", MIX, {"reference", "order"})
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


@fault("lets tokens of different images attend to each other (batch_first)", MultiHeadAttention, {"reference", "order"})
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


@fault("takes the whole batch for one long sequence", MultiHeadAttention, {"reference"})
class BatchAsSequence(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.reshape(1, -1, x.shape[2])).reshape(x.shape)


@fault("gives every image the answer of the first", MultiHeadAttention, {"reference"})
class FirstImageForAll(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x[:1]).expand_as(x)


@fault("subtracts the mean over the batch first", MultiHeadAttention, {"reference"})
class CentredOverTheBatch(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x - x.mean(0, keepdim=True))


@fault("gathers nothing: attention is gone", MultiHeadAttention, {"reference", "order"})
class Deleted(MultiHeadAttention):
    def forward(self, x: Tensor) -> Tensor:
        return torch.zeros_like(x)

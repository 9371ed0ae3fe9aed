"""Chapters 3 and 4: tokens that attend to each other."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch.nn import functional as F

from vitnb._validate import divides, positive_int, probability
from vitnb._validate import tokens as check_tokens


class MultiHeadAttention(nn.Module):
    """Let every token gather what it needs from all tokens, in several heads.

    The fused kernel of torch does the work and never shows its weights;
    within record_attention the softmax is written out instead.

    Shapes: tokens (B, T, D) -> tokens (B, T, D).
    Raises: ValueError if num_heads does not divide embed_dim, or if the
        tokens have another width.
    Source: Vaswani et al. 2017, section 3.2; Dosovitskiy et al. 2021, appendix A.
    """

    def __init__(
        self, embed_dim: int, num_heads: int, qkv_bias: bool = True, dropout: float = 0.0, attn_dropout: float = 0.0
    ):
        super().__init__()
        self.embed_dim, self.num_heads = positive_int("embed_dim", embed_dim), positive_int("num_heads", num_heads)
        divides("embed_dim", self.embed_dim, "num_heads", self.num_heads)
        self.head_dim = self.embed_dim // self.num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim, bias=qkv_bias)
        self.proj = nn.Linear(embed_dim, embed_dim)
        self.attn_dropout = probability("attn_dropout", attn_dropout)
        self.drop = nn.Dropout(probability("dropout", dropout))
        self.record: list[Tensor] | None = None  # a list while attention is recorded

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 3 or x.shape[2] != self.embed_dim or not x.shape[1] or not x.is_floating_point():
            check_tokens("tokens", x, self.embed_dim)  # it says what is wrong
        B, T, D = x.shape
        q, k, v = (
            part.reshape(B, T, self.num_heads, self.head_dim).transpose(1, 2)  # (B, h, T, D/h)
            for part in self.qkv(x).chunk(3, dim=-1)  # 3 x (B, T, D)
        )
        x = self.attend(q, k, v)  # (B, h, T, D/h)
        x = x.transpose(1, 2).reshape(B, T, D)  # (B, T, D)
        return self.drop(self.proj(x))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Mix the values by softmax(q kᵀ / sqrt(D/h)), all (B, h, T, D/h)."""
        p = self.attn_dropout if self.training else 0.0
        if self.record is None:
            return F.scaled_dot_product_attention(q, k, v, dropout_p=p)
        # While attention is recorded: what the fused function above computes, written out.
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5  # (B, h, T, T)
        weights = scores.softmax(dim=-1)  # rows sum to 1
        self.record.append(weights)
        return F.dropout(weights, p) @ v


@contextmanager
def record_attention(model: nn.Module) -> Iterator[list[Tensor]]:
    """Collect the attention weights of a model while it runs.

        with record_attention(model) as maps:
            model(images)
        maps[0]  # first layer, (B, h, T, T)

    One entry a layer, in the order in which the layers run; a second
    forward pass appends its own.

    Raises: ValueError if the model holds no MultiHeadAttention.
    """
    parts = model.modules() if isinstance(model, nn.Module) else ()
    layers = [m for m in parts if isinstance(m, MultiHeadAttention)]
    if not layers:
        raise ValueError(
            f"model {type(model).__name__} holds no vitnb.MultiHeadAttention to record: "
            "use a vitnb.ViT, or from_torchvision(model) and from_timm(model)"
        )
    before, maps = [layer.record for layer in layers], []
    for layer in layers:
        layer.record = maps
    try:
        yield maps
    finally:
        for layer, record in zip(layers, before, strict=True):
            layer.record = record

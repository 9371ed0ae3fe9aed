"""Chapter 5: the block, and where its norms stand."""

import torch
from torch import Tensor, nn

from vitnb._validate import positive_float, positive_int, probability
from vitnb.attention import MultiHeadAttention


class MLP(nn.Module):
    """Let each token think by itself: widen, GELU, narrow, with dropout after both.

    Shapes: tokens (B, T, D) -> tokens (B, T, D); hidden (B, T, hidden_dim).
    Source: Dosovitskiy et al. 2021, section 3.1 and appendix B.1 (dropout).
    """

    def __init__(self, embed_dim: int, hidden_dim: int, dropout: float = 0.0):
        super().__init__()
        embed_dim, hidden_dim = positive_int("embed_dim", embed_dim), positive_int("hidden_dim", hidden_dim)
        self.fc1 = nn.Linear(embed_dim, hidden_dim)
        self.act = nn.GELU()
        self.fc2 = nn.Linear(hidden_dim, embed_dim)
        self.drop = nn.Dropout(probability("dropout", dropout))

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(self.act(self.fc1(x)))  # (B, T, hidden_dim)
        return self.drop(self.fc2(x))  # (B, T, D)


class LayerScale(nn.Module):
    """Scale each feature of a branch by a learned factor: with a small initial one, a block begins as the identity.

    Shapes: tokens (B, T, D) -> tokens (B, T, D).
    Source: Touvron et al. 2021, "Going deeper with image transformers".
    """

    def __init__(self, embed_dim: int, init_values: float = 1e-5):
        super().__init__()
        init_values = positive_float("init_values", init_values)
        self.gamma = nn.Parameter(torch.full((positive_int("embed_dim", embed_dim),), init_values))  # (D,)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gamma  # (B, T, D)


class _Block(nn.Module):
    """The parts that both blocks share; their forward says what makes them differ."""

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        mlp_ratio: float = 4.0,
        qkv_bias: bool = True,
        dropout: float = 0.0,
        attn_dropout: float = 0.0,
        norm_eps: float = 1e-6,
        init_values: float | None = None,
    ):
        super().__init__()
        self.attention = MultiHeadAttention(embed_dim, num_heads, qkv_bias, dropout, attn_dropout)
        hidden_dim = round(embed_dim * positive_float("mlp_ratio", mlp_ratio))
        if not hidden_dim:
            raise ValueError(f"mlp_ratio {mlp_ratio} of embed_dim {embed_dim} leaves no hidden feature: use 4.0")
        self.mlp = MLP(embed_dim, hidden_dim, dropout)
        self.norm1 = nn.LayerNorm(embed_dim, eps=positive_float("norm_eps", norm_eps))
        self.norm2 = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.ls1, self.ls2 = (  # timm's names
            nn.Identity() if init_values is None else LayerScale(embed_dim, init_values) for _ in range(2)
        )


class PreNormBlock(_Block):
    """Normalise what goes into each branch; the stream itself is only added to.

    Shapes: tokens (B, T, D) -> tokens (B, T, D).
    Source: Dosovitskiy et al. 2021, equations 2 and 3.
    """

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.ls1(self.attention(self.norm1(x)))  # (B, T, D)
        return x + self.ls2(self.mlp(self.norm2(x)))  # (B, T, D)


class PostNormBlock(_Block):
    """Add first, then normalise the stream itself.

    Shapes: tokens (B, T, D) -> tokens (B, T, D).
    Source: Vaswani et al. 2017, section 3.1.
    """

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.ls1(self.attention(x)))  # (B, T, D)
        return self.norm2(x + self.ls2(self.mlp(x)))  # (B, T, D)

"""Chapter 7: from many tokens to one vector.

Every pooling has two ends: prepend adds what it needs before the blocks,
forward reads one vector from the tokens after them.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitnb._validate import divides, positive_int


class ClsToken(nn.Module):
    """One learned vector joins the patches as token 0 and is read at the end.

    It is the same for every image until attention fills it.

    Shapes: prepend (B, N, D) -> (B, 1 + N, D); forward (B, 1 + N, D) -> (B, D).
    Source: Dosovitskiy et al. 2021, equations 1 and 4, x_class.
    """

    num_prefix_tokens = 1

    def __init__(self, embed_dim: int):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, positive_int("embed_dim", embed_dim)))  # (1, 1, D)

    def prepend(self, x: Tensor) -> Tensor:
        return torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1)  # (B, 1 + N, D)

    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]  # (B, D)


class Registers(nn.Module):
    """Learned vectors that join the tokens, attend and are attended to, and are read by no pooling.

    Shapes: tokens (B, N, D) -> (B, R + N, D).
    Source: Darcet et al. 2024.
    """

    def __init__(self, reg_tokens: int, embed_dim: int):
        super().__init__()
        shape = (1, positive_int("reg_tokens", reg_tokens), positive_int("embed_dim", embed_dim))
        self.token = nn.Parameter(torch.randn(shape) * 1e-6)  # (1, R, D), as in timm

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1)  # (B, R + N, D)


class MeanPool(nn.Module):
    """Average all tokens but the registers.

    Shapes: prepend changes nothing; forward (B, R + N, D) -> (B, D).
    """

    num_prefix_tokens = 0

    def __init__(self, reg_tokens: int = 0):
        super().__init__()
        self.reg_tokens = reg_tokens

    def prepend(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        return x[:, self.reg_tokens :].mean(dim=1)  # (B, D)


class AttentionPool(nn.Module):
    """A learned query attends once to all tokens but the registers, after the last block.

    Shapes: prepend changes nothing; forward (B, R + N, D) -> (B, D).
    Source: Zhai et al. 2022, section 3.2 (the MAP head, here without its MLP).
    """

    num_prefix_tokens = 0

    def __init__(self, embed_dim: int, num_heads: int, reg_tokens: int = 0):
        super().__init__()
        self.reg_tokens = reg_tokens
        divides("embed_dim", positive_int("embed_dim", embed_dim), "num_heads", positive_int("num_heads", num_heads))
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.query = nn.Parameter(torch.randn(1, 1, embed_dim) * 0.02)  # (1, 1, D)
        self.kv = nn.Linear(embed_dim, 2 * embed_dim)
        self.proj = nn.Linear(embed_dim, embed_dim)

    def prepend(self, x: Tensor) -> Tensor:
        return x

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, self.reg_tokens :]
        B, N, D = x.shape
        k, v = (
            part.reshape(B, N, self.num_heads, self.head_dim).transpose(1, 2)  # (B, h, N, D/h)
            for part in self.kv(x).chunk(2, dim=-1)  # 2 x (B, N, D)
        )
        q = self.query.reshape(1, self.num_heads, 1, self.head_dim).expand(B, -1, -1, -1)  # (B, h, 1, D/h)
        x = F.scaled_dot_product_attention(q, k, v)  # (B, h, 1, D/h)
        return self.proj(x.reshape(B, D))  # (B, D)

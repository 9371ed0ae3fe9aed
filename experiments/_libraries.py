"""The same ViT in several libraries: each with its own code, all with the same sizes."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from vitnb import ViT, ViTConfig

UNBIASED = "vitnb, no bias"
AGAINST = {"vit-pytorch": UNBIASED, "textbook": UNBIASED}  # the others are measured against vitnb as it is


class Encoder(nn.Module):
    """torch's own nn.TransformerEncoder between patches and a head: what one builds from PyTorch's parts."""

    def __init__(self, img_size, patch_size, in_chans, embed_dim, depth, num_heads):
        super().__init__()
        self.patches = nn.Conv2d(in_chans, embed_dim, patch_size, patch_size)
        self.cls = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 1 + (img_size // patch_size) ** 2, embed_dim))
        layer = nn.TransformerEncoderLayer(
            embed_dim, num_heads, 4 * embed_dim, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, depth, nn.LayerNorm(embed_dim), enable_nested_tensor=False)
        self.head = nn.Linear(embed_dim, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)  # (B, N, D)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.positions  # (B, T, D)
        return self.head(self.blocks(x)[:, 0])


class TextbookAttention(nn.Module):
    """Four layers without bias, heads moved into the batch, products and softmax written out."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q, self.k, self.v, self.out = (nn.Linear(embed_dim, embed_dim, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape

        def heads(y: Tensor) -> Tensor:
            return y.reshape(B, T, self.num_heads, -1).transpose(1, 2).reshape(B * self.num_heads, T, -1)

        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))  # (B*h, T, D/h)
        x = torch.bmm((torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5).softmax(-1), v)
        return self.out(x.reshape(B, self.num_heads, T, -1).transpose(1, 2).reshape(B, T, D))


class TextbookBlock(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(embed_dim), nn.LayerNorm(embed_dim)
        self.attention = TextbookAttention(embed_dim, num_heads)
        self.mlp = nn.Sequential(nn.Linear(embed_dim, 4 * embed_dim), nn.GELU(), nn.Linear(4 * embed_dim, embed_dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Textbook(Encoder):
    """The Vision Transformer of Zhang et al. 2023, section 11.8, written anew from its mathematics."""

    def __init__(self, embed_dim, depth, num_heads, **sizes):
        super().__init__(embed_dim=embed_dim, depth=depth, num_heads=num_heads, **sizes)
        blocks = [TextbookBlock(embed_dim, num_heads) for _ in range(depth)]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.LayerNorm(embed_dim), nn.Linear(embed_dim, 10))


def of_timm(img_size, patch_size, in_chans, embed_dim, depth, num_heads):
    from timm.models.vision_transformer import VisionTransformer

    return VisionTransformer(
        img_size, patch_size, in_chans, 10, embed_dim=embed_dim, depth=depth, num_heads=num_heads, mlp_ratio=4
    )


def of_torchvision(img_size, patch_size, in_chans, embed_dim, depth, num_heads):
    from torchvision.models.vision_transformer import VisionTransformer

    model = VisionTransformer(img_size, patch_size, depth, num_heads, embed_dim, 4 * embed_dim, num_classes=10)
    model.conv_proj = nn.Conv2d(in_chans, embed_dim, patch_size, patch_size)  # it takes colour only
    return model


def of_vit_pytorch(img_size, patch_size, in_chans, embed_dim, depth, num_heads):
    from vit_pytorch import ViT as TheirViT

    return TheirViT(
        image_size=img_size,
        patch_size=patch_size,
        num_classes=10,
        dim=embed_dim,
        depth=depth,
        heads=num_heads,
        mlp_dim=4 * embed_dim,
        channels=in_chans,
        dim_head=embed_dim // num_heads,
    )


class HuggingFace(nn.Module):
    """The ViT of transformers, which answers with an object."""

    def __init__(self, img_size, patch_size, in_chans, embed_dim, depth, num_heads):
        from transformers import ViTConfig as TheirConfig
        from transformers import ViTForImageClassification

        super().__init__()
        config = TheirConfig(
            image_size=img_size,
            patch_size=patch_size,
            num_channels=in_chans,
            hidden_size=embed_dim,
            num_hidden_layers=depth,
            num_attention_heads=num_heads,
            intermediate_size=4 * embed_dim,
            num_labels=10,
        )
        self.model = ViTForImageClassification(config)

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images).logits


def of_vitnb(qkv_bias=True, **sizes):
    return ViT(ViTConfig(num_classes=10, mlp_ratio=4.0, qkv_bias=qkv_bias, **sizes))


MODELS: dict[str, Callable[..., nn.Module]] = {
    "vitnb": of_vitnb,
    "timm": of_timm,
    "torchvision": of_torchvision,
    "vit-pytorch": of_vit_pytorch,
    "nn.TransformerEncoder": Encoder,
    "textbook": Textbook,
}
ARMS = MODELS | {"Hugging Face": HuggingFace, UNBIASED: partial(of_vitnb, qkv_bias=False)}


def answer(model: nn.Module, images: Tensor) -> Callable[[], None]:
    @torch.no_grad()
    def one() -> None:
        model(images)

    return one

"""The textbook's own Vision Transformer, to its last parameter (chapter 10)."""

from torch import nn

from vitnb.vit import ViT, ViTConfig


def textbook_vit() -> ViT:
    """Build the ViT of Zhang et al. 2023, section 11.8: 96 x 96 pixels, two wide blocks, 6,457,866 parameters.

    It differs from ViT(config) of the same sizes in three ways: the layer
    after attention has no bias, its output is not dropped, and every layer
    is initialised by PyTorch's defaults. It expects pixels from 0 to 1, not normalised.

    Shapes: images (B, 1, 96, 96) -> logits (B, 10).
    Source: Zhang et al. 2023, section 11.8, the PyTorch code.
    """
    model = ViT(
        ViTConfig(
            img_size=96,
            patch_size=16,
            embed_dim=512,
            depth=2,
            num_heads=8,
            mlp_ratio=4.0,
            dropout=0.1,
            attn_dropout=0.1,
            qkv_bias=False,
            pos_std=1.0,
            norm_eps=1e-5,
        )
    )
    for block in model.blocks:
        block.attention.proj = nn.Linear(512, 512, bias=False)
        block.attention.drop = nn.Identity()
    for module in model.modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)):
            module.reset_parameters()
    return model

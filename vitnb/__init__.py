"""vitnb: the Vision Transformer of the book, small enough to read in one sitting.

The letters of every shape comment:

    B  images in a batch        H, W  height and width in pixels
    C  channels                 p     side of a patch in pixels
    N  patches of an image      T     tokens: N, or 1 + N with a cls token
    D  width of a token         h     attention heads
    K  classes
"""

from vitnb.attention import MultiHeadAttention, record_attention
from vitnb.blocks import MLP, PostNormBlock, PreNormBlock
from vitnb.patches import ConvStem, PatchEmbedding, patchify, unpatchify
from vitnb.pooling import AttentionPool, ClsToken, MeanPool
from vitnb.positions import LearnedPositions, NoPositions, SinCosPositions, resize_positions
from vitnb.vit import ViT, ViTConfig

__version__ = "0.1.0"

__all__ = [
    "MLP",
    "AttentionPool",
    "ClsToken",
    "ConvStem",
    "LearnedPositions",
    "MeanPool",
    "MultiHeadAttention",
    "NoPositions",
    "ConvStem",
    "PatchEmbedding",
    "PostNormBlock",
    "PreNormBlock",
    "SinCosPositions",
    "ViT",
    "ViTConfig",
    "patchify",
    "record_attention",
    "resize_positions",
    "unpatchify",
]

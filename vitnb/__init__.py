"""vitnb: the Vision Transformer of the book, small enough to read in one sitting.

The letters of every shape comment:

    B  images in a batch        H, W  height and width in pixels
    C  channels                 p     side of a patch in pixels
    N  patches of an image      T     tokens: N, or 1 + N with a cls token
    D  width of a token         h     attention heads
    d  width of a head, D / h   L     blocks
    K  classes
"""

import importlib
import importlib.util
import pkgutil
from types import ModuleType

from vitnb.attention import MultiHeadAttention, record_attention
from vitnb.blocks import MLP, LayerScale, PostNormBlock, PreNormBlock
from vitnb.patches import ConvStem, PatchEmbedding, patchify, unpatchify
from vitnb.pooling import AttentionPool, ClsToken, MeanPool, Registers
from vitnb.positions import LearnedPositions, NoPositions, SinCosPositions, resize_positions
from vitnb.vit import ViT, ViTConfig

__version__ = "2.1"  # of the package and of the book: pyproject.toml and the pages take it from here

__all__ = [
    "MLP",
    "AttentionPool",
    "ClsToken",
    "ConvStem",
    "LayerScale",
    "LearnedPositions",
    "MeanPool",
    "MultiHeadAttention",
    "NoPositions",
    "PatchEmbedding",
    "PostNormBlock",
    "PreNormBlock",
    "Registers",
    "SinCosPositions",
    "ViT",
    "ViTConfig",
    "patchify",
    "record_attention",
    "resize_positions",
    "unpatchify",
]


def __getattr__(name: str) -> ModuleType:
    """Import a module of vitnb when it is first used: `import vitnb` alone needs torch and nothing slower."""
    if not name.startswith("_") and importlib.util.find_spec(f"vitnb.{name}"):
        return importlib.import_module(f"vitnb.{name}")
    raise AttributeError(f"module 'vitnb' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Name the modules too: for the Tab key."""
    return sorted({*globals(), *(module.name for module in pkgutil.iter_modules(__path__))})

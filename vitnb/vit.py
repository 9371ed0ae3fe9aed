"""Chapter 8: the Vision Transformer, assembled."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor, nn

from vitnb._validate import Size, choice, divides, positive_float, positive_int, probability, tensor
from vitnb.blocks import PostNormBlock, PreNormBlock
from vitnb.patches import ConvStem, PatchEmbedding, grid_size
from vitnb.pooling import AttentionPool, ClsToken, MeanPool
from vitnb.positions import LearnedPositions, NoPositions, SinCosPositions

BLOCKS = {"pre": PreNormBlock, "post": PostNormBlock}
STEMS = {"patch": PatchEmbedding, "conv": ConvStem}
POSITIONS = ("learned", "sincos", "none")
POOLS = ("cls", "mean", "attn")


def _preset(patch: int, width: int, depth: int, heads: int, about: str) -> classmethod:
    """Make a class method of ViTConfig: a model of the papers for colour images."""

    def preset(cls: type["ViTConfig"], num_classes: int = 1000, img_size: Size = 224) -> "ViTConfig":
        return cls(img_size, patch, 3, num_classes, width, depth, heads, mlp_ratio=4.0)

    preset.__doc__ = about
    return classmethod(preset)


@dataclass(frozen=True)
class ViTConfig:
    """Everything that fixes the shape of a ViT, under timm's names.

    The defaults are the book's small model for 28 x 28 images; the class
    methods are the models of Dosovitskiy et al. 2021, Table 1 (Ti and S:
    Touvron et al. 2021, Table 1). num_classes=0 leaves the head out.

    Raises: ValueError or TypeError for a value that no model can have.
    """

    img_size: Size = 28
    patch_size: Size = 4
    in_chans: int = 1
    num_classes: int = 10
    embed_dim: int = 64
    depth: int = 6
    num_heads: int = 4
    mlp_ratio: float = 2.0
    norm: str = "pre"
    pos_embed: str = "learned"
    global_pool: str = "cls"
    dropout: float = 0.0
    attn_dropout: float = 0.0
    qkv_bias: bool = True
    pos_std: float = 0.02  # standard deviation of the learned positions at initialisation
    norm_eps: float = 1e-6  # as in timm and torchvision; nn.LayerNorm alone has 1e-5
    stem: str = "patch"  # or "conv": see ConvStem

    def __post_init__(self):
        # Lists come back from JSON: a config is hashable only with tuples. And JSON knows no numbers of NumPy.
        for name, value in self.to_dict().items():
            value = tuple(map(_plain, value)) if isinstance(value, list | tuple) else _plain(value)
            object.__setattr__(self, name, value)
        grid_size(self.img_size, self.patch_size)
        for name in ("in_chans", "embed_dim", "depth", "num_heads"):
            positive_int(name, getattr(self, name))
        if self.num_classes != 0:
            positive_int("num_classes", self.num_classes)
        divides("embed_dim", self.embed_dim, "num_heads", self.num_heads)
        for name in ("mlp_ratio", "pos_std", "norm_eps"):
            positive_float(name, getattr(self, name))
        for name in ("dropout", "attn_dropout"):
            probability(name, getattr(self, name))
        choice("stem", self.stem, STEMS)
        choice("norm", self.norm, BLOCKS)
        choice("pos_embed", self.pos_embed, POSITIONS)
        choice("global_pool", self.global_pool, POOLS)

    @property
    def num_patches(self) -> int:
        """N, the number of patches of one image."""
        rows, cols = grid_size(self.img_size, self.patch_size)
        return rows * cols

    #                    patch, width, depth, heads
    vit_ti_16 = _preset(16, 192, 12, 3, "Tiny, 5.7 million parameters.")
    vit_s_16 = _preset(16, 384, 12, 6, "Small, 22 million parameters.")
    vit_b_16 = _preset(16, 768, 12, 12, "Base, 86 million parameters.")
    vit_b_32 = _preset(32, 768, 12, 12, "Base with large patches: 49 of them instead of 196.")
    vit_l_16 = _preset(16, 1024, 24, 16, "Large, 304 million parameters.")
    vit_l_32 = _preset(32, 1024, 24, 16, "Large with large patches.")
    vit_h_14 = _preset(14, 1280, 32, 16, "Huge, 632 million parameters.")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data: ViTConfig(**config.to_dict()) == config."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


class ViT(nn.Module):
    """The Vision Transformer: images in, logits out (no softmax inside).

    Shapes: images (B, C, H, W) -> logits (B, K).
    Raises: TypeError without a ViTConfig; ValueError for images of another
        size, channel count or dtype than announced.
    Source: Dosovitskiy et al. 2021, equations 1 to 4.
    """

    def __init__(self, config: ViTConfig):
        super().__init__()
        if not isinstance(config, ViTConfig):
            raise TypeError(f"config must be a ViTConfig, got {config!r}: use ViTConfig(patch_size=4)")
        c = self.config = config
        self.patch_embed = STEMS[c.stem](c.img_size, c.patch_size, c.in_chans, c.embed_dim)
        self.pool = _pooling(c)
        self.positions = _positions(c, self.pool.num_prefix_tokens)
        self.drop = nn.Dropout(c.dropout)
        block = BLOCKS[c.norm]
        args = (c.embed_dim, c.num_heads, c.mlp_ratio, c.qkv_bias, c.dropout, c.attn_dropout, c.norm_eps)
        self.blocks = nn.ModuleList(block(*args) for _ in range(c.depth))
        # A post-norm stream leaves its last block normalised already.
        self.norm = nn.LayerNorm(c.embed_dim, eps=c.norm_eps) if c.norm == "pre" else nn.Identity()
        self.head = nn.Linear(c.embed_dim, c.num_classes) if c.num_classes else nn.Identity()
        initialise(self)

    def embed(self, images: Tensor) -> Tensor:
        """Turn images (B, C, H, W) into tokens with positions (B, T, D): equation 1."""
        x = self.patch_embed(images)  # (B, N, D)
        x = self.pool.prepend(x)  # (B, T, D): with the cls token, if the pooling reads one
        return self.drop(self.positions(x))  # (B, T, D)

    def encode(self, x: Tensor) -> Tensor:
        """Send embedded tokens (B, T, D), any number of them, through the blocks and the norm: equations 2 and 3."""
        for block in self.blocks:
            x = block(x)  # (B, T, D)
        return self.norm(x)

    def forward_features(self, images: Tensor) -> Tensor:
        """Turn images (B, C, H, W) into normalised tokens (B, T, D): equations 1 to 3."""
        return self.encode(self.embed(images))

    def forward_head(self, x: Tensor) -> Tensor:
        """Turn tokens (B, T, D) into logits (B, K): equation 4."""
        tensor("tokens", x, 3, "(B, T, D)")
        return self.head(self.pool(x))  # (B, K)

    def forward(self, images: Tensor) -> Tensor:
        return self.forward_head(self.forward_features(images))  # (B, K)

    def forward_intermediates(self, images: Tensor) -> dict[str, Tensor]:
        """Run the model and keep what its parts give on the way, by name.

        Shapes: "patches" (B, N, D), "embedded" (B, T, D), "block_1" to
            "block_L" (B, T, D), "features" (B, T, D), "pooled" (B, D), "logits" (B, K).
        """
        names: dict[nn.Module, str] = {self.patch_embed: "patches", self.drop: "embedded"}
        names |= {self.norm: "features", self.pool: "pooled", self.head: "logits"}
        out: dict[str, Tensor] = {}
        number = itertools.count(1)  # of the block that runs: one block may stand in several places

        def keep(part: nn.Module, _given: Any, x: Tensor) -> None:
            out[names.get(part) or f"block_{next(number)}"] = x

        # Hooks, not a second forward: they see what a subclass, or another hook, has changed.
        hooks = [part.register_forward_hook(keep) for part in {*names, *self.blocks}]
        try:
            self(images)
        finally:
            for hook in hooks:
                hook.remove()
        return out

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Take the weights of another ViT, also of one that was compiled or ran in parallel."""
        return super().load_state_dict(unwrapped(state_dict), strict, assign)

    def no_weight_decay(self) -> set[str]:
        """Name the parameters that are no weights of a product: positions, cls token, query."""
        return {n for n, _ in self.named_parameters() if n in ("positions.table", "pool.token", "pool.query")}


def initialise(model: ViT) -> None:
    """Set the initial weights.

    Xavier keeps the magnitude of signals and gradients from layer to layer at
    any width (a fixed standard deviation of 0.02 would nearly silence the
    branches at width 64); a convolution is a linear layer in disguise, so its
    standard deviation follows its fan-in; the head is initialised small, so
    that the first loss is close to ln K whatever the image.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    for module in model.patch_embed.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.normal_(module.weight, std=module.weight[0].numel() ** -0.5)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    if isinstance(model.head, nn.Linear):
        nn.init.normal_(model.head.weight, std=0.02)


def unwrapped(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """A state dict without the prefixes of torch.compile and DataParallel."""
    for prefix in ("_orig_mod.", "module."):
        if state and all(name.startswith(prefix) for name in state):
            return unwrapped({name.removeprefix(prefix): value for name, value in state.items()})
    return state


def count_parameters(model: nn.Module) -> int:
    """Count the numbers that training may change."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _pooling(c: ViTConfig) -> ClsToken | MeanPool | AttentionPool:
    if c.global_pool == "cls":
        return ClsToken(c.embed_dim)
    return MeanPool() if c.global_pool == "mean" else AttentionPool(c.embed_dim, c.num_heads)


def _positions(c: ViTConfig, prefix: int) -> LearnedPositions | SinCosPositions | NoPositions:
    if c.pos_embed == "learned":
        return LearnedPositions(prefix + c.num_patches, c.embed_dim, c.pos_std)
    if c.pos_embed == "sincos":
        return SinCosPositions(grid_size(c.img_size, c.patch_size), c.embed_dim, prefix)
    return NoPositions()

"""Chapter 8: the Vision Transformer, assembled."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from typing import Any

from torch import Tensor, nn

from vitnb._validate import Size, choice, divides, pair, positive_float, positive_int, probability, switch, tensor
from vitnb.blocks import PostNormBlock, PreNormBlock
from vitnb.patches import ConvStem, PatchEmbedding, grid_size
from vitnb.pooling import AttentionPool, ClsToken, MeanPool, Registers
from vitnb.positions import LearnedPositions, NoPositions, SinCosPositions, resize_positions

BLOCKS = {"pre": PreNormBlock, "post": PostNormBlock}
STEMS = {"patch": PatchEmbedding, "conv": ConvStem}
POSITIONS = ("learned", "sincos", "none")
POOLS = ("cls", "mean", "attn")
FOREIGN = {  # part of a name in a state dict -> whose it is, and what converts the model
    "encoder_layer_": ("torchvision", "from_torchvision"),
    ".attn.qkv.": ("timm", "from_timm"),
    "embeddings.patch_embeddings.": ("transformers", "from_huggingface"),
}
NO_DECAY = ("positions.table", "pool.token", "pool.query", "registers.token")


LATER = ("init_values", "reg_tokens", "no_embed_class")  # fields that configs of older files do not name


@dataclass(frozen=True, repr=False)
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
    init_values: float | None = None  # of LayerScale; None is without it
    reg_tokens: int = 0  # registers, between the cls token and the patches
    no_embed_class: bool = False  # the position table has no places for the tokens before the patches

    def __post_init__(self):
        # Lists come back from JSON: a config is hashable only with tuples. And JSON knows no numbers of NumPy.
        for name in (f.name for f in fields(self)):
            value = getattr(self, name)
            value = tuple(map(_plain, value)) if isinstance(value, list | tuple) else _plain(value)
            object.__setattr__(self, name, value)
        grid_size(self.img_size, self.patch_size)
        for name in ("in_chans", "embed_dim", "depth", "num_heads"):
            positive_int(name, getattr(self, name))
        divides("embed_dim", self.embed_dim, "num_heads", self.num_heads)
        for name in ("num_classes", "reg_tokens"):
            positive_int(name, getattr(self, name), least=0)
        for name in ("mlp_ratio", "pos_std", "norm_eps", *(["init_values"] if self.init_values is not None else [])):
            positive_float(name, getattr(self, name))
        for name in ("qkv_bias", "no_embed_class"):
            switch(name, getattr(self, name))
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

    @classmethod
    def vit_ti_16(cls, num_classes: int = 1000, img_size: Size = 224) -> "ViTConfig":
        """Tiny, 5.7 million parameters."""
        return cls(img_size, 16, 3, num_classes, embed_dim=192, depth=12, num_heads=3, mlp_ratio=4.0)

    @classmethod
    def vit_s_16(cls, num_classes: int = 1000, img_size: Size = 224) -> "ViTConfig":
        """Small, 22 million parameters."""
        return cls(img_size, 16, 3, num_classes, embed_dim=384, depth=12, num_heads=6, mlp_ratio=4.0)

    @classmethod
    def vit_b_16(cls, num_classes: int = 1000, img_size: Size = 224) -> "ViTConfig":
        """Base, 86 million parameters."""
        return cls(img_size, 16, 3, num_classes, embed_dim=768, depth=12, num_heads=12, mlp_ratio=4.0)

    @classmethod
    def vit_b_32(cls, num_classes: int = 1000, img_size: Size = 224) -> "ViTConfig":
        """Base with large patches: 49 of them instead of 196."""
        return cls(img_size, 32, 3, num_classes, embed_dim=768, depth=12, num_heads=12, mlp_ratio=4.0)

    @classmethod
    def vit_l_16(cls, num_classes: int = 1000, img_size: Size = 224) -> "ViTConfig":
        """Large, 304 million parameters."""
        return cls(img_size, 16, 3, num_classes, embed_dim=1024, depth=24, num_heads=16, mlp_ratio=4.0)

    @classmethod
    def vit_l_32(cls, num_classes: int = 1000, img_size: Size = 224) -> "ViTConfig":
        """Large with large patches."""
        return cls(img_size, 32, 3, num_classes, embed_dim=1024, depth=24, num_heads=16, mlp_ratio=4.0)

    @classmethod
    def vit_h_14(cls, num_classes: int = 1000, img_size: Size = 224) -> "ViTConfig":
        """Huge, 632 million parameters."""
        return cls(img_size, 14, 3, num_classes, embed_dim=1280, depth=32, num_heads=16, mlp_ratio=4.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain data: ViTConfig(**config.to_dict()) == config.

        Those that came later are named only where they are not as in older models.
        """
        named = (f.name for f in fields(self) if f.name not in LATER or getattr(self, f.name) != f.default)
        return {name: getattr(self, name) for name in named}

    def __repr__(self) -> str:
        return f"ViTConfig({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"


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
            raise TypeError(f"config must be a ViTConfig, got {type(config).__name__}: use ViTConfig(patch_size=4)")
        c = self.config = config
        self.patch_embed = STEMS[c.stem](c.img_size, c.patch_size, c.in_chans, c.embed_dim)
        self.registers = Registers(c.reg_tokens, c.embed_dim) if c.reg_tokens else nn.Identity()
        self.pool = _pooling(c)
        self.positions = _positions(c, 0 if c.no_embed_class else self.num_prefix_tokens)
        self.drop = nn.Dropout(c.dropout)
        block = BLOCKS[c.norm]
        args = (c.embed_dim, c.num_heads, c.mlp_ratio, c.qkv_bias, c.dropout, c.attn_dropout, c.norm_eps)
        args += (c.init_values,)
        self.blocks = nn.ModuleList(block(*args) for _ in range(c.depth))
        # A post-norm stream leaves its last block normalised already.
        self.norm = nn.LayerNorm(c.embed_dim, eps=c.norm_eps) if c.norm == "pre" else nn.Identity()
        self.head = _head(c)
        initialise(self)

    @property
    def num_prefix_tokens(self) -> int:
        """How many tokens stand before the patches: the cls token and the registers."""
        return self.pool.num_prefix_tokens + self.config.reg_tokens

    def embed(self, images: Tensor) -> Tensor:
        """Turn images (B, C, H, W) into tokens with positions (B, T, D): equation 1."""
        return self._pos_embed(self.patch_embed(images))

    def _pos_embed(self, x: Tensor) -> Tensor:
        """Add to the patches (B, N, D) their positions and the tokens that stand before them: (B, T, D)."""
        if self.config.no_embed_class:
            x = self.positions(x)
        x = self.pool.prepend(self.registers(x))  # (B, T, D): with the cls token, if the pooling reads one
        return self.drop(x if self.config.no_embed_class else self.positions(x))  # (B, T, D)

    def encode(self, x: Tensor) -> Tensor:
        """Send embedded tokens (B, T, D), any number of them, through the blocks and the norm: equations 2 and 3."""
        for block in self._in_order():
            x = block(x)  # (B, T, D)
        return self.norm(x)

    def _in_order(self) -> Iterable[nn.Module]:
        """The blocks that tokens pass, one after the other."""
        return self.blocks

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
        Raises: TypeError for a subclass with an embed, encode, forward_features or forward_head of its own.
        """
        for name in ("embed", "encode", "forward_features", "forward_head"):
            if getattr(type(self), name) is not getattr(ViT, name):
                raise TypeError(
                    f"{type(self).__name__} overrides {name}, which forward_intermediates does not call: "
                    "override _pos_embed or _in_order, or put another module in the place of a part"
                )
        out = {"patches": self.patch_embed(images)}  # (B, N, D)
        x = out["embedded"] = self._pos_embed(out["patches"])  # (B, T, D)
        for n, block in enumerate(self._in_order(), 1):
            x = out[f"block_{n}"] = block(x)  # (B, T, D)
        out["features"] = self.norm(x)  # (B, T, D)
        out["pooled"] = self.pool(out["features"])  # (B, D)
        out["logits"] = self.head(out["pooled"])  # (B, K)
        return out

    def with_head(self, num_classes: int) -> "ViT":
        """A copy with a new head for num_classes classes, initialised; 0 leaves the head out.

        Raises: ValueError or TypeError for a number that is none.
        """
        config = replace(self.config, num_classes=num_classes)
        model = deepcopy(self)
        model.config = config
        model.head = _head(config).to(next(self.parameters()))
        initialise_head(model.head)
        return model

    def resized(self, img_size: Size) -> "ViT":
        """A copy for images of another size: its position table is interpolated, all else stays.

        Raises: ValueError if a side is not a multiple of patch_size.
        """
        old, config = self.patch_embed.grid_size, replace(self.config, img_size=img_size)
        model = deepcopy(self)
        model.config, model.patch_embed.img_size = config, pair("img_size", img_size)
        new = model.patch_embed.grid_size = grid_size(img_size, config.patch_size)
        model.patch_embed.num_patches = config.num_patches
        prefix = 0 if config.no_embed_class else self.num_prefix_tokens
        if isinstance(self.positions, LearnedPositions):
            table = resize_positions(self.positions.table.detach(), old, new, prefix)
            model.positions.table = nn.Parameter(table, self.positions.table.requires_grad)
        elif isinstance(self.positions, SinCosPositions):
            model.positions = _positions(config, prefix).to(self.positions.table)
        return model

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Take the weights of another ViT, also of one that was compiled or wrapped: see unwrapped.

        Raises: ValueError for the weights of another library, with the function that converts them,
            and for those of a ViT of other sizes.
        """
        state = unwrapped(state_dict)
        foreign = state.keys() - self.state_dict().keys()  # a subclass may have parts of such names itself
        for part, (library, function) in FOREIGN.items():
            if any(part in name for name in foreign):
                raise ValueError(
                    f"state_dict has the names of {library}, got {part}: load it into a model of {library}, "
                    f"then use vitnb.weights.{function}(model)"
                )
        try:
            return super().load_state_dict(state, strict, assign)
        except RuntimeError:
            own = {name: tuple(t.shape) for name, t in self.state_dict().items()}
            if not strict:  # only what stands in both counts
                state = {name: value for name, value in state.items() if name in own}
                own = {name: own[name] for name in state}
            check_shapes("state_dict", own, {name: tuple(getattr(t, "shape", ())) for name, t in state.items()})
            raise

    def no_weight_decay(self) -> set[str]:
        """Name the parameters that are no weights of a product: positions, cls token, query, registers."""
        return {n for n, _ in self.named_parameters() if n in NO_DECAY}


def initialise(model: ViT) -> None:
    """Set the initial weights.

    Xavier keeps the magnitude of signals and gradients from layer to layer at
    any width (a fixed standard deviation of 0.02 would nearly silence the
    branches at width 64); a convolution is a linear layer in disguise, so its
    standard deviation follows its fan-in.
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
    initialise_head(model.head)


def initialise_head(head: nn.Module) -> None:
    """Set the initial weights of a head: small, so that the first loss is close to ln K whatever the image."""
    if isinstance(head, nn.Linear):
        nn.init.normal_(head.weight, std=0.02)
        nn.init.zeros_(head.bias)


def unwrapped(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """A state dict out of its checkpoint, without the prefixes of torch.compile, DataParallel, FSDP and Lightning.

    Raises: TypeError for what is no state dict.
    """
    if not isinstance(state, Mapping):
        raise TypeError(f"state_dict must be a dictionary of tensors, got {type(state).__name__}: use state_dict()")
    for key in ("state_dict", "model"):
        if isinstance(state.get(key), Mapping):
            return unwrapped(state[key])
    for prefix in ("_orig_mod.", "module.", "_fsdp_wrapped_module.", "model."):
        if state and all(name.startswith(prefix) for name in state):
            return unwrapped({name.removeprefix(prefix): value for name, value in state.items()})
    return state


def check_shapes(name: str, expected: Mapping[str, tuple], given: Mapping[str, tuple]) -> None:
    """Raise unless the tensors of two state dicts have the same names and shapes."""
    for key in sorted(expected.keys() | given.keys()):
        if key not in expected:
            raise ValueError(f"{name} must not hold {key}, which this ViT does not have: use weights without it")
        shape, found = expected[key], given.get(key)
        if shape != found:
            use = f"with_head({found[0]})" if key.startswith("head.") and found else "that shape"
            raise ValueError(f"{name} must hold {key} of shape {shape}, got {found}: use {use}")


def count_parameters(model: nn.Module) -> int:
    """Count the numbers that training may change."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def _head(c: ViTConfig) -> nn.Linear | nn.Identity:
    return nn.Linear(c.embed_dim, c.num_classes) if c.num_classes else nn.Identity()


def _plain(value: Any) -> Any:
    return value.item() if getattr(value, "ndim", 1) == 0 else value  # a scalar of NumPy or torch


def _pooling(c: ViTConfig) -> ClsToken | MeanPool | AttentionPool:
    if c.global_pool == "cls":
        return ClsToken(c.embed_dim)
    if c.global_pool == "mean":
        return MeanPool(c.reg_tokens)
    return AttentionPool(c.embed_dim, c.num_heads, c.reg_tokens)


def _positions(c: ViTConfig, prefix: int) -> LearnedPositions | SinCosPositions | NoPositions:
    if c.pos_embed == "learned":
        return LearnedPositions(prefix + c.num_patches, c.embed_dim, c.pos_std)
    if c.pos_embed == "sincos":
        return SinCosPositions(grid_size(c.img_size, c.patch_size), c.embed_dim, prefix)
    return NoPositions()

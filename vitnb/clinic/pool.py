"""Wrong ends of a ViT: what joins the tokens, what is read from them, and whole models that are not wired through."""

import torch
from torch import Tensor, nn

from vitnb.clinic._fault import fault
from vitnb.vit import ViT, ViTConfig

# Whole models.


@fault("calls blocks that are not its own, as a forgotten self. does", ViT)
class ForeignBlocks(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.elsewhere = (ViT(config).blocks,)  # in a tuple: a global as far as the model knows

    def forward_features(self, images: Tensor) -> Tensor:
        x = self.embed(images)
        for block in self.elsewhere[0]:
            x = block(x)
        return self.norm(x)


@fault("keeps its blocks in a Python list, which no optimizer ever sees", ViT, {"count"})
class ListedBlocks(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        blocks = list(self.blocks)
        del self.blocks
        self.blocks = blocks


@fault("never calls its last block", ViT)
class ForgottenBlock(ViT):
    def forward_features(self, images: Tensor) -> Tensor:
        x = self.embed(images)
        for block in self.blocks[:-1]:
            x = block(x)
        return self.norm(x)


@fault("multiplies its position table by 0, so that nobody reads it", ViT, {"order"})
class SilentPositions(ViT):
    def embed(self, images: Tensor) -> Tensor:
        return self.pool.prepend(self.patch_embed(images)) + 0 * self.positions.table


@fault("has a position table and never adds it", ViT, {"order"})
class UnusedPositions(ViT):
    def embed(self, images: Tensor) -> Tensor:
        return self.pool.prepend(self.patch_embed(images))


@fault("uses one and the same block in every place", ViT, {"count"})
class SharedBlock(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.blocks = nn.ModuleList([self.blocks[0]] * config.depth)


@fault("keeps its cls token in a plain tensor, which no optimizer ever sees", ViT, {"count"})
class PlainCls(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        token = self.pool.token.detach().clone()
        del self.pool.token
        self.pool.token = token


@fault("makes its positions anew at every call", ViT, {"count"})
class NewPositions(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.size = self.positions.table.shape
        self.positions = nn.Identity()

    def embed(self, images: Tensor) -> Tensor:
        return self.pool.prepend(self.patch_embed(images)) + torch.randn(self.size)


@fault("has no last norm", ViT, {"count"})
class NoLastNorm(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.norm = nn.Identity()


@fault("holds a linear layer that the paper does not have", ViT, {"count"})
class ExtraLinear(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.projection = nn.Linear(config.embed_dim, config.embed_dim)

    def embed(self, images: Tensor) -> Tensor:
        x = self.projection(self.patch_embed(images))
        return self.positions(self.pool.prepend(x))


@fault("computes its embedding under no_grad, so that it never learns", ViT)
class FrozenEmbedding(ViT):
    def embed(self, images: Tensor) -> Tensor:
        with torch.no_grad():
            return super().embed(images)


@fault("ends in a softmax: the loss takes a second one, and can never get near 0", ViT, {"scores"})
class SoftmaxInside(ViT):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).softmax(-1)

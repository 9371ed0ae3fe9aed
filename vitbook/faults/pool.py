"""Wrong ends of a ViT: what joins the tokens, what is read from them, and whole models that are not wired through."""

import torch
from torch import Tensor, nn

from vitbook.faults._fault import fault
from vitbook.faults._rewrite import NO_TOKEN, TWO_LAYERS
from vitnb.pooling import ClsToken
from vitnb.vit import ViT, ViTConfig


def _first(token: Tensor, x: Tensor) -> Tensor:
    return torch.cat([token.expand(len(x), -1, -1), x], dim=1)  # (B, 1 + N, D)


@fault("puts its token last and reads the first patch", ClsToken, {"cls"})
class LastReadFirst(ClsToken):
    def prepend(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.token.expand(len(x), -1, -1)], dim=1)  # (B, N + 1, D)


@fault("puts its token first and reads token 1", ClsToken, {"cls"})
class NextTokenRead(ClsToken):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, 1]


@fault("reads the mean of all tokens, its own among them", ClsToken, {"cls"})
class MeanWithCls(ClsToken):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=1)


@fault("adds the mean of the patches to its token before it joins them", ClsToken, {"cls"})
class MeanOfPatchesAdded(ClsToken):
    def prepend(self, x: Tensor) -> Tensor:
        return _first(self.token + x.mean(1, keepdim=True), x)


@fault("draws its token anew in each call", ClsToken, {"count", "cls", "scores"})
class NewAtEachCall(ClsToken):
    def __init__(self, embed_dim: int):
        super().__init__(embed_dim)
        self.token = None

    def prepend(self, x: Tensor) -> Tensor:
        generator = torch.Generator()
        generator.seed()  # whoever seeds torch before each call must not hide it
        return _first(torch.randn(1, 1, x.shape[2], generator=generator), x)


@fault("draws a token for each image, anew in each call", ClsToken, {"count", "cls", "scores"})
class NewForEachImage(NewAtEachCall):
    def prepend(self, x: Tensor) -> Tensor:
        return _first(torch.randn(len(x), 1, x.shape[2]), x)


@fault("keeps its token in a plain tensor, which no optimizer ever sees", ClsToken, {"count"}, NO_TOKEN)
class PlainTensor(ClsToken):
    def __init__(self, embed_dim: int):
        super().__init__(embed_dim)
        del self.token
        self.token = torch.zeros(1, 1, embed_dim)


@fault("has another token for each place in the batch", ClsToken, {"count", "cls", "scores"})
class OnePerPlace(ClsToken):
    def __init__(self, embed_dim: int):
        super().__init__(embed_dim)
        self.token = nn.Parameter(torch.zeros(64, 1, embed_dim))

    def prepend(self, x: Tensor) -> Tensor:
        return _first(self.token[torch.arange(len(x)) % 64], x)


@fault("writes its token over the first patch", ClsToken, {"count"})
class OverTheFirstPatch(ClsToken):
    num_prefix_tokens = 0

    def prepend(self, x: Tensor) -> Tensor:
        return _first(self.token, x[:, 1:])


@fault("answers with its token as it went in, whatever the blocks have made of it", ClsToken, {"count", "order"})
class TokenAsItWent(ClsToken):
    def forward(self, x: Tensor) -> Tensor:
        return self.token[0].expand(len(x), -1)


# Whole models.


@fault("calls blocks that are not its own, as a forgotten self. does", ViT, {"count"})
class ForeignBlocks(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.elsewhere = (ViT(config).blocks,)  # in a tuple: a global as far as the model knows

    def _in_order(self) -> nn.ModuleList:
        return self.elsewhere[0]


@fault("keeps its blocks in a Python list, which no optimizer ever sees", ViT, {"count"})
class ListedBlocks(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        blocks = list(self.blocks)
        del self.blocks
        self.blocks = blocks


@fault("never calls its last block", ViT, {"count"})
class ForgottenBlock(ViT):
    def _in_order(self) -> nn.ModuleList:
        return self.blocks[:-1]


@fault("multiplies its position table by 0, so that nobody reads it", ViT, {"count", "order"})
class SilentPositions(ViT):
    def _pos_embed(self, x: Tensor) -> Tensor:
        return self.drop(self.pool.prepend(x) + 0 * self.positions.table)


@fault("has a position table and never adds it", ViT, {"count", "order"})
class UnusedPositions(ViT):
    def _pos_embed(self, x: Tensor) -> Tensor:
        return self.drop(self.pool.prepend(x))


@fault("uses one and the same block in every place", ViT, {"count"})
class SharedBlock(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.blocks = nn.ModuleList([self.blocks[0]] * config.depth)


@fault("keeps its cls token in a plain tensor, which no optimizer ever sees", ViT, {"count"}, NO_TOKEN)
class PlainCls(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.pool = PlainTensor(config.embed_dim)


@fault("makes its positions anew at every call", ViT, {"count", "scores"})
class NewPositions(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.size = self.positions.table.shape
        self.positions = nn.Identity()

    def _pos_embed(self, x: Tensor) -> Tensor:
        return self.drop(self.pool.prepend(x) + torch.randn(self.size))


@fault("has no last norm", ViT, {"reference", "count"})
class NoLastNorm(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.norm = nn.Identity()


@fault("holds a linear layer that the paper does not have", ViT, {"count"}, TWO_LAYERS)
class ExtraLinear(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.projection = nn.Linear(config.embed_dim, config.embed_dim)

    def _pos_embed(self, x: Tensor) -> Tensor:
        return super()._pos_embed(self.projection(x))


@fault("computes its embedding under no_grad, so that it never learns", ViT, {"count"})
class FrozenEmbedding(ViT):
    def _pos_embed(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            return super()._pos_embed(x)  # and so the patch embedding has no gradient either


@fault("ends in a softmax: the loss takes a second one, and can never get near 0", ViT, {"scores"})
class SoftmaxInside(ViT):
    def forward(self, images: Tensor) -> Tensor:
        return super().forward(images).softmax(-1)

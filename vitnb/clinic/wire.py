"""Wrong blocks, norms and MLPs: the arrows of a block drawn elsewhere, a norm over the wrong axes."""

from torch import Tensor, nn
from torch.nn import functional as F

from vitnb.blocks import MLP, PostNormBlock, PreNormBlock
from vitnb.clinic._fault import fault


@fault("normalises, then adds", PreNormBlock, {"reference"})
class NormaliseThenAdd(PreNormBlock):
    """The norm replaces the stream instead of feeding a branch."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x)
        x = x + self.attention(x)
        x = self.norm2(x)
        return x + self.mlp(x)


@fault("is post-norm", PreNormBlock, {"reference"})
class PostNorm(PreNormBlock):
    forward = PostNormBlock.forward


@fault("replaces the stream by the normalised token in its first half", PreNormBlock, {"reference"})
class FirstHalfOnly(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x)
        x = x + self.attention(x)
        return x + self.mlp(self.norm2(x))


@fault("normalises the stream, and lets attention feed the MLP only", PreNormBlock, {"reference"})
class ForgottenPlus(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x)
        return x + self.mlp(self.norm2(x + self.attention(x)))


@fault("lets attention feed the MLP only", PreNormBlock, {"reference"})
class OnlyForTheMLP(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.mlp(self.norm2(x + self.attention(self.norm1(x))))


@fault("lets the MLP replace the stream", PreNormBlock, {"reference"})
class NoSecondPlus(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.norm2(x + self.attention(self.norm1(x))))


@fault("lets attention replace the stream", PreNormBlock, {"reference"})
class NoFirstPlus(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


@fault("has no plus at all", PreNormBlock, {"reference"})
class NoPlus(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        return self.mlp(self.norm2(self.attention(self.norm1(x))))


@fault("has no norm on its branches", PreNormBlock, {"reference"})
class NoNorms(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(x)
        return x + self.mlp(x)


@fault("has no norm before the MLP", PreNormBlock, {"reference"})
class NoSecondNorm(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(x)


@fault("has swapped its two norms (which a gain of 1 hides)", PreNormBlock, {"reference"})
class SwappedNorms(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm2(x))
        return x + self.mlp(self.norm1(x))


@fault("uses its first norm twice (which a gain of 1 hides)", PreNormBlock, {"reference"})
class OneNorm(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm1(x))


@fault("lets both branches read the same x", PreNormBlock, {"reference"})
class Parallel(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.attention(self.norm1(x)) + self.mlp(self.norm2(x))


@fault("runs the MLP before attention", PreNormBlock, {"reference"})
class MLPFirst(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.mlp(self.norm2(x))
        return x + self.attention(self.norm1(x))


@fault("normalises at the end of its branches", PreNormBlock, {"reference"})
class BranchesNormedLast(PreNormBlock):
    def forward(self, x: Tensor) -> Tensor:
        x = x + self.norm1(self.attention(x))
        return x + self.norm2(self.mlp(x))


@fault("has ReLU in its MLP", MLP, {"reference"})
class WithReLU(MLP):
    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.fc2(self.drop(F.relu(self.fc1(x)))))


@fault("normalises over tokens and channels together", nn.LayerNorm, {"reference"})
class OverTokensAndChannels(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, x.shape[1:], eps=self.eps) * self.weight + self.bias

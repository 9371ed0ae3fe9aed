"""Wrong ways to cut images into patches, to put them back, and to turn the projection into a convolution."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbook.faults._fault import fault
from vitbook.faults._rewrite import filters, patches
from vitnb.patches import PatchEmbedding, patchify, unpatchify


def embedding(cut: Callable[[Tensor, int], Tensor]) -> type[PatchEmbedding]:
    """The patch embedding of the book with another way to cut."""

    class Cutting(PatchEmbedding):
        def forward(self, images: Tensor) -> Tensor:
            patches = cut(images, self.patch_size[0])  # (B, N, C*p*p)
            return F.linear(patches, self.proj.weight.flatten(1), self.proj.bias)  # (B, N, D)

    return Cutting


def _permuted(images: Tensor, p: int, *order: int) -> Tensor:
    """All axes, (B, C, H/p, p, W/p, p), in this order; the right one is 0, 2, 4, 1, 3, 5."""
    B, C, H, W = images.shape
    x = images.reshape(B, C, H // p, p, W // p, p).permute(order)
    return x.reshape(B, -1, C * p * p)  # (B, N, C*p*p)


@fault("returns zeros in the right shape", patchify, {"count", "cut", "order"})
def zeros(images: Tensor, patch_size: int) -> Tensor:
    return torch.zeros_like(patchify(images, patch_size))


@fault("only reshapes and never permutes", patchify, {"cut"})
def reshape_alone(images: Tensor, patch_size: int) -> Tensor:
    return images.reshape(patchify(images, patch_size).shape)


@fault("counts the patches column by column", patchify, {"cut"}, patches(lambda n: n.mT))
def column_by_column(images: Tensor, patch_size: int) -> Tensor:
    return _permuted(images, patch_size, 0, 4, 2, 1, 3, 5)


@fault("transposes every patch", patchify, {"cut"}, filters(lambda w: w.mT, lambda w: w.mT))
def transposed_patches(images: Tensor, patch_size: int) -> Tensor:
    return _permuted(images, patch_size, 0, 2, 4, 1, 5, 3)


@fault(
    "starts with the last patch, then goes on with the first", patchify, {"cut"}, patches(lambda n: n.flatten().roll(1))
)
def last_patch_first(images: Tensor, patch_size: int) -> Tensor:
    return patchify(images, patch_size).roll(1, dims=1)


@fault("gives the patches in reverse order", patchify, {"cut"}, patches(lambda n: n.flatten().flip(0)))
def reverse_order(images: Tensor, patch_size: int) -> Tensor:
    return patchify(images, patch_size).flip(1)


@fault("is right only for square images", patchify, {"cut"})
def sides_swapped(images: Tensor, patch_size: int) -> Tensor:
    B, C, H, W = images.shape
    return patchify(images.reshape(B, C, W, H), patch_size)


@fault(
    "is right only for one channel, or for channels that are all alike",
    patchify,
    {"cut"},
    filters(lambda w: w.flip(1), lambda w: w.flip(1)),
)
def channels_reversed(images: Tensor, patch_size: int) -> Tensor:
    return patchify(images.flip(1), patch_size)


@fault(
    "puts the channels last in each vector",
    patchify,
    {"cut"},
    filters(lambda w: w.permute(0, 2, 3, 1), lambda w: w.reshape(*w[:, 0].shape, -1).permute(0, 3, 1, 2)),
)
def channels_last(images: Tensor, patch_size: int) -> Tensor:
    return _permuted(images, patch_size, 0, 2, 4, 3, 5, 1)


@fault("takes each pixel of a patch from another part of the image, as the teeth of a comb", patchify, {"cut"})
def combs(images: Tensor, patch_size: int) -> Tensor:
    B, C, H, W = images.shape
    x = images.reshape(B, C, patch_size, H // patch_size, patch_size, W // patch_size).permute(0, 3, 5, 1, 2, 4)
    return x.reshape(B, -1, C * patch_size**2)  # (B, N, C*p*p)


@fault("reshapes the map of its convolution without a transpose", PatchEmbedding, {"cut"})
class MapReshaped(PatchEmbedding):
    def forward(self, images: Tensor) -> Tensor:
        x = F.conv2d(images, self.proj.weight, self.proj.bias, self.proj.stride)  # (B, D, H/p, W/p)
        return x.reshape(len(x), -1, x.shape[1])  # (B, N, D), of the wrong numbers


@fault("gives every image of a batch the patches of the first", patchify, {"cut", "scores"})
def patches_of_the_first(images: Tensor, patch_size: int) -> Tensor:
    return patchify(images[:1], patch_size).expand(len(images), -1, -1)


@fault("moves all pixels to other places, the same in every image", PatchEmbedding, {"cut"})
class ShuffledPixels(PatchEmbedding):
    def forward(self, images: Tensor) -> Tensor:
        order = torch.randperm(images[0, 0].numel(), generator=torch.Generator().manual_seed(0))
        return super().forward(images.flatten(2)[:, :, order].reshape(images.shape))


def _put_back(patches: Tensor, axes: tuple[int, ...], order: tuple[int, ...], img_size: tuple, channels: int) -> Tensor:
    x = patches.reshape(len(patches), *axes).permute(order)
    return x.reshape(len(patches), channels, *img_size)  # (B, C, H, W)


@fault("puts the pixels back with reshape alone", unpatchify, None)
def back_by_reshape(patches: Tensor, patch_size: int, img_size: tuple[int, int], channels: int) -> Tensor:
    return patches.reshape(len(patches), channels, *img_size)


@fault("puts the patches back column by column", unpatchify, None)
def back_column_by_column(patches: Tensor, patch_size: int, img_size: tuple[int, int], channels: int) -> Tensor:
    p, C, (H, W) = patch_size, channels, img_size
    return _put_back(patches, (W // p, H // p, C, p, p), (0, 3, 2, 4, 1, 5), img_size, C)


@fault("reads a patch vector with the channels last", unpatchify, None)
def back_channels_last(patches: Tensor, patch_size: int, img_size: tuple[int, int], channels: int) -> Tensor:
    p, C, (H, W) = patch_size, channels, img_size
    return _put_back(patches, (H // p, W // p, p, p, C), (0, 5, 1, 3, 2, 4), img_size, C)


@fault("puts every patch back in its place, but transposed", unpatchify, None)
def back_transposed(patches: Tensor, patch_size: int, img_size: tuple[int, int], channels: int) -> Tensor:
    p, C, (H, W) = patch_size, channels, img_size
    return _put_back(patches, (H // p, W // p, C, p, p), (0, 3, 1, 5, 2, 4), img_size, C)


@fault("merges the rows of patches with their columns", unpatchify, None)
def back_merged(patches: Tensor, patch_size: int, img_size: tuple[int, int], channels: int) -> Tensor:
    p, C, (H, W) = patch_size, channels, img_size
    return _put_back(patches, (H // p, W // p, C, p, p), (0, 3, 1, 2, 4, 5), img_size, C)


def linear_to_conv(linear: nn.Linear, patch_size: int, in_chans: int) -> nn.Conv2d:
    """The convolution that gives the tokens of patchify and this layer; what follows are wrong versions of it."""
    return _conv(linear, linear.weight.reshape(-1, in_chans, patch_size, patch_size))


def _conv(linear: nn.Linear, weight: Tensor) -> nn.Conv2d:
    """A convolution with these filters, (D, C, p, p), and the bias of the layer."""
    D, C, p, _ = weight.shape
    conv = nn.Conv2d(C, D, p, p)
    conv.load_state_dict({"weight": weight, "bias": linear.bias})
    return conv


@fault("has filters with the channels last", linear_to_conv, None)
def filters_channels_last(linear: nn.Linear, patch_size: int, in_chans: int) -> nn.Conv2d:
    return _conv(linear, linear.weight.reshape(-1, patch_size, patch_size, in_chans).permute(0, 3, 1, 2))


@fault("has transposed filters", linear_to_conv, None)
def filters_transposed(linear: nn.Linear, patch_size: int, in_chans: int) -> nn.Conv2d:
    return _conv(linear, linear.weight.reshape(-1, in_chans, patch_size, patch_size).mT)


@fault("has the right numbers in its filters in the wrong order", linear_to_conv, None)
def filters_in_disorder(linear: nn.Linear, patch_size: int, in_chans: int) -> nn.Conv2d:
    return _conv(linear, linear.weight.reshape(in_chans, patch_size, patch_size, -1).permute(3, 0, 1, 2))


@fault("keeps the random bias of a new convolution", linear_to_conv, None)
def bias_forgotten(linear: nn.Linear, patch_size: int, in_chans: int) -> nn.Conv2d:
    conv = nn.Conv2d(in_chans, linear.out_features, patch_size, patch_size)
    conv.weight.data = linear.weight.detach().reshape(conv.weight.shape)
    return conv


@fault("keeps the random filters of a new convolution", linear_to_conv, None)
def filters_forgotten(linear: nn.Linear, patch_size: int, in_chans: int) -> nn.Conv2d:
    return nn.Conv2d(in_chans, linear.out_features, patch_size, patch_size)

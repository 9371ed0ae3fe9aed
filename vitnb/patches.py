"""Chapter 1: from pixels to patches to tokens, and back."""

import math

from torch import Tensor, nn

from vitnb._validate import Size, float_tensor, pair, positive_int, tensor


def grid_size(img_size: Size, patch_size: Size) -> tuple[int, int]:
    """Count the patches of an image: (rows, columns).

    Raises: ValueError if a side is not a multiple of the patch side.
    """
    sides, patch = pair("img_size", img_size), pair("patch_size", patch_size)
    for name, side, p in zip(("height", "width"), sides, patch, strict=True):
        if side % p:
            fits = [n for n in (side // p * p, (side // p + 1) * p) if n]
            raise ValueError(
                f"image {name} {side} is not a multiple of patch_size {p}: use {' or '.join(map(str, fits))}"
            )
    return sides[0] // patch[0], sides[1] // patch[1]


def patchify(images: Tensor, patch_size: Size) -> Tensor:
    """Cut images into patches, row by row, and flatten each patch.

    A patch vector is (C, p, p) flattened, the layout of a Conv2d weight.

    Shapes: images (B, C, H, W) -> patches (B, N, C*p*p); any dtype.
    Raises: TypeError or ValueError if images is no such tensor or a side
        is not a multiple of patch_size.
    Source: Dosovitskiy et al. 2021, section 3.1.
    """
    B, C, H, W = tensor("images", images, 4, "(B, C, H, W)").shape
    (rows, cols), (ph, pw) = grid_size((H, W), patch_size), pair("patch_size", patch_size)
    x = images.reshape(B, C, rows, ph, cols, pw)  # (B, C, H/p, p, W/p, p)
    x = x.permute(0, 2, 4, 1, 3, 5)  # (B, H/p, W/p, C, p, p)
    return x.reshape(B, rows * cols, C * ph * pw)  # (B, N, C*p*p)


def unpatchify(patches: Tensor, patch_size: Size, img_size: Size, channels: int) -> Tensor:
    """Put the patches of patchify back together: its exact inverse.

    Shapes: patches (B, N, C*p*p) -> images (B, C, H, W).
    Raises: TypeError or ValueError if N or C*p*p does not belong to
        img_size, patch_size and channels.
    """
    (rows, cols), (ph, pw) = grid_size(img_size, patch_size), pair("patch_size", patch_size)
    C = positive_int("channels", channels)
    B, *rest = tensor("patches", patches, 3, "(B, N, C*p*p)").shape
    if rest != [rows * cols, C * ph * pw]:
        raise ValueError(
            f"patches of shape {tuple(patches.shape)} do not make images of {C} channels, img_size {img_size}, "
            f"patch_size {patch_size}: use shape ({B}, {rows * cols}, {C * ph * pw})"
        )
    x = patches.reshape(B, rows, cols, C, ph, pw)  # (B, H/p, W/p, C, p, p)
    x = x.permute(0, 3, 1, 4, 2, 5)  # (B, C, H/p, p, W/p, p)
    return x.reshape(B, C, rows * ph, cols * pw)  # (B, C, H, W)


class PatchEmbedding(nn.Module):
    """Cut images into patches and turn each patch into a token.

    One convolution does both: its kernel and its stride are the patch side.

    Shapes: images (B, C, H, W) -> tokens (B, N, D), row by row.
    Raises: ValueError if a side is not a multiple of patch_size, or if
        images have another size or channel count than announced.
    Source: Dosovitskiy et al. 2021, equation 1, the matrix E.
    """

    def __init__(self, img_size: Size = 28, patch_size: Size = 4, in_chans: int = 1, embed_dim: int = 64):
        super().__init__()
        self.img_size, self.patch_size = pair("img_size", img_size), pair("patch_size", patch_size)
        self.grid_size = grid_size(self.img_size, self.patch_size)
        self.num_patches = math.prod(self.grid_size)
        in_chans, embed_dim = positive_int("in_chans", in_chans), positive_int("embed_dim", embed_dim)
        self.proj = nn.Conv2d(in_chans, embed_dim, self.patch_size, self.patch_size)

    def forward(self, images: Tensor) -> Tensor:
        x = self.proj(self._check(images))  # (B, D, H/p, W/p)
        return x.flatten(2).transpose(1, 2)  # (B, N, D)

    def _check(self, images: Tensor) -> Tensor:
        float_tensor("images", images, 4, "(B, C, H, W)")
        expected = (self.proj.in_channels, *self.img_size)
        if tuple(images.shape[1:]) != expected:
            raise ValueError(
                f"images must have (C, H, W) = {expected}, got shape {tuple(images.shape)}: "
                f"use {(images.shape[0], *expected)}, or build the model for these sizes"
            )
        return images

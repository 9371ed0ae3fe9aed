"""Chapter 1: from pixels to patches to tokens, and back."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitnb._validate import Size, divides, normalised, pair, positive_int, tensor


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
    H, W = tensor("images", images, 4, "(B, C, H, W)").shape[2:]
    return _cut(images, grid_size((H, W), patch_size), pair("patch_size", patch_size))


def _cut(images: Tensor, grid: tuple[int, int], patch: tuple[int, int]) -> Tensor:
    B, C, (rows, cols), (ph, pw) = *images.shape[:2], grid, patch
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


class PatchConv2d(nn.Conv2d):
    """A convolution whose kernel and stride are the patch side, computed as one product of matrices.

    Its patches do not overlap, so patchify and a linear layer give the same
    numbers, sooner where they are small (experiments/spellings.py), and as tokens already.
    It stays a Conv2d in name, weights and first random numbers, as in timm and
    torchvision: weights go to and fro unchanged.

    Shapes: images (B, C, H, W) -> tokens (B, N, D), row by row.
    """

    def __init__(self, in_chans: int, embed_dim: int, patch_size: Size):
        sides = pair("patch_size", patch_size)
        super().__init__(in_chans, embed_dim, sides, sides)

    def forward(self, images: Tensor) -> Tensor:
        (H, W), (ph, pw) = images.shape[2:], self.kernel_size
        patches = _cut(images, (H // ph, W // pw), (ph, pw))  # (B, N, C*p*p)
        return F.linear(patches, self.weight.flatten(1), self.bias)  # (B, N, D)


class _Stem(nn.Module):
    """What the ways from images to tokens share: their sizes, and the check of the images."""

    def __init__(self, img_size: Size, patch_size: Size, in_chans: int, embed_dim: int):
        super().__init__()
        self.img_size, self.patch_size = pair("img_size", img_size), pair("patch_size", patch_size)
        self.grid_size = grid_size(self.img_size, self.patch_size)
        self.num_patches = math.prod(self.grid_size)
        self.in_chans, self.embed_dim = positive_int("in_chans", in_chans), positive_int("embed_dim", embed_dim)

    def _check(self, images: Tensor) -> Tensor:
        expected, weight = (self.in_chans, *self.img_size), getattr(self.proj, "weight", None)
        dtype = weight.dtype if isinstance(weight, Tensor) else torch.float32
        if isinstance(images, Tensor) and tuple(images.shape[1:]) == expected:
            if images.dtype == dtype or torch.is_autocast_enabled(images.device.type):
                return images
        return normalised("images", images, expected, dtype)


class PatchEmbedding(_Stem):
    """Cut images into patches and turn each patch into a token.

    One convolution does both: its kernel and its stride are the patch side.

    Shapes: images (B, C, H, W) -> tokens (B, N, D), row by row.
    Raises: ValueError if a side is not a multiple of patch_size, or if
        images have another size or channel count than announced.
    Source: Dosovitskiy et al. 2021, equation 1, the matrix E.
    """

    def __init__(self, img_size: Size = 28, patch_size: Size = 4, in_chans: int = 1, embed_dim: int = 64):
        super().__init__(img_size, patch_size, in_chans, embed_dim)
        self.proj = PatchConv2d(in_chans, embed_dim, self.patch_size)

    def forward(self, images: Tensor) -> Tensor:
        x = self.proj(self._check(images))  # (B, N, D), or (B, D, H/p, W/p) from a plain Conv2d put in its place
        return x if x.ndim == 3 else x.flatten(2).transpose(1, 2)  # (B, N, D)


class ConvStem(_Stem):
    """Process the image by small convolutions before it becomes tokens.

    Convolutions of 3 x 3 pixels with stride 2 halve the image until it has
    one place for each patch, and as many channels as a token. BatchNorm and
    GELU stand between them: in training, an image's tokens depend on the
    other images of its batch a little; in eval mode they do not.

    Shapes: images (B, C, H, W) -> tokens (B, N, D), row by row.
    Raises: ValueError as PatchEmbedding; if embed_dim cannot be halved often
        enough; or if halving the image does not end at the grid of its patches.
    Source: Xiao et al. 2021, section 4 (with ReLU and a last 1 x 1 convolution).
    """

    def __init__(self, img_size: Size = 28, patch_size: Size = 4, in_chans: int = 1, embed_dim: int = 64):
        super().__init__(img_size, patch_size, in_chans, embed_dim)
        times = max(1, round(math.log2(self.patch_size[0])))
        grid = tuple(-(-side // 2**times) for side in self.img_size)
        if grid != self.grid_size:
            raise ValueError(
                f"patch_size {patch_size} cuts img_size {img_size} into a grid of {self.grid_size}, but halving it "
                f"{times} times gives {grid}: use patch_size {2**times} and an img_size that is a multiple of it"
            )
        divides("embed_dim", embed_dim, "the power of two of the convolutions,", 2 ** (times - 1))
        # For equal seeds the stored results need the random numbers of a patch projection drawn here, and proj first
        # among the modules: initialise goes in that order, and so does a checkpoint.
        torch.rand(embed_dim * (in_chans * math.prod(self.patch_size) + 1))
        widths = [in_chans, *(embed_dim // 2**left for left in reversed(range(times)))]
        layers = nn.Sequential()
        for before, after in zip(widths[:-2], widths[1:-1], strict=True):
            layers.extend([nn.Conv2d(before, after, 3, 2, 1, bias=False), nn.BatchNorm2d(after), nn.GELU()])
        self.proj = nn.Conv2d(widths[-2], embed_dim, 3, 2, 1)
        self.layers = layers

    def forward(self, images: Tensor) -> Tensor:
        x = self.proj(self.layers(self._check(images)))  # (B, D, H/p, W/p)
        return x.flatten(2).transpose(1, 2)  # (B, N, D)

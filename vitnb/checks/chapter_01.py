"""Exercises of chapter 1: counting, undoing, converting and testing patches."""

import random
from collections.abc import Callable
from numbers import Integral

import numpy as np
import torch
from torch import Tensor, nn

from vitnb.checks.engine import Raised, Wrong, call, close, described, exercise, fresh, number, tensor_like
from vitnb.patches import patchify


@exercise(
    "1.1",
    "count_tokens(height, width, patch_size)",
    "How many patches stand side by side in one row, and how many rows are there? Try 28 x 28 with patches of 14 "
    "on paper.",
    "A side divides if side % patch_size is 0. Ask that of height and of width, each alone, before you count.",
)
def _count(answer: Callable) -> str:
    for rows, cols, p in ((5, 3, 6), (2, 9, 5), (1, 6, 7), (14, 14, 16)):
        count = number(result := call(answer, rows * p, cols * p, p))
        case = f"A picture of {rows * p} x {cols * p} pixels and patches of {p} x {p}: you count {count:g}."
        mistakes = {
            p * p: "That is the number of pixels in one patch (of one channel), not the number of patches.",
            rows * cols + 1: "That is one too many: the cls token comes later and is no patch.",
            rows + cols: "That is one row plus one column of patches, not all of them.",
        }
        if count != rows * cols:
            raise Wrong(f"{case} {mistakes.get(count, 'Draw the grid for a smaller picture and count.')}")
        if not isinstance(result, Integral):
            raise Wrong(f"You return {described(result)}: a count is a whole number. / gives a float, // does not.")
    # 6 x 8 pixels fill exactly three patches of 4 x 4, and cannot be cut into them.
    for height, width, p in ((30, 28, 4), (28, 30, 4), (6, 8, 4)):
        _refuses(answer, height, width, p)
    return "4 sizes of pictures that can be cut, and 3 that cannot, which you refuse."


def _refuses(answer: Callable, height: int, width: int, p: int) -> None:
    case = f"A picture of {height} x {width} pixels cannot be cut into patches of {p} x {p}"
    try:
        count = number(call(answer, height, width, p))
    except Raised as raised:
        if isinstance(raised.error, ValueError):
            return
        raise Wrong(f"{case}: you raise {type(raised.error).__name__}, where a ValueError is wanted.") from None
    lost = "the pixels that do not fit are lost without a word"
    reason = {
        (height // p) * (width // p): f"rounding down means that {lost}",
        -(height // -p) * -(width // -p): "rounding up counts patches that the picture does not fill",
        height * width / p**2: "the areas fit, but each side must fit alone",
    }.get(count, lost)
    raise Wrong(f"{case}, yet you count {count:g} and raise no ValueError: {reason}.")


@exercise(
    "1.2",
    "my_unpatchify(patches, patch_size, height, width, channels)",
    "Go the way of patchify backwards. There the last reshape merged (rows, columns) and (C, p, p); start by taking "
    "these apart, to six axes.",
    "A reshape may only merge neighbours. So before the last one, permute until p stands next to the rows that it "
    "subdivides, and the other p next to the columns.",
)
def _unpatchify(answer: Callable) -> str:
    for C in (3, 1, 5):
        p, rows, cols = random.Random().sample(range(2, 7), 3)
        images = fresh(2, C, rows * p, cols * p)
        patches = patchify(images, p)
        result = call(answer, patches, p, rows * p, cols * p, C)
        if isinstance(result, Tensor) and result.shape == images.mT.shape:
            raise Wrong(f"Height and width are swapped: {tuple(result.shape)} for images {tuple(images.shape)}.")
        result = tensor_like(result, images)
        if not torch.equal(result, images):
            raise Wrong(_unpatchify_mistake(result, images, patches, p))
    return "exact on 3 pictures of random size, height unlike width, with 1, 3 and 5 channels."


def _unpatchify_mistake(result: Tensor, images: Tensor, patches: Tensor, p: int) -> str:
    B, C, H, W = images.shape
    rows, cols = H // p, W // p
    x, y = patches.reshape(B, rows, cols, C, p, p), patches.reshape(B, cols, rows, C, p, p)
    last = patches.reshape(B, rows, cols, p, p, C)
    mistakes = {
        "Your picture holds the right pixels in the wrong order: its first row goes on with the second row of patch "
        "0, not with patch 1. That is what reshape() or view() does without permute().": patches,
        "Your patches are put together column by column: patch 1 lies below patch 0, not right of it.": (
            y.permute(0, 3, 2, 4, 1, 5)
        ),
        "The colours are mixed up: you read a patch vector with the channels last, (p, p, C).": (
            last.permute(0, 5, 1, 3, 2, 4)
        ),
        "Each patch lies in its place but transposed: its rows are your columns.": x.permute(0, 3, 1, 5, 2, 4),
        "The last reshape merges axes that do not belong together: the rows of patches need the rows inside a patch "
        "next to them.": x.permute(0, 3, 1, 2, 4, 5),
    }
    for message, wrong in mistakes.items():
        if torch.equal(result, wrong.reshape(images.shape)):
            return message
    b, c, row, col = (result != images).nonzero()[0].tolist()
    place = f"the first wrong pixel is image {b}, channel {c}, row {row}, column {col}"
    return f"Your picture is not the one that was cut: {place} (patches of {p} x {p}, {rows} rows of {cols})."


@exercise(
    "1.3",
    "linear_to_conv(linear, patch_size, in_chans)",
    "One row of linear.weight is the filter for one feature. Which shape does a filter of nn.Conv2d have, and in "
    "which order did patchify flatten (C, p, p)?",
    "A new Conv2d brings random numbers: copy both of its parameters, inside torch.no_grad(). Print "
    "conv.weight.shape and linear.weight.shape first.",
)
def _conv(answer: Callable) -> str:
    for C, p, D in ((3, 4, 7), (1, 5, 6), (2, 3, 11)):
        linear, images = nn.Linear(C * p * p, D), fresh(2, C, 2 * p, 3 * p)
        conv = call(answer, linear, p, C)
        if not isinstance(conv, nn.Conv2d):
            raise Wrong(f"Your function returns {described(conv)}: an nn.Conv2d is wanted.")
        for name, there, wanted in (
            ("in_channels", conv.in_channels, C),
            ("out_channels", conv.out_channels, D),
            ("kernel_size", conv.kernel_size, (p, p)),
            ("stride", conv.stride, (p, p)),
            ("weight.shape", tuple(conv.weight.shape), (D, C, p, p)),
        ):
            if there != wanted:
                more = ": the windows overlap" if name == "stride" and there < wanted else ""
                raise Wrong(f"Your conv.{name} is {there} for {C} channels, patches of {p} and {D} features{more}.")
        with torch.no_grad():
            tokens, wanted = call(conv, images).flatten(2).mT, linear(patchify(images, p))
        if not close(tokens, wanted):
            raise Wrong(_conv_mistake(conv, linear, tokens, wanted))
    return "the same tokens to 1e-5 for 3 linear layers, on pictures with height unlike width."


def _conv_mistake(conv: nn.Conv2d, linear: nn.Linear, tokens: Tensor, wanted: Tensor) -> str:
    D, C, p, _ = conv.weight.shape
    if conv.padding not in (0, (0, 0)) or conv.dilation != (1, 1):
        return f"Your convolution has padding {conv.padding} and dilation {conv.dilation}: leave these as they are."
    if close(conv.weight.flatten(1), linear.weight):
        bias = "there is none" if conv.bias is None else "it is not that of linear"
        return f"The weights are right, the bias is forgotten: {bias}. A new Conv2d starts with a random one."
    if close(conv.weight, linear.weight.reshape(D, p, p, C).permute(0, 3, 1, 2)):
        return "Your filters read the patch vector with the channels last, (p, p, C)."
    if close(conv.weight.mT.flatten(1), linear.weight):
        return "Your filters are transposed: their rows are columns."
    if close(conv.weight.flatten().sort().values, linear.weight.flatten().sort().values):
        return "Your filters hold the right numbers in the wrong order."
    off = (tokens - wanted).abs().max().item()
    return f"Your tokens are off by up to {off:.2g}: the filters are unlike those of linear. Are they new, random ones?"


def _loop(images: Tensor, p: int) -> Tensor:
    H, W = images.shape[2:]
    cuts = [images[:, :, r : r + p, c : c + p].flatten(1) for r in range(0, H, p) for c in range(0, W, p)]
    return torch.stack(cuts, dim=1)


def _unfold(images: Tensor, p: int) -> Tensor:
    return images.unfold(2, p, p).unfold(3, p, p).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


def _permuted(*order: int) -> Callable[[Tensor, int], Tensor]:
    def function(images: Tensor, p: int) -> Tensor:
        B, C, H, W = images.shape
        return images.reshape(B, C, H // p, p, W // p, p).permute(order).reshape(B, -1, C * p * p)

    return function


def _sides_swapped(images: Tensor, p: int) -> Tensor:
    B, C, H, W = images.shape
    return patchify(images.reshape(B, C, W, H), p)


def _channels_last_input(images: Tensor, p: int) -> Tensor:
    B, C, H, W = images.shape
    return patchify(images.reshape(B, H, W, C).permute(0, 3, 1, 2), p)


RIGHT = (_permuted(0, 2, 4, 1, 3, 5), _loop, _unfold)
# What a reader is told about one that was let through.
MUTANTS: dict[str, Callable[[Tensor, int], Tensor]] = {
    "returns zeros in the right shape": lambda x, p: torch.zeros_like(patchify(x, p)),
    "only reshapes and never permutes": lambda x, p: x.reshape(patchify(x, p).shape),
    "counts the patches column by column": _permuted(0, 4, 2, 1, 3, 5),
    "transposes every patch": _permuted(0, 2, 4, 1, 5, 3),
    "starts with the last patch, then goes on with the first": lambda x, p: patchify(x, p).roll(1, dims=1),
    "gives the patches in reverse order": lambda x, p: patchify(x, p).flip(1),
    "is right only for square pictures": _sides_swapped,
    "is right only for one channel": _channels_last_input,
    "puts the channels last in each vector": _permuted(0, 2, 4, 3, 5, 1),
    "gives every image of a batch the patches of the first": lambda x, p: patchify(x[:1], p).expand(len(x), -1, -1),
}


@exercise(
    "1.4",
    "is_patchify(function)",
    "Make a picture in which every pixel has its own value, so that each can be found again. Which sizes would hide "
    "a mistake by being equal?",
    "Use 2 or more images and channels, and a height unlike the width. Then compare every patch with the slice of "
    "the picture that it should be, flattened.",
)
def _is_patchify(answer: Callable) -> str:
    rejected = sum(not _verdict(answer, function) for function in RIGHT)
    missed = [symptom for symptom, function in MUTANTS.items() if _verdict(answer, function)]
    if rejected or missed:
        count = f"It rejects {rejected} of {len(RIGHT)} right ones and lets {len(missed)} of {len(MUTANTS)} wrong "
        example = f"ones through, for example a patchify that {missed[0]}." if missed else "ones through."
        shape = " Does it look at the shape only?" if len(missed) == len(MUTANTS) else ""
        strict = " There is more than one right way to write patchify." if rejected else ""
        raise Wrong(count + example + shape + strict)
    return f"it accepts {len(RIGHT)} right implementations and sees through {len(MUTANTS)} wrong ones."


def _verdict(answer: Callable, function: Callable) -> bool:
    result = call(answer, function)
    if isinstance(result, Tensor) and result.ndim == 0:
        result = result.item()
    if not isinstance(result, (bool, np.bool_)):
        raise Wrong(f"Your function returns {described(result)}: True or False is wanted.")
    return bool(result)

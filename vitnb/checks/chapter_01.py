"""Exercises of chapter 1: counting, undoing, converting and testing patches."""

import random
from collections.abc import Callable
from numbers import Integral

import torch
from torch import Tensor, nn

from vitnb import clinic
from vitnb.checks.engine import Raised, Wrong, call, close, described, exercise, fresh, number
from vitnb.checks.kinds import build, compute, judge
from vitnb.clinic import cut
from vitnb.patches import patchify, unpatchify

COUNTS: dict[str, Callable[[int, int, int], int]] = {
    "That is the number of pixels in one patch (of one channel), not the number of patches.": lambda h, w, p: p * p,
    "That is one too many: the cls token comes later and is no patch.": lambda h, w, p: (h // p) * (w // p) + 1,
    "That is one row plus one column of patches, not all of them.": lambda h, w, p: h // p + w // p,
}
LOST = "the pixels that do not fit are lost without a word"
ROUNDED: dict[str, Callable[[int, int, int], int]] = {  # where a side cannot be cut
    f"rounding down means that {LOST}": lambda h, w, p: (h // p) * (w // p),
    "rounding up counts patches that the picture does not fill": lambda h, w, p: -(h // -p) * -(w // -p),
    "the areas fit, but each side must fit alone": lambda h, w, p: h * w // p**2,
}


@exercise(
    "1.1",
    "count_tokens(height, width, patch_size)",
    "How many patches stand side by side in one row, and how many rows are there? Try 28 x 28 with patches of 14 "
    "on paper.",
    "A side divides if side % patch_size is 0. Ask that of height and of width, each alone, before you count.",
    COUNTS | ROUNDED,
)
def _count(answer: Callable) -> str:
    for rows, cols, p in ((5, 3, 6), (2, 9, 5), (1, 6, 7), (14, 14, 16)):
        count = number(result := call(answer, *(size := (rows * p, cols * p, p))))
        if count != rows * cols:
            known = [message for message, rule in COUNTS.items() if count == rule(*size)]
            case = f"A picture of {rows * p} x {cols * p} pixels and patches of {p} x {p}: you count {count:g}."
            raise Wrong(f"{case} {(known or ['Draw the grid for a smaller picture and count.'])[0]}")
        if not isinstance(result, Integral):
            raise Wrong(f"You return {described(result)}: a count is a whole number. / gives a float, // does not.")
    # 6 x 8 pixels fill exactly three patches of 4 x 4, and cannot be cut into them.
    for size in ((30, 28, 4), (28, 30, 4), (6, 8, 4)):
        _refuses(answer, *size)
    return "4 sizes of pictures that can be cut, and 3 that cannot, which you refuse."


def _refuses(answer: Callable, height: int, width: int, p: int) -> None:
    case = f"A picture of {height} x {width} pixels cannot be cut into patches of {p} x {p}"
    try:
        count = number(call(answer, height, width, p))
    except Raised as raised:
        if isinstance(raised.error, ValueError):
            return
        raise Wrong(f"{case}: you raise {type(raised.error).__name__}, where a ValueError is wanted.") from None
    reasons = [message for message, rule in ROUNDED.items() if count == rule(height, width, p)]
    raise Wrong(f"{case}, yet you count {count:g} and raise no ValueError: {(reasons or [LOST])[0]}.")


def _sizes_apart(unpatchify: Callable) -> Callable:
    return lambda patches, p, H, W, C: unpatchify(patches, p, (H, W), C)


def _patches_to_put_back() -> list[tuple]:
    cases = []
    for C in (3, 1, 5):
        p, rows, cols = random.Random().sample(range(2, 7), 3)
        cases.append((patchify(fresh(2, C, rows * p, cols * p), p), p, rows * p, cols * p, C))
    return cases


def _sides_stay(result: object, images: Tensor, *_: object) -> None:
    if isinstance(result, Tensor) and result.shape == images.mT.shape:
        raise Wrong(f"Height and width are swapped: {tuple(result.shape)} for images {tuple(images.shape)}.")


def _first_wrong_pixel(result: Tensor, images: Tensor, patches: Tensor, p: int, H: int, W: int, C: int) -> str:
    b, c, row, col = (result != images).nonzero()[0].tolist()
    place = f"the first wrong pixel is image {b}, channel {c}, row {row}, column {col}"
    return f"Your picture is not the one that was cut: {place} (patches of {p} x {p}, {H // p} rows of {W // p})."


compute(
    "1.2",
    "my_unpatchify(patches, patch_size, height, width, channels)",
    "Go the way of patchify backwards. There the last reshape merged (rows, columns) and (C, p, p); start by taking "
    "these apart, to six axes.",
    "A reshape may only merge neighbours. So before the last one, permute until p stands next to the rows that it "
    "subdivides, and the other p next to the columns.",
    cases=_patches_to_put_back,
    reference=_sizes_apart(unpatchify),
    before=_sides_stay,
    mistakes={
        "Your picture holds the right pixels in the wrong order: its first row goes on with the second row of patch "
        "0, not with patch 1. That is what reshape() or view() does without permute().": (
            _sizes_apart(cut.back_by_reshape)
        ),
        "Your patches are put together column by column: patch 1 lies below patch 0, not right of it.": (
            _sizes_apart(cut.back_column_by_column)
        ),
        "The colours are mixed up: you read a patch vector with the channels last, (p, p, C).": (
            _sizes_apart(cut.back_channels_last)
        ),
        "Each patch lies in its place but transposed: its rows are your columns.": _sizes_apart(cut.back_transposed),
        "The last reshape merges axes that do not belong together: the rows of patches need the rows inside a patch "
        "next to them.": _sizes_apart(cut.back_merged),
    },
    otherwise=_first_wrong_pixel,
    right="exact on 3 pictures of random size, height unlike width, with 1, 3 and 5 channels.",
    tolerance=0,
)


def _is_a_cut(conv: nn.Conv2d, linear: nn.Linear, p: int, C: int) -> None:
    D = linear.out_features
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
    if conv.padding not in ((0, 0), "valid") or conv.dilation != (1, 1):
        raise Wrong(
            f"Your convolution has padding {conv.padding} and dilation {conv.dilation}: leave these as they are."
        )
    if conv.bias is None:
        raise Wrong(_bias("there is none"))


def _bias(fault: str) -> str:
    return f"The weights are right, the bias is forgotten: {fault}. A new Conv2d starts with a random one."


def _other_weights(conv: nn.Conv2d, tokens: Tensor, wanted: Tensor, linear: nn.Linear, *_: object) -> str:
    if close(conv.weight.flatten(1), linear.weight):
        return _bias("it is not that of linear")
    if close(conv.weight.flatten().sort().values, linear.weight.flatten().sort().values):
        return "Your filters hold the right numbers in the wrong order."
    off = (tokens - wanted).abs().max().item()
    return f"Your tokens are off by up to {off:.2g}: the filters are unlike those of linear. Are they new, random ones?"


build(
    "1.3",
    "linear_to_conv(linear, patch_size, in_chans)",
    "One row of linear.weight is the filter for one feature. Which shape does a filter of nn.Conv2d have, and in "
    "which order did patchify flatten (C, p, p)?",
    "A new Conv2d brings random numbers: copy both of its parameters, inside torch.no_grad(). Print "
    "conv.weight.shape and linear.weight.shape first.",
    kind=nn.Conv2d,
    wanted="an nn.Conv2d",
    cases=lambda: (
        ((nn.Linear(C * p * p, D), p, C), (fresh(2, C, 2 * p, 3 * p),))
        for C, p, D in ((3, 4, 7), (1, 5, 6), (2, 3, 11))
    ),
    make=lambda conv, linear, p, C: nn.Conv2d(C, linear.out_features, p, p),
    reference=lambda linear, p, C: lambda images: linear(patchify(images, p)).mT.unflatten(2, (2, 3)),
    before=_is_a_cut,
    mistakes={
        "Your filters read the patch vector with the channels last, (p, p, C).": cut.filters_channels_last,
        "Your filters are transposed: their rows are columns.": cut.filters_transposed,
    },
    otherwise=_other_weights,
    right="the same tokens to 1e-5 for 3 linear layers, on pictures with height unlike width.",
    tolerance=1e-5,
)


def _by_permute(images: Tensor, p: int) -> Tensor:
    B, C, H, W = images.shape
    return images.reshape(B, C, H // p, p, W // p, p).permute(0, 2, 4, 1, 3, 5).reshape(B, -1, C * p * p)


def _by_loop(images: Tensor, p: int) -> Tensor:
    H, W = images.shape[2:]
    cuts = [images[:, :, r : r + p, c : c + p].flatten(1) for r in range(0, H, p) for c in range(0, W, p)]
    return torch.stack(cuts, dim=1)


def _by_unfold(images: Tensor, p: int) -> Tensor:
    return images.unfold(2, p, p).unfold(3, p, p).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


def _more(rejected: list[str], missed: list[str]) -> str:
    shape = "Does it look at the shape only? " if len(missed) == len(clinic.of(patchify)) else ""
    return shape + ("There is more than one right way to write patchify." if rejected else "")


judge(
    "1.4",
    "is_patchify(function)",
    "Make a picture in which every pixel has its own value, so that each can be found again. Which sizes would hide "
    "a mistake by being equal?",
    "Use 2 or more images and channels, and a height unlike the width. Then compare every patch with the slice of "
    "the picture that it should be, flattened.",
    right={"with permute": _by_permute, "with a loop": _by_loop, "with unfold": _by_unfold},
    wrong=clinic.of(patchify),
    one="a patchify that",
    more=_more,
    accepted="it accepts {right} right implementations and sees through {wrong} wrong ones.",
)

"""Is a Vision Transformer right? An examination from outside: no source, no names, no training.

    report = examine(lambda: MyViT(img_size=32, patch_size=4, num_classes=10), image=(3, 32, 32), num_classes=10)
    print(report)

The rule that draws the line between three levels:

- **breaks**: a property that every ViT has does not hold, or a part cannot do what it is there for. The
  logits of an image depend on that image, on all its pixels, on row and column of each patch, and on
  nothing else; a token holds one rectangle; each query's weights sum to 1 over the tokens of its own
  image, from scores q·k/√d that compare tokens; rows of heads come from one token; x + f(norm(x)) or
  norm(x + f(x)) in both halves alike, each layer used for one input; rotary and relative positions
  depend on the offset of patches, and tell offsets apart; the classifier reads the cls token or pools
  the patches and returns logits; what is trained is registered, gets gradients (within four steps of a
  copy from where it begins), moves along, and units of a layer do not begin alike; in training mode the
  model runs, keeps most of each branch and all of what skips, and leaves nothing behind.
- **departs**: another choice than the paper's, with which ViTs are known to work: post-norm, ReLU, no
  last norm, no output projection, two linear layers in a row, parallel branches, whole layers that are
  called again and have one name, heads mixed after the softmax or several softmaxes added, a scale that
  the initial queries have; and what is no plain ViT: where tokens are mixed before attention they are
  no patches, so patches, positions and read-out are not examined.
- **note**: worth knowing, and neither.

Four kinds are in dispute, because models work with them: the scale by the full width, a norm shared
by both halves, normalise-then-add (and the norm on the skip), a missing last norm. The first three
break here (a wide count), as the code does not do what the paper's equations say; Finding.strict
is False for them, so that a strict count leaves them out. The last departs.
"""

import sys
from collections.abc import Callable, Collection
from types import ModuleType

from torch import nn

from vitnb._validate import shown
from vitnb.examine import _inside, _outside
from vitnb.examine._exam import Exam, undisturbed, unwrapped
from vitnb.examine._findings import KINDS, Finding, Report, finding, in_order, told
from vitnb.examine._structure import UnrecognisedError

__all__ = ["Finding", "Report", "examine"]

LARGEST = 100_000_000  # parameters
OUTSIDE = {
    "classes": _outside.classes,
    "channels": _outside.channels,
    "eval mode": _outside.eval_mode,
    "whether the image matters": _outside.blind,
    "neighbours in the batch": _outside.batch,
    "training mode": _outside.training,
    "pixels": _outside.pixels,
    "kind of outputs": _outside.outputs,
    "first loss": _outside.first_loss,
    "gradients of parameters": _outside.gradients,
    "registry": _outside.registry,
    "another device": _outside.device,
}
INSIDE = {
    "patches": _inside.cut,
    "positions": _inside.positions,
    "norms and residual branches": _inside.wiring,
    "attention": _inside.attention,
    "shared layers": _inside.shared,
    "read-out": _inside.read_out,
}
NEED_BUILDER = {"channels", "first loss"}


def examine(
    build: Callable[..., nn.Module] | nn.Module,
    image: tuple[int, int, int] = (3, 32, 32),
    num_classes: int = 10,
    allow: Collection[str] = (),
) -> Report:
    """Examine a ViT as a black box, in seconds on one core; the model is copied and comes back as it was.

    build: a function that returns a new small model (two blocks have the same bugs as twelve); if it
    has arguments in_chans and num_classes, these are varied too. A model itself is taken as well.
    image: (C, H, W) of its images. allow: codes of findings that are so by design.

    Raises: ValueError or TypeError for arguments that are none of these.
    """
    _check(build, image, num_classes, allow)
    with undisturbed():
        return _examined(build, image, num_classes, allow)


def _check(build: object, image: object, num_classes: object, allow: object) -> None:
    if not callable(build):
        raise TypeError(
            f"build must be a function that returns a model, or a model, got {shown(build)}: use lambda: MyViT()"
        )
    sides = image if isinstance(image, tuple | list) else ()
    if len(sides) != 3 or not all(isinstance(side, int) and side > 0 for side in sides):
        works = tuple(getattr(image, "shape", ()))[-3:]  # a batch of them was given
        works = works if len(works) == 3 and all(works) else (3, 32, 32)
        raise ValueError(f"image must be (channels, height, width), got {shown(image)}: use {works}, for example")
    if not isinstance(num_classes, int) or isinstance(num_classes, bool) or num_classes < 1:
        raise ValueError(f"num_classes must be at least 1, got {shown(num_classes)}: use 10, for example")
    if not isinstance(allow, tuple | list | set | frozenset) or not set(allow) <= set(KINDS):
        raise ValueError(f"allow must hold codes of findings, got {shown(allow)}: use ('scale',), for example")


def _examined(build: Callable | nn.Module, image: tuple, num_classes: int, allow: Collection[str]) -> Report:
    if isinstance(build, nn.Module) and _size(build) > LARGEST:
        return Report((finding("too large", f"The model has {_size(build) / 1e6:.0f} million parameters."),))
    try:
        exam = Exam(build, tuple(image), num_classes)
    except Exception as error:  # whatever the model raises is told
        return Report((finding("runs", f"Building or copying it ends in {told(error)}"),))
    findings, skipped = list(_outside.runs(exam)), {}
    exam.codes |= {found.code for found in findings}
    tests = ([*OUTSIDE.items()] if exam.sizes else []) + ([*INSIDE.items()] if 1 in exam.sizes else [])
    for name, test in tests:
        try:
            why = _why_not(exam, name)
            found = [] if why else list(test(exam))
        except UnrecognisedError as error:
            why, found = str(error), []
        except Exception as error:  # a model of a form that a test does not know is no finding
            why, found = told(error), []
        exam.codes |= {f.code for f in found}
        findings += found
        if why:
            skipped[name] = why
    return Report(
        in_order([found for found in findings if found.code not in allow]),
        skipped,
        1 + len(tests) - len(skipped),
        tuple(allow),
    )


def _why_not(exam: Exam, name: str) -> str | None:
    if name in INSIDE and "random" in exam.codes:
        return "what is random cannot be compared"
    if name in NEED_BUILDER and not exam.can_build:
        return "a model was given, not a function that builds one"
    if name == "channels" and not exam.accepts("in_chans"):
        return "build has no argument in_chans"
    return None


def _size(model: nn.Module) -> int:
    return sum(p.numel() for p in unwrapped(model).parameters())


class _Called(ModuleType):
    """`from vitnb import examine` gives this module, and examine(build) is the function."""

    __call__ = staticmethod(examine)


sys.modules[__name__].__class__ = _Called

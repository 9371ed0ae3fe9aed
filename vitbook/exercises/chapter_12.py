"""Exercises of chapter 12, the bug clinic: tests for one fault, a training, hidden faults, and all faults."""

import inspect
import warnings
from collections.abc import Callable, Generator
from dataclasses import replace
from itertools import combinations
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_pre_hook

from vitbook import faults
from vitbook.exercises.chapter_05 import large_eps
from vitbook.exercises.declaration import Exercise, Judgement, NotDone, Raised, Results, Watch, Wrong
from vitbook.exercises.forms import hunt, unreached
from vitbook.exercises.values import (
    apart,
    chance,
    close,
    counted,
    described,
    expected,
    fresh,
    frozen,
    parts,
    perturbed,
    raised_by,
    shared,
    yes_or_no,
)
from vitbook.faults._build import PLACES
from vitbook.faults._published import PUBLISHED, REPORTS, SHOWN, numbers_of
from vitbook.faults.train import accuracy, compare, learn, step
from vitnb.vit import ViT, ViTConfig

# What models are tried on: {how a verdict names it: config}. No head alone: it hides what goes wrong between heads.
SMALL = ViTConfig(img_size=(12, 20), patch_size=4, in_chans=2, num_classes=7, embed_dim=24, depth=2, num_heads=3)
LARGER = replace(SMALL, img_size=(16, 8), in_chans=3, num_classes=5, embed_dim=32, num_heads=4)
SQUARE = replace(SMALL, img_size=12, in_chans=1, num_classes=10, embed_dim=16, num_heads=2)
SIZES = {
    "images of 12 x 20 pixels with 2 channels, a width of 24 and 3 heads": SMALL,
    "images of 16 x 8 pixels with 3 channels, a width of 32 and 4 heads": LARGER,
    "images of 12 x 12 pixels with 1 channel, a width of 16 and 2 heads": SQUARE,
}
FORMS = {
    "post-norm blocks": replace(SMALL, norm="post"),
    "mean pooling": replace(SMALL, global_pool="mean"),
    "dropout": replace(SMALL, dropout=0.1, attn_dropout=0.1),
}
ALL_FORMS = FORMS | {
    "attention pooling": replace(SMALL, global_pool="attn"),
    "sine and cosine positions": replace(SMALL, pos_embed="sincos"),
    "no positions and mean pooling": replace(SMALL, pos_embed="none", global_pool="mean"),
}

# The right models of 12.4: all have a cls token and learned positions, which a test there may be about.
ROUND = SIZES | {
    "post-norm blocks": FORMS["post-norm blocks"],
    "dropout": FORMS["dropout"],
    "qkv_bias=False": replace(SMALL, qkv_bias=False),
}

# What to ask oneself when a right model of some form is refused.
STRICT = {
    "dropout": "Two calls of it agree only in eval mode.",
    "qkv_bias=False": "Its qkv.bias is None.",
    "post-norm blocks": 'What you ask for must hold wherever the norms stand. A config says norm="pre" or "post", and '
    "a right model keeps what it says.",
    "mean pooling": "Not every model has a cls token.",
    "attention pooling": "Not every model has a cls token.",
    "sine and cosine positions": "Not every table of positions is learned.",
    "no positions and mean pooling": "Not every model has positions, or a cls token.",
} | dict.fromkeys(SIZES, "Does your test take a size for granted, or leave no room for rounding?")

WRITTEN_IN = "sizes written in? Take them from model.config and model.patch_embed.img_size."
MISSING = "If a part that you rely on is missing there, that is a reason to say False."


class Asked(Watch):
    """A model that a test is asked about: what the test says, and, as a watch, which modules it calls."""

    def __init__(self, group: str, name: str, model: nn.Module):
        self.group, self.name, self.model = group, name, model
        self.calls: list[bool] = []  # for each call of a module: is it a whole model, with gradients?
        self.said: bool | Wrong = True

    def __enter__(self) -> "Asked":
        def note(module: nn.Module, _: Any) -> None:
            self.calls.append(isinstance(module, ViT) and torch.is_grad_enabled())

        self.hook = register_module_forward_pre_hook(note)
        return self

    def __exit__(self, *error: Any) -> None:
        self.hook.remove()

    def note(self, result: Any) -> None:
        """Keep a test's verdict, or what is wrong with it."""
        try:
            self.said = self._as_a_verdict(result) if isinstance(result, Wrong) else yes_or_no(result)
        except Wrong as wrong:
            self.said = wrong

    def _as_a_verdict(self, wrong: Wrong) -> bool | Wrong:
        """An error from inside a wrong model is a verdict, too."""
        if not isinstance(wrong, Raised):
            return wrong
        if self.group == "right":
            of_sizes = isinstance(wrong.error, RuntimeError | ValueError | IndexError | AssertionError)
            cause = f" Does it have {WRITTEN_IN}" if of_sizes else ""
            return Raised(f"On a right model ({self.name}): {wrong}{cause}", wrong.error)
        if _raised_inside(self.model, wrong.error):
            return False
        return Wrong(f"On the faulty model, and not from inside of it ({self.name}): {wrong} {MISSING}")


class Trial:
    """What a reader's test says of right models and of wrong ones, and how it goes about it.

    Others have a fault that the test is not about: errors there count for nothing.
    """

    def __init__(self, **groups: dict[str, nn.Module]):
        self.asked = [Asked(group, name, model) for group, models in groups.items() for name, model in models.items()]

    def in_any_order(self) -> list[Asked]:
        """A random order, so that counting the calls tells nothing."""
        return chance().sample(self.asked, len(self.asked))

    def of(self, group: str) -> list[Asked]:
        return [one for one in self.asked if one.group == group]

    @property
    def refused(self) -> list[str]:
        return [one.name for one in self.of("right") if not one.said]

    @property
    def missed(self) -> list[str]:
        return [one.name for one in self.of("wrong") if one.said]

    @property
    def never(self) -> bool:
        return len(self.refused) == len(self.of("right")) and not self.missed

    @property
    def always(self) -> bool:
        return len(self.missed) == len(self.of("wrong")) and not self.refused

    def ran(self) -> bool:
        """Whether it calls some part of a model."""
        return any(one.calls for one in self.asked)

    def trained(self) -> bool:
        return max(sum(one.calls) for one in self.asked) > 8


def _too_weak_or_strong(trial: Trial, silent: bool) -> str:
    """What is wrong with a test, or nothing; silent is a fault that no name, shape or count shows.

    Raises: Wrong for an error of the test, or what is neither True nor False.
    """
    for one in trial.asked:
        if one.group != "other" and isinstance(one.said, Wrong):
            raise one.said
    if silent and not trial.ran():
        said = f"says {trial.always} for every model" if trial.never or trial.always else "tells models by their look"
        return (
            f"It {said}, and never runs one, nor any part of it. Names, shapes and counts of the faulty model are "
            "those of a right one: let it compute something."
        )
    return _on_the_whole(trial, silent) or _in_some_configs(trial)


def _on_the_whole(trial: Trial, silent: bool) -> str:
    right, wrong = len(trial.of("right")), len(trial.of("wrong"))
    if trial.never:
        return (
            "It says False for every right model as well: too strong. Try it on a ViT of the package first. Does it "
            f"have {WRITTEN_IN} Does it leave room for rounding?"
        )
    if len(trial.refused) == right and len(trial.missed) == wrong:
        return "It says False for right models and True for the faulty one: the wrong way round. True means right."
    if trial.missed and trial.trained():
        return (
            f"It trains the models, and then lets the faulty one through in {len(trial.missed)} of {wrong} configs: "
            "too weak. A short training tells little: a faulty model may learn like a right one, and a right one may "
            "still be where guessing would be. Look for a property that holds before the first step."
        )
    if trial.always:
        return (
            f"It says True for all {right + wrong} models, the faulty ones too: too weak. The shape of their logits "
            "is right. Which numbers must come out, or stay as they are, when you change what goes in?"
            + ("" if silent else " And what must a model consist of?")
        )
    return ""


def _in_some_configs(trial: Trial) -> str:
    right, wrong = len(trial.of("right")), len(trial.of("wrong"))
    if trial.refused:
        which = trial.refused[0]
        also = " And in some configs it lets the faulty one through." if trial.missed else ""
        return (
            f"It refuses {len(trial.refused)} of {right} right models, for example one with {which}: too strong. "
            f"{STRICT[which]}{also}"
        )
    if trial.missed:
        return (
            f"It accepts all right models, and lets the faulty one through in {len(trial.missed)} of {wrong} configs, "
            f"for example with {trial.missed[0]}: too weak. Is it luck, or does the size hide something?"
        )
    return ""


def _raised_inside(model: nn.Module, error: BaseException) -> bool:
    """Whether an error comes from a part of a model whose code is the book's."""
    ours = [part for part in model.modules() if part.__module__.startswith(("vitnb.", "vitbook."))]
    return any(raised_by(error, part) for part in ours)


def _shown() -> list[tuple[Asked, Trial]]:
    configs = SIZES | FORMS
    trial = Trial(
        right={name: ViT(config) for name, config in configs.items()},
        wrong={name: faults.build(SHOWN, config) for name, config in configs.items()},
    )
    return [(one, trial) for one in trial.in_any_order()]


def _not_there_yet(results: Results) -> str | None:
    ((_, trial), _), *_ = results
    reason = _too_weak_or_strong(trial, silent=True)
    return f"Your test is not there yet. {reason}" if reason else None


Exercise(
    "12.1",
    "my_test(model)",
    "Training cannot tell this model from a right one, and neither can shapes. So take one layer out of it, give "
    "it tokens of your own, and change them in a way whose effect you know beforehand.",
    "Attention treats its tokens as a set: when they change places, what do the outputs do? Or compare with a layer of "
    "torch that has the same weights. Work on a copy of the model, and leave room for rounding.",
    cases=_shown,
    judge=lambda result, one, trial: one.note(result),
    overall=_not_there_yet,
    given=lambda one, trial: (one.model,),
    watch=lambda one, trial: one,
    errors=True,
    right=f"it accepts {len(SIZES | FORMS)} right models and refuses the faulty one in as many configs.",
    work=3.0,
    runs="inside",
)


# 12.2 and 12.6: faults of training.


def _quietly(function: Callable) -> Callable:
    """The function without the warning of torch that its scheduler comes too early."""

    def quiet(*args: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args)

    return quiet


def _cleared_first(model: nn.Module, optimizer: Any, scheduler: Any, images: Tensor, labels: Tensor) -> float:
    """A right step that clears before the forward pass, and to zeros."""
    optimizer.zero_grad(set_to_none=False)
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    scheduler.step()
    return loss.item()


def _cleared_last(model: nn.Module, optimizer: Any, scheduler: Any, images: Tensor, labels: Tensor) -> Tensor:
    """A right step that leaves nothing behind for the next one."""
    loss = -model(images).log_softmax(1)[torch.arange(len(labels)), labels].mean()
    loss.backward()
    optimizer.step()
    scheduler.step()
    model.zero_grad()
    return loss.detach()


def _summed_loss(model: nn.Module, optimizer: Any, scheduler: Any, images: Tensor, labels: Tensor) -> Tensor:
    return step(model, optimizer, scheduler, images, labels) * len(labels)


def _no_loss(model: nn.Module, optimizer: Any, scheduler: Any, images: Tensor, labels: Tensor) -> Tensor:
    return 0 * step(model, optimizer, scheduler, images, labels)


WRONG_STEPS = faults.of(step) | {
    "returns the sum of the losses, and steps by their mean": _summed_loss,
    "returns 0 for every loss": _no_loss,
}
CLEARED_LAST = "one that clears the gradients when it is done"


def _about(wrong: dict[str, Callable], own: str, strict: Callable[[list[str]], str], blind: str, left: str) -> Callable:
    """What a verdict adds on a test that is not right yet.

    own names the right version that the book itself uses; strict says what a right one may do that the test refuses;
    blind and left are for a test that lets all wrong versions through, and some of them.
    """

    def more(rejected: list[str], missed: list[str]) -> str:
        if len(rejected) == 3:
            return "Does it ever say True?" if not missed else f"{own} is rejected, too."
        if rejected:
            return strict(rejected)
        return blind if len(missed) == len(wrong) else left

    return more


def _missed_steps(rejected: list[str], missed: list[str]) -> str:
    of_weights = set(faults.of(step))
    if missed and not rejected and not set(missed) & of_weights:
        return "The weights are looked at. And the loss that a step returns?"
    return _ABOUT_STEPS(rejected, list(WRONG_STEPS) if of_weights <= set(missed) else missed)


def _may_clear(rejected: list[str]) -> str:
    if rejected == [CLEARED_LAST]:
        return "A right step may also clear the gradients when it is done: start without any."
    return "A right step may clear the gradients at its beginning, in its middle or at its end."


_ABOUT_STEPS = _about(
    WRONG_STEPS,
    "The step of the book",
    _may_clear,
    "Does it look at the loss alone? Look at where the weights are after a few steps.",
    "Which weights should there be after one step, after two, after three? You can compute them.",
)


hunt(
    "12.2",
    "my_step_test(step)",
    "Make a model so small that you can do its training yourself: one linear layer, plain gradient descent, and a "
    "learning rate that changes after each step. Where should its weights be after three steps?",
    "Do the same steps on a copy, by torch.autograd.grad and one subtraction for each parameter. The learning rate of "
    "each step is the one from before the scheduler moves on. One step is not enough: what a step leaves behind shows "
    "in the next.",
    right={
        "one that clears the gradients before it computes new ones": step,
        "one that clears them first of all, to zeros": _cleared_first,
        CLEARED_LAST: _cleared_last,
    },
    wrong=WRONG_STEPS,
    nouns=("right steps", "wrong ones"),
    one="a step that",
    handed=_quietly,
    more=_missed_steps,
    accepted="it accepts {right} right steps and sees through {wrong} wrong ones.",
)


def _in_turns(models: list[nn.Module], train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]) -> list[float]:
    """A right comparison, epoch by epoch, with a look at the test images after each."""
    for _ in range(3):
        for model in models:
            learn(model.train(), train, epochs=1)
        accuracies = [accuracy(model.eval(), test) for model in models]
    return accuracies


def _mixed(models: list[nn.Module], train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]) -> list[float]:
    """A right comparison that mixes the images, in larger batches, and tests one image at a time."""
    order = torch.randperm(len(train[1]))
    found = []
    for model in models:
        learn(model.train(), (train[0][order], train[1][order]), epochs=3, batch_size=6)
        model.eval()
        single = zip(*(part.split(1) for part in test), strict=True)
        found.append(sum(accuracy(model, one) for one in single) / len(test[1]))
    return found


hunt(
    "12.6",
    "my_audit(experiment)",
    "You choose the models and the images. So let a model write down, at each call, what it gets and whether it is in "
    "train mode, and give it training and test images that cannot be confused.",
    "Three questions to your notes: in which mode did the test images come, in which the training images, and did both "
    "models learn from equally many? Do not ask for a certain number of batches or epochs.",
    right={"the book's": compare, "in turns": _in_turns, "mixed": _mixed},
    wrong=faults.of(compare),
    nouns=("right comparisons", "wrong ones"),
    one="one that",
    more=_about(
        faults.of(compare),
        "The book's own comparison",
        lambda rejected: "A right comparison may mix the images, take other batches, and test as often as it likes.",
        "The accuracies alone tell little. Hand over models that write down what they are shown, and when.",
        "Of every call, write down the mode that your models were in and which images came. What must hold?",
    ),
    accepted="it accepts {right} right comparisons and sees through {wrong} wrong ones.",
)


# 12.3: fix a block.


def _attended(block: nn.Module, x: Tensor, scale: bool, merge: bool) -> Tensor:
    """The attention of MyBlock, with those of its two faults that are not fixed."""
    B, T, D = x.shape
    q, k, v = block.qkv(x).reshape(B, T, 3, block.num_heads, -1).permute(2, 0, 3, 1, 4)  # (B, h, T, d)
    x = (q @ k.mT / (q.shape[-1] if scale else D) ** 0.5).softmax(-1) @ v
    return block.proj((x.transpose(1, 2) if merge else x).reshape(B, T, D))


def _partly_fixed(block: nn.Module, x: Tensor, scale: bool = True, merge: bool = True, stream: bool = True) -> Tensor:
    """MyBlock with some of its three faults fixed."""
    normed = block.norm1(x)
    x = (x if stream else normed) + _attended(block, normed, scale, merge)
    return x + block.fc2(F.gelu(block.fc1(block.norm2(x))))


LOOK = {
    "stream": "Silence both branches (set the last layer of each to zero): is the input what comes out?",
    "merge": "Let two tokens change places: do their outputs change places, and nothing else?",
    "scale": "How large are the scores of attention for random queries and keys, with 2 heads and with 12 of the same "
    "width?",
}
FIXED = {  # {how many faults are left: what is said of that}
    3: "All three faults are still there.",
    2: "One fault is fixed, two are left.",
    1: "Two faults are fixed, one is left.",
}
LAYERS = ("norm1", "qkv", "proj", "norm2", "fc1", "fc2")
SIZES_OF_BLOCKS = ((24, 3, (3, 7)), (20, 5, (2, 5)), (8, 2, (1, 4)))


def _fixed(block: Any, D: int, h: int, x: Tensor) -> Judgement:
    if not isinstance(block, nn.Module):
        return expected(f"an nn.Module from MyBlock({D}, {h})", block)
    if message := _other_parts(block):
        return message
    reference = _reference(perturbed(block), D, h)
    result = yield block.eval().forward, x
    if not isinstance(result, Tensor) or result.shape != x.shape:
        return f"From tokens of shape {tuple(x.shape)} your block makes {described(result)}."
    with torch.no_grad():
        if not close(result, right := reference(x), 1e-4):
            return _what_is_left(block, x, result, right)
    return unreached(result, block, LAYERS)


Exercise(
    "12.3",
    "MyBlock(embed_dim, num_heads)",
    "Do not read the lines first, ask the block. Three properties of a right one: silent branches leave the tokens as "
    "they are, tokens that change places only change places, and attention is that of torch with the same weights.",
    "Find out which half a fault stands in: replace the half by one that is right and look whether the property holds. "
    "A head has fewer features than a token, and a token's heads should end up side by side.",
    cases=lambda: [(D, h, fresh(B, T, D)) for D, h, (B, T) in SIZES_OF_BLOCKS],
    judge=_fixed,
    given=lambda D, h, x: (D, h),
    right=f"equal to nn.TransformerEncoderLayer with the same weights, for {len(SIZES_OF_BLOCKS)} widths and numbers "
    "of heads.",
    runs="inside",
)


def _other_parts(block: nn.Module) -> str | None:
    """What is wrong unless a block has the layers that it came with, and no more."""
    for name in LAYERS:
        if not isinstance(getattr(block, name, None), nn.Module):
            return f"Your block has no layer {name}: keep the names of its layers, their weights are copied."
    if odd := [name for name in block.state_dict() if name.split(".")[0] not in LAYERS]:
        return f"Your block has {odd[0]}, which was not there: no new parameters are needed to fix it."
    norms = [(name, getattr(block, name)) for name in ("norm1", "norm2")]
    eps = (large_eps(name, norm) for name, norm in norms if hasattr(norm, "eps"))
    return frozen(block) or shared(block) or next(filter(None, eps), None)


def _reference(block: nn.Module, D: int, h: int) -> nn.Module:
    """Torch's own pre-norm block with the weights of another.

    Raises: Wrong if a layer is of another size.
    """
    layer = nn.TransformerEncoderLayer(D, h, 4 * D, 0.0, "gelu", norm_first=True, batch_first=True).eval()
    layer.norm1.eps, layer.norm2.eps = getattr(block.norm1, "eps", 1e-5), getattr(block.norm2, "eps", 1e-5)
    theirs = (layer.norm1, layer.self_attn.out_proj, layer.norm2, layer.linear1, layer.linear2)
    try:
        for name, part in zip(("norm1", "proj", "norm2", "fc1", "fc2"), theirs, strict=True):
            part.load_state_dict(getattr(block, name).state_dict())
        with torch.no_grad():
            layer.self_attn.in_proj_weight.copy_(block.qkv.weight)
            layer.self_attn.in_proj_bias.copy_(block.qkv.bias)
    except (RuntimeError, AttributeError, TypeError):
        shapes = ", ".join(f"{name} {tuple(value.shape)}" for name, value in block.state_dict().items())
        raise Wrong(f"The layers of your block are not those that it came with: {shapes}.") from None
    return layer


def _what_is_left(block: nn.Module, x: Tensor, result: Tensor, right: Tensor) -> str:
    for left in (left for n in FIXED for left in combinations(LOOK, n)):
        try:
            known = close(result, _partly_fixed(block, x, **{name: name not in left for name in LOOK}), 1e-4)
        except Exception:  # the block may have lost what this computation needs
            known = False
        if known:
            return f"{FIXED[len(left)]} {LOOK[left[0]]}"
    return (
        f"Your block is {apart(result, right)} from torch's pre-norm block with the same weights, and in a way that "
        "its three faults do not explain: did a change bring a new one? Fix one fault at a time, and run the three "
        "properties after each."
    )


# 12.4: hidden faults.

NOT_YET = "not done yet."
ELSEWHERE = ("reshape alone", "unused positions", "undivided", "with relu", "softmax inside")  # with all parameters


def _elsewhere(fault: str) -> list[str]:
    """At most four faults that can stand in no family of this one."""
    own = set(REPORTS[fault].families)
    return [other for other in ELSEWHERE if own.isdisjoint(REPORTS[other].families)]


def _silent(fault: str) -> bool:
    """Whether names, shapes and number of the parameters are those of a right model."""
    right, wrong = (
        [(name, p.shape, p.requires_grad) for name, p in model.named_parameters()]
        for model in (ViT(SMALL), faults.build(fault, SMALL))
    )
    return right == wrong


def _round(found: Any) -> Judgement:
    who, findings = parts(found, 2, "a pair (name or numbers, list of findings)")
    try:
        numbers = numbers_of(who)
    except (TypeError, ValueError) as error:
        return f"There are no models for {described(who)}: {error}."
    if not isinstance(findings, (list, tuple)) or len(findings) != len(numbers):
        of = f" of {len(findings)}" if isinstance(findings, (list, tuple)) else ""
        return (
            f"There are {len(numbers)} models ({', '.join(map(str, numbers))}), and your findings are "
            f"{described(findings)}{of}: expected a list of as many findings (family, test), with ... for a model that "
            "you have not done yet."
        )
    said = []
    for finding, number in zip(findings, numbers, strict=True):
        said.append((yield from _said_of(finding, PUBLISHED[number - 1])))
    if set(said) == {NOT_YET}:
        raise NotDone
    return f"Done: {said.count('')} of {len(numbers)}.\n{_line_by_line(numbers, said)}" if any(said) else None


def _line_by_line(numbers: list[int], said: list[str]) -> str:
    return "\n".join(f"Model {number}: {reason or 'right.'}" for number, reason in zip(numbers, said, strict=True))


def _all_found(results: Results) -> str:
    [(_, (who, _))] = results
    numbers = numbers_of(who)
    lines = _line_by_line(numbers, [""] * len(numbers))
    return f"each fault in its family, and each faulty model told from right ones in 3 configs.\n{lines}"


Exercise(
    "12.4",
    "my_round()",
    "Begin with what each author says, and with the tests of this chapter that you trust: which of them does the model "
    "fail? Then narrow it down: the model, one block, one layer.",
    "Try your test on right models of other widths and images, post-norm among them, and make all weights random "
    "first, since gains of 1 and biases of 0 hide faults.",
    cases=lambda: [()],
    judge=_round,
    right=_all_found,
    work=6.0,
    runs="inside",
)


def _said_of(finding: Any, fault: str) -> Generator[tuple, Any, str]:
    """What is wrong with a finding, or nothing. It may have a third part, a fix, which is not judged."""
    pair = finding[:2] if isinstance(finding, (list, tuple)) else [finding]
    if any(part is ... or part is None for part in pair):
        return NOT_YET
    if len(pair) < 2 or len(finding) > 3 or not callable(pair[1]):
        return f"expected this finding to be (family, test), and the test a function, got {described(finding)}."
    family, test = pair
    if not isinstance(family, str) or family not in faults.FAMILIES:
        families = ", ".join(faults.FAMILIES[:-1])
        return f"{described(family)} is no family: the five of a model are {families}."
    try:
        reason = yield from _not_seen(fault, test)
    except NotDone:
        return NOT_YET
    except Wrong as wrong:
        return str(wrong)
    if reason:
        return f"{reason} Its family is looked at when the test is right."
    if family not in REPORTS[fault].families:
        return (
            f"your test tells it from right models, but its fault does not stand in {family!r}. Put one part of a "
            "right model after the other into it: with which of them is your test content?"
        )
    return ""


def _not_seen(fault: str, test: Callable) -> Generator[tuple, Any, str]:
    """What is wrong with a reader's test of one fault, or nothing."""
    trial = Trial(
        right={name: ViT(config) for name, config in ROUND.items()},
        wrong={name: faults.build(fault, config) for name, config in SIZES.items()},
        other={other: faults.build(other, SMALL) for other in _elsewhere(fault)},
    )
    for one in trial.in_any_order():
        try:
            with one:
                one.note((yield test, one.model))
        except Wrong as wrong:
            one.note(wrong)
    reason, others = _too_weak_or_strong(trial, _silent(fault)), trial.of("other")
    if not reason and all(one.said is False for one in others):
        return (
            f"It tells the faulty model from right ones, and refuses {len(others)} of {len(others)} models with faults "
            "of other families as well: too broad. It says that something is wrong, not what. Test the part in which "
            "you suspect the fault."
        )
    return reason


# 12.5: six tests for all faults.

MOST = 6
IN_A_MODEL = tuple(name for name, fault in faults.FAULTS.items() if fault.replaces is ViT or fault.replaces in PLACES)


def _six(result: Any, survivors: list[str]) -> Judgement:
    """Note the faults that get through, and say what is wrong."""
    tests = _as_tests(result)
    if alarm := (yield from _false_alarm(tests)):
        return alarm
    broken, useful = {}, set()
    for fault in chance().sample(IN_A_MODEL, len(IN_A_MODEL)):
        seen_by = yield from _first_that_sees(fault, tests, broken)
        if seen_by is None:
            survivors.append(fault)
        useful.add(seen_by)
    return _published_missed(tests, survivors, broken, useful)


def _first_that_sees(fault: str, tests: list[Callable], broken: dict) -> Generator[tuple, Any, int | None]:
    """The number of the first test that refuses a model with this fault; broken gets errors of the tests' own."""
    model = faults.build(fault, (SMALL, LARGER)[IN_A_MODEL.index(fault) % 2])  # not drawn: no verdict is luck
    for i, test in enumerate(tests):
        try:
            caught = not yes_or_no((yield test, model))
        except Raised as raised:
            caught = _raised_inside(model, raised.error)
            if not caught:
                broken.setdefault(fault, (i, raised))
        except Wrong as wrong:
            raise Wrong(f"{_named(tests, i)}: {wrong}") from None
        if caught:
            return i
    return None


def _published_missed(tests: list[Callable], survivors: list[str], broken: dict, useful: set) -> str | None:
    missed = sorted(fault for fault in faults.PUBLISHED if fault in survivors)
    if not missed:
        return None
    caught = f"{len(IN_A_MODEL) - len(survivors)} of {len(IN_A_MODEL)} faults"
    idle = [i for i in range(len(tests)) if i not in useful]
    return (
        f"No right model is refused, and you catch {caught}. You miss {len(missed)} of the {len(faults.PUBLISHED)} "
        f"published ones: {_two(missed)}{', for example' if len(missed) > 2 else ''}.{_breaks(tests, broken, missed)}"
        + (f" {_named(tests, idle[0])} catches nothing that those before it let through." if idle else "")
    )


def _all_caught(results: Results) -> str:
    [((survivors,), tests)] = results
    left = f" What gets through: {_two(sorted(survivors))}." if survivors else ""
    return (
        f"{counted(len(tests), 'test')} catch {len(IN_A_MODEL) - len(survivors)} of {len(IN_A_MODEL)} faults, all "
        f"{len(faults.PUBLISHED)} published ones among them.{left}"
    )


Exercise(
    "12.5",
    "my_tests()",
    "Sort the faults by what a test must look at: what a block computes, how patches are cut, what is read at the end, "
    "whether order counts, what the logits are, and which parameters there are and learn.",
    "A block that equals torch's own, with random weights, sees most of them at once. For what is left ask: is a part "
    "missing or too much, does every parameter get a gradient, do two calls agree, do images in a batch stay apart?",
    cases=lambda: [([],)],
    judge=_six,
    given=lambda survivors: (),
    right=_all_caught,
    runs="inside",
    work=3.0,
)


def _as_tests(tests: Any) -> list[Callable]:
    if not isinstance(tests, (list, tuple)):
        raise Wrong(expected(f"a list of at most {MOST} tests", tests))
    if any(test is ... for test in tests):
        raise NotDone
    if not tests:
        raise Wrong(f"Your list is empty: expected one to {MOST} tests.")
    if len(tests) > MOST:
        raise Wrong(f"You return {len(tests)} tests, and {MOST} are allowed. Which one sees only what others see, too?")
    for i, test in enumerate(tests, start=1):
        if not callable(test) or isinstance(test, nn.Module):
            raise Wrong(
                f"Expected a function of a model as test {i} of your list, not called yet, got {described(test)}."
            )
        if any(test is ours or test is inspect.unwrap(ours) for ours in faults.TESTS.values()):
            raise Wrong(f"{_named(tests, i - 1)} is one of faults.TESTS, the clinic's own six: write your own.")
    return list(tests)


def _named(tests: list[Callable], i: int) -> str:
    name = getattr(tests[i], "__name__", "")
    return f"Test {i + 1} of your list" + (f" ({name})" if name.isidentifier() else "")


def _false_alarm(tests: list[Callable]) -> Generator[tuple, Any, str]:
    """What is said of the first test that refuses a right model, or nothing."""
    models = {form: ViT(config) for form, config in (SIZES | ALL_FORMS).items()}
    for i, test in enumerate(tests):
        refused, reason = [], ""
        for form, model in models.items():
            try:
                passed = yes_or_no((yield test, model))
            except NotDone:
                raise
            except Wrong as wrong:
                passed, reason = False, reason or f" There, {str(wrong)[0].lower()}{str(wrong)[1:]}"
            if not passed:
                refused.append(form)
        if len(refused) == len(models):
            return f"{_named(tests, i)} refuses all {len(models)} right models: does it ever say True?{reason}"
        if refused:
            return (
                f"{_named(tests, i)} refuses {len(refused)} of {len(models)} right models: a false alarm, for example "
                f"with {refused[0]}. {reason.strip() or STRICT[refused[0]]}"
            )
    return ""


def _two(names: list[str]) -> str:
    return "; ".join(f"a model that {faults.FAULTS[fault].symptom}" for fault in names[:2])


def _breaks(tests: list[Callable], broken: dict[str, tuple[int, Raised]], missed: list[str]) -> str:
    """A sentence on tests that stop with an error of their own, where that lets a fault through."""
    found = [broken[fault] for fault in missed if fault in broken]
    if not found:
        return ""
    i, raised = found[0]
    error = str(raised).split(". It was called")[0]
    return (
        f" On {len(found)} of them a test stops with an error of its own, which counts for nothing. "
        f"{_named(tests, i)}: {error}. {MISSING}"
    )

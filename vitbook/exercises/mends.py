"""Mended patients of the ward: is what was wrong right now, with the patient's weights, and all else as it was?

A patient comes with random weights, as if it had been trained. What a mend may
replace is its sick parts, whole; a fault of the model itself, in how it joins
its parts, leaves nothing to replace, so that a new model may take all of them. And
where one block stands in several places, all blocks may be new ones, with its
weights: which of the places it should keep, nobody can say.
"""

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbook import faults
from vitbook.exercises.engine import Wrong, close, described, error_in_words, fresh, run
from vitbook.faults._ward import PARTS, PARTS_OF_A_BLOCK, seal
from vitnb.attention import MultiHeadAttention
from vitnb.blocks import MLP, PreNormBlock
from vitnb.patches import patchify
from vitnb.pooling import ClsToken
from vitnb.positions import LearnedPositions
from vitnb.vit import ViT, ViTConfig

WIRE = ("block", "mlp", "norm1", "norm2", "norm")
BLOCK = (*WIRE, "attention")  # a new block may bring all its layers
SICK: dict[Any, tuple[str, ...]] = {  # {what a fault replaces: the parts that its mend may replace}
    patchify: ("patch_embed",),
    LearnedPositions: ("positions",),
    F.scaled_dot_product_attention: ("attention",),
    MultiHeadAttention: ("attention",),
    F.layer_norm: WIRE,
    MLP: WIRE,
    PreNormBlock: BLOCK,
    ClsToken: ("pool",),
}
SICK_IN_A_MODEL = {  # of the other faults of a whole model only the model itself is wrong
    "extra linear": ("patch_embed",),
    "foreign blocks": BLOCK,
    "no last norm": ("norm",),
    "plain cls": ("pool",),
    "shared block": BLOCK,
}
NOTHING_ELSE = "A mend replaces the part that is wrong and nothing else"
TOLERANCE = 1e-3  # in float32, through two blocks with large weights; what is wrong is off by far more

Weights = dict[str, Tensor | None]  # by the name of a parameter; None where any number will do


def mend_it(mend: Callable, fault: str, config: ViTConfig) -> nn.Module:
    """Let a reader mend a patient, in place or not, and return the mended model.

    Raises: Wrong for a mend that is not right; NotDone for an untouched skeleton.
    """
    patient = seal(faults.build(fault, config))
    with torch.no_grad():
        for tensor in _tensors(patient):
            tensor.copy_(0.3 * fresh(*tensor.shape))
    before, parts, known = copy.deepcopy(patient), _named_parts(patient), _weights(patient, config)
    result = run(mend if hasattr(mend, "__code__") else lambda model: mend(model), patient)
    mended = patient if result is None else result
    if not isinstance(mended, nn.Module):
        raise Wrong(f"Your mend returns {described(mended)}: the mended model is wanted.")
    now = _named_parts(mended)
    if gone := [name for name in parts if name not in now]:
        raise Wrong(
            f"What comes back has no {gone[0]}: a mended patient has the parts of a right model, by their names."
        )
    right = ViT(config)
    reason = _not_right(mended, before, right, known)
    new = [name for name in parts if now[name] is not parts[name]]
    healthy = [name for name in new if _sort(name) not in sick(fault)]
    if healthy:
        raise Wrong(_too_much(new, healthy, parts, now, reason))
    if reason and _is_as_before(mended, before):
        nothing = "Your mend changes nothing"
        if result is None:
            nothing = "Your mend returns None, and has changed nothing (is its return missing?)"
        if new:
            nothing = f"Your mend replaces {new[0]}, which makes no difference"
        raise Wrong(f"{nothing}: the patient has the weights that it had, and computes what it did.")
    if reason:
        raise Wrong(reason)
    return mended


def sick(fault: str) -> tuple[str, ...]:
    """The sorts of parts that a mend of this fault may replace."""
    replaced = faults.FAULTS[fault].replaces
    return SICK_IN_A_MODEL.get(fault, ()) if replaced is ViT else SICK[replaced]


def _tensors(module: nn.Module) -> Iterator[Tensor]:
    """All numbers of a model, those too that are no parameters, or in parts that it does not know of."""
    for part in module.modules():
        for value in (*part._parameters.values(), *vars(part).values()):
            if isinstance(value, Tensor):
                yield value.data
            elif isinstance(value, (list, tuple)):
                for hidden in value:
                    if isinstance(hidden, nn.Module):
                        yield from _tensors(hidden)


def _named_parts(model: nn.Module) -> dict[str, Any]:
    """Its parts by name, as far as it has them."""
    found = {name: getattr(model, name, None) for name in PARTS}
    blocks = getattr(model, "blocks", None)
    for i, block in enumerate(blocks if isinstance(blocks, (list, tuple, nn.ModuleList)) else ()):
        found[f"blocks.{i}"] = block
        found |= {f"blocks.{i}.{name}": getattr(block, name, None) for name in PARTS_OF_A_BLOCK}
    return {name: part for name, part in found.items() if isinstance(part, nn.Module)}


def _sort(name: str) -> str:
    """What sort of part has this name: "attention" for blocks.1.attention, "block" for blocks.1."""
    last = name.rpartition(".")[2]
    return "block" if last.isdigit() else last


def _at(model: nn.Module, name: str) -> Any:
    """What stands at a name such as blocks.1.mlp.fc1.weight, be it a parameter or not; None if nothing does."""
    for step in name.split("."):
        model = model[int(step)] if step.isdigit() else getattr(model, step, None)
    return model


def _weights(patient: nn.Module, config: ViTConfig) -> list[Weights]:
    """What a right model may have from this patient: each is one way to hand its weights over."""
    shapes = {name: p.shape for name, p in ViT(config).named_parameters()}
    found = {name: value.detach().clone() for name in shapes if (value := _at(patient, name)) is not None}
    own: Weights = {name: found.get(name) for name in shapes}
    ways = [own]
    if "positions.table" in found and len(tables := found["positions.table"]) > 1:  # one of several, or their mean
        ways = [own | {"positions.table": table[None]} for table in (*tables, tables.mean(0))]
    if (elsewhere := getattr(patient, "elsewhere", None)) is not None:  # the blocks that it runs
        ways.append(own | {f"blocks.{name}": p.detach().clone() for name, p in elsewhere[0].named_parameters()})
    if (second := getattr(patient, "projection", None)) is not None:  # two linear layers in a row are one
        proj, matrix = patient.patch_embed.proj, second.weight.detach()
        folded = {
            "patch_embed.proj.weight": (matrix @ proj.weight.detach().flatten(1)).reshape(proj.weight.shape),
            "patch_embed.proj.bias": matrix @ proj.bias.detach() + second.bias.detach(),
        }
        ways.append(own | folded)
    return ways


def _too_much(new: list[str], healthy: list[str], parts: dict, now: dict, reason: str) -> str:
    """What is said of a mend that replaces what was not wrong."""
    if len(new) == len(parts):
        if all(type(now[name]) is type(parts[name]) for name in healthy):
            return (
                "Your mend works on a copy, so all parts of what it returns are new. It gets a fresh patient each "
                "time: change that one, and return it, or a new model around its very parts."
            )
        return (
            f"You throw the patient away and build a new model. {NOTHING_ELSE}: all other parts stay the very objects "
            "that they were. If only the way in which a model joins its parts is wrong, a new ViT(model.config) may "
            "take the parts of the patient, one by one."
        )
    names = f"{healthy[0]}{f' and {len(healthy) - 1} more' if len(healthy) > 1 else ''}"
    if reason:
        return (
            f"Your mend replaces {names}, where nothing was wrong, and the patient is not right yet. Put one part "
            "of a right model after the other into a copy: with which of them is your test content?"
        )
    return f"The patient is right now, but your mend replaces {names} as well, where nothing was wrong. {NOTHING_ELSE}."


def _is_as_before(mended: nn.Module, before: nn.Module) -> bool:
    ours, theirs = dict(mended.named_parameters()), dict(before.named_parameters())
    if ours.keys() != theirs.keys() or not all(close(ours[name], theirs[name]) for name in ours):
        return False
    images, said = _images(before), []
    for model in (mended, before):
        torch.manual_seed(0)  # some patients draw numbers in each call
        try:
            said.append(_ran(model.eval(), images))
        except Wrong:
            return False
    return close(*said)


def _not_right(mended: nn.Module, before: nn.Module, right: ViT, ways: list[Weights]) -> str:
    """What tells a mended patient from a right model with its weights, or nothing."""
    try:
        return _other_parameters(mended, right, ways) or _computes_something_else(mended, before, right)
    except Wrong as wrong:
        return str(wrong)


def _other_parameters(mended: nn.Module, right: ViT, ways: list[Weights]) -> str:
    ours, wanted = dict(mended.named_parameters()), dict(right.named_parameters())
    if missing := [name for name in wanted if name not in ours]:
        return (
            f"A right model has a parameter {missing[0]}, and the mended patient has none of its own"
            f"{f', and lacks {len(missing) - 1} more' if len(missing) > 1 else ''}: what is no parameter, "
            "or belongs to two places at once, is not trained or saved as it should be."
        )
    if odd := [name for name in ours if name not in wanted]:
        return f"The mended patient has a parameter {odd[0]}, and a right model has none of that name."
    for name, p in ours.items():
        if p.shape != wanted[name].shape or p.dtype != wanted[name].dtype:
            return (
                f"{name} of the mended patient is {tuple(p.shape)}, {p.dtype}: a right model of its config has "
                f"{tuple(wanted[name].shape)}, {wanted[name].dtype}."
            )
        if not p.requires_grad:
            return f"{name} of the mended patient does not require a gradient, so that it will never be trained."
    lost = [[name for name, w in way.items() if w is not None and not close(ours[name], w, TOLERANCE)] for way in ways]
    if least := min(lost, key=len):
        return (
            f"The mended patient has forgotten what it learned: {least[0]} does not hold the patient's numbers"
            f"{f', nor do {len(least) - 1} others' if len(least) > 1 else ''}. Hand the weights over to a new "
            "part, by load_state_dict for example."
        )
    theirs = dict(right.named_modules())
    for name, part in mended.named_modules():
        if isinstance(part, nn.LayerNorm) and part.eps != right.config.norm_eps:
            return f"The eps of {name} is {part.eps}, and config.norm_eps says {right.config.norm_eps}."
        for kind in ("p", "attn_dropout"):  # of an nn.Dropout, of an attention layer
            ours, wanted = (getattr(one, kind, None) for one in (part, theirs.get(name)))
            if isinstance(ours, float) and isinstance(wanted, float) and ours != wanted:
                return (
                    f"{name} of the mended patient drops with probability {ours}, and a right model of its config with "
                    f"{wanted}: a new part keeps what the config says. Take it from ViT(model.config)."
                )
    return ""


def _computes_something_else(mended: nn.Module, before: nn.Module, right: ViT) -> str:
    _give(right, mended)
    if found := _mended_in_part(mended, before, right):
        return found
    images, labels = _images(right), torch.arange(3) % right.config.num_classes
    if not close(_ran(mended.eval(), images), right.eval()(images), TOLERANCE):
        return (
            "The mended patient has other logits than a right model with the same weights. Is the fault still there, "
            "or did the mend bring a new one?"
        )
    for model in (mended.train(), right.train()):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        optimizer.zero_grad()
        torch.manual_seed(0)  # dropout, where the config has it, drops the same
        F.cross_entropy(_ran(model, images), labels).backward()
        optimizer.step()
    wanted = dict(right.named_parameters())
    for name, p in mended.named_parameters():
        if p.grad is None or not close(p.grad, wanted[name].grad, TOLERANCE):
            return (
                f"Its logits are right, but in training {name} does not get the gradient that a right model gives it."
            )
    if not close(_ran(mended.eval(), images), right.eval()(images), 10 * TOLERANCE):
        return "After one step of training it has other logits than a right model after the same step."
    copied = copy.deepcopy(mended)
    with torch.no_grad():
        for p in copied.parameters():
            p.copy_(0.3 * fresh(*p.shape))
    _give(right, copied)
    if not close(_ran(copied, images[:2]), right(images[:2]), TOLERANCE):
        return (
            "A copy of the mended patient still computes with numbers of the one it was copied from. A function that "
            "you assigned to a part holds on to that part: use types.MethodType, or a part of the right class."
        )
    return ""


def _mended_in_part(mended: nn.Module, before: nn.Module, right: ViT) -> str:
    """What is said if one of several sick parts of a sort is right now, and another is not."""
    parts = [_named_parts(model.eval()) for model in (mended, before, right)]
    x = fresh(3, 7, right.config.embed_dim)
    done, left = [], []
    for name in parts[2]:
        if _sort(name) in BLOCK and all(name in found for found in parts):
            ours, theirs, wanted = (_ran(found[name], x) for found in parts)
            if not close(theirs, wanted, TOLERANCE):
                (done if close(ours, wanted, TOLERANCE) else left).append(name)
    for name in reversed(done):
        if others := [other for other in left if _sort(other).strip("12") == _sort(name).strip("12")]:
            return f"You have mended {name}, and the same fault stands in {others[0]} too: mend every part of its sort."
    return ""


def _images(model: ViT) -> Tensor:
    return fresh(3, model.config.in_chans, *model.patch_embed.img_size)


def _give(to: nn.Module, model: nn.Module) -> None:
    """Hand the parameters of one model to another, which has the same."""
    weights = dict(model.named_parameters())
    with torch.no_grad():
        for name, p in to.named_parameters():
            p.copy_(weights[name])


def _ran(model: nn.Module, x: Tensor) -> Tensor:
    """What a model makes of its input.

    Raises: Wrong if that is an error, or no tensor.
    """
    try:
        result = model(x)
    except Exception as error:
        raise Wrong(f"The mended patient stops with an error when it runs: {error_in_words(error)}.") from None
    if not isinstance(result, Tensor):
        raise Wrong(f"The mended patient returns {described(result)}: a tensor is wanted.")
    return result

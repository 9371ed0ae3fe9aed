"""Tests that see a model from outside: inputs, outputs, gradients, and what it has registered."""

import math
import re
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from vitnb.examine._exam import NEAR, SIZES, Exam, MovedOnTheWay, OtherDevice, difference, perturbed
from vitnb.examine._findings import Finding, finding, named, told
from vitnb.examine._structure import is_softmax
from vitnb.examine._trace import Lineage, Node, base, trace, written_out

STEPS = 4  # until what begins at zero, or behind zeros, has a gradient
RANDOM = frozenset("bernoulli rand rand_like uniform native_dropout".split())
INDEXING = frozenset("index _index_put_impl index_put index_put_ _unsafe_index".split())


def runs(exam: Exam) -> Iterator[Finding]:
    """Batches of one, two, three and five images."""
    errors = {}
    for B in SIZES:
        try:
            exam.logits(exam.images(B), exam.model)
            exam.sizes.append(B)
        except Exception as error:  # whatever a model raises is told
            errors[B] = told(error)
    if not exam.sizes:
        yield finding("runs", f"A batch of {SIZES[0]} x {exam.image} ends in {errors[SIZES[0]]}")
    elif errors:
        B = next(iter(errors))
        yield finding("batch size", f"It runs with batches of {exam.sizes}, and with {B} it ends in {errors[B]}")
    elif exam.squeezes:
        K = exam.num_classes
        yield finding("batch size", f"For one image it returns logits ({K},), not (1, {K}).")


def classes(exam: Exam) -> Iterator[Finding]:
    """As many logits as classes, also for another number."""
    got = exam.logits(exam.images(exam.sizes[-1]), exam.model).shape[-1]
    if got != exam.num_classes:
        yield finding("classes", f"{got} outputs for {exam.num_classes} classes.", got)
    elif exam.accepts("num_classes"):
        other = exam.num_classes + 3
        got = exam.logits(exam.images(exam.sizes[-1]), exam.fresh(num_classes=other)).shape[-1]
        if got != other:
            yield finding("classes", f"{got} outputs with num_classes={other}.", got)


def channels(exam: Exam) -> Iterator[Finding]:
    """Images with one and with three channels, where the builder takes in_chans."""
    other = 1 if exam.image[0] == 3 else 3
    try:
        exam.logits(torch.randn(exam.sizes[-1], other, *exam.image[1:]), exam.fresh(in_chans=other))
    except Exception as error:
        yield finding("channels", f"in_chans={other} ends in {told(error)}", other)


def eval_mode(exam: Exam) -> Iterator[Finding]:
    images = exam.images(exam.sizes[-1])
    off = difference(exam.logits(images, exam.model), exam.logits(images, exam.model))
    if off > 1e-5:
        yield finding("random", f"Two passes in eval mode differ by {off:.2g} standard deviations of the logits.", off)


def blind(exam: Exam) -> Iterator[Finding]:
    """Other images give other logits."""
    B = exam.sizes[-1]
    off = difference(exam.logits(exam.images(B)), exam.logits(3 * exam.images(B, 2)))
    if off < 1e-5:
        says = f"Whatever the images are, the logits change by {off:.1g} of their standard deviation."
        yield finding("blind", says, off)


def batch(exam: Exam) -> Iterator[Finding]:
    """An image's logits do not depend on its neighbours or its place in the batch."""
    B = exam.sizes[-1]
    if B == 1 or {"blind", "random"} & exam.codes:
        return
    images, others = exam.images(B), exam.images(B, 2)
    others[0] = images[0]
    here = exam.logits(images)
    off = exam.moved(exam.logits(others)[:1], here[:1])
    if 1 in exam.sizes:
        off = max(off, exam.moved(exam.logits(images[:1]), here[:1]))
    moved = exam.moved(exam.logits(images.roll(1, 0)), here.roll(1, 0))
    if off > NEAR:
        yield finding("other images", f"Other images beside it change an image's logits by {off:.2g} sd.", off)
    elif moved > NEAR:
        says = f"At another place in the batch an image's logits differ by {moved:.2g} sd."
        yield finding("image positions", says, moved)


def training(exam: Exam) -> Iterator[Finding]:
    """In training mode it runs, keeps most of each layer, sees no neighbours, and leaves nothing behind."""
    model, images, others = perturbed(exam.copied()), exam.images(exam.sizes[-1]), exam.images(exam.sizes[-1], 2)
    before, stored = exam.logits(images, model), {key: value.clone() for key, value in model.state_dict().items()}
    others[0] = images[0]
    model.train()
    try:
        seen = trace(model, images)
        here, there = (_with_one_chance(exam, x, model) for x in (images, others))
    except Exception as error:  # whatever a model raises is told
        yield finding("runs", f"In training mode it ends in {told(error)}")
        return
    yield from _dropped(seen.nodes, len(images))
    if any(not torch.equal(value, stored[key]) for key, value in model.state_dict().items()):
        return  # a batch norm, which sees neighbours by design
    off = exam.moved(here[:1], there[:1])
    if off > NEAR and not {"other images", "blind", "random"} & exam.codes:
        yield finding("other images", f"In training mode other images change an image's logits by {off:.2g} sd.", off)
    off = exam.moved(exam.logits(images, model.eval()), before)
    if off > NEAR and "random" not in exam.codes:
        yield finding("left over", f"After a pass in training mode the logits differ by {off:.2g} sd.", off)


def _with_one_chance(exam: Exam, images: Tensor, model: nn.Module) -> Tensor:
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        return exam.logits(images, model)


def _dropped(nodes: list[Node], B: int) -> Iterator[Finding]:
    """What is multiplied by a random mask: the share of zeros, and whether it is a sum with what skips."""
    made, soft = Lineage(nodes).made_from, [node for node in nodes if is_softmax(node)]
    chance = [node for node in nodes if node.op in RANDOM]
    paths, shares = [], [0.0]
    for node in nodes:
        for mask, x in (node.parents, node.parents[::-1]) if node.op == "mul" and len(node.parents) == 2 else ():
            if not any(made(mask, c) and not made(x, c) for c in chance) or len(mask.out.unique()) > 2:
                continue
            (paths if mask.out.numel() <= B else shares).append((mask.out == 0).double().mean().item())
            p, *q = base(x).images if base(x).op == "add" else [x]
            skips = any(made(p, other) or made(other, p) for other in q[:1])
            if skips and any(made(x, a) for a in soft) and any(made(a, x) for a in soft):
                yield finding("dropped skip", "A random mask is multiplied with x + f(x).")
                return
    share = max(*shares, sum(paths) / max(len(paths), 1))
    if share > 0.75:
        yield finding("dropped", f"{100 * share:.0f} % of what a mask is multiplied with becomes zero.", share)


def pixels(exam: Exam) -> Iterator[Finding]:
    """Every pixel can change the logits, and gradients reach it."""
    if "blind" in exam.codes:
        return
    images = exam.images(exam.sizes[-1]).requires_grad_()
    out = exam.outputs(exam.perturbed(images), len(images))
    weights = torch.randn(out.shape, generator=torch.Generator().manual_seed(2))
    try:
        found = torch.autograd.grad((out * weights).sum(), images, allow_unused=True) if out.requires_grad else (None,)
    except RuntimeError as error:
        yield finding("no backward", f"The pass backwards stops: {str(error).partition('; expected')[0]}.", 1.0)
        return
    (gradient,) = found
    if gradient is None or not gradient.abs().max() > 0:
        yield finding("no gradient", "The gradient at the pixels is missing or zero everywhere.", 0.0)
        return
    unseen = gradient.abs().amax((0, 1)) == 0  # (H, W)
    share = unseen.float().mean().item()
    if share > 0:
        code = "border" if _is_border(unseen) else "unseen pixels"
        yield finding(code, f"{100 * share:.0f} % of the pixels have no influence on the logits.", share)


def _is_border(unseen: Tensor) -> bool:
    rows, columns = (~unseen).any(1).nonzero(), (~unseen).any(0).nonzero()
    inner = unseen[: rows.max() + 1, : columns.max() + 1]
    return bool(rows.min() == 0 and columns.min() == 0 and not inner.any())


def outputs(exam: Exam) -> Iterator[Finding]:
    """Logits, not probabilities, and free to be any number."""
    y = exam.logits(exam.images(exam.sizes[-1]))
    if y.ndim != 2 or y.shape[1] < 2:
        return
    seeds = range(1, 4 if y.shape[1] > 3 else 12)  # two or three logits may have one sign by chance
    large = [
        exam.logits(exam.images(exam.sizes[-1], seed), _enlarged(perturbed(exam.copied(), seed))) for seed in seeds
    ]
    every = torch.cat([y, *large])
    off = (every.sum(-1) - 1).abs().max().item()
    if off < 1e-4 and every.min() >= 0:
        yield finding("probabilities", f"Each row of outputs sums to 1 (to {off:.0e}).", off)
    elif len(y) > 1 and (y.sum(0) - 1).abs().max() < 1e-4 and y.min() >= 0:
        yield finding("probabilities", "Each column of outputs sums to 1: a softmax over the images.", 1.0)
    elif (every.exp().sum(-1) - 1).abs().max() < 1e-4:
        yield finding("log-probabilities", "The exponentials of each row of outputs sum to 1.", 1.0)
    else:
        low, high = every.min().item(), every.max().item()
        ends = [(-y.min(), y.max()) for y in large]
        on_one_side = all(min(pair) <= 0.05 * max(pair) for pair in ends)  # GELU ends near -0.2
        if every.numel() >= 40 and (on_one_side or max(-low, high) <= 1.0001):
            yield finding("confined", f"All {every.numel()} outputs lie between {low:.3g} and {high:.3g}.", high)


def _enlarged(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8.0)
    return model


def first_loss(exam: Exam) -> Iterator[Finding]:
    if "classes" in exam.codes:
        return
    y = exam.logits(exam.images(exam.sizes[-1], 7), exam.model)
    if y.ndim == 2 and y.shape[1] == exam.num_classes > 1:
        loss, usual = F.cross_entropy(y, torch.arange(len(y)) % y.shape[1]).item(), math.log(exam.num_classes)
        if abs(loss - usual) > 0.7:
            says = f"A fresh model's loss on random images is {loss:.2f}; ln K is {usual:.2f}."
            yield finding("first loss", says, loss)


def gradients(exam: Exam) -> Iterator[Finding]:
    """All parameters learn, the last ones after a few steps, and all that learns is a parameter."""
    B = exam.sizes[-1]
    out = exam.outputs(exam.perturbed(exam.images(B, 3)), B)
    if not out.requires_grad:
        yield finding("dead", "The logits have no gradient at all.", 0.0)
        return
    strangers = _leaves(out, {id(p) for p in exam.perturbed.parameters()})
    if strangers:
        yield named("unregistered", "{} trainable tensors are no parameters", strangers)
    target = torch.randn(out.shape, generator=torch.Generator().manual_seed(4))
    model = exam.copied()
    learning = {name: p for name, p in model.named_parameters() if p.requires_grad and p.numel()}
    alike = [name for name, p in learning.items() if not _is_table(exam, name, p) and _symmetric(p.detach())]
    if alike:
        yield named("symmetric", "{} weights have equal rows or columns", alike)
    gains = [m.weight.detach() for m in model.modules() if isinstance(m, NORMS) and m.weight is not None]
    every = torch.cat(gains or [torch.ones(1)])
    if every.abs().max() < 0.5 and abs(every.mean()) < every.std() / 2:
        says = f"The gains of all norms have mean {every.mean():.2g} and standard deviation {every.std():.2g}."
        yield finding("norm gains", says, every.mean().item())
    gradient: dict[str, Tensor | None] = dict.fromkeys(learning)  # the sizes, added over the steps
    for _ in range(STEPS):
        out = exam.outputs(model(exam.images(B, 3)), B)
        found = torch.autograd.grad((out * target).sum(), [*learning.values()], allow_unused=True)
        with torch.no_grad():
            for (name, parameter), g in zip(learning.items(), found, strict=True):
                if g is not None:
                    before = gradient[name]
                    gradient[name] = g.abs() if before is None else before + g.abs()
                    parameter.sub_(1e-3 * g.sign())
        if all(g is not None and g.any() for g in gradient.values()):
            break
    yield from _dead(exam, gradient)
    yield from _frozen(exam)


NORMS = nn.LayerNorm | nn.RMSNorm | nn.GroupNorm | nn.modules.batchnorm._BatchNorm


def _symmetric(weight: Tensor) -> bool:
    """Whether all units of a matrix begin alike; zeros learn at their second step, and are no fault."""
    if weight.ndim < 2 or min(weight.shape[:2]) < 2 or not weight.any():
        return False
    return any(bool((weight == part).all()) for part in (weight[:1], weight[:, :1]))


def _leaves(out: Tensor, registered: set[int]) -> list[tuple]:
    """Shapes of the leaves of the graph that are not registered."""
    seen, waiting, found = set(), [out.grad_fn], []
    while waiting:
        function = waiting.pop()
        if function is None or function in seen:
            continue
        seen.add(function)
        leaf = getattr(function, "variable", None)
        if leaf is not None and id(leaf) not in registered:
            found.append(tuple(leaf.shape))
        waiting += [before for before, _ in function.next_functions]
    return found


def _dead(exam: Exam, gradient: dict[str, Tensor | None]) -> Iterator[Finding]:
    used = {node.parameter for node in exam.one.nodes} if 1 in exam.sizes else set(gradient)
    # The gradient of a key's bias is zero, because softmax does not see it: vectors count only where there is none.
    dead = [n for n, g in gradient.items() if g is None or (g.ndim > 1 and not g.any())]
    taking_part = [name for name in dead if name in used]
    if "blind" in exam.codes:  # then a block may get none, or zeros; but not a part of it none and the rest zeros
        reached = {_block(name) for name, g in gradient.items() if g is not None}
        taking_part = [name for name in taking_part if gradient[name] is None and _block(name) in reached]
    if taking_part and "no gradient" not in exam.codes:
        alive = [n for n in gradient if n not in dead]
        in_one = len({_block(n) for n in taking_part}) == 1 and _block(taking_part[0]) in map(_block, alive)
        others = in_one and {*map(_numberless, taking_part)} <= {*map(_numberless, alive)}  # by a read-out of one token
        yield named("dead", "{} parameters get no gradient", taking_part, "departs" if others else None)
    rest = [name for name in dead if name not in used]
    forms = {_numberless(name) for name in used if name}
    forgotten = [name for name in rest if _numberless(name) in forms]
    if forgotten:
        yield named("forgotten", "{} parameters are never used", forgotten)
    elif rest:
        yield named("unused", "{} parameters are not used", rest)
    unread = []
    for name, g in gradient.items():
        if g is not None and name not in dead and g.ndim > 1:
            rows = (g.reshape(-1, g.shape[-1]).abs().amax(-1) == 0).tolist()
            if isinstance(_owner(exam, name), nn.Linear | nn.MultiheadAttention):
                unread += [name] * (sum(rows) > len(rows) / 2)  # fewer may be units that a ReLU has switched off
            elif any(rows) and _is_table(exam, name, g):
                yield finding("dead rows", f"{sum(rows)} of {len(rows)} rows of {name} get no gradient.", sum(rows))
    in_several = len({_block(name) for name in unread}) > 1  # in the last block alone it may be the read-out's doing
    if in_several and not {"blind", "no gradient"} & exam.codes:
        yield named("dead", "{} matrices make features of which nothing reads more than half", unread)


def _numberless(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _block(name: str) -> str:
    return re.sub(r"(\d+).*", r"\1", name)


def _owner(exam: Exam, name: str) -> nn.Module:
    return exam.perturbed.get_submodule(name.rpartition(".")[0])


def _is_table(exam: Exam, name: str, g: Tensor) -> bool:
    return g.ndim >= 2 and not isinstance(
        _owner(exam, name), nn.Linear | nn.modules.conv._ConvNd | nn.MultiheadAttention
    )


def _frozen(exam: Exam) -> Iterator[Finding]:
    frozen = [name for name, p in exam.model.named_parameters() if not p.requires_grad]
    tables = [name for name in frozen if _is_table(exam, name, dict(exam.perturbed.named_parameters())[name])]
    weights = [name for name in frozen if name not in tables]
    for code, names in (("frozen", tables), ("frozen weights", weights)):
        if names:
            yield named(code, "requires_grad is False for {} parameters", names)
    buffers = {name: b for name, b in exam.model.named_buffers() if b.ndim > 1 and b.is_floating_point()}
    if buffers and exam.can_build:
        others = dict(exam.fresh().named_buffers())
        random = [name for name, b in buffers.items() if not torch.equal(b, others.get(name, b))]
        if random:
            yield named("frozen", "Random numbers that are no parameters", random, "departs")


def registry(exam: Exam) -> Iterator[Finding]:
    """Modules in plain lists, tensors as plain attributes, parameters that a device would take away."""
    known, lists, tensors = set(exam.model.modules()), [], []
    for name, module in exam.model.named_modules():
        for key, value in vars(module).items():
            if key.startswith("_"):
                continue
            values = list(value.values()) if isinstance(value, dict) else value
            if isinstance(values, list | tuple):
                if any(isinstance(v, nn.Module) and v not in known and [*v.parameters()] for v in values):
                    lists.append(f"{name}.{key}".strip("."))
            elif isinstance(value, Tensor) and value.numel() > 1:
                tensors.append(f"{name}.{key}".strip("."))
    if lists and "unregistered" not in exam.codes:
        yield named("unregistered", "Modules lie in plain lists", lists)
    if tensors:
        otherwise = lists or {"random", "unregistered"} & exam.codes  # the logits differ for another reason
        random = exam.can_build and not otherwise and not _restored(exam)
        yield named("not stored", "Plain tensors", tensors, "breaks" if random else None)


def _restored(exam: Exam) -> bool:
    """Whether a new model gives the same logits as another one whose state_dict it loads."""
    first, second = exam.fresh(), exam.fresh()
    second.load_state_dict(first.state_dict())
    images = exam.images(exam.sizes[-1])
    return torch.equal(exam.logits(images, first), exam.logits(images, second))


def device(exam: Exam) -> Iterator[Finding]:
    """A device on which everything is called meta: what stays on the CPU shows."""
    if exam.can_build:
        try:
            with MovedOnTheWay():
                moved = {name for name, _ in exam.fresh().named_parameters()}
        except TypeError as error:  # a tensor where a parameter was registered before
            yield finding("lost on a device", f"On a GPU building it would end in {error}.")
            return
        lost = [name for name, _ in exam.model.named_parameters() if name not in moved]
        if lost:
            yield named("lost on a device", "On a GPU these would be no parameters", lost)
            return
    watch = _Devices()
    try:
        model = exam.copied().to("meta")
        with torch.no_grad(), written_out(), OtherDevice(), watch:
            model(exam.images(exam.sizes[-1]).to("meta"))
    except Exception as error:  # a pass without values cannot take every way
        if not watch.mixed and "meta" not in str(error):
            return
    if watch.mixed:
        says = f"A tensor {watch.mixed[0]} stays on the CPU when the model moves."
        yield finding("left behind", says, len(watch.mixed))


class _Devices(TorchDispatchMode):
    """Shapes of the tensors that meet, on the CPU, those of another device."""

    def __init__(self):
        super().__init__()
        self.mixed: list[tuple] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        tensors = [t for t in tree_leaves((args, kwargs or {})) if isinstance(t, Tensor)]
        if any(t.is_meta for t in tensors) and func.overloadpacket.__name__ not in INDEXING | {"copy_", "_to_copy"}:
            self.mixed += [tuple(t.shape) for t in tensors if not t.is_meta and t.ndim]
        return func(*args, **(kwargs or {}))

"""Attention, norms and residual branches in a trace, found by what they compute.

All of this is read in a pass over one image, where tokens are (T, D) in every layout.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from vitnb.examine._trace import MOVES, PRODUCTS, SOFTMAX, Lineage, Node, Trace, base, computed, same, unscaled

WEIGHTED = PRODUCTS | {"convolution"}
NORMS = {"native_layer_norm": "layer", "native_group_norm": "group", "_fused_rms_norm": "rms", "rms_norm": "rms"}
BATCH_NORMS = frozenset("native_batch_norm _native_batch_norm_legit_no_training cudnn_batch_norm batch_norm".split())
ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "GELU": F.gelu,
    "GELU with tanh": lambda x: F.gelu(x, approximate="tanh"),
    "ReLU": F.relu,
    "SiLU": F.silu,
    "quick GELU": lambda x: x * torch.sigmoid(1.702 * x),
    "ELU": F.elu,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "leaky ReLU": F.leaky_relu,
    "none": lambda x: x,
}
NON_LINEAR = frozenset("gelu relu silu elu tanh sigmoid hardtanh leaky_relu clamp_min hardswish mish celu selu".split())


@dataclass(eq=False)
class Attention:
    """One softmax over scores: the weights, the product q·k before them, and the product with v behind them."""

    weights: Node
    scores: Node | None
    mix: Node | None
    mixing: Node | None  # the weights as they are multiplied with v
    keys_axis: int  # of mixing: the axis that v is summed over

    @property
    def operands(self) -> tuple[Node, Node]:
        return self.scores.parents[-2], self.scores.parents[-1]


@dataclass(eq=False)
class Norm:
    kind: str  # layer, rms, batch or group
    before: Node
    over: str  # "features", "tokens", "tokens and features"


@dataclass(eq=False)
class Branch:
    """x + f(x): the addition, what skips, what f returned, what it reads and through which norm."""

    add: Node
    skip: Node | None
    out: Node
    kind: str  # attention or mlp
    state: str = "other"
    reads: Node | None = None
    norm: Norm | None = None
    end_norm: Norm | None = None
    inside: list[Node] = field(default_factory=list)


OTHER_AXES = {
    (1,): "tokens",
    (1, 2): "tokens and features",
    (0,): "images",
    (0, 1): "images and tokens",
    (0, 2): "images and features",
    (0, 1, 2): "everything",
}  # of (B, T, D)


class UnrecognisedError(Exception):
    """A model of a form in which a test finds nothing to test; its text says what is missing."""


def recognised(x: Tensor | None) -> Tensor:
    """The tokens that were looked for.

    Raises: UnrecognisedError where there are none.
    """
    if x is None:
        raise UnrecognisedError("its tokens have a layout that is not known here")
    return x


class Structure:
    """What a trace of one image contains.

    more: the same pass over several images, to tell norms over tokens from scales of features.
    """

    def __init__(self, trace: Trace, more: Trace | None = None):
        self.nodes, self.lineage = trace.nodes, Lineage(trace.nodes)
        self._here, self._more = computed(trace.nodes), computed(more.nodes) if more else []
        if [node.op for node in self._here] != [node.op for node in self._more]:
            self._more = []
        self.attentions = list(self._attentions())

    # Attention ------------------------------------------------------------------------------------

    def _attentions(self) -> Iterator[Attention]:
        for node in self.nodes:
            if node.image and is_softmax(node):
                scores, (mix, mixing, axis) = self._scores(node), self._mix(node)
                sides = [side for side in node.out.shape if side > 1]
                square = len(set(sides)) < len(sides)  # also where products are written out
                if scores is not None or mix is not None or square:
                    yield Attention(node, scores, mix, mixing, axis)

    @staticmethod
    def _scores(weights: Node) -> Node | None:
        """Back from a softmax through scales, masks and biases to the product of q and k."""
        node = through(weights)
        for _ in range(40):
            if node is None:
                return None
            node, _, _ = unscaled(node)
            if node.op in PRODUCTS and all(operand.image for operand in node.parents[-2:]):
                return node
            if is_softmax(node) or (node.op in PRODUCTS and node.out.shape[-1] == weights.out.shape[-1]):
                return None  # not heads that are mixed before the softmax
            node = through(node)
        return None

    def _mix(self, weights: Node) -> tuple[Node | None, Node | None, int]:
        """The product of the weights and v."""
        for node in self.nodes[weights.index + 1 :]:
            if node.op in PRODUCTS and all(operand.image for operand in node.parents[-2:]):
                for operand, other, axis in zip(node.parents[-2:], node.parents[:-3:-1], (-1, -2), strict=True):
                    mixes = self.lineage.made_from(operand, weights) and not self.lineage.made_from(other, weights)
                    if mixes and operand.out.numel() == weights.out.numel():
                        return node, operand, axis
        return None, None, -1

    @cached_property
    def unweighted(self) -> tuple[Node, Node] | None:
        """Two products in a row of tensors that depend on the image, with no softmax between: q·k, and that times v."""
        products = [n for n in self.nodes if n.op in PRODUCTS and all(operand.image for operand in n.parents[-2:])]
        soft = [n for n in self.nodes if n.image and is_softmax(n)]
        for first, second in pairwise(products):
            rows = {len(reader.flat) for reader in self.readers(first) if reader.flat.ndim}
            square = first.out.shape[-1] == first.out.shape[-2] > 1 and first.out.shape[-1] in rows
            square &= first.parents[-1].out.shape[-2] not in rows  # of tokens, as a sum over features
            between = any(self.lineage.made_from(second, s) and self.lineage.made_from(s, first) for s in soft)
            if square and self.lineage.made_from(second, first) and not between:
                return first, second
        return None

    # Products with weights ------------------------------------------------------------------------

    def readers(self, node: Node) -> list[Node]:
        """The nearest products with parameters that a node was made by."""
        found, seen, waiting = [], set(), [node]
        while waiting:
            node = waiting.pop()
            if node.index in seen:
                continue
            seen.add(node.index)
            if is_weighted(node):
                found.append(node)
            else:
                waiting += node.images
        return sorted(found, key=lambda n: n.index)

    @cached_property
    def first_read(self) -> Node | None:
        """The tokens that the first attention reads: (T, D), what its queries and keys are computed from."""
        for attention in self.attentions:
            if attention.scores is not None:
                readers = [r for operand in attention.operands for r in self.readers(operand)]
                while readers:  # q, k and v may be projected twice
                    tokens = input_of(readers[0])
                    earlier = self._projection_before(tokens)
                    if earlier is None:
                        convolved = operand_of(readers[0]) if readers[0].op == "convolution" else None
                        self.channels_first = convolved is not None and not _in_rows(tokens, convolved)
                        part = convolved is not None and convolved.out.shape[1] not in base(convolved).out.shape
                        return None if part or tokens.flat.ndim < 2 else tokens  # heads in cascade read parts
                    readers = [earlier]
        return None

    def _projection_before(self, tokens: Node) -> Node | None:
        before = without_bias(tokens)
        square = is_weighted(before) and before.op != "convolution" and input_of(before).out.shape == tokens.out.shape
        return before if square and norm_in(input_of(before)) else None

    @property
    def read(self) -> Node:
        """first_read, where there is one.

        Raises: UnrecognisedError where there is none.
        """
        if self.first_read is None:
            raise UnrecognisedError("no attention over tokens was recognised")
        return self.first_read

    @property
    def tokens(self) -> int:
        """T, of the first attention's input."""
        return self.read.out.numel() // self.width

    @property
    def width(self) -> int:
        return self.read.flat.shape[-min(3, self.read.flat.ndim) if self.channels_first else -1]

    def rows(self, node: Node) -> Tensor | None:
        """Tokens as (T, D), also where they are kept as (D, T) or in rows and columns."""
        T, D = self.tokens, self.width
        if node.out.numel() != T * D:
            return None
        x = node.flat
        if x.ndim > 2:
            x = x.movedim(-3, 0).flatten(1) if self.channels_first or x.shape[-1] != D else x.flatten(0, -2)
        if x.shape == (T, D) and not (T == D and self.channels_first):
            return x
        return x.T if x.shape == (D, T) else None

    def passed_on(self, node: Node) -> tuple[set[Node], set[Node]]:
        """What reaches a node without a product on the way, and the products where that ends."""
        through, ends, waiting = set(), set(), [node]
        while waiting:
            node = waiting.pop()
            if node in through or node in ends:
                continue
            if node.op in WEIGHTED and node.image:
                ends.add(node)
            else:
                through.add(node)
                waiting += node.images
        return through, ends

    @property
    def joined_before(self) -> bool:
        """Whether two tensors that the image reaches are added or multiplied before the first attention's tokens."""
        return any(
            n.op in PRODUCTS | {"add"} and len(n.images) > 1 for n in self.lineage.between(self.nodes, None, self.read)
        )

    # Norms ----------------------------------------------------------------------------------------

    def norm_of(self, node: Node) -> Norm | None:
        """Whether a tensor is a normalised one, however the norm was written."""
        found = norm_in(node)
        node = base(node)
        if found is not None and found.kind == "group" and self._normalised(node, found.before):
            return Norm("layer", found.before, "features")
        if found is not None:
            return found
        for before in sorted(_not_far_before(node), key=lambda n: n.index):  # x, not what is left without its mean
            over = self._normalised(node, before)
            if over:
                return Norm(over[0], before, over[1])
        return None

    def _normalised(self, node: Node, before: Node) -> tuple[str, str] | None:
        x, u = self.rows(node), self.rows(before)
        if x is None or u is None or len(x) < 4:
            return None
        if affine(x, centred(u, 1)):
            return "layer", "features"
        if affine(x, u / u.square().mean(1, keepdim=True).sqrt()):
            return "rms", "features"
        if not affine(x, u) and not affine(x, u - u.mean(0)):
            mean, var = u.mean(1, keepdim=True), u.var(1, keepdim=True)
            wrong = {
                "only centred": u - mean,
                "divided by the variance": (u - mean) / var,
                "divided by the mean square": u / u.square().mean(1, keepdim=True),
                "not centred": u / var.sqrt(),
            }
            for kind, n in wrong.items():
                if affine(x, n):
                    return kind, "features"
        return self._over_others(node, before)

    def _over_others(self, node: Node, before: Node) -> tuple[str, str] | None:
        """A norm over tokens, or tokens and features: several images tell it from a scale of each feature."""
        if not self._more or node not in self._here or base(before) not in self._here:
            return None
        T, D = self.tokens, self.width
        x, u = (aligned(self._more[self._here.index(base(n))].out, T, D, self.channels_first) for n in (node, before))
        if x is None or u is None or len(x) * T < 8:
            return None
        if affine(x.flatten(1), centred(u, (1, 2)).flatten(1)) and not affine(x.flatten(1), u.flatten(1)):
            return "layer", "tokens and features"  # with a gain for each token and feature
        many = x.flatten(0, 1), u.flatten(0, 1)
        for axes, over in () if affine(*many) else OTHER_AXES.items():
            if affine(many[0], centred(u, axes).flatten(0, 1)):
                return "layer", over
        one = recognised(self.rows(node)), recognised(self.rows(before))
        if affine(*many) and (gain(*many) / gain(*one) - 1).abs().min() > 1e-3:
            return "layer", "everything"  # one number for all, which other images change
        return None

    # Residual branches ----------------------------------------------------------------------------

    @cached_property
    def branches(self) -> list[Branch]:
        """All x + f(x) on the tokens, from the first attention on, in order."""
        if self.first_read is None:
            return []
        size, found = self.first_read.out.numel(), []
        for node in self.nodes:
            if node.op in ("add", "addcmul") and node.out.numel() == size and len(node.images) == 2:
                if all(parent.out.numel() == size for parent in node.images):
                    branch = self._branch(node)
                    if branch is not None:
                        if any(self._hidden(earlier, branch) for earlier in found):
                            branch.state = "old skip"
                        found.append(branch)
        return found

    def _hidden(self, earlier: Branch, later: Branch) -> bool:
        """Whether an addition to the same tokens happens within a later branch, and is read there alone."""
        behind = (base(parent) for node in self.nodes[later.add.index + 1 :] for parent in node.parents)
        if earlier.add not in later.inside or earlier.skip is None or later.skip is None or earlier.add in behind:
            return False
        return same(earlier.skip, later.skip) or (earlier.norm is not None and same(earlier.norm.before, later.skip))

    def _branch(self, add: Node) -> Branch | None:
        p, q = (base(parent) for parent in add.images)
        if p is q or same(p, q):
            kind = self._kind(self.lineage.between(self.nodes, None, p))
            return Branch(add, None, p, kind, "doubled") if kind else None
        skip, out, inside = self._sides(p, q)
        kind = self._kind(inside)
        if kind is None:
            return None
        branch = Branch(add, skip, out, kind, inside=inside)
        if skip is None:
            branch.state = "parallel"
        else:
            self._read(branch, skip)
        return branch

    def _sides(self, p: Node, q: Node) -> tuple[Node | None, Node, list[Node]]:
        """Which of two summands skips, what the other one is, and what happens between."""
        made = self.lineage.made_from
        for skip, out in ((p, q), (q, p)):
            if made(out, skip):
                return skip, out, self.lineage.between(self.nodes, skip, out)
        for skip, out in ((p, q), (q, p)):  # both made from a third: a skip has no weights but those of a norm
            own = self.lineage.between(self.nodes, out, skip)
            if not any(is_weighted(node) for node in own):
                return skip, out, self.lineage.between(self.nodes, skip, out)
        return None, q, self.lineage.between(self.nodes, p, q)

    def _kind(self, inside: list[Node]) -> str | None:
        within = {node.index for node in inside}
        if any(attention.weights.index in within for attention in self.attentions):
            return "attention"
        return "mlp" if any(is_linear(node) for node in inside) else None

    def end_of(self, branch: Branch) -> Node:
        """The addition of a branch, with a bias that may be added after it."""
        end = branch.add
        for node in self.nodes[end.index + 1 :]:
            if node.op == "add" and len(node.images) == 1 and base(node.images[0]) is end:
                end = node if node.out.numel() == end.out.numel() else end
        return end

    def _read(self, branch: Branch, skip: Node) -> None:
        """How a branch reads the stream: through a norm, raw, and what skips meanwhile."""
        layers, made = [node for node in branch.inside if is_weighted(node)], self.lineage.made_from
        first = [n for n in layers if not any(made(n, m) for m in layers if m is not n)]
        if not first:
            return
        branch.reads = tokens = input_of(first[0])
        branch.norm, branch.end_norm = self.norm_of(tokens), self.norm_of(branch.out)
        if any(node.op in BATCH_NORMS for node in branch.inside):
            return  # as in convolutions, a norm behind each product
        skip_norm = None if same(tokens, skip) else self.norm_of(skip)
        if branch.norm and same(branch.norm.before, skip):
            branch.state = "pre"
        elif branch.norm and branch.norm.kind == "batch" and is_weighted(branch.norm.before):
            pass  # the end of a convolution
        elif same(tokens, skip):
            branch.state = "normed" if branch.norm else "raw"
        elif skip_norm and same(skip_norm.before, tokens):
            branch.state = "norm on the skip"
        elif skip.op == "mul" and branch.norm and any(same(branch.norm.before, before) for before in skip.images):
            branch.state = "scaled skip"


def _not_far_before(node: Node, steps: int = 16) -> list[Node]:
    """Tensors of a node's size that it was made from, not across a product with weights."""
    waiting, found, seen = [*node.images], [], {node.index}
    while waiting and len(found) < steps:
        before = waiting.pop(0)
        if before.index in seen:
            continue
        seen.add(before.index)
        if before.out.numel() == node.out.numel():
            found.append(before)
        if not is_weighted(before):
            waiting += before.images
    return found


def through(node: Node) -> Node | None:
    """Back through a mask, a bias or a maximum that is taken off, to the scores."""
    before = [p for p in node.images if p.out.numel() == node.out.numel() and p.out.is_floating_point()]
    return (before[-1] if node.op == "where" else before[0]) if before else None


def is_softmax(node: Node) -> bool:
    """Whether weights that sum to 1 were computed here, by torch's softmax or by exp and a sum."""
    if node.op in SOFTMAX:
        return True
    if node.op not in ("div", "mul", "exp") or node.out.ndim < 2 or not node.out.is_floating_point():
        return False
    if node.out.min() < 0 or not any(before.op == "exp" for before in (node, *map(base, node.images))):
        return False
    return any(n > 1 and (node.out.sum(axis) - 1).abs().max() < 1e-4 for axis, n in enumerate(node.out.shape))


def is_weighted(node: Node) -> bool:
    """A product of one image-dependent tensor with parameters."""
    if node.op not in WEIGHTED or not node.image:
        return False
    operands = node.parents[:2] if node.op == "convolution" else node.parents[-2:]
    return sum(operand.image for operand in operands) == 1


def is_linear(node: Node) -> bool:
    """A product with parameters in which no token meets another."""
    if not is_weighted(node):
        return False
    return node.op != "convolution" or all(side == 1 for side in node.parents[1].out.shape[2:])


def operand_of(product: Node) -> Node:
    operands = product.parents[:2] if product.op == "convolution" else product.parents[-2:]
    return next(operand for operand in operands if operand.image)


def input_of(product: Node) -> Node:
    """The tokens that a product with parameters reads, before they were folded or cut into heads."""
    best = node = operand_of(product)
    axis = -2 if node.out.ndim > 1 and node is product.parents[-1] else -1
    width = None if product.op == "convolution" else node.out.shape[axis]
    while node.op in ("view", "_unsafe_view", "reshape", "expand", "clone", "slice", "select", "split", "transpose",
                      "split_with_sizes", "unsqueeze", "squeeze", "permute", "unbind", "_to_copy", "alias", "t",
                      "contiguous", "_reshape_alias", "repeat", "detach") and node.parents:  # fmt: skip
        node = node.parents[0]
        if node.flat.ndim == 2 and width in (None, node.flat.shape[axis]):
            best = node
    return best


def turned(node: Node) -> bool:
    """Whether axes change places among the moves that lead to a tensor."""
    while node.op in MOVES and node.parents:
        if node.op in ("transpose", "permute", "t"):
            return True
        node = node.parents[0]
    return False


def _in_rows(tokens: Node, convolved: Node) -> bool:
    """Whether tokens (T, D) were turned into (D, H, W), or (D, T), for a convolution."""
    x, u = convolved.out[0].double().flatten(1), tokens.flat  # (D, T)
    return u.ndim == 2 and len(x) == u.shape[1] and torch.equal(u[-x.shape[1] :].T, x)


def without_bias(node: Node) -> Node:
    """Back through moves and the addition of a bias."""
    node = base(node)
    while node.op == "add" and len(node.images) == 1 and node.images[0].out.numel() == node.out.numel():
        if any(parent.out.numel() > node.out.shape[-1] for parent in node.parents if not parent.image):
            break  # positions
        node = base(node.images[0])
    return node


def norm_in(node: Node) -> Norm | None:
    """The norm that torch's own operation computes here."""
    node = base(node)
    if node.op in BATCH_NORMS:
        of_batch = any(value is True for value in node.args) and "no_training" not in node.op
        return Norm("batch", base(node.parents[0]), "images and tokens" if of_batch else "features")
    if node.op not in NORMS or not node.images:
        return None
    over = "features"
    if node.op == "native_layer_norm" and sum(side > 1 for side in node.args[1]) > 1:
        over = "tokens and features"
    return Norm(NORMS[node.op], base(node.parents[0]), over)


def activation_between(first: Node, last: Node, nodes: list[Node]) -> str | None:
    """The non-linearity between two products with weights: its name, "none", or None if it is of no known kind."""
    after = base(operand_of(last))
    for node in nodes:
        is_first = node is first or (node.op == "add" and without_bias(node) is first)
        if is_first and node.out.numel() == after.out.numel():
            z, y = node.out.double().flatten(), after.out.double().flatten()
            for name, function in ACTIVATIONS.items():
                if (function(z) - y).abs().max() <= 1e-4 * z.abs().max():
                    return name
    return None


def centred(u: Tensor, axes: int | tuple[int, ...]) -> Tensor:
    u = u - u.mean(axes, keepdim=True)
    return u / u.square().mean(axes, keepdim=True).sqrt().clamp(min=1e-12)


def gain(x: Tensor, n: Tensor) -> Tensor:
    """Of each column, what x (R, D) without its mean is of n (R, D) without its mean: (D,)."""
    x, n = x - x.mean(0), n - n.mean(0)
    return (x * n).sum(0) / n.square().sum(0).clamp(min=1e-20)


def affine(x: Tensor, n: Tensor) -> bool:
    """Whether each column of x (R, D) is a gain times that of n (R, D), plus a bias."""
    g = gain(x, n)
    off = (x - x.mean(0) - g * (n - n.mean(0))).abs().max()
    return bool(off <= 1e-3 * (x - x.mean(0)).abs().max()) and bool(g.abs().max() > 1e-6)


def aligned(x: Tensor, T: int, D: int, channels_first: bool) -> Tensor | None:
    """Tokens of several images as (B, T, D), whatever their layout; channels_first tells it where T is D."""
    x = x.detach().double().squeeze()
    B = x.numel() // (T * D)
    if x.ndim != 3 or sorted(x.shape) != sorted((B, T, D)) or B in (1, T, D):
        return None
    x = x.movedim(list(x.shape).index(B), 0)
    return x.mT if x.shape[1:] != (T, D) or (T == D and channels_first) else x

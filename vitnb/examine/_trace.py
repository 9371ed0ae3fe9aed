"""What a forward pass computes, operation by operation, and which tensor came from which.

A TorchDispatchMode sees every operation below autograd, so nothing of a model has to be known: no
source, no names of modules. Operations that write in place, through views too, are followed.
"""

from collections import defaultdict
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Operations whose outputs hold the numbers of their input, in another order or number.
MOVES = frozenset(
    "view _unsafe_view reshape _reshape_alias transpose permute t expand clone select slice split split_with_sizes"
    " chunk unbind squeeze unsqueeze detach alias _to_copy lift_fresh contiguous unfold as_strided repeat copy copy_"
    " pixel_unshuffle im2col roll flip index index_select constant_pad_nd".split()
)
PRODUCTS = frozenset("mm bmm addmm baddbmm mv dot addmv".split())
SOFTMAX = frozenset({"_softmax", "_safe_softmax"})
FACTORS = frozenset({"mul", "div", "neg"})


@dataclass(eq=False)
class Node:
    """One tensor of a forward pass: the operation that made it, what it was made from, and its value."""

    index: int
    call: int  # the number of the operation, equal in every pass over images of one shape
    op: str
    parents: list["Node"]
    out: Tensor
    args: tuple = ()
    kwargs: dict = field(default_factory=dict)
    image: bool = False  # whether it depends on the images
    parameter: str | None = None  # a parameter's name

    @cached_property
    def flat(self) -> Tensor:
        """The value in float64, without axes of one: (T, D) for one image's tokens."""
        return self.out.detach().double().squeeze()

    @property
    def images(self) -> list["Node"]:
        """The parents that depend on the images."""
        return [parent for parent in self.parents if parent.image]


class _Reached(Exception):
    """The operation that a pass was to stop at."""


Edits = dict[int, Callable[[Tensor], Tensor]] | None  # of an operation: what replaces its result


class Trace(TorchDispatchMode):
    """The nodes of one forward pass, in order; edits replace what operations return."""

    def __init__(self, model: nn.Module, images: Tensor, edits: Edits, stop: int | None, computed: int | None):
        super().__init__()
        self.nodes: list[Node] = []
        self.output: object = None
        self._edits, self._stop, self._calls = edits or {}, stop, 0
        self._left = computed  # how many more nodes of computed() until the pass ends
        self._names = {id(p): name for name, p in model.named_parameters()}
        self._input, self._node = images, {}  # of a tensor's id: its node
        self._alive: list[Tensor] = []  # ids stay unique as long as their tensors live
        self._sharing: dict[int, list[Node]] = defaultdict(list)  # of a storage: the nodes whose values lie there
        self._written: dict[int, Node] = {}  # of a storage: what was written there last

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs, before = kwargs or {}, len(self.nodes)
        tensors = [value for value in tree_leaves((args, kwargs)) if isinstance(value, Tensor)]
        parents = [self._read(tensor) for tensor in tensors]
        written = _written(func, args, kwargs)
        for tensor in written:
            self._keep_values(tensor)
        out = func(*args, **kwargs)
        self._calls += 1
        if self._calls in self._edits:
            out = self._edited(out, bool(written))
        made = [self._add(func.overloadpacket.__name__, parents, o, args, kwargs) for o in _tensors(out)]
        for tensor in written:
            self._written[_storage(tensor)] = made[0] if made else self._add("write", parents, tensor, args, kwargs)
        if self._left is not None:
            self._left -= len(computed(self.nodes[before:]))
        if self._calls == self._stop or (self._left is not None and self._left <= 0):
            raise _Reached
        return out

    def _edited(self, out: object, in_place: bool) -> object:
        first, *rest = _tensors(out)
        new = first.clone().copy_(self._edits[self._calls](first.clone()))  # strides decide which operations follow
        if in_place:
            return first.copy_(new)
        return (new, *rest) if isinstance(out, tuple) else [new, *rest] if isinstance(out, list) else new

    def _add(self, op: str, parents: list[Node], out: Tensor, args: tuple = (), kwargs: dict | None = None) -> Node:
        image = out is self._input or any(parent.image for parent in parents)
        name = self._names.get(id(out)) if not parents else None
        node = Node(len(self.nodes), self._calls, op.rstrip("_") or op, parents, out, args, kwargs or {}, image, name)
        self.nodes.append(node)
        self._node[id(out)] = node
        self._alive.append(out)
        self._sharing[_storage(out)].append(node)
        return node

    def _read(self, tensor: Tensor) -> Node:
        """The node of a tensor that an operation takes; a leaf, if no operation made it."""
        node, writer = self._node.get(id(tensor)), self._written.get(_storage(tensor))
        if node is None:
            sharing = [] if id(tensor) in self._names else self._sharing.get(_storage(tensor), [])
            return self._add("alias" if sharing else "leaf", sharing[-1:], tensor)
        if writer is not None and writer.index > node.index:  # written meanwhile, through a view
            return self._add("merge", [node, writer], tensor)
        return node

    def _keep_values(self, tensor: Tensor) -> None:
        """Before an operation writes here, give the nodes whose values lie here copies."""
        for node in self._sharing.pop(_storage(tensor), []):
            node.out = node.out.clone()


def computed(nodes: list[Node]) -> list[Node]:
    """The nodes that are no moves and no leaves: the same ones for any number of images."""
    return [node for node in nodes if node.parents and node.op not in MOVES and node.op != "merge"]


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _tensors(values: object) -> list[Tensor]:
    return [value for value in tree_leaves(values) if isinstance(value, Tensor)]


def _written(func, args: tuple, kwargs: dict) -> list[Tensor]:
    """The arguments that an operation writes into."""
    if not func._schema.is_mutable:
        return []
    names = [a.name for a in func._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    return [
        tensor
        for a in func._schema.arguments
        if a.alias_info is not None and a.alias_info.is_write
        for tensor in _tensors(given.get(a.name))
    ]


def trace(
    model: nn.Module, images: Tensor, edits: Edits = None, stop: int | None = None, computed: int | None = None
) -> Trace:
    """Run the model on images, with attention written out, and keep every tensor.

    stop, computed: end after this operation, or after this number of nodes that are no moves.
    """
    seen = Trace(model, images, edits, stop, computed)
    with torch.no_grad(), written_out():
        try:
            with seen:
                seen.output = model(images)
        except _Reached:
            pass
    return seen


@contextmanager
def written_out():
    """Attention as products and a softmax, not as one fused operation."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


# Walking backwards -------------------------------------------------------------------------------


def base(node: Node) -> Node:
    """Back through what only moves numbers: what a tensor really is."""
    while node.op in MOVES and node.parents:
        node = node.parents[-1] if node.op == "copy" else node.parents[0]
    return node


def unscaled(node: Node) -> tuple[Node, float, bool]:
    """Back through moves and products with one number: the node, the number, and whether it is learned."""
    factor, learned = 1.0, False
    while True:
        node = base(node)
        if node.op not in FACTORS or len(node.images) != 1:
            return node, factor, learned
        before, others = node.images[0], [p for p in node.parents if not p.image]
        number = ratio(node, before)
        if number is None:
            return node, factor, learned
        factor *= number
        learned |= any(base(other).parameter is not None or other.parents for other in others)
        node = before


def ratio(node: Node, before: Node) -> float | None:
    """c, if a tensor is c times the one that it was made from."""
    a, b = node.out.double().flatten(), before.out.double().flatten()
    if len(a) != len(b) or not b.square().sum() > 0:
        return None
    c = (a @ b / b.square().sum()).item()
    return c if (a - c * b).abs().max() <= 1e-4 * abs(c) * b.abs().max() else None


def same(a: Node | Tensor, b: Node | Tensor) -> bool:
    """Whether two nodes hold the same values, in any layout of (T, D)."""
    a, b = (x.flat if isinstance(x, Node) else x for x in (a, b))
    if a.numel() != b.numel():
        return False
    near = 1e-5 * b.abs().max()
    if a.shape != b.shape and a.ndim == b.ndim == 2 and a.T.shape == b.shape:
        a = a.T
    return bool((a.flatten() - b.flatten()).abs().max() <= near)


class Lineage:
    """Which nodes a node was made from."""

    def __init__(self, nodes: list[Node]):
        self._sets: list[int] = []  # of each node, as the bits of a number
        for node in nodes:
            bits = 1 << node.index
            for parent in node.parents:
                bits |= self._sets[parent.index]
            self._sets.append(bits)

    def made_from(self, node: Node, other: Node) -> bool:
        """Whether a node depends on another one, or is that."""
        return bool(self._sets[node.index] >> other.index & 1)

    def between(self, nodes: list[Node], start: Node | None, end: Node) -> list[Node]:
        """The nodes that the end depends on and the start does not, in order."""
        bits = self._sets[end.index] & ~(self._sets[start.index] if start else 0)
        return [node for node in nodes[: end.index + 1] if bits >> node.index & 1 and node.image]

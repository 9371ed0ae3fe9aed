"""Tests that see inside a pass: what a token is, what attends to what, what skips, what is read."""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor, nn

from vitnb.examine._exam import NEAR, Exam, Grid, difference
from vitnb.examine._findings import Finding, finding, named
from vitnb.examine._structure import (
    BATCH_NORMS,
    NON_LINEAR,
    NORMS,
    Attention,
    Branch,
    Structure,
    activation_between,
    aligned,
    input_of,
    is_linear,
    is_softmax,
    is_weighted,
    operand_of,
    recognised,
    through,
    turned,
    without_bias,
)
from vitnb.examine._trace import FACTORS, MOVES, SOFTMAX, Node, base, computed, same, trace, unscaled

# From pixels to patches --------------------------------------------------------------------------


class Tokens:
    """The tokens that the first attention reads, as a function of the image; the passes stop there."""

    def __init__(self, exam: Exam):
        s = exam.structure
        node = s.read
        norm = s.norm_of(node)
        if norm and norm.over != "features" and s.rows(norm.before) is not None:
            node = norm.before
        self._model, self._node, self._shape = exam.perturbed, node, (s.tokens, s.width, s.channels_first)
        self._rows, self.here = s.rows, exam.images(1, 9)
        self._values = self._one(self.here)
        self._many = self._in_batches(s)
        self._alike = self._values if self._many is None else self._batch(self.here)

    def _one(self, image: Tensor) -> Tensor:
        node = trace(self._model, image, stop=self._node.call).nodes[self._node.index]
        return recognised(self._rows(node))  # (T, D)

    def _in_batches(self, s: Structure) -> Node | None:
        """The node of the same tokens in a pass over many images, if that pass is alike."""
        B = next(n for n in (31, 37, 41) if n not in self._shape)
        here = computed(s.nodes[: self._node.index + 1])
        try:
            nodes = computed(trace(self._model, self.here.repeat(B, 1, 1, 1), computed=len(here)).nodes)
        except Exception:  # not every model takes any number of images
            return None
        if [n.op for n in nodes[: len(here)]] != [n.op for n in here] or self._node is not here[-1]:
            return None
        node = nodes[len(here) - 1]
        tokens = aligned(node.out, *self._shape)
        return node if tokens is not None and same(tokens[0], self._values) else None

    def changes(self, places: list[tuple]) -> Tensor:
        """How much each token changes, in standard deviations, where pixels do, for each place: (P, T)."""
        images = self.here.repeat(len(places), 1, 1, 1)
        for n, place in enumerate(places):
            noise = torch.randn(images[n][place].shape, generator=torch.Generator().manual_seed(5))
            images[n][place] += 2.0 * noise
        if self._many is None:
            values, here = torch.stack([self._one(image[None]) for image in images]), self._values
        else:
            parts = images.split(len(self._alike))
            values = torch.cat([self._batch(part)[: len(part)] for part in parts])
            here = torch.cat([self._alike[: len(part)] for part in parts])  # each image at its place in the batch
        return (values - here).abs().amax(-1) / self._values.std()

    def _batch(self, images: Tensor) -> Tensor:
        B = self._many.out.numel() // self._values.numel()
        full = torch.cat([images, self.here.repeat(B - len(images), 1, 1, 1)])
        node = trace(self._model, full, stop=self._many.call).nodes[self._many.index]
        return recognised(aligned(node.out, *self._shape))  # (B, T, D)


def _touched(changes: Tensor) -> list[frozenset[int]]:
    return [frozenset((change > 1e-4).nonzero().flatten().tolist()) for change in changes]


def cut(exam: Exam) -> Iterator[Finding]:
    """Perturb rows, columns, channels and single pixels of the image; see which tokens change."""
    tokens = Tokens(exam)
    C, H, W = exam.image
    every, middle = slice(None), H // 2
    down, across = tokens.changes([(every, h) for h in range(H)]), tokens.changes([(every, every, w) for w in range(W)])
    rows, columns = _touched(down), _touched(across)
    patches = frozenset().union(*rows)
    if not patches:
        return
    heights, widths = _stripes(rows), _stripes(columns)
    split = C > 1 and any(t != rows[middle] for t in _touched(tokens.changes([(c, middle) for c in range(C)])))
    cells = [[row & column for column in (widths or [])] for row in (heights or [])]
    if heights and widths and not split and all(len(cell) == 1 for row in cells for cell in row):
        exam.patch_tokens = patches
        grid = Grid((H // len(heights), W // len(widths)), [[min(cell) for cell in row] for row in cells])
        yield from _rectangles(exam, grid)
    else:
        local = all(_is_local(lines[:, t]) for t in patches for lines in (down, across))
        yield from _no_rectangles(exam, tokens, patches, split, local)


def _stripes(touched: list[frozenset[int]]) -> list[frozenset[int]] | None:
    """The sets of tokens of neighbouring rows, if they come in equal runs and share no token."""
    while touched and not touched[-1]:
        touched = touched[:-1]  # a border that no patch holds
    runs = [touched[0]] + [after for before, after in pairwise(touched) if after != before]
    apart = sum(map(len, runs)) == len(frozenset().union(*runs)) and len(set(runs)) == len(runs)
    lengths = [sum(t == run for t in touched) for run in runs]
    inner = lengths[1:-1] or lengths  # a padded image has smaller patches at its sides
    even = len(set(inner)) == 1 and max(lengths) == inner[0]
    return runs if apart and even and all(runs) else None


def _rectangles(exam: Exam, grid: Grid) -> Iterator[Finding]:
    C, H, W = exam.image
    height, width = grid.sides
    order = [token for row in grid.tokens for token in row]
    if grid.number == 1:
        yield finding("one patch", f"One token holds all {H} x {W} pixels.", 1)
    elif (height == H or width == W) and H == W and min(H // height, W // width) == 1:
        yield finding("cut", f"A token holds a strip of {height} x {width} pixels.", grid.number)
    elif order != sorted(order):
        yield finding("order", f"The first tokens of the first row are {order[:4]}.")
    exam.grid = grid if grid.number > 1 and H % height == 0 == W % width else None


def _is_local(changes: Tensor) -> bool:
    """Whether what changes a token most lies within half of the image's rows, or columns."""
    places = (changes > 0.2 * changes.max()).nonzero().flatten()
    return bool(places[-1] - places[0] <= len(changes) / 2)


def _no_rectangles(exam: Exam, tokens: Tokens, patches: frozenset[int], split: bool, local: bool) -> Iterator[Finding]:
    """Tell patches that overlap, where a pixel matters most to a token nearby, from scrambled ones."""
    C, H, W = exam.image
    N = len(patches)
    gh = min((n for n in range(1, N + 1) if N % n == 0), key=lambda n: abs(math.log(n * n * W / (N * H))))
    gw, first = N // gh, min(patches)
    chance = torch.Generator().manual_seed(6)
    near, reach = 0, 0
    pixels = [tuple(int(torch.randint(side, (), generator=chance)) for side in (H, W)) for _ in range(24)]
    for (h, w), change in zip(pixels, tokens.changes([(slice(None), *pixel) for pixel in pixels]), strict=True):
        reach = max(reach, int((change > 1e-4).sum()))
        row, column = divmod(int(change.argmax()) - first, gw)
        near += all(
            abs(at + 0.5 - (pixel + 0.5) * g / side) <= min(1.5, 0.375 * g)  # in a small grid nothing is far
            for at, pixel, g, side in ((row, h, gh, H), (column, w, gw, W))
        )
    overlap = N >= 4 and not split and reach > 1 and (near >= 18 or local)
    if not overlap and exam.structure.joined_before:
        yield finding("mixed before", f"One pixel reaches up to {reach} of {N} tokens.", reach)
        return
    exam.patch_tokens = patches
    if overlap:
        yield finding("overlap", f"One pixel reaches up to {reach} of {N} tokens, mostly near it.", reach)
    elif split and reach <= C:
        yield finding("cut", "The channels of one pixel go to different tokens.", reach)
    elif reach > 1:
        yield finding(
            "cut", f"One pixel reaches up to {reach} of {N} tokens, {24 - near} of 24 times mostly one far away.", reach
        )
    else:
        yield finding("cut", "Each pixel is in one token, but a token's pixels are no rectangle of the image.", reach)


# Positions ---------------------------------------------------------------------------------------


def positions(exam: Exam) -> Iterator[Finding]:
    """Shuffle the patches: the logits must change; the vectors that are added must differ."""
    if "blind" in exam.codes or exam.grid is None or exam.grid.number < 4:
        return
    images = exam.images(1)
    shuffled = _shuffled(images, exam.grid)
    off = exam.moved(exam.logits(shuffled), exam.logits(images))
    equal = _equal_positions(exam)
    if off < NEAR:
        how = " All places share one vector." if equal else ""
        yield finding("no positions", f"Shuffling the patches changes the logits by {off:.1g} sd.{how}", off)
    elif equal:
        says = f"{equal} of {exam.grid.number} places have a vector that another place has."
        yield finding("equal positions", says, equal)
    else:
        lines = len(exam.grid.tokens), len(exam.grid.tokens[0])
        for n, axis, known, lost in ((lines[1], 3, "rows", "columns"), (lines[0], 2, "columns", "rows")):
            off = exam.moved(exam.logits(_swapped(images, n, axis)), exam.logits(images)) if n > 3 else 1.0
            if off < NEAR:
                says = (
                    f"Two {lost} of patches that change places change the logits by {off:.1g} sd: only {known} count."
                )
                yield finding("one coordinate", says, off)
        as_built = difference(exam.logits(shuffled, exam.model), exam.logits(images, exam.model))
        if as_built < NEAR:
            yield finding("zero positions", f"As built, shuffling the patches changes the logits by {as_built:.1g} sd.")


def _shuffled(images: Tensor, grid: Grid) -> Tensor:
    gh, gw = len(grid.tokens), len(grid.tokens[0])
    patches = images.unflatten(3, (gw, -1)).unflatten(2, (gh, -1)).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    order = torch.randperm(grid.number, generator=torch.Generator().manual_seed(4))
    patches = patches[:, order].unflatten(1, (gh, gw))  # (B, gh, gw, C, ph, pw)
    return patches.permute(0, 3, 1, 4, 2, 5).reshape(images.shape)


def _swapped(images: Tensor, lines: int, axis: int) -> Tensor:
    """The first two of these lines of patches change places: from four on that is no shift and no reflection."""
    first, second, *rest = images.chunk(lines, axis)
    return torch.cat([second, first, *rest], axis)


def _equal_positions(exam: Exam) -> int:
    """How many patches have a position vector that another one has; 0 where no table is added."""
    T, D = exam.structure.tokens, exam.structure.width
    total, patches = torch.zeros(T, D, dtype=torch.float64), sorted(exam.patch_tokens)
    for node in exam.structure.nodes[: exam.structure.read.index]:
        tables = [p.flat for p in node.parents if not p.image] if node.op == "add" and len(node.parents) == 2 else []
        for table in tables:
            if table.ndim == 2 and table.shape[1] == D and node.flat.shape == table.shape:
                rows = patches if len(table) == T else [t - patches[0] for t in patches]
                if max(rows) < len(table):
                    total[patches] += table[rows]
    near = torch.cdist(total[patches], total[patches]) < 1e-6 * total.abs().max()
    return int((near.sum(1) > 1).sum())


ALL = slice(None)

# Attention ---------------------------------------------------------------------------------------


def attention(exam: Exam) -> Iterator[Finding]:
    s = exam.structure
    if s.unweighted and not any(a.scores for a in s.attentions):
        level = "departs" if _weighed(s, *s.unweighted) else None
        yield finding("no softmax", "No softmax lies between q·k and the product with v.", level=level)
    elif not s.attentions:
        yield finding("no attention", "No weights were computed from tokens.")
    elif any(is_softmax(unscaled(node)[0]) for a in s.attentions if (node := through(a.weights))):
        yield finding("softmax twice", "A softmax reads the result of a softmax.")
    batch = [*_over_the_batch(s, Structure(exam.three))] if 3 in exam.sizes else []
    yield from batch
    yield from _sums(exam)
    for test in (_masks, _operands, _projections):
        yield from test(s)
    yield from _scale(exam)
    if not batch:
        yield from _heads(exam)


def _weighed(s: Structure, first: Node, second: Node) -> bool:
    """Whether something else makes weights of scores: a sigmoid, or a softmax of queries or keys."""
    soft = [p for p in (*first.images, *second.images) if is_softmax(unscaled(p)[0])]
    return bool(soft) or any(node.op == "sigmoid" and s.lineage.made_from(node, first) for node in
                             s.lineage.between(s.nodes, first, second))  # fmt: skip


def _over_the_batch(one: Structure, three: Structure) -> Iterator[Finding]:
    for a, b in zip(one.attentions, three.attentions, strict=False):
        if a.mixing is not None and b.mixing is not None:
            small, large = a.mixing.out.shape[a.keys_axis], b.mixing.out.shape[b.keys_axis]
            if small == large == 1 and a is one.attentions[0]:
                yield finding("one patch", "A query has one key: there is one token.", 1)
                return
            if small != large:
                says = f"With three images a query has {large} keys, with one image {small}."
                yield finding("over the batch", says, large)
                return


def _matrix(attention: Attention) -> Tensor | None:
    """The weights of one image as (h, T, T), queries first."""
    if attention.mixing is None:
        return None
    weights = attention.mixing.out.double()
    weights = weights if attention.keys_axis == -1 else weights.mT
    square = weights.ndim >= 2 and weights.shape[-1] == weights.shape[-2] > 1
    return weights.reshape(-1, *weights.shape[-2:]) if square else None


def _sums(exam: Exam) -> Iterator[Finding]:
    s = exam.structure
    for attention in s.attentions:
        weights, mixing = _matrix(attention), attention.mixing
        if weights is None or mixing is None:
            continue
        off = (weights.sum(-1) - 1).abs().max().item()
        if off > 1e-3:
            before, factor, _ = unscaled(mixing)
            if before is attention.weights and abs(factor - 1) > 1e-3:
                yield finding("weights sum", f"After the softmax the weights are multiplied by {factor:.3g}.", factor)
            elif before is attention.weights:
                yield finding("softmax axis", f"Over the keys the weights sum to {weights.sum(-1).min():.2f} to "
                              f"{weights.sum(-1).max():.2f}.", off)  # fmt: skip
            else:
                says = f"Over the keys the weights sum to as much as {weights.sum(-1).max():.3g}"
                made = s.lineage.made_from
                beside = [a for a in s.attentions if not made(attention.weights, a.weights) and made(mixing, a.weights)]
                if beside:
                    yield finding("weights sum", f"{says}: several softmaxes make them.", off, "departs")
                elif _heads_mixed(exam, attention):
                    yield finding("weights sum", f"{says}: after the softmax heads are mixed.", off, "departs")
                else:
                    yield finding("weights sum", f"{says}.", off)
            return


def _heads_mixed(exam: Exam, attention: Attention) -> bool:
    """Whether a learned matrix takes weights that sum to 1 from all heads, for each query and key alike."""
    s, soft, mixing = exam.structure, attention.weights, attention.mixing
    T, sums = soft.out.shape[-1], soft.out.sum(attention.keys_axis)
    if mixing is None or soft.out.shape[-2:] != (T, T) or (sums - 1).abs().max() > 1e-3:
        return False
    eye, seen = torch.eye(T), exam.edited({soft.call: _eye}).nodes[mixing.index].out
    diagonal, others = seen[..., :1, :1], seen[..., :1, 1:2]
    alike = (seen - diagonal * eye - others * (1 - eye)).abs().max() < 1e-4 * seen.abs().max()
    return bool(alike) and any(is_weighted(node) for node in s.lineage.between(s.nodes, soft, mixing))


def _masks(s: Structure) -> Iterator[Finding]:
    for attention in s.attentions:
        weights = _matrix(attention)
        if weights is None:
            continue
        never = (weights < 1e-12).all(0)
        T = len(never)
        if T > 2 and never.any() and (weights.sum(-1) - 1).abs().max() < 1e-3:
            after = torch.ones_like(never).triu(1)
            code = "mask" if torch.equal(never, after) or torch.equal(never, after.mT) else "partial mask"
            share = never.double().mean().item()
            yield finding(code, f"{100 * share:.0f} % of all pairs of tokens have weight 0.", share)
            return


def _operands(s: Structure) -> Iterator[Finding]:
    """Queries, keys and values: with weights of their own, from the same tokens."""
    for attention in s.attentions:
        if attention.scores is None or attention.mix is None:
            continue
        q, k = attention.operands
        v = next(p for p in attention.mix.parents[-2:] if p is not attention.mixing)
        for operand, own in ((q, -1), (k, -2)):
            over = {axis for axis in range(-operand.out.ndim, 0) if _is_unit(operand.out, axis)}
            if over and own not in over:
                yield finding("norm axes", "Queries or keys are normalised, but not over the features of one head.")
                return
        found = {"queries": q.out, "keys": k.out.mT, "values": v.out if attention.keys_axis == -1 else v.out.mT}
        for (a, x), (b, y) in pairwise([*found.items(), next(iter(found.items()))]):
            if _proportional(x, y):
                yield finding("same projection", f"{a} and {b} hold the same numbers.")
                return
        reads = [input_of(readers[0]) for operand in (q, k, v) if (readers := s.readers(operand))]
        if len({node.out.numel() for node in reads}) == 1 and not all(same(reads[0], node) for node in reads[1:]):
            yield finding("different inputs", "Two of queries, keys and values come from different tensors.")
            return


def _proportional(x: Tensor, y: Tensor) -> bool:
    x, y = x.double().flatten(), y.double().flatten()
    if len(x) != len(y) or not y.square().sum() > 0:
        return False
    return bool((x - (x @ y / y.square().sum()) * y).abs().max() < 1e-4 * x.abs().max())


def _projections(s: Structure) -> Iterator[Finding]:
    scores = [unscaled(before)[0] for n in s.nodes if n.image and is_softmax(n) and (before := through(n))]
    for node in s.nodes:
        if is_weighted(node) and node.op != "convolution" and node not in scores:
            before = without_bias(operand_of(node))
            names = [_parameter_of(n) for n in (before, node)]
            if is_weighted(before) and all(names) and _full_rank(before, node):
                yield finding("projected twice", f"{names[0]} and then {names[1]}, with nothing between.")
                break
    for branch in s.branches:
        if branch.kind == "attention" and branch.state in ("pre", "normed", "raw"):
            mix = next((a.mix for a in s.attentions if a.weights in branch.inside), None)
            if mix is not None and not any(is_weighted(n) and s.lineage.made_from(n, mix) for n in branch.inside):
                yield finding("no projection", "Between the heads and the addition there is no linear layer.")
            return


def _full_rank(first: Node, second: Node) -> bool:
    """Not the two thin layers of a low-rank change, nor two 1 x 1 products of a single number."""
    thin, wide = operand_of(second).out.shape[-1], operand_of(first).out.shape[-1]
    return thin >= min(wide, second.out.shape[-1])


def _scale(exam: Exam) -> Iterator[Finding]:
    """The number that q·k is multiplied by, gathered from all places; the model as built."""
    peaks = []
    for attention in exam.as_built.attentions:
        weights = _matrix(attention)
        if weights is not None and len(weights[0]) > 8:
            peaks.append(weights.amax(-1).mean().item())
        if attention.scores is None:
            continue
        factor, d, learned = _factor(attention.weights, attention.scores, attention.operands)
        off = abs(factor) * math.sqrt(d)  # 1 where it is right
        q, B = attention.operands[0], 3 if 3 in exam.sizes else 1
        outs = [reader.out for reader in exam.as_built.readers(q) if reader.op != "convolution"]
        if any(out.numel() == B * d * out.shape[-1] != B * q.out.shape[-2] * out.shape[-1] for out in outs):
            continue  # scores of features, which are sums over the tokens
        if not learned and abs(off - 1) > 0.02:
            width = exam.structure.width if exam.structure.first_read else 0
            level = "departs" if _made_up_for(attention, off) else None
            yield finding("scale", f"Scores are q·k times {factor:.3g}, {_divisor(factor, d, width)}; "
                          f"1/√d is {1 / math.sqrt(d):.3g} for heads of width {d}"
                          f"{', as the initial queries and keys are' if level else ''}.", off, level)  # fmt: skip
            break
    peak = sorted(peaks)[(len(peaks) - 1) // 2] if peaks else 0.0  # the median layer's: a first may read raw tokens
    if peak > 0.8 and exam.can_build:
        says = f"As built, the largest weight of a query is {peak:.2f} on average."
        yield finding("saturated", says, peak)


def _made_up_for(attention: Attention, off: float) -> bool:
    """Whether queries and keys begin as much smaller than values as the scores lack in scale."""
    if attention.mix is None:
        return False
    values = next(p for p in attention.mix.parents[-2:] if p is not attention.mixing).out.std()
    smaller = math.prod((q.out.std() / values / unscaled(q)[1]).abs().item() for q in attention.operands)
    return abs(math.log(smaller)) > 0.5 and abs(math.log(smaller * off)) < 0.25


def _divisor(factor: float, d: int, width: int) -> str:
    known = {"nothing divides them": 1.0, f"divided by {d}": 1 / d, f"multiplied by √{d}": d**0.5}
    if width:
        known[f"divided by the root of the whole width {width}"] = width**-0.5
    return next((name for name, value in known.items() if abs(factor / value - 1) < 0.02), "some other scale")


def _factor(weights: Node, product: Node, operands: tuple[Node, Node]) -> tuple[float, int, bool]:
    """What q·k was multiplied by on its way to the softmax, the width of a head, and whether the number is learned."""
    node, factor, learned, d = weights, 1.0, False, operands[0].out.shape[-1]
    while node is not product:
        node, by, is_learned = unscaled(node)
        factor, learned = factor * by, learned or is_learned
        if node is not product:
            node = through(node) or product
    if product.op == "baddbmm":
        factor *= product.kwargs.get("alpha", 1)
    for operand in operands:
        source, by, is_learned = unscaled(operand)
        factor, learned = factor * by, learned or is_learned or (source.out.shape[-1] == d and _is_unit(source.out, -1))
    return factor, d, learned


def _is_unit(x: Tensor, axis: int) -> bool:
    """Whether what lies along an axis was normalised to one length: then the scale is a matter of choice."""
    lengths = x.double().square().sum(axis)
    return bool(x.shape[axis] > 1 and lengths.numel() > 1 and lengths.std() < 1e-3 * lengths.mean())


def _heads(exam: Exam) -> Iterator[Finding]:
    """Move one token: in scores only its row and column may change, and without attention only itself."""
    s = exam.structure
    node = s.first_read
    scored = next((a for a in s.attentions if a.scores is not None), None)
    if node is None or scored is None or "norm axes" in exam.codes or s.tokens < 3:
        return
    T, t, norm = s.tokens, s.tokens // 2, s.norm_of(node)
    moved = norm.before if norm and s.rows(norm.before) is not None else node  # what all norms of it read
    within = s.lineage.between(s.nodes, moved, scored.mix or scored.weights)
    if any(n.op == "convolution" and max(n.parents[1].out.shape[2:]) > 1 for n in within):
        return  # projections that reach neighbours
    seen = exam.edited({_call(moved): lambda out: _with_row(out, s, t)}).nodes
    if scored.scores.out.shape[-2:] == (T, T):
        change = seen[scored.scores.index].out - scored.scores.out
        changed = change.abs().reshape(-1, T, T).amax(0) > 1e-5 * scored.scores.out.abs().max()
        of_features = bool(changed.all())  # scores of features are sums over all tokens
        changed[t], changed[:, t] = False, False
        if changed.any() and not of_features:
            n = int(changed.any(1).sum())
            says = f"Moving one token changes the scores of {n} other tokens among themselves; 0 is right."
            yield finding("heads split", says, n)
            return
        yield from _offsets(exam, scored, moved)
    if any(b.state == "doubled" for b in s.branches):
        return  # nothing skips that could be compared
    heads = [b for b in s.branches if b.kind == "attention"][:4]
    if heads and _changed(s, s.nodes, seen, heads[-1].add) == [t]:
        yield finding("no mixing", f"Behind {len(heads)} layers of attention a token has reached no other one.")
        return
    for branch in heads:
        tokens = moved if branch is heads[0] else branch.skip if branch.state in ("pre", "normed", "raw") else None
        off, right = _reached_alone(exam, branch, tokens, t) if tokens else ([], [])
        if off and off != right and len(right) == 1:
            what = f"{len(off)}; 1 is right" if len(off) > 1 else "another one"
            says = f"With every token attending to itself alone, moving one token moves {what}."
            yield finding("heads merged", says, len(off))
            return
    yield from _one_way(exam, seen, t)


def _reached_alone(exam: Exam, branch: Branch, tokens: Node, t: int) -> tuple[list[int], list[int]]:
    """Which of a branch's outputs change with token t, if attention takes of each token itself, and what skips."""
    s = exam.structure
    heads = [a for a in s.attentions if a.weights in branch.inside]
    if not heads or any(a.mixing is None for a in heads):
        return [], []  # what weighs the values is made of several weights
    p, q = branch.add.images
    end, skip = (p, q if branch.skip else tokens) if base(p) is branch.out else (q, p if branch.skip else tokens)
    square = all(a.weights.out.shape[-1] == a.weights.out.shape[-2] for a in heads)
    if not square or s.rows(end) is None or not all(map(is_linear, filter(is_weighted, branch.inside))):
        return [], []
    alone = {a.weights.call: _eye for a in heads}
    off = exam.edited(alone).nodes
    moved = exam.edited(alone | {_call(tokens): lambda out: _with_row(out, s, t)}).nodes
    if any((off[a.mixing.index].out - _eye(a.mixing.out)).abs().max() > 1e-4 for a in heads):
        return [], []
    return _changed(s, off, moved, end), _changed(s, off, moved, skip)


def _changed(s: Structure, here: list[Node], there: list[Node], node: Node) -> list[int]:
    """Which tokens are not the same in two passes."""
    x, y = (recognised(s.rows(nodes[node.index])) for nodes in (here, there))
    return ((y - x).abs().amax(1) > 1e-5 * x.abs().max()).nonzero().flatten().tolist()


def _eye(out: Tensor) -> Tensor:
    """Weights with which every token attends to itself alone."""
    return torch.eye(out.shape[-1], dtype=out.dtype).expand_as(out).contiguous()


def _one_way(exam: Exam, moved: list[Node], t: int) -> Iterator[Finding]:
    """Whether a token's row, or column, is all that it reaches by the end of the blocks."""
    s = exam.structure
    if exam.grid is None or sum(b.kind == "attention" for b in s.branches) < 2:
        return
    changed = {*_changed(s, s.nodes, moved, s.branches[-1].add)}
    for lines in (exam.grid.tokens, [*zip(*exam.grid.tokens, strict=True)]):
        if len(lines) > 2 < len(lines[0]) and changed in map(set, lines):
            n = len(changed)
            yield finding("one axis", f"Token {t} reaches {n} tokens in a line, and no others.", n)


def _offsets(exam: Exam, scored: Attention, tokens: Node) -> Iterator[Finding]:
    """With one vector in all places, scores come from rotations and relative biases: from the patches' offset alone."""
    s, grid, softmax = exam.structure, exam.grid, scored.weights
    if grid is None or softmax.op not in SOFTMAX:
        return
    T, N, (gh, gw) = s.tokens, grid.number, (len(grid.tokens), len(grid.tokens[0]))
    seen = exam.edited({_call(tokens): lambda out: _with_row(out, s, ALL)}).nodes
    patches = torch.tensor(grid.tokens).flatten()
    readers = [r for operand in scored.operands for r in s.readers(operand)]
    rows = [seen[r.index].flat for r in readers]
    if not all(x.ndim == 2 and len(x) == T and same(x[patches], x[patches[:1]].expand(N, -1)) for x in rows):
        return
    scores = seen[softmax.parents[0].index].out.double().reshape(-1, T, T)[:, patches][:, :, patches].flatten(1)
    span = (scores.amax(1) - scores.amin(1)).max()
    between, product = s.lineage.between(s.nodes, None, softmax), scored.scores.index
    fixed = [(n, p) for n in between for p in n.parents if not p.image and {T, N} & {*p.out.shape}]
    turned = any(n.op == "mul" and readers[0].index < n.index < product and not base(p).parameter for n, p in fixed)
    tables = [_gathered(p) for n, p in fixed if n.op == "add" and n.index > product]
    if not scores.isfinite().all() or span < 1e-4 * scores.abs().max() or None in tables or not (turned or tables):
        return
    r, c = torch.arange(N) // gw, torch.arange(N) % gw
    key = ((r[:, None] - r + gh - 1) * (2 * gw - 1) + c[:, None] - c + gw - 1).flatten()
    K = (2 * gh - 1) * (2 * gw - 1)
    mean = torch.zeros(len(scores), K, dtype=torch.float64).index_add_(1, key, scores) / torch.bincount(key)
    off = ((scores - mean[:, key]).abs().max() / span).item()
    told_apart = len(torch.unique((mean / span * 1e5).round(), dim=1).T)
    if off > NEAR:
        yield finding("offsets", f"Pairs of patches with one offset have scores {off:.2g} of their range apart.", off)
    elif not turned and told_apart < K and all(p and p.out.numel() >= K * len(scores) for p in tables):
        yield finding("offsets", f"The table has room for {K} offsets; {told_apart} are told apart.", told_apart)


def _gathered(node: Node) -> Node | None:
    """The parameter of which a tensor holds entries by their index."""
    gathered = False
    while node.op in MOVES and node.parents:
        gathered |= node.op in ("index", "index_select")
        node = node.parents[0]
    return node if gathered and node.parameter else None


def _call(node: Node) -> int:
    """The operation to edit so that all that a tensor goes to sees the change."""
    return base(node).call or node.call


def _with_row(out: Tensor, s: Structure, t: int | slice) -> Tensor:
    """Tokens, in their layout, with another one at place t, or one in all places."""
    new, D = out.clone(memory_format=torch.contiguous_format), s.width
    if new.numel() != s.tokens * D or (s.channels_first and new.ndim == 4 and len(new) > 1):
        raise ValueError(f"{tuple(out.shape)} are not {s.tokens} tokens of width {D}")
    rows = new.view(D, -1).T if s.channels_first or new.shape[-1] != D else new.view(-1, D)
    rows[t] = rows[0 if t == ALL else t] + 2.0 * torch.randn(D, generator=torch.Generator().manual_seed(8))
    return new


# Norms and residual branches ---------------------------------------------------------------------


def wiring(exam: Exam) -> Iterator[Finding]:
    s = exam.structure
    yield from _skips(s)
    branches = s.branches
    if not branches:
        return
    states = [branch.state for branch in branches]
    yield from _stream(exam, branches, states)
    of_batch = [n.parents[0] for n in s.nodes if n.op in BATCH_NORMS and n.index > s.read.index]
    if any(x.out.shape[1:] == (s.tokens, s.width) and not turned(x) for x in of_batch):
        yield finding("norm axes", "A batch norm takes the tokens for its channels.")
        yield from _activations(s)
        return
    behind = [n for n in s.nodes[branches[-1].add.index + 1 :] if n.image and s.rows(n) is not None]
    last = [s.norm_of(node) for node in behind[-1:]]
    for norm in [branch.norm or branch.end_norm for branch in branches] + last:
        if norm and norm.kind not in ("layer", "batch", "group", "rms"):
            yield finding("norm formula", f"A norm's result is {norm.kind}.")
            break
        if norm and norm.over != "features":
            yield finding("norm axes", f"A norm is over {norm.over}.")
            break
        if norm and norm.kind != "layer":
            yield finding("other norm", f"A {norm.kind} norm stands where a ViT has a LayerNorm.")
            break
    yield from _activations(s)


def _stream(exam: Exam, branches: list[Branch], states: list[str]) -> Iterator[Finding]:
    """What the residual stream carries."""
    says = {"doubled": "adds its output to itself", "norm on the skip": "is added to the norm of what it reads"}
    for state in [state for state in says if state in states]:
        yield finding(state, f"{_called(branches[states.index(state)].kind)} {says[state]}.")
    for by in [base(p) for b in branches if b.state == "scaled skip" for p in b.skip.parents if not p.image][:1]:
        gain = (exam.model.get_parameter(by.parameter) if by.parameter else by.out).abs().mean().item()
        if gain < 0.5 and not by.parents:
            yield finding("scaled skip", f"A branch is added to {gain:.2g} times the tokens that it reads.", gain)
    if "old skip" in states:
        yield finding("old skip", "Behind attention its sum with the tokens is not what skips.")
    if branches[0].kind == "mlp" and branches[0].state == "pre" and "attention" in {b.kind for b in branches}:
        yield finding("mlp first", "The first branch is an MLP.")
    if "parallel" in states:
        yield finding("parallel", "An MLP and an attention layer read the same tokens.")
    of = {kind: {b.state for b in branches if b.kind == kind} for kind in ("attention", "mlp")}
    if not set(states) <= {"pre", "normed", "raw"} or not all(of.values()):
        pass
    elif of["attention"] | of["mlp"] <= {"raw", "normed"} and "normed" in of["attention"] | of["mlp"]:
        yield from _post_norm(exam, branches)
    elif of["attention"] | of["mlp"] == {"raw"}:
        ends = all(b.end_norm for b in branches)
        yield finding("norm after the branch" if ends else "no norm", "All branches read raw tokens.")
    else:
        yield from _halves(of, branches)
    if not _last_norm(exam, branches[-1]):
        yield finding("no last norm", "Three times the last block's output gives other logits.")


def _halves(of: dict[str, set[str]], branches: list[Branch]) -> Iterator[Finding]:
    """The halves of a block disagree."""
    for kind, other in (("attention", "mlp"), ("mlp", "attention")):
        if "normed" in of[kind] and "pre" in of[other]:
            yield finding("normalise, then add", f"{_called(kind)} is added to the normalised tokens that it reads.")
        elif "raw" in of[kind] and "pre" in of[other] - of[kind]:
            behind = any(b.end_norm for b in branches if b.kind == kind) * " Its norm comes after it."
            yield finding("missing norm", f"{_called(kind)} reads raw tokens.{behind}")


def _post_norm(exam: Exam, branches: list[Branch]) -> Iterator[Finding]:
    """Post-norm, or its look-alike: the norm stands before the branch, and its result is what skips."""
    first, last = branches[0], _last_norm(exam, branches[-1])
    if first.state == "normed" and not (last and _outside_blocks(first)):
        yield finding("normalise, then add", "Attention and MLP are added to the normalised tokens that they read.")
    else:
        yield finding("post-norm", "Each norm follows an addition.")


def _outside_blocks(branch: Branch) -> bool:
    """Whether the norm before the first branch belongs to no block, as one of embeddings does."""
    nodes = base(branch.reads or branch.out), next(filter(is_weighted, branch.inside))
    norm, layer = (re.search(r"\b\d+\b", _parameter_of(node) or "0") for node in nodes)
    return norm is None and layer is not None and _parameter_of(nodes[1]) is not None


def _parameter_of(node: Node) -> str | None:
    """The name of a parameter that an operation takes, whole or in part."""
    return next((base(parent).parameter for parent in node.parents if base(parent).parameter), None)


def _called(kind: str) -> str:
    return "Attention" if kind == "attention" else "The MLP"


def _last_norm(exam: Exam, last: Branch) -> bool:
    """Whether the logits stay when the last block's output is multiplied."""
    here = exam.logits_of(exam.one)
    larger = exam.logits_of(exam.edited({exam.structure.end_of(last).call: lambda out: 3 * out}))
    return exam.moved(larger, here) < 0.05


def _skips(s: Structure) -> Iterator[Finding]:
    """From one attention's tokens to the next one's there must be a way around all products."""
    scored = [a for a in s.attentions if a.scores is not None and a.mix is not None and s.readers(a.operands[0])]
    for first, second in pairwise(scored):
        before, after = (input_of(s.readers(a.operands[0])[0]) for a in (first, second))
        if not s.lineage.made_from(after, first.weights) or before.out.numel() != after.out.numel():
            continue  # two layers side by side, or of two stages
        around, ends = s.passed_on(after)
        sums = [node for node in s.nodes[first.weights.index : after.index] if _joins(node, s.read.out.numel())]
        if any(node.index <= before.index for node in around | ends) or len(sums) > 1:
            continue
        last = max(ends, key=lambda node: node.index)
        if len(ends) > 1:
            yield finding("no skip", "Attention's output replaces the tokens that it read.")
        elif any(node.index <= before.index for node in s.passed_on(_mlp_input(s, last))[0]):
            yield finding("no skip", "The MLP's output replaces the tokens that it read.")
        else:
            yield finding("no skip", "Between two attention layers nothing is added.")
        return


def _joins(node: Node, size: int) -> bool:
    """Whether two tensors of tokens are added here, or stand side by side for a layer that joins them."""
    if len(node.images) < 2:
        return False
    return node.out.numel() > size if node.op in ("cat", "stack") else node.op in ("add", "addcmul", "lerp")


def _mlp_input(s: Structure, last: Node) -> Node:
    """What the layer before the last one reads."""
    layers = s.readers(operand_of(last)) if is_weighted(last) else []
    return input_of(layers[0]) if layers else last


def _activations(s: Structure) -> Iterator[Finding]:
    for branch in s.branches:
        if branch.kind != "mlp" or branch.state in ("other", "parallel", "old skip"):
            continue
        layers = [n for n in branch.inside if is_weighted(n)]
        after = [n for n in branch.inside if n.index > layers[-1].index and n.op in NON_LINEAR]
        if after and not branch.end_norm:
            yield finding("activation at the end", f"After the MLP's last linear layer comes {after[0].op}.")
        if len(layers) == 2:
            name = activation_between(layers[0], layers[1], branch.inside)
            if name == "none" and operand_of(layers[1]).flat.shape[-1] >= s.width:
                yield finding("no activation", "What the MLP's second layer reads is what the first returned.")
            elif name not in (None, "none", "GELU", "GELU with tanh"):
                yield finding("activation", f"The activation is {name}.")
        elif len(layers) == 1 and not after:
            yield finding("no activation", "The MLP is one linear layer.")
        return


def shared(exam: Exam) -> Iterator[Finding]:
    """The same weights, used for different tokens in one pass over one image."""
    uses: dict[tuple, list[Node]] = defaultdict(list)
    s, T = exam.structure, exam.structure.tokens
    for node in s.nodes:
        if not (is_weighted(node) or node.op in NORMS or node.op in FACTORS) or not node.images:
            continue
        tokens = base(node.images[0])
        if T not in tokens.flat.shape or tokens.flat.ndim != 2:
            continue
        for parent in node.parents:
            if base(parent).parameter and parent.out.numel() > 1:
                uses[_slice(parent)].append(node.images[0])
    inputs = {key: sum(not any(same(a, b) for b in at[:n]) for n, a in enumerate(at)) for key, at in uses.items()}
    names = {str(key[0]): n for key, n in inputs.items() if n > 1}
    if names:
        known = Counter(p for _, p in exam.perturbed.named_parameters(remove_duplicate=False))
        whole = all(
            known[exam.perturbed.get_parameter(n)] == 1 and _in_a_layer(exam.perturbed, n, names) for n in names
        )
        says = "{} parameters are used in several places of one pass" + whole * " (whole layers, with one name each)"
        yield named("shared", says, [*names], "departs" if whole else None)


def _in_a_layer(model: nn.Module, name: str, uses: dict[str, int]) -> bool:
    """Whether a parameter belongs to a module that has several matrices which are used as often, or more."""
    part, used = name, []
    while part and not (len(used) > 1 and uses[name] <= max(used)):
        part = part.rpartition(".")[0]
        inside = [(f"{part}.{key}".strip("."), p) for key, p in model.get_submodule(part).named_parameters()]
        used = [uses[key] for key, p in inside if p.ndim > 1 and key in uses]
    return len(used) > 1 and uses[name] <= max(used)


def _slice(node: Node) -> tuple[str | None, int, int]:
    """Which part of which parameter: its name, where it begins, and how many numbers it has."""
    parameter = base(node)
    while node.out.untyped_storage().data_ptr() != parameter.out.untyped_storage().data_ptr():
        node = node.parents[0]  # a copy of a part
    return parameter.parameter, int(node.out.storage_offset()), node.out.numel()


# From tokens to one vector -----------------------------------------------------------------------


def read_out(exam: Exam) -> Iterator[Finding]:
    """Move single tokens behind the last block: which of them change the logits?"""
    s = exam.structure
    if not s.branches or not exam.patch_tokens or {"blind", "over the batch", "norm axes"} & exam.codes:
        return
    T, last, here = s.tokens, s.end_of(s.branches[-1]), exam.logits_of(exam.one)
    behind = [a.scores.out for a in s.attentions if a.scores is not None and a.weights.index > last.index]
    if T < 4 or any(scores.shape[-2] > 1 for scores in behind):  # other tokens attend to each other later
        return

    def reads(t: int) -> bool:
        moved = exam.edited({last.call: lambda out: _with_row(out, s, t)})
        return exam.moved(exam.logits_of(moved), here) > NEAR

    probes = sorted({0, 1, T // 2, T - 2, T - 1})
    read = [t for t in probes if reads(t)]
    patches = exam.patch_tokens
    if len(read) == 0:
        read = [t for t in range(T) if T <= 400 and t not in probes and reads(t)][:3]
    if len(read) == 1 and read[0] in patches:
        others = sorted(set(range(T)) - patches)
        where = f", while the cls token stands at place {others[0]}" if others else ", and there is no cls token"
        yield finding("reads a patch", f"The classifier reads token {read[0]} of {T} alone, a patch{where}.", read[0])
    elif len(read) == len(probes) and set(range(T)) - patches:
        says = f"All of the tokens {probes} are read; {T - len(patches)} of {T} are no patches."
        yield finding("mean with cls", says)
    elif len(patches & set(read)) > 1 and patches & set(probes) - set(read):
        left = sorted(patches & set(probes) - set(read))
        yield finding("leaves out patches", f"The classifier reads patches, but not {left} of {T} tokens.", len(left))
    yield from _head(s, last)
    if len(read) == 1:
        yield from _two_heads(exam, last)
    yield from _fixed_token(s)


def _two_heads(exam: Exam, last: Node) -> Iterator[Finding]:
    """Two classifiers that read the same token, and whose logits are added: one would do."""
    s = exam.structure
    ends = [n for n in s.nodes[last.index + 1 :] if is_weighted(n) and n.out.numel() == exam.num_classes]
    for first, second in pairwise(ends):
        added = any(n.op == "add" and {*map(without_bias, n.images)} == {first, second} for n in s.nodes)
        if added and same(operand_of(first), operand_of(second)) and _parameter_of(first) != _parameter_of(second):
            yield finding("same token", "Two classifiers read the same numbers, and their logits are added.")


def _fixed_token(s: Structure) -> Iterator[Finding]:
    """A token that was put beside the patches and comes from no parameter."""
    for node in s.nodes[: s.read.index]:
        for other in (p for p in node.parents if node.op == "cat" and node.image and not p.image):
            sources = [n for n in s.nodes[: other.index + 1] if s.lineage.made_from(other, n)]
            if other.out.numel() == s.width and other.out.any() and not any(n.parameter for n in sources):
                yield finding("fixed cls", "The token beside the patches is made of no parameter.")


def _head(s: Structure, last: Node) -> Iterator[Finding]:
    """What the first linear layer behind the blocks reads."""
    T, D = s.tokens, s.width
    behind = [n for n in s.nodes[last.index + 1 :] if is_weighted(n) and n.out.numel() != last.out.numel()]
    if not behind:
        return
    operand = operand_of(behind[0])
    width = operand.flat.shape[-1] if operand.flat.ndim else 1
    if width >= (T - 2) * D and T > 3 and operand.flat.ndim == 1:
        yield finding("flattened", f"The first layer of the classifier reads {width} numbers.", width)
    pooled, before = [], [operand]
    while before and before[0].flat.shape == (T,):  # back through norms and dropout
        pooled.append(before[0].flat)
        before = before[0].images
    for node in s.nodes[last.index :] if pooled else []:
        tokens = s.rows(node) if node.image and not (T == D and turned(node)) else None
        sums = [] if tokens is None else [tokens.mean(1), tokens.sum(1)]
        if any(same(one, over) for one in pooled for over in sums):
            yield finding("over features", f"The classifier reads {T} numbers, one a token.", T)
            return

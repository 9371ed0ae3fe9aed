"""Exercises of chapter 8: counting, assembling, growing and auditing a whole ViT."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbook import faults
from vitbook.exercises.declaration import Exercise, Judgement, NotDone, Raised
from vitbook.exercises.forms import Calls, hunt, kinds, loaded, unreached
from vitbook.exercises.values import (
    apart,
    chance,
    close,
    counted,
    described,
    expected,
    first_that,
    fresh,
    frozen,
    is_whole,
    number,
    perturbed,
    tensor_like,
)
from vitbook.faults.pool import FrozenEmbedding, SoftmaxInside
from vitnb.blocks import PreNormBlock
from vitnb.vit import ViT, ViTConfig, count_parameters


def _offs(c: ViTConfig) -> dict[str, float]:
    """By how many numbers a count is off, for each thing that is forgotten or too much."""
    D, L, K, M = c.embed_dim, c.depth, c.num_classes, round(c.mlp_ratio * c.embed_dim)
    places = c.num_patches + (c.global_pool == "cls")
    return {
        "One vector of width D is missing: is the cls token there, its row in the position table, each bias?": -D,
        "Two vectors are missing, a gain and a bias: the last norm?": -2 * D,
        "The head has a bias, too.": -K,
        "The head is missing.": -(D * K + K),
        "The position table is missing.": -places * D,
        "Each block misses one vector of width D: a bias?": -L * D,
        "Each block misses two vectors: it has two norms, each with a gain and a bias.": -2 * L * D,
        "The norms of the blocks are missing.": -4 * L * D,
        "All norms are missing.": -4 * L * D - 2 * D,
        "The biases of queries, keys and values are missing.": -3 * L * D,
        "In each block the first layer of the MLP lacks its bias.": -L * M,
        "The biases of the MLP are missing.": -L * (M + D),
        "Attention has four layers of D x D: the one that mixes the heads is missing.": -L * (D * D + D),
        "Attention has four layers of D x D: of the one that mixes the heads, only the bias is there.": -L * D * D,
        "Your MLP is 4 times as wide as a token: this config says otherwise.": L * (4 * D - M) * (2 * D + 1),
        "Your MLP has one unit less in each block: round() its size, do not cut it.": -L * (2 * D + 1),
        "Your MLP has one unit more in each block: round() its size, not always up.": L * (2 * D + 1),
        "One vector of width D too many: does this model have a cls token, and a row for it?": D,
        "Two vectors too many: does this model have a cls token, and a row for it?": 2 * D,
        "This model has no position table to learn.": places * D,
        "This model has no bias for queries, keys and values.": 3 * L * D,
    }


MISCOUNTS: dict[str, Callable[[ViTConfig], float]] = {
    message: lambda c, message=message: _counted(c) + _offs(c)[message] for message in _offs(ViTConfig())
}


def _count(result: Any, case: str, config: ViTConfig) -> str | None:
    count, right = number(result), _counted(config)
    if not count.is_integer() or count == right and not is_whole(result):
        return f"{expected('a whole number', result)} round() the size of the MLP."
    if count == right:
        return None
    off = count - right
    known = first_that(lambda other: other == off, _offs(config)) or ""
    return (
        f"With {case} (D = {config.embed_dim}, depth {config.depth}) you count {count:,.10g}, that is "
        f"{abs(off):,.10g} too {'many' if off > 0 else 'few'}. {known}".strip()
    )


class _NoModel(Calls):
    """It refuses to build the model that is to be counted."""

    def breach(self) -> str | None:
        built = "You build a model and count what it holds: write the formula, in plain arithmetic."
        return built if len(self.names) > 20 else None


Exercise(
    "8.1",
    "my_count(config)",
    "Which parts of the formula disappear without a cls token, with fixed sine waves for positions, without a bias for "
    "q, k and v? Each change touches one or two terms.",
    "A failing verdict says by how many numbers you are off. Divide that by the width, by the width squared, by the "
    "depth: which part has just this size?",
    cases=lambda: _configs().items(),
    judge=_count,
    given=lambda case, config: (config,),
    watch=lambda *case: _NoModel(),
    mistakes=MISCOUNTS,
    right=lambda results: (
        f"{len(results)} models. And your prediction? From /16 to /32, ViT-B has {_doubling(16):+,} parameters; from "
        f"/8 to /16 it has {_doubling(8):+,}."
    ),
)


def _configs() -> dict[str, ViTConfig]:
    pick = chance().choice
    base = ViTConfig(
        img_size=(24, 40), patch_size=4, in_chans=pick((2, 5)), num_classes=pick((11, 13)), embed_dim=pick((36, 60))
    )
    # Halves, so that a vector as wide as the MLP is never as long as several of width D; a part of one more, which
    # is rounded up in one model and down in the next.
    D, ratio = base.embed_dim, pick((2.5, 3.5))
    base = replace(base, depth=pick((3, 5)), num_heads=pick((2, 3)), mlp_ratio=ratio + 0.7 / D)
    return {
        "a cls token and learned positions": base,
        "patches of 8 x 8": replace(base, patch_size=8, mlp_ratio=ratio + 0.3 / D),
        "twice the heads": replace(base, num_heads=2 * base.num_heads),
        "mean pooling": replace(base, global_pool="mean"),
        "fixed sine waves for positions": replace(base, pos_embed="sincos"),
        "no positions": replace(base, pos_embed="none", global_pool="mean"),
        "no bias for q, k, v": replace(base, qkv_bias=False),
    }


def _counted(config: ViTConfig) -> int:
    with torch.device("meta"):
        return count_parameters(ViT(config))


def _doubling(p: int) -> int:
    small, large = (_counted(replace(ViTConfig.vit_b_16(), patch_size=side)) for side in (p, 2 * p))
    return large - small


Join = Callable[[nn.Module, Tensor], Tensor]
PARTS = ("patch_embed", "cls_token", "pos_embed", "blocks", "norm", "head")


class _Assembled(nn.Module):
    """A model of the exercise's names; forward joins the parts as equations 1 to 4 do, or in another way."""

    def __init__(self, c: ViTConfig, join: Join):
        super().__init__()
        D = c.embed_dim
        self.patch_embed = nn.Conv2d(c.in_chans, D, c.patch_size, c.patch_size)
        self.cls_token = nn.Parameter(torch.randn(1, 1, D))
        self.pos_embed = nn.Parameter(torch.randn(1, 1 + c.num_patches, D))
        self.blocks = nn.ModuleList(PreNormBlock(D, c.num_heads, c.mlp_ratio) for _ in range(c.depth))
        self.norm, self.head = nn.LayerNorm(D, eps=1e-6), nn.Linear(D, c.num_classes)
        self.join = join

    def forward(self, images: Tensor) -> Tensor:
        return self.join(self, images)


def _assemble(
    cut: Callable = lambda grid: grid.flatten(2).mT,
    join: Callable = lambda cls, x: torch.cat([cls, x], 1),
    add: Callable = torch.add,
    order: Callable = lambda blocks: blocks,
    last: Callable = lambda norm, x: norm(x),
    read: Callable = lambda x: x[:, 0],
) -> Join:
    """Equations 1 to 4 with the parts of a model, or something else in one place."""

    def forward(model: nn.Module, images: Tensor) -> Tensor:
        x = cut(model.patch_embed(images))
        x = add(join(model.cls_token.expand(len(x), -1, -1), x), model.pos_embed)
        for block in order(model.blocks):
            x = block(x)
        return model.head(read(last(model.norm, x)))

    return forward


def _cls_last(cls: Tensor, x: Tensor) -> Tensor:
    return torch.cat([x, cls], 1)


def _cls_without_place(x: Tensor, table: Tensor) -> Tensor:
    return torch.cat([x[:, :1], x[:, 1:] + table[:, 1:]], 1)


ASSEMBLED: dict[str, Join] = {
    "Your model returns the softmax of the logits: it must return the logits themselves.": (
        lambda model, images: _assemble()(model, images).softmax(1)
    ),
    "Your tokens are cut across the features: (B, D, rows, columns) becomes (B, N, D) by flattening the two last axes "
    "and swapping the axes of features and patches; reshape alone keeps the order in memory.": _assemble(
        lambda grid: grid.reshape(len(grid), -1, grid.shape[1])
    ),
    "Your patches run column by column: flatten the grid row by row.": _assemble(lambda grid: grid.mT.flatten(2).mT),
    "The cls token joins at the end and you read place 0, which is the first patch.": _assemble(join=_cls_last),
    "The cls token joins at the end: then it gets the last patch's position, and each patch its neighbour's.": (
        _assemble(join=_cls_last, read=lambda x: x[:, -1])
    ),
    "You read the last token: that is a patch.": _assemble(read=lambda x: x[:, -1]),
    "The positions are missing.": _assemble(add=lambda x, table: x),
    "The positions are added to the patches before the cls token joins: it has a row in the table, too.": (
        _assemble(add=_cls_without_place)
    ),
    "You average the tokens; this model reads its cls token.": _assemble(read=lambda x: x.mean(1)),
    "The last norm is missing.": _assemble(last=lambda norm, x: x),
    "The blocks are missing from your forward.": _assemble(order=lambda blocks: []),
    "Only the first block runs.": _assemble(order=lambda blocks: blocks[:1]),
    "The last block runs alone: does every block get the result of the one before?": (
        _assemble(order=lambda blocks: blocks[-1:])
    ),
    "The blocks run in reverse order.": _assemble(order=reversed),
}


def _my_vit(model: Any, config: ViTConfig, images: Tensor) -> Judgement:
    if not isinstance(model, nn.Module):
        return expected("an nn.Module from your class", model)
    if not vars(model)["_parameters"] and not vars(model)["_modules"] and not hasattr(model, "blocks"):
        raise NotDone
    if message := _has_parts(model, config) or frozen(model):
        return message
    perturbed(model.eval(), 0.3)
    try:
        result = yield model.forward, images
    except Raised as raised:
        if "Sizes of tensors must match" not in str(raised):
            raise
        copies = f"There is one cls token and a batch of {len(images)} images: give each image its copy"
        return f"{raised} {copies} before you join, with expand()."
    except NotDone:
        return "All parts are there, but your forward returns None: is the return missing?"
    right = _assemble()(model, images)
    if isinstance(result, Tensor) and result.shape == (len(images), 1 + config.num_patches, config.num_classes):
        return f"Your logits have shape {tuple(result.shape)}, one row a token: read token 0 alone."
    if close(logits := tensor_like(result, right), right, 1e-4):
        return unreached(result, model, PARTS)
    known = first_that(lambda join: close(logits, join(model, images), 1e-4), ASSEMBLED)
    return known or f"Your logits are {apart(logits, right)}. Compare step by step with equations 1 to 4."


Exercise(
    "8.3",
    "MyViT(config)",
    "Write down equation 1 first, with the shape after each step. Which two of its letters are tables that the model "
    "learns, and how many rows has each?",
    "What is learned and no layer is an nn.Parameter. The cls token exists once, a batch has many images, and the "
    "position table has a row for the cls token as well.",
    cases=lambda: [
        (ViTConfig((20, 12), 4, 2, 7, 24, depth, 3, mlp_ratio=2.5), fresh(3, 2, 20, 12)) for depth in (3, 1)
    ],
    judge=_my_vit,
    given=lambda config, images: (config,),
    mistakes={message: lambda c, join=join: _Assembled(c, join) for message, join in ASSEMBLED.items()},
    right="all parts are there, and with random weights the logits are those of equations 1 to 4, for 3 blocks and 1.",
    runs="inside",
)


def _has_parts(model: nn.Module, c: ViTConfig) -> str | None:
    """What is wrong unless the parts have the names, kinds and sizes that the exercise asks for."""
    D, T = c.embed_dim, 1 + c.num_patches
    asked = dict(patch_embed=nn.Conv2d, norm=nn.LayerNorm, head=nn.Linear, cls_token=Tensor, pos_embed=Tensor)
    if message := kinds(model, asked):
        return message
    if not isinstance(blocks := getattr(model, "blocks", None), nn.Module):
        return (
            "Your blocks stand in a Python list, so they are not registered: parameters() leaves them out and no "
            "optimizer would train them. Use nn.ModuleList."
            if isinstance(blocks, (list, tuple))
            else expected("an nn.ModuleList named blocks", blocks)
        )
    for name, rows in (("cls_token", 1), ("pos_embed", T)):
        table = getattr(model, name)
        if not isinstance(table, nn.Parameter):
            return f"{name} is a plain tensor, so it is in no list of parameters: make it an nn.Parameter."
        if tuple(table.shape) != (1, rows, D):
            more = " The cls token needs a position, too." if table.shape[-2:] == (T - 1, D) else ""
            return f"Expected {name} of shape (1, {rows}, {D}), got {tuple(table.shape)}.{more}"
    return _blocks_as_asked(model, c)


def _blocks_as_asked(model: nn.Module, c: ViTConfig) -> str | None:
    others = [block for block in model.blocks if not isinstance(block, PreNormBlock)]
    if others or len(model.blocks) != c.depth:
        found = described(others[0]) if others else f"{len(model.blocks)} of them"
        return f"Expected blocks with {counted(c.depth, 'module')} of the class PreNormBlock, got {found}."
    if (heads := model.blocks[0].attention.num_heads) != c.num_heads:
        return f"Expected blocks with {counted(c.num_heads, 'head')}, the config's num_heads, got {heads}."
    if (eps := model.norm.eps) != 1e-6:
        return f"Expected a last norm with eps = 1e-6, as in the blocks and in the paper's code, got {eps:g}."
    if (held := count_parameters(model)) != (right := _counted(c)):
        return (
            f"Expected a model of {right:,} parameters, got {held:,}. Do the blocks share weights, are some frozen, do "
            "their MLPs have the width that mlp_ratio says, and has the head one output a class?"
        )
    return None


def _trained_models() -> Iterator[tuple[ViT, Tensor, list[ViT]]]:
    """A model, images, and the copies of the model that an answer is called with, as far as they are made."""
    for depth in (2, 4):
        model, copies = perturbed(ViT(ViTConfig((8, 12), 4, 2, 7, 24, depth, 3)).eval(), 0.3), []
        model.__deepcopy__ = partial(_lend, model, copies)
        yield model, fresh(3, 2, 8, 12), copies


def _lend(model: ViT, copies: list[ViT], memo: dict) -> ViT:
    copies.append(loaded(ViT(model.config), model))
    return copies[-1]


def _deeper(grown: Any, model: ViT, images: Tensor, lent: list[ViT]) -> str | None:
    if not isinstance(grown, ViT):
        return expected("a ViT", grown)
    config = replace(model.config, depth=model.config.depth + 1)
    if message := _other_config(grown, model.config, config):
        return message
    if count_parameters(grown) != count_parameters(ViT(config)):
        return "The new model has too few parameters to train: does a block share its weights, or are some frozen?"
    if {p.data_ptr() for p in grown.parameters()} & {p.data_ptr() for old in lent for p in old.parameters()}:
        return "Your new model shares weights with the old one: to train one is to change the other. Copy them."
    grown = loaded(ViT(config), grown)
    logits = grown(images)
    if not close(logits, model(images), 1e-4):
        return _deeper_mistake(grown, model, images, logits)
    return _cannot_learn(grown, logits)


def _other_config(grown: ViT, old: ViTConfig, right: ViTConfig) -> str | None:
    if (blocks := len(grown.blocks)) != right.depth:
        return f"Expected a model of {counted(right.depth, 'block')} from one of {old.depth}, got {blocks}."
    if grown.config.depth != right.depth:
        return (
            f"Your new model has {blocks} blocks, as it should, but its config still says depth = "
            f"{grown.config.depth}, so whoever saves and loads it gets another model. Build it from a config of depth "
            f"{blocks}, and copy the weights."
        )
    for name, value in right.to_dict().items():
        if (other := getattr(grown.config, name)) != value:
            return f"The config of your new model has {name} = {other}, the old one {value}: only depth grows."
    return None


Exercise(
    "8.4",
    "deeper(model)",
    "Each block adds something to the residual stream, twice. When does a sum stay as it is? Find the layers whose "
    "output is what gets added.",
    "dataclasses.replace makes the config of a deeper model. Load the old weights into it, strict=False; only the last "
    "block is new, and only the last layer of each of its branches must give zeros.",
    cases=_trained_models,
    judge=_deeper,
    given=lambda model, images, lent: (model,),
    right="one block more, the same logits, and the new block can learn.",
    runs="inside",
)


def _deeper_mistake(grown: ViT, model: ViT, images: Tensor, logits: Tensor) -> str:
    off = f"Your deeper model's logits are {apart(logits, model(images))}."
    unknown = [b for b in grown.blocks if not any(_same_weights(b, old) for old in model.blocks)]
    if not unknown:
        return f"{off} The new block is a copy of an old one, so its work is done twice."
    if len(unknown) > 1 or not _same_weights(grown.head, model.head):
        return f"{off} Are all old weights in the new model?"
    new = unknown[0]
    silent = [not part.weight.any() for part in (new.attention.proj, new.mlp.fc2)]
    if all(silent):
        return f"{off} The last layers of the new block have a bias, which is added as well: zero it, too."
    if any(silent):
        return f"{off} One branch of the new block adds zero, the other does not: a block has two."
    return f"{off} The new block still adds something to the residual stream."


def _same_weights(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


def _cannot_learn(grown: ViT, logits: Tensor) -> str | None:
    logits.square().sum().backward()
    moving = {n for n, p in grown.named_parameters() if p.grad is not None and p.grad.abs().sum() > 0}
    for i in range(len(grown.blocks)):
        for branch in (("attention", "norm1"), ("mlp", "norm2")):
            prefixes = tuple(f"blocks.{i}.{part}." for part in branch)
            if not any(name.startswith(prefixes) and name.endswith("weight") for name in moving):
                return (
                    f"The logits are right, but block {i} can never learn: no weight of its {branch[0]} gets a "
                    "gradient. A zero times a zero stays zero: zero the last layer of each branch, not all of them."
                )
    return None


class _TorchBlocks(nn.Module):
    """A right ViT under other names, with torch's own encoder."""

    def __init__(self, c: ViTConfig):
        super().__init__()
        D = c.embed_dim
        self.conv = nn.Conv2d(c.in_chans, D, c.patch_size, c.patch_size)
        self.cls = nn.Parameter(torch.randn(1, 1, D))
        self.where = nn.Parameter(torch.randn(1, 1 + c.num_patches, D))
        layer = (D, c.num_heads, round(D * c.mlp_ratio), 0.0, "gelu", 1e-6, True, True)
        self.encoder = nn.Sequential(*(nn.TransformerEncoderLayer(*layer) for _ in range(c.depth)))
        self.last = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, c.num_classes))

    def forward(self, images: Tensor) -> Tensor:
        x = self.conv(images).flatten(2).mT
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.where
        return self.last(self.encoder(x)[:, 0])


class _ByHand(ViT):
    """A right ViT that projects by patchify and a matrix."""

    def forward(self, images: Tensor) -> Tensor:
        p = self.config.patch_size
        x = F.unfold(images, p, stride=p).mT @ self.patch_embed.proj.weight.flatten(1).T + self.patch_embed.proj.bias
        x = torch.cat([self.pool.token.repeat(len(x), 1, 1), x], 1) + self.positions.table
        return self.head(self.norm(nn.Sequential(*self.blocks)(x)[:, 0]))


class _NoTokenLeft(ViT):
    """Pools under a mask that hides all tokens: a softmax of scores that are all -inf is nan."""

    def forward(self, images: Tensor) -> Tensor:
        x = self.forward_features(images)  # (B, T, D)
        weights = torch.full_like(x, -torch.inf).softmax(dim=1)  # (B, T, D)
        return self.head((weights * x).sum(dim=1))


NAN = "pools under a mask that hides all tokens, so that its logits are nan"


def _too_strict(rejected: list[str], missed: list[str]) -> str:
    if "the book's" in rejected:
        return "Even the book's own ViT is rejected." if missed else "Does it ever say True?"
    if missed == [NAN]:
        return "nan is not 0, so any() takes it for True: ask for what nan is not, for example a sum larger than 0."
    return "A right model may use other names, and torch's own layers." if rejected else ""


hunt(
    "8.5",
    "is_complete(build)",
    "Two questions: does parameters() hold as many numbers as the formula says, and does the model use them all? One "
    "number answers the first; what does loss.backward() leave behind in every parameter that was used?",
    "A parameter that took no part has grad None, or all zeros, and nan says nothing. Ask every parameter, after a "
    "backward pass through logits of random images; the sum of logits will do.",
    right={"the book's": ViT, "by hand": _ByHand, "with torch's blocks": _TorchBlocks},
    # A model that uses all its parameters but cannot learn them is none of these: to change a parameter and to look
    # at the logits is a right test, too.
    wrong={symptom: kind for symptom, kind in faults.of(ViT).items() if kind not in (FrozenEmbedding, SoftmaxInside)}
    | {NAN: _NoTokenLeft},
    nouns=("right models", "wrong ones"),
    handed=lambda kind: lambda config: perturbed(kind(config).eval(), 0.3),
    more=_too_strict,
    accepted="it accepts {right} right models and sees through {wrong} wrong ones.",
)

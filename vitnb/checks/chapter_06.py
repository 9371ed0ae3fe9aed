"""Exercises of chapter 6: counting, renaming, assembling, growing and auditing a whole ViT."""

import random
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models import VisionTransformer

from vitnb.checks.engine import Wrong, call, close, described, exercise, fresh, number, tensor_like
from vitnb.vit import ViT, ViTConfig, count_parameters
from vitnb.weights import from_torchvision


@exercise(
    "6.1",
    "my_count(config)",
    "Which parts of the formula disappear without a cls token, with fixed waves for positions, without a bias for q, k "
    "and v? Each change touches one or two terms.",
    "A failing verdict says by how many numbers you are off. Divide that by the width, by the width squared, by the "
    "depth: which part has just this size?",
)
def _count(answer: Callable) -> str:
    pick = random.Random().choice
    base = ViTConfig(
        img_size=(24, 40), patch_size=4, in_chans=pick((2, 5)), num_classes=pick((11, 13)), embed_dim=pick((36, 60))
    )
    # Halves, so that a vector as wide as the MLP is never as long as several of width D.
    base = replace(base, depth=pick((3, 5)), num_heads=pick((2, 3)), mlp_ratio=pick((2.5, 3.5)))
    cases = {
        "a cls token and learned positions": base,
        "patches of 8 x 8": replace(base, patch_size=8),
        "twice the heads": replace(base, num_heads=2 * base.num_heads),
        "mean pooling": replace(base, global_pool="mean"),
        "fixed waves for positions": replace(base, pos_embed="sincos"),
        "no positions": replace(base, pos_embed="none", global_pool="mean"),
        "no bias for q, k, v": replace(base, qkv_bias=False),
    }
    for case, config in cases.items():
        counted = number(result := call(answer, config))
        with torch.device("meta"):
            right = count_parameters(ViT(config))
        if counted != right:
            off = counted - right
            raise Wrong(
                f"With {case} (D = {config.embed_dim}, depth {config.depth}) you count {counted:,.10g}, that is "
                f"{abs(off):,.10g} too {'many' if off > 0 else 'few'}. {_count_mistake(config, off)}".strip()
            )
        if not isinstance(result, Integral):
            raise Wrong(f"You return {described(result)}: a count is a whole number. round() the size of the MLP.")
    return (
        f"{len(cases)} models. And your prediction? From /16 to /32, ViT-B has "
        f"{_doubling(16):+,} parameters; from /8 to /16 it has {_doubling(8):+,}."
    )


def _doubling(p: int) -> int:
    with torch.device("meta"):
        small, large = (count_parameters(ViT(replace(ViTConfig.vit_b_16(), patch_size=side))) for side in (p, 2 * p))
    return large - small


def _count_mistake(c: ViTConfig, off: float) -> str:
    D, L, K = c.embed_dim, c.depth, c.num_classes
    M, places = round(c.mlp_ratio * D), c.num_patches + (c.global_pool == "cls")
    standard = 2 * D * (4 * D - M) + 4 * D - M  # an MLP of ratio 4 in place of this one
    mistakes = {
        -D: "One vector of width D is missing: is the cls token there, its row in the position table, each bias?",
        -2 * D: "Two vectors are missing, a gain and a bias: the last norm?",
        -K: "The head has a bias, too.",
        -(D * K + K): "The head is missing.",
        -places * D: "The position table is missing.",
        -L * D: "Each block misses one vector of width D: a bias?",
        -2 * L * D: "Each block misses two vectors: it has two norms, each with a gain and a bias.",
        -4 * L * D: "The norms of the blocks are missing.",
        -4 * L * D - 2 * D: "All norms are missing.",
        -3 * L * D: "The biases of queries, keys and values are missing.",
        -L * M: "In each block the first layer of the MLP lacks its bias.",
        -L * (M + D): "The biases of the MLP are missing.",
        -L * D * D: "Attention has four layers of D x D: the one that mixes the heads is missing.",
        -L * (D * D + D): "Attention has four layers of D x D: the one that mixes the heads is missing.",
        L * standard: "Your MLP is 4 times as wide as a token: this config says otherwise.",
        D: "One vector of width D too many: does this model have a cls token, and a row for it?",
        2 * D: "Two vectors too many: does this model have a cls token, and a row for it?",
        places * D: "This model has no table of positions to learn.",
        3 * L * D: "This model has no bias for queries, keys and values.",
    }
    return mistakes.get(off, "")


@exercise(
    "6.2",
    "to_ours(name)",
    "Split the name at its dots and print the pieces. Which piece holds the number of the block, and which pieces have "
    "another word here?",
    "in_proj_weight has no dot where vitnb has one, and the 3 in mlp.3 counts the GELU and the dropout in between. "
    "Try your function on block 11 as well as on block 1.",
)
def _names(answer: Callable) -> str:
    theirs = VisionTransformer(16, 8, 12, 2, 12, 20, num_classes=3)
    _random(theirs)
    ours = from_torchvision(theirs)
    state, wanted = ours.state_dict(), theirs.state_dict()
    names = [name for name in wanted if ".encoder_layer_" in name]
    found: dict[str, str] = {}
    for name in names:
        mine = call(answer, name)
        if not isinstance(mine, str):
            raise Wrong(f"Your function returns {described(mine)} for {name}: a name is wanted.")
        if mine not in state:
            raise Wrong(f"{name} becomes {mine}: vitnb has no such name. {_name_mistake(name, mine)}".strip())
        if mine.split(".")[1] != (block := _block(name)):
            raise Wrong(f"{name} becomes {mine}: it belongs to block {block}, all digits of it.")
        if mine in found.values():
            twin = next(n for n, m in found.items() if m == mine)
            raise Wrong(f"{name} and {twin} both become {mine}: one of them would be lost.")
        if state[mine].shape != wanted[name].shape:
            there, here = tuple(wanted[name].shape), tuple(state[mine].shape)
            raise Wrong(f"{name} has shape {there}, but {mine} has {here}: these are not the same layer.")
        found[name] = mine
    rest = {n: t for n, t in state.items() if n not in found.values()}
    model = ViT(ours.config).eval()
    model.load_state_dict({**rest, **{mine: wanted[name] for name, mine in found.items()}})
    images = fresh(2, 3, 16, 16)
    off = (model(images) - theirs(images)).abs().max().item()
    if off > 1e-4:
        odd = next(n for n in names if not torch.equal(state[found[n]], wanted[n]))
        raise Wrong(
            f"All names and shapes fit, but the logits are off by {off:.2g}: two layers of one shape have changed "
            f"places. Look at {odd}, which becomes {found[odd]}."
        )
    return f"{len(names)} names of 12 blocks, and the logits are torchvision's."


def _block(name: str) -> str:
    return name.split("encoder_layer_")[1].split(".")[0]


def _name_mistake(name: str, mine: str) -> str:
    if not mine.startswith(f"blocks.{_block(name)}."):
        return "Here the names of a block begin with blocks., then comes its number and a dot."
    if "in_proj" in name and mine.endswith(("qkvweight", "qkvbias", "qkv_weight", "qkv_bias")):
        return "A dot is missing between the layer and its weight or bias."
    pieces = [p for p in ("self_attention", "in_proj", "out_proj", "ln_", "mlp.0", "mlp.3") if p in mine]
    return f"Its piece {pieces[0]} is still torchvision's." if pieces else ""


@exercise(
    "6.3",
    "my_forward(images, patch_embed, cls_token, pos_embed, blocks, norm, head)",
    "Follow equations 1 to 4 one after the other and print the shape after each step. Which place in the sequence "
    "belongs to the cls token?",
    "There is one cls token and a whole batch of pictures: expand it before you join. The position table has a row for "
    "it, so joining comes before adding.",
)
def _forward(answer: Callable) -> str:
    for depth in (3, 1):
        parts, images = _parts(depth)
        with torch.no_grad():
            wanted = _assemble(images, *parts)
            result = call(answer, images, *parts)
            if isinstance(result, Tensor) and result.shape == (*wanted.shape[:1], 16, wanted.shape[1]):
                raise Wrong(f"Your logits have shape {tuple(result.shape)}, one row a token: read token 0 alone.")
            result = tensor_like(result, wanted)
            if not close(result, wanted):
                raise Wrong(_forward_mistake(result, wanted, images, parts))
    return "the logits of 2 random ViTs to 1e-5, with 3 blocks and with 1."


def _parts(depth: int) -> tuple[tuple, Tensor]:
    model = ViT(ViTConfig((20, 12), 4, 2, 7, 24, depth, 3)).eval()
    _random(model)
    parts = model.patch_embed, model.pool.token, model.positions.table, model.blocks, model.norm, model.head
    return parts, fresh(3, 2, 20, 12)


def _assemble(
    images: Tensor,
    patch_embed: nn.Module,
    token: Tensor,
    table: Tensor,
    blocks: nn.ModuleList,
    norm: nn.Module,
    head: nn.Module,
    join: Callable = lambda cls, x: torch.cat([cls, x], 1),
    read: Callable = lambda x: x[:, 0],
    add: Callable = lambda x, table: x + table,
) -> Tensor:
    x = patch_embed(images)
    x = add(join(token.expand(len(x), -1, -1), x), table)
    for block in blocks:
        x = block(x)
    return head(read(norm(x)))


def _forward_mistake(result: Tensor, wanted: Tensor, images: Tensor, parts: tuple) -> str:
    embed, token, table, blocks, norm, head = parts
    last = dict(join=lambda cls, x: torch.cat([x, cls], 1))

    def cls_without_place(x: Tensor, table: Tensor) -> Tensor:
        return torch.cat([x[:, :1], x[:, 1:] + table[:, 1:]], 1)

    mistakes = {
        "That is the softmax of the logits: the model returns scores.": wanted.softmax(1),
        "The cls token joins at the end and you read place 0: the corner of the picture.": _assemble(
            images, *parts, **last
        ),
        "The cls token joins at the end: then it gets the last patch's position, and each patch its neighbour's.": (
            _assemble(images, *parts, **last, read=lambda x: x[:, -1])
        ),
        "You read the last token: that is a patch.": _assemble(images, *parts, read=lambda x: x[:, -1]),
        "The positions are missing.": _assemble(images, *parts, add=lambda x, table: x),
        "The positions are added to the patches before the cls token joins: it has a row in the table, too.": (
            _assemble(images, *parts, add=cls_without_place)
        ),
        "You average the tokens; this model reads its cls token.": _assemble(images, *parts, read=lambda x: x.mean(1)),
        "The last norm is missing.": _assemble(images, embed, token, table, blocks, nn.Identity(), head),
        "The blocks are missing.": _assemble(images, embed, token, table, [], norm, head),
        "Only the first block runs.": _assemble(images, embed, token, table, blocks[:1], norm, head),
        "The last block runs alone: does every block get the result of the one before?": (
            _assemble(images, embed, token, table, blocks[-1:], norm, head)
        ),
        "The blocks run in reverse order.": _assemble(images, embed, token, table, blocks[::-1], norm, head),
    }
    for message, wrong in mistakes.items():
        if close(result, wrong):
            return message
    return (
        f"Your logits are off by up to {(result - wanted).abs().max():.2g}. Compare step by step with equations 1 to 4."
    )


@exercise(
    "6.4",
    "deeper(model)",
    "Each block adds something to the stream, twice. When does a sum stay as it is? Find the layers whose output is "
    "what gets added.",
    "dataclasses.replace makes the config of a deeper model. Load the old weights into it, strict=False; only the last "
    "block is new, and only the last layer of each of its branches must be silent.",
)
def _deeper(answer: Callable) -> str:
    for depth in (2, 4):
        model = ViT(ViTConfig((8, 12), 4, 2, 7, 24, depth, 3)).eval()
        _random(model)
        images = fresh(3, 2, 8, 12)
        grown = call(answer, model)
        if not isinstance(grown, ViT):
            raise Wrong(f"Your function returns {described(grown)}: a ViT is wanted.")
        grown, wanted = grown.eval(), replace(model.config, depth=depth + 1)
        if len(grown.blocks) != depth + 1 or grown.config != wanted:
            raise Wrong(
                f"A model of {depth} blocks becomes one of {len(grown.blocks)} with config.depth = "
                f"{grown.config.depth}: {depth + 1} are wanted, all else as before."
            )
        if count_parameters(grown) != count_parameters(ViT(wanted)):
            raise Wrong(
                "The new model has too few parameters to train: does a block share its weights, or are some frozen?"
            )
        logits = call(grown, images)
        if not close(logits, model(images), 1e-4):
            raise Wrong(_deeper_mistake(grown, model, images, logits))
        _must_learn(grown, logits)
    return "one block more, the same logits, and the new block can learn."


def _deeper_mistake(grown: ViT, model: ViT, images: Tensor, logits: Tensor) -> str:
    off = f"Your deeper model's logits are off by {(logits - model(images)).abs().max():.2g}."
    unknown = [b for b in grown.blocks if not any(_same_weights(b, old) for old in model.blocks)]
    if not unknown:
        return f"{off} The new block is a copy of an old one, so its work is done twice."
    if len(unknown) > 1 or not _same_weights(grown.head, model.head):
        return f"{off} Are all old weights in the new model?"
    new = unknown[0]
    silent = [not part.weight.any() for part in (new.attention.proj, new.mlp.fc2)]
    if all(silent):
        return f"{off} The last layers of the new block have a bias, which is added as well."
    if any(silent):
        return f"{off} One branch of the new block is silent: a block has two."
    return f"{off} The new block still adds something to the stream."


def _same_weights(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


def _must_learn(grown: ViT, logits: Tensor) -> None:
    try:
        grown.zero_grad()
        logits.square().sum().backward()
    except RuntimeError as error:
        raise Wrong(f"The logits are right, but no gradient can be taken of them: {error}") from None
    moving = {n for n, p in grown.named_parameters() if p.grad is not None and p.grad.any()}
    for i in range(len(grown.blocks)):
        for branch in (("attention", "norm1"), ("mlp", "norm2")):
            names = [n for n, _ in grown.named_parameters() if n.startswith(tuple(f"blocks.{i}.{b}." for b in branch))]
            if not any(n in moving for n in names if n.endswith("weight")):
                raise Wrong(
                    f"The logits are right, but block {i} can never learn: no weight of its {branch[0]} gets a "
                    "gradient. A zero times a zero stays zero; silence one layer of each branch, not all."
                )


# What a reader is told about one that was let through.
class _Listed(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        blocks = list(self.blocks)
        del self.blocks
        self.blocks = blocks


class _Shared(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.blocks = nn.ModuleList([self.blocks[0]] * config.depth)


class _Foreign(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.elsewhere = (ViT(config).blocks,)  # in a tuple: a global as far as the model knows

    def forward_features(self, images: Tensor) -> Tensor:
        x = self.embed(images)
        for block in self.elsewhere[0]:
            x = block(x)
        return self.norm(x)


class _Forgetful(ViT):
    def forward_features(self, images: Tensor) -> Tensor:
        x = self.embed(images)
        for block in self.blocks[:-1]:
            x = block(x)
        return self.norm(x)


class _PlainCls(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        token = self.pool.token.detach().clone()
        del self.pool.token
        self.pool.token = token


class _NewPositions(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.size = self.positions.table.shape
        self.positions = nn.Identity()

    def embed(self, images: Tensor) -> Tensor:
        return self.pool.prepend(self.patch_embed(images)) + torch.randn(self.size)


class _UnusedPositions(ViT):
    def embed(self, images: Tensor) -> Tensor:
        return self.pool.prepend(self.patch_embed(images))


class _CutOff(ViT):
    def embed(self, images: Tensor) -> Tensor:
        with torch.no_grad():
            return super().embed(images)


class _ExtraLinear(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.projection = nn.Linear(config.embed_dim, config.embed_dim)

    def embed(self, images: Tensor) -> Tensor:
        x = self.projection(self.patch_embed(images))
        return self.positions(self.pool.prepend(x))


class _NoLastNorm(ViT):
    def __init__(self, config: ViTConfig):
        super().__init__(config)
        self.norm = nn.Identity()


MUTANTS: dict[str, type[ViT]] = {
    "holds a linear layer that the paper does not have": _ExtraLinear,
    "has no last norm": _NoLastNorm,
    "makes its positions anew at every call": _NewPositions,
    "keeps its cls token in a plain tensor, which no optimizer ever sees": _PlainCls,
    "uses one and the same block in every place": _Shared,
    "has a position table and never adds it": _UnusedPositions,
    "computes its embedding under no_grad, so that it never learns": _CutOff,
    "never calls its last block": _Forgetful,
    "keeps its blocks in a Python list, which no optimizer ever sees": _Listed,
    "calls blocks that are not its own, as a forgotten self. does": _Foreign,
}


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


RIGHT = (ViT, _ByHand, _TorchBlocks)


def _builder(kind: type) -> Callable[[ViTConfig], nn.Module]:
    def build(config: ViTConfig) -> nn.Module:
        model = kind(config)
        _random(model)
        return model

    return build


@exercise(
    "6.5",
    "is_complete(build)",
    "Two questions: does parameters() hold as many numbers as the formula says, and does the model use them all? One "
    "number answers the first; what does loss.backward() leave behind in every parameter that was used?",
    "A parameter that took no part has grad None, or all zeros. Ask every parameter, after a backward pass through "
    "logits of random pictures; the sum of logits will do.",
)
def _complete(answer: Callable) -> str:
    rejected = sum(not _verdict(answer, kind) for kind in RIGHT)
    missed = [symptom for symptom, kind in MUTANTS.items() if _verdict(answer, kind)]
    if rejected or missed:
        count = f"It rejects {rejected} of {len(RIGHT)} right models and lets {len(missed)} of {len(MUTANTS)} wrong "
        example = f"ones through, for example one that {missed[-1]}." if missed else "ones through."
        strict = " A right model may use other names, and torch's own layers." if rejected else ""
        raise Wrong(count + example + strict)
    return f"it accepts {len(RIGHT)} right models and sees through {len(MUTANTS)} wrong ones."


def _verdict(answer: Callable, kind: type) -> bool:
    result: Any = call(answer, _builder(kind))
    if isinstance(result, Tensor) and result.ndim == 0:
        result = result.item()
    if not isinstance(result, (bool, np.bool_)):
        raise Wrong(f"Your function returns {described(result)}: True or False is wanted.")
    return bool(result)


def _random(model: nn.Module) -> None:
    """Give every parameter a random value: zeros and ones hide mistakes."""
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(fresh(*p.shape) * 0.3)
    model.eval()

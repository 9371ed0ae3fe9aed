"""Exercises of chapter 8: counting, renaming, assembling, growing and auditing a whole ViT."""

import random
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models import VisionTransformer

from vitnb import clinic
from vitnb.checks.engine import Wrong, call, close, described, exercise, fresh, number
from vitnb.checks.kinds import compute, judge, loaded
from vitnb.clinic.pool import FrozenEmbedding, SoftmaxInside
from vitnb.vit import ViT, ViTConfig, count_parameters
from vitnb.weights import from_torchvision


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
        "This model has no table of positions to learn.": places * D,
        "This model has no bias for queries, keys and values.": 3 * L * D,
    }


MISCOUNTS: dict[str, Callable[[ViTConfig], float]] = {
    message: lambda c, message=message: _counted(c) + _offs(c)[message] for message in _offs(ViTConfig())
}


@exercise(
    "8.1",
    "my_count(config)",
    "Which parts of the formula disappear without a cls token, with fixed waves for positions, without a bias for q, k "
    "and v? Each change touches one or two terms.",
    "A failing verdict says by how many numbers you are off. Divide that by the width, by the width squared, by the "
    "depth: which part has just this size?",
    MISCOUNTS,
)
def _count(answer: Callable) -> str:
    cases = _configs()
    for case, config in cases.items():
        counted, right = number(result := call(answer, config)), _counted(config)
        if not counted.is_integer() or counted == right and not isinstance(result, Integral):
            raise Wrong(f"You return {described(result)}: a count is a whole number. round() the size of the MLP.")
        if counted != right:
            off = counted - right
            known = (message for message, other in _offs(config).items() if other == off)
            raise Wrong(
                f"With {case} (D = {config.embed_dim}, depth {config.depth}) you count {counted:,.10g}, that is "
                f"{abs(off):,.10g} too {'many' if off > 0 else 'few'}. {next(known, '')}".strip()
            )
    return (
        f"{len(cases)} models. And your prediction? From /16 to /32, ViT-B has "
        f"{_doubling(16):+,} parameters; from /8 to /16 it has {_doubling(8):+,}."
    )


def _configs() -> dict[str, ViTConfig]:
    pick = random.Random().choice
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
        "fixed waves for positions": replace(base, pos_embed="sincos"),
        "no positions": replace(base, pos_embed="none", global_pool="mean"),
        "no bias for q, k, v": replace(base, qkv_bias=False),
    }


def _counted(config: ViTConfig) -> int:
    with torch.device("meta"):
        return count_parameters(ViT(config))


def _doubling(p: int) -> int:
    small, large = (_counted(replace(ViTConfig.vit_b_16(), patch_size=side)) for side in (p, 2 * p))
    return large - small


@exercise(
    "8.2",
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


def _parts(depth: int) -> tuple:
    """Images, and the parts of a model of so many blocks."""
    model = ViT(ViTConfig((20, 12), 4, 2, 7, 24, depth, 3)).eval()
    _random(model)
    parts = model.patch_embed, model.pool.token, model.positions.table, model.blocks, model.norm, model.head
    return fresh(3, 2, 20, 12), *parts


def _assemble(
    join: Callable = lambda cls, x: torch.cat([cls, x], 1),
    add: Callable = torch.add,
    order: Callable = lambda blocks: blocks,
    last: Callable = lambda norm, x: norm(x),
    read: Callable = lambda x: x[:, 0],
) -> Callable[..., Tensor]:
    """Equations 1 to 4, or something else in one place."""

    def forward(
        images: Tensor,
        patch_embed: nn.Module,
        token: Tensor,
        table: Tensor,
        blocks: nn.ModuleList,
        norm: nn.Module,
        head: nn.Module,
    ) -> Tensor:
        x = patch_embed(images)
        x = add(join(token.expand(len(x), -1, -1), x), table)
        for block in order(blocks):
            x = block(x)
        return head(read(last(norm, x)))

    return forward


def _cls_last(cls: Tensor, x: Tensor) -> Tensor:
    return torch.cat([x, cls], 1)


def _cls_without_place(x: Tensor, table: Tensor) -> Tensor:
    return torch.cat([x[:, :1], x[:, 1:] + table[:, 1:]], 1)


def _one_row_a_token(result: Any, wanted: Tensor, *_: Any) -> None:
    if isinstance(result, Tensor) and result.shape == (*wanted.shape[:1], 16, wanted.shape[1]):
        raise Wrong(f"Your logits have shape {tuple(result.shape)}, one row a token: read token 0 alone.")


compute(
    "8.3",
    "my_forward(images, patch_embed, cls_token, pos_embed, blocks, norm, head)",
    "Follow equations 1 to 4 one after the other and print the shape after each step. Which place in the sequence "
    "belongs to the cls token?",
    "There is one cls token and a whole batch of pictures: expand it before you join. The position table has a row for "
    "it, so joining comes before adding.",
    cases=lambda: map(_parts, (3, 1)),
    reference=_assemble(),
    before=_one_row_a_token,
    mistakes={
        "That is the softmax of the logits: the model returns scores.": lambda *parts: _assemble()(*parts).softmax(1),
        "The cls token joins at the end and you read place 0: the corner of the picture.": _assemble(_cls_last),
        "The cls token joins at the end: then it gets the last patch's position, and each patch its neighbour's.": (
            _assemble(_cls_last, read=lambda x: x[:, -1])
        ),
        "You read the last token: that is a patch.": _assemble(read=lambda x: x[:, -1]),
        "The positions are missing.": _assemble(add=lambda x, table: x),
        "The positions are added to the patches before the cls token joins: it has a row in the table, too.": (
            _assemble(add=_cls_without_place)
        ),
        "You average the tokens; this model reads its cls token.": _assemble(read=lambda x: x.mean(1)),
        "The last norm is missing.": _assemble(last=lambda norm, x: x),
        "The blocks are missing.": _assemble(order=lambda blocks: []),
        "Only the first block runs.": _assemble(order=lambda blocks: blocks[:1]),
        "The last block runs alone: does every block get the result of the one before?": (
            _assemble(order=lambda blocks: blocks[-1:])
        ),
        "The blocks run in reverse order.": _assemble(order=reversed),
    },
    otherwise=lambda result, wanted, *_: (
        f"Your logits are off by up to {(result - wanted).abs().max():.2g}. Compare step by step with equations 1 to 4."
    ),
    right="the logits of 2 random ViTs to 1e-5, with 3 blocks and with 1.",
)


@exercise(
    "8.4",
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
        images, lent = fresh(3, 2, 8, 12), _lent(model)
        grown = call(answer, model)
        if not isinstance(grown, ViT):
            raise Wrong(f"Your function returns {described(grown)}: a ViT is wanted.")
        wanted = replace(model.config, depth=depth + 1)
        if len(grown.blocks) != depth + 1 or grown.config.depth != depth + 1:
            raise Wrong(
                f"A model of {depth} blocks becomes one of {len(grown.blocks)} with config.depth = "
                f"{grown.config.depth}: {depth + 1} are wanted, all else as before."
            )
        for name, value in wanted.to_dict().items():
            if (other := getattr(grown.config, name)) != value:
                raise Wrong(
                    f"The config of your new model has {name} = {other}, the old one {value}: only depth grows."
                )
        if count_parameters(grown) != count_parameters(ViT(wanted)):
            raise Wrong(
                "The new model has too few parameters to train: does a block share its weights, or are some frozen?"
            )
        if {p.data_ptr() for p in grown.parameters()} & {p.data_ptr() for old in lent for p in old.parameters()}:
            raise Wrong(
                "Your new model shares weights with the old one: to train one is to change the other. Copy them."
            )
        grown = loaded(ViT(wanted), grown)
        logits = grown(images)
        if not close(logits, model(images), 1e-4):
            raise Wrong(_deeper_mistake(grown, model, images, logits))
        _must_learn(grown, logits)
    return "one block more, the same logits, and the new block can learn."


def _lent(model: ViT) -> list[ViT]:
    """The copies of a model that an answer is called with, as far as they are made."""
    copies = []

    def lend(memo: dict) -> ViT:
        copies.append(loaded(ViT(model.config), model))
        return copies[-1]

    model.__deepcopy__ = lend
    return copies


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
    logits.square().sum().backward()
    moving = {n for n, p in grown.named_parameters() if p.grad is not None and p.grad.any()}
    for i in range(len(grown.blocks)):
        for branch in (("attention", "norm1"), ("mlp", "norm2")):
            names = [n for n, _ in grown.named_parameters() if n.startswith(tuple(f"blocks.{i}.{b}." for b in branch))]
            if not any(n in moving for n in names if n.endswith("weight")):
                raise Wrong(
                    f"The logits are right, but block {i} can never learn: no weight of its {branch[0]} gets a "
                    "gradient. A zero times a zero stays zero; silence one layer of each branch, not all."
                )


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


def _builder(kind: type) -> Callable[[ViTConfig], nn.Module]:
    def build(config: ViTConfig) -> nn.Module:
        model = kind(config)
        _random(model)
        return model

    return build


def _too_strict(rejected: list[str], missed: list[str]) -> str:
    if "the book's" in rejected:
        return "Even the book's own ViT is rejected." if missed else "Does it ever say True?"
    return "A right model may use other names, and torch's own layers." if rejected else ""


judge(
    "8.5",
    "is_complete(build)",
    "Two questions: does parameters() hold as many numbers as the formula says, and does the model use them all? One "
    "number answers the first; what does loss.backward() leave behind in every parameter that was used?",
    "A parameter that took no part has grad None, or all zeros. Ask every parameter, after a backward pass through "
    "logits of random pictures; the sum of logits will do.",
    right={"the book's": ViT, "by hand": _ByHand, "with torch's blocks": _TorchBlocks},
    # A model that uses all its parameters but cannot learn them is none of these: to change a parameter and to look
    # at the logits is a right test, too.
    wrong={symptom: kind for symptom, kind in clinic.of(ViT).items() if kind not in (FrozenEmbedding, SoftmaxInside)},
    nouns=("right models", "wrong ones"),
    given=lambda kind: (_builder(kind),),
    more=_too_strict,
    accepted="it accepts {right} right models and sees through {wrong} wrong ones.",
)


def _random(model: nn.Module) -> None:
    """Give every parameter a random value: zeros and ones hide mistakes."""
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(fresh(*p.shape) * 0.3)
    model.eval()

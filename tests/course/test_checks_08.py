"""The exercises of chapter 8: right answers however they are written, and wrong ones that people write.

They join the tables of test_checks.py, whose tests (hostile answers, skeletons, hints) run on them, too.
"""

import copy
import math
import random
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.course.answers import right, verdict, wrong
from vitbook.exercises import chapter_08
from vitnb import PostNormBlock, PreNormBlock, ViT, ViTConfig
from vitnb.vit import count_parameters

# 8.1 ------------------------------------------------------------------------------------------------------


def by_formula(c):
    D, M, K, N = c.embed_dim, round(c.mlp_ratio * c.embed_dim), c.num_classes, c.num_patches
    cls = 1 if c.global_pool == "cls" else 0
    table = (N + cls) * D if c.pos_embed == "learned" else 0
    qkv = 3 * D * D + (3 * D if c.qkv_bias else 0)
    block = qkv + D * D + D + 2 * D * M + M + D + 4 * D
    return c.in_chans * c.patch_size**2 * D + D + cls * D + table + c.depth * block + 2 * D + D * K + K


@right("8.1")
def part_by_part(c):
    """Tensors for numbers, and matrices before biases."""
    D, M = c.embed_dim, round(c.mlp_ratio * c.embed_dim)
    rows = {"cls": 1 + c.num_patches, "mean": c.num_patches}[c.global_pool] if c.pos_embed == "learned" else 0
    matrices = [D * c.in_chans * c.patch_size**2, rows * D, c.depth * (4 * D * D + 2 * D * M), D * c.num_classes]
    biases = [D, c.depth * (3 * D * c.qkv_bias + D + M + D), c.num_classes]
    norms = (4 * c.depth + 2) * D
    return torch.tensor(sum(matrices) + sum(biases) + norms + D * (c.global_pool == "cls"))


@wrong("8.1", "You build a model and count what it holds")
def by_state(c):
    return sum(t.numel() for t in ViT(c).state_dict().values())


def papers(c):
    """The formula of the chapter, for the paper's models alone."""
    return by_formula(replace(c, global_pool="cls", pos_embed="learned", qkv_bias=True))


def sized(size):
    """The right count with another size of the MLP."""
    return lambda c: (
        by_formula(c)
        + (size(c.mlp_ratio * c.embed_dim) - round(c.mlp_ratio * c.embed_dim)) * (2 * c.embed_dim + 1) * c.depth
    )


wrong("8.1", "does this model have a cls token")(papers)
wrong("8.1", "no position table to learn")(lambda c: by_formula(replace(c, pos_embed="learned")))
wrong("8.1", "no bias for queries")(lambda c: by_formula(replace(c, qkv_bias=True)))
wrong("8.1", "Expected a whole number, got")(lambda c: float(by_formula(c)))
wrong("8.1", "Expected a whole number, got")(sized(lambda size: size))
wrong("8.1", "one unit less in each block")(sized(int))
wrong("8.1", "one unit more in each block")(sized(math.ceil))
wrong("8.1", "With twice the heads")(lambda c: by_formula(c) + (100 if c.num_heads > 3 else 0))
wrong("8.1", "With patches of 8 x 8")(lambda c: by_formula(replace(c, patch_size=4)))


# 8.3 ------------------------------------------------------------------------------------------------------


class ByTheBook(nn.Module):
    def __init__(self, c):
        super().__init__()
        D, p = c.embed_dim, c.patch_size
        self.patch_embed = nn.Conv2d(c.in_chans, D, p, stride=p)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, D))
        self.pos_embed = nn.Parameter(torch.randn(1, 1 + c.num_patches, D))
        self.blocks = nn.ModuleList(PreNormBlock(D, c.num_heads, c.mlp_ratio) for _ in range(c.depth))
        self.norm = nn.LayerNorm(D, eps=1e-6)
        self.head = nn.Linear(D, c.num_classes)

    def embed(self, images):
        x = self.patch_embed(images).flatten(2).transpose(1, 2)
        return torch.cat([self.cls_token.expand(len(x), -1, -1), x], dim=1) + self.pos_embed

    def forward(self, images):
        x = self.embed(images)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x[:, 0]))


@right("8.3")
class InOneChain(ByTheBook):
    def __init__(self, c):
        super().__init__(c)
        self.blocks = nn.Sequential(*self.blocks)

    def forward(self, images):
        x = self.patch_embed(images).permute(0, 2, 3, 1).flatten(1, 2) + self.pos_embed[:, 1:]
        first = (self.cls_token + self.pos_embed[:, :1]).repeat(images.shape[0], 1, 1)
        return nn.Sequential(self.blocks, self.norm, self.head)(torch.hstack([first, x]))[:, 0]


def changed(**parts):
    """A right class but for some parts, each a function of the config."""

    def make(c):
        model = ByTheBook(c)
        for name, part in parts.items():
            delattr(model, name)
            if part is not None:
                setattr(model, name, part(c))
        return model

    return make


def blocks_of(kind=PreNormBlock, depth=None, **changes):
    def make(c):
        settings = {"num_heads": c.num_heads, "mlp_ratio": c.mlp_ratio} | changes
        return nn.ModuleList(kind(c.embed_dim, **settings) for _ in range(depth or c.depth))

    return make


wrong("8.3", "Expected a part named head, of the kind Linear: there is none.")(changed(head=None))
wrong("8.3", "Expected a part named patch_embed, of the kind Conv2d: yours is a Linear")(
    changed(patch_embed=lambda c: nn.Linear(32, c.embed_dim))
)
wrong("8.3", "Python list, so they are not registered")(changed(blocks=lambda c: list(blocks_of()(c))))
wrong("8.3", "cls_token is a plain tensor")(changed(cls_token=lambda c: torch.zeros(1, 1, c.embed_dim)))
wrong("8.3", "Expected pos_embed of shape (1, 16, 24), got (1, 15, 24). The cls token needs a position, too.")(
    changed(pos_embed=lambda c: nn.Parameter(torch.randn(1, c.num_patches, c.embed_dim)))
)
wrong("8.3", "Expected cls_token of shape (1, 1, 24), got (24,).")(
    changed(cls_token=lambda c: nn.Parameter(torch.zeros(c.embed_dim)))
)
wrong("8.3", "Expected blocks with 3 modules of the class PreNormBlock, got a PostNormBlock")(
    changed(blocks=blocks_of(PostNormBlock))
)
wrong("8.3", "Expected blocks with 3 modules of the class PreNormBlock, got 2 of them")(
    changed(blocks=blocks_of(depth=2))
)
wrong("8.3", "Expected blocks with 3 heads, the config's num_heads, got 4")(changed(blocks=blocks_of(num_heads=4)))
wrong("8.3", "Expected a last norm with eps = 1e-6, as in the blocks and in the paper's code, got 1e-05")(
    changed(norm=lambda c: nn.LayerNorm(c.embed_dim))
)
wrong("8.3", "have the width that mlp_ratio says")(changed(blocks=blocks_of(mlp_ratio=4.0)))
wrong("8.3", "share weights")(changed(blocks=lambda c: nn.ModuleList([*blocks_of(depth=1)(c)] * c.depth)))
wrong("8.3", "Expected an nn.Module")(lambda c: ByTheBook(c)(torch.randn(2, 2, 20, 12)))


@wrong("8.3", "No gradient reaches your patch_embed")
class Detached(ByTheBook):
    def embed(self, images):
        return super().embed(images).detach()


@wrong("8.3", "are some frozen")
class Frozen(ByTheBook):
    def __init__(self, c):
        super().__init__(c)
        self.cls_token.requires_grad_(False)


@wrong("8.3", "There is one cls token and a batch of 3 images")
class OneTokenForAll(ByTheBook):
    def embed(self, images):
        x = self.patch_embed(images).flatten(2).transpose(1, 2)
        return torch.cat([self.cls_token, x], dim=1) + self.pos_embed


@wrong("8.3", "one row a token")
class EveryToken(ByTheBook):
    def forward(self, images):
        return self.head(self.norm(self.embed(images)))


@wrong("8.3", "Compare step by step")
class Doubled(ByTheBook):
    def forward(self, images):
        return 2 * super().forward(images)


@wrong("8.3", "is the return missing?")
class Forgets(ByTheBook):
    def forward(self, images):
        super().forward(images)


def test_a_blank_class_is_not_done_yet():
    class MyViT(nn.Module):
        def __init__(self, config):
            super().__init__()
            ...

        def forward(self, images):
            """Images (B, C, H, W) -> logits (B, K)."""
            ...

    assert verdict("8.3", MyViT) == (False, "8.3: not done yet.")


# 8.4 ------------------------------------------------------------------------------------------------------


def grown(model, **changes):
    new = ViT(replace(model.config, depth=model.config.depth + 1, **changes))
    new.load_state_dict(model.state_dict(), strict=False)
    return new


@right("8.4")
@torch.no_grad()
def silent_ends(model):
    new = grown(model)
    for part in (new.blocks[-1].attention.proj, new.blocks[-1].mlp.fc2):
        part.weight.zero_()
        part.bias.zero_()
    return new


@right("8.4")
def silent_first_block(model):
    new = ViT(replace(model.config, depth=model.config.depth + 1))
    fresh = copy.deepcopy(new.blocks[0])
    new.blocks = nn.ModuleList([fresh, *copy.deepcopy(model.blocks)])
    for name in ("patch_embed", "pool", "positions", "norm", "head"):
        setattr(new, name, copy.deepcopy(getattr(model, name)))
    for part in (fresh.attention.proj, fresh.mlp.fc2):
        nn.init.zeros_(part.weight)
        nn.init.zeros_(part.bias)
    return new


@right("8.4")
def silent_norms(model):
    new = grown(model)
    for norm in (new.blocks[-1].norm1, new.blocks[-1].norm2):
        nn.init.zeros_(norm.weight)  # the biases of a new block are zero already
    return new


wrong("8.4", "still adds something")(grown)
wrong("8.4", "Expected a ViT, got a Sequential")(lambda model: nn.Sequential(model))
wrong("8.4", "Expected a model of 3 blocks from one of 2, got 2")(copy.deepcopy)


@wrong("8.4", "has 3 blocks, as it should, but its config still says depth = 2")
def appends_to_a_copy(model):
    new = copy.deepcopy(model)
    new.blocks.append(copy.deepcopy(model.blocks[0]))
    return new


@wrong("8.4", "can never learn")
@torch.no_grad()
def all_zero(model):
    new = grown(model)
    for p in new.blocks[-1].parameters():
        p.zero_()
    return new


@wrong("8.4", "a block has two")
@torch.no_grad()
def one_branch(model):
    new = silent_ends(model)
    nn.init.xavier_uniform_(new.blocks[-1].attention.proj.weight)
    return new


@wrong("8.4", "have a bias")
@torch.no_grad()
def keeps_the_biases(model):
    new = silent_ends(model)
    nn.init.normal_(new.blocks[-1].mlp.fc2.bias)  # a constant would be invisible behind the last norm
    return new


@wrong("8.4", "is a copy of an old one")
def copies_the_last(model):
    new = grown(model)
    new.blocks[-1].load_state_dict(model.blocks[-1].state_dict())
    return new


@wrong("8.4", "Are all old weights")
@torch.no_grad()
def forgets_the_weights(model):
    new = ViT(replace(model.config, depth=model.config.depth + 1))
    nn.init.zeros_(new.blocks[-1].attention.proj.weight)
    nn.init.zeros_(new.blocks[-1].mlp.fc2.weight)
    return new


@wrong("8.4", "share its weights")
def freezes(model):
    new = silent_ends(model)
    new.blocks[-1].requires_grad_(False)
    return new


@wrong("8.4", "shares weights with the old one")
def keeps_the_old_blocks(model):
    new = silent_ends(model)
    new.blocks = nn.ModuleList([*model.blocks, new.blocks[-1]])
    return new


@wrong("8.4", "shares weights with the old one")
def keeps_the_old_numbers(model):
    new = silent_ends(model)
    new.head.weight.data = model.head.weight.data
    return new


@wrong("8.4", "has dropout = 0.1, the old one 0.0: only depth grows")
def drops_units(model):
    new = silent_ends(model)
    again = ViT(replace(new.config, dropout=0.1))
    again.load_state_dict(new.state_dict())
    return again


@wrong("8.4", "still adds something")
def lies_about_its_logits(model):
    new = grown(model)
    new.forward = copy.deepcopy(model).forward
    return new


@wrong("8.4", "changes what it is given")
def appends(model):
    model.blocks.append(copy.deepcopy(model.blocks[0]))
    return model


# 8.5 ------------------------------------------------------------------------------------------------------

SMALL = ViTConfig(img_size=(8, 12), depth=3, embed_dim=24)


def counts(build, config=SMALL):
    return sum(p.numel() for p in build(config).parameters()) == by_formula(config)


def moves(build, config=SMALL):
    model = build(config)
    model(torch.randn(2, 1, 8, 12)).sum().backward()
    return all(p.grad is not None and p.grad.any() for p in model.parameters())


@right("8.5")
def by_training(build):
    """A step of an optimizer moves every parameter, and they are as many as they should be."""
    config = ViTConfig(depth=2)
    model = build(config)
    before = [p.detach().clone() for p in model.parameters()]
    images, labels = torch.randn(4, 1, 28, 28), torch.arange(4)
    nn.functional.cross_entropy(model(images), labels).backward()
    torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0).step()
    moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    return all(moved) and sum(p.numel() for p in model.parameters()) == count_parameters(ViT(config))


@right("8.5")
@torch.no_grad()
def by_changing(build):
    """Whoever changes a parameter that is used changes the logits; and they are as many as they should be."""
    model, images = build(SMALL), torch.randn(2, 1, 8, 12)
    for parameter in model.parameters():
        before = model(images)
        parameter += torch.randn_like(parameter)
        if torch.equal(model(images), before):
            return False
    return counts(build)


@wrong("8.5", "lets 1 of 10 wrong ones through, for example one that multiplies its position table by 0")
def asks_for_any_gradient(build):
    model = build(SMALL)
    model(torch.randn(2, 1, 8, 12)).sum().backward()
    return counts(build) and all(p.grad is not None for p in model.parameters())


wrong("8.5", "lets 4 of 10 wrong ones through, for example one that calls blocks that are not its own")(counts)
wrong("8.5", "ones through, for example one that keeps its blocks in a Python list")(moves)
wrong("8.5", "rejects 0 of 3 right models and lets 10 of 10")(
    lambda build: build(SMALL)(torch.randn(2, 1, 8, 12)).shape == (2, 10)
)
wrong("8.5", "rejects 3 of 3 right models and lets 0 of 10 wrong ones through. Does it ever say True?")(lambda b: False)
wrong("8.5", "Even the book's own ViT is rejected")(lambda build: not counts(build))
wrong("8.5", "Expected True or False")(lambda build: count_parameters(build(SMALL)))


@wrong("8.5", "may use other names")
def by_names(build):
    names = {n for n, _ in build(SMALL).named_parameters()}
    return names == {n for n, _ in ViT(SMALL).named_parameters()}


# ----------------------------------------------------------------------------------------------------------


def test_the_prediction_is_answered():
    assert (
        "From /16 to /32, ViT-B has +1,656,576 parameters; from /8 to /16 it has -9,216."
        in verdict("8.1", by_formula)[1]
    )


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("message", chapter_08.MISCOUNTS)
def test_no_miscount_is_taken_for_another(place, message, monkeypatch):
    monkeypatch.setattr(random.Random, "choice", lambda self, options: options[place])
    assert message in verdict("8.1", chapter_08.MISCOUNTS[message])[1]

"""The exercises of chapter 8: right answers however they are written, and wrong ones that no check declares."""

import copy
import math
import random
from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.course.answers import RIGHT, WRONG, right, solution, verdict, wrong
from vitbook.exercises import chapter_08
from vitbook.exercises.chapter_08 import _assemble, _Assembled
from vitnb import PostNormBlock, PreNormBlock, ViT, ViTConfig
from vitnb.vit import count_parameters

# 8.1 ------------------------------------------------------------------------------------------------------


def formula(c, **other):
    """The solution's count, of a config with other settings."""
    return solution("8.1")(replace(c, **other))


def sized(size):
    """The right count with another size of the MLP."""
    return lambda c: (
        formula(c)
        + (size(c.mlp_ratio * c.embed_dim) - round(c.mlp_ratio * c.embed_dim)) * (2 * c.embed_dim + 1) * c.depth
    )


RIGHT["8.1"] += [lambda c: torch.tensor(formula(c))]
WRONG["8.1"] |= {
    "You build a model and count what it holds": lambda c: sum(t.numel() for t in ViT(c).state_dict().values()),
    "does this model have a cls token": lambda c: formula(c, global_pool="cls", pos_embed="learned", qkv_bias=True),
    "no position table to learn": lambda c: formula(c, pos_embed="learned"),
    "no bias for queries": lambda c: formula(c, qkv_bias=True),
    "Expected a whole number, got": lambda c: float(formula(c)),
    "round() the size of the MLP": sized(lambda size: size),
    "one unit less in each block": sized(int),
    "one unit more in each block": sized(math.ceil),
    "With twice the heads": lambda c: formula(c) + (100 if c.num_heads > 3 else 0),
    "With patches of 8 x 8": lambda c: formula(c, patch_size=4),
}


def test_the_prediction_is_answered():
    said = "From /16 to /32, ViT-B has +1,656,576 parameters; from /8 to /16 it has -9,216."
    assert said in verdict("8.1", formula)[1]


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("message", chapter_08.MISCOUNTS)
def test_no_miscount_is_taken_for_another(place, message, monkeypatch):
    monkeypatch.setattr(random.Random, "choice", lambda self, options: options[place])
    assert message in verdict("8.1", chapter_08.MISCOUNTS[message])[1]


# 8.3 ------------------------------------------------------------------------------------------------------


def joined(join):
    """A class with all parts, and a forward that joins them in this way."""
    return lambda c: _Assembled(c, join)


def changed(**parts):
    """A right class but for some parts, each a function of the config."""

    def make(c):
        model = _Assembled(c, _assemble())
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


RIGHT["8.3"] += [changed(blocks=lambda c: nn.Sequential(*blocks_of()(c)))]
WRONG["8.3"] |= {
    "Expected a part named head, of the kind Linear: there is none.": changed(head=None),
    "patch_embed, of the kind Conv2d: yours is a Linear": changed(patch_embed=lambda c: nn.Linear(32, c.embed_dim)),
    "Python list, so they are not registered": changed(blocks=lambda c: list(blocks_of()(c))),
    "Expected an nn.ModuleList named blocks, got a NoneType": changed(blocks=None),
    "cls_token is a plain tensor": changed(cls_token=lambda c: torch.zeros(1, 1, c.embed_dim)),
    "Expected pos_embed of shape (1, 16, 24), got (1, 15, 24). The cls token needs a position, too.": (
        changed(pos_embed=lambda c: nn.Parameter(torch.randn(1, c.num_patches, c.embed_dim)))
    ),
    "cls_token of shape (1, 1, 24), got (24,).": changed(cls_token=lambda c: nn.Parameter(torch.zeros(c.embed_dim))),
    "3 modules of the class PreNormBlock, got a PostNormBlock": changed(blocks=blocks_of(PostNormBlock)),
    "Expected blocks with 3 modules of the class PreNormBlock, got 2 of them": changed(blocks=blocks_of(depth=2)),
    "Expected blocks with 3 heads, the config's num_heads, got 4": changed(blocks=blocks_of(num_heads=4)),
    "as in the blocks and in the paper's code, got 1e-05": changed(norm=lambda c: nn.LayerNorm(c.embed_dim)),
    "have the width that mlp_ratio says": changed(blocks=blocks_of(mlp_ratio=4.0)),
    "share weights": changed(blocks=lambda c: nn.ModuleList([*blocks_of(depth=1)(c)] * c.depth)),
    "are some frozen": changed(cls_token=lambda c: nn.Parameter(torch.zeros(1, 1, c.embed_dim), False)),
    "Expected an nn.Module from your class, got a tensor": lambda c: torch.randn(2, 7),
    "No gradient reaches your patch_embed": joined(_assemble(add=lambda x, table: (x + table).detach())),
    "one cls token and a batch of 3 images": joined(_assemble(join=lambda cls, x: torch.cat([cls[:1], x], dim=1))),
    "one row a token": joined(_assemble(read=lambda x: x)),
    "Compare step by step": joined(lambda model, images: 2 * _assemble()(model, images)),
    "is the return missing?": joined(lambda model, images: None),
}

# 8.4 ------------------------------------------------------------------------------------------------------


def grown(model, **changes):
    new = ViT(replace(model.config, depth=model.config.depth + 1, **changes))
    new.load_state_dict(model.state_dict(), strict=False)
    return new


def after(change, start=lambda model: solution("8.4")(model)):
    """An answer that begins like the solution, or in another way, and then changes the new model."""

    @torch.no_grad()
    def answer(model):
        change(new := start(model), model)
        return new

    return answer


def silenced_by_its_norms(new, old):
    """The weights alone: the biases of a new block are zero already."""
    for norm in (new.blocks[-1].norm1, new.blocks[-1].norm2):
        nn.init.zeros_(norm.weight)


def silenced_everywhere(new, old):
    for parameter in new.blocks[-1].parameters():
        parameter.zero_()


@wrong("8.4", "has dropout = 0.1, the old one 0.0: only depth grows")
def drops_units(model):
    new = ViT(replace(model.config, depth=model.config.depth + 1, dropout=0.1))
    new.load_state_dict(solution("8.4")(model).state_dict())
    return new


@wrong("8.4", "changes what it is given")
def appends(model):
    model.blocks.append(copy.deepcopy(model.blocks[0]))
    return model


RIGHT["8.4"] += [after(silenced_by_its_norms, grown)]
WRONG["8.4"] |= {
    "Expected a ViT, got a Sequential": lambda model: nn.Sequential(model),
    "Expected a model of 3 blocks from one of 2, got 2": copy.deepcopy,
    "has 3 blocks, as it should, but its config still says depth = 2": (
        after(lambda new, old: new.blocks.append(copy.deepcopy(old.blocks[0])), copy.deepcopy)
    ),
    "can never learn": after(silenced_everywhere),
    "a block has two": after(lambda new, old: nn.init.xavier_uniform_(new.blocks[-1].attention.proj.weight)),
    # A constant would be invisible behind the last norm.
    "have a bias": after(lambda new, old: nn.init.normal_(new.blocks[-1].mlp.fc2.bias)),
    "is a copy of an old one": after(lambda new, old: new.blocks[-1].load_state_dict(old.blocks[-1].state_dict())),
    "Are all old weights": lambda model: ViT(replace(model.config, depth=model.config.depth + 1)),
    "share its weights": after(lambda new, old: new.blocks[-1].requires_grad_(False)),
    "shares weights with the old one": after(lambda new, old: setattr(new.head.weight, "data", old.head.weight.data)),
    "still adds something": after(lambda new, old: setattr(new, "forward", copy.deepcopy(old).forward), grown),
}

# 8.5 ------------------------------------------------------------------------------------------------------

SMALL = ViTConfig(img_size=(8, 12), depth=3, embed_dim=24)


def counts(build):
    return count_parameters(build(SMALL)) == count_parameters(ViT(SMALL))


def gradients(build):
    model = build(SMALL)
    model(torch.randn(2, 1, 8, 12)).sum().backward()
    return [p.grad for p in model.parameters()]


@right("8.5")
@torch.no_grad()
def by_changing(build):
    """Whoever changes a parameter that is used changes the logits; and they are as many as they should be."""
    model, images = build(SMALL), torch.randn(2, 1, 8, 12)
    if model(images).isnan().any():  # which equals nothing, itself included
        return False
    for parameter in model.parameters():
        before = model(images)
        parameter += torch.randn_like(parameter)
        if torch.equal(model(images), before):
            return False
    return counts(build)


@wrong("8.5", "may use other names")
def by_names(build):
    names = {n for n, _ in build(SMALL).named_parameters()}
    return names == {n for n, _ in ViT(SMALL).named_parameters()}


WRONG["8.5"] |= {
    "lets 2 of 11 wrong ones through, for example one that multiplies its position table by 0": (
        lambda build: counts(build) and all(grad is not None for grad in gradients(build))
    ),
    "so that its logits are nan. nan is not 0, so any() takes it for True": (
        lambda build: counts(build) and all(grad is not None and grad.any() for grad in gradients(build))
    ),
    "lets 5 of 11 wrong ones through, for example one that calls blocks that are not its own": counts,
    "ones through, for example one that keeps its blocks in a Python list": (
        lambda build: all(grad is not None and grad.any() for grad in gradients(build))
    ),
    "rejects 0 of 3 right models and lets 11": lambda build: build(SMALL)(torch.randn(2, 1, 8, 12)).shape == (2, 10),
    "rejects 3 of 3 right models and lets 0 of 11 wrong ones through. Does it ever say True?": lambda build: False,
    "Even the book's own ViT is rejected": lambda build: not counts(build),
}

"""Mends of the register's patients: right ones by the names of their faults, wrong ones for any of them."""

import copy
import types

import torch
from torch import nn

from vitbook import faults
from vitbook.exercises.mends import _named_parts, _sort
from vitbook.faults import _ward
from vitnb import ViT
from vitnb.attention import MultiHeadAttention
from vitnb.blocks import MLP, PreNormBlock
from vitnb.patches import PatchEmbedding
from vitnb.pooling import ClsToken
from vitnb.positions import LearnedPositions


def put(model, name, part):
    """Set a part by its name, such as blocks.1.mlp."""
    *way, last = name.split(".")
    for step in way:
        model = model[int(step)] if step.isdigit() else getattr(model, step)
    if last.isdigit():
        model[int(last)] = part
    else:
        setattr(model, last, part)


def of_sort(model, sorts):
    return {name: part for name, part in _named_parts(model).items() if _sort(name) in sorts}


def transplant(*sorts, load=True, only_first=False):
    """New parts from a right model, with the old weights; returned."""

    def mend(model):
        right = _named_parts(ViT(model.config))
        for name, part in of_sort(model, sorts).items():
            if load:
                right[name].load_state_dict(part.state_dict())
            put(model, name, right[name])
            if only_first:
                break
        return model

    return mend


def reclass(*sorts, only_first=False):
    """The very part with another class; nothing is returned."""
    kinds = {"attention": MultiHeadAttention, "mlp": MLP, "block": PreNormBlock, "pool": ClsToken}
    kinds |= {"patch_embed": PatchEmbedding}

    def mend(model):
        for name, part in of_sort(model, sorts).items():
            if not isinstance(part, nn.Identity):
                part.__class__ = kinds.get(_sort(name), nn.LayerNorm)
            if only_first:
                break

    return mend


def shell(model):
    """A new model around the patient's parts."""
    new = ViT(model.config)
    for name in ("patch_embed", "pool", "positions", "norm", "head"):
        setattr(new, name, getattr(model, name))
    new.blocks = nn.ModuleList(model.blocks)
    return new


def becomes_a_vit(model):
    model.__class__ = ViT


def own_methods(model):
    for name in ("embed", "encode", "forward_features", "forward"):
        setattr(model, name, types.MethodType(getattr(ViT, name), model))


def new_block_around_old_layers(model):
    right = ViT(model.config)
    for i, block in enumerate(model.blocks):
        for name in ("norm1", "attention", "norm2", "mlp"):
            setattr(right.blocks[i], name, getattr(block, name))
        model.blocks[i] = right.blocks[i]
    return model


def table(choose):
    def mend(model):
        positions = ViT(model.config).positions
        if choose:
            positions.table.data = choose(model.positions.table.detach()).clone()
        model.positions = positions
        return model

    return mend


def table_becomes_a_parameter(model):
    model.positions.table = nn.Parameter(model.positions.table)


def new_cls_token(model):
    pool = ClsToken(model.config.embed_dim)
    if model.pool.token is not None:
        pool.token.data = model.pool.token.detach().clone()
    model.pool = pool
    return model


def token_becomes_a_parameter(model):
    token = model.pool.token
    model.pool.token = nn.Parameter(torch.zeros(1, 1, model.config.embed_dim) if token is None else token)


def a_token_and_a_class(model):
    model.pool.__class__ = ClsToken
    token_becomes_a_parameter(model)


@torch.no_grad()
def folded(model):
    """Two linear layers in a row are one."""
    proj, second = model.patch_embed.proj, model.projection
    proj.weight.copy_((second.weight @ proj.weight.flatten(1)).reshape(proj.weight.shape))
    proj.bias.copy_(second.weight @ proj.bias + second.bias)
    return shell(model)


def no_projection(model):
    model.projection = nn.Identity()


def blocks_that_ran(model):
    model.blocks = model.elsewhere[0]


def blocks_in_a_module_list(model):
    model.blocks = nn.ModuleList(model.blocks)


def copies_of_the_block(model):
    model.blocks = nn.ModuleList(copy.deepcopy(block) for block in model.blocks)


def a_last_norm(model):
    model.norm = nn.LayerNorm(model.config.embed_dim, eps=model.config.norm_eps)


def both(*sorts):
    return transplant(*sorts), reclass(*sorts)


MENDS = {  # two for each patient
    "with relu": both("mlp"),
    "reshape alone": both("patch_embed"),
    "last read first": both("pool"),
    "over tokens and channels": both("norm1", "norm2", "norm"),
    "no parameter": (table(lambda old: old), table_becomes_a_parameter),
    "for each image": (table(lambda old: old.mean(0, keepdim=True)), table(lambda old: old[:1])),
    "made in each call": (table(None), transplant("positions", load=False)),
    "new for each image": (new_cls_token, a_token_and_a_class),
    "plain cls": (new_cls_token, token_becomes_a_parameter),
    "unused positions": (shell, own_methods),
    "softmax inside": (shell, becomes_a_vit),
    "extra linear": (folded, no_projection),
    "foreign blocks": (shell, blocks_that_ran),
    "listed blocks": (shell, blocks_in_a_module_list),
    "no last norm": (a_last_norm, transplant("norm", load=False)),
    "shared block": (copies_of_the_block, transplant("block")),
}
for fault in _ward.NUMBERED:
    replaced = faults.FAULTS[fault].replaces
    MENDS.setdefault(
        fault, (new_block_around_old_layers, reclass("block")) if replaced is PreNormBlock else both("attention")
    )


# Wrong ones, for any patient ------------------------------------------------------------------------------


def nothing(model):
    return model


def nothing_in_place(model):
    model.train()


def whole_model(model):
    return ViT(model.config)


def whole_model_with_old_weights(model):
    right, old = ViT(model.config), model.state_dict()
    sizes = {name: value.shape for name, value in right.state_dict().items()}
    fits = {name: value for name, value in old.items() if sizes.get(name) == value.shape}
    right.load_state_dict(fits, strict=False)
    return right


def crashes(model):
    return model.no_such_part


def a_part(model):
    return model.head


another_part = transplant("head")
another_part.__name__ = "another_part"


def norm_of_torch(model):
    model.norm = nn.LayerNorm(model.config.embed_dim)


def by_a_closure(model):
    model.forward = lambda images: model.head(model.pool(model.forward_features(images)))


def with_an_extra(model):
    model.extra = nn.Linear(2, 2)
    becomes_a_vit(model)


def reclass_positions(model):
    model.positions.__class__ = LearnedPositions


def new_block_around_right_layers(model):
    """The fault stands in the MLP; a new block may bring it, as it hands attention on."""
    right = ViT(model.config)
    for i, block in enumerate(model.blocks):
        right.blocks[i].load_state_dict(block.state_dict())
        right.blocks[i].attention = block.attention
        model.blocks[i] = right.blocks[i]
    return model


# Right ones that do something more.


def _then(change):
    def maker(mend):
        def more(model):
            result = mend(model)
            mended = model if result is None else result
            change(mended)
            return mended

        return more

    return maker


def on_a_copy(mend):
    def copied(model):
        twin = copy.deepcopy(model)
        result = mend(twin)
        return twin if result is None else result

    return copied


and_more = _then(transplant("head"))
and_fresh_weights = _then(lambda model: nn.init.normal_(model.head.weight))
and_frozen = _then(lambda model: model.head.requires_grad_(False))


def answers_42(model):
    return 42

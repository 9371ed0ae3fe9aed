"""examine names what is wrong, and is silent where nothing is."""

import copy
import json
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cache

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from experiments._models import in_a_model
from tests.model.handwritten.relatives import IMAGE as WIDE
from tests.model.handwritten.relatives import RELATIVES
from tests.model.handwritten.right import DEPARTS, RIGHT
from vitbook import faults
from vitnb import ViT, ViTConfig, examine
from vitnb.examine import KINDS, Report
from vitnb.examine._trace import Lineage, trace

CONFIG = ViTConfig(depth=2)
IMAGE = (1, 28, 28)

NAMED = {  # a fault of the collection: the code that names it
    "undivided": "scale",
    "softmax over queries": "softmax axis",
    "softmax over heads": "softmax axis",
    "divided for all heads": "scale",
    "divided for the tokens": "scale",
    "divided without root": "scale",
    "multiplied": "scale",
    "no softmax": "no softmax",
    "divided after softmax": "scale",
    "softmax twice": "softmax twice",
    "keys mixed": "same projection",
    "causal": "mask",
    "only itself": "blind",
    "uniform": "no attention",
    "over the batch": "over the batch",
    "merged by reshape": "heads merged",
    "split by view": "heads split",
    "batch as sequence": "over the batch",
    "first image for all": "image positions",
    "centred over the batch": "other images",
    "deleted": "no attention",
    "zeros": "blind",
    "reshape alone": "cut",
    "column by column": "order",
    "last patch first": "order",
    "sides swapped": "cut",
    "reverse order": "order",
    "combs": "cut",
    "map reshaped": "cut",
    "patches of the first": "image positions",
    "shuffled pixels": "cut",
    "made in each call": "random",
    "for each image": "batch size",
    "no parameter": "left behind",
    "growing with each image": "image positions",
    "made for each image": "random",
    "last read first": "reads a patch",
    "next token read": "reads a patch",
    "mean with cls": "mean with cls",
    "mean of patches added": "reads a patch",
    "new at each call": "random",
    "new for each image": "random",
    "plain tensor": "left behind",
    "one per place": "image positions",
    "over the first patch": "unseen pixels",
    "token as it went": "blind",
    "foreign blocks": "unregistered",
    "listed blocks": "unregistered",
    "forgotten block": "forgotten",
    "silent positions": "no positions",
    "unused positions": "no positions",
    "shared block": "shared",
    "plain cls": "left behind",
    "new positions": "random",
    "no last norm": "no last norm",
    "extra linear": "projected twice",
    "frozen embedding": "no gradient",
    "softmax inside": "probabilities",
    "normalise then add": "normalise, then add",
    "post norm": "post-norm",
    "first half only": "normalise, then add",
    "forgotten plus": "old skip",
    "norm on the skip": "norm on the skip",
    "added to itself": "doubled",
    "only for the mlp": "old skip",
    "no second plus": "no skip",
    "no first plus": "no skip",
    "no plus": "no skip",
    "no norms": "no norm",
    "no second norm": "missing norm",
    "one norm": "shared",
    "parallel": "parallel",
    "mlp first": "mlp first",
    "branches normed last": "norm after the branch",
    "with relu": "activation",
    "without non linearity": "no activation",
    "ends in an activation": "activation at the end",
    "over tokens and channels": "norm axes",
    "over the tokens": "norm axes",
    "over the images": "norm axes",
    "over everything": "norm axes",
    "divided by the variance": "norm formula",
    "mean kept": "norm formula",
    "only centred": "norm formula",
}
UNSEEN = {  # other weights do the same, or a small eps hides it
    "queries and keys exchanged",
    "transposed patches",
    "channels reversed",
    "channels last",
    "swapped norms",
    "unbiased variance",
    "without gain and bias",
    "without bias",
    "without gain",
    "gain after bias",
    "eps after the root",
    "without eps",
}


def codes(report, *levels) -> list[str]:
    return [f.code for f in report.findings if not levels or f.level in levels]


def vit(in_chans: int = 1, num_classes: int = 10, **changes) -> ViT:
    return ViT(ViTConfig(**{"depth": 2, "in_chans": in_chans, "num_classes": num_classes, **changes}))


# The collection of faults -------------------------------------------------------------------------


@cache
def report_of(name: str) -> Report:
    """What is found in a fault, for all tests that ask."""
    size = (28, 20) if name == "sides swapped" else (28, 28)  # square images hide it
    return examine(lambda: faults.build(name, replace(CONFIG, img_size=size)), (1, *size))


def test_each_fault_of_a_model_is_either_named_or_known_to_be_unseen():
    assert set(in_a_model()) == set(NAMED) | UNSEEN


def test_what_is_unseen_is_a_right_model_with_other_weights_but_for_eps():
    assert {n for n in UNSEEN if faults.FAULTS[n].effect != "same function"} == {"eps after the root", "without eps"}


@pytest.mark.parametrize("name", NAMED)
def test_a_fault_is_named(name):
    assert NAMED[name] in codes(report_of(name))


@pytest.mark.parametrize("name", sorted(UNSEEN))
def test_nothing_breaks_where_another_right_model_computes_the_same(name):
    assert report_of(name).at("breaks") == []


# Right models -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_model_in_another_hand_is_left_alone(name):
    build, image, K = RIGHT[name]
    assert codes(examine(build, image, K), "breaks", "departs") == []


DEPARTURES = {
    "post_norm": "post-norm",
    "relu_mlp": "activation",
    "rms_norm": "other norm",
    "no_last_norm": "no last norm",
    "no_output_projection": "no projection",
    "parallel_blocks": "parallel",
}


@pytest.mark.parametrize("name", DEPARTS)
def test_what_departs_does_not_break(name):
    build, image, K, _ = DEPARTS[name]
    report = examine(build, image, K)
    assert report.at("breaks") == [] and DEPARTURES[name] in codes(report, "departs")


@pytest.mark.parametrize("name", RELATIVES)
def test_a_relative_is_left_alone_and_its_slip_is_named(name):
    build, wrong, code = RELATIVES[name]
    assert examine(build, WIDE).at("breaks") == []
    assert wrong is None or code in codes(examine(wrong, WIDE), "breaks")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "post"},
        {"pos_embed": "sincos"},
        {"global_pool": "mean"},
        {"global_pool": "attn"},
        {"stem": "conv"},
        {"init_values": 1e-5},
        {"reg_tokens": 3},
        {"num_heads": 1, "depth": 3},
        {"qkv_bias": False},
        {"img_size": (24, 32), "patch_size": 8, "in_chans": 3},
    ],
)
def test_the_vit_of_the_book_is_right_in_all_its_forms(changes):
    config = ViTConfig(**{"depth": 2, **changes})
    image = (config.in_chans, *ViT(config).patch_embed.img_size)
    report = examine(lambda: ViT(config), image)
    assert report.at("breaks") == [] and not report.skipped.keys() & {"patches", "attention", "read-out"}


def libraries() -> dict:
    import timm
    import torchvision
    import transformers

    config = transformers.ViTConfig(
        hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64, num_labels=10
    )
    small = {"img_size": 64, "depth": 2, "num_classes": 10}
    return {
        "timm": lambda: timm.create_model("vit_tiny_patch16_224", **small),
        "timm, relative positions": lambda: timm.create_model("vit_relpos_small_patch16_224", **small),
        "timm, rotary": lambda: timm.create_model("eva02_tiny_patch14_224", **{**small, "img_size": 56}),
        "timm, distilled": lambda: timm.create_model("deit_tiny_distilled_patch16_224", **small),
        "timm, attention pooling": lambda: timm.create_model("vit_tiny_patch16_224", global_pool="map", **small),
        "timm, pixels within patches": lambda: timm.create_model("tnt_s_patch16_224", img_size=96, num_classes=10),
        "torchvision": lambda: torchvision.models.VisionTransformer(64, 16, 2, 4, 64, 128, num_classes=10),
        "Hugging Face": lambda: transformers.ViTForImageClassification(config),
    }


@pytest.mark.parametrize("name", libraries())
def test_the_models_of_libraries_are_left_alone(name):
    side = {"timm, rotary": 56, "timm, pixels within patches": 96}.get(name, 64)
    assert examine(libraries()[name], (3, side, side)).at("breaks") == []


# Each code ----------------------------------------------------------------------------------------


class Around(nn.Module):
    """A right ViT, and something done to its images or logits."""

    def __init__(self, before=None, after=None, **changes):
        super().__init__()
        self.vit, self._before, self._after = vit(**changes), before or (lambda x: x), after or (lambda y: y)

    def forward(self, x):
        return self._after(self.vit(self._before(x)))


class Two(ViT):
    """A ViT whose features go through another end."""

    def __init__(self, end, outputs: int | None = None, **changes):
        super().__init__(ViTConfig(depth=2, **changes))
        self._end = end
        self.last = nn.Linear(outputs, 10) if outputs else self.head

    def forward(self, images):
        return self.last(self._end(self.norm(self.encode(self.embed(images)))))


def changed(change, **changes):
    def build():
        model = vit(**changes)
        change(model)
        return model

    return build


def in_blocks(change, **changes):
    """A ViT in each of whose blocks something is changed."""
    return changed(lambda model: [change(block) for block in model.blocks], **changes)


def with_norms(norm):
    """A ViT with this norm, or none of torch's, in the place of both norms of a block."""

    def change(block):
        block.norm1, block.norm2 = norm(), norm()

    return in_blocks(change)


def saturate(block):
    nn.init.normal_(block.attention.qkv.weight)


def freeze(model):
    model.blocks[0].requires_grad_(False)


class Unused(ViT):
    def __init__(self):
        super().__init__(CONFIG)
        self.decoder = nn.Linear(8, 8)


class Dead(ViT):
    def __init__(self):
        super().__init__(CONFIG)
        self.probe = nn.Linear(CONFIG.embed_dim, CONFIG.embed_dim)

    def forward_head(self, x):
        self.probe(x)
        return super().forward_head(x)


class Gray(ViT):
    """Its cls token has as many rows as the images have channels."""

    def __init__(self, in_chans=1):
        super().__init__(ViTConfig(depth=2, in_chans=in_chans))
        self.pool.token = nn.Parameter(torch.zeros(in_chans, 1, self.config.embed_dim))


class Moved(ViT):
    def __init__(self):
        super().__init__(CONFIG)
        self.pool.token = nn.Parameter(torch.zeros(1, 1, CONFIG.embed_dim)).to("cpu")


class FixedCls(ViT):
    def __init__(self):
        super().__init__(CONFIG)
        del self.pool.token
        self.pool.register_buffer("token", torch.randn(1, 1, CONFIG.embed_dim))


class Strided(nn.Module):
    """A ViT of patches that skip some pixels."""

    def __init__(self, keep: int):
        super().__init__()
        self.vit, self._keep = ViT(ViTConfig(depth=2, img_size=24)), keep

    def forward(self, x):
        return self.vit(x[..., self._keep : 24 + self._keep, self._keep : 24 + self._keep])


class RowsAlike(ViT):
    """Each row of patches has one position."""

    def __init__(self):
        super().__init__(ViTConfig(depth=2, global_pool="mean"))
        self.rows = nn.Parameter(torch.randn(1, 7, 1, CONFIG.embed_dim))

    def embed(self, images):
        x = self.patch_embed(images)
        return x + self.rows.expand(-1, -1, 7, -1).flatten(1, 2)


def with_weights(weigh):
    """Attention whose weights are made from the scores (B, h, T, T) in another way."""

    def change(model):
        class Weighing(type(model.blocks[0].attention)):
            def forward(self, x):
                B, T, D = x.shape
                q, k, v = self.qkv(x).view(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
                weights = weigh(q @ k.mT / q.shape[-1] ** 0.5)
                return self.proj((weights @ v).transpose(1, 2).reshape(B, T, D))

        for block in model.blocks:
            block.attention.__class__ = Weighing

    return change


def in_a_window(scores):
    place = torch.arange(scores.shape[-1])
    return scores.masked_fill((place[:, None] - place).abs() >= 20, float("-inf")).softmax(-1)


def reads_other(block):
    class Cross(type(block)):
        def forward(self, x):
            a = self.attention
            B, T, D = x.shape
            q, k, _ = a.qkv(self.norm1(x)).chunk(3, -1)
            v = F.linear(x, a.qkv.weight[2 * D :])
            q, k, v = (z.view(B, T, a.num_heads, -1).transpose(1, 2) for z in (q, k, v))
            x = x + a.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(B, T, D))
            return x + self.mlp(self.norm2(x))

    block.__class__ = Cross


class OverFeatures(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x.mT).mT


def large_head(model):
    nn.init.normal_(model.head.weight, std=3)


class Raises(nn.Module):
    def forward(self, x):
        raise KeyError("no such layer")


class InPlace(ViT):
    """It changes what the sigmoid before it keeps for the pass backwards."""

    def __init__(self):
        super().__init__(CONFIG)

    def encode(self, x):
        x = super().encode(x).sigmoid()
        x -= 0.5
        return x


CAUSES = {  # a code that no fault of the collection has: what has it
    "runs": lambda: Raises(),
    "channels": lambda in_chans=1: Gray(in_chans),
    "classes": lambda: vit(num_classes=12),
    "confined": lambda: Around(after=torch.sigmoid),
    "log-probabilities": lambda: Around(after=lambda y: y.log_softmax(-1)),
    "border": lambda: Strided(0),
    "one patch": lambda: vit(patch_size=28),
    "overlap": lambda: vit(stem="conv"),
    "equal positions": RowsAlike,
    "zero positions": changed(lambda m: nn.init.zeros_(m.positions.table)),
    "weights sum": changed(with_weights(lambda scores: scores.softmax(-1) / 4)),
    "partial mask": changed(with_weights(in_a_window)),
    "different inputs": in_blocks(reads_other),
    "no projection": in_blocks(lambda block: setattr(block.attention, "proj", nn.Identity())),
    "saturated": in_blocks(saturate),
    "other norm": with_norms(lambda: OverFeatures(64)),
    "leaves out patches": lambda: Two(lambda x: x[:, 1:].mean(1), global_pool="mean"),
    "flattened": lambda: Two(lambda x: x.flatten(1), 49 * 64, global_pool="mean"),
    "over features": lambda: Two(lambda x: x.mean(-1), 49, global_pool="mean"),
    "fixed cls": FixedCls,
    "first loss": changed(large_head),
    "dead": Dead,
    "unused": Unused,
    "frozen weights": changed(freeze),
    "frozen": changed(lambda m: m.positions.table.requires_grad_(False)),
    "lost on a device": Moved,
    "no backward": InPlace,
    "norm gains": changed(
        lambda m: [nn.init.trunc_normal_(p, std=0.02) for n, p in m.named_parameters() if "bias" not in n and p.ndim]
    ),
    "symmetric": in_blocks(lambda block: nn.init.constant_(block.mlp.fc1.weight, 0.02)),
}


class TalkingHeads(nn.Module):
    """Attention whose weights a matrix mixes over the heads."""

    def __init__(self, attention):
        super().__init__()
        self.qkv, self.proj = attention.qkv, attention.proj
        self.mix = nn.Linear(4, 4, bias=False)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, 4, -1).permute(2, 0, 3, 1, 4)
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)  # (B, h, T, T)
        weights = self.mix(weights.movedim(1, -1)).movedim(-1, 1)
        return self.proj((weights @ v).transpose(1, 2).reshape(B, T, D))


def with_attention(make):
    """A ViT whose blocks have an attention that is made of theirs."""
    return in_blocks(lambda block: setattr(block, "attention", make(block.attention)))


def in_weights(number: float):
    """Queries that begin smaller by a number, or larger, and scores that nothing divides."""

    def change(model):
        with_weights(lambda scores: (scores * 4).softmax(-1))(model)  # heads of width 16
        for block in model.blocks:
            nn.init.normal_(block.attention.qkv.weight, std=0.1)
            with torch.no_grad():
                block.attention.qkv.weight[:64] *= number

    return change


class OneBlock(ViT):
    """It calls one block three times; half: its second norm is its first one as well."""

    def __init__(self, half: bool = False):
        super().__init__(CONFIG)
        (self.block, _), self.blocks = self.blocks, None
        if half:
            self.block.norm2 = self.block.norm1

    def encode(self, x):
        for _ in range(3):
            x = self.block(x)
        return x


class RandomTable(ViT):
    def __init__(self):
        super().__init__(CONFIG)
        table = self.positions.table.detach()
        del self.positions.table
        self.positions.register_buffer("table", torch.randn_like(table))


DESIGNS = {  # what works, and the code of the bug that it resembles: it departs
    "weights sum": with_attention(TalkingHeads),
    "scale": changed(in_weights(1 / 4)),
    "shared": OneBlock,
    "frozen": RandomTable,
    "no softmax": changed(with_weights(torch.sigmoid)),
}


@pytest.mark.parametrize("code", DESIGNS)
def test_a_design_that_resembles_a_bug_departs(code):
    report = examine(DESIGNS[code], IMAGE)
    assert report.at("breaks") == [] and code in codes(report, "departs")


@pytest.mark.parametrize("code, build", [("scale", changed(in_weights(1))), ("shared", lambda: OneBlock(half=True))])
def test_the_bug_beside_the_design_breaks(code, build):
    assert codes(examine(build, IMAGE), "breaks") == [code]


@pytest.mark.parametrize("end", [F.gelu, F.silu, F.relu, F.logsigmoid, torch.tanh])
def test_logits_behind_an_activation_are_confined(end):
    assert codes(examine(lambda: Around(after=end), IMAGE), "breaks") == ["confined"]


@pytest.mark.parametrize("num_classes", [2, 3])
@pytest.mark.parametrize("seed", range(6))
def test_a_few_logits_of_one_sign_are_not_confined(seed, num_classes):
    """Features that are nearly the same positive number leave the signs to the head."""

    class Positive(ViT):
        def forward_head(self, x):
            return self.head(F.softplus(self.pool(x)) + 10)

    torch.manual_seed(seed)
    config = replace(CONFIG, num_classes=num_classes)
    assert "confined" not in codes(examine(lambda num_classes=num_classes: Positive(config), IMAGE, num_classes))


class Overlapping(nn.Module):
    """Heads that begin one feature apart, where each should begin where the other ends."""

    def __init__(self):
        super().__init__()
        D = CONFIG.embed_dim
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        heads = [[t[..., h : h + 16] for t in (q, k, v)] for h in range(4)]
        return self.proj(torch.cat([F.scaled_dot_product_attention(*head) for head in heads], -1))


def test_features_that_no_head_reads_are_named():
    build = with_attention(lambda _: Overlapping())
    (found,) = (finding for finding in examine(build, IMAGE).at("breaks") if finding.code == "dead")
    assert "more than half: blocks.0.attention.qkv.weight" in found.says


class Twice(nn.Module):
    """Attention over the batch, by a layer of its own; queries that are computed beside it go nowhere."""

    def __init__(self):
        super().__init__()
        D = CONFIG.embed_dim
        self.q, self.mix = nn.Linear(D, D), nn.MultiheadAttention(D, 4)

    def forward(self, x):
        self.q(x)
        return self.mix(x, x, x)[0]


@pytest.mark.parametrize("zeros, found", [(("gamma",), []), (("proj",), []), (("gamma", "proj"), ["dead"])])
def test_a_branch_that_begins_at_zero_may_learn_and_one_of_two_zeros_never_does(zeros, found):
    def change(model):
        for name, parameter in model.named_parameters():
            if "blocks" in name and any(zero in name for zero in zeros):
                nn.init.zeros_(parameter)

    assert codes(examine(changed(change, init_values=1.0), IMAGE), "breaks") == found


def by_a_lambda():
    """A causal model whose blocks call their MLPs through a lambda, which no copy can follow."""
    model = faults.build("causal", CONFIG)
    for block in model.blocks:
        block.call = lambda x, mlp=block.mlp: mlp(x)
        block.forward = lambda x, b=block: (y := x + b.attention(b.norm1(x))) + b.call(b.norm2(y))
    return model


def test_a_model_that_cannot_be_copied_is_built_anew():
    assert codes(examine(by_a_lambda, IMAGE), "breaks") == codes(report_of("causal"), "breaks")
    assert "use lambda: MyViT()" in examine(by_a_lambda(), IMAGE).findings[0].says


def computed(model):
    table = model.positions.table.requires_grad_(False)
    table.data[:, 2::2] = table.data[:, 1:-1:2]


class MeanSquare(nn.Module):
    def forward(self, x):
        return x / x.square().mean(-1, keepdim=True)


@pytest.mark.parametrize("code", CAUSES)
def test_a_code_has_a_cause(code):
    assert code in codes(examine(CAUSES[code], IMAGE))


def test_every_code_can_be_found():
    side_by_side = {"dead rows", "mixed before", "not stored", "too large"}  # below, and beside others
    slips = {code for *_, code in RELATIVES.values() if code}
    assert set(KINDS) == set(NAMED.values()) | set(CAUSES) | slips | side_by_side


class Averaged(nn.Module):
    """As many tokens as features, so that no size tells them apart; the mean is taken behind a transpose."""

    def __init__(self, norm=nn.Identity):
        super().__init__()
        self.vit, self.norm = vit(img_size=32, global_pool="mean"), norm(64)
        assert self.vit.config.num_patches == self.vit.config.embed_dim == 64

    def forward(self, x):
        x = self.vit.forward_features(x)
        return self.vit.head((x + 0.1 * self.norm(x)).transpose(1, 2).mean(-1))


def test_as_many_tokens_as_features():
    assert examine(Averaged, (1, 32, 32)).at("breaks") == []


class Added(ViT):
    """A plain tensor is added to the tokens."""

    def __init__(self, make):
        super().__init__(CONFIG)
        self.added = make(CONFIG.embed_dim)

    def embed(self, images):
        return super().embed(images) + self.added


def test_a_plain_tensor_is_a_note_if_it_is_computed_and_breaks_if_it_is_random():
    for make, level in ((torch.randn, "breaks"), (torch.arange, "note")):
        assert "not stored" in codes(examine(lambda make=make: Added(make), IMAGE), level)

    def in_a_list():
        model = Added(torch.arange)
        model.blocks = [*model.__dict__["_modules"].pop("blocks")]
        return model

    assert "not stored" in codes(examine(in_a_list, IMAGE), "note")  # not they make the loaded model another one


def test_one_saturated_layer_of_several_is_left_alone():
    first = changed(lambda model: saturate(model.blocks[0]))
    assert "saturated" not in codes(examine(first, IMAGE))


def test_codes_beside_others():
    assert "dead rows" in codes(report_of("causal"))
    assert "not stored" in codes(report_of("plain cls"))
    assert "mixed before" in codes(
        examine(RELATIVES["residual convolutions before the tokens, and pooling by weights"][0], WIDE)
    )
    with torch.device("meta"):
        large = ViT(ViTConfig.vit_h_14())
    assert codes(examine(large, (3, 224, 224), 1000)) == ["too large"]


class OnePosition(ViT):
    """It adds one position vector in all places."""

    def embed(self, images):
        return self.pool.prepend(self.patch_embed(images)) + self.positions.table[:, :1]


def blind_without_positions():
    model = faults.build("over the batch", CONFIG)
    model.__class__ = OnePosition
    return model


class WholeNorm(nn.Module):
    """A norm over all of an image's numbers, with a gain for each."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(50, 64))

    def forward(self, x):
        return self.gain * (x - x.mean((1, 2), keepdim=True)) / x.std((1, 2), keepdim=True)


def over_the_tokens():
    return faults.build("over the tokens", ViTConfig(depth=2, img_size=32, global_pool="mean"))


def mean_behind_a_norm():
    return Two(lambda x: F.layer_norm(x.mean(-1), (49,)), 49, global_pool="mean")


TOO = {  # what a finding must see as well: the images' side, what breaks, a model
    "a computed table": (28, ["equal positions"], changed(computed)),
    "a scrambled grid of 2 x 2": (28, ["cut"], lambda: faults.build("map reshaped", replace(CONFIG, patch_size=14))),
    "what goes nowhere if blind": (28, ["blind", "over the batch", "dead"], with_attention(lambda _: Twice())),
    "one position for all": (28, ["no positions"], lambda: OnePosition(CONFIG)),
    "not that positions are missing where no image matters": (28, ["blind", "over the batch"], blind_without_positions),
    "a norm with a gain for each number": (28, ["norm axes"], with_norms(WholeNorm)),
    "a norm without its root": (28, ["norm formula"], with_norms(MeanSquare)),
    "as many tokens as features, with a norm": (32, ["norm axes"], lambda: Averaged(lambda D: nn.BatchNorm1d(D))),
    "as many tokens as features, normed over the tokens": (32, ["blind", "norm axes"], over_the_tokens),
    "a mean over features behind a norm": (28, ["shared", "over features"], mean_behind_a_norm),
}


@pytest.mark.parametrize("what", TOO)
def test_a_finding_sees_this_too(what):
    side, expected, build = TOO[what]
    assert codes(examine(build, (1, side, side)), "breaks") == expected


def test_large_images_are_cut_as_small_ones_are():
    assert examine(lambda: vit(img_size=144, patch_size=16), (1, 144, 144)).findings == ()


@pytest.mark.parametrize("K, after", [(10, lambda y: y.squeeze()), (1, lambda y: y[:, 0])])
def test_a_lost_axis_is_told_where_it_is_one(K, after):
    report = examine(lambda: Around(after=after, num_classes=K), IMAGE, K)
    assert codes(report) == (["batch size"] if K > 1 else []) and not report.skipped.keys() & {"patches", "read-out"}


# What models are given ----------------------------------------------------------------------------


@dataclass
class Output:
    features: torch.Tensor
    logits: torch.Tensor


@pytest.mark.parametrize(
    "wrap",
    [
        lambda y: {"logits": y},
        lambda y: {"features": y.new_zeros(len(y), 10), "logits": y},
        lambda y: (y, [y.new_zeros(3)]),
        lambda y: Output(y.new_zeros(len(y), 5), y),
    ],
)
def test_logits_are_found_in_what_a_model_returns(wrap):
    assert examine(lambda: Around(after=wrap), IMAGE).at("breaks") == []


@pytest.mark.parametrize(
    "model", [vit().half(), torch.nn.DataParallel(vit()), torch.compile(vit()), vit().double().train()]
)
def test_half_wrapped_compiled_and_training_models_are_taken_and_come_back(model):
    before, training = copy.deepcopy(model.state_dict()), model.training
    state = torch.get_rng_state()
    report = examine(model, IMAGE)
    assert report.at("breaks") == [] and "channels" in report.skipped
    assert torch.equal(torch.get_rng_state(), state) and model.training == training
    after = model.state_dict()
    assert before.keys() == after.keys() and all(torch.equal(before[k], after[k]) for k in before)
    assert {p.dtype for p in model.parameters()} == {v.dtype for v in before.values() if v.is_floating_point()}


def test_a_model_that_prints_is_silent_and_two_runs_agree(capsys):
    def chatty(y):
        print(y.shape)
        return y

    first, second = (examine(lambda: Around(after=chatty), IMAGE) for _ in range(2))
    assert capsys.readouterr().out == "" and first == second


@pytest.mark.parametrize(
    "build",
    [
        lambda: Raises(),
        lambda: nn.Linear(3, 4),
        lambda: nn.Embedding(4, 4),
        lambda: nn.Identity(),
        lambda: 3,
        lambda missing: None,
        lambda: nn.Sequential(nn.Flatten(), nn.Linear(784, 10)),
        lambda: nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10)),
    ],
)
def test_what_is_no_vit_gets_a_report(build):
    report = examine(build, IMAGE)
    assert str(report) and json.loads(report.to_json())["version"] == 1


@pytest.mark.parametrize(
    "arguments, advice",
    [
        ({"build": 3}, "use lambda: MyViT()"),
        ({"image": 28}, r"use \(3, 32, 32\)"),
        ({"image": (28, 28)}, r"use \(3, 32, 32\)"),
        ({"image": (1, 28, 0)}, r"use \(3, 32, 32\)"),
        ({"num_classes": "ten"}, "use 10"),
        ({"num_classes": 0}, "use 10"),
        ({"allow": "scale"}, r"use \('scale',\)"),
        ({"allow": ("skale",)}, r"use \('scale',\)"),
    ],
)
def test_wrong_arguments_say_what_works(arguments, advice):
    with pytest.raises((ValueError, TypeError), match=advice):
        examine(**{"build": vit, "image": IMAGE, **arguments})


def test_what_is_so_by_design_is_allowed():
    assert report_of("undivided").exit_status == 1
    report = examine(lambda: faults.build("undivided", CONFIG), IMAGE, allow=("scale",))
    assert report.exit_status == 0 and report.findings == () and report.allowed == ("scale",)


def test_a_report_is_told_in_order_and_shown_with_lamps():
    report = report_of("over the batch")
    assert codes(report, "breaks") == ["blind", "over the batch"]  # in the order of the data's way
    text, page = str(report), report._repr_html_()
    assert "Fix the first, then run again" in text and "batch_first=True" in text and "Not looked at" in text
    assert page.count("<tr>") == 9 and "● breaks" in page and "● fine" in page
    finding = report.findings[1]
    assert finding.number == 3 and finding.strict and finding.means and finding.look


def test_what_is_in_dispute_counts_as_wide():
    names = ("undivided", "one norm", "normalise then add", "norm on the skip", "split by view")
    assert [name for name in names if report_of(name).findings[0].strict] == ["split by view"]


def test_on_the_command_line(tmp_path):
    (tmp_path / "mine.py").write_text(
        "from vitnb import ViT, ViTConfig\nfrom vitbook import faults\n\n"
        "def right():\n    return ViT(ViTConfig(depth=2))\n\n"
        "def wrong():\n    return faults.build('split by view', ViTConfig(depth=2))\n"
    )

    def run(*arguments):
        command = [sys.executable, "-m", "vitnb.examine", *arguments, "--image", "1", "28", "28"]
        return subprocess.run(command, capture_output=True, text=True)

    place = str(tmp_path / "mine.py")
    assert run(f"{place}:right").returncode == 0
    wrong = run(f"{place}:wrong", "--json")
    assert wrong.returncode == 1 and json.loads(wrong.stdout)["findings"][0]["code"] == "heads split"
    assert run(f"{place}:wrong", "--allow", "heads split").returncode == 0
    missing = run(f"{place}:nothing")
    assert missing.returncode == 2 and "use my_vit.py:build" in missing.stderr and "Traceback" not in missing.stderr


# The trace ----------------------------------------------------------------------------------------


def test_a_trace_follows_what_is_written_in_place_and_through_views():
    class Writes(nn.Module):
        def forward(self, x):
            out = torch.zeros(2, 4)
            for n in range(2):
                out[n] = 2 * x[n]
            early = out + 0
            out.mul_(3)
            return early, out

    images = torch.randn(2, 4)
    seen = trace(Writes(), images)
    early, late = seen.output
    lineage = Lineage(seen.nodes)
    doubled = [node for node in seen.nodes if node.op == "mul" and node.out.shape == (4,)]
    last = seen.nodes[-1]
    assert torch.equal(early, 2 * images) and torch.equal(late, 6 * images)
    assert len(doubled) == 2 and all(lineage.made_from(last, node) for node in doubled) and last.image
    kept = next(node for node in seen.nodes if node.op == "add")
    assert torch.equal(kept.out, 2 * images) and torch.equal(doubled[0].out, 2 * images[0])


def test_an_edit_replaces_one_result_and_a_stop_ends_the_pass():
    model, images = vit().eval(), torch.randn(1, *IMAGE)
    seen = trace(model, images)
    softmax = next(node for node in seen.nodes if "softmax" in node.op)
    edited = trace(model, images, {softmax.call: torch.zeros_like})
    assert not torch.equal(edited.output, seen.output)
    assert not edited.nodes[softmax.index].out.any() and len(edited.nodes) == len(seen.nodes)
    stopped = trace(model, images, stop=softmax.call)
    assert stopped.output is None and stopped.nodes[-1].index == softmax.index

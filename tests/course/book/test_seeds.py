"""All that the five documents teach from which the book started is here, and computes what it should.

0  first draft of a textbook's chapter (PyTorch)     2  its slides
1  its revision (PyTorch and JAX)                    3, 4  two learners' notebooks

The first tests compare numbers. The table at the end names a place for each class,
run, figure, table, exercise and slide of the five, and for each mistake in them.
"""

import copy
import importlib
import json
import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from pybtex.database import parse_file
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from experiments import textbook
from experiments._data import enlarged
from experiments.pools import PatchMean
from pages import extension
from vitbook import check
from vitbook.exercises.engine import EXERCISES
from vitbook.textbook import textbook_vit
from vitnb import (
    MLP,
    MeanPool,
    MultiHeadAttention,
    PatchEmbedding,
    PreNormBlock,
    ViT,
    ViTConfig,
    data,
    patchify,
    record_attention,
)
from vitnb.training import fit
from vitnb.vit import count_parameters

ROOT = Path(__file__).resolve().parents[3]


# --- the textbook's model, by hand ---


def by_hand(model: ViT, images: Tensor, eps: float, dropped: tuple[str, ...] = ()) -> Tensor:
    """Logits (B, K) by equations 1 to 4 from the numbers of a model: none of its own code runs.

    What a training model would drop at the named places is doubled here; see doubling.
    """
    p, c = dict(model.named_parameters()), model.config

    def drop(place: str, x: Tensor) -> Tensor:
        return 2 * x if place in dropped else x

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ p[f"{name}.weight"].T + p.get(f"{name}.bias", 0)

    def norm(x: Tensor, name: str) -> Tensor:
        x = x - x.mean(-1, keepdim=True)
        return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * p[f"{name}.weight"] + p[f"{name}.bias"]

    x = F.conv2d(images, p["patch_embed.proj.weight"], p["patch_embed.proj.bias"], stride=c.patch_size)
    x = torch.cat([p["pool.token"].expand(len(x), -1, -1), x.flatten(2).transpose(1, 2)], dim=1)
    x = drop("embedding", x + p["positions.table"])
    for number in range(c.depth):
        block = f"blocks.{number}"
        queries, keys, values = linear(norm(x, f"{block}.norm1"), f"{block}.attention.qkv").chunk(3, dim=-1)
        heads = []
        for q, k, v in zip(*(part.chunk(c.num_heads, dim=-1) for part in (queries, keys, values)), strict=True):
            heads.append(drop("weights", (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1)) @ v)
        x = x + drop("projection", linear(torch.cat(heads, dim=-1), f"{block}.attention.proj"))
        hidden = linear(norm(x, f"{block}.norm2"), f"{block}.mlp.fc1")
        hidden = drop("hidden", hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2)  # GELU
        x = x + drop("mlp", linear(hidden, f"{block}.mlp.fc2"))
    return linear(norm(x[:, 0], "norm"), "head")


@torch.no_grad()
def shaken(model: nn.Module, seed: int = 0) -> nn.Module:
    """Move every parameter: behind a bias of 0 or a gain of 1 a mistake could hide."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return model


@pytest.fixture
def doubling(monkeypatch):
    """Dropout doubles everything, so its places show in the result; returns how many numbers it met at each rate."""
    met = []

    def double(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        if not training or p == 0:
            return x
        met.append((p, tuple(x.shape)))
        return 2 * x

    monkeypatch.setattr(F, "dropout", double)
    return met


def test_the_textbooks_model_has_its_6_457_866_parameters():
    width, hidden = 512, 2048
    block = 2 * 2 * width + 4 * width**2 + (width * hidden + hidden) + (hidden * width + width)  # norms, attention, MLP
    parts = [16 * 16 * width + width, width, 37 * width, 2 * block, 2 * width, width * 10 + 10]
    assert count_parameters(textbook_vit()) == sum(parts) == 6_457_866


def test_its_attention_has_no_bias_at_all_and_its_norms_an_epsilon_of_1e_5():
    model = textbook_vit()
    same_sizes = ViT(model.config)
    missing = set(same_sizes.state_dict()) - set(model.state_dict())
    assert missing == {"blocks.0.attention.proj.bias", "blocks.1.attention.proj.bias"}
    assert set(model.state_dict()) < set(same_sizes.state_dict())
    assert not any("attention" in name and "bias" in name for name in model.state_dict())
    assert {layer.eps for layer in model.modules() if isinstance(layer, nn.LayerNorm)} == {1e-5}


def test_it_starts_as_pytorch_starts_its_layers():
    torch.manual_seed(0)
    model = textbook_vit()
    for layer in model.modules():
        if isinstance(layer, (nn.Linear, nn.Conv2d)):
            bound = layer.weight[0].numel() ** -0.5  # uniform, for weight and bias alike
            for values in (layer.weight, layer.bias):
                if values is not None:
                    assert 0.7 * bound < values.abs().max() <= bound
            assert layer.weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)
    assert model.positions.table.std().item() == pytest.approx(1, rel=0.03)
    assert not model.pool.token.any()
    ours = ViT(model.config)  # Xavier, and a small head: another start
    assert ours.blocks[0].mlp.fc1.weight.abs().max() > 1.05 * 512**-0.5
    assert ours.head.weight.std() < 0.9 * 512**-0.5 / math.sqrt(3)


@torch.no_grad()
def test_its_forward_pass_is_the_one_written_out_by_hand():
    torch.manual_seed(0)
    model, images = shaken(textbook_vit()).eval(), torch.rand(3, 1, 96, 96)
    torch.testing.assert_close(model(images), by_hand(model, images, 1e-5), atol=1e-5, rtol=0)
    for parameter in (model.patch_embed.proj.weight, model.patch_embed.proj.bias, model.positions.table):
        parameter *= 1e-3  # faint tokens, for which epsilon counts
    model.pool.token *= 1e-3
    torch.testing.assert_close(model(images), by_hand(model, images, 1e-5), atol=1e-5, rtol=0)
    assert not torch.allclose(model(images), by_hand(model, images, 1e-6), atol=1e-2)


TEXTBOOKS = ("embedding", "weights", "hidden", "mlp")  # and not what comes out of attention
PAPERS = ("embedding", "projection", "hidden", "mlp")  # appendix B.1


@torch.no_grad()
@pytest.mark.parametrize(
    "places, build",
    [
        (TEXTBOOKS, textbook_vit),
        (PAPERS, lambda: ViT(ViTConfig(dropout=0.1))),
        (("weights",), lambda: ViT(ViTConfig(attn_dropout=0.1))),  # the fourth document's
    ],
    ids=["textbook", "paper", "weights alone"],
)
def test_dropout_acts_at_exactly_these_places(doubling, places, build):
    torch.manual_seed(0)
    model = shaken(build()).train()
    images, eps = torch.rand(2, 1, *[model.config.img_size] * 2), model.config.norm_eps
    with record_attention(model):  # writes the softmax out
        torch.testing.assert_close(model(images), by_hand(model, images, eps, places), atol=1e-4, rtol=0)
    assert {p for p, _ in doubling} == {0.1}
    assert len(doubling) == ("embedding" in places) + model.config.depth * len(set(places) - {"embedding"})
    model.eval(), doubling.clear()
    torch.testing.assert_close(model(images), by_hand(model, images, eps), atol=1e-5, rtol=0)
    assert not doubling


def test_the_fused_kernel_drops_attention_weights_in_training_only(monkeypatch):
    rates, fused = [], F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *qkv, dropout_p=0.0: rates.append(dropout_p) or fused(*qkv)
    )
    model, images = textbook_vit(), torch.rand(1, 1, 96, 96)
    model.train()(images), model.eval()(images)
    assert rates == [0.1, 0.1, 0.0, 0.0]


# --- its training ---


@pytest.fixture(scope="module")
def clothes() -> data.Dataset:
    """32 images (clothes, or digits where there are none) as the textbook feeds them."""
    return enlarged(data.load("fashion_mnist").subset(32, test=16))


def test_images_are_enlarged_as_torchvision_does_and_go_in_as_0_to_1(clothes):
    small = data.load("fashion_mnist").subset(32, test=16).train_images
    theirs = [np.array(Image.fromarray(image[0].numpy()).resize((96, 96), Image.BILINEAR)) for image in small]
    assert (clothes.train_images[:, 0].int() - torch.tensor(np.array(theirs)).int()).abs().max() <= 1  # of 255
    pixels = clothes.normalize(clothes.train_images)
    assert pixels.min() == 0 and 0.9 < pixels.max() <= 1
    torch.testing.assert_close(pixels, clothes.train_images / 255)


def test_its_recipe_is_plain_sgd_step_by_step(clothes):
    recipe = textbook.THIS.recipe
    assert (recipe.epochs, recipe.batch_size, recipe.lr, recipe.optimizer) == (10, 128, 0.1, "sgd")
    torch.manual_seed(0)
    model = textbook_vit()
    start, seen = copy.deepcopy(model).train(), []
    model.register_forward_pre_hook(
        lambda module, given: seen.append((given[0].clone(), torch.get_rng_state())) if module.training else None
    )
    history = fit(model, clothes, replace(textbook.THIS.recipe, epochs=2, batch_size=16))

    pixels, losses, order = clothes.train_images / 255, [], []
    optimizer = torch.optim.SGD(start.parameters(), lr=0.1)
    for images, state in seen:
        chosen = [(pixels == image).flatten(1).all(1).nonzero().item() for image in images]
        torch.set_rng_state(state)  # the same dropout
        loss = F.cross_entropy(start(images), clothes.train_labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item()), order.extend(chosen)
    assert sorted(order[:32]) == sorted(order[32:]) == list(range(32)) and order[:32] != order[32:]
    torch.testing.assert_close(history.losses, losses, atol=1e-5, rtol=0)
    for (name, ours), theirs in zip(model.named_parameters(), start.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0, msg=lambda text, name=name: f"{name}: {text}")
    assert (model.head.weight - textbook_vit().head.weight).abs().max() > 1e-3


# --- its exercises ---


def test_exercise_1_the_image_size_sets_the_tokens_and_the_work():
    work = []
    for side in (96, 192):
        with torch.device("meta"):
            model, image = textbook_vit() if side == 96 else ViT(ViTConfig(192, 16, 1, 10, 512, 2, 8, 4.0)), None
            image = torch.rand(1, 1, side, side)
            with FlopCounterMode(display=False) as counter, torch.no_grad(), record_attention(model):
                model(image)
        tokens, width = 1 + (side // 16) ** 2, 512
        alone, compare = 24 * tokens * width**2, 4 * tokens**2 * width  # operations of a block
        ends = 2 * (tokens - 1) * 256 * width + 2 * width * 10
        assert counter.get_total_flops() == 2 * (alone + compare) + ends
        work.append(counter.get_total_flops())
    assert 145 / 37 < work[1] / work[0] < (145 / 37) ** 2


@torch.no_grad()
def test_exercise_2_the_cls_token_stays_and_the_patches_are_averaged():
    torch.manual_seed(0)
    model, images = shaken(textbook_vit()).eval(), torch.rand(2, 1, 96, 96)
    before = model(images)
    model.pool, model.pool.token.data = PatchMean(512), model.pool.token.data
    nn.init.normal_(model.pool.token)
    out = model.forward_intermediates(images)
    assert count_parameters(model) == 6_457_866 and out["features"].shape == (2, 37, 512)  # the token is still there
    mean = sum(out["features"][:, 1 + n] for n in range(36)) / 36
    torch.testing.assert_close(out["logits"], mean @ model.head.weight.T + model.head.bias, atol=1e-5, rtol=0)
    assert not torch.allclose(out["logits"], before, atol=1e-2)
    nn.init.normal_(model.pool.token)  # and it takes part: the patches attend to it
    assert not torch.allclose(model(images), out["logits"], atol=1e-3)
    assert check("7.2", PatchMean)
    assert not check("7.2", lambda embed_dim: MeanPool())


# --- the parts, as the first draft and the slides have them ---


@torch.no_grad()
@pytest.mark.parametrize("channels", [1, 3, 32])  # 32: what the first draft feeds
def test_patch_embedding_is_one_strided_convolution(channels):
    torch.manual_seed(0)
    embed, images = PatchEmbedding((96, 64), (16, 8), channels, 20), torch.randn(2, channels, 96, 64)
    grid = F.conv2d(images, embed.proj.weight, embed.proj.bias, stride=(16, 8))
    assert grid.shape == (2, 20, 6, 8) and embed.num_patches == 48
    torch.testing.assert_close(embed(images), grid.flatten(2).transpose(1, 2), atol=1e-5, rtol=0)
    scrambled = images.reshape(2, 48, -1) @ embed.proj.weight.flatten(1).T + embed.proj.bias
    assert scrambled.shape == embed(images).shape and not torch.allclose(embed(images), scrambled, atol=0.1)


@torch.no_grad()
def test_mlp_and_block_by_hand_on_numbers_that_are_not_all_one():
    torch.manual_seed(0)
    x = torch.randn(2, 100, 24)  # its own check fed ones, which LayerNorm turns into zeros
    mlp, block = shaken(MLP(24, 48, dropout=0.5)).eval(), shaken(PreNormBlock(24, 8, mlp_ratio=2.0, dropout=0.5)).eval()
    torch.testing.assert_close(mlp(x), mlp.fc2(F.gelu(mlp.fc1(x))))
    y = x + block.attention(F.layer_norm(x, (24,), block.norm1.weight, block.norm1.bias, 1e-6))
    y = y + block.mlp(F.layer_norm(y, (24,), block.norm2.weight, block.norm2.bias, 1e-6))
    torch.testing.assert_close(block(x), y)
    # The draft took its residuals from the normalised tokens, and lost attention's.
    normed = block.norm1(x)
    draft = normed + block.mlp(block.norm2(normed + block.attention(normed)))
    assert draft.shape == y.shape and not torch.allclose(draft, y, atol=0.1)
    # And it normalised over tokens and features at once: one token changed all.
    other = x.clone()
    other[:, 50] += 1
    assert torch.equal(block.norm1(other)[:, :50], block.norm1(x)[:, :50])
    assert not torch.allclose(nn.LayerNorm([100, 24])(other)[:, :50], nn.LayerNorm([100, 24])(x)[:, :50], atol=1e-4)


def test_every_block_keeps_the_shape():
    model = textbook_vit().eval()
    out = model.forward_intermediates(torch.rand(2, 1, 96, 96))
    assert out["patches"].shape == (2, 36, 512)
    assert all(out[name].shape == (2, 37, 512) for name in ("embedded", "block_1", "block_2", "features"))
    assert out["logits"].shape == (2, 10)


# --- the notebook that follows the paper's figure, equations and table ---


@torch.no_grad()
def test_every_shape_and_every_equation_of_vit_base():
    torch.manual_seed(0)
    model, images = shaken(ViT(ViTConfig.vit_b_16())).eval(), torch.randn(2, 3, 224, 224)
    grid = F.conv2d(images, model.patch_embed.proj.weight, model.patch_embed.proj.bias, stride=16)
    rows = grid.flatten(2)
    assert grid.shape == (2, 768, 14, 14) and rows.shape == (2, 768, 196)
    torch.testing.assert_close(model.patch_embed(images), rows.permute(0, 2, 1), atol=1e-4, rtol=0)
    out = model.forward_intermediates(images)
    assert out["patches"].shape == (2, 196, 768)
    assert out["embedded"].shape == out["block_12"].shape == out["features"].shape == (2, 197, 768)
    assert out["pooled"].shape == (2, 768) and out["logits"].shape == (2, 1000)
    torch.testing.assert_close(out["logits"], by_hand(model, images, 1e-6), atol=1e-3, rtol=1e-4)
    # Nothing is drawn anew; the images of a batch do not meet; the logits are no probabilities yet.
    assert torch.equal(model(images), out["logits"])
    torch.testing.assert_close(model(images[:1]), out["logits"][:1], atol=1e-3, rtol=1e-4)
    assert not torch.allclose(out["logits"][0], out["logits"][1], atol=1e-2)
    assert (out["logits"].sum(dim=1) - 1).abs().min() > 0.01
    torch.testing.assert_close(out["logits"].softmax(dim=1).sum(dim=1), torch.ones(2))
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    assert shapes["pool.token"] == (1, 1, 768) and shapes["positions.table"] == (1, 197, 768)


@pytest.mark.parametrize(
    "preset, layers, width, mlp, heads, millions",
    [("vit_b_16", 12, 768, 3072, 12, 86), ("vit_l_16", 24, 1024, 4096, 16, 307), ("vit_h_14", 32, 1280, 5120, 16, 632)],
)
def test_table_1_of_the_paper(preset, layers, width, mlp, heads, millions):
    with torch.device("meta"):
        model = ViT(getattr(ViTConfig, preset)())
    c = model.config
    assert (c.depth, c.embed_dim, model.blocks[0].mlp.fc1.out_features, c.num_heads) == (layers, width, mlp, heads)
    assert abs(count_parameters(model) / 1e6 - millions) < 3  # the paper rounds; chapter 8 says how


# --- the notebook that reshapes and multiplies ---


@torch.no_grad()
def test_reshape_and_linear_gives_the_tokens_of_the_convolution():
    torch.manual_seed(0)
    images, conv = torch.randn(2, 3, 224, 224), nn.Conv2d(3, 192, 16, stride=16)  # the width is free: not 3 * 16 * 16
    linear = nn.Linear(768, 192)
    linear.weight.copy_(conv.weight.flatten(1)), linear.bias.copy_(conv.bias)
    model = shaken(ViT(ViTConfig(224, 16, 3, 5, embed_dim=192, depth=2, num_heads=4, attn_dropout=0.2))).eval()
    model.patch_embed.proj.load_state_dict(conv.state_dict())
    tokens = linear(patchify(images, 16))
    for others in (conv(images).flatten(2).transpose(1, 2), model.patch_embed(images)):
        torch.testing.assert_close(tokens, others, atol=1e-5, rtol=0)
    # cls first, positions for all 197; it is read first, too: the notebook put it last.
    x = torch.cat([model.pool.token.expand(2, -1, -1), tokens], dim=1) + model.positions.table
    torch.testing.assert_close(model.embed(images), x, atol=1e-5, rtol=0)
    for block in model.blocks:
        x = block(x)
    logits = model.head(F.layer_norm(x[:, 0], (192,), model.norm.weight, model.norm.bias, 1e-6))
    assert logits.shape == (2, 5)  # classes, not (2, 197, classes)
    torch.testing.assert_close(model(images), logits, atol=1e-4, rtol=0)
    with record_attention(model) as maps:
        model(images)
    assert len(maps) == len([m for m in model.modules() if isinstance(m, MultiHeadAttention)]) == 2


# --- a place for everything ---


@dataclass(frozen=True)
class Place:
    """Where something is, in words, and a function that says whether it still is."""

    words: str
    there: Callable[[], bool]


@cache
def cells(notebook: str) -> dict[str, str]:
    """The cells of a notebook under book/: id -> source."""
    path = ROOT / "book" / f"{notebook}.ipynb"
    return {c["id"]: "".join(c["source"]) for c in json.loads(path.read_text())["cells"]} if path.exists() else {}


def cell(where: str, pattern: str) -> Place:
    """A cell, "chapter:id", whose source matches."""
    chapter, number = where.split(":")
    return Place(
        f"cell {where} with /{pattern}/", lambda: bool(re.search(pattern, cells(chapter).get(number, ""), re.DOTALL))
    )


def importable(path: str) -> Place:
    """Something that can be imported, such as vitnb.ViT."""
    module, _, attribute = path.rpartition(".")
    return Place(path, lambda: hasattr(importlib.import_module(module), attribute))


def exercise(number: str, pattern: str) -> Place:
    """An exercise whose text matches, which a chapter poses, check() knows and a notebook solves."""

    def there() -> bool:
        for path in sorted((ROOT / "book").glob("*.ipynb")):
            sources = list(cells(path.stem).values())
            if posed := [s for s in sources if re.search(rf"### Exercise {re.escape(number)}:", s)]:
                checked = f'check("{number}"'
                solved = any(checked in s for s in cells(f"solutions/{path.stem}").values())
                asked = number in EXERCISES and any(checked in s for s in sources)
                return asked and solved and bool(re.search(pattern, posed[0], re.DOTALL))
        return False

    return Place(f"exercise {number} with /{pattern}/", there)


def slide(title: str, *shown: str) -> Place:
    """A slide of the one-lecture deck that shows these cells."""

    def there() -> bool:
        path = ROOT / "book" / "slides" / "vit-in-one-lecture.md"
        slides = re.split(r"^---$", path.read_text(), flags=re.MULTILINE) if path.exists() else []
        found = [s for s in slides if re.search(rf"^##? {re.escape(title)}$", s, re.MULTILINE)]
        parts = [place.split(":") for place in shown]
        shows = all(f"{{{{ {place} " in s for s in found for place in shown)
        return len(found) == 1 and shows and all(number in cells(chapter) for chapter, number in parts)

    return Place(f"slide {title!r} with {', '.join(shown) or 'its words'}", there)


def result(name: str, key: str) -> Place:
    """A stored result that has something under this key, at any depth, and the script that measured it."""

    def held(found: object) -> bool:
        parts = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
        return bool(isinstance(found, dict) and found.get(key)) or any(map(held, parts))

    def there() -> bool:
        path = ROOT / "book" / "results" / f"{name}.json"
        stored = path.exists() and held(json.loads(path.read_text())["result"])
        return stored and (ROOT / "experiments" / f"{name}.py").exists()

    return Place(f"result {name} with {key}", there)


def source(key: str, chapter: str) -> Place:
    """A source of the list that a chapter cites, by its key or by its address."""

    def there() -> bool:
        entry = parse_file(ROOT / "book" / "references.bib").entries.get(key)
        links = (f"](#{key})", f"]({extension.address(entry)})") if entry else ()
        return any(link in text for text in cells(chapter).values() for link in links)

    return Place(f"{key}, cited in {chapter}", there)


# The chapters by what they are about: their file names may change.
PATCHES, POSITIONS, ATTENTION, HEADS = "01-patchify", "02-positions", "03-attention", "04-heads"
BLOCKS, DEPTH, POOLING, VIT = "05-pre-norm-post-norm", "06-depth", "07-cls-token", "08-vit"
TRAINING, RECIPES = "09-training", "10-recipes"

# What the figure of the architecture shows: an image in patches, cls in front, n blocks, the answer from cls.
ARCHITECTURE = [
    cell(f"{VIT}:whole-model", r"whole_model\(.*B16\)"),
    importable("vitbook.drawings.whole_model"),
    cell(f"{VIT}:cef4ef57", r"patch_grid.*embedded.*block_12.*logits"),
    cell(f"{VIT}:16c009b3", r"Linear Projection of Flattened Patches.*Transformer Encoder.*MLP Head"),
]
PATCH_EMBEDDING = [
    importable("vitnb.PatchEmbedding"),
    cell(f"{PATCHES}:3fdb07d7", r"class PatchEmbedding.*num_patches.*nn\.Conv2d.*flatten\(2\)\.transpose\(1, 2\)"),
    cell(f"{PATCHES}:fb188aaa", r"allclose\(by_conv, tokens"),
]
MLP_ = [importable("vitnb.MLP"), cell(f"{BLOCKS}:d504b10c", r"class MLP.*GELU.*drop\(self\.act.*drop\(self\.fc2")]
PRE_NORM = [
    importable("vitnb.PreNormBlock"),
    cell(f"{BLOCKS}:20b98dd5", r"class PreNormBlock.*x \+ self\.attention\(self\.norm1\(x\)\).*self\.norm2\(x\)"),
]
POST_NORM = [
    importable("vitnb.PostNormBlock"),
    cell(f"{BLOCKS}:cec02da8", r"class PostNormBlock.*self\.norm1\(x \+ self\.attention\(x\)\)"),
    cell(f"{BLOCKS}:5093598e", r"zero_out.*torch\.equal\(pre\(x\), x\).*norm2\(post\.norm1"),
]
WHOLE = [
    importable("vitnb.ViT"),
    cell(f"{VIT}:3918a267", r"class OurViT.*patch_embed.*prepend.*positions.*for block.*norm.*head"),
]
TEXTBOOK = [
    importable("vitbook.textbook.textbook_vit"),
]
TRAINING_RUN = [
    *TEXTBOOK,
    importable("vitnb.data.load"),
    importable("vitnb.training.fit"),
    cell(f"{RECIPES}:textbook-image", r"resize\(boot, \[96, 96\]\)"),
    cell(f"{RECIPES}:textbook-code", r'results\.result\("textbook"\)'),
    cell(f"{RECIPES}:textbook-figure", r"axis\.plot"),
    result("textbook", "test_accuracy_by_epoch"),
    result("ladder", "the textbook"),
]
CLS = [importable("vitnb.ClsToken"), cell(f"{POOLING}:b1c82a6c", r"class ClsToken.*nn\.Parameter.*expand.*x\[:, 0\]")]
TABLE = [
    importable("vitnb.LearnedPositions"),
    cell(f"{POSITIONS}:f987fecb", r"class LearnedPositions.*nn\.Parameter.*x \+ self\.table"),
]

SEEDS = {
    # the first draft
    "0 class PatchEmbedding": PATCH_EMBEDDING,
    "0 run of PatchEmbedding: (4, 36, 512)": [cell(f"{PATCHES}:85d91240", r"tokens = E\(patchify\(images, p\)\)")],
    "0 class ViTMLP": MLP_,
    "0 class ViTBlock": [*PRE_NORM, importable("vitbook.faults.wire.ForgottenPlus")],
    "0 run of ViTBlock on ones": [cell(f"{BLOCKS}:060af693", r"ones.*LN\(ones\)")],
    "0 class ViT": WHOLE,
    "0 training": TRAINING_RUN,
    # its revision
    "1 tabs: PyTorch and JAX": [
        cell("jax:model-from-vitnb", r"def from_vitnb"),
        cell("jax:grid", r"textbook_vit"),
        cell("jax:grid-proof", r"assert .*max\(found\.values\(\)\) < 1e-5"),
    ],
    "1 introduction: attention instead of convolution": [
        source("ramachandran2019stand", HEADS),
        source("cordonnier2020relationship", HEADS),
        source("dosovitskiy2021image", VIT),
        source("devlin2019bert", DEPTH),
        source("vaswani2017attention", ATTENTION),
    ],
    "1 figure: the architecture": ARCHITECTURE,
    "1 model: stem, body, head": WHOLE,
    "1 m = hw / p^2 patches of c p^2 numbers": [cell(f"{PATCHES}:2a77b020", r"N = .*HW.*p\^2.*Cp\^2")],
    "1 patch embedding as one convolution": [cell(f"{PATCHES}:fb188aaa", r"Convolution = patchify \+ linear")],
    "1 class PatchEmbedding, PyTorch": PATCH_EMBEDDING,
    "1 class PatchEmbedding, JAX": [cell("jax:model-patches", r"class PatchEmbedding\(nnx\.Module\)")],
    "1 run of PatchEmbedding, PyTorch": [cell(f"{PATCHES}:623dc52d", r"vitnb\.PatchEmbedding\(\(8, 12\), 4, 3, 10\)")],
    "1 run of PatchEmbedding, JAX": [cell("jax:same", r"VALID")],
    "1 MLP: GELU and dropout": [cell(f"{BLOCKS}:994279fe", r"GELU"), source("hendrycks2016gelu", BLOCKS)],
    "1 class ViTMLP, PyTorch": MLP_,
    "1 class ViTMLP, JAX": [
        cell("jax:model-mlp", r"class MLP\(nnx\.Module\).*drop\(self\.activation.*drop\(self\.fc2")
    ],
    "1 pre-norm against post-norm": [*PRE_NORM, *POST_NORM, source("xiong2020layer", DEPTH), result("norms", "arms")],
    "1 class ViTBlock, PyTorch": PRE_NORM,
    "1 class ViTBlock, JAX": [cell("jax:model-blocks", r"class PreNormBlock.*self\.norm1\(x\)")],
    "1 run of ViTBlock: the shape stays": [cell(f"{VIT}:16c009b3", r"forward_intermediates")],
    "1 class ViT, PyTorch": WHOLE,
    "1 class ViT, JAX": [
        cell("jax:model-vit", r"class ViT\(nnx\.Module\)"),
        cell("jax:model-textbook", r"textbook_vit"),
    ],
    "1 training, PyTorch": TRAINING_RUN,
    "1 training, JAX": [
        cell("jax:model-step", r"value_and_grad"),
        cell("jax:twenty-run", r"fashion_mnist"),
        result("jax_step", "96/16 512x2"),
    ],
    "1 discussion: against a CNN": [cell(f"{RECIPES}:cnn-figure", r"errorbar|plot"), result("cnn", "CNN")],
    "1 discussion: equivariance and locality": [cell(f"{POSITIONS}:afb64289", r"equivariant")],
    "1 discussion: DeiT": [source("touvron2021training", VIT)],
    "1 discussion: quadratic in tokens": [cell(f"{PATCHES}:728675d8", r"return N, N\*\*2")],
    "1 discussion: Swin": [source("liu2021swin", VIT)],
    "1 exercise 1: the image size and the time": [
        cell(f"{PATCHES}:728675d8", r"def cost\(side, p"),
        importable("vitbook.figures.CostExplorer"),
    ],
    "1 exercise 2: the average of the patches": [
        exercise("7.2", r"average.*patches"),
        cell(f"{POOLING}:12a8ff8f", r"train\("),
        result("pools", "patch mean"),
    ],
    "1 exercise 3: better hyper-parameters": [
        cell(f"{RECIPES}:ladder-figure", r"rungs"),
        cell(f"{RECIPES}:8fa0a5b8", r"Exercise 10\.4: a better recipe"),
        cell(f"{RECIPES}:21239ebd", r"# change me"),
        result("five_minutes", "test_accuracy"),
    ],
    # the slides: each has one here, with the chapter's own cell on it
    "2 slide: could it also do vision?": [slide("The Vision Transformer in one lecture")],
    "2 slide: the idea": [slide("An image is worth 16 × 16 words", f"{VIT}:cef4ef57")],
    "2 slide: patch embedding": [
        slide("Patch embedding is one strided convolution", f"{PATCHES}:3fdb07d7", f"{PATCHES}:fb188aaa")
    ],
    "2 slide: 36 patches": [slide("How many tokens?", f"{PATCHES}:e5340e97")],
    "2 slide: two changes to the MLP": [slide("The MLP", f"{BLOCKS}:d504b10c", f"{BLOCKS}:994279fe")],
    "2 slide: pre-norm and post-norm": [
        slide("The block: pre-norm and post-norm", f"{BLOCKS}:20b98dd5", f"{BLOCKS}:cec02da8"),
        slide("What does the place of the norm change?", f"{BLOCKS}:b4d1a002"),
    ],
    "2 slide: the contract": [slide("A contract: the shape does not change", f"{VIT}:16c009b3")],
    "2 slide: the whole ViT": [slide("The whole model", f"{VIT}:3918a267")],
    "2 slide: training": [
        slide("Training: the textbook's recipe", f"{RECIPES}:textbook-image", f"{RECIPES}:textbook-code"),
        slide("Does it beat a CNN?", f"{RECIPES}:cnn-figure"),
    ],
    "2 slide: recap": [slide("What to remember")],
    # a learner's ViT-Base
    "3 figure 1": ARCHITECTURE,
    "3 four equations": [
        cell(f"{VIT}:b1448bb5", r"\\tag\{P1\}.*\\tag\{P2\}.*\\tag\{P3\}.*\\tag\{P4\}"),
        cell(f"{VIT}:e8c172f0", r"torch\.cat\(\[cls, x_p @ E \+ b\], dim=1\) \+ E_pos"),
        cell(
            f"{VIT}:608c68bc",
            r"MSA\(LN1\(z\)\) \+ z.*MLP\(LN2\(z\)\) \+ z.*LN\(z\[:, 0\]\).*allclose\(head\(y\), model\(boot\)",
        ),
    ],
    "3 table 1": [
        importable("vitnb.ViTConfig"),
        cell(f"{VIT}:7f2d865b", r"86M.*307M.*632M"),
        cell(f"{VIT}:eb9325f1", r"held"),
    ],
    "3 shapes: (B, 768, 14, 14), (B, 768, 196), (B, 196, 768)": [
        cell(f"{VIT}:walk-patches", r"768, 14, 14.*768, 196.*196, 768"),
        cell(f"{VIT}:walk-tokens", r"197, 768"),
    ],
    "3 class Pachify": PATCH_EMBEDDING,
    "3 run of Pachify": [cell(f"{VIT}:16c009b3", r"patches")],
    "3 function Add_Positional_Embedding_and_Class_Token": [
        *CLS,
        *TABLE,
        cell(f"{POOLING}:2fbae8f1", r"class MadeInForward.*def prepend.*nn\.Parameter"),
    ],
    "3 class Embedded_Patches: two linear maps are one": [cell(f"{VIT}:33bada8d", r"linear\.weight @ conv\.weight")],
    "3 run of Embedded_Patches: (1, 197, 768)": [cell(f"{VIT}:walk-tokens", r"197, 768")],
    "3 class Transformer_Encoder_Block": [
        *PRE_NORM,
        cell(f"{BLOCKS}:1677b2d3", r"class NormaliseThenAdd"),
        cell(f"{BLOCKS}:34b0ed02", r"PostNormBlock.*with_bug - post_norm"),
        cell(f"{BLOCKS}:aba28ddd", r"nn\.TransformerEncoderLayer"),
    ],
    "3 class ViT": [*WHOLE, cell(f"{VIT}:eb9325f1", r"def on_paper")],
    "3 run of ViT: (1, 1000)": [cell(f"{VIT}:16c009b3", r"logits")],
    "3 run: probabilities sum to 1": [cell(f"{VIT}:promises", r"class Blind.*softmax\(1\).*q\.sum\(1\)")],
    # a learner's reshape and linear
    "4 figure: the architecture": ARCHITECTURE,
    "4 figure: reshape and linear, or a convolution": [
        cell(f"{PATCHES}:80384b4a", r"patch_grid"),
        cell(f"{PATCHES}:fb188aaa", r"by_conv = grid\.flatten\(2\)\.transpose\(1, 2\)"),
    ],
    "4 class Patch_conv": PATCH_EMBEDDING,
    "4 run of Patch_conv": [cell(f"{VIT}:walk-patches", r"196, 768")],
    "4 class Position_Embedding": [*CLS, *TABLE, cell(f"{POOLING}:edcd0900", r"class LastReadFirst")],
    "4 run of Position_Embedding": [cell(f"{VIT}:walk-tokens", r"197, 768")],
    "4 class Transformer_Block": PRE_NORM,
    "4 run of Transformer_Block": [cell(f"{VIT}:16c009b3", r"forward_intermediates")],
    "4 class Transformer: a stack of blocks": [cell(f"{VIT}:3918a267", r"nn\.ModuleList.*for _ in range\(c\.depth\)")],
    "4 question: why does return transformer(X) fail?": [
        cell(f"{VIT}:calls-itself", r"return transformer\(X\).*RecursionError"),
        cell(f"{VIT}:names-outside", r"return self\.transformer\(X\)"),
    ],
    "4 run of Transformer": [cell(f"{VIT}:names-outside", r"mended\(tokens\)")],
    "4 print(transformer)": [cell(f"{VIT}:promises", r"str\(other\)\.replace.*== str\(ours\)")],
    "4 run: the cls row, (2, 768)": [cell(f"{POOLING}:c719d674", r"x\[:, 0\], x\[:1, 0\]")],
    "4 class Vit": [*WHOLE, exercise("8.5", r"return mlphead\(X\)")],
}

MISTAKES = {
    "0: residuals from normalised tokens": [cell(f"{BLOCKS}:225a1b7b", r"bug\(10 \* x\), bug\(x\)")],
    "0: attention never reaches the stream": [
        cell(f"{BLOCKS}:block-test-misses", r"OnlyForTheMLP"),
        exercise("5.4", r"test"),
    ],
    "0: LayerNorm over tokens": [
        cell(f"{BLOCKS}:d9b521f5", r"nn\.LayerNorm\(\[T, D\], eps"),
        cell(f"{POSITIONS}:d8be62a1", r"nn\.LayerNorm\(\[T, D\]\)"),
    ],
    "0: a check that is fed ones": [cell(f"{BLOCKS}:060af693", r"broken")],
    "0: a lazy layer takes 32 channels": [cell(f"{PATCHES}:lazy-binds", r"LazyConv2d")],
    "0: positions of standard deviation 1": [
        cell(f"{POSITIONS}:908c1284", r"std in \(0\.02, 1\.0\)"),
        result("positions", "accuracy"),
    ],
    "0: plain SGD": [result("recipes", "plain SGD, rate 0.1"), cell(f"{RECIPES}:recipe-figure", r"RecipeExplorer")],
    "0: hours of training": [cell(f"{RECIPES}:textbook-code", r"minutes")],
    "0: sizes that do not divide": [
        cell(f"{PATCHES}:4bda0db6", r"96:"),
        cell(f"{PATCHES}:3fdb07d7", r"ValueError"),
    ],
    "1: cls is projected from pixels": [cell(f"{POOLING}:c719d674", r"is the same for all images")],
    "1: convolution is invariant": [cell(f"{POSITIONS}:afb64289", r"conv\(shifted\), moves_along")],
    "1: quadratic in the image size": [cell(f"{PATCHES}:e820e1fc", r"N2 == 4 \* N1")],
    "1: only large data helps": [source("beyer2022better", POOLING), result("cnn", "CNN")],
    "1: a global dropout rate": [cell("jax:global-rate", r"emb_dropout")],
    "1: SAME padding": [cell("jax:same", r"SAME")],
    "1: positions of 0.01 against 1": [cell("jax:positions", r"torch\.randn.*initializers\.normal")],
    "1: a check that is fed zeros": [cell(f"{PATCHES}:a3d5fb81", r"scrambled")],
    "1: where dropout acts is not said": [cell(f"{VIT}:promises", r"1 \+ 12 \* 3")],
    "3: attention over the batch": [cell(f"{HEADS}:2dac5ade", r"nn\.MultiheadAttention\(D, h\)")],
    "3: parameters made in forward": [cell(f"{POOLING}:9ba12eca", r"MadeInForward")],
    "3: one token for each place in the batch": [
        importable("vitbook.faults.pool.OnePerPlace"),
        exercise("7.4", r"one learned vector, the same for all images"),
    ],
    "3: softmax in the model": [cell(f"{TRAINING}:a74912eb", r"softmax"), cell(f"{TRAINING}:483b153b", r"floor")],
    "3: ReLU for GELU": [cell(f"{BLOCKS}:049812f0", r"relu")],
    "3: 768 because 16 * 16 * 3": [cell(f"{VIT}:5000da83", r"for p in \(14, 16, 32\)")],
    "3: never trained": [cell(f"{TRAINING}:462fc39d", r"few\[:16\]")],
    "3: a batch of one": [cell(f"{HEADS}:batch-of-one-test", r"for n in \(1, 2\)")],
    "4: cls last, read first": [cell(f"{POOLING}:dd5ba04c", r"LastReadFirst")],
    "4: names from outside": [cell(f"{VIT}:names-outside", r"def taken_from_outside"), exercise("8.5", r"name")],
    "4: no token selected": [cell(f"{VIT}:promises", r"def gives_one_vector_an_image")],
    "4: no bias in any map": [cell(f"{HEADS}:proj-bias-count", r"4 \* 512\*\*2")],
    "4: no last norm": [cell(f"{DEPTH}:b9c8e26d", r"\.norm\)")],
    "4: masks that images do not need": [cell(f"{ATTENTION}:mask-code", r"valid.*masked_fill.*softmax")],
}


@pytest.mark.parametrize("taught", [*SEEDS, *MISTAKES])
def test_what_the_documents_teach_has_its_place(taught):
    missing = [place.words for place in (SEEDS | MISTAKES)[taught] if not place.there()]
    assert missing == []

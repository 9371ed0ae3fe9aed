"""All that the five documents teach from which the book started is here, and computes what it should.

0  first draft of a textbook's chapter (PyTorch)     2  its slides
1  its revision (PyTorch and JAX)                    3, 4  two learners' notebooks

The first tests compare numbers. The table at the end names exercises, measurements, slides and sources.
"""

import copy
import json
import math
from dataclasses import replace
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
from vitnb import MeanPool, ViT, ViTConfig, data, record_attention
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
def perturbed(model: nn.Module, seed: int = 0) -> nn.Module:
    """Move every parameter: behind a bias of 0 or a gain of 1 a mistake could hide."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return model


@pytest.fixture
def doubling(monkeypatch):
    """Dropout doubles everything, so its places show in the result; returns how many numbers it met at each p."""
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
    model, images = perturbed(textbook_vit()).eval(), torch.rand(3, 1, 96, 96)
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
    model = perturbed(build()).train()
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
    model, images = perturbed(textbook_vit()).eval(), torch.rand(2, 1, 96, 96)
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


# --- the paper's table ---


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


# --- a place for everything ---

# What the documents treat that is more than code of a cell: exercises that are posed and solved, stored measurements,
# chapters whose cells the lecture shows, sources that a chapter cites.
PLACES = {
    "exercise": ["5.4", "7.2", "7.4", "8.5", "10.4"],
    "result": "cnn five_minutes jax_step ladder norms pools positions recipes textbook".split(),
    "slide": ["01-patchify", "05-pre-norm-post-norm", "08-vit", "10-recipes"],
    "03-attention": ["vaswani2017attention"],
    "04-heads": ["ramachandran2019stand", "cordonnier2020relationship"],
    "05-pre-norm-post-norm": ["hendrycks2016gelu"],
    "06-depth": ["devlin2019bert", "xiong2020layer"],
    "07-cls-token": ["beyer2022better"],
    "08-vit": ["dosovitskiy2021image", "touvron2021training", "liu2021swin"],
}


@cache
def text(notebook: str, kind: str) -> str:
    """The cells of one kind of a notebook under book/."""
    cells = json.loads((ROOT / "book" / f"{notebook}.ipynb").read_text())["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == kind)


def cited(key: str, chapter: str) -> bool:
    """Whether a chapter cites a source of the list, by its key or by its address."""
    entry = parse_file(ROOT / "book" / "references.bib").entries[key]
    return any(f"]({link})" in text(chapter, "markdown") for link in (f"#{key}", extension.address(entry)))


def posed_and_solved(number: str) -> bool:
    """Whether a chapter has check() judge an exercise, and its notebook of solutions as well."""
    chapters = [path.stem for path in (ROOT / "book").glob(f"{int(number.split('.')[0]):02}-*.ipynb")]
    notebooks = [name for chapter in chapters for name in (chapter, f"solutions/{chapter}")]
    return number in EXERCISES and all(f'check("{number}"' in text(name, "code") for name in notebooks)


def there(where: str, what: str) -> bool:
    """Whether something still is where the table says."""
    if where == "exercise":
        return posed_and_solved(what)
    if where == "result":
        return (ROOT / "book" / "results" / f"{what}.json").exists() and (ROOT / "experiments" / f"{what}.py").exists()
    if where == "slide":
        return f"{{{{ {what}:" in (ROOT / "book" / "slides" / "vit-in-one-lecture.md").read_text()
    return cited(what, where)


@pytest.mark.parametrize("where", PLACES)
def test_what_the_documents_teach_has_its_place(where):
    assert [what for what in PLACES[where] if not there(where, what)] == []


def test_a_place_that_is_gone_is_missed():
    gone = [("01-patchify", "liu2021swin"), ("exercise", "7.99"), ("result", "none"), ("slide", "jax")]
    assert not any(there(*place) for place in gone)

"""PoolExplorer: its weights against torch, and the figure in its chapter, by mouse, key and touch."""

import base64
import math
import re
from pathlib import Path

import pytest
import torch
from playwright.sync_api import expect

from tests.pages.driver import assert_fits_a_phone, assert_in_use, gray_of, refuses, stored, survives, touch
from vitbook.figures import PoolExplorer
from vitnb import ViT, ViTConfig, record_attention

ROOT = Path(__file__).resolve().parents[2]
PAGE = "book/07-cls-token.html"
NUMBER, STATE = stored(PAGE, "PoolExplorer")
SHARES = torch.frombuffer(bytearray(STATE["shares"]), dtype=torch.float32)
SHARES = SHARES.reshape(len(STATE["pools"]), len(STATE["names"]), -1)  # (pools, images, 1 + N)
IMAGES = torch.rand(2, 3, 8, 12, generator=torch.Generator().manual_seed(0))


def small(pool="cls", seed=0, **options):
    torch.manual_seed(seed)
    shape = {"img_size": (8, 12), "patch_size": 4, "in_chans": 3, "embed_dim": 24, "depth": 2, "num_heads": 2}
    model = ViT(ViTConfig(**(shape | {"num_classes": 5, "global_pool": pool} | options)))
    if pool == "attn":
        torch.nn.init.normal_(model.pool.query)  # decided
    return model


def three():
    return {"cls": small("cls"), "mean": small("mean"), "attention": small("attn")}


# ---- Python


@torch.no_grad()
def test_weights_are_those_of_torch():
    models = three()
    explorer = PoolExplorer({name: model.train() for name, model in models.items()}, IMAGES, normalize=lambda x: 2 * x)
    assert all(model.training for model in models.values())
    explorer.image = 1
    cls, mean, attention = explorer.weights()
    for model in models.values():
        model.eval()
    with record_attention(models["cls"]) as maps:
        models["cls"](2 * IMAGES)
    assert torch.allclose(cls, maps[-1][1, :, 0, 1:].mean(0), atol=1e-6)
    assert torch.equal(mean, torch.full((6,), 1 / 6))
    # Values that say which token they come from show the weights that the pooling itself uses.
    pool, x = models["attention"].pool, models["attention"].forward_features(2 * IMAGES)  # x: (B, N, D)
    rows = []
    for n in range(6):
        kv, marked = pool.kv(x), torch.zeros(2, 6, 24)
        marked[:, n] = 1
        k, v = (t.reshape(2, 6, 2, 12).transpose(1, 2) for t in (kv[..., :24], marked))  # (B, h, N, D/h)
        q = pool.query.reshape(1, 2, 1, 12).expand(2, -1, -1, -1)
        rows.append(torch.nn.functional.scaled_dot_product_attention(q, k, v)[1].mean())
    assert torch.allclose(attention, torch.stack(rows), atol=1e-6)
    assert attention.max() - attention.min() > 0.01
    for line, model in zip(explorer.answers, models.values(), strict=True):
        shares = model(2 * IMAGES).softmax(dim=1)
        assert line == [f"class {row.argmax()} ({100 * row.max():.0f} %)" for row in shares]


def test_an_answer_is_right_or_wrong_only_where_the_names_are_classes():
    classes = ["coat", "bag", "dress", "shirt", "boot"]
    explorer = PoolExplorer(three(), IMAGES, ["coat", "bag"], classes=classes)
    for answers, right in zip(explorer.answers, explorer.right, strict=True):
        found = [answer.startswith(f"{name} (") for answer, name in zip(answers, explorer.names, strict=True)]
        assert right == found
    assert PoolExplorer(three(), IMAGES, ["coat", "bag"]).right == []


def test_figure_has_a_fixed_text_and_a_still_image():
    explorer, other = PoolExplorer(three(), IMAGES), PoolExplorer({"one": small("mean")}, IMAGES[0])
    assert repr(explorer) == repr(other) and other.names == ["image 0"]
    for one in (explorer, other):
        assert base64.b64decode(one._repr_mimebundle_()[0]["image/png"]).startswith(b"\x89PNG")


class Own(torch.nn.Module):
    num_prefix_tokens = 0


def with_own_pool():
    model = small("mean")
    model.pool = Own()
    return {"mine": model}


def broken():
    model = small("attn")
    model.pool.query.data[:] = math.nan
    return {"attention": model}


test_bad_input_is_refused_with_words = refuses(
    (lambda: PoolExplorer(small(), IMAGES), ValueError, ["models", "names", "ViT", "{'cls': model}"]),
    (lambda: PoolExplorer({}, IMAGES), ValueError, ["models", "{'cls': model}"]),
    (lambda: PoolExplorer({"a": torch.nn.Linear(2, 2)}, IMAGES), TypeError, ["Linear", "'a'"]),
    (lambda: PoolExplorer(with_own_pool(), IMAGES), TypeError, ["models['mine']", "Own", "ClsToken"]),
    (
        lambda: PoolExplorer({"a": small(), "b": small(patch_size=2)}, IMAGES),
        ValueError,
        ["share", "'b'", "(2, 3)"],
    ),
    (lambda: PoolExplorer({"a": small(num_classes=0)}, IMAGES), ValueError, ["num_classes", "0"]),
    (lambda: PoolExplorer(three(), [1]), TypeError, ["images", "list", "as_tensor"]),
    (lambda: PoolExplorer(three(), 2 * IMAGES), ValueError, ["images[0]", "[0, 1]", "clamp"]),
    (lambda: PoolExplorer(three(), IMAGES, ["one"]), ValueError, ["names has 1", "2 images"]),
    (lambda: PoolExplorer(three(), IMAGES, classes=["a"]), ValueError, ["classes has 1", "5 logits"]),
    (lambda: PoolExplorer(broken(), IMAGES), ValueError, ["not finite"]),
    (lambda: setattr(PoolExplorer(three(), IMAGES), "patch", 6), ValueError, ["patch", "6", "5"]),
    (lambda: setattr(PoolExplorer(three(), IMAGES), "pool", -1), ValueError, ["pool", "-1", "2"]),
)


# ---- In the page


def per_cent(weight):
    """A share as the figure writes it; halves are rounded up, as JavaScript does."""
    digits = 1 if weight < 0.0995 else 0
    return f"{math.floor(100 * float(weight) * 10**digits + 0.5) / 10**digits:.{digits}f}\u00a0%"


# How wide each cell is, in parts of its place, and what stands on it; where a tile has ink on the canvas below.
TILES = """svg => {
  const cells = [...svg.querySelectorAll("[data-cell]")], side = Math.sqrt(cells.length);
  const canvas = svg.previousElementSibling, pen = canvas.getContext("2d");
  const inked = (_, n) => {
    const place = canvas.width / side, [x, y] = [(n % side) * place, (Math.floor(n / side) + 0.5) * place];
    return pen.getImageData(x, y, place, 1).data.filter((_, i) => i % 4 === 3 && _ > 127).length / place;
  };
  return {
    sides: cells.map(cell => parseFloat(cell.getAttribute("width")) * side / 100),
    inked: cells.map(inked),
    words: [...svg.querySelectorAll("text")].map(text => text.textContent),
  };
}"""


def assert_tiles(figure, image, pool, patch):
    """The image is the stored one, both grids mark the patch, the area of each tile is its share of the largest."""
    pads = figure.locator(".vf-pad")
    assert gray_of(figure.locator("canvas").first) == STATE["pixels"][784 * image : 784 * (image + 1)]
    for pad in pads.all():
        expect(pad.locator("[data-chosen]").last).to_have_attribute("data-chosen", str(patch))
    row, found = SHARES[pool, image, 1:], pads.nth(1).evaluate(TILES)
    sides = (row / SHARES[:, image, 1:].max()).sqrt()
    assert found["sides"] == pytest.approx(sides.tolist(), abs=1e-4)
    assert found["inked"] == pytest.approx(sides.tolist(), abs=0.02)
    assert found["words"] == [str(math.floor(100 * weight + 0.5)) for weight in row.tolist()]


def test_pool_explorer_by_mouse_and_key(live):
    shown = STATE["image"]
    figure, page, watch = live(PAGE, NUMBER, from_file=True)
    says, pads, facts = figure.get_by_role("status"), figure.locator(".vf-pad"), figure.locator("dd")
    assert STATE["kinds"][STATE["pool"]] == "cls"
    assert_tiles(figure, STATE["image"], STATE["pool"], STATE["patch"])
    pads.first.scroll_into_view_if_needed()
    box = pads.first.bounding_box()
    page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + 0.3 * box["height"])
    expect(says).to_contain_text("the patch in row 1, column 3 has")
    for number, (pool, kind) in enumerate(zip(STATE["pools"], STATE["kinds"], strict=True)):
        figure.get_by_label(pool, exact=True).focus()
        page.keyboard.press("Space")
        expect(says).to_contain_text(f"pooled by {pool}: the network answers {STATE['answers'][number][shown]}")
        right = STATE["right"][number][shown]
        expect(figure.get_by_text(f"{'✓' if right else '✗'} {STATE['answers'][number][shown]}")).to_be_visible()
        assert (f"By {pool}: wrong" in figure.inner_text()) == ("which is wrong" in says.inner_text()) == (not right)
        row = SHARES[number, shown, 1:]
        assert f"column 3 has {per_cent(row[7])}" in says.inner_text()
        if kind == "mean":
            assert "All patches have the same weight" in says.inner_text()
        else:
            best = row.argmax().item()
            assert f"row {best // 4}, column {best % 4}, {per_cent(row[best])}" in says.inner_text()
        assert_tiles(figure, shown, number, 7)
        about = f"{per_cent(SHARES[number, shown, 0])} to itself" if kind == "cls" else "Exact"
        assert about in figure.inner_text()
        pairs = zip(STATE["kinds"], SHARES[:, shown, 8], strict=True)
        words = [("about " if k == "cls" else "") + per_cent(w) for k, w in pairs]
        assert facts.all_inner_texts() == words
    pads.nth(1).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    expect(says).to_contain_text("the patch in row 2, column 2 has")
    figure.get_by_label(STATE["names"][2], exact=True).check()
    expect(says).to_contain_text(f"{STATE['names'][2]}, pooled by")
    assert per_cent(SHARES[-1, 2, 11]) in says.inner_text()
    assert_tiles(figure, 2, len(STATE["pools"]) - 1, 10)
    assert_in_use(figure, page, watch)


def test_pool_explorer_by_touch_on_a_phone(live):
    figure, page, watch = live(PAGE, NUMBER, width=390, touch=True, dark=True)
    says = figure.get_by_role("status")
    touch(figure.locator(".vf-pad").nth(1), 0.1, 0.9)
    expect(says).to_contain_text("the patch in row 3, column 0")
    figure.get_by_label("cls token", exact=True).tap()
    expect(says).to_contain_text("The largest weight is in")
    assert_tiles(figure, STATE["image"], STATE["pools"].index("cls token"), 12)
    assert_fits_a_phone(figure, page, watch)


SHARES_BEGIN = base64.b64encode(STATE["shares"][:30]).decode()  # with zeros, as the pixels do
GARBAGE = {
    "its weights should take": (r'("grid": \[4, )4', r"\g<1>3"),
    "there is no image 99; there are 6": (r'("image": )\d+', r"\g<1>99"),
    "there is no patch null": (r'("patch": )\d+', r"\g<1>null"),
    "its images should take": (r'("shape": \[1, 28, )28', r"\g<1>29"),
    "a pooling should be cls, mean and attn, not max": (r'("kinds": \[)"mean"', r'\g<1>"max"'),
    "one of its weights does not lie between 0 and 1": (
        f'(?<="){re.escape(SHARES_BEGIN[:6])}(?={re.escape(SHARES_BEGIN[6:])})',
        "//////",
    ),
}
test_garbage_becomes_a_message_and_the_page_goes_on = survives(PAGE, GARBAGE, NUMBER)

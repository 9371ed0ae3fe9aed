"""AttentionExplorer: its maps against torch, and the figure in two chapters, by mouse, key and touch."""

import math
import re
from pathlib import Path

import pytest
import torch
from playwright.sync_api import expect

from tests.pages.driver import (
    assert_fits_a_phone,
    assert_in_use,
    drag,
    gray_of,
    refuses,
    stored,
    survives,
    touch,
    unfold,
)
from vitbook import results
from vitbook.figures import AttentionExplorer
from vitnb import ViT, ViTConfig, inspection, record_attention

ROOT = Path(__file__).resolve().parents[2]
PAGE, TWO = "book/03-attention.html", "book/11-looking-inside.html"
MEAN, STD = 0.286, 0.353  # of Fashion-MNIST, as vitnb.data has them


def small(seed=0, **options):
    torch.manual_seed(seed)
    shape = {"img_size": (8, 12), "patch_size": 4, "in_chans": 3, "embed_dim": 24, "depth": 3, "num_heads": 2}
    return ViT(ViTConfig(**(shape | options)))


IMAGES = torch.rand(2, 3, 8, 12, generator=torch.Generator().manual_seed(0))


# ---- Python


@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_maps_travel_exactly(pool):
    model = small(global_pool=pool).train()
    explorer = AttentionExplorer(model, IMAGES, normalize=lambda images: 2 * images - 1)
    assert model.training
    model.eval()
    with record_attention(model) as maps, torch.no_grad():
        model(2 * IMAGES - 1)
    explorer.image = 1
    right = torch.stack(maps, dim=1)[1]  # (L, h, T, T)
    assert (explorer.weights()[0] - right).abs().max() < 3e-5
    explorer.token, explorer.layer, explorer.head = 3, 2, 1
    assert (explorer.row()[0] - right[2, 1, 3]).abs().max() < 3e-5
    explorer.show, explorer.layer = "mean", 1
    assert (explorer.row()[0] - right[1, :, 3].mean(0)).abs().max() < 3e-5
    explorer.show = "rollout"
    assert (explorer.row()[0] - inspection.rollout(maps[:2])[1, 3]).abs().max() < 3e-5


@pytest.mark.parametrize("scale", [0, 1, 12**0.5, 32])
def test_scores_travel_exactly_and_any_axis_weighs_them_as_torch_does(scale):
    model = small()
    explorer = AttentionExplorer(model, IMAGES, scores=True)
    with record_attention(model) as maps, torch.no_grad():
        model(IMAGES)
    right = torch.stack(maps, dim=1)[0]  # (L, h, T, T)
    assert (explorer.weights()[0] - right).abs().max() < 1e-6 and explorer.maps == b""
    explorer.scale = scale
    assert (explorer.weights()[0] - (scale * right.log()).softmax(-1)).abs().max() < 1e-5
    scores = torch.frombuffer(bytearray(explorer.scores), dtype=torch.float32).reshape(2, *explorer.sizes, -1)[0]
    explorer.axis = "queries"
    assert (explorer.weights()[0] - (scale * scores).softmax(-2)).abs().max() < 1e-6
    assert "image/png" in explorer._repr_mimebundle_()[0]


def test_a_model_and_an_image_of_the_reader():
    image = torch.randint(256, (3, 8, 12), dtype=torch.uint8)
    explorer = AttentionExplorer(small(), image)
    assert explorer.pixels == image.numpy().tobytes() and explorer.names == ["image 0"]
    assert explorer.sizes == [3, 2, 7] and explorer.grid == [2, 3] and explorer.prefix == 1
    assert torch.allclose(
        explorer.weights(), AttentionExplorer({"mine": small()}, image.float() / 255).weights(), atol=0.01
    )
    two = AttentionExplorer({"a": small(0), "b": small(1)}, image)
    assert two.row().shape == (2, 7) and not torch.equal(*two.row())
    assert repr(two) == repr(explorer)
    for one in (two, explorer):
        assert "image/png" in one._repr_mimebundle_()[0]
    explorer.token = 0  # cls has no place in the still image
    assert "image/png" in explorer._repr_mimebundle_()[0]


def broken():
    model = small()
    model.blocks[1].attention.qkv.weight.data[0, 0] = math.nan
    return model


test_bad_input_is_refused_with_words = refuses(
    (lambda: AttentionExplorer(torch.nn.Linear(2, 2), IMAGES), TypeError, ["models", "Linear", "from_timm"]),
    (lambda: AttentionExplorer({}, IMAGES), ValueError, ["one or two", "0"]),
    (lambda: AttentionExplorer({"a": small(), "b": small(depth=2)}, IMAGES), ValueError, ["share", "(3,", "(2,"]),
    (lambda: AttentionExplorer(small(), [1]), TypeError, ["images", "list", "as_tensor"]),
    (lambda: AttentionExplorer(small(), torch.zeros(8, 12)), ValueError, ["images", "(B, C, H, W)", "(8, 12)"]),
    (lambda: AttentionExplorer(small(), torch.zeros(1, 3, 8, 8)), ValueError, ["8"]),
    (lambda: AttentionExplorer(small(), 2 * IMAGES), ValueError, ["images[0]", "[0, 1]", "clamp"]),
    (lambda: AttentionExplorer(small(), IMAGES, ["one"]), ValueError, ["names has 1", "2 images"]),
    (lambda: AttentionExplorer(broken(), IMAGES), ValueError, ["not finite"]),
    (
        lambda: AttentionExplorer(small(img_size=240, patch_size=4, depth=12), torch.zeros(3, 240, 240)),
        ValueError,
        ["weights", "16,000,000", "patch_size"],
    ),
    (lambda: setattr(AttentionExplorer(small(), IMAGES), "token", 7), ValueError, ["token", "7", "6"]),
    (lambda: setattr(AttentionExplorer(small(), IMAGES), "layer", -1), ValueError, ["layer", "-1", "2"]),
    (lambda: setattr(AttentionExplorer(small(), IMAGES), "show", "max"), ValueError, ["show", "'rollout'", "max"]),
    (
        lambda: setattr(AttentionExplorer(small(), IMAGES), "axis", "rows"),
        ValueError,
        ["axis", "'queries'", "rows"],
    ),
    (lambda: setattr(AttentionExplorer(small(), IMAGES), "scale", -1), ValueError, ["scale", "-1", "3.46"]),
)


# ---- In the page


def torch_maps(state, net):
    """All maps of the images of a figure, computed anew: (B, L, h, T, T)."""
    pixels = torch.frombuffer(bytearray(state["pixels"]), dtype=torch.uint8).reshape(-1, *state["shape"]).float() / 255
    with record_attention(net) as maps, torch.no_grad():
        net((pixels - MEAN) / STD)
    return torch.stack(maps, dim=1)


def said(text, net=""):
    """What the sentence says: per cents and tokens of the two largest weights, and the effective number of tokens."""
    text = text.split(f"{net}: ", 1)[1] if net else text.split("attends to: ", 1)[1]
    found = re.findall(r"([\d.]+)\u00a0% to token (\d+)", text)[:2]
    effective = re.search(r"as equal weights on ([\d.]+) of", text)[1]
    return [(float(per), int(token)) for per, token in found], float(effective)


def assert_says(text, row, net=""):
    """The sentence agrees with a row of weights to its last digit."""
    largest, effective = said(text, net)
    for per, token in largest:
        assert per == pytest.approx(100 * row[token].item(), abs=0.055 if per < 10 else 0.51)
    assert largest[0][1] == row.argmax()
    assert effective == pytest.approx(torch.special.entr(row).sum().exp().item(), abs=0.055)


# How blue each pixel of canvases is, from 0 (paper) to 1, by the red in it; how blue each cls of the small maps is.
SHADES = """(canvases, root) => {
  const probe = root.appendChild(document.createElement("i"));
  const red = name => {
    probe.style.color = `var(--vf-${name})`;
    return Number(getComputedStyle(probe).color.match(/[0-9.]+/)[0]);
  };
  const [paper, blue] = [red("paper"), red("blue")];
  probe.remove();
  return canvases.map(canvas => [...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data]
    .filter((_, i) => i % 4 === 0).map(value => (value - paper) / (blue - paper)));
}"""
PARTS = "marks => marks.map(one => parseFloat(one.style.getPropertyValue('--vf-part')) / 100)"
COLUMN = "map => [Number(map.dataset.layer), Number(map.dataset.column)]"


def assert_drawn(figure, maps, token, layer, column, net=0):
    """All drawings of one network show these maps (L, h, T, T): the image, each small map, the matrix."""
    L, heads, T, _ = maps.shape
    full = 6 / T
    columns = torch.cat([maps, maps.mean(1, keepdim=True)], dim=1)  # (L, h + 1, T, T)
    rolled = torch.stack([inspection.rollout(list(maps[: n + 1, None]))[0] for n in range(L)])
    columns = torch.cat([columns, rolled[:, None]], dim=1)  # (L, h + 2, T, T)
    expect(figure.locator(".vf-attended").nth(net).locator(".vf-ring")).to_have_attribute("data-chosen", str(token))
    row = columns[layer, column, token]
    cells = figure.locator(".vf-attended").nth(net).locator("[data-cell]").all()
    opacity = [float(cell.get_attribute("fill-opacity")) for cell in cells]
    assert opacity == pytest.approx((0.88 * (row / full).clamp(max=1)).tolist(), abs=1e-3)
    words = figure.locator(".vf-attended").nth(net).locator("text").all_text_contents()
    assert words[0].startswith("cls ")
    assert len(words) == T or (T > 20 and len(words) == 1)  # on a phone, 49 cells have no room for numbers
    written = [float(word.removeprefix("cls ")) for word in words]
    assert written == pytest.approx((100 * row[: len(words)]).tolist(), abs=0.51)

    root, table = figure.locator(".vf").first.element_handle(), figure.locator(".vf-heads").nth(net)
    assert table.locator("[data-chosen]").evaluate_all(f"maps => maps.map({COLUMN})") == [[layer, column]]
    parts = (columns[:, :, token] / full).clamp(max=1).flatten(0, 1)  # (L * (h + 2), T)
    shown = torch.tensor(table.locator("canvas").evaluate_all(SHADES, root))
    torch.testing.assert_close(shown, parts[:, 1:], atol=0.02, rtol=0)
    assert table.locator("i").evaluate_all(PARTS) == pytest.approx(parts[:, 0].tolist(), abs=1e-3)

    matrix = figure.locator(".vf-matrix").nth(net)
    [shown] = matrix.locator("canvas").evaluate_all(SHADES, root)
    expected = (columns[layer, column] / full).clamp(max=1).flatten()
    torch.testing.assert_close(torch.tensor(shown), expected, atol=0.02, rtol=0)
    ring = matrix.locator(".vf-ring")
    assert [float(ring.get_attribute(name)[:-1]) for name in ("y", "height")] == pytest.approx(
        [100 * token / T, 100 / T]
    )


def place(figure, token):
    """The middle of a token's cell over the image, in pixels of the page."""
    box = figure.locator(f".vf-attended [data-cell='{token}']").first.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_attention_explorer_by_mouse_and_key(live):
    number, state = stored(PAGE, "AttentionExplorer")
    maps = torch_maps(state, results.trained())[state["image"]]
    figure, page, watch = live(PAGE, number, from_file=True)
    unfold(figure)
    canvas, small, matrix = (figure.locator(".vf-pad").nth(n) for n in range(3))
    says = figure.get_by_role("status")
    layer, head = state["layer"], state["head"]
    assert_drawn(figure, maps, state["token"], layer, head)
    canvas.scroll_into_view_if_needed()
    page.mouse.move(*place(figure, 12))
    expect(says).to_contain_text("token 12 (row 2, column 3) attends to")
    assert_says(says.inner_text(), maps[layer, head, 12])
    assert_drawn(figure, maps, 12, layer, head)
    page.mouse.move(*place(figure, 0))
    expect(says).to_contain_text("What token 0 (cls) attends to")
    assert_says(says.inner_text(), maps[layer, head, 0])
    assert_drawn(figure, maps, 0, layer, head)
    page.mouse.move(*place(figure, 11))
    page.mouse.down()
    page.mouse.up()
    page.mouse.move(*place(figure, 5))
    expect(says).to_contain_text("token 5 (row 1, column 0) attends to")
    small.locator("[data-layer='2'][data-column='3']").click()  # the pointer has left the image, the press stays
    page.mouse.move(1, 1)  # or the page, when it scrolls, brings the image under it again
    expect(says).to_contain_text("head 3 of layer 2. What token 11 (row 2, column 2)")
    assert_says(says.inner_text(), maps[2, 3, 11])
    assert_drawn(figure, maps, 11, 2, 3)
    small.focus()
    page.keyboard.press("ArrowRight")
    expect(says).to_contain_text("the mean of 4 heads in layer 2")
    assert_says(says.inner_text(), maps[2, :, 11].mean(0))
    assert_drawn(figure, maps, 11, 2, 4)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(says).to_contain_text("the rollout through layers 0 to 3")
    rolled = inspection.rollout(list(maps[:, None]))[0]
    assert_says(says.inner_text(), rolled[11])
    matrix.focus()
    page.keyboard.press("ArrowUp")
    expect(says).to_contain_text("What token 10 (row 2, column 1)")
    canvas.focus()
    page.keyboard.press("ArrowLeft")
    expect(says).to_contain_text("What token 9 (row 2, column 0)")
    assert_says(says.inner_text(), rolled[9])
    assert_drawn(figure, maps, 9, 3, 5)
    second = says.get_by_role("button").nth(1)
    named = int(second.inner_text().split()[1])
    second.hover()  # the words light what they name
    expect(figure.locator("[data-lit]")).to_have_attribute("data-cell", str(named))
    page.mouse.move(1, 1)
    expect(figure.locator("[data-lit]")).to_have_count(0)
    second.focus()
    page.keyboard.press("Enter")
    expect(says).to_contain_text(f"What token {named} ")
    expect(says.get_by_role("button").first).to_be_focused()
    figure.locator("input[type=range]").first.fill("9")
    layers = figure.locator("input[type=range]").nth(1)
    layers.scroll_into_view_if_needed()
    drag(layers, 1, 0)
    expect(says).to_contain_text("layers 0 to 0")
    assert_drawn(figure, maps, 9, 0, 5)
    figure.locator("input[type=radio]").first.check()
    expect(says).to_contain_text(state["names"][0])
    assert_drawn(figure, torch_maps(state, results.trained())[0], 9, 0, 5)
    shown = gray_of(figure.locator("canvas").first)
    assert shown == state["pixels"][: len(shown)] and len(shown) == math.prod(state["shape"])
    watch.assert_clean()


def test_a_wrong_axis_breaks_the_row_sums_and_large_scores_saturate(live):
    number, state = stored(PAGE, "AttentionExplorer")
    scores = torch.frombuffer(bytearray(state["scores"]), dtype=torch.float32)
    scores = scores.reshape(-1, *state["sizes"], state["sizes"][2])[state["image"]]  # (L, h, T, T)
    maps, root = torch_maps(state, results.trained())[state["image"]], state["width"] ** 0.5
    assert (scores.softmax(-1) - maps).abs().max() < 1e-4
    figure, page, watch = live(PAGE, number)
    unfold(figure)
    layer, head, token = state["layer"], state["head"], state["token"]
    slider = figure.get_by_role("slider", name="Scores")

    def assert_shows(dim, scale):
        weights = (scale * scores).softmax(dim)
        row = weights[layer, head, token]
        cells = figure.locator(".vf-attended [data-cell]").all()
        shades = [float(cell.get_attribute("fill-opacity")) / 0.88 for cell in cells]
        assert shades == pytest.approx((row / (6 / len(row))).clamp(max=1).tolist(), abs=1e-4)
        sums = [float(bar.get_attribute("data-sum")) for bar in figure.locator("[data-sum]").all()]
        assert sums == pytest.approx(weights[layer, head].sum(-1).tolist(), abs=1e-4)
        full = weights[layer, head].amax(-1).gt(0.95).sum().item()
        expect(figure.locator("dl")).to_contain_text(f"{full} of {len(sums)}")
        return sums, full

    sums, few = assert_shows(-1, 1)
    assert sums == pytest.approx([1] * len(sums))
    expect(figure.locator("dl")).to_contain_text("all 1.00")
    slider.focus()
    for _ in range(2):
        page.keyboard.press("ArrowRight")
    expect(figure.get_by_role("status")).to_contain_text("q · k, undivided")
    assert_shows(-1, root)
    page.keyboard.press("End")
    expect(figure.get_by_role("status")).to_contain_text("× 32")
    sums, many = assert_shows(-1, 32)
    assert sums == pytest.approx([1] * len(sums)) and many > few
    slider.fill("3")
    figure.get_by_label("queries (columns)").check()
    sums, _ = assert_shows(-2, 1)
    assert min(sums) < 0.9 and max(sums) > 1.1
    expect(figure.get_by_role("status")).to_contain_text(f"the row sums to {sums[token]:.2f}")
    assert_in_use(figure, page, watch)


def test_a_page_begins_with_the_rows_that_it_shows_and_two_networks_are_shown_alike(live):
    """The maps come when the figure is touched."""
    number, state = stored(TWO, "AttentionExplorer")
    assert state["networks"] == ["trained", "random"]
    trained = results.trained("trained_fine")
    torch.manual_seed(0)
    nets = trained, ViT(trained.config).eval()
    figure, _, watch = live(TWO, number, whole=False)
    column = state["sizes"][1] + ("mean", "rollout").index(state["show"])
    assert_drawn(figure, torch_maps(state, trained)[0], state["token"], state["layer"], column)
    figure.locator("input[type=radio]").nth(1).check()
    says = figure.get_by_role("status")
    expect(says).to_contain_text(state["names"][1])
    assert_drawn(figure, torch_maps(state, trained)[1], state["token"], state["layer"], column)
    unfold(figure)
    figure.locator("input[type=range]").first.fill("6")
    expect(says).to_contain_text("What token 6")
    for number, (name, net) in enumerate(zip(state["networks"], nets, strict=True)):
        maps = torch_maps(state, net)[1]
        rolled = inspection.rollout(list(maps[: state["layer"] + 1, None]))[0, 6]
        shown = {"mean": maps[state["layer"], :, 6].mean(0), "rollout": rolled}
        assert_says(says.inner_text(), shown[state["show"]], name)
        assert_drawn(figure, maps, 6, state["layer"], column, number)
    watch.assert_clean()


@pytest.mark.parametrize(
    "page_name, model, token, row", [(PAGE, "trained", 13, 3), (TWO, "trained_fine", 43, 6)], ids=["one", "two"]
)
def test_attention_explorer_by_touch_on_a_phone(live, page_name, model, token, row):
    number, state = stored(page_name, "AttentionExplorer")
    figure, page, watch = live(page_name, number, width=390, touch=True, dark=True)
    unfold(figure)
    says, maps = figure.get_by_role("status"), torch_maps(state, results.trained(model))[state["image"]]
    touch(figure.locator(".vf-pad").first, 0.1, 0.95)
    expect(says).to_contain_text(f"token {token} (row {row}, column 0)")
    touch(figure.locator("input[type=range]").nth(1), 0.98, 0.5)
    figure.get_by_label("rollout", exact=True).tap()
    expect(says).to_contain_text("the rollout through layers 0 to 3")
    assert_drawn(figure, maps, token, 3, 5)
    if page_name == PAGE:
        figure.get_by_label("queries (columns)").tap()
        touch(figure.get_by_role("slider", name="Scores"), 0.98, 0.5)
        expect(says).to_contain_text("softmax over the queries, scores × 32")
    assert_fits_a_phone(figure, page, watch)


GARBAGE = {
    "its scores should take": (r'("sizes": \[)4', r"\g<1>3"),
    "17 tokens are not 1 and 4 × 3 patches": (r'("grid": \[4, )4', r"\g<1>3"),
    "there is no token 99; there are 17": (r'("token": )\d+', r"\g<1>99"),
    "there is no layer null": (r'("layer": )\d+', r"\g<1>null"),
    "it should show head, mean and rollout, not all": (r'("show": )"head"', r'\g<1>"all"'),
    "its softmax can run over keys and queries, not rows": (r'("axis": )"keys"', r'\g<1>"rows"'),
    "its scores cannot be scaled by -1": (r'("scale": )1.0', r"\g<1>-1"),
    "its images should take": (r'("shape": \[1, 28, )28', r"\g<1>29"),
}


test_garbage_becomes_a_message_and_the_page_goes_on = survives(PAGE, GARBAGE, stored(PAGE, "AttentionExplorer")[0])

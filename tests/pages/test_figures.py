"""The live figures: in Python, and in the built pages with no network, by mouse, key and touch."""

import base64
import json
import math
import re
import shutil
import sys
from pathlib import Path

import nbformat
import pytest
import torch
from playwright.sync_api import expect

from pages import live_figures, notebooks
from tests.pages import small_book
from tests.pages.driver import (
    assert_fits_a_phone,
    assert_in_use,
    drag,
    node,
    read_line,
    refuses,
    survives,
    touch,
    unfold,
)
from vitbook import figures, results
from vitbook.figures import PatchExplorer
from vitbook.figures._base import module
from vitnb import patchify, unpatchify

ROOT = Path(__file__).resolve().parents[2]
VIEW, STATE = live_figures.VIEW, live_figures.STATE
BOOK, SHOWN = ROOT / "book", ": a live figure;"  # as a notebook names each but a quiz


# ---- Python


def small_module(folder, **files):
    """The module of a.js among such files in a folder and its kit."""
    for name, text in files.items():
        path = folder / f"{name.replace('kit_', 'kit/')}.js"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return module("a.js", folder)


def test_files_are_joined_by_their_imports_each_once(tmp_path):
    parts = {"kit_b": "export const b = 1;\n", "kit_c": 'import { b } from "./b.js";\nexport const c = b;\n'}
    parts["panel"] = 'import { c } from "./kit/c.js";\nexport const d = c;\n'
    start = 'import {\n  b,\n} from "./kit/b.js";\nimport { d } from "./panel.js";\nexport default b + d;\n'
    text = small_module(tmp_path, a=start, **parts)
    assert text == "const b = 1;\nconst c = b;\nconst d = c;\nexport default b + d;\n"
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.js").write_text('import { c } from "../kit/c.js";\nexport default c;\n')
    assert module("folder/a.js", tmp_path) == "const b = 1;\nconst c = b;\nexport default c;\n"


@pytest.mark.parametrize("again", ["function b() {}", "const b = 2;", "let [a, b] = [1, 2];", "const { x: b, y } = z;"])
def test_joined_files_must_not_declare_one_name_twice(tmp_path, again):
    with pytest.raises(ValueError, match=r"a\.js and kit/b\.js both declare b"):
        small_module(
            tmp_path, a=f'import {{ c }} from "./kit/b.js";\n{again}\n', kit_b="const b = 1;\nexport class c {}\n"
        )


def test_an_import_must_not_rename(tmp_path):
    with pytest.raises(ValueError, match=r"a\.js renames what it imports from \./kit/b\.js"):
        small_module(tmp_path, a='import { b as c } from "./kit/b.js";\n', kit_b="export const b = 1;\n")


SIX, RECIPES = results.result("six_curves")["result"]["accuracy"], results.result("recipes")
MADE = {  # a figure, how it is made, another choice in it, and how many bytes it may carry
    "PatchExplorer": ((), {"patch_size": 7}, 300_000),
    "PositionExplorer": ((), {"image": 2, "order": 3}, 300_000),
    "LikenessExplorer": ((), {"photo": 1, "patch": 300}, 500_000),
    "BlockDiagram": ((), {"depth": 3}, 300_000),
    "RecipeExplorer": ((RECIPES,), {"change": 3}, 60_000),
    "CostExplorer": ((), {"depth": 6}, 60_000),
    "PushExplorer": ((), {}, 300_000),
    "RoundsExplorer": ((), {}, 300_000),
    "SplitExplorer": ((), {}, 60_000),
    "TrainRace": ((), {"fault": "softmax inside"}, 600_000),
    "SixRace": ((SIX,), {}, 600_000),
}


@pytest.mark.parametrize("name", MADE)
def test_a_figure_has_a_fixed_text_a_still_image_of_what_is_chosen_and_a_limit(name):
    given, choice, most = MADE[name]
    figure = getattr(figures, name)(*given)
    first, again = (figure._repr_mimebundle_()[0] for _ in range(2))
    assert base64.b64decode(first["image/png"]).startswith(b"\x89PNG") and first["image/png"] == again["image/png"]
    for trait, value in choice.items():
        setattr(figure, trait, value)
    chosen = figure._repr_mimebundle_()[0]
    assert first["text/plain"] == repr(figure) == chosen["text/plain"] and VIEW in first
    assert (first["image/png"] != chosen["image/png"]) == bool(choice)
    assert sum(len(v) for v in figure.get_state().values() if isinstance(v, (bytes, str))) < most


def test_colab_needs_no_still_image(monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", object())
    assert "image/png" not in PatchExplorer()._repr_mimebundle_()[0]


def test_explorer_carries_the_images_exactly():
    images = {"a": torch.rand(3, 8, 12), "b": torch.randint(256, (1, 6, 4), dtype=torch.uint8)}
    explorer = PatchExplorer(images, patch_size=2)
    assert explorer.shapes == [[3, 8, 12], [1, 6, 4]]
    first, second = (255 * images["a"]).round().byte(), images["b"]
    assert explorer.pixels == first.numpy().tobytes() + second.numpy().tobytes()
    explorer.image, explorer.patch_size = 1, 1
    explorer.image = 0
    explorer.patch_size = 4
    explorer.image = 1
    assert explorer.patch_size == 2  # the nearest that cuts 6 x 4


test_bad_input_is_refused_with_words = refuses(
    (lambda: PatchExplorer({}), ValueError, ["images", "empty", "sample_image"]),
    (lambda: PatchExplorer({"a": [1]}), TypeError, ["images['a']", "list", "as_tensor"]),
    (lambda: PatchExplorer({"a": torch.zeros(1, 3, 8, 8)}), ValueError, ["(1, 3, 8, 8)", "3"]),
    (lambda: PatchExplorer({"a": torch.zeros(2, 8, 8)}), ValueError, ["channels", "(2, 8, 8)", "(3, 96, 96)"]),
    (lambda: PatchExplorer({"a": torch.full((1, 8, 8), math.nan)}), ValueError, ["[0, 1]", "nan", "clamp"]),
    (lambda: PatchExplorer({"a": torch.full((1, 8, 8), 2.0)}), ValueError, ["[0, 1]", "2", "clamp"]),
    (lambda: PatchExplorer({"a": torch.zeros(1, 8, 8).int()}), TypeError, ["int32", "byte"]),
    (lambda: PatchExplorer({"a": torch.zeros(3, 5000, 8000)}), ValueError, ["5000 x 8000", "sample_image"]),
    (lambda: PatchExplorer({"a": torch.zeros(1, 7, 8)}), ValueError, ["7 and 8", "96 x 96"]),
    (lambda: PatchExplorer(patch_size=5), ValueError, ["patch_size 5", "28 x 28", "4, 7"]),
    (lambda: PatchExplorer(patch_size="5"), TypeError, ["patch_size", "'5'", "4"]),
    (lambda: setattr(PatchExplorer(), "patch_size", 8), ValueError, ["patch_size 8", "4, 7"]),
    (lambda: setattr(PatchExplorer(), "image", 5), ValueError, ["image", "5", "0"]),
    (lambda: setattr(PatchExplorer(), "row", 28), ValueError, ["row", "28", "27"]),
)


# ---- JavaScript


def test_javascript_arithmetic():
    """Of all but the two files that other tests run with torch's numbers."""
    files = {*(ROOT / "tests" / "pages").glob("*.test.mjs")}
    files -= {ROOT / "tests" / "pages" / f"{name}.test.mjs" for name in ("live_vit", "train")}
    assert re.search(r"pass [1-9]", node("--test", *sorted(files)))


# ---- In the page

PAGE = "book/01-patchify.html"


# Bytes of canvases (H, W, 4); of an SVG: the edges of a ring, the places of dots, ticks and lines, in shares of it.
PIXELS = """canvases => canvases.map(canvas => {
  const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return [[height, width, 4], [...data]];
})"""
MARKS = """svgs => svgs.map(svg => {
  const of = (selector, ...names) => [...svg.querySelectorAll(selector)].map(
    one => names.map(name => parseFloat(one.getAttribute(name)) / 100));
  const dots = of(".vf-dot", "cx", "cy"), ticks = of("line.vf-ring", "x1");
  const ring = of("rect.vf-ring", "x", "y", "width", "height")[0];
  return { ring, dots, ticks: ticks.flat(), lines: svg.querySelectorAll("line:not([class])").length };
})"""


def assert_cuts(figure, name, p, row, column):
    """The image cut right and by reshape alone, its patch and what is marked are what torch says of the pixel."""
    explorer = PatchExplorer()
    index = explorer.names.index(name)
    C, H, W = shape = explorer.shapes[index]
    start = sum(math.prod(one) for one in explorer.shapes[:index])
    flat = torch.frombuffer(bytearray(explorer.pixels), dtype=torch.uint8)
    image = flat[start : start + math.prod(shape)].reshape(1, *shape)
    marked = torch.zeros(1, *shape, dtype=torch.uint8)
    marked[0, :, row, column] = 1
    shown = figure.locator("canvas").evaluate_all(PIXELS)
    shown = [torch.tensor(data, dtype=torch.uint8).reshape(size)[..., :3].movedim(2, 0) for size, data in shown]
    found = figure.locator(".vf-over svg").evaluate_all(MARKS)
    n = (row // p) * (W // p) + column // p
    top, left = row // p * p, column // p * p
    for i, cut in enumerate((patchify, lambda x, p: x.reshape(1, -1, C * p * p))):
        tokens, places = cut(image, p), cut(marked, p)
        drawn, lit = (unpatchify(x, p, (H, W), C)[0] for x in (tokens, places))
        assert torch.equal(shown[3 * i], drawn.expand(3, -1, -1))
        assert torch.equal(shown[3 * i + 1], drawn[:, top : top + p, left : left + p].expand(3, -1, -1))
        whole, square, strip = found[3 * i : 3 * i + 3]
        assert whole["ring"] == pytest.approx([left / W, top / H, p / W, p / H])
        assert whole["lines"] in (0, H // p + W // p - 2)
        dots = [[(x + 0.5) / W, (y + 0.5) / H] for y, x in lit.sum(0).nonzero().tolist()]
        assert sorted(whole["dots"]) == [pytest.approx(dot) for dot in sorted(dots)]
        inside = lit.sum(0)[top : top + p, left : left + p].nonzero().tolist()
        dots = sorted([(x + 0.5) / p, (y + 0.5) / p] for y, x in inside)
        assert sorted(square["dots"]) == [pytest.approx(dot) for dot in dots]
        ticks = [(k + 0.5) / (C * p * p) for k in places[0, n].nonzero()[:, 0].tolist()]
        assert sorted(strip["ticks"]) == pytest.approx(ticks)
        if C * p * p <= 640:  # else neighbours are averaged
            numbers = torch.zeros(3, C * p * p, dtype=torch.uint8)
            for c, part in enumerate(tokens[0, n].reshape(C, -1)):
                numbers[c if C == 3 else slice(None), c * p * p : (c + 1) * p * p] = part
            at = ((torch.arange(640) + 0.5) * C * p * p / 640).long()
            assert torch.equal(shown[3 * i + 2][:, 0], numbers[:, at])


def photograph(figure):
    """Choose the photograph, in patches of 16; the boot is there first, in patches of 4."""
    size = figure.locator("input[type=range]")
    expect(size).to_have_attribute("aria-valuetext", re.compile(" 49 tokens"))
    assert_cuts(figure, "boot", 4, 17, 1)
    figure.get_by_label("photograph").check()
    for _ in (6, 8, 12, 16):
        size.press("ArrowRight")
    expect(size).to_have_attribute("aria-valuetext", re.compile(" 36 tokens"))


def test_patch_explorer_by_mouse_and_key(live):
    figure, page, watch = live(PAGE, from_file=True)
    size, pad, says = figure.locator("input[type=range]"), figure.locator(".vf-pad"), figure.get_by_role("status")
    photograph(figure)
    pad.scroll_into_view_if_needed()
    box = pad.bounding_box()
    page.mouse.move(box["x"] + box["width"] * 95.5 / 96, box["y"] + box["height"] * 0.5 / 96)  # the corner, top right
    expect(says).to_contain_text("row 0, column 95 belongs to patch 5 of 0 to 35, at places 15, 271 and 527 of its 768")
    assert_cuts(figure, "photograph", 16, 0, 95)
    assert figure.locator(".vf-cut").first.locator("line").count() == 10
    pad.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+ArrowLeft")
    expect(says).to_contain_text("row 1, column 79 belongs to patch 4")
    # red of row 1, column 79: number 96 + 79 = 175 in storage, of patches of 768 numbers
    expect(says).to_contain_text("red, green and blue land in patches 0, 12 and 24")
    assert_cuts(figure, "photograph", 16, 1, 79)
    drag(size, 0.7, 0)
    expect(size).to_have_attribute("aria-valuetext", re.compile(" 9,216 tokens"))
    assert_cuts(figure, "photograph", 1, 1, 79)
    assert figure.locator(".vf-cut line").count() == 0  # no room between pixels
    assert "84,934,656" in figure.locator("dl").inner_text()  # 9216 ** 2
    size.focus()
    page.keyboard.press("ArrowRight")
    expect(size).to_have_attribute("aria-valuetext", re.compile(" 2,304 tokens"))
    assert_cuts(figure, "photograph", 2, 1, 79)
    figure.get_by_label("gray").check()
    expect(says).to_contain_text("its value lands in patch")
    assert_cuts(figure, "gray, narrow", 2, 38, 26)
    assert_in_use(figure, page, watch)


def test_patch_explorer_by_touch_on_a_phone(live):
    figure, page, watch = live(PAGE, width=390, touch=True, dark=True)
    size = figure.locator("input[type=range]")
    photograph(figure)
    touch(figure.locator(".vf-pad"), 0.1, 0.9)
    expect(figure.get_by_role("status")).to_contain_text("row 86, column 9 belongs to patch 30")
    assert_cuts(figure, "photograph", 16, 86, 9)
    touch(size, 0.98, 0.5)
    expect(size).to_have_attribute("aria-valuetext", re.compile(" 4 tokens"))
    assert_cuts(figure, "photograph", 48, 86, 9)
    figure.get_by_label("addresses").tap()
    expect(size).to_have_attribute("aria-valuetext", re.compile(" 4 tokens"))  # 24 x 24 in patches of 12
    assert_cuts(figure, "addresses", 12, 9, 13)
    assert_fits_a_phone(figure, page, watch)


GARBAGE = {
    "patches of 5 do not divide 28 × 28 pixels; 1, 2, 4": (r'"patch_size": 4', '"patch_size": 5'),
    "patches of null do not divide": (r'"patch_size": 4', '"patch_size": null'),
    "there is no such image": (r'"image": 0', '"image": 9'),
    "its images should take": (r'"shapes": \[\[1, 28, 28\]', '"shapes": [[1, 28, 29]'),
    "This figure could not start in your browser": (r"function build\(", "function build(("),
    "the page holds no state for it": (r'"model_id": "0000', '"model_id": "1111'),
}
test_garbage_becomes_a_message_and_the_page_goes_on = survives(PAGE, GARBAGE)


def test_without_scripts_there_is_the_still_image(new_context, server):
    page = new_context(java_script_enabled=False).new_page()
    page.goto(server + PAGE)
    still = page.locator(".live-figure img").first
    still.scroll_into_view_if_needed()
    assert still.get_attribute("alt") and still.bounding_box()["width"] > 200


# ---- The page around the figures

CLICKER = """
function render({ model, el }) {
  const button = document.createElement("button");
  const show = () => (button.textContent = `clicked ${model.get("count")} of ${model.get("data").byteLength}`);
  button.onclick = () => { model.set("count", model.get("count") + 1); model.save_changes(); };
  model.on("change:count", show);
  show();
  el.append(button);
}
export default { render };
"""


def stored(module, state, buffers=()):
    names = {"model_module": module, "model_module_version": "1", "model_name": "Model"}
    return {**names, "state": state, "buffers": list(buffers)}


def shown(*models):
    cell = nbformat.v4.new_code_cell("figure", execution_count=1)
    for model in models:
        view = {"model_id": model, "version_major": 2, "version_minor": 0}
        cell.outputs.append(nbformat.v4.new_output("display_data", {VIEW: view, "text/plain": "a widget"}))
    return cell


@pytest.fixture(scope="module")
def strangers(tmp_path_factory):
    """A small book with a widget of someone else, shown twice, one that fails, and a control that needs Python."""
    buffer = {"path": ["data"], "data": base64.b64encode(b"12345").decode(), "encoding": "base64"}
    output = nbformat.v4.new_output("display_data", {"text/plain": "shown last"})
    models = {
        "clicker": stored("anywidget", {"_esm": CLICKER, "_css": "", "count": 0}, [buffer]),
        "broken": stored("anywidget", {"_esm": "export default { render() { throw Error('out of paper'); } };"}),
        "box": stored("@jupyter-widgets/controls", {"children": ["IPY_MODEL_slider", "IPY_MODEL_output"]}),
        "slider": stored("@jupyter-widgets/controls", {"value": 3}),
        "output": stored("@jupyter-widgets/output", {"outputs": [output]}),
    }
    notebook = nbformat.v4.new_notebook(
        metadata={
            "language_info": {"name": "python"},
            "widgets": {STATE: {"version_major": 2, "version_minor": 0, "state": models}},
        },
        cells=[nbformat.v4.new_markdown_cell("# One"), shown("clicker", "clicker"), shown("broken"), shown("box")],
    )
    return small_book.of_notebooks(tmp_path_factory.mktemp("strangers"), {"one": notebook}) / "book" / "one.html"


def test_any_widget_runs_in_the_page(page, strangers):
    page.goto(strangers.as_uri())
    buttons = page.get_by_role("button", name=re.compile("clicked"))
    buttons.nth(1).wait_for()
    buttons.first.click()
    assert buttons.all_inner_texts() == ["clicked 1 of 5", "clicked 1 of 5"]  # shown twice, one model
    page.get_by_text("This figure could not start in your browser: out of paper.").wait_for()


def test_a_control_that_needs_python_shows_what_it_last_showed(strangers):
    html = strangers.read_text()
    assert "shown last" in html
    assert html.count("This control needs Python: it comes alive in Colab or JupyterLab.") == 1
    assert len(re.findall(f'<script type="{re.escape(VIEW)}"', html)) == 3  # not the control's


# ---- The kit

EXAMPLE = """async ([text, traits]) => {
  const module = await import(URL.createObjectURL(new Blob([text], { type: "text/javascript" })));
  const changed = [];
  const model = {
    get: (name) => traits[name],
    set: (name, value) => ((traits[name] = value), changed.forEach((again) => again())),
    on: (_, again) => changed.push(again),
    save_changes() {},
  };
  module.default.render({ model, el: document.body });
}"""


def test_the_example_of_the_kit_lives(page, tmp_path):
    """What the README shows is a figure: it draws, and a step of its slider draws again."""
    kit = ROOT / "vitbook" / "figures" / "kit"
    shutil.copytree(kit, tmp_path / "kit")
    code = re.search(r"```js\n(.*?)```", (kit / "README.md").read_text(), re.DOTALL)[1]
    (tmp_path / "decay.js").write_text(code)
    page.evaluate(EXAMPLE, [module("decay.js", tmp_path), {"halves": [10, 50], "chosen": 0}])
    line = read_line(page.locator(".vf-axes"), "rate")
    assert line.xs[-1] == pytest.approx(100, abs=0.1) and line.ys[10] == pytest.approx(0.5, abs=1e-3)
    page.get_by_role("slider").press("ArrowRight")
    expect(page.get_by_role("status")).to_have_text("After 100 steps 0.25 of the rate is left.")
    assert read_line(page.locator(".vf-axes"), "rate").ys[50] == pytest.approx(0.5, abs=1e-3)


# ---- The gate


def notebook_with(models, *cells):
    widgets = {STATE: {"version_major": 2, "version_minor": 0, "state": models}}
    return nbformat.from_dict(nbformat.v4.new_notebook(metadata={"widgets": widgets}, cells=list(cells)))


def test_gate_refuses_a_dead_figure_and_a_heavy_one():
    light, heavy = stored("anywidget", {"x": ""}), stored("anywidget", {"x": "y" * 700_000, "_anywidget_id": "a.Whale"})
    assert notebooks.dead_figures(notebook_with({"a": light}, shown("a")), "one") == []
    assert "not stored" in notebooks.dead_figures(notebook_with({"a": light}, shown("b")), "one")[0]
    assert (
        "limit is 600,000; the heaviest is Whale"
        in notebooks.dead_figures(notebook_with({"a": heavy}, shown("a")), "one")[0]
    )
    assert notebooks.dead_figures(notebook_with({"a": heavy}, shown("a")), "index") == []


@pytest.mark.parametrize("path", notebooks.choose([]), ids=lambda path: path.stem)
def test_stored_figures_are_those_of_today(path):
    notebook = nbformat.read(path, 4)
    stored = json.dumps(notebooks.models(notebook))
    notebooks.refresh_figures(notebook)
    assert json.dumps(notebooks.models(notebook)) == stored, f"run: python -m pages.notebooks --figures {path.stem}"


def test_tool_keeps_what_is_shown_and_the_same_bytes(tmp_path):
    source = "from vitbook.figures import PatchExplorer\n\nunseen = PatchExplorer()\nPatchExplorer()"
    cell = nbformat.v4.new_code_cell(source, metadata={"mystnb": {"image": {"alt": "Two images"}}})
    drawn = nbformat.v4.new_code_cell(
        "from matplotlib import pyplot as plt\n\nplt.plot([1, 2]);", metadata=cell.metadata
    )
    path = tmp_path / "one.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# One"), cell, drawn]), path)
    assert notebooks.run(path, check=False, root=tmp_path) == []
    first = path.read_bytes()
    assert (
        "image/png" in json.loads(first)["cells"][-1]["outputs"][0]["data"]
    )  # the live figure's still did not undo it
    kinds = [model["model_module"] for model in notebooks.models(nbformat.read(path, 4)).values()]
    assert sorted(kinds) == ["@jupyter-widgets/base", "anywidget"]
    assert notebooks.run(path, check=True, root=tmp_path) == []
    assert path.read_bytes() == first
    assert json.loads(first)["cells"]


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("chapter", sorted(path.stem for path in BOOK.glob("*.ipynb") if SHOWN in path.read_text()))
def test_nothing_moves_when_a_figure_awakes_and_no_room_is_left_empty(visit, chapter, width):
    page, _ = visit(f"book/{chapter}.html", width=width)
    for frame in page.locator("[class*='live-figure live-']").all():  # a quiz has no height of its own
        asleep = frame.bounding_box()["height"]
        frame.scroll_into_view_if_needed()
        frame.locator(".vf").first.wait_for()
        needs = "([one, room]) => (one.style.minHeight = 0, Math.abs(one.offsetHeight - room) <= 40)"
        page.wait_for_function(needs, arg=[frame.element_handle(), asleep], timeout=20_000)  # book.css has them


@pytest.mark.parametrize(
    "chapter, number, control, effect",
    [
        ("02-positions", 0, ".vf-buttons button >> nth=0", ".vf-pos-class >> nth=-1"),
        ("03-attention", 0, "label:has-text('queries') input", ".vf-sums"),
        ("03-attention", 1, ".vf-qkv-plane", ".vf-qkv .vf-says"),
        ("05-pre-norm-post-norm", 2, "input[type=range]", ".vf-block-plots svg >> nth=-1"),
        ("06-depth", 0, "input[type=range] >> nth=0", ".vf-axes >> nth=-1"),
        ("11-looking-inside", 1, ".lv-bars", ".lv-heads"),
    ],
)
def test_on_a_phone_a_control_and_what_it_changes_are_on_one_screen(live, chapter, number, control, effect):
    figure, page, watch = live(f"book/{chapter}.html", number, width=390)
    page.set_viewport_size({"width": 390, "height": 844})
    unfold(figure)
    changed = figure.locator(effect)
    changed.evaluate("one => one.scrollIntoView({ block: 'end' })")
    box = changed.bounding_box()
    bar = page.locator(".bd-header-article").bounding_box()
    assert box["y"] + box["height"] <= 845
    assert figure.locator(control).bounding_box()["y"] >= bar["y"] + bar["height"] - 1
    watch.assert_clean()


@pytest.mark.parametrize("chapter", ["03-attention", "11-looking-inside"])
@pytest.mark.parametrize("number", [0, 1])
def test_all_that_is_not_folded_is_on_one_screen(live, chapter, number):
    figure, page, watch = live(f"book/{chapter}.html", number, width=1200)
    page.set_viewport_size({"width": 1200, "height": 950})
    bar = page.locator(".bd-header-article").bounding_box()["height"]
    assert figure.bounding_box()["height"] <= 950 - bar
    watch.assert_clean()

"""The drawings: valid, described, in the colours of the language, with torch's numbers, the same bytes each time.

python tests/course/book/test_drawings.py stores those that pages without cells show.
"""

import re
import string
from functools import partial
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import nbformat
import pytest
import torch

from vitbook import drawings, images, results
from vitbook.drawings import _palette
from vitbook.drawings.map import LETTERS, NUMBERS
from vitnb import ViT, ViTConfig, data

STORED = Path(__file__).resolve().parents[3] / "book" / "assets" / "drawings"  # for pages that run no cell

SVG = "{http://www.w3.org/2000/svg}"
Q = torch.tensor([[1.0, 0.0], [0.5, 1.0], [-1.0, 0.5]])
K = torch.tensor([[1.0, 0.5], [0.0, 1.0], [1.0, -1.0]])
V = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
EDGES = torch.tensor([[0.0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]])  # of chapter 5
PIXELS = torch.arange(24.0).reshape(4, 6)  # of chapter 1
SQUARES = PIXELS.reshape(2, 2, 3, 2).permute(0, 2, 1, 3).reshape(6, 4)
BY_HAND = torch.tensor([[0.25, -0.5, -0.5], [0.25, -0.5, 0.5], [0.25, 0.5, -0.5], [0.25, 0.5, 0.5]])
# Of chapter 2: positions for the rows of V, another order of these, and their names.
PLACES, MUDDLED, EDGED = torch.tensor([[0.1, 0.0], [0.2, 0.0], [0.3, 0.0]]), [2, 0, 1], ["shaft", "sole", "heel"]
ALL = {
    "legend": drawings.legend,
    "overview": drawings.overview,
    "attention": lambda: drawings.attention(Q, K, V),
    "simple_attention": lambda: drawings.simple_attention(V),
    "patch_order": lambda: drawings.patch_order(PIXELS),
    "patch_projection": lambda: drawings.patch_projection(SQUARES, BY_HAND, ("mean", "down", "right")),
    "patch_to_token": drawings.patch_to_token,
    "position_heatmap": drawings.position_heatmap,
    "two_orders": lambda: drawings.two_orders(V, MUDDLED, PLACES, EDGED),
    "heads": drawings.heads,
    "split": drawings.split,
    "split by hand": partial(drawings.split, by_hand=True),
    "layer_norm": lambda: drawings.layer_norm(EDGES, 3, ("background", "shaft", "sole", "heel")),
    "block": drawings.block,
    "blocks": drawings.blocks,
    "cls_way": drawings.cls_way,
    "windows": drawings.windows,
    "training_loop": drawings.training_loop,
    "data_parallel": drawings.data_parallel,
    "whole_model": drawings.whole_model,
    "whole_model of ViT-B/16": partial(drawings.whole_model, "vit", ViTConfig.vit_b_16()),
    **{f"whole_model {part}": partial(drawings.whole_model, part) for part in drawings.PARTS},
}


def arrangements(drawing):
    """The wide and the narrow arrangement, as the page shows them."""
    html = drawings.in_page(drawing.svg, lambda chapter: f"{chapter}.html")
    assert drawings.in_page(drawing.svg + "\n", lambda chapter: f"{chapter}.html") == html
    root = ElementTree.fromstring(html)  # well-formed, so valid inside HTML and inside EPUB's XHTML
    return root.findall(f"{SVG}svg")


@pytest.fixture(scope="module", params=ALL)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def drawing(name):
    return ALL[name]()


def test_every_drawing_is_tried():
    functions = {name for name in drawings.__all__ if name[0].islower() and name != "in_page"}
    assert functions == {name.split()[0] for name in ALL}


def test_both_arrangements_are_whole_and_described(drawing):
    wide, narrow = arrangements(drawing)
    assert float(wide.get("width")) <= 720 and float(narrow.get("width")) == 344
    for svg in (wide, narrow):
        assert svg.get("aria-label") == drawing.alt and len(drawing.alt.split()) > 15
        assert svg.get("role") == ("group" if svg.findall(f".//{SVG}a") else "img")
        assert svg.get("display") is None


def test_the_file_hides_the_arrangement_for_phones(drawing):
    root = ElementTree.fromstring(drawing.svg)
    (inner,) = root.findall(f"{SVG}svg")
    assert inner.get("display") == "none"
    assert drawing._repr_mimebundle_() == {"image/svg+xml": drawing.svg, "text/plain": drawing.alt}
    assert repr(drawing) == drawing.alt


def test_colours_are_those_of_the_language_and_follow_the_theme(drawing):
    for svg in arrangements(drawing):
        css = svg.find(f"{SVG}style").text
        for part in svg.iter():
            for what, letter in (("fill", "f"), ("stroke", "s")):
                colour = part.get(what)
                if colour in (None, "none"):  # nothing is drawn
                    continue
                (name,) = re.findall(rf"\b{letter}-([\w-]+)", part.get("class"))
                light, dark = _palette.pair(name)
                assert colour == light
                assert f"--vd-{name}:light-dark({light},{dark});" in css
                assert f".vd .{letter}-{name}{{{what}:var(--vd-{name})}}" in css


def texts(svg):
    """Every text of an arrangement with its size and, about, where it stands: left, top, right, bottom."""
    for text in svg.iter(f"{SVG}text"):
        size, words = float(text.get("font-size")), "".join(text.itertext())
        length = size * (0.6 if "mono" in text.get("font-family", "") else 0.53) * len(words)
        x = float(text.get("x")) - {"start": 0, "middle": length / 2, "end": length}[text.get("text-anchor")]
        y = float(text.get("y"))
        yield words, size, (x, y - 0.72 * size, x + length, y)


def test_words_are_large_enough_and_inside_the_sheet(drawing):
    for svg in arrangements(drawing):
        width, height = float(svg.get("width")), float(svg.get("height"))
        for words, size, (left, top, right, bottom) in texts(svg):
            assert size >= (11 if width > 344 else 10), f"{words!r} is too small"
            assert left >= 0 and right <= width and top >= 0 and bottom <= height, f"{words!r} stands outside"


def test_no_words_stand_on_others(drawing):
    for svg in arrangements(drawing):
        seen = list(texts(svg))
        for i, (words, _, a) in enumerate(seen):
            for others, _, b in seen[:i]:
                apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
                assert apart, f"{words!r} stands on {others!r}"


def test_the_same_drawing_twice_is_the_same_bytes_and_has_no_id_to_clash(name, drawing):
    assert ALL[name]().svg == drawing.svg
    assert " id=" not in drawing.svg and "url(" not in drawing.svg
    assert not re.search(r'(href|src)="(?!chapter:|data:image/png;base64,)', drawing.svg)  # no request to anywhere


def numbers(drawing):
    return [word for text in arrangements(drawing)[0].iter(f"{SVG}text") for word in text.itertext()]


@pytest.mark.parametrize("row", range(3))
def test_attention_prints_the_numbers_of_torch(row):
    words = numbers(drawings.attention(Q, K, V, row=row))
    scores = Q @ K.T
    weights = (scores / 2**0.5).softmax(-1)
    out = torch.nn.functional.scaled_dot_product_attention(Q[None], K[None], V[None])[0]
    for values in (scores, scores / 2**0.5, weights, out):
        cells = [f"{v:.2f}".replace("-", "−") for v in values.flatten().tolist()]
        at = [i for i in range(len(words)) if words[i : i + len(cells)] == cells]
        assert len(at) == 1, f"{cells} not found in {words}"


def test_simple_attention_divides_by_nothing():
    drawing = drawings.simple_attention(V)
    words, weights = " ".join(numbers(drawing)), (V @ V.T).softmax(-1)
    assert " ".join(f"{v:.2f}" for v in weights.flatten().tolist()) in words
    assert " ".join(f"{v:.2f}" for v in (weights @ V).flatten().tolist()) in words
    assert "√" not in words and "√" not in drawing.alt


def test_a_layer_norm_is_drawn_over_each_token_and_over_all():
    drawing = drawings.layer_norm(EDGES, row=3)
    words = numbers(drawing)
    for axes in ((4,), (4, 4)):
        cells = [f"{v:.2f}".replace("-", "−") for v in torch.layer_norm(EDGES, axes, eps=1e-6).flatten().tolist()]
        assert [i for i in range(len(words)) if words[i : i + 16] == cells], cells
    assert "token 3: mean 0.5 and σ 0.5" in words and "all: mean 0.25 and σ 0.43" in words
    assert "turn it into 1, 1, −1, −1. " in drawing.alt and "turn it into 1.73, 1.73, −0.577, −0.577," in drawing.alt


def test_pixels_are_drawn_in_the_order_of_reading_without_permute_and_with_it():
    drawing = drawings.patch_order(PIXELS)
    words = [int(word) for word in numbers(drawing) if word.isdigit()]
    assert words[-72:] == [*range(24), *range(24), *SQUARES.flatten().int().tolist()]
    assert "8 = axes[0, 1, 1, 0]" in numbers(drawing) and PIXELS.reshape(2, 2, 3, 2)[0, 1, 1, 0] == 8
    assert "Patch 1 holds 2, 3, 8, 9." in drawing.alt


def test_the_pixels_of_the_followed_patch_are_framed():
    def framed(patch):
        wide, _ = arrangements(drawings.patch_order(PIXELS, patch=patch))
        return [float(rect.get("width")) for rect in wide.iter(f"{SVG}rect") if rect.get("class") == "s-mark"]

    assert framed(1) == [2 * 36, 2 * 27, 2 * 27, 4 * 27]  # in the image; apart; together
    assert framed(4) == framed(1)


def test_patches_times_a_matrix_are_the_tokens_of_torch():
    drawing = drawings.patch_projection(SQUARES, BY_HAND, ("mean", "down", "right"))
    words = [word.replace("−", "-") for word in numbers(drawing)]
    cells = [float(word) for word in words if re.fullmatch(r"-?\d+(\.\d+)?", word)]
    assert cells == [*SQUARES.flatten(), *BY_HAND.flatten(), *(SQUARES @ BY_HAND).flatten()]
    assert "-0.5 · 0 - 0.5 · 1 + 0.5 · 6 + 0.5 · 7 = 6" in words and "the token 3.5, 6, 1." in drawing.alt


def test_the_token_is_what_the_convolution_gives():
    torch.manual_seed(0)
    convolution = torch.nn.Conv2d(1, 3, 4, 4, bias=False)
    token = convolution(images.boot()[None] / 255).flatten(2)[0, :, 30].tolist()
    drawing = drawings.patch_to_token(convolution.weight.flatten(1), patch=30)
    assert "patch 30" in numbers(drawing) and "Patch 30" in drawing.alt
    assert [word for word in numbers(drawing) if re.fullmatch(r"−?\d\.\d\d", word)][-3:] == [
        f"{v:.2f}".replace("-", "−") for v in token
    ]


def test_the_sum_of_tokens_and_positions_is_drawn():
    table = torch.tensor([[1.0, 0.0], [0.0, -1.0]])
    tokens = torch.tensor([[0.0, 1.0]])
    wide, _ = arrangements(drawings.position_heatmap(table, tokens))
    grounds = [path.get("class") for path in wide.iter(f"{SVG}path") if path.get("shape-rendering")]
    assert grounds == ["f-paper", "f-token-8x", "f-paper", "f-position-8x", "f-soft-8x", "f-paper", "f-token-8x"]


def test_two_orders_have_the_same_means_until_a_non_linearity():
    drawing = drawings.two_orders(V, MUDDLED, PLACES, EDGED)
    for rows in (V, V[MUDDLED]):
        active = torch.relu(rows + PLACES - 1).mean(0)
        for mean in (rows.mean(0), (rows + PLACES).mean(0), active):
            assert [f"{v:.2f}" for v in mean.tolist()] in [
                [f"{float(v):.2f}" for v in found.split(", ")] for found in re.findall(r"\(([\d., ]+)\)", drawing.alt)
            ]
    assert [word for word in numbers(drawing) if word in ("as above", "differs")] == ["as above", "as above", "differs"]
    linear = drawings.two_orders(V + 1, MUDDLED, PLACES, EDGED)  # nothing is negative: ReLU changes nothing
    assert "differs" not in numbers(linear)


def test_the_right_split_keeps_every_token_in_every_head():
    x = torch.arange(12)
    words = [word for word in numbers(drawings.split()) if word.isdigit()]
    right = x.view(3, 2, 2).transpose(0, 1).flatten().tolist()  # (h, T, d)
    wrong = x.view(2, 3, 2).flatten().tolist()
    assert list(map(int, words)) == [*range(12), *right, *wrong]


def test_the_split_by_hand_has_the_mean_of_each_head():
    x = torch.arange(12.0)
    words = [int(word) for word in numbers(drawings.split(by_hand=True)) if word.isdigit()]
    expected = [*range(12)]
    for heads in (x.view(3, 2, 2).transpose(0, 1), x.view(2, 3, 2)):  # (h, T, d)
        for head in heads:
            expected += [*map(int, head.flatten()), *map(int, head.mean(0))]
    assert words == expected


def test_every_part_of_the_map_leads_to_its_chapter():
    for svg in arrangements(drawings.whole_model()):
        links = [a.get("href").removesuffix(".html") for a in svg.iter(f"{SVG}a")]
        assert set(links) == set(drawings.PARTS)
        assert all(re.match(r"Chapter \d, on", a.get("aria-label")) for a in svg.iter(f"{SVG}a"))
        assert not [a for link in svg.iter(f"{SVG}a") for a in link.iter(f"{SVG}a") if a is not link]
    unlinked = drawings.in_page(drawings.whole_model().svg, lambda chapter: None)
    assert "<a " not in unlinked and ElementTree.fromstring(unlinked) is not None


def test_the_map_names_the_chapters_numbers_and_explains_its_letters():
    book = STORED.parents[1]
    assert all((book / f"{number:02}-{part}.ipynb").is_file() for part, number in NUMBERS.items())
    said, page = numbers(drawings.whole_model()), (book / "legend.md").read_text(encoding="utf-8")
    assert {str(number) for number in NUMBERS.values()} <= set(said)
    used = set("".join(re.findall(r"\(B[^)]*\)|× \w", " ".join(said)))) & set(string.ascii_letters)
    assert used | {"N"} == {letter for letters, _ in LETTERS for letter in letters.split(", ")}
    assert all(f"\n| {letters} |" in page and letters in said for letters, _ in LETTERS)


def test_the_strip_shows_what_the_network_says():
    drawn = drawings.overview()
    model = results.trained()
    with torch.no_grad():
        logits = model((images.boot()[None] / 255 - data.FASHION_MEAN) / data.FASHION_STD)[0]
    answer = results.result("trained")["result"]["classes"][logits.argmax()].lower()
    assert f"“{answer}”" in numbers(drawn) and answer in drawn.alt
    N, L = model.config.num_patches, model.config.depth
    assert {f"{N} patches", f"{N + 1} tokens", f"transformer: {L} blocks"} <= set(numbers(drawn))
    for svg in arrangements(drawn):
        assert len(list(svg.iter(f"{SVG}image"))) == 1 + N
        bars = [float(rect.get("width")) for rect in svg.iter(f"{SVG}rect") if rect.get("class") == "f-cls"]
        rails = [float(rect.get("width")) for rect in svg.iter(f"{SVG}rect") if rect.get("class") == "f-logits-3"]
        assert len(rails) == len(logits)
        assert bars == [pytest.approx(rails[0] * logits.softmax(0).max().item(), abs=0.02)]


def test_you_are_here_once_and_only_if_asked():
    assert "you are here" not in numbers(drawings.whole_model())
    assert numbers(drawings.whole_model("heads")).count("you are here") == 1


def test_the_map_with_numbers_has_those_of_the_model():
    config = ViTConfig((20, 28), 4, 2, num_classes=7, embed_dim=24, depth=5, num_heads=3)
    drawn = drawings.whole_model(config=config)
    said = numbers(drawn)
    with torch.no_grad():
        shapes = ViT(config).forward_intermediates(torch.zeros(1, 2, 20, 28))
    for name in ("patches", "embedded", "pooled", "logits"):
        shape = ", ".join(["B", *map(str, shapes[name].shape[1:])])
        assert f"({shape})" in said and f"({shape})" in drawn.alt
    assert "(B, 2, 20, 28)" in said and "(B, 35, 32)" in said and "× 5" in said and "× 3" in said
    assert not any(letter in said for letter in ("(B, T, D)", "(B, N, D)", "× L", "× h"))


@pytest.mark.parametrize(
    "draw, message",
    [
        (lambda: drawings.layer_norm(torch.zeros(5, 4)), "up to 4 tokens"),
        (lambda: drawings.layer_norm(torch.zeros(4, 4), 4), "row 4"),
        (lambda: drawings.layer_norm(torch.zeros(4, 4), 0, ("a", "b")), "4 of up to 10 letters"),
        (lambda: drawings.layer_norm(torch.zeros(4)), "2 dimensions"),
        (lambda: drawings.patch_order(torch.zeros(6, 6)), "up to 24 pixels"),
        (lambda: drawings.patch_order(PIXELS, 3), "patch 3"),
        (lambda: drawings.patch_order(PIXELS, 2, 6), "patch must be"),
        (lambda: drawings.patch_projection(SQUARES, BY_HAND[:3]), "6 patches of 4"),
        (lambda: drawings.patch_projection(SQUARES, BY_HAND, ("a", "b")), "3 of up to 8 letters"),
        (lambda: drawings.patch_projection(SQUARES, BY_HAND, row=6), "row must be"),
        (lambda: drawings.patch_to_token(torch.zeros(4, 15)), "weight must be"),
        (lambda: drawings.patch_to_token(torch.zeros(7, 16)), "weight must be"),
        (lambda: drawings.patch_to_token(None, 49), "patch must be"),
        (lambda: drawings.patch_to_token(None, -1), "patch must be"),
        (lambda: drawings.position_heatmap(torch.zeros(65, 4)), "up to 64"),
        (lambda: drawings.two_orders(torch.zeros(3, 3), MUDDLED, PLACES, EDGED), "up to 4 tokens of 2 features"),
        (lambda: drawings.two_orders(V, [0, 1, 1], PLACES, EDGED), "each of 0 to 2 once"),
        (lambda: drawings.two_orders(V, MUDDLED, PLACES, EDGED[:2]), "3 of up to 5 letters"),
        (lambda: drawings.attention(Q, K[:2], V), "2 or 3 tokens"),
        (lambda: drawings.attention(*[torch.zeros(5, 2)] * 3), "2 or 3 tokens"),
        (lambda: drawings.attention(Q, K, V, 3), "row is 3"),
        (lambda: drawings.attention(Q[0], K, V), "2 dimensions"),
        (lambda: drawings.attention(Q, K, V[:, 0]), "2 dimensions"),
        (lambda: drawings.attention(Q, K, V, names=("ankles", "a", "b")), "3 of up to 5 letters"),
        (lambda: drawings.attention(Q, K, V, names=("a", "b")), "3 of up to 5 letters"),
        (lambda: drawings.whole_model("03-attention"), "here must be one of 'patchify'"),
        *[(partial(_palette.pair, name), "use one of") for name in ("tokens", "token-9", "token-x", "#fff", "")],
    ],
)
def test_what_cannot_be_drawn_is_refused_with_words(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()


def test_names_stand_at_the_rows_and_columns():
    drawing = drawings.attention(Q, K, V, row=0, names=("shaft", "sole", "cls"))
    assert numbers(drawing).count("shaft") == 5 and "of token shaft" in drawing.alt
    test_words_are_large_enough_and_inside_the_sheet(drawing)
    test_no_words_stand_on_others(drawing)
    test_both_arrangements_are_whole_and_described(drawings.attention(Q, K, V, names=('"a"', "<b>", "'&'")))


def test_numbers_that_do_not_fit_lose_decimals_not_size():
    drawing = drawings.attention(100 * Q - 0.123, K, V)
    test_words_are_large_enough_and_inside_the_sheet(drawing)
    wide, narrow = ([words for words, _, _ in texts(svg)] for svg in arrangements(drawing))
    assert "−100.12" in wide and "−100.12" not in narrow and "−100" in narrow


def test_the_letters_have_the_sizes_of_the_default_model():
    page = (STORED.parents[1] / "legend.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\w+(?:, W)?) \|.*\| (.*) \|$", page, re.MULTILINE))
    c = ViTConfig()
    assert (rows["C"], rows["H, W"], rows["p"]) == (str(c.in_chans), f"{c.img_size}, {c.img_size}", str(c.patch_size))
    patches = (c.img_size // c.patch_size) ** 2
    assert (rows["N"], rows["T"]) == (str(patches), str(patches + 1))
    sizes = c.embed_dim, c.num_heads, c.embed_dim // c.num_heads, c.depth, c.num_classes
    assert tuple(rows[letter] for letter in "DhdLK") == tuple(map(str, sizes))


def linear(colour):
    """A colour in linear RGB."""
    rgb = torch.tensor([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return torch.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def contrast(a, b):
    low, high = sorted((torch.tensor([0.2126, 0.7152, 0.0722]) @ linear(colour)).item() for colour in (a, b))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("kind", [*_palette.KINDS, "soft"])
def test_words_stand_out_from_every_ground(kind, theme):
    paper, ink = (_palette.pair(name)[theme] for name in ("paper", "ink"))
    assert contrast(_palette.pair(kind)[theme], paper) >= 4.5  # names in the colour of their kind
    for level in range(_palette.LEVELS + 1):
        assert contrast(_palette.pair(f"{kind}-{level}")[theme], ink) >= 4.5, f"{kind}-{level}"


# What a colour becomes for readers who lack one kind of cone, on linear RGB (Machado, Oliveira and Fernandes 2009)
BLINDNESS = {
    "none": [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = [[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1094, 0.8727]]  # of the white point


def lab(colour, blindness):
    """A colour in CIE L*a*b*, where 2.3 is a difference that is just seen side by side."""
    xyz = torch.tensor(XYZ) @ (torch.tensor(BLINDNESS[blindness]) @ linear(colour)).clamp(0, 1)
    x, y, z = torch.where(xyz > 0.008856, xyz ** (1 / 3), 7.787 * xyz + 16 / 116)
    return torch.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize("blindness", BLINDNESS)
def test_colour_blind_readers_tell_the_kinds_apart(blindness, theme):
    kinds = ["token", "cls", "position", "query", "key", "value", "weights", "mlp"]
    for one, other in combinations(kinds, 2):
        far = (lab(_palette.pair(one)[theme], blindness) - lab(_palette.pair(other)[theme], blindness)).norm()
        assert far >= (12 if {one, other} <= {"query", "key", "value"} else 5), f"{one} and {other}: {far:.1f}"


def test_the_boot_is_the_first_test_image():
    boot = images.boot()
    assert boot.shape == (1, 28, 28) and boot.dtype == torch.uint8
    assert (int(boot.sum()), int(boot.max()), int(boot[0, 20, 17])) == (33456, 255, 255)


@pytest.mark.parametrize("number", ["03-", "11-", ""])
def test_a_drawing_leads_to_the_chapter_whatever_its_number(number):
    from pages.drawings_inline import InlineDrawings  # pytest knows where it is

    docs = {"book/index", f"book/{number}attention", "book/solutions/03-attention", "book/attention-maps"}
    builder = SimpleNamespace(get_relative_uri=lambda here, there: f"{here} to {there}")
    page = SimpleNamespace(
        env=SimpleNamespace(found_docs=docs, docname="book/index"), app=SimpleNamespace(builder=builder)
    )
    address = partial(InlineDrawings.address, page)
    assert address("attention") == f"book/index to book/{number}attention"
    assert address("heads") == "#"


def test_a_cell_that_shows_a_drawing_needs_no_other_words():
    from pages import notebooks

    def faults(svg):
        shown = nbformat.v4.new_output("execute_result", {"image/svg+xml": svg}, execution_count=1)
        cell = nbformat.v4.new_code_cell("draw()", execution_count=1, outputs=[shown])
        return notebooks.faults(nbformat.v4.new_notebook(cells=[cell]), "one.ipynb")

    assert not [fault for fault in faults(drawings.legend().svg) if "alt" in fault]
    assert [fault for fault in faults("<svg></svg>") if "alt" in fault]


@pytest.mark.parametrize("name", sorted(path.stem for path in STORED.glob("*.svg")))
def test_what_is_stored_is_what_is_drawn(name):
    assert (STORED / f"{name}.svg").read_text(encoding="utf-8") == ALL[name]().svg + "\n", "store it anew: see above"


if __name__ == "__main__":
    STORED.mkdir(exist_ok=True)
    (STORED / "legend.svg").write_text(drawings.legend().svg + "\n", encoding="utf-8")

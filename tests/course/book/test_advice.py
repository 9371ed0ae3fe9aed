"""Whoever does literally what an error advises has a call that works, for each error of the package.

A row is a call, with one bad value by name; the advised value is read from the
message and put in its place. Where the advice is prose, the row says what a
reader does, under "fix". The statements that raise are collected from the
source: one that no row reaches fails.
"""

import ast
import json
import tempfile
from pathlib import Path
from types import TracebackType

import pytest
import timm
import torch
import torchvision
import transformers
from PIL import Image
from safetensors.torch import save_file
from torch import nn

import vitnb
from tests.course.book.advice import SPACE, code
from vitbook import faults, quizzes
from vitbook.faults import _build, _fault, _published
from vitnb import checkpoint, data, evaluation, inspection, lora, training, weights
from vitnb.training import Recipe
from vitnb.vit import ViT, ViTConfig

ROOT = Path(__file__).resolve().parents[3]
SOURCES = [*ROOT.glob("vitnb/*.py"), *ROOT.glob("vitbook/faults/*.py"), *ROOT.glob("vitbook/*.py")]
ELSEWHERE = {"distributed.py"}  # takes several processes: tests/model/test_torchrun.py

FOLDER = Path(tempfile.mkdtemp(prefix="advice-"))
weights.save(ViT(ViTConfig()), FOLDER / "vit.safetensors")
SIZES = dict(image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=24, num_classes=5)
PLAIN = dict(img_size=32, patch_size=8, embed_dim=16, depth=2, num_heads=2, num_classes=5)
CONV = torchvision.models.vision_transformer.ConvStemConfig(16, 3, 8)


def small(**changes) -> ViT:
    return ViT(ViTConfig(**{"img_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2} | changes))


def own(method: str) -> type[ViT]:
    """A ViT with a method of its own, which does what the one that it overrides does."""
    return type("Own", (ViT,), {method: lambda *given: getattr(ViT, method)(*given)})


def tv(**options) -> nn.Module:
    return torchvision.models.VisionTransformer(**(SIZES | options))


def tm(**options) -> nn.Module:
    return timm.models.VisionTransformer(**(PLAIN | options))


def hf(name: str) -> nn.Module:
    sizes = dict(image_size=28, patch_size=14, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    return getattr(transformers, name)(transformers.Dinov2Config(**sizes, num_labels=3))


def photos(*folders: str) -> Path:
    root = Path(tempfile.mkdtemp(dir=FOLDER))
    for name in folders:
        (root / name).mkdir(parents=True)
        if name != "empty":
            Image.new("RGB", (9, 9), "red").save(root / name / "x.png")
    return root


def changed(model: nn.Module, path: str, part: object) -> nn.Module:
    """The model with another part in the place of one, or another value of an attribute."""
    home, _, name = path.rpartition(".")
    setattr(model.get_submodule(home), name, part)
    return model


def tied() -> ViT:
    model = small()
    model.blocks[1] = model.blocks[0]
    return model


def file(tensors=None, config=None, **changes) -> Path:
    model = small()
    config = json.dumps(model.config.to_dict() | changes) if config is None else config
    save_file(model.state_dict() if tensors is None else tensors, FOLDER / "m", {"vitnb.config": config})
    return FOLDER / "m"


def damaged() -> Path:
    (FOLDER / "damaged").write_bytes(b"no weights")
    return FOLDER / "damaged"


def foreign() -> Path:
    save_file({"a": torch.zeros(1)}, FOLDER / "foreign")
    return FOLDER / "foreign"


def other_run() -> Path:
    torch.save({"identity": {}}, FOLDER / "other")
    return FOLDER / "other"


def recorded(model: nn.Module) -> list:
    with vitnb.record_attention(model) as maps:
        return maps


def with_a_head_to_train() -> ViT:
    model = small(num_classes=2).requires_grad_(False)
    model.head.requires_grad_(True)
    return model


def exported(images: torch.Tensor) -> object:
    return torch.export.export(small().eval(), (images,))


pixels = torch.randint(256, (6, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
D = data.Dataset(pixels, torch.arange(6) % 2, pixels, torch.arange(6) % 2, ("a", "b"))
NAMES = {f.replaces: name for name, f in faults.FAULTS.items()}
LOOSE = next(n for n, f in faults.FAULTS.items() if f.replaces not in _build.PLACES and f.replaces is not ViT)
CLS = NAMES[vitnb.ClsToken]
RUN = training.Training(small(), D, Recipe(1, 2))
LIKE_SMALL = weights.to_timm(small())
MAPS = "[torch.full((1, 2, 5, 5), 0.2)]"

ITSELF = "the advice is the call"
# the call; the name and the bad value; what to do where the advice is prose
ROWS = [
    ("ViTConfig(depth=depth)", "depth", "'2'"),
    ("ViTConfig(depth=depth)", "depth", "0"),
    ("ViTConfig(img_size=img_size)", "img_size", "(28, 28, 28)"),
    ("ViTConfig(dropout=dropout)", "dropout", "'much'"),
    ("ViTConfig(dropout=dropout)", "dropout", "1.0"),
    ("Recipe(lr=lr)", "lr", "'fast'"),
    ("Recipe(lr=lr)", "lr", "0"),
    ("ViTConfig(norm_eps=norm_eps)", "norm_eps", "-1"),
    ("ViTConfig(norm=norm)", "norm", "'layer'"),
    ("MultiHeadAttention(64, num_heads)", "num_heads", "5", "4"),
    ("PreNormBlock(8, 2, mlp_ratio)", "mlp_ratio", "0.01"),
    ("inspection.mean_of_others(maps)", "maps", "torch.ones(3, 4).long()"),
    ("patchify(images, 4)", "images", "[[[[1.0] * 4] * 4]]"),
    ("patchify(images, 4)", "images", "torch.zeros(1, 8, 8)"),
    ("MultiHeadAttention(8, 2)(tokens)", "tokens", "torch.zeros(1, 5, 9)", "torch.zeros(1, 5, 8)"),
    ("MultiHeadAttention(8, 2)(tokens)", "tokens", "torch.zeros(1, 0, 8)", "torch.zeros(1, 1, 8)"),
    ("evaluate(small(), D.normalize(pixels), labels)", "labels", "[0, 1] * 3"),
    (
        "data.Dataset(pixels, labels, pixels, D.test_labels, 'ab')",
        "labels",
        "torch.ones(5).long()",
        "torch.ones(6).long()",
    ),
    ("data.Dataset(pixels, train_labels, pixels, D.test_labels, 'ab')", "train_labels", "D.train_labels + 1"),
    ("D.normalize(images)", "images", "pixels.float()"),
    ("D.normalize(images)", "images", "pixels.expand(-1, 3, -1, -1)", "pixels"),
    ("small()(images)", "images", "pixels.numpy()"),
    ("recorded(model)", "model", "tv()", "weights.from_torchvision(model)"),
    ("faults.build(name, ViTConfig())", "name", "LOOSE", "CLS"),
    ("faults.build(CLS, config)", "config", "ViTConfig(global_pool='mean')"),
    ("_fault.fault('', ViT)(wrong)", "wrong", "faults.FAULTS[CLS].wrong", "renamed(wrong)"),
    ("faults.TESTS['cut'](small(img_size=16, stem=stem))", "stem", "'conv'"),
    ("faults.to_wrong('undivided', small(norm=norm))", "norm", "'post'"),
    ("_published.numbers_of(who)", "who", "[]", "[7, 12]"),
    ("_published.numbers_of(who)", "who", "''", "'Ada'"),
    ("_published.numbers_of(who)", "who", "[True]", "[7]"),
    ("_published.numbers_of(who)", "who", "[10**6]", "'1000000'"),
    ("data.load(name)", "name", "'mnist'", "'digits'"),
    ("data.load('digits', root)", "root", "3", "'data'"),
    ("results.result(name)", "name", "'none'", "'norms'"),
    ("images.sample_image(size)", "size", "0"),
    ("images.photo(name)", "name", "'nobody'", "'hopper'"),
    ("images.photo('hopper', size)", "size", "0"),
    ("images.stamps(size)", "size", "0"),
    ("images.draw(torch.arange(9) // 3, train, 1, 0)", "train", "4", "2"),
    ("images.draw(torch.arange(9) // 3, 2, test, 0)", "test", "2"),
    ("LoRA(linear)", "linear", "nn.Conv2d(1, 1, 1)"),
    ("data.augment(pixels, None, shift=shift)", "shift", "-1"),
    ("data.augment(pixels, None, erase=erase)", "erase", "2"),
    ("data.Dataset(pixels, D.train_labels, pixels, D.test_labels, classes)", "classes", "2"),
    ("dataclasses.replace(D, mean=mean)", "mean", "(125,)"),
    ("D.subset(n)", "n", "0", "1"),
    ("D.hold_out(n)", "n", "6", "5"),
    ("evaluate(small(), D.normalize(pixels), labels)", "labels", "D.test_labels[:3]", "D.test_labels"),
    ("evaluate(model, D.normalize(pixels), D.test_labels)", "model", "nn.Conv2d(1, 1, 1)", "small()"),
    ("evaluate(model, D.normalize(pixels), D.test_labels)", "model", "'vit'", "small()"),
    ("final_test(small(), data)", "data", "3", "D"),
    ("final_test(small(), data)", "data", "D.hold_out(2)", "D"),
    ("interval(values)", "values", "[1.0]", "[1.0, 2.0]"),
    (f"inspection.attention_distance({MAPS}, grid)", "grid", "3", "2"),
    ("inspection.position_similarity(table)", "table", "torch.zeros(2, 5, 8)", "small().positions.table"),
    ("inspection.rank_correlation(a, a)", "a", "torch.arange(3.0)", "a[None]"),
    ("inspection.mean_of_others(maps)", "maps", "torch.ones(1, 4)", "torch.ones(2, 4)"),
    ("inspection.overlap(torch.ones(1, 4), torch.ones(1, 4) > 0, mass)", "mass", "2", "0.6"),
    ("inspection.ablate(model, [], means)", "means", "torch.zeros(2, 3)"),
    ("inspection.ablate(small(), [head])", "head", "(2, 0)", "(0, 0)"),
    ("inspection.share_inside(torch.ones(1, 4), mask)", "mask", "torch.ones(1, 4)", "mask > 0.1"),
    ("inspection.share_inside(torch.ones(1, 4), mask)", "mask", "torch.ones(1, 3) > 0", "torch.ones(1, 4) > 0"),
    ("inspection.rollout(maps)", "maps", "[]", MAPS),
    ("inspection.rollout(maps)", "maps", f"{MAPS} + [torch.full((1, 2, 4, 4), 0.25)]", MAPS),
    ("inspection.rollout(maps)", "maps", "[torch.ones(1, 2, 5, 5)]", "[maps[0].softmax(-1)]"),
    ("inspection.occlusion(small(), D.normalize(pixels), labels)", "labels", "torch.arange(3)", "torch.arange(6)"),
    ("unpatchify(patches, 4, 8, 1)", "patches", "torch.zeros(1, 5, 16)", "torch.zeros(1, 4, 16)"),
    ("ViTConfig(img_size=img_size)", "img_size", "30"),
    ("ConvStem(img_size=24, patch_size=patch_size)", "patch_size", "6", "8"),
    ("SinCosPositions(2, embed_dim)", "embed_dim", "6"),
    ("resize_positions(table, 2, 3)", "table", "torch.zeros(1, 10, 8)", "torch.zeros(1, 5, 8)"),
    ("LearnedPositions(5, 8)(tokens)", "tokens", "torch.zeros(1, 4, 8)", "torch.zeros(1, 5, 8)"),
    ("fit(nn.Sequential(nn.Flatten(), nn.Linear(64, 2)), D, Recipe(1, 2, optimizer=o))", "o", "'muon'"),
    ("training.Muon(o, 0.1)", "o", "[*small().parameters()]", "training.muon_matrices(small())"),
    ("Recipe(betas=betas)", "betas", "(0.9,)"),
    ("Recipe(weight_decay=decay)", "decay", "-1"),
    ("Recipe(shift=shift)", "shift", "-1"),
    ("Recipe(erase=erase)", "erase", "2"),
    ("Recipe(seed=seed)", "seed", "-1"),
    ("fit(small(num_classes=2), data, Recipe(1, 2))", "data", "3", "D"),
    ("fit(small(num_classes=2), D, recipe)", "recipe", "3", "Recipe(1, 2)"),
    ("fit(model, D, Recipe(1, 2))", "model", "small(num_classes=2).requires_grad_(False)"),
    ("fit(small(num_classes=2), D, Recipe(1, batch_size))", "batch_size", "7"),
    ("fit(model, D, Recipe(1, 2))", "model", "small()", "small(num_classes=2)"),
    ("ViT(config)", "config", "{}"),
    ("load_checkpoint(path, RUN.identity, torch.device('cpu'))", "path", "damaged()", "None"),
    ("load_checkpoint(path, RUN.identity, torch.device('cpu'))", "path", "other_run()", "None"),
    ("weights.from_torchvision(model)", "model", "nn.Linear(2, 2)", "tv()"),
    ("weights.from_torchvision(model)", "model", "tv(conv_stem_configs=[CONV] * 3)", "tv()"),
    ("weights.from_torchvision(model)", "model", "tv(representation_size=4)", "tv()"),
    ("weights.from_torchvision(model)", "model", "changed(tv(), 'heads', nn.Conv2d(1, 1, 1))", "tv()"),
    ("weights.from_torchvision(model)", "model", "changed(tv(), 'encoder.dropout.p', 0.5)", "tv()"),
    ("weights.from_timm(model)", "model", "nn.Linear(2, 2)", "tm()"),
    ("weights.from_timm(model)", "model", "tm(global_pool='map')", "tm()"),
    ("weights.from_timm(model)", "model", "tm(pre_norm=True)", "tm()"),
    ("weights.from_timm(model)", "model", "tm(qk_norm=True)", "tm()"),
    ("weights.from_huggingface(model)", "model", "nn.Linear(2, 2)", "hf('Dinov2Model')"),
    ("weights.from_huggingface(model)", "model", "hf('Dinov2ForImageClassification')", "model.dinov2"),
    ("weights.from_timm(model)", "model", "tm(act_layer=nn.ReLU)", "tm()"),
    ("weights.from_timm(model)", "model", "tm(mlp_layer=timm.layers.SwiGLU)", "tm()"),
    ("weights.to_timm(model)", "model", "nn.Linear(2, 2)"),
    ("weights.to_timm(model)", "model", "changed(small(), 'head', nn.Linear(16, 3))"),
    ("weights.to_timm(model)", "model", "tied()", "changed(model, 'blocks.1', copy.deepcopy(model.blocks[1]))"),
    ("weights.to_timm(small(global_pool=pool))", "pool", "'attn'"),
    ("weights.to_timm(small(norm=norm))", "norm", "'post'"),
    ("weights.to_torchvision(small(in_chans=3, img_size=(8, size)))", "size", "4", "8"),
    ("weights.load(path)", "path", "damaged()", "file()"),
    ("weights.load(path)", "path", "foreign()", "file()"),
    ("weights.load(path)", "path", "file(config='{')", "file()"),
    ("weights.load(path)", "path", "file(depth=3)", "file()"),
    ("weights.load(path)", "path", "file(rope=3)", "file()"),
    ("ViTConfig(no_embed_class=flag)", "flag", "'yes'"),
    ("small().load_state_dict(state)", "state", "small()", "state.state_dict()"),
    ("small().load_state_dict(state)", "state", "tm().state_dict()", "weights.from_timm(LIKE_SMALL).state_dict()"),
    ("Recipe(lr_by_part={'head': 1e-3}, optimizer=o)", "o", "'muon'"),
    ("fit(small(num_classes=2), D, Recipe(1, 2, lr_by_part={part: 1e-3}))", "part", "'tail'", "'head'"),
    ("Recipe(lr_by_part=parts)", "parts", "3"),
    ("fit(small(num_classes=2), D, Recipe(1, 2), callbacks)", "callbacks", "print"),
    ("kind(small().config).forward_intermediates(torch.zeros(1, 1, 8, 8))", "kind", "own('embed')", "own('_in_order')"),
    ("weights.save(model, FOLDER / 'saved')", "model", "small().to('meta')"),
    ("data.folder(path, 8)", "path", "3", "photos('a', 'b')"),
    ("data.folder(photos('a', 'b'), 8, in_chans)", "in_chans", "4"),
    ("data.folder(path, 8)", "path", "photos('a', 'b') / 'a'", "path.parent"),
    ("data.folder(path, 8)", "path", "photos('train/a', 'train/b', 'val/a')", "path / 'train'"),
    ("data.folder(path, 8)", "path", "photos('a', 'b', 'empty')", "photos('a', 'b')"),
    ("weights.load(path)", "path", "file(small().state_dict() | {'head.bias': torch.zeros(10).int()})", "file()"),
    ("quizzes.read(path)", "path", "quiz('Why?')", "quiz('## Why?' + ANSWERS)"),
    ("quizzes.read(path)", "path", "quiz('## Why\\nnot?' + ANSWERS)", "quiz('## Why not?' + ANSWERS)"),
    ("quizzes.read(path)", "path", "quiz('## Why?' + ANSWERS + '\\n- no')", "quiz('## Why?' + ANSWERS)"),
    ("quizzes.read(path)", "path", "quiz('## Why?' + ANSWERS + ANSWERS)", "quiz('## Why?' + ANSWERS)"),
    ("quizzes.read(path)", "path", "quiz('## Why?' + ANSWERS.replace('x', ' '))", "quiz('## Why?' + ANSWERS)"),
    ("weights.from_timm(model)", "model", "'vit_base_patch16_224'", "tm()"),
    ("weights.from_timm(model)", "model", "tv()", ITSELF),
    ("weights.from_torchvision(model)", "model", "tm()", ITSELF),
    ("weights.from_huggingface(model)", "model", "tm()", ITSELF),
    ("weights.from_timm(model)", "model", "hf('Dinov2Model')", ITSELF),
    ("weights.from_torchvision(model)", "model", "tv().to('meta')"),
    ("weights.save(model, 'm')", "model", "small().state_dict()"),
    ("weights.save(small(), path)", "path", "None"),
    ("weights.load(path)", "path", "3"),
    ("small().load_state_dict(state)", "state", "small(num_classes=3).state_dict()", "small().state_dict()"),
    ("small().load_state_dict(state)", "state", "small(depth=3).state_dict()", "small().state_dict()"),
    ("small().load_state_dict(state)", "state", "{}", "small().state_dict()"),
    ("small().with_head(num_classes)", "num_classes", "['cat', 'dog']"),
    ("small().with_head(num_classes)", "num_classes", "False"),
    ("small().resized(img_size)", "img_size", "'8'"),
    ("small().resized(img_size)", "img_size", "(8,)"),
    ("ViTConfig(mlp_ratio=ratio)", "ratio", "float('nan')"),
    ("ViTConfig(qkv_bias=flag)", "flag", "'no'"),
    ("ViTConfig(init_values=init)", "init", "0"),
    ("ViTConfig(reg_tokens=n)", "n", "0.0"),
    ("data.folder(photos('a', 'b'), 8, memory=memory)", "memory", "'4GB'"),
    ("data.folder(photos('a', 'b'), 8, validation=share)", "share", "20"),
    ("data.folder(photos('a', 'b'), 8, mirror=mirror)", "mirror", "'no'"),
    ("data.folder(photos('a', 'b'), img_size)", "img_size", "'8x8'"),
    ("Recipe(lr_by_part=parts)", "parts", "[('head', 1e-3)]"),
    ("Recipe(lr_by_part=parts)", "parts", "{11: 1e-3}"),
    ("Recipe(lr_by_part={'head': lr})", "lr", "float('nan')"),
    ("Recipe(epochs=epochs)", "epochs", "float('nan')"),
    ("Recipe(epochs=epochs)", "epochs", "'2.5'"),
    ("Recipe(weight_decay=decay)", "decay", "'0.05'"),
    ("Recipe(erase=erase)", "erase", "None"),
    ("Recipe(flip=flip)", "flip", "'no'"),
    ("fit(with_a_head_to_train(), D, Recipe(1, 2, lr_by_part={part: 1e-3}))", "part", "'blocks'", "'head'"),
    ("fit(small(num_classes=2), D, Recipe(1, 2), checkpoint=path)", "path", "3"),
    ("fit(model, D, Recipe(1, 2))", "model", "ViT", "small(num_classes=2)"),
    ("recorded(model)", "model", "None", "small()"),
    ("exported(images)", "images", "pixels", "D.normalize(pixels)"),
    ("exported(images)", "images", "torch.rand(2, 1, 9, 8)", "torch.rand(2, 1, 8, 8)"),
]
ANSWERS = "\n\n- [x] So.\n\n  Yes.\n- [ ] Not so.\n\n  No.\n"


def quiz(text: str) -> Path:
    path = FOLDER / "quiz.md"
    path.write_text(text)
    return path


def renamed(wrong: type) -> type:
    return type("Unheard", (wrong,), {"__module__": wrong.__module__})


for module in (vitnb, lora, inspection, evaluation, checkpoint, training):
    SPACE = SPACE | vars(module)
SPACE |= globals() | {"quizzes": quizzes, "_fault": _fault, "_published": _published}
REACHED: set[tuple[str, int]] = set()


def where(trace: TracebackType | None) -> set[tuple[str, int]]:
    """The lines of the package that an error went through."""
    lines = set()
    while trace:
        path = Path(trace.tb_frame.f_code.co_filename)
        if path in SOURCES:
            lines.add((str(path.relative_to(ROOT)), trace.tb_lineno))
        trace = trace.tb_next
    return lines


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(row[:3]))
def test_advice_works(row, monkeypatch):
    monkeypatch.chdir(FOLDER)
    call, name, bad, *fix = row
    space = SPACE | {name: eval(bad, SPACE)}
    if name == "means":
        space |= {"model": small(), "images": torch.randn(2, 1, 8, 8)}
    if name == "images":
        space |= {"data": D}
    with pytest.raises((ValueError, TypeError)) as caught:
        eval(call, space)
    message, error = str(caught.value), caught.value
    while error:
        REACHED.update(where(error.__traceback__))
        error = error.__cause__
    assert "\n" not in message
    if isinstance(space[name], int | float | str) and space[name] != "":
        assert repr(space[name]) in message or f"got {type(space[name]).__name__}" in message
    if fix == [ITSELF]:
        assert isinstance(eval(code(message), space | vars(weights)), ViT)
        return
    if not fix:
        space[name] = eval(code(message), space)
    elif fix != ["None"]:
        space[name] = eval(fix[0], space)
    else:
        assert "delete it" in message
        return
    try:
        eval(call, space)
    finally:
        faults.FAULTS.pop("unheard", None)


def test_the_plain_models_that_are_advised_exist():
    with torch.device("meta"):
        for text, kind in (
            (weights.TORCHVISION_ONE, torchvision.models.VisionTransformer),
            (weights.TIMM_ONE, timm.models.VisionTransformer),
        ):
            assert isinstance(eval(text, SPACE), kind)


def test_every_error_has_a_row():
    """Runs last, on what the rows reached."""
    missing = []
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and path.name not in ELSEWHERE:
                kind, place = ast.unparse(node.exc.func), str(path.relative_to(ROOT))
                lines = {(place, line) for line in range(node.lineno, node.end_lineno + 1)}
                if ("ValueError" in kind or "TypeError" in kind or kind == "kind") and not lines & REACHED:
                    missing.append(f"{place}:{node.lineno}: {ast.unparse(node.exc)[:80]}")
    if REACHED:  # nothing where this test runs alone
        assert not missing

"""vitnb.training: the loop computes what it says, stops where it must and goes on as if it had not."""

import itertools
import json
import math
import os
import signal
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from experiments import decay
from experiments._models import SMALL
from vitnb import ViT, ViTConfig, data, training
from vitnb.evaluation import evaluate, final_test, interval, looks
from vitnb.progress import _line, draw_curves
from vitnb.training import (
    Batches,
    History,
    Muon,
    Recipe,
    Training,
    decay_groups,
    fit,
    make_optimizers,
    muon_matrices,
    orthogonal,
)

TINY = ViTConfig(img_size=28, patch_size=14, embed_dim=16, depth=1, num_heads=2, dropout=0.1)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """So small a model gains nothing from a second thread, and other tests may run beside."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def digits():
    return data.load("digits").subset(160)


def vit(config: ViTConfig = TINY, seed: int = 0) -> ViT:
    torch.manual_seed(seed)
    return ViT(config)


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))


def same_weights(a: nn.Module, b: nn.Module) -> bool:
    return all(torch.equal(p, q) for p, q in zip(a.state_dict().values(), b.state_dict().values(), strict=True))


def timeless(history) -> dict:
    return {k: v for k, v in history.to_dict().items() if "second" not in k}


SIGNALS = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork, and kill() there ends a process")
DONE = History(test_accuracy=[1.0])


class Stop(Exception):
    pass


def stop_at(step: int):
    def callback(run):
        if run.step == step:
            raise Stop

    return callback


# --- learning ---


def test_sixteen_images_are_learned_by_heart():
    images = torch.rand(16, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(16) % 10
    d = data.Dataset(images, labels, images, labels, tuple("0123456789"))
    model = vit(replace(TINY, embed_dim=32, dropout=0.0))
    history = fit(model, d, Recipe(epochs=120, batch_size=16, shift=0, weight_decay=0.0))
    assert history.test_accuracy[-1] == 1.0 and history.losses[-1] < 0.05
    assert abs(history.losses[0] - math.log(10)) < 0.3


def test_digits_are_learned():
    d = data.load("digits")
    history = fit(vit(replace(TINY, patch_size=7, embed_dim=32, dropout=0.0, pos_std=1.0)), d, Recipe(12, 64))
    assert history.test_accuracy[-1] > 0.65, history.test_accuracy


def test_one_step_is_plain_pytorch(digits):
    """No augmentation, one SGD step: the same numbers as three lines of PyTorch."""
    model, copied = linear(), linear()
    recipe = Recipe(1, 160, lr=0.1, betas=(0, 0), optimizer="sgd", warmup=0, clip=None, weight_decay=0, shift=0)
    history = fit(model, digits, recipe)
    loss = F.cross_entropy(copied(digits.normalize(digits.train_images)), digits.train_labels)
    loss.backward()
    for p, q in zip(model.parameters(), copied.parameters(), strict=True):
        assert torch.allclose(p, q - 0.1 * q.grad, atol=1e-6)
    assert history.losses == [pytest.approx(loss.item(), abs=1e-5)] and history.lrs == [0.1]


def test_muon_moves_the_matrices_of_the_blocks_and_adamw_the_rest(digits):
    recipe = Recipe(1, 160, lr=0.01, optimizer="muon", warmup=0, clip=None, shift=0, flip=False)
    model, copied = vit(replace(TINY, dropout=0.0)), vit(replace(TINY, dropout=0.0))
    fit(model, digits, recipe)
    copied.train()
    F.cross_entropy(copied(digits.normalize(digits.train_images)), digits.train_labels).backward()
    names = [name for name, p in copied.named_parameters() if name.startswith("blocks.") and p.ndim == 2]
    matrices = [dict(copied.named_parameters())[name] for name in names]
    assert len(names) == 4 and all(a is b for a, b in zip(matrices, muon_matrices(copied), strict=True))
    Muon(matrices, 0.01, weight_decay=0.05).step()
    rest = [p for p in copied.parameters() if not any(p is matrix for matrix in matrices)]
    decayed = {"patch_embed.proj.weight", "head.weight"}
    groups = [
        {"params": [p for n, p in copied.named_parameters() if n in decayed], "weight_decay": 0.05},
        {"params": [p for n, p in copied.named_parameters() if n not in decayed | set(names)], "weight_decay": 0.0},
    ]
    assert sum(len(group["params"]) for group in groups) == len(rest)
    torch.optim.AdamW(groups, 0.01, (0.9, 0.99)).step()
    for (name, p), q in zip(model.named_parameters(), copied.parameters(), strict=True):
        felt = q.grad.abs() > 1e-6  # the keys' bias has no effect: its gradient is rounding, which AdamW makes large
        torch.testing.assert_close(p[felt], q[felt], atol=1e-4, rtol=0, msg=name)


def test_muon_needs_blocks(digits):
    with pytest.raises(ValueError, match="'muon' needs a model with blocks, got Sequential: use 'adamw'"):
        fit(linear(), digits, Recipe(1, 32, optimizer="muon"))


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch has its own Muon from 2.9 on")
def test_muon_is_torchs_within_bfloat16():
    torch.manual_seed(0)
    shapes = (96, 32), (32, 32), (32, 128)
    ours, theirs = ([nn.Parameter(torch.ones(shape)) for shape in shapes] for _ in range(2))
    one = Muon(ours, 0.01, weight_decay=0.1)
    other = torch.optim.Muon(theirs, 0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    for _ in range(4):
        for p, q in zip(ours, theirs, strict=True):
            p.grad = q.grad = torch.randn(p.shape)
        one.step()
        other.step()
    for p, q in zip(ours, theirs, strict=True):
        moved = (p - 1).norm()
        assert 0.05 < moved and (p - q).norm() < 0.05 * moved


@pytest.mark.parametrize("shape", [(8, 40), (40, 8), (24, 24)])
def test_orthogonal_keeps_directions_and_evens_out_their_lengths(shape):
    torch.manual_seed(0)
    u, s, v = torch.linalg.svd(torch.randn(shape), full_matrices=False)
    s = torch.linspace(0.05, 20, len(s))
    found = u.T @ orthogonal(u * s @ v) @ v.T  # diagonal: no direction has turned
    lengths = found.diag()
    assert (found - lengths.diag()).abs().max() < 1e-3 and 0.3 < lengths[0] and 0.6 < lengths[1:].min()
    assert lengths.max() < 1.3


def test_muon_passes_over_what_has_no_gradient():
    still, moved = nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2, 2))
    moved.grad = torch.eye(2)
    assert Muon([still, moved], 0.1).step(lambda: 7.0) == 7.0  # as every optimizer, it may be given the loss
    assert torch.equal(still, torch.ones(2, 2)) and not torch.equal(moved, still)


def test_clipping_bounds_the_gradient(digits):
    model, start = linear(), linear()
    recipe = Recipe(1, 160, lr=1.0, betas=(0, 0), optimizer="sgd", warmup=0, clip=0.01, weight_decay=0)
    fit(model, digits, recipe)
    moved = [(p - q).detach().flatten() for p, q in zip(model.parameters(), start.parameters(), strict=True)]
    assert torch.cat(moved).norm() == pytest.approx(0.01, rel=1e-3)


def test_each_epoch_sees_each_image_once_but_for_the_last_incomplete_batch():
    labels = torch.arange(50) % 10
    images = torch.arange(50.0).view(50, 1, 1, 1).expand(50, 1, 2, 2) / 50
    d = data.Dataset(images, labels, images[:0], labels[:0], tuple("0123456789"), mean=(0.0,), std=(1.0,))
    seen = []

    class Spy(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(4, 10)

        def forward(self, x):
            seen.append((x[:, 0, 0, 0] * 50).round().long())
            return self.head(x.flatten(1))

    history = fit(Spy(), d, Recipe(epochs=3, batch_size=16, shift=0))
    epochs = [torch.cat(seen[i : i + 3]) for i in (0, 3, 6)]
    assert len(seen) == 9 and all(len(e) == len(e.unique()) == 48 for e in epochs)
    assert not torch.equal(epochs[0], epochs[1])
    assert history.images == 144 and history.test_accuracy == []


def test_digits_are_never_mirrored_and_clothes_are(digits):
    d = replace(digits, train_images=digits.train_images.clone())
    d.train_images[..., :14] = 0  # all light on the right
    for mirror, expected in ((False, {False}), (True, {False, True})):
        images, _ = Batches(replace(d, mirror=mirror), Recipe(batch_size=160, shift=0)).draw(0)
        left = images[..., :14].mean((1, 2, 3)) > images[..., 14:].mean((1, 2, 3))
        assert set(left.tolist()) == expected


def test_history_says_what_happened(digits):
    model = vit(replace(TINY, dropout=0.0))
    history = fit(model, digits, Recipe(epochs=3, batch_size=32, shift=0))
    assert len(history.losses) == len(history.lrs) == 15
    assert len(history.train_loss) == len(history.test_accuracy) == len(history.test_loss) == 3
    assert history.train_loss[1] == pytest.approx(sum(history.losses[5:10]) / 5)
    last = evaluate(model, digits.normalize(digits.test_images), digits.test_labels)
    assert (history.test_accuracy[-1], history.test_loss[-1]) == (last.accuracy, last.loss)
    assert history.seconds > 0 and history.cpu_seconds > 0 and history.images == 480
    assert history.images_per_second == history.images / history.seconds
    json.dumps(history.to_dict(), allow_nan=False)


def test_train_accuracy_is_counted_epoch_by_epoch(digits):
    model = linear()
    recipe = Recipe(epochs=3, batch_size=32, lr=1e-30, optimizer="sgd", shift=0)  # a model that stands still
    history = fit(model, digits, recipe)
    still = evaluate(model, digits.normalize(digits.train_images), digits.train_labels).accuracy
    assert history.train_accuracy == [pytest.approx(still)] * 3


def test_the_seed_decides(digits):
    recipe = Recipe(epochs=1, batch_size=32)
    runs = []
    for seed, noise in ((0, 1), (0, 2), (1, 1)):
        model = vit()
        torch.manual_seed(noise)
        runs.append(fit(model, digits, replace(recipe, seed=seed)).losses)
    assert runs[0] == runs[1] and runs[0] != runs[2]


def test_the_callers_random_numbers_and_threads_are_left_alone(digits):
    model, threads = vit(), torch.get_num_threads()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fit(model, digits, Recipe(epochs=1, batch_size=32))
    assert torch.equal(torch.rand(3), expected) and torch.get_num_threads() == threads
    assert not model.training


# --- schedule and groups ---


def test_schedule():
    r = Recipe(lr=1.0, warmup=0.1)
    lrs = [r.lr_at(step, 100) for step in range(100)]
    assert lrs[:10] == pytest.approx([0.1 * k for k in range(1, 11)])
    assert lrs[10] == 1.0 and lrs[55] == pytest.approx(0.5) and 0 < lrs[99] < 1e-3
    assert all(a > b for a, b in zip(lrs[10:], lrs[11:], strict=False))
    assert {replace(r, schedule="constant").lr_at(step, 100) for step in range(10, 100)} == {1.0}
    assert replace(r, warmup=0.0).lr_at(0, 100) == 1.0
    assert Recipe().lr_at(0, 1) > 0


@pytest.mark.parametrize("epochs, steps", [(2.5, 12), (0.4, 2), (0.01, 1), (3, 15)])
def test_the_last_epoch_may_be_a_part(digits, tmp_path, epochs, steps):
    recipe, path = Recipe(epochs=epochs, batch_size=len(digits.train_labels) // 5), tmp_path / "run.pt"
    whole = vit()
    history = fit(whole, digits, recipe)
    assert len(history.losses) == steps and len(history.test_accuracy) == math.ceil(epochs) == len(history.train_loss)
    last = (steps - 1) % 5 + 1
    assert history.train_loss[-1] == pytest.approx(sum(history.losses[-last:]) / last)
    assert 0 <= history.train_accuracy[-1] <= 1 and len(history.lrs) == steps
    with pytest.raises(Stop):
        fit(vit(), digits, recipe, [stop_at(max(1, steps - 1))], path, save_every=0)
    parted = vit(seed=7)
    fit(parted, digits, recipe, checkpoint=path)
    assert same_weights(whole, parted) and Recipe(epochs=2.0).epochs == 2 and repr(Recipe(epochs=2.0).epochs) == "2"


def test_only_matrices_decay():
    model = vit(replace(TINY, patch_size=7))
    decayed, rest = decay_groups(model, 0.05)
    assert (decayed["weight_decay"], rest["weight_decay"]) == (0.05, 0.0)
    names = {id(p): n for n, p in model.named_parameters()}
    decayed = {names[id(p)] for p in decayed["params"]}
    rest = {names[id(p)] for p in rest["params"]}
    assert decayed | rest == set(names.values()) and not decayed & rest
    assert {"patch_embed.proj.weight", "head.weight"} <= decayed and all(n.endswith("weight") for n in decayed)
    assert {"positions.table", "pool.token", "head.bias"} <= rest
    assert not any("norm" in n for n in decayed)


def test_each_part_has_its_learning_rate_and_what_is_frozen_stays(digits):
    model, before = vit(), vit()
    model.patch_embed.requires_grad_(False)
    recipe = Recipe(1, 160, lr=1e-4, lr_by_part={"head": 1e-2, "blocks": 1e-3, "blocks.0.mlp": 1e-5}, weight_decay=0)
    groups = make_optimizers(model, recipe)[0].param_groups
    fit(model, digits, recipe)
    names = {parameter: name for name, parameter in model.named_parameters()}
    scales = {names[p]: g["lr_scale"] * recipe.lr for g in groups for p in g["params"]}
    assert scales["head.bias"] == pytest.approx(1e-2) and scales["positions.table"] == pytest.approx(1e-4)
    assert scales["blocks.0.norm1.weight"] == pytest.approx(1e-3)
    assert not any(name.startswith("patch_embed") for name in scales)
    moved = {}
    for (name, old), new in zip(before.named_parameters(), model.parameters(), strict=True):
        moved.setdefault(name.split(".")[0], []).append((new - old).abs().max().item())
    assert max(moved["patch_embed"]) == 0 < max(moved["positions"]) < max(moved["blocks"]) < max(moved["head"])


def test_without_test_images_the_final_test_says_what_it_needs(digits):
    none = replace(digits, test_images=digits.test_images[:0], test_labels=digits.test_labels[:0])
    with pytest.raises(ValueError, match="at least 1, got 0 and 0"):
        final_test(vit(), none)


@pytest.mark.parametrize(
    "parts, word", [({"tail": 1e-3}, "'tail'.*'blocks', 'head'"), ({"patch_embed": 1e-3}, "nothing is trained")]
)
def test_a_learning_rate_for_nothing_is_refused(digits, parts, word):
    model = vit()
    model.patch_embed.requires_grad_(False)
    with pytest.raises(ValueError, match=word):
        fit(model, digits, Recipe(1, 160, lr_by_part=parts))
    for wrong in (dict(lr_by_part={"head": 0}), dict(lr_by_part={"head": 1e-3}, optimizer="muon")):
        with pytest.raises(ValueError, match="lr_by_part"):
            Recipe(**wrong)


def test_decay_shrinks_what_has_no_gradient(digits):
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.matrix, self.vector = linear(), nn.Parameter(torch.ones(2, 2)), nn.Parameter(torch.ones(2))

        def forward(self, x):
            return self.net(x) + 0 * (self.matrix.sum() + self.vector.sum())

    model = Idle()
    fit(model, digits, Recipe(1, 160, lr=0.1, warmup=0, weight_decay=0.5))
    assert torch.allclose(model.matrix, torch.tensor(0.95)) and torch.equal(model.vector.detach(), torch.ones(2))


def test_each_arm_of_the_experiment_on_decay_reaches_the_optimizer(digits, monkeypatch):
    """It replaces decay_groups where make_optimizers looks it up: elsewhere all arms would be one."""
    taken = []

    def fit(model, data, recipe, **_):
        taken.append(make_optimizers(model, recipe))
        return DONE

    monkeypatch.setattr(decay, "fit", fit)
    decayed = {}
    for arm in decay.THIS.arms:
        decay.one(digits, arm, 0)
        groups = taken[-1][0].param_groups
        decayed[arm] = [(len(g["params"]), g["weight_decay"]) for g in groups if g["weight_decay"]]
    every = len(list(ViT(SMALL).parameters()))
    assert decayed["everything"] == [(every, 0.05)] and decayed["nothing"] == []
    assert decayed["matrices"][0][0] < every


# --- stopping and going on ---


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("step", [1, 5, 7, 14])  # the first, an epoch's end, the middle, one before the last
def test_resume_is_bit_for_bit_with_dropout(digits, tmp_path, step, optimizer):
    recipe = Recipe(epochs=3, batch_size=32, flip=True, shift=2, erase=0.25, optimizer=optimizer)
    path = tmp_path / "run.pt"
    whole = vit()
    expected = fit(whole, digits, recipe)
    with pytest.raises(Stop):
        fit(vit(), digits, recipe, [stop_at(step)], path, save_every=0)
    torch.manual_seed(99)
    parted = vit(seed=7)
    assert timeless(fit(parted, digits, recipe, checkpoint=path)) == timeless(expected)
    assert same_weights(whole, parted)


def test_bfloat16_on_a_cpu_is_the_recipes_choice_and_resumes_bit_for_bit(digits, tmp_path):
    recipe, path, dtypes = Recipe(epochs=1, batch_size=32, autocast="cpu"), tmp_path / "run.pt", set()
    whole, plain, parted = vit(), vit(), vit(seed=7)
    whole.head.register_forward_hook(lambda module, inputs, logits: dtypes.add(logits.dtype))
    expected = fit(whole, digits, recipe)
    assert dtypes == {torch.bfloat16, torch.float32}  # in training; in the test of an epoch
    assert fit(plain, digits, replace(recipe, autocast=True)).losses != expected.losses
    with pytest.raises(Stop):
        fit(vit(), digits, recipe, [stop_at(3)], path, save_every=0)
    with pytest.raises(ValueError, match="recipe.autocast"):
        fit(vit(), digits, replace(recipe, autocast=True), checkpoint=path)
    assert timeless(fit(parted, digits, recipe, checkpoint=path)) == timeless(expected)
    assert same_weights(whole, parted)


def test_dropout_matters_in_that_test(digits):
    recipe = Recipe(epochs=1, batch_size=32)
    assert fit(vit(), digits, recipe).losses != fit(vit(replace(TINY, dropout=0.0)), digits, recipe).losses


def test_a_finished_run_returns_at_once(digits, tmp_path):
    recipe, path, steps = Recipe(epochs=2, batch_size=32), tmp_path / "run.pt", []
    first = fit(vit(), digits, recipe, checkpoint=path)
    model = vit(seed=3)
    again = fit(model, digits, recipe, [lambda run: steps.append(run.step)], path)
    assert again == first and steps == [10]
    assert evaluate(model, digits.normalize(digits.test_images), digits.test_labels).accuracy == first.test_accuracy[-1]


def test_a_checkpoint_of_another_run_is_refused(digits, tmp_path):
    recipe, path = Recipe(epochs=1, batch_size=32), tmp_path / "run.pt"
    fit(vit(), digits, recipe, checkpoint=path)
    with pytest.raises(ValueError, match="recipe.epochs is 1 there and 2 here: delete it"):
        fit(vit(), digits, replace(recipe, epochs=2), checkpoint=path)
    with pytest.raises(ValueError, match="the model's config"):
        fit(vit(replace(TINY, num_heads=4)), digits, recipe, checkpoint=path)
    with pytest.raises(ValueError, match="training set's MD5 sum"):
        fit(vit(), data.load("digits").subset(160, seed=1), recipe, checkpoint=path)


@pytest.mark.parametrize("content", [b"", b"hello", None])
def test_a_damaged_checkpoint_is_refused(digits, tmp_path, content):
    recipe, path = Recipe(epochs=1, batch_size=32), tmp_path / "run.pt"
    fit(vit(), digits, recipe, checkpoint=path)
    path.write_bytes(path.read_bytes()[:-2000] if content is None else content)
    with pytest.raises(ValueError, match="damaged or no checkpoint"):
        fit(vit(), digits, recipe, checkpoint=path)


def test_a_failed_write_keeps_the_old_checkpoint(digits, tmp_path, monkeypatch):
    recipe, path = Recipe(epochs=2, batch_size=32), tmp_path / "run.pt"
    expected = vit()
    fit(expected, digits, recipe)
    with pytest.raises(Stop):
        fit(vit(), digits, recipe, [stop_at(3)], path, save_every=0)

    def full(state, file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as m, pytest.raises(OSError, match="No space"):
        m.setattr(torch, "save", full)
        fit(vit(), digits, recipe, checkpoint=path, save_every=0)
    model = vit()
    fit(model, digits, recipe, checkpoint=path)
    assert same_weights(model, expected)


@SIGNALS
def test_ctrl_c_finishes_the_step_saves_and_says_where(digits, tmp_path, capsys):
    recipe, path = Recipe(epochs=2, batch_size=32), tmp_path / "run.pt"
    whole = vit()
    fit(whole, digits, recipe)
    before = signal.getsignal(signal.SIGINT)

    def press(run):
        if run.step == 7:
            os.kill(os.getpid(), signal.SIGINT)  # while a callback runs: the step is not saved yet

    with pytest.raises(KeyboardInterrupt):
        fit(vit(), digits, recipe, [press], path)
    assert signal.getsignal(signal.SIGINT) is before
    out = capsys.readouterr().out
    assert "Interrupted after step" in out and str(path) in out
    assert torch.load(path, weights_only=True)["step"] == 7
    parted = vit()
    fit(parted, digits, recipe, checkpoint=path)
    assert same_weights(whole, parted)


def dies(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def at_call(n: int, then: Callable, instead_of: Callable) -> Callable:
    """A function that does as this one does, until the n-th call, which does something else."""
    calls = itertools.count(1)
    return lambda *given, **more: (then if next(calls) == n else instead_of)(*given, **more)


def dies_with_half_a_file(state, file):
    file.write(b"half")
    file.flush()
    dies()


def dies_after_replacing(part, path, replace=os.replace):
    replace(part, path)
    dies()


# Where a run is killed: what is patched there, and what it does at its third call.
PLACES = {
    "in a step": (ViT, "forward", dies),
    "while it writes a checkpoint": (torch, "save", dies_with_half_a_file),
    "when the checkpoint is written": (os, "replace", dies),
    "when the checkpoint has its place": (os, "replace", dies_after_replacing),
    "while it tests": (training, "evaluate_held_out", dies),
}


def killed(place: str, digits: data.Dataset, recipe: Recipe, path: Path) -> None:
    """In a process of its own."""
    owner, name, then = PLACES[place]
    setattr(owner, name, at_call(1 if name == "evaluate_held_out" else 3, then, getattr(owner, name)))
    fit(vit(), digits, recipe, checkpoint=path, save_every=0)


@SIGNALS
def test_killed_at_any_place_it_ends_with_the_same_weights(digits, tmp_path):
    """Each time another process goes on, from where the one before was killed."""
    recipe, path, starts = Recipe(epochs=3, batch_size=16, seed=3), tmp_path / "run.pt", []
    for place in PLACES:
        process = get_context("fork").Process(target=killed, args=(place, digits, recipe, path))
        process.start(), process.join(60)
        assert process.exitcode == -signal.SIGKILL, place
        starts.append(torch.load(path, weights_only=True)["step"])
    assert starts == [2, 4, 6, 9, 9], "it went on, it did not begin again"
    whole, parted = vit(), vit()
    fit(whole, digits, recipe)
    fit(parted, digits, recipe, [lambda run: starts.append(run.step)], path)
    assert starts[5:] == list(range(10, 31)) and same_weights(whole, parted)


def test_a_state_makes_a_history_again(digits):
    run = Training(linear(), digits, Recipe(1, 32))
    run.train_step()
    other = Training(linear(), digits, Recipe(1, 32))
    other.load_state_dict(run.state_dict())
    assert other.history == run.history and other.step == 1


# --- what must not go on ---


def test_nan_loss_stops_and_names_the_step(digits, tmp_path):
    class Breaks(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.calls = linear(), 0

        def forward(self, x):
            self.calls += self.training
            return self.net(x) * (float("nan") if self.calls == 7 else 1.0)

    path = tmp_path / "run.pt"
    with pytest.raises(FloatingPointError, match=r"nan at step 7 of 50 .*try lr=0\.001"):
        fit(Breaks(), digits, Recipe(epochs=10, batch_size=32), checkpoint=path)
    saved = torch.load(path, weights_only=True)
    assert saved["step"] == 5 and all(v.isfinite().all() for v in saved["model"].values())


def test_a_wild_learning_rate_stops(digits):
    recipe = Recipe(epochs=20, batch_size=32, lr=1e30, optimizer="sgd", clip=None)
    with pytest.raises(FloatingPointError, match="at step"):
        fit(vit(), digits, recipe)


# --- evaluate ---


def test_evaluate_counts(digits):
    model = vit()
    model.train()
    images, labels = digits.normalize(digits.test_images), digits.test_labels
    result = evaluate(model, images, labels, batch_size=100)
    assert model.training, "evaluate puts the mode back"
    model.eval()
    with torch.no_grad():
        logits = model(images)
    assert torch.allclose(result.logits, logits, atol=1e-5)
    assert result.accuracy == pytest.approx((logits.argmax(1) == labels).float().mean().item())
    assert result.loss == pytest.approx(F.cross_entropy(logits, labels).item(), abs=1e-5)
    assert torch.allclose(result.probabilities.sum(1), torch.ones(297))
    c = result.confusion
    assert c.shape == (10, 10) and c.diag().sum() == (result.predictions == labels).sum()
    assert torch.equal(c.sum(1), labels.bincount(minlength=10))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_the_gpu_learns_and_resumes(digits, tmp_path):
    recipe, path = Recipe(epochs=4, batch_size=32), tmp_path / "run.pt"
    whole = fit(vit().cuda(), digits, recipe)
    with pytest.raises(Stop):
        fit(vit().cuda(), digits, recipe, [stop_at(7)], path, save_every=0)
    parted = fit(vit().cuda(), digits, recipe, checkpoint=path)
    assert whole.losses[-1] < whole.losses[0] and parted.losses == pytest.approx(whole.losses, rel=0.05)


def test_a_validation_set_is_held_out_of_the_training_images(digits):
    d = replace(digits, train_images=digits.train_images.clone())
    d.train_images[:, 0, 0, 0] = torch.arange(len(d.train_images))  # a name for each
    split = d.hold_out(40, seed=3)
    names = [set(part[:, 0, 0, 0].tolist()) for part in (split.train_images, split.test_images)]
    assert len(names[1]) == 40 and not names[0] & names[1] and len(names[0] | names[1]) == len(d.train_images)
    assert torch.equal(split.test_labels, d.train_labels[split.test_images[:, 0, 0, 0].long()])
    assert torch.equal(d.hold_out(40, seed=3).test_images, split.test_images)
    assert not torch.equal(d.hold_out(40, seed=4).test_images, split.test_images)
    assert (d.held_out, split.held_out, split.subset(20).held_out) == ("test", "validation", "validation")
    for n in (0, len(d.train_images), 2.0):
        with pytest.raises(ValueError, match=f"n is {n}: use a whole number from 1 to {len(d.train_images) - 1}"):
            d.hold_out(n)


def test_the_test_images_are_looked_at_once(digits):
    chosen = linear()
    fit(chosen, digits.hold_out(40), Recipe(epochs=2, batch_size=32, shift=0))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        first = final_test(chosen, digits)
    assert not said and looks(chosen) == 1
    assert first.accuracy == evaluate(chosen, digits.normalize(digits.test_images), digits.test_labels).accuracy
    with pytest.warns(UserWarning, match=r"^look 2 at the test images .* data\.hold_out\(\)"):
        final_test(chosen, digits)
    watched = linear()
    fit(watched, digits, Recipe(epochs=2, batch_size=32, shift=0))  # judged by the test images after each epoch
    with pytest.warns(UserWarning, match="^look 3 "):
        final_test(watched, digits)


def test_a_final_test_wants_the_test_images(digits):
    with pytest.raises(ValueError, match=r"data\.held_out is 'validation': use data\.load\(\)"):
        final_test(linear(), digits.hold_out(40))
    with pytest.raises(TypeError, match=r"data must be a vitnb\.data\.Dataset, got list"):
        final_test(linear(), [])


def test_the_curve_shows_the_held_out_loss_and_names_it(digits):
    run = Training(linear(), digits.hold_out(40), Recipe(epochs=2, batch_size=32, shift=0))
    while not run.finished:
        run.train_step()
    shown = draw_curves(run)
    assert shown == draw_curves(run)
    run._history.test_loss[0] += 1
    assert draw_curves(run) != shown
    assert "validation accuracy" in _line(run) and "test" not in _line(run)


def test_an_interval_covers_the_true_mean_as_often_as_it_says():
    """Of five normal numbers each time, which is where Student's t and the normal distribution differ."""
    runs = torch.randn(20_000, 5, generator=torch.Generator().manual_seed(0)) + 3
    for share in (0.5, 0.95):
        mean, reach = interval(runs, share)
        assert abs(((mean - 3).abs() <= reach).float().mean() - share) < 0.01
    assert interval([1, 2, 3])[0] == 2
    for few in ([1.0], 1.0, torch.zeros(3, 1)):
        with pytest.raises(ValueError, match="use at least 2"):
            interval(few)


# ---- Images on the device, or batch by batch


def of_bytes(train: int, test: int) -> data.Dataset:
    """Images that together have this number of bytes."""
    images = [torch.zeros(n // 64, 1, 8, 8, dtype=torch.uint8) for n in (train, test)]
    return data.Dataset(images[0], torch.zeros(train // 64).long(), images[1], torch.zeros(test // 64).long(), ("a",))


@pytest.mark.parametrize("train, test, fits", [(640, 320, True), (640, 384, False), (384, 640, False), (64, 64, True)])
def test_the_images_leave_half_of_a_gpus_free_memory(monkeypatch, train, test, fits):
    asked = []
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: asked.append(device) or (2048, 1 << 40))
    assert training._fits(of_bytes(train, test), torch.device("cuda", 1)) is fits
    assert asked == [torch.device("cuda", 1)]  # of two GPUs that of the model
    assert training._fits(of_bytes(1 << 20, 64), torch.device("cpu")) and len(asked) == 1


@pytest.mark.parametrize("fits", [True, False])
def test_images_that_do_not_fit_stay_where_they_are(monkeypatch, digits, fits):
    moved = []
    monkeypatch.setattr(data.Dataset, "to", lambda self, device: moved.append(device) or self)
    monkeypatch.setattr(training, "_fits", lambda *_: fits)
    run = Training(vit().to("meta"), digits, Recipe(1, 32))
    assert moved == [torch.device("meta")] * fits and run.data is digits

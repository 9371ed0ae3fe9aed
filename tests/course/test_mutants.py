"""experiments/mutants.py: its loop is the book's, faults of training stand in it, its result holds what was planned."""

from dataclasses import replace
from functools import cache

import pytest
import torch

from experiments import _page, friend, mutants
from vitbook import faults
from vitbook.figures._train_data import CONFIGS, dataset
from vitbook.results import result
from vitnb import ViT
from vitnb.evaluation import evaluate
from vitnb.training import Recipe, fit

CONFIG = replace(CONFIGS["digits"], embed_dim=16, num_heads=2)
RECIPE = Recipe(epochs=10, batch_size=20, flip=False, shift=0)
IN_TRAINING = [name for name, fault in faults.FAULTS.items() if fault.replaces in mutants.IN_TRAINING]


def few(images):
    data = dataset("digits")
    return replace(data, train_images=data.train_images[:images], train_labels=data.train_labels[:images])


@cache
def trained(name, images=60):
    """The logits that a model with this fault gives a few test images after its training on `images` images."""
    torch.manual_seed(0)
    model = _page.build(name, CONFIG)
    _page.learn(model, name, few(images), RECIPE)
    return logits(model)


def logits(model):
    data = few(1)
    return evaluate(model, data.normalize(data.test_images[:20]), data.test_labels[:20]).logits


def test_the_loop_is_that_of_the_book():
    torch.manual_seed(0)
    model = ViT(CONFIG)
    fit(model, few(20), RECIPE)  # one batch an epoch, so that no order can matter
    assert torch.allclose(trained("right", 20), logits(model), atol=1e-4)


@pytest.mark.parametrize("name", IN_TRAINING)
def test_a_fault_of_training_is_in_the_loop(name):
    right, wrong = trained("right"), trained(name)
    assert wrong.isfinite().all() and (right - wrong).abs().max() > 1e-5


def test_what_is_left_out_is_no_fault_here_or_cannot_be_tested():
    images = dataset("digits").normalize(dataset("digits").test_images[:5])
    given = {}
    for name in ("right", *mutants.LEFT_OUT[:3]):
        torch.manual_seed(0)
        given[name] = _page.build(name, CONFIG)(images)
        assert torch.equal(given[name], given["right"])
    with pytest.raises(RuntimeError, match="must match"):
        _page.build("for each image", CONFIG)(images)


def test_a_loss_that_is_nan_counts_as_guessing(monkeypatch):
    monkeypatch.setattr(_page, "learn", lambda *_: float("nan"))
    assert _page.one(few(20), "right", CONFIG, RECIPE) == 0.1


def test_a_second_start_goes_on(monkeypatch, tmp_path):
    monkeypatch.setenv("VITNB_CHECKPOINTS", str(tmp_path))
    monkeypatch.setattr(mutants, "PLANS", {"digits, std 1": ("digits", {"pos_std": 1.0}, ("undivided", "zeros"))})
    asked = []

    def one(data, name, config, recipe):
        assert config == replace(CONFIGS["digits"], pos_std=1.0)
        if name == "zeros" and len(asked) < 12:
            asked.append(None)
            raise KeyboardInterrupt
        asked.append((name, recipe.seed))
        return recipe.seed / 10

    monkeypatch.setattr(_page, "one", one)
    with pytest.raises(KeyboardInterrupt):
        mutants.run()
    assert asked == [(name, seed) for name in ("right", "undivided") for seed in mutants.THIS.seeds] + [None]
    asked.append(None)
    accuracies = [seed / 10 for seed in mutants.THIS.seeds]
    expected = {name: accuracies for name in ("right", "undivided", "zeros")}
    assert mutants.run() == {"results": {"digits, std 1": expected}}
    assert asked[12:] == [("zeros", seed) for seed in mutants.THIS.seeds]


def test_the_result_holds_what_was_planned():
    found = result("mutants")["result"]["results"]
    assert {plan: list(runs) for plan, runs in found.items()} == {
        plan: ["right", *names] for plan, (_, _, names) in mutants.PLANS.items()
    }
    for runs in found.values():
        assert all(
            len(of_one) == len(mutants.THIS.seeds) and 0 <= min(of_one) <= max(of_one) <= 1 for of_one in runs.values()
        )


def test_the_result_is_what_its_script_measures():
    """One of its runs, made again: to two points, because machines round differently."""
    torch.manual_seed(0)
    data, recipe = dataset("digits"), replace(_page.RECIPES["digits"], seed=0)
    model = _page.build("split by view", CONFIGS["digits"])
    _page.learn(model, "split by view", data, recipe)
    again = evaluate(model, data.normalize(data.test_images), data.test_labels).accuracy
    assert abs(again - result("mutants")["result"]["results"]["digits"]["split by view"][0]) < 0.02


@pytest.mark.parametrize("name", ["right", "split by view", "merged by reshape", "growing with each image"])
def test_twenty_seeds_begin_with_the_five(name):
    """One of the 500 images may fall on the other side where a machine rounds otherwise."""
    twenty = result("twenty_seeds")["result"] | {"growing with each image": result("friend")["result"]["friend"]}
    five = result("mutants")["result"]["results"]["digits"][name]
    assert len(twenty[name]) == 20
    assert all(abs(a - b) < 0.0021 for a, b in zip(twenty[name], five, strict=False))


def test_a_table_that_counts_more_often_is_a_right_model_with_a_larger_table():
    torch.manual_seed(0)
    model = friend.build("right", CONFIG, friend.TIMES)
    plain = ViT(CONFIG)
    plain.load_state_dict(model.state_dict())
    images = few(1).normalize(few(1).test_images[:5])
    assert not torch.allclose(plain(images), model(images), atol=1e-3)
    plain.positions.table.data *= friend.TIMES
    assert torch.allclose(plain(images), model(images), atol=1e-5)

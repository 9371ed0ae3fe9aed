"""vitbook.faults: every wrong version runs, is wrong, and is seen by the tests that it names, in a model of its own."""

from dataclasses import replace

import pytest
import torch

from vitbook import faults
from vitbook.exercises.chapter_12 import IN_A_MODEL
from vitnb import MultiHeadAttention, PreNormBlock, ViT, ViTConfig
from vitnb._validate import pair

CONFIG = ViTConfig(img_size=(12, 20), patch_size=4, in_chans=2, num_classes=7, embed_dim=24, depth=2, num_heads=3)


@pytest.mark.parametrize("test", faults.TESTS)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm": "post"},
        {"global_pool": "mean"},
        {"global_pool": "attn"},
        {"pos_embed": "sincos"},
        {"pos_embed": "none"},
        {"qkv_bias": False},
        {"img_size": 28, "in_chans": 1, "embed_dim": 64, "num_heads": 4},
        {"in_chans": 3, "norm": "post", "global_pool": "attn", "pos_embed": "none", "qkv_bias": False},
        {"img_size": (16, 32), "stem": "conv", "dropout": 0.5, "attn_dropout": 0.5},
        {"depth": 12, "embed_dim": 96, "norm_eps": 1e-5, "num_classes": 1000},
    ],
)
def test_a_right_model_passes_the_six_tests(test, changes):
    if (test, changes.get("stem")) == ("cut", "conv"):
        with pytest.raises(ValueError, match="cuts no patches"):
            faults.TESTS[test](ViT(replace(CONFIG, **changes)))
    else:
        assert faults.TESTS[test](ViT(replace(CONFIG, **changes)))


@torch.no_grad()
def test_a_trained_model_passes_them_and_is_not_changed_by_them():
    model = ViT(CONFIG)
    for parameter in model.parameters():
        parameter += 0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(0))
    before = {name: x.clone() for name, x in model.state_dict().items()}
    assert all(test(model) for test in faults.TESTS.values())
    assert all(torch.equal(before[name], x) for name, x in model.state_dict().items())
    assert model.training and all(parameter.grad is None for parameter in model.parameters())


def test_a_gradient_that_is_not_a_number_does_not_count():
    model = ViT(CONFIG)
    model.head.register_forward_hook(lambda head, x, logits: logits * float("nan"))
    assert not faults.TESTS["count"](model)


@pytest.mark.parametrize("name", IN_A_MODEL)
def test_each_fault_is_seen_by_the_tests_that_it_names(name):
    model = faults.build(name, CONFIG)
    assert {test for test, passes in faults.TESTS.items() if not passes(model)} == faults.FAULTS[name].seen_by


@pytest.mark.parametrize("changes", [{"norm": "post"}, {"global_pool": "mean"}, {"pos_embed": "none"}])
@pytest.mark.parametrize("name", ["eps after the root", "without eps", "foreign blocks", "forgotten block"])
def test_what_hides_well_is_seen_in_other_models_too(name, changes):
    model = faults.build(name, replace(CONFIG, **changes))
    assert [test for test, passes in faults.TESTS.items() if not passes(model)] == [*faults.FAULTS[name].seen_by]


@pytest.mark.parametrize("name", IN_A_MODEL)
def test_a_model_with_a_fault_gives_logits_and_has_its_dropout_still(name):
    """A wrong version differs from the right one in a single place."""
    model, dropped = faults.build(name, replace(CONFIG, dropout=0.5)).train(), []
    model.drop.register_forward_hook(lambda *_: dropped.append(True))
    assert model(torch.randn(3, 2, 12, 20)).shape == (3, 7)
    assert dropped == [True]


@pytest.mark.parametrize(
    "name", [n for n in IN_A_MODEL if faults.FAULTS[n].replaces in (MultiHeadAttention, PreNormBlock)]
)
def test_all_but_the_fault_is_as_in_the_right_model(name):
    torch.manual_seed(0)
    right = ViT(CONFIG).state_dict()
    torch.manual_seed(0)
    wrong = faults.build(name, CONFIG).state_dict()
    assert right.keys() == wrong.keys()
    assert all(torch.equal(right[key], wrong[key]) for key in right)


@pytest.mark.parametrize("name", [n for n in IN_A_MODEL if faults.FAULTS[n].replaces is ViT])
def test_the_intermediates_of_a_wrong_model_are_its_own(name):
    model, images = faults.build(name, CONFIG).eval(), torch.randn(3, 2, 12, 20)
    torch.manual_seed(0)
    features = model.forward_features(images)
    torch.manual_seed(0)  # for positions made anew at every call
    seen = model.forward_intermediates(images)
    assert torch.equal(seen["features"], features)
    assert torch.equal(seen["logits"], model.forward_head(features))
    assert ("block_2" in seen) == (name != "forgotten block")


def test_no_fault_of_a_model_gets_past_all_six_and_one_that_no_model_can_have_names_none():
    for name, fault in faults.FAULTS.items():
        assert fault.seen_by if name in IN_A_MODEL else fault.seen_by is None, name


SAME = [name for name, fault in faults.FAULTS.items() if fault.effect == "same function"]
FORMS = [CONFIG, ViTConfig(img_size=8, patch_size=2, embed_dim=32, depth=2, num_heads=4)]


@torch.no_grad()
def perturbed(model, dtype):
    """With gains, biases, positions and tokens away from 1 and 0, where nothing hides."""
    model, generator = model.to(dtype).eval(), torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        parameter += 0.3 * torch.randn(parameter.shape, generator=generator).to(dtype)
    return model


@torch.no_grad()
def apart(a, b, dtype):
    """The largest difference of two models' logits, in standard deviations of the logits."""
    size = 5, a.config.in_chans, *pair("img_size", a.config.img_size)
    images = torch.randn(size, dtype=dtype, generator=torch.Generator().manual_seed(1))  # (B, C, H, W)
    return ((a(images) - b(images)).abs().max() / b(images).std()).item()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("config", FORMS)
@pytest.mark.parametrize("name", SAME)
def test_what_changes_no_function_can_be_rewritten_both_ways(name, config, dtype):
    near = 1e-10 if dtype == torch.float64 and name != "unbiased variance" else 5e-6  # that one divides the eps, too
    right, wrong = perturbed(ViT(config), dtype), perturbed(faults.build(name, config), dtype)
    assert apart(faults.to_wrong(name, right), right, dtype) < near
    assert apart(faults.to_right(name, wrong), wrong, dtype) < near


@pytest.mark.parametrize("name", SAME)
def test_and_it_is_the_fault_that_is_rewritten(name):
    """The two models are of two classes or have other weights, and the same weights give other logits."""
    wrong, right = perturbed(faults.build(name, CONFIG), torch.float64), perturbed(ViT(CONFIG), torch.float64)
    found = right.load_state_dict(wrong.state_dict(), strict=False)
    assert found.missing_keys or found.unexpected_keys or apart(right, wrong, torch.float64) > 1e-3


def test_a_rewriting_leaves_the_model_that_it_was_given():
    right = perturbed(ViT(CONFIG), torch.float64).train()
    before = {name: value.clone() for name, value in right.state_dict().items()}
    for name in SAME:
        assert faults.to_wrong(name, right).training
    assert all(torch.equal(before[name], value) for name, value in right.state_dict().items())


def test_each_fault_has_its_effect():
    """Those that leave a model fewer functions, or none of its own, are not the same: nothing rewrites them."""
    effects = {name: fault.effect for name, fault in faults.FAULTS.items()}
    assert {effects[name] for name in IN_A_MODEL} == {"same function", "other function"}
    assert {name for name in effects if effects[name] == "other recipe"} == set(
        name for name, fault in faults.FAULTS.items() if fault.family == "train"
    )
    for name in ("forgotten block", "shared block", "frozen embedding", "one per place", "keys mixed", "no parameter"):
        assert effects[name] == "other function"
        with pytest.raises(ValueError, match=f"fault must be one of .*'extra linear', .*, got '{name}'"):
            faults.to_wrong(name, ViT(CONFIG))


@pytest.mark.parametrize(
    "changes", [{"norm": "post"}, {"global_pool": "mean"}, {"pos_embed": "sincos"}, {"qkv_bias": False}]
)
def test_no_form_is_rewritten_in_which_the_function_may_change(changes):
    (field,), model = changes, ViT(replace(CONFIG, **changes))
    with pytest.raises(ValueError, match=f"where {field}="):
        faults.to_wrong("without bias", model)


def test_every_family_has_faults_and_every_symptom_is_one_thing():
    assert {fault.family for fault in faults.FAULTS.values()} == set(faults.FAMILIES)
    symptoms = [fault.symptom for fault in faults.FAULTS.values()]
    assert len(set(symptoms)) == len(symptoms) and not [one for one in symptoms if one.endswith(".") or not one]

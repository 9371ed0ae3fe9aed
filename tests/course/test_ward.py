"""vitbook.faults: sealed models behave as unsealed ones and look alike; a name gives the same patients everywhere."""

import copy
import inspect
import itertools
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.course import mending
from tests.course.answers import verdict
from tests.course.test_checks_12 import OWN, equals_a_right_model, family, seeing
from vitbook import faults
from vitbook.exercises import chapter_12, mends
from vitbook.exercises.chapter_12 import IN_A_MODEL
from vitbook.exercises.engine import Wrong
from vitbook.faults import _ward
from vitnb import MultiHeadAttention, ViT, ViTConfig, record_attention

CONFIG = ViTConfig(img_size=(12, 20), patch_size=4, in_chans=2, num_classes=7, embed_dim=24, depth=2, num_heads=3)
NEW_AT_EACH_CALL = {name for name in IN_A_MODEL if "new" in name or "made" in name}
STEADY = [name for name in IN_A_MODEL if name not in NEW_AT_EACH_CALL]
CONFIGS = {
    "as it is": CONFIG,
    "post-norm": replace(CONFIG, norm="post"),
    "mean": replace(CONFIG, global_pool="mean", pos_embed="none"),
    "attention": replace(CONFIG, global_pool="attn", pos_embed="sincos", dropout=0.1, qkv_bias=False),
    "conv": replace(CONFIG, stem="conv", num_classes=0, img_size=(16, 32)),
}
NAMES = """Ada Lovelace, Alan Turing, Grace Hopper, Emmy Noether, Li Wei, Anna Schmidt, Juan Pérez, Sofia Rossi,
    Kenji Sato, Fatima Ali, Olga Ivanova, John Smith, Jane Doe, Max Muster, Erika Muster, Barbara Liskov, Tom Jones,
    Mary Brown, Ravi Kumar, Priya Singh, Noah Cohen, Lea Levi, Inês Costa, Pablo Díaz, Marta Nowak, Jan Novák,
    Lars Hansen, Mia Berg, Eva Horvat, Ivan Petrov""".split(",")


def images_for(config, B=3):
    return torch.randn(B, config.in_chans, *(config.img_size if isinstance(config.img_size, tuple) else (28, 28)))


def gradients(model, images):
    torch.manual_seed(0)  # dropout
    logits = model(images)
    return torch.autograd.grad(logits.square().sum(), list(model.parameters()), allow_unused=True)


@pytest.mark.parametrize("name", STEADY)
def test_a_sealed_model_computes_what_the_unsealed_one_does(name):
    model, images = faults.build(name, CONFIG), images_for(CONFIG)
    sealed = faults.sealed(model)
    assert torch.equal(sealed(images), model(images))
    for ours, theirs in zip(gradients(sealed, images), gradients(model, images), strict=True):
        assert (ours is None and theirs is None) or torch.equal(ours, theirs)
    a, b = sealed.state_dict(), model.state_dict()
    assert a.keys() == b.keys() and all(torch.equal(a[key], b[key]) for key in a)
    assert [name for name, _ in sealed.named_modules()] == [name for name, _ in model.named_modules()]
    assert {test for test, sees in faults.TESTS.items() if not sees(sealed)} == {
        test for test, sees in faults.TESTS.items() if not sees(model)
    }


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_a_right_model_of_every_form_can_be_sealed(config):
    model, images = ViT(config), images_for(config, 2)
    sealed = faults.sealed(model)
    torch.manual_seed(0)
    wanted = model(images)
    torch.manual_seed(0)
    assert torch.equal(sealed(images), wanted)
    assert type(model) is ViT  # sealed is a copy


@pytest.mark.parametrize("name", [None, *faults.PATIENTS])
def test_copies_weights_and_modes_work_as_in_an_unsealed_model(name):
    torch.manual_seed(0)
    model = ViT(CONFIG) if name is None else faults.build(name, CONFIG)
    sealed, images = faults.sealed(model), images_for(CONFIG)
    twin = copy.deepcopy(sealed)
    assert type(twin.blocks[0]) is type(sealed.blocks[0]) and twin.config == CONFIG
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(1.0)
    assert not any(torch.equal(a, b) for a, b in zip(twin.parameters(), sealed.parameters(), strict=True))
    twin.load_state_dict(sealed.state_dict())
    if name not in NEW_AT_EACH_CALL:
        assert torch.equal(twin(images), sealed(images))
    assert twin.train().training and not twin.eval().training
    assert not twin.blocks[0].training or name == "listed blocks"
    assert twin.zero_grad() is None and twin.double() is twin


def test_hooks_fire_and_attention_is_recorded():
    images, seen = images_for(CONFIG), []
    model, sealed = (ViT(CONFIG), faults.sealed(ViT(CONFIG)))
    sealed.load_state_dict(model.state_dict())
    sealed.blocks[1].mlp.register_forward_hook(lambda part, given, out: seen.append(out.shape))
    with record_attention(sealed) as maps, record_attention(model) as wanted:
        assert torch.allclose(sealed(images), model(images))
    assert seen == [(3, 16, 24)] and all(map(torch.equal, maps, wanted))
    assert isinstance(sealed.blocks[0].attention, MultiHeadAttention) and isinstance(sealed.norm, nn.LayerNorm)
    assert isinstance(sealed, ViT) and sealed.forward_intermediates(images).keys() >= {"patches", "block_2", "logits"}
    assert {"positions.table", "pool.token"} == sealed.no_weight_decay()


def test_a_right_part_mends_a_copy_and_says_where_the_fault_stood():
    patient = faults.sealed(faults.build("split by view", CONFIG))
    for part, heals in (("mlp", False), ("norm1", False), ("attention", True)):
        mended = copy.deepcopy(patient)
        for block, right in zip(mended.blocks, ViT(CONFIG).blocks, strict=True):
            new = getattr(right, part)
            new.load_state_dict(getattr(block, part).state_dict())
            setattr(block, part, new)
        assert faults.TESTS["reference"](mended) is heals


def test_it_can_be_called_with_other_weights():
    model, images = ViT(CONFIG), images_for(CONFIG)
    sealed = faults.sealed(ViT(CONFIG))
    assert torch.equal(torch.func.functional_call(sealed, dict(model.named_parameters()), (images,)), model(images))


PARTS = ["", "patch_embed", "pool", "positions", "norm", "head", "blocks.0", "blocks.1.attention", "blocks.0.mlp"]
PARTS += ["blocks.0.norm1", "blocks.1.norm2"]


def part(model, name):
    for step in filter(None, name.split(".")):
        model = model[int(step)] if step.isdigit() else getattr(model, step)
    return model


def seen_at_a_glance(thing):
    """What somebody sees who looks at a part without digging."""
    kind = type(thing)
    methods = [name for name, _ in vars(kind).items() if not name.startswith("_")]
    sources = [inspect.getsource(getattr(thing, name)) for name in sorted([*methods, "__init__", "__repr__"])]
    try:
        sources.append(inspect.getsource(kind))
    except OSError:
        sources.append("no source")
    return [kind.__name__, kind.__qualname__, kind.__module__, kind.__doc__, repr(thing), str(thing), *sources]


@pytest.mark.parametrize("name", IN_A_MODEL)
def test_right_and_wrong_look_alike(name):
    right, wrong = faults.sealed(ViT(CONFIG)), faults.sealed(faults.build(name, CONFIG))
    for place in PARTS:
        glance = seen_at_a_glance(part(wrong, place))
        assert glance == seen_at_a_glance(part(right, place)), place
        assert not [word for word in (name, faults.FAULTS[name].wrong.__name__) if word in " ".join(map(str, glance))]


def test_no_two_sealed_models_share_a_class():
    first, second = (faults.sealed(ViT(CONFIG)) for _ in range(2))
    assert type(first.blocks[0].attention) is not type(second.blocks[0].attention)


def test_a_sealed_function_has_no_name_and_does_what_it_did():
    right, wrong = faults.sealed(faults.train.compare), faults.sealed(faults.train.unlike_budgets)
    assert right.__name__ == wrong.__name__ and inspect.getsource(right) == inspect.getsource(wrong)
    images, labels = torch.randn(8, 4), torch.arange(8) % 2
    model = nn.Linear(4, 2)
    found = [f([copy.deepcopy(model)], (images, labels), (images, labels)) for f in (right, faults.train.compare)]
    assert found[0] == found[1]


def test_what_cannot_be_sealed_is_refused():
    with pytest.raises(TypeError, match="a ViT or a function can be sealed, got Linear"):
        faults.sealed(nn.Linear(2, 3))


# The ward -------------------------------------------------------------------------------------------------


def numbers(who):
    return [patient.number for patient in faults.ward(who)]


def test_the_register():
    assert 22 <= len(faults.PATIENTS) == len(set(faults.PATIENTS)) and set(faults.PATIENTS) <= set(IN_A_MODEL)
    assert list(faults.PATIENTS) == sorted(faults.PATIENTS) != list(_ward.NUMBERED)
    for name, case in _ward.REGISTER.items():
        assert case.families and set(case.families) <= set(faults.FAMILIES)
        assert case.provenance in ("a notebook", "in the wild")
        assert case.complaint.endswith(".") and 60 < len(case.complaint) < 180
        assert faults.FAULTS[name].symptom not in case.complaint and name not in case.complaint.lower()
        assert faults.FAULTS[name].family in case.families
    complaints = [case.complaint for case in _ward.REGISTER.values()]
    assert len(set(complaints)) == len(complaints)


def test_a_name_gives_the_same_five_on_every_machine():
    """Whoever changes these has changed the patients of every class."""
    assert numbers("Ada Lovelace") == [13, 14, 11, 25, 9]
    assert numbers("Grace Hopper") == numbers("  grace   HOPPER ")
    assert numbers("Zoë") == numbers("Zoe\u0308")
    assert numbers("4711") != numbers("4712")
    script = "from vitbook import faults; print([p.number for p in faults.ward('Ada Lovelace')])"
    for seed in "1", "2":
        environment = os.environ | {"PYTHONHASHSEED": seed}
        out = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        assert out.stdout == "[13, 14, 11, 25, 9]\n"


def test_classmates_get_different_patients_of_five_kinds():
    drawn = [_ward.numbers_of(name) for name in NAMES]
    assert len({frozenset(five) for five in drawn}) == len(NAMES) == 30
    assert max(len(set(a) & set(b)) for a, b in itertools.combinations(drawn, 2)) <= 4
    for five in drawn:
        cases = [_ward.REGISTER[_ward.NUMBERED[number - 1]] for number in five]
        assert len({case.kind for case in cases}) == 5
        assert len({case.families[0] for case in cases}) >= 3
        faults = [_ward.NUMBERED[number - 1] for number in five]
        assert not [pair for pair in itertools.combinations(faults, 2) if _ward.alike(*pair)]
    met = {_ward.NUMBERED.index(name) + 1 for name in _ward.MET}
    assert set(itertools.chain(*drawn)) == set(range(1, len(_ward.NUMBERED) + 1)) - met  # everybody else is drawn


@pytest.mark.parametrize(
    "first, second, alike",
    [
        ("undivided", "softmax over queries", True),  # a wrong mix
        ("undivided", "split by view", True),  # and a wrong layer: a new attention mends both
        ("listed blocks", "unused positions", True),  # both by a new model around the patient's parts
        ("undivided", "with relu", False),
        ("unused positions", "made in each call", False),
        ("softmax inside", "unused positions", False),  # no test sees both
    ],
)
def test_patients_of_one_answer(first, second, alike):
    assert _ward.alike(first, second) is _ward.alike(second, first) is alike
    if alike and first != "listed blocks":  # what `alike` says, tried
        for fault in (first, second):
            number = _ward.NUMBERED.index(fault) + 1
            mend = mending.transplant("attention")
            assert verdict("12.4", lambda n=number, m=mend: (n, [("attend", faults.TESTS["reference"], m)]))[0]


@pytest.mark.parametrize("name", sorted(IN_A_MODEL))
def test_a_fault_of_a_model_does_not_take_the_dropout_away_as_well(name):
    """A wrong version differs from the right one in a single place."""
    config, dropped = replace(CONFIG, dropout=0.5), []
    model = faults.build(name, config).train()
    model.drop.register_forward_hook(lambda *_: dropped.append(True))
    model(images_for(config))
    assert dropped == [True]


def test_numbers_give_the_patients_of_the_register():
    assert numbers(7) == numbers([7]) == [7]
    assert numbers((12, 3)) == [12, 3]
    assert repr(faults.ward(7)[0]).startswith("Patient 7: It is as accurate as the others.")
    assert faults.ward(7) == faults.ward([7])


def test_a_patient_has_the_same_weights_in_each_ward_and_leaves_random_numbers_alone():
    before = torch.random.get_rng_state()
    first, again = (faults.ward(3)[0].model for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(map(torch.equal, first.parameters(), again.parameters()))
    assert first.config == ViTConfig(depth=2) and type(first).__name__ == "Model"


@pytest.mark.parametrize(
    "who, error, message",
    [
        ("  ", ValueError, "the name is empty"),
        ([], ValueError, "no numbers are given"),
        (0, ValueError, "patient 0 is not in the register, which goes from 1 to 26"),
        (4711, ValueError, "a student's number is written as a name, '4711'"),
        ([7, "Ada"], TypeError, "a patient's number must be a whole number such as 7, got 'Ada'"),
        (True, TypeError, "got True"),
        (None, TypeError, "got None"),
    ],
)
def test_bad_input_is_refused(who, error, message):
    with pytest.raises(error, match=message):
        faults.ward(who)


EVERY_PATIENT = pytest.mark.parametrize("number", range(1, len(_ward.NUMBERED) + 1))


@EVERY_PATIENT
def test_every_patient_of_the_register_has_its_check(number):
    fault = _ward.NUMBERED[number - 1]
    first, second = mending.MENDS[fault]
    said, text = verdict("12.4", lambda: (number, [(family(number), seeing(number), first)]))
    assert said, text
    another = faults.TESTS[max(faults.FAULTS[fault].seen_by)]  # written otherwise
    said, text = verdict("12.4", lambda: (number, [(family(number), another, second)]))
    assert said, text
    elsewhere = next(f for f in faults.FAMILIES if f not in _ward.REGISTER[fault].families)
    said, text = verdict("12.4", lambda: ([number], [(elsewhere, seeing(number), first)]))
    assert not said and f"its fault does not stand in '{elsewhere}'" in text
    for named in (family(number), elsewhere):  # no family is found by guessing
        said, text = verdict("12.4", lambda named=named: (number, [(named, lambda model: True, first)]))
        assert not said and "Its family is looked at when the test is right" in text
    assert not [name for name in IN_A_MODEL if f" {name} " in text and " " in name]
    said, text = verdict("12.4", lambda: (number, [(family(number), equals_a_right_model, first)]))
    assert not said and "too broad" in text, text


def of_mend(number, mend):
    """What is said of a mend on one config, or nothing."""
    fault = _ward.NUMBERED[number - 1]
    try:
        mends.mend_it(mend, fault, next(iter(chapter_12._configs(fault).values())))
    except Wrong as wrong:
        return str(wrong)
    return ""


WRONG_MENDS = {
    mending.nothing: "Your mend changes nothing: the patient has the weights that it had",
    mending.nothing_in_place: "Your mend returns None, and has changed nothing",
    mending.whole_model: "You throw the patient away and build a new model. A mend replaces the part that is wrong and "
    "nothing else",
    mending.whole_model_with_old_weights: "You throw the patient away and build a new model",
    mending.crashes: "Your function raises AttributeError in the line `return model.no_such_part`",
    mending.a_part: "What comes back has no patch_embed",
    mending.answers_42: "Your mend returns 42: the mended model is wanted",
    mending.another_part: "Your mend replaces head, where nothing was wrong, and the patient is not right yet",
}


@EVERY_PATIENT
def test_wrong_mends_are_told_what_they_do(number):
    for mend, phrase in WRONG_MENDS.items():
        assert phrase in (text := of_mend(number, mend)), (mend.__name__, text)
    for mend in mending.MENDS[_ward.NUMBERED[number - 1]]:
        assert "Your mend works on a copy" in of_mend(number, mending.on_a_copy(mend))
        assert "The patient is right now, but your mend replaces head as well" in of_mend(
            number, mending.and_more(mend)
        )
        assert "has forgotten what it learned" in of_mend(number, mending.and_fresh_weights(mend))
        assert "does not require a gradient" in of_mend(number, mending.and_frozen(mend))


@pytest.mark.parametrize("fault", [f for f in _ward.NUMBERED if {"attention", "block"} & set(mends.sick(f))])
def test_a_fault_of_all_blocks_is_mended_in_all_with_the_patients_weights(fault):
    number, sort = _ward.NUMBERED.index(fault) + 1, "block" if "block" in mends.sick(fault) else "attention"
    if fault not in ("shared block", "foreign blocks"):  # there a second block of its own is all it takes
        first = mending.transplant(sort, only_first=True)
        if "attention" in mends.sick(fault):
            assert "You have mended blocks.0" in (text := of_mend(number, first)), text
            assert "the same fault stands in blocks.1" in text
    forgets = of_mend(number, mending.transplant(sort, load=False))
    assert "has forgotten what it learned" in forgets or "replaces blocks.0.attention" in forgets, forgets


@pytest.mark.parametrize("sorts", [("mlp",), ("norm1", "norm2", "norm"), ("pool",), ("patch_embed",), ("positions",)])
def test_a_right_part_with_fresh_weights_forgets(sorts):
    """A token or table that a patient never had may be new."""
    fault = {"mlp": "with relu", "pool": "last read first", "patch_embed": "reshape alone", "positions": "no parameter"}
    number = _ward.NUMBERED.index(fault.get(sorts[0], "over tokens and channels")) + 1
    assert "has forgotten what it learned" in of_mend(number, mending.transplant(*sorts, load=False))


def test_mends_of_some_patients_have_traps_of_their_own():
    def said(fault, mend):
        return of_mend(_ward.NUMBERED.index(fault) + 1, mend)

    assert "You have mended blocks.0.mlp, and the same" in said("with relu", mending.reclass("mlp", only_first=True))
    assert "the same fault stands in" in said("over tokens and channels", mending.reclass("norm1", "norm2"))
    assert "The eps of norm is 1e-05, and config.norm_eps says 1e-06" in said("no last norm", mending.norm_of_torch)
    assert "A copy of the mended patient still computes with numbers of" in said("softmax inside", mending.by_a_closure)
    assert "has a parameter extra.weight, and a right model has none" in said("softmax inside", mending.with_an_extra)
    assert "returns None, and has changed nothing" in said("no parameter", mending.reclass_positions)
    assert "positions.table of the mended patient is (2," in said("for each image", mending.table(lambda old: old[:2]))
    assert "your mend replaces blocks.0.attention and 1 more as well" in said("with relu", mending.transplant("block"))
    assert not said("with relu", mending.new_block_around_right_layers)


def test_the_round_uses_sizes_of_its_own():
    known = CONFIG, _ward.CONFIG  # the chapter's, heads aside, and the ward's
    for fault in _ward.NUMBERED:
        for config in [*chapter_12._configs(fault).values(), *chapter_12.ROUND_FORMS.values()]:
            for other in known:
                assert config.img_size != other.img_size and config.in_chans != other.in_chans
                assert config.embed_dim != other.embed_dim and config.num_classes != other.num_classes


def test_all_patients_of_the_six_tests_are_those_of_the_register():
    said, text = verdict("12.5", lambda: OWN)
    assert said and "all 26 patients of the register among them" in text


# What owners say, as far as it holds by construction -------------------------------------------------------


def right_and(name, **changes):
    """A right model and a wrong one with the same random weights."""
    config = replace(CONFIG, **changes)
    right, wrong = ViT(config).eval(), faults.build(name, config).eval()
    with torch.no_grad():
        for parameter in right.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape))
    wrong.load_state_dict(right.state_dict())
    return right, wrong


@pytest.mark.parametrize("name", ["split by view", "divided for all heads"])
def test_with_one_head_it_gives_the_logits_of_a_right_model(name):
    images = images_for(CONFIG)
    for heads, same in ((1, True), (4, False)):
        right, wrong = right_and(name, num_heads=heads)
        assert torch.allclose(right(images), wrong(images), atol=1e-4) is same


def test_the_batch_never_shows_the_cls_token_a_pixel():
    _, wrong = right_and("over the batch")
    assert torch.equal(wrong(images_for(CONFIG)), wrong(images_for(CONFIG)))


def test_a_long_token_comes_out_of_the_first_block_as_a_short_one():
    x = torch.randn(2, 7, CONFIG.embed_dim)
    right, wrong = right_and("first half only")
    assert torch.allclose(wrong.blocks[0](10 * x), wrong.blocks[0](x), atol=1e-3)
    assert not torch.allclose(right.blocks[0](10 * x), right.blocks[0](x), atol=1e-1)


@torch.no_grad()
def test_without_the_mlp_attention_can_do_what_it_likes():
    _, wrong = right_and("forgotten plus")
    for block in wrong.blocks:
        block.mlp.fc2.weight.zero_()
        block.mlp.fc2.bias.zero_()
    images = images_for(CONFIG)
    before = wrong(images)
    for block in wrong.blocks:
        block.attention.proj.weight.mul_(100)
    assert torch.equal(wrong(images), before)


def test_shuffled_patches_give_the_same_logits():
    right, wrong = right_and("unused positions")
    images = images_for(CONFIG)
    moved = images.roll((4, 8), dims=(2, 3))
    assert torch.allclose(wrong(moved), wrong(images), atol=1e-4)
    assert not torch.allclose(right(moved), right(images), atol=1e-4)


def test_the_loss_of_probabilities_never_gets_below_its_floor():
    sure = torch.eye(10)[:1]
    assert F.cross_entropy(sure, torch.tensor([0])).item() == pytest.approx(1.4612, abs=1e-4)


@pytest.mark.parametrize("name", ["no parameter", "foreign blocks"])
def test_loading_its_weights_raises_nothing_and_gives_other_logits(name):
    first, second = (faults.build(name, CONFIG).eval() for _ in range(2))
    with torch.no_grad():
        first.head.weight.normal_()
    second.load_state_dict(first.state_dict())
    images = images_for(CONFIG)
    assert not torch.allclose(first(images), second(images), atol=1e-4)


def test_only_batches_of_three_work():
    model = faults.build("for each image", CONFIG)
    assert model(images_for(CONFIG, 3)).shape == (3, 7)
    with pytest.raises(RuntimeError):
        model(images_for(CONFIG, 2))


# Patients from training -----------------------------------------------------------------------------------


def moves(step, steps=2):
    """By how many learning rates times its own gradient the weight moves in each step; the rates are 1, 1/2, 1/3 ..."""
    torch.manual_seed(0)
    model, found = nn.Linear(6, 3), []
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (n + 1))
    for _ in range(steps):
        images, labels, before = torch.randn(5, 6), torch.randint(3, (5,)), model.weight.detach().clone()
        (g,) = torch.autograd.grad(F.cross_entropy(model(images), labels), [model.weight])
        faults.sealed(step)(model, optimizer, scheduler, images, labels)
        by = (before - model.weight.detach()) / g
        found.append(round(by[0, 0].item(), 4) if torch.allclose(by, by[0, 0].expand_as(by), atol=1e-3) else None)
    return found


@pytest.mark.parametrize(
    "name, moved",
    [
        ("gradients_never_cleared", [1.0, None]),  # the second step goes by two gradients
        ("gradients_cleared_too_late", [0.0, 0.0]),
        ("step_before_backward", [0.0, None]),
        ("scheduler_before_optimizer", [0.5, 0.3333]),  # the first rate is skipped
        ("scheduler_alone", [0.0, 0.0]),
        ("scheduler_forgotten", [1.0, 1.0]),
        ("probabilities_in_the_loss", [None, None]),
    ],
)
def test_each_wrong_step_does_what_it_is_said_to_do(name, moved):
    assert moves(faults.train.step) == [1.0, 0.5]
    assert moves(getattr(faults.train, name)) == moved
    assert len(faults.of(faults.train.step)) == 7

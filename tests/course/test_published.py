"""The published faults: a name draws the same models everywhere, each has its check, and its author tells the truth."""

import copy
import itertools
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules import module as hooks

from tests.course.answers import verdict
from tests.course.test_checks_12 import equals_a_right_model, seeing
from vitbook import faults
from vitbook.exercises.chapter_12 import IN_A_MODEL
from vitbook.faults import _published
from vitbook.faults._published import PUBLISHED, REPORTS, numbers_of
from vitnb import ViT, ViTConfig

CONFIG = ViTConfig(img_size=(12, 20), patch_size=4, in_chans=2, num_classes=7, embed_dim=24, depth=2, num_heads=3)
NAMES = """Ada Lovelace, Alan Turing, Grace Hopper, Emmy Noether, Li Wei, Anna Schmidt, Juan Pérez, Sofia Rossi,
    Kenji Sato, Fatima Ali, Olga Ivanova, John Smith, Jane Doe, Max Muster, Erika Muster, Barbara Liskov, Tom Jones,
    Mary Brown, Ravi Kumar, Priya Singh, Noah Cohen, Lea Levi, Inês Costa, Pablo Díaz, Marta Nowak, Jan Novák,
    Lars Hansen, Mia Berg, Eva Horvat, Ivan Petrov""".split(",")


def images_for(config, B=3):
    return torch.randn(B, config.in_chans, *config.img_size)


def test_an_authors_words_do_not_give_the_fault_away():
    for name, report in REPORTS.items():
        assert faults.FAULTS[name].family in report.families and set(report.families) <= set(faults.FAMILIES)
        assert faults.FAULTS[name].symptom not in report.symptom and name not in report.symptom.lower()


def test_a_name_draws_the_same_models_for_ever():
    """Whoever changes these has changed the models of every class."""
    assert numbers_of("Ada Lovelace") == [13, 14, 11, 25, 9]
    assert numbers_of("Alan Turing") == [26, 24, 16, 25, 8]
    assert numbers_of("4711") == [18, 21, 20, 8, 6]
    assert numbers_of("Grace Hopper") == numbers_of("  grace   HOPPER ")
    assert numbers_of("Zoë") == numbers_of("Zoe\u0308")


def test_classmates_get_different_models_with_unlike_faults():
    drawn = [numbers_of(name) for name in NAMES]
    assert len({frozenset(five) for five in drawn}) == len(NAMES) == 30
    assert max(len(set(a) & set(b)) for a, b in itertools.combinations(drawn, 2)) <= 4
    for five in drawn:
        reports = [REPORTS[PUBLISHED[number - 1]] for number in five]
        assert len({report.families[0] for report in reports}) >= 3
        assert not [a for a, b in itertools.combinations(reports, 2) if set(a.groups) & set(b.groups)]
    shown = PUBLISHED.index(_published.SHOWN) + 1
    assert set(itertools.chain(*drawn)) == set(range(1, len(PUBLISHED) + 1)) - {shown}  # every other one is drawn


def test_numbers_give_the_models_with_these_numbers():
    assert numbers_of(7) == numbers_of([7]) == [7]
    assert [one.number for one in faults.faulty_models((12, 3))] == [12, 3]
    assert repr(faults.faulty_models(7)[0]).startswith("Model 7: It is as accurate as the others.")
    assert faults.faulty_models(7) == faults.faulty_models([7])
    for number in (0, -1, 27):  # a list of Python has places for the first two
        with pytest.raises(ValueError, match=f"there is no model {number}, only 1 to 26"):
            numbers_of(number)


def test_a_model_has_the_same_weights_in_each_draw_and_leaves_random_numbers_alone():
    before = torch.random.get_rng_state()
    first, again = (faults.faulty_models(3)[0].model for _ in range(2))
    assert torch.equal(before, torch.random.get_rng_state())
    assert all(map(torch.equal, first.parameters(), again.parameters()))
    assert first.config == ViTConfig(depth=2)


def said_of(number, family, test):
    return verdict("12.4", lambda: (number, [(family, test)]))


@pytest.mark.parametrize("number", range(1, len(PUBLISHED) + 1))
def test_every_published_fault_has_its_check(number):
    fault, test = PUBLISHED[number - 1], seeing(number)
    for family in REPORTS[fault].families:
        right, text = said_of(number, family, test)
        assert right, text
    elsewhere = next(family for family in faults.FAMILIES if family not in REPORTS[fault].families)
    right, text = said_of(number, elsewhere, faults.TESTS[max(faults.FAULTS[fault].seen_by)])  # written otherwise
    assert not right and f"its fault does not stand in '{elsewhere}'" in text


@pytest.mark.parametrize("fault", {report.families: fault for fault, report in REPORTS.items()}.values())
def test_a_test_that_refuses_whatever_is_wrong_is_too_broad(fault):
    """For a fault of each family: which others its test must accept depends on that alone."""
    number, (family, *_) = PUBLISHED.index(fault) + 1, REPORTS[fault].families
    right, text = said_of(number, family, equals_a_right_model)
    assert not right and "too broad" in text, text


@pytest.mark.parametrize("number", [1, 13, 26])
def test_no_family_is_found_by_guessing(number):
    for family in faults.FAMILIES:
        right, text = said_of(number, family, lambda model: True)
        assert not right and "Its family is looked at when the test is right" in text
        assert not [name for name in IN_A_MODEL if f" {name} " in text and " " in name]


def test_a_right_part_says_where_a_fault_stands():
    """As the verdict on a wrong family advises."""
    faulty = faults.build("split by view", CONFIG)
    for part, helps in (("mlp", False), ("norm1", False), ("attention", True)):
        model = copy.deepcopy(faulty)
        for block, right in zip(model.blocks, ViT(CONFIG).blocks, strict=True):
            new = getattr(right, part)
            new.load_state_dict(getattr(block, part).state_dict())
            setattr(block, part, new)
        assert faults.TESTS["reference"](model) is helps


def test_a_check_watches_no_module_when_it_is_over():
    def raises(model):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        verdict("12.1", raises)
    assert not hooks._global_forward_pre_hooks


def test_an_error_inside_a_faulty_model_is_a_verdict():
    """A model for batches of three raises in a batch of two; a right one does not."""

    def two_images(model):
        return bool(model(torch.randn(2, model.config.in_chans, *model.patch_embed.img_size)).isfinite().all())

    number = PUBLISHED.index("for each image") + 1
    right, text = verdict("12.4", lambda: (number, [("place", two_images)]))
    assert right, text


# What authors say, as far as it holds by construction ------------------------------------------------------


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


# Faults of training ---------------------------------------------------------------------------------------


def moves(step, steps=2):
    """By how many learning rates times its own gradient the weight moves in each step; by rates of 1, 1/2, 1/3 ..."""
    torch.manual_seed(0)
    model, found = nn.Linear(6, 3), []
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 / (n + 1))
    for _ in range(steps):
        images, labels, before = torch.randn(5, 6), torch.randint(3, (5,)), model.weight.detach().clone()
        (g,) = torch.autograd.grad(F.cross_entropy(model(images), labels), [model.weight])
        step(model, optimizer, scheduler, images, labels)
        by = (before - model.weight.detach()) / g
        found.append(round(by[0, 0].item(), 4) if torch.allclose(by, by[0, 0].expand_as(by), atol=1e-3) else None)
    return found


@pytest.mark.filterwarnings("ignore:Detected call of .lr_scheduler")
@pytest.mark.parametrize(
    "name, moved",
    [
        ("gradients_never_cleared", [1.0, None]),  # the second step goes by two gradients
        ("gradients_cleared_too_late", [0.0, 0.0]),
        ("step_before_backward", [0.0, None]),
        ("scheduler_before_optimizer", [0.5, 0.3333]),  # the first learning rate is skipped
        ("scheduler_alone", [0.0, 0.0]),
        ("scheduler_forgotten", [1.0, 1.0]),
        ("probabilities_in_the_loss", [None, None]),
    ],
)
def test_each_wrong_step_does_what_it_is_said_to_do(name, moved):
    assert moves(faults.train.step) == [1.0, 0.5]
    assert moves(getattr(faults.train, name)) == moved
    assert len(faults.of(faults.train.step)) == 7

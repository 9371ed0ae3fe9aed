"""The exercises of chapter 12: right answers however they are written, and wrong ones that no check declares."""

import copy
import re
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from tests.course.answers import RIGHT, WRONG, images_for, remade, right, solution, wrong
from vitbook import faults
from vitbook.exercises.chapter_12 import IN_A_MODEL
from vitbook.exercises.values import perturbed
from vitbook.faults import _published
from vitnb import MultiHeadAttention, ViT
from vitnb.vit import count_parameters

# 12.1 ------------------------------------------------------------------------------------------------------


def attention_of(model):
    return copy.deepcopy(model).eval().blocks[0].attention


def tokens(layer, B=2, T=7):
    return torch.randn(B, T, layer.embed_dim)


def turns_round(layer, x, axis=1):
    """Whether tokens, or the images of another axis, that come in reverse only come out in reverse."""
    return torch.allclose(layer(x.flip(axis)), layer(x).flip(axis), atol=1e-4)


def tokens_change_places(model):
    layer = attention_of(model)
    return turns_round(layer, tokens(layer))


@right("12.1")
def whole_block(model):
    block = copy.deepcopy(model.blocks[-1]).eval()
    x, order = torch.randn(4, 6, model.config.embed_dim), [3, 0, 5, 1, 4, 2]
    return torch.isclose(block(x[:, order]), block(x)[:, order], atol=1e-4).all()


def shapes(model):
    return model(images_for(model, 3)).shape == (3, model.config.num_classes)


def finds_nan_only(model):
    """It runs the model, and says False of every one."""
    return bool(model(images_for(model)).isnan().any())


def training_accuracy(model):
    model = copy.deepcopy(model).eval()
    images, labels = images_for(model, 4), torch.arange(4)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    for _ in range(12):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item() < 3


def forgets_eval(model):
    layer = model.blocks[0].attention
    return turns_round(layer, tokens(layer))


def needs_a_cls_token(model):
    layer = attention_of(model)
    return turns_round(layer, tokens(layer) + model.pool.token)


@torch.no_grad()
def silent_branches_leave_the_stream(model):
    block = copy.deepcopy(model.blocks[0]).eval()
    same = tokens_change_places(model)
    for last in (block.attention.proj, block.mlp.fc2):
        last.weight.zero_()
        last.bias.zero_()
    x = torch.randn(2, 7, model.config.embed_dim)
    return same and torch.allclose(block(x), x)


NEVER = ", and never runs one, nor any part of it. Names, shapes and counts of the faulty model are"
ALL_PASS = (
    "It says True for all 12 models, the faulty ones too: too weak. The shape of their logits is right. Which numbers "
    "must come out, or stay as they are, when you change what goes in? Hint"  # no word on what it consists of: right
)
ONE_WIDTH = "Does it have sizes written in? Take them from model.config and model.patch_embed.img_size."
WRONG["12.1"] |= {
    f"It says False for every model{NEVER}": lambda model: False,
    f"It says True for every model{NEVER}": lambda model: count_parameters(model) > 0,
    f"It tells models by their look{NEVER}": lambda model: type(model.blocks[0].attention) is MultiHeadAttention,
    "the wrong way round. True means right": lambda model: not tokens_change_places(model),
    "It says False for every right model as well: too strong. Try it on a ViT": finds_nan_only,
    ALL_PASS: shapes,
    "It trains the models, and then lets the faulty one through in 6 of 6 configs": training_accuracy,
    "right models, for example one with dropout: too strong. Two calls of it agree only in eval mode": forgets_eval,
    "Your function changes what it is given": lambda model: tokens_change_places(model.eval()),
    ONE_WIDTH: lambda model: turns_round(attention_of(model), torch.randn(2, 7, 64)),
    "On a right model (mean pooling): Your function raises AttributeError": needs_a_cls_token,
    "with post-norm blocks: too strong. What you ask for must hold wherever the norms": (
        silent_branches_leave_the_stream
    ),
    "It accepts all right models, and lets the faulty one through in 1 of 6 configs, for example with images": (
        lambda model: model.config.num_heads == 2 or tokens_change_places(model)
    ),
    "And in some configs it lets the faulty one": lambda model: model.config.num_heads == 2 or forgets_eval(model),
}

# 12.2 ------------------------------------------------------------------------------------------------------


def small(rate=lambda n: 1 / (n + 1), **settings):
    model = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(model.parameters(), **({"lr": 1.0} | settings))
    return model, optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


def batch():
    return torch.randn(5, 6), torch.randint(3, (5,))


@wrong("12.2", "The weights are looked at. And the loss that a step returns?")
def by_subtraction(step):
    model, optimizer, scheduler = small()
    mine = copy.deepcopy(model)
    for n in range(3):
        images, labels = batch()
        step(model, optimizer, scheduler, images, labels)
        loss = F.cross_entropy(mine(images), labels)
        gradients = torch.autograd.grad(loss, list(mine.parameters()))
        with torch.no_grad():
            for p, g in zip(mine.parameters(), gradients, strict=True):
                p -= g / (n + 1)
    return torch.allclose(model.weight, mine.weight, atol=1e-5)


@wrong("12.2", "Which weights should there be after one step, after two")
def a_single_step(step, parts=None):
    """The first step alone does not tell who forgets to clear."""
    model, optimizer, scheduler = parts or small()
    mine, (images, labels) = copy.deepcopy(model), batch()
    step(model, optimizer, scheduler, images, labels)
    (g,) = torch.autograd.grad(F.cross_entropy(mine(images), labels), [mine.weight])
    return torch.allclose(model.weight, mine.weight - g, atol=1e-5)


@wrong("12.2", "A right step may also clear the gradients when it is done: start without any")
def gradients_from_elsewhere(step):
    parts = model, *_ = small()
    model.weight.grad, model.bias.grad = torch.ones(3, 6), torch.ones(3)
    return a_single_step(step, parts)


@wrong("12.2", "at its beginning, in its middle or at its end")
def the_gradient_is_still_there(step):
    model, optimizer, scheduler = small()
    step(model, optimizer, scheduler, *batch())
    return model.weight.grad is None and by_subtraction(step)


WRONG["12.2"] |= {
    "It rejects 3 of 3 right steps and lets 0 of 9 wrong ones through. Does it ever say True?": lambda step: False,
    "The step of the book is rejected, too": lambda step: not a_single_step(step),
    "Does it look at the loss alone?": lambda step: 0 < float(step(*small(), *batch())) < 10,
    "lets 9 of 9": lambda step: step.__name__ != "gradients_never_cleared",
}

# 12.6 ------------------------------------------------------------------------------------------------------


class Spy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.seen = nn.Linear(4, 2), []

    def forward(self, images):
        self.seen.append((self.training, images))
        return self.layer(images)


LABELS = torch.arange(8) % 2


def watched(experiment):
    """Two models that have written down what they were shown: zeros are for training, ones for testing."""
    models = [Spy(), Spy()]
    experiment(models, (torch.zeros(8, 4), LABELS), (torch.ones(8, 4), LABELS))
    return models


def same_budgets(models):
    first, second = (sum(len(x) for training, x in spy.seen if training) for spy in models)
    return first == second


@right("12.6")
def by_spies(experiment):
    models = watched(experiment)
    modes = {(training, x.mean().item()) for spy in models for training, x in spy.seen}
    return modes == {(True, 0.0), (False, 1.0)} and same_budgets(models)


@wrong("12.6", "A right comparison may mix the images, take other batches")
def counts_batches(experiment):
    return [training for training, _ in watched(experiment)[0].seen] == [True] * 4 + [False]


WRONG["12.6"] |= {
    "It rejects 3 of 3 right comparisons and lets 0 of 4 wrong ones through. Does it ever say": lambda e: False,
    "The accuracies alone tell little": lambda e: True,
    "write down the mode that your models were in and which images came": lambda e: same_budgets(watched(e)),
}

# 12.3 ------------------------------------------------------------------------------------------------------


class MyBlock(nn.Module):
    """The block that the chapter shows, with some of its three faults, or fixed."""

    scale = merge = stream = True

    def __init__(self, D, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.norm1, self.qkv, self.proj = nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.norm2, self.fc1, self.fc2 = nn.LayerNorm(D), nn.Linear(D, 4 * D), nn.Linear(4 * D, D)

    def attend(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(x).reshape(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)  # (B, h, T, d)
        x = (q @ k.mT / (D // self.num_heads if self.scale else D) ** 0.5).softmax(-1) @ v
        return self.proj((x.transpose(1, 2) if self.merge else x).reshape(B, T, D))

    def forward(self, x):
        normed = self.norm1(x)
        x = (x if self.stream else normed) + self.attend(normed)
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


def half_fixed(**done):
    return type("Half", (MyBlock,), {"scale": False, "merge": False, "stream": False} | done)


@wrong("12.3", "did a change bring a new one?")
class PostNormNow(MyBlock):
    def forward(self, x):
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.fc2(F.gelu(self.fc1(x))))


@wrong("12.3", "your block makes a tensor of shape")
class LosesATokenOnTheWay(MyBlock):
    def forward(self, x):
        return super().forward(x)[:, 1:]


RIGHT["12.3"] += [remade(MyBlock, norm1=lambda m, D, h: nn.LayerNorm(D, eps=1e-6))]  # a smaller eps is no fault
WRONG["12.3"] |= {
    "All three faults are still there. Silence both branches": half_fixed(),
    "One fault is fixed, two are left. Let two tokens change places": half_fixed(stream=True),
    "One fault is fixed, two are left. Silence both branches": half_fixed(merge=True),
    "Two faults are fixed, one is left. How large are the scores": half_fixed(stream=True, merge=True),
    "Two faults are fixed, one is left. Let two tokens": half_fixed(stream=True, scale=True),
    "Your block has no layer norm1: keep the names": remade(MyBlock, norm1=None),
    "Your block has extra.weight, which was not there": remade(MyBlock, extra=lambda m, D, h: nn.Linear(D, D)),
    "norm1 has eps = 0.1, which changes what it": remade(MyBlock, norm1=lambda m, D, h: nn.LayerNorm(D, eps=0.1)),
    "qkv.weight has requires_grad=False": (
        remade(MyBlock, qkv=lambda m, D, h: nn.Linear(D, 3 * D).requires_grad_(False))
    ),
    "are not those that it came with: norm1.weight (24,)": remade(MyBlock, fc1=lambda m, D, h: nn.Linear(D, D)),
    "Expected an nn.Module from MyBlock(24, 3), got 24": lambda D, h: D,
}


# Tests of models, for 12.4 and 12.5 -------------------------------------------------------------------------


SIX = faults.TESTS


def seeing(number):
    """A test of one part that sees the fault, where that is enough."""
    seen_by = faults.FAULTS[faults.PUBLISHED[number - 1]].seen_by
    return SIX[next(test for test in ("cut", "cls", "scores", "reference", "order", "count") if test in seen_by)]


def finding(number, family, test):
    """An answer on one model."""
    return lambda: ([number], [(family, test)])


# 12.4 ------------------------------------------------------------------------------------------------------

ADA = _published.numbers_of("Ada Lovelace")
RIGHT["12.4"] += [lambda: (7, (["cut", SIX["count"]],))]
RIGHT["12.4"] += [lambda: (3, [("pool", SIX["cls"], ...)])]  # a third part, a fix, is not judged


def random_copy(model):
    return perturbed(copy.deepcopy(model).eval(), 0.3)


def keeps_to_pre_norm(model):
    return model.config.norm == "post" or silent_branches_leave_the_stream(model)


def equals_a_right_model(model):
    """It needs no diagnosis: a right model of this config, with the same weights, has the same logits."""
    model, theirs, images = random_copy(model), ViT(model.config).eval(), images_for(model, 3)
    sizes, expected = ({name: p.shape for name, p in m.named_parameters()} for m in (model, theirs))
    if sizes != expected:
        return False
    theirs.load_state_dict(model.state_dict())
    return torch.allclose(model(images), theirs(images), rtol=1e-4, atol=1e-4)


def with_sizes_of_the_chapter(model):
    return turns_round(attention_of(model), torch.randn(3, 16, 24))


def with_sizes_of_the_models(model):
    return keeps_to_pre_norm(model) and not random_copy(model)(torch.randn(2, 1, 28, 28)).isnan().any()


RIGHT["12.4"] += [finding(14, "wire", keeps_to_pre_norm)]
# It refuses one of another family, not all.
RIGHT["12.4"] += [finding(1, "wire", lambda model: solution("12.5")()[0](model))]
WRONG["12.4"] |= {
    f"Model {ADA[0]}: It says True for every": lambda: ("Ada Lovelace", [("train", lambda model: True)] * len(ADA)),
    "Model 3: your test tells it from right models, but its fault does not stand in 'cut'": (
        finding(3, "cut", SIX["cls"])
    ),
    "Done: 0 of 1. Model 3: It says True for all 9 models": finding(3, "pool", shapes),
    "And what must a model consist of? Its family is looked at when the test is right.": finding(7, "cut", shapes),
    "Done: 1 of 2. Model 3: right. Model 10: not done yet.": lambda: ([3, 10], [("pool", SIX["cls"]), ...]),
    "right. Model 10: not done yet.": lambda: ([3, 10], [("pool", SIX["cls"]), ("wire", lambda model: None, ...)]),
    "'attention' is no family: the five of a model are cut, place, attend, wire": finding(3, "attention", SIX["cls"]),
    "There are no models for 99: there is no model 99, only 1 to 26": lambda: (99, []),
    "There are 5 models": lambda: ("Ada Lovelace", [("pool", shapes)]),
    "Expected a pair (name or numbers, list of findings), got a list of 1": lambda: [("pool", shapes)],
    "expected this finding to be (family, test), and the test a function, got a function": lambda: (3, [shapes]),
    "expected this finding to be (family, test), and the test a function, got a tuple": lambda: (3, [("pool", "cls")]),
    ONE_WIDTH: [finding(19, "attend", with_sizes_of_the_chapter), finding(14, "wire", with_sizes_of_the_models)],
    f"{ONE_WIDTH} Does it leave room": finding(3, "pool", finds_nan_only),
    "It refuses 1 of 6 right models, for example one with post-norm blocks: too strong. What you ask for must hold "
    'wherever the norms stand. A config says norm="pre" or "post", and a right model keeps what it says.': (
        finding(14, "wire", silent_branches_leave_the_stream)
    ),
    # A test that is not right tells nothing of the family, be it the right one.
    "Model 1: It tells the faulty model from right ones, and refuses 4 of 4 models with faults of other families "
    "as well: too broad. It says that something is wrong, not what. Test the part in which you suspect the fault. "
    "Its family is looked at when the test is right. Hint": finding(1, "wire", equals_a_right_model),
    "too weak. A short training tells little: a faulty model may learn like a right": (
        finding(2, "attend", training_accuracy)
    ),
    "the faulty model, and not from inside of it": (
        finding(25, "place", lambda model: model.positions.table.shape[0] == 1)
    ),
}

# 12.5 ------------------------------------------------------------------------------------------------------

CALLING = {name: lambda model, test=test: test(model) for name, test in SIX.items()}


def leans_on_a_table(model):
    return model.config.pos_embed != "learned" or model.positions.table.shape[0] == 1


WRONG["12.5"] |= {
    "error of its own, which counts for nothing. Test 1 of your list (leans_on_a_table)": lambda: [leans_on_a_table],
    "Test 2 of your list (count) is one of faults.TESTS, the clinic's own six": lambda: [CALLING["cut"], SIX["count"]],
    "Expected a list of at most 6 tests, got a function": lambda: SIX["count"],
    "You return 7 tests, and 6 are allowed": lambda: [*SIX.values(), shapes],
    "Your list is empty": lambda: [],
    "Expected a function of a model as test 1 of your list, not called yet, got False": lambda: [False],
    "Test 1 of your list refuses all 9 right models": lambda: [lambda model: False],
    "No right model is refused, and you catch": lambda: [shapes, tokens_change_places],
    "You miss 1 of the 26 published ones: a model that only reshapes and never permutes. Test 5 of your list": (
        lambda: [CALLING[name] for name in CALLING if name not in ("cut", "order")] + [shapes, CALLING["order"]]
    ),
    "(forgets_eval) refuses 1 of 9 right models: a false alarm, for example with dropout": lambda: [forgets_eval],
    "with mean pooling. There, your function raises AttributeError": (
        lambda: [lambda model: model.pool.token.shape[0] == 1]
    ),
    "with post-norm blocks. What you ask for must hold wherever the norms": lambda: [silent_branches_leave_the_stream],
    "expected True or False, got 1": lambda: [lambda model: 1],
}


def test_the_chapter_says_how_many_faults_the_check_has():
    """It once said 90, beside a verdict on 96."""
    text = (Path(__file__).parents[2] / "book" / "12-bug-clinic.ipynb").read_text()
    assert {int(n) for n in re.findall(r"all (\d+) bugs that can stand in a model", text)} == {len(IN_A_MODEL)}
    assert {int(n) for n in re.findall(r"how many of the (\d+) survive", text)} == {len(IN_A_MODEL)}

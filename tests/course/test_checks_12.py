"""The exercises of chapter 12: right answers however they are written, and wrong ones that people write.

They join the tables of test_checks.py, whose tests (hostile answers, skeletons, hints) run on them, too.
"""

import copy

import torch
from torch import nn
from torch.nn import functional as F

from tests.course.answers import right, wrong
from vitbook import faults
from vitbook.exercises import chapter_12
from vitbook.faults import _published
from vitnb import MultiHeadAttention, ViT
from vitnb.vit import count_parameters

# 12.1 ------------------------------------------------------------------------------------------------------


def attention_of(model):
    return copy.deepcopy(model).eval().blocks[0].attention


def tokens(layer, B=2, T=7):
    return torch.randn(B, T, layer.embed_dim)


@right("12.1")
def tokens_change_places(model):
    layer = attention_of(model)
    x = tokens(layer)
    return torch.allclose(layer(x.flip(1)), layer(x).flip(1), atol=1e-5)


@right("12.1")
@torch.no_grad()
def against_torchs_layer(model):
    layer = attention_of(model)
    theirs = nn.MultiheadAttention(layer.embed_dim, layer.num_heads, batch_first=True).eval()
    theirs.in_proj_weight.copy_(layer.qkv.weight)
    theirs.in_proj_bias.copy_(layer.qkv.bias)
    theirs.out_proj.load_state_dict(layer.proj.state_dict())
    x = tokens(layer, B=3, T=5)
    return torch.allclose(layer(x), theirs(x, x, x)[0], atol=1e-4)


@right("12.1")
def by_hand(model):
    layer = attention_of(model)
    x, h = tokens(layer, B=1, T=11), layer.num_heads
    q, k, v = (part.unflatten(2, (h, -1)).transpose(1, 2) for part in layer.qkv(x).chunk(3, dim=-1))
    mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    return bool((layer.proj(mixed) - layer(x)).abs().max() < 1e-4)


@right("12.1")
def whole_block(model):
    block = copy.deepcopy(model.blocks[-1]).eval()
    x, order = torch.randn(4, 6, model.config.embed_dim), [3, 0, 5, 1, 4, 2]
    return torch.isclose(block(x[:, order]), block(x)[:, order], atol=1e-4).all()


@right("12.1")
def one_token_reaches_itself_alone(model):
    """Alike tokens give alike outputs."""
    layer = attention_of(model)
    x = tokens(layer)
    x[:, 3] = x[:, 0]
    out = layer(x)
    return torch.allclose(out[:, 3], out[:, 0], atol=1e-5)


@right("12.1")
def with_hooks(model):
    """What goes into proj must not care about the order in which the tokens came."""
    seen = []
    layer = attention_of(model)
    layer.proj.register_forward_hook(lambda _layer, given, _out: seen.append(given[0]))
    x = tokens(layer)
    layer(x)
    layer(x.roll(2, 1))
    return torch.allclose(seen[0].roll(2, 1), seen[1], atol=1e-5)


NEVER = ", and never runs one, nor any part of it. Names, shapes and counts of the faulty model are"

wrong("12.1", f"It says False for every model{NEVER}")(lambda model: False)
wrong("12.1", f"It says True for every model{NEVER}")(lambda model: True)
wrong("12.1", f"It tells models by their look{NEVER}")(
    lambda model: type(model.blocks[0].attention) is MultiHeadAttention
)
wrong("12.1", f"It says True for every model{NEVER}")(
    lambda model: count_parameters(model) == count_parameters(ViT(model.config))
)
wrong("12.1", f"It says True for every model{NEVER}")(
    lambda model: model.state_dict().keys() == ViT(model.config).state_dict().keys()
)
wrong("12.1", f"It says True for every model{NEVER}")(
    lambda model: model.blocks[0].attention.qkv.weight.shape[0] == 3 * model.config.embed_dim
)
wrong("12.1", "the wrong way round. True means right")(lambda model: not tokens_change_places(model))


def images_for(model, B=2):
    c = model.config
    return torch.randn(B, c.in_chans, *model.patch_embed.img_size)


@wrong("12.1", "too strong. Try it on a ViT")
def runs_and_says_false(model):
    return bool(model(images_for(model)).isnan().any())


@wrong(
    "12.1", "or stay as they are, when you change what goes in? Hint"
)  # no word on what it consists of: that is right
@wrong("12.1", "It says True for all 12 models, the faulty ones too: too weak. The shape of their logits is right")
def shapes(model):
    return model(images_for(model, 3)).shape == (3, model.config.num_classes)


@wrong("12.1", "too weak")
def every_parameter_gets_a_gradient(model):
    model = copy.deepcopy(model).eval()
    model(images_for(model)).square().sum().backward()
    return all(p.grad is not None for p in model.parameters())


@wrong("12.1", "It trains the models, and then lets the faulty one through in 6 of 6 configs")
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


@wrong("12.1", "right models, for example one with dropout: too strong. Two calls of it agree only in eval mode")
def forgets_eval(model):
    layer = model.blocks[0].attention
    x = tokens(layer)
    return torch.allclose(layer(x.flip(1)), layer(x).flip(1), atol=1e-5)


@wrong("12.1", "Your function changes what it is given")
def calls_eval_on_the_readers_model(model):
    model.eval()
    return tokens_change_places(model)


@wrong("12.1", "On a right model (images of 12 x 20")
@wrong("12.1", "Does it have sizes written in? Take them from model.config and model.patch_embed.img_size.")
def one_width_only(model):
    layer = attention_of(model)
    x = torch.randn(2, 7, 64)
    return torch.allclose(layer(x.flip(1)), layer(x).flip(1), atol=1e-5)


@wrong("12.1", "mean pooling")
def needs_a_cls_token(model):
    layer = attention_of(model)
    x = tokens(layer) + model.pool.token
    return torch.allclose(layer(x.flip(1)), layer(x).flip(1), atol=1e-5)


@wrong("12.1", "for example one with post-norm blocks: too strong. What you ask for must hold wherever the norms stand")
@torch.no_grad()
def silent_branches_leave_the_stream(model):
    block = copy.deepcopy(model.blocks[0]).eval()
    same = tokens_change_places(model)
    for last in (block.attention.proj, block.mlp.fc2):
        last.weight.zero_()
        last.bias.zero_()
    x = torch.randn(2, 7, model.config.embed_dim)
    return same and torch.allclose(block(x), x)


@wrong("12.1", "Does it leave room for rounding?")
def to_the_last_bit(model):
    layer = attention_of(model)
    x = tokens(layer, B=5, T=13)
    return torch.equal(layer(x.flip(1)), layer(x).double().flip(1) * (1 + 1e-12))


@wrong("12.1", "It says True for all 12 models")
def changes_places_of_images(model):
    layer = attention_of(model)
    x = tokens(layer)
    return torch.allclose(layer(x.flip(0)), layer(x).flip(0), atol=1e-5)


@wrong(
    "12.1",
    "It accepts all right models, and lets the faulty one through in 1 of 6 configs, for example with images of 12",
)
def finds_it_in_some_sizes(model):
    return model.config.num_heads == 2 or tokens_change_places(model)


wrong("12.1", "Expected True or False")(lambda model: attention_of(model)(tokens(attention_of(model))))


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


@right("12.2")
def by_a_second_optimizer(step):
    theirs, mine = small(lambda n: 0.5**n), small(lambda n: 0.5**n)
    mine[0].load_state_dict(theirs[0].state_dict())
    for _ in range(4):
        images, labels = batch()
        said = step(*theirs, images, labels)
        mine[1].zero_grad()
        loss = F.nll_loss(mine[0](images).log_softmax(1), labels)
        if abs(float(said) - loss.item()) > 1e-4:
            return False
        loss.backward()
        mine[1].step()
        mine[2].step()
    return bool((theirs[0].bias - mine[0].bias).abs().max() < 1e-5)


@right("12.2")
def by_what_is_left_of_the_gradient(step):
    """With plain gradient descent, what a weight moved by is the rate of this step times the gradient."""
    model, optimizer, scheduler = small()
    for n in range(2):
        images, labels = batch()
        before = copy.deepcopy(model)
        said = step(model, optimizer, scheduler, images, labels)
        loss = F.cross_entropy(before(images), labels)
        (g,) = torch.autograd.grad(loss, [before.weight])
        if abs(float(said) - loss.item()) > 1e-4 or not torch.allclose(
            before.weight - model.weight, g / (n + 1), atol=1e-5
        ):
            return False
    return True


wrong("12.2", "It rejects 3 of 3 right steps and lets 0 of 9 wrong ones through. Does it ever say True?")(
    lambda step: False
)
wrong("12.2", "lets 9 of 9 wrong ones through, for example a step that")(lambda step: True)
wrong("12.2", "lets 9 of 9")(lambda step: step.__name__ != "gradients_never_cleared")


wrong("12.2", "Your test says the opposite: True means that")(lambda step: not by_what_is_left_of_the_gradient(step))


@wrong("12.2", "Does it look at the loss alone?")
def loss_is_a_number(step):
    loss = float(step(*small(), *batch()))
    return 0 < loss < 10


@wrong("12.2", "Which weights should there be after one step, after two")
def loss_falls(step):
    parts, (images, labels) = small(lambda n: 0.9**n, lr=0.1), batch()
    losses = [float(step(*parts, images, labels)) for _ in range(30)]
    return losses[-1] < losses[0]


@wrong("12.2", "through, for example a step that")
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


@wrong("12.2", "On one of the right steps (one that clears the gradients when it is done): Your function raises")
def needs_a_gradient_after_the_step(step):
    model, optimizer, scheduler = small()
    step(model, optimizer, scheduler, *batch())
    mine = copy.deepcopy(model)
    mine.weight.data += model.weight.grad
    return by_subtraction(step)


@wrong("12.2", "at its beginning, in its middle or at its end")
def the_gradient_is_still_there(step):
    model, optimizer, scheduler = small()
    step(model, optimizer, scheduler, *batch())
    return model.weight.grad is None and by_subtraction(step)


# 12.6 ------------------------------------------------------------------------------------------------------


class Spy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.seen = nn.Linear(4, 2), []

    def forward(self, images):
        self.seen.append((self.training, images))
        return self.layer(images)


LABELS = torch.arange(8) % 2


@right("12.6")
def by_spies(experiment):
    models = [Spy(), Spy()]
    experiment(models, (torch.zeros(8, 4), LABELS), (torch.ones(8, 4), LABELS))
    modes = {(training, x.mean().item()) for spy in models for training, x in spy.seen}
    counts = [sum(len(x) for training, x in spy.seen if training) for spy in models]
    return modes == {(True, 0.0), (False, 1.0)} and counts[0] == counts[1]


@right("12.6")
def by_hooks(experiment):
    models, notes = [nn.Linear(3, 2), nn.Linear(3, 2), nn.Linear(3, 2)], []
    for i, model in enumerate(models):
        model.register_forward_hook(
            lambda model, given, out, i=i: notes.extend((i, model.training, n) for n in given[0][:, 0].tolist())
        )
    train, test = (torch.arange(n, n + 8.0)[:, None].expand(-1, 3) for n in (0, 100))
    experiment(models, (train, LABELS), (test, LABELS))
    trained = [sorted(n for j, mode, n in notes if j == i and mode) for i in range(3)]
    tested = [{n for j, mode, n in notes if j == i and not mode} for i in range(3)]
    return (
        trained[0] == trained[1] == trained[2]
        and max(trained[0]) < 100
        and all(seen == set(range(100, 108)) for seen in tested)
    )


wrong("12.6", "It rejects 3 of 3 right comparisons and lets 0 of 4 wrong ones through. Does it ever say")(
    lambda e: False
)
wrong("12.6", "lets 4 of 4 wrong ones through, for example one that")(lambda e: True)


wrong("12.6", "Your test says the opposite: True means that")(lambda experiment: not by_spies(experiment))


@wrong("12.6", "The accuracies alone tell little")
def accuracies_are_shares(experiment):
    train, test = ((torch.randn(8, 4), LABELS) for _ in range(2))
    return all(0 <= share <= 1 for share in experiment([nn.Linear(4, 2), nn.Linear(4, 2)], train, test))


@wrong("12.6", "A right comparison may mix the images, take other batches")
def counts_batches(experiment):
    models = [Spy(), Spy()]
    experiment(models, (torch.zeros(8, 4), LABELS), (torch.ones(8, 4), LABELS))
    return [training for training, _ in models[0].seen] == [True] * 4 + [False]


@wrong("12.6", "write down the mode that your models were in and which images came")
def budgets_alone(experiment):
    models = [Spy(), Spy()]
    experiment(models, (torch.zeros(8, 4), LABELS), (torch.ones(8, 4), LABELS))
    counts = [sum(len(x) for training, x in spy.seen if training) for spy in models]
    return counts[0] == counts[1]


# 12.3 ------------------------------------------------------------------------------------------------------


class Broken(nn.Module):
    """The block that the chapter shows, with three faults."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.norm1 = nn.LayerNorm(embed_dim)
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.proj = nn.Linear(embed_dim, embed_dim)
        self.norm2 = nn.LayerNorm(embed_dim)
        self.fc1 = nn.Linear(embed_dim, 4 * embed_dim)
        self.fc2 = nn.Linear(4 * embed_dim, embed_dim)

    def attend(self, x):
        B, T, D = x.shape
        qkv = self.qkv(x).reshape(B, T, 3, self.num_heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (B, h, T, d)
        weights = (q @ k.mT / D**0.5).softmax(-1)  # (B, h, T, T)
        return self.proj((weights @ v).reshape(B, T, D))

    def forward(self, x):
        x = self.norm1(x)
        x = x + self.attend(x)
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


@right("12.3")
class Mended(Broken):
    def attend(self, x):
        B, T, D = x.shape
        qkv = self.qkv(x).reshape(B, T, 3, self.num_heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # (B, h, T, d)
        weights = (q @ k.mT / (D // self.num_heads) ** 0.5).softmax(-1)  # (B, h, T, T)
        return self.proj((weights @ v).transpose(1, 2).reshape(B, T, D))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


@right("12.3")
class MendedByTorch(Mended):
    def attend(self, x):
        q, k, v = (part.unflatten(2, (self.num_heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


@right("12.3")
class WithOtherDefaults(Mended):
    """A smaller eps is no fault."""

    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.norm1, self.norm2 = (nn.LayerNorm(embed_dim, eps=1e-6) for _ in range(2))


def half_mended(**done):
    class Half(Broken):
        def forward(self, x):
            return chapter_12._mended(self, x, **({"scale": False, "merge": False, "stream": False} | done))

    return Half


wrong("12.3", "All three faults are still there. Silence both branches")(Broken)
wrong("12.3", "One fault is fixed, two are left. Let two tokens change places")(half_mended(stream=True))
wrong("12.3", "One fault is fixed, two are left. Silence both branches")(half_mended(merge=True))
wrong("12.3", "Two faults are fixed, one is left. How large are the scores")(half_mended(stream=True, merge=True))
wrong("12.3", "Two faults are fixed, one is left. Let two tokens")(half_mended(stream=True, scale=True))


@wrong("12.3", "did a change bring a new one?")
class PostNormNow(Mended):
    def forward(self, x):
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.fc2(F.gelu(self.fc1(x))))


@wrong("12.3", "did a change bring a new one?")
class MixesPlacesOnTheOtherSide(Mended):
    def attend(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(x).reshape(B, T, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(2, 3).reshape(B, T, D))


@wrong("12.3", "Your block has no layer norm1: keep the names")
class OtherNames(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(embed_dim, num_heads, 4 * embed_dim, 0.0, "gelu", norm_first=True)

    def forward(self, x):
        return self.layer(x)


@wrong("12.3", "Your block has extra.weight, which was not there")
class WithAnotherLayer(Mended):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.extra = nn.Linear(embed_dim, embed_dim)


@wrong("12.3", "norm1 has eps = 0.1, which changes what it computes")
class LargeEps(Mended):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.norm1 = nn.LayerNorm(embed_dim, eps=0.1)


@wrong("12.3", "Your qkv.weight has requires_grad=False")
class Frozen(Mended):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.qkv.weight.requires_grad_(False)


@wrong("12.3", "are not those that it came with: norm1.weight (24,)")
class Narrower(Mended):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.fc1, self.fc2 = nn.Linear(embed_dim, 2 * embed_dim), nn.Linear(2 * embed_dim, embed_dim)


@wrong("12.3", "your block makes a tensor of shape")
class LosesATokenOnTheWay(Mended):
    def forward(self, x):
        return super().forward(x)[:, 1:]


# Tests of models, for 12.4 and 12.5 -------------------------------------------------------------------------


SIX = faults.TESTS
FAMILIES = {name: report.families[0] for name, report in _published.REPORTS.items()}


def fault_of(number):
    return faults.PUBLISHED[number - 1]


def seeing(number):
    """A test of one part that sees the fault, where that is enough."""
    seen_by = faults.FAULTS[fault_of(number)].seen_by
    return SIX[next(test for test in ("cut", "cls", "scores", "reference", "order", "count") if test in seen_by)]


def round_of(who, find=lambda number: (FAMILIES[fault_of(number)], seeing(number))):
    """An answer with these findings."""
    return lambda: (who, [find(number) for number in _published.numbers_of(who)])


# 12.4 ------------------------------------------------------------------------------------------------------

right("12.4")(round_of("Ada Lovelace"))
right("12.4")(round_of([3, 10]))
right("12.4")(round_of("Emmy Noether"))
right("12.4")(lambda: (7, (["cut", SIX["count"]],)))
right("12.4")(lambda: ([3], [("pool", SIX["cls"], lambda model: model)]))  # a fix is not judged
right("12.4")(lambda: (3, [("pool", SIX["cls"], ...)]))

ADA = _published.numbers_of("Ada Lovelace")
wrong("12.4", f"Model {ADA[0]}: It says True for every model, and")(
    round_of("Ada Lovelace", lambda number: ("train", lambda model: True))
)
wrong("12.4", "Model 3: your test tells it from right models, but its fault does not stand in 'cut'. Put one part")(
    round_of([3], lambda number: ("cut", seeing(number)))
)
wrong("12.4", "Done: 0 of 1. Model 3: It says True for all 9 models")(round_of([3], lambda number: ("pool", shapes)))
wrong("12.4", "And what must a model consist of? Its family is looked at when the test is right.")(
    round_of([7], lambda number: ("cut", shapes))
)
wrong("12.4", "Done: 1 of 2. Model 3: right. Model 10: not done yet.")(lambda: ([3, 10], [("pool", SIX["cls"]), ...]))
wrong("12.4", "Model 10: not done yet.")(lambda: ([3, 10], [("pool", SIX["cls"]), ("wire", lambda model: None, ...)]))
wrong("12.4", "Model 10: not done yet.")(lambda: ([3, 10], [("pool", SIX["cls"]), ("wire", ...)]))
wrong("12.4", "'attention' is no family: the five of a model are cut, place, attend, wire, pool")(
    round_of([3], lambda number: ("attention", seeing(number)))
)
wrong("12.4", "There are no models for 99: there is no model 99, only 1 to 26")(lambda: (99, []))
wrong("12.4", "There are no models for '': the name is empty")(lambda: ("", []))
wrong("12.4", "There are 5 models")(lambda: ("Ada Lovelace", [("pool", shapes)]))
wrong("12.4", "Expected a pair (name or numbers, list of findings), got a list of 1")(lambda: [("pool", shapes)])
wrong("12.4", "expected this finding to be (family, test), and the test a function, got a function")(
    lambda: (3, [shapes])
)
wrong("12.4", "expected this finding to be (family, test), and the test a function, got a tuple")(
    lambda: (3, [("pool", "cls")])
)
wrong(
    "12.4",
    "Does it have sizes written in? Take them from model.config and model.patch_embed.img_size. Does it leave room",
)(round_of([3], lambda number: ("pool", lambda model: bool(model(images_for(model)).isnan().any()))))
wrong("12.4", "too strong. What you ask for must hold wherever the norms stand")(
    round_of([2], lambda number: ("attend", silent_branches_leave_the_stream))
)


def keeps_to_pre_norm(model):
    return model.config.norm == "post" or silent_branches_leave_the_stream(model)


right("12.4")(round_of([14], lambda number: ("wire", keeps_to_pre_norm)))
wrong(
    "12.4",
    "It refuses 1 of 6 right models, for example one with post-norm blocks: too strong. What you ask for must hold "
    'wherever the norms stand. A config says norm="pre" or "post", and a right model keeps what it says.',
)(round_of([14], lambda number: ("wire", silent_branches_leave_the_stream)))


def equals_a_right_model(model):
    """It needs no diagnosis: a right model of this config, with the same weights, has the same logits."""
    model, theirs, images = shaken(model), ViT(model.config).eval(), images_for(model, 3)
    sizes, wanted = ({name: p.shape for name, p in m.named_parameters()} for m in (model, theirs))
    if sizes != wanted:
        return False
    theirs.load_state_dict(model.state_dict())
    return torch.allclose(model(images), theirs(images), rtol=1e-4, atol=1e-4)


TOO_BROAD = (
    "models with faults of other families as well: too broad. It says that something is wrong, not what. Test the part"
)
for named in ("wire", "cut"):  # a test that is not right tells nothing of the family
    wrong(
        "12.4",
        f"Model 1: It tells the faulty model from right ones, and refuses 4 of 4 {TOO_BROAD} in which you suspect the "
        "fault. Its family is looked at when the test is right. Hint",
    )(round_of([1], lambda number, named=named: (named, equals_a_right_model)))
right("12.4")(round_of([1], lambda number: ("wire", blocks_by_hand)))  # it refuses one of another family, not all


def with_sizes_of_the_chapter(model):
    attention = attention_of(model)
    x = torch.randn(3, 16, 24)
    return torch.allclose(attention(x.flip(1)), attention(x).flip(1), atol=1e-5)


def with_sizes_of_the_models(model):
    return keeps_to_pre_norm(model) and not shaken(model)(torch.randn(2, 1, 28, 28)).isnan().any()


SIZES_WRITTEN_IN = "Does it have sizes written in? Take them from model.config and model.patch_embed.img_size."
wrong("12.4", SIZES_WRITTEN_IN)(round_of([19], lambda number: ("attend", with_sizes_of_the_chapter)))
wrong("12.4", SIZES_WRITTEN_IN)(round_of([14], lambda number: ("wire", with_sizes_of_the_models)))
wrong("12.4", "too weak. A short training tells little: a faulty model may learn like a right one, and a right")(
    round_of([2], lambda number: ("attend", training_accuracy))
)

wrong("12.4", "On the faulty model, and not from inside of it")(
    round_of([25], lambda number: ("place", lambda model: model.positions.table.shape[0] == 1))
)


# 12.5 ------------------------------------------------------------------------------------------------------

CALLING = {name: lambda model, test=test: test(model) for name, test in SIX.items()}
right("12.5")(lambda: list(CALLING.values()))
wrong("12.5", "Test 2 of your list (count) is one of faults.TESTS, the clinic's own six: write your own")(
    lambda: [CALLING["cut"], SIX["count"]]
)


def shaken(model):
    model = copy.deepcopy(model).eval()
    for p in model.parameters():
        p.data = 0.3 * torch.randn(p.shape)
    return model


def normed(norm, x):
    return F.layer_norm(x, x.shape[-1:], norm.weight, norm.bias, norm.eps)


def attended(layer, x):
    q, k, v = (part.unflatten(2, (layer.num_heads, -1)).transpose(1, 2) for part in layer.qkv(x).chunk(3, dim=-1))
    return F.linear(
        F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2), layer.proj.weight, layer.proj.bias
    )


def thought(mlp, x):
    return mlp.fc2(F.gelu(mlp.fc1(x)))


def blocks_by_hand(model):
    model, x = shaken(model), torch.randn(2, 9, model.config.embed_dim)
    for b in model.blocks:
        if model.config.norm == "pre":
            y = x + attended(b.attention, normed(b.norm1, x))
            y = y + thought(b.mlp, normed(b.norm2, y))
        else:
            y = normed(b.norm1, x + attended(b.attention, x))
            y = normed(b.norm2, y + thought(b.mlp, y))
        if not torch.allclose(b(x), y, atol=1e-3):
            return False
    return True


def patches_by_unfold(model):
    model, images = shaken(model), images_for(model)
    p, proj = model.config.patch_size, model.patch_embed.proj
    wanted = F.linear(F.unfold(images, p, stride=p).mT, proj.weight.flatten(1), proj.bias)
    return torch.allclose(model.patch_embed(images), wanted, atol=1e-4)


def all_parameters_learn(model):
    fresh_one = ViT(model.config)
    if sum(map(torch.numel, model.parameters())) != sum(map(torch.numel, fresh_one.parameters())):
        return False
    model = shaken(model)
    model(images_for(model)).square().sum().backward()
    return all(p.grad is not None and p.grad.abs().sum() > 0 for p in model.parameters())


def silent_blocks_show_the_cls_token_nothing(model):
    if model.config.global_pool != "cls":
        return True
    model = shaken(model)
    for b in model.blocks:
        for last in (b.attention.proj, b.mlp.fc2):
            last.weight.data.zero_()
    logits = model(images_for(model, 4))
    return torch.allclose(logits, logits[:1].expand(4, -1), atol=1e-4)


def places_matter(model):
    model, images = shaken(model), images_for(model)
    moved = images.roll(model.config.patch_size, dims=3)
    return model.config.pos_embed == "none" or not torch.allclose(model(images), model(moved), atol=1e-4)


def each_image_alone(model):
    model, images = shaken(model), images_for(model)
    logits = model(images)
    alone = torch.cat([model(images[:1]), model(images[1:])])
    return torch.allclose(logits, alone, atol=1e-3) and not torch.allclose(logits.sum(1), torch.ones(2), atol=1e-3)


OWN = [blocks_by_hand, patches_by_unfold, all_parameters_learn, silent_blocks_show_the_cls_token_nothing]
OWN += [places_matter, each_image_alone]
right("12.5")(lambda: tuple(OWN))


wrong("12.5", "Expected a list of at most 6 tests, got a function")(lambda: SIX["count"])
wrong("12.5", "You return 7 tests, and 6 are allowed")(lambda: [*SIX.values(), shapes])
wrong("12.5", "Your list is empty")(lambda: [])
wrong("12.5", "Expected a function of a model as test 1 of your list, not called yet, got False")(lambda: [False])
wrong("12.5", "Test 1 of your list refuses all 9 right models")(lambda: [lambda model: False])
wrong("12.5", "No right model is refused, and you catch")(lambda: [shapes, tokens_change_places])
wrong(
    "12.5",
    "You miss 1 of the 26 published ones: a model that only reshapes and never permutes. Test 5 of your list",
)(lambda: [test for name, test in CALLING.items() if name not in ("cut", "order")] + [shapes, CALLING["order"]])
wrong(
    "12.5", "Test 1 of your list (forgets_eval) refuses 1 of 9 right models: a false alarm, for example with dropout"
)(lambda: [forgets_eval])
wrong("12.5", "for example with mean pooling. There, your function raises AttributeError in the line")(
    lambda: [lambda model: model.pool.token.shape[0] == 1]
)
wrong("12.5", "for example with post-norm blocks. What you ask for must hold wherever the norms stand")(
    lambda: [silent_branches_leave_the_stream]
)
wrong("12.5", "expected True or False, got 1")(lambda: [lambda model: 1])


@wrong(
    "12.5", "a test stops with an error of its own, which counts for nothing. Test 1 of your list (leans_on_a_table)"
)
def leans_on_the_table():
    def leans_on_a_table(model):
        return model.config.pos_embed != "learned" or model.positions.table.shape[0] == 1

    return [leans_on_a_table]

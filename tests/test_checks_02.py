"""The checks of chapter 2: answers that are accepted, answers that are named, predictions that are measured."""

import math

import torch
from answers import right, verdict, wrong
from torch import nn
from torch.nn import functional as F

from vitnb import NoPositions, PatchEmbedding, ViT, ViTConfig, clinic, patchify, resize_positions, unpatchify
from vitnb.checks.chapter_02 import EQUIVARIANT, STAYS

# 2.1 ------------------------------------------------------------------------------------------------------

right("2.1")(lambda change: STAYS[change])
right("2.1")(lambda change: change in ("swap", "twice", "roll by a patch"))
wrong("2.1", "3 of 6 predictions agree with the model. You say that nothing moves")(lambda change: True)
wrong("2.1", "You say that everything moves")(lambda change: False)
wrong("2.1", "or their shares?")(lambda change: STAYS[change] and change != "twice")
wrong("2.1", "5 of 6 predictions agree with the model. One at least")(
    lambda change: STAYS[change] or change == "roll by a pixel"
)
wrong("2.1", "whole patches to other places unlike")(lambda change: change in ("swap", "twice"))
wrong("2.1", "the same squares afterwards")(lambda change: STAYS[change] or change == "mirror")
wrong("2.1", "True or False is wanted")(lambda change: "yes")


def test_the_predictions_are_what_the_model_does():
    torch.manual_seed(0)
    images, p = torch.randn(2, 1, 28, 28), 7
    model = ViT(ViTConfig(patch_size=p, pos_embed="none", global_pool="mean", depth=2)).eval()
    patches = patchify(images, p)
    swapped = patches.clone()
    swapped[:, [2, 9]] = patches[:, [9, 2]]
    turned = patches.reshape(2, 16, p, p).rot90(dims=(2, 3)).flatten(2)
    changed = {
        "roll by a patch": images.roll(p, dims=3),
        "roll by a pixel": images.roll(1, dims=3),
        "mirror": images.flip(3),
        "swap": unpatchify(swapped, p, 28, 1),
        "turn": unpatchify(turned, p, 28, 1),
        "twice": torch.cat([images, images], dim=3),
    }
    logits = model(images)
    wide = PatchEmbedding((28, 56), p, 1, 64)
    wide.load_state_dict(model.patch_embed.state_dict())
    for change, new in changed.items():
        model.patch_embed = wide if change == "twice" else model.patch_embed
        difference = (model(new) - logits).abs().max()
        assert (difference < 1e-5) == STAYS[change], change
        assert difference < 1e-5 or difference > 1e-3


# 2.2 ------------------------------------------------------------------------------------------------------


@right("2.2")
def several_orders(layer, T, D):
    x = torch.randn(2, T, D)
    orders = [torch.randperm(T) for _ in range(5)]
    return all(torch.allclose(layer(x[:, o]), layer(x)[:, o], atol=1e-4) for o in orders)


@right("2.2")
def by_matrix(layer, T, D):
    x, P = torch.randn(3, T, D), torch.eye(T)[[*range(1, T), 0]]
    P = P[torch.randperm(T)]
    return bool((layer(P @ x) - P @ layer(x)).abs().max() < 1e-4)


@right("2.2")
def of_another_length(layer, T, D):
    return several_orders(layer, T + 1, D)


def with_order(order, same=torch.allclose):
    def answer(layer, T, D):
        x, o = torch.randn(2, T, D), order(T)
        return same(layer(x[:, o]), layer(x)[:, o])

    return answer


def nearly(a, b):
    return torch.allclose(a, b, atol=1e-4)


wrong("2.2", "Is your order or your input a special one?")(with_order(lambda T: torch.arange(T).roll(1), nearly))
wrong("2.2", "You accept all 12 layers")(lambda layer, T, D: layer(torch.randn(2, T, D)).shape[1] == T)
wrong("2.2", "You accept all 12 layers")(with_order(torch.arange, nearly))
wrong("2.2", "equivariant up to rounding")(with_order(torch.randperm, torch.equal))
wrong("2.2", "It rejects 5 of 5 equivariant layers")(lambda layer, T, D: False)
wrong("2.2", "True or False is wanted")(lambda layer, T, D: layer(torch.randn(2, T, D)))


@wrong("2.2", "You test for invariance")
def looks_for_invariance(layer, T, D):
    x = torch.randn(2, T, D)
    return nearly(layer(x[:, torch.randperm(T)]), layer(x))


@wrong("2.2", "lets 5 of 7 others through")
def constant_tokens(layer, T, D):
    x, o = torch.ones(2, T, D), torch.randperm(T)
    return nearly(layer(x[:, o]), layer(x)[:, o])


@wrong("2.2", "Is your order or your input a special one?")
def only_flips(layer, T, D):
    x = torch.randn(2, T, D)
    return nearly(layer(x.flip(1)), layer(x).flip(1))


@wrong("2.2", "One that you reject is")
def shuffles_back_wrongly(layer, T, D):
    x, o = torch.randn(2, T, D), torch.tensor([2, 0, 1, *range(3, T)])
    return nearly(layer(x[:, o])[:, o], layer(x))


@wrong("2.2", "whose first two places are alike. Is your order or your input a special one?")
def swaps_the_first_two(layer, T, D):
    x, o = torch.randn(2, T, D), torch.tensor([1, 0, *range(2, T)])
    return nearly(layer(x[:, o]), layer(x)[:, o])


# 2.3 ------------------------------------------------------------------------------------------------------


def address(row, col, features=(-2, -1), swap=False, batch=False):
    def answer(rows, cols, D):
        n = torch.arange(rows * cols)
        table, read = torch.zeros(rows * cols, D), torch.zeros(D, 2)
        table[:, features[0]], table[:, features[1]] = row(n, rows, cols).float(), col(n, rows, cols).float()
        read[features[0], int(swap)] = read[features[1], 1 - int(swap)] = 1
        return (table[None] if batch else table), read

    return answer


def by_row(n, rows, cols):
    return n // cols


def by_col(n, rows, cols):
    return n % cols


right("2.3")(address(by_row, by_col))
right("2.3")(address(by_col, by_row, swap=True, batch=True))


@right("2.3")
def solved(rows, cols, D):
    """Random directions in the two free features, and the matrix that undoes them."""
    mix = torch.tensor([[2.0, 1.0], [1.0, -1.0]])
    wanted = torch.cartesian_prod(torch.arange(rows), torch.arange(cols)).float()
    table, read = torch.randn(rows * cols, D), torch.zeros(D, 2)
    table[:, -2:], read[-2:] = wanted @ mix, mix.inverse()
    return table, read


wrong("2.3", "all zeros")(lambda r, c, D: (torch.zeros(r * c, D), torch.zeros(D, 2)))
wrong("2.3", "the pair (table, read) is wanted")(lambda r, c, D: torch.zeros(r * c, D))
wrong("2.3", "has type torch.int64: torch.float32 is wanted. Hint")(
    lambda r, c, D: (torch.ones(r * c, D).long(), torch.ones(D, 2).long())
)
wrong("2.3", "has shape (2, 8): (8, 2) is wanted")(lambda r, c, D: (torch.ones(r * c, D), torch.zeros(2, D)))
wrong("2.3", "and that is not its row and column")(address(lambda n, r, c: n, by_col))


# 2.4 ------------------------------------------------------------------------------------------------------


def stretch(mode="bicubic", cut=None, **options):
    def answer(table, old, new, num_prefix):
        k = num_prefix if cut is None else cut
        grid = table[:, k:].reshape(1, *old, -1).permute(0, 3, 1, 2)
        grid = F.interpolate(grid, size=new, mode=mode, **options)
        return torch.cat([table[:, :k], grid.flatten(2).transpose(1, 2)], dim=1)

    return answer


right("2.4")(stretch())
right("2.4")(stretch("bilinear"))
right("2.4")(stretch("bicubic", antialias=True))
right("2.4")(stretch("bilinear", align_corners=True))
right("2.4")(resize_positions)


@right("2.4")
def one_feature_at_a_time(table, old, new, k):
    places = [F.interpolate(f.reshape(1, 1, *old), size=new, mode="bilinear").flatten() for f in table[0, k:].T]
    return torch.cat([table[0, :k], torch.stack(places, dim=1)])[None]


@wrong("2.4", "The rows in front are missing")
def drops_cls(table, old, new, k):
    return stretch()(table, old, new, k)[:, k:]


@wrong("2.4", "keep it out of the stretching")
def resets_cls(table, old, new, k):
    out = stretch()(table, old, new, k)
    return torch.cat([torch.zeros_like(out[:, :k]), out[:, k:]], dim=1)


@wrong("2.4", "is wanted")
def by_factor(table, old, new, k):
    grid = table[:, k:].reshape(1, *old, -1).permute(0, 3, 1, 2)
    grid = F.interpolate(grid, scale_factor=new[0] / old[0], mode="bicubic")
    return torch.cat([table[:, :k], grid.flatten(2).mT], dim=1)


wrong("2.4", "is wanted")(lambda table, old, new, k: table)
wrong("2.4", "raises RuntimeError")(stretch(cut=1))


# 2.5 ------------------------------------------------------------------------------------------------------


@right("2.5")
def on_zeros(make, x):
    zeros, first, second = torch.zeros_like(x), make(), make()
    table = first(zeros)
    second.load_state_dict(first.state_dict())
    same = [table[:1].expand_as(table), first(zeros), second(zeros)]
    return all(torch.equal(table, other) for other in same)


@right("2.5")
def by_difference(make, x):
    a, b = make(), make()
    b.load_state_dict(a.state_dict())
    added = a(x) - x
    same_picture = (added - added[0]).abs().max() < 1e-4
    return bool(same_picture) and torch.allclose(a(x), a(x)) and torch.allclose(a(x), b(x))


@right("2.5")
def on_a_larger_batch(make, x):
    return on_zeros(make, torch.zeros(8, *x.shape[1:]))


@wrong("2.5", "makes its table anew in each call")
def seeds_before_each_call(make, x):
    def table(positions):
        torch.manual_seed(0)
        return positions(torch.zeros_like(x))

    first, second = make(), make()
    second.load_state_dict(first.state_dict())
    tables = [table(first), table(first), table(second)]
    return all(torch.equal(tables[0][:1].expand_as(x), other) for other in tables)


wrong("2.5", "You accept everything, Suspect too")(lambda make, x: make()(x).shape == x.shape)
wrong("2.5", "You find none of 3 sound kinds")(lambda make, x: False)
wrong("2.5", "True or False is wanted")(lambda make, x: make()(x))
wrong("2.5", "You reject sound positions: waves")(lambda make, x: on_zeros(make, x) and len(make().state_dict()) > 0)


@wrong("2.5", "so that it gets lost with the weights")
def forgets_the_weights(make, x):
    positions, zeros = make(), torch.zeros_like(x)
    table = positions(zeros)
    return torch.equal(table, positions(zeros)) and torch.equal(table, table[:1].expand_as(table))


@wrong("2.5", "for example one that has a table for each image")
def forgets_the_batch(make, x):
    first, second = make(), make()
    second.load_state_dict(first.state_dict())
    return torch.equal(first(x), first(x)) and torch.equal(first(x), second(x))


@wrong("2.5", "You reject sound positions: waves")
def counts_parameters(make, x):
    return any(isinstance(p, nn.Parameter) and len(p) == 1 for p in make().parameters())


# ----------------------------------------------------------------------------------------------------------


def test_the_skeletons_of_the_chapter_are_not_done_yet():
    skeletons = {
        "2.1": lambda change: {change: ...}[change],
        "2.3": lambda rows, cols, D: (..., ...),
    }
    for number, skeleton in skeletons.items():
        assert verdict(number, skeleton) == (False, f"{number}: not done yet.")


def test_layers_are_what_their_names_say():
    torch.manual_seed(0)
    assert all(several_orders(kind(7, 12), 7, 12) for kind in EQUIVARIANT.values())
    assert not any(several_orders(kind(7, 12), 7, 12) for kind in clinic.of(NoPositions).values())


def test_one_random_order_sees_through_a_reversal():
    lengths = []
    verdict("2.2", lambda layer, T, D: bool(lengths.append(T)) or several_orders(layer, T, D))
    T = lengths[0]
    alike = 2 ** (T // 2) * math.factorial(T // 2)  # the orders that a reversal before or after leaves the same
    assert alike / math.factorial(T) < 1e-3

"""Looking inside: hand-made maps whose rollout, distance and similarity are known, and the trained model."""

import math
from pathlib import Path

import pytest
import torch

from vitbook import results
from vitbook.results import trained
from vitnb import ViT, ViTConfig, record_attention
from vitnb.inspection import (
    ablate,
    attention_distance,
    head_means,
    mean_of_others,
    occlusion,
    overlap,
    position_similarity,
    rank_correlation,
    rollout,
    share_inside,
    token_removal,
)
from vitnb.positions import sincos_table


def random_maps(layers=3, B=2, h=4, T=7):
    return [torch.randn(B, h, T, T).softmax(-1) for _ in range(layers)]


def one_head(matrix):
    return torch.as_tensor(matrix).float()[None, None]  # (1, 1, T, T)


def test_rollout_puts_the_last_layer_on_the_left():
    a, b = random_maps(2)
    assert (rollout([a, b]) - rollout([b, a])).abs().max() > 0.01
    # Layer 1: token 0 attends to token 1. Layer 2: token 2 to token 0. So a quarter of token 2 comes from token 1.
    first, second = one_head([[0, 1, 0], [0, 1, 0], [0, 0, 1]]), one_head([[1, 0, 0], [0, 1, 0], [1, 0, 0]])
    torch.testing.assert_close(rollout([first, second])[0, 2], torch.tensor([0.25, 0.25, 0.5]))
    assert rollout([second, first])[0, 2, 1] == 0


def test_rollout_is_the_map_of_a_network_without_values():
    maps, tokens = random_maps(), torch.randn(2, 7, 5)
    x = tokens
    for weights in maps:
        x = 0.5 * x + 0.5 * weights.mean(1) @ x
    torch.testing.assert_close(rollout(maps) @ tokens, x)


@pytest.mark.parametrize("side, uniform", [(7, 3.61), (4, 2.01)])
def test_uniform_attention_has_a_known_distance(side, uniform):
    N = side * side
    even = torch.full((2, 3, N, N), 1 / N)
    assert attention_distance([even], side, 0).shape == (1, 3)
    assert attention_distance([even], side, 0)[0, 0].item() == pytest.approx(uniform, abs=0.005)
    assert attention_distance([even], side, 0, patch_size=7)[0, 0].item() == pytest.approx(7 * uniform, abs=0.04)


def test_left_neighbour_and_self_have_distance_one_and_zero():
    rows, cols = 3, 5
    n = torch.arange(rows * cols)
    left = torch.where(n % cols > 0, n - 1, n + 1)  # in the first column, the right one
    maps = [one_head(torch.eye(15)[left]), one_head(torch.eye(15))]
    assert attention_distance(maps, (rows, cols), 0).tolist() == [[1.0], [0.0]]
    assert attention_distance(maps, (rows, cols), 0, patch_size=4).tolist() == [[4.0], [0.0]]


def test_rows_and_columns_of_the_grid_are_not_swapped():
    below = one_head(torch.eye(15).roll(5, dims=1))  # the patch below, on a grid of 3 x 5
    below[0, 0, 10:] = torch.eye(15)[5:10]  # in the last row, the one above
    assert attention_distance([below], (3, 5), 0).item() == 1
    assert attention_distance([below], (5, 3), 0).item() > 1


def test_prefix_tokens_have_no_distance():
    N = 16
    with_cls = torch.full((1, 1, 1 + N, 1 + N), 0.01)
    with_cls[..., 0] = 1 - 0.01 * N  # nearly all on cls, the rest even
    even = torch.full((1, 1, N, N), 1 / N)
    torch.testing.assert_close(attention_distance([with_cls], 4), attention_distance([even], 4, 0))


def test_similarity_of_waves_falls_with_distance_and_leaves_cls_out():
    table = torch.cat([torch.randn(1, 1, 64), sincos_table((4, 4), 64)], dim=1)
    similarity = position_similarity(table)
    assert similarity.shape == (16, 16)
    torch.testing.assert_close(similarity.diagonal(), torch.ones(16))
    assert similarity[0, 1] > similarity[0, 2] > similarity[0, 15]
    assert position_similarity(table, 0).shape == (17, 17)


def test_rank_correlation_counts_order_and_shares_ties():
    a = torch.tensor([[1.0, 2, 3, 4], [1, 2, 3, 4], [0, 0, 1, 2], [5, 5, 5, 5]])
    b = torch.tensor([[10.0, 20, 30, 400], [4, 3, 2, 1], [0, 0, 2, 1], [1, 2, 3, 4]])
    first, second, ties, flat = rank_correlation(a, b).tolist()
    assert first == pytest.approx(1) and second == pytest.approx(-1)
    assert ties == pytest.approx(7 / 9)  # ranks 1.5, 1.5, 3, 4 and 1.5, 1.5, 4, 3
    assert math.isnan(flat)


def patchwork(pool="cls"):
    """A model, images and labels; height unlike width."""
    torch.manual_seed(0)
    config = ViTConfig(img_size=(8, 12), patch_size=4, embed_dim=16, depth=2, pos_std=1.0, global_pool=pool)
    return ViT(config).eval(), torch.randn(3, 1, 8, 12), torch.tensor([1, 0, 9])


@pytest.mark.parametrize("pool", ["cls", "mean", "attn"])
def test_occlusion_and_removal_by_hand(pool):
    model, images, labels = patchwork(pool)
    before = model(images)[range(3), labels]
    covered = images.clone()
    covered[:, :, 4:8, 8:12] = 0.5  # the last of 2 x 3 patches
    painted = occlusion(model, images, labels, 0.5)
    assert painted.shape == (3, 6) and not painted.requires_grad
    torch.testing.assert_close(painted[:, 5], (before - model(covered)[range(3), labels]).detach())

    removed = token_removal(model, images, labels)
    tokens = model.embed(images)[:, :-1]  # without the last
    for block in model.blocks:
        tokens = block(tokens)
    after = model.forward_head(model.norm(tokens))[range(3), labels]
    torch.testing.assert_close(removed[:, 5], (before - after).detach())


def test_the_mean_of_the_others_knows_nothing_of_the_image_itself():
    maps = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 9.0]])
    torch.testing.assert_close(mean_of_others(maps), torch.tensor([[4.0, 6.5], [3.0, 5.5], [2.0, 3.0]]))
    assert torch.equal(mean_of_others(maps[:2]), maps[[1, 0]])
    other = maps.clone()
    other[0] = 100.0
    assert torch.equal(mean_of_others(other)[0], mean_of_others(maps)[0])


def test_the_share_of_a_map_inside_a_mask():
    mask = torch.tensor([[True, False, False, True]])
    assert share_inside(torch.tensor([[0.5, 0.25, 0.25, 0.0]]), mask).tolist() == [0.5]
    assert share_inside(torch.ones(1, 4), mask).tolist() == [0.5]  # an even map: the mask's own share
    assert share_inside(torch.tensor([[3.0, 0.0, 0.0, 5.0]]), mask).tolist() == [1.0]


def test_a_map_can_lie_inside_and_cover_little():
    mask = torch.tensor([[True, True, True, True, False, False]])
    peaked = torch.tensor([[0.9, 0.1, 0.0, 0.0, 0.0, 0.0]])
    assert share_inside(peaked, mask).item() == 1
    assert overlap(peaked, mask).item() == 0.25  # one patch of four holds 60 % of it
    traced = torch.tensor([[0.25, 0.25, 0.25, 0.25, 0.0, 0.0]])
    assert overlap(traced, mask).item() == 0.75 and overlap(traced, mask, mass=1.0).item() == 1
    beside = torch.tensor([[0.0, 0.0, 0.1, 0.0, 0.5, 0.4]])
    assert overlap(beside, mask).item() == 0


def test_an_ablated_head_adds_what_it_is_told_to():
    model = ViT(ViTConfig(img_size=8, patch_size=4, embed_dim=12, depth=2, num_heads=3)).eval()
    images, before = torch.randn(4, 1, 8, 8), {k: v.clone() for k, v in model.state_dict().items()}
    with record_attention(model) as maps, torch.no_grad():
        whole = model(images)
    x = model.blocks[0].norm1(model.embed(images))
    v = model.blocks[0].attention.qkv(x).chunk(3, -1)[2].reshape(4, 5, 3, 4).transpose(1, 2)  # (B, h, T, D/h)
    mixed = (maps[0] @ v).transpose(1, 2).flatten(2)  # (B, T, D)
    means = head_means(model, images)
    assert means.shape == (2, 5, 12)
    torch.testing.assert_close(means[0], mixed.mean(0).detach())

    # Head 1 of the first layer, by hand: its columns of proj read nothing, or the mean.
    proj = model.blocks[0].attention.proj
    here = slice(4, 8)
    for values, kept in ((None, torch.zeros(5, 4)), (means, means[0, :, here])):
        changed = mixed.clone()
        changed[..., here] = kept
        stream = model.embed(images) + proj(changed)
        stream = stream + model.blocks[0].mlp(model.blocks[0].norm2(stream))
        expected = model.forward_head(model.norm(model.blocks[1](stream)))
        torch.testing.assert_close(ablate(model, [(0, 1)], values)(images), expected)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    torch.testing.assert_close(model(images).detach(), whole)
    assert torch.equal(ablate(model, [])(images), model(images))


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: mean_of_others(torch.ones(1, 4)), "use at least 2"),
        (lambda: share_inside(torch.ones(1, 4), torch.ones(1, 5).bool()), "use one number a patch"),
        (lambda: overlap(torch.ones(1, 4), torch.ones(1, 4).bool(), 60), "mass is 60.*0.6"),
        (lambda: ablate(patchwork()[0], [(9, 0)]), r"no head \(9, 0\): use layers 0 to"),
        (lambda: ablate(patchwork()[0], [(0, 0)], torch.ones(3)), "use head_means"),
        (lambda: rollout([]), "maps is empty"),
        (lambda: rollout([torch.rand(2, 3, 5, 5)]), "use a softmax over the last axis"),
        (lambda: rollout([torch.randn(2, 3, 5, 5).softmax(-2)]), "use a softmax over the last axis"),
        (lambda: rollout([torch.full((1, 1, 2, 2), math.nan)]), "use a softmax over the last axis"),
        (lambda: rollout([torch.eye(5)]), r"must have the 4 dimensions \(B, h, T, T\), got shape \(5, 5\)"),
        (lambda: rollout(random_maps(1) + random_maps(1, T=6)), "use the maps of one forward pass"),
        (lambda: attention_distance(random_maps(), 3), "maps of 7 tokens are not 1 . 3 x 3"),
        (lambda: attention_distance(random_maps(), (2, 3), patch_size=0), "patch_size must be above 0"),
        (lambda: position_similarity(torch.randn(2, 5, 8)), r"table \(2, 5, 8\) does not hold"),
        (lambda: position_similarity(torch.randn(1, 5, 8), 5), "at least one place"),
        (lambda: rank_correlation(torch.rand(2, 3), torch.rand(3, 2)), "must both have shape"),
        (lambda: occlusion(*patchwork()[:2], torch.tensor([1])), r"labels have shape \(1,\) for 3 images"),
        (lambda: token_removal(*patchwork()[:2], torch.tensor([1])), r"labels have shape \(1,\) for 3 images"),
    ],
)
def test_bad_input_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_mask_is_true_or_false():
    with pytest.raises(TypeError, match="mask holds torch.float32, not True and False"):
        share_inside(torch.ones(1, 4), torch.ones(1, 4))


@pytest.mark.parametrize("name, side", [("trained", 4), ("trained_fine", 7)])
def test_the_trained_models_are_the_ones_that_were_measured(name, side):
    model, stored = trained(name), results.result(name)
    assert not model.training
    assert model.config == ViTConfig(**stored["config"]["model"])
    assert sum(p.numel() for p in model.parameters()) == stored["result"]["parameters"]
    assert stored["result"]["test_accuracy"] > 0.89
    file = Path(__file__).parents[2] / "book" / "results" / f"{name}.safetensors"
    assert file.stat().st_size < 1_500_000
    with record_attention(model) as maps:
        assert model(torch.zeros(2, 1, 28, 28)).isfinite().all()
    assert len(maps) == 4 and attention_distance(maps, side).shape == (4, 4)


def test_without_the_file_it_says_how_to_make_it(monkeypatch):
    monkeypatch.setattr(Path, "is_file", lambda self: False)
    with pytest.raises(FileNotFoundError, match="python -m experiments trained$"):
        trained()
    with pytest.raises(FileNotFoundError, match="no trained_fine.safetensors .* python -m experiments trained_fine"):
        trained("trained_fine")

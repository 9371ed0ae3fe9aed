"""LoRA: nothing changes before training, few numbers train, and merging keeps the function."""

import pytest
import torch
from torch import nn

from vitnb import ViT, ViTConfig, weights
from vitnb.lora import LoRA, add_lora, merge_lora
from vitnb.vit import count_parameters

CONFIG = ViTConfig(img_size=8, embed_dim=16, depth=2, num_heads=2, num_classes=3, init_values=1.0)


def trained(model):
    """Other numbers in all that trains."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data.normal_(std=0.3, generator=torch.Generator().manual_seed(parameter.numel()))
    return model


def test_it_begins_as_the_model_that_it_was_made_of():
    model, images = ViT(CONFIG).eval(), torch.randn(2, 1, 8, 8)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    other = add_lora(model, rank=4).eval()
    assert torch.equal(other(images), model(images))
    trained(other)
    assert not torch.allclose(other(images), model(images))
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert count_parameters(model) == sum(value.numel() for value in before.values())


def test_only_the_products_and_the_head_train():
    model = add_lora(ViT(CONFIG), rank=4)
    names = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    expected = {
        f"blocks.{n}.attention.{layer}.{side}" for n in (0, 1) for layer in ("qkv", "proj") for side in ("down", "up")
    }
    assert names == expected | {"head.weight", "head.bias"}
    assert count_parameters(model) == 2 * 4 * ((16 + 48) + (16 + 16)) + 3 * 17
    model(torch.randn(2, 1, 8, 8)).square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters() if parameter.requires_grad)


def test_merged_it_is_a_plain_model_of_the_same_function(tmp_path):
    model = trained(add_lora(ViT(CONFIG), rank=4)).eval()
    plain, images = merge_lora(model), torch.randn(5, 1, 8, 8)
    assert not any(isinstance(part, LoRA) for part in plain.modules()) and any(
        isinstance(p, LoRA) for p in model.modules()
    )
    torch.testing.assert_close(plain(images), model(images), atol=1e-5, rtol=0)
    assert plain.state_dict().keys() == ViT(CONFIG).state_dict().keys()
    assert count_parameters(plain) == count_parameters(ViT(CONFIG))
    weights.save(plain, tmp_path / "plain.safetensors")
    assert torch.equal(weights.load(tmp_path / "plain.safetensors")(images), plain(images))


def test_what_was_merged_can_be_taken_out_again():
    layer = trained(LoRA(nn.Linear(6, 5), rank=2, scale=0.5))
    x = torch.randn(7, 6)
    torch.testing.assert_close(layer.merged()(x), layer(x), atol=1e-6, rtol=0)
    torch.testing.assert_close(layer.merged().weight - layer.change(), layer.linear.weight, atol=1e-6, rtol=0)
    assert torch.linalg.matrix_rank(layer.change()) == 2
    assert layer.merged().weight.requires_grad and not layer.linear.weight.requires_grad


@pytest.mark.parametrize("bad", [dict(rank=0), dict(rank=2.5), dict(scale=0.0), dict(linear=nn.Conv2d(1, 1, 1))])
def test_bad_values_are_refused(bad):
    with pytest.raises((ValueError, TypeError), match=next(iter(bad))):
        LoRA(**{"linear": nn.Linear(2, 2)} | bad)

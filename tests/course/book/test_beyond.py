"""Chapter 14's first figure: what it says about the models of others is what timm builds."""

import ast
from pathlib import Path

import nbformat
import pytest
import timm
import torch
from timm.layers import SwiGLU
from torch import nn

from vitnb import ViT, ViTConfig

BOOK = Path(__file__).resolve().parents[3] / "book"
CELLS = {cell.id: cell.source for cell in nbformat.read(BOOK / "14-beyond.ipynb", 4).cells}


def column(which: int) -> dict[str, str]:
    """One model of the figure: {part: what it has}."""
    for node in ast.parse(CELLS["beyond-look"]).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "PARTS":
            return {part: words[which] for part, words in ast.literal_eval(node.value).items()}
    raise AssertionError("the figure has no PARTS")


def seen_in_timm(model: nn.Module) -> dict[str, str]:
    """The figure's words for a model of timm, as far as its modules tell."""
    block, registers = model.blocks[0], model.num_prefix_tokens - 1
    attention, rotary = block.attn, getattr(model, "rope", None) is not None
    biased = attention.qkv.bias is not None or getattr(attention, "q_bias", None) is not None
    scaled = getattr(block, "gamma_1", None) is not None
    return {
        "extra tokens": f"cls, {registers} registers" if registers else "cls",
        "positions": ", ".join(["learned"] * (model.pos_embed is not None) + ["rotary"] * rotary),
        "norm": "LayerNorm" if isinstance(block.norm1, nn.LayerNorm) else type(block.norm1).__name__,
        "norm of q and k": "none" if isinstance(attention.q_norm, nn.Identity) else type(attention.q_norm).__name__,
        "bias of q, k, v": "yes" if biased else "no",
        "end of a branch": "LayerScale, add" if scaled else "add",
        "MLP": "SwiGLU" if isinstance(block.mlp, SwiGLU) else type(block.mlp.act).__name__,
    }


def test_the_figure_says_what_timm_builds():
    with torch.device("meta"):
        ours = timm.create_model("vit_base_patch16_224")
        dinov3 = timm.create_model("vit_7b_patch16_dinov3", global_pool="token")
    for which, model in enumerate((ours, dinov3)):
        seen = seen_in_timm(model)
        assert {part: column(which)[part] for part in seen} == seen


def test_our_column_is_our_model():
    model = ViT(ViTConfig(depth=1))
    assert column(0)["norm"] == type(model.norm).__name__
    assert column(0)["MLP"] == type(model.blocks[0].mlp.act).__name__
    assert (column(0)["bias of q, k, v"] == "yes") == (model.blocks[0].attention.qkv.bias is not None)


@pytest.mark.parametrize(
    "right, wrong",
    [
        ("", ""),
        ("rotate(self.q_norm(q), places)", "self.q_norm(rotate(q, places))"),
        ("self.k_norm(k)", "F.rms_norm(k, (k.shape[-1],))"),
        ("k = rotate(self.k_norm(k), places)", "k = self.k_norm(k)"),
        ("self.scale2 * ", ""),
    ],
    ids=["right", "gain after the rotation", "no gain", "keys not rotated", "no LayerScale"],
)
def test_the_proof_of_the_block_refuses_wrong_ones(right, wrong):
    """With the gains at the 1 with which they begin, the first two passed."""
    needed = "two rotate head block run block-proof".split()
    code = "\n".join(CELLS[f"beyond-{name}"] for name in needed)
    assert right in code
    if not right:
        return exec(code, {})
    with pytest.raises((AssertionError, AttributeError)):
        exec(code.replace(right, wrong), {})

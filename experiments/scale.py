"""What a ViT costs: products counted and seconds measured, by tokens, by batch, by kernel, by number format.

Chapter 13. Rivals are timed in interleaved rounds, and the ratios are taken
within a round, so what else the machine does meets both alike.
"""

import random
import re
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
import torch._inductor.config
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from experiments.common import DEVICE, plain_products, race, step
from vitnb import ViT, ViTConfig, record_attention

BLOCK = ViTConfig(patch_size=4, embed_dim=128, depth=2, num_heads=4, mlp_ratio=4.0, global_pool="mean")
SIDES = [16, 32, 64, 128, 256]  # pixels: 16 to 4,096 tokens
SMALL = ViTConfig(patch_size=7, embed_dim=64, depth=4, num_heads=4, mlp_ratio=4.0)
LARGE = ViTConfig(img_size=96, patch_size=16, embed_dim=512, depth=2, num_heads=8, mlp_ratio=4.0)
BATCHES, BATCH = [1, 4, 16, 64, 256], 64
ROUNDS = 7
SEEDS = [0]
CONFIG = {
    "device": DEVICE,
    "block": BLOCK.to_dict(),
    "sides": SIDES,
    "small": SMALL.to_dict(),
    "large": LARGE.to_dict(),
    "batches": BATCHES,
    "batch": BATCH,  # in what is compiled or has fewer bits
    "rounds": ROUNDS,
}


def run() -> dict:
    torch.manual_seed(SEEDS[0])
    chance = random.Random(SEEDS[0])
    return {
        "tokens": [tokens(side, chance) for side in SIDES],
        "batches": batches(chance),
        "bfloat16_instructions": bfloat16_instructions(),
        "faster": {name: faster(config, chance) for name, config in (("small", SMALL), ("large", LARGE))},
    }


def tokens(side: int, chance: random.Random) -> dict:
    """An answer for one image of so many pixels: the fused kernel, and attention written out."""
    model = ViT(replace(BLOCK, img_size=side)).to(DEVICE).eval()
    images = torch.randn(max(1, 2048 // model.config.num_patches), 1, side, side, device=DEVICE)

    def fused() -> None:
        with torch.no_grad():
            model(images)

    def explicit() -> None:
        with torch.no_grad(), record_attention(model) as maps:
            model(images)
            maps.clear()

    found = race({"fused": fused, "explicit": explicit}, ROUNDS, chance)
    with FlopCounterMode(display=False) as counter:
        explicit()  # it knows no fused kernel of a CPU; the products are the same
    n = model.config.num_patches
    print(f"{n} tokens: {found['fused']['seconds'] / len(images):.2g} s per image", flush=True)
    return {
        "tokens": n,
        "images": len(images),
        "flop": counter.get_total_flops() / len(images),
        "seconds": found["fused"]["seconds"] / len(images),
        "explicit": found["explicit"],
    }


def step_of(config: ViTConfig, batch: int, change: Callable = lambda model: model, half: bool = False) -> Callable:
    """One training step of a model, as a function."""
    model = change(ViT(config).to(DEVICE))
    images = torch.randn(batch, config.in_chans, config.img_size, config.img_size, device=DEVICE)
    labels = torch.randint(10, (batch,), device=DEVICE)
    return step(model, images, labels, lr=1e-3, half=half)


def batches(chance: random.Random) -> dict:
    """Images a second in training, by batch; and how many times as many as with the usual batch, with quartiles."""
    found = race(
        {str(batch): step_of(SMALL, batch) for batch in sorted(BATCHES, key=lambda b: b != BATCH)}, ROUNDS, chance
    )
    return {
        str(batch): {
            "images_per_second": round(batch / found[str(batch)]["seconds"], 1),
            "speed": round(batch / BATCH / found[str(batch)]["ratio"], 3),
            "quartiles": [round(batch / BATCH / ratio, 3) for ratio in reversed(found[str(batch)]["quartiles"])],
        }
        for batch in BATCHES
    }


def faster(config: ViTConfig, chance: random.Random) -> dict:
    """A training step as it is, its attention written out, compiled, with bfloat16; and how long compiling takes."""
    torch._inductor.config.force_disable_caches = True  # else an earlier run's work is found on the disk
    torch.compile(nn.Linear(2, 2).to(DEVICE))(torch.ones(1, 2, device=DEVICE))  # what a process compiles only once
    compiled = step_of(config, BATCH, torch.compile)
    start = time.perf_counter()
    compiled()
    compiling = time.perf_counter() - start
    plain = step_of(config, BATCH)

    def explicit() -> None:
        with plain_products():
            plain()

    runners = {"as it is": plain, "written out": explicit, "compiled": compiled}
    runners["bfloat16"] = step_of(config, BATCH, half=True)
    return race(runners, ROUNDS, chance) | {"compiling_seconds": round(compiling, 1)}


def bfloat16_instructions() -> bool:
    """Whether the device multiplies bfloat16 numbers itself."""
    if DEVICE == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    known = Path("/proc/cpuinfo")
    return known.exists() and re.search(r"\b(avx512_bf16|amx_bf16|bf16)\b", known.read_text()) is not None

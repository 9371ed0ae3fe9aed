"""What a ViT costs: products counted and seconds measured, by tokens, by batch, by kernel, by number format.

Chapter 10. Rivals are timed in interleaved rounds, and the ratios are taken
within a round, so what else the machine does meets both alike.
"""

import random
import time
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from experiments.peers import race
from vitnb import ViT, ViTConfig, record_attention

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
BLOCK = ViTConfig(patch_size=4, embed_dim=128, depth=2, num_heads=4, mlp_ratio=4.0, global_pool="mean")
SIDES = [16, 32, 64, 128, 256]  # pixels: 16 to 4,096 tokens
SMALL = ViTConfig(patch_size=7, embed_dim=64, depth=4, num_heads=4, mlp_ratio=4.0)
LARGE = ViTConfig(img_size=96, patch_size=16, embed_dim=512, depth=2, num_heads=8, mlp_ratio=4.0)
BATCHES = [1, 4, 16, 64, 256]
ROUNDS = 7
SEEDS = [0]
CONFIG = {
    "device": DEVICE,
    "block": BLOCK.to_dict(),
    "sides": SIDES,
    "small": SMALL.to_dict(),
    "large": LARGE.to_dict(),
    "batches": BATCHES,
    "rounds": ROUNDS,
}


def run() -> dict:
    torch.manual_seed(SEEDS[0])
    chance = random.Random(SEEDS[0])
    return {
        "tokens": [tokens(side, chance) for side in SIDES],
        "batches": batches(chance),
        "faster": {name: faster(config, chance) for name, config in (("small", SMALL), ("large", LARGE))},
    }


def tokens(side: int, chance: random.Random) -> dict:
    """An answer for one picture of so many pixels: the fused kernel, and attention written out."""
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
    print(f"{n} tokens: {found['fused']['seconds'] / len(images):.2g} s a picture", flush=True)
    return {
        "tokens": n,
        "images": len(images),
        "flop": counter.get_total_flops() / len(images),
        "seconds": found["fused"]["seconds"] / len(images),
        "explicit": found["explicit"],
    }


def step(config: ViTConfig, batch: int, change: Callable[[nn.Module], nn.Module] = lambda model: model, half=False):
    """One training step of a model, as a function."""
    model = change(ViT(config).to(DEVICE))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    images = torch.randn(batch, config.in_chans, config.img_size, config.img_size, device=DEVICE)
    labels = torch.randint(10, (batch,), device=DEVICE)

    def one() -> None:
        with torch.autocast(DEVICE, torch.bfloat16, enabled=half):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return one


def batches(chance: random.Random) -> dict:
    """Pictures a second in training, by batch."""
    found = race({str(batch): step(SMALL, batch) for batch in BATCHES}, ROUNDS, chance)
    return {batch: round(int(batch) / times["seconds"], 1) for batch, times in found.items()}


def faster(config: ViTConfig, chance: random.Random) -> dict:
    """A training step as it is, compiled, and with bfloat16; and how long compiling takes."""
    compiled = step(config, 64, torch.compile)
    start = time.perf_counter()
    compiled()
    compiling = time.perf_counter() - start
    runners = {"as it is": step(config, 64), "compiled": compiled, "bfloat16": step(config, 64, half=True)}
    return race(runners, ROUNDS, chance) | {"compiling_seconds": round(compiling, 1)}

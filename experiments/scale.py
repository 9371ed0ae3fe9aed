"""What a ViT costs: products counted and seconds measured, by tokens, by batch, by kernel, by number format.

Chapter 13. Rivals are timed in interleaved rounds, and the ratios are taken
within a round, so what else the machine does meets both alike.
"""

import random
import time
from collections.abc import Callable
from dataclasses import replace

import torch
import torch._inductor.config
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from experiments._experiment import Experiment
from experiments._timing import DEVICE, bfloat16_instructions, race, step
from experiments._trials import plain_products
from vitnb import ViT, ViTConfig, record_attention

THIS = Experiment(
    seeds=[0],
    purpose="timing",
    torch_threads=None,
    data=None,
    device=DEVICE,
    block=ViTConfig(patch_size=4, embed_dim=128, depth=2, num_heads=4, mlp_ratio=4.0, global_pool="mean"),
    sides=[16, 32, 64, 128, 256],  # pixels: 16 to 4,096 tokens
    small=ViTConfig(patch_size=7, embed_dim=64, depth=4, num_heads=4, mlp_ratio=4.0),
    large=ViTConfig(img_size=96, patch_size=16, embed_dim=512, depth=2, num_heads=8, mlp_ratio=4.0),
    batches=[1, 4, 16, 64, 256],
    batch=64,  # in what is compiled or has fewer bits
    rounds=7,
)


def run() -> dict:
    torch.manual_seed(THIS.seeds[0])
    chance = random.Random(THIS.seeds[0])
    return {
        "tokens": [tokens(side, chance) for side in THIS.sides],
        "batches": batches(chance),
        "bfloat16_instructions": bfloat16_instructions(),
        "faster": {name: faster(config, chance) for name, config in (("small", THIS.small), ("large", THIS.large))},
    }


def tokens(side: int, chance: random.Random) -> dict:
    """An answer for one image of side x side pixels: the fused kernel, and attention written out."""
    model = ViT(replace(THIS.block, img_size=side)).to(DEVICE).eval()
    images = torch.randn(max(1, 2048 // model.config.num_patches), 1, side, side, device=DEVICE)

    def fused() -> None:
        with torch.no_grad():
            model(images)

    def explicit() -> None:
        with torch.no_grad(), record_attention(model) as maps:
            model(images)
            maps.clear()

    found = race({"fused": fused, "explicit": explicit}, THIS.rounds, chance)
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
        {str(batch): step_of(THIS.small, batch) for batch in sorted(THIS.batches, key=lambda b: b != THIS.batch)},
        THIS.rounds,
        chance,
    )
    return {
        str(batch): {
            "images_per_second": round(batch / found[str(batch)]["seconds"], 1),
            "speed": round(batch / THIS.batch / found[str(batch)]["ratio"], 3),
            "quartiles": [round(batch / THIS.batch / ratio, 3) for ratio in reversed(found[str(batch)]["quartiles"])],
        }
        for batch in THIS.batches
    }


def faster(config: ViTConfig, chance: random.Random) -> dict:
    """A training step as it is, its attention written out, compiled, with bfloat16; and how long compiling takes."""
    torch._inductor.config.force_disable_caches = True  # else an earlier run's work is found on the disk
    torch.compile(nn.Linear(2, 2).to(DEVICE))(torch.ones(1, 2, device=DEVICE))  # what a process compiles only once
    compiled = step_of(config, THIS.batch, torch.compile)
    start = time.perf_counter()
    compiled()
    compiling = time.perf_counter() - start
    plain = step_of(config, THIS.batch)

    def explicit() -> None:
        with plain_products():
            plain()

    runners = {"as it is": plain, "written out": explicit, "compiled": compiled}
    runners["bfloat16"] = step_of(config, THIS.batch, half=True)
    return race(runners, THIS.rounds, chance) | {"compiling_seconds": round(compiling, 1)}

"""A training step of the same ViT in PyTorch and in JAX, on one CPU thread: seconds, and their ratio.

Both start from the same weights and use the same recipe (clip, AdamW, decay on matrices only).
The model and both steps are those of the appendix, run from its cells. Rounds are interleaved.
Needs JAX: make jax.
"""

import importlib.metadata
import json
import os
import random
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from experiments import ROOT
from experiments._experiment import Experiment
from experiments._timing import race
from vitnb import ViT, ViTConfig
from vitnb.training import decay_groups

THIS = Experiment(
    seeds=[0],
    purpose="timing",
    data=None,
    sizes={
        "28/7 64x6": dict(img_size=28, patch_size=7, in_chans=1, embed_dim=64, depth=6, num_heads=4, batch=128),
        "28/4 64x6": dict(img_size=28, patch_size=4, in_chans=1, embed_dim=64, depth=6, num_heads=4, batch=128),
        "96/16 512x2": dict(img_size=96, patch_size=16, in_chans=1, embed_dim=512, depth=2, num_heads=8, batch=64),
    },
    rounds=25,
    mlp_ratio=4,
    threads=1,
    lr=1e-4,
)
ONE_THREAD = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def appendix() -> dict[str, Any]:
    """What the cells of book/jax.ipynb define whose ids begin with "model-": the readers' own classes and functions."""
    cells = json.loads((ROOT / "book" / "jax.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {"__name__": "appendix"}
    for cell in cells:
        if cell["cell_type"] == "code" and cell["id"].startswith("model-"):
            exec("".join(cell["source"]), names)
    return names


def run() -> dict:
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {ONE_THREAD}".strip()  # before JAX starts
    if hasattr(os, "sched_setaffinity"):  # whatever threads a library starts, they share one core
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    names, chance = appendix(), random.Random(THIS.seeds[0])
    result: dict[str, dict] = {
        "versions": {name: importlib.metadata.version(name) for name in ("torch", "jax", "flax", "optax")},
        "parameters": {},
        "compile_seconds": {},
        "step": {},
    }
    for size, sizes in THIS.sizes.items():
        sizes = dict(sizes)
        batch = sizes.pop("batch")
        torch.manual_seed(THIS.seeds[0])
        model = ViT(ViTConfig(mlp_ratio=4.0, **sizes))
        images = torch.randn(batch, sizes["in_chans"], sizes["img_size"], sizes["img_size"])
        labels = torch.randint(10, (batch,))
        ours = step_of_jax(names, model, images, labels)
        start = time.process_time()
        ours()
        result["compile_seconds"][size] = round(time.process_time() - start, 1)  # of the processor
        result["parameters"][size] = sum(p.numel() for p in model.parameters())
        steps = {"PyTorch": step_of_torch(names, model, images, labels), "JAX": ours}
        result["step"][size] = race(steps, THIS.rounds, chance)
        print(size, result["step"][size], flush=True)
    return result


def step_of_torch(names: dict[str, Any], model: ViT, images: Tensor, labels: Tensor) -> Callable[[], Tensor]:
    optimizer = torch.optim.AdamW(decay_groups(model, 0.05), THIS.lr, fused=True)
    return partial(names["torch_step"], model, optimizer, images, labels)


def step_of_jax(names: dict[str, Any], model: ViT, images: Tensor, labels: Tensor) -> Callable[[], None]:
    """The compiled step, from a copy of the model's weights; it waits for its result."""
    import jax
    from flax import nnx

    ours = names["from_vitnb"](model, names["ViT"](model.config, nnx.Rngs(0)))
    ours.train()
    state, batch = names["adamw"](ours, THIS.lr), names["to_jax"](images, labels)

    def one() -> None:
        loss = names["step"](ours, state, *batch)
        jax.block_until_ready((loss, nnx.state(ours)))

    return one

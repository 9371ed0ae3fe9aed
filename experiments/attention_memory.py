"""The memory of attention grows no faster than the tokens in a fused kernel, with their square where it is written out.

Chapter 13: the memory that one attention takes beyond its queries, keys and
values, forward alone and in training (forward and backward). Each in a process
of its own whose peak the operating system keeps, so what a kernel allocates
for itself counts as well (Linux).
"""

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional as F

from experiments.common import memory_of_this_process

TOKENS, HEADS, HEAD_DIM, RUNS, THREADS = [512, 1024, 2048, 4096], 4, 32, 3, 1
SEEDS = [0]
CONFIG = {"device": "cpu", "tokens": TOKENS, "heads": HEADS, "head_dim": HEAD_DIM, "runs": RUNS}


def written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / HEAD_DIM**0.5).softmax(-1) @ v


WAYS = {"fused": F.scaled_dot_product_attention, "written out": written_out}


def run() -> dict:
    torch.set_num_threads(THREADS)
    return {mode: {way: [apart(mode, way, T) for T in TOKENS] for way in WAYS} for mode in ("forward", "training")}


def apart(mode: str, way: str, tokens: int) -> dict:
    """Measure in new processes."""
    command = [sys.executable, "-m", "experiments.attention_memory", mode, way, str(tokens)]
    runs = [json.loads(subprocess.check_output(command, text=True)) for _ in range(RUNS)]
    print(f"{mode}, {way}, {tokens} tokens: {median(runs) / 1e6:.1f} MB", flush=True)
    return {"tokens": tokens, "bytes": median(runs), "runs": runs}


def peak(mode: str, way: str, tokens: int) -> int:
    """Bytes at the peak of one attention, less those before it."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(SEEDS[0])
    q, k, v = torch.randn(3, 1, HEADS, tokens, HEAD_DIM).unbind(0)  # (B, h, T, D/h)

    def attend(tokens: int) -> None:
        few = [x[:, :, :tokens].detach().requires_grad_(mode == "training") for x in (q, k, v)]
        mixed = WAYS[way](*few)
        if mode == "training":
            mixed.sum().backward()

    attend(16)  # libraries fetch their workspace at the first call
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = memory_of_this_process("VmRSS")
    attend(tokens)
    return memory_of_this_process("VmHWM") - before


if __name__ == "__main__":
    print(peak(*sys.argv[1:3], int(sys.argv[3])))

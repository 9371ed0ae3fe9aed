"""The memory of attention grows no faster than the tokens in a fused kernel, with their square where it is written out.

Chapter 13: the memory that one attention takes beyond its queries, keys and
values, forward alone and in training (forward and backward). Each in a process
of its own whose peak the operating system keeps, so what a kernel allocates
for itself counts as well (Linux).
"""

import sys
from functools import partial
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional as F

from experiments._experiment import Experiment
from experiments._timing import apart, peak_of

THIS = Experiment(seeds=[0], purpose="timing", data=None, tokens=[512, 1024, 2048, 4096], heads=4, head_dim=32, runs=3)


def written_out(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.mT / THIS.head_dim**0.5).softmax(-1) @ v


WAYS = {"fused": F.scaled_dot_product_attention, "written out": written_out}


def run() -> dict:
    return {
        mode: {way: [measured(mode, way, T) for T in THIS.tokens] for way in WAYS} for mode in ("forward", "training")
    }


def measured(mode: str, way: str, tokens: int) -> dict:
    runs = [apart("attention_memory", mode, way, str(tokens)) for _ in range(THIS.runs)]
    print(f"{mode}, {way}, {tokens} tokens: {median(runs) / 1e6:.1f} MB", flush=True)
    return {"tokens": tokens, "bytes": median(runs), "runs": runs}


def peak(mode: str, way: str, tokens: int) -> int:
    """Bytes at the peak of one attention, less those before it."""
    torch.set_num_threads(1)
    torch.manual_seed(THIS.seeds[0])
    q, k, v = torch.randn(3, 1, THIS.heads, tokens, THIS.head_dim).unbind(0)  # (B, h, T, D/h)

    def attend(tokens: int) -> None:
        few = [x[:, :, :tokens].detach().requires_grad_(mode == "training") for x in (q, k, v)]
        mixed = WAYS[way](*few)
        if mode == "training":
            mixed.sum().backward()

    attend(16)  # libraries fetch their workspace at the first call
    return peak_of(partial(attend, tokens))


if __name__ == "__main__":
    print(peak(*sys.argv[1:3], int(sys.argv[3])))

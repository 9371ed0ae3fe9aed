"""ViT-B/16 in six libraries: the memory that an answer to eight images takes beyond the weights.

The models of _libraries.py, each in a process of its own, which counts from the
moment at which model and images are there.
"""

import sys
from statistics import median

import torch

from experiments._experiment import Experiment
from experiments._libraries import MODELS, answer
from experiments._models import SIZES
from experiments._timing import DEVICE, apart, peak_of

SIZE = "224/16 768x12"
THIS = Experiment(seeds=[0], purpose="timing", data=None, device=DEVICE, size=SIZES[SIZE], images=8, runs=15)


def run() -> dict:
    found = {name: [apart("memory", name) for _ in range(THIS.runs)] for name in MODELS}
    return {name: {"bytes": round(median(values)), "runs": values} for name, values in found.items()}


def peak(name: str) -> int:
    """Bytes at the peak of an answer, less those before it."""
    sizes = {key: value for key, value in SIZES[SIZE].items() if key != "batch"}
    model = MODELS[name](**sizes).to(DEVICE).eval()
    images = torch.randn(THIS.images, 3, 224, 224, device=DEVICE)
    if DEVICE == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        answer(model, images)()
        return torch.cuda.max_memory_allocated() - before
    answer(model, images[:1])()  # libraries fetch their workspace at the first call
    return peak_of(answer(model, images))


if __name__ == "__main__":
    print(peak(sys.argv[1]))

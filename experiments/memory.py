"""ViT-B/16 in six libraries: the memory that an answer to eight images takes beyond the weights.

The models of _libraries.py, each in a process of its own, which counts from the
moment at which model and images are there.
"""

import json
import subprocess
import sys
from pathlib import Path
from statistics import median

import torch

from experiments._experiment import Experiment
from experiments._libraries import MODELS, answer
from experiments._models import SIZES
from experiments._timing import DEVICE, memory_of_this_process

SIZE = "224/16 768x12"
THIS = Experiment(seeds=[0], purpose="timing", data=None, device=DEVICE, size=SIZES[SIZE], images=8, runs=15)


def run() -> dict:
    found = {name: [apart(name) for _ in range(THIS.runs)] for name in MODELS}
    return {name: {"bytes": round(median(values)), "runs": values} for name, values in found.items()}


def apart(name: str) -> int:
    """Measure one model in a new process."""
    command = [sys.executable, "-m", "experiments.memory", name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


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
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew (Linux)
    before = memory_of_this_process("VmRSS")
    answer(model, images)()
    return memory_of_this_process("VmHWM") - before


if __name__ == "__main__":
    print(peak(sys.argv[1]))

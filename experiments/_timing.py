"""Seconds and bytes: rivals timed in turn, a training step, the memory of a process."""

import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor, nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def race(
    runners: dict[str, Callable[[], None]],
    rounds: int,
    chance: random.Random,
    unit: float | None = 0.3,
    against: dict[str, str] | None = None,
) -> dict:
    """Time all of them, in turn: seconds (median) and how many times as long as the first one, with its quartiles.

    Rounds are interleaved: each holds one timing of every runner, in another
    order each time, and the ratios are taken within a round. So what else the
    machine does meanwhile meets all of them alike. A timing repeats its runner
    for about unit seconds; without a unit it is one call, and none before it.
    against names another one to compare with: {"b": "c"} has the times of b divided by those of c.
    """
    for one in runners.values() if unit else ():
        one()
        one()
    first = next(iter(runners))
    repeat = max(1, round(unit / seconds_of(runners[first], 1))) if unit else 1
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name in chance.sample(list(runners), len(runners)):
            seconds[name].append(seconds_of(runners[name], repeat))
    found = {}
    for name, times in seconds.items():
        bases = seconds[(against or {}).get(name, first)]
        ratios = sorted(t / base for t, base in zip(times, bases, strict=True))
        low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
        found[name] = {"seconds": round(median(times), 6), "ratio": round(median(ratios), 3)}
        found[name] |= {"quartiles": [round(low, 3), round(high, 3)]}
    return found


def seconds_of(one: Callable[[], None], repeat: int) -> float:
    """Seconds of one call, the mean of `repeat` calls."""
    synchronize()
    start = time.perf_counter()
    for _ in range(repeat):
        one()
    synchronize()
    return (time.perf_counter() - start) / repeat


def synchronize() -> None:
    """Wait for what a GPU still computes."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def bfloat16_instructions() -> bool:
    """Whether the device multiplies bfloat16 numbers itself."""
    if DEVICE == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    known = Path("/proc/cpuinfo")
    return known.exists() and re.search(r"\b(avx512_bf16|amx_bf16|bf16)\b", known.read_text()) is not None


def step(model: nn.Module, images: Tensor, labels: Tensor, lr: float = 1e-4, half: bool = False) -> Callable[[], None]:
    """One training step with AdamW, as a function; with half, in bfloat16."""
    optimizer = torch.optim.AdamW(model.parameters(), lr, fused=True)

    def one() -> None:
        with torch.autocast(DEVICE, torch.bfloat16, enabled=half):
            loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return one


def apart(script: str, *words: str) -> int:
    """What a script of this folder prints when it runs in a process of its own."""
    command = [sys.executable, "-m", f"experiments.{script}", *words]
    return json.loads(subprocess.check_output(command, text=True).splitlines()[-1])


def peak_of(one: Callable[[], object]) -> int:
    """Bytes at the peak of a call, as Linux counts them, less those before it."""

    def counted(key: str) -> int:
        return 1024 * int(re.search(rf"{key}:\s+(\d+)", Path("/proc/self/status").read_text())[1])

    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = counted("VmRSS")
    one()
    return counted("VmHWM") - before

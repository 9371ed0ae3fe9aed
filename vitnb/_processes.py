"""Several processes that train one model: what torchrun started, and who this one is."""

import atexit
import os
from collections import deque
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


def join(device: torch.device) -> None:
    """Let the processes that torchrun started talk, until they end; one that stands alone does nothing."""
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 and not dist.is_initialized():
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        atexit.register(dist.destroy_process_group)  # not after fit: a second group would find the first's addresses


def world() -> tuple[int, int]:
    """Return the number of this process, from 0, and how many there are."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)


def share(batch_size: int) -> slice:
    """Return this process' part of a batch.

    Raises: ValueError if the processes cannot have equally many images.
    """
    rank, size = world()
    if batch_size % size:
        raise ValueError(
            f"batch_size must be a multiple of the number of processes, {size}, got {batch_size}: "
            f"use {batch_size // size * size + size}"
        )
    each = batch_size // size
    return slice(rank * each, (rank + 1) * each)


def parallel(model: nn.Module, device: torch.device) -> nn.Module:
    """Return the model, with gradients averaged over all processes if there are several; they start alike."""
    if world()[1] == 1:
        return model
    return DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)


# Before torch 2.8 the end of a process group holds Python's lock and waits for gloo's threads. A thread that frees a
# tensor which Python has let go of needs that lock: neither would ever end. So Python does not let go of the last ones.
_summed: deque[Tensor] = deque(maxlen=64)


def total(values: Tensor) -> Tensor:
    """Add a tensor up over all processes, in place."""
    if world()[1] > 1:
        _summed.append(values)
        dist.all_reduce(values)
    return values


def check_alike(step: int, path: Path, device: torch.device) -> None:
    """Raise ValueError unless all processes stand at the same step: they must read one and the same checkpoint."""
    found = torch.zeros(world()[1], dtype=torch.long, device=device)
    found[world()[0]] = step
    if (total(found) != step).any():
        steps = found.tolist()
        raise ValueError(f"checkpoint {path} puts the processes at the steps {steps}: use a disk that all can read")

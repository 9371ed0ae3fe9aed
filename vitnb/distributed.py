"""Several processes that train one model, as torchrun starts them: every function also works in one that is alone."""

import atexit
import os
from collections import deque
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel


def init(device: torch.device) -> None:
    """Connect the processes that torchrun started, until they end."""
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 and not dist.is_initialized():
        if device.type == "cuda":
            torch.cuda.set_device(device)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
        atexit.register(dist.destroy_process_group)  # not after fit: a second group would find the first's addresses


def rank() -> int:
    """The number of this process, from 0."""
    return dist.get_rank() if dist.is_initialized() else 0


def world_size() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_initialized() else 1


def shard(batch_size: int) -> slice:
    """This process' part of a batch.

    Raises: ValueError if the processes cannot have equally many images.
    """
    n = world_size()
    if batch_size % n:
        raise ValueError(
            f"batch_size must be a multiple of the number of processes, {n}, got {batch_size}: "
            f"use {batch_size // n * n + n}"
        )
    each = batch_size // n
    return slice(rank() * each, (rank() + 1) * each)


def data_parallel(model: nn.Module, device: torch.device) -> nn.Module:
    """Start all processes from the first one's weights and average their gradients; one alone gets its model back."""
    if world_size() == 1:
        return model
    return DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)


# Before torch 2.8 the end of a process group holds Python's lock and waits for gloo's threads. A thread that frees a
# tensor which Python has let go of needs that lock: neither would ever end. So Python does not let go of the last ones.
_reduced: deque[Tensor] = deque(maxlen=64)


def all_reduce(values: Tensor) -> Tensor:
    """Add a tensor up over all processes, in place."""
    if world_size() > 1:
        _reduced.append(values)
        dist.all_reduce(values)
    return values


def check_same_step(step: int, path: Path, device: torch.device) -> None:
    """Raise ValueError unless all processes stand at the same step: they must read one and the same checkpoint."""
    steps = torch.zeros(world_size(), dtype=torch.long, device=device)
    steps[rank()] = step
    if (all_reduce(steps) != step).any():
        raise ValueError(
            f"checkpoint {path} puts the processes at the steps {steps.tolist()}: use a disk that all can read"
        )

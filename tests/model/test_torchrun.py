"""fit under torchrun: the model that one process would train, whole after a kill; refusals in words."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from vitnb import ViT, ViTConfig
from vitnb.data import Dataset
from vitnb.training import Recipe, fit

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="torchrun on Windows needs a torch built with libuv")
MODEL = ViTConfig(img_size=8, patch_size=4, embed_dim=16, depth=2, num_heads=2, num_classes=3)
RECIPE = Recipe(epochs=3, batch_size=6, erase=0.3)
SHARDS = hasattr(torch.cpu.Stream, "record_event")  # fully_shard calls it, and torch 2.6 has it on a GPU only
# What several questions need is one start of torchrun: each of its processes imports torch anew.
# Each process starts from weights of its own; the first one's count.
START = """
import os, runpy, shutil, signal, sys, torch
from dataclasses import replace
from tests.model.test_torchrun import MODEL, RECIPE, SHARDS, random_images
from vitnb import ViT
from vitnb.training import fit
rank, folder = int(os.environ["RANK"]), {folder!r}
torch.set_num_threads(1)

def train(name, dropout=0.0, batch=6, die=None):
    torch.manual_seed(rank)
    model = ViT(replace(MODEL, dropout=dropout)).double()
    if die:
        model.register_forward_pre_hook(lambda m, x: die() if m.training else None)
    calls, file = [], f"{{folder}}/{{name}}.pt"
    recipe = replace(RECIPE, batch_size=batch)
    for _ in range(2):  # the second call finds the first one's checkpoint
        history = fit(model, random_images(), recipe, [lambda run: calls.append(run.step)], file, save_every=0)
    assert bool(calls) == (rank == 0)
    torch.save({{"model": model.state_dict(), "history": history.to_dict()}}, f"{{folder}}/{{name}}-{{rank}}.pt")
"""
TWO = """
steps, first = iter(range(7)), os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
if rank == 0 and not first:
    shutil.copy(f"{folder}/killed.pt", f"{folder}/left.pt")
def die():
    if next(steps, None) is None:
        os.kill(os.getpid(), signal.SIGKILL)
train("killed", die=die if rank == 1 and first else None)
train("plain")
train("dropout", dropout=0.5)
runpy.run_path("chapter.py", run_name="__main__")
if SHARDS:
    runpy.run_path("sharded.py")
"""
THREE = """
train("plain")
try:
    train("refused", batch=8)
except ValueError as error:
    with open(f"{folder}/refused-{rank}.txt", "w") as file:
        file.write(str(error))
"""


def random_images() -> Dataset:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (40, 1, 8, 8), dtype=torch.uint8, generator=generator)
    labels = torch.randint(3, (40,), generator=generator)
    return Dataset(images, labels, images[:10], labels[:10], ("a", "b", "c"))


def torchrun(folder: Path, program: str, processes: int, restarts: int = 0) -> subprocess.CompletedProcess:
    """What torchrun says of a program, whose processes leave their results in the folder."""
    (folder / "program.py").write_text(START.format(folder=str(folder)) + program)
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
    command += ["--standalone", f"--max-restarts={restarts}", "program.py"]
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "VITNB_OFFLINE": "1"}
    env |= {"VITNB_DATA": "", "XDG_CACHE_HOME": str(folder)}
    env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # or, once restarted, they look for those that were killed
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Path:
    """Two processes train, one is killed, and torchrun starts both once more; then they run what the chapter shows."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "chapter.py").write_text(chapters_program())
    block = block_of_chapter_13("from torch.distributed.fsdp import fully_shard")
    (folder / "sharded.py").write_text(SHARDED.format(block=block))
    done = torchrun(folder, TWO, 2, restarts=1)
    assert "exitcode: -9" in done.stderr
    return folder


@pytest.fixture(scope="module")
def three(tmp_path_factory) -> Path:
    """Three processes train, then are given a batch that they cannot share."""
    torchrun(folder := tmp_path_factory.mktemp("three"), THREE, 3)
    return folder


def alone():
    torch.manual_seed(0)
    model = ViT(MODEL).double()
    return model, fit(model, random_images(), RECIPE)


def results(folder: Path, name: str, processes: int = 2):
    return [torch.load(folder / f"{name}-{rank}.pt", weights_only=True) for rank in range(processes)]


def assert_same_run(found, model, history):
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(found["model"][name], weight, rtol=0, atol=1e-10)
    for key, values in history.to_dict().items():
        if "second" not in key:
            assert found["history"][key] == pytest.approx(values, abs=1e-6), key


@pytest.mark.parametrize("processes", [2, 3])
def test_several_processes_train_the_model_that_one_does(request, processes):
    folder = request.getfixturevalue({2: "two", 3: "three"}[processes])
    for found in results(folder, "plain", processes):
        assert_same_run(found, *alone())


def test_a_killed_process_loses_nothing(two):
    for found in results(two, "killed"):
        assert_same_run(found, *alone())


def test_a_run_goes_on_with_another_number_of_processes(two):
    """What lay on the disk after the kill, one process takes up."""
    torch.manual_seed(3)
    model = ViT(MODEL).double()
    steps = []
    history = fit(model, random_images(), RECIPE, [lambda run: steps.append(run.step)], two / "left.pt")
    assert steps[0] > 1 and steps[-1] == 3 * (40 // 6)
    assert_same_run({"model": model.state_dict(), "history": history.to_dict()}, *alone())


ENDING = """
import torch.distributed as dist
from vitnb import distributed
distributed.world_size = lambda: 2  # this process alone ends sooner after its last sum than two can
for _ in range(30):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    distributed.all_reduce(torch.zeros(2))
    dist.destroy_process_group()
"""


def test_processes_end_after_their_last_sum():
    """With torch 2.6 and 2.7 they waited for each other forever, mostly on a busy machine."""
    done = subprocess.run(
        [sys.executable, "-c", "import torch" + ENDING], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr


def test_dropout_differs_between_processes(two):
    first, second = results(two, "dropout")
    assert all(torch.equal(a, b) for a, b in zip(first["model"].values(), second["model"].values(), strict=True))
    assert first["history"]["losses"] == second["history"]["losses"]


def test_a_batch_that_cannot_be_shared_is_refused(three):
    for rank in range(3):
        said = (three / f"refused-{rank}.txt").read_text()
        assert "batch_size must be a multiple of the number of processes, 3, got 8: use 9" in said
    assert not (three / "refused.pt").exists()


def block_of_chapter_13(first_line: str) -> str:
    """The block of code in the chapter's text that begins with this line."""
    cells = json.loads((ROOT / "book" / "13-scale.ipynb").read_text(encoding="utf-8"))["cells"]
    text = "".join("".join(cell["source"]) for cell in cells)
    (block,) = re.findall(rf"```python\n({re.escape(first_line)}\n.*?)```", text, re.DOTALL)
    return block


def chapters_program() -> str:
    """The program that the chapter shows, for a CPU and one epoch; without a network it takes the digits."""
    program, moved = re.subn(
        r"^model\.to.*leave this out on a CPU\n", "", block_of_chapter_13("# train.py"), flags=re.MULTILINE
    )
    program, shorter = re.subn(r"epochs=\d+", "epochs=1", program)
    assert moved == shorter == 1
    return program


def test_the_chapters_program_runs(two):
    """On a CPU, with the digits."""
    assert (two / "run.pt").exists()


SHARDED = """
import torch
from vitnb import ViT, ViTConfig

torch.manual_seed(0)
model = ViT(ViTConfig(depth=2))
{block}
optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
for _ in range(5):
    loss = torch.nn.functional.cross_entropy(model(torch.ones(4, 1, 28, 28)), torch.tensor([3, 3, 3, 3]))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
assert loss < 2
parameters = list(model.parameters())
here, all_ = sum(p.to_local().numel() for p in parameters), sum(p.numel() for p in parameters)
assert 0.4 * all_ < here < 0.6 * all_, (here, all_)
open(f"sharded-{{torch.distributed.get_rank()}}", "x").close()
"""


@pytest.mark.skipif(not SHARDS, reason="this torch shards a model on a GPU only")
def test_the_chapters_lines_leave_each_process_its_part(two):
    assert (two / "sharded-0").exists() and (two / "sharded-1").exists()

"""fit under torchrun: the model that one process would train, whole after a kill; refusals in words."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from vitnb import ViT, ViTConfig
from vitnb.data import Dataset
from vitnb.training import Recipe, fit

ROOT = Path(__file__).resolve().parents[1]
MODEL = ViTConfig(img_size=8, patch_size=4, embed_dim=16, depth=2, num_heads=2, num_classes=3)
RECIPE = Recipe(epochs=3, batch_size=6, erase=0.3)
# Each process starts from weights of its own; the first one's count.
PROGRAM = """
import os, signal, sys, torch
sys.path.insert(0, {tests!r})
from test_torchrun import MODEL, RECIPE, pictures, replace
from vitnb import ViT
from vitnb.training import fit
rank, folder = int(os.environ["RANK"]), {folder!r}
torch.set_num_threads(1)
torch.manual_seed(rank)
model = ViT(replace(MODEL, dropout={dropout})).double()
if {kill} and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    steps = iter(range(7))
    def die(*_):
        if next(steps, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)
    model.register_forward_pre_hook(lambda m, x: die() if m.training else None)
calls = []
recipe = replace(RECIPE, batch_size={batch})
for _ in range(2):  # the second call finds the first one's checkpoint
    history = fit(model, pictures(), recipe, [lambda run: calls.append(run.step)], folder + "/run.pt", save_every=0)
assert bool(calls) == (rank == 0)
torch.save({{"model": model.state_dict(), "history": history.to_dict()}}, f"{{folder}}/{{rank}}.pt")
"""


def pictures() -> Dataset:
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (40, 1, 8, 8), dtype=torch.uint8, generator=generator)
    labels = torch.randint(3, (40,), generator=generator)
    return Dataset(images, labels, images[:10], labels[:10], ("a", "b", "c"))


def torchrun(folder: Path, processes: int = 2, restarts: int = 0, batch: int = 6, kill: bool = False, dropout=0.0):
    program = folder / "program.py"
    words = {"tests": str(ROOT / "tests"), "folder": str(folder), "batch": batch, "kill": kill, "dropout": dropout}
    program.write_text(PROGRAM.format(**words))
    command = [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={processes}"]
    command += ["--standalone", f"--max-restarts={restarts}", str(program)]
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    env["TORCH_DISABLE_SHARE_RDZV_TCP_STORE"] = "1"  # or, once restarted, they look for those that were killed
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)


def alone(batch: int = 6):
    torch.manual_seed(0)
    model = ViT(MODEL).double()
    return model, fit(model, pictures(), replace(RECIPE, batch_size=batch))


def results(folder: Path, processes: int = 2):
    return [torch.load(folder / f"{rank}.pt") for rank in range(processes)]


def assert_same_run(found, model, history):
    for name, weight in model.state_dict().items():
        torch.testing.assert_close(found["model"][name], weight, rtol=0, atol=1e-10)
    for key, values in history.to_dict().items():
        if "second" not in key:
            assert found["history"][key] == pytest.approx(values, abs=1e-6), key


@pytest.mark.parametrize("processes", [2, 3])
def test_several_processes_train_the_model_that_one_does(tmp_path, processes):
    done = torchrun(tmp_path, processes)
    assert done.returncode == 0, done.stderr
    for found in results(tmp_path, processes):
        assert_same_run(found, *alone())


def test_a_killed_process_loses_nothing(tmp_path):
    done = torchrun(tmp_path, restarts=1, kill=True)
    assert done.returncode == 0, done.stderr
    assert "exitcode: -9" in done.stderr
    for found in results(tmp_path):
        assert_same_run(found, *alone())


def test_a_run_goes_on_with_another_number_of_processes(tmp_path):
    done = torchrun(tmp_path, kill=True)
    assert done.returncode != 0 and not (tmp_path / "0.pt").exists()
    torch.manual_seed(3)
    model = ViT(MODEL).double()
    history = fit(model, pictures(), RECIPE, checkpoint=tmp_path / "run.pt")
    assert_same_run({"model": model.state_dict(), "history": history.to_dict()}, *alone())


def test_dropout_differs_between_processes(tmp_path):
    done = torchrun(tmp_path, dropout=0.5)
    assert done.returncode == 0, done.stderr
    first, second = results(tmp_path)
    assert all(torch.equal(a, b) for a, b in zip(first["model"].values(), second["model"].values(), strict=True))
    assert first["history"]["losses"] == second["history"]["losses"]


def test_a_batch_that_cannot_be_shared_is_refused(tmp_path):
    done = torchrun(tmp_path, processes=3, batch=8)
    assert done.returncode != 0
    assert "batch_size must be a multiple of the number of processes, 3, got 8: use 9" in done.stderr


def block_of_chapter_10(first_line: str) -> str:
    """The block of code in the chapter's text that begins with this line."""
    cells = json.loads((ROOT / "book" / "10-scale.ipynb").read_text(encoding="utf-8"))["cells"]
    text = "".join("".join(cell["source"]) for cell in cells)
    (block,) = re.findall(rf"```\n({re.escape(first_line)}\n.*?)```", text, re.DOTALL)
    return block


def run_two(folder: Path, program: str) -> subprocess.CompletedProcess:
    (folder / "train.py").write_text(program)
    env = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "VITNB_OFFLINE": "1"}
    env |= {"VITNB_DATA": "", "XDG_CACHE_HOME": str(folder)}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py"]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)


def test_the_chapters_program_runs(tmp_path):
    """On a CPU, with the digits."""
    program, moved = re.subn(
        r"^model\.to.*leave this out on a CPU\n", "", block_of_chapter_10("# train.py"), flags=re.MULTILINE
    )
    assert moved == 1
    done = run_two(tmp_path, program)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run.pt").exists()


SHARDED = """
import torch
import torch.distributed as dist
from vitnb import ViT, ViTConfig

dist.init_process_group("gloo")
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
dist.destroy_process_group()
"""


def test_the_chapters_lines_leave_each_process_its_part(tmp_path):
    done = run_two(
        tmp_path, SHARDED.format(block=block_of_chapter_10("from torch.distributed.fsdp import fully_shard"))
    )
    assert done.returncode == 0, done.stderr

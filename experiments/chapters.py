"""How long every chapter runs on one CPU core, from a fresh kernel.

Seconds of each notebook with one thread, as its readers run it and as a smoke
test (VITNB_FAST=1), the start of the kernel included. A chapter that has its time keeps it, with
the commit at which it was taken; delete book/results/chapters.json to time all again.
"""

import json
import os
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from experiments import RESULTS, ROOT
from experiments._data import clothes
from experiments._experiment import Experiment

THIS = Experiment(seeds=[], purpose="timing", threads=1)

WAYS = {"full": "", "fast": "1"}  # VITNB_FAST


def run() -> dict:
    clothes()
    chapters = [
        ROOT / "book" / "index.ipynb",
        *sorted((ROOT / "book").glob("[0-9]*.ipynb")),
        *(ROOT / "book" / f"{name}.ipynb" for name in ("jax", "measurements", "speed")),
    ]
    record = RESULTS / "chapters.json"
    stored = json.loads(record.read_text()) if record.exists() else {"result": {"full": {}, "fast": {}}, "commit": None}
    kept, at = stored["result"], stored["result"].get("commits", {})
    new = [path for path in chapters if path.stem not in kept["full"]]
    timed = {way: kept[way] | {path.stem: seconds(path, fast) for path in new} for way, fast in WAYS.items()}
    commits = {name: at.get(name, stored["commit"]) for name in kept["full"]}
    return {way: {path.stem: times[path.stem] for path in chapters} for way, times in timed.items()} | {
        "commits": commits
    }


def seconds(path: Path, fast: str) -> float:
    """Execute a notebook and return how long it took; its file stays as it is."""
    notebook = nbformat.read(path, as_version=4)
    folder = {"metadata": {"path": path.parent}}
    quiet = ["--log-level=ERROR"]
    client = NotebookClient(notebook, timeout=600, kernel_name="python3", resources=folder, extra_arguments=quiet)
    start = time.perf_counter()
    client.execute(env=os.environ | {"VITNB_FAST": fast, "OMP_NUM_THREADS": str(THIS.threads)})
    taken = round(time.perf_counter() - start, 1)
    print(f"{path.stem}{' (fast)' * bool(fast)}: {taken} s", flush=True)
    return taken

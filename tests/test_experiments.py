"""The stored results: each is what its script, as it stands, would measure again."""

import importlib
import json
from dataclasses import asdict

import pytest

from experiments import RESULTS, fashion_mnist
from experiments import __main__ as command
from experiments.__main__ import names
from vitnb import ViTConfig
from vitnb.data import load
from vitnb.training import Recipe

STORED = sorted(path.stem for path in RESULTS.glob("*.json"))


def test_every_script_has_a_result_and_every_result_a_script():
    assert set(STORED) <= set(names())
    assert [name for name in names() if name not in STORED and not command.needs_gpu(name)] == []


def test_a_small_trial_of_the_gpu_run_stores_nothing(monkeypatch, capsys):
    monkeypatch.setenv("VITNB_FAST", "1")
    monkeypatch.setattr("experiments.best.clothes", lambda: load("digits"))
    monkeypatch.setattr("sys.argv", ["experiments", "best"])
    before = {path: path.stat().st_mtime_ns for path in RESULTS.iterdir()}
    command.main()
    assert "not stored" in capsys.readouterr().out
    assert before == {path: path.stat().st_mtime_ns for path in RESULTS.iterdir()}


def test_a_run_that_goes_on_keeps_its_own_seconds(monkeypatch, tmp_path):
    monkeypatch.setenv("VITNB_CHECKPOINTS", str(tmp_path))
    data, recipe = load("digits").subset(512, test=32), Recipe(epochs=1, batch_size=32)
    first, again = (fashion_mnist.one(data, "small", fashion_mnist.MODEL, recipe) for _ in range(2))
    assert again["cpu_seconds"] == first["cpu_seconds"] > 0


def test_the_gpu_run_says_that_it_needs_one(monkeypatch):
    monkeypatch.setattr("experiments.best.DEVICE", "cpu")
    monkeypatch.delenv("VITNB_FAST", raising=False)
    with pytest.raises(SystemExit, match="needs a GPU"):
        command.measure("best")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "best" not in command.missing()


@pytest.mark.parametrize("name", STORED)
def test_a_result_belongs_to_its_script(name):
    record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    script = importlib.import_module(f"experiments.{name}")
    assert whole(record["config"]) | {"device": 0} == whole(script.CONFIG) | {"device": 0}  # where it was run
    assert record["seeds"] == script.SEEDS
    assert record["claim"] == script.__doc__.strip().split("\n")[0]
    assert record["command"] == f"python -m experiments {name}"


def whole(value):
    """A stored config as its script would write it today: fields that came later have their defaults."""
    if isinstance(value, tuple | list):
        return [whole(item) for item in value]
    if not isinstance(value, dict):
        return value
    defaults = ViTConfig().to_dict() if "embed_dim" in value and "img_size" in value else {}
    defaults |= asdict(Recipe()) if "batch_size" in value and "lr" in value else {}
    return {str(key): whole(item) for key, item in (defaults | value).items()}

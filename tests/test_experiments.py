"""The stored results: each is what its script, as it stands, would measure again."""

import importlib
import json

import pytest

from experiments import RESULTS
from experiments.__main__ import names

STORED = sorted(path.stem for path in RESULTS.glob("*.json"))


def test_every_script_has_a_result_and_every_result_a_script():
    assert names() == STORED


@pytest.mark.parametrize("name", STORED)
def test_a_result_belongs_to_its_script(name):
    record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    script = importlib.import_module(f"experiments.{name}")
    config = json.loads(json.dumps(script.CONFIG))  # tuples become lists
    assert {**record["config"], "device": 0} == {**config, "device": 0}  # cpu or cuda: where it was run
    assert record["seeds"] == script.SEEDS
    assert record["claim"] == script.__doc__.strip().split("\n")[0]
    assert record["command"] == f"python -m experiments {name}"

"""The stored results: each is what its script, as it stands, would measure again."""

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import time
from dataclasses import asdict, replace
from datetime import date
from functools import partial
from itertools import accumulate, count
from zipfile import ZipFile

import pytest
import torch

from experiments import RESULTS, ROOT, _budget, _clock, _models, _trials, looking
from experiments import __main__ as command
from experiments.__main__ import names
from vitbook import results
from vitnb import ViT, ViTConfig
from vitnb.data import load
from vitnb.training import Recipe

STORED = sorted(path.stem for path in RESULTS.glob("*.json"))


def test_every_script_has_a_result_and_every_result_a_script():
    assert set(STORED) <= set(names())
    assert [name for name in names() if name not in STORED and not command.needs_gpu(name)] == []


@pytest.mark.parametrize("name", names())
def test_no_experiment_needs_another(name):
    imported = re.findall(r"^\s*(?:from|import) experiments\b.*", inspect.getsource(script(name)), re.MULTILINE)
    assert imported and not [line for line in imported if set(re.findall(r"\w+", line)) & set(names())]


def script(name):
    return importlib.import_module(f"experiments.{name}")


def test_a_small_trial_of_the_gpu_run_stores_nothing(monkeypatch, capsys):
    monkeypatch.setenv("VITNB_FAST", "1")
    here = script("best").THIS
    monkeypatch.setattr(here, "model", replace(here.model, depth=1, embed_dim=32))  # the whole one takes half a minute
    monkeypatch.setattr("experiments.best.clothes", lambda: load("digits"))
    monkeypatch.setattr("experiments.best.validated", lambda: load("digits").hold_out(300))
    monkeypatch.setattr("sys.argv", ["experiments", "best"])
    before = {path: path.stat().st_mtime_ns for path in RESULTS.iterdir()}
    command.main()
    assert "not stored" in capsys.readouterr().out
    assert before == {path: path.stat().st_mtime_ns for path in RESULTS.iterdir()}


@pytest.fixture
def few(monkeypatch, tmp_path):
    """Some of the digits in the place of the clothes, a part of them for validation; checkpoints in an own folder."""
    monkeypatch.setenv("VITNB_CHECKPOINTS", str(tmp_path))
    data = load("digits").subset(512, test=32)
    monkeypatch.setattr(_trials, "clothes", lambda: data)
    monkeypatch.setattr(_trials, "validated", lambda: data.hold_out(100))
    return data


def test_a_run_that_goes_on_keeps_its_own_seconds(few):
    recipe = Recipe(epochs=1, batch_size=32)
    first, again = (_trials.whole_run("small", partial(ViT, _models.SMALL), recipe) for _ in range(2))
    assert again["cpu_seconds"] == first["cpu_seconds"] > 0


def test_a_whole_run_looks_at_the_test_images_once(few):
    """It once watched them after every epoch, and trained on what validates now."""
    found = _trials.whole_run("small", partial(ViT, _models.SMALL), Recipe(epochs=3, batch_size=32))
    assert found["looks"] == 1 and not [key for key in found if "test" in key and "epoch" in key]
    assert found["images"] == 3 * (412 // 32) * 32
    assert len(found["validation_accuracy_by_epoch"]) == 3
    assert found["validation_accuracy"] == found["validation_accuracy_by_epoch"][-1]
    assert sum(map(sum, found["confusion"])) == 32


def test_a_run_on_all_images_is_watched_by_none(few):
    found = _trials.whole_run("all", partial(ViT, _models.SMALL), Recipe(epochs=2, batch_size=32), validate=False)
    assert found["looks"] == 1 and not [key for key in found if "validation" in key]
    assert found["images"] == 2 * 512
    assert sum(map(sum, found["confusion"])) == 32


def test_all_arms_of_a_seed_draw_from_the_same_images(digits):
    """Whatever their steps and batches: some once saw half of the images twice, so that epochs came out even."""
    arms = [_budget.Arm(lambda: None, Recipe(batch_size=batch, seed=1)) for batch in (8, 32, 64)]
    parts = [_budget.drawn(arm, steps, digits)[0] for arm in arms for steps in (3, 64, 66, 96, 641)]
    assert all(torch.equal(part.train_images, parts[0].train_images) for part in parts)
    assert len(parts[0].train_labels) == len(digits.train_labels)


@pytest.fixture
def digits(monkeypatch, tmp_path):
    """The digits, held out in part, in the place of the clothes; checkpoints in a folder of their own."""
    monkeypatch.setenv("VITNB_CHECKPOINTS", str(tmp_path))
    data = load("digits").hold_out(300)
    monkeypatch.setattr(_budget, "once", lambda: data)
    return data


SMALLEST = partial(ViT, replace(_models.SMALL, embed_dim=16, depth=1))


@pytest.mark.parametrize("steps", [5, 37, 38, 100])
def test_an_arm_takes_the_steps_of_its_seconds(digits, steps):
    arm = _budget.Arm(SMALLEST, Recipe(batch_size=32, seed=1))
    found = _budget.timed_trial((arm, steps, f"arm-{steps}"))
    in_epoch = len(digits.train_labels) // 32
    assert found["images"] == 32 * steps and found["distinct_images"] == min(32 * steps, len(digits.train_labels))
    assert found["epochs"] == round(steps / in_epoch, 3)
    assert {"validation_accuracy", "train_accuracy"} < set(found) and "test_accuracy" not in found


def test_an_arm_of_few_images_gets_all_of_them(digits):
    arm = _budget.Arm(SMALLEST, Recipe(batch_size=32, seed=1), images=70)
    part, epochs = _budget.drawn(arm, 41, digits)
    assert len(part.train_labels) == 70 and epochs == 20.5  # of two steps
    other, _ = _budget.drawn(replace(arm, recipe=replace(arm.recipe, seed=2)), 41, digits)
    assert not torch.equal(part.train_labels, other.train_labels)


def test_without_a_candidate_the_loop_trains_as_fit_does(digits):
    recipe, build = Recipe(epochs=2, batch_size=32, optimizer="muon", seed=3), SMALLEST
    torch.manual_seed(recipe.seed)
    model, sizes = script("candidates").trained(build(), digits, recipe)
    with _trials.plain_products():
        right, history = _trials.train(build, digits, recipe)
    assert sum(sizes) == history.images and len(sizes) == len(history.losses)
    assert all(map(torch.equal, model.state_dict().values(), right.state_dict().values()))


CHANGES = [{"mixup": 0.2}, {"cutmix": 1.0}, {"drop_path": 0.5}, {"ema": 0.9}, {"batch_sizes": [16, 32]}]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: min(change))
def test_a_candidate_changes_the_training_and_repeats_it(digits, change):
    def trained(**change):
        torch.manual_seed(3)
        build = partial(ViT, replace(_models.SMALL, embed_dim=16, depth=2))
        return script("candidates").trained(build(), digits, Recipe(epochs=2, batch_size=32, seed=3), **change)

    (model, sizes), (same, _), (plain, _) = trained(**change), trained(**change), trained()
    pixels = digits.normalize(digits.test_images)
    assert torch.equal(model(pixels), same(pixels)) and not torch.equal(model(pixels), plain(pixels))
    n = len(digits.train_labels)
    assert sizes == ([16] * (n // 16) + [32] * (n // 32) if "batch_sizes" in change else [32] * (2 * (n // 32)))


def test_a_machine_that_grows_slower_is_slower_for_all_arms(digits, monkeypatch):
    """Arms once were clocked one after another, so the same model got a tenth fewer steps in its second name."""
    seconds = count(1.0, 0.001)  # each reading of the clock comes later after the one before
    now = accumulate(seconds)
    monkeypatch.setattr(_budget.time, "process_time", lambda: next(now))
    twice = {name: torch.cat([getattr(digits, name)] * 2) for name in ("train_images", "train_labels")}
    monkeypatch.setattr(_budget, "once", lambda: replace(digits, **twice))
    arm = _budget.Arm(SMALLEST, Recipe(batch_size=32))
    first, second = _budget.seconds_of_steps([arm, arm], rounds=20).median(0).values
    assert 1 < second / first < 1.01


def test_a_step_that_finds_another_arms_data_in_the_caches_is_not_counted(monkeypatch):
    now, last = [0.0], [None]

    class Slow:  # ten seconds when another arm has run in between, else one
        def __init__(self, *_):
            pass

        def train_step(self):
            now[0] += 1 if last[0] is self else 10
            last[0] = self

    monkeypatch.setattr(_budget, "Training", Slow)
    monkeypatch.setattr(_budget.time, "process_time", lambda: now[0])
    arm = _budget.Arm(lambda: torch.nn.Linear(1, 1), Recipe(epochs=1))
    assert _budget.seconds_of_steps([arm, arm], rounds=3).tolist() == [[1, 1]] * 3


def test_a_trial_that_is_kept_is_not_run_again(digits, monkeypatch):
    arm = _budget.Arm(SMALLEST, Recipe(batch_size=32))
    first = _budget.timed_trial((arm, 2, "kept"))
    monkeypatch.setattr(_budget, "train", None)
    assert _budget.timed_trial((arm, 2, "kept")) == first


@pytest.fixture
def looked(monkeypatch, tmp_path):
    """The experiment `looking` with a run of our own, and checkpoints in a folder of its own."""
    monkeypatch.setenv("VITNB_CHECKPOINTS", str(tmp_path))

    def measure(run):
        monkeypatch.setattr(looking, "run", run)
        return command.measure("looking")

    return measure


def test_a_record_says_what_made_it(looked):
    record = looked(dict)
    assert re.fullmatch("[0-9a-f]{40}", record["commit"]) or not (ROOT / ".git").exists()
    assert all(name.endswith(".py") for name in record["changed_since"] or [])
    assert abs((date.today() - date.fromisoformat(record["date"])).days) <= 1  # it is UTC's
    assert record["processor"] and record["gpu"] is None and record["threads"] == looking.THIS.torch_threads
    assert record["seconds"] >= 0 and not record["resumed"]
    assert list(_clock.checkpoint("looking").parent.iterdir()) == []  # no clock where there is nothing to go on with


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository with two committed scripts, instead of the book's; git in it as a function."""

    def git(*words):
        name = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "commit.gpgsign=false"]
        return subprocess.run(["git", *name, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    for path in ("vitnb/one.py", "vitbook/exercises/two.py", "experiments/three.py", "README.md"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(f"# {path}\n")
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "All")
    monkeypatch.setattr(command, "ROOT", tmp_path)
    return git


def test_a_record_names_the_commit_and_the_changed_files(repository, tmp_path):
    commit = repository("rev-parse", "HEAD").strip()
    assert command.source() == {"commit": commit, "changed_since": []}
    (tmp_path / "README.md").write_text("other\n")  # no code
    (tmp_path / "vitbook" / "exercises" / "two.py").write_text("other\n")
    (tmp_path / "vitnb" / "new").mkdir()
    (tmp_path / "vitnb" / "new" / "four.py").touch()
    repository("mv", "experiments/three.py", "experiments/five.py")
    changed = {"vitbook/exercises/two.py", "vitnb/new/four.py", "experiments/three.py", "experiments/five.py"}
    found = command.source()
    assert found["commit"] == commit and set(found["changed_since"]) == changed


def test_a_copy_inside_another_repository_says_no_commit(repository, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "ROOT", tmp_path / "vitnb")
    assert command.source() == {"commit": None, "changed_since": None}


def test_a_run_killed_before_its_first_tick_counts_as_resumed(looked, tmp_path):
    torch.save({"something": "else"}, tmp_path / "looking-runs.pt")  # no clock, and nothing that says how long it took
    assert looked(dict)["resumed"]


def test_a_record_names_the_gpu_of_a_run_on_one(looked, monkeypatch):
    monkeypatch.setitem(looking.THIS.settings, "device", "cuda")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "NVIDIA T4")
    assert looked(dict)["gpu"] == "NVIDIA T4"


def test_outside_a_repository_a_record_says_no_commit(monkeypatch, tmp_path):
    monkeypatch.setattr(command, "ROOT", tmp_path)
    assert command.source() == {"commit": None, "changed_since": None}


def test_a_resumed_experiment_reports_the_seconds_of_all_its_starts(looked, tmp_path):
    def interrupted():
        torch.save({"history": {"seconds": 0.1}}, tmp_path / "looking-0.pt")
        time.sleep(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        looked(interrupted)
    record = looked(dict)
    assert record["resumed"] and 1 <= record["seconds"] < 20  # its own start takes no time at all
    (tmp_path / "looking-0.pt").unlink()
    fresh = looked(dict)  # the checkpoint is gone, and with it what its seconds had bought
    assert not fresh["resumed"] and fresh["seconds"] < 1


def test_few_labels_goes_on_with_what_it_has_and_so_does_its_clock(digits, monkeypatch):
    """Its runs were once kept under a name that the clock did not know."""
    few_labels, settings = script("few_labels"), []

    def one(way, setting, few, seed):
        settings.append(setting)
        time.sleep(0.1)
        if len(settings) % 3 == 0:
            raise KeyboardInterrupt
        return lambda images, labels: 0.5, 0.0

    monkeypatch.setattr(few_labels, "clothes", lambda: digits)
    monkeypatch.setattr(few_labels, "one", one)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            command.measure("few_labels")
    assert settings[:4] == [1e2, 1e3, 1e4, 1e4]  # what was interrupted, and nothing else, is made again
    assert _clock.earlier("few_labels") >= 0.6


def test_a_checkpoint_without_a_clock_brings_the_seconds_of_its_training(looked, tmp_path):
    for seed, seconds in enumerate((3600.0, 1800.0)):
        torch.save({"history": {"seconds": seconds}}, tmp_path / f"looking-{seed}.pt")
    torch.save({"something": "else"}, tmp_path / "looking-runs.pt")
    assert 5400 <= looked(dict)["seconds"] < 5410


def test_a_killed_experiment_leaves_its_seconds(tmp_path):
    program = """
import sys, time
from experiments._clock import checkpoint, clock

with clock("looking", every=0.1):
    checkpoint("looking").with_name("looking-0.pt").touch()
    print("runs", flush=True)
    time.sleep(60)
"""
    env = os.environ | {"VITNB_CHECKPOINTS": str(tmp_path)}
    running = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout.readline() == "runs\n"
        time.sleep(1.5)
    finally:
        running.kill()
        running.communicate()
    assert 1 <= float((tmp_path / "looking.seconds").read_text()) < 30


def test_what_is_stored_leaves_neither_checkpoint_nor_clock(looked, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "RESULTS", tmp_path / "results")
    monkeypatch.setattr("sys.argv", ["experiments", "looking"])
    torch.save({"history": {"seconds": 7.0}}, tmp_path / "looking-0.pt")
    (tmp_path / "looking.seconds").write_text("7.5\n")
    monkeypatch.setattr(looking, "run", dict)
    command.main()
    record = json.loads((tmp_path / "results" / "looking.json").read_text())
    assert record["seconds"] >= 7.5 and record["resumed"]
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


@pytest.mark.parametrize("name", STORED)
def test_a_record_took_no_less_time_than_its_runs(name):
    """A run that went on from a checkpoint once reported its last start alone."""
    record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    runs = trained(record["result"])
    # a run that was first tried and then reported stands there twice
    once = {(run.get("seed"), run.get("cpu_seconds"), run["seconds"]) for run in runs if "cpu_seconds" in run}
    seconds = sum(key[-1] for key in once) + sum(run["seconds"] for run in runs if "cpu_seconds" not in run)
    assert record["seconds"] + 0.1 >= seconds / script(name).THIS.side_by_side  # both are rounded


def trained(value):
    """All training runs in a result: what has both an accuracy and seconds."""
    if isinstance(value, dict) and "seconds" in value and any("accuracy" in key for key in value):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [run for each in inner for run in trained(each)]


def test_the_gpu_run_says_that_it_needs_one(monkeypatch):
    monkeypatch.setattr("experiments.best.DEVICE", "cpu")
    monkeypatch.delenv("VITNB_FAST", raising=False)
    with pytest.raises(SystemExit, match="needs a GPU"):
        command.measure("best")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "best" not in command.missing()


PURPOSES = {name: script(name).THIS.purpose for name in names()}


@pytest.mark.parametrize("name", [name for name, purpose in PURPOSES.items() if purpose != "timing"])
def test_no_choice_is_made_on_test_images(name):
    """Each training names the images that judged it: validation images, unless it only shows how something works."""
    config = script(name).THIS.config()
    if PURPOSES[name] == "refit":
        chosen_by = script(config["chosen_by"])
        chosen = results.result(config["chosen_by"])["result"]["chosen"]
        recipe = {"epochs": config["recipe"]["epochs"]} | chosen_by.THIS.tried[chosen]
        assert config["recipe"] == asdict(replace(chosen_by.THIS.recipe, **recipe))
        assert all(config[key] == chosen_by.THIS.config()[key] for key in ("model", "stem", "strides"))
        assert PURPOSES[config["chosen_by"]] == "choice"
        assert all(run["looks"] == 1 for run in runs_in(results.result(name)["result"]))
        return
    if PURPOSES[name] != "choice" or name not in STORED:
        return
    found = results.result(name)["result"]
    assert "validation_accuracy" in str(found) and "test_accuracy_by_epoch" not in str(found)
    assert ("test_accuracy" in str(found)) == ("reported_on" in config)
    assert all(run["looks"] == 1 for run in runs_in(found) if "test_accuracy" in run)


@pytest.mark.parametrize("name", [name for name, purpose in PURPOSES.items() if purpose == "timing"])
def test_what_only_takes_times_reports_no_accuracy(name):
    """Else it would have to say which images judged it."""
    assert "accuracy" not in str(results.result(name)["result"])


ENTRIES = ["five_minutes", "speed_93", "speed_94"]
# A fork for each, in the folder of its code: torch is imported once.
FROM_THERE = """
import importlib, json, os, sys
import torch, torchvision
for name in sys.argv[1:]:
    if os.fork() == 0:
        os.chdir(name)
        import experiments.__main__, vitnb.training as own
        one = importlib.import_module(f"experiments.{name}")
        with open("told.json", "w") as file:
            json.dump([own.__file__, one.SEEDS, one.CONFIG], file)
        sys.exit()
    os.wait()
"""


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """A folder with the code of each entry, and what that says of itself; and what went wrong."""
    folder = tmp_path_factory.mktemp("entries")
    for name in ENTRIES:
        with ZipFile(RESULTS / f"{name}.zip") as archive:
            archive.extractall(folder / name)
    done = subprocess.run([sys.executable, "-c", FROM_THERE, *ENTRIES], cwd=folder, capture_output=True, text=True)
    return folder, done.stderr


@pytest.mark.parametrize("name", ENTRIES)
def test_the_code_beside_an_entry_is_complete(unpacked, name):
    """Unpacked, it runs from there alone, with what the stored result was made with."""
    folder, errors = unpacked[0] / name, unpacked[1]
    assert (folder / "told.json").exists(), errors
    file, seeds, config = json.loads((folder / "told.json").read_text())
    stored = results.result(name)
    assert file == str(folder / "vitnb" / "training.py")
    assert (seeds, config) == (stored["seeds"], stored["config"])


def test_the_entry_for_94_multiplies_in_bfloat16():
    """The same weights answer nearly the same, in float32, and not exactly."""
    torch.manual_seed(0)
    full, half = _models.wider_vit().eval(), script("speed_94").half_vit().eval()
    half.load_state_dict(full.state_dict())
    images = torch.randn(8, 1, 28, 28)
    with torch.no_grad():
        expected, got = full(images), half(images)
    assert got.dtype == torch.float32
    assert not torch.equal(got, expected)
    torch.testing.assert_close(got, expected, rtol=0, atol=0.05 * expected.abs().max().item())


def runs_in(value):
    """All runs of a result: what has a seed and an accuracy."""
    if isinstance(value, list):
        return [run for item in value for run in runs_in(item)]
    if not isinstance(value, dict):
        return []
    return [value] if "seed" in value else runs_in(list(value.values()))


@pytest.mark.parametrize(
    ("name", "arms"), [("ladder", "rungs")] + [(name, "arms") for name in ("resolutions", "further", "stems", "cnn")]
)
def test_arms_had_equal_seconds(name, arms):
    """By the clock: planned from a few steps before; for the cheapest models, with epochs of seven, less exactly."""
    arms = list(results.result(name)["result"][arms].values())
    arms = arms if "runs" in arms[0] else [found for tries in arms for found in tries.values()]
    spent = [sum(run["seconds"] for run in arm["runs"]) / len(arm["runs"]) for arm in arms]
    assert max(spent) < (1.5 if name == "cnn" else 1.2) * min(spent)


def test_each_model_beside_the_cnn_has_the_learning_rate_that_did_best():
    record = results.result("cnn")
    assert record["config"]["tuned_with"] not in record["seeds"]
    for tries in record["result"]["arms"].values():
        for found in tries.values():
            assert found["rates"][str(found["lr"])] == max(found["rates"].values())


@pytest.mark.parametrize("name", STORED)
def test_a_result_belongs_to_its_script(name):
    record = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    made_by = script(name)
    assert whole(record["config"]) | {"device": 0} == whole(made_by.THIS.config()) | {"device": 0}  # where it was run
    assert record["seeds"] == made_by.THIS.seeds
    assert record["claim"] == made_by.__doc__.strip().split("\n")[0]
    assert record["command"] == f"python -m experiments {name}"
    assert re.fullmatch("[0-9a-f]{40}", record["commit"]) and record["processor"]


def whole(value):
    """A stored config as its script would write it today: fields that came later have their defaults."""
    if isinstance(value, tuple | list):
        return [whole(item) for item in value]
    if not isinstance(value, dict):
        return value
    defaults = ViTConfig().to_dict() if "embed_dim" in value and "img_size" in value else {}
    defaults |= asdict(Recipe()) if "batch_size" in value and "lr" in value else {}
    return {str(key): whole(item) for key, item in (defaults | value).items()}

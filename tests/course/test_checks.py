"""vitbook.exercises: right answers pass however written, wrong ones are named, and no answer breaks a notebook.

The table of all answers with their verdicts: pytest tests/course/test_checks.py -k table -s
"""

import gc
import importlib
import itertools
import math
import os
import random
import re
import signal
import sys
import threading
import time
import warnings
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from tests.course.answers import JAX, RIGHT, WRONG, answers, solution, verdict, wrong_answers
from vitbook import check, faults
from vitbook.exercises import chapter_09, engine, forms, limits, state, values
from vitbook.exercises.declaration import Exercise, Wrong
from vitnb import ViT, ViTConfig
from vitnb.blocks import MLP

# ----------------------------------------------------------------------------------------------------------

for path in sorted(Path(__file__).parent.glob("test_checks_*.py")):
    importlib.import_module(f"tests.course.{path.stem}")  # it notes the answers of its chapter


def saying(value):
    return lambda: value


for number, task in engine.EXERCISES.items():
    if isinstance(task, forms.letters):
        chosen, n = set(task.chosen), len(task.reasons)
        RIGHT[number] += [saying(", ".join(reversed(task.chosen)).lower())]
        WRONG[number] |= {
            f"You are right about {n - 1} of {n}. Think again about {reason}": saying("".join(chosen ^ {letter}))
            for letter, reason in task.reasons.items()
        } | {
            f"You are right about 0 of {n}.": saying(" ".join(task.reasons.keys() - chosen)),
            f"There are only the {task.things} A to {max(task.reasons)}: you name X": saying(task.chosen + "X"),
            "Expected a string such as 'AC": saying([*chosen]),
        }

NUMBERS = [number for number in engine.EXERCISES if JAX or number not in ("jax.2", "jax.3")]
# One exercise of each form, for what depends on the engine and on the form, and on nothing else: compute a number and
# a tensor, hunt, predict, letters, weights, blank class, judges of their own, all results at once, a loop, models.
FORMS = ["3.2", "1.2", "5.4", "11.4", "6.1", "5.3", "5.2", "7.2", "1.1", "10.3", "9.2", "12.5", "1.4", "12.1"]
DOES_NOT_END = [lambda *a: [0 for _ in iter(int, 1)], lambda *a: time.sleep(60)]


class Odd:
    """Nothing that an exercise asks for."""

    def __eq__(self, other):
        raise TypeError("no comparison")

    def __repr__(self):
        raise TypeError("no name")

    __hash__ = None


class BadMessage(Exception):
    def __str__(self):
        raise TypeError


class Lying(torch.Tensor):
    """Equal to everything."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return True if "close" in function.__name__ else super().__torch_function__(function, types, args, kwargs)


def exits(*_):
    raise SystemExit


def raises_oddly(*_):
    raise BadMessage


HOSTILE = {
    "raises": lambda *a: 1 / 0,
    "raises without text": raises_oddly,
    "leaves": exits,
    "calls itself": lambda *a: HOSTILE["calls itself"](*a),
    "takes no argument": lambda: 1,
    "NumPy array": lambda *a: np.ones((2, 3)),
    "list": lambda *a: [1, 2],
    "no axis": lambda *a: torch.tensor(3.5),
    "other axes": lambda *a: torch.ones(1, 2, 3, 4, 5),
    "whole numbers": lambda *a: torch.ones(3, 7, dtype=torch.long),
    "NaN": lambda *a: math.nan,
    "NaN tensor": lambda *a: torch.full((3, 7), math.nan),
    "word": lambda *a: "7",
    "pair of numbers": lambda *a: (1, 2),
    "pair of words": lambda *a: ("a", "b"),
    "its input": lambda *a: a[0],
    "function": lambda *a: len,
    "odd": lambda *a: Odd(),
    "no numbers": lambda *a: torch.ones(3, 7, device="meta"),
    "no number": lambda *a: torch.tensor(1.0, device="meta"),
    "no truth": lambda *a: torch.tensor(True, device="meta"),
    "sparse": lambda *a: torch.ones(3, 7).to_sparse(),
    "lying": lambda *a: torch.ones(3, 7).as_subclass(Lying),
    "a number": 49,
    "a tensor": torch.ones(2),
    "an odd object": Odd(),
    "an empty class": Odd,
}


@pytest.mark.parametrize("number", NUMBERS)
def test_table_of_answers(number):
    right, wrong = answers(number), wrong_answers(number)
    assert right and len(wrong) + len(engine.EXERCISES[number].mistakes) >= 3
    print(f"\n{number}: {len(right)} right accepted, {len(wrong)} wrong rejected")
    for answer in right * (1 if engine.EXERCISES[number].work > 2 else 2):  # other random numbers each time
        result, text = verdict(number, answer)
        assert result is True, text
        assert text.startswith("Right: ")
    print(f"  + {text}")
    for phrase, answer in wrong:
        result, text = verdict(number, answer)
        assert result is False, text
        assert phrase in text
        assert re.search(rf'[.?] Hint: check\("{number}", hint=1\)\.$', text)
        print(f"  - {text.split(' Hint: ')[0]}")


MISTAKES = [(number, message) for number in NUMBERS for message in engine.EXERCISES[number].mistakes]


@pytest.mark.parametrize(("number", "message"), MISTAKES)
def test_every_mistake_gets_its_own_message(number, message):
    result, text = verdict(number, engine.EXERCISES[number].mistakes[message])
    assert result is False
    for part in re.split(r"{[^}]*}", message):  # what stands in braces is filled in from the case
        assert " ".join(part.split()) in text


@pytest.mark.parametrize("number", FORMS)
@pytest.mark.parametrize("name", HOSTILE)
def test_no_answer_breaks_a_check(number, name):
    result, text = verdict(number, HOSTILE[name])
    assert result is False
    assert text and "Traceback" not in text and "cannot be checked" not in text


@pytest.mark.parametrize("number", FORMS)
@pytest.mark.parametrize("answer", DOES_NOT_END)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # its end may come in a destructor
def test_an_answer_that_never_returns_is_stopped(number, answer, monkeypatch):
    monkeypatch.setattr(limits, "TIME_LIMIT", limit := 0.05)
    timer = hasattr(signal, "setitimer")  # not on Windows, where a thread is waited for
    before = signal.getsignal(signal.SIGALRM) if timer else None
    result, text = verdict(number, answer)
    assert result is False
    work = limit * engine.EXERCISES[number].work
    assert f"after {work:g} seconds of work" in text or f"{6 * work:g} seconds by the clock, with less than" in text
    if timer:
        assert signal.getsignal(signal.SIGALRM) is before
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_answer_that_catches_everything_is_stopped(monkeypatch):
    monkeypatch.setattr(limits, "TIME_LIMIT", 0.1)

    def swallows(*_):
        while True:
            try:
                time.sleep(0.0001)
            except BaseException:
                pass

    assert "stopped after" in verdict("1.2", swallows)[1]


def test_a_right_answer_that_waits_for_a_busy_machine_is_right(monkeypatch):
    monkeypatch.setattr(limits, "TIME_LIMIT", 1.0)
    waits = iter([1.5])

    def slow(*arguments):
        time.sleep(next(waits, 0))
        return solution("1.2")(*arguments)

    assert check("1.2", slow)


def test_it_works_in_another_thread(monkeypatch):
    monkeypatch.setattr(limits, "TIME_LIMIT", 5.0)
    results = []

    def run():
        results.append(check("1.2", solution("1.2")))
        results.append(check("1.2", lambda *a: 1 / 0))
        monkeypatch.setattr(limits, "TIME_LIMIT", 0.1)
        results.append(check("1.2", lambda *a: time.sleep(1)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert results == [True, False, False]


def test_a_thread_that_was_given_up_puts_nothing_back(monkeypatch):
    monkeypatch.setattr(limits, "TIME_LIMIT", 0.05)
    session, threads = sys.stdout, []

    def sleeps(*arguments):
        threads.append(threading.current_thread())
        time.sleep(1)

    run = threading.Thread(target=check, args=("1.2", sleeps))
    run.start()
    run.join()
    with redirect_stdout(StringIO()) as later:
        threads[0].join()
        assert sys.stdout is later
    assert sys.stdout is session and len(threads) == 1


def test_a_mistake_that_fits_one_case_by_luck_is_not_told():
    (lucky, first), (known, second) = list(engine.EXERCISES["9.1"].mistakes.items())[:2]
    turns = itertools.count()
    _, said = verdict("9.1", lambda *case: (first if next(turns) == 0 else second)(*case))
    assert known in said and lucky not in said


def test_of_two_mistakes_at_once_the_one_that_the_first_case_shows_is_told():
    def whole_parts_in_one_mean(q, k, v, most):
        n = k.shape[-2] // most
        parts = zip(k[..., : n * most, :].chunk(n, -2), v[..., : n * most, :].chunk(n, -2), strict=True)
        return sum((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v for k, v in parts) / n

    assert "you average one softmax for each piece" in verdict("13.4", whole_parts_in_one_mean)[1]


def test_a_wrong_matrix_is_told_before_a_larger_one_is_tried(monkeypatch):
    monkeypatch.setattr(limits, "TIME_LIMIT", 1.0)

    def all_orders(W):
        rows = [W[list(order)] for order in itertools.permutations(range(len(W)))]
        return sum(rows) / len(rows)

    assert "each diagonal entry visits every place" in verdict("2.2", all_orders)[1]


def untouched(*args):
    """What a skeleton may say about itself."""
    ...


def not_implemented(*args):
    raise NotImplementedError


def ellipsis(*args):
    result = ...
    return result


@pytest.mark.parametrize(
    "answer", [None, ..., untouched, not_implemented, ellipsis, lambda *args: None, lambda *a: ...]
)
@pytest.mark.parametrize("number", FORMS)
def test_an_untouched_skeleton_is_not_done_yet(number, answer):
    assert verdict(number, answer) == (False, f"{number}: not done yet.")


class Blank(nn.Module):
    """The skeleton of a class."""

    def __init__(self, *sizes):
        super().__init__()
        ...

    def prepend(self, x): ...

    def forward(self, *inputs):
        """Images (B, C, H, W) -> logits (B, K)."""
        ...


SKELETONS = dict.fromkeys(("3.4", "4.3", "5.2", "6.3", "7.2", "8.3", "14.3", "15.4"), Blank) | {
    "2.3": lambda rows, cols, D: (..., ...),
    "2.4": lambda: (..., ..., ...),
    "9.2": chapter_09.epoch_with(True, True, True),
    "11.4": lambda what: (..., ...),
    "13.2": lambda change: (..., ..., ..., ..., ...),
}


@pytest.mark.parametrize("number", SKELETONS)
def test_a_skeleton_of_its_own_is_not_done_yet(number):
    assert verdict(number, SKELETONS[number]) == (False, f"{number}: not done yet.")


@pytest.mark.parametrize("number", FORMS)
def test_a_forgotten_return_is_named(number):
    def forgets(*args):
        len(args)

    assert "is the return missing?" in verdict(number, forgets)[1]


# What no hint may hold.
GIVEN_AWAY = ["permute(0", "height //", ".mean(", "mean(1)", "reshape(", "view(", "transpose(", "math.log", "copy_("]
GIVEN_AWAY += ["no_weight_decay", "reversed(", "softmax(-1", "torch.eye", "torch.cat", "expand(", "correction", "x + "]
GIVEN_AWAY += ["x[:", "split(", "T * T", "16", "sum(", "lambda", "allclose"]


@pytest.mark.parametrize("number", NUMBERS)
def test_two_hints_give_no_answer_away(number):
    for hint in (1, 2):
        result, text = verdict(number, answers(number)[0], hint=hint)
        assert result is False
        assert text.startswith(f"Hint {hint}: ")
        assert 60 < len(text) < 320
        assert not [code for code in GIVEN_AWAY if code in text]
    with pytest.raises(ValueError, match="hint must be one of 1, 2, got 3"):
        check(number, hint=3)


def test_an_unknown_exercise_is_refused():
    with pytest.raises(ValueError, match="exercise must be one of .*'1.1', .*, got '1.9'"):
        check("1.9", solution("1.2"))


def test_an_error_shows_the_readers_line():
    def answer(patches, p, H, W, C):
        return patches.reshape(7, 7)

    text = verdict("1.2", answer)[1]
    assert "raises RuntimeError in the line `return patches.reshape(7, 7)`: shape '[7, 7]' is invalid" in text
    assert "It was called with (a tensor of shape (2, " in text


SETTINGS = {
    "float64": lambda: torch.set_default_dtype(torch.float64),
    "meta": lambda: torch.set_default_device("meta"),
    "no gradients": lambda: torch.set_grad_enabled(False),
    "threads": lambda: torch.set_num_threads(3),
    "seeds": lambda: (torch.manual_seed(0), np.random.seed(0), random.seed(0)),  # noqa: NPY002
    "deterministic": lambda: torch.use_deterministic_algorithms(True),
    "warnings": lambda: warnings.simplefilter("error"),
    "folder": lambda: os.chdir("/"),
    "interrupts": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    "alarms": lambda: signal.signal(signal.SIGALRM, signal.SIG_IGN),
    "no garbage": gc.disable,
    "depth": lambda: __import__("sys").setrecursionlimit(5000),
    "floats": lambda: np.seterr(all="raise"),
    "a hook on all modules": lambda: torch.nn.modules.module.register_module_forward_hook(lambda m, i, o: 2 * o),
    "attention": lambda: setattr(F, "scaled_dot_product_attention", lambda q, k, v, **_: v),
    "allclose": lambda: setattr(torch, "allclose", lambda *a, **k: True),
    "softmax": lambda: setattr(torch.Tensor, "softmax", lambda x, *a, **k: x),
    "linear": lambda: setattr(nn.Linear, "forward", lambda self, x: x),
    "the package": lambda: setattr(MLP, "forward", lambda self, x: x),
    "a fault": lambda: setattr(faults, "build", lambda name, config: ViT(config)),
    "the checks": lambda: setattr(values, "close", lambda *a, **k: True),
}
READ = {
    "functions": lambda: [F.scaled_dot_product_attention, torch.allclose, nn.Linear.forward, MLP.forward, faults.build],
    "methods": lambda: [torch.Tensor.softmax, values.close],
    "settings": lambda: [read() for read, _ in state.SETTINGS],
    "random numbers": lambda: [random.getstate(), torch.get_rng_state().tolist(), np.random.get_state()[1].tolist()],  # noqa: NPY002
    "warnings": lambda: list(warnings.filters),
}


@pytest.fixture
def setting(request):
    """It is undone by what is tested itself, so the test before compares."""
    session = state.State(state.OF_A_SESSION)
    yield SETTINGS[request.param]
    session.restore()


# They lean on what an answer may replace; the last, which takes longest, where the others do not.
LEANING = [(number, name) for number in ("4.3", "5.3", "14.3", "3.1") for name in SETTINGS]
LEANING += [("12.1", name) for name in ("meta", "the package", "a fault", "the checks")]


@pytest.mark.parametrize("number, setting", LEANING, indirect=["setting"])
@pytest.mark.parametrize("by", ["an earlier cell", "the answer"])
def test_a_right_answer_is_right_whatever_is_set_and_changes_nothing_of_the_session(number, setting, by):
    right = solution(number)  # its cells may draw random numbers

    def sets(*args):
        answer = right(*args)
        setting()
        return answer

    if by == "an earlier cell":
        setting()
    before = {name: read() for name, read in READ.items()}
    result, text = verdict(number, right if by == "an earlier cell" else sets)
    assert result, text
    assert {name: read() for name, read in READ.items()} == before


def test_a_wrong_answer_does_not_pass_by_what_it_replaces():
    class Values(nn.Module):
        """Attention that gives every token its own value, as the kernel does from now on."""

        def __init__(self, dim, num_heads):
            super().__init__()
            self.query, self.key, self.value, self.proj = (nn.Linear(dim, dim) for _ in range(4))
            F.scaled_dot_product_attention = lambda q, k, v, **_: v

        def forward(self, x):
            F.scaled_dot_product_attention = lambda q, k, v, **_: v
            return self.proj(self.value(x)) + 0 * self.query(x) * self.key(x)

    kernel = F.scaled_dot_product_attention
    assert not verdict("4.3", Values)[0]
    assert F.scaled_dot_product_attention is kernel and verdict("4.3", solution("4.3"))[0]


def test_a_hook_left_on_a_lent_model_is_a_change():
    def hooks(model):
        model.blocks[0].attention.register_forward_hook(lambda *_: None)
        return solution("12.1")(model)

    def freezes(model):
        model.head.requires_grad_(False)
        return solution("12.1")(model)

    for answer in (hooks, freezes):
        assert "changes what it is given" in verdict("12.1", answer)[1]


def test_a_default_device_that_was_set_back_to_none_hurts_no_check():
    torch.set_default_device("meta")
    torch.set_default_device(None)
    assert verdict("1.1", solution("1.1"))[0]


def test_a_patched_comparison_passes_no_later_answer(monkeypatch):
    monkeypatch.setattr(torch, "allclose", lambda *args, **kwargs: True)
    assert not verdict("3.1", lambda q, k, v: v)[0]


@pytest.fixture
def no_exercises(monkeypatch):
    monkeypatch.setattr("vitbook.exercises.declaration.EXERCISES", {})
    monkeypatch.setattr(engine, "EXERCISES", importlib.import_module("vitbook.exercises.declaration").EXERCISES)


PARTS = {"hint1": "a", "hint2": "b", "cases": lambda: [(1,)], "judge": lambda said, x: None, "right": "1."}


@pytest.mark.usefixtures("no_exercises")
def test_a_declaration_that_is_not_complete_fails_at_once():
    assert Exercise("0.1", "f(x)", **PARTS) is engine.EXERCISES["0.1"]
    for missing in PARTS:
        with pytest.raises(TypeError, match=missing):
            Exercise("0.1", "f(x)", **{name: part for name, part in PARTS.items() if name != missing})
    with pytest.raises(ValueError, match="exercise '0.1' has no hint2: hint2='...' is missing"):
        Exercise("0.1", "f(x)", **PARTS | {"hint2": ""})
    with pytest.raises(ValueError, match="exercise '0.1' runs 'there': use one of outside, inside"):
        Exercise("0.1", "f(x)", **PARTS, runs="there")
    with pytest.raises(TypeError, match="judge of exercise '0.1' is no function: 3"):
        Exercise("0.1", "f(x)", **PARTS | {"judge": 3})


@pytest.mark.usefixtures("no_exercises")
def test_the_protocol():
    """A case after the other, calls that a judge asks for, what is wrong with all, what was tried."""

    def judge(doubled, x):
        if doubled != 2 * x:
            return f"{x}: wrong."
        try:
            again = yield doubled.__add__, 1
        except Wrong as wrong:
            return f"raised {type(wrong).__name__}"
        return None if again == 2 * x + 1 else "no sum."

    cases = {"cases": lambda: [(1,), (2,)], "judge": judge}
    task = Exercise("0.1", "f(x)", **PARTS | cases, overall=lambda results: "too many." if len(results) > 2 else None)
    assert verdict("0.1", lambda x: 2 * x) == (True, "Right: 1.")
    assert verdict("0.1", lambda x: 2) == (False, '2: wrong. Hint: check("0.1", hint=1).')
    replace(task, cases=lambda: [(1,), (2,), (3,)], right=lambda results: f"{len(results)}.")
    assert "too many." in verdict("0.1", lambda x: 2 * x)[1]
    replace(task, right=lambda results: f"{len(results)} of {results[1]}.")
    assert verdict("0.1", lambda x: 2 * x)[1] == "Right: 2 of ((2,), 4)."

    class Two(int):
        def __add__(self, other):
            raise RuntimeError

    assert "raised Raised" in verdict("0.1", lambda x: Two(2 * x))[1]


@pytest.mark.parametrize("path", sorted(Path(engine.__file__).parent.glob("*.py")), ids=lambda path: path.stem)
def test_no_chapter_and_no_form_calls_the_engine_back(path):
    above = {"__init__", "engine", "chapter_12"}  # 12.1 and 12.4 are tested as a whole
    assert path.stem in above or "exercises.engine" not in path.read_text(encoding="utf-8")


@pytest.mark.usefixtures("no_exercises")
def test_counting_the_calls_passes_no_bug_hunt():
    wrong, said = {f"is {i}": i for i in range(1, 12)}, []
    forms.hunt("0.1", "is_zero(i)", "a", "b", right={"zero": 0}, wrong=wrong, accepted="{right} and {wrong}.")
    passed = 0
    for _ in range(20):
        calls = iter(range(12))
        passed += verdict("0.1", lambda i, calls=calls: next(calls) == 0)[0]
    assert passed < 10
    assert verdict("0.1", lambda i: said.append(i) or i == 0) == (True, "Right: 1 and 11.")
    assert sorted(said) == list(range(12))


def test_a_number_may_be_a_tensor_or_an_array_of_one():
    for three in (
        3,
        3.0,
        np.float32(3),
        np.array(3),
        torch.tensor(3),
        torch.tensor([3.0]),
        nn.Parameter(torch.tensor(3.0)),
    ):
        assert values.number(three) == 3.0
    for other in (True, "3", [3], torch.ones(2), torch.ones(1, 1, 1), math.nan, None):
        with pytest.raises(Wrong, match="Expected a (finite )?number"):
            values.number(other)


def test_one_thing_is_no_things():
    said = [values.counted(n, noun) for n, noun in ((1, "seed"), (2, "seed"), (0, "patch"), (1, "patch"), (2, "loss"))]
    assert said == ["1 seed", "2 seeds", "0 patches", "1 patch", "2 losses"]


def test_truth_is_a_boolean_of_python_numpy_or_torch():
    for truth in (True, np.bool_(True), torch.tensor(True)):
        assert engine.yes_or_no(truth) is True
    for other in (1, 0, 1.0, torch.tensor(1), torch.tensor([True]), np.array([True]), "True", None):
        with pytest.raises(Wrong, match="Expected True or False"):
            engine.yes_or_no(other)


def test_a_module_in_place_of_the_function_is_named():
    text = verdict("8.4", ViT(ViTConfig()))[1]
    assert "Expected a function deeper(model), not called yet, got a ViT." in text

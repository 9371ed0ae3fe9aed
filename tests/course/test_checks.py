"""vitbook.exercises: right answers pass however written, wrong ones are named, and no answer breaks a notebook.

The table of all answers with their verdicts: pytest tests/course/test_checks.py -k table -s
"""

import importlib.util
import math
import random
import re
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.course.answers import RIGHT, WRONG, verdict
from vitbook import check, faults
from vitbook.exercises import chapter_12, chapter_jax, engine, forms
from vitbook.faults import cut
from vitnb import ViT, ViTConfig, patchify

# ----------------------------------------------------------------------------------------------------------

for path in sorted(Path(__file__).parent.glob("test_checks_*.py")):
    importlib.import_module(f"tests.course.{path.stem}")  # it notes the answers of its chapter

JAX = importlib.util.find_spec("flax") is not None  # make jax
NUMBERS = [number for number in engine.EXERCISES if JAX or number not in ("jax.2", "jax.3")]
ANSWERED = [number for number in NUMBERS if number in RIGHT]
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


@pytest.mark.parametrize("number", ANSWERED)
def test_table_of_answers(number):
    right, wrong = RIGHT[number], WRONG[number]
    assert len(right) >= 2 and len(wrong) + len(engine.EXERCISES[number].mistakes) >= 3
    print(f"\n{number}: {len(right)} right accepted, {len(wrong)} wrong rejected")
    for answer in right * 3:  # other random numbers each time
        result, text = verdict(number, answer)
        assert result is True, text
        assert text.startswith("Right: ")
    print(f"  + {text}")
    for answer, phrase in wrong:
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


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", HOSTILE)
def test_no_answer_breaks_a_check(number, name):
    result, text = verdict(number, HOSTILE[name])
    assert result is False
    assert text and "Traceback" not in text and "cannot be checked" not in text


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("answer", DOES_NOT_END)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # its end may come in a destructor
def test_an_answer_that_never_returns_is_stopped(number, answer, monkeypatch):
    if number in ("jax.2", "jax.3"):
        chapter_jax._jax()  # half an import could not be done again
    monkeypatch.setattr(engine, "TIME_LIMIT", 0.1)
    timer = hasattr(signal, "setitimer")  # not on Windows, where a thread is waited for
    before = signal.getsignal(signal.SIGALRM) if timer else None
    result, text = verdict(number, answer)
    assert result is False
    work = 0.1 * engine.EXERCISES[number].work
    assert f"after {work:g} seconds of work" in text or f"{6 * work:g} seconds by the clock, with less than" in text
    if timer:
        assert signal.getsignal(signal.SIGALRM) is before
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_answer_that_catches_everything_is_stopped(monkeypatch):
    monkeypatch.setattr(engine, "TIME_LIMIT", 0.1)

    def swallows(*_):
        while True:
            try:
                time.sleep(0.0001)
            except BaseException:
                pass

    assert "stopped after" in verdict("1.2", swallows)[1]


def test_a_right_answer_that_waits_for_a_busy_machine_is_right(monkeypatch):
    monkeypatch.setattr(engine, "TIME_LIMIT", 1.0)
    waits = iter([1.5])

    def slow(*arguments):
        time.sleep(next(waits, 0))
        return RIGHT["1.2"][0](*arguments)

    assert check("1.2", slow)


def test_it_works_in_another_thread(monkeypatch):
    monkeypatch.setattr(engine, "TIME_LIMIT", 5.0)
    results = []

    def run():
        results.append(check("1.2", RIGHT["1.2"][0]))
        results.append(check("1.2", lambda *a: 1 / 0))
        monkeypatch.setattr(engine, "TIME_LIMIT", 0.1)
        results.append(check("1.2", lambda *a: time.sleep(1)))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert results == [True, False, False]


def untouched(*args):
    """What a skeleton may say about itself."""
    ...


def not_implemented(*args):
    raise NotImplementedError


def ellipsis(*args):
    result = ...
    return result


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    "answer", [None, ..., untouched, not_implemented, ellipsis, lambda *args: None, lambda *a: ...]
)
def test_an_untouched_skeleton_is_not_done_yet(number, answer):
    assert verdict(number, answer) == (False, f"{number}: not done yet.")


@pytest.mark.parametrize("number", NUMBERS)
def test_a_forgotten_return_is_named(number):
    def forgets(*args):
        len(args)

    assert "is the return missing?" in verdict(number, forgets)[1]


# What no hint may hold.
GIVEN_AWAY = ["permute(0", "height //", ".mean(", "mean(1)", "reshape(", "view(", "transpose(", "math.log", "copy_("]
GIVEN_AWAY += ["no_weight_decay", "reversed(", "softmax(-1", "torch.eye", "torch.cat", "expand(", "correction", "x + "]
GIVEN_AWAY += ["x[:", "split(", "T * T", "16", "sum(", "lambda", "allclose"]


@pytest.mark.parametrize("number", ANSWERED)
def test_two_hints_give_no_answer_away(number):
    for hint in (1, 2):
        result, text = verdict(number, RIGHT[number][0], hint=hint)
        assert result is False
        assert text.startswith(f"Hint {hint}: ")
        assert 60 < len(text) < 320
        assert not [code for code in GIVEN_AWAY if code in text]
    with pytest.raises(ValueError, match="hint must be one of 1, 2, got 3"):
        check(number, hint=3)


def test_an_unknown_exercise_is_refused():
    with pytest.raises(ValueError, match="exercise must be one of .*'1.1', .*, got '1.9'"):
        check("1.9", RIGHT["1.2"][0])


def test_an_error_shows_the_readers_line():
    def answer(patches, p, H, W, C):
        return patches.reshape(7, 7)

    text = verdict("1.2", answer)[1]
    assert "raises RuntimeError in the line `return patches.reshape(7, 7)`: shape '[7, 7]' is invalid" in text
    assert "It was called with (a tensor of shape (2, " in text


@pytest.fixture
def few_faults(monkeypatch):
    """12.5 tries a model for each fault, which takes seconds: where the settings are in question, a few will do."""
    monkeypatch.setattr(chapter_12, "IN_A_MODEL", faults.PUBLISHED[::9])


@pytest.mark.usefixtures("few_faults")
@pytest.mark.parametrize("number", ANSWERED)
def test_the_global_random_numbers_stay_as_they_are(number):
    def draws(*args):
        torch.manual_seed(0)
        np.random.seed(0)  # noqa: NPY002
        random.seed(0)
        return RIGHT[number][0](*args)

    for state in (torch.random.get_rng_state, lambda: torch.tensor(np.random.get_state()[1]), random.getstate):  # noqa: NPY002
        before = state()
        assert verdict(number, draws)[0]
        assert torch.equal(before, state()) if isinstance(before, torch.Tensor) else before == state()


SETTINGS = {
    "float64": lambda: torch.set_default_dtype(torch.float64),
    "meta": lambda: torch.set_default_device("meta"),
    "no gradients": lambda: torch.set_grad_enabled(False),
    "threads": lambda: torch.set_num_threads(3),
}


@pytest.fixture(params=SETTINGS)
def setting(request):
    with engine._settings_kept():
        yield SETTINGS[request.param]


def settings():
    return torch.get_default_dtype(), engine.default_device(), torch.is_grad_enabled(), torch.get_num_threads()


@pytest.mark.usefixtures("few_faults")
@pytest.mark.parametrize("number", [n for n in NUMBERS if n in RIGHT])
def test_a_right_answer_is_right_under_every_setting_of_the_session(number, setting):
    setting()
    before = settings()
    result, text = verdict(number, RIGHT[number][0])
    assert result, text
    assert settings() == before


@pytest.mark.usefixtures("few_faults")
@pytest.mark.parametrize("number", [n for n in NUMBERS if n in RIGHT])
def test_an_answer_changes_no_setting_of_the_session(number, setting):
    def sets(*args):
        answer = RIGHT[number][0](*args)
        setting()
        return answer

    before = settings()
    result, text = verdict(number, sets)
    assert result, text
    assert settings() == before


def test_a_default_device_that_was_set_back_to_none_hurts_no_check():
    torch.set_default_device("meta")
    torch.set_default_device(None)
    assert verdict("1.1", RIGHT["1.1"][0])[0]


def test_a_patched_comparison_passes_no_later_answer(monkeypatch):
    monkeypatch.setattr(torch, "allclose", lambda *args, **kwargs: True)
    assert not verdict("3.1", lambda q, k, v: v)[0]


def test_counting_the_calls_passes_no_bug_hunt(monkeypatch):
    monkeypatch.setattr(engine, "EXERCISES", {})
    wrong, said = {f"is {i}": i for i in range(1, 12)}, []
    forms.judge("0.1", "is_zero(i)", "", "", right={"zero": 0}, wrong=wrong, accepted="{right} and {wrong}.")
    passed = 0
    for _ in range(20):
        calls = iter(range(12))
        passed += verdict("0.1", lambda i, calls=calls: next(calls) == 0)[0]
    assert passed < 10
    assert verdict("0.1", lambda i: said.append(i) or i == 0) == (True, "Right: 1 and 11.")
    assert sorted(said) == list(range(12))


def test_truth_is_a_boolean_of_python_numpy_or_torch():
    for truth in (True, np.bool_(True), torch.tensor(True)):
        assert engine.yes_or_no(truth) is True
    for other in (1, 0, 1.0, torch.tensor(1), torch.tensor([True]), np.array([True]), "True", None):
        with pytest.raises(engine.Wrong, match="True or False is wanted"):
            engine.yes_or_no(other)


def test_a_module_in_place_of_the_function_is_named():
    text = verdict("8.4", ViT(ViTConfig()))[1]
    assert "A function deeper(model) is wanted, without a call: this is a ViT." in text


def test_wrong_versions_of_patchify_have_the_right_shape_and_are_wrong():
    images = torch.rand(2, 3, 8, 12)
    for function in faults.of(patchify).values():
        patches = function(images, 4)
        assert patches.shape == (2, 6, 48)
        assert not torch.equal(patches, patchify(images, 4))
    square, grey = torch.rand(2, 3, 8, 8), torch.rand(2, 1, 8, 12)
    assert torch.equal(cut.sides_swapped(square, 4), patchify(square, 4))
    assert torch.equal(cut.channels_reversed(grey, 4), patchify(grey, 4))

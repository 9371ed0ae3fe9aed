"""The four forms of exercise: compute, judge, predict, build. A chapter's file declares what these run.

A mistake is an answer, {message: a wrong answer}: whoever answers like it gets
its message. So the checks and their tests read the same table, and
tests/course/test_checks.py feeds each mistake back and expects its own message.
A message may hold {names}, which `words` fills in from the case.
"""

import random
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from vitbook.exercises.engine import (
    NotDone,
    Raised,
    Wrong,
    call,
    close,
    described,
    exercise,
    number,
    raised_by,
    tensor_like,
    yes_or_no,
)

Mistakes = dict[str, Callable]


def compute(
    name: str,
    signature: str,
    hint1: str,
    hint2: str,
    *,
    cases: Callable[[], Iterable[tuple]],
    reference: Callable,
    mistakes: Mistakes,
    otherwise: str | Callable[..., str],
    right: str,
    before: Callable[..., None] | None = None,
    words: Callable[..., dict[str, Any]] = lambda *case: {},
    where: str = "",
    tolerance: float = 1e-5,
) -> None:
    """An exercise whose answer computes a tensor or a number, compared with a reference on fresh cases.

    before(result, wanted, *case) may raise Wrong for what has a message of its
    own, a telling shape for example. otherwise is said of an error that is no
    known mistake: words, or a function of (result, wanted, *case). where opens
    every message; words(*case) fills the names in it and in the messages, and
    {said} is the result.
    """

    def test(answer: Callable) -> str:
        for case in cases():
            with torch.no_grad():
                wanted = reference(*case)
            result = call(answer, *case)  # with gradients, as in the notebook
            with torch.no_grad():
                if before is not None:
                    before(result, wanted, *case)
                result = tensor_like(result, wanted) if isinstance(wanted, Tensor) else number(result)
                if _same(result, wanted, tolerance):
                    continue
                message = _recognised(result, wanted, case, mistakes, tolerance)
            if message is None:
                message = otherwise if isinstance(otherwise, str) else otherwise(result, wanted, *case)
            names = words(*case)
            raise Wrong((where + message).format_map(names | {"said": result}) if names else where + message)
        return right

    exercise(name, signature, hint1, hint2, mistakes)(test)


def judge(
    name: str,
    signature: str,
    hint1: str,
    hint2: str,
    *,
    right: dict[str, Any],
    wrong: dict[str, Any],
    nouns: tuple[str, str] = ("right ones", "wrong ones"),
    one: str = "one that",
    given: Callable[[Any], tuple] = lambda thing: (thing,),
    more: Callable[[list[str], list[str]], str] = lambda rejected, missed: "",
    accepted: str,
) -> None:
    """An exercise whose answer is a test: it must accept every right thing and reject every wrong one.

    right and wrong are {what a reader is told about it: the thing}; given
    makes the answer's arguments from a thing; more(rejected, missed) adds a
    sentence. An error that comes from inside a wrong thing counts as seen.
    They come in a random order, so that counting the calls tells nothing.
    """

    def says(answer: Callable, name: str, thing: Any, ours: bool) -> bool:
        try:
            return yes_or_no(call(answer, *given(thing)))
        except Raised as raised:
            if not ours and raised_by(raised.error, thing):
                return False
            case = f"On one of the {nouns[0]} ({name})" if ours else f"On {one} {name}"
            raise Raised(f"{case}: {raised}", raised.error) from None

    def test(answer: Callable) -> str:
        cases = [(*case, True) for case in right.items()] + [(*case, False) for case in wrong.items()]
        order = random.Random().sample(range(len(cases)), len(cases))
        said, broken = {}, {}
        for i in order:
            try:
                said[i] = says(answer, *cases[i])
            except Raised as raised:
                broken[i] = raised
        if broken:
            raise broken[min(broken)]  # of a right one, if there is one
        rejected = [name for i, name in enumerate(right) if not said[i]]
        missed = [name for i, name in enumerate(wrong, start=len(right)) if said[i]]
        if rejected or missed:
            count = f"It rejects {len(rejected)} of {len(right)} {nouns[0]} and lets {len(missed)} of {len(wrong)} "
            example = f"{nouns[1]} through" + (f", for example {one} {missed[0]}." if missed else ".")
            raise Wrong(f"{count}{example} {more(rejected, missed)}".strip())
        return accepted.format(right=len(right), wrong=len(wrong))

    exercise(name, signature, hint1, hint2)(test)


def predict(
    name: str,
    signature: str,
    hint1: str,
    hint2: str,
    *,
    truth: Callable[[], dict[Any, Any]],
    read: Callable[[Any], Any] = yes_or_no,
    advice: Callable[[dict[Any, Any], dict[Any, Any]], str],
    agree: str,
) -> None:
    """An exercise whose answer predicts, question by question, what a model does.

    truth() asks the model: {question: what happens}. A question that is a tuple
    is given as several arguments. advice(said, truth) says what to think about
    again; agree ends "5 of 6 ...".
    """

    def test(answer: Callable) -> str:
        known = truth()
        said = {q: read(call(answer, *(q if isinstance(q, tuple) else (q,)))) for q in known}
        right = sum(said[q] == known[q] for q in known)
        count = f"{right} of {len(known)} {agree}."
        if right < len(known):
            raise Wrong(f"{count} {advice(said, known)}")
        return count

    exercise(name, signature, hint1, hint2)(test)


def build(
    name: str,
    signature: str,
    hint1: str,
    hint2: str,
    *,
    kind: type[nn.Module],
    wanted: str,
    cases: Callable[[], Iterable[tuple[tuple, tuple]]],
    make: Callable[..., nn.Module],
    reference: Callable[..., Callable],
    mistakes: Mistakes,
    otherwise: str | Callable[..., str],
    right: str,
    before: Callable[..., None] | None = None,
    tolerance: float = 1e-4,
) -> None:
    """An exercise whose answer returns a module: its weights are what is judged.

    A case is (what the answer is called with, what its module is called with).
    The state of the module is loaded into make(module, *args), a fresh one of
    the same size, so that a patched forward, a hook or a subclass proves
    nothing. reference(*args) does what is wanted; before(module, *args) may
    raise Wrong for sizes, say; otherwise gets the fresh module. Mistakes return
    modules too, and are recognised by what these compute.
    """

    def rebuilt(module: nn.Module, args: tuple) -> nn.Module:
        return loaded(make(module, *args), module)

    def computed(args: tuple) -> Mistakes:
        return {message: lambda *x, f=f: rebuilt(f(*args), args)(*x) for message, f in mistakes.items()}

    def test(answer: Callable) -> str:
        for args, inputs in cases():
            module = call(answer, *args)
            if not isinstance(module, kind):
                raise Wrong(f"Your function returns {described(module)}: {wanted} is wanted.")
            if before is not None:
                before(module, *args)
            with torch.no_grad():
                target, own = reference(*args)(*inputs), rebuilt(module, args)
                result = tensor_like(call(own, *inputs), target)
                if _same(result, target, tolerance):
                    continue
                message = _recognised(result, target, inputs, computed(args), tolerance)
                if message is None:
                    message = (
                        otherwise if isinstance(otherwise, str) else otherwise(own, result, target, *args, *inputs)
                    )
            raise Wrong(message)
        return right

    exercise(name, signature, hint1, hint2, mistakes)(test)


def loaded(fresh_module: nn.Module, module: nn.Module) -> nn.Module:
    """A fresh module with the state of another.

    Raises: Wrong if the state does not fit.
    """
    try:
        fresh_module.load_state_dict(state := module.state_dict())
    except RuntimeError as error:
        reason = " ".join(str(error).split("\n", 1)[-1].split())
        raise Wrong(f"The weights of your {type(module).__name__} do not fit into a new one: {reason}") from None
    for name, wanted in fresh_module.state_dict().items():  # loading turns float64 into float32
        if state[name].dtype != wanted.dtype:
            raise Wrong(f"Your {name} has type {state[name].dtype}: {wanted.dtype} is wanted.")
    return fresh_module.eval()


def linear(layer: nn.Module, name: str, inputs: int, outputs: int) -> None:
    """Raise Wrong unless the layer has a linear layer of this name and these widths."""
    part = getattr(layer, name, None)
    if not isinstance(part, nn.Linear):
        found = "there is none" if part is None else f"layer.{name} is {described(part)}"
        raise Wrong(f"A linear layer named {name} is wanted: {found}.")
    if (part.in_features, part.out_features) != (inputs, outputs):
        raise Wrong(
            f"layer.{name} goes from {part.in_features} to {part.out_features} features: from {inputs} to {outputs} is "
            "wanted."
        )


def parts(value: Any, count: int, wanted: str) -> tuple:
    """The parts of a tuple or list of so many, or raise Wrong; NotDone if one of them is `...`."""
    if not isinstance(value, (tuple, list)) or len(value) != count:
        raise Wrong(f"Your function returns {described(value)}: {wanted} is wanted.")
    if any(part is ... for part in value):
        raise NotDone
    return tuple(value)


def letters(answer: Callable, wanted: str, reasons: dict[str, str], things: str) -> None:
    """Compare the letters that an answer names with those wanted; reasons has a question for each letter there is.

    Raises: Wrong with the number of right ones and the question of the first that is not.
    """
    named = call(answer)
    if not isinstance(named, str):
        example = "".join(list(reasons)[::2])
        raise Wrong(f"Your function returns {described(named)}: a string such as {example!r} is wanted.")
    chosen = set(named.upper()) - set(" ,")
    if unknown := chosen - set(reasons):
        raise Wrong(
            f"There are only the {things} {min(reasons)} to {max(reasons)}: you name {', '.join(sorted(unknown))}."
        )
    if wrong := chosen ^ set(wanted):
        right = len(reasons) - len(wrong)
        raise Wrong(f"You are right about {right} of {len(reasons)}. Think again about {reasons[min(wrong)]}")


def _recognised(result: Any, wanted: Any, case: tuple, mistakes: Mistakes, tolerance: float) -> str | None:
    """The message of the first mistake that gives this result on this case, and not the wanted one."""
    for message, mistake in mistakes.items():
        try:
            wrong = mistake(*case)
        except Exception:  # a mistake may not work on every case
            continue
        if _same(result, wrong, tolerance) and not _same(wrong, wanted, tolerance):
            return message
    return None


def _same(a: Any, b: Any, tolerance: float) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return close(a, b, tolerance)
    return not isinstance(a, Tensor) and not isinstance(b, Tensor) and abs(a - b) <= tolerance * max(1.0, abs(b))


def fresh_module(answer: Callable, *args: Any) -> nn.Module:
    """What a class from a blank page makes; without any layer it is not done yet."""
    module = call(answer, *args)
    if not isinstance(module, nn.Module):
        raise Wrong(f"Your class makes {described(module)}: an nn.Module is wanted.")
    if not any(True for _ in module.parameters()):
        raise NotDone
    return module


def runs_like(block: nn.Module, x: Tensor, right: type[nn.Module], mistakes: Mistakes, hint: str) -> None:
    """Refuse a block whose own parts are not wired as in `right`: by the mistake that it makes, or with a hint."""
    result = call(block.forward, x)  # a method shows whether it was left untouched
    with torch.no_grad():
        wanted = right.forward(block, x)
        result = tensor_like(result, wanted)
        if close(result, wanted, 1e-4):
            return
        for message, kind in mistakes.items():
            if close(result, kind.forward(block, x), 1e-4):
                raise Wrong(message)
    raise Wrong(
        f"Your block is off by up to {(result - wanted).abs().max():.2g}, and by no mistake that I know. {hint}"
    )

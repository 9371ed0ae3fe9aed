"""Forms that several exercises have: each makes an Exercise, and brings its judge.

compute      the answer computes a tensor or a number
hunt         it is a test, which tells right things from wrong ones
predict      it predicts, question by question, what a model does
letters      it names the right ones of some letters
weights      it returns a module whose weights are judged
blank_class  it is a class, written from a blank page

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
from torch.overrides import TorchFunctionMode

from vitbook.exercises.declaration import (
    Case,
    Exercise,
    Judgement,
    Message,
    Mistakes,
    NotDone,
    Raised,
    Results,
    Wrong,
    unwatched,
)
from vitbook.exercises.values import (
    agree,
    apart,
    close,
    described,
    expected,
    frozen,
    number,
    perturbed,
    raised_by,
    recognised,
    shared,
    tensor_like,
    yes_or_no,
)

UNREACHED = (
    "No gradient reaches your {}, so it would never learn: is something detached, or computed under torch.no_grad()?"
)


def _nothing_else(*case: Any) -> None:
    return None


class Calls(TorchFunctionMode):
    """A watch that notes the names of the functions of torch that are called."""

    def __init__(self):
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, function: Callable, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        self.names.append(getattr(function, "__name__", ""))
        return function(*args, **(kwargs or {}))


class Forbidden(Calls):
    """A watch for functions that the text forbids: {a part of a function's name in torch: how readers call it}."""

    def __init__(self, names: dict[str, str]):
        super().__init__()
        self.forbidden = names

    def breach(self) -> Message:
        for part, name in self.forbidden.items():
            if any(part in called for called in self.names):
                return f"Your answer calls {name}, which the exercise forbids: write down what it does."
        return None


def forbidding(**names: str) -> Callable[..., Forbidden]:
    """The watch of an exercise whose text forbids functions."""
    return lambda *case: Forbidden(names)


def compute(
    name: str,
    signature: str,
    hint1: str,
    hint2: str,
    *,
    cases: Callable[[], Iterable[Case]],
    reference: Callable,
    mistakes: Mistakes,
    otherwise: str | Callable[..., str],
    right: str,
    before: Callable[..., Message] = _nothing_else,
    words: Callable[..., dict[str, Any]] = lambda *case: {},
    where: str = "",
    tolerance: float = 1e-5,
    watch: Callable[..., Any] = unwatched,
) -> Exercise:
    """An exercise whose answer computes a tensor or a number, compared with a reference on fresh cases.

    before(result, right, *case) says what has a message of its own, a telling
    shape for example. otherwise is said of an error that is no known mistake:
    words, or a function of (result, right, *case). where opens every message;
    words(*case) fills the names in it and in the messages, and {said} is the
    result.
    """

    @torch.no_grad()
    def judge(result: Any, *case: Any) -> Message:
        like = reference(*case)
        if message := before(result, like, *case):
            return message
        result = tensor_like(result, like) if isinstance(like, Tensor) else number(result)
        if agree(result, like, tolerance):
            return None
        message = recognised(result, like, case, mistakes, tolerance)
        if message is None:
            message = otherwise if isinstance(otherwise, str) else otherwise(result, like, *case)
        names = words(*case)
        return (where + message).format_map(names | {"said": result}) if names else where + message

    return Exercise(
        name, signature, hint1, hint2, cases=cases, judge=judge, mistakes=mistakes, right=right, watch=watch
    )


def hunt(
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
    runs: str = "outside",
) -> Exercise:
    """An exercise whose answer is a test: it must accept every right thing and reject every wrong one.

    right and wrong are {what a reader is told about it: the thing}; given
    makes the answer's arguments from a thing; more(rejected, missed) adds a
    sentence. An error that comes from inside a wrong thing counts as seen.
    They come in a random order, so that counting the calls tells nothing.
    """

    def cases() -> list[Case]:
        known = [(*case, True) for case in right.items()] + [(*case, False) for case in wrong.items()]
        return random.Random().sample(known, len(known))

    def judge(result: Any, name: str, thing: Any, ours: bool) -> Message:
        if not isinstance(result, Raised):
            yes_or_no(result)
        return None  # the error of one that comes later may tell more

    def overall(results: Results) -> Message:
        said = {name: _said(result, name, thing, ours) for (name, thing, ours), result in results}
        for broken in (said[name] for name in (*right, *wrong)):  # of a right one, if there is one
            if isinstance(broken, str):
                return broken
        rejected, missed = [name for name in right if not said[name]], [name for name in wrong if said[name]]
        if not rejected and not missed:
            return None
        if len(rejected) == len(right) and len(missed) == len(wrong):
            return f"Your test says the opposite: True means that it is one of the {nouns[0]}."
        count = f"It rejects {len(rejected)} of {len(right)} {nouns[0]} and lets {len(missed)} of {len(wrong)} "
        example = f"{nouns[1]} through" + (f", for example {one} {missed[0]}." if missed else ".")
        return f"{count}{example} {more(rejected, missed)}".strip()

    def _said(result: Any, name: str, thing: Any, ours: bool) -> bool | str:
        if not isinstance(result, Raised):
            return yes_or_no(result)
        if not ours and raised_by(result.error, thing):
            return False
        return f"{f'On one of the {nouns[0]} ({name})' if ours else f'On {one} {name}'}: {result}"

    return Exercise(
        name,
        signature,
        hint1,
        hint2,
        cases=cases,
        judge=judge,
        overall=overall,
        right=accepted.format(right=len(right), wrong=len(wrong)),
        given=lambda name, thing, ours: given(thing),
        errors=True,
        runs=runs,
    )


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
) -> Exercise:
    """An exercise whose answer predicts, question by question, what a model does.

    truth() asks the model: {question: what happens}. A question that is a tuple
    is given as several arguments. advice(said, truth) says what to think about
    again; agree ends "5 of 6 ...".
    """

    def judge(result: Any, question: Any, happens: Any) -> Message:
        read(result)  # what is no prediction is refused at once, a wrong one when all are known
        return None

    def count(results: Results) -> str:
        return f"{sum(read(result) == happens for (_, happens), result in results)} of {len(results)} {agree}."

    def overall(results: Results) -> Message:
        said = {question: read(result) for (question, _), result in results}
        known = {question: happens for (question, happens), _ in results}
        return None if said == known else f"{count(results)} {advice(said, known)}"

    return Exercise(
        name,
        signature,
        hint1,
        hint2,
        cases=lambda: truth().items(),
        judge=judge,
        overall=overall,
        right=count,
        given=lambda question, _: question if isinstance(question, tuple) else (question,),
    )


def letters(
    name: str,
    signature: str,
    hint1: str,
    hint2: str,
    *,
    chosen: str,
    reasons: dict[str, str],
    things: str,
    right: str,
) -> Exercise:
    """An exercise whose answer names letters; reasons has a question for each letter there is."""

    def judge(named: Any) -> Message:
        if not isinstance(named, str):
            return expected(f"a string such as {''.join(list(reasons)[::2])!r}", named)
        said = set(named.upper()) - set(" ,")
        if unknown := said - set(reasons):
            names = ", ".join(sorted(unknown))
            return f"There are only the {things} {min(reasons)} to {max(reasons)}: you name {names}."
        if wrong := said ^ set(chosen):
            count = f"You are right about {len(reasons) - len(wrong)} of {len(reasons)}."
            return f"{count} Think again about {reasons[min(wrong)]}"
        return None

    return Exercise(name, signature, hint1, hint2, cases=lambda: [()], judge=judge, right=right)


def weights(
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
    before: Callable[..., Message] = _nothing_else,
    tolerance: float = 1e-4,
) -> Exercise:
    """An exercise whose answer returns a module: its weights are what is judged.

    A case is (what the answer is called with, what its module is called with).
    The state of the module is loaded into make(module, *args), a fresh one of
    the same size, so that a patched forward, a hook or a subclass proves
    nothing. reference(*args) computes what is right; before(module, *args) says
    what is wrong with sizes, say; otherwise gets the fresh module. Mistakes
    return modules too, and are recognised by what these compute.
    """

    def rebuilt(module: nn.Module, args: tuple) -> nn.Module:
        return loaded(make(module, *args), module)

    def computed(args: tuple) -> Mistakes:
        return {message: lambda *x, f=f: rebuilt(f(*args), args)(*x) for message, f in mistakes.items()}

    @torch.no_grad()
    def judge(module: Any, args: tuple, inputs: tuple) -> Message:
        if not isinstance(module, kind):
            return expected(wanted, module)
        if message := before(module, *args):
            return message
        like, own = reference(*args)(*inputs), rebuilt(module, args)
        result = tensor_like(own(*inputs), like)
        if agree(result, like, tolerance):
            return None
        message = recognised(result, like, inputs, computed(args), tolerance)
        if message is None:
            message = otherwise if isinstance(otherwise, str) else otherwise(own, result, like, *args, *inputs)
        return message

    return Exercise(
        name,
        signature,
        hint1,
        hint2,
        cases=cases,
        judge=judge,
        mistakes=mistakes,
        right=right,
        given=lambda args, inputs: args,
        runs="inside",
    )


def loaded(module: nn.Module, other: nn.Module) -> nn.Module:
    """A fresh module with the state of another.

    Raises: Wrong if the state does not fit.
    """
    try:
        module.load_state_dict(state := other.state_dict())
    except RuntimeError as error:
        reason = " ".join(str(error).split("\n", 1)[-1].split())
        raise Wrong(f"The weights of your {type(other).__name__} do not fit into a new one: {reason}") from None
    for name, own in module.state_dict().items():  # loading turns float64 into float32
        if state[name].dtype != own.dtype:
            raise Wrong(f"Expected {name} of type {own.dtype}, got {state[name].dtype}.")
    return module.eval()


def blank_class(
    name: str,
    signature: str,
    hint1: str,
    hint2: str,
    *,
    kind: type[nn.Module],
    parts: tuple[str, ...],
    asked: Callable[..., Message],
    cases: Callable[[], Iterable[tuple[tuple, tuple]]],
    mistakes: dict[str, type[nn.Module]],
    otherwise: str,
    right: str,
    watch: Callable[..., Any] = unwatched,
) -> Exercise:
    """An exercise whose answer is a class from a blank page; right and wrong ones are tried with its own parts.

    A case is (what the class is called with, what its module is called with).
    asked(module, *args) says which of the parts is not as the text asks.
    otherwise goes on after how far a result is off.
    """

    def judge(module: Any, args: tuple, inputs: tuple) -> Judgement:
        if not isinstance(module, nn.Module):
            return expected("an nn.Module from your class", module)
        if not any(True for _ in module.parameters()):
            raise NotDone
        if message := asked(module, *args) or shared(module) or frozen(module):
            return message
        perturbed(module.eval())
        result = yield module.forward, *inputs  # a method shows whether it was left untouched
        with torch.no_grad():
            like = with_parts(kind, module, args, parts)(*inputs)
            computed = tensor_like(result, like)
            if not close(computed, like, 1e-4):
                return _by_mistake(computed, like, module, args, inputs)
        return unreached(result, {part: getattr(module, part) for part in parts})

    def _by_mistake(result: Tensor, like: Tensor, module: nn.Module, args: tuple, inputs: tuple) -> str:
        for message, wrong in mistakes.items():
            if close(result, with_parts(wrong, module, args, parts)(*inputs), 1e-4):
                return message
        return f"Your result is {apart(result, like)}, and by no mistake that I know. {otherwise}"

    return Exercise(
        name,
        signature,
        hint1,
        hint2,
        cases=cases,
        judge=judge,
        mistakes=mistakes,
        right=right,
        given=lambda args, inputs: args,
        watch=watch,
        runs="inside",
    )


def with_parts(kind: type[nn.Module], module: nn.Module, args: tuple, parts: Iterable[str]) -> nn.Module:
    """A module of this kind with the parts of another."""
    own = kind(*args)
    for part in parts:
        setattr(own, part, getattr(module, part))
    return own.eval()


def unreached(result: Tensor, parts: dict[str, Any]) -> Message:
    """What is wrong if no gradient of a result reaches one of these parts: modules or parameters."""
    for name, part in parts.items():
        parameters = list(part.parameters()) if isinstance(part, nn.Module) else [part]
        gradients = [None]
        if result.requires_grad:
            gradients = torch.autograd.grad(result.sum(), parameters, allow_unused=True, retain_graph=True)
        if any(gradient is None for gradient in gradients):
            return UNREACHED.format(name)
    return None


def kinds(module: nn.Module, asked: dict[str, type]) -> Message:
    """What is wrong if a module lacks one of these parts, or has one of another kind."""
    for name, kind in asked.items():
        part = getattr(module, name, None)
        if not isinstance(part, kind):
            found = "there is none" if part is None else f"yours is {described(part)}"
            return f"Expected a part named {name}, of the kind {kind.__name__}: {found}."
    return None


def linear(module: nn.Module, name: str, inputs: int, outputs: int) -> Message:
    """What is wrong unless a module has a linear layer of this name and these widths."""
    part = getattr(module, name, None)
    what = f"Expected a linear layer named {name} from {inputs} to {outputs} features"
    if not isinstance(part, nn.Linear):
        return f"{what}: {'there is none' if part is None else f'yours is {described(part)}'}."
    if (part.in_features, part.out_features) != (inputs, outputs):
        return f"{what}: yours goes from {part.in_features} to {part.out_features}."
    return None


judge, build = hunt, weights  # as files of teachers may call them

"""Forms that several exercises have: declarations that bring their cases or their judge.

compute      the answer computes a tensor or a number
hunt         it is a test, which tells right things from wrong ones
predict      it predicts, question by question, what a model does
letters      it names the right ones of some letters
weights      it returns a module whose weights are judged
blank_class  it is a class, written from a blank page
project      it builds a ViT, which vitnb.examine examines

A mistake is an answer, {message: a wrong answer}: whoever answers like it gets
its message. So the checks and their tests read the same table, and
tests/course/test_checks.py feeds each mistake back and expects its own message.
A message may hold {names}, which `words` fills in from the case.

The classes have the names of functions because they are called like some, and
what a call makes is registered and seldom kept (PEP 8 on class names).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from vitbook.exercises.declaration import (
    Case,
    Declaration,
    Judgement,
    Message,
    Mistakes,
    NotDone,
    Raised,
    Results,
    Suspected,
    Wrong,
)
from vitbook.exercises.values import (
    agree,
    apart,
    chance,
    close,
    counted,
    described,
    expected,
    first_that,
    frozen,
    number,
    other_shape,
    perturbed,
    raised_by,
    recognised,
    shared,
    tensor_like,
    yes_or_no,
)
from vitnb.examine import Finding, examine
from vitnb.examine._findings import FAMILIES

UNREACHED = (
    "No gradient reaches your {}, so it would never learn: is something detached, or computed under torch.no_grad()?"
)


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


def read_by(read: Callable[[Any], Any]) -> Callable[..., Message]:
    """A judge that refuses what cannot be read; what is wrong is said when all results are known."""

    def judge(result: Any, *case: Any) -> Message:
        read(result)
        return None

    return judge


@dataclass(frozen=True, kw_only=True)
class compute(Declaration):
    """An exercise whose answer computes a tensor or a number, compared with a reference on fresh cases.

    before(result, right, *case) says what has a message of its own. otherwise is
    said of an error that is no known mistake: words, or a function of (result,
    right, *case). where opens every message; words(*case) fills the names in it
    and in the messages, and {said} is the result.
    """

    cases: Callable[[], Iterable[Case]]
    reference: Callable
    mistakes: Mistakes
    otherwise: str | Callable[..., str]
    before: Callable[..., Message] = lambda *case: None
    words: Callable[..., dict[str, Any]] = lambda *case: {}
    where: str = ""
    tolerance: float = 1e-5

    @torch.no_grad()
    def judge(self, result: Any, *case: Any) -> Message | Suspected:
        right = self.reference(*case)
        if message := self.before(result, right, *case):
            return message
        if isinstance(right, Tensor) and other_shape(result, right) and (known := self._known(result, right, case)):
            return self._opened(known[0], result, case)
        result = tensor_like(result, right) if isinstance(right, Tensor) else number(result)
        if agree(result, right, self.tolerance):
            return None
        known = self._known(result, right, case)
        if isinstance(right, Tensor) and right.numel() > 1 and known:
            return self._opened(known[0], result, case)
        opened = {message: self._opened(message, result, case) for message in known}
        return Suspected(opened, partial(self._otherwise, result, right, case))

    def _known(self, result: Any, right: Any, case: Case) -> list[str]:
        return recognised(result, right, case, self.mistakes, self.tolerance)

    @torch.no_grad()
    def _otherwise(self, result: Any, right: Any, case: Case) -> str:
        return self._opened(_in_words(self.otherwise, result, right, *case), result, case)

    def _opened(self, message: str, result: Any, case: Case) -> str:
        names = self.words(*case)
        return (self.where + message).format_map(names | {"said": result}) if names else self.where + message


def _in_words(otherwise: str | Callable[..., str], *case: Any) -> str:
    return otherwise if isinstance(otherwise, str) else otherwise(*case)


@dataclass(frozen=True, kw_only=True)
class hunt(Declaration):
    """An exercise whose answer is a test: it must accept every right thing and reject every wrong one.

    right and wrong are {what a reader is told about it: the thing}; handed makes
    of a thing what the answer gets; more(rejected, missed) adds a sentence. An
    error that comes from inside a wrong thing counts as seen. They come in a
    random order, so that counting the calls tells nothing.
    """

    right: dict[str, Any]
    wrong: dict[str, Any]
    accepted: str
    nouns: tuple[str, str] = ("right ones", "wrong ones")
    one: str = "one that"
    handed: Callable[[Any], Any] = lambda thing: thing
    more: Callable[[list[str], list[str]], str] = lambda rejected, missed: ""
    errors: bool = True

    def cases(self) -> list[Case]:
        known = [(*case, True) for case in self.right.items()] + [(*case, False) for case in self.wrong.items()]
        return chance().sample(known, len(known))

    def given(self, name: str, thing: Any, right: bool) -> tuple:
        return (self.handed(thing),)

    def judge(self, result: Any, *case: Any) -> Message:
        if not isinstance(result, Raised):
            yes_or_no(result)
        return None  # the error of one that comes later may tell more

    def overall(self, results: Results) -> Message:
        said = {case[0]: self._said(result, *case) for case, result in results}
        for broken in (said[name] for name in (*self.right, *self.wrong)):  # of a right one, if there is one
            if isinstance(broken, str):
                return broken
        rejected, missed = [name for name in self.right if not said[name]], [name for name in self.wrong if said[name]]
        return self._verdict(rejected, missed) if rejected or missed else None

    def _said(self, result: Any, name: str, thing: Any, right: bool) -> bool | str:
        """The verdict of a test on a thing, or what is wrong with the test."""
        if not isinstance(result, Raised):
            return yes_or_no(result)
        if not right and raised_by(result.error, thing):
            return False
        return f"{f'On one of the {self.nouns[0]} ({name})' if right else f'On {self.one} {name}'}: {result}"

    def share(self, results: Results) -> float:
        """Of the wrong ones, those that it rejects, if it accepts the right ones: to say always the same is worth 0."""
        said = {case[0]: self._said(result, *case) for case, result in results}
        if not all(said[name] is True for name in self.right):
            return 0.0
        return sum(said[name] is False for name in self.wrong) / len(self.wrong)

    def _verdict(self, rejected: list[str], missed: list[str]) -> str:
        right, wrong = self.nouns
        if len(rejected) == len(self.right) and len(missed) == len(self.wrong):
            return f"Your test says the opposite: True means that it is one of the {right}."
        count = f"It rejects {len(rejected)} of {len(self.right)} {right} and lets {len(missed)} of {len(self.wrong)} "
        example = f"{wrong} through" + (f", for example {self.one} {missed[0]}." if missed else ".")
        return f"{count}{example} {self.more(rejected, missed)}".strip()

    def tried(self, results: Results) -> str:
        return self.accepted.format(right=len(self.right), wrong=len(self.wrong))


@dataclass(frozen=True, kw_only=True)
class predict(Declaration):
    """An exercise whose answer predicts, question by question, what a model does.

    truth() asks the model: {question: what happens}. A question that is a tuple
    is given as several arguments. advice(said, truth) says what to think about
    again; right ends "5 of 6 ...".
    """

    right: str
    truth: Callable[[], dict[Any, Any]]
    advice: Callable[[dict[Any, Any], dict[Any, Any]], str]
    read: Callable[[Any], Any] = yes_or_no

    def cases(self) -> Iterable[Case]:
        return self.truth().items()

    def given(self, question: Any, happens: Any) -> tuple:
        return question if isinstance(question, tuple) else (question,)

    def judge(self, result: Any, *case: Any) -> Message:
        self.read(result)  # what is no prediction is refused at once, a wrong one when all are known
        return None

    def overall(self, results: Results) -> Message:
        said = {question: self.read(result) for (question, _), result in results}
        known = {question: happens for (question, happens), _ in results}
        return None if said == known else f"{self.tried(results)} {self.advice(said, known)}"

    def share(self, results: Results) -> float:
        """How far it is from the best answer that is always the same to one that is right."""
        happens = [happens for (_, happens), _ in results]
        guessed = max(map(happens.count, happens))
        return max(0.0, (self._agree(results) - guessed) / (len(results) - guessed or 1))

    def tried(self, results: Results) -> str:
        return f"{self._agree(results)} of {len(results)} {self.right}."

    def _agree(self, results: Results) -> int:
        return sum(self.read(result) == happens for (_, happens), result in results)


@dataclass(frozen=True, kw_only=True)
class letters(Declaration):
    """An exercise whose answer names letters; reasons has a question for each letter there is."""

    chosen: str
    reasons: dict[str, str]
    things: str

    def cases(self) -> list[Case]:
        return [()]

    def judge(self, named: Any) -> Message:
        if not isinstance(named, str):
            return expected(f"a string such as {''.join(list(self.reasons)[::2])!r}", named)
        if unknown := self._said(named) - set(self.reasons):
            names = ", ".join(sorted(unknown))
            return f"There are only the {self.things} {min(self.reasons)} to {max(self.reasons)}: you name {names}."
        return None

    def overall(self, results: Results) -> Message:
        [(_, named)] = results
        wrong = self._said(named) ^ set(self.chosen)
        count = f"You are right about {len(self.reasons) - len(wrong)} of {len(self.reasons)}."
        return f"{count} Think again about {self.reasons[min(wrong)]}" if wrong else None

    def share(self, results: Results) -> float:
        """How far it is from naming all or none of them to naming the right ones."""
        [(_, named)] = results
        guessed = max(len(self.chosen), len(self.reasons) - len(self.chosen))
        agree = len(self.reasons) - len(self._said(named) ^ set(self.chosen))
        return max(0.0, (agree - guessed) / (len(self.reasons) - guessed))

    def _said(self, named: str) -> set[str]:
        return set(named.upper()) - set(" ,")


@dataclass(frozen=True, kw_only=True)
class _MakesAModule(Declaration):
    """An exercise whose answer makes a module: a case is (what makes the module, what the module is called with)."""

    cases: Callable[[], Iterable[tuple[tuple, tuple]]]
    mistakes: Mistakes
    runs: str = "inside"

    def given(self, args: tuple, inputs: tuple) -> tuple:
        return args


@dataclass(frozen=True, kw_only=True)
class weights(_MakesAModule):
    """An exercise whose answer returns a module: its weights are what is judged.

    The state of the module is loaded into make(module, *args), a fresh one of
    the same size, so that a patched forward, a hook or a subclass proves
    nothing. reference(*args) computes what is right; before(module, *args) says
    what is wrong with sizes, say; otherwise gets the fresh module. Mistakes
    return modules too, and are recognised by what these compute.
    """

    kind: type[nn.Module]
    make: Callable[..., nn.Module]
    reference: Callable[..., Callable]
    otherwise: str | Callable[..., str]
    before: Callable[..., Message] = lambda *case: None

    @torch.no_grad()
    def judge(self, module: Any, args: tuple, inputs: tuple) -> Message:
        if not isinstance(module, self.kind):
            return expected(f"a vitnb.{self.kind.__name__}", module)
        if message := self.before(module, *args):
            return message
        right, own = self.reference(*args)(*inputs), self._rebuilt(module, args)
        result = tensor_like(own(*inputs), right)
        if agree(result, right, 1e-4):
            return None
        known = {message: self._computed(mistake, args) for message, mistake in self.mistakes.items()}
        messages = recognised(result, right, inputs, known, 1e-4)
        return messages[0] if messages else _in_words(self.otherwise, own, result, right, *args, *inputs)

    def _rebuilt(self, module: nn.Module, args: tuple) -> nn.Module:
        return loaded(self.make(module, *args), module)

    def _computed(self, mistake: Callable, args: tuple) -> Callable:
        return lambda *inputs: self._rebuilt(mistake(*args), args)(*inputs)


def loaded(module: nn.Module, other: nn.Module) -> nn.Module:
    """A fresh module with the state of another.

    Raises: Wrong if the state does not fit.
    """
    try:
        module.load_state_dict(state := other.state_dict())
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split("\n", 1)[-1].split())
        raise Wrong(f"The weights of your {type(other).__name__} do not fit into a new one: {reason}") from None
    for name, own in module.state_dict().items():  # loading turns float64 into float32
        if state[name].dtype != own.dtype:
            raise Wrong(f"Expected {name} of type {own.dtype}, got {state[name].dtype}.")
    return module.eval()


@dataclass(frozen=True, kw_only=True)
class blank_class(_MakesAModule):
    """An exercise whose answer is a class from a blank page; right and wrong ones are tried with its own parts.

    asked(module, *args) says which of the parts is not as the text asks.
    otherwise goes on after how far a result is off.
    """

    kind: type[nn.Module]
    parts: tuple[str, ...]
    asked: Callable[..., Message]
    otherwise: str

    def judge(self, module: Any, args: tuple, inputs: tuple) -> Judgement:
        if not isinstance(module, nn.Module):
            return expected("an nn.Module from your class", module)
        if not any(True for _ in module.parameters()):
            raise NotDone
        if message := self.asked(module, *args) or shared(module) or frozen(module):
            return message
        perturbed(module.eval())
        result = yield module.forward, *inputs  # a method shows whether it was left untouched
        return self._wrong(result, module, args, inputs) or unreached(result, module, self.parts)

    @torch.no_grad()
    def _wrong(self, result: Any, module: nn.Module, args: tuple, inputs: tuple) -> Message:
        right = with_parts(self.kind, module, args, self.parts)(*inputs)
        if close(result := tensor_like(result, right), right, 1e-4):
            return None
        message = first_that(
            lambda wrong: close(result, with_parts(wrong, module, args, self.parts)(*inputs), 1e-4), self.mistakes
        )
        return message or f"Your result is {apart(result, right)}, and by no mistake that I know. {self.otherwise}"


def with_parts(kind: Callable[..., nn.Module], module: nn.Module, args: tuple, parts: Iterable[str]) -> nn.Module:
    """A module of this kind with the parts of another."""
    own = kind(*args)
    for part in parts:
        setattr(own, part, getattr(module, part))
    return own.eval()


def unreached(result: Tensor, module: nn.Module, parts: Iterable[str]) -> Message:
    """What is wrong if no gradient of a result reaches one of these parts of a module: modules or parameters."""
    for name in parts:
        part = getattr(module, name)
        parameters = list(part.parameters()) if isinstance(part, nn.Module) else [part]
        gradients = [None]
        if result.requires_grad:
            gradients = torch.autograd.grad(result.sum(), parameters, allow_unused=True, retain_graph=True)
        if any(gradient is None for gradient in gradients):
            return UNREACHED.format(name)
    return None


@dataclass(frozen=True, kw_only=True)
class project(Declaration):
    """An exercise whose answer builds a ViT of a student's own: nothing in it may break what every ViT must have.

    image is (C, H, W); allow has the codes of findings that are fine; asked(model) says what of the text it lacks.
    """

    image: tuple[int, int, int]
    num_classes: int
    allow: tuple[str, ...] = ()
    asked: Callable[[nn.Module], Message] = lambda model: None
    right: str = "nothing breaks what every ViT must have."
    runs: str = "inside"

    def cases(self) -> list[Case]:
        return [()]

    def judge(self, model: Any) -> Message:
        return None if isinstance(model, nn.Module) else expected("a model", model)

    def overall(self, results: Results) -> Message:
        [(_, model)] = results
        if broken := self._broken(model):
            first = f"{broken[0].code}: {broken[0].says} {broken[0].means}"
            return f"{counted(len(broken), 'finding')} to fix; faults hide each other, so begin with the first, {first}"
        return self.asked(model)

    def share(self, results: Results) -> float:
        """The parts in which nothing breaks, of those that a ViT has; nothing where most of them cannot be examined."""
        [(_, model)] = results
        broken = self._broken(model)
        hidden = any(found.code in ("runs", "blind", "no attention") for found in broken)
        return 0.0 if hidden else 1 - len({found.family for found in broken}) / len(FAMILIES)

    def _broken(self, model: nn.Module) -> list[Finding]:
        found = examine(model, self.image, self.num_classes, self.allow).findings
        return [one for one in found if one.level == "breaks" or one.code == "no attention"]


def changed(kind: type[nn.Module], **attributes: Any) -> type[nn.Module]:
    """A version of a module with some attributes or methods of its own."""
    return type(kind.__name__, (kind,), attributes)


def found(part: Any) -> str:
    """What a module has in the place of a part that is missing or of another kind."""
    return "there is none" if part is None else f"yours is {described(part)}"


def kinds(module: nn.Module, asked: dict[str, type]) -> Message:
    """What is wrong if a module lacks one of these parts, or has one of another kind."""
    for name, kind in asked.items():
        part = getattr(module, name, None)
        if not isinstance(part, kind):
            return f"Expected a part named {name}, of the kind {kind.__name__}: {found(part)}."
    return None


def linear(module: nn.Module, name: str, inputs: int, outputs: int) -> Message:
    """What is wrong unless a module has a linear layer of this name and these widths."""
    part = getattr(module, name, None)
    what = f"Expected a linear layer named {name} from {inputs} to {outputs} features"
    if not isinstance(part, nn.Linear):
        return f"{what}: {found(part)}."
    if (part.in_features, part.out_features) != (inputs, outputs):
        return f"{what}: yours goes from {part.in_features} to {part.out_features}."
    return None

"""What an exercise is: one declaration in the file of its chapter, complete or refused when that is imported.

    cases()              yields what the answer is called with, a tuple a case
    judge(result, *case) says what is wrong with one result, or None; Suspected where luck may mislead
    overall(results)     says what is wrong with all of them together, or None

engine.py alone calls answers. A judge that needs more calls, of a module that
the answer made for example, is a generator: it yields (function, *arguments)
and is sent what the function returns. forms.py has what several exercises ask
in the same way: subclasses that bring a judge.
"""

from collections import Counter
from collections.abc import Callable, Generator, Iterable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

RUNS = ("outside", "inside")

Case = tuple[Any, ...]
Results = list[tuple[Case, Any]]
Message = str | None
Mistakes = dict[str, Callable]  # {message: a wrong answer that gets it}


class Wrong(Exception):
    """The answer is wrong; the message says why, share which part of it is right, from 0 to 1."""

    def __init__(self, message: str, share: float = 0.0):
        super().__init__(message)
        self.share = share


class Raised(Wrong):
    """The answer raised an error, which is kept as `error`."""

    def __init__(self, message: str, error: BaseException):
        super().__init__(message)
        self.error = error


class NotDone(Exception):
    """The skeleton was left as it is."""


@dataclass(frozen=True)
class Suspected:
    """What is wrong with a number, which may agree with a mistake by luck.

    known has the mistakes that give it, each with what is said of it; otherwise, what is said if it was none of them.
    """

    known: dict[str, str]
    otherwise: Callable[[], str]


Judgement = Message | Suspected | Generator[tuple, Any, Message]


def likeliest(wrong: list[Suspected]) -> str:
    """What is said of an answer's wrong results: a mistake that explains one of several may do so by luck."""
    for mistake, count in Counter(mistake for one in wrong for mistake in one.known).most_common(1):
        if count > 1 or len(wrong) == 1:
            return next(one.known[mistake] for one in wrong if mistake in one.known)
    return wrong[0].otherwise()


class Watch:
    """Entered around the calls of one case; breach() says afterwards what the text forbids and an answer did."""

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def breach(self) -> Message:
        return None


@dataclass(frozen=True)
class Declaration:
    """What all exercises declare; to make one is to register it.

    A message never gives the answer away. With `errors` the judge also gets
    errors of the answer, as Raised. With `changes` the answer may change what
    it is given, as a training loop must. An answer that is a module, or
    changes one, is judged `inside` a student's process.

    Raises: TypeError or ValueError for a declaration that is not complete.
    """

    number: str
    signature: str
    hint1: str
    hint2: str
    _: KW_ONLY
    right: Any  # what was tried, said of a right answer: words, or a function of the results
    mistakes: Mistakes = field(default_factory=dict)
    watch: Callable[..., Any] = lambda *case: Watch()  # what has __enter__, __exit__ and breach, as Watch has
    errors: bool = False
    changes: bool = False
    runs: str = "outside"
    work: float = 1.0  # how many times the usual limit of time its answer may take

    def __post_init__(self) -> None:
        for name in ("number", "signature", "hint1", "hint2", "right"):
            if not getattr(self, name):
                raise ValueError(f"exercise {self.number!r} has no {name}: {name}='...' is missing")
        if self.runs not in RUNS:
            raise ValueError(f"exercise {self.number!r} runs {self.runs!r}: use one of {', '.join(RUNS)}")
        for name in ("cases", "judge", "overall", "given"):
            if not callable(getattr(self, name)):
                raise TypeError(f"{name} of exercise {self.number!r} is no function: {getattr(self, name)!r}")
        EXERCISES[self.number] = self

    def cases(self) -> Iterable[Case]:
        raise NotImplementedError

    def judge(self, result: Any, *case: Any) -> Judgement:
        raise NotImplementedError

    def overall(self, results: Results) -> Message:
        return None

    def share(self, results: Results) -> float:
        """Which part of a wrong answer is right, where it has parts: nothing for what every guess gets."""
        return 0.0

    def given(self, *case: Any) -> tuple:
        """The arguments of the answer, where they are not the case itself."""
        return case

    def tried(self, results: Results) -> str:
        """What is said of a right answer."""
        return self.right(results) if callable(self.right) else self.right


@dataclass(frozen=True)
class Exercise(Declaration):
    """One exercise with a judge of its own."""

    _: KW_ONLY
    cases: Callable[[], Iterable[Case]] = field()  # field(): it must be declared
    judge: Callable[..., Judgement] = field()
    overall: Callable[[Results], Message] = lambda results: None
    given: Callable[..., tuple] = lambda *case: case


EXERCISES: dict[str, Declaration] = {}

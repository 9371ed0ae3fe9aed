"""Exercises of chapter 6: which deep stack trains."""

from collections.abc import Callable

from vitnb.checks.engine import Wrong, call, described, exercise


@exercise(
    "6.1",
    "these_train()",
    "Draw the diagram of each. Where does a norm stand on the stream? And how far is each block from the identity "
    "before the first step?",
    "One of them is another one in disguise: chapter 5 proves it. And a number that multiplies by 1 does nothing, "
    "at first.",
)
def _prediction(answer: Callable) -> str:
    letters = call(answer)
    if not isinstance(letters, str):
        raise Wrong(f"Your function returns {described(letters)}: a string such as 'ABCD' is wanted.")
    chosen = set(letters.upper()) - set(" ,")
    if not chosen <= set("ABCD"):
        raise Wrong(f"There are only the stacks A, B, C and D: you name {', '.join(sorted(chosen - set('ABCD')))}.")
    wrong = chosen ^ set("BC")
    if not wrong:
        return "the measurement says the same. The solution prints it."
    questions = {
        "A": "A: draw the borders of the blocks elsewhere. Which stack is it then?",
        "B": "B: what is left of a block when its branches are multiplied by 0.0001?",
        "C": "C: which boxes stand on its stream? Find it in the grid.",
        "D": "D: what does a gain of 1 change in the first steps?",
    }
    reason = questions[min(wrong)]
    raise Wrong(f"{4 - len(wrong)} of your 4 predictions are what was measured. Think again about {reason}")

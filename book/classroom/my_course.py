"""Exercises of my own, one of each form.

To try them: vitnb-grade --try --course my_course.py
"""

import torch
from torch import nn

from vitbook.exercises.engine import fresh
from vitbook.exercises.forms import (
    blank_class,
    compute,
    hunt,
    letters,
    linear,
    predict,
    project,
    weights,
)

TASKS = {
    "c.1": "Write a function that doubles a tensor.",
    "c.2": "Write a test: does no token attend to a later one here?",
    "c.3": "Predict: can 28 x 28 pixels be cut into patches of this side?",
    "c.4": "Which part mixes tokens? A: attention. B: MLP. C: norm.",
    "c.5": "Return an nn.Linear that turns (a, b, c) into (c, a, b).",
    "c.6": "Write a class with an nn.Linear named `layer`: x - layer(x).",
    "c.7": "Build a ViT for images (3, 32, 32) and 10 classes.",
}
ANSWERS = {  # for the teacher's notebook, and for --try
    "c.1": "def twice(x):\n    return 2 * x",
    "c.2": """def is_causal(mask):
    return bool((mask.triu(1) == 0).all())""",
    "c.3": "def fits(side):\n    return 28 % side == 0",
    "c.4": "def mixing():\n    return 'A'",
    "c.5": """def turned(D):
    layer = nn.Linear(D, D)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(D).roll(1, 0))
        layer.bias.zero_()
    return layer""",
    "c.6": """class Swap(nn.Module):
    def __init__(self, D):
        super().__init__()
        self.layer = nn.Linear(D, D)
    def forward(self, x):
        return x - self.layer(x)""",
    "c.7": """from vitnb import ViT, ViTConfig
def my_vit():
    return ViT(ViTConfig(img_size=32, in_chans=3, depth=2))""",
}

compute(  # it computes a tensor or a number, as the reference does
    "c.1",
    "twice(x)",
    "What is x + x?",
    "Torch multiplies a tensor by a number.",
    cases=lambda: [(fresh(2, 3),), (fresh(4),)],
    reference=lambda x: 2 * x,
    mistakes={"You squared the numbers.": lambda x: x * x},
    otherwise="That is not twice the input.",
    right="twice the input, for random numbers.",
)

hunt(  # it is a test: it accepts each right thing, rejects each wrong one
    "c.2",
    "is_causal(mask)",
    "Row i says to which tokens token i attends.",
    "torch.triu cuts a triangle out of a matrix.",
    right={
        "a triangle": torch.ones(4, 4).tril(),
        "only itself": torch.eye(5),
    },
    wrong={
        "all attend to all": torch.ones(4, 4),
        "the triangle of the other side": torch.ones(4, 4).triu(),
    },
    accepted="{right} causal masks accepted, {wrong} others rejected.",
)

predict(  # it predicts what happens, question by question
    "c.3",
    "fits(side)",
    "Try 28 / 3 on paper.",
    "What is the remainder of the division?",
    truth=lambda: {
        side: 28 % side == 0 for side in (2, 3, 4, 5, 7, 8, 14)
    },
    advice=lambda said, truth: "Think about the remainder.",
    right="sides are right",
)

letters(  # it names the right ones of some letters
    "c.4",
    "mixing()",
    "Which of them sees more than one token?",
    "The MLP and the norm are applied to each token alone.",
    chosen="A",
    reasons={
        "A": "A: what is a weighted mean?",
        "B": "B: of what is its input made?",
        "C": "C: a mean over which axis?",
    },
    things="parts",
    right="only attention mixes tokens.",
)

weights(  # it returns a module, whose weights are judged
    "c.5",
    "turned(D)",
    "Which number of the input is the first one of the output?",
    "Row i of the weight says from which numbers output i is made.",
    kind=nn.Linear,
    cases=lambda: [((D,), (fresh(2, D),)) for D in (3, 5)],
    make=lambda layer, D: nn.Linear(D, D),
    before=lambda layer, D: linear(
        nn.ModuleDict({"answer": layer}), "answer", D, D
    ),
    reference=lambda D: lambda x: x.roll(1, -1),
    mistakes={},
    otherwise="The numbers are not turned by one place.",
    right="turned by one place, for tokens of 3 and of 5 numbers.",
)


class Swap(nn.Module):
    def __init__(self, D: int):
        super().__init__()
        self.layer = nn.Linear(D, D)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - self.layer(x)


class Added(Swap):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layer(x)


blank_class(  # it is a class that does what `kind` does with its parts
    "c.6",
    "Swap(D)",
    "Make the layer in __init__.",
    "forward has one line.",
    kind=Swap,
    parts=("layer",),
    asked=lambda module, D: linear(module, "layer", D, D),
    cases=lambda: [((D,), (fresh(2, D),)) for D in (3, 5)],
    mistakes={"You add the layer's result: take the difference.": Added},
    otherwise="What is the last line of forward?",
    right="for tokens of 3 and of 5 numbers.",
)

project(  # it builds a ViT, which vitnb.examine examines
    "c.7",
    "my_vit()",
    "Begin with chapter 8.",
    "Run vitnb.examine yourself, and fix what stands first in its report.",
    image=(3, 32, 32),
    num_classes=10,
)

"""Exercises of chapter 16: read a report, fix a stranger's model, a test for images that meet."""

from functools import partial
from itertools import combinations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitbook import faults
from vitbook.exercises.forms import blank_class, hunt, kinds, letters
from vitbook.exercises.values import counted, expected, fresh, perturbed
from vitnb.vit import ViT, ViTConfig

letters(
    "16.1",
    "true_of_the_report()",
    "Sort the lines by their level first. Which of them asks for a change? And which test was not made at all, "
    "because there was nothing left that it could have compared?",
    "Three of the six are true. What can a model still learn whose logits are the same for all images? And what does "
    "the first line of a report advise?",
    chosen="BDE",
    reasons={
        "A": "A: is the ReLU a bug, or another choice than the paper's?",
        "B": "B: both findings are about one axis. How many places in the code choose it?",
        "C": "C: if no image changes the logits, what could a test of the neighbours still see?",
        "D": "D: the logits are the same for all images. Which classes may such a model prefer?",
        "E": "E: which tests need logits that depend on the image?",
        "F": "F: what does the last line of the report say?",
    },
    things="sentences",
    right="all 6. The solution says why.",
)


# 16.2: the stranger's model --------------------------------------------------------------------------------

QUESTIONS = {  # of each bug that is left, a question that does not name the line
    "patches": "Perturb one pixel: how many tokens move?",
    "places": "Shuffle the patches: do the logits change?",
    "stream": "What is on both sides of the last +, and where did attention's output go?",
}
PARTS = ("project", "cls_token", "places", "norm1", "attend", "norm2", "mlp", "norm", "head")


class Stranger(nn.Module):
    """Square images (B, C, side, side) -> logits (B, K), with those of its three bugs that are named."""

    bugs: tuple[str, ...] = tuple(QUESTIONS)

    def __init__(self, side: int, p: int, C: int, K: int, D: int = 48):
        super().__init__()
        self.p, N = p, (side // p) ** 2
        self.project = nn.Linear(C * p * p, D)
        self.cls_token = nn.Parameter(torch.randn(1, 1, D))
        self.places = nn.Parameter(torch.randn(1, N + 1, D))
        self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.attend = nn.MultiheadAttention(D, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.Linear(2 * D, D))
        self.norm, self.head = nn.LayerNorm(D), nn.Linear(D, K)

    def forward(self, images: Tensor) -> Tensor:
        x = F.unfold(images, self.p, stride=self.p)  # (B, C*p*p, N)
        x = x.reshape(len(x), x.shape[2], x.shape[1]) if "patches" in self.bugs else x.mT
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), self.project(x)], 1)  # (B, N + 1, D)
        x = x + (self.places[:, :1] if "places" in self.bugs else self.places)
        y = self.norm1(x)
        y = x + self.attend(y, y, y)[0]
        x = (x if "stream" in self.bugs else y) + self.mlp(self.norm2(y))
        return self.head(self.norm(x)[:, 0])  # (B, K)


def with_bugs(*bugs: str) -> type[Stranger]:
    return type("Stranger", (Stranger,), {"bugs": bugs})


def _left(bugs: tuple[str, ...]) -> str:
    count = "All 3 bugs are" if len(bugs) == 3 else f"{counted(len(bugs), 'bug')} {'is' if len(bugs) == 1 else 'are'}"
    return f"{count} left. {' '.join(QUESTIONS[bug] for bug in bugs)}"


def _asked(model: nn.Module, side: int, p: int, C: int, K: int) -> str | None:
    layers = dict.fromkeys(("project", "head"), nn.Linear) | dict.fromkeys(("norm1", "norm2", "norm"), nn.LayerNorm)
    layers |= {"attend": nn.MultiheadAttention, "mlp": nn.Module, "cls_token": Tensor, "places": Tensor}
    if message := kinds(model, layers):
        return message
    sizes = {name: tuple(value.shape) for name, value in Stranger(side, p, C, K).state_dict().items()}
    for name, value in model.state_dict().items():
        if sizes.get(name) != tuple(value.shape):
            return f"{name} is {tuple(value.shape)}, and in the stranger's model {sizes.get(name, 'missing')}: keep it."
    return None if model.attend.batch_first else expected("attention with batch_first=True, as it came", False)


blank_class(
    "16.2",
    "Stranger(side, p, C, K)",
    "Let examine have the first word: examine(Stranger, image=(3, 32, 32)). Fix what stands first in its "
    "report, and run it again.",
    "One of the three bugs shows only when the patches are right, because shuffled patches are compared. For each "
    "line of forward say aloud what its result is, with its shape.",
    cases=lambda: [((12, 4, 2, 7), (fresh(3, 2, 12, 12),)), ((20, 5, 1, 6), (fresh(2, 1, 20, 20),))],
    kind=with_bugs(),
    parts=PARTS,
    asked=_asked,
    mistakes={_left(bugs): with_bugs(*bugs) for n in (3, 2, 1) for bugs in combinations(QUESTIONS, n)},
    otherwise="Compare your forward line by line with the one that it came with: only three lines change.",
    right="with random weights the logits are those of a right ViT, for two sizes of images.",
)


# 16.3: an image's logits come from that image --------------------------------------------------------------

CONFIG = ViTConfig(img_size=12, patch_size=4, embed_dim=24, depth=2, num_heads=3)


class TokensFirst(nn.Module):
    """A ViT in the layout of torch's encoder, (T, B, D), or, as many forget, without the change to it."""

    def __init__(self, transposed: bool = True):
        super().__init__()
        self.transposed, D = transposed, 24
        self.conv = nn.Conv2d(1, D, 4, 4)
        self.cls, self.where = nn.Parameter(torch.randn(1, 1, D)), nn.Parameter(torch.randn(1, 10, D))
        layer = nn.TransformerEncoderLayer(D, 3, 2 * D, 0.0, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(D, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.conv(images).flatten(2).mT
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.where  # (B, T, D)
        x = self.encoder(x.mT.permute(2, 0, 1)).transpose(0, 1) if self.transposed else self.encoder(x)
        return self.head(x[:, 0])


class ZeroHead(ViT):
    """As fresh as some libraries build it: its head begins at zero, and so do all logits."""

    def __init__(self):
        super().__init__(CONFIG)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)


def _vit(name: str | None = None, **changes: object) -> ViT:
    config = ViTConfig(**CONFIG.to_dict() | changes)
    return perturbed(faults.build(name, config) if name else ViT(config))


RIGHT = {
    "with a cls token": _vit,
    "with mean pooling": partial(_vit, global_pool="mean"),
    "with dropout": partial(_vit, dropout=0.2),
    "in torch's layout": lambda: perturbed(TokensFirst()),
    "with a head that begins at zero": ZeroHead,
}
NO_IMAGE = {  # their logits depend on no image at all
    "attends over the batch and reads a cls token": partial(_vit, "over the batch"),
    "gives torch's encoder the batch where it expects the tokens": lambda: perturbed(TokensFirst(transposed=False)),
    "has no attention and reads a cls token": partial(_vit, "deleted"),
}
OTHERS = {  # theirs depend on other images as well
    "attends over the batch and reads the mean": partial(_vit, "over the batch", global_pool="mean"),
    "takes the batch for one sequence": partial(_vit, "batch as sequence"),
    "subtracts the mean over the batch": partial(_vit, "centred over the batch"),
    "gives all images the patches of the first": partial(_vit, "patches of the first"),
}


def _advice(rejected: list[str], missed: list[str]) -> str:
    if rejected == ["with a head that begins at zero"]:
        return "Its logits are all zero as it was built, whatever the image: which weights would show what it does?"
    if rejected == ["with dropout"]:
        return "That one has dropout: in training mode no two calls agree."
    if len(rejected) == len(RIGHT):
        return "Two calls agree up to rounding only. Does your test ever say True?"
    if rejected:
        return f"Rejected is, for example, a right model {rejected[0]}."
    if set(missed) == set(NO_IMAGE):
        return "Does it see a model whose logits depend on no image? Then they depend on no neighbour either."
    if set(missed) <= set(OTHERS):
        return "Whose image did you change, and whose logits did you compare? Let an image stand at several places."
    return ""


hunt(
    "16.3",
    "my_test(model)",
    "There are two ways to be wrong: the logits of an image depend on other images, or they do not depend on the image "
    "itself. Each needs a comparison of its own.",
    "Work on a copy in eval mode with random numbers in every parameter. The logits of a batch must be those of its "
    "images one by one, and those of two different images must differ by more than rounding.",
    right=RIGHT,
    wrong=NO_IMAGE | OTHERS,
    nouns=("right models", "wrong ones"),
    one="a model that",
    handed=lambda make: make(),
    more=_advice,
    accepted="it accepts {right} right models in several styles and sees through {wrong} wrong ones.",
)

"""The exercises of chapter 16: right answers however they are written, and wrong ones that no check declares."""

import copy

import torch

from tests.course.answers import WRONG, remade, right, wrong
from vitbook.exercises.chapter_16 import Stranger, with_bugs
from vitbook.exercises.values import perturbed

# 16.2 ------------------------------------------------------------------------------------------------------


@right("16.2")
class Rewritten(Stranger):
    """Another way to write the same."""

    def forward(self, images):
        B, C, side, _ = images.shape
        n = side // self.p
        x = images.reshape(B, C, n, self.p, n, self.p).permute(0, 2, 4, 1, 3, 5).reshape(B, n * n, -1)
        x = torch.cat([self.cls_token.repeat(B, 1, 1), self.project(x)], 1) + self.places
        y = self.norm1(x)
        x = x + self.attend(y, y, y, need_weights=False)[0]
        x = x + self.mlp(self.norm2(x))
        return self.head(self.norm(x[:, 0]))


@wrong("16.2", "and by no mistake that I know. Compare your forward line by line")
class PostNormNow(with_bugs()):
    def forward(self, images):
        return super().forward(images) + 1


WRONG["16.2"] |= {
    "Expected a part named norm2": remade(with_bugs(), norm2=None),
    "extra.weight is (2, 2), and in the stranger's model missing": (
        remade(with_bugs(), extra=lambda m, *sizes: torch.nn.Linear(2, 2))
    ),
    "attention with batch_first=True": (
        remade(with_bugs(), attend=lambda m, *sizes: torch.nn.MultiheadAttention(48, 4))
    ),
}

# 16.3 ------------------------------------------------------------------------------------------------------


def examined(model):
    return perturbed(copy.deepcopy(model).eval())


def alone(model, images):
    return torch.cat([model(image[None]) for image in images])


def agree(a, b):
    return torch.allclose(a, b, rtol=1e-4, atol=1e-4)


@right("16.3")
def by_gradients(model):
    """An image's logits have a gradient at that image, and at no other."""
    model, images = examined(model), torch.randn(4, 1, 12, 12, requires_grad=True)
    for n in (0, 2):
        (gradient,) = torch.autograd.grad(model(images)[n].square().sum(), images)
        reached = gradient.abs().amax((1, 2, 3)) > 0
        if reached.tolist() != [m == n for m in range(4)]:
            return False
    return True


def neighbours_alone(model):
    model, images = examined(model), torch.randn(4, 1, 12, 12)
    return agree(model(images), alone(model, images))


def image_alone(model):
    model, images = examined(model), torch.randn(4, 1, 12, 12)
    return not agree(model(images)[:1], model(images)[1:2])


def as_built(model):
    model, images = copy.deepcopy(model).eval(), torch.randn(4, 1, 12, 12)
    return agree(model(images), alone(model, images)) and not agree(model(images)[:1], model(images)[1:2])


def in_training_mode(model):
    model, images = perturbed(copy.deepcopy(model)), torch.randn(4, 1, 12, 12)
    return agree(model(images), alone(model, images)) and image_alone(model)


WRONG["16.3"] |= {
    "lets 3 of 7 wrong ones through, for example a model that attends over the batch and reads a cls token. Does it "
    "see a model whose logits depend on no image?": neighbours_alone,
    "Whose image did you change, and whose logits": image_alone,
    "Its logits are all zero as it was built": as_built,
    "That one has dropout": in_training_mode,
    "Does your test ever say True?": lambda model: False,
    "It rejects 0 of 5 right models and lets 7 of 7": lambda model: True,
}

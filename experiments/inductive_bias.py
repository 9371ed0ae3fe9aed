"""A CNN and a ViT asked about shifted images, which only the one is built for, and a ViT that saw such images.

Chapter 01: as many weights, the same images, recipe and seeds; then every test
image is shifted by more and more pixels. A CNN that ends in a mean over places
is made for that, a ViT has to learn it, for example from images that are
shifted in training. A last arm is the ViT on patches that reshape alone makes.
"""

from collections.abc import Callable
from dataclasses import replace

from torch import Tensor, nn

from experiments._data import clothes
from experiments._experiment import Experiment
from experiments._models import CNN, SMALL
from experiments._trials import accuracy, plain_products, train
from vitbook.faults import cut
from vitnb import ViT
from vitnb.data import Dataset
from vitnb.training import Recipe
from vitnb.vit import count_parameters

TRAINED_SHIFT = 4  # pixels
THIS = Experiment(
    seeds=[0, 1, 2, 3, 4],
    purpose="mechanism",
    images=12_800,
    test_images=2_000,
    shifts=list(range(7)),
    trained_shift=TRAINED_SHIFT,
    model=SMALL,
    recipe=Recipe(epochs=4, lr=1e-3, flip=False, shift=0),
)


def striped() -> ViT:
    """The small ViT on patches that reshape alone makes."""
    model = ViT(THIS.model)
    model.patch_embed.__class__ = cut.embedding(cut.reshape_alone)
    return model


ARMS: dict[str, tuple[Callable[[], nn.Module], int]] = {  # the model, and the shift of its training images
    "CNN": (CNN, 0),
    "ViT": (lambda: ViT(SMALL), 0),
    "ViT, trained on shifted images": (lambda: ViT(SMALL), TRAINED_SHIFT),
    "ViT on stripes": (striped, 0),
}


def shifted(images: Tensor, pixels: int) -> list[Tensor]:
    """Images (B, C, H, W) shifted right, left, down and up by `pixels`; zeros come in."""
    padded = nn.functional.pad(images, (pixels,) * 4)
    H, W = images.shape[2:]
    corners = ((pixels, 0), (pixels, 2 * pixels), (0, pixels), (2 * pixels, pixels))
    return [padded[:, :, top : top + H, left : left + W] for top, left in corners]


def asked(model: nn.Module, data: Dataset, pixels: int) -> float:
    """The mean accuracy on test images that are shifted so far in each of the four directions."""
    images, labels = data.test_images[: THIS.test_images], data.test_labels[: THIS.test_images]
    found = [accuracy(model, data.normalize(moved), labels) for moved in shifted(images, pixels)[: 4 if pixels else 1]]
    return round(sum(found) / len(found), 4)


def one(data: Dataset, arm: str, seed: int) -> dict:
    """Train one arm with one seed; its accuracy by the shift of the test images."""
    build, shift = ARMS[arm]
    name = f"inductive_bias-{list(ARMS).index(arm)}-{seed}"
    with plain_products():
        model, history = train(
            build, data.subset(THIS.images, test=0), replace(THIS.recipe, shift=shift, seed=seed), name
        )
    found = {
        "seed": seed,
        "parameters": count_parameters(model),
        "seconds": round(history.cpu_seconds, 1),
        "images": history.images,
        "accuracy_by_shift": [asked(model, data, pixels) for pixels in THIS.shifts],
    }
    print(f"{arm}, seed {seed}: {found['accuracy_by_shift']}", flush=True)
    return found


def run() -> dict:
    data = clothes()
    return {"runs": {arm: [one(data, arm, seed) for seed in THIS.seeds] for arm in ARMS}}

"""Chapter 9: how good a model is, and how far a number can be trusted."""

import warnings
import weakref
from collections.abc import Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitnb._validate import labels as check_labels
from vitnb._validate import normalised, positive_int, shown
from vitnb.data import Dataset


@dataclass(frozen=True)
class Evaluation:
    """How a model does on images it has not trained on. logits are (N, K), the others follow from them."""

    accuracy: float
    loss: float
    logits: Tensor
    labels: Tensor

    @property
    def predictions(self) -> Tensor:
        return self.logits.argmax(1)  # (N,)

    @property
    def probabilities(self) -> Tensor:
        return self.logits.softmax(1)  # (N, K)

    @property
    def confusion(self) -> Tensor:
        """(K, K): row = the true class, column = what the model predicts."""
        k = self.logits.shape[1]
        return torch.bincount(self.labels * k + self.predictions, minlength=k * k).view(k, k)


def evaluate(model: nn.Module, images: Tensor, labels: Tensor, batch_size: int | None = None) -> Evaluation:
    """Run a model in eval mode over images and compare with their labels.

    Without a batch_size it is 1,000, or less for images of more than 4,000 pixels.

    Shapes: images (N, C, H, W), already normalised: data.normalize(data.test_images); labels (N,).
    Raises: TypeError for uint8 images; ValueError for none, for pixels from 0 to 255, or another number of labels.
    """
    normalised("images", images)
    return _judged(model, images.split(_batch(images, labels, batch_size)), labels)


def evaluate_held_out(model: nn.Module, data: Dataset) -> Evaluation:
    """Evaluate a model on the test images of a Dataset, or its validation images, normalised batch by batch."""
    parts = data.test_images.split(_batch(data.test_images, data.test_labels))
    return _judged(model, map(data.normalize, parts), data.test_labels)


def _batch(images: Tensor, labels: Tensor, batch_size: int | None = None) -> int:
    if len(images) == 0 or len(images) != len(labels):
        raise ValueError(
            f"images and labels must be equally many and at least 1, got {len(images)} and {len(labels)}: "
            "use one label for each image, and at least one image"
        )
    if batch_size is None:
        return max(1, min(1000, 4_000_000 // images[0, 0].numel()))
    return positive_int("batch_size", batch_size)


@torch.no_grad()
def _judged(model: nn.Module, batches: Iterable[Tensor], labels: Tensor) -> Evaluation:
    device, was_training = device_of(model), model.training
    model.eval()
    try:
        logits = torch.cat([model(batch.to(device, dtype_of(model))).float() for batch in batches]).cpu()  # (N, K)
    finally:
        model.train(was_training)
    if logits.ndim != 2:
        raise ValueError(f"model must return logits (B, K), got shape {tuple(logits.shape)}: use a model with a head")
    labels = check_labels("labels", labels, len(logits), logits.shape[1]).cpu()
    accuracy = (logits.argmax(1) == labels).float().mean().item()
    return Evaluation(accuracy, F.cross_entropy(logits, labels).item(), logits, labels)


_looks: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()


def looks(model: nn.Module) -> int:
    """How often a model was judged by the test images: each epoch of a fit that watched them, each final_test."""
    return _looks.get(model, 0)


def count_look(model: nn.Module) -> None:
    """Take down that a model was judged by the test images."""
    _looks[model] = looks(model) + 1


def final_test(model: nn.Module, data: Dataset) -> Evaluation:
    """Test a model on the test images once it is chosen and trained, and warn if they were looked at before.

    Whoever looks, changes something and looks again chooses by the test images.

    Raises: TypeError unless data is a Dataset; ValueError if it has a validation set in the place of the test images.
    """
    if not isinstance(data, Dataset):
        raise TypeError(f"data must be a vitnb.data.Dataset, got {type(data).__name__}: use data.load()")
    if data.held_out != "test":
        raise ValueError(f"data.held_out is {shown(data.held_out)}: use data.load(), or what hold_out was called on")
    count_look(model)
    if looks(model) > 1:
        warnings.warn(
            f"look {looks(model)} at the test images with this model: what was changed since the first is chosen "
            "by them. Train with data.hold_out() and test at the end.",
            stacklevel=2,
        )
    return evaluate_held_out(model, data)


def interval(values: Tensor, share: float = 0.95) -> tuple[Tensor, Tensor]:
    """The mean of repeated measurements, and half the width of its confidence interval.

    This is what stands around every ± of the book. The values are of seeds or of
    images; of two things that are compared, the differences, seed by seed or image
    by image. A difference is called shown where the interval does not contain 0.

    Shapes: (..., n) -> (...), (...).
    Raises: ValueError for fewer than two values, which have no interval.
    Source: Student 1908: the t distribution with n - 1 degrees of freedom.
    """
    from scipy import stats  # scikit-learn brings it

    values = torch.as_tensor(values)
    values = values if values.is_floating_point() else values.float()
    n = values.shape[-1] if values.ndim else 1
    if n < 2:
        raise ValueError(f"values of shape {tuple(values.shape)} have no interval: use at least 2 on the last axis")
    return values.mean(-1), stats.t.ppf((1 + share) / 2, n - 1) * values.std(-1) / n**0.5


def device_of(model: nn.Module) -> torch.device:
    """The device on which a model computes: that of its first parameter."""
    return _first(model).device


def dtype_of(model: nn.Module) -> torch.dtype:
    """The floats in which a model computes: those of its first parameter."""
    return _first(model).dtype


def _first(model: nn.Module) -> Tensor:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch module, got {type(model).__name__}: use ViT(ViTConfig())")
    floats = (parameter for parameter in model.parameters() if parameter.is_floating_point())
    return next(floats, torch.empty(0))  # a quantised model may have none

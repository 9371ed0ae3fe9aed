"""How similar the position embeddings of four models are, and what these answer to shuffled images (chapter 02)."""

from typing import Any

import matplotlib.figure
import torch
import traitlets
from matplotlib import pyplot as plt
from torch import Tensor
from torch.nn import functional as F

from vitbook import results
from vitbook.figures._base import Figure, check_whole, module, pixels_of, style, within
from vitnb import plots, unpatchify
from vitnb.patches import patchify


class PositionExplorer(Figure):
    """Pick a place and see which position embeddings are similar; shuffle the patches and see four models answer.

    All that it shows is measured: the stored experiment `shuffled` trained
    one model of each kind. It needs no data set.
    image (an image's number), order and place follow the reader's choice;
    order 0 is the image as it was, the others are the stored shuffles.

    Raises: TypeError or ValueError if there is no such image, order or place.
    """

    _esm = module("position_explorer.js")
    _css = style("position_explorer.css")

    classes = traitlets.List(traitlets.Unicode()).tag(sync=True)  # image n is of class n
    models = traitlets.List(traitlets.Unicode()).tag(sync=True)
    widths = traitlets.List(traitlets.Int()).tag(sync=True)  # of each model's table; 0: it has none
    grid = traitlets.Int(4).tag(sync=True)
    tested = traitlets.Int(0).tag(sync=True)  # images behind an accuracy
    pixels = traitlets.Bytes().tag(sync=True)  # uint8, (images, H, W)
    orders = traitlets.Bytes().tag(sync=True)  # uint8, (orders, N)
    tables = traitlets.Bytes().tag(sync=True)  # float32, (N, D) of each model that has one
    probabilities = traitlets.Bytes().tag(sync=True)  # float32, (models, images, orders, classes)
    accuracy = traitlets.Bytes().tag(sync=True)  # float32, (models, orders)
    image = traitlets.Int(0).tag(sync=True)
    order = traitlets.Int(0).tag(sync=True)
    place = traitlets.Int(0).tag(sync=True)

    def __init__(self, image: int = 0, order: int = 0, place: int = 5):
        stored = results.result("shuffled")
        config, result = stored["config"], stored["result"]
        models = result["models"]
        tables = [torch.tensor(model["table"]) for model in models.values()]  # (N, D), or empty
        super().__init__(
            classes=result["classes"],
            models=list(models),
            widths=[table.shape[-1] for table in tables],
            grid=config["model"]["img_size"] // config["model"]["patch_size"],
            tested=config["test_images"],
            pixels=bytes(value for row in result["pixels"] for value in row),
            orders=bytes(n for order in result["orders"] for n in order),
            tables=_floats(torch.cat([table.flatten() for table in tables])),
            probabilities=_floats(torch.tensor([model["probabilities"] for model in models.values()])),
            accuracy=_floats(torch.tensor([model["accuracy"] for model in models.values()])),
        )
        check_whole(image=image, order=order, place=place)
        self.image, self.order, self.place = image, order, place

    def still(self) -> matplotlib.figure.Figure:
        turn, side, C = self.order or 1, 28 // self.grid, len(self.classes)
        image = pixels_of(self.pixels, 1, 28, 28)[self.image, None]  # (1, C, H, W)
        mixed = unpatchify(patchify(image, side)[:, self._orders()[turn]], side, 28, 1)
        answers = torch.frombuffer(bytearray(self.probabilities), dtype=torch.float32)
        answers = answers.reshape(len(self.models), C, -1, C)[:, self.image]  # (models, orders, classes)
        figure, axes = plt.subplots(1, 2 + len(self.models), figsize=(11, 2.5))
        for axis, shown, title in zip(axes, (image, mixed), ("in order", "shuffled"), strict=False):
            plots.draw_image(axis, shown[0])
            axis.set_title(f"{self.classes[self.image]},\n{title}", fontsize=9)
        for axis, name, table, answer in zip(axes[2:], self.models, self._tables(), answers, strict=True):
            near = torch.zeros(self.grid**2) if table is None else _cosines(table)[self.place]
            axis.imshow(near.reshape(self.grid, -1).numpy(), cmap="PuOr_r", vmin=-1, vmax=1)
            axis.plot(self.place % self.grid, self.place // self.grid, "k.")
            axis.set_title(name, fontsize=9)
            said = [self.classes[p.argmax()] for p in (answer[0], answer[turn])]
            axis.set_xlabel(f"{said[0]} \u2192\n{said[1]}", fontsize=9)
        for axis in axes:
            axis.set(xticks=[], yticks=[])
        return figure

    def _orders(self) -> Tensor:
        orders = torch.frombuffer(bytearray(self.orders), dtype=torch.uint8)
        return orders.reshape(-1, self.grid**2).long()  # (orders, N)

    def _tables(self) -> list[Tensor | None]:
        numbers = torch.frombuffer(bytearray(self.tables), dtype=torch.float32)
        parts = numbers.split([self.grid**2 * width for width in self.widths])
        return [part.reshape(self.grid**2, -1) if len(part) else None for part in parts]

    @traitlets.validate("image", "order", "place")
    def _check(self, proposal: dict[str, Any]) -> int:
        N = self.grid**2
        return within(proposal, {"image": len(self.classes) - 1, "order": len(self.orders) // N - 1, "place": N - 1})


def _floats(values: Tensor) -> bytes:
    """The bytes of float32 numbers, as kit/figure.js reads them."""
    return values.float().contiguous().numpy().tobytes()


def _cosines(table: Tensor) -> Tensor:
    places = F.normalize(table, dim=1)  # (N, D)
    return places @ places.T  # (N, N)

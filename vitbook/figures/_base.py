"""What all live figures share: one module of JavaScript each, a still image, a fixed text."""

import base64
import io
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import anywidget
import matplotlib.figure
import torch
from matplotlib import pyplot as plt
from PIL import Image
from torch import Tensor

from vitnb import plots
from vitnb._validate import tensor
from vitnb.vit import ViT

HERE = Path(__file__).parent
IMPORT = re.compile(r'^import ([^;]*?) from "(\.\.?/[\w./-]+)";\n', re.MULTILINE)
EXPORT = re.compile(r"^export (?!default )", re.MULTILINE)
DECLARED = re.compile(r"^(?:export )?(?:async )?(?:function\*?|class|const|let) ([\w$]+|[\[{][^=]*)", re.MULTILINE)
MAX_SIDE = 256


def module(name: str, folder: Path = HERE) -> str:
    """Return a file of this folder as one module: what it imports stands where the import stood, once.

    A widget's JavaScript must be one text. In the folder the files stay plain
    modules that import each other ("./kit/axes.js", "../kit/dom.js"), as Node
    and the linter read them. Joined they share one scope: no two of them may
    declare the same name outside of a function, whether they export it or not,
    and an import must not rename.

    Raises: ValueError, with both files, if two declare one name or an import renames.
    """
    done, owners = set(), {}

    def read(path: Path) -> str:
        if path in done:
            return ""
        done.add(path)
        where = path.relative_to(folder.resolve()).as_posix()
        text = path.read_text(encoding="utf-8")
        for names in DECLARED.findall(text):
            for declared in re.findall(r"[\w$]+(?=\s*(?:[,\]}]|$))", names):
                if owners.setdefault(declared, where) != where:
                    raise ValueError(
                        f"{owners[declared]} and {where} both declare {declared}: joined files share a scope"
                    )
        for names, source in IMPORT.findall(text):
            if re.search(r" as |^\w", names):
                raise ValueError(f"{where} renames what it imports from {source}: joined files share a scope")
        return IMPORT.sub(lambda found: read((path.parent / found[2]).resolve()), text)

    return EXPORT.sub("", read((folder / name).resolve()))


def style(*names: str) -> str:
    """Return kit.css, which every figure needs, and other style sheets of this folder as one text."""
    return "\n".join((HERE / name).read_text(encoding="utf-8") for name in ("kit/kit.css", *names))


class Figure(anywidget.AnyWidget):
    """A figure that answers to the reader, in JupyterLab, in Colab and in the page of the book.

    A subclass names its files (_esm = module("name.js"), _css = style()), has
    a trait for all that its JavaScript needs and draws a still image for
    where no script runs: GitHub, PDF, print. Python may read and set the
    traits; to redraw never needs Python.
    """

    _css = style()
    late: tuple[str, ...] = ()  # traits of bytes that a page fetches when the reader touches the figure: see first

    @classmethod
    def first(cls, state: dict[str, Any]) -> dict[str, bytes]:
        """Return what a page gives a stored figure until it has what is late; nothing where all comes at once.

        view: float32 numbers, the trait `first` of its JavaScript, which draws from them what the figure shows as
        stored; pixels: photos below each other in an image, in place of that trait, (n, 3, S, S).
        """
        return {}

    @classmethod
    def stored(cls, state: dict[str, Any], **fields: object) -> Self:
        """Return the figure that a notebook stored, of its traits and what else its methods use."""
        figure = cls.__new__(cls)
        vars(figure).update(fields)
        Figure.__init__(figure, **{name: state[name] for name in cls.class_own_traits() if name in state})
        return figure

    def still(self) -> matplotlib.figure.Figure:
        """Draw the image that stands for the figure where no script runs."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}: a live figure; run this cell to bring it to life"  # nothing random in it

    def _repr_mimebundle_(self, **kwargs: dict) -> tuple[dict, dict]:
        data, metadata = super()._repr_mimebundle_(**kwargs)
        if "google.colab" not in sys.modules:  # which of several kinds Colab would show is not documented
            data["image/png"] = base64.b64encode(self._png()).decode()
        return data, metadata

    def _png(self) -> bytes:
        plt.close(plt.figure())  # a notebook's first figure: it switches drawing on, which the context would undo
        with plt.rc_context():
            plots.use_style()
            figure = self.still()
            large, small = io.BytesIO(), io.BytesIO()
            figure.savefig(large, format="png")
            plt.close(figure)  # or the notebook shows it a second time
        Image.open(large).convert("RGB").quantize(128).save(small, format="png")
        return small.getvalue()


def within(proposal: dict[str, Any], last: dict[str, float], first: float = 0, good: float = 0) -> Any:
    """What is proposed for a trait, if it lies between the first and the last value that such a trait may have.

    Raises: ValueError, with a good value.
    """
    name, value = proposal["trait"].name, proposal["value"]
    if not first <= value <= last[name]:
        raise ValueError(f"{name} must lie between {first} and {last[name]}, got {value}: use {good}, for example")
    return value


def check_whole(**given: object) -> None:
    """Raise TypeError unless all are whole numbers."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be a whole number such as 0, got {value!r}")


def image_bytes(name: str, image: Tensor) -> bytes:
    """Return an image (C, H, W), float in [0, 1] or uint8, as the bytes that kit/canvas.js reads.

    Raises: TypeError or ValueError if it is no such image, or too large to travel in a page.
    """
    C, H, W = tensor(name, image, 3, "(C, H, W)").shape
    if C not in (1, 3):
        raise ValueError(
            f"{name} must have 1 or 3 channels, got shape {tuple(image.shape)}: use (3, 96, 96), for example"
        )
    if not 2 <= min(H, W) <= max(H, W) <= MAX_SIDE:
        raise ValueError(
            f"{name} must have 2 to {MAX_SIDE} pixels a side, got {H} x {W}: use images.sample_image(96), for example"
        )
    if image.is_floating_point():
        image = image.detach().float()
        if not (image >= 0).logical_and(image <= 1).all():  # false for NaN, too
            low, high = image.min().item(), image.max().item()
            raise ValueError(f"{name} must lie in [0, 1], got {low:.3g} to {high:.3g}: use {name}.clamp(0, 1)")
        image = (255 * image).round()
    elif str(image.dtype) != "torch.uint8":
        raise TypeError(f"{name} must be float in [0, 1] or uint8, got {image.dtype}: use {name}.byte()")
    return image.byte().cpu().contiguous().numpy().tobytes()


def named_images(images: Tensor, names: Sequence[str] | None) -> tuple[Tensor, list[str], bytes]:
    """Return images, (B, C, H, W) or (C, H, W), as a batch, with a name for each and their bytes, or raise an error."""
    images = tensor("images", images[None] if getattr(images, "ndim", 0) == 3 else images, 4, "(B, C, H, W)")
    B = len(images)
    names = [f"image {n}" for n in range(B)] if names is None else [str(name) for name in names]
    if not B or len(names) != B:
        raise ValueError(f"names has {len(names)} for {B} images: give each image one, and at least one image")
    return images, names, b"".join(image_bytes(f"images[{n}]", image) for n, image in enumerate(images))


def pixels_of(flat: bytes, *shape: int) -> Tensor:
    """Return images of this shape, (C, H, W), from the bytes that image_bytes made: (B, C, H, W)."""
    return torch.frombuffer(bytearray(flat), dtype=torch.uint8).reshape(-1, *shape)


def named_networks(models: Mapping[str, ViT]) -> dict[str, ViT]:
    """Return networks under their names, or raise TypeError."""
    for name, model in models.items():
        if not isinstance(model, ViT):
            raise TypeError(
                f"models must hold vitnb.ViTs, got {type(model).__name__} as {name!r}: use from_timm(model)"
            )
    return {str(name): model for name, model in models.items()}

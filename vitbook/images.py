"""Images that the book shows, and pairs of them: the boot, photographs, two halves to compare."""

import base64
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from vitnb._validate import shown
from vitnb.data import Dataset

# The first test image of Fashion-MNIST (https://github.com/zalandoresearch/fashion-mnist,
# Copyright 2017 Zalando SE, MIT License): 28 x 28 bytes by zlib, in base 85.
BOOT = (
    "c-muN7?yyUk%57oK^0Auk%>V%gd4&xN0(z@i0ID)vBYAt(BxPcOdBgEub;cDeb$N|R4FC~?#`x$1smos-"
    "!ygl1cYHsj10^S48=uRohxR}S-QM`?mTXoH6Z6PFhq7o#m$`BJbmSw{`o5nV5YHv<dZt`a`P6oPnbG?`Gk2ZK@MeN0y-"
    "TCq;g7=^GiGCw9T3|XF>1eIh#Nxfq<xKOlf|4absKmtfi}FO`p}@HEpRj1B1AkqfcmALv?;(S$%DHYsZ3~*$XGkUbAqo9fM0;RDM"
    "x@QE`2HM}J*CP{)+oMT;hM&0KWE%57z1Mp8;#Vp3X8R(VC^)H%!d?K^Vp*zTiycc=)|t=_X|$Lg8w6?OHKb{@WX;s3>rU;q66{r%"
    "24L!di&oU@kfJbvl&r3?F}1#ticHeJ}We$l+?+(RYd004w)g0T"
)


def pairs(data: Dataset, n: int, n_test: int = 4000) -> Dataset:
    """Pairs of images side by side, half as large, with two classes: of different kinds, or of the same.

    Every second pair is of one kind, and either side alone is uninformative: each
    kind is as frequent among the pairs that match as among the others.

    Shapes: images (N, 1, H, W) -> (n, 1, H/2, W).
    """
    train = _side_by_side(data.train_images, data.train_labels, n, seed=0)
    test = _side_by_side(data.test_images, data.test_labels, n_test, seed=1)
    return replace(
        data,
        train_images=train[0],
        train_labels=train[1],
        test_images=test[0],
        test_labels=test[1],
        classes=("different", "same"),
        name=f"pairs of {data.name}",
    )


def _side_by_side(images: Tensor, labels: Tensor, n: int, seed: int) -> tuple[Tensor, Tensor]:
    """Shapes: images (N, 1, H, W), labels (N,) -> (n, 1, H/2, W), (n,)."""
    generator = torch.Generator().manual_seed(seed)
    members = [(labels == kind).nonzero()[:, 0] for kind in range(int(labels.max()) + 1)]
    same = torch.arange(n) % 2  # (n,)
    left = torch.randint(len(members), (n,), generator=generator)
    other = (left + torch.randint(1, len(members), (n,), generator=generator)) % len(members)
    kinds = torch.stack([left, torch.where(same == 1, left, other)], dim=1)  # (n, 2)
    index = torch.empty(n, 2, dtype=torch.long)
    for kind, places in enumerate(members):
        mask = kinds == kind  # (n, 2)
        index[mask] = places[torch.randint(len(places), (int(mask.sum()),), generator=generator)]
    small = F.avg_pool2d(images[index][:, :, 0].float(), 2).byte()  # (n, 2, H/2, W/2)
    return torch.cat([small[:, :1], small[:, 1:]], dim=3), same


PHOTOS = {  # name -> where it is; book/licences.md says whose it is
    "hopper": "matplotlib",
    "collins": "here",
    "rocket": "here",
    "cat": "here",
    "temple": "china.jpg of scikit-learn",
    "flower": "flower.jpg of scikit-learn",
}


def photo(name: str = "hopper", size: int = 448) -> Tensor:
    """One of the book's PHOTOS, or your own by its path, cut to a square.

    Shapes: -> (3, size, size), float in [0, 1].
    Raises: ValueError for a name that is neither, or if size is below 1.
    """
    from PIL import Image, ImageOps

    path = _path(name) if name in PHOTOS else Path(name)
    if not path.is_file():
        raise ValueError(
            f"name is {shown(name)}, and no such file: use one of {', '.join(map(repr, PHOTOS))}, or a path"
        )
    if not isinstance(size, int) or size < 1:
        raise ValueError(f"size is {shown(size)}: use 448, for example, a number of pixels")
    with Image.open(path) as image:
        upright = ImageOps.exif_transpose(image).convert("RGB")
    square = ImageOps.fit(upright, (size, size), Image.Resampling.BICUBIC)
    return torch.frombuffer(bytearray(square.tobytes()), dtype=torch.uint8).view(size, size, 3).permute(2, 0, 1) / 255


def _path(name: str) -> Path:
    where = PHOTOS[name]
    if where == "here":
        return Path(__file__).parent / "photos" / f"{name}.jpg"
    if where == "matplotlib":
        import matplotlib

        return Path(matplotlib.get_data_path(), "sample_data", "grace_hopper.jpg")
    import sklearn.datasets

    return Path(sklearn.datasets.__file__).parent / "images" / where.split(" ")[0]


STAMPS = {  # a kind of thing -> its folders in STAMPS_PACKAGE (book/licences.md)
    "mammals": ["animals/mammals"],
    "birds": ["animals/birds"],
    "insects": ["animals/insects"],
    "flowers": ["plants/flowers"],
    "fruit and vegetables": ["food/fruit", "food/vegetables"],
    "houses": ["town/houses"],
}
STAMPS_PACKAGE = "tuxpaint-stamps-default"
STAMPS_FOLDER = Path("/usr/share/tuxpaint/stamps")


def stamps(size: int = 112) -> tuple[Tensor, Tensor, list[str]]:
    """Colour images of six kinds of things, cut out on white, their labels and the kinds' names.

    They are those that Debian and Ubuntu have for the drawing program Tux Paint; in Colab the package is
    installed (160 MB). Where it is not, crops of the book's six PHOTOS stand in: which photo is a crop from?

    Shapes: -> (N, 3, size, size), uint8; (N,), int64.
    Raises: ValueError if size is below 1.
    """
    from PIL import Image, ImageOps

    if not isinstance(size, int) or size < 1:
        raise ValueError(f"size is {shown(size)}: use 112, for example, a number of pixels")
    if "google.colab" in sys.modules and not STAMPS_FOLDER.is_dir():
        subprocess.run(["apt-get", "-qq", "install", STAMPS_PACKAGE], stdout=subprocess.DEVNULL)
    if not STAMPS_FOLDER.is_dir():
        print(f"No images of Tux Paint (sudo apt-get install {STAMPS_PACKAGE}): crops of six photos instead")
        crops = [photo(name, 5 * size).unfold(1, size, size).unfold(2, size, size) for name in PHOTOS]
        found = torch.cat([crop.flatten(1, 2).transpose(0, 1) for crop in crops])  # (6 * 25, 3, size, size)
        return (255 * found).byte(), torch.arange(len(PHOTOS)).repeat_interleave(25), list(PHOTOS)
    found, labels = [], []
    for label, folders in enumerate(STAMPS.values()):
        for path in sorted(path for folder in folders for path in (STAMPS_FOLDER / folder).rglob("*.png")):
            with Image.open(path) as image:
                cut_out = image.convert("RGBA")
            on_white = Image.new("RGBA", cut_out.size, "white")
            on_white.alpha_composite(cut_out)
            square = ImageOps.pad(on_white.convert("RGB"), (size, size), Image.Resampling.BICUBIC, "white")
            found.append(torch.frombuffer(bytearray(square.tobytes()), dtype=torch.uint8).view(size, size, 3))
            labels.append(label)
    return torch.stack(found).permute(0, 3, 1, 2).contiguous(), torch.tensor(labels), list(STAMPS)


def draw(labels: Tensor, train: int, test: int, seed: int) -> tuple[Tensor, Tensor]:
    """The places of train images of each class, drawn at random, and of test others.

    Shapes: labels (N,) -> (K * train,), (K * test,).
    Raises: ValueError if a class has fewer than train + test images, or one of them is negative.
    """
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(seed))
    members = [order[labels[order] == label] for label in labels.unique()]
    fewest = min(map(len, members))
    for name, count, most in (("train", train, fewest), ("test", test, fewest - train)):
        if not 0 <= count <= most:
            raise ValueError(f"{name} is {count}, and a class has {fewest} images: use {most}")
    return torch.cat([m[:train] for m in members]), torch.cat([m[train : train + test] for m in members])


def sample_image(size: int = 224) -> Tensor:
    """The photograph that matplotlib carries (Grace Hopper, 1984), cut to a square.

    Shapes: -> (3, size, size), float in [0, 1].
    Raises: ValueError if size is below 1.
    """
    import matplotlib.cbook
    import matplotlib.image

    if not isinstance(size, int) or size < 1:
        raise ValueError(f"size is {shown(size)}: use 224, for example, a number of pixels")
    with matplotlib.cbook.get_sample_data("grace_hopper.jpg") as file:
        photo = torch.tensor(matplotlib.image.imread(file, format="jpg")).permute(2, 0, 1)  # (3, H, W)
    side = min(photo.shape[1:])
    top, left = (photo.shape[1] - side) // 2, (photo.shape[2] - side) // 2
    square = photo[None, :, top : top + side, left : left + side].float() / 255  # (1, 3, side, side)
    return F.interpolate(square, (size, size), mode="bilinear", antialias=True)[0].clamp(0, 1)  # (3, size, size)


def boot() -> Tensor:
    """The book's image: an ankle boot, the first test image of Fashion-MNIST, at hand without the data set.

    Shapes: -> (1, 28, 28), uint8.
    """
    return torch.tensor(list(zlib.decompress(base64.b85decode(BOOT))), dtype=torch.uint8).view(1, 28, 28)

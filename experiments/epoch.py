"""An epoch with its data: `fit` beside the usual loop over a DataLoader with torchvision's transforms.

The same model, images and kinds of change to them, and AdamW; fit also clips
the gradients, schedules the rate and tests. The rounds are interleaved.
"""

import random
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments.common import DEVICE, race
from vitnb import ViT, ViTConfig, data
from vitnb.training import Recipe, fit

PICTURES, BATCH, ROUNDS = 20_000, 128, 7
MODEL = dict(patch_size=7, embed_dim=64, depth=4, num_heads=4, pos_std=1.0)
SEEDS = [0]
CONFIG = {"device": DEVICE, "pictures": PICTURES, "batch": BATCH, "rounds": ROUNDS, "model": MODEL}


def run() -> dict:
    return race(epochs(), ROUNDS, random.Random(SEEDS[0]), unit=None)


def epochs() -> dict[str, Callable[[], None]]:
    """One epoch of the book's model: by fit, and by the usual loop over a DataLoader with torchvision's transforms."""
    from torch.utils.data import DataLoader
    from torch.utils.data import Dataset as TorchDataset
    from torchvision.transforms import v2

    clothes = data.load().subset(PICTURES)
    config = ViTConfig(**MODEL)
    mean, std = clothes.mean, clothes.std
    usual = [v2.RandomHorizontalFlip(), v2.RandomCrop(28, padding=1), v2.ToDtype(torch.float32, scale=True)]
    change = v2.Compose([v2.ToImage(), *usual, v2.Normalize(mean, std)])
    pictures = [v2.functional.to_pil_image(image) for image in clothes.train_images]

    class Pictures(TorchDataset):
        def __len__(self) -> int:
            return len(pictures)

        def __getitem__(self, n: int) -> tuple[Tensor, int]:
            return change(pictures[n]), int(clothes.train_labels[n])

    def ours() -> None:
        untested = clothes.subset(PICTURES, test=BATCH)
        fit(ViT(config).to(DEVICE), untested, Recipe(epochs=1, batch_size=BATCH))

    def loader(workers: int) -> Callable[[], None]:
        def one() -> None:
            model = ViT(config).to(DEVICE)
            optimizer = torch.optim.AdamW(model.parameters(), 3e-3, fused=True)
            batches = DataLoader(Pictures(), BATCH, shuffle=True, drop_last=True, num_workers=workers)
            for images, labels in batches:
                loss = F.cross_entropy(model(images.to(DEVICE)), labels.to(DEVICE))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        return one

    return {"vitnb.fit": ours, "DataLoader": loader(0), "DataLoader, 2 workers": loader(2)}

"""An epoch with its data: `fit` beside the usual loop over a DataLoader with torchvision's transforms.

The same model, images and kinds of change to them, and AdamW; fit also clips
the gradients, schedules the learning rate and tests. The rounds are
interleaved.
"""

import random
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from experiments._experiment import Experiment
from experiments._timing import DEVICE, race
from vitnb import ViT, ViTConfig, data
from vitnb.training import Recipe, fit

THIS = Experiment(
    seeds=[0],
    purpose="timing",
    torch_threads=None,
    data=None,
    device=DEVICE,
    images=20_000,
    batch=128,
    rounds=7,
    model=dict(patch_size=7, embed_dim=64, depth=4, num_heads=4, pos_std=1.0),
)


def run() -> dict:
    return race(epochs(), THIS.rounds, random.Random(THIS.seeds[0]), unit=None)


def epochs() -> dict[str, Callable[[], None]]:
    """One epoch of the book's model: by fit, and by the usual loop over a DataLoader with torchvision's transforms."""
    from torch.utils.data import DataLoader
    from torch.utils.data import Dataset as TorchDataset
    from torchvision.transforms import v2

    clothes = data.load().subset(THIS.images)
    config = ViTConfig(**THIS.model)
    mean, std = clothes.mean, clothes.std
    usual = [v2.RandomHorizontalFlip(), v2.RandomCrop(28, padding=1), v2.ToDtype(torch.float32, scale=True)]
    change = v2.Compose([v2.ToImage(), *usual, v2.Normalize(mean, std)])
    pil_images = [v2.functional.to_pil_image(image) for image in clothes.train_images]

    class PILImages(TorchDataset):
        def __len__(self) -> int:
            return len(pil_images)

        def __getitem__(self, n: int) -> tuple[Tensor, int]:
            return change(pil_images[n]), int(clothes.train_labels[n])

    def ours() -> None:
        untested = clothes.subset(THIS.images, test=THIS.batch)
        fit(ViT(config).to(DEVICE), untested, Recipe(epochs=1, batch_size=THIS.batch))

    def loader(workers: int) -> Callable[[], None]:
        def one() -> None:
            model = ViT(config).to(DEVICE)
            optimizer = torch.optim.AdamW(model.parameters(), 3e-3, fused=True)
            batches = DataLoader(PILImages(), THIS.batch, shuffle=True, drop_last=True, num_workers=workers)
            for images, labels in batches:
                loss = F.cross_entropy(model(images.to(DEVICE)), labels.to(DEVICE))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()

        return one

    return {"vitnb.fit": ours, "DataLoader": loader(0), "DataLoader, 2 workers": loader(2)}

"""One long run of a ResNet-18, fifty times as large as the book's ViT, on one CPU core.

Chapter 10: torchvision's model as it comes, but for its first layers: a
convolution of 3 x 3 with stride 2 on one channel, and no max pooling, so that
an image of 28 pixels comes to the first block with 14. AdamW instead of Muon,
else the recipe of the ViT's longer training, at a learning rate that was not
tuned. The accuracy after the last step, on the test images, which are looked
at once.
"""

from dataclasses import asdict, replace

import torch
from torch import nn
from torchvision.models import resnet18

from experiments.common import LONGER, whole_run

RECIPE = replace(LONGER, optimizer="adamw", lr=1e-3, epochs=4)
SEEDS = [0]
CONFIG = {
    "device": "cpu",
    "data": "fashion_mnist",
    "judged_on": "validation",
    "reported_on": "test",
    "recipe": asdict(RECIPE),
}


def run() -> dict:
    torch.set_num_threads(1)
    return whole_run("resnet", build, replace(RECIPE, seed=SEEDS[0]))


def build() -> nn.Module:
    model = resnet18(num_classes=10)
    model.conv1, model.maxpool = nn.Conv2d(1, 64, 3, 2, 1, bias=False), nn.Identity()
    return model

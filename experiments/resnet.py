"""A ResNet-18 learns Fashion-MNIST for the processor time of the ViT's longer training, on two CPU cores.

Chapter 10: torchvision's, with the first layers made for small images: one
convolution of 3 x 3 with stride 2, and no max pooling. One seed, by the recipe
of the five minutes with AdamW.
"""

from dataclasses import replace

from torch import nn
from torchvision.models import resnet18

from experiments._experiment import Experiment
from experiments._models import FIVE_MINUTES
from experiments._trials import whole_run

THIS = Experiment(
    seeds=[0],
    purpose="choice",
    torch_threads=2,
    reported_on="test",
    recipe=replace(FIVE_MINUTES, optimizer="adamw", lr=1e-3, epochs=3),
)


def run() -> dict:
    return whole_run("resnet", build, replace(THIS.recipe, seed=THIS.seeds[0]))


def build() -> nn.Module:
    model = resnet18(num_classes=10)
    model.conv1 = nn.Conv2d(1, 64, 3, stride=2, padding=1, bias=False)
    model.maxpool = nn.Identity()
    return model

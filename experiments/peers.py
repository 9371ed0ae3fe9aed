"""The same ViT in seven programs: time of a training step and of an answer.

Every model has the same sizes, its own code, AdamW and the same images, all in
float32; steps in bfloat16, too, for every size if the processor multiplies such
numbers itself, else for the first one. Two of the programs have no bias in q, k
and v: they are measured against a vitnb without it.
"""

import importlib.metadata
import random

import torch

from experiments._experiment import Experiment
from experiments._libraries import AGAINST, ARMS, answer
from experiments._models import SIZES
from experiments._timing import DEVICE, bfloat16_instructions, race, step

LIBRARIES = ("timm", "torchvision", "transformers", "vit-pytorch")
THIS = Experiment(
    seeds=[0],
    purpose="timing",
    torch_threads=None,
    data=None,
    device=DEVICE,
    sizes=SIZES,
    rounds=25,
    rounds_in_bfloat16=9,
    num_classes=10,
    mlp_ratio=4,
    against=AGAINST,
)


def run() -> dict:
    chance = random.Random(THIS.seeds[0])
    result = {
        "versions": {name: importlib.metadata.version(name) for name in LIBRARIES},
        "bfloat16_instructions": bfloat16_instructions(),
        "parameters": {},
        "step": {},
        "step in bfloat16": {},
        "answer": {},
    }
    for size, sizes in THIS.sizes.items():
        sizes = dict(sizes)
        batch = sizes.pop("batch")
        torch.manual_seed(THIS.seeds[0])
        models = {name: make(**sizes).to(DEVICE) for name, make in ARMS.items()}
        images = torch.randn(batch, sizes["in_chans"], sizes["img_size"], sizes["img_size"], device=DEVICE)
        labels = torch.randint(10, (batch,), device=DEVICE)
        result["parameters"][size] = {n: sum(p.numel() for p in m.parameters()) for n, m in models.items()}
        steps = {name: step(model, images, labels) for name, model in models.items()}
        result["step"][size] = race(steps, THIS.rounds, chance, against=THIS.against)
        if bfloat16_instructions() or not result["step in bfloat16"]:
            halves = {name: step(model, images, labels, half=True) for name, model in models.items()}
            halves["vitnb, float32"] = steps["vitnb"]
            raced = race(halves, THIS.rounds_in_bfloat16, chance, against=THIS.against)
            result["step in bfloat16"][size] = raced
        for model in models.values():
            model.eval()
        answers = {name: answer(model, images) for name, model in models.items()}
        result["answer"][size] = race(answers, THIS.rounds, chance, against=THIS.against)
        print(size, {k: v["ratio"] for k, v in result["step"][size].items()}, flush=True)
    return result

"""Four ways to take the shaft of a boot from a small ViT disagree about whether its answer needs the shaft.

Chapter 07: the chapter's small networks with a cls token and with the mean,
twenty seeds each. The five patches around the shaft of the book's boot, or the
eleven others, are taken from the cls network in four ways: usual tokens in their
place (the mean of test images), black pixels, no tokens at all, or all tokens but
a cls token that cannot attend to them in the first block. The same is done to
the boots of the test set that the network recognises.
"""

from dataclasses import replace

import torch
from torch import Tensor

from experiments._data import clothes
from experiments._experiment import Experiment
from experiments._trials import accuracy
from vitbook.images import boot
from vitnb import ViT, ViTConfig, record_attention
from vitnb.data import Dataset
from vitnb.training import Recipe, fit

SHAFT = [6, 7, 9, 10, 11]  # patches of the book's boot
BOOT = 9  # the class
THIS = Experiment(
    seeds=list(range(20)),
    purpose="mechanism",
    images=5_000,
    test_images=2_000,
    images_of_usual_tokens=500,
    boots=200,
    shaft=SHAFT,
    model=ViTConfig(patch_size=7, embed_dim=32, depth=3, num_heads=2, mlp_ratio=2.0),
    recipe=Recipe(epochs=3, batch_size=50, lr=1e-2),
)
GROUPS = {"shaft": SHAFT, "others": [n for n in range(16) if n not in SHAFT]}


def trained(data: Dataset, pool: str, seed: int) -> ViT:
    torch.manual_seed(seed)
    model = ViT(replace(THIS.model, global_pool=pool))
    fit(model, data, replace(THIS.recipe, seed=seed))
    return model.eval()


def read(model: ViT, x: Tensor, first: int = 0) -> Tensor:
    """The probability of a boot (B,) from the tokens (B, T, D) before a block."""
    for block in model.blocks[first:]:
        x = block(x)
    return model.forward_head(model.norm(x)).softmax(1)[:, BOOT]


def replaced(model: ViT, images: Tensor, usual: Tensor, patches: list[int], block: int) -> Tensor:
    """The same with the mean tokens of other images at these patches before a block."""
    x, mean = model.embed(images), model.embed(usual)
    for earlier in model.blocks[:block]:
        x, mean = earlier(x), earlier(mean)
    at = [1 + n for n in patches]
    x[:, at] = mean[:, at].mean(0)
    return read(model, x, block)


def painted(model: ViT, images: Tensor, black: float, patches: list[int]) -> Tensor:
    images = images.clone()
    for n in patches:
        images[:, :, n // 4 * 7 : n // 4 * 7 + 7, n % 4 * 7 : n % 4 * 7 + 7] = black
    return read(model, model.embed(images))


def left(patches: list[int]) -> list[int]:
    """The tokens that stay, cls first."""
    return [0] + [1 + n for n in range(16) if n not in patches]


def barred(model: ViT, images: Tensor, patches: list[int]) -> Tensor:
    """The same when cls cannot attend to these patches in the first block; all other tokens can."""
    x, block = model.embed(images), model.blocks[0]
    after = block(x)
    after[:, 0] = block(x[:, left(patches)])[:, 0]
    return read(model, after, 1)


def interventions(model: ViT, images: Tensor, data: Dataset) -> dict:
    """The mean probability of a boot after each intervention."""
    usual = data.normalize(data.test_images[: THIS.images_of_usual_tokens])
    black = (0 - data.mean[0]) / data.std[0]
    empty = torch.full_like(images[:1], black)
    found = {"nothing": read(model, model.embed(images))}
    for name, patches in GROUPS.items():
        for what, others in (("usual", usual), ("empty", empty)):
            for n in range(THIS.model.depth):
                found[f"{name}, {what} before block {1 + n}"] = replaced(model, images, others, patches, n)
        found |= {
            f"{name}, black": painted(model, images, black, patches),
            f"{name}, removed": read(model, model.embed(images)[:, left(patches)]),
            f"{name}, barred": barred(model, images, patches),
        }
    return {name: round(p.mean().item(), 4) for name, p in found.items()}


def one(data: Dataset, seed: int) -> dict:
    mean, cls = trained(data, "mean", seed), trained(data, "cls", seed)
    with torch.no_grad():
        return {"seed": seed} | look(data, mean, cls)


def look(data: Dataset, mean: ViT, cls: ViT) -> dict:
    image = data.normalize(boot()[None])
    votes = mean.head(mean.forward_features(image))[0].argmax(1)  # (N,)
    with record_attention(cls) as maps:
        answer = cls(image).argmax().item()
    rows = [weights[0, :, 0].mean(0) for weights in maps]  # (T,) a block: what cls attends to
    pixels = data.test_images[data.test_labels == BOOT]
    boots = data.normalize(pixels)
    boots = boots[cls(boots).argmax(1) == BOOT][: THIS.boots]
    return {
        "accuracy": [accuracy(net, data.normalize(data.test_images), data.test_labels) for net in (mean, cls)],
        "mean": {"answer": mean(image).argmax().item(), "votes": votes.tolist()},
        "cls": {
            "answer": answer,
            "attention_to_shaft": [round(row[[1 + n for n in THIS.shaft]].sum().item(), 4) for row in rows],
            "largest_patch": [row[1:].argmax().item() for row in rows],
            "boot": interventions(cls, image, data),
        },
        "boots": {"n": len(boots)} | interventions(cls, boots, data),
    }


def run() -> dict:
    data = clothes().subset(THIS.images, test=THIS.test_images)
    runs = []
    for seed in THIS.seeds:
        runs.append(one(data, seed))
        print(seed, runs[-1]["cls"], flush=True)
    return {"runs": runs}

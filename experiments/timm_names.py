"""Every ViT of timm by name: which of them from_timm takes, how far copies are off, why others are refused.

All are built with two blocks and random weights of a size that hides nothing: what differs between
two names is not their depth.
"""

from collections import defaultdict

import timm
import torch

from experiments._experiment import Experiment
from vitnb.vit import count_parameters
from vitnb.weights import from_timm

THIS = Experiment(
    seeds=[0],
    purpose="untrained",
    torch_threads=None,
    data=None,
    depth=2,
    images=2,
    tolerance=1e-5,
    largest=350_000_000,
)


def run() -> dict:
    torch.manual_seed(0)
    found = {name: one(name) for name in names()}
    off = {name: worst for name, worst in found.items() if isinstance(worst, float)}
    refused = defaultdict(list)
    for name, reason in found.items():
        if isinstance(reason, str):
            refused[reason].append(name)
    return {
        "names": len(found),
        "taken": len(off),
        "equal": sum(worst < THIS.tolerance for worst in off.values()),
        "worst": max(off.values()),
        "timm": timm.__version__,
        "errors": [reason for reason in refused if not reason.startswith(("ValueError", "not built"))],
        "off": off,
        "refused": dict(refused),
    }


def names() -> list[str]:
    """All names of timm that make a VisionTransformer or a class of its kind."""
    kinds = ("vision_transformer", "deit", "eva", "beit")
    return [name for name in timm.list_models() if timm.model_entrypoint(name).__module__.endswith(kinds)]


def one(name: str) -> float | str:
    """How far features and logits of the copy are off, as a share of their standard deviation; or why there is none."""
    options = {"depth": THIS.depth}
    try:
        with torch.device("meta"):
            size = count_parameters(timm.create_model(name, **options))
    except Exception:  # it sets its depth itself
        options.clear()
        with torch.device("meta"):
            size = count_parameters(timm.create_model(name))
    if size > THIS.largest:
        return "not built: more parameters than this experiment takes"
    theirs = timm.create_model(name, **options).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
        try:
            ours = from_timm(theirs)
        except Exception as error:  # an error that is no ValueError is a fault of ours, and is counted
            return f"{type(error).__name__}: {error}".split(": use ")[0]
        images = torch.randn(THIS.images, *([ours.config.in_chans, *ours.patch_embed.img_size]))
        pairs = (ours.forward_features(images), theirs.forward_features(images)), (ours(images), theirs(images))
        off = max(((a - b).abs().max() / b.std()).item() for a, b in pairs)
    return off

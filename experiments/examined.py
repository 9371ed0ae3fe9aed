"""What vitnb.examine says of the libraries' right ViTs, of right ones in many hands, and of the collection of faults.

Chapter 16. Small builds of the libraries' own configurations; each is examined in a process of its
own, on one core, so that its seconds and memory can be told.
"""

import importlib
import inspect
import resource
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import get_context
from statistics import median

import torch
from torch import nn

from experiments._experiment import Experiment
from experiments._models import handwritten, in_a_model, of_fault
from vitnb import examine

TINY, FEW = "vit_tiny_patch16_224", {"embed_dim": 64, "num_heads": 4}
TIMM = [  # a name, and what is not as timm builds it
    (TINY, {}),
    (TINY, {"global_pool": "avg"}),
    (TINY, {"global_pool": "map"}),
    (TINY, {"class_token": False, "global_pool": "avg"}),
    (TINY, {"qkv_bias": False}),
    (TINY, {"init_values": 1e-5}),
    (TINY, {"reg_tokens": 4}),
    (TINY, {"qk_norm": True}),
    (TINY, {"pre_norm": True}),
    (TINY, {"drop_path_rate": 0.2}),
    (TINY, {"img_size": 48, "patch_size": 8, **FEW}),
    ("vit_small_patch16_224", FEW),
    ("vit_tiny_r_s16_p8_224", {}),
    ("vit_small_patch14_dinov2", {"img_size": 56, **FEW}),
    ("vit_small_patch14_reg4_dinov2", {"img_size": 56, **FEW}),
    ("vit_small_patch16_dinov3", FEW),
    ("deit_tiny_patch16_224", {}),
    ("deit_tiny_patch16_224", {"img_size": 32, "patch_size": 4}),
    ("deit_tiny_distilled_patch16_224", {}),
    ("deit3_small_patch16_224", FEW),
    ("vit_base_patch16_clip_224", FEW),
    ("vit_base_patch16_siglip_224", FEW),
    ("vit_relpos_small_patch16_224", FEW),
    ("vit_srelpos_small_patch16_224", FEW),
    ("vit_base_patch16_rpn_224", FEW),
    ("vit_base_patch16_xp_224", FEW),
    ("vit_wee_patch16_reg1_gap_256", {}),
    ("vit_little_patch16_reg4_gap_256", {}),
    ("vit_pwee_patch16_reg1_gap_256", {}),
    ("vit_mediumd_patch16_reg4_gap_256", FEW),
    ("beit_base_patch16_224", FEW),
    ("beitv2_base_patch16_224", FEW),
    ("eva02_tiny_patch14_224", {"img_size": 56}),
    ("eva_large_patch14_196", {"img_size": 56, **FEW}),
    ("vit_base_patch16_rope_224", FEW),
    ("vit_small_patch16_rope_mixed_224", FEW),
    ("cait_xxs24_224", {}),
    ("xcit_nano_12_p16_224", {}),
]
VIT_PYTORCH = [  # a module, a class, and its arguments beside the usual ones
    ("vit", "ViT", {"dim_head": 16}),
    ("vit", "ViT", {"dim_head": 32, "pool": "mean"}),
    ("simple_vit", "SimpleViT", {}),
    ("deepvit", "DeepViT", {}),
    ("parallel_vit", "ViT", {"num_parallel_branches": 2}),
    ("simple_vit_with_register_tokens", "SimpleViT", {}),
    ("simple_vit_with_patch_dropout", "SimpleViT", {"patch_dropout": 0.2}),
    ("vit_with_patch_dropout", "ViT", {}),
    ("vit_for_small_dataset", "ViT", {}),
    ("learnable_memory_vit", "ViT", {}),
    ("distill", "DistillableViT", {}),
    ("normalized_vit", "nViT", {}),
    ("vit_with_patch_merger", "ViT", {"patch_merge_layer": 1}),
    ("cait", "CaiT", {"cls_depth": 1}),
    ("simple_uvit", "SimpleUViT", {"num_register_tokens": 4}),
    ("simple_vit_with_value_residual", "SimpleViT", {}),
    ("simple_vit_with_hyper_connections", "SimpleViT", {"num_residual_streams": 2}),
    ("vit_with_decorr", "ViT", {}),
]
HUGGING_FACE = ["ViT", "DeiT", "Dinov2", "Dinov2WithRegisters", "Beit", "ViTMSN", "Data2VecVision", "IJepa"]
BY_DESIGN = {  # of a model that differs on purpose: the codes that are allowed
    "cait_xxs24_224": ["weights sum"],  # heads are mixed after the softmax
    "deepvit": ["weights sum"],
    "cait": ["weights sum"],
}
THIS = Experiment(
    seeds=[0],
    purpose="timing",
    data=None,
    timm=[[name, changes] for name, changes in TIMM],
    vit_pytorch=[list(row) for row in VIT_PYTORCH],
    hugging_face=HUGGING_FACE,
    by_design=BY_DESIGN,
)


def run() -> dict:
    right = [alone(*model, BY_DESIGN.get(model[0].split(" | ")[0], ())) for model in libraries()]
    hands = [alone(name, *model[:3], ()) for name, model in handwritten().items()]
    wrong = [alone(name, of_fault(name), (1, 28, 28), 10, ()) for name in in_a_model()]
    seconds, megabytes = ([row[key] for row in (*right, *hands, *wrong)] for key in ("seconds", "megabytes"))
    return {
        "libraries": right,
        "hands": hands,
        "faults": wrong,
        "right_models": len(right) + len(hands),
        "false_alarms": sum(bool(row["breaks"]) for row in (*right, *hands)),
        "seconds": {"median": median(seconds), "worst": max(seconds)},
        "megabytes": {"median": median(megabytes), "worst": max(megabytes)},
    }


def alone(*arguments) -> dict:
    """What one() returns in a process of its own."""
    context = get_context("fork")
    reader, writer = context.Pipe(duplex=False)
    process = context.Process(target=lambda: writer.send(one(*arguments)))
    process.start()
    result = reader.recv()
    process.join()
    return result


def one(name: str, build: Callable, image: tuple, num_classes: int, allow: list[str]) -> dict:
    torch.set_num_threads(1)
    memory, start = _peak(), time.process_time()
    report = examine(build, image, num_classes, allow)
    return {
        "name": name,
        **{level: [found.code for found in report.at(level)] for level in ("breaks", "departs", "note")},
        "allowed": list(allow),
        "skipped": sorted(report.skipped),
        "seconds": round(time.process_time() - start, 2),
        "megabytes": round(_peak() - memory),
    }


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def libraries() -> list[tuple[str, Callable[[], nn.Module], tuple, int]]:
    """Name, builder, image, classes of every right model of a library."""
    import timm
    import torchvision
    import transformers

    transformers.logging.set_verbosity_error()
    found = []
    for name, changes in TIMM:
        options = {"img_size": 64, "depth": 2, "num_classes": 10} | changes
        found.append((_told(name, changes), lambda n=name, o=options: timm.create_model(n, **o), options["img_size"]))
    stems = torchvision.models.vision_transformer.ConvStemConfig
    for changes in ({}, {"dropout": 0.1}, {"representation_size": 32}, {"conv_stem_configs": [stems(64, 3, 2)] * 4}):
        build = partial(torchvision.models.VisionTransformer, 64, 16, 2, 4, 64, 128, num_classes=10)
        found.append((_told("torchvision", changes), lambda b=build, c=changes: b(**c), 64))
    for module, kind, changes in VIT_PYTORCH:
        build = getattr(importlib.import_module(f"vit_pytorch.{module}"), kind)
        usual = dict(image_size=64, patch_size=16, num_classes=10, dim=64, depth=2, heads=4, mlp_dim=128)
        taken = inspect.signature(build.__init__).parameters
        options = {key: value for key, value in (usual | changes).items() if key in taken or "kwargs" in taken}
        found.append((_told(module, changes), lambda b=build, o=options: b(**o), 64))
    for kind in HUGGING_FACE:
        small = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, image_size=64)
        relative = {"use_relative_position_bias": True} if kind in ("Beit", "Data2VecVision") else {}
        config = getattr(transformers, f"{kind}Config")(**small, patch_size=16, num_labels=10, **relative)
        build = getattr(transformers, f"{kind}ForImageClassification")
        found.append((_told(f"Hugging Face {kind}", relative), lambda b=build, c=config: b(c), 64))
    return [(name, build, (3, side, side), 10) for name, build, side in found]


def _told(name: str, changes: dict) -> str:
    return f"{name} | {', '.join(changes)}" if changes else name

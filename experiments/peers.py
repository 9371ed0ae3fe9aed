"""The same ViT in six libraries: time of a training step and of an answer.

Every model has the same sizes, its own code, AdamW, float32 and the same
pictures. Rounds are interleaved: each holds one timing of every library, in
another order each time, and the ratios are taken within a round. So what else
the machine does meanwhile meets all of them alike. Two of the libraries have
no bias in q, k and v: they are measured against a vitnb without it.
"""

import importlib.metadata
import random
import time
from collections.abc import Callable
from functools import partial
from statistics import median

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitnb import ViT, ViTConfig

SIZES = {  # pictures, then the Transformer; the batch of a step
    "28/4 64x6": dict(img_size=28, patch_size=4, in_chans=1, embed_dim=64, depth=6, num_heads=4, batch=128),
    "28/4 128x6": dict(img_size=28, patch_size=4, in_chans=1, embed_dim=128, depth=6, num_heads=4, batch=128),
    "96/16 512x2": dict(img_size=96, patch_size=16, in_chans=1, embed_dim=512, depth=2, num_heads=8, batch=64),
    "224/16 768x12": dict(img_size=224, patch_size=16, in_chans=3, embed_dim=768, depth=12, num_heads=12, batch=4),
}
ROUNDS = 25
SEEDS = [0]
UNBIASED = "vitnb, no bias"
AGAINST = {"vit-pytorch": UNBIASED, "textbook": UNBIASED}  # the others are measured against vitnb as it is
CONFIG = {
    "device": "cuda" if torch.cuda.is_available() else "cpu",
    "sizes": SIZES,
    "rounds": ROUNDS,
    "num_classes": 10,
    "mlp_ratio": 4,
    "against": AGAINST,
}
DEVICE = torch.device(CONFIG["device"])


# ---- The models


class Encoder(nn.Module):
    """torch's own nn.TransformerEncoder between patches and a head: what one builds from PyTorch's parts."""

    def __init__(self, img_size, patch_size, in_chans, embed_dim, depth, num_heads):
        super().__init__()
        self.patches = nn.Conv2d(in_chans, embed_dim, patch_size, patch_size)
        self.cls = nn.Parameter(torch.zeros(1, 1, embed_dim))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 1 + (img_size // patch_size) ** 2, embed_dim))
        layer = nn.TransformerEncoderLayer(
            embed_dim, num_heads, 4 * embed_dim, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(layer, depth, nn.LayerNorm(embed_dim), enable_nested_tensor=False)
        self.head = nn.Linear(embed_dim, 10)

    def forward(self, images: Tensor) -> Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)  # (B, N, D)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.positions  # (B, T, D)
        return self.head(self.blocks(x)[:, 0])


class TextbookAttention(nn.Module):
    """Four layers without bias, heads moved into the batch, products and softmax written out."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q, self.k, self.v, self.out = (nn.Linear(embed_dim, embed_dim, bias=False) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        B, T, D = x.shape

        def heads(y: Tensor) -> Tensor:
            return y.reshape(B, T, self.num_heads, -1).transpose(1, 2).reshape(B * self.num_heads, T, -1)

        q, k, v = heads(self.q(x)), heads(self.k(x)), heads(self.v(x))  # (B*h, T, D/h)
        x = torch.bmm((torch.bmm(q, k.transpose(1, 2)) / q.shape[-1] ** 0.5).softmax(-1), v)
        return self.out(x.reshape(B, self.num_heads, T, -1).transpose(1, 2).reshape(B, T, D))


class TextbookBlock(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(embed_dim), nn.LayerNorm(embed_dim)
        self.attention = TextbookAttention(embed_dim, num_heads)
        self.mlp = nn.Sequential(nn.Linear(embed_dim, 4 * embed_dim), nn.GELU(), nn.Linear(4 * embed_dim, embed_dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Textbook(Encoder):
    """The Vision Transformer of Zhang et al. 2023, section 11.8, written anew from its mathematics."""

    def __init__(self, embed_dim, depth, num_heads, **sizes):
        super().__init__(embed_dim=embed_dim, depth=depth, num_heads=num_heads, **sizes)
        blocks = [TextbookBlock(embed_dim, num_heads) for _ in range(depth)]
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Sequential(nn.LayerNorm(embed_dim), nn.Linear(embed_dim, 10))


def of_timm(img_size, patch_size, in_chans, embed_dim, depth, num_heads):
    from timm.models.vision_transformer import VisionTransformer

    return VisionTransformer(
        img_size, patch_size, in_chans, 10, embed_dim=embed_dim, depth=depth, num_heads=num_heads, mlp_ratio=4
    )


def of_torchvision(img_size, patch_size, in_chans, embed_dim, depth, num_heads):
    from torchvision.models.vision_transformer import VisionTransformer

    model = VisionTransformer(img_size, patch_size, depth, num_heads, embed_dim, 4 * embed_dim, num_classes=10)
    model.conv_proj = nn.Conv2d(in_chans, embed_dim, patch_size, patch_size)  # it takes colour only
    return model


def of_vit_pytorch(img_size, patch_size, in_chans, embed_dim, depth, num_heads):
    from vit_pytorch import ViT as TheirViT

    return TheirViT(
        image_size=img_size,
        patch_size=patch_size,
        num_classes=10,
        dim=embed_dim,
        depth=depth,
        heads=num_heads,
        mlp_dim=4 * embed_dim,
        channels=in_chans,
        dim_head=embed_dim // num_heads,
    )


def of_vitnb(qkv_bias=True, **sizes):
    return ViT(ViTConfig(num_classes=10, mlp_ratio=4.0, qkv_bias=qkv_bias, **sizes))


MODELS: dict[str, Callable[..., nn.Module]] = {
    "vitnb": of_vitnb,
    "timm": of_timm,
    "torchvision": of_torchvision,
    "vit-pytorch": of_vit_pytorch,
    "nn.TransformerEncoder": Encoder,
    "textbook": Textbook,
}
ARMS = MODELS | {UNBIASED: partial(of_vitnb, qkv_bias=False)}


# ---- Steps and answers


def run() -> dict:
    chance = random.Random(0)
    result = {
        "versions": {name: importlib.metadata.version(name) for name in ("timm", "torchvision", "vit-pytorch")},
        "parameters": {},
        "step": {},
        "answer": {},
    }
    for size, sizes in SIZES.items():
        sizes = dict(sizes)
        batch = sizes.pop("batch")
        torch.manual_seed(0)
        models = {name: make(**sizes).to(DEVICE) for name, make in ARMS.items()}
        images = torch.randn(batch, sizes["in_chans"], sizes["img_size"], sizes["img_size"], device=DEVICE)
        labels = torch.randint(10, (batch,), device=DEVICE)
        result["parameters"][size] = {n: sum(p.numel() for p in m.parameters()) for n, m in models.items()}
        steps = {name: step(model, images, labels) for name, model in models.items()}
        result["step"][size] = race(steps, ROUNDS, chance, against=AGAINST)
        for model in models.values():
            model.eval()
        answers = {name: answer(model, images) for name, model in models.items()}
        result["answer"][size] = race(answers, ROUNDS, chance, against=AGAINST)
        print(size, {k: v["ratio"] for k, v in result["step"][size].items()}, flush=True)
    return result


def step(model: nn.Module, images: Tensor, labels: Tensor) -> Callable[[], None]:
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)

    def one() -> None:
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return one


def answer(model: nn.Module, images: Tensor) -> Callable[[], None]:
    @torch.no_grad()
    def one() -> None:
        model(images)

    return one


def race(
    runners: dict[str, Callable[[], None]],
    rounds: int,
    chance: random.Random,
    unit: float | None = 0.3,
    against: dict[str, str] | None = None,
) -> dict:
    """Time all of them, in turn: seconds (median) and how many times as long as the first one, with its quartiles.

    against names another one to compare with: {"b": "c"} has the times of b divided by those of c.
    """
    for one in runners.values() if unit else ():
        one()
        one()
    first = next(iter(runners))
    repeat = max(1, round(unit / clock(runners[first], 1))) if unit else 1
    seconds: dict[str, list[float]] = {name: [] for name in runners}
    for _ in range(rounds):
        for name in chance.sample(list(runners), len(runners)):
            seconds[name].append(clock(runners[name], repeat))
    found = {}
    for name, times in seconds.items():
        bases = seconds[(against or {}).get(name, first)]
        ratios = sorted(t / base for t, base in zip(times, bases, strict=True))
        low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
        found[name] = {"seconds": round(median(times), 6), "ratio": round(median(ratios), 3)}
        found[name] |= {"quartiles": [round(low, 3), round(high, 3)]}
    return found


def clock(one: Callable[[], None], repeat: int) -> float:
    """Seconds of one call."""
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(repeat):
        one()
    if DEVICE.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeat

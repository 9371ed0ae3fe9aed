"""The ViT that learns in the page: logits, gradients, losses and verdicts of every switch are vitbook.faults' own."""

import base64
import gzip
import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import wasmtime
from playwright.sync_api import Page
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from tests.conftest import Watch
from tests.pages.driver import node
from vitbook import faults
from vitbook.figures._base import module
from vitbook.figures._train_data import CONFIGS, dataset, packed
from vitnb import ViT, ViTConfig, data
from vitnb.training import decay_groups

ROOT = Path(__file__).resolve().parents[3]
SMALL = ViTConfig(img_size=8, patch_size=2, num_classes=7, embed_dim=24, depth=2, num_heads=3, mlp_ratio=1.5)
STEPS = 10
DRAWN = ("made in each call",)  # by each machine with its own random numbers: only judged


def text(x: Tensor) -> str:
    """float32 numbers as text."""
    return base64.b64encode(x.detach().contiguous().numpy().astype("<f4").tobytes()).decode()


def switches() -> list[str]:
    """The faults that the page knows."""
    script = (
        'import("./vitbook/figures/faults.js").then(({ FAULTS }) => console.log(JSON.stringify(Object.keys(FAULTS))))'
    )
    return json.loads(node("-e", script))


def kept(model: ViT) -> dict[str, Tensor]:
    """All that a model computes with: its parameters, and what it keeps elsewhere."""
    plain = {"pool.token": model.pool.token, "positions.table": getattr(model.positions, "table", None)}
    plain |= {f"blocks.{i}.{name}": x for i, block in enumerate(model.blocks) for name, x in block.named_parameters()}
    plain |= {f"norm.{name}": x for name, x in nn.LayerNorm(model.config.embed_dim).named_parameters()}
    return {name: x for name, x in plain.items() if x is not None} | dict(model.named_parameters())


def case(name: str | None, config: ViTConfig = SMALL) -> dict:
    """A model with a fault, weights of uneven numbers, batches, and what torch makes of them."""
    fault = faults.FAULTS[name] if name else None
    in_training = fault and fault.family == "train"
    torch.manual_seed(0)
    model = faults.build(name, config) if fault and not in_training else ViT(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    out = {"faults": [name] if name else [], "config": config.to_dict(), "lights": lights(name)}
    if name in DRAWN:
        return out
    batches = [(torch.randn(5, 1, 8, 8), torch.randint(7, (5,))) for _ in range(4)]
    out["batches"] = [{"pixels": text(images), "labels": labels.tolist()} for images, labels in batches]
    out |= {"weights": {key: text(x) for key, x in kept(model).items()}, "losses": [], "steps": STEPS}
    optimizer = torch.optim.AdamW(decay_groups(model, 0.05), betas=(0.9, 0.99))
    for step in range(STEPS):
        images, labels = batches[step % len(batches)]
        logits = model(images)
        loss = F.cross_entropy(logits, labels)
        if step == 0 or name != "gradient not cleared":
            model.zero_grad()
            for parameter in model.parameters():
                parameter.grad = torch.zeros_like(parameter)
        loss.backward()
        if step == 0:
            out |= {"logits": text(logits), "gradients": {key: text(p.grad) for key, p in model.named_parameters()}}
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = faults.train.lr_at(step, STEPS, 3e-3, 1)
        optimizer.step()
        out["losses"].append(loss.item())
    return out


def lights(name: str | None) -> list[dict]:
    """The verdicts of the clinic's tests on a model with a fault."""
    out = []
    for config in (SMALL, CONFIGS["digits"]):
        in_a_model = name and faults.FAULTS[name].seen_by is not None
        model = faults.build(name, config) if in_a_model else ViT(config)
        verdicts = {test: bool(passes(model)) for test, passes in faults.TESTS.items()}
        out.append({"config": config.to_dict(), "verdicts": verdicts})
    return out


def test_javascript_learns_as_torch_learns(tmp_path):
    file = tmp_path / "reference.json"
    cases = [case(None), case(None, replace(SMALL, pos_embed="none")), *(case(name) for name in switches())]
    file.write_text(json.dumps({"cases": cases}))
    out = node("--test", "--test-reporter=tap", "tests/pages/train.test.mjs", REFERENCE=str(file))
    found = re.findall(r"# (.*: logits .*)", out)
    print("", *found, sep="\n")
    assert len(found) == len(cases) - len(DRAWN)


def test_the_switches_are_the_clinics_in_its_families():
    script = 'import("./vitbook/figures/faults.js").then(({ FAMILIES }) => console.log(JSON.stringify(FAMILIES)))'
    families = {family: list(names) for family, names in json.loads(node("-e", script)).items()}
    assert set(families) == set(faults.FAMILIES)
    for family, names in families.items():
        assert names and {faults.FAULTS[name].family for name in names} == {family}


def test_the_kernels_bytes_are_those_of_their_source():
    folder = ROOT / "vitbook" / "figures" / "kit"
    constant = re.search(r"const KERNELS =([^;]+);", (folder / "tape.js").read_text())[1]
    stored = base64.b64decode("".join(re.findall(r'"([^"]+)"', constant)), validate=True)
    made = bytes(wasmtime.wat2wasm((folder / "kernels.wat").read_text()))
    assert made.startswith(stored), "tape.js holds other kernels than kernels.wat"
    assert re.match(rb"\x00.{1,2}\x04name", made[len(stored) :], re.DOTALL), "tape.js lacks a part of kernels.wat"


# ---- The data


@pytest.mark.parametrize("name", CONFIGS)
def test_images_are_packed_the_same_way_each_time_and_small(name):
    if name != "digits" and data.load(name).name != name:
        pytest.skip("no Fashion-MNIST on this machine")
    one, two = packed(name), packed(name)
    assert one == two
    assert len(one.bytes) < {"digits": 45_000, "fashion_mnist": 305_000}[name]
    meta, raw = one.meta, np.frombuffer(gzip.decompress(one.bytes), np.uint8)
    n, area = meta["train"] + meta["test"], meta["stored"] ** 2
    labels = raw[n * area // 2 :]
    assert len(labels) == n and sorted(set(labels)) == list(range(10))
    pixels = np.stack([raw[: n * area // 2] >> 4, raw[: n * area // 2] & 15], 1).reshape(n, area)
    share = np.zeros((meta["train"], meta["side"] ** 2))  # with the border of zeros that the page adds
    share[:, :area] = pixels[: meta["train"]] / 15
    assert abs(share.mean() - meta["mean"]) < 1e-4 and abs(share.std() - meta["std"]) < 1e-4
    assert CONFIGS[name].img_size == meta["side"] and len(meta["classes"]) == CONFIGS[name].num_classes


def test_packed_digits_are_scikit_learns_and_stored():
    digits, found = load_digits(), packed("digits")
    assert found.bytes == (ROOT / "vitbook" / "figures" / "digits.gz").read_bytes()
    raw = np.frombuffer(gzip.decompress(found.bytes), np.uint8)
    pixels = np.stack([raw[: 1797 * 32] >> 4, raw[: 1797 * 32] & 15], 1).reshape(1797, 64)
    order = np.random.default_rng(0).permutation(1797)
    assert np.abs(pixels / 15 - digits.data[order] / 16).max() < 0.05
    assert (raw[1797 * 32 :] == digits.target[order]).all()


UNPACK = """
Promise.all([import("./vitbook/figures/train.js"), import("node:fs")]).then(async ([{ unpack, pixelsOf }, fs]) => {
  const parts = await unpack(fs.readFileSync(process.env.PACKED), JSON.parse(process.env.META));
  const bytes = (x) => Buffer.from(x.buffer, x.byteOffset, x.byteLength).toString("base64");
  const seen = (part) => [bytes(part.images), part.labels, bytes(pixelsOf(part, [0, 1, 2]))];
  console.log(JSON.stringify([parts.train, parts.test].map(seen)));
})"""


@pytest.mark.parametrize("name", CONFIGS)
def test_a_dataset_has_the_images_that_the_page_unpacks(name, tmp_path):
    if name != "digits" and data.load(name).name != name:
        pytest.skip("no Fashion-MNIST on this machine")
    one, found, file = packed(name), dataset(name), tmp_path / "images.gz"
    file.write_bytes(one.bytes)
    page = json.loads(node("-e", UNPACK, PACKED=str(file), META=json.dumps(one.meta)))
    mine = ((found.train_images, found.train_labels), (found.test_images, found.test_labels))
    for (images, labels), (bytes_, numbers, normalised) in zip(mine, page, strict=True):
        assert images.shape == (len(labels), 1, one.meta["side"], one.meta["side"])
        assert images.numpy().tobytes() == base64.b64decode(bytes_) and labels.tolist() == numbers
        theirs = torch.frombuffer(bytearray(base64.b64decode(normalised)), dtype=torch.float32)
        assert torch.allclose(found.normalize(images[:3]).flatten(), theirs, atol=1e-6)
    assert found.name == name and found.classes == tuple(one.meta["classes"])


def test_an_unknown_name_is_refused():
    for load in (packed, dataset):
        with pytest.raises(ValueError, match="name must be one of"):
            load("cifar")


# ---- In a page from the disk, with no network

PAGE = """<!doctype html><meta charset="utf-8"><title>A worker</title><script>
const bytes = Uint8Array.from(atob("%s"), (letter) => letter.charCodeAt(0));
const worker = new Worker(URL.createObjectURL(new Blob([%s], { type: "text/javascript" })));
const said = [];
worker.onmessage = ({ data }) => said.push(data);
worker.onerror = (event) => said.push({ error: event.message });
const send = (job) => worker.postMessage(job.data ? { ...job, data: { ...job.data, bytes } } : job);
</script>"""


@pytest.fixture
def worker(page: Page, tmp_path: Path) -> tuple[Page, Watch]:
    """A page from the disk in which the worker waits: send(job), and what it said."""
    digits, file = packed("digits"), tmp_path / "page.html"
    script = json.dumps(module("train_worker.js")).replace("</", "<\\/")
    file.write_text(PAGE % (base64.b64encode(digits.bytes).decode(), script))
    page.set_default_timeout(120_000)  # on a busy machine
    watch = Watch(page, file.as_uri())
    page.goto(file.as_uri())
    return page, watch


def race(*racers: list[str], steps: int, **more: int) -> dict:
    """The message that starts a race on the digits."""
    config = CONFIGS["digits"].to_dict()
    job = {"do": "race", "id": 1, "racers": [{"config": config, "faults": names} for names in racers], "steps": steps}
    return job | {"data": {"meta": packed("digits").meta}} | more


def test_the_worker_trains_the_digits_from_the_disk(worker):
    page, watch = worker
    page.evaluate("job => send(job)", race([], ["split by view"], steps=200, watch=0))
    page.wait_for_function("said.at(-1)?.last || said.at(-1)?.error")
    said = page.evaluate("said")
    assert said[0]["step"] == 0 and said[-1]["step"] == 200
    assert [len(losses) for losses in zip(*(m["losses"] for m in said), strict=True)] == [len(said)] * 2
    losses = [[x for m in said for x in m["losses"][racer]] for racer in (0, 1)]
    assert [len(curve) for curve in losses] == [200, 200]
    judged = {m["step"]: m for m in said if m["accuracy"]}
    assert sorted(judged) == [0, 50, 100, 150, 200]
    right, wrong = judged[200]["accuracy"]
    print(f"\ndigits after 200 steps: right {right:.1%}, split by view {wrong:.1%}; {said[-1]['seconds']:.1f} s")
    assert right > 0.6 and wrong > 0.85 and max(judged[0]["accuracy"]) < 0.3
    looks = judged[200]["looks"]
    assert [len(look["maps"]) for look in looks] == [2, 2]
    for look in looks:
        rows = torch.tensor(look["maps"]).reshape(-1, 17)
        assert torch.allclose(rows.sum(1), torch.ones(len(rows)), atol=1e-5)
        assert len(look["positions"]) == 17 * 32
    page.evaluate("send({ do: 'net', id: 7, racer: 0 })")
    page.evaluate("send({ do: 'net', id: 8, racer: 1 })")
    page.wait_for_function("said.at(-1).id === 8")
    net, refused = page.evaluate("said.slice(-2)")
    assert sum(math.prod(shape) for _, shape in net["net"]["layout"]) == len(net["net"]["numbers"])
    assert "the right model only" in refused["error"]
    watch.assert_clean()


def test_the_worker_pauses_stops_and_shows_the_lights(worker):
    page, watch = worker
    count = "() => said.filter((m) => 'step' in m).length"
    page.evaluate("job => send(job)", race([], steps=100_000))
    page.wait_for_function("said.length > 2")
    page.evaluate("send({ do: 'pause' })")
    page.evaluate("job => send(job)", {"do": "lights", "id": 2, "config": SMALL.to_dict(), "faults": ["uniform"]})
    page.wait_for_function("said.at(-1).id === 2")  # it has received the pause before that
    assert page.evaluate("said.at(-1).lights") == {test: test != "reference" for test in faults.TESTS}
    before = page.evaluate(count)
    page.wait_for_timeout(500)
    assert page.evaluate(count) == before
    page.evaluate("send({ do: 'resume' })")
    page.wait_for_function(f"({count})() > {before}")
    page.evaluate("send({ do: 'stop' })")
    page.evaluate("job => send(job)", {"do": "lights", "id": 3, "config": SMALL.to_dict(), "faults": ["typo"]})
    page.wait_for_function("said.at(-1).id === 3")
    assert "There is no fault typo" in page.evaluate("said.at(-1).error")
    stopped = page.evaluate(count)
    page.wait_for_timeout(500)
    assert page.evaluate(count) == stopped
    page.evaluate("job => send(job)", race([], steps=20) | {"id": 4})
    page.wait_for_function("said.at(-1).last")
    assert page.evaluate("said.at(-1).id") == 4
    watch.assert_clean()

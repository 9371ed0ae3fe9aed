// Run by Node: node --test tests/pages/*.test.mjs
// The ViT that learns in the page: small cases, and torch's numbers where REFERENCE names a file of them (test_train.py).
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { gzipSync } from "node:zlib";
import { FAULTS } from "../../vitbook/figures/faults.js";
import { normal, randoms } from "../../vitbook/figures/kit/random.js";
import { Tape } from "../../vitbook/figures/kit/tape.js";
import { network } from "../../vitbook/figures/kit/vit.js";
import { lights } from "../../vitbook/figures/lights.js";
import { Trainer, evaluate, feeder, lrAt, unpack } from "../../vitbook/figures/train.js";
import { apart, floats } from "./numbers.mjs";

const draw = (n, name = "numbers") => {
  const random = randoms(1, name);
  return Float32Array.from({ length: n }, () => normal(random));
};
const range = (n) => [...Array(n).keys()];
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

test("AdamW's running means that fade become 0, not slow", () => {
  const tape = new Tape();
  const at = [0.5, 0, 1e-29, 1e-38].map((value) => {
    const from = tape.room(8);
    tape.numbers.fill(value, from, from + 8);
    return from;
  });
  const bytes = at.map((from) => 4 * from);
  for (let i = 0; i < 60; i++) tape.wasm.adamw(...bytes, 8, 0.9, 0.99, 0.01, 1e-3, 0);
  for (const from of at.slice(2))
    assert.ok(tape.numbers.slice(from, from + 8).every((x) => x === 0));
});

// ---- The trainer

const CONFIG = {
  img_size: 8,
  patch_size: 2,
  in_chans: 1,
  num_classes: 7,
  embed_dim: 16,
  depth: 2,
  num_heads: 2,
  mlp_ratio: 1.5,
  qkv_bias: true,
  norm: "pre",
  pos_embed: "learned",
  global_pool: "cls",
  pos_std: 0.02,
  norm_eps: 1e-6,
};
const batch = (n = 5, name = "images") => [draw(n * 64, name), range(n).map((i) => (3 * i) % 7)];
const all = (net, from = "at") =>
  Object.values(net.weights).flatMap((w) => [...net.tape.read(w, from)]);

/** A net whose every weight is random, and the same for every fault. */
function uneven(faults = [], config = CONFIG) {
  const net = new Trainer(config, { faults });
  for (const [name, { rows, width }] of Object.entries(net.weights))
    net.fill(
      name,
      draw(rows * width, name).map((x) => 0.3 * x),
    );
  return net;
}

test("the same seed twice gives the same bits, another seed others", () => {
  const run = (seed) => {
    const net = new Trainer(CONFIG, { seed });
    for (let i = 0; i < 20; i++) net.step(...batch(), lrAt(i, 20));
    return all(net);
  };
  const first = run(0);
  assert.deepEqual(run(0), first);
  assert.notDeepEqual(run(1), first);
});

test("the bits are the same on every machine", () => {
  const net = new Trainer(CONFIG, { seed: 7 });
  for (let i = 0; i < 20; i++) net.step(...batch(), 1e-3);
  const bytes = new Uint8Array(Float32Array.from(all(net)).buffer);
  const hash = bytes.reduce((state, byte) => Math.imul(state ^ byte, 16777619), 2166136261);
  assert.equal(hash >>> 0, 4182586176);
});

test("a race starts equal: with every fault the weights that are in both are the same", () => {
  const right = new Trainer(CONFIG);
  for (const name of Object.keys(FAULTS)) {
    const wrong = new Trainer(CONFIG, { faults: [name] });
    for (const [weight, w] of Object.entries(wrong.weights))
      if (right.weights[weight]?.rows === w.rows)
        assert.deepEqual(
          wrong.tape.read(w),
          right.tape.read(right.weights[weight]),
          `${name}: ${weight}`,
        );
  }
  const none = new Trainer({ ...CONFIG, pos_embed: "none" });
  assert.deepEqual(
    none.tape.read(none.weights["head.weight"]),
    right.tape.read(right.weights["head.weight"]),
  );
});

test("the initial weights have the standard deviations of vitnb's", () => {
  const { weights, tape } = new Trainer({ ...CONFIG, embed_dim: 64, num_heads: 4 });
  const std = (name) => {
    const x = tape.read(weights[name]);
    const mean = sum([...x]) / x.length;
    return Math.sqrt(sum([...x].map((a) => (a - mean) ** 2)) / x.length);
  };
  const expected = {
    "patch_embed.proj.weight": 0.5,
    "positions.table": 0.02,
    "head.weight": 0.02,
    "blocks.1.mlp.fc1.weight": Math.sqrt(2 / (64 + 96)),
    "blocks.0.norm1.weight": 0,
    "pool.token": 0,
  };
  for (const [name, value] of Object.entries(expected))
    assert.ok(Math.abs(std(name) - value) <= 0.1 * value, `${name}: ${std(name)}`);
});

const data = {
  images: Uint8Array.from({ length: 20 * 64 }, (_, i) => (7 * i) % 256),
  labels: range(20).map((i) => (5 * i) % 7),
  mean: 0.5,
  std: 0.25,
};

for (const name of Object.keys(FAULTS))
  test(`a switch changes something: ${name}`, () => {
    const run = (faults) => {
      const net = uneven(faults);
      const next = feeder(data, 5, 0, net.parts.order);
      const losses = range(8).map((i) => {
        const { pixels, labels } = next();
        return net.step(pixels, labels, lrAt(i, 40)).loss;
      });
      return [...losses, ...all(net)];
    };
    const [right, wrong] = [run([]), run([name])];
    assert.ok(wrong.every(Number.isFinite));
    assert.ok(right.some((x, i) => Math.abs(x - wrong[i]) > 1e-5));
  });

test("two faults of different parts go together, two of one part do not", () => {
  uneven(["split by view", "post norm"]).step(...batch(), 1e-3);
  assert.throws(() => uneven(["uniform", "undivided"]), /change one part/);
  assert.throws(() => uneven(["typo"]), /no fault typo/);
});

test("what the page cannot train is refused", () => {
  for (const change of [
    { in_chans: 3 },
    { num_heads: 8 },
    { patch_size: 3 },
    { norm: "post" },
    { global_pool: "mean" },
    { pos_embed: "sincos" },
  ])
    assert.throws(() => new Trainer({ ...CONFIG, ...change }), /cannot train/);
});

test("batches: each image once an epoch, in an order that only the seed decides", () => {
  const numbered = { images: Uint8Array.from(range(10)), labels: range(10), mean: 0, std: 1 };
  const epoch = (next) => [...next().labels, ...next().labels, ...next().labels];
  const [one, same, other] = [
    feeder(numbered, 3, 5),
    feeder(numbered, 3, 5),
    feeder(numbered, 3, 6),
  ];
  const first = epoch(one);
  assert.deepEqual(epoch(same), first);
  assert.notDeepEqual(epoch(other), first);
  assert.equal(new Set(first).size, 9); // the tenth is left out: the batch would not be full
  assert.notDeepEqual(epoch(one), first);
  const { pixels, labels } = one();
  assert.ok(
    apart(
      pixels,
      labels.map((k) => k / 255),
    ) < 1e-6,
  );
});

test("evaluation counts every image, in batches of any size", () => {
  const net = uneven();
  const [one, other] = [evaluate(net, data, 20), evaluate(net, data, 7)];
  assert.equal(one.accuracy, other.accuracy);
  assert.ok(Math.abs(one.loss - other.loss) < 1e-5);
});

test("the schedule: up in a line, then down half a cosine", () => {
  assert.deepEqual([lrAt(0, 400), lrAt(19, 400), lrAt(20, 400)], [3e-3 / 20, 3e-3, 3e-3]);
  assert.ok(Math.abs(lrAt(210, 400) - 1.5e-3) < 1e-9 && lrAt(399, 400) < 1e-6);
});

test("the right net passes every light, however it is switched otherwise", () => {
  const passed = { reference: true, count: true, cut: true, cls: true, order: true, scores: true };
  for (const change of [{}, { pos_embed: "none" }, { pos_std: 1 }, { img_size: 16, patch_size: 4 }])
    assert.deepEqual(lights(uneven([], { ...CONFIG, ...change })), passed);
});

test("a net of the race opens in LiveViT, with the same logits and maps", () => {
  for (const pos_embed of ["learned", "none"]) {
    const net = uneven([], { ...CONFIG, pos_embed });
    const { config, layout, numbers } = net.forLiveViT();
    const live = network(config, layout, numbers).run(batch(1)[0]);
    assert.ok(apart(net.logits(batch(1)[0]), live.logits) < 1e-5);
    const { maps, positions } = net.look(batch(1)[0]);
    assert.equal(maps.length, 2);
    maps.forEach((map, b) => assert.ok(apart(map, live.maps[b]) < 1e-5));
    assert.equal(positions?.length ?? 0, pos_embed === "learned" ? 17 * 16 : 0);
  }
  const { config, layout, numbers } = uneven(["gradient not cleared"]).forLiveViT(); // the model itself is right
  assert.throws(
    () => network(config, layout, numbers.slice(1)),
    /numbers long; this network needs/,
  );
  assert.throws(() => uneven(["split by view"]).forLiveViT(), /the right model only/);
});

test("images come out of the gzip as they were packed", async () => {
  const pixels = range(2 * 9 * 2).map((i) => i % 16); // 4 images of 3 x 3
  const bytes = Uint8Array.from([
    ...range(18).map((i) => (pixels[2 * i] << 4) | pixels[2 * i + 1]),
    3,
    1,
    4,
    1,
  ]);
  const meta = { stored: 3, side: 5, train: 3, test: 1, mean: 0.25, std: 2 };
  const { train, test: held } = await unpack(gzipSync(bytes), meta);
  assert.deepEqual(
    Array.from(train.images.slice(0, 25)),
    [0, 0, 0, 0, 0, 0, 0, 17, 34, 0, 0, 51, 68, 85, 0, 0, 102, 119, 136, 0, 0, 0, 0, 0, 0],
  );
  assert.deepEqual([train.labels, held.labels, held.images.length], [[3, 1, 4], [1], 25]);
  await assert.rejects(unpack(gzipSync(bytes.slice(1)), meta), /21 bytes; 4 of them are 22/);
});

// ---- Against torch

const file = process.env.REFERENCE;
const reference = file ? JSON.parse(readFileSync(file)) : { cases: [] };

/** A weight as torch has it, (out, in), to and from the page's (in, out). */
const turned = (numbers, rows, cols) =>
  Float32Array.from(
    { length: rows * cols },
    (_, i) => numbers[(i % rows) * cols + Math.floor(i / rows)],
  );
const isMatrix = (name, { rows }) => rows > 1 && name !== "positions.table";

function trainerOf({ config, faults, weights }) {
  const net = new Trainer(config, { faults });
  assert.deepEqual(Object.keys(net.weights).sort(), Object.keys(weights).sort());
  for (const [name, text] of Object.entries(weights)) {
    const w = net.weights[name];
    const numbers = floats(text);
    assert.equal(numbers.length, w.rows * w.width, name);
    net.fill(name, isMatrix(name, w) ? turned(numbers, w.width, w.rows) : numbers);
  }
  return net;
}

for (const { faults, lights: expected } of reference.cases)
  test(`the lights are the clinic's: ${faults[0] ?? "right"}`, () => {
    for (const { config, verdicts } of expected)
      assert.deepEqual(lights(new Trainer(config, { faults })), verdicts);
  });

for (const expected of reference.cases.filter(({ batches }) => batches)) {
  test(`equal to torch: ${expected.faults[0] ?? "right"}`, (t) => {
    const net = trainerOf(expected);
    const batches = expected.batches.map(({ pixels, labels }) => [floats(pixels), labels]);
    const logits = apart(net.logits(batches[0][0]), floats(expected.logits));
    const { loss } = net.gradients(...batches[0]);
    let [gradients, worst] = [0, ""];
    for (const [name, text] of Object.entries(expected.gradients)) {
      const w = net.weights[name];
      const mine = net.tape.read(w, "grad");
      const off = apart(isMatrix(name, w) ? turned(mine, w.rows, w.width) : mine, floats(text));
      if (!(off <= gradients)) [gradients, worst] = [off, name];
    }
    const { steps } = expected;
    const losses = expected.losses.map(
      (_, i) => net.step(...batches[i % batches.length], lrAt(i, steps)).loss,
    );
    const off = [
      logits,
      Math.abs(loss - expected.losses[0]),
      gradients,
      apart(losses, expected.losses),
    ];
    t.diagnostic(
      `${expected.faults[0] ?? "right"}: logits ${off[0].toExponential(1)}, gradients ${off[2].toExponential(1)} ` +
        `(${worst}), ${steps} losses ${off[3].toExponential(1)}`,
    );
    assert.ok(off[0] < 1e-4 && off[1] < 1e-4, `logits ${off[0]}, loss ${off[1]}`);
    assert.ok(off[2] < 1e-4, `gradients differ by ${off[2]} in ${worst}`);
    assert.ok(off[3] < 1e-3, `losses differ by ${off[3]}`);
  });
}

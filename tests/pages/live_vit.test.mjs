// Run by Node: node --test tests/pages/*.test.mjs
// LiveViT: small cases by hand, and torch's numbers where REFERENCE names a file of them (test_figures_livevit.py).
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { rollout } from "../../vitbook/figures/kit/maps.js";
import { shuffledOrder } from "../../vitbook/figures/kit/random.js";
import { ViT, decodeHalf, network } from "../../vitbook/figures/kit/vit.js";
import { sceneAt, stopAt } from "../../vitbook/figures/live_vit/moments.js";
import { normalised, overlayRow, settings } from "../../vitbook/figures/live_vit/state.js";
import { borderMean, imageSize, shrink, stroke } from "../../vitbook/figures/live_vit/upload.js";
import { apart, floats } from "./numbers.mjs";

test("float16 numbers come out as written", () => {
  const halves = [0x0000, 0x8000, 0x3c00, 0xc000, 0x3555, 0x7bff, 0x0001, 0x03ff, 0x7c00];
  const expected = [0, -0, 1, -2, 0.333251953125, 65504, 2 ** -24, 1023 * 2 ** -24, Infinity];
  assert.deepEqual([...decodeHalf(new Uint8Array(Uint16Array.from(halves).buffer))], expected);
  assert.ok(Number.isNaN(decodeHalf(Uint8Array.of(0x01, 0x7c))[0]));
});

test("an order is a permutation, the same for the same seed, and never the old one", () => {
  for (const n of [2, 3, 16, 49]) {
    for (let seed = 1; seed < 40; seed++) {
      const order = shuffledOrder(n, seed);
      assert.deepEqual(order, shuffledOrder(n, seed));
      assert.deepEqual(
        [...order].sort((a, b) => a - b),
        [...Array(n).keys()],
      );
      assert.ok(order.some((patch, place) => patch !== place));
    }
  }
  assert.notDeepEqual(shuffledOrder(16, 1), shuffledOrder(16, 2));
});

test("the files that people choose: how large they are, or null", () => {
  const bytes = (...parts) =>
    Uint8Array.from(
      parts.flatMap((part) => (typeof part === "string" ? [...Buffer.from(part)] : part)),
    );
  const zeros = (n) => Array(n).fill(0);
  const files = {
    png: bytes([137], "PNG", zeros(12), [0, 0, 1, 0, 0, 0, 0, 128]),
    gif: bytes("GIF89a", [0, 1, 128, 0]),
    bmp: bytes("BM", zeros(16), [0, 1, 0, 0, 128, 255, 255, 255]), // stored from the top: a negative height
    jpeg: bytes([255, 216, 255, 224, 0, 4, 0, 0, 255, 255, 192, 0, 17, 8, 0, 128, 1, 0]),
    "lossy webp": bytes("RIFF", zeros(4), "WEBPVP8 ", zeros(10), [0, 1, 128, 0]),
    "lossless webp": bytes("RIFF", zeros(4), "WEBPVP8L", zeros(5), [255, 192, 31, 0]),
    "large webp": bytes("RIFF", zeros(4), "WEBPVP8X", zeros(8), [255, 0, 0, 127, 0, 0]),
  };
  for (const [name, file] of Object.entries(files)) {
    const { width, height } = imageSize(file);
    assert.deepEqual([width, height], [256, 128], name);
    assert.equal(imageSize(file.subarray(0, 9)), null, `${name}, cut off`);
  }
  for (const text of ["", "x", "<svg width='10'/>", "%PDF-1.7 and so on and so on"])
    assert.equal(imageSize(bytes(text)), null);
  assert.equal(imageSize(bytes([255, 216, 255, 225, 255, 255, 0, 0])), null);
});

test("an image is averaged, gray by brightness, colour by colour", () => {
  const rgba = Uint8ClampedArray.from([255, 0, 0, 255, 255, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255]); // 2 x 2
  assert.deepEqual([...shrink(rgba, 1, 1, 2, 1)], [38]);
  assert.deepEqual([...shrink(rgba, 1, 1, 2, 3)], [128, 0, 0]);
  assert.equal(borderMean(Uint8Array.of(8, 8, 8, 8, 100, 8, 8, 8, 8), 3, 3), 8);
});

test("a pen leaves ink where it goes, and a rubber takes it away", () => {
  const pixels = new Uint8Array(2 * 25);
  stroke(pixels, 5, 5, [0.5, 2.5, 4.5, 2.5], 0.5, false);
  assert.deepEqual([...pixels.subarray(25)], [...pixels.subarray(0, 25)]); // all channels
  assert.deepEqual([...pixels.subarray(10, 15)], [255, 255, 255, 255, 255]);
  assert.deepEqual([...pixels.subarray(0, 5)], [0, 0, 0, 0, 0]);
  stroke(pixels, 5, 5, [2.5, 2.5, 2.5, 2.5], 0.5, true);
  assert.deepEqual([...pixels.subarray(10, 15)], [255, 255, 0, 255, 255]);
  stroke(pixels, 5, 5, [-50, -50, 900, -50], 2, false); // off the paper
  assert.deepEqual([...pixels.subarray(0, 5)], [0, 0, 0, 0, 0]);
});

test("whatever is stored, an image can be drawn", () => {
  const net = { channels: 1, height: 4, width: 4, N: 4, T: 5, L: 2, h: 2, pool: "cls" };
  const odd = {
    image: 99,
    own: new Uint8Array(3),
    token: -1,
    layer: 7,
    head: "x",
    stage: NaN,
    mode: "fly",
    overlay: 3,
  };
  const lists = {
    hidden: [0, 0, 9, -1, "a"],
    order: [0, 0, 1, 2],
    ablated: [[0, 1], [5, 5], []],
    removed: 1,
    positions: 0,
  };
  const all = { ...odd, ...lists };
  const found = settings((name) => all[name], net, new Uint8Array(32).fill(7));
  assert.equal(found.image, 1);
  assert.deepEqual([...found.pixels], Array(16).fill(7));
  assert.deepEqual([found.token, found.layer, found.head, found.stage], [0, 1, 0, 0]);
  assert.deepEqual([found.mode, found.overlay], ["hide", "head"]);
  assert.deepEqual([found.hidden, found.order, found.ablated], [[0], null, [[0, 1]]]);
  assert.deepEqual([found.removed, found.positions], [true, false]);
  const none = settings(() => undefined, net, new Uint8Array(0));
  assert.deepEqual([none.image, [...none.pixels]], [-1, Array(16).fill(0)]);
});

test("pixels are normalised channel by channel", () => {
  const bytes = Uint8Array.of(0, 255, 0, 255, 0, 255);
  assert.deepEqual([...normalised(bytes, 2, [0.5, 0, 1], [0.5, 1, 0.5])], [-1, 1, 0, 1, -2, 0]);
  assert.deepEqual([...normalised(bytes.subarray(0, 2), 2, [0.5], [0.25])], [-2, 2]);
});

test("a browser that forbids WebAssembly gets the same answers", () => {
  const narrow = { embed_dim: 10, num_heads: 2, mlp_ratio: 1.5, norm_eps: 1e-6 }; // a head is 5 numbers wide
  const size = { img_size: [6, 4], patch_size: [3, 2], in_chans: 1, num_classes: 3, depth: 2 };
  const config = { ...size, ...narrow, norm: "pre", pos_embed: "learned", global_pool: "cls" };
  const make = () => {
    const vit = new ViT(config);
    for (const [name, { rows, width }] of Object.entries(vit.weights))
      vit.fill(
        name,
        Float32Array.from({ length: rows * width }, (_, i) => Math.sin(i + name.length)),
      );
    return vit.run(Float32Array.from({ length: 24 }, (_, i) => Math.cos(i)));
  };
  const [quick, { Instance }] = [make(), WebAssembly];
  WebAssembly.Instance = null;
  const plain = make();
  WebAssembly.Instance = Instance;
  assert.ok(apart(quick.logits, plain.logits) < 1e-5);
  quick.maps.forEach((map, b) => assert.ok(apart(map, plain.maps[b]) < 1e-5));
  assert.ok(quick.logits.some((logit) => Math.abs(logit - quick.logits[0]) > 0.01));
});

test("a forward pass, moment by moment", () => {
  const net = { L: 2, h: 1, T: 2 };
  const tokens = [0, 1, 3].map((x) => Float32Array.of(x, x));
  const maps = [Float32Array.of(0.25, 0.75, 0.5, 0.5), Float32Array.of(1, 0, 0, 1)];
  const out = { tokens, maps, logits: Float32Array.of(0, 0) };
  const at = (moment) => sceneAt(out, net, moment, 0);
  const shown = (moment) => {
    const { apart: gap, flown, block, pulse, grown, tokens: some } = at(moment);
    return [gap, flown, block, pulse, some[0], grown];
  };
  assert.deepEqual(shown(0), [0, 0, -1, 0, 0, 0]);
  assert.deepEqual(shown(1.5), [1, 0.5, -1, 0, 0, 0]);
  assert.deepEqual(shown(2), [1, 1, -1, 0, 0, 0]);
  assert.deepEqual(shown(2.25), [1, 1, 0, 0.5, 0, 0]); // attention comes first
  assert.deepEqual(shown(2.75), [1, 1, 0, 1, 0.5, 0]); // then the tokens change
  assert.deepEqual(shown(3), [1, 1, 0, 1, 1, 0]);
  assert.deepEqual(shown(4), [1, 1, 1, 1, 3, 0]);
  assert.deepEqual(shown(4.5), [1, 1, 1, 1, 3, 0.5]);
  assert.deepEqual([...at(3).row, ...at(5).row, ...at(5).shares], [0.25, 0.75, 1, 0, 0.5, 0.5]);
  assert.deepEqual([0, 0.05, 1, 1.2, 4].map(stopAt), [0, 1, 1, 2, 4]);
  const none = sceneAt({ tokens: [], maps: [], logits: null }, net, 5, 0);
  assert.deepEqual([none.block, none.tokens, none.shares], [-1, null, null]);
});

const file = process.env.REFERENCE;
const reference = file ? JSON.parse(readFileSync(file)) : { cases: [] };
for (const expected of reference.cases) {
  test(`equal to torch: ${expected.name}, ${expected.count} images`, (t) => {
    const net = network(
      expected.config,
      expected.layout,
      Uint8Array.from(Buffer.from(expected.weights, "base64")),
    );
    const images = floats(expected.images);
    const [logits, maps, tokens, rolled] = ["logits", "maps", "tokens", "rollout"].map((key) =>
      floats(expected[key] ?? ""),
    );
    const n = expected.seats.length;
    const at = (array, i) =>
      array.subarray(
        (i * array.length) / expected.count,
        ((i + 1) * array.length) / expected.count,
      );
    const seated = (all, width) =>
      expected.seats.flatMap((seat) => [...all.subarray(seat * width, (seat + 1) * width)]);
    let worst = 0;
    let milliseconds = 0;
    for (let i = 0; i < expected.count; i++) {
      const start = performance.now();
      const out = net.run(at(images, i), expected.switches);
      milliseconds += (performance.now() - start) / expected.count;
      worst = Math.max(worst, apart(out.logits, at(logits, i)));
      if (!expected.maps) continue;
      const rows = (map, heads) =>
        Array.from({ length: heads }, (_, head) =>
          expected.seats.flatMap((seat) => {
            const row = map.subarray(
              (head * net.sizes.T + seat) * net.sizes.T,
              (head * net.sizes.T + seat + 1) * net.sizes.T,
            );
            return expected.seats.map((other) => row[other]);
          }),
        ).flat();
      const mine = out.maps.flatMap((map) => rows(map, net.sizes.h));
      worst = Math.max(worst, apart(mine, at(maps, i)));
      worst = Math.max(
        worst,
        apart(
          out.tokens.flatMap((x) => seated(x, net.sizes.D)),
          at(tokens, i),
        ),
      );
      worst = Math.max(
        worst,
        apart(rows(rollout(out.maps, net.sizes.h, net.sizes.T), 1), at(rolled, i)),
      );
      const taken = out.maps.flatMap((map) => [...map]).filter((share) => share !== 0).length;
      assert.ok(taken <= net.sizes.L * net.sizes.h * n * n);
    }
    for (const scene of expected.scenes ?? []) {
      const mine = sceneAt(net.run(at(images, 0), expected.switches), net.sizes, scene.moment, 0);
      for (const key of ["row", "tokens", "shares"].filter((one) => scene[one]))
        worst = Math.max(worst, apart(mine[key], floats(scene[key])));
    }
    t.diagnostic(
      `largest difference ${worst.toExponential(1)}, ${milliseconds.toFixed(2)} ms per image`,
    );
    assert.ok(worst < 1e-4, `differs by ${worst}`);
  });
}

test("a network that does not fit its weights is refused in words", () => {
  const { config, layout, weights } = reference.cases[0] ?? {};
  if (!config) return;
  const bytes = Uint8Array.from(Buffer.from(weights, "base64"));
  assert.throws(() => network(config, layout, bytes.subarray(2)), /bytes long; this network needs/);
  assert.throws(
    () => network({ ...config, embed_dim: 48 }, layout, bytes),
    /patch_embed.proj.weight has/,
  );
  assert.throws(() => network(config, layout.slice(1), bytes.subarray(0)), /bytes long/);
  bytes.set([0, 0x7e], 10); // NaN
  assert.throws(() => network(config, layout, bytes), /not finite/);
});

test("the mean of a block and the pooling lie over the image like a head", () => {
  for (const expected of reference.cases.filter(({ name }) => name === "pre learned attn, none")) {
    const net = network(
      expected.config,
      expected.layout,
      Uint8Array.from(Buffer.from(expected.weights, "base64")),
    );
    const out = net.run(floats(expected.images).subarray(0, 3 * 12 * 8));
    const row = (overlay, layer) =>
      overlayRow(out, net.sizes, { overlay, layer, head: 1, token: 2 });
    for (const [overlay, layer] of [
      ["head", 0],
      ["head", net.sizes.L],
      ["mean", 1],
      ["mean", net.sizes.L],
      ["rollout", 0],
    ]) {
      const sum = row(overlay, layer).reduce((a, b) => a + b);
      assert.ok(Math.abs(sum - 1) < 1e-5, `${overlay} of block ${layer}: ${sum}`);
    }
    assert.equal(row("none", 0), null);
  }
});

test("nothing left to read: no logits, and no error", () => {
  for (const expected of reference.cases.filter(({ name }) => / (mean|attn), none/.test(name))) {
    const net = network(
      expected.config,
      expected.layout,
      Uint8Array.from(Buffer.from(expected.weights, "base64")),
    );
    const all = { hidden: [...Array(net.sizes.N).keys()], removed: true };
    const out = net.run(floats(expected.images), all);
    assert.equal(out.logits, null);
    assert.equal(out.maps.length, net.sizes.L);
  }
});

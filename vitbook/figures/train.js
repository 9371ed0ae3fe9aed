// Training in the page: AdamW, a schedule, batches. No library, no network. The same seed gives the same bits.
import { FAMILIES, partsOf } from "./faults.js";
import { RIGHT, isMatrix } from "./kit/parts.js";
import { normal, randoms } from "./kit/random.js";
import { ViT } from "./kit/vit.js";

/** The config, if the page can train it: the six tests and the initial weights know no other. */
function trainable(config) {
  const { img_size: side, patch_size: patch, embed_dim: D, num_heads: h } = config;
  const fits = [side / patch, D / h / 4, (patch * patch) / 4].every(Number.isInteger);
  const known =
    config.in_chans === 1 &&
    config.norm === "pre" &&
    config.global_pool === "cls" &&
    ["learned", "none"].includes(config.pos_embed);
  if (fits && known) return config;
  throw new Error(
    `The page cannot train ${JSON.stringify(config)}: it needs square gray images, patches of 4 n pixels, ` +
      "heads 4 n wide, pre-norm, a cls token, and learned positions or none.",
  );
}

/** The initial weights, as vitnb.vit.initialise draws them; each weight has random numbers of its own. */
function start(name, { rows, width }, config, seed) {
  const random = randoms(seed, name);
  const draw = (f) => Float32Array.from({ length: rows * width }, f);
  const gauss = (std) => draw(() => std * normal(random));
  if (name === "head.weight") return gauss(0.02);
  if (name === "patch_embed.proj.weight") return gauss(1 / Math.sqrt(rows));
  if (name === "positions.table") return gauss(config.pos_std);
  if (/norm\d?\.weight$/.test(name)) return draw(() => 1);
  const most = Math.sqrt(6 / (rows + width)); // Xavier
  return name.endsWith(".weight") ? draw(() => (2 * random() - 1) * most) : draw(() => 0);
}

/** A ViT that learns, one batch a step, with faults by their names in vitbook.faults. */
export class Trainer extends ViT {
  constructor(config, { faults = [], seed = 0 } = {}) {
    super(trainable(config), { parts: partsOf(faults), learns: true });
    if (!this.tape.wasm.adamw) throw new Error("it forbids WebAssembly");
    this.faults = faults;
    const random = randoms(seed, "drawn");
    Object.assign(this.sizes, { std: config.pos_std, normal: () => normal(random) }); // for parts that draw
    for (const [name, weight] of Object.entries(this.weights)) {
      weight.learns = this.parts.learns(name);
      weight.means = [0, 1].map(() => this.tape.room(weight.rows * weight.cols)); // for AdamW
      this.fill(name, start(name, weight, config, seed));
    }
    this.tape.keep();
    this.fades = [1, 1]; // what AdamW's running means still hold of their start at 0
  }

  /** What network() of vit.js takes; LiveViT can show the right model alone, however that was trained. */
  forLiveViT() {
    const wrong = this.faults.filter((name) => !FAMILIES.train[name]);
    if (wrong.length) throw new Error(`LiveViT shows the right model only, not one with ${wrong}.`);
    return this.asTorch();
  }

  /** The mean loss on images, and how many are right: {loss, right}. */
  judge(pixels, labels) {
    this.tape.reset();
    return this.tape.crossEntropy(this.forward(pixels, labels.length), labels);
  }

  /** The gradients of a batch's loss, left in the weights. */
  gradients(pixels, labels) {
    const { tape, weights, parts } = this;
    if (parts.cleared)
      for (const { grad, rows, cols } of Object.values(weights))
        tape.numbers.fill(0, grad, grad + rows * cols);
    tape.reset(true);
    const out = tape.crossEntropy(this.forward(pixels, labels.length), labels);
    tape.backward();
    return out;
  }

  /** One step of AdamW on a batch: {loss, right} before it. */
  step(pixels, labels, lr, { betas = [0.9, 0.99], decay = 0.05, clip = 1 } = {}) {
    const out = this.gradients(pixels, labels);
    const { wasm } = this.tape;
    const all = Object.entries(this.weights).filter(([, w]) => w.learns);
    const n = ({ rows, cols }) => rows * cols;
    const squares = all.reduce((sum, [, w]) => sum + wasm.squares(4 * w.grad, n(w)), 0);
    const shrink = Math.min(1, clip / (Math.sqrt(squares) + 1e-6));
    this.fades = this.fades.map((fade, i) => fade * betas[i]);
    const [mean, root] = [1 - this.fades[0], Math.sqrt(1 - this.fades[1])];
    for (const [name, w] of all) {
      const addresses = [w.at, w.grad, ...w.means].map((number) => 4 * number);
      const pull = isMatrix(name, w) ? lr * decay : 0;
      if (shrink < 1) this.tape.plus(w.grad, w.grad, n(w), shrink - 1);
      wasm.adamw(...addresses, n(w), ...betas, (lr * root) / mean, 1e-8 * root, pull);
    }
    return out;
  }
}

/** The learning rate of a step (from 0) by the defaults of vitnb's Recipe: up in a line, then down half a cosine. */
export function lrAt(step, steps) {
  const [peak, warmup] = [3e-3, Math.round(0.05 * steps)];
  if (step < warmup) return (peak * (step + 1)) / warmup;
  const share = (step - warmup) / (steps - warmup);
  return (peak * (1 + Math.cos(Math.PI * share))) / 2;
}

/**
 * The images that _train_data.py has packed: {train, test}, each {images (n, side side) bytes, labels, mean, std}.
 * Two pixels of 4 bits share a byte; the labels follow. A stored image stands in the middle of a black one.
 */
export async function unpack(packed, { stored, side, train, test, mean, std }) {
  // WebKit reads no Blob in the worker of a page that was opened from the disk.
  const stream = new Response(packed).body.pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const n = train + test;
  const nibbles = n * stored * stored;
  if (bytes.length !== nibbles / 2 + n)
    throw new Error(`The images are ${bytes.length} bytes; ${n} of them are ${nibbles / 2 + n}.`);
  const images = new Uint8Array(n * side * side);
  const border = (side - stored) / 2;
  for (let i = 0; i < nibbles; i++) {
    const [image, y, x] = [
      Math.floor(i / stored ** 2),
      Math.floor(i / stored) % stored,
      i % stored,
    ];
    const value = i % 2 ? bytes[i >> 1] & 15 : bytes[i >> 1] >> 4;
    images[(image * side + border + y) * side + border + x] = 17 * value;
  }
  const labels = Array.from(bytes.subarray(nibbles / 2));
  const part = (from, to) => ({
    images: images.subarray(from * side * side, to * side * side),
    labels: labels.slice(from, to),
    mean,
    std,
  });
  return { train: part(0, train), test: part(train, n) };
}

/** Images by their numbers, normalised. */
export function pixelsOf({ images, labels, mean, std }, chosen) {
  const area = images.length / labels.length;
  const pixels = new Float32Array(chosen.length * area);
  chosen.forEach((k, b) => {
    for (let i = 0; i < area; i++) pixels[b * area + i] = (images[k * area + i] / 255 - mean) / std;
  });
  return pixels;
}

const batchOf = (data, chosen) => ({
  pixels: pixelsOf(data, chosen),
  labels: chosen.map((k) => data.labels[k]),
});

/** A function that gives the next batch; each epoch in a new order, the last incomplete batch left out. */
export function feeder(data, size, seed, order = RIGHT.order) {
  const random = randoms(seed, "order");
  const numbers = [...data.labels.keys()];
  let at = Infinity;
  return () => {
    if (at + size > numbers.length) {
      order(numbers, data.labels, random);
      at = 0;
    }
    return batchOf(data, numbers.slice(at, (at += size)));
  };
}

/** Accuracy and mean loss on all images of data. */
export function evaluate(net, data, size = 32) {
  let [right, loss] = [0, 0];
  const n = data.labels.length;
  for (let at = 0; at < n; at += size) {
    const chosen = Array.from({ length: Math.min(size, n - at) }, (_, i) => at + i);
    const batch = batchOf(data, chosen);
    const out = net.judge(batch.pixels, batch.labels);
    right += out.right;
    loss += out.loss * chosen.length;
  }
  return { accuracy: right / n, loss: loss / n };
}

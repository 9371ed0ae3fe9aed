// Training in the page: AdamW, a schedule, batches. No library, no network. The same seed gives the same bits.
import { Net, randoms } from "./net.js";
import { RIGHT } from "./parts.js";

/** A net that learns, one batch a step. */
export class Trainer extends Net {
  constructor(config, options) {
    super(config, options);
    this.fades = [1, 1]; // what AdamW's running means still hold of their start at 0
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
      const pull = this.parts.decays(name, w) ? lr * decay : 0;
      if (shrink < 1) this.tape.plus(w.grad, w.grad, n(w), shrink - 1);
      wasm.adamw(...addresses, n(w), ...betas, (lr * root) / mean, 1e-8 * root, pull);
    }
    return out;
  }
}

/** The learning rate of a step (from 0) out of all steps, by the defaults of vitnb's Recipe. */
export function lrAt(step, steps, rate = RIGHT.rate) {
  return rate(step, steps, 3e-3, Math.round(0.05 * steps));
}

/**
 * The images that _train_data.py has packed: {train, test}, each {images (n, side side) bytes, labels, mean, std}.
 * Two pixels of 4 bits share a byte; the labels follow. A stored image stands in the middle of a black one.
 */
export async function unpack(packed, { stored, side, train, test, mean, std }) {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
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

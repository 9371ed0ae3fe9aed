// The Vision Transformer of vitnb, one for all figures: LiveViT runs it, and the race trains it, right or with a fault.
// No library, no network. Arithmetic is the tape's (tape.js); what a fault can be in is a part (parts.js).
// The letters are the book's: B images, N patches, T tokens, D width, h heads of d numbers, L blocks, K classes.
import { POST, RIGHT, WITHOUT_CLS, isMatrix } from "./parts.js";
import { Tape } from "./tape.js";

const pair = (size) => (Array.isArray(size) ? size : [size, size]);
const product = (sides) => sides.reduce((a, b) => a * b, 1);
const range = (n) => [...Array(n).keys()];

/** To the nearest whole number, of two the even one: Python's round. */
const rounded = (x) => (x % 1 === 0.5 ? 2 * Math.round(x / 2) : Math.round(x));

/** The sizes of a ViTConfig of vitnb, as to_dict writes it. */
export function sizesOf(config) {
  const [height, width] = pair(config.img_size);
  const [ph, pw] = pair(config.patch_size);
  const [rows, cols] = [Math.floor(height / ph), Math.floor(width / pw)];
  const { in_chans: channels, embed_dim: D, num_heads: h, global_pool: pool } = config;
  const [N, prefix] = [rows * cols, pool === "cls" ? 1 : 0];
  const image = { height, width, channels, ph, pw, rows, cols, length: channels * ph * pw };
  const inner = rounded(D * config.mlp_ratio);
  const [L, K] = [config.depth, config.num_classes];
  return { ...image, N, prefix, T: prefix + N, D, h, d: D / h, inner, L, K, pool };
}

/** The weights of a ViT by their names in vitnb, with their shapes here: (in, out) for matrices, else (rows, D). */
function shapes(config, { length, T, D, K, L, inner, pool }) {
  const linear = (name, from, to, bias = true) => ({
    [`${name}.weight`]: [from, to],
    ...(bias ? { [`${name}.bias`]: [1, to] } : {}),
  });
  const norm = (name) => ({ [`${name}.weight`]: [1, D], [`${name}.bias`]: [1, D] });
  const block = (b) => ({
    ...linear(`blocks.${b}.attention.qkv`, D, 3 * D, config.qkv_bias !== false),
    ...linear(`blocks.${b}.attention.proj`, D, D),
    ...linear(`blocks.${b}.mlp.fc1`, D, inner),
    ...linear(`blocks.${b}.mlp.fc2`, inner, D),
    ...norm(`blocks.${b}.norm1`),
    ...norm(`blocks.${b}.norm2`),
  });
  const pools = {
    cls: { "pool.token": [1, D] },
    attn: {
      "pool.query": [1, D],
      ...linear("pool.kv", D, 2 * D),
      ...linear("pool.proj", D, D),
    },
  };
  return Object.assign(
    linear("patch_embed.proj", length, D),
    pools[pool] ?? {},
    config.pos_embed === "none" ? {} : { "positions.table": [T, D] },
    ...range(L).map(block),
    config.norm === "post" ? {} : norm("norm"),
    linear("head", D, K),
  );
}

/** The right parts of a ViT of this config. */
const rightParts = ({ norm, global_pool: pool }) => ({
  ...RIGHT,
  ...(norm === "post" ? POST : {}),
  ...(pool === "cls" ? {} : WITHOUT_CLS),
});

/**
 * A ViT of a config of vitnb, of some parts, all weights 0: fill gives it others.
 * Pixels are (B, C, H, W), normalised; logits are (B, K). With learns its weights have room for gradients.
 */
export class ViT {
  constructor(config, { parts = rightParts(config), learns = false } = {}) {
    this.config = config;
    this.parts = parts;
    this.sizes = sizesOf(config);
    this.tape = new Tape();
    this.weights = {};
    this.lists = new Map();
    this.maps = null; // a list, while attention is looked at
    this.silent = []; // heads that give nothing, by block
    for (const [name, [rows, cols]] of Object.entries(shapes(config, this.sizes)))
      this.weights[name] = this.tape.tensor(rows, cols, learns);
    this.tape.keep();
  }

  // ---- Weights

  /** Write a weight, given as it lies here: (rows, width). */
  fill(name, numbers) {
    this.tape.write(this.weights[name], numbers);
  }

  /** Write a weight as torch has it, matrices (out, in). */
  fillFromTorch(name, numbers) {
    const weight = this.weights[name];
    this.fill(
      name,
      isMatrix(name, weight) ? transposed(numbers, weight.width, weight.rows) : numbers,
    );
  }

  /** The weights as torch has them: {config, layout, numbers}, what network() takes. */
  asTorch() {
    const names = Object.keys(this.weights);
    const layout = names.map((name) => {
      const { rows, width } = this.weights[name];
      return [name, isMatrix(name, this.weights[name]) ? [width, rows] : [rows, width]];
    });
    const numbers = names.flatMap((name) => {
      const { rows, width } = this.weights[name];
      const x = this.tape.read(this.weights[name]);
      return Array.from(isMatrix(name, this.weights[name]) ? transposed(x, rows, width) : x);
    });
    return { config: this.config, layout, numbers: Float32Array.from(numbers) };
  }

  // ---- The model

  /** A list of where things begin, made once for each size of a batch. */
  list(name, { B, T }, n, f) {
    const key = `${name} ${B} ${T}`;
    if (!this.lists.has(key)) this.lists.set(key, Int32Array.from(range(n), f));
    return this.lists.get(key);
  }

  linear(x, name) {
    return this.tape.linear(x, this.weights[`${name}.weight`], this.weights[`${name}.bias`]);
  }

  norm(x, name) {
    const [gain, shift] = [this.weights[`${name}.weight`], this.weights[`${name}.bias`]];
    return this.tape.norm(x, gain, shift, this.config.norm_eps);
  }

  /** Pixels to patches, (B N, C ph pw): vitnb.patchify. */
  cut(pixels, { B, N, length, channels, height, width }) {
    const one = { B: 1, T: 1 };
    const table = this.list("pixel", one, N * length, (i) =>
      this.parts.pixel(Math.floor(i / length), i % length, this.sizes),
    );
    const area = channels * height * width;
    const numbers = new Float32Array(B * table.length);
    for (let b = 0, i = 0; b < B; b++)
      for (const pixel of table) numbers[i++] = pixels[b * area + pixel];
    return numbers;
  }

  /** Pixels to patches to tokens: (B N, D). */
  patches(pixels, s) {
    return this.linear(this.tape.constant(this.cut(pixels, s), s.B * s.N), "patch_embed.proj");
  }

  /** Equation 1: the patches' tokens with the cls token and positions, (B T, D). */
  embed(patches, s, positions = true) {
    const { tape, parts, weights } = this;
    const x = parts.prepend(tape, weights["pool.token"], patches, s);
    const table = positions && weights["positions.table"];
    return table ? parts.positions(tape, x, table, s) : x;
  }

  /** Pieces of d numbers of x, from where each begins among its numbers; `beside` of them make a row. */
  pieces(x, table, d, beside = 1) {
    const [rows, width] = [table.length / beside, beside * d];
    if (d % 4 === 0) return { ...this.tape.take(x, table, d), rows, cols: width, width };
    const cols = (width + 3) & ~3; // one number after the other, since fours would take in the neighbours'
    const each = new Int32Array(rows * cols).fill(-1);
    table.forEach((from, piece) => {
      const to = Math.floor(piece / beside) * cols + (piece % beside) * d;
      for (let i = 0; i < d; i++)
        each[to + i] = Math.floor((from + i) / x.width) * x.cols + ((from + i) % x.width);
    });
    return this.tape.pick(x, each, rows, width);
  }

  /** What the heads make of q, k and v, each (B h T, d). */
  mix(q, k, v, s) {
    const t = this.tape;
    return this.parts.mix(q, k, v, {
      t,
      s,
      d: s.d,
      scores: (a, b) => t.scores(a, b, s.B * s.h),
      times: (a, factor) => t.times(a, factor),
      softmax: (a) => t.softmax(a),
      mixed: (shares, values) => {
        this.maps?.push(t.read(shares));
        return t.mix(shares, values, s.B * s.h);
      },
    });
  }

  /** Attention over tokens (B T, D): split into heads, mixed, merged, projected. */
  attention(x, name, s, silent = []) {
    const { parts } = this;
    const { B, T, h, d } = s;
    const qkv = this.linear(x, `${name}.qkv`);
    const [q, k, v] = [0, 1, 2].map((part) => {
      const from = (i) =>
        parts.split(Math.floor(i / (h * T)), Math.floor(i / T) % h, i % T, part, s);
      return this.pieces(qkv, this.list(`split ${part}`, s, B * h * T, from), d);
    });
    const heads = this.mix(q, k, v, s);
    for (const head of silent) this.tape.erase(heads, head * T, T); // of one image
    const from = (i) => parts.merge(Math.floor(i / (h * T)), Math.floor(i / h) % T, i % h, s);
    const merged = this.pieces(heads, this.list("merge", s, B * T * h, from), d, h); // (B T, D)
    return this.linear(merged, `${name}.proj`);
  }

  /** Block number b: (B T, D) -> (B T, D). */
  block(x, b, s) {
    const { tape: t, parts } = this;
    const name = `blocks.${b}`;
    return parts.block(x, {
      attention: (y) => this.attention(y, `${name}.attention`, s, this.silent[b]),
      mlp: (y) => this.linear(t.gelu(this.linear(y, `${name}.mlp.fc1`)), `${name}.mlp.fc2`),
      norm1: (y) => this.norm(y, `${name}.norm1`),
      norm2: (y) => this.norm(y, `${name}.norm2`),
      add: (y, z) => t.add(y, z),
    });
  }

  /** All tokens to one vector: a query for each head attends to them. (T, D) -> (1, D), of one image. */
  attentionPool(x, s) {
    const { T, D, h, d } = s;
    const kv = this.linear(x, "pool.kv");
    const from = (part) => (i) => ((i % T) * 2 + part) * D + Math.floor(i / T) * d;
    const [k, v] = [0, 1].map((part) =>
      this.pieces(kv, this.list(`pool ${part}`, s, h * T, from(part)), d),
    );
    const asked = this.list("query", s, h * T, (i) => Math.floor(i / T) * d);
    const heads = this.mix(this.pieces(this.weights["pool.query"], asked, d), k, v, s);
    const first = this.list("asked", s, h, (head) => head * T * d);
    return this.linear(this.pieces(heads, first, d, h), "pool.proj");
  }

  /** Equation 4: norm, pool, head. */
  classify(x, s) {
    const { tape, parts } = this;
    const last = parts.last(x, (y) => this.norm(y, "norm"));
    const pooled = s.pool === "attn" ? this.attentionPool(last, s) : parts.read(tape, last, s);
    return parts.logits(tape, this.linear(pooled, "head"));
  }

  /** Pixels to logits, a tensor on the tape. */
  forward(pixels, B) {
    const s = { ...this.sizes, B };
    let x = this.embed(this.patches(pixels, s), s);
    for (const b of range(s.L)) x = this.block(x, b, s);
    return this.classify(x, s);
  }

  // ---- Use

  /** Pixels to logits (B, K). */
  logits(pixels) {
    const { channels, height, width } = this.sizes;
    this.tape.reset();
    return this.tape.read(this.forward(pixels, pixels.length / (channels * height * width)));
  }

  /** The attention of one image, as (h, T, T) a block, and the position table (T, D): what can be seen to form. */
  look(pixels) {
    this.maps = [];
    this.logits(pixels);
    const { maps } = this;
    this.maps = null;
    const table = this.weights["positions.table"];
    return { maps, positions: table ? this.tape.read(table) : null };
  }

  /**
   * All that happens to one image of normalised pixels (C, H, W).
   *
   * switches, all optional:
   *   order      the patch that stands at each place (N); without it every patch is at home
   *   hidden     patches (by their number at home) that the network does not see
   *   removed    true: hidden patches are no tokens at all; false: their pixels become 0, the mean of the training pixels
   *   positions  false: no position is added to any token
   *   ablated    [[block, head], ...] whose output is set to zero
   *
   * Gives logits (K), or null if there is no token left to read; maps, one (h, T, T) a block, and pooling's own (h, T)
   * if it attends; tokens, (T, D) after the embedding and after each block. Rows and columns of removed tokens are 0.
   */
  run(pixels, switches = {}) {
    const { positions = true, ablated = [] } = switches;
    const { h, T, D, L, pool } = this.sizes;
    const { seen, seats, s } = this.seen(pixels, switches);
    const out = { logits: null, maps: [], poolMap: null, tokens: [] };
    if (!s.T) return { ...out, maps: range(L).map(() => new Float32Array(h * T * T)) };
    this.silent = range(L).map((b) => ablated.filter(([l]) => l === b).map(([, head]) => head));
    this.maps = [];
    this.tape.reset();
    const patches = seen.length ? this.tape.constant(seen, s.N) : this.tape.tensor(0, s.length);
    let x = this.embed(this.linear(patches, "patch_embed.proj"), s, positions);
    const keep = () => out.tokens.push(onSeats(this.tape.read(x), D, seats, T));
    keep();
    for (let b = 0; b < L; b++) {
      x = this.block(x, b, s);
      keep();
    }
    out.logits = this.tape.read(this.classify(x, s));
    out.maps = this.maps.map((map) => mapOnSeats(map, h, seats, T));
    if (pool === "attn") out.poolMap = rowOfEach(out.maps.pop(), h, T, seats[0]);
    [this.maps, this.silent] = [null, []];
    return out;
  }

  /** What the network sees of an image: the patches that are tokens, (n, C ph pw); their seats among the T; the sizes. */
  seen(pixels, { order = null, hidden = [], removed = false }) {
    const { N, prefix, length } = this.sizes;
    const away = new Set(hidden);
    const patchAt = (place) => (order ? order[place] : place);
    const kept = range(N).filter((place) => !(removed && away.has(patchAt(place))));
    const seats = [...range(prefix), ...kept.map((place) => prefix + place)];
    const patches = this.cut(pixels, { ...this.sizes, B: 1 });
    const seen = new Float32Array(kept.length * length);
    kept.map(patchAt).forEach((patch, i) => {
      if (!away.has(patch))
        seen.set(patches.subarray(patch * length, (patch + 1) * length), i * length);
    });
    return { seen, seats, s: { ...this.sizes, B: 1, N: kept.length, T: seats.length, seats } };
  }
}

/** (rows, cols) -> (cols, rows) */
function transposed(numbers, rows, cols) {
  return Float32Array.from(
    { length: rows * cols },
    (_, i) => numbers[(i % rows) * cols + Math.floor(i / rows)],
  );
}

/** What n kept tokens computed, back on the T seats; the others stay 0. */
function onSeats(x, D, seats, T) {
  const all = new Float32Array(T * D);
  seats.forEach((seat, i) => all.set(x.subarray(i * D, (i + 1) * D), seat * D));
  return all;
}

/** The same of a map: (h, n, n) -> (h, T, T). */
function mapOnSeats(map, h, seats, T) {
  const n = seats.length;
  if (n === T) return map;
  const all = new Float32Array(h * T * T);
  for (let head = 0; head < h; head++)
    seats.forEach((row, i) =>
      seats.forEach((col, j) => (all[(head * T + row) * T + col] = map[(head * n + i) * n + j])),
    );
  return all;
}

/** Of each head's map the same row: (h, T, T) -> (h, T). */
function rowOfEach(map, h, T, row) {
  const start = (head) => (head * T + row) * T;
  return Float32Array.from(
    range(h).flatMap((head) => Array.from(map.subarray(start(head), start(head) + T))),
  );
}

// ---- A network as a notebook stores it

/** Turn float16 numbers, two bytes each, into float32. */
export function decodeHalf(bytes) {
  const table = (decodeHalf.table ??= Float32Array.from({ length: 65536 }, (_, bits) => {
    const sign = bits >> 15 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 0) return sign * fraction * 2 ** -24;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }));
  const numbers = new Float32Array(bytes.length >> 1);
  for (let i = 0; i < numbers.length; i++)
    numbers[i] = table[bytes[2 * i] | (bytes[2 * i + 1] << 8)];
  return numbers;
}

/**
 * Make a ViT of a ViTConfig (as vitnb's to_dict writes it) and its weights, as torch has them.
 * layout lists [name, shape] in the order in which the numbers lie in bytes: float16, or a Float32Array as it is.
 */
export function network(config, layout, bytes) {
  const total = layout.reduce((sum, [, shape]) => sum + product(shape), 0);
  const whole = bytes instanceof Float32Array;
  const [expected, unit] = whole ? [total, "numbers"] : [2 * total, "bytes"];
  if (bytes.length !== expected)
    throw new Error(
      `The weights are ${bytes.length} ${unit} long; this network needs ${expected}.`,
    );
  const numbers = whole ? bytes : decodeHalf(bytes);
  const given = {};
  let at = 0;
  for (const [name, shape] of layout) {
    given[name] = numbers.subarray(at, (at += product(shape)));
    if (!given[name].every(Number.isFinite))
      throw new Error(`The weight ${name} holds a number that is not finite.`);
  }
  const vit = new ViT(config);
  for (const [name, { rows, width }] of Object.entries(vit.weights)) {
    const [has, needs] = [given[name]?.length ?? 0, rows * width];
    if (has !== needs)
      throw new Error(`The weight ${name} has ${has} numbers; this network needs ${needs}.`);
    vit.fillFromTorch(name, given[name]);
  }
  return vit;
}

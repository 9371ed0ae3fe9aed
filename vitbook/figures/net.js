// A Vision Transformer over a tape: the model of vitnb, of the parts that parts.js has, right and wrong.
// The letters are the book's: B images, N patches, T tokens, D width, h heads of d numbers, L blocks, K classes.
import { FAMILIES, FAULTS, RIGHT, isMatrix } from "./parts.js";
import { Tape } from "./tape.js";

/** Random numbers in [0, 1) that depend on the seed and the name only: mulberry32, started by FNV-1a. */
export function randoms(seed, name) {
  let state = 2166136261;
  for (const letter of `${seed} ${name}`) state = Math.imul(state ^ letter.charCodeAt(0), 16777619);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** About N(0, 1): twelve random numbers, so that no browser's own logarithm has a say in it. */
export function normal(random) {
  let sum = -6;
  for (let i = 0; i < 12; i++) sum += random();
  return sum;
}

/** The weights of a ViT by their names in vitnb, with their shapes here: (in, out) for matrices, else (rows, D). */
function shapes({ patch, T, D, K, L, inner, learned }) {
  const linear = (name, from, to) => ({
    [`${name}.weight`]: [from, to],
    [`${name}.bias`]: [1, to],
  });
  const norm = (name) => ({ [`${name}.weight`]: [1, D], [`${name}.bias`]: [1, D] });
  const block = (b) => ({
    ...linear(`blocks.${b}.attention.qkv`, D, 3 * D),
    ...linear(`blocks.${b}.attention.proj`, D, D),
    ...linear(`blocks.${b}.mlp.fc1`, D, inner),
    ...linear(`blocks.${b}.mlp.fc2`, inner, D),
    ...norm(`blocks.${b}.norm1`),
    ...norm(`blocks.${b}.norm2`),
  });
  return Object.assign(
    linear("patch_embed.proj", patch * patch, D),
    { "pool.token": [1, D] },
    learned ? { "positions.table": [T, D] } : {},
    ...Array.from({ length: L }, (_, b) => block(b)),
    norm("norm"),
    linear("head", D, K),
  );
}

/** The sizes of a ViTConfig of vitnb, as to_dict writes it. */
function sizes(config) {
  const { img_size: side, patch_size: patch, embed_dim: D, num_heads: h } = config;
  const [grid, d] = [side / patch, D / h];
  const fits = [grid, d / 4, (patch * patch) / 4].every(Number.isInteger);
  const known =
    config.in_chans === 1 &&
    config.norm === "pre" &&
    config.global_pool === "cls" &&
    ["learned", "none"].includes(config.pos_embed);
  if (!fits || !known)
    throw new Error(
      `The page cannot train ${JSON.stringify(config)}: it needs square gray images, patches of 4 n pixels, ` +
        "heads 4 n wide, pre-norm, a cls token, and learned positions or none.",
    );
  const N = grid * grid;
  const inner = Math.round(D * config.mlp_ratio);
  const learned = config.pos_embed === "learned";
  return {
    side,
    patch,
    grid,
    N,
    T: N + 1,
    D,
    h,
    d,
    inner,
    L: config.depth,
    K: config.num_classes,
    learned,
  };
}

/** The parts of a model with these faults. */
function partsOf(faults) {
  const parts = { ...RIGHT };
  for (const name of faults) {
    if (!FAULTS[name]) throw new Error(`There is no fault ${name}.`);
    for (const [part, wrong] of Object.entries(FAULTS[name])) {
      if (parts[part] !== RIGHT[part]) throw new Error(`Two faults of ${faults} change one part.`);
      parts[part] = wrong;
    }
  }
  return parts;
}

/**
 * A ViT of a config of vitnb (as to_dict writes it), with faults by their names in vitbook.faults.
 * Pixels are (B, side, side), normalised; logits are (B, K).
 */
export class Net {
  constructor(config, { faults = [], seed = 0 } = {}) {
    this.config = config;
    this.faults = faults;
    this.parts = partsOf(faults);
    const random = randoms(seed, "drawn");
    this.sizes = { ...sizes(config), std: config.pos_std, normal: () => normal(random) };
    this.tape = new Tape();
    this.weights = {};
    this.lists = new Map();
    this.maps = null; // a list, while attention is looked at
    const all = { ...shapes(this.sizes), ...this.parts.extra(this.sizes) };
    for (const [name, [rows, cols]] of Object.entries(all)) {
      const weight = this.tape.tensor(rows, cols, true);
      weight.learns = this.parts.learns(name);
      weight.means = [0, 1].map(() => this.tape.room(rows * weight.cols)); // for AdamW
      this.weights[name] = weight;
    }
    this.tape.keep();
    for (const name in this.weights) this.fill(name, start(name, this.weights[name], config, seed));
  }

  // ---- The model

  /** Write a weight, given as it lies here: (rows, width). */
  fill(name, numbers) {
    this.tape.write(this.weights[name], numbers);
  }

  /** A list of where things begin, made once for each size of a batch. */
  list(name, { B, T }, n, f) {
    const key = `${name} ${B} ${T}`;
    if (!this.lists.has(key))
      this.lists.set(
        key,
        Int32Array.from({ length: n }, (_, i) => f(i)),
      );
    return this.lists.get(key);
  }

  linear(x, name) {
    return this.tape.linear(x, this.weights[`${name}.weight`], this.weights[`${name}.bias`]);
  }

  norm(x, name, s) {
    const [gain, shift] = [this.weights[`${name}.weight`], this.weights[`${name}.bias`]];
    return this.parts.norm(this.tape, x, gain, shift, this.config.norm_eps, s);
  }

  /** Pixels to patches to tokens: (B N, D). */
  patches(pixels, s) {
    const { N, patch, side } = s;
    const P = patch * patch;
    const table = this.list("pixel", { B: 1, T: 1 }, N * P, (i) =>
      this.parts.pixel(Math.floor(i / P), i % P, s),
    );
    const numbers = new Float32Array(s.B * N * P);
    for (let b = 0, i = 0; b < s.B; b++)
      for (const pixel of table) numbers[i++] = pixels[b * side * side + pixel];
    return this.linear(this.tape.constant(numbers, s.B * N), "patch_embed.proj");
  }

  /** Equation 1: tokens with the cls token and positions, (B T, D). */
  embed(pixels, s) {
    const { tape, parts, weights } = this;
    const patches = parts.patched(this.patches(pixels, s), (y, name) => this.linear(y, name));
    const x = parts.prepend(tape, weights["pool.token"], patches, s);
    return s.learned ? parts.positions(tape, x, weights["positions.table"], s) : x;
  }

  /** Attention over tokens (B T, D): split into heads, mixed, merged, projected. */
  attention(x, name, s) {
    const { tape: t, parts } = this;
    const { B, T, D, h, d } = s;
    const qkv = this.linear(x, `${name}.qkv`);
    const [q, k, v] = [0, 1, 2].map((part) => {
      const from = (i) =>
        parts.split(Math.floor(i / (h * T)), Math.floor(i / T) % h, i % T, part, s);
      return t.take(qkv, this.list(`split ${part}`, s, B * h * T, from), d); // (B h T, d)
    });
    const heads = parts.mix(q, k, v, {
      t,
      s,
      d,
      scores: (a, b) => t.scores(a, b, B * h),
      times: (a, factor) => t.times(a, factor),
      softmax: (a) => t.softmax(a),
      mixed: (shares, values) => {
        this.maps?.push(t.read(shares));
        return t.mix(shares, values, B * h);
      },
    });
    const from = (i) => parts.merge(Math.floor(i / (h * T)), Math.floor(i / h) % T, i % h, s);
    const merged = t.take(heads, this.list("merge", s, B * T * h, from), d); // (B T h, d)
    return this.linear({ ...merged, rows: B * T, cols: D, width: D }, `${name}.proj`);
  }

  /** Block number b: (B T, D) -> (B T, D). */
  block(x, b, s) {
    const { tape: t, parts } = this;
    const name = `blocks.${b}`;
    return parts.block(x, {
      attention: (y) =>
        parts.layer(t, y, s, (z, sizes) => this.attention(z, `${name}.attention`, sizes)),
      mlp: (y) =>
        this.linear(parts.activation(t, this.linear(y, `${name}.mlp.fc1`)), `${name}.mlp.fc2`),
      norm1: (y) => this.norm(y, `${name}.norm1`, s),
      norm2: (y) => this.norm(y, `${name}.norm2`, s),
      add: (y, z) => t.add(y, z),
    });
  }

  /** Pixels to logits, a tensor on the tape. */
  forward(pixels, B) {
    const { tape, parts } = this;
    const s = { ...this.sizes, B };
    let x = parts.embedded(tape, this.embed(pixels, s));
    for (const b of parts.blocks(s.L)) x = this.block(x, b, s);
    x = parts.last(x, (y) => this.norm(y, "norm", s));
    const pooled = parts.read(tape, x, s, this.weights["pool.token"]);
    return parts.logits(tape, this.linear(pooled, "head"));
  }

  // ---- Use

  /** Pixels (B, side, side) to logits (B, K). */
  logits(pixels) {
    this.tape.reset();
    return this.tape.read(this.forward(pixels, pixels.length / this.sizes.side ** 2));
  }

  /** The mean loss on images, and how many are right: {loss, right}. */
  judge(pixels, labels) {
    this.tape.reset();
    return this.tape.crossEntropy(this.forward(pixels, labels.length), labels);
  }

  /** The attention of one image, as (h, T, T) a block, and the position table (T, D): what can be seen to form. */
  look(pixels) {
    this.maps = [];
    this.logits(pixels);
    const { T, h } = this.sizes;
    const maps = this.maps.filter((map) => map.length === h * T * T); // a layer over the batch has none of one image
    this.maps = null;
    const table = this.weights["positions.table"];
    return { maps, positions: table ? this.tape.read(table) : null };
  }
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

/** The weights as torch has them, (out, in): {config, layout, numbers}, what network() of vit.js takes. */
export function asTorch({ config, weights, tape }) {
  const layout = [];
  const numbers = [];
  for (const [name, weight] of Object.entries(weights)) {
    const { rows, width } = weight;
    const x = tape.read(weight);
    const matrix = isMatrix(name, weight);
    layout.push([name, matrix ? [width, rows] : [rows, width]]);
    for (let i = 0; i < x.length; i++)
      numbers.push(matrix ? x[(i % rows) * width + Math.floor(i / rows)] : x[i]);
  }
  return { config, layout, numbers: Float32Array.from(numbers) };
}

/** The same, for LiveViT: it can show the right model alone, however that was trained. */
export function toLiveViT(net) {
  const wrong = net.faults.filter((name) => !FAMILIES.train[name]);
  if (wrong.length) throw new Error(`LiveViT shows the right model only, not one with ${wrong}.`);
  return asTorch(net);
}

// The Vision Transformer of vitnb in plain JavaScript: pixels in; logits, tokens and every attention map out.
// No library, no network. The letters are the book's: N patches, T tokens, D width, h heads, L blocks.
// Arrays are flat, row by row, like torch's.
import { meanOfHeads } from "./kit/maps.js";

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

const pair = (size) => (Array.isArray(size) ? size : [size, size]);

/**
 * Make a network of a ViTConfig (as vitnb's to_dict writes it) and its weights.
 * layout lists [name, shape] in the order in which the numbers lie in bytes: float16, or a Float32Array as it is.
 */
export function network(config, layout, bytes) {
  const total = layout.reduce((sum, [, shape]) => sum + size(shape), 0);
  const whole = bytes instanceof Float32Array;
  const expected = whole ? total : 2 * total;
  if (bytes.length !== expected) {
    const unit = whole ? "numbers" : "bytes";
    throw new Error(
      `The weights are ${bytes.length} ${unit} long; this network needs ${expected}.`,
    );
  }
  const numbers = whole ? bytes : decodeHalf(bytes);
  const weights = {};
  let at = 0;
  for (const [name, shape] of layout) {
    weights[name] = numbers.subarray(at, (at += size(shape)));
    if (!weights[name].every(Number.isFinite))
      throw new Error(`The weight ${name} holds a number that is not finite.`);
  }
  const [height, width] = pair(config.img_size);
  const [ph, pw] = pair(config.patch_size);
  const net = {
    weights,
    height,
    width,
    ph,
    pw,
    rows: Math.floor(height / ph),
    cols: Math.floor(width / pw),
    channels: config.in_chans,
    classes: config.num_classes,
    D: config.embed_dim,
    L: config.depth,
    h: config.num_heads,
    postNorm: config.norm === "post",
    pool: config.global_pool,
    eps: config.norm_eps,
    inner: 0,
  };
  net.N = net.rows * net.cols;
  net.prefix = net.pool === "cls" ? 1 : 0;
  net.T = net.prefix + net.N;
  net.patchLength = net.channels * ph * pw;
  net.inner = (weights["blocks.0.mlp.fc1.bias"] ?? []).length;
  checkShapes(net, config);
  net.linear = kernel(net) ?? linear;
  return net;
}

const size = (shape) => shape.reduce((product, side) => product * side, 1);

function checkShapes(net, config) {
  const { D, T, inner } = net;
  const expected = { "patch_embed.proj.weight": D * net.patchLength, "patch_embed.proj.bias": D };
  if (net.pool === "cls") expected["pool.token"] = D;
  if (net.pool === "attn")
    Object.assign(expected, {
      "pool.query": D,
      "pool.kv.weight": 2 * D * D,
      "pool.kv.bias": 2 * D,
    });
  if (net.pool === "attn")
    Object.assign(expected, { "pool.proj.weight": D * D, "pool.proj.bias": D });
  if (config.pos_embed !== "none") expected["positions.table"] = T * D;
  for (let block = 0; block < net.L; block++) {
    const name = `blocks.${block}.`;
    expected[`${name}attention.qkv.weight`] = 3 * D * D;
    if (config.qkv_bias) expected[`${name}attention.qkv.bias`] = 3 * D;
    expected[`${name}attention.proj.weight`] = D * D;
    expected[`${name}attention.proj.bias`] = D;
    for (const norm of ["norm1", "norm2"])
      for (const part of ["weight", "bias"]) expected[`${name}${norm}.${part}`] = D;
    expected[`${name}mlp.fc1.weight`] = expected[`${name}mlp.fc2.weight`] = inner * D;
    expected[`${name}mlp.fc1.bias`] = inner;
    expected[`${name}mlp.fc2.bias`] = D;
  }
  if (!net.postNorm) expected["norm.weight"] = expected["norm.bias"] = D;
  expected["head.weight"] = net.classes * D;
  expected["head.bias"] = net.classes;
  for (const [name, length] of Object.entries(expected)) {
    const given = net.weights[name]?.length ?? 0;
    if (!length || given !== length)
      throw new Error(`The weight ${name} has ${given} numbers; this network needs ${length}.`);
  }
}

/** Cut pixels (C, H, W) into patches (N, C*p*p), row by row: vitnb.patchify. */
export function patchify(net, pixels) {
  const { height, width, ph, pw, rows, cols, channels } = net;
  const patches = new Float32Array(net.N * net.patchLength);
  let at = 0;
  for (let row = 0; row < rows; row++)
    for (let col = 0; col < cols; col++)
      for (let channel = 0; channel < channels; channel++)
        for (let y = 0; y < ph; y++)
          for (let x = 0; x < pw; x++)
            patches[at++] = pixels[(channel * height + row * ph + y) * width + col * pw + x];
  return patches;
}

/** x (n, inner) times weight (outer, inner) transposed, plus bias: nn.Linear. */
export function linear(x, n, weight, bias, inner, outer) {
  const y = new Float32Array(n * outer);
  const whole = outer - (outer % 4);
  for (let i = 0; i < n; i++) {
    const start = i * inner;
    let out = i * outer;
    let w = 0;
    for (let j = 0; j < whole; j += 4, w += 4 * inner, out += 4) {
      let a = 0;
      let b = 0;
      let c = 0;
      let d = 0;
      for (let k = 0, w0 = w, w1 = w + inner, w2 = w1 + inner, w3 = w2 + inner; k < inner; k++) {
        const value = x[start + k];
        a += value * weight[w0++];
        b += value * weight[w1++];
        c += value * weight[w2++];
        d += value * weight[w3++];
      }
      y[out] = a;
      y[out + 1] = b;
      y[out + 2] = c;
      y[out + 3] = d;
    }
    for (let j = whole; j < outer; j++, w += inner, out++) {
      let sum = 0;
      for (let k = 0; k < inner; k++) sum += x[start + k] * weight[w + k];
      y[out] = sum;
    }
  }
  if (bias) for (let i = 0, at = 0; i < n; i++) for (let j = 0; j < outer; j++) y[at++] += bias[j];
  return y;
}

// linear.wat, compiled: four products at a time, for widths that are multiples of 4.
const LINEAR =
  "AGFzbQEAAAABCwFgB39/f39/f38AAwIBAAUDAQABBxACA21lbQIABmxpbmVhcgAACs8DAcwDAgl/BXsgBEECdCELA0BBACEIA0Ag" +
  "AiAIIAtsaiEMIAwgC2ohDSANIAtqIQ4gDiALaiEP/QwAAAAAAAAAAAAAAAAAAAAAIRD9DAAAAAAAAAAAAAAAAAAAAAAhEf0MAAAA" +
  "AAAAAAAAAAAAAAAAACES/QwAAAAAAAAAAAAAAAAAAAAAIRNBACEJIAAgByALbGohCgNAIAogCWr9AAQAIRQgECAUIAwgCWr9AAQA" +
  "/eYB/eQBIRAgESAUIA0gCWr9AAQA/eYB/eQBIREgEiAUIA4gCWr9AAQA/eYB/eQBIRIgEyAUIA8gCWr9AAQA/eYB/eQBIRMgCUEQ" +
  "aiIJIAtJDQALIBAgEf0NAAECAxAREhMICQoLGBkaGyAQIBH9DQQFBgcUFRYXDA0ODxwdHh/95AEhFCASIBP9DQABAgMQERITCAkK" +
  "CxgZGhsgEiAT/Q0EBQYHFBUWFwwNDg8cHR4f/eQBIRAgBiAHIAVsIAhqQQJ0aiADIAhBAnRq/QAEACAUIBD9DQABAgMEBQYHEBES" +
  "ExQVFhcgFCAQ/Q0ICQoLDA0ODxgZGhscHR4f/eQB/eQB/QsEACAIQQRqIgggBUkNAAsgB0EBaiIHIAFJDQALCw==";

/**
 * The same as linear, about ten times faster, or null where the browser forbids WebAssembly.
 * The weights of the network move into the kernel's memory; behind them is room for a zero bias, an input, an output.
 */
export function kernel(net) {
  let wasm;
  try {
    wasm = new WebAssembly.Instance(
      new WebAssembly.Module(Uint8Array.from(atob(LINEAR), (c) => c.charCodeAt(0))),
    ).exports;
  } catch {
    return null;
  }
  const widest = Math.max(3 * net.D, net.inner, net.patchLength, net.classes);
  const numbers = Object.values(net.weights).reduce((sum, weight) => sum + weight.length, 0);
  wasm.mem.grow(Math.ceil((4 * (numbers + widest + 2 * net.T * widest)) / 65536)); // once: growing makes views useless
  const memory = wasm.mem.buffer;
  let at = 0;
  const take = (length) => {
    at += 4 * length;
    return new Float32Array(memory, at - 4 * length, length);
  };
  for (const [name, weight] of Object.entries(net.weights)) {
    net.weights[name] = take(weight.length);
    net.weights[name].set(weight);
  }
  const [zeros, input, output] = [take(widest), take(net.T * widest), take(net.T * widest)];
  return (x, n, weight, bias, inner, outer) => {
    if (inner % 4 || outer % 4 || n === 0) return linear(x, n, weight, bias, inner, outer);
    input.set(x.length === n * inner ? x : x.subarray(0, n * inner));
    const [from, to] = [input.byteOffset, output.byteOffset];
    wasm.linear(from, n, weight.byteOffset, (bias ?? zeros).byteOffset, inner, outer, to);
    return output.slice(0, n * outer);
  };
}

/** Each row of x (n, D) to mean 0 and variance 1, then scaled and moved: nn.LayerNorm. */
export function layerNorm(x, n, D, scale, shift, eps) {
  const y = new Float32Array(n * D);
  for (let i = 0; i < n; i++) {
    const at = i * D;
    let mean = 0;
    for (let k = 0; k < D; k++) mean += x[at + k];
    mean /= D;
    let variance = 0;
    for (let k = 0; k < D; k++) variance += (x[at + k] - mean) ** 2;
    const factor = 1 / Math.sqrt(variance / D + eps);
    for (let k = 0; k < D; k++) y[at + k] = (x[at + k] - mean) * factor * scale[k] + shift[k];
  }
  return y;
}

/** The error function to 2e-7: Abramowitz and Stegun 1964, 7.1.26. */
export function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series =
    ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  return Math.sign(x) * (1 - series * Math.exp(-x * x));
}

/** Numbers to shares that sum to 1. */
export function softmax(numbers) {
  const top = numbers.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = Array.from(numbers, (x) => Math.exp(x - top));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((x) => x / sum);
}

/**
 * Attention of `queries` rows over `keys` rows, head by head: softmax(q k^T / sqrt(D/h)) v.
 * q, k and v say where the vectors lie: {data, stride, offset}. Heads in `silent` give nothing, but have a map.
 */
function attend(q, k, v, queries, keys, D, h, silent) {
  const width = D / h;
  const scale = width ** -0.5;
  const map = new Float32Array(h * queries * keys);
  const mixed = new Float32Array(queries * D);
  for (let head = 0; head < h; head++) {
    for (let i = 0; i < queries; i++) {
      const row = (head * queries + i) * keys;
      const from = i * q.stride + q.offset + head * width;
      let top = -Infinity;
      for (let j = 0; j < keys; j++) {
        const to = j * k.stride + k.offset + head * width;
        let score = 0;
        for (let d = 0; d < width; d++) score += q.data[from + d] * k.data[to + d];
        map[row + j] = score *= scale;
        if (score > top) top = score;
      }
      let sum = 0;
      for (let j = 0; j < keys; j++) sum += map[row + j] = Math.exp(map[row + j] - top);
      const out = i * D + head * width;
      for (let j = 0; j < keys; j++) {
        const share = (map[row + j] /= sum);
        if (silent?.has(head)) continue;
        const to = j * v.stride + v.offset + head * width;
        for (let d = 0; d < width; d++) mixed[out + d] += share * v.data[to + d];
      }
    }
  }
  return { map, mixed };
}

function add(x, y) {
  for (let i = 0; i < x.length; i++) x[i] += y[i];
  return x;
}

/** Run block number `block` on n tokens x (n, D): {y: tokens, map: (h, n, n)}; heads in `silent` give nothing. */
export function throughBlock(net, block, x, n, silent = null) {
  const { D, h, weights: w } = net;
  const part = (name) => w[`blocks.${block}.${name}`];
  const norm = (y, name) =>
    layerNorm(y, n, D, part(`${name}.weight`), part(`${name}.bias`), net.eps);
  const apply = (y, name, inner, outer) =>
    net.linear(y, n, part(`${name}.weight`), part(`${name}.bias`), inner, outer);
  let map;
  const attention = (y) => {
    const data = apply(y, "attention.qkv", D, 3 * D);
    const [q, k, v] = [0, D, 2 * D].map((offset) => ({ data, stride: 3 * D, offset }));
    const found = attend(q, k, v, n, n, D, h, silent);
    map = found.map;
    return apply(found.mixed, "attention.proj", D, D);
  };
  const mlp = (y) => {
    const wide = apply(y, "mlp.fc1", D, net.inner);
    for (let i = 0; i < wide.length; i++) wide[i] *= 0.5 * (1 + erf(wide[i] * Math.SQRT1_2)); // GELU
    return apply(wide, "mlp.fc2", net.inner, D);
  };
  let y = x.slice();
  if (net.postNorm) {
    y = norm(add(y, attention(y)), "norm1");
    y = norm(add(y, mlp(y)), "norm2");
  } else {
    y = add(y, attention(norm(y, "norm1")));
    y = add(y, mlp(norm(y, "norm2")));
  }
  return { y, map };
}

/**
 * Run the network on pixels (C, H, W), normalised as in training.
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
export function forward(net, pixels, switches = {}) {
  const { order = null, hidden = [], removed = false, positions = true, ablated = [] } = switches;
  const { D, T, N, h, prefix, weights: w } = net;
  const away = new Set(hidden);
  const source = (place) => (order ? order[place] : place);

  const patches = patchify(net, pixels); // (N, C*p*p)
  const kept = []; // places whose patch becomes a token
  for (let place = 0; place < N; place++)
    if (!removed || !away.has(source(place))) kept.push(place);
  const n = prefix + kept.length;
  const out = { logits: null, maps: [], poolMap: null, tokens: [] };
  if (n === 0)
    return { ...out, maps: Array.from({ length: net.L }, () => new Float32Array(h * T * T)) };
  const length = net.patchLength;
  const seen = new Float32Array(kept.length * length);
  kept.forEach((place, i) => {
    const patch = source(place);
    if (!away.has(patch))
      seen.set(patches.subarray(patch * length, (patch + 1) * length), i * length);
  });

  // Equation 1: project, put the cls token in front, add positions.
  let x = new Float32Array(n * D);
  if (prefix) x.set(w["pool.token"]);
  x.set(
    net.linear(
      seen,
      kept.length,
      w["patch_embed.proj.weight"],
      w["patch_embed.proj.bias"],
      length,
      D,
    ),
    prefix * D,
  );
  const seat = [...Array(prefix).keys(), ...kept.map((place) => prefix + place)]; // the token's number among T
  const table = positions && w["positions.table"];
  if (table)
    seat.forEach((token, i) =>
      add(x.subarray(i * D, (i + 1) * D), table.subarray(token * D, (token + 1) * D)),
    );
  out.tokens.push(scatter(x, D, seat, T));

  // Equations 2 and 3: L blocks.
  for (let block = 0; block < net.L; block++) {
    const silent = new Set(ablated.filter(([layer]) => layer === block).map(([, head]) => head));
    const { y, map } = throughBlock(net, block, x, n, silent);
    out.maps.push(scatterMap(map, h, seat, T));
    x = y;
    out.tokens.push(scatter(x, D, seat, T));
  }

  // Equation 4: norm, pool, head.
  if (!net.postNorm) x = layerNorm(x, n, D, w["norm.weight"], w["norm.bias"], net.eps);
  const pooled = pool(net, x, n, (map) => (out.poolMap = scatterPool(map, h, seat, T)));
  out.logits = net.linear(pooled, 1, w["head.weight"], w["head.bias"], D, net.classes);
  return out;
}

function pool(net, x, n, keep) {
  const { D, h, weights: w } = net;
  if (net.pool === "cls") return x.subarray(0, D);
  if (net.pool === "mean") {
    const mean = new Float32Array(D);
    for (let i = 0; i < n; i++) for (let k = 0; k < D; k++) mean[k] += x[i * D + k] / n;
    return mean;
  }
  const data = net.linear(x, n, w["pool.kv.weight"], w["pool.kv.bias"], D, 2 * D);
  const q = { data: w["pool.query"], stride: D, offset: 0 };
  const [k, v] = [0, D].map((offset) => ({ data, stride: 2 * D, offset }));
  const { map, mixed } = attend(q, k, v, 1, n, D, h, null);
  keep(map);
  return net.linear(mixed, 1, w["pool.proj.weight"], w["pool.proj.bias"], D, D);
}

// What n kept tokens computed, back on the T seats; the others stay 0.
function scatter(x, D, seat, T) {
  const all = new Float32Array(T * D);
  seat.forEach((token, i) => all.set(x.subarray(i * D, (i + 1) * D), token * D));
  return all;
}

function scatterMap(map, h, seat, T) {
  const n = seat.length;
  if (n === T) return map;
  const all = new Float32Array(h * T * T);
  for (let head = 0; head < h; head++)
    for (let i = 0; i < n; i++)
      for (let j = 0; j < n; j++)
        all[(head * T + seat[i]) * T + seat[j]] = map[(head * n + i) * n + j];
  return all;
}

function scatterPool(map, h, seat, T) {
  const all = new Float32Array(h * T);
  for (let head = 0; head < h; head++)
    seat.forEach((token, i) => (all[head * T + token] = map[head * seat.length + i]));
  return all;
}

/**
 * Follow attention from the last block back to the first tokens: (T, T), rows sum to 1.
 * Each block hands a token half of itself and half of what it attends to (Abnar and Zuidema 2020, section 3).
 */
export function rollout(maps, h, T) {
  let total = Float32Array.from({ length: T * T }, (_, i) => (i % (T + 1) === 0 ? 1 : 0));
  for (const map of maps) {
    const step = meanOfHeads(map, h);
    const next = new Float32Array(T * T);
    for (let i = 0; i < T; i++) {
      step[i * T + i] += 1;
      let sum = 0;
      for (let j = 0; j < T; j++) sum += step[i * T + j];
      for (let k = 0; k < T; k++) {
        const share = step[i * T + k] / sum;
        if (share) for (let j = 0; j < T; j++) next[i * T + j] += share * total[k * T + j];
      }
    }
    total = next;
  }
  return total;
}

/** A random order of n patches that depends on the seed only and leaves not all at home. */
export function shuffledOrder(n, seed) {
  let state = (seed * 2654435769) >>> 0;
  const random = () => {
    state = (state + 0x6d2b79f5) | 0; // mulberry32
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  const order = [...Array(n).keys()];
  for (let i = n - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  if (n > 1 && order.every((patch, place) => patch === place)) order.push(order.shift());
  return order;
}

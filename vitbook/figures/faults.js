// The wrong versions of the parts of a ViT (kit/parts.js): one small function each. They have their names from
// vitbook.faults, and do what they do there.
import { POST, RIGHT, falling, integers, isMatrix, joined, rowsOf, seated } from "./kit/parts.js";

/** The same numbers in another shape. */
const shaped = (x, rows, cols) => ({ ...x, rows, cols, width: cols });

/** Long lists that depend on sizes alone are made once. */
const lists = new Map();
function once(key, make) {
  if (!lists.has(key)) lists.set(key, make());
  return lists.get(key);
}

/** The numbers of an attention map (B h T, T) by head: (B T T, h), and with back the other way. */
function byHead(t, x, s, back = false) {
  const { B, h, T } = s;
  const table = once(`heads ${B} ${h} ${T} ${back}`, () => headTable(s, back));
  return back ? t.pick(x, table, B * h * T, T) : t.pick(x, table, B * T * T, h);
}

function headTable({ B, h, T }, back) {
  const wide = (T + 3) & ~3;
  const narrow = (h + 3) & ~3;
  const table = new Int32Array(back ? B * h * T * wide : B * T * T * narrow).fill(-1);
  for (let b = 0; b < B; b++)
    for (let head = 0; head < h; head++)
      for (let i = 0; i < T; i++)
        for (let j = 0; j < T; j++) {
          const map = ((b * h + head) * T + i) * wide + j;
          const row = ((b * T + i) * T + j) * narrow + head;
          if (back) table[map] = row;
          else table[row] = map;
        }
  return table;
}

/** Each map of (B h T, T) turned: what was said of queries is said of keys. */
function turned(t, x, { B, h, T }) {
  const wide = (T + 3) & ~3;
  const from = (row, j) => (j < T ? (row - (row % T) + j) * wide + (row % T) : -1);
  const make = () => integers(B * h * T * wide, (i) => from(Math.floor(i / wide), i % wide));
  return t.pick(x, once(`turned ${B} ${h} ${T}`, make), B * h * T, T);
}

/** A map that is the same for all images and heads, and not learned; share says what token i gets of token j. */
function everywhere(t, { B, h, T }, name, share) {
  const f = (_, n) => share(Math.floor(n / T) % T, n % T);
  const make = () => Float32Array.from({ length: B * h * T * T }, f);
  return t.constant(once(`${name} ${B} ${h} ${T}`, make), B * h * T);
}

/** Numbers about N(0, 1) in rows, drawn anew in each call. */
const drawn = (t, rows, D, { normal }, std = 1) =>
  t.constant(
    Float32Array.from({ length: rows * D }, () => std * normal()),
    rows,
  );

/** The wrong versions, by family and name; each replaces the parts that it gives. */
export const FAMILIES = {};

FAMILIES.cut = {
  "reshape alone": { pixel: (n, i, { length }) => n * length + i },
  "column by column": {
    pixel: (n, i, s) => RIGHT.pixel((n % s.rows) * s.cols + Math.floor(n / s.rows), i, s),
  },
  "transposed patches": {
    pixel: (n, i, s) => RIGHT.pixel(n, (i % s.ph) * s.pw + Math.floor(i / s.ph), s),
  },
  "last patch first": { pixel: (n, i, s) => RIGHT.pixel((n + s.N - 1) % s.N, i, s) },
  "reverse order": { pixel: (n, i, s) => RIGHT.pixel(s.N - 1 - n, i, s) },
};

FAMILIES.place = {
  "made in each call": {
    learns: (name) => name !== "positions.table",
    positions: (t, x, table, s) => {
      const other = drawn(t, s.T, s.D, s, s.std);
      return RIGHT.positions(t, x, other, s);
    },
  },
  "no parameter": { learns: (name) => name !== "positions.table" },
};

FAMILIES.attend = {
  undivided: {
    mix: (q, k, v, { scores, softmax, mixed }) => mixed(softmax(scores(q, k)), v),
  },
  "softmax over queries": {
    mix: (q, k, v, { t, s, scores, times, softmax, mixed, d }) =>
      mixed(turned(t, softmax(turned(t, times(scores(q, k), 1 / Math.sqrt(d)), s)), s), v),
  },
  "softmax over heads": {
    mix: (q, k, v, { t, s, scores, times, softmax, mixed, d }) =>
      mixed(byHead(t, softmax(byHead(t, times(scores(q, k), 1 / Math.sqrt(d)), s)), s, true), v),
  },
  "divided for all heads": {
    mix: (q, k, v, { s, scores, times, softmax, mixed }) =>
      mixed(softmax(times(scores(q, k), 1 / Math.sqrt(s.D))), v),
  },
  "divided for the tokens": {
    mix: (q, k, v, { s, scores, times, softmax, mixed }) =>
      mixed(softmax(times(scores(q, k), 1 / Math.sqrt(s.T))), v),
  },
  "divided without root": {
    mix: (q, k, v, { scores, times, softmax, mixed, d }) =>
      mixed(softmax(times(scores(q, k), 1 / d)), v),
  },
  multiplied: {
    mix: (q, k, v, { scores, times, softmax, mixed, d }) =>
      mixed(softmax(times(scores(q, k), Math.sqrt(d))), v),
  },
  "no softmax": {
    mix: (q, k, v, { scores, times, mixed, d }) => mixed(times(scores(q, k), 1 / Math.sqrt(d)), v),
  },
  "divided after softmax": {
    mix: (q, k, v, { scores, times, softmax, mixed, d }) =>
      times(mixed(softmax(scores(q, k)), v), 1 / Math.sqrt(d)),
  },
  "softmax twice": {
    mix: (q, k, v, { scores, times, softmax, mixed, d }) =>
      mixed(softmax(softmax(times(scores(q, k), 1 / Math.sqrt(d)))), v),
  },
  "queries and keys exchanged": {
    mix: (q, k, v, { scores, times, softmax, mixed, d }) =>
      mixed(softmax(times(scores(k, q), 1 / Math.sqrt(d))), v),
  },
  "keys mixed": {
    mix: (q, k, v, { scores, times, softmax, mixed, d }) =>
      mixed(softmax(times(scores(q, k), 1 / Math.sqrt(d))), k),
  },
  causal: {
    mix: (q, k, v, { t, s, scores, times, softmax, mixed, d }) => {
      const mask = everywhere(t, s, "later", (i, j) => (j > i ? -1e30 : 0));
      return mixed(softmax(t.add(times(scores(q, k), 1 / Math.sqrt(d)), mask)), v);
    },
  },
  "only itself": {
    mix: (q, k, v, { t, s, mixed }) =>
      mixed(
        everywhere(t, s, "itself", (i, j) => (i === j ? 1 : 0)),
        v,
      ),
  },
  uniform: {
    mix: (q, k, v, { t, s, mixed }) =>
      mixed(
        everywhere(t, s, "all", () => 1 / s.T),
        v,
      ),
  },
  "over the batch": {
    layer: (t, x, { B, T, D, ...s }, attention) => {
      const across = rowsOf(t, x, B * T, D, (row) => (row % B) * T + Math.floor(row / B));
      const y = attention(across, { ...s, D, B: T, T: B });
      return rowsOf(t, y, B * T, D, (row) => (row % T) * B + Math.floor(row / T));
    },
  },
  "merged by reshape": {
    merge: (b, i, head, { h, T, d }) => ((b * T + i) * h + head) * d,
  },
  "split by view": {
    split: (b, head, i, part, { h, T, D, d }) => {
      const piece = head * T + i;
      return ((b * T + Math.floor(piece / h)) * 3 + part) * D + (piece % h) * d;
    },
  },
  "batch as sequence": {
    layer: (t, x, { B, T, ...s }, attention) => attention(x, { ...s, B: 1, T: B * T }),
  },
  "first image for all": {
    layer: (t, x, { B, T, D, ...s }, attention) => {
      const first = rowsOf(t, x, T, D, (row) => row);
      const y = attention(first, { ...s, T, D, B: 1 });
      return rowsOf(t, y, B * T, D, (row) => row % T);
    },
  },
  "centred over the batch": {
    layer: (t, x, s, attention) => {
      const { B, T, D } = s;
      const across = rowsOf(t, x, B * T, D, (row) => (row % B) * T + Math.floor(row / B));
      const mean = rowsOf(t, t.means(across, B), B * T, D, (row) => row % T);
      return attention(t.add(x, mean, -1), s);
    },
  },
  deleted: {
    layer: (t, x) => t.times(x, 0),
  },
};

FAMILIES.wire = {
  "normalise then add": {
    block: (x, { attention, mlp, norm1, norm2, add }) => {
      x = norm1(x);
      x = add(x, attention(x));
      x = norm2(x);
      return add(x, mlp(x));
    },
  },
  "post norm": { block: POST.block },
  "first half only": {
    block: (x, { attention, mlp, norm1, norm2, add }) => {
      x = norm1(x);
      x = add(x, attention(x));
      return add(x, mlp(norm2(x)));
    },
  },
  "forgotten plus": {
    block: (x, { attention, mlp, norm1, norm2, add }) => {
      x = norm1(x);
      return add(x, mlp(norm2(add(x, attention(x)))));
    },
  },
  "only for the mlp": {
    block: (x, { attention, mlp, norm1, norm2, add }) =>
      add(x, mlp(norm2(add(x, attention(norm1(x)))))),
  },
  "no second plus": {
    block: (x, { attention, mlp, norm1, norm2, add }) => mlp(norm2(add(x, attention(norm1(x))))),
  },
  "no first plus": {
    block: (x, { attention, mlp, norm1, norm2, add }) => {
      x = attention(norm1(x));
      return add(x, mlp(norm2(x)));
    },
  },
  "no plus": {
    block: (x, { attention, mlp, norm1, norm2 }) => mlp(norm2(attention(norm1(x)))),
  },
  "no norms": {
    block: (x, { attention, mlp, add }) => {
      x = add(x, attention(x));
      return add(x, mlp(x));
    },
  },
  "no second norm": {
    block: (x, { attention, mlp, norm1, add }) => {
      x = add(x, attention(norm1(x)));
      return add(x, mlp(x));
    },
  },
  "swapped norms": {
    block: (x, { attention, mlp, norm1, norm2, add }) => {
      x = add(x, attention(norm2(x)));
      return add(x, mlp(norm1(x)));
    },
  },
  "one norm": {
    block: (x, { attention, mlp, norm1, add }) => {
      x = add(x, attention(norm1(x)));
      return add(x, mlp(norm1(x)));
    },
  },
  parallel: {
    block: (x, { attention, mlp, norm1, norm2, add }) =>
      add(add(x, attention(norm1(x))), mlp(norm2(x))),
  },
  "mlp first": {
    block: (x, { attention, mlp, norm1, norm2, add }) => {
      x = add(x, mlp(norm2(x)));
      return add(x, attention(norm1(x)));
    },
  },
  "branches normed last": {
    block: (x, { attention, mlp, norm1, norm2, add }) => {
      x = add(x, norm1(attention(x)));
      return add(x, norm2(mlp(x)));
    },
  },
  "with relu": {
    activation: (t, x) => t.relu(x),
  },
  "over tokens and channels": {
    norm: (t, x, gain, shift, eps, { B, T, D }) => {
      const [gains, shifts] = [gain, shift].map((w) => rowsOf(t, w, T, D, () => 0)); // (T, D)
      const y = t.norm(shaped(x, B, T * D), shaped(gains, 1, T * D), shaped(shifts, 1, T * D), eps);
      return shaped(y, B * T, D);
    },
  },
};

FAMILIES.pool = {
  "last read first": { prepend: (t, token, patches, s) => seated(t, token, patches, s, s.N) },
  "next token read": { read: (t, x, { B, T, D }) => rowsOf(t, x, B, D, (b) => b * T + 1) },
  "mean with cls": { read: (t, x, { T }) => t.means(x, T) },
  "mean of patches added": {
    prepend: (t, token, patches, s) => {
      const tokens = rowsOf(t, token, s.B, s.D, () => 0);
      return joined(t, t.add(tokens, t.means(patches, s.N)), patches, s, 0);
    },
  },
  "token as it went": { read: (t, x, s, token) => rowsOf(t, token, s.B, s.D, () => 0) },
  "new at each call": {
    learns: (name) => name !== "pool.token",
    prepend: (t, token, patches, s) => seated(t, drawn(t, 1, s.D, s), patches, s, 0),
  },
  "plain tensor": { learns: (name) => name !== "pool.token" },
  "plain cls": { learns: (name) => name !== "pool.token" },
  "listed blocks": { learns: (name) => !name.startsWith("blocks.") },
  "forgotten block": { blocks: (L) => [...Array(L - 1).keys()] },
  "shared block": {
    blocks: (L) => Array(L).fill(0),
    learns: (name) => !/^blocks\.[1-9]/.test(name),
  },
  "unused positions": { positions: (t, x) => x },
  "frozen embedding": {
    embedded: (t, x) => ({ ...x, grad: t.room(x.rows * x.cols) }), // the gradient goes nowhere
  },
  "no last norm": { last: (x) => x, learns: (name) => !name.startsWith("norm.") },
  "extra linear": {
    extra: ({ D }) => ({ "projection.weight": [D, D], "projection.bias": [1, D] }),
    patched: (x, linear) => linear(x, "projection"),
  },
  "softmax inside": { logits: (t, x) => t.softmax(x) },
};

FAMILIES.train = {
  "no warmup": { rate: (step, steps, peak) => RIGHT.rate(step, steps, peak, 0) },
  "forgotten peak": { rate: (step, steps, peak, warmup) => RIGHT.rate(step, steps, 1, warmup) },
  "whole cosine": {
    rate: (step, steps, peak, warmup) =>
      step < warmup
        ? RIGHT.rate(step, steps, peak, warmup)
        : peak * falling((2 * (step - warmup)) / (steps - warmup)),
  },
  "stays at the peak": {
    rate: (step, steps, peak, warmup) =>
      step < warmup ? RIGHT.rate(step, steps, peak, warmup) : peak,
  },
  "everything decays": { decays: () => true },
  "groups swapped": { decays: (name, weight) => !isMatrix(name, weight) },
  "gradient not cleared": { cleared: false },
  "not shuffled": {
    order: (order, labels) => order.sort((a, b) => labels[a] - labels[b] || a - b),
  },
};

/** All of them: {name: {part: wrong version}}. */
export const FAULTS = Object.assign({}, ...Object.values(FAMILIES));

/** The parts of a model with these faults. */
export function partsOf(faults) {
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

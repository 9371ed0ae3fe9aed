// The wrong versions of the parts of a ViT (kit/parts.js) that a reader can meet in a race: one small function each.
// They have their names from vitbook.faults, and do what they do there.
import { POST, RIGHT, integers, seated } from "./kit/parts.js";

/** Where the numbers of turned maps lie; made once for each size, because it is long. */
const tables = new Map();

/** Each map of (B h T, T) turned: what was said of queries is said of keys. */
function turned(t, x, { B, h, T }) {
  const wide = (T + 3) & ~3;
  const from = (row, j) => (j < T ? (row - (row % T) + j) * wide + (row % T) : -1);
  const key = `${B} ${h} ${T}`;
  if (!tables.has(key))
    tables.set(
      key,
      integers(B * h * T * wide, (i) => from(Math.floor(i / wide), i % wide)),
    );
  return t.pick(x, tables.get(key), B * h * T, T);
}

/** The wrong versions, by family and name; each replaces the parts that it gives. */
export const FAMILIES = {};

FAMILIES.cut = {
  "reshape alone": { pixel: (n, i, { length }) => n * length + i },
};

FAMILIES.place = {
  "made in each call": {
    learns: (name) => name !== "positions.table",
    positions: (t, x, table, s) => {
      const other = Float32Array.from({ length: s.T * s.D }, () => s.std * s.normal());
      return RIGHT.positions(t, x, t.constant(other, s.T), s);
    },
  },
};

FAMILIES.attend = {
  undivided: {
    mix: (q, k, v, { scores, softmax, mixed }) => mixed(softmax(scores(q, k)), v),
  },
  "softmax over queries": {
    mix: (q, k, v, { t, s, scores, times, softmax, mixed, d }) =>
      mixed(turned(t, softmax(turned(t, times(scores(q, k), 1 / Math.sqrt(d)), s)), s), v),
  },
  "softmax twice": {
    mix: (q, k, v, { scores, times, softmax, mixed, d }) =>
      mixed(softmax(softmax(times(scores(q, k), 1 / Math.sqrt(d)))), v),
  },
  uniform: {
    mix: (q, k, v, { t, s: { B, h, T }, mixed }) =>
      mixed(t.constant(new Float32Array(B * h * T * T).fill(1 / T), B * h * T), v),
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
  "no plus": {
    block: (x, { attention, mlp, norm1, norm2 }) => mlp(norm2(attention(norm1(x)))),
  },
};

FAMILIES.pool = {
  "last read first": { prepend: (t, token, patches, s) => seated(t, token, patches, s, s.N) },
  "listed blocks": { learns: (name) => !name.startsWith("blocks.") },
  "unused positions": { positions: (t, x) => x },
  "softmax inside": { logits: (t, x) => t.softmax(x) },
};

FAMILIES.train = {
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

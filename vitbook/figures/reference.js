// A block, a norm and the patches in plain loops, written apart from kit/vit.js: what the property tests compare with.
// Arrays are flat, row by row, like torch's; weights are those of a network as torch has them, matrices (out, in).
import { erf } from "./kit/plain.js";

/** The weights by name of {layout, numbers}, what asTorch gives. */
export function weightsOf({ layout, numbers }) {
  let at = 0;
  const next = (shape) => numbers.subarray(at, (at += shape.reduce((n, side) => n * side, 1)));
  return Object.fromEntries(layout.map(([name, shape]) => [name, next(shape)]));
}

/** x (n, inner) times a weight (outer, inner) transposed, plus a bias: nn.Linear. */
export function plainLinear(x, n, weight, bias) {
  const outer = bias.length;
  const inner = weight.length / outer;
  const y = new Float32Array(n * outer);
  for (let i = 0; i < n; i++)
    for (let j = 0; j < outer; j++) {
      let sum = bias[j];
      for (let k = 0; k < inner; k++) sum += x[i * inner + k] * weight[j * inner + k];
      y[i * outer + j] = sum;
    }
  return y;
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

/** Row i of what a head makes of q, k and v, side by side in data (n, 3 D): softmax(q k^T / sqrt(d)) v. */
function attended(data, n, D, d, head, i) {
  const at = (token, part) => (3 * token + part) * D + head * d;
  const dot = (j) => {
    let sum = 0;
    for (let c = 0; c < d; c++) sum += data[at(i, 0) + c] * data[at(j, 1) + c];
    return sum / Math.sqrt(d);
  };
  const scores = Array.from({ length: n }, (_, j) => dot(j));
  const top = Math.max(...scores);
  const powers = scores.map((score) => Math.exp(score - top));
  const total = powers.reduce((a, b) => a + b);
  return Array.from({ length: d }, (_, c) =>
    powers.reduce((sum, power, j) => sum + (power / total) * data[at(j, 2) + c], 0),
  );
}

/** Block number b of a pre-norm ViT on tokens x (n, D): (n, D). */
export function plainBlock({ D, h, d }, eps, weights, b, x, n) {
  const part = (name) => weights[`blocks.${b}.${name}`];
  const norm = (y, name) => layerNorm(y, n, D, part(`${name}.weight`), part(`${name}.bias`), eps);
  const linear = (y, name) => plainLinear(y, n, part(`${name}.weight`), part(`${name}.bias`));
  const add = (y, z) => y.map((number, i) => number + z[i]);
  const data = linear(norm(x, "norm1"), "attention.qkv");
  const mixed = new Float32Array(n * D);
  for (let i = 0; i < n; i++)
    for (let head = 0; head < h; head++)
      mixed.set(attended(data, n, D, d, head, i), i * D + head * d);
  const y = add(x, linear(mixed, "attention.proj"));
  const wide = linear(norm(y, "norm2"), "mlp.fc1").map(
    (a) => 0.5 * a * (1 + erf(a * Math.SQRT1_2)),
  );
  return add(y, linear(wide, "mlp.fc2"));
}

/** Cut a square gray image into patches (N, p * p), row by row. */
export function plainPatches(image, { height, ph: p, rows, cols }) {
  const patches = [];
  for (let row = 0; row < rows; row++)
    for (let col = 0; col < cols; col++)
      for (let y = 0; y < p; y++)
        for (let x = 0; x < p; x++) patches.push(image[(row * p + y) * height + col * p + x]);
  return Float32Array.from(patches);
}

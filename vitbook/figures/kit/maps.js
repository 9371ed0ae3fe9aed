// Attention maps and their rows, and the shares that softmax makes.

/** The place of the largest number, the first of equals; the place `but` is left out. */
export function largest(numbers, but = -1) {
  const better = (value, i, best) => i !== but && value > numbers[best];
  return numbers.reduce((best, value, i) => (better(value, i, best) ? i : best), but ? 0 : 1);
}

/** The cosines of the angles between row n of a table (N, width) and all of its rows; 0 with a row of zeros. */
export function cosines(table, width, n) {
  const dot = (a, b) => {
    let sum = 0;
    for (let d = 0; d < width; d++) sum += table[a * width + d] * table[b * width + d];
    return sum;
  };
  const cosine = (m) => dot(n, m) / (Math.sqrt(dot(n, n) * dot(m, m)) || 1);
  return Array.from({ length: table.length / width }, (_, m) => cosine(m));
}

/** The mean of the heads of one block, (h, T, T) -> (T, T), or of the pooling, (h, T) -> (T). */
export function meanOfHeads(map, h) {
  const mean = new Float32Array(map.length / h);
  for (let start = 0; start < map.length; start += mean.length)
    for (let i = 0; i < mean.length; i++) mean[i] += map[start + i] / h;
  return mean;
}

/** Numbers to shares that sum to 1. */
export function softmax(numbers) {
  const top = numbers.reduce((a, b) => Math.max(a, b), -Infinity);
  const powers = Array.from(numbers, (x) => Math.exp(x - top));
  const sum = powers.reduce((a, b) => a + b, 0);
  return powers.map((x) => x / sum);
}

export const AXES = ["keys", "queries"]; // over which the softmax runs: the second is the bug

/** Weights from matrices of T × T scores, each times scale: a softmax of each row or, over queries, of each column. */
export function weigh(scores, T, axis, scale) {
  const [line, step] = axis === "keys" ? [T, 1] : [1, T];
  const weights = new Float32Array(scores.length);
  for (let map = 0; map < scores.length; map += T * T)
    for (let n = 0; n < T; n++) {
      const places = Array.from({ length: T }, (_, i) => map + n * line + i * step);
      softmax(places.map((at) => scale * scores[at])).forEach((w, i) => (weights[places[i]] = w));
    }
  return weights;
}

/** The sum of some numbers. */
export const sumOf = (numbers) => numbers.reduce((a, b) => a + b, 0);

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

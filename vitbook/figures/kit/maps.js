// Attention maps and their rows.

/** The place of the largest number, the first of equals. */
export function largest(numbers) {
  return numbers.reduce((best, value, i) => (value > numbers[best] ? i : best), 0);
}

/** The mean of the heads of one block, (h, T, T) -> (T, T), or of the pooling, (h, T) -> (T). */
export function meanOfHeads(map, h) {
  const mean = new Float32Array(map.length / h);
  for (let start = 0; start < map.length; start += mean.length)
    for (let i = 0; i < mean.length; i++) mean[i] += map[start + i] / h;
  return mean;
}

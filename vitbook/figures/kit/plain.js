// The kernels of kernels.wat that a network needs on its way forward, in plain JavaScript: ten times slower, for browsers
// that forbid WebAssembly (iOS's Lockdown Mode does). Addresses and strides count bytes, all else counts numbers.

/** A memory that grows, as WebAssembly has it. */
function plainMemory() {
  const mem = { buffer: new ArrayBuffer(65536) };
  mem.grow = (pages) => {
    const larger = new Uint8Array(mem.buffer.byteLength + 65536 * pages);
    larger.set(new Uint8Array(mem.buffer));
    mem.buffer = larger.buffer;
  };
  return mem;
}

/** The error function to 2e-7: Abramowitz and Stegun 1964, 7.1.26. */
export function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const series =
    ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t;
  return Math.sign(x) * (1 - series * Math.exp(-x * x));
}

export function plainKernels() {
  const mem = plainMemory();
  const part = (bytes, n) => new Float32Array(mem.buffer, bytes, n);
  const starts = (bytes, n) => new Int32Array(mem.buffer, bytes, n);
  const rowsOf = (bytes, rows, cols) =>
    Array.from({ length: rows }, (_, row) => part(bytes + 4 * row * cols, cols));

  function product(A, am, ak, B, bk, C, cm, I, im, M, N, K) {
    const F = part(0, mem.buffer.byteLength / 4);
    for (let m = 0; m < M; m++) {
      const row = part(C + m * cm, N);
      row.set(part(I + m * im, N));
      for (let k = 0; k < K; k++) {
        const factor = F[(A + m * am + k * ak) >> 2];
        for (let n = 0, b = (B + k * bk) >> 2; n < N; n++) row[n] += factor * F[b + n];
      }
    }
  }
  function turn(x, xr, y, yc, rows, cols) {
    for (let r = 0; r < rows; r++)
      for (let c = 0; c < cols; c++)
        part(y + c * yc + 4 * r, 1)[0] = part(x + r * xr + 4 * c, 1)[0];
  }
  const padded = (cols) => (cols + 3) & ~3;
  function take(x, list, y, rows, cols) {
    const row = (i) => part(y + 4 * i * padded(cols), cols);
    starts(list, rows).forEach((from, i) => row(i).set(part(x + 4 * from, cols)));
  }
  function put(x, list, y, rows, cols) {
    starts(list, rows).forEach((to, i) => plus(y + 4 * to, x + 4 * i * padded(cols), cols, 1));
  }
  function plus(y, x, n, factor) {
    const [to, from] = [part(y, n), part(x, n)];
    for (let i = 0; i < n; i++) to[i] += factor * from[i];
  }
  function softmax(x, y, rows, width, row) {
    const [from, to] = [x, y].map((bytes) => rowsOf(bytes, rows, row / 4));
    from.forEach((numbers, i) => {
      const some = numbers.subarray(0, width);
      const top = some.reduce((a, b) => Math.max(a, b));
      const powers = some.map((one) => Math.exp(one - top));
      const sum = powers.reduce((a, b) => a + b);
      to[i].set(powers.map((power) => power / sum));
    });
  }
  function gelu(x, y, slope, n) {
    part(y, n).set(part(x, n).map((a) => 0.5 * a * (1 + erf(a * Math.SQRT1_2))));
  }
  function norm(x, gain, shift, y, hat, by, rows, cols, eps) {
    const [scale, move] = [part(gain, cols), part(shift, cols)];
    rowsOf(x, rows, cols).forEach((numbers, row) => {
      const mean = numbers.reduce((a, b) => a + b) / cols;
      const variance = numbers.reduce((sum, one) => sum + (one - mean) ** 2, 0) / cols;
      const factor = 1 / Math.sqrt(variance + eps);
      const out = numbers.map((one, i) => (one - mean) * factor * scale[i] + move[i]);
      part(y + 4 * row * cols, cols).set(out);
    });
  }
  return { mem, product, turn, take, put, plus, softmax, gelu, norm };
}

// A tape: it computes with float32 numbers, remembers each operation, and goes back through them for the gradients.
// The letters are the book's: B images, T tokens, D width, h heads. The arithmetic is that of kernels.wat.
//
// A tensor is {at, grad, rows, cols, width}, row by row in the tape's memory: where its numbers and its gradients begin
// (grad is null where none is needed). Columns come in fours; those from width on are padding, and hold 0.
import { plainKernels } from "./plain.js";

// kernels.wat, compiled.
const KERNELS =
  "AGFzbQEAAAABZAtgDH9/f39/f39/f39/fwBgBn9/f39/fwBgBX9/f39/AGAEf39/fQBgBH9/f38AYAF7AX1gAn9/AX1gAXsBe2AJf39/f39/f399" +
  "AGAJf39/f39/f39/AGAKf39/f399fX19fQADEhEAAQICAwQEBQYHAgIECAkHCgUDAQABB4gBDwNtZW0CAAdwcm9kdWN0AAAEdHVybgABBHRha2UA" +
  "AgNwdXQAAwRwbHVzAAQLcGx1c1Byb2R1Y3QABQhwbHVzUm93cwAGB3NxdWFyZXMACAdzb2Z0bWF4AAoLc29mdG1heEJhY2sACwRnZWx1AAwEbm9y" +
  "bQANCG5vcm1CYWNrAA4FYWRhbXcAEAr4GhHPBAISfwt7A0AgDUEEaiAKSUEEdCEPQQAhDANAIAMgDUECdGohESAAIAwgAWxqIRIgByANQQJ0aiAM" +
  "IAhsaiEWIAUgDUECdGogDCAGbGohGiAMQQFqIAlJIRAgEiAQIAFsaiETIBYgECAIbGohFyAaIBAgBmxqIRsgDEECaiAJSSEQIBMgECABbGohFCAX" +
  "IBAgCGxqIRggGyAQIAZsaiEcIAxBA2ogCUkhECAUIBAgAWxqIRUgGCAQIAhsaiEZIBwgECAGbGohHSAW/QAEACEhIBYgD2r9AAQAISUgF/0ABAAh" +
  "IiAXIA9q/QAEACEmIBj9AAQAISMgGCAPav0ABAAhJyAZ/QAEACEkIBkgD2r9AAQAISggCyEOA0AgEf0ABAAhHyARIA9q/QAEACEgIBL9CQIAIR4g" +
  "ISAeIB/95gH95AEhISAlIB4gIP3mAf3kASElIBP9CQIAIR4gIiAeIB/95gH95AEhIiAmIB4gIP3mAf3kASEmIBT9CQIAIR4gIyAeIB/95gH95AEh" +
  "IyAnIB4gIP3mAf3kASEnIBX9CQIAIR4gJCAeIB/95gH95AEhJCAoIB4gIP3mAf3kASEoIBIgAmohEiATIAJqIRMgFCACaiEUIBUgAmohFSARIARq" +
  "IREgDkEBayIODQALIBogIf0LBAAgGiAPaiAl/QsEACAbICL9CwQAIBsgD2ogJv0LBAAgHCAj/QsEACAcIA9qICf9CwQAIB0gJP0LBAAgHSAPaiAo" +
  "/QsEACAMQQRqIgwgCUkNAAsgDUEIaiINIApJDQALC04BA38DQCAFIQYgACEHIAIhCANAIAggByoCADgCACAHQQRqIQcgCCADaiEIIAZBAWsiBg0A" +
  "CyAAIAFqIQAgAkEEaiECIARBAWsiBA0ACwtUAQJ/IARBAnQhBANAIAAgASgCAEECdGohBSACIARqIQYDQCACIAX9AAQA/QsEACAFQRBqIQUgAkEQ" +
  "aiICIAZJDQALIAFBBGohASADQQFrIgMNAAsLXQECfyAEQQJ0IQQDQCACIAEoAgBBAnRqIQUgACAEaiEGA0AgBSAF/QAEACAA/QAEAP3kAf0LBAAg" +
  "BUEQaiEFIABBEGoiACAGSQ0ACyABQQRqIQEgA0EBayIDDQALC0ABAX8gACACQQJ0aiEEA0AgACAA/QAEACAD/RMgAf0ABAD95gH95AH9CwQAIAFB" +
  "EGohASAAQRBqIgAgBEkNAAsLSQEBfyAAIANBAnRqIQQDQCAAIAD9AAQAIAH9AAQAIAL9AAQA/eYB/eQB/QsEACABQRBqIQEgAkEQaiECIABBEGoi" +
  "ACAESQ0ACwtJAQJ/IAAgA0ECdGohBQNAIAAhBANAIAQgBP0ABAAgAf0ABAD95AH9CwQAIAFBEGohASAEQRBqIgQgBUkNAAsgAkEBayICDQALCxkA" +
  "IAD9HwAgAP0fAZIgAP0fAiAA/R8DkpILOQIBfwJ7IAAgAUECdGohAgNAIAD9AAQAIQMgBCADIAP95gH95AEhBCAAQRBqIgAgAkkNAAsgBBAHC4oD" +
  "AQN7IAD9DAAAcMIAAHDCAABwwgAAcML9RCEDIAD9DAAAcMIAAHDCAABwwgAAcML96QEhACAA/Qw7qrg/O6q4PzuquD87qrg//eYB/WohASAAIAH9" +
  "DACAMT8AgDE/AIAxPwCAMT/95gH95QEgAf0Mg4BeuYOAXrmDgF65g4Beuf3mAf3lASEC/QxnaVA5Z2lQOWdpUDlnaVA5IQD9DM5DtzrOQ7c6zkO3" +
  "Os5DtzogACAC/eYB/eQBIQD9DAiJCDwIiQg8CIkIPAiJCDwgACAC/eYB/eQBIQD9DMGpKj3BqSo9wakqPcGpKj0gACAC/eYB/eQBIQD9DKqqKj6q" +
  "qio+qqoqPqqqKj4gACAC/eYB/eQBIQD9DAAAAD8AAAA/AAAAPwAAAD8gACAC/eYB/eQBIQAgACACIAL95gH95gEgAv3kASEAIAD9DAAAgD8AAIA/" +
  "AACAPwAAgD/95AEhACAB/fgB/Qx/AAAAfwAAAH8AAAB/AAAA/a4BIQEgAyAAIAFBF/2rAf3mAf1OC8YCAgF/A3sDQEEAIQUDQCABIAVqIAAgBWr9" +
  "AAQA/QsEACAFQRBqIgUgBEkNAAsgA0ECdCEFAkADQCAFIARPDQEgASAFakPK8knxOAIAIAVBBGohBQwACwv9DMrySfHK8knxyvJJ8crySfEhBkEA" +
  "IQUDQCAGIAEgBWr9AAQA/ekBIQYgBUEQaiIFIARJDQALIAb9HwAgBv0fAZcgBv0fAiAG/R8Dl5f9EyEG/QwAAAAAAAAAAAAAAAAAAAAAIQdBACEF" +
  "A0AgASAFav0ABAAgBv3lARAJIQggASAFaiAI/QsEACAHIAj95AEhByAFQRBqIgUgBEkNAAtDAACAPyAHEAeV/RMhB0EAIQUDQCABIAVqIAcgASAF" +
  "av0ABAD95gH9CwQAIAVBEGoiBSAESQ0ACyAAIARqIQAgASAEaiEBIAJBAWsiAg0ACwu0AQIBfwF7A0D9DAAAAAAAAAAAAAAAAAAAAAAhBkEAIQUD" +
  "QCAGIAAgBWr9AAQAIAEgBWr9AAQA/eYB/eQBIQYgBUEQaiIFIARJDQALIAYQB/0TIQZBACEFA0AgAiAFaiACIAVq/QAEACAAIAVq/QAEACABIAVq" +
  "/QAEACAG/eUB/eYB/eQB/QsEACAFQRBqIgUgBEkNAAsgACAEaiEAIAEgBGohASACIARqIQIgA0EBayIDDQALC88DAgF/BXsgACADQQJ0aiEEA0Ag" +
  "AP0ABAAhBSAF/eAB/QzzBDU/8wQ1P/MENT/zBDU//eYBIQYgBiAG/eYB/eEBEAkhCP0MAACAPwAAgD8AAIA/AACAP/0MAACAPwAAgD8AAIA/AACA" +
  "P/0MBbqnPgW6pz4Fuqc+BbqnPiAG/eYB/eQB/ecBIQf9DCLchz8i3Ic/ItyHPyLchz8hCf0M4wC6v+MAur/jALq/4wC6vyAJIAf95gH95AEhCf0M" +
  "4/C1P+PwtT/j8LU/4/C1PyAJIAf95gH95AEhCf0MjqmRvo6pkb6OqZG+jqmRviAJIAf95gH95AEhCf0MBnmCPgZ5gj4GeYI+BnmCPiAJIAf95gH9" +
  "5AEhCf0MAACAPwAAgD8AAIA/AACAPyAJIAf95gEgCP3mAf3lASEJIAkgBf0MAAAAgAAAAIAAAACAAAAAgP1O/VAhCf0MAAAAPwAAAD8AAAA/AAAA" +
  "P/0MAACAPwAAgD8AAIA/AACAPyAJ/eQB/eYBIQkgASAFIAn95gH9CwQAIAIgCSAFIAj95gH9DCpCzD4qQsw+KkLMPipCzD795gH95AH9CwQAIAFB" +
  "EGohASACQRBqIQIgAEEQaiIAIARJDQALC70CAwF/AX0De0MAAIA/IAezlSEKIAdBAnQhBwNA/QwAAAAAAAAAAAAAAAAAAAAAIQtBACEJA0AgCyAA" +
  "IAlq/QAEAP3kASELIAlBEGoiCSAHSQ0ACyALEAcgCpT9EyEN/QwAAAAAAAAAAAAAAAAAAAAAIQtBACEJA0AgACAJav0ABAAgDf3lASEMIAsgDCAM" +
  "/eYB/eQBIQsgCUEQaiIJIAdJDQALIAVDAACAPyALEAcgCpQgCJKRlTgCACAF/QkCACELQQAhCQNAIAsgACAJav0ABAAgDf3lAf3mASEMIAQgCWog" +
  "DP0LBAAgAyAJaiACIAlq/QAEACAMIAEgCWr9AAQA/eYB/eQB/QsEACAJQRBqIgkgB0kNAAsgACAHaiEAIAMgB2ohAyAEIAdqIQQgBUEEaiEFIAZB" +
  "AWsiBg0ACwvnAgMBfwF9BXtDAACAPyAIs5UhCiAIQQJ0IQgDQP0MAAAAAAAAAAAAAAAAAAAAACEO/QwAAAAAAAAAAAAAAAAAAAAAIQ9BACEJA0Ag" +
  "ACAJav0ABAAhCyACIAlq/QAEACEMIAsgASAJav0ABAD95gEhDSAOIA395AEhDiAPIA0gDP3mAf3kASEPIAUgCWogBSAJav0ABAAgCyAM/eYB/eQB" +
  "/QsEACAGIAlqIAYgCWr9AAQAIAv95AH9CwQAIAlBEGoiCSAISQ0ACyAOEAcgCpT9EyEOIA8QByAKlP0TIQ9BACEJA0AgACAJav0ABAAgASAJav0A" +
  "BAD95gEhDSANIA795QEgAiAJav0ABAAgD/3mAf3lASENIAQgCWogBCAJav0ABAAgA/0JAgAgDf3mAf3kAf0LBAAgCUEQaiIJIAhJDQALIAAgCGoh" +
  "ACACIAhqIQIgBCAIaiEEIANBBGohAyAHQQFrIgcNAAsLHwAgACAA/eAB/QxgQqINYEKiDWBCog1gQqIN/UT9TgvWAQIBfwN7IAAgBEECdGohCgNA" +
  "IAH9AAQAIQsgAv0ABAAhDCAMQwAAgD8gBZP9EyALIAz95QH95gH95AEQDyEMIAIgDP0LBAAgA/0ABAAhDSANQwAAgD8gBpP9EyALIAv95gEgDf3l" +
  "Af3mAf3kARAPIQ0gAyAN/QsEACAA/QAEACELIAsgCf0TIAv95gH95QEhCyAAIAsgB/0TIAz95gEgDf3jASAI/RP95AH95wH95QH9CwQAIAFBEGoh" +
  "ASACQRBqIQIgA0EQaiEDIABBEGoiACAKSQ0ACws=";

let compiled = null;

/** The kernels with a memory of their own; where the browser forbids WebAssembly those of the way forward alone. */
function kernels() {
  try {
    compiled ??= new WebAssembly.Module(Uint8Array.from(atob(KERNELS), (c) => c.charCodeAt(0)));
    return new WebAssembly.Instance(compiled).exports;
  } catch {
    return plainKernels();
  }
}

export class Tape {
  constructor() {
    this.wasm = kernels();
    this.top = 0; // what lies below is in use
    this.kept = 0; // what lies below stays after a reset
    this.back = null; // the operations' ways back; null: none are remembered
    this.look();
  }

  // ---- Memory

  look() {
    this.numbers = new Float32Array(this.wasm.mem.buffer);
    this.integers = new Int32Array(this.wasm.mem.buffer);
  }

  /** Room for n numbers, all 0. It may move the memory: `numbers` is to be read afterwards. */
  room(n) {
    const at = this.top;
    this.top += (n + 3) & ~3;
    const missing = this.top - this.numbers.length;
    if (missing > 0) {
      this.wasm.mem.grow(Math.max(Math.ceil(missing / 16384), 16));
      this.look();
    }
    this.numbers.fill(0, at, this.top);
    return at;
  }

  /** A tensor of zeros. */
  tensor(rows, width, learned = this.back !== null) {
    const cols = (width + 3) & ~3;
    const at = this.room(rows * cols);
    return { at, grad: learned ? this.room(rows * cols) : null, rows, cols, width };
  }

  /** A tensor of given numbers (rows, width), which is not learned. */
  constant(numbers, rows) {
    const x = this.tensor(rows, numbers.length / rows, false);
    this.write(x, numbers);
    return x;
  }

  /** Write the numbers of a tensor, given without its padding. */
  write({ at, rows, width, cols }, numbers) {
    if (width === cols) this.numbers.set(numbers, at);
    else
      for (let row = 0; row < rows; row++)
        this.numbers.set(numbers.slice(row * width, (row + 1) * width), at + row * cols);
  }

  /** The numbers of a tensor without its padding, or (from "grad") its gradients. */
  read(x, from = "at") {
    const out = new Float32Array(x.rows * x.width);
    for (let row = 0; row < x.rows; row++) {
      const at = x[from] + row * x.cols;
      out.set(this.numbers.subarray(at, at + x.width), row * x.width);
    }
    return out;
  }

  /** Set `count` rows of a tensor to 0. */
  erase({ at, cols }, first, count) {
    this.numbers.fill(0, at + first * cols, at + (first + count) * cols);
  }

  /** What has been made so far stays for good. */
  keep() {
    this.kept = this.top;
  }

  /** Forget all that came after keep(); with true, remember the operations from here on. */
  reset(remember = false) {
    this.top = this.kept;
    this.back = remember ? [] : null;
  }

  /** Go back through the operations, the last one first. */
  backward() {
    for (const step of this.back.reverse()) step();
    this.back = null;
  }

  // ---- Shorthands for the kernels, which count bytes

  /** C = start + A B, start being C itself or one row for all: A (M, K) with its two strides, B (K, N), C (M, N). */
  product(a, [down, along], b, bk, c, cm, M, N, K, start = c, im = cm) {
    const bytes = [a, down, along, b, bk, c, cm, start, im].map((n) => 4 * n);
    this.wasm.product(...bytes, M, N, K);
  }

  plus(y, x, n, factor = 1) {
    this.wasm.plus(4 * y, 4 * x, n, factor);
  }

  /** x turned, (rows, cols) -> (cols, rows), in new room; its rows are padded to fours. */
  turned(x, rows, cols) {
    const stride = (rows + 3) & ~3;
    const y = this.room(cols * stride);
    this.wasm.turn(4 * x, 4 * cols, 4 * y, 4 * stride, rows, cols);
    return y;
  }

  /** A list of integers in the memory. */
  list(integers) {
    const at = this.room(integers.length);
    this.integers.set(integers, at);
    return 4 * at;
  }

  // ---- The operations

  /** x (n, in) times weight (in, out), plus bias: nn.Linear, whose weight lies turned here. */
  linear(x, weight, bias) {
    const [n, K, N] = [x.rows, weight.rows, weight.cols];
    const y = this.tensor(n, weight.width);
    if (n === 0) return y;
    const start = bias ? [bias.at, 0] : []; // else the zeros that y holds
    this.product(x.at, [x.cols, 1], weight.at, N, y.at, N, n, N, K, ...start);
    this.back?.push(() => {
      this.product(x.at, [1, x.cols], y.grad, N, weight.grad, N, K, N, n);
      if (bias) this.wasm.plusRows(4 * bias.grad, 4 * y.grad, n, N);
      const { grad, cols } = x;
      if (grad !== null)
        this.product(y.grad, [N, 1], this.turned(weight.at, K, N), cols, grad, cols, n, cols, N);
    });
    return y;
  }

  /** Each row to mean 0 and variance 1, then scaled and moved: nn.LayerNorm. */
  norm(x, gain, shift, eps) {
    const { rows, cols, width } = x;
    if (width !== cols) return this.narrowNorm(x, gain, shift, eps);
    const y = this.tensor(rows, cols);
    const [hat, by] = [this.room(rows * cols), this.room(rows)];
    const at = [x.at, gain.at, shift.at, y.at, hat, by].map((n) => 4 * n);
    this.wasm.norm(...at, rows, cols, eps);
    this.back?.push(() => {
      const back = [y.grad, gain.at, hat, by, x.grad, gain.grad, shift.grad].map((n) => 4 * n);
      this.wasm.normBack(...back, rows, cols);
    });
    return y;
  }

  /** The same where a row ends within a four, which the kernel would count as numbers. It has no way back. */
  narrowNorm(x, gain, shift, eps) {
    const y = this.tensor(x.rows, x.width, false);
    const F = this.numbers;
    for (let row = 0; row < x.rows; row++) {
      const numbers = F.subarray(x.at + row * x.cols, x.at + row * x.cols + x.width);
      const mean = numbers.reduce((a, b) => a + b, 0) / x.width;
      const variance = numbers.reduce((sum, one) => sum + (one - mean) ** 2, 0) / x.width;
      const factor = 1 / Math.sqrt(variance + eps);
      for (let i = 0; i < x.width; i++)
        F[y.at + row * y.cols + i] =
          (numbers[i] - mean) * factor * F[gain.at + i] + F[shift.at + i];
    }
    return y;
  }

  gelu(x) {
    const n = x.rows * x.cols;
    const y = this.tensor(x.rows, x.width);
    const slope = this.room(n);
    this.wasm.gelu(4 * x.at, 4 * y.at, 4 * slope, n);
    this.back?.push(() => this.wasm.plusProduct(4 * x.grad, 4 * y.grad, 4 * slope, n));
    return y;
  }

  add(x, y) {
    const n = x.rows * x.cols;
    const z = this.tensor(x.rows, x.width);
    this.plus(z.at, x.at, n);
    this.plus(z.at, y.at, n);
    this.back?.push(() => {
      if (x.grad !== null) this.plus(x.grad, z.grad, n);
      if (y.grad !== null) this.plus(y.grad, z.grad, n);
    });
    return z;
  }

  times(x, factor) {
    const n = x.rows * x.cols;
    const y = this.tensor(x.rows, x.width);
    this.plus(y.at, x.at, n, factor);
    this.back?.push(() => this.plus(x.grad, y.grad, n, factor));
    return y;
  }

  /** Rows of cols columns, each from where it begins in x: rearranges, splits, repeats. table: an Int32Array. */
  take(x, table, cols) {
    const y = this.tensor(table.length, cols);
    const list = this.list(table);
    this.wasm.take(4 * x.at, list, 4 * y.at, y.rows, cols);
    if (x.grad !== null)
      this.back?.push(() => this.wasm.put(4 * y.grad, list, 4 * x.grad, y.rows, cols));
    return y;
  }

  /** The same, number by number: y[i] = x[table[i]], and 0 where the table says -1. */
  pick(x, table, rows, width) {
    const y = this.tensor(rows, width);
    const F = this.numbers;
    for (let i = 0; i < table.length; i++) if (table[i] >= 0) F[y.at + i] = F[x.at + table[i]];
    this.back?.push(() => {
      const G = this.numbers;
      for (let i = 0; i < table.length; i++)
        if (table[i] >= 0) G[x.grad + table[i]] += G[y.grad + i];
    });
    return y;
  }

  /** Rows of several tensors in one: row i of part p stands at row tables[p][i] of the result. */
  join(parts, tables) {
    const { cols } = parts[0];
    const y = this.tensor(
      tables.reduce((rows, table) => rows + table.length, 0),
      parts[0].width,
    );
    parts.forEach((x, p) => {
      if (x.rows === 0) return;
      const list = this.list(tables[p].map((row) => row * cols));
      this.wasm.put(4 * x.at, list, 4 * y.at, x.rows, cols);
      this.back?.push(() => {
        const grad = this.room(x.rows * cols);
        this.wasm.take(4 * y.grad, list, 4 * grad, x.rows, cols);
        this.plus(x.grad, grad, x.rows * cols);
      });
    });
    return y;
  }

  /** The mean of each n rows that follow each other. It has no way back. */
  means(x, n) {
    const { cols } = x;
    const y = this.tensor(x.rows / n, x.width);
    for (let row = 0; row < x.rows; row++)
      this.plus(y.at + Math.floor(row / n) * cols, x.at + row * cols, cols, 1 / n);
    return y;
  }

  /** In each group, every row of q times every row of k: (groups T, d) -> (groups T, T). */
  scores(q, k, groups) {
    const [T, d] = [q.rows / groups, q.cols];
    const y = this.tensor(q.rows, T);
    const each = (visit) => {
      for (let g = 0; g < groups; g++) visit(g * T * d, g * T * y.cols);
    };
    each((rows, map) => {
      const turned = this.turned(k.at + rows, T, d);
      this.product(q.at + rows, [d, 1], turned, y.cols, y.at + map, y.cols, T, y.cols, d);
    });
    this.back?.push(() =>
      each((rows, map) => {
        this.product(y.grad + map, [y.cols, 1], k.at + rows, d, q.grad + rows, d, T, d, T);
        this.product(y.grad + map, [1, y.cols], q.at + rows, d, k.grad + rows, d, T, d, T);
      }),
    );
    return y;
  }

  /** In each group, sums of the rows of v with the weights of each row: (groups T, T) -> (groups T, d). */
  mix(weights, v, groups) {
    const [T, d] = [v.rows / groups, v.cols];
    const { cols } = weights;
    const y = this.tensor(v.rows, v.width);
    const each = (visit) => {
      for (let g = 0; g < groups; g++) visit(g * T * d, g * T * cols);
    };
    each((rows, map) =>
      this.product(weights.at + map, [cols, 1], v.at + rows, d, y.at + rows, d, T, d, T),
    );
    this.back?.push(() =>
      each((rows, map) => {
        this.product(weights.at + map, [1, cols], y.grad + rows, d, v.grad + rows, d, T, d, T);
        if (weights.grad === null) return;
        const turned = this.turned(v.at + rows, T, d);
        this.product(y.grad + rows, [d, 1], turned, cols, weights.grad + map, cols, T, cols, d);
      }),
    );
    return y;
  }

  /** Each row to shares that sum to 1. */
  softmax(x) {
    const { rows, width, cols } = x;
    const y = this.tensor(rows, width);
    this.wasm.softmax(4 * x.at, 4 * y.at, rows, width, 4 * cols);
    this.back?.push(() => this.wasm.softmaxBack(4 * y.at, 4 * y.grad, 4 * x.grad, rows, 4 * cols));
    return y;
  }

  /** The mean cross-entropy of logits (B, K) and labels (B), and how many are right: {loss, right}. */
  crossEntropy(logits, labels) {
    const [B, { cols, width }] = [labels.length, logits];
    const shares = this.room(B * cols);
    this.wasm.softmax(4 * logits.at, 4 * shares, B, width, 4 * cols);
    let loss = 0;
    let right = 0;
    labels.forEach((label, b) => {
      const row = this.numbers.subarray(logits.at + b * cols, logits.at + b * cols + width);
      const top = Math.max(...row);
      loss += top - row[label] + Math.log(row.reduce((sum, z) => sum + Math.exp(z - top), 0));
      if (row.indexOf(top) === label) right++;
    });
    this.back?.push(() => {
      this.plus(logits.grad, shares, B * cols, 1 / B);
      labels.forEach((label, b) => (this.numbers[logits.grad + b * cols + label] -= 1 / B));
    });
    return { loss: loss / B, right };
  }
}

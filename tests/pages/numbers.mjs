// What the tests that compare with torch's numbers share.
import assert from "node:assert/strict";

/** float32 numbers from text. */
export const floats = (text) =>
  new Float32Array(Uint8Array.from(Buffer.from(text, "base64")).buffer);

/** The largest difference between two lists of numbers, Infinity where one is not finite. */
export function apart(a, b) {
  assert.equal(a.length, b.length);
  const off = (x, i) => (Number.isFinite(x) ? Math.abs(x - b[i]) : Infinity);
  return a.reduce((worst, x, i) => Math.max(worst, off(x, i)), 0);
}

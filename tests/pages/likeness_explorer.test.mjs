// Run by Node: node --test tests/pages/*.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  brightness,
  largestOf,
  products,
  unitRows,
} from "../../vitbook/figures/likeness_explorer.js";

test("cosines of signed bytes by hand", () => {
  const rows = unitRows(new Int8Array([3, 4, 60, 80, -40, 30, 0, 0]), 2); // (N, D) = (4, 2)
  const rounded = Array.from(products(rows, 2, 0), (value) => Math.round(1e6 * value) / 1e6);
  assert.deepEqual(rounded, [1, 1, 0, 0]);
});

test("a patch is gone below one cosine and whole above another", () => {
  const shown = [-1, 0.2, 0.4, 0.6, 1].map((cosine) => brightness(cosine, [0.2, 0.6]));
  assert.deepEqual(
    shown.map((part) => Math.round(100 * part)),
    [0, 0, 50, 100, 100],
  );
});

test("the largest is another one than the chosen", () => {
  assert.equal(largestOf([0.1, 0.9, 0.5]), 1);
  assert.equal(largestOf([0.1, 0.9, 0.5], 1), 2);
  assert.equal(largestOf([1, 0.9, 0.5], 0), 1);
});

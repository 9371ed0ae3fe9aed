// Run by Node: node --test tests/pages/*.test.mjs
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  balance,
  costOf,
  dividing,
  nearest,
  shareOf,
  size,
  spoken,
} from "../../vitbook/figures/cost_explorer.js";

const shape = { width: 64, depth: 4, heads: 4, ratio: 4 };

test("the work by hand: four matrices, an MLP of two, scores and mix", () => {
  const { matrices, between, maps, weights } = costOf(16, shape);
  assert.equal(weights, 4 * (4 * 64 * 64 + 2 * 64 * 256));
  assert.equal(matrices, 16 * weights);
  assert.equal(between, 4 * 2 * 16 * 16 * 64);
  assert.equal(maps, 4 * 4 * 16 * 16);
});

test("at the balance both kinds of work are equal", () => {
  const even = costOf(balance(shape), shape);
  assert.equal(even.matrices, even.between);
});

test("what divides, and what is nearest by ratio", () => {
  assert.deepEqual(dividing([4, 7, 8, 14], 28), [4, 7, 14]);
  assert.equal(nearest([4, 8, 16, 32], 7), 8);
  assert.equal(nearest([4, 32], 11), 4);
  assert.equal(nearest([1, 2], 100), 2);
});

test("numbers for people", () => {
  assert.equal(spoken(17355276288), "17.4 billion");
  assert.equal(spoken(999), "999");
  assert.equal(spoken(131072), "131,072");
  assert.equal(size(536870912), "537\u00a0MB");
  assert.equal(size(12), "12\u00a0bytes");
  assert.equal(shareOf(4, 1000), "less than 1\u00a0%");
  assert.equal(shareOf(57, 100), "57\u00a0%");
});
